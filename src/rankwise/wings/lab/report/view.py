"""Results as figures and tables need them: means with intervals, values by query, who is held against whom."""

import contextlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import Evaluation
from rankwise.language import syntax
from rankwise.statistics import FEWEST, bounds_of, colours_of, interval_of_same, t_test, weighted_mean
from rankwise.wings.lab.experiments.comparisons import alpha, contrast
from rankwise.wings.lab.experiments.schema import KEY

if TYPE_CHECKING:
    from rankwise.wings.lab.experiments.results import Results

_WRAPPERS = ("bounded", "stochastic", "weighted")


class Mean(NamedTuple):
    """A mean, the ends of its interval, and how many trials (or queries, if there is one trial) it is taken over."""

    mean: float
    low: float
    high: float
    units: int


@dataclass(frozen=True, eq=False)
class View:
    """One way to look at results; everything is computed when it is first asked for."""

    results: "Results"

    @cached_property
    def methods(self) -> list[str]:
        """In the order of the specification; what is not there was not run."""
        return self.results.methods

    @cached_property
    def datasets(self) -> list[str]:
        """In the order in which they were run."""
        return self.results.queries["data"].unique(maintain_order=True).to_list()

    @cached_property
    def metrics(self) -> list[str]:
        """Every metric that trials have a mean of, the one that decides first."""
        return [name for name in self.by_trial.columns if name not in KEY]

    @cached_property
    def query_metrics(self) -> list[str]:
        """Those of them that queries have a value of."""
        return [name for name in self.metrics if name in self.results.queries.columns]

    @property
    def main(self) -> str:
        """The metric that decides."""
        return self.query_metrics[0]

    @cached_property
    def levels(self) -> list[float]:
        """Of noise, from the least."""
        return self.results.queries["level"].unique().sort().to_list()

    @cached_property
    def by_trial(self) -> pl.DataFrame:
        """One row per data, level, trial and method; one column per metric."""
        return self.results.trial_means()

    def present(self, data: str, level: float | None = None) -> list[str]:
        """The methods that were run on this data set, at this level."""
        rows = self.results.queries.filter(data=data)
        if level is not None:
            rows = rows.filter(level=level)
        run = set(rows["method"].unique().to_list())
        return [name for name in self.methods if name in run]

    def base(self, data: str) -> float:
        """The least level of a data set: figures that do not go by level show this one."""
        return float(self.results.queries.filter(data=data)["level"].min())  # type: ignore[arg-type]

    @property
    def confidence(self) -> float:
        """Of every interval in the report: one minus the level of the tests."""
        return 1.0 - alpha(self.results)

    @property
    def percent(self) -> str:
        """The same for people."""
        return f"{100 * self.confidence:g}%"

    @property
    def colours(self) -> dict[str, str]:
        """The colour of each method, the same in every figure."""
        return colours_of(self.methods)

    @property
    def by_level(self) -> bool:
        """Whether levels are amounts of something, to be shown along an axis."""
        return len(self.levels) > 1 and self.results.spec.get("treatment") != "binarize"

    def tabled_levels(self, data: str) -> list[float]:
        """The levels that have a table of their own: the least of an axis, or each of a few kinds of data."""
        levels = self.results.queries.filter(data=data)["level"].unique().sort().to_list()
        return levels[:1] if self.by_level else levels

    def level_name(self, level: float) -> str:
        """Return what a level means, in words."""
        if self.results.spec.get("treatment") == "binarize":
            return "binary labels" if level else "graded labels"
        return f"level {level:g}"

    def evaluation(self, data: str, level: float, method: str, only: set[str] | None = None) -> Evaluation:
        """The values of one method by query (of some of them), a mean where several trials tested a query."""
        rows = self.per_query.filter(data=data, level=level, method=method)
        rows = (rows if only is None else rows.filter(pl.col("query").is_in(only))).sort("query")
        values = {m: rows[m].cast(pl.Float64).fill_null(math.nan).to_numpy() for m in self.query_metrics}
        return Evaluation(values, rows["query"].to_numpy(), rows["weight"].to_numpy(), level=self.confidence)

    @cached_property
    def per_query(self) -> pl.DataFrame:
        """One row per data, level, method and query: the mean of each metric over the trials that tested the query."""
        keys = ["data", "level", "method", "query"]
        counts = [pl.col(name).first() for name in ("documents", "relevant", "weight")]
        return self.results.queries.group_by(keys, maintain_order=True).agg(*counts, *map(pl.mean, self.query_metrics))

    def values(self, data: str, method: str, metric: str | None = None) -> pl.DataFrame:
        """Query, documents, relevant and value of a method at the least level; queries that are skipped left out."""
        rows = self.per_query.filter(data=data, level=self.base(data), method=method)
        return rows.select("query", "documents", "relevant", value=pl.col(metric or self.main)).drop_nulls()

    def paired(self, data: str, method: str, against: str, metric: str | None = None) -> pl.DataFrame:
        """Query, relevant, value and other value of two methods, on the queries that both are scored on."""
        one, other = self.values(data, method, metric), self.values(data, against, metric)
        both = one.join(other.select("query", other="value"), on="query", maintain_order="left")
        return both.with_columns(difference=pl.col("value") - pl.col("other"))

    def mean(self, data: str, level: float, method: str, metric: str, against: str | None = None) -> Mean:
        """The mean of a method, or of its paired difference to another, with an interval over trials or queries.

        That of a difference is the interval of a verdict, which allows for trials that share data.
        """
        rows = self.by_trial.filter(data=data, level=level)
        trials = rows.filter(pl.col("method").is_in([method, against or method]))
        wide = trials.pivot("method", index="trial", values=metric).drop_nulls()
        if wide.height < 2:
            wide = self.results.queries.filter(data=data, level=level)
            wide = wide.filter(pl.col("method").is_in([method, against or method]))
            wide = wide.pivot("method", index=["query", "weight"], values=metric, aggregate_function="mean")
            wide = wide.drop_nulls()
        if not wide.height or method not in wide.columns or (against or method) not in wide.columns:
            return Mean(math.nan, math.nan, math.nan, 0)
        values = wide[method].to_numpy() - (wide[against].to_numpy() if against else 0.0)
        (low, high), weights = bounds_of(metric), wide["weight"].to_numpy() if "weight" in wide.columns else None
        interval = student(values, weights, self.confidence, (low - high, high - low) if against else (low, high))
        apart = contrast(self.results, data, [level], metric, method, against) if against else None
        if apart is None or math.isnan(interval.low):
            return interval
        return Mean(apart.difference, *apart.interval(self.confidence), interval.units)

    @cached_property
    def pairs(self) -> dict[str, str]:
        """Method -> the one that it is held against: named by the specification, or what it wraps, or the first."""
        named = self.results.spec.get("baseline")
        if isinstance(named, dict):
            return {one: other for one, other in named.items() if {one, other} <= set(self.methods)}
        texts = {name: str((self.results.spec.get("methods") or {}).get(name, name)) for name in self.methods}
        bare = {_normal(text): name for name, text in texts.items()}
        partners = {}
        for name in self.methods:
            inside = next((bare[inner] for inner in _unwrapped(texts[name]) if bare.get(inner, name) != name), None)
            against = named or inside or self.methods[0]
            if against != name and against in self.methods:
                partners[name] = against
        wrapped = {other for other in partners.values() if other != self.methods[0]}
        return {name: other for name, other in partners.items() if name not in wrapped}

    @cached_property
    def groups(self) -> dict[str, list[str]]:
        """A method that others are held against -> those others."""
        by_group: dict[str, list[str]] = {}
        for name, against in self.pairs.items():
            by_group.setdefault(against, []).append(name)
        return by_group

    def bands(self, data: str) -> str:
        """Return the legend of bands around means: intervals over trials, over queries for a single trial, or none."""
        n = self.by_trial.filter(data=data)["trial"].n_unique()
        if 1 < n < FEWEST:
            return f"{n} trials are too few for bands."
        return f"Bands are {self.percent} intervals over {f'{n} trials' if n > 1 else 'queries'}."

    @property
    def shared(self) -> str:
        """Return what intervals of differences account for, beyond those of means."""
        shares = self.results.spec.get("protocol") != "runs" and self.by_trial["trial"].n_unique() >= FEWEST
        return " Those of differences allow for trials that share data." if shares else ""


