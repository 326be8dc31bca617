"""Whether documents moved because their relevance changed, and whether robots make the curve: what swaps cannot tell.

A ranker that is held out is predicted from swaps. Where relevance changes and rankers follow it, all swaps over time
are confounded alike, and their predictions agree. Times tell: swaps within a period compare positions at one relevance,
and documents that did not move show whether relevance changes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from rankwise import Stream
from rankwise.base import tables
from rankwise.base.arrays import Array
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.positions.allpairs import Numbers, PositionSwaps, sums_by

if TYPE_CHECKING:
    from rankwise.wings.clicks.positions.bias import Bias

PERIODS = (1, 7, 28)  # days
_TOLERANCE, _PRECISE = 0.1, 0.2  # of a curve: how far it may be off, and how well it must be known to say so
_CHANGED = 0.1  # of a click rate: the standard deviation between periods that is too much
_SURELY = 4.0  # standard errors
_SAMPLES = 100
_MOST_POSITIONS = 100  # of a curve that is resampled, which takes their number cubed


@dataclass(frozen=True)
class Confounding:
    """What times and users say about a bias."""

    alarms: tuple[str, ...] = ()
    blind: tuple[str, ...] = ()
    """What cannot be seen."""
    period: int | None = None
    """Days of the periods within which documents were compared; None over all time."""


def items_by_period(log: Log, period: int) -> tuple[Log, Numbers]:
    """Return the log by day, and the number of each cell's document in its period."""
    daily = log.by_day()
    number = np.zeros(0, np.int64) if log.days is None else log.days.periods(period)
    return daily, daily.pairs * (1 + int(number.max(initial=0))) + number


def confounding(bias: "Bias", log: Log, level: float) -> Confounding:
    """Compare a bias with curves within periods and without robots, and click rates of documents that stayed."""
    alarms, blind = list(_robots(bias, log, level)), []
    if log.sessions is None or log.sessions.users is None:
        blind.append("robots (the log has no users: user=)")
    if log.days is None:
        blind.append("relevance that changes while rankers follow it (the log has no times: time=)")
        return Confounding(tuple(alarms), tuple(blind))
    lengths = [length for length in PERIODS if int(np.ptp(log.days.days)) >= length]
    period, apart = None, ""
    for length in lengths:
        daily, items = items_by_period(log, length)
        curve = _Curve.of(bias, daily, items, level)
        if curve is not None and (curve.precise or curve.off.any()):
            cause = f"relevance changed and rankers followed it; estimate the bias with period={length}"
            period, apart = length, curve.gap(f"within {tables.count(length, 'day')}", log, cause)
            break
    if apart:
        alarms.append(apart)
    elif shorter := [length for length in lengths if period is None or length < period]:
        changes = {length: _change(log, length) for length in shorter}
        changed = [length for length, (change, _) in changes.items() if change > _CHANGED]
        if changed:
            length = changed[0]
            alarms.append(
                f"click rates of documents that did not move differ by {changes[length][0]:.0%} between periods of "
                f"{tables.count(length, 'day')}, and too few documents moved within one: relevance changes, and so may "
                "documents have moved because of it"
            )
        else:
            span = tables.count(period or int(np.ptp(log.days.days)) + 1, "day")
            known = any(least < _PRECISE for _, least in changes.values())
            blind.append(f"relevance that changes within {span}{', but only where documents move' if known else ''}")
    return Confounding(tuple(alarms), tuple(blind), period)


