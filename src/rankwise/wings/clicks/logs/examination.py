"""Examination of a click log: what it can identify, how precisely at best, and what looks wrong in it."""

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from scipy import special

from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.statistics import COLOURS, DASHES, Findings, Result, canvas, light_grid
from rankwise.wings.clicks.logs import findings
from rankwise.wings.clicks.logs.findings import LogFinding
from rankwise.wings.clicks.logs.position_pairs import Exchanges

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from rankwise.wings.clicks.logs.log import Log

_Z = float(special.ndtri(0.975))
_PRINTED = 20  # positions
_EXCHANGED = ("exchanged", "harvested", "propensity")
_NUMBERED = 10  # positions of a heat map with numbers in it


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Examination(Result):
    """What a click log can identify; printed, it is a page."""

    title: str
    exchanges: Exchanges
    impressions: Array
    """Documents shown, by ranker and position."""
    clicks: Array
    """Clicks, by ranker and position."""
    ranker_names: tuple[str, ...]
    findings: tuple[LogFinding, ...]
    """Most severe first."""
    notes: tuple[str, ...]
    """Notes of reading the log."""

    def to_frame(self) -> pl.DataFrame:
        """Return one row for each position of each ranker.

        ``low`` and ``high`` are the 95% interval of the click-through (Wilson). ``factor`` is the upper end over the
        middle of the 95% interval that the propensity would have at best, relative to the first position; positions
        with different ``component`` cannot be compared.
        """
        n_rankers, n_positions = self.impressions.shape
        rate, low, high = _click_through(self.clicks, self.impressions)
        return pl.DataFrame(
            {
                "ranker": np.repeat(np.array(self.ranker_names, object), n_positions),
                "position": np.tile(self.exchanges.positions, n_rankers),
                "impressions": self.impressions.ravel(),
                "clicks": self.clicks.ravel(),
                "click_through": rate.ravel(),
                "low": low.ravel(),
                "high": high.ravel(),
                "component": np.tile(self.exchanges.components(), n_rankers),
                "factor": np.tile(_ends(self.exchanges), n_rankers),
            },
            schema_overrides={"ranker": pl.String},
        ).filter(pl.col("impressions") > 0)

    def tables(self) -> list[tables.Table]:
        """Return the tables of the page: by position, by ranker where there are several, and the findings."""
        impressions, clicks = self.impressions.sum(0), self.clicks.sum(0)
        rate, low, high = _click_through(clicks, impressions)
        documents, harvested = self.exchanges.documents.max(1), self.exchanges.clicks.max(1)
        ends = _ends(self.exchanges)
        rows = tuple(
            (
                str(position),
                f"{impressions[k]:,.0f}",
                f"{clicks[k]:,.0f}",
                tables.number(rate[k]),
                tables.interval(low[k], high[k]),
                f"{documents[k]:,}",
                f"{harvested[k]:,.0f}",
                findings.relative(ends[k]) if k else "reference",
            )
            for k, position in enumerate(self.exchanges.positions[:_PRINTED])
        )
        header = ("position", "shown", "clicks", "click-through", "95% interval", *_EXCHANGED)
        notes = [
            "exchanged: documents in common with another position, at most; harvested: clicks on these, at most; "
            "propensity: end of its 95% interval, relative to the first position, at best"
        ]
        if (more := self.exchanges.positions.size - _PRINTED) > 0:
            notes.append(f"and {tables.count(more, 'position')} more")
        pages = [tables.Table(header=header, rows=rows, align="rrrrlrrr", notes=tuple(notes), title=f"{self.title}\n")]
        if len(self.ranker_names) > 1:
            shown, clicked = self.impressions.sum(1), self.clicks.sum(1)
            rate, low, high = _click_through(clicked, shown)
            at_first, _, _ = _click_through(self.clicks[:, 0], self.impressions[:, 0])
            lines = tuple(
                (
                    tables.shortened(name) or tables.NOTHING,
                    f"{shown[r]:,.0f}",
                    tables.number(rate[r]),
                    tables.interval(low[r], high[r]),
                    tables.number(at_first[r]),
                )
                for r, name in enumerate(self.ranker_names)
            )
            columns = ("ranker", "shown", "click-through", "95% interval", f"at position {self.exchanges.positions[0]}")
            pages.append(tables.Table(header=columns, rows=lines, align="lrrlr"))
        marked = [(finding.severity, finding.sentence) for finding in self.findings]
        marked += [("note", f"Reading: {note}") for note in self.notes]
        return [*pages, Findings.of(marked)]

    def to_dict(self) -> Json:
        """Return the findings, and the rows of :meth:`to_frame`."""
        listed = [{"severity": one.severity, "sentence": one.sentence} for one in self.findings]
        return {"findings": listed, "positions": self.to_frame().to_dicts()}

    def figure(self) -> "Figure":
        """Draw click-through by position and ranker with 95% intervals, and clicks on exchanged documents."""
        with canvas(10.5, 4.4) as drawing:
            left, right = drawing.subplots(1, 2, width_ratios=[1.15, 1])
            self._draw_click_through(left)
            self._draw_exchanges(right)
        return drawing

    def _draw_click_through(self, panel: "Axes") -> None:
        rate, low, high = _click_through(self.clicks, self.impressions)
        n_rankers = len(self.ranker_names)
        for r, name in enumerate(self.ranker_names):
            shown = self.impressions[r] > 0
            beside = 0.4 * ((r + 0.5) / n_rankers - 0.5)  # intervals do not hide each other
            panel.errorbar(
                self.exchanges.positions[shown] + beside,
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
        light_grid(panel)

    def _draw_exchanges(self, panel: "Axes") -> None:
        import matplotlib as mpl
        from matplotlib.ticker import LogLocator, NullLocator

        positions, clicks, documents = self.exchanges.positions, self.exchanges.clicks, self.exchanges.documents
        n, highest = positions.size, max(float(clicks.max()), 2.0)
        values = np.where(documents > 0, np.maximum(clicks, 0.5), np.nan)
        colours = mpl.colormaps["Blues"].with_extremes(bad="#F2F2F2")
        image = panel.imshow(values, norm="log", vmin=0.5, vmax=highest, cmap=colours)
        names = [str(position) for position in positions]
        step = -(-n // _PRINTED)
        panel.set_xticks(range(0, n, step), names[::step])
        panel.set_yticks(range(0, n, step), names[::step])
        for a, b in itertools.permutations(range(n), 2) if n <= _NUMBERED else ():
            dark = clicks[a, b] > highest**0.6
            text = _short(clicks[a, b]) if documents[a, b] else tables.NOTHING
            panel.text(b, a, text, ha="center", va="center", fontsize=7, color="white" if dark else "#333333")
        panel.set_ylabel("clicks at position …")
        panel.set_xlabel("… on documents that were also shown at position … (grey: none)")
        panel.set_title("Clicks on exchanged documents", loc="left", fontweight="bold")
        panel.spines[:].set_visible(False)
        bar = panel.figure.colorbar(image, ax=panel, shrink=0.85, format="%g", ticks=LogLocator(subs=(1.0, 3.0)))
        bar.ax.yaxis.set_minor_locator(NullLocator())


def examine(log: "Log") -> Examination:
    """Examine a log: what it can identify, how precisely at best, and what looks wrong in it."""
    exchanges = Exchanges.of(log)
    places = np.searchsorted(exchanges.positions, log.positions)
    inside = places < exchanges.positions.size
    shape = len(log.ranker_names), exchanges.positions.size
    flat = np.ravel_multi_index((log.rankers[inside], places[inside]), shape)
    impressions, clicks = (
        np.bincount(flat, values[inside], shape[0] * shape[1]).reshape(shape).astype(np.float64)
        for values in (log.impressions, log.clicks)
    )
    _, low, high = _click_through(clicks.sum(0), impressions.sum(0))
    parts = [
        findings.identification(log, exchanges),
        findings.precision(exchanges, _ends(exchanges)),
        findings.rankers(log),
        findings.positions(log, exchanges, low, high),
    ]
    if log.days is None:
        sentence = "There are no times (time=): relevance that changes while rankers follow it cannot be seen."
        parts.append(iter([LogFinding("note", "times", sentence)]))
    if log.sessions is None:
        sentence = "Impressions were not kept one by one: their lengths, doubled ones and users are not examined."
        parts.append(iter([LogFinding("note", "sessions", sentence)]))
    else:
        parts += [findings.lists(log.sessions), findings.users(log.sessions)]
    return Examination(
        title=repr(log),
        exchanges=exchanges,
        impressions=impressions,
        clicks=clicks,
        ranker_names=log.ranker_names,
        findings=tuple(sorted(itertools.chain(*parts), key=lambda finding: finding.rank)),
        notes=log.notes,
    )


def _click_through(clicks: Array, impressions: Array) -> tuple[Array, Array, Array]:
    """Return rates with their 95% intervals (Wilson), NaN without impressions."""
    count = np.where(impressions > 0, impressions, np.nan)
    rate = clicks / count
    middle = (rate + _Z**2 / (2 * count)) / (1 + _Z**2 / count)
    half = _Z / (1 + _Z**2 / count) * np.sqrt(rate * (1 - rate) / count + (_Z / (2 * count)) ** 2)
    return rate, np.maximum(middle - half, 0.0), np.minimum(middle + half, 1.0)


def _ends(exchanges: Exchanges) -> Array:
    """Return the upper end over the middle of the 95% interval that each propensity would have."""
    ends: Array = np.exp(np.minimum(_Z * exchanges.errors(), 100.0))
    return ends


def _short(value: float) -> str:
    return f"{value:.0f}" if value < 1000 else f"{value / 1000:.3g}k" if value < 1e6 else f"{value / 1e6:.3g}M"
