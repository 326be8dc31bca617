"""The verdicts of a comparison that do not depend on unjudged documents, and what is said of the others."""

from collections.abc import Callable, Iterable

import numpy as np

from rankwise.base import tables
from rankwise.base.arrays import Array, Keywords
from rankwise.base.stream import Stream
from rankwise.metrics import Metric, MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.metrics import metrics as find_metrics
from rankwise.metrics.base import weighted_mean
from rankwise.statistics.comparison import UNJUDGED, Comparison, Pair, Paired
from rankwise.statistics.holes import DRAWS, Lists
from rankwise.statistics.titles import canonical
from rankwise.statistics.verdict import listed, verdict

_SAID = 6  # pairs of which a sentence says what unjudged documents could change


class Holes:
    """The values of systems under other labels of unjudged documents, of the metrics for which that is known."""

    def __init__(self, paired: Paired, metrics: MetricLike | Iterable[MetricLike] | None, stream: Stream) -> None:
        """Compute the values; ``metrics`` are those given, which may be functions that have no name elsewhere."""
        self._paired = paired
        self._metrics: dict[str, Metric] = {}
        self.values: dict[str, Array] = {}
        """Metric -> (n_systems, n_queries) values with filled holes."""
        if (lists := Lists.of([*paired.evaluations.values()])) is None:
            return
        self._lists = lists
        given = {} if metrics is None else {str(one): one for one in find_metrics(metrics)}
        for name in paired.values:
            metric = given.get(name) or next(map(find_metric, canonical(name)), None)
            # Metrics that read other columns say nothing without them, nor do those that depend on documents beside.
            if metric is not None and metric.reads == ("labels",) and not metric.accepts:
                again = lists.values(metric, lists.labels)
                if np.allclose(again, paired.values[name], equal_nan=True):
                    self._metrics[name] = metric
        self.values = {name: np.zeros_like(paired.values[name]) for name in self._metrics}
        for labels in lists.filled(stream) if self._metrics else ():
            for name, metric in self._metrics.items():
                self.values[name] += lists.values(metric, labels) / DRAWS
        for name, values in self.values.items():
            values[np.isnan(paired.values[name])] = np.nan

    def read(
        self, metric: str, test: Callable[[Array], Keywords], p_value: str, correct: Callable[[Array], Array],
        alpha: float, decided: list[Keywords],
    ) -> list[Keywords]:  # fmt: skip
        """Return fields of :class:`Pair` with those about holes; ``decided`` has what plain tests say of each pair.

        ``p_value`` is the name of the one that decides.
        """
        if metric not in self.values:
            return decided
        names = [*self._paired.evaluations]
        pairs = [(names.index(one["system"]), names.index(one["against"])) for one in decided]
        values = self.values[metric]
        tests = [test(values[system] - values[against]) for system, against in pairs]
        adjusted = correct(np.array([one[p_value] for one in tests])).tolist()
        found = []
        for (system, against), filled, p, plain in zip(pairs, tests, adjusted, decided, strict=True):
            low, high = (self._mean(one, metric) for one in self._extremes(metric, system, against))
            agreed = plain["verdict"] == verdict(filled["difference"], p, alpha)
            found.append({
                **plain, "verdict": plain["verdict"] if agreed else UNJUDGED,
                "filled_difference": filled["difference"], "filled_low": filled["low"], "filled_high": filled["high"],
                "filled_p_adjusted": p, "lowest": low, "highest": high,
            })  # fmt: skip
        return found

    def _extremes(self, metric: str, system: int, against: int) -> tuple[Array, Array]:
        return self._lists.extremes(self._metrics[metric], system, against)

    def _mean(self, differences: Array, metric: str) -> float:
        plain = self._paired.values[metric]
        return weighted_mean(np.where(np.isnan(plain).any(axis=0), np.nan, differences), self._paired.weights)


def notes(comparison: Comparison) -> list[str]:
    """Return what is said of unjudged documents below the table of means."""
    found, unsettled = [], [pair for pair in comparison.pairs if pair.unsettled]
    if unsettled:
        found.append("A raised ?: what is significant depends on documents that were never judged.")
        found += [_sentence(comparison, pair) for pair in unsettled[:_SAID]]
        if (more := len(unsettled) - _SAID) > 0:
            found.append(f"{tables.count(more, 'more pair')} of systems and metrics are as unsure.")
    if unknown := unchecked(comparison):
        found.append(f"Not checked: what documents that were never judged could change in {listed(unknown)}.")
    return found


def unchecked(comparison: Comparison) -> list[str]:
    """Return the metrics of which it is not known what unjudged documents could change.

    They treat them by their own definition, or read other columns; or values were read from files.
    """
    unknown = {pair.metric for pair in comparison.pairs if pair.filled_difference is None}
    return [metric for metric in comparison.metrics if metric in unknown and not metric.startswith("judged")]


def _sentence(comparison: Comparison, pair: Pair) -> str:
    """What unjudged documents could change between two systems."""
    judged = comparison.paired.judged
    shares = {name: 1.0 - judged[name].mean if name in judged else 0.0 for name in (pair.against, pair.system)}
    most, other = sorted(shares, key=lambda name: -shares[name])
    plain, filled, low, high = (
        tables.number(np.nan if value is None else value, 3, signed=True)
        for value in (pair.difference, pair.filled_difference, pair.lowest, pair.highest)
    )
    return (
        f"{pair.metric}: {shares[most]:.0%} of {most}'s first {next(iter(judged.values())).cutoff} were never judged "
        f"({other}: {shares[other]:.0%}). {pair.system} against {pair.against}: {plain} if they are not relevant, "
        f"{filled} if they are as judged documents at their depth; between {low} and {high}."
    )
