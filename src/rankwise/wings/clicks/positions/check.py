"""Whether a position bias predicts the clicks of a ranker that it has not seen."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import norm

from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Array, Keywords
from rankwise.statistics import COLOURS, GREY, RESAMPLED, Result, canvas
from rankwise.wings.clicks.logs.log import KEYS, Log
from rankwise.wings.clicks.positions.allpairs import Numbers, sums_by
from rankwise.wings.clicks.positions.confounding import confounding, items_by_period

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from rankwise.wings.clicks.positions.bias import Bias

_TOLERANCE = 0.1  # how far observed clicks may be from predicted ones, as a share


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BiasCheck(Result):
    """Clicks of each ranker by position, observed and predicted from the clicks of the others.

    Only documents count that the others showed at another position, and each counts less where its prediction rests on
    few clicks: the sums are weighted.
    """

    names: tuple[str, ...]
    """What was held out: rankers, or one of two logs."""
    observed: Array
    """Weighted clicks by held-out ranker and position."""
    predicted: Array
    ratio: Array
    """Observed over predicted clicks; NaN where there are neither."""
    low: Array
    """Ends of the intervals of the ratios; together they hold with probability ``level``."""
    high: Array
    shared: Array
    """The part of impressions, by held-out ranker, whose document others showed at another position."""
    level: float
    reason: str = ""
    """Why nothing can be checked."""
    alarms: tuple[str, ...] = ()
    """What times and users say against the bias."""
    blind: tuple[str, ...] = ()
    """What this check cannot see."""
    period: int | None = None
    """Rankers were compared within periods of so many days; None: over all time."""

    @property
    def possible(self) -> bool:
        """Whether anything could be checked."""
        return not self.reason

    @property
    def off(self) -> NDArray[np.bool_]:
        """Where clicks are off by more than a tenth, and not by chance."""
        return (np.abs(self.ratio - 1.0) > _TOLERANCE) & ((self.low > 1.0) | (self.high < 1.0))

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Where there are too few clicks to see an error of a fifth."""
        seen: NDArray[np.bool_] = self.high < self.low * (1.0 + 2.0 * _TOLERANCE) ** 2
        return ~(seen | self.off)

    @property
    def alarm(self) -> bool:
        """Whether the bias is wrong by more than a tenth at a position, beyond what chance allows."""
        return bool(self.off.any() or self.alarms)

    @property
    def sentence(self) -> str:
        """The verdict."""
        if self.alarms:
            return f"ALARM: {'; '.join(self.alarms)}."
        if self.alarm:
            gaps = np.where(self.off, np.abs(np.log(np.maximum(self.ratio, 1e-9))), 0.0)
            ranker, place = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
            where = _at(np.flatnonzero(self.off.any(0)) + 1)
            return (
                f"ALARM: clicks are off by more than a tenth at {where}; "
                f"{self.names[ranker]!r} has {self.ratio[ranker, place]:.2f} times the predicted clicks at position "
                f"{place + 1}."
            )
        if not self.possible:
            return f"This bias cannot be checked: {self.reason}."
        unseen = np.flatnonzero(self.unseen.all(0)) + 1
        unsure = f"; too few clicks to see an error of a fifth at {_at(unseen)}" if unseen.size else ""
        how = "" if self.period is None else f", within {tables.count(self.period, 'day')}"
        blind = f" This cannot see {', nor '.join(self.blind)}." if self.blind else ""
        return (
            f"No alarm: clicks of what was held out are predicted within a tenth, or within chance{how}{unsure}.{blind}"
        )

    def to_frame(self) -> pl.DataFrame:
        """One row per held-out ranker and position."""
        names = ("observed", "predicted", "ratio", "low", "high", "off")
        columns = {name: getattr(self, name).ravel() for name in names}
        n_rankers, n_positions = self.ratio.shape
        positions = np.tile(np.arange(1, n_positions + 1), n_rankers)
        return pl.DataFrame({"ranker": np.repeat(self.names, n_positions), "position": positions, **columns})

    def table(self) -> tables.Table:
        """Return a table with a row per position and observed over predicted clicks of each held-out ranker."""

        def cell(i: int, k: int) -> str:
            mark = " !" if self.off[i, k] else ""
            return f"{tables.number(self.ratio[i, k], 3)}{mark} {tables.interval(self.low[i, k], self.high[i, k], 2)}"

        n_rankers, n_positions = self.ratio.shape
        rows = tuple((str(k + 1), *(cell(i, k) for i in range(n_rankers))) for k in range(n_positions))
        shares = (f"{tables.shortened(name)} {share:.0%}" for name, share in zip(self.names, self.shared, strict=True))
        note = f"Impressions of documents that others showed at another position: {', '.join(shares)}. "
        note += f"Intervals hold together at {self.level:.0%}."
        header = ("position", *map(tables.shortened, self.names))
        title, align = "observed over predicted clicks of each ranker, held out in turn", "r" * len(header)
        return tables.Table(header=header, rows=rows, align=align, notes=(self.sentence, note), title=title)

    def __repr__(self) -> str:
        return f"BiasCheck({self.sentence})"

    def __str__(self) -> str:
        return self.to_text() if self.shared.any() else self.sentence

    def figure(self) -> "Figure":
        """Draw observed over predicted clicks by position."""
        if not self.shared.any():
            raise check.error("there is nothing to draw", got=self.sentence)
        n_rankers, n_positions = self.ratio.shape
        with canvas(7.2, 4.0) as drawing:
            panel = drawing.subplots()
            panel.axhspan(1.0 - _TOLERANCE, 1.0 + _TOLERANCE, color=GREY, alpha=0.15, linewidth=0)
            panel.axhline(1.0, color=GREY, linewidth=0.8)
            for i, name in enumerate(self.names):
                places = np.arange(1, n_positions + 1) + 0.5 * ((i + 0.5) / n_rankers - 0.5)
                ends = np.abs(np.array([self.low[i], self.high[i]]) - self.ratio[i])
                style: Keywords = {"color": COLOURS[i % len(COLOURS)], "fmt": "osD^v"[i % 5], "markersize": 4}
                panel.errorbar(places, self.ratio[i], ends, linewidth=1.0, label=tables.shortened(name), **style)
            low, high = np.nanmin(self.low, initial=0.8), np.nanmax(self.high, initial=1.25)
            panel.set_ylim(0.95 * low, min(1.05 * high, 10.0))
            panel.locator_params(axis="x", integer=True)
            panel.set_xlabel("position")
            panel.set_ylabel("observed / predicted clicks")
            title = "ALARM: off by more than a tenth" if self.alarm else "No alarm"
            panel.set_title(f"Rankers held out in turn: {title}", loc="left", fontweight="bold")
            panel.legend(loc="best")
        return drawing


