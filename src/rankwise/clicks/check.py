"""Whether a position bias predicts the clicks of a ranker that it has not seen."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.stats import norm

from rankwise import check
from rankwise.arrays import Array
from rankwise.clicks.harvest import Numbers, spans, sums_by
from rankwise.clicks.log import Log
from rankwise.statistics import tables
from rankwise.statistics.significance import RESAMPLED

if TYPE_CHECKING:
    from rankwise.clicks.bias import Bias

TOLERANCE = 0.1
"""How far observed clicks may be from predicted ones, as a share, before there is an alarm."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BiasCheck:
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

    @property
    def possible(self) -> bool:
        """Whether anything could be checked."""
        return not self.reason

    @property
    def off(self) -> NDArray[np.bool_]:
        """Where clicks are off by more than a tenth, and not by chance."""
        return (np.abs(self.ratio - 1.0) > TOLERANCE) & ((self.low > 1.0) | (self.high < 1.0))

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Where there are too few clicks to see an error of a fifth."""
        seen: NDArray[np.bool_] = self.high < self.low * (1.0 + 2.0 * TOLERANCE) ** 2
        return ~(seen | self.off)

    @property
    def alarm(self) -> bool:
        """Whether the bias is wrong by more than a tenth at a position, beyond what chance allows."""
        return bool(self.off.any())

    @property
    def sentence(self) -> str:
        """The verdict."""
        if self.alarm:
            gaps = np.where(self.off, np.abs(np.log(np.maximum(self.ratio, 1e-9))), 0.0)
            ranker, place = np.unravel_index(int(np.argmax(gaps)), gaps.shape)
            where = spans(np.flatnonzero(self.off.any(0)) + 1)
            return (
                f"ALARM: clicks are off by more than a tenth at positions {where}; "
                f"{self.names[ranker]!r} has {self.ratio[ranker, place]:.2f} times the predicted clicks at position "
                f"{place + 1}."
            )
        if not self.possible:
            return f"This bias cannot be checked: {self.reason}."
        unseen = np.flatnonzero(self.unseen.all(0)) + 1
        blind = f"; too few clicks to see an error of a fifth at positions {spans(unseen)}" if unseen.size else ""
        return f"No alarm: clicks of what was held out are predicted within a tenth, or within chance{blind}."

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
        return tables.Table(header=header, rows=rows, align="r" * len(header), notes=(self.sentence, note))

    def __repr__(self) -> str:
        return f"BiasCheck({self.sentence})"

    def __str__(self) -> str:
        title = "observed over predicted clicks of each ranker, held out in turn"
        return f"{title}\n{self.table().text()}" if self.shared.any() else self.sentence

    def _repr_html_(self) -> str:
        return self.table().html() if self.shared.any() else f"<p>{self.sentence}</p>"

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw observed over predicted clicks by position: .png, .svg or .pdf."""
        from rankwise.clicks.bias_figures import plot_check

        if not self.shared.any():
            raise check.error("there is nothing to draw", got=self.sentence)
        return plot_check(self, path, force=force)


def check_bias(bias: "Bias", log: Log, other: Log | None = None, *, level: float = 0.95) -> BiasCheck:
    """Predict the clicks of each ranker of a log from those of the others, or of each of two logs from the other.

    With r̂ = Σ (clicks − β·impressions) / Σ α·impressions over the other rankers' impressions of a document at other
    positions, which has the document's relevance as its mean whatever the number of impressions, the clicks of the
    held-out ranker have the mean of impressions · (α r̂ + β) if the bias is right.
    """
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    logs = [log] if other is None else [log, other]
    parts = [(one.positions, one.impressions, one.clicks, *bias.of_cells(one)) for one in logs]
    positions, shown, clicks, alpha, beta = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    if other is None:
        names, held, queries = log.ranker_names, log.rankers, log.queries
        units = log.pairs * len(log.segment_names) + log.segments
    else:
        names = ("the first log", "the second log")
        held = np.repeat([0, 1], [log.pairs.size, other.pairs.size])
        units, queries = _joined(logs)
    exposure = shown * alpha
    elsewhere, excess = _of_others([exposure, clicks - shown * beta], units, positions, held)
    usable = (elsewhere > 0) & (exposure > 0)
    cells = np.flatnonzero(usable)
    # The inverse variance of what is compared, up to relevance; any weights keep both sides equal on average.
    weight = elsewhere[cells] / (elsewhere[cells] + exposure[cells])
    prediction = exposure[cells] * excess[cells] / elsewhere[cells] + shown[cells] * beta[cells]
    places = held[cells] * bias.n_positions + positions[cells] - 1
    size = len(names) * bias.n_positions
    columns = _ratios(places, queries[cells], weight * clicks[cells], weight * prediction, size, level)
    observed, predicted, ratio, low, high = (column.reshape(len(names), -1) for column in columns)
    outcome = BiasCheck(
        names=names, observed=observed, predicted=predicted, ratio=ratio, low=low, high=high, level=level,
        shared=sums_by(held, shown * usable, len(names)) / np.maximum(sums_by(held, shown, len(names)), 1e-300),
    )  # fmt: skip
    if np.unique(held[shown > 0]).size < 2:
        reason = "the log has one ranker; pass a second log, such as that of the time after a change of the index"
    elif not cells.size:
        reason = "no document was shown at different positions by different rankers"
    else:
        reason = "too few clicks to see an error of a fifth at any position" if outcome.unseen.all() else ""
    return replace(outcome, reason=reason)


