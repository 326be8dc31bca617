"""Measures after every round: on validation data, judged documents or clicks, and on other data sets.

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
from rankwise.base.arrays import Array, rows_of
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric, lists_for, require_scored, weighted_mean
from rankwise.metrics.dcg import NDCG
from rankwise.metrics.gains import GRADES, gains
from rankwise.rankers.training.constraints import BOUND, lower_bound

Function = Callable[[Array], Mapping[str, float]]
"""From the scores of documents to numbers with names, the same names for all scores."""


@dataclass(frozen=True, eq=False)
class EvalSet:
    """A data set, and the function that measures its scores."""

    data: RankingDataset
    function: Function


class DeviceScores(ABC):
    """Scores on a device, which computes metrics of them: only values of queries are copied."""

    @abstractmethod
    def measurer(self, metric: Metric, data: RankingDataset) -> "DeviceMean | None":
        """Return a function that computes the mean of a metric on the device; None where there is no kernel for it."""

    @abstractmethod
    def array(self) -> Array:
        """Copy the scores."""


DeviceMean = Callable[[Any], float | None]
"""From scores on a device to the mean of a metric; None where scores are not finite."""


class EvalMetrics:
    """The measures of a data set's scores, and their names in a history."""

    def __init__(self, measure: EvalSet, *, prefix: str = "") -> None:
        function: Any = measure.function
        self.function = function
        # Nothing relevant is an error before a round; NDCG is sure to score a query with a grade above 0.
        sure = isinstance(function, Validation) and function.weights is None and all(
            isinstance(metric, NDCG) and isinstance(metric.gain, str)
            and 0.0 < function.lists.labels_of(metric.label).max(initial=0.0) < GRADES
            for metric in function.metrics
        )  # fmt: skip
        bounded = sure and any(name.startswith(BOUND) for name in function.names)
        names = function.names if sure and not bounded else function(np.zeros(measure.data.n_docs))
        self.names = tuple(prefix + name for name in names)

    def __call__(self, scores: Array | DeviceScores) -> list[float]:
        """Return the measures, in the order of their names."""
        if not isinstance(scores, DeviceScores):
            measures = self.function(scores)
        elif isinstance(self.function, Validation):
            measures = self.function.on_device(scores)
        else:
            measures = self.function(scores.array())
        return [float(value) for value in measures.values()]


