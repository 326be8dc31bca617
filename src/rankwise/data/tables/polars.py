"""Any table as a polars one; pandas and pyarrow are never imported for it."""

import contextlib
from typing import Any, cast

import numpy as np
import polars as pl

from rankwise import check, threads
from rankwise.data.categories import Values, is_numeric
from rankwise.data.categories import values as category_values
from rankwise.data.tables.columns import of_values
from rankwise.data.tables.table import ArrowTable, Table


def as_polars(frame: Table) -> tuple[pl.LazyFrame, dict[str, Values]]:
    """Take any table as a polars one; and the categories of columns that polars has no type of categories for."""
    threads.check_tables()
    if isinstance(frame, pl.LazyFrame):
        return frame, {}
    if isinstance(frame, pl.DataFrame):
        return frame.lazy(), {}
    if type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
        return _from_pandas(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        check.named_once(list(getattr(frame, "column_names", ())))
        with contextlib.suppress(pl.exceptions.SchemaError):  # of a single column
            return pl.DataFrame(cast("ArrowTable", frame)).lazy(), {}
    raise check.error(
        "a frame must be a polars, pandas or Arrow table",
        got=f"{type(frame).__module__}.{type(frame).__name__}",
        hint="make it one, or use RankingDataset.from_qids with arrays",
    )


def _from_pandas(frame: Any) -> tuple[pl.LazyFrame, dict[str, Values]]:
    columns, lists = [], {}
    check.named_once([str(name) for name in frame.columns])
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