def _ratios(
    places: Numbers, queries: Numbers, observed: Array, predicted: Array, size: int, level: float
) -> tuple[Array, ...]:
    """Return observed and predicted clicks by place, their ratio, and its interval from the spread between queries."""
    sums = [sums_by(places, column, size) for column in (observed, predicted)]
    keys = places * (int(queries.max(initial=0)) + 1) + queries
    _, first, number = np.unique(keys, return_index=True, return_inverse=True)
    n_queries = np.bincount(places[first], minlength=size)

    def spread(factor: Array) -> Array:
        gaps = sums_by(number, observed - factor[places] * predicted, first.size)
        return np.sqrt(sums_by(places[first], gaps**2, size) * n_queries / np.maximum(n_queries - 1, 1))

    enough = n_queries >= RESAMPLED
    width = norm.ppf(1.0 - (1.0 - level) / 2.0 / max(int(enough.sum()), 1))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        ratio = np.where(sums[1] > 0, sums[0] / sums[1], np.where(sums[0] > 0, np.inf, np.nan))
        ordinary = (sums[0] > 0) & (sums[1] > 0)
        half = width * spread(np.where(ordinary, ratio, 1.0)) / sums[0]
        # Without observed clicks, or with predictions below 0, the ratio has no logarithm; the difference has an error.
        apart = np.sign(sums[0] - sums[1]) * (np.abs(sums[0] - sums[1]) > width * spread(np.ones(size)))
        low = np.where(ordinary, ratio * np.exp(-half), np.where(apart > 0, np.inf, 0.0))
        high = np.where(ordinary, ratio * np.exp(half), np.where(apart < 0, 0.0, np.inf))
    low[~enough] = high[~enough] = np.nan
    return *sums, ratio, low, high


def _of_others(columns: list[Array], units: Numbers, positions: Numbers, held: Numbers) -> list[Array]:
    """Return for each cell the sums of its document's cells with another ranker and another position."""
    n_rankers, n_positions = int(held.max(initial=0)) + 1, int(positions.max(initial=0)) + 1
    place = units * n_positions + positions
    keys = ((1, units), (-1, units * n_rankers + held), (-1, place), (1, place * n_rankers + held))
    sums = [np.zeros(units.size) for _ in columns]
    for sign, key in keys:
        _, number = np.unique(key, return_inverse=True)
        for j, column in enumerate(columns):
            sums[j] += sign * sums_by(number, column)[number]
        if sign == 1 and key is units:
            least = 1e-9 * sums[0]
    sums[0][sums[0] < least] = 0.0  # rounding
    return sums


def _joined(logs: list[Log]) -> tuple[Numbers, Numbers]:
    """Return numbers of documents by segment, and of queries, for the cells of several logs: equal where ids are."""
    frames = [
        pl.DataFrame(
            {
                "query": log.query_ids.astype(str)[log.queries],
                "document": log.document_ids.astype(str)[log.pairs],
                "segment": np.array(log.segment_names)[log.segments],
            }
        )
        for log in logs
    ]
    numbers = (
        pl.struct(keys).rank("dense").cast(pl.Int64) - 1 for keys in (["query", "document", "segment"], ["query"])
    )
    units, queries = (pl.concat(frames).select(number).to_series().to_numpy() for number in numbers)
    return units, queries
