"""Waterfall of a score: contributions of features from the base value to the score."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.statistics import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOP = 10
"""Features that are shown by themselves unless another number is asked for."""
MISSING = "missing"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Breakdown(Result):
    """How a score, or the difference of two, comes about: ``start`` and all ``contributions`` add up to ``end``.

    Made by ``document`` and ``versus`` of an :class:`~rankwise.wings.explain.explanation.Explanation`.

    >>> step = Breakdown(title="query a, document 3", features=("bm25", "clicks", "age"),
    ...     values={"value": ("2.5", "7", None)}, contributions=np.array([0.25, -0.75, 0.0]),
    ...     start=0.5, start_name="mean score", end=0.0, end_name="score")
    >>> print(step.table(top=1).text())
    feature           value     adds
    mean score                0.5000
    clicks                7  −0.7500
    2 other features         +0.2500
    score                     0.0000
    """

    title: str
    features: tuple[str, ...]
    values: Mapping[str, tuple[str | None, ...]]
    """Columns of values as text, one for each document that is looked at; None where a value is missing."""
    contributions: Array
    """(n_features,)."""
    start: float
    start_name: str
    end: float
    end_name: str
    notes: tuple[str, ...] = ()

    @property
    def order(self) -> list[int]:
        """Numbers of all features, the largest contribution first."""
        return [int(j) for j in np.argsort(-np.abs(self.contributions), kind="stable")]

    def steps(self, top: int = TOP) -> tuple[list[int], float]:
        """Return the features that are shown by themselves, zeros left out, and the sum of all other contributions."""
        chosen = self.order[: check.integer("top", top, least=1)]
        shown = [j for j in chosen if self.contributions[j]]
        return shown, float(np.delete(self.contributions, shown).sum())

    def table(self, top: int = TOP) -> tables.Table:
        """Return a table of the largest contributions, with all others in one row."""
        shown, rest = self.steps(top)
        digits = digits_for(self.contributions)
        blank = ("",) * len(self.values)
        rows = [(self.start_name, *blank, tables.number(self.start, digits))]
        for j in shown:
            values = (tables.shortened(column[j] or MISSING) for column in self.values.values())
            added = tables.number(self.contributions[j], digits, signed=True)
            rows.append((tables.shortened(self.features[j], 40), *values, added))
        rest_names = other_features(len(self.features) - len(shown))
        rows += [(name, *blank, tables.number(rest, digits, signed=True)) for name in rest_names]
        rows.append((self.end_name, *blank, tables.number(self.end, digits)))
        header = ("feature", *self.values, "adds")
        return tables.Table(header=header, rows=tuple(rows), align="l" + "r" * (len(header) - 1), notes=self.notes)

    def tables(self, *, top: int = TOP) -> list[tables.Table]:
        """Return the table with its title."""
        return [replace(self.table(top), title=self.title)]

    def figure(self, *, top: int = TOP) -> "Figure":
        """Draw the steps from the start to the end as a waterfall."""
        from rankwise.wings.explain.figures import waterfall_figure

        return waterfall_figure(self, top=top)

    def to_frame(self) -> pl.DataFrame:
        """One row per feature, the largest contribution first: feature, values, contribution."""
        order = self.order
        values = {name: [column[j] for j in order] for name, column in self.values.items()}
        overrides = dict.fromkeys(values, pl.String)
        named = {"feature": [self.features[j] for j in order], **values}
        return pl.DataFrame({**named, "contribution": self.contributions[order]}, schema_overrides=overrides)

    def to_dict(self) -> Json:
        """Return everything as JSON-serializable data."""
        ends = {"start": {self.start_name: self.start}, "end": {self.end_name: self.end}}
        return {"title": self.title, **ends, **self.contributed()}

    def contributed(self) -> Json:
        """Return the contributions as JSON-serializable data."""
        return {"contributions": self.to_frame().to_dicts()}


def other_features(count: int) -> list[str]:
    """The name of the row that stands for so many features; no row for none."""
    return [f"{tables.count(count, 'other feature')}"] if count else []


def shortened_value(text: str | None) -> str:
    """Return the value of a feature as short text, numbers with four digits.

    >>> shortened_value("0.123456"), shortened_value("1500000"), shortened_value("red"), shortened_value(None)
    ('0.1235', '1500000', 'red', 'missing')
    """
    if text is None:
        return MISSING
    try:
        number = f"{float(text):.4g}"
    except ValueError:
        return tables.shortened(text, 14)
    return min(text, number, key=len) if "e" in number else number


def digits_for(amounts: Array) -> int:
    """How many digits after the point show the largest of these with four digits, and others on the same scale.

    >>> digits_for(np.array([0.02, -1.5])), digits_for(np.array([0.00213])), digits_for(np.array([1234.5]))
    (3, 6, 2)
    """
    largest = float(np.abs(amounts).max(initial=0.0))
    return 3 if largest == 0.0 else min(9, max(2, 3 - math.floor(math.log10(largest))))
