"""The result of an off-policy comparison: differences with intervals, and whether to ship."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import polars as pl

from rankwise.clicks.off_policy.estimators import Estimated
from rankwise.clicks.positions.check import BiasCheck
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import BLUE, GREY, VERMILLION, figure

Verdict = Literal["ship", "do not ship", "cannot tell"]
LEAST_EFFECTIVE = 1000.0
"""Impressions that an effective sample needs: with fewer, a few clicks decide, and intervals are too narrow."""
MOST_UNSUPPORTED = 0.2
"""The largest share of documents in a system's lists that were never shown: of these nothing but R̂ is known."""
_OFF = 0.1  # how far the mean weight may be from 1
_FEWER = "it has fewer clicks"
_UNITS = {"query": "queries", "user": "users"}


@dataclass(frozen=True, kw_only=True)
class Blend:
    """A blend of production and the candidate, beside production."""

    share: float
    """The candidate's part λ; 1 is the candidate itself."""
    clicks: float
    """Expected clicks an impression."""
    difference: float
    """Expected clicks an impression, less those of production."""
    low: float
    high: float
    effective_size: float
    """Impressions of the blend itself that would say as much as the log does."""
    largest_weight: float
    unsupported: float
    """The share of documents in its lists that were never shown."""
    failure: str
    """Why it does not pass; empty where it does."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffPolicyComparison:
    """The candidate beside production by a click log, and whether to ship it; made by :func:`compare`."""

    candidate: str
    production: str
    production_clicks: float
    """Expected clicks an impression."""
    blends: tuple[Blend, ...]
    """In the order of their tests; the last is the candidate itself."""
    verdict: Verdict
    reason: str
    """The sentence of the verdict."""
    recommended: float
    """The largest share λ of the candidate that passed before the first failure; 0 stands for production."""
    scale: float
    """What the candidate's scores are multiplied by in a blend, (1 − λ)·production + λ·scale·candidate."""
    bias_check: BiasCheck | None
    """The check of the click model, where the estimator rests on it."""
    estimator: str
    by: str
    level: float
    n_units: int
    n_impressions: float
    left_out: int = 0
    """Queries of the log that are left out, because a system was trained on their clicks."""
    training_notes: tuple[str, ...] = ()
    """Sentences about these, and about systems whose training queries are not known."""

    @property
    def difference(self) -> float:
        """Expected clicks an impression of the candidate, less those of production."""
        return self.blends[-1].difference

    @property
    def low(self) -> float:
        """The lower end of the difference's interval."""
        return self.blends[-1].low

    @property
    def high(self) -> float:
        """The upper end of the difference's interval."""
        return self.blends[-1].high

    @property
    def effective_size(self) -> float:
        """Impressions of the candidate itself that would say as much as the log does."""
        return self.blends[-1].effective_size

    @property
    def unsupported(self) -> float:
        """The share of documents in the candidate's lists that were never shown."""
        return self.blends[-1].unsupported

    def to_frame(self) -> pl.DataFrame:
        """Return one row per blend."""
        return pl.DataFrame([asdict(blend) for blend in self.blends])

    def table(self) -> tables.Table:
        """Return a table of production and the blends, with the sentence of the verdict below."""
        header = ("", "clicks", "difference", f"{self.level:.0%} interval", "effective size", "largest weight")
        rows = [
            (
                self._name(blend),
                tables.number(blend.clicks),
                tables.number(blend.difference, signed=True),
                tables.interval(blend.low, blend.high, signed=True),
                f"{blend.effective_size:,.0f}",
                f"{blend.largest_weight:.1f}",
                f"{blend.unsupported:.3f}",
            )
            for blend in self.blends
        ]
        units = tables.count(self.n_units, self.by, _UNITS[self.by])
        basis = f"Clicks an impression by the {self.estimator} estimator, intervals by {self.by}: {units}, "
        basis += f"{self.n_impressions:,.0f} impressions."
        model = () if self.bias_check is None else (f"Check of the click model: {self.bias_check.sentence}",)
        return tables.Table(
            header=(*header, "never shown"),
            rows=((self.production, tables.number(self.production_clicks), *[""] * 5), *rows),
            align="lrrlrrr",
            notes=(basis, *self.training_notes, *model, self.reason),
        )

    def _name(self, blend: Blend) -> str:
        return self.candidate if blend.share == 1.0 else f"{blend.share:g} {self.candidate}"

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw the difference of each blend with its interval, and the verdict: .png, .svg or .pdf."""
        with figure(path, 7.2, 1.9 + 0.42 * len(self.blends), force=force) as drawing:
            panel = drawing.subplots()
            for y, blend in enumerate(self.blends):
                passed = blend.share <= self.recommended
                colour = VERMILLION if blend.high < 0.0 else BLUE if passed else GREY
                panel.plot([blend.low, blend.high], [y, y], "|-", color=colour, linewidth=1.8, markersize=7)
                panel.plot(blend.difference, y, "D" if passed else "o", color=colour, markersize=5)
                text = tables.number(blend.difference, signed=True) + (" passed" if passed else " not passed")
                place = panel.get_yaxis_transform()
                panel.text(1.01, y, text, transform=place, va="center", color=colour, fontsize=8.5)
            panel.axvline(0.0, color="#444444", linewidth=0.8)
            panel.set_yticks(range(len(self.blends)), [tables.shortened(self._name(one), 40) for one in self.blends])
            panel.set_ylim(len(self.blends) - 0.4, -0.6)
            panel.set_xlabel(f"clicks an impression, less {self.production}; {self.level:.0%} interval by {self.by}")
            panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
            panel.set_title("\n".join(textwrap.wrap(self.reason, 80)), loc="left", fontweight="bold")
        return Path(path)


def lack(estimated: Estimated) -> str:
    """Return what an estimate lacks to rest on, as the rest of a sentence after "because"; empty where nothing."""
    if not estimated.effective >= LEAST_EFFECTIVE:
        size = f"{estimated.effective:,.0f} impressions, of at least {LEAST_EFFECTIVE:,.0f}"
        return f"the effective sample size is {size}"
    if not estimated.unsupported <= MOST_UNSUPPORTED:
        return f"{estimated.unsupported:.0%} of the documents in its lists were never shown"
    if not abs(estimated.balance - 1.0) <= _OFF:
        return f"weights are {estimated.balance:.2f} on average instead of 1: the log does not show what it would show"
    return ""


def failure(interval: tuple[float, float, float], extreme: float, by: str) -> str:
    """Return why a blend is not better, as the rest of a sentence after "because"; empty where it is.

    ``extreme`` is the lower end of the interval with the bias at an end of its own.
    """
    difference, low, high = interval
    written = tables.interval(low, high, signed=True)
    if high < 0.0:
        return f"{_FEWER}, {tables.number(difference, signed=True)} an impression {written}"
    if not low > 0.0:
        times = ((high - low) / 2.0 / difference) ** 2 if difference > 0.0 else np.inf
        more = f"; about {times:.1f} times as many {_UNITS[by]} would tell such a difference" if times < 100.0 else ""
        return f"the interval of the difference, {written}, includes 0{more}"
    if not extreme > 0.0:
        return "the propensities are not known well enough: at an end of their intervals the difference includes 0"
    return ""


def decide(candidate: str, production: str, blends: Sequence[Blend], refusal: str) -> tuple[Verdict, str, float]:
    """Return the verdict, its sentence, and the recommended share: the largest before the first failure."""
    if refusal:
        return "cannot tell", f"This log cannot tell, because {refusal}.", 0.0
    first = next((number for number, blend in enumerate(blends) if blend.failure), len(blends))
    if first == len(blends):
        return "ship", f"Ship {candidate}: {_gain(blends[-1])}.", 1.0
    if first == 0:
        failed = blends[-1] if blends[-1].failure else blends[0]
        if failed.share == 1.0 and failed.failure.startswith(_FEWER):
            return "do not ship", f"Do not ship {candidate}: {failed.failure}.", 0.0
        name = candidate if failed.share == 1.0 else f"the first blend, {failed.share:g} of {candidate},"
        return "cannot tell", f"This log cannot tell whether {name} is better, because {failed.failure}.", 0.0
    passed, failed = blends[first - 1], blends[first]
    name = candidate if failed.share == 1.0 else f"the next blend, {failed.share:g} of {candidate},"
    parts = f"{passed.share:g} of {candidate} and {1.0 - passed.share:g} of {production}"
    sentence = f"Ship a blend, {parts}: {_gain(passed)}; {name} does not pass, because {failed.failure}."
    return "ship", sentence, passed.share


def _gain(blend: Blend) -> str:
    gain = tables.number(blend.difference, signed=True)
    return f"{gain} clicks an impression {tables.interval(blend.low, blend.high, signed=True)}"
