"""What is measured after every round: on validation data, judged documents or clicks, and on other data beside them.

A click at a place that few users look at stands for many that were never made. Where training weighs clicked documents
by the inverse of their propensity, validation must too, or it rewards the order in which they were shown. Each click is
then a list of its own, in which only the clicked document is relevant, and the metric is the mean over clicks, weighed
by inverse propensities: Σ m_i/p_i over Σ 1/p_i, the self-normalised estimator of Swaminathan and Joachims (2015). Both
sums are unbiased, and the second does not depend on the scores, so that rounds are compared without bias, for every
metric. For NDCG the first sum is the DCG with gains divided by propensities. An NDCG of the list that was shown with
such gains would not do: where there is one click, its weight cancels against that of the ideal.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Offsets, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric, require_scored, weighted_mean
from rankwise.metrics.dcg import NDCG
from rankwise.metrics.gains import gains

Function = Callable[[Array], Mapping[str, float]]
"""From the scores of documents to numbers with names, the same names for all scores."""


@dataclass(frozen=True, eq=False)
class Measure:
    """A data set, and what is measured of its scores."""

    data: RankingDataset
    function: Function


class DeviceScores(ABC):
    """Scores that lie on a device, which measures them: only the mean of a metric travels."""

    @abstractmethod
    def measurer(self, metric: Metric, labels: Array, offsets: Offsets, weights: Array | None) -> "DeviceMean | None":
        """Give what computes the mean of a metric there, for scores of these lists; None where the CPU has to."""

    @abstractmethod
    def array(self) -> Array:
        """Copy the scores."""


DeviceMean = Callable[[Any], float | None]
"""From scores on a device to the mean of a metric; None where scores are not finite."""


class Measured:
    """What is measured of the scores of a data set, and under which names a history keeps it."""

    def __init__(self, measure: Measure, *, prefix: str = "") -> None:
        self.function = measure.function
        found = measure.function(np.zeros(measure.data.n_docs))  # nothing relevant is an error now, not after a round
        self.names = tuple(prefix + name for name in found)

    def __call__(self, scores: Array | DeviceScores) -> list[float]:
        """Give the numbers, in the order of their names."""
        if not isinstance(scores, DeviceScores):
            found = self.function(scores)
        elif isinstance(self.function, Validation):
            found = self.function.on_device(scores)
        else:
            found = self.function(scores.array())
        return [float(value) for value in found.values()]


def checked_names(measure: Mapping[str, object]) -> None:
    """Refuse names of data sets that a history could not hold."""
    for name in measure:
        if not isinstance(name, str) or not name.strip():
            what = "measure must be a table of data sets by name"
            raise check.error(what, got=repr(name), hint='pass measure={"train": train, "test": test}')


class Validation:
    """Metrics of scores of the same documents, again and again.

    >>> shown = RankingDataset([[1.0]] * 4, [1, 0, 0, 1], [0, 2, 4], propensities=[1.0, 0.5, 1.0, 0.5])
    >>> ndcg = NDCG(cutoff=1)
    >>> Validation(shown, [ndcg], debias=False)([2.0, 1.0, 2.0, 1.0])  # in the order that was shown
    {'ndcg@1': 0.5}
    >>> Validation(shown, [ndcg], debias=True)([2.0, 1.0, 2.0, 1.0])  # the click in the second place counts twice
    {'debiased(ndcg@1)': 0.3333333333333333}
    """

    def __init__(self, data: RankingDataset, metrics: Sequence[Metric], *, debias: bool) -> None:
        self.names = tuple(name(metric, data, debias=debias) for metric in metrics)
        self.metrics = metrics
        self.rows: slice | NDArray[np.int64] = slice(None)
        self.queries: NDArray[np.int64] = np.arange(data.n_queries)
        """The query of each list that is measured."""
        self.labels, self.offsets, self.weights = data.labels, data.offsets, data.weights
        self.clicks: Array | None = None
        self._measurers: dict[str, DeviceMean | None] = {}
        if debias and data.propensities is not None:
            self._by_click(data, data.propensities)

    def _by_click(self, data: RankingDataset, propensities: Array) -> None:
        clicked = np.flatnonzero(data.labels > 0)
        query = np.searchsorted(data.offsets, clicked, side="right") - 1
        self.queries = query
        self.rows, self.offsets = rows_of(query, data.offsets)
        self.clicks = data.labels[clicked]
        self.labels = np.zeros(self.offsets[-1])
        self.labels[self.offsets[:-1] + clicked - data.offsets[query]] = self.clicks
        self.weights = 1.0 / propensities[clicked]
        if data.weights is not None:
            self.weights = self.weights * data.weights[query]

    def __call__(self, scores: ArrayLike) -> dict[str, float]:
        """Give the mean of every metric over the queries, or the clicks, that it scores."""
        return self.means(self.values(scores))

    def values(self, scores: ArrayLike) -> dict[str, Array]:
        """Give every metric of each query, or click; NaN where it scores none."""
        given = np.asarray(scores)[self.rows]
        measured = zip(self.names, self.metrics, strict=True)
        return {name: metric(given, self.labels, self.offsets) for name, metric in measured}

    def means(self, values: Mapping[str, Array]) -> dict[str, float]:
        """Give the means of these, by the weights of queries, or clicks."""
        found = {}
        for name, metric in zip(self.names, self.metrics, strict=True):
            weights = self.weights_of(metric)
            require_scored(str(metric), values[name], weights)
            found[name] = weighted_mean(values[name], weights)
        return found

    def on_device(self, scores: DeviceScores) -> dict[str, float]:
        """Give the same for scores on a device, which computes what it can; the scores leave it for the rest alone."""
        found: dict[str, float] = {}
        for name, metric in zip(self.names, self.metrics, strict=True):
            if name not in self._measurers:  # what the device needs to know of the lists is copied there once
                given = metric, self.labels, self.offsets, self.weights
                self._measurers[name] = scores.measurer(*given) if self.clicks is None else None
            measure = self._measurers[name]
            value = None if measure is None else measure(scores)
            if value is None:
                return found | self(scores.array())
            found[name] = value
        return found

    def weights_of(self, metric: Metric) -> Array | None:
        """How much lists count; of a click what it is worth, where the metric itself divides by that."""
        if self.clicks is None or self.weights is None or not isinstance(metric, NDCG):
            return self.weights
        return self.weights * gains(self.clicks, metric.gain)


def name(metric: Metric, data: RankingDataset, *, debias: bool) -> str:
    """What a metric is called in a history."""
    return f"debiased({metric})" if debias and data.propensities is not None else str(metric)
