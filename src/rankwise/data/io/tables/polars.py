"""Tables of any library in polars, and their columns of ids; pandas and pyarrow are never imported for it."""

import contextlib
from collections.abc import Callable
from typing import Any, cast

import numpy as np
import polars as pl

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Ids
from rankwise.data.categories import Values, is_numeric
from rankwise.data.categories import values as category_values
from rankwise.data.io.tables import ArrowTable, Table
from rankwise.data.io.tables.features import of_values

MISSING = ("", "NA", "<NA>", "N/A", "n/a", "#N/A", "NULL", "null", "None")
"""Words for a missing value in a column of numbers."""


def as_polars(frame: Table) -> tuple[pl.LazyFrame, dict[str, Values]]:
    """Return any table in polars, and the categories of columns for which polars has no type of categories."""
    threads.check_tables()
    if isinstance(frame, pl.LazyFrame):
        return frame, {}
    if isinstance(frame, pl.DataFrame):
        return frame.lazy(), {}
    if type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
        return _from_pandas(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        check.require_unique_names(list(getattr(frame, "column_names", ())))
        with contextlib.suppress(pl.exceptions.SchemaError):  # of a single column
            return pl.DataFrame(cast("ArrowTable", frame)).lazy(), {}
    raise check.error(
        "a frame must be a polars, pandas or Arrow table",
        got=f"{type(frame).__module__}.{type(frame).__name__}",
        hint="make it one, or use RankingDataset.from_qids with arrays",
    )


def _from_pandas(frame: Any) -> tuple[pl.LazyFrame, dict[str, Values]]:
    columns, lists = [], {}
    check.require_unique_names([str(name) for name in frame.columns])
    for name, column in frame.items():
        missing = column.isna().to_numpy()
        values: Any
        if str(column.dtype) == "category":
            listed = category_values(column.cat.categories, f"column {name!r}")
            columns.append(of_values(str(name), column.cat.codes.where(~missing).to_numpy(np.float32), listed))
            if is_numeric(listed):
                lists[str(name)] = listed
            continue
        if column.dtype.kind in "iufb":
            kind = column.dtype  # of pandas' own types, the plain one
            kind = getattr(kind, "numpy_dtype", getattr(kind, "subtype", kind))
            values = column.to_numpy(dtype=kind, na_value=0) if missing.any() else column.to_numpy(dtype=kind)
        else:
            values = [None if gone else value for value, gone in zip(column.tolist(), missing.tolist(), strict=True)]
            check.different_as_text(f"values of the column {name!r}", values)
        series = pl.Series(str(name), values, strict=False)
        if missing.any():
            series = series.set(pl.Series(missing), None)
        columns.append(series)
    return pl.DataFrame(columns).lazy(), lists


def ids_from_text(column: pl.Series) -> pl.Series:
    """Return ids that stand in a text file: integers if all of them print as they are written there, else text.

    >>> ids_from_text(pl.Series(["12", "7"])).to_list(), ids_from_text(pl.Series(["0012", "12"])).to_list()
    ([12, 7], ['0012', '12'])
    """
    if column.dtype != pl.String:
        return column
    written = column.set(column.is_in(MISSING), None)
    numbers = written.cast(pl.Int64, strict=False)
    return numbers if numbers.cast(pl.String).eq_missing(written).all() else column


def without_nulls(column: pl.Series, what: str, place: Callable[[int], str | check.Row]) -> pl.Series:
    """Return a column that has a value in every row; ``place`` says where a row is."""
    if column.null_count():
        where = place(int(column.is_null().arg_max() or 0))
        raise check.error(what, got="null", where=where, hint="fill or drop it")
    return column


def checked_ids(column: pl.Series, what: str, place: Callable[[int], str | check.Row]) -> pl.Series:
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


def ids_to_numpy(column: pl.Series) -> Ids:
    """Return ids as an array of integers, or of text of a fixed width."""
    return np.array(column.to_list(), np.str_) if column.dtype == pl.String else column.to_numpy()
