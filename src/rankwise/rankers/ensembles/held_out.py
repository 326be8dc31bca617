"""Out-of-fold scores and what metrics say about them, query by query, and their place on disk."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Ids
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.rankers import storage
from rankwise.statistics.evaluation import Evaluation

_FILE = "out_of_fold.npz"


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Scores by models that have not seen the query, as a bag and a blend keep them."""

    scores: Array
    """One for each document, of models as they are: on queries that had a say in the number of rounds."""
    cross_fitted: Array
    """The same of models whose number of rounds was chosen without the query."""
    values: dict[str, Array]
    """Metric -> one value per query, of the scores ``cross_fitted``."""
    query_ids: Ids
    query_weights: Array | None

    @classmethod
    def measured(cls, scores: Array, cross_fitted: Array, data: RankingDataset, metrics: Sequence[Metric]) -> Self:
        """Measure the scores ``cross_fitted`` on every query."""
        values = {str(one): one(cross_fitted, data.labels, data.offsets, data.judged) for one in metrics}
        return cls(scores, cross_fitted, values, _ids(data), data.weights)

    def evaluation(self) -> Evaluation:
        """Return the values as an evaluation."""
        return Evaluation(self.values, self.query_ids, self.query_weights)

    def covers(self, data: RankingDataset) -> bool:
        """Whether these are scores of these documents, as far as can be seen."""
        return self.scores.size == data.n_docs and np.array_equal(self.query_ids, _ids(data))

    def files(self) -> dict[str, bytes]:
        """Write them; strings become arrays of text, which need no pickle."""
        ids, weights = self.query_ids, self.query_weights
        buffer = io.BytesIO()
        np.savez(
            buffer,
            scores=self.scores,
            cross_fitted=self.cross_fitted,
            names=np.array(list(self.values)),
            values=np.array(list(self.values.values())),
            ids=np.array(ids.tolist()) if ids.dtype == object else ids,
            weights=np.zeros(0) if weights is None else weights,
        )
        return {_FILE: buffer.getvalue()}

    @classmethod
    def read(cls, files: Mapping[str, bytes]) -> Self | None:
        """Read them, if they are there: a checkpoint has none."""
        if _FILE not in files:
            return None
        with check.library("out-of-fold scores", _FILE):
            kept = storage.arrays(files[_FILE])
            values = dict(zip(kept["names"].tolist(), kept["values"], strict=True))
            scores, weights = kept["scores"], kept["weights"]
            cross_fitted = kept.get("cross_fitted", scores)  # older models have no others
            if cross_fitted.shape != scores.shape:
                raise ValueError(f"{cross_fitted.size} cross-fitted scores beside {scores.size} others")
            return cls(scores, cross_fitted, values, kept["ids"], weights if weights.size else None)


def _ids(data: RankingDataset) -> Ids:
    return np.arange(data.n_queries) if data.query_ids is None else data.query_ids