def check_bias(bias: "Bias", log: Log, other: Log | None = None, *, level: float = 0.95) -> BiasCheck:
    """Predict the clicks of each ranker of a log from those of the others, or of each of two logs from the other.

    With r̂ = Σ (clicks − β·impressions) / Σ α·impressions over the other rankers' impressions of a document at other
    positions, which has the document's relevance as its mean whatever the number of impressions, the clicks of the
    held-out ranker have the mean of impressions · (α r̂ + β) if the bias is right. With times, both are of one period
    where enough documents moved within one.
    """
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    log = log if other is None else _joined(log, other)
    confounded = confounding(bias, log, level)
    if confounded.period is not None:
        daily, items = items_by_period(log, confounded.period)
        outcome = _held_out(bias, daily, items, level)
        if outcome.possible:
            return replace(outcome, alarms=confounded.alarms, blind=confounded.blind, period=confounded.period)
    return replace(_held_out(bias, log, log.pairs, level), alarms=confounded.alarms, blind=confounded.blind)


def _held_out(bias: "Bias", log: Log, items: Numbers, level: float) -> BiasCheck:
    """Compare the clicks of each ranker with predictions; ``items`` are documents, or documents of a period."""
    alpha, beta = bias.of_cells(log)
    cells = pl.DataFrame(
        {
            "unit": items * len(log.segment_names) + log.segments,
            "query": log.queries,
            "ranker": log.rankers,
            "position": log.positions,
            "shown": log.impressions,
            "clicks": log.clicks,
            "exposure": log.impressions * alpha,
            "trust": log.impressions * beta,
        }
    )
    exposure, elsewhere, trust = pl.col("exposure"), pl.col("elsewhere"), pl.col("trust")
    cells = cells.with_columns(elsewhere=_of_others(exposure), excess=_of_others(pl.col("clicks") - trust))
    cells = cells.filter((elsewhere > 1e-9 * exposure.sum().over("unit")) & (exposure > 0))  # what is less is rounding
    # The inverse variance of what is compared, up to relevance; any weights keep both sides equal on average.
    weight = elsewhere / (elsewhere + exposure)
    sums = cells.group_by("ranker", "position", "query", maintain_order=True).agg(
        shown=pl.sum("shown"),
        observed=(weight * pl.col("clicks")).sum(),
        predicted=(weight * (exposure * pl.col("excess") / elsewhere + trust)).sum(),
    )
    n_rankers, n_positions = len(log.ranker_names), bias.alpha.size
    rankers, positions, _, shown, observed, predicted = (column.to_numpy() for column in sums.iter_columns())
    places = rankers * n_positions + positions - 1
    ratios: Keywords = _ratios(places, observed, predicted, n_rankers * n_positions, level)
    in_all, shared = sums_by(log.rankers, log.impressions, n_rankers), sums_by(rankers, shown, n_rankers)
    outcome = BiasCheck(
        names=log.ranker_names,
        **{name: column.reshape(n_rankers, n_positions) for name, column in ratios.items()},
        shared=shared / np.maximum(in_all, 1e-300),
        level=level,
    )
    if np.count_nonzero(in_all) < 2:
        reason = "the log has one ranker; pass a second log, such as that of the time after a change of the index"
    elif not shared.any():
        reason = "no document was shown at different positions by different rankers"
    else:
        reason = "too few clicks to see an error of a fifth at any position" if outcome.unseen.all() else ""
    return replace(outcome, reason=reason)


