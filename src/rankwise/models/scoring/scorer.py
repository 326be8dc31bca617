"""Scores for serving: one query's documents, in the least time."""

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.base.sparse import dense
from rankwise.base.threads import use_threads
from rankwise.data.dataset import RankingDataset
from rankwise.models.model import Model
from rankwise.models.schema import ModelInput, has_queries, is_frame, queries_of


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

    def __init__(self, model: Model) -> None:
        model.schema.reject_start("scorers")
        self.schema, self.kind = model.schema, model.kind
        self._least_code, self._needs_lists = model.least_code, model.needs_lists
        self._score = model.serving()
        self.rearranged = bool(getattr(self._score, "rearranged", False))
        """Whether trees were rearranged; otherwise the library scores."""
        self(np.zeros((1, self.schema.count), np.float32))  # what is compiled or read on first use

    def __call__(self, documents: ModelInput, offsets: Offsets | None = None) -> Array:
        """Return one score per document, the higher the better.

        ``offsets`` tell the queries of a matrix apart, ``[0, n]`` for one: whatever looks at whole lists goes by them.
        """
        lists, features = None, documents
        if not (
            type(features) is np.ndarray
            and features.dtype == np.float32
            and features.ndim == 2
            and features.shape[1] == self.schema.count
            and features.flags.c_contiguous
        ):
            features = self.schema.matrix(documents)
            if isinstance(documents, RankingDataset):
                documents.warn_of_order()
                offsets = documents.offsets
            elif self._needs_lists and offsets is None and is_frame(documents) and has_queries(documents):
                lists = queries_of(documents)
                features, offsets = features if lists.rows is None else features[lists.rows], lists.offsets
            features = dense(features)
        self.schema.check_codes(features, self._least_code)
        if not features.shape[0]:
            return np.zeros(0)
        if offsets is not None:
            offsets = check.offsets(offsets, len(features))
        elif self._needs_lists:
            offsets = np.array([0, len(features)])
        if self.rearranged:
            return self._score(features, offsets)
        with use_threads(1):
            scores = self._score(features, offsets)
        return scores if lists is None else lists.unsorted(scores)

    def __repr__(self) -> str:
        how = "rearranged trees" if self.rearranged else self.kind
        return f"Scorer({how}, {self.schema.count} features)"
