"""Tables of ratings: users, items, ratings and times, from CSV, Parquet and the files of MovieLens."""

import re
from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Ids, Keywords, offsets_of
from rankwise.base.compiling import kernel
from rankwise.data.io import (
    BYTE_ORDER_MARK,
    Table,
    TextTable,
    as_polars,
    checked_ids,
    ids_from_text,
    ids_to_numpy,
    is_parquet,
    marks,
    parse,
    read_bytes,
    without_nulls,
)

SPELLINGS = {
    "user": ("user", "userid", "uid"),
    "item": ("item", "itemid", "iid", "movie", "movieid"),
    "rating": ("rating", "ratings", "stars"),
    "time": ("time", "timestamp"),
}
"""Usual names of columns, in lower case and without other characters."""
_FILES = ("ratings.csv", "ratings.csv.gz", "ratings.parquet", "ratings.dat", "u.data")
"""Usual names of files of ratings in a folder."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_USUAL = ("%+", "%FT%T%.f", "%F %T%.f")
"""Formats of a whole column that polars reads thirty times faster: RFC 3339, and the same without a zone."""


def read_ratings(
    path: str | Path, named: Collection[str] = (), ids: Collection[str | None] = ()
) -> TextTable | pl.DataFrame:
    """Read a table of ratings: Parquet, or text with commas, tabs, semicolons, or MovieLens' ``::`` between columns.

    Text may be compressed. A first line whose third column is no number names the columns; without one they are
    user, item, rating and time. Columns with usual names are renamed to their roles, except those that the caller has
    ``named``. Of a folder, the ratings inside it are read. Ids, of users and items or in columns
    ``ids``, are integers where all of a column print as they are written, else text.
    """
    path = file_of_ratings(path)
    if is_parquet(path):
        return _named(read_parquet(path), named)
    spellings = {*SPELLINGS["user"], *SPELLINGS["item"]}
    text = _read_text(path, lambda name: name in ids or plain(name) in spellings)
    return replace(text, frame=_named(text.frame, named))


def read_parquet(path: Path) -> pl.DataFrame:
    """Read a Parquet file of any columns."""
    with check.library("Parquet", path):
        return pl.read_parquet(check.readable(path))


def _read_text(path: Path, is_id: Callable[[str], bool]) -> TextTable:
    """Read a table. A first line whose third column is no number names the columns; blank lines are left out.

    ``is_id`` decides which columns hold ids.
    """
    text = read_bytes(path).removeprefix(BYTE_ORDER_MARK)
    first = text[: text.find(b"\n")] if b"\n" in text else text
    between = next((mark for mark in (b"::", b"\t", b";", b",") if mark in first), b",")
    if between == b"::":
        text, between = text.replace(b"::", b"\t"), b"\t"
        first = first.replace(b"::", b"\t")
    words = first.strip().split(between)
    header = len(words) < 3 or re.fullmatch(rb"[-+.,\deE]+", words[2].strip()) is None
    between_columns = between.decode()
    table = parse(text, path, between=between_columns, header=header)
    if table.frame.is_empty():
        raise check.error("there are no ratings in the file", where=str(path), hint="write one line per rating")
    if not header:
        table = replace(table, frame=table.frame.rename(dict(zip(table.columns, SPELLINGS, strict=False))))
    frame = table.frame
    named = [name for name in frame.columns if is_id(name)]
    numbers = marks.read(frame.drop(named), None, None, between_columns).columns  # 4,5 where semicolons are
    return replace(table, frame=frame.with_columns(*numbers, *(ids_from_text(frame[name]) for name in named)))


def file_of_ratings(path: str | Path) -> Path:
    """Return the file of ratings, which may be in a folder as that of MovieLens."""
    path = Path(path)
    if not path.is_dir():
        return path
    file = next((path / name for name in _FILES if (path / name).is_file()), None)
    if file is None:
        got = "a folder without them" if any(path.iterdir()) else "an empty folder"
        hint = f"name the file, or call it {_FILES[0]}"
        raise check.error("there are no ratings", got=got, where=str(path), hint=hint)
    return file


def _named(table: pl.DataFrame, named: Collection[str]) -> pl.DataFrame:
    names = {plain(name): name for name in table.columns if name not in named}
    by_role = {role: next((names[word] for word in words if word in names), None) for role, words in SPELLINGS.items()}
    return table.rename({name: role for role, name in by_role.items() if name and role not in table.columns})


def plain(name: str) -> str:
    """Return a name in lower case, without other characters than letters."""
    return re.sub(r"[^a-z]", "", name.lower())


def arranged(frame: Table | TextTable, roles: dict[str, str | None], catalogue: ArrayLike | None) -> Keywords:
    """Return a table as the arrays of ``Interactions``, sorted by user and then by item."""
    place = frame.place if isinstance(frame, TextTable) else _row
    table = columns(frame, roles)
    users, of_user = numbered(table["user"])
    items, of_item = numbered(table["item"], None if catalogue is None else np.unique(catalogue), place)
    rows, by_item = np.arange(len(table)), np.empty(len(table), np.int64)
    stable_order(of_item, items.size, rows, by_item)
    stable_order(of_user, users.size, by_item, rows)
    of_user, of_item = of_user[rows], of_item[rows]
    again = (of_user[1:] == of_user[:-1]) & (of_item[1:] == of_item[:-1])
    counted, ratings = "rating" not in table.columns, None
    times = table["time"].to_numpy()[rows] if "time" in table.columns else None
    if counted:
        firsts = np.flatnonzero(np.append(True, ~again))  # of each pair's events
        ratings = np.diff(np.append(firsts, rows.size)).astype(np.float64)
        times = None if times is None else np.maximum.reduceat(times, firsts)
        of_user, of_item = of_user[firsts], of_item[firsts]
    elif again.any():
        row = int(np.argmax(again))
        raise check.error(
            "a user may rate an item once",
            got=f"user {users[of_user[row]].item()!r} and item {items[of_item[row]].item()!r} twice",
            where=f"{place(int(rows[row]))} and {place(int(rows[row + 1]))}",
            hint="keep one of the rows, or `set rating=None|use --implicit`: every row is then an event",
        )
    return {
        "users": users,
        "items": of_item,
        "ratings": table["rating"].to_numpy()[rows] if ratings is None else ratings,
        "offsets": offsets_of(np.bincount(of_user, minlength=users.size)),
        "catalogue": items,
        "times": times,
    }


def _row(row: int) -> str:
    return f"row {row}"


@kernel
def stable_order(codes, count, rows, out):  # type: ignore[no-untyped-def]
    """Sort ``rows`` by their codes below ``count``, in linear time; equal codes stay in the order of ``rows``."""
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(count):
        starts[code + 1] += starts[code]
    for row in rows:
        out[starts[codes[row]]] = row
        starts[codes[row]] += 1


def columns(frame: Table | TextTable, roles: dict[str, str | None]) -> pl.DataFrame:
    """Return the columns of these roles, named by them and checked: ids, finite ratings, times."""
    place = frame.place if isinstance(frame, TextTable) else _row
    table, _ = as_polars(frame.frame if isinstance(frame, TextTable) else frame)
    named = {role: name for role, name in roles.items() if name is not None}
    schema = table.collect_schema()
    for role, name in named.items():
        if name not in schema:
            hint = check.suggestion(name, schema.names()) + f", or `set {role}='…'`"
            raise check.error(f"the table has no such column for the {role}", got=repr(name), hint=hint)
    checked = []
    for series in table.select(pl.col(name).alias(role) for role, name in named.items()).collect().iter_columns():
        without_nulls(series, f"the {series.name} must be known in every row", place)
        if series.name in ("rating", "time"):
            values = {"rating": _numbers, "time": times_of}[series.name](series, place)
        else:
            ids = checked_ids(series, series.name, place)
            values = ids if ids.dtype in (pl.UInt64, pl.String) else ids.cast(pl.Int64)
        checked.append(values.alias(series.name))
    return pl.DataFrame(checked)


def numbered(
    ids: pl.Series, catalogue: Ids | None = None, place: Callable[[int], str] = _row
) -> tuple[Ids, NDArray[np.int32]]:
    """Return all different ids in order, and the number of each row's id among them.

    >>> numbered(pl.Series(["b", "a", "b"]))
    (array(['a', 'b'], dtype='<U1'), array([1, 0, 1], dtype=int32))
    """
    if catalogue is not None and (catalogue.dtype.kind in "iu") != ids.dtype.is_integer():  # 12 and "12" are one item
        ids, catalogue = ids.cast(pl.String), np.unique(catalogue.astype(np.str_))
    different = (ids.unique() if catalogue is None else pl.Series(ids.name, catalogue)).sort()
    table = different.to_frame().with_columns(pl.int_range(pl.len(), dtype=pl.Int32).alias("number"))
    numbers = ids.to_frame().join(table, on=ids.name, how="left", maintain_order="left")["number"]
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        hint = "leave catalogue out, or list every item in it"
        raise check.error("an item is not in the catalogue", got=repr(ids[row]), where=place(row), hint=hint)
    return ids_to_numpy(different), numbers.to_numpy()


def _numbers(series: pl.Series, place: Callable[[int], str]) -> pl.Series:
    """Return ratings, which must be finite numbers."""
    words = series.str.strip_chars() if series.dtype == pl.String else series
    numeric = series.dtype.is_numeric() or series.dtype in (pl.Boolean, pl.String)
    numbers = words.cast(pl.Float64, strict=False) if numeric else pl.Series([None] * len(series), dtype=pl.Float64)
    if numbers.null_count():
        row = int(numbers.is_null().arg_max() or 0)
        what, got = f"the column of the {series.name} must hold numbers", f"{series[row]!r}, {series.dtype}"
        raise check.error(what, got=got, where=place(row), hint="cast it, or mend the row")
    if not numbers.is_finite().all():
        row = int((~numbers.is_finite()).arg_max() or 0)
        raise check.error("ratings must be finite", got=f"{series[row]}", where=place(row), hint="drop the row")
    return numbers


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
    words = series.str.strip_chars() if kind == pl.String else series
    if not kind.is_float() and not (integers := words.cast(pl.Int64, strict=False)).null_count():
        return integers
    numbers = words.cast(pl.Float64, strict=False)
    if kind == pl.String and numbers.null_count():
        return _seconds(_microseconds(words, place))
    beyond = ~(numbers.abs() < 2.0**63)
    if beyond.any():
        row = int(beyond.arg_max() or 0)
        what = "times must be finite numbers of at most 64 bits"
        raise check.error(what, got=f"{series[row]}", where=place(row), hint="drop the row")
    return numbers.cast(pl.Int64) if (numbers == numbers.floor()).all() else numbers


def _microseconds(texts: pl.Series, place: Callable[[int], str]) -> pl.Series:
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
    return microseconds // 1_000_000 if (microseconds % 1_000_000 == 0).all() else microseconds / 1e6


def _refused(series: pl.Series, row: int, place: Callable[[int], str]) -> ValueError:
    what, got = "the column of the time must hold numbers, dates or date-times", f"{series[row]!r}, {series.dtype}"
    hint = "write 2024-05-31, 2024-05-31T18:30:00.5+02:00, or numbers"
    return check.error(what, got=got, where=place(row), hint=hint)
