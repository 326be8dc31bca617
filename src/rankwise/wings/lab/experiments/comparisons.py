"""The methods of an experiment against each other: compared at one place, or by how much one is ahead over several.

A contrast is a weighted sum, over levels, of the paired difference of two methods. At one level it is that difference.
Over several, it is by how much the difference changes from the least level to the greatest on the line fitted to it by
least squares: over two levels a difference of differences. All levels of a trial share its split and its seed, so a
trial has one value, and is one unit of the tests. Of learning curves, rounds stand in the place of levels: the mean of
the difference over all rounds says who is ahead during training, and its change who gains.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import Evaluation, compare
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.statistics import TTest, bounds_of, holm, interval_of_same, t_test
from rankwise.wings.lab.experiments.running.protocols import FOLDS, POOLED
from rankwise.wings.lab.experiments.schema import KEY

if TYPE_CHECKING:
    from rankwise import Comparison
    from rankwise.wings.lab.experiments.results import Results

Place = tuple[str, float]
"""A data set and a level."""


def data_levels(results: "Results") -> list[Place]:
    """The data sets and levels that there are results of."""
    return list(results.queries.select("data", "level").unique(maintain_order=True).sort("data", "level").iter_rows())


@functools.lru_cache(maxsize=256)
def comparison(results: "Results", data: str, level: float) -> "Comparison | None":
    """Compare the methods at one place, over the trials that all of them have; None with a single method.

    Trials are paired by trial, as the papers do. Folds test every query once (or as often as they are gone round), and
    folds of ratings every user as often as there are folds, so they are put together and paired by query or user, of
    which there are many more; so is a single trial.
    """
    at_place = (pl.col("data") == data) & (pl.col("level") == level)
    means = results.trial_means().filter(at_place)
    methods = [name for name in results.methods if name in set(means["method"])]
    complete = means.group_by("trial").len().filter(len=len(methods))["trial"].sort().to_list()
    if len(methods) < 2 or not complete:
        return None
    settings: Keywords = {"level": 1.0 - alpha(results)}
    letter_of = letters_of(results)
    letters = tuple(letter_of[name] for name in methods)
    pooled = at_place & pl.col("trial").is_in(complete)
    if len(complete) == 1 or results.spec.get("protocol") in POOLED:
        evaluations = {name: _evaluation(results, pooled & (pl.col("method") == name)) for name in methods}
        return replace(compare(evaluations, **settings), letters=letters)
    ordered = measured(results)
    systems = {
        name: means.filter((pl.col("method") == name) & pl.col("trial").is_in(complete)).sort("trial").select(ordered)
        for name in methods
    }
    by_split = results.spec.get("protocol") == "trials"
    compared = compare(
        {name: frame.to_dicts() for name, frame in systems.items()},
        test=results.spec.get("test", "t"),
        split=results.spec["split"] if by_split else None,
        **settings,
    )
    return replace(compared, letters=letters)


def alpha(results: "Results") -> float:
    """The level of the tests. Every interval is of one minus it, so that it leaves 0 out where the test is sure."""
    return float(results.spec.get("alpha", 0.05))


def letters_of(results: "Results") -> dict[str, str]:
    """The letter of each method, the same in every table whether or not all methods are in it."""
    return dict(zip(results.methods, tables.labels(len(results.methods)), strict=True))


def measured(results: "Results") -> list[str]:
    """What there are means of: the deciding metric, the others, and ratios of means."""
    names = [name for name in results.trial_means().columns if name not in KEY]
    return sorted(names, key=lambda name: name != results.spec["decide"])


def _evaluation(results: "Results", tested: pl.Expr) -> Evaluation:
    """The values of every query, averaged over the trials that it is tested in."""
    metrics = [name for name in results.metrics if not name.startswith("ideal ")]
    means = [pl.col(name).cast(pl.Float64).mean() for name in metrics]
    rows = results.queries.filter(tested).group_by("query", maintain_order=True).agg(pl.col("weight").first(), *means)
    values = {name: rows[name].fill_null(np.nan).to_numpy() for name in metrics}
    confidence = 1.0 - alpha(results)
    return Evaluation(values, np.array(rows["query"].to_list()), rows["weight"].to_numpy(), level=confidence)


Units = tuple[NDArray[np.float64], NDArray[np.float64] | None]
SPLITS, DRAWS, QUERIES = "splits", "draws", "queries"
"""What a test covers, other than which the trials could have been."""


@dataclass(frozen=True, kw_only=True)
class Contrast:
    """What ``better`` gains on ``worse``, by one metric, on one data set."""

    data: str
    metric: str
    better: str
    worse: str
    levels: tuple[float, ...]
    rounds: tuple[int, ...] = ()
    """The first and the last, of learning curves."""
    tests: dict[str, TTest]
    """By what they cover. Trials that divide the data anew cover other splits, by the correction of Nadeau and Bengio.
    Folds do, too, and the queries that they are put together of are tested beside them. Trials on one and the same
    split cover what is drawn in training, and a single trial other test queries."""
    units: dict[str, Units]
    """The values that each test is of, and their weights."""
    most: float
    """The greatest difference that there can be."""

    @property
    def difference(self) -> float:
        """The mean: over queries, where folds were put together, else over trials."""
        return list(self.tests.values())[-1].mean

    def interval(self, level: float) -> tuple[float, float]:
        """The interval that holds those of all tests."""
        bounds, ends = (-self.most, self.most), []
        for name, test in self.tests.items():
            same = interval_of_same(*self.units[name], bounds=bounds, level=level)
            ends.append(test.interval(level) if same is None else same)
        return float(np.min([low for low, _ in ends])), float(np.max([high for _, high in ends]))


def weights_of(levels: Sequence[float], shares: NDArray[np.float64] | None = None) -> dict[float, float]:
    """Return the weight of each level's difference in the rise of the fitted line from the least level to the greatest.

    ``shares`` say how much each level counts in the fit; by default all count the same.

    >>> weights_of([0.3])
    {0.3: 1.0}
    >>> weights_of([0.0, 1.0])
    {0.0: -1.0, 1.0: 1.0}
    >>> weights_of([0.0, 1.0, 2.0])
    {0.0: -1.0, 1.0: 0.0, 2.0: 1.0}
    """
    if len(levels) == 1:
        return {levels[0]: 1.0}
    apart = np.asarray(levels) - np.average(levels, weights=shares)
    pull = apart if shares is None else shares * apart
    return dict(zip(levels, (pull * np.ptp(apart) / (pull @ apart)).tolist(), strict=True))


def contrast(
    results: "Results", data: str, levels: Sequence[float], metric: str, better: str, worse: str
) -> Contrast | None:
    """Test what one method gains on another; None where there are not two trials, or two queries of one, to test.

    Only trials count in which both methods are there at each of the levels.
    """
    weights, signs = weights_of(levels), {better: 1.0, worse: -1.0}
    rows = (pl.col("data") == data) & pl.col("level").is_in(list(weights)) & pl.col("method").is_in(list(signs))
    trials = _weighted(results.trial_means().filter(rows), "trial", metric, weights, signs)
    tests, units = _over_trials(results, data, trials)
    pooled = results.spec.get("protocol") in POOLED and DRAWS not in tests
    if metric in results.queries.columns and (pooled or trials.height == 1):
        tested = results.queries.filter(rows & pl.col("trial").is_in(trials["trial"].to_list()))
        values = tested.group_by("query", "level", "method", maintain_order=True).agg(
            pl.col(metric).cast(pl.Float64).mean(), pl.col("weight").first()
        )
        queries = _weighted(values, "query", metric, weights, signs)
        if (queries["weight"] > 0.0).sum() > 1:
            units[QUERIES] = queries["value"].to_numpy(), queries["weight"].to_numpy()
            tests[QUERIES] = t_test(*units[QUERIES])
    if not tests:
        return None
    named: Keywords = {"data": data, "metric": metric, "better": better, "worse": worse}
    most = _span(metric) * sum(map(abs, weights.values()))
    return Contrast(**named, levels=tuple(levels), tests=tests, units=units, most=most)


def curve_contrast(
    results: "Results", data: str, level: float, series: str, better: str, worse: str, *, change: bool = False
) -> Contrast | None:
    """Test who is ahead on a learning curve, on the mean over rounds, or (``change``) who gains; None with one trial.

    A trial that stopped early keeps its last value.
    """
    signs = {better: 1.0, worse: -1.0}
    at_place = (pl.col("data") == data) & (pl.col("level") == level) & (pl.col("series") == series)
    curves = results.curves.filter(at_place & pl.col("method").is_in(list(signs))).sort("round")
    paths = {key: (one["round"].to_numpy(), one["value"].to_numpy()) for key, one in curves.group_by("trial", "method")}
    rounds = np.unique(curves["round"].to_numpy())
    rounds = rounds[rounds >= max((steps[0] for steps, _ in paths.values()), default=0)]
    if rounds.size < 2:
        return None
    # Of a long curve some rounds are kept, not always at the same distance: each counts for those since the one before.
    weights = np.diff(rounds, prepend=rounds[0] - 1) / (rounds[-1] - rounds[0] + 1)
    if change:
        weights = np.array(list(weights_of(rounds.tolist(), weights).values()))
    rows = [
        (*key, float(weights @ path[np.searchsorted(steps, rounds, side="right") - 1]))
        for key, (steps, path) in paths.items()
    ]
    values = pl.DataFrame(rows, schema=["trial", "method", "value"], orient="row").with_columns(level=level)
    trials = _weighted(values, "trial", "value", {level: 1.0}, signs)
    tests, units = _over_trials(results, data, trials, valid=series.startswith("valid "))
    if not tests:
        return None
    ends = (int(rounds[0]), int(rounds[-1]))
    named: Keywords = {"data": data, "metric": series, "better": better, "worse": worse}
    most = _span(series.removeprefix("valid ")) * float(abs(weights).sum())
    return Contrast(**named, levels=(level,), rounds=ends, tests=tests, units=units, most=most)


def _span(metric: str) -> float:
    lowest, highest = bounds_of(metric)
    return highest - lowest


def _over_trials(
    results: "Results", data: str, trials: pl.DataFrame, *, valid: bool = False
) -> tuple[dict[str, TTest], dict[str, Units]]:
    """Test the values of trials, or of the folds that they make up, as their protocol divides the data."""
    protocol, split = results.spec.get("protocol", "trials"), results.spec.get("split", ())
    values, overlap = trials["value"].to_numpy(), POOLED.get(protocol)
    if protocol == "trials":
        overlap = split[1 if valid else -1] / split[0]
    elif overlap is not None:
        parts = trials.join(_folds(results, data), on="trial").group_by("fold").agg(pl.col("value").mean())
        if parts.height > 1:
            values = parts.sort("fold")["value"].to_numpy()
        else:
            overlap = None  # one and the same fold again and again
    if values.size < 2:
        return {}, {}
    covers = DRAWS if overlap is None else SPLITS
    return {covers: t_test(values, overlap=overlap or 0.0)}, {covers: (values, None)}


def adjusted(tests: Sequence[dict[str, float]]) -> list[float]:
    """Correct p-values for their number by Holm's method, each among all that cover the same; the greatest decides.

    >>> adjusted([{"splits": 0.01, "queries": 0.001}, {"splits": 0.04, "queries": 0.03}])
    [0.02, 0.04]
    """
    greatest = [0.0] * len(tests)
    for covered in dict.fromkeys(name for one in tests for name in one):
        family = [place for place, one in enumerate(tests) if covered in one]
        corrected = holm([tests[place][covered] for place in family]).tolist()
        for place, p in zip(family, corrected, strict=True):
            greatest[place] = max(greatest[place], p)
    return greatest


def _weighted(
    frame: pl.DataFrame, unit: str, metric: str, weights: dict[float, float], signs: dict[str, float]
) -> pl.DataFrame:
    """The weighted sum of every trial or query that has all its parts."""
    factor = pl.col("level").replace_strict(weights, return_dtype=pl.Float64)
    factor = factor * pl.col("method").replace_strict(signs, return_dtype=pl.Float64)
    weight = pl.col("weight").first() if "weight" in frame.columns else pl.lit(1.0).alias("weight")
    complete = pl.len() == len(weights) * len(signs)
    parts = frame.filter(pl.col(metric).is_not_null() & pl.col(metric).is_not_nan())
    sums = parts.group_by(unit).agg((factor * pl.col(metric)).sum().alias("value"), weight, whole=complete)
    return sums.filter("whole").sort(unit)


def _folds(results: "Results", data: str) -> pl.DataFrame:
    """Which fold each trial is: the folds of ratings come in turn, and others are known by the queries they test."""
    rows = results.queries.filter(data=data)
    if results.spec["protocol"] == "ratings":
        return rows.select("trial").unique().with_columns(fold=pl.col("trial") % FOLDS)
    return rows.group_by("trial").agg(fold=pl.col("query").min())
