"""Scores for serving: one query's documents, in the least time."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Floats, Offsets, read_only_view, weighted_sum
from rankwise.data.dataset import RankingDataset
from rankwise.models.schema import Documents, has_queries, is_frame
from rankwise.sparse import dense
from rankwise.threads import use_threads

if TYPE_CHECKING:
    from rankwise.models.scoring.quickscorer import Questions
    from rankwise.rankers.base import Ranker


class Scorer:
    """Scores the documents of a query, a few to a few thousand, on the thread that calls it.

    Trees are rearranged once, and then sixteen documents are scored at a time: see ``quickscorer.py``. Scores
    are those of ``predict`` for the same documents, bit for bit, whether these are a matrix, a table or a data set of
    several queries. Trees that cannot be rearranged (LightGBM's linear leaves, CatBoost's statistics of categories) and
    nets are scored by their library, nets on the CPU. Rankers that look at whole lists take a matrix, or a table
    without a column ``qid``, for the documents of one query. Any number of threads may share one scorer. A float32
    matrix with its rows one after the other is taken as it is; anything else that ``predict`` takes is converted first.

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
        self._needs_lists = model.needs_lists
        self._splits = _splits(model)
        self._library = _library(model)
        self(np.zeros((1, self._count), np.float32))  # what is compiled or read on first use

    def __call__(self, documents: Documents, offsets: Offsets | None = None) -> Array:
        """Return one score per document, the higher the better.

        ``offsets`` tell the queries of a matrix apart, ``[0, n]`` for one: whatever looks at whole lists goes by them.
        """
        lists = None
        if (
            type(documents) is np.ndarray
            and documents.dtype == np.float32
            and documents.ndim == 2
            and documents.shape[1] == self._count
            and documents.flags.c_contiguous
        ):
            self._model._schema.check_codes(documents, self._model._least_code)
        else:
            features = self._model._features(documents)
            if isinstance(documents, RankingDataset):
                documents.warn_of_order()
                offsets = documents.offsets
            elif self._needs_lists and offsets is None and is_frame(documents) and has_queries(documents):
                lists = self._model._lists(documents, None, None)
                features, offsets = features if lists.rows is None else features[lists.rows], lists.offsets
            documents = dense(features)
        if offsets is not None and len(documents):
            offsets = check.offsets(offsets, len(documents))
        elif self._needs_lists:
            offsets = np.array([0, len(documents)])
        scores = self._scored(documents, offsets)
        return scores if lists is None else lists.unsorted(scores)

    def _scored(self, documents: Floats, offsets: Offsets | None) -> Array:
        if not documents.shape[0]:
            return np.zeros(0)
        if self._splits is None:
            with use_threads(1):
                return self._library(documents, offsets)
        from rankwise.models.scoring.quickscorer import score

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
    from rankwise.models.formats import nodes
    from rankwise.models.scoring import quickscorer

    try:
        trees = nodes.nodes_of(model)
        return None if trees.scaled else quickscorer.questions(trees)
    except nodes.CannotSplitError:
        return None


def _library(model: "Ranker") -> Callable[[Floats, Offsets | None], Array]:
    """What scores without rearranged trees; it stays the same when the ranker is trained again."""
    averaged: Sequence[Ranker] = getattr(model, "averaged", ())
    if averaged:
        each = [_library(member) for member in averaged]
        return lambda documents, offsets: np.mean([score(documents, offsets) for score in each], axis=0)
    if weighted := getattr(model, "weighted", ()):
        scorers = [(factor, member.scorer()._scored) for factor, member in weighted]
        return lambda documents, offsets: weighted_sum((factor, score(documents, offsets)) for factor, score in scorers)
    if curves := getattr(model, "probabilities", None):
        raw = model.ranker_.scorer()._scored  # type: ignore[attr-defined]
        return lambda documents, offsets: curves(raw(documents, offsets), documents, offsets, known=False)
    learned: Any = getattr(model, "model_", None)
    if hasattr(learned, "booster"):
        return lambda documents, _: learned.predict(documents)
    if not hasattr(learned, "eval"):  # not a net: a ranker of users and items says itself that it takes no features
        return model._score_lists
    from copy import deepcopy

    net = deepcopy(learned).cpu().eval()

    def score(documents: Floats, offsets: Offsets | None) -> Array:
        from rankwise.rankers.nets.state import torch_threads

        with torch_threads():
            return net.score(documents, offsets)  # type: ignore[no-any-return]

    return score
