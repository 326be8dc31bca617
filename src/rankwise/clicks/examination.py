"""What a click log can identify, before anything is estimated from it."""

import itertools
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy import special
from scipy.sparse.csgraph import connected_components

from rankwise.arrays import Array
from rankwise.compiling import kernel
from rankwise.statistics import tables
from rankwise.statistics.figures.comparisons import COLOURS, DASHES, figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from rankwise.clicks.log import Log, Sessions

Severity = Literal["error", "warning", "note"]
_MARKS = {"error": "✗", "warning": "!", "note": "·"}
_Z = float(special.ndtri(0.975))
_MOST_POSITIONS = 500
_PRINTED = 20
_WIDE = 0.1
"""Relative error of a propensity that is worth a warning."""
_FEW_ROWS = 10  # of a user who has clicked all of them
_HEAVY = 0.05
_DOUBLED = 0.01
_WIDTH = 100


@dataclass(frozen=True)
class LogFinding:
    """Something that a person should know about a log before estimating anything from it."""

    severity: Severity
    """``"error"``: propensities are not identified; ``"warning"``: estimates will be poor, or biased; ``"note"``."""
    topic: str
    sentence: str


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Examination:
    """What a click log can identify; printed, it is a page."""

    title: str
    positions: NDArray[np.int64]
    """Positions that were shown; the others fields are in their order."""
    impressions: Array
    """Documents shown, by ranker and position."""
    clicks: Array
    """Clicks, by ranker and position."""
    ranker_names: tuple[str, ...]
    exchanged: NDArray[np.int64]
    """Number of documents of a query that were shown at both positions of each pair of positions."""
    harvested: Array
    """Clicks at the first position of each pair of positions on documents that were shown at both."""
    components: NDArray[np.int64]
    """Number of the group of positions, joined by clicked documents, to which each position belongs."""
    errors: Array
    """Standard error that the logarithm of each propensity would have, relative to the first position; NaN: unknown."""
    findings: tuple[LogFinding, ...]
    """Most severe first."""
    notes: tuple[str, ...] = ()
    """Notes of reading the log."""

    @property
    def identified(self) -> bool:
        """Whether propensities of all positions can be compared with that of the first."""
        return not any(finding.severity == "error" for finding in self.findings)

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each position of each ranker.

        ``low`` and ``high`` are the 95% interval of the click-through (Wilson); ``factor`` is the one by which the ends
        of the 95% interval of the propensity would differ from it at best.
        """
        n_rankers, n_positions = self.impressions.shape
        low, high = _wilson(self.clicks, self.impressions)
        return pl.DataFrame(
            {
                "ranker": np.repeat(np.array(self.ranker_names, object), n_positions),
                "position": np.tile(self.positions, n_rankers),
                "impressions": self.impressions.ravel(),
                "clicks": self.clicks.ravel(),
                "click_through": _rates(self.clicks, self.impressions).ravel(),
                "low": low.ravel(),
                "high": high.ravel(),
                "component": np.tile(self.components, n_rankers),
                "factor": np.tile(np.exp(_Z * self.errors), n_rankers),
            },
            schema_overrides={"ranker": pl.String},
        ).filter(pl.col("impressions") > 0)

    def tables(self) -> list[tables.Table]:
        """Return the tables of the page: by position, and by ranker where there are several."""
        impressions, clicks = self.impressions.sum(0), self.clicks.sum(0)
        low, high = _wilson(clicks, impressions)
        rate, shared = _rates(clicks, impressions), self.harvested.max(1, initial=0.0)
        rows = [
            (
                str(position),
                f"{impressions[k]:,.0f}",
                f"{clicks[k]:,.0f}",
                tables.number(rate[k]),
                tables.interval(low[k], high[k]),
                f"{self.exchanged[k].max(initial=0):,}",
                f"{shared[k]:,.0f}",
                _percent(self.errors[k]) if k else "reference",
            )
            for k, position in enumerate(self.positions[:_PRINTED])
        ]
        header = (
            "position",
            "shown",
            "clicks",
            "click-through",
            "95% interval",
            "exchanged",
            "harvested",
            "propensity",
        )
        more = self.positions.size - _PRINTED
        notes = (
            "exchanged: documents that the position shares with the one it shares most with; harvested: its clicks on "
            "them, at most; propensity: error of its 95% interval, relative to the first position, at best",
            *((f"and {tables.count(more, 'position')} more",) if more > 0 else ()),
        )
        pages = [tables.Table(header=header, rows=tuple(rows), align="rrrrlrrr", notes=notes)]
        if len(self.ranker_names) > 1:
            shown, clicked = self.impressions.sum(1), self.clicks.sum(1)
            low, high = _wilson(clicked, shown)
            first = _rates(self.clicks[:, 0], self.impressions[:, 0])
            lines = [
                (
                    tables.shortened(name) or "(no name)",
                    f"{shown[r]:,.0f}",
                    tables.number(_rates(clicked, shown)[r]),
                    tables.interval(low[r], high[r]),
                    tables.number(first[r]),
                )
                for r, name in enumerate(self.ranker_names)
            ]
            names = ("ranker", "shown", "click-through", "95% interval", f"at position {self.positions[0]}")
            pages.append(tables.Table(header=names, rows=tuple(lines), align="lrrlr"))
        return pages

    def __repr__(self) -> str:
        lines = [self.title, ""]
        for table in self.tables():
            lines += [table.text(), ""]
        for finding in self.findings:
            mark = _MARKS[finding.severity]
            lines += textwrap.wrap(finding.sentence, _WIDTH, initial_indent=f"{mark} ", subsequent_indent="  ")
        for note in self.notes:
            lines += textwrap.wrap(f"reading: {note}", _WIDTH, initial_indent="· ", subsequent_indent="  ")
        return "\n".join(lines)

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw click-through by position and ranker with 95% intervals, and the clicks that positions can exchange."""
        with figure(path, 10.5, 4.4, force=force) as drawing:
            left, right = drawing.subplots(1, 2, width_ratios=[1.15, 1])
            self._draw_rates(left)
            self._draw_exchanges(right)
        return Path(path)

    def _draw_rates(self, panel: "Axes") -> None:
        low, high = _wilson(self.clicks, self.impressions)
        rate = _rates(self.clicks, self.impressions)
        n_rankers = len(self.ranker_names)
        for r, name in enumerate(self.ranker_names):
            shown = self.impressions[r] > 0
            beside = 0.12 * (r - (n_rankers - 1) / 2) / max(n_rankers / 4, 1)  # intervals do not hide each other
            panel.errorbar(
                self.positions[shown] + beside,
                rate[r, shown],
                yerr=np.abs(np.stack([low[r, shown], high[r, shown]]) - rate[r, shown]),
                color=COLOURS[r % len(COLOURS)],
                linestyle=DASHES[r % len(DASHES)],
                marker="o",
                markersize=3.5,
                linewidth=1.2,
                capsize=2,
                label=tables.shortened(name) or "all rankers",
            )
        panel.set_ylim(bottom=0)
        panel.locator_params(axis="x", integer=True)
        panel.set_xlabel("position")
        panel.set_ylabel("click-through, 95% interval")
        panel.set_title("Click-through by position", loc="left", fontweight="bold")
        panel.legend(fontsize=8)
        panel.grid(color="#E4E4E4", linewidth=0.6)
        panel.set_axisbelow(True)

    def _draw_exchanges(self, panel: "Axes") -> None:
        import matplotlib as mpl

        n = self.positions.size
        values = np.where(np.eye(n, dtype=bool) | (self.exchanged == 0), np.nan, np.maximum(self.harvested, 0.5))
        colours = mpl.colormaps["Blues"].with_extremes(bad="#F2F2F2")
        highest = max(float(np.nanmax(values, initial=1.0)), 2.0)
        image = panel.imshow(values, norm="log", vmin=0.5, vmax=highest, cmap=colours)
        step = max(n // 10, 1)
        panel.set_xticks(range(0, n, step), [str(position) for position in self.positions[::step]])
        panel.set_yticks(range(0, n, step), [str(position) for position in self.positions[::step]])
        if n <= _PRINTED // 2:
            for a, b in itertools.permutations(range(n), 2):
                dark = self.harvested[a, b] > highest**0.6
                text = _short(self.harvested[a, b]) if self.exchanged[a, b] else "–"
                panel.text(b, a, text, ha="center", va="center", fontsize=7, color="white" if dark else "#333333")
        panel.set_xlabel("… that were also shown at position")
        panel.set_ylabel("clicks at position …")
        panel.set_title("Harvested clicks on exchanged documents", loc="left", fontweight="bold")
        panel.spines[:].set_visible(False)
        panel.get_figure().colorbar(image, ax=panel, shrink=0.85)  # type: ignore[union-attr]


def examine(log: "Log") -> Examination:
    """Examine a log: what it can identify, how precisely at best, and what looks wrong in it."""
    positions, code = np.unique(log.positions, return_inverse=True)
    positions = positions[:_MOST_POSITIONS]
    inside = code < positions.size
    size = len(log.ranker_names), positions.size
    flat = log.rankers[inside] * positions.size + code[inside]
    impressions, clicks = (
        np.bincount(flat, values[inside], size[0] * size[1]).reshape(size).astype(np.float64)
        for values in (log.impressions, log.clicks)
    )
    rate = _rates(clicks.sum(0), impressions.sum(0))
    exchanged, harvested, information = _exchanges(log, code, inside, rate)
    components = connected_components(information > 0, directed=False)[1].astype(np.int64)
    errors = standard_errors(information, components)
    finder = _Findings(log, positions, impressions, clicks, exchanged, components, errors)
    findings = [finding for part in finder.parts() for finding in part]
    return Examination(
        title=repr(log),
        positions=positions,
        impressions=impressions,
        clicks=clicks,
        ranker_names=log.ranker_names,
        exchanged=exchanged,
        harvested=harvested,
        components=components,
        errors=errors,
        findings=tuple(sorted(findings, key=lambda finding: list(_MARKS).index(finding.severity))),
        notes=log.notes,
    )


def _exchanges(
    log: "Log", code: NDArray[np.int64], inside: NDArray[np.bool_], rate: Array
) -> tuple[NDArray[np.int64], Array, Array]:
    """Return exchanged documents, harvested clicks and information about propensities for each pair of positions."""
    key = log.pairs[inside] * rate.size + code[inside]
    order = np.argsort(key, kind="stable")
    starts = np.flatnonzero(np.diff(key[order], prepend=-1))
    clicks, impressions = (np.add.reduceat(values[inside][order], starts) for values in (log.clicks, log.impressions))
    pairs, places = np.divmod(key[order][starts], rate.size)
    offsets = np.append(np.flatnonzero(np.diff(pairs, prepend=-1)), pairs.size)
    exchanged = np.zeros((rate.size, rate.size), np.int64)
    harvested, information = np.zeros(exchanged.shape), np.zeros(exchanged.shape)
    _exchange(offsets, places, clicks, impressions * rate[places], exchanged, harvested, information)
    return exchanged, harvested, information


@kernel
def _exchange(offsets, places, clicks, exposures, exchanged, harvested, information):  # type: ignore[no-untyped-def]
    """Add up documents, clicks and Fisher information over the pairs of positions of each document.

    A document with M clicks, of which a share p_k is expected at position k, is worth M p_j p_k to log θ_j − log θ_k:
    the information about a ratio of Poisson rates, once the document's own rate is eliminated.
    """
    for pair in range(offsets.size - 1):
        first, last = offsets[pair], offsets[pair + 1]
        total = exposure = 0.0
        for i in range(first, last):
            total += clicks[i]
            exposure += exposures[i]
        for i in range(first, last):
            for j in range(first, last):
                if i != j:
                    a, b = places[i], places[j]
                    exchanged[a, b] += 1
                    harvested[a, b] += clicks[i]
                    if exposure > 0.0:
                        information[a, b] += total * (exposures[i] / exposure) * (exposures[j] / exposure)


def standard_errors(information: Array, components: NDArray[np.int64]) -> Array:
    """Return the standard error of log θ_k − log θ_1, NaN for positions that are not joined to the first.

    Information of pairs of positions is a graph, whose Laplacian BᵀWB is the information about log θ.

    >>> errors = standard_errors(np.array([[0, 50.0], [50.0, 0]]), np.zeros(2, np.int64))  # 100 clicks at each
    >>> errors.round(4).tolist(), float(np.sqrt(1 / 100 + 1 / 100).round(4))
    ([0.0, 0.1414], 0.1414)
    """
    errors = np.full(components.size, np.nan)
    joined = np.flatnonzero(components == components[0])
    weights = information[np.ix_(joined, joined)]
    covariance = np.linalg.pinv(np.diag(weights.sum(1)) - weights, hermitian=True)
    diagonal = np.diag(covariance)
    errors[joined] = np.sqrt(np.maximum(diagonal + covariance[0, 0] - 2 * covariance[0], 0.0))
    return errors


@dataclass(frozen=True)
class _Findings:
    log: "Log"
    positions: NDArray[np.int64]
    impressions: Array
    clicks: Array
    exchanged: NDArray[np.int64]
    components: NDArray[np.int64]
    errors: Array

    def parts(self) -> Iterator[Iterator[LogFinding]]:
        """Iterate over the findings of each topic."""
        yield self._identification()
        yield self._precision()
        yield self._rankers()
        yield self._click_through()
        if self.log.sessions is None:
            sentence = "Lengths of impressions, doubled impressions and users are not examined: sessions were not kept."
            yield iter([LogFinding("note", "sessions", sentence)])
        else:
            yield self._lists(self.log.sessions)
            yield self._users(self.log.sessions)

    def _identification(self) -> Iterator[LogFinding]:
        n_pairs = self.log.n_pairs
        at_one = n_pairs - int(np.count_nonzero(_positions_of_pairs(self.log) > 1))
        if not self.clicks.any():
            yield LogFinding("error", "clicks", "Nothing was clicked: nothing can be estimated.")
        elif at_one == n_pairs and self.positions.size > 1:
            cause = "one deterministic ranker" if len(self.log.ranker_names) == 1 else "rankers that agree"
            sentence = (
                f"Every document was always at the same position ({cause}): what position and what relevance "
                "contribute to clicks cannot be told apart. Show some lists in another order."
            )
            yield LogFinding("error", "identification", sentence)
        else:
            groups = _groups(self.components)
            if len(groups) > 1:
                names = _joined([_span(self.positions[group]) for group in groups])
                exchanging = connected_components(self.exchanged > 0, directed=False)[0]
                what = "exchange a document" if exchanging == len(groups) else "exchange a document that was clicked"
                sentence = f"Positions {names} never {what}: their propensities cannot be compared."
                yield LogFinding("error", "identification", sentence)
            share = at_one / n_pairs
            shown = self.log.impressions[(_positions_of_pairs(self.log) == 1)[self.log.pairs]].sum()
            sentence = (
                f"{share:.0%} of the documents of a query were at one position only ({shown / self.clicks_shown:.0%} of "
                "what was shown): they say nothing about propensities."
            )
            yield LogFinding("note", "exchange", sentence)

    @property
    def clicks_shown(self) -> float:
        """Number of documents shown."""
        return float(self.log.impressions.sum())

    def _precision(self) -> Iterator[LogFinding]:
        joined = ~np.isnan(self.errors)
        worst = int(np.nanargmax(self.errors))
        error = float(self.errors[worst])
        if joined.sum() > 1 and error > 0:
            enough = np.expm1(_Z * error) <= _WIDE
            more = (_Z * error / np.log1p(_WIDE)) ** 2
            position = self.positions[worst]
            sentence = (
                f"Propensities would be known to {_percent(error)} or better (position {position} is the worst)."
                + ("" if enough else f" About {more:,.1f} times as many clicks make that ±{_WIDE:.0%}.")
            )
            yield LogFinding("note" if enough else "warning", "precision", sentence)

    def _rankers(self) -> Iterator[LogFinding]:
        if self.log.ranker_names == ("",):
            sentence = "Rankers are not named (ranker=): propensities cannot be checked on a ranker that is held out."
            yield LogFinding("warning", "rankers", sentence)
        elif len(self.log.ranker_names) == 1:
            sentence = "There is one ranker: propensities can be checked by time at most, not on another ranker."
            yield LogFinding("warning", "rankers", sentence)

    def _click_through(self) -> Iterator[LogFinding]:
        gaps = np.setdiff1d(np.arange(1, self.positions[-1] + 1), self.positions)
        if gaps.size:
            yield LogFinding("warning", "positions", f"Nothing was shown at {_span(gaps, 'position')}.")
        if self.log.n_positions > self.positions[-1]:
            sentence = f"Positions beyond {self.positions[-1]} are not examined."
            yield LogFinding("note", "positions", sentence)
        low, high = _wilson(self.clicks.sum(0), self.impressions.sum(0))
        better = np.flatnonzero(low > high[0])
        if better.size:
            sentence = (
                f"{_span(self.positions[better], 'Position')} {'has' if better.size == 1 else 'have'} a higher "
                f"click-through than position {self.positions[0]}: see whether positions count what users see."
            )
            yield LogFinding("warning", "positions", sentence)

    def _lists(self, sessions: "Sessions") -> Iterator[LogFinding]:
        lengths = np.diff(sessions.offsets)
        short, middle, long = np.quantile(lengths, [0.05, 0.5, 0.95])
        if long > 2 * short:
            sentence = (
                f"Impressions are of very different length: 5% have at most {short:.0f} documents, 5% at least {long:.0f} "
                f"(median {middle:.0f}). Low positions come from other queries than high ones."
            )
            yield LogFinding("warning", "length", sentence)
        clicked = np.add.reduceat(sessions.clicked, sessions.offsets[:-1], dtype=np.int64)
        if clicked.all() and clicked.size > 1:
            sentence = "Every impression has a click: if those without were left out, click-through is too high."
            yield LogFinding("warning", "selection", sentence)

    def _users(self, sessions: "Sessions") -> Iterator[LogFinding]:
        if sessions.users is None:
            sentence = (
                "There are no users (user=): doubled impressions and users who click everything are not examined."
            )
            yield LogFinding("note", "users", sentence)
            return
        rows = np.repeat(sessions.users, np.diff(sessions.offsets))
        shown, clicked = np.bincount(rows), np.bincount(rows, sessions.clicked)
        eager = (shown >= _FEW_ROWS) & (clicked == shown)
        if eager.any():
            share = clicked[eager].sum() / clicked.sum()
            sentence = (
                f"{tables.count(int(eager.sum()), 'user')} clicked everything shown ({share:.1%} of all clicks): "
                "leave out robots and tests."
            )
            yield LogFinding("warning", "users", sentence)
        lists = np.bincount(sessions.users)
        if lists.size >= 1 / _HEAVY and lists.max() > _HEAVY * lists.sum():
            sentence = f"One user made {lists.max() / lists.sum():.0%} of the impressions: a robot, or a missing id?"
            yield LogFinding("warning", "users", sentence)
        doubled = sessions.n_impressions - np.unique(_list_keys(sessions)).size
        if doubled:
            share = doubled / sessions.n_impressions
            sentence = (
                f"{doubled:,} impressions ({share:.1%}) repeat the query and the list of an earlier one of the same user: "
                "reloads, pages of results or doubled records?"
            )
            yield LogFinding("warning" if share > _DOUBLED else "note", "doubled", sentence)


def _positions_of_pairs(log: "Log") -> NDArray[np.int64]:
    """Return at how many positions each pair was shown."""
    size = log.n_positions + 1
    return np.bincount(np.unique(log.pairs * size + log.positions) // size, minlength=log.n_pairs)


def _list_keys(sessions: "Sessions") -> NDArray[np.uint64]:
    """Return a hash of the user and the list of each impression."""

    def mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        for constant in (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53):  # MurmurHash's finalizer
            values = (values ^ (values >> np.uint64(33))) * np.uint64(constant)
        return values ^ (values >> np.uint64(33))

    rows = sessions.pairs.astype(np.uint64) << np.uint64(16) | sessions.positions.astype(np.uint64)
    lists = np.add.reduceat(mixed(rows + np.uint64(1)), sessions.offsets[:-1])
    users: Any = sessions.users
    return mixed(lists + mixed(users.astype(np.uint64) + np.uint64(1)))


def _rates(clicks: Array, impressions: Array) -> Array:
    rates: Array = np.divide(clicks, impressions, out=np.full(np.shape(clicks), np.nan), where=impressions > 0)
    return rates


def _wilson(clicks: Array, impressions: Array) -> tuple[Array, Array]:
    """Return the 95% interval of a rate (Wilson), NaN without impressions."""
    rate, count = _rates(clicks, impressions), np.where(impressions > 0, impressions, np.nan)
    rate = np.clip(rate, 0.0, 1.0)
    middle = (rate + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * np.sqrt(rate * (1 - rate) / count + (_Z / (2 * count)) ** 2)
    return np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _percent(error: float) -> str:
    """Write the relative error of an interval; a propensity that cannot be known is a dash."""
    return tables.NOTHING if np.isnan(error) else f"±{100 * np.expm1(min(_Z * error, 5.0)):.2g}%"


def _short(value: float) -> str:
    return f"{value:.0f}" if value < 1000 else f"{value / 1000:.3g}k" if value < 1e6 else f"{value / 1e6:.3g}M"


def _groups(components: NDArray[np.int64]) -> list[NDArray[np.int64]]:
    """Return the members of each group, by their first one."""
    _, firsts = np.unique(components, return_index=True)
    return [np.flatnonzero(components == components[first]) for first in np.sort(firsts)]


def _span(positions: NDArray[np.int64], noun: str = "") -> str:
    """Write positions as ranges: 1–3, 7."""
    runs = np.split(positions, np.flatnonzero(np.diff(positions) > 1) + 1)
    text = ", ".join(str(run[0]) if run.size == 1 else f"{run[0]}–{run[-1]}" for run in runs)
    return f"{noun}{'s' if positions.size > 1 else ''} {text}" if noun else text


def _joined(parts: Sequence[str]) -> str:
    return f"{', '.join(parts[:-1])} and {parts[-1]}"
