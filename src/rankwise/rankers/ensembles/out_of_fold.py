"""Out-of-fold scores, by models that have not seen the query, and what these are worth.

All members of a bag stop at the round that is best on the curve of all queries, and the value of the curve at its best
point is too good, the more so the more rounds there are to choose from. So the value that is reported is another one:
queries fall into parts, each part has the round that is best on the curve of the *other* parts, by the same rule, and
its queries are scored after that round. Only the estimate is made so; the model is that of the common round.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Ids, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.models import storage
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import Validation
from rankwise.statistics.evaluation import Evaluation

if TYPE_CHECKING:
    from rankwise.rankers.training.loop import History

_CROSS_FITTED, _OUT_OF_FOLD = "cross_fitted.npz", "out_of_fold.npz"


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
        values = {str(one): one.of(cross_fitted, data) for one in metrics}
        return cls(scores, cross_fitted, values, _ids(data), data.weights)

    def evaluation(self) -> Evaluation:
        """Return the values as an evaluation."""
        return Evaluation(self.values, self.query_ids, self.query_weights)

    def covers(self, data: RankingDataset) -> bool:
        """Whether these are scores of these documents, as far as can be seen."""
        return self.scores.size == data.n_docs and np.array_equal(self.query_ids, _ids(data))

    def files(self) -> dict[str, bytes]:
        """Return their file; strings become arrays of text, which need no pickle."""
        ids, weights = self.query_ids, self.query_weights
        arrays = {
            "scores": self.scores,
            "cross_fitted": self.cross_fitted,
            "names": np.array(list(self.values)),
            "values": np.array(list(self.values.values())),
            "ids": np.array(ids.tolist()) if ids.dtype == object else ids,
            "weights": np.zeros(0) if weights is None else weights,
        }
        return {_OUT_OF_FOLD: storage.npz(arrays)}

    @classmethod
    def read(cls, files: Mapping[str, bytes]) -> Self | None:
        """Read them, if they are there: a checkpoint has none."""
        if _OUT_OF_FOLD not in files:
            return None
        with check.library("out-of-fold scores", _OUT_OF_FOLD):
            arrays = storage.arrays(files[_OUT_OF_FOLD])
            values = dict(zip(arrays["names"].tolist(), arrays["values"], strict=True))
            scores, weights = arrays["scores"], arrays["weights"]
            cross_fitted = arrays.get("cross_fitted", scores)  # older models have no others
            if cross_fitted.shape != scores.shape:
                raise ValueError(f"{cross_fitted.size} cross-fitted scores beside {scores.size} others")
            return cls(scores, cross_fitted, values, arrays["ids"], weights if weights.size else None)


def _ids(data: RankingDataset) -> Ids:
    return np.arange(data.n_queries) if data.query_ids is None else data.query_ids


class Round(NamedTuple):
    """Measures after a round, for each repeat of the folds."""

    scores: Array
    """(repeats, n_docs)."""
    values: list[dict[str, Array]]
    """Metric -> the value of each query, or click."""


class OutOfFold(Validation):
    """Metrics of out-of-fold scores, (repeats × n_docs) in a row: each repeat scores every query once."""

    last: Round
    """Of the scores that were measured last."""

    def __init__(self, data: RankingDataset, metrics: Sequence[Metric], **settings: Any) -> None:
        super().__init__(data, metrics, **settings)
        self.n_docs = data.n_docs

    def __call__(self, scores: ArrayLike) -> dict[str, float]:
        """Return the mean of every metric over all queries and repeats."""
        rows = np.asarray(scores).reshape(-1, self.n_docs)
        self.last = Round(rows, [self.values(row) for row in rows])
        means = [self.means(values) for values in self.last.values]
        return {name: float(np.mean([one[name] for one in means])) for name in self.names}


class CrossFitted:
    """Out-of-fold scores of each part of the queries after the round that is best on the other parts."""

    def __init__(
        self, validation: OutOfFold, parts: Sequence[NDArray[np.int64]], data: RankingDataset, stopping: Stopping
    ) -> None:
        """Cross-fit the rounds of a bag whose scores ``validation`` measures; ``parts`` are numbers of queries."""
        self.validation, self.stopping = validation, stopping
        self.rows = [rows_of(part, data.offsets)[0] for part in parts]
        self.other_parts = [~np.isin(validation.queries, part) for part in parts]
        self.curves: list[History] = [{name: [] for name in validation.names} for _ in parts]
        """The metrics of all other parts after each round, for each part."""
        self.rounds = [0] * len(parts)
        """The best round by that, counted from 1."""
        self.scores = np.zeros(data.n_docs)
        """Of every document, the mean over repeats, after the round of its part."""
        self._last: Round | None = None

    def update(self) -> None:
        """Count the round that was measured last, once."""
        last = self.validation.last
        if last is self._last:
            return
        self._last = last
        for number, (curve, rows, other_parts) in enumerate(zip(self.curves, self.rows, self.other_parts, strict=True)):
            for name, metric in zip(self.validation.names, self.validation.metrics, strict=True):
                weights = self.validation.weights_of(metric)
                weights = None if weights is None else weights[other_parts]
                means = (self._mean(name, values[name][other_parts], weights) for values in last.values)
                curve[name].append(float(np.mean([*means])))
            done = len(curve[self.validation.names[0]])
            if self.stopping.improved(curve, done, self.rounds[number]):
                self.rounds[number] = done
                self.scores[rows] = last.scores[:, rows].mean(axis=0)

    def _mean(self, name: str, values: Array, weights: Array | None) -> float:
        """Return the mean of a metric; NaN, which is never better, where it scores no query that counts."""
        counted = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0.0)
        return self.validation.mean(name, values, weights) if counted.any() else float("nan")

    def files(self) -> dict[str, bytes]:
        """Return the file of a checkpoint."""
        curves = np.array([list(curve.values()) for curve in self.curves])
        return {_CROSS_FITTED: storage.npz({"curves": curves, "rounds": self.rounds, "scores": self.scores})}

    def resume(self, files: Mapping[str, bytes]) -> None:
        """Resume from a checkpoint."""
        with check.library("curves of the parts of a bag", _CROSS_FITTED):
            arrays = storage.arrays(files[_CROSS_FITTED])
            names, curves = self.validation.names, arrays["curves"]
            rounds, scores = arrays["rounds"], arrays["scores"]
            if rounds.shape != (len(self.rows),) or scores.shape != self.scores.shape:
                raise ValueError(f"{rounds.size} parts and {scores.size} scores")
            self.curves = [dict(zip(names, curve.tolist(), strict=True)) for curve in curves]
            self.rounds, self.scores = rounds.tolist(), scores
