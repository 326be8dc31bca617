"""What a bag is worth on new queries: out-of-fold scores after rounds that were chosen without the query.

All members of a bag stop at the round that is best on the curve of all queries, and the value of the curve at its best
point is too good, the more so the more rounds there are to choose from. So the value that is reported is another one:
queries fall into parts, each part has the round that is best on the curve of the *other* parts, by the same rule, and
its queries are scored after that round. Only the estimate is made so; the model is that of the common round.
"""

import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric
from rankwise.metrics.base import weighted_mean
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.training.validation import Validation

if TYPE_CHECKING:
    from rankwise.rankers.training.loop import History

_FILE = "cross_fitted.npz"


class Round(NamedTuple):
    """What was measured after a round, for each repeat of the folds."""

    scores: Array
    """(repeats, n_docs)."""
    values: list[dict[str, Array]]
    """Metric -> the value of each query, or click."""


class OutOfFold(Validation):
    """Metrics of out-of-fold scores, (repeats × n_docs) in a row: each repeat scores every query once."""

    last: Round
    """Of the scores that were measured last."""

    def __init__(self, data: RankingDataset, metrics: Sequence[Metric], *, debias: bool) -> None:
        super().__init__(data, metrics, debias=debias)
        self.n_docs = data.n_docs

    def __call__(self, scores: ArrayLike) -> dict[str, float]:
        """Give the mean of every metric over all queries and repeats."""
        rows = np.asarray(scores).reshape(-1, self.n_docs)
        self.last = Round(rows, [self.values(row) for row in rows])
        means = [self.means(values) for values in self.last.values]
        return {name: float(np.mean([one[name] for one in means])) for name in self.names}


class CrossFitted:
    """Out-of-fold scores of each part of the queries after the round that is best on the other parts."""

    def __init__(
        self,
        validation: OutOfFold,
        parts: Sequence[NDArray[np.int64]],
        data: RankingDataset,
        stopping: Stopping,
    ) -> None:
        """Cross-fit the rounds of a bag whose scores ``validation`` measures; ``parts`` are numbers of queries."""
        self.validation, self.stopping = validation, stopping
        self.rows = [rows_of(part, data.offsets)[0] for part in parts]
        self.others = [~np.isin(validation.queries, part) for part in parts]
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
        for number, (curve, rows, others) in enumerate(zip(self.curves, self.rows, self.others, strict=True)):
            for name, metric in zip(self.validation.names, self.validation.metrics, strict=True):
                weights = self.validation.weights_of(metric)
                own = None if weights is None else weights[others]
                curve[name].append(float(np.mean([_mean(values[name][others], own) for values in last.values])))
            done = len(curve[self.validation.names[0]])
            if self.stopping.improved(curve, done, self.rounds[number]):
                self.rounds[number] = done
                self.scores[rows] = last.scores[:, rows].mean(axis=0)

    def files(self) -> dict[str, bytes]:
        """Give what a checkpoint holds."""
        buffer = io.BytesIO()
        curves = np.array([list(curve.values()) for curve in self.curves])
        np.savez(buffer, curves=curves, rounds=np.array(self.rounds), scores=self.scores)
        return {_FILE: buffer.getvalue()}

    def resume(self, files: Mapping[str, bytes]) -> None:
        """Resume from a checkpoint."""
        if _FILE not in files:
            hint = "remove it, and train anew"
            raise check.error("the checkpoint is of a version that kept no curves of the parts of a bag", hint=hint)
        with check.library("curves of the parts of a bag", _FILE), np.load(io.BytesIO(files[_FILE])) as kept:
            names, curves, rounds, scores = self.validation.names, kept["curves"], kept["rounds"], kept["scores"]
            if rounds.shape != (len(self.rows),) or scores.shape != self.scores.shape:
                raise ValueError(f"{rounds.size} parts and {scores.size} scores")
            self.curves = [dict(zip(names, curve.tolist(), strict=True)) for curve in curves]
            self.rounds, self.scores = rounds.tolist(), scores


def _mean(values: Array, weights: Array | None) -> float:
    """The mean of a metric; NaN, which is never better, where it scores no query that counts."""
    counted = ~np.isnan(values) if weights is None else ~np.isnan(values) & (weights > 0.0)
    return weighted_mean(values, weights) if counted.any() else float("nan")
