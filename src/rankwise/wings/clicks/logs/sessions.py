"""Impressions one by one, cells by day, and how times are read."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords, Offsets, offsets_of, read_only

_ISO = (
    r"^(?<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?<hour>[0-9]{2}):(?<minute>[0-9]{2})"
    r"(?::(?<second>[0-9]{2}(?:[.,][0-9]+)?))?\s*(?<zone>[Zz]|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)
_DAY = 86_400


@dataclass(frozen=True, kw_only=True, eq=False)
class Sessions:
    """Impressions one by one: what memory between positions, users and cascades need."""

    offsets: Offsets
    """Where the rows of each impression begin; rows are in the order of positions."""
    pairs: NDArray[np.int32]
    """The pair of each row, as in the log."""
    positions: NDArray[np.int16]
    """The position of each row, from 1."""
    clicked: NDArray[np.bool_]
    rankers: NDArray[np.int16]
    """The ranker of each impression."""
    segments: NDArray[np.int16]
    """The segment of each impression."""
    weights: Array
    """The weight of each impression."""
    users: NDArray[np.int64] | None = None
    """The number of each impression's user."""
    user_ids: Column | None = None
    """One per user."""
    days: NDArray[np.int32] | None = None
    """The day of each impression since 1970-01-01 (UTC)."""
    probabilities: NDArray[np.float32] | None = None
    """The logging probability of each row."""

    @property
    def n_impressions(self) -> int:
        """Number of impressions."""
        return self.offsets.size - 1

    def part(
        self,
        rows: NDArray[np.bool_],
        *,
        pairs: NDArray[np.int64],
        rankers: NDArray[np.int64],
        segments: NDArray[np.int64],
    ) -> "Sessions":
        """Return these rows and the impressions that have any, with the new numbers of pairs, rankers and segments."""
        counts = np.add.reduceat(rows, self.offsets[:-1], dtype=np.int64)
        lists = counts > 0
        columns: Keywords = {
            "offsets": offsets_of(counts[lists]),
            "pairs": pairs[self.pairs[rows]].astype(np.int32),
            "positions": self.positions[rows],
            "clicked": self.clicked[rows],
            "rankers": rankers[self.rankers[lists]].astype(np.int16),
            "segments": segments[self.segments[lists]].astype(np.int16),
            "weights": self.weights[lists],
        }
        if self.users is not None:
            users, columns["users"] = np.unique(self.users[lists], return_inverse=True)
            columns["user_ids"] = None if self.user_ids is None else self.user_ids[users]
        columns["days"] = None if self.days is None else self.days[lists]
        columns["probabilities"] = None if self.probabilities is None else self.probabilities[rows]
        columns = {name: None if column is None else read_only(column) for name, column in columns.items()}
        return Sessions(**columns)

    @classmethod
    def from_rows(cls, rows: pl.LazyFrame) -> Self:
        """Read the impressions of checked rows with the numbers of their ``pair``, ``ranker`` and ``segment``."""
        schema = rows.collect_schema()
        number = pl.col("impression") if schema["impression"].is_integer() else pl.col("impression").hash()
        kinds = {"position": pl.Int16, "ranker": pl.Int16, "segment": pl.Int16, "clicked": pl.Boolean}
        kinds |= {"weight": pl.Float64, "probability": pl.Float32, "day": pl.Int32}
        typed = [pl.col(name).cast(kind) for name, kind in kinds.items() if name in schema]
        names = ["query", "pair", *(["user"] if "user" in schema else [])]
        ordered = rows.select(*names, *typed, impression=number).sort("query", "impression", "position", "pair")
        table = ordered.collect(engine="streaming")
        first = (table["impression"] != table["impression"].shift()).fill_null(value=True)
        first |= (table["query"] != table["query"].shift()).fill_null(value=True)
        heads = table.filter(first)
        number_of_row = first.cum_sum() - 1
        for key in ("ranker", "segment", "weight", *(("user",) if "user" in schema else ())):
            if (table[key] != heads[key].gather(number_of_row)).any():
                raise check.error(
                    f"an impression must have one {key}",
                    got="several",
                    hint=f"leave the {key} out, or `set sessions=False` where the parts of a page differ",
                )
        columns: Keywords = {"offsets": np.append(np.flatnonzero(first.to_numpy()), len(table))}
        of_rows = {"pairs": "pair", "positions": "position", "clicked": "clicked", "probabilities": "probability"}
        of_lists = {"rankers": "ranker", "segments": "segment", "weights": "weight", "days": "day"}
        for source, names_of in ((table, of_rows), (heads, of_lists)):
            columns |= {name: source[one].to_numpy() for name, one in names_of.items() if one in schema}
        if "user" in schema:
            columns["users"] = heads["user"].rank("dense").cast(pl.Int64).to_numpy() - 1
            columns["user_ids"] = heads["user"].unique().sort().to_numpy()
        return cls(**{name: read_only(column) for name, column in columns.items()})


