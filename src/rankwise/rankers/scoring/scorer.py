"""Scores for serving: one query's documents, in the least time."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, read_only_view, weighted_sum
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.schema import Documents
from rankwise.sparse import dense
from rankwise.threads import use_threads

if TYPE_CHECKING:
    from rankwise.rankers.base import Ranker
    from rankwise.rankers.scoring.quickscorer import Questions


class Scorer:
    """Scores the documents of one query, a few to a few thousand, on the thread that calls it.

    Trees are rearranged once, and then sixteen documents are scored at a time: see ``quickscorer.py``. Scores
    are those of ``predict``, bit for bit. Trees that cannot be rearranged (LightGBM's linear leaves, CatBoost's
    statistics of categories) and nets are scored by their library, nets on the CPU. Any number of threads may share one
    scorer. Nets that look at whole lists take what they are handed for one. A float32 matrix with its rows one after
    the other is taken as it is; anything else that ``predict`` takes is converted first.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=30, n_docs=40, seed=1)
    >>> model = rw.LightGBMRanker("xendcg", rounds=20, leaves=7, threads=1).fit(data)
    >>> scorer = model.scorer()
    >>> documents = data.features[data.offsets[3] : data.offsets[4]]
    >>> np.array_equal(scorer(documents), model.predict(documents))
    True
    """

    def __init__(self, model: "Ranker") -> None:
        model._check_fitted()
        model._schema.reject_start("scorers")
        self._model = model
        self._count = model.n_features_in_
        self._splits = _splits(model)
        self._library = _library(model)
        self(np.zeros((1, self._count), np.float32))  # what is compiled or read on first use

    def __call__(self, documents: Documents) -> Array:
        """Return one score per document, the higher the better."""
        if isinstance(documents, RankingDataset):
            documents.warn_of_order()
            if documents.n_queries > 1 and self._model.needs_lists:
                raise check.error(
                    "a scorer of whole lists takes one query at a time",
                    got=f"{documents.n_queries} queries",
                    hint="call predict(data) of the ranker",
                )
        if (
            type(documents) is not np.ndarray
            or documents.dtype != np.float32
            or documents.ndim != 2
            or documents.shape[1] != self._count
            or not documents.flags.c_contiguous
        ):
            documents = dense(self._model._features(documents))
        else:
            self._model._schema.check_codes(documents, self._model._least_code)
        if self._splits is None:
            with use_threads(1):
                return self._library(documents)
        from rankwise.rankers.scoring.quickscorer import score

        return score(self._splits, read_only_view(documents))

    @property
    def rearranged(self) -> bool:
        """Whether trees were rearranged; otherwise the library scores."""
        return self._splits is not None

    def __repr__(self) -> str:
        how = "rearranged trees" if self.rearranged else f"the trees of {self._model.name}"
        return f"Scorer({how}, {self._count} features)"


def _splits(model: "Ranker") -> "Questions | None":
    """The trees in another order, or None where the library must score."""
    from rankwise.rankers.trees.ranker import TreeRanker

    if not isinstance(model, TreeRanker):
        return None
    from rankwise.rankers.scoring import quickscorer
    from rankwise.rankers.trees.formats import nodes

    try:
        trees = nodes.nodes_of(model)
        return None if trees.scaled else quickscorer.questions(trees)
    except nodes.CannotSplitError:
        return None


def _library(model: "Ranker") -> Callable[[Floats], Array]:
    """What scores without rearranged trees; it stays the same when the ranker is trained again."""
    averaged: Sequence[Ranker] = getattr(model, "averaged", ())
    if averaged:
        each = [_library(member) for member in averaged]
        return lambda documents: np.mean([score(documents) for score in each], axis=0)
    if weighted := getattr(model, "weighted", ()):
        scorers = [(factor, member.scorer()) for factor, member in weighted]
        return lambda documents: weighted_sum((factor, score(documents)) for factor, score in scorers)
    if curves := getattr(model, "probabilities", None):
        raw = model.ranker_.scorer()  # type: ignore[attr-defined]
        return lambda documents: curves(raw(documents), documents, np.array([0, len(documents)]))
    learned: Any = getattr(model, "model_", None)
    if hasattr(learned, "booster"):
        return learned.predict  # type: ignore[no-any-return]
    if not hasattr(learned, "eval"):  # not a net: a ranker of users and items says itself that it takes no features
        return lambda documents: model._score_lists(documents, np.array([0, documents.shape[0]]))
    from copy import deepcopy

    net = deepcopy(learned).cpu().eval()

    def score(documents: Floats) -> Array:
        from rankwise.rankers.nets.state import torch_threads

        with torch_threads():
            return net.score(documents)  # type: ignore[no-any-return]

    return score
