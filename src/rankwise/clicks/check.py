"""Whether a position bias predicts the clicks of a ranker that it has not seen."""

from dataclasses import dataclass
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

if TYPE_CHECKING:
    from rankwise.clicks.bias import Bias

TOLERANCE = 0.1
"""How far observed clicks may be from predicted ones, as a share, before there is an alarm."""
_FEWEST = 10  # queries behind a ratio


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class BiasCheck:
    """Clicks of each ranker by position, observed and predicted from the clicks of the others.

    Only documents count that the others showed at another position, and each counts less where its prediction rests on
    few clicks: the sums are weighted.
    """

    names: tuple[str, ...]
    """What was held out: rankers, or the second log."""
    observed: Array
    """Weighted clicks by held-out ranker and position."""
    predicted: Array
    low: Array
    """Ends of the intervals of observed over predicted; together they hold with probability ``level``."""
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
    def ratio(self) -> Array:
        """Observed over predicted clicks; NaN where nothing is predicted."""
        return _over(self.observed, self.predicted)

    @property
    def off(self) -> NDArray[np.bool_]:
        """Whether a ratio is off by more than a tenth, and not by chance."""
        by_chance = (self.low <= 1.0) & (self.high >= 1.0)
        return (np.abs(self.ratio - 1.0) > TOLERANCE) & ~by_chance & ~np.isnan(self.low)

    @property
    def unseen(self) -> NDArray[np.bool_]:
        """Whether a position has too few clicks to see an error of a fifth."""
        width: Array = np.log(self.high) - np.log(self.low)
        wide: NDArray[np.bool_] = ~(width < 2.0 * np.log1p(2.0 * TOLERANCE))
        return wide

    @property
    def alarm(self) -> bool:
        """Whether the bias is wrong by more than a tenth at a position, beyond what chance allows."""
        return bool(self.off.any())

    @property
    def sentence(self) -> str:
        """The verdict."""
        if not self.possible:
            return f"This bias cannot be checked: {self.reason}."
        if self.alarm:
            wrong = spans(np.flatnonzero(self.off.any(0)) + 1)
            worst = np.unravel_index(
                np.nanargmax(np.where(self.off, np.abs(np.log(self.ratio)), np.nan)), self.off.shape
            )
            return (
                f"ALARM: clicks are off by more than a tenth at positions {wrong}; {self.names[worst[0]]!r} has "
                f"{self.ratio[worst]:.2f} times the predicted clicks at position {worst[1] + 1}."
            )
        unseen = np.flatnonzero(self.unseen.all(0)) + 1
        blind = f"; too few clicks to see an error at positions {spans(unseen)}" if unseen.size else ""
        return f"No alarm: clicks of rankers that were held out are predicted within a tenth, or within chance{blind}."

    def to_frame(self) -> pl.DataFrame:
        """One row per held-out ranker and position."""
        shape = self.observed.shape
        columns = {
            name: getattr(self, name).ravel() for name in ("observed", "predicted", "ratio", "low", "high", "off")
        }
        positions = np.tile(np.arange(1, shape[1] + 1), shape[0])
        return pl.DataFrame({"ranker": np.repeat(self.names, shape[1]), "position": positions, **columns})

    def table(self) -> tables.Table:
        """Return a table with a row per position and observed over predicted clicks of each held-out ranker."""
        ratio, off = self.ratio, self.off
        rows = tuple(
            (
                str(k + 1),
                *(
                    f"{tables.number(ratio[i, k], 3)}{' !' if off[i, k] else ''} "
                    f"{tables.interval(self.low[i, k], self.high[i, k], 2)}"
                    for i in range(len(self.names))
                ),
            )
            for k in range(self.observed.shape[1])
        )
        shares = (f"{tables.shortened(name)} {share:.0%}" for name, share in zip(self.names, self.shared, strict=True))
        return tables.Table(
            header=("position", *map(tables.shortened, self.names)),
            rows=rows,
            align="r" * (len(self.names) + 1),
            notes=(
                self.sentence,
                f"Impressions of documents that others showed at another position: {', '.join(shares)}. Intervals hold "
                f"together at {self.level:.0%}.",
            ),
        )

    def __repr__(self) -> str:
        return f"BiasCheck({self.sentence})"

    def __str__(self) -> str:
        if not self.possible:
            return self.sentence
        return f"observed over predicted clicks of each ranker, held out in turn\n{self.table().text()}"

    def _repr_html_(self) -> str:
        return self.table().html() if self.possible else f"<p>{self.sentence}</p>"

    def plot(self, path: str | Path, *, force: bool = False) -> Path:
        """Draw observed over predicted clicks by position: .png, .svg or .pdf."""
        from rankwise.clicks.bias_figures import plot_check

        if not self.possible:
            raise check.error("there is nothing to draw", got=self.sentence)
        return plot_check(self, path, force=force)


