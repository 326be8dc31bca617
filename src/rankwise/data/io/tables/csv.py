"""CSV: ranking data with a first line that names the columns, and any table as text with the line of each row."""

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import threads
from rankwise.data import columns
from rankwise.data.categories import is_numeric
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.file_formats import BYTE_ORDER_MARK, read_bytes
from rankwise.data.io.tables import marks
from rankwise.data.io.tables.features import column_names, feature_columns
from rankwise.data.io.tables.polars import ids_from_text
from rankwise.data.io.urls import accepts_urls

_MARKS = (",", "\t", ";", "|")
MARKS = marks.CHOICES
"""Argument of :func:`read_csv` -> the marks that it may be."""
_HINT = "mend the line; text with commas, quotes or line ends in it stands in quotes"
_SEPARATOR = re.compile(rb'"?sep=([,;\t|])"?\r?\n', re.IGNORECASE)
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')
_BROKEN = (pl.exceptions.PolarsError, pl.exceptions.PanicException)


@dataclass(frozen=True)
class TextTable:
    """A table, and the line of each of its rows in the file."""

    frame: pl.DataFrame
    lines: NDArray[np.int64]

    @property
    def columns(self) -> list[str]:
        """The names of the columns."""
        return self.frame.columns

    def place(self, row: int) -> str:
        """Return the place of a row for messages."""
        return f"line {self.lines[row]}"


@accepts_urls
def read_csv(
    path: str | Path,
    *,
    separator: str | None = None,
    decimal: str | None = None,
    thousands: str | None = None,
    **arguments: Any,
) -> RankingDataset:
    r"""Read ranking data from CSV, plain or compressed with gzip or Zstandard, with one line per document.

    The first line names the columns; ``arguments`` name those of each role, as in :meth:`RankingDataset.from_frame`:
    ``query="qid", label="label", features=…, weight=…, categorical=…`` …. ``separator`` stands between columns; by
    default it is the comma, tab, semicolon or bar that the first line has most of. An empty cell is a missing value,
    and so is NA in a column of numbers.

    ``decimal`` is the mark before decimals, and ``thousands`` the one between groups of three digits, of numbers as
    spreadsheets write them: ``1.582,5`` or ``1,582.5``. By default a column is read so where its numbers can mean
    nothing else, and in a file with semicolons a comma is a decimal one; ``thousands="none"`` says that there is
    none.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     path = Path(here, "rows.csv")
    ...     _ = path.write_text("session;clicked;bm25;shop\na;1;7,5;north\na;0;;south\nb;1;3;north\n")
    ...     data = read_csv(path, query="session", label="clicked", categorical=["shop"])
    >>> print(data, data.feature_names, data.categories)
    RankingDataset(2 queries, 3 documents, 2 features, labels 0 to 1) ('bm25', 'shop') {1: ('north', 'south')}
    >>> data.features[:, 0]
    array([7.5, nan, 3. ], dtype=float32)
    """
    path = Path(path)
    for what, mark in (("decimal", decimal), ("thousands", thousands)):
        if mark is not None:
            check.choice(f"mark for {what}", mark, MARKS[what])
    for name in ("features", "categorical"):
        if isinstance(arguments.get(name), Iterator):
            arguments[name] = list(arguments[name])
    listed = arguments.get("categories") or {}
    words = [name for name, values in listed.items() if not is_numeric(tuple(values))]
    names = {**{role: columns.roles()[role] for role in ("query", "label")}, **arguments}
    identifiers = [names.get(column.role) for column in columns.COLUMNS if column.kind == "id"]
    texts = [names.get(column.role) for column in columns.COLUMNS if column.kind == "text"]
    coded = column_names(arguments.get("categorical", ()))
    used = [*words, *coded, *filter(None, (*identifiers, *texts))]
    table, between = _named(path, separator)
    unused = [name for name in table.columns if name not in used]
    numbers = marks.read(table.frame.select(unused), decimal, thousands, between)
    frame = table.frame.with_columns(
        *numbers.columns,
        *(
            ids_from_text(series)
            if series.name in identifiers
            else series.fill_null("")
            if series.name in texts
            else _codes(series)
            for series in table.frame.iter_columns()
            if series.name in used and series.name not in words
        ),
    )
    with check.naming(path), check.placing(table.place):
        numbers.check(columns.named_by(names).union(feature_columns(frame.lazy(), arguments)))
        data = RankingDataset.from_frame(frame, **arguments)
    chosen = column_names(arguments.get("features") or ())
    numbers.warn(set(data.feature_names or ()).difference(chosen), columns.named_by(names))
    marks.warn_of_categories(table.frame.select(name for name in coded if name in table.columns))
    return data