class Validation:
    """Metrics of scores of the same documents, again and again.

    >>> shown = RankingDataset([[1.0]] * 4, [1, 0, 0, 1], [0, 2, 4], propensities=[1.0, 0.5, 1.0, 0.5])
    >>> ndcg = NDCG(cutoff=1)
    >>> Validation(shown, [ndcg], debias=False)([2.0, 1.0, 2.0, 1.0])  # in the order that was shown
    {'ndcg@1': 0.5}
    >>> Validation(shown, [ndcg], debias=True)([2.0, 1.0, 2.0, 1.0])  # the click in the second place counts twice
    {'debiased(ndcg@1)': 0.3333333333333333}
    """

    def __init__(
        self, data: RankingDataset, metrics: Sequence[Metric], *, debias: bool, constrained: Sequence[Metric] = ()
    ) -> None:
        """Measure ``metrics`` by their means, and ``constrained`` metrics by the lower bounds of these."""
        bounds = (f"{BOUND}{metric}" for metric in constrained)
        self.names = (*(name(metric, data, debias=debias) for metric in metrics), *bounds)
        self.metrics = (*metrics, *constrained)
        self.lists = data
        """What is measured: the data, or a list for each click."""
        self.rows: slice | NDArray[np.int64] = slice(None)
        self.queries: NDArray[np.int64] = np.arange(data.n_queries)
        """The query of each list that is measured."""
        self.weights = data.weights
        self.clicks: Array | None = None
        self._measurers: dict[str, DeviceMean | None] = {}
        if debias and data.propensities is not None:
            self._by_click(data, data.propensities)

    def _by_click(self, data: RankingDataset, propensities: Array) -> None:
        clicked = np.flatnonzero(data.labels > 0)
        query = np.searchsorted(data.offsets, clicked, side="right") - 1
        for metric in self.metrics:
            if any(name.startswith("more_labels") for name in metric.reads):
                hint = "`set debias=False`, or leave the metric out"
                raise check.error("propensities are those of clicks, which are the labels", got=str(metric), hint=hint)
        self.queries = query
        self.rows, offsets = rows_of(query, data.offsets)
        self.clicks = data.labels[clicked]
        labels = np.zeros(offsets[-1])
        labels[offsets[:-1] + clicked - data.offsets[query]] = self.clicks
        self.lists = lists_for(self.metrics, data, query).with_(labels=labels)
        self.weights = 1.0 / propensities[clicked]
        if data.weights is not None:
            self.weights = self.weights * data.weights[query]

    def __call__(self, scores: ArrayLike) -> dict[str, float]:
        """Return the mean of every metric over the queries, or the clicks, that it scores."""
        return self.means(self.values(scores))

    def values(self, scores: ArrayLike) -> dict[str, Array]:
        """Return every metric of each query, or click; NaN where it scores none."""
        of_lists = np.asarray(scores)[self.rows]
        return {name: metric.of(of_lists, self.lists) for name, metric in zip(self.names, self.metrics, strict=True)}

    def means(self, values: Mapping[str, Array]) -> dict[str, float]:
        """Return the means of values, by the weights of queries, or clicks, and lower bounds under constraints."""
        means = {}
        for name, metric in zip(self.names, self.metrics, strict=True):
            weights = self.weights_of(metric)
            require_scored(metric, values[name], weights)
            means[name] = self.mean(name, values[name], weights)
        return means

    @staticmethod
    def mean(name: str, values: Array, weights: Array | None) -> float:
        """Return the mean of values, or its lower bound where the name asks for that."""
        return lower_bound(name, values, weights) if name.startswith(BOUND) else weighted_mean(values, weights)

    def on_device(self, scores: DeviceScores) -> dict[str, float]:
        """Return the means for scores on a device; they are copied only for metrics that have no kernel there."""
        means: dict[str, float] = {}
        for name, metric in zip(self.names, self.metrics, strict=True):
            if name not in self._measurers:  # labels and offsets are copied to the device once
                measured = self.clicks is None and not name.startswith(BOUND)
                self._measurers[name] = scores.measurer(metric, self.lists) if measured else None
            measure = self._measurers[name]
            value = None if measure is None else measure(scores)
            if value is None:
                return means | self(scores.array())
            means[name] = value
        return means

    def weights_of(self, metric: Metric) -> Array | None:
        """Return the weights of lists; times the gain of the click, where the metric itself divides by that."""
        if self.clicks is None or self.weights is None or not isinstance(metric, NDCG):
            return self.weights
        return self.weights * gains(self.clicks, metric.gain)


def measures_of(
    measured: Mapping[str, Any], read: Callable[[Any], RankingDataset], ranker: Any, *, debias: bool
) -> dict[str, EvalSet]:
    """Return measures by name, of data sets by the ranker's metrics, on data as ``read`` returns them."""
    from rankwise.rankers.training.settings import metrics_of

    measures: dict[str, EvalSet] = {}
    for key, one in measured.items():
        if not isinstance(key, str) or not key.strip():
            what = "eval_sets must be a table of data sets by name"
            raise check.error(what, got=repr(key), hint='pass eval_sets={"train": train, "test": test}')
        data = read(one.data if isinstance(one, EvalSet) else one)
        function = (
            one.function if isinstance(one, EvalSet) else Validation(data, metrics_of(ranker, data), debias=debias)
        )
        measures[key] = EvalSet(data, function)
    return measures


def name(metric: Metric, data: RankingDataset, *, debias: bool) -> str:
    """Return the name of a metric in a history."""
    return f"debiased({metric})" if debias and data.propensities is not None else str(metric)