@dataclass(frozen=True, eq=False)
class Days:
    """Impressions and clicks of the cells of a log by day (UTC)."""

    cells: NDArray[np.int32]
    """The cell of each row, sorted; days are sorted within a cell."""
    days: NDArray[np.int32]
    """Days since 1970-01-01."""
    impressions: Array
    clicks: Array

    def part(self, cells: NDArray[np.bool_]) -> "Days":
        """Return the rows of these cells, numbered anew."""
        rows = cells[self.cells]
        numbers = np.cumsum(cells, dtype=np.int32) - np.int32(1)
        columns = numbers[self.cells[rows]], self.days[rows], self.impressions[rows], self.clicks[rows]
        return Days(*map(read_only, columns))

    def periods(self, length: int) -> NDArray[np.int64]:
        """Return the number of each row's period of ``length`` days, from that of the first day."""
        numbers: NDArray[np.int64] = (self.days.astype(np.int64) - int(self.days.min())) // length
        return numbers


def day(column: pl.Expr, kind: pl.DataType) -> pl.Expr:
    """Return the day in UTC of a column of times, null where it holds none.

    Times are dates, datetimes, ISO 8601 with or without a zone (UTC), or seconds, milli-, micro- or nanoseconds since
    1970, of 2001 and later, which are told apart by their size.

    >>> texts = ["2024-05-01", "2024-05-01T23:30:00-02:00", "2024-05-01 00:10:00.5+0100", "1714521600", "1.5.2024"]
    >>> days = pl.DataFrame({"time": texts}).select(day(pl.col("time"), pl.String()).cast(pl.Date))
    >>> days.to_series().cast(pl.String).to_list()
    ['2024-05-01', '2024-05-02', '2024-04-30', '2024-05-01', None]
    """
    if isinstance(kind, pl.Date):
        return column.cast(pl.Int32)
    if isinstance(kind, pl.Datetime):
        in_utc = column.dt.convert_time_zone("UTC") if kind.time_zone else column
        return in_utc.dt.date().cast(pl.Int32)
    if not isinstance(kind, pl.String | pl.Categorical | pl.Enum):
        if not kind.is_numeric():  # a time of day or a duration would be read as nanoseconds since 1970
            return pl.lit(None, pl.Int32)
        return (_since_1970(column.cast(pl.Float64, strict=False)) / _DAY).floor().cast(pl.Int32)
    return (instant(column) / _DAY).floor().cast(pl.Int32)


def instant(column: pl.Expr) -> pl.Expr:
    """Return the seconds since 1970 of a column of times as text, null where it holds none.

    >>> texts = ["2024-05-01T10:00:00+02:00", "2024-05-01T08:00:00.5Z", "1714550400000"]
    >>> pl.DataFrame({"time": texts}).select(instant(pl.col("time"))).to_series().to_list()
    [1714550400.0, 1714550400.5, 1714550400.0]
    """
    text = column.cast(pl.String).str.strip_chars()
    parts = text.str.extract_groups(_ISO).struct
    date = parts.field("date").str.to_date("%Y-%m-%d", strict=False).cast(pl.Int32).cast(pl.Float64)
    hour, minute = (parts.field(name).cast(pl.Int32).fill_null(0) for name in ("hour", "minute"))
    second = parts.field("second").str.replace(",", ".", literal=True).cast(pl.Float64).fill_null(0.0)
    zone = parts.field("zone")
    away = zone.str.slice(1, 2).cast(pl.Int32, strict=False).fill_null(0) * 60
    away += zone.str.slice(3).str.strip_prefix(":").cast(pl.Int32, strict=False).fill_null(0)
    away = pl.when(zone.str.starts_with("-")).then(-away).otherwise(away)
    is_time = (hour <= 24) & (minute < 60) & (second < 61.0)
    of_text = pl.when(is_time).then(date * _DAY + (hour * 60 + minute - away) * 60 + second)
    return pl.coalesce(of_text, _since_1970(text.cast(pl.Float64, strict=False)))


def _since_1970(number: pl.Expr) -> pl.Expr:
    """Return a time in (parts of) seconds as seconds; smaller numbers may be dates such as 20240501."""
    scales = (1e9, 1e11, 1.0), (1e11, 1e14, 1e3), (1e14, 1e17, 1e6), (1e17, 1e19, 1e9)
    return pl.coalesce(
        pl.when(number.is_between(low, high, closed="left")).then(number / scale) for low, high, scale in scales
    )
