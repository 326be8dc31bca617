"""Weights of a linear model with bootstrap intervals over queries, and models whose weights are rounded."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.base.progress import bar
from rankwise.models.linear import LinearModel
from rankwise.statistics.figures.drawing import BLUE, VERMILLION, canvas
from rankwise.statistics.result import Result

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure

    from rankwise.rankers.linear.learner import LinearLearner
    from rankwise.rankers.linear.ranker import LinearRanker

_MOST = 40  # features that a figure has room for


@dataclass(frozen=True, eq=False, repr=False)
class LinearWeights(Result):
    """What a linear model multiplies transformed features by; made by :meth:`LinearRanker.weights`."""

    names: Sequence[str]
    values: Array
    """(1 or 2, n_features): of the feature, and of its values within the query."""
    low: Array
    high: Array
    """Ends of the intervals; NaN without data."""
    level: float
    penalty: tuple[float, float]

    @property
    def sentence(self) -> str:
        """How many weights there are, and how sure their signs are."""
        l1, l2 = self.penalty
        text = f"{np.count_nonzero(self.values):,} of {self.values.size:,} weights are not 0 (l1 = {l1:g}, l2 = {l2:g})"
        if np.isnan(self.low).all():
            return f"{text}."
        return f"{text}; {np.count_nonzero(self.low * self.high > 0):,} have intervals without 0."

    def table(self) -> tables.Table:
        """Return one row per feature, the largest weights first."""
        titles = ("weight", "weight within the query")[: len(self.values)]
        known = not np.isnan(self.low).all()
        header = ("feature", *(part for title in titles for part in ((title, "interval") if known else (title,))))
        rows = []
        for number in self._order():
            cells = [self.names[number]]
            for value, low, high in zip(*(one[:, number] for one in (self.values, self.low, self.high)), strict=True):
                cells.append(tables.number(value, signed=True))
                cells += [tables.interval(low, high, signed=True)] if known else []
            rows.append(tuple(cells))
        about = "Resampled were queries, at the same transform and penalty, which pulls weights and intervals to 0."
        notes = (f"{self.sentence} Intervals of {self.level:.0%}.", about) if known else (self.sentence,)
        return tables.Table(header=header, rows=tuple(rows), align="l" + "r" * (len(header) - 1), notes=notes)

    def to_frame(self) -> "pl.DataFrame":
        """One row per weight: its feature, whether it is within the query, the weight and its interval."""
        import polars as pl

        rows = [
            (self.names[number], bool(part), *(float(one[part, number]) for one in (self.values, self.low, self.high)))
            for number in range(len(self.names))
            for part in range(len(self.values))
        ]
        return pl.DataFrame(rows, orient="row", schema=("feature", "within_query", "weight", "low", "high"))

    def figure(self) -> "Figure":
        """Draw the largest weights with their intervals."""
        shown = self._order()[:_MOST][::-1]
        with canvas(7.2, 1.6 + 0.26 * len(shown)) as drawing:
            panel = drawing.subplots()
            for part, (values, low, high) in enumerate(zip(self.values, self.low, self.high, strict=True)):
                places = np.arange(len(shown)) + (0.14 - 0.28 * part if len(self.values) > 1 else 0.0)
                at, title = values[shown], ("weight", "within the query")[part]
                ends = np.nan_to_num([at - np.fmin(low[shown], at), np.fmax(high[shown], at) - at])
                colour = (BLUE, VERMILLION)[part]
                panel.errorbar(at, places, xerr=ends, fmt="o", markersize=4, color=colour, label=title, linewidth=1)
            panel.axvline(0.0, color="black", linewidth=0.8)
            panel.set_yticks(np.arange(len(shown)), [tables.shortened(self.names[number]) for number in shown])
            panel.set_xlabel("weight of the transformed feature")
            if len(self.values) > 1:
                drawing.legend(loc="outside lower center", ncols=2, fontsize=8)
            beside = f" The {_MOST} largest of {len(self.names):,} are shown." if len(self.names) > _MOST else ""
            panel.set_title(self.sentence.replace(" (", "\n(") + beside, loc="left", fontweight="bold", fontsize=9)
        return drawing

    def _order(self) -> Sequence[int]:
        return np.argsort(-np.abs(self.values).sum(axis=0), kind="stable").tolist()  # type: ignore[no-any-return]


class Rounded(NamedTuple):
    """A linear ranker with rounded weights, and what that costs."""

    ranker: "LinearRanker"
    loss: float
    """By how much the first metric falls."""
    interval: tuple[float, float]
    """Its 95% interval by Student's t over queries."""


def weights_of(model: LinearModel, samples: Array | None, level: float) -> LinearWeights:
    """Return the weights of a model, with intervals by those of resamples."""
    count = model.schema.count
    values, tail = model.weights.reshape(-1, count), 0.5 * (1.0 - level)
    ends = np.full((2, *values.shape), np.nan)
    if samples is not None:
        ends = np.quantile(samples[:, :-1], [tail, 1.0 - tail], axis=0).reshape(2, *values.shape)
    names = [model.schema.title(number) for number in range(count)]
    return LinearWeights(names, values, ends[0], ends[1], level, model.penalty)


def resampled(learner: "LinearLearner", model: LinearModel, samples: int, seed: int) -> Array:
    """Return the weights, and intercepts, that resamples of queries would have given; each counts Poisson(1) times."""
    problem, (l1, l2) = learner.problem(), model.penalty
    start = np.append(model.weights, model.intercept)
    found = np.empty((samples, start.size))
    drawn = np.cumsum(np.exp(-1.0) / np.cumprod([1.0, *range(1, 20)]))  # chances of at most so many times
    with bar(learner.settings.progress, samples, "resamples") as update:
        for number in range(samples):
            stream = learner.train.stream(seed).child("bootstrap", number)
            shares = learner.shares * np.searchsorted(drawn, stream.per_query(learner.train.n_queries)[:, 0])
            if shares.any():
                found[number] = problem.fit(start, shares / shares.sum(), l1, l2, quick=True).weights
            else:
                found[number] = start
            if update is not None:
                update(number + 1, "")
    return found


def rounded(model: LinearModel, digits: int) -> LinearModel:
    """Return a model whose weights have so many significant digits."""
    weights = np.array([float(f"{weight:.{digits}g}") for weight in model.weights])
    intercept = float(f"{model.intercept:.{digits}g}")
    return LinearModel(model.schema, model.transform, weights, intercept, model.average, model.penalty, model.rounds)