def check_bias(bias: "Bias", log: Log, other: Log | None = None, *, level: float = 0.95) -> BiasCheck:
    """Predict the clicks of each ranker of a log from those of the others, or of another log from this one.

    With r̂ = Σ (clicks − β·impressions) / Σ α·impressions over the other rankers' impressions of a document at other
    positions, which has the document's relevance as its mean whatever the number of impressions, the clicks of the
    held-out ranker have the mean of impressions · (α r̂ + β) if the bias is right.
    """
    check.number("level", level, least=0.0, most=1.0, open_ends=True)
    if other is None:
        names, held = log.ranker_names, log.rankers
        units = log.pairs * len(log.segment_names) + log.segments
        queries, positions, shown, clicks = log.queries, log.positions, log.impressions, log.clicks
        alpha, beta = bias.of_cells(log)
        if np.unique(held[shown > 0]).size < 2:
            reason = "the log has one ranker; pass a second log, such as that of the time after a change of the index"
            return _impossible(names, bias.n_positions, level, reason)
    else:
        names = ("the first log", "the second log")
        units, queries = _joined(log, other)
        columns = zip(*((one.positions, one.impressions, one.clicks, *bias.of_cells(one)) for one in (log, other)))  # noqa: B905
        positions, shown, clicks, alpha, beta = (np.concatenate(column) for column in columns)
        held = np.repeat([0, 1], [log.pairs.size, other.pairs.size])
    exposure, excess = shown * alpha, clicks - shown * beta
    elsewhere = [_of_others(column, units, positions, held) for column in (exposure, excess)]
    usable = (elsewhere[0] > 1e-9) & (exposure > 0)
    shared = sums_by(held, shown * usable, len(names)) / np.maximum(sums_by(held, shown, len(names)), 1e-300)
    if not usable.any():
        reason = "no document was shown at different positions by different rankers"
        return _impossible(names, bias.n_positions, level, reason)
    cells = np.flatnonzero(usable)
    # The inverse variance of what is compared, up to relevance; any weights keep both sides equal on average.
    weight = elsewhere[0][cells] / (elsewhere[0][cells] + exposure[cells])
    prediction = exposure[cells] * elsewhere[1][cells] / elsewhere[0][cells] + shown[cells] * beta[cells]
    return _compared(
        names,
        held[cells] * bias.n_positions + positions[cells] - 1,
        queries[cells],
        weight * clicks[cells],
        weight * prediction,
        (len(names), bias.n_positions),
        shared,
        level,
    )


def _compared(
    names: tuple[str, ...],
    places: Numbers,
    queries: Numbers,
    observed: Array,
    predicted: Array,
    shape: tuple[int, int],
    shared: Array,
    level: float,
) -> BiasCheck:
    """Add up clicks by place, and compute intervals of the ratios from the spread between queries."""
    size = shape[0] * shape[1]
    sums = [sums_by(places, column, size) for column in (observed, predicted)]
    ratio = _over(*sums)
    of_query, number = np.unique(places * (int(queries.max()) + 1) + queries, return_inverse=True)
    gaps = sums_by(number, observed - ratio[places] * predicted)
    place = of_query // (int(queries.max()) + 1)
    n_queries = np.bincount(place, minlength=size)
    spread = sums_by(place, gaps**2, size) * n_queries / np.maximum(n_queries - 1, 1)
    with np.errstate(all="ignore"):
        error = np.sqrt(spread) / sums[0]  # of the logarithm
    error[(n_queries < _FEWEST) | (sums[1] <= 0) | (sums[0] <= 0)] = np.nan
    several = max(int(np.isfinite(error).sum()), 1)
    half = norm.ppf(1.0 - (1.0 - level) / 2.0 / several) * error
    low, high = ratio * np.exp(-half), ratio * np.exp(half)
    reason = "" if np.isfinite(error).any() else f"fewer than {_FEWEST} queries with clicks that could be compared"
    columns = (column.reshape(shape) for column in (*sums, low, high))
    observed, predicted, low, high = columns
    return BiasCheck(
        names=names, observed=observed, predicted=predicted, low=low, high=high, shared=shared, level=level,
        reason=reason,
    )  # fmt: skip


def _impossible(names: tuple[str, ...], n_positions: int, level: float, reason: str) -> BiasCheck:
    nothing = np.full((len(names), n_positions), np.nan)
    shared = np.zeros(len(names))
    return BiasCheck(
        names=names, observed=nothing, predicted=nothing, low=nothing, high=nothing, shared=shared, level=level,
        reason=reason,
    )  # fmt: skip


def _of_others(column: Array, units: Numbers, positions: Numbers, held: Numbers) -> Array:
    """Return for each cell the sum of its document's cells with another ranker and another position."""
    total = _sums(column, units)
    same_ranker = _sums(column, units * (int(held.max()) + 1) + held)
    place = units * (int(positions.max()) + 1) + positions
    both = _sums(column, place * (int(held.max()) + 1) + held)
    return total - same_ranker - _sums(column, place) + both


def _over(observed: Array, predicted: Array) -> Array:
    """Return a ratio; NaN where nothing is predicted."""
    ratio: Array = np.divide(observed, predicted, where=predicted > 0, out=np.full(observed.shape, np.nan))
    return ratio


def _sums(column: Array, keys: Numbers) -> Array:
    """Return the sum over the cells of the same key, for each cell."""
    _, number = np.unique(keys, return_inverse=True)
    return sums_by(number, column)[number]


def _joined(log: Log, other: Log) -> tuple[Numbers, Numbers]:
    """Return numbers of documents, by segment, and of queries that are the same in two logs, for the cells of both."""
    frames = []
    for one in (log, other):
        names = np.array(one.segment_names)[one.segments]
        ids = {"query": one.query_ids.astype(str)[one.queries], "document": one.document_ids.astype(str)[one.pairs]}
        frames.append(pl.DataFrame({**ids, "segment": names}))
    both = pl.concat(frames)
    numbers = (pl.struct(keys).rank("dense").cast(pl.Int64) - 1 for keys in (["query", "document", "segment"], "query"))
    units, queries = (both.select(number).to_series().to_numpy() for number in numbers)
    return units, queries
