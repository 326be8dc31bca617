"""Days of a click log: when each cell was shown, and how times are read."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise.base.arrays import Array, read_only

_ISO = (
    r"^(?<date>[0-9]{4}-[0-9]{2}-[0-9]{2})(?:[T ](?<hour>[0-9]{2}):(?<minute>[0-9]{2})"
    r"(?::(?<second>[0-9]{2}(?:[.,][0-9]+)?))?\s*(?<zone>[Zz]|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)?)?$"
)
_DAY = 86_400


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
