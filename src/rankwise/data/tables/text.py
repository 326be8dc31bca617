"""Tables as text, with commas, tabs or other marks between columns, and the line that each row came from."""

import csv
import io
import re
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check, threads

_LINE = "\0line"  # a column that no file has
_HINT = "mend the line; text with commas, quotes or line ends in it stands in quotes"
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


@dataclass(frozen=True)
class TextTable:
    """A table, and the number of the line that each of its rows stood on."""

    frame: pl.DataFrame
    lines: NDArray[np.int64]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.frame.columns

    def place(self, row: int) -> str:
        """Say where a row is."""
        return f"line {self.lines[row]}"


def parse(
    text: bytes, path: Path, *, between: str, header: bool = True, words: Collection[str] | None = ()
) -> TextTable:
    """Read a table from what a file holds; blank lines are left out. Columns of ``words`` (None: all) stay text.

    Every line must have as many columns as the first, and a header must name each of them once. A column of numbers
    that are too long for polars is text.
    """
    threads.check_tables()
    first = header_of(text, path, between)[1] if header else 1
    try:
        table = _read(text, between, header, words)
    except _BROKEN:
        what, line = _damage(text, path, between)
        if what:
            raise check.error(what, where=f"{path}, line {line}", hint=_HINT) from None
        try:
            table = _read(text, between, header, None)
        except _BROKEN:
            where = f"{path}, line {_first_unreadable(text, between, header)}"
            raise check.error("a line cannot be read as columns of a table", where=where, hint=_HINT) from None
    numbered = table.select(pl.all(), pl.Series(_lines(table, first), dtype=pl.Int64).alias(_LINE)).filter(
        ~pl.all_horizontal(pl.exclude(_LINE).is_null())
    )
    rows = TextTable(numbered.drop(_LINE), numbered[_LINE].to_numpy())
    _check_short(text, path, between, rows)
    return rows


def _read(text: bytes, between: str, header: bool, words: Collection[str] | None) -> pl.DataFrame:
    return pl.read_csv(
        text,
        has_header=header,
        separator=between,
        infer_schema_length=0 if words is None else None,
        raise_if_empty=False,
        schema_overrides=dict.fromkeys(words or (), pl.String),
    )


def header_of(text: bytes, path: Path, between: str) -> tuple[list[str], int]:
    """Return the names of the columns, which must all be different, and the line after them."""
    lines = (line.decode() for line in io.BytesIO(text))
    reader = csv.reader(lines, delimiter=between)
    try:
        names = next((record for record in reader if record), [])
    except UnicodeDecodeError:
        raise check.not_utf8(text, f"{path}, line {reader.line_num + 1}") from None
    except csv.Error:
        return [], 2  # what is wrong is said where the table is read
    check.named_once(names, f"{path}, line {reader.line_num}")
    return names, reader.line_num + 1


def _lines(table: pl.DataFrame, first: int) -> NDArray[np.int64]:
    """The line that each row begins on, where the first begins on ``first``; text in quotes may go over several."""
    breaks = np.zeros(table.height, np.int64)
    for column in table.iter_columns():
        if column.dtype == pl.String:
            breaks += column.str.count_matches("\n", literal=True).fill_null(0).to_numpy()
    return first + np.arange(table.height) + np.cumsum(breaks) - breaks


def _check_short(text: bytes, path: Path, between: str, table: TextTable) -> None:
    """Refuse a line that ends before the last column, of which polars makes missing values."""
    width = len(table.columns)
    if width < 2 or not table.frame[:, -1].null_count():
        return
    starts = [0, *_line_ends(text)]
    following = np.append(table.lines[1:], len(starts) + 1).tolist()
    for row in np.flatnonzero(table.frame[:, -1].is_null().to_numpy()).tolist():
        line, last = int(table.lines[row]), following[row]
        if line > len(starts):  # polars and Python do not agree about quotes in the header
            break
        record = text[starts[line - 1] : starts[last - 1] if last <= len(starts) else None]
        count = _QUOTED.sub(b"", record).count(between.encode()) + 1
        if count < width:
            what = f"a line must have as many columns as the first one, {width}"
            raise check.error(what, got=f"{count}", where=f"{path}, line {line}", hint=_HINT)


def _damage(text: bytes, path: Path, between: str) -> tuple[str, int]:
    """Look line by line for what polars could not read: what is wrong, and the line; nothing where all is well."""
    try:
        words = text.decode()
    except UnicodeDecodeError as broken:
        line = text.count(b"\n", 0, broken.start) + 1
        raise check.not_utf8(text, f"{path}, line {line}") from None
    reader = csv.reader(io.StringIO(words, newline=""), delimiter=between, strict=True)
    done, width = 0, None
    try:
        for record in reader:
            width = width or len(record)
            if record and len(record) != width:
                return f"a line must have as many columns as the first one, {width}", done + 1
            done = reader.line_num
    except csv.Error:
        return "a line cannot be read as columns of a table", done + 1
    return "", 0


def _first_unreadable(text: bytes, between: str, header: bool) -> int:
    """Find the line up to which the text can be read as a table, by halving."""
    ends = [*_line_ends(text), len(text)]
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _read(text[: ends[middle - 1]], between, header, None)
            good = middle
        except _BROKEN:
            bad = middle
    return bad


def _line_ends(text: bytes) -> list[int]:
    """Where the lines after the first begin."""
    ends: list[int] = (np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1).tolist()
    return ends
