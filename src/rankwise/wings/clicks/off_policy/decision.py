"""The result of an off-policy comparison: differences with intervals, and whether to ship."""

import textwrap
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import polars as pl

from rankwise import moved
from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.statistics import BLUE, GREY, VERMILLION, Result, canvas, times_as_many
from rankwise.wings.clicks.off_policy.assumptions import Assumption
from rankwise.wings.clicks.off_policy.estimators import Estimated
from rankwise.wings.clicks.off_policy.segments import SegmentClicks, as_rows, segment_table
from rankwise.wings.clicks.positions.check import BiasCheck

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Verdict = Literal["ship", "do not ship", "cannot tell"]
Outcome = Literal["passed", "worse", "unclear"]
Interval = tuple[float, float, float]
"""An estimate and the ends of its interval."""
LEAST_EFFECTIVE = 1000.0
"""Impressions that an effective sample needs: with fewer, a few clicks decide, and intervals are too narrow."""
MOST_UNSUPPORTED = 0.2
"""The largest share of a system's exposure for documents that were hardly shown: of these only R̂ is known."""
COLUMNS: tuple[str, ...] = ("clicks", "difference", "{:.0%} interval", "bounds", "likely low")
COLUMNS += ("effective size", "largest weight", "unsupported")
"""Of printed blends."""
_OFF = 0.1  # how far the mean weight may be from 1
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
    """The share of its exposure (α at the ranks of documents) of which the log says nothing: of documents that were
    never shown, and in part of those shown so seldom that propensities are clipped."""
    lowest: float
    """The lower end of the interval if nobody clicked these documents."""
    highest: float
    """The upper end of the interval if everybody who saw these documents clicked them."""
    likely_low: float | None = None
    """The lower end of the interval if these documents are as far below R̂ as the lowest tenth, by exposure, of those
    that were shown: it assumes that they are like these, and decides nothing. None but for the position-based
    estimator."""
    outcome: Outcome
    """Whether it passes, is worse than production, or cannot be told."""
    failure: str
    """Why it does not pass; empty where it does."""