@dataclass(frozen=True, eq=False)
class _Curve:
    """A curve by swaps beside that of a bias, on the log scale."""

    logs: Array
    expected: Array
    half: Array
    """Half of the interval; together they hold with the level."""

    @classmethod
    def of(cls, bias: "Bias", log: Log, items: Numbers, level: float) -> "_Curve | None":
        """Return the curve of a log, None where it is not identified, too long, or the bias has another model."""
        plain = bias if bias.pbm is None else bias.pbm
        if plain.beta.any() or plain.alpha.size < log.n_positions or not (plain.alpha > 0.0).all():
            return None
        if not 2 <= log.n_positions <= _MOST_POSITIONS:
            return None
        swaps = PositionSwaps.of(log, items)
        if swaps.gap:
            return None
        logs = swaps.fit(swaps.sums.sum((0, 1)))
        errors = swaps.resampled(logs, _SAMPLES, Stream(0).child("check")).std(0, ddof=1)
        width = float(norm.ppf(1.0 - (1.0 - level) / 2.0 / (log.n_positions - 1)))
        return cls(logs, np.log(plain.alpha / plain.alpha[0])[: log.n_positions], width * errors)

    @property
    def off(self) -> NDArray[np.bool_]:
        """Where both differ by more than a tenth, and not by chance."""
        gaps: Array = np.abs(self.logs - self.expected)
        off: NDArray[np.bool_] = gaps > np.maximum(np.log1p(_TOLERANCE), self.half)
        return off

    @property
    def precise(self) -> bool:
        """Whether a difference of a fifth would be seen everywhere."""
        return bool((self.half < np.log1p(_PRECISE)).all())

    def gap(self, how: str, log: Log, cause: str) -> str:
        """Return a sentence about the largest difference, empty without one.

        The ``cause`` is named only where the curve of the whole log is closer to the bias than to this curve.
        """
        if not self.off.any():
            return ""
        worst = int(np.argmax(np.abs(self.logs - self.expected) * self.off))
        swaps = PositionSwaps.of(log, log.pairs)
        all_logs = self.logs[worst], self.expected[worst], swaps.fit(swaps.sums.sum((0, 1)))[worst]
        estimate, expected, overall = map(tables.number, np.exp(all_logs))
        if abs(all_logs[2] - all_logs[0]) <= abs(all_logs[2] - all_logs[1]):
            cause = f"in the whole log it is {overall}, so that this is not the bias of this log"
        return f"alpha at position {worst + 1} is {estimate} {how} and {expected} in this bias: {cause}"


def _robots(bias: "Bias", log: Log, level: float) -> Iterator[str]:
    """Iterate over alarms about users who click far more than the others."""
    if log.robots.any() and not log.robots.all():
        rest = log.only(users=~log.robots)
        curve = _Curve.of(bias, rest, rest.pairs, level)
        cause = "leave them out with log.only(users=~log.robots)"
        alarm = "" if curve is None else curve.gap("without users who click like robots", log, cause)
        if alarm:
            yield alarm


def _change(log: Log, period: int) -> tuple[float, float]:
    """Return the standard deviation of click rates between periods at one position, as a share, 0 if by chance.

    The second number is the least deviation that would be seen.

    With rates p_t of a document, its clicks c_t of n_t impressions have Σ n_t (c_t/n_t − p)² of mean
    (T − 1) p(1 − p) + (N − Σ n_t²/N) Var(p_t). What all documents have in common, such as a week-end, is left out.
    """
    daily, number = log.by_day(), np.zeros(0, np.int64) if log.days is None else log.days.periods(period)
    keys = (daily.pairs * len(log.segment_names) + daily.segments) * log.n_positions + daily.positions - 1
    rows, row_of_cell = np.unique(keys * (number.max() + 1) + number, return_inverse=True)
    shown, clicks = (sums_by(row_of_cell, column) for column in (daily.impressions, daily.clicks))
    place, time = np.divmod(rows, number.max() + 1)
    units, unit = np.unique(place, return_inverse=True)
    rate = (sums_by(unit, clicks) / sums_by(unit, shown))[unit]
    levels = sums_by(time, clicks) / np.maximum(sums_by(time, shown * rate), 1e-300)
    exposure = shown * levels[time]
    times, total, clicked = np.bincount(unit), sums_by(unit, exposure), sums_by(unit, clicks)
    repeated = (times > 1) & (total > 1.0) & (clicked > 0.0)
    squares = sums_by(unit, clicks**2 / np.maximum(exposure, 1e-300)) - clicked**2 / np.maximum(total, 1e-300)
    spread = total - sums_by(unit, exposure**2) / np.maximum(total, 1e-300)
    pairs = np.maximum(total * (total - 1.0), 1e-300)
    excess = np.where(repeated, squares - (times - 1) * clicked * np.maximum(total - clicked, 0.0) / pairs, 0.0)
    scale = float(np.where(repeated, spread * clicked * np.maximum(clicked - 1.0, 0.0) / pairs, 0.0).sum())
    queries = log.query_of_pair[units // (len(log.segment_names) * log.n_positions)]
    by_query = sums_by(queries, excess, log.n_queries)
    surely = _SURELY * float(np.sqrt((by_query**2).sum()))
    if scale <= 0.0 or not by_query.any():
        return 0.0, np.inf
    variance = float(by_query.sum())
    return float(np.sqrt(variance / scale)) if variance > surely else 0.0, float(np.sqrt(surely / scale))
