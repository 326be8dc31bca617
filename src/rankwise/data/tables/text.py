"""Tables as text, with commas, tabs or other marks between columns, and the line that each row came from."""

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check, threads

_LINE = "\0line"  # a column that no file has


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


def parse(text: bytes, path: Path, *, between: str, header: bool = True, words: Sequence[str] | None = ()) -> TextTable:
    """Read a table from what a file holds; blank lines are left out. Columns of ``words`` (None: all) stay text."""
    threads.check_tables()
    try:
        table = pl.read_csv(
            text,
            has_header=header,
            separator=between,
            infer_schema_length=0 if words is None else None,
            raise_if_empty=False,
            schema_overrides=dict.fromkeys(words or (), pl.String),
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as broken:
        what, line = _damage(text, between)
        hint = "mend the line; text with commas, quotes or line ends in it stands in quotes"
        raise check.error(what, where=f"{path}, line {line}", hint=hint) from broken
    numbered = table.select(pl.all(), pl.Series(_lines(table, header), dtype=pl.Int64).alias(_LINE)).filter(
        ~pl.all_horizontal(pl.exclude(_LINE).is_null())
    )
    return TextTable(numbered.drop(_LINE), numbered[_LINE].to_numpy())


def _lines(table: pl.DataFrame, header: bool) -> NDArray[np.int64]:
    """The line that each row begins on; a text in quotes may go over several."""
    breaks = np.zeros(table.height, np.int64)
    for column in table.iter_columns():
        if column.dtype == pl.String:
            breaks += column.str.count_matches("\n", literal=True).fill_null(0).to_numpy()
    first = 2 + sum(name.count("\n") for name in table.columns) if header else 1
    return first + np.arange(table.height) + np.cumsum(breaks) - breaks


def _damage(text: bytes, between: str) -> tuple[str, int]:
    """Look line by line for what polars could not read: what is wrong, and the line."""
    try:
        words = text.decode()
    except UnicodeDecodeError as broken:
        return "text must be UTF-8", text.count(b"\n", 0, broken.start) + 1
    reader = csv.reader(io.StringIO(words, newline=""), delimiter=between, strict=True)
    done, width = 0, None
    try:
        for record in reader:
            width = width or len(record)
            if len(record) > width:
                return f"a line must have as many columns as the first one, {width}", done + 1
            done = reader.line_num
    except csv.Error:
        pass
    return "a line cannot be read as columns of a table", done + 1
