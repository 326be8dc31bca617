"""The leaderboard: the out-of-fold value of every recipe, and its costs."""

import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np

from rankwise import Ranker, RankingDataset
from rankwise.base import tables
from rankwise.base.arrays import Json, Keywords
from rankwise.statistics import Result, listed, plain, wins_ties_losses
from rankwise.wings.tuning.auto.choice import RankerCandidate, differences, gap

if TYPE_CHECKING:
    import polars as pl

_SCORED = 1000  # documents whose scoring is timed
STOPS = {
    "recipes": "all recipes were tried",
    "seeds": "all recipes were tried, and those that are averaged on further folds",
    "level": "all recipes were tried, and further folds change the average by less than a thousandth",
    "minutes": "the time was over",
    "interrupted": "it was interrupted",
}
"""Why a search ends."""
DEFAULT = "the default"


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One recipe; numbers that were not measured are NaN."""

    recipe: str
    state: str
    """``complete``, ``minutes`` (the time was over while it trained), ``interrupted``, ``failed`` or ``not tried``."""
    rounds: int = 0
    """Of its best round; a blend has none."""
    mean: float = math.nan
    low: float = math.nan
    high: float = math.nan
    gain: float = math.nan
    """Its mean less that of the first recipe, a bag of the default ranker, paired by query."""
    gain_low: float = math.nan
    """The lower end of the 95% interval of that difference."""
    gain_high: float = math.nan
    weight: float = math.nan
    """Its weight in the average over all kinds: 0 where it is surely worse, or not surely of use."""
    difference: float = math.nan
    """Its mean less the leader's, paired by query."""
    error: float = math.nan
    """The standard error of that difference."""
    p: float = math.nan
    """Of Student's paired test of that difference; of the leader, none."""
    wins: int = 0
    """Queries on which it is better than the leader."""
    ties: int = 0
    """Queries on which both are equal."""
    losses: int = 0
    """Queries on which the leader is better."""
    seconds: float = 0.0
    """Of training."""
    microseconds: float = math.nan
    """Of scoring a document, on one thread where the ranker is one forest."""
    blend: bool = False
    """Whether it is made of several bags."""
    chosen: bool = False
    reason: str = ""
    """Why it failed."""
    expression: str = ""
    """The recipe as ``rw.ranker`` reads it; of averages empty."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Leaderboard(Result):
    """All recipes, the best first: ``AutoRanker.leaderboard_``."""

    metric: str
    entries: tuple[Entry, ...]
    stopped: str
    """Why the search ended: ``recipes``, ``seeds``, ``level``, ``minutes`` or ``interrupted``."""
    seconds: float
    """Of the whole search, over all its runs."""
    queries: int
    """Out of fold, that the metric scores."""
    baseline: str = DEFAULT
    """The first recipe, in words."""
    notes: tuple[str, ...] = ()
    """Recipes that were left out, and why."""

    @property
    def chosen(self) -> Entry:
        """The chosen one."""
        return next(entry for entry in self.entries if entry.chosen)

    @property
    def leader(self) -> Entry:
        """The one with the highest mean."""
        return self.entries[0]

    @property
    def tried(self) -> int:
        """The number of recipes that were tried, without blends."""
        return sum(bool(entry.rounds or entry.reason) for entry in self.entries)

    @property
    def _beside(self) -> str:
        return "to default" if self.baseline == DEFAULT else "to first"

    def to_frame(self) -> "pl.DataFrame":
        """One row per recipe, the best first; null where nothing was measured."""
        import polars as pl

        frame = pl.DataFrame([asdict(entry) for entry in self.entries], infer_schema_length=None)
        return frame.with_columns(pl.col(pl.Float64).fill_nan(None)).rename({"mean": self.metric})

    def to_dict(self) -> Json:
        """Return plain data that JSON can hold."""
        named = {"metric": self.metric, "chosen": self.chosen.recipe, "leader": self.leader.recipe}
        counts = {"stopped": self.stopped, "seconds": self.seconds, "queries": self.queries}
        return named | counts | {"recipes": plain([*map(asdict, self.entries)]), "notes": list(self.notes)}

    @property
    def sentence(self) -> str:
        """The :meth:`verdict`."""
        return self.verdict()

    def verdict(self) -> str:
        """Return in words what was chosen, and what it is worth beside one bag of the default."""
        chosen, leader = self.chosen, self.leader
        value = f"{self.metric} {tables.number(chosen.mean)} {tables.interval(chosen.low, chosen.high)} out of fold"
        words = [f"Taken: {chosen.recipe}, with {value}."]
        if chosen is not leader and chosen.blend and not leader.blend:
            words.append(
                f"{leader.recipe} is ahead by {tables.number(-chosen.difference)}, within noise (standard error "
                f"{tables.number(chosen.error)}): the best of several by luck too, which an average is not."
            )
        if not math.isnan(chosen.gain_low):
            worth = tables.number(chosen.gain, signed=True)
            within = tables.interval(chosen.gain_low, chosen.gain_high, signed=True)
            words.append(f"The search was worth {worth} {within} over one bag of {self.baseline}.")
            if chosen.gain_low <= 0.0:
                noise = ", within noise" if chosen.gain_high >= 0.0 else ""
                words[-1] = words[-1][:-1] + f"{noise}: a bag of {self.baseline} would have done."
        return " ".join(words)

    def table(self) -> tables.Table:
        """Return a table that prints as text, Markdown, LaTeX or HTML."""
        numbers = ("95% interval", self._beside, "95% interval", "weight", "rounds", "training", "µs/doc")
        # Most often all are complete, and the table is wide enough without a column that says so.
        states = any(entry.state not in ("complete", "not tried") for entry in self.entries)
        header = ("", "recipe", self.metric, *numbers, *(("state",) if states else ()))
        rows = tuple(
            (
                "→" if entry.chosen else "",
                entry.recipe,
                tables.TableCell(tables.number(entry.mean), best=entry is self.leader),
                tables.interval(entry.low, entry.high),
                tables.number(entry.gain, signed=True),
                tables.interval(entry.gain_low, entry.gain_high, signed=True),
                tables.number(entry.weight, 2),
                str(entry.rounds or tables.NOTHING),
                tables.duration(entry.seconds) if entry.seconds else tables.NOTHING,
                tables.number(entry.microseconds, 2),
                *((entry.state,) if states else ()),
            )
            for entry in self.entries
            if entry.state != "not tried"
        )
        waiting = [entry.recipe for entry in self.entries if entry.state == "not tried"]
        failed: dict[str, list[str]] = {}
        for entry in self.entries:
            if entry.reason:
                failed.setdefault(entry.reason, []).append(entry.recipe)
        notes = [
            self.verdict(),
            f"{tables.count(self.tried, 'recipe')} tried in {tables.duration(self.seconds)}; {STOPS[self.stopped]}.",
            f"Values are those of {tables.count(self.queries, 'query', 'queries')} that no member had seen, and "
            "differences are paired by query; a value that was chosen among several is a little too good.",
            *(f"{listed(names)} failed: {reason}" for reason, names in failed.items()),
            *([f"Not tried: {', '.join(waiting)}."] if waiting else []),
            *self.notes,
        ]
        return tables.Table(header=header, rows=rows, align="llrlrlrrrr" + "l" * states, notes=tuple(notes))

    def brief(self) -> tables.Table:
        """Return the columns that decide, for a terminal that is too narrow for all."""
        full = self.table()
        names = (self.metric, self._beside)
        columns = [full.header.index(name) for name in names]
        return tables.Table(
            header=("  recipe", *names),
            rows=tuple((f"{row[0] or ' '} {row[1]}", *(row[column] for column in columns)) for row in full.rows),
            align="lrr",
            notes=(*full.notes, "A wider terminal has room for intervals, weights, rounds and costs."),
        )


def measured(one: RankerCandidate, leader: RankerCandidate, baseline: RankerCandidate) -> Keywords:
    """Return the numbers of a candidate beside the leader's and the baseline's."""
    low, high = one.evaluation.interval[one.metric]
    numbers: Keywords = {"mean": one.mean, "low": low, "high": high, "difference": 0.0, "error": 0.0}
    if one is not leader:
        behind = gap(one, leader)
        counts = zip(("wins", "ties", "losses"), wins_ties_losses(differences(one, leader)[0]), strict=True)
        numbers |= {"difference": behind.mean, "error": behind.error, "p": behind.p, **dict(counts)}
    if one is not baseline:
        ahead = gap(one, baseline)
        numbers |= dict(zip(("gain", "gain_low", "gain_high"), (ahead.mean, *ahead.interval()), strict=True))
    return numbers


def ordered(entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the best first; those without a value come last, in their order."""
    return tuple(sorted(entries, key=lambda entry: math.inf if math.isnan(entry.mean) else -entry.mean))


def microseconds(ranker: Ranker, data: RankingDataset) -> float:
    """Return the least time of three to score some documents, by document.

    A net of whole lists scores them one by one.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=20, n_docs=10, seed=1)
    >>> microseconds(rw.LightGBMRanker(rounds=5, threads=1).fit(data), data) > 0.0
    True
    """
    count = max(1, int(np.searchsorted(data.offsets, _SCORED, side="right")) - 1)
    sample = data.take(slice(0, count))
    scorer = ranker.scorer()
    parts = [sample]
    if ranker.needs_lists:
        parts = [sample.take(slice(number, number + 1)) for number in range(count)]
    seconds = []
    for _ in range(4):  # the first pays for what is made on first use
        began = time.perf_counter()
        for part in parts:
            scorer(part)
        seconds.append(time.perf_counter() - began)
    return 1e6 * min(seconds[1:]) / sample.n_docs
