"""Ratings as text: commas, tabs or MovieLens' ``::`` between columns, and the line that each row came from."""

import csv
import io
import re
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.data.compressed import read_bytes

ROLES = ("user", "item", "rating", "time")
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


def read_text(path: Path) -> TextTable:
    """Read a table. A first line whose third column is no number names the columns; blank lines are left out."""
    text = read_bytes(path)
    first = text[: text.find(b"\n")] if b"\n" in text else text
    between = next((mark for mark in (b"::", b"\t", b",") if mark in first), b",")
    if between == b"::":
        text, between = text.replace(b"::", b"\t"), b"\t"
        first = first.replace(b"::", b"\t")
    words = first.strip().split(between)
    header = len(words) < 3 or re.fullmatch(rb"[-+.\deE]+", words[2].strip()) is None
    try:
        table = pl.read_csv(
            text, has_header=header, separator=between.decode(), infer_schema_length=None, raise_if_empty=False
        )
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException) as broken:
        what, line = _damage(text, between.decode())
        hint = "mend the line; text with commas, quotes or line ends in it stands in quotes"
        raise check.error(what, where=f"{path}, line {line}", hint=hint) from broken
    if not header:
        table = table.rename(dict(zip(table.columns, ROLES, strict=False)))
    numbered = table.select(pl.all(), pl.Series(_lines(table, header), dtype=pl.Int64).alias(_LINE)).filter(
        ~pl.all_horizontal(pl.exclude(_LINE).is_null())
    )
    if numbered.is_empty():
        raise check.error("there are no ratings in the file", where=str(path), hint="write one line per rating")
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