def read_table(path: Path, *, separator: str | None = None) -> TextTable:
    """Read a CSV file as text, with the line of each row."""
    return _named(path, separator)[0]


def _named(path: Path, separator: str | None) -> tuple[TextTable, str]:
    """Return the table of a file whose first line must name the columns, and what separates these.

    Spreadsheets may say the separator in a line of its own.
    """
    content = read_bytes(path).removeprefix(BYTE_ORDER_MARK)
    if named := _SEPARATOR.match(content):
        content = content[named.end() - 1 :]  # the end of the line stays, so that lines keep their numbers
        between = separator or named[1].decode()
    else:
        first, _, _ = content.partition(b"\n")
        between = separator or max(_MARKS, key=first.decode("utf-8", "replace").count)
    table = parse(content, path, between=between)
    if not table.columns:
        raise check.error("there is nothing in the file", where=str(path), hint="write one line per document")
    if all(_is_number(name) for name in table.columns):
        got, hint = f"{len(table.columns)} numbers", "put a line with a name for each column before the others"
        raise check.error("the first line of a CSV file must name the columns", got=got, where=str(path), hint=hint)
    return table, between


def _codes(column: pl.Series) -> pl.Series:
    """Return a column of categories: text, also where it looks like numbers that print otherwise, such as 007."""
    if column.null_count() == len(column):
        return column
    small = column.str.to_lowercase()
    if small.is_in(("true", "false")).all():
        return small == "true"
    return column if column.str.contains(r"^[-+]?0\d").any() else marks.plain(column)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def parse(text: bytes, path: Path, *, between: str, header: bool = True) -> TextTable:
    """Read a table from the content of a file without blank lines; all cells stay text.

    Every line must have as many columns as the first, and a header must name each of them once.
    """
    threads.check_tables()
    first = header_of(text, path, between)[1] if header else 1
    try:
        table = _read_columns(text, between, header)
    except _BROKEN:
        what, line = _damage(text, path, between)
        what = what or "a line cannot be read as columns of a table"
        line = line or _first_unreadable(text, between, header)
        raise check.error(what, where=f"{path}, line {line}", hint=_HINT) from None
    rows = TextTable(table, _lines(table, first))
    is_blank = table.select(pl.all_horizontal(pl.all().is_null())).to_series()
    if table.height and is_blank.any():
        rows = TextTable(table.filter(~is_blank), rows.lines[~is_blank.to_numpy()])
    _check_short(text, path, between, rows)
    return rows


def _read_columns(text: bytes, between: str, header: bool) -> pl.DataFrame:
    return pl.read_csv(text, has_header=header, separator=between, infer_schema_length=0, raise_if_empty=False)


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
    check.require_unique_names(names, f"{path}, line {reader.line_num}")
    return names, reader.line_num + 1


def _lines(table: pl.DataFrame, first: int) -> NDArray[np.int64]:
    """Return the line on which each row begins, counted from ``first``; text in quotes may span several lines."""
    breaks = np.zeros(table.height, np.int64)
    for column in table.iter_columns():
        breaks += column.str.count_matches("\n", literal=True).fill_null(0).to_numpy()
    return first + np.arange(table.height) + np.cumsum(breaks) - breaks


def _check_short(text: bytes, path: Path, between: str, table: TextTable) -> None:
    """Raise for a line that ends before the last column, which polars fills with missing values."""
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
    """Return what is wrong with a text that polars could not read, and in which line; an empty text: nothing."""
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
    """Return the first line that cannot be read as a row, by bisection."""
    ends = [*_line_ends(text), len(text)]
    good, bad = 0, len(ends)
    while bad - good > 1:
        middle = (good + bad) // 2
        try:
            _read_columns(text[: ends[middle - 1]], between, header)
            good = middle
        except _BROKEN:
            bad = middle
    return bad


def _line_ends(text: bytes) -> list[int]:
    ends: list[int] = (np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n")) + 1).tolist()
    return ends
