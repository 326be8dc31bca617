"""Ids of queries, documents, users and items in tables: integers or text, and the same id wherever they print alike."""

from collections.abc import Callable

import numpy as np
import polars as pl

from rankwise import check
from rankwise.arrays import Ids

MISSING = ("", "NA", "<NA>", "N/A", "n/a", "#N/A", "NULL", "null", "None")
"""Words for a missing value in a column of numbers."""


def from_text(column: pl.Series) -> pl.Series:
    """Return ids that stand in a text file: integers if all of them print as they are written there, else text.

    >>> from_text(pl.Series(["12", "7"])).to_list(), from_text(pl.Series(["0012", "12"])).to_list()
    ([12, 7], ['0012', '12'])
    """
    if column.dtype != pl.String:
        return column
    written = column.set(column.is_in(MISSING), None)
    numbers = written.cast(pl.Int64, strict=False)
    return numbers if numbers.cast(pl.String).eq_missing(written).all() else column


def checked(column: pl.Series, what: str, place: Callable[[int], str]) -> pl.Series:
    """Return a column of ids as text, or as integers of at most 64 bits; ``place`` says where a row is."""
    if isinstance(column.dtype, pl.Categorical | pl.Enum):
        column = column.cast(pl.String)
    if column.dtype == pl.String:
        return column
    if not len(column):  # which may be of no type
        return column.cast(pl.Int64)
    if column.dtype.is_integer():
        if not str(column.dtype).endswith("Int128"):  # which NumPy does not have
            return column
        numbers = column.cast(pl.Int64, strict=False)
        if not numbers.null_count():
            return numbers
        row = int(numbers.is_null().arg_max() or 0)
        hint = "make them strings, in every row"
        raise check.error(f"a number as {what} must fit into 64 bits", got=column[row], where=place(row), hint=hint)
    broken = column != column.floor() if column.dtype.is_float() else column.is_not_null()
    row = int(broken.arg_max() or 0)
    hint = "cast it before"
    got = f"{column[row]!r}, {column.dtype}"
    raise check.error(f"the column of the {what} must hold integers or strings", got=got, where=place(row), hint=hint)


def to_numpy(column: pl.Series) -> Ids:
    """Return ids as an array of integers, or of text of a fixed width."""
    return np.array(column.to_list(), np.str_) if column.dtype == pl.String else column.to_numpy()