def _ratios(places: NDArray[np.int64], observed: Array, predicted: Array, size: int, level: float) -> dict[str, Array]:
    """Return observed and predicted clicks by place, their ratio, and its interval from the spread between queries."""
    clicks, expected = sums_by(places, observed, size), sums_by(places, predicted, size)
    n_queries = np.bincount(places, minlength=size)

    def spread(factor: Array) -> Array:
        gaps = observed - factor[places] * predicted
        return np.sqrt(sums_by(places, gaps**2, size) * n_queries / np.maximum(n_queries - 1, 1))

    enough = n_queries >= RESAMPLED
    width = norm.ppf(1.0 - (1.0 - level) / 2.0 / max(int(enough.sum()), 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(expected > 0, clicks / expected, np.where(clicks > 0, np.inf, np.nan))
        ordinary = (clicks > 0) & (expected > 0)
        half = width * spread(np.where(ordinary, ratio, 1.0)) / clicks
        # Without observed clicks, or with predictions below 0, the ratio has no logarithm; the difference has an error.
        apart = np.sign(clicks - expected) * (np.abs(clicks - expected) > width * spread(np.ones(size)))
        low = np.where(ordinary, ratio * np.exp(-half), np.where(apart > 0, np.inf, 0.0))
        high = np.where(ordinary, ratio * np.exp(half), np.where(apart < 0, 0.0, np.inf))
    low[~enough] = high[~enough] = np.nan
    return {"observed": clicks, "predicted": expected, "ratio": ratio, "low": low, "high": high}


def _of_others(column: pl.Expr) -> pl.Expr:
    """Return for each cell the sum over its document's cells with another ranker and another position."""
    return (
        column.sum().over("unit")
        - column.sum().over("unit", "ranker")
        - column.sum().over("unit", "position")
        + column.sum().over("unit", "ranker", "position")
    )


def _joined(log: Log, other: Log) -> Log:
    """Return one log of two, as of two rankers; queries and documents are matched by their ids."""
    frames = [
        part.to_frame().with_columns(pl.col("query", "document").cast(pl.String), ranker=pl.lit(name))
        for part, name in ((log, "the first log"), (other, "the second log"))
    ]
    cells = pl.concat([frame.select(*KEYS, "impressions", "clicks") for frame in frames]).lazy()
    clicked = cells.with_columns(weight=pl.col("clicks"), clicked=1)
    missed = cells.with_columns(weight=pl.col("impressions") - pl.col("clicks"), clicked=0)
    return Log.from_rows([clicked, missed], sessions=False)


def _at(positions: Numbers) -> str:
    return f"position{'s' if positions.size > 1 else ''} {tables.spans(positions)}"