@moved.renamed("rw.clicks.OffPolicyComparison")
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffPolicyComparison(Result):
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
    assumptions: tuple[Assumption, ...]
    """What the comparison assumes: what was checked, and what could not be."""
    estimator: str
    by: str
    level: float
    n_units: int
    n_impressions: float
    left_out: int = 0
    """Queries of the log that are left out, because a system was trained on their clicks."""
    segments: tuple[SegmentClicks, ...] = ()
    """Who gains and who loses with the candidate alone, where ``segment`` asked for it."""

    @property
    def alone(self) -> Blend:
        """The candidate alone, without production: the last of the blends."""
        return self.blends[-1]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of the candidate."""
        return {self.candidate: self.verdict}

    @property
    def sentence(self) -> str:
        """The sentence of the verdict."""
        return self.reason

    def to_dict(self) -> Json:
        """Return the verdict, the blends and the assumptions as JSON-serializable data."""
        facts = {name: getattr(self, name) for name in ("verdict", "reason", "recommended", "level", "left_out")}
        facts |= {"segments": as_rows(self.segments)} if self.segments else {}
        return facts | {"blends": self.to_frame().to_dicts(), "assumptions": [asdict(one) for one in self.assumptions]}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per blend."""
        return pl.DataFrame([asdict(blend) for blend in self.blends])

    def table(self) -> tables.Table:
        """Return a table of production and the blends, with the sentence of the verdict below."""
        first = (self.production, tables.number(self.production_clicks), *[""] * (len(COLUMNS) - 1))
        return tables.Table(
            header=("", *(one.format(self.level) for one in COLUMNS)),
            rows=(first, *((self._name(blend), *cells(blend)) for blend in self.blends)),
            align="lrrllrrrr",
            notes=(*self.basis(), self.reason),
        )

    def basis(self) -> tuple[str, ...]:
        """Return what the numbers rest on, and what was checked of it, in sentences."""
        units = tables.count(self.n_units, self.by, _UNITS[self.by])
        basis = f"Clicks an impression by the {self.estimator} estimator, intervals by {self.by}: {units}, "
        basis += f"{self.n_impressions:,.0f} impressions. Unsupported: the share of the exposure for documents that "
        basis += "were never or hardly shown; bounds: the interval if nobody, or everybody, clicked these; "
        basis += "likely low: its lower end if they are as far below R̂ as the lowest tenth of shown documents."
        words = {"holds": "Check of", "fails": "Check of", "not checked": "Not checked,"}
        return basis, *(f"{words[one.outcome]} {one.name}: {one.sentence}" for one in self.assumptions)

    def _name(self, blend: Blend) -> str:
        return self.candidate if blend.share == 1.0 else f"{blend.share:g} {self.candidate}"

    def tables(self) -> list[tables.Table]:
        """Return the table of blends, and that of segments where there are any."""
        return [self.table(), *([segment_table(self.candidate, self.segments)] if self.segments else [])]

    def figure(self) -> "Figure":
        """Draw the difference of each blend with its interval, and the verdict."""
        rows = [(self._name(blend), blend, blend.share <= self.recommended) for blend in self.blends]
        axis = f"clicks an impression, less {self.production}; {self.level:.0%} interval by {self.by}"
        return _figure(rows, self.reason, axis)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class OffPolicyComparisons(Result):
    """Several candidates beside production by one click log; made by :func:`compare`.

    Levels are Holm's: with m candidates, each is tested at a level of 1 − (1 − level)/m; where some pass, the
    others are tested again with m less their number, and so on. The probability that anything is shipped that is not
    better is at most 1 − level.
    """

    comparisons: tuple[OffPolicyComparison, ...]
    """One per candidate, each at its corrected level."""
    level: float
    """The level of all verdicts together."""

    def __getitem__(self, candidate: str) -> OffPolicyComparison:
        """Return the comparison of a candidate."""
        return {one.candidate: one for one in self.comparisons}[candidate]

    @property
    def verdicts(self) -> dict[str, Verdict]:
        """The verdict of each candidate."""
        return {one.candidate: one.verdict for one in self.comparisons}

    def to_frame(self) -> pl.DataFrame:
        """Return one row per candidate and blend."""
        frames = (one.to_frame().with_columns(level=pl.lit(one.level)) for one in self.comparisons)
        named = zip(self.verdicts, frames, strict=True)
        return pl.concat(frame.select(pl.lit(name).alias("candidate"), pl.all()) for name, frame in named)

    def table(self) -> tables.Table:
        """Return a table with a row per candidate, with the sentences of the verdicts below."""
        first = self.comparisons[0]
        production = (first.production, tables.number(first.production_clicks), *[""] * (len(COLUMNS) + 2))
        rows = [
            (one.candidate, *cells(one.alone), f"{one.level:.1%}", one.verdict, f"{one.recommended:g}")
            for one in self.comparisons
        ]
        header = (*(name.removeprefix("{:.0%} ") for name in COLUMNS), "level", "verdict", "share")
        correction = f"Levels are Holm's for {len(rows)} candidates, {self.level:.0%} together."
        return tables.Table(
            header=("", *header),
            rows=(production, *rows),
            align="lrrllrrrrrlr",
            notes=(*first.basis(), correction, *(one.reason for one in self.comparisons)),
        )

    @property
    def sentence(self) -> str:
        """The number of candidates that may be shipped."""
        passed = sum(one.verdict == "ship" for one in self.comparisons)
        return f"{passed} of {len(self.comparisons)} candidates may be shipped, at Holm's levels"

    def to_dict(self) -> Json:
        """Return the comparison of each candidate as JSON-serializable data."""
        return {"level": self.level, "candidates": {one.candidate: one.to_dict() for one in self.comparisons}}

    def tables(self) -> list[tables.Table]:
        """Return the table of candidates, and those of segments where there are any."""
        return [self.table(), *(segment_table(one.candidate, one.segments) for one in self.comparisons if one.segments)]

    def figure(self) -> "Figure":
        """Draw the difference of each candidate with its interval."""
        rows = [(one.candidate, one.alone, one.recommended == 1.0) for one in self.comparisons]
        return _figure(rows, self.sentence, f"clicks an impression, less {self.comparisons[0].production}")


def cells(blend: Blend) -> tuple[str, ...]:
    """Return the columns of a blend as they are printed."""
    return (
        tables.number(blend.clicks),
        tables.number(blend.difference, signed=True),
        tables.interval(blend.low, blend.high, signed=True),
        tables.interval(blend.lowest, blend.highest, signed=True),
        "" if blend.likely_low is None else tables.number(blend.likely_low, signed=True),
        f"{blend.effective_size:,.0f}",
        f"{blend.largest_weight:.1f}",
        f"{blend.unsupported:.3f}",
    )


