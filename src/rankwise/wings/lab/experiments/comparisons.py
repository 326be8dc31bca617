"""The methods of an experiment against each other, at each of its places: means and paired tests."""

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankwise import Evaluation, compare
from rankwise.base import tables
from rankwise.base.arrays import Keywords
from rankwise.wings.lab.experiments.running.protocols import POOLED
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
    complete = means.group_by("trial").len().filter(pl.col("len") == len(methods))["trial"].sort().to_list()
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