def student(
    values: NDArray[np.float64],
    weights: NDArray[np.float64] | None = None,
    confidence: float = 0.95,
    bounds: tuple[float, float] = (-math.inf, math.inf),
) -> Mean:
    """The mean with Student's interval; fewer than three values have none, values that are all the same a wider one.

    >>> [round(number, 4) for number in student(np.array([0.5, 0.6, 0.7]))]
    [0.6, 0.3516, 0.8484, 3]
    >>> student(np.array([0.5, 0.7]))
    Mean(mean=0.6, low=nan, high=nan, units=2)
    """
    if values.size < FEWEST:
        mean = weighted_mean(values, weights) if values.size else math.nan
        return Mean(mean, math.nan, math.nan, int(values.size))
    test = t_test(values, weights)
    same = interval_of_same(values, weights, bounds=bounds, level=confidence)
    return Mean(test.mean, *(same or test.interval(confidence)), int(values.size))


def _normal(text: str) -> str:
    """Write a method's expression in one way, whatever its spaces."""
    return "".join(text.split())


def _unwrapped(text: str) -> list[str]:
    """A method's expression without one of its wrappers.

    >>> _unwrapped("lightgbm(bounded(approx_ndcg, method=min_max), leaves=7)")
    ['lightgbm(approx_ndcg,leaves=7)']
    """
    texts = [_without(word, text) for word in _WRAPPERS]
    return [one for one in texts if one != _normal(text)]


def _without(wrapper: str, text: str) -> str:
    nodes = []
    with contextlib.suppress(ValueError):  # words, and no expression
        nodes.append(syntax.read(text, "method"))
    for node in nodes:
        if node.kind == "call" and node.value == wrapper and node.parts:
            inner = node.parts[0]
            return _without(wrapper, text[: node.start] + text[inner.start : inner.end] + text[node.end :])
        added = node.value if node.kind == "chain" else ()
        nodes += [*node.parts, *node.named.values(), *(one[-1] for one in added)]
    return _normal(text)