def _figure(rows: Sequence[tuple[str, Blend, bool]], title: str, axis: str) -> "Figure":
    with canvas(7.2, 1.9 + 0.42 * len(rows)) as drawing:
        panel = drawing.subplots()
        for y, (_, blend, passed) in enumerate(rows):
            colour = VERMILLION if blend.outcome == "worse" else BLUE if passed else GREY
            panel.plot([blend.low, blend.high], [y, y], "|-", color=colour, linewidth=1.8, markersize=7)
            panel.plot(blend.difference, y, "D" if passed else "o", color=colour, markersize=5)
            text = tables.number(blend.difference, signed=True) + (" passed" if passed else " not passed")
            place = panel.get_yaxis_transform()
            panel.text(1.01, y, text, transform=place, va="center", color=colour, fontsize=8.5)
        panel.axvline(0.0, color="#444444", linewidth=0.8)
        panel.set_yticks(range(len(rows)), [tables.shortened(name, 40) for name, _, _ in rows])
        panel.set_ylim(len(rows) - 0.4, -0.6)
        panel.set_xlabel(axis)
        panel.grid(axis="x", color="#DDDDDD", linewidth=0.6)
        panel.set_title("\n".join(textwrap.wrap(title, 80)), loc="left", fontweight="bold")
    return drawing


def support_problem(estimated: Estimated) -> str:
    """Return what an estimate lacks to rest on, as the rest of a sentence after "because"; empty where nothing."""
    if not estimated.effective >= LEAST_EFFECTIVE:
        size = f"{estimated.effective:,.0f} impressions, of at least {LEAST_EFFECTIVE:,.0f}"
        return f"the effective sample size is {size}"
    if not estimated.unsupported <= MOST_UNSUPPORTED:
        return f"{estimated.unsupported:.0%} of its exposure goes to documents that were never or hardly shown"
    if not abs(estimated.balance - 1.0) <= _OFF:
        return f"weights are {estimated.balance:.2f} on average instead of 1: the log does not show what it would show"
    return ""


def judge(
    estimated: Estimated, interval: Interval, *, lowest: float, highest: float, extreme: float, by: str, level: float
) -> tuple[Outcome, str]:
    """Return whether a blend passes and, as the rest of a sentence after "because", why it does not.

    ``lowest`` and ``highest`` are the ends of the interval without and with clicks on documents that were hardly shown,
    ``extreme`` is the least of ``lowest`` with the bias at an end of its own intervals.
    """
    if lacking := support_problem(estimated):
        return "unclear", lacking
    difference, low, high = interval
    written = tables.interval(low, high, signed=True)
    if high < 0.0:
        fewer = f"it has fewer clicks, {tables.number(difference, signed=True)} an impression {written}"
        return "worse", fewer + ("" if highest < 0.0 else ", if documents that were hardly shown are as predicted")
    if not low > 0.0:
        times = times_as_many(difference, (high - low) / 2.0, level=level) if difference > 0.0 else np.inf
        more = f"; about {times:.1f} times as many {_UNITS[by]} would show such a difference in 80% of cases"
        return "unclear", f"the interval of the difference, {written}, includes 0{more if times < 100.0 else ''}"
    if not lowest > 0.0:
        rest = f"documents that were never or hardly shown, {estimated.unsupported:.0%} of its exposure"
        without = f"without clicks on these the interval begins at {tables.number(lowest, signed=True)}"
        return "unclear", f"its gain rests on {rest}: {without}"
    if not extreme > 0.0:
        why = "the propensities are not known well enough: at an end of their intervals the difference includes 0"
        return "unclear", why
    return "passed", ""


def decide(candidate: str, production: str, blends: Sequence[Blend], refusal: str) -> tuple[Verdict, str, float]:
    """Return the verdict, its sentence, and the recommended share: the largest before the first failure."""
    if refusal:
        return "cannot tell", f"This log cannot tell, because {refusal}.", 0.0
    first = next((number for number, blend in enumerate(blends) if blend.outcome != "passed"), len(blends))
    if first == len(blends):
        return "ship", f"Ship {candidate}: {_gain(blends[-1])}.", 1.0
    if first == 0:
        failed = blends[0] if blends[-1].outcome == "passed" else blends[-1]
        if failed.share == 1.0 and failed.outcome == "worse":
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
