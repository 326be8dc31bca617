"""Times of ratings: numbers in any unit, dates and date-times, and these as text of ISO 8601."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import polars as pl

from rankwise import check

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_USUAL = ("%+", "%FT%T%.f", "%F %T%.f")
"""Formats of a whole column that polars reads thirty times faster: RFC 3339, and the same without a zone."""


def times_of(series: pl.Series, place: Callable[[int], str]) -> pl.Series:
    """Return times as numbers: numbers unchanged, dates and date-times as seconds since 1970.

    Times without a zone are in UTC. If any number has a fraction all are floats, else all are integers. ``place``
    returns the place of a row for messages.

    >>> times_of(pl.Series(["1970-01-02", "1970-01-02T01:00"]), str).to_list()
    [86400, 90000]
    >>> times_of(pl.Series(["1970-01-01T00:00:01.5Z"]), str).to_list()
    [1.5]
    """
    kind = series.dtype
    if kind in (pl.Date, pl.Datetime):
        return _seconds(series.cast(pl.Datetime("us")).dt.epoch("us"))
    if not kind.is_numeric() and kind not in (pl.Boolean, pl.String):
        raise _refused(series, 0, place)
    plain = series.str.strip_chars() if kind == pl.String else series
    if not kind.is_float() and not (integers := plain.cast(pl.Int64, strict=False)).null_count():
        return integers
    numbers = plain.cast(pl.Float64, strict=False)
    if kind == pl.String and numbers.null_count():
        return _seconds(_microseconds(plain, place))
    beyond = ~(numbers.abs() < 2.0**63)
    if beyond.any():
        row = int(beyond.arg_max() or 0)
        what = "times must be finite numbers of at most 64 bits"
        raise check.error(what, got=f"{series[row]}", where=place(row), hint="drop the row")
    return numbers.cast(pl.Int64) if (numbers == numbers.floor()).all() else numbers


def _microseconds(texts: pl.Series, place: Callable[[int], str]) -> pl.Series:
    """Return the microseconds since 1970 of texts."""
    for usual in _USUAL:
        quick = texts.str.to_datetime(usual, strict=False, time_unit="us")
        if not quick.null_count():
            return quick.dt.epoch("us")
    counts, zoned = [], None
    for row, text in enumerate(texts.to_list()):
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            raise _refused(texts, row, place) from None
        if zoned is not None and zoned != (moment.tzinfo is not None):
            hint = "name the zone of all of them, such as 2024-05-31T18:30:00+02:00, or of none"
            raise check.error("some times name a zone and others do not", got=repr(text), where=place(row), hint=hint)
        zoned = moment.tzinfo is not None
        counts.append(((moment if zoned else moment.replace(tzinfo=UTC)) - _EPOCH) // _MICROSECOND)
    return pl.Series(texts.name, counts, dtype=pl.Int64)


def _seconds(microseconds: pl.Series) -> pl.Series:
    if (microseconds % 1_000_000 == 0).all():
        return microseconds // 1_000_000
    return microseconds / 1e6


def _refused(series: pl.Series, row: int, place: Callable[[int], str]) -> ValueError:
    return check.error(
        "the column of the time must hold numbers, dates or date-times",
        got=f"{series[row]!r}, {series.dtype}",
        where=place(row),
        hint="write 2024-05-31, 2024-05-31T18:30:00.5+02:00, or numbers",
    )
