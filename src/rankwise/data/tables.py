"""Any table as a polars one; pandas and pyarrow are never imported for it."""

from typing import Any

import polars as pl

from rankwise import check


def as_polars(frame: Any) -> tuple[pl.LazyFrame, set[str]]:
    """Take any table as a polars one; and the names of columns that were turned into category codes."""
    if isinstance(frame, pl.LazyFrame):
        return frame, set()
    if isinstance(frame, pl.DataFrame):
        return frame.lazy(), set()
    if type(frame).__module__.split(".")[0] == "pandas" and hasattr(frame, "columns"):
        return _from_pandas(frame)
    if hasattr(frame, "__arrow_c_stream__"):
        return pl.DataFrame(frame).lazy(), set()
    raise check.error(
        "a frame must be a polars, pandas or Arrow table",
        got=f"{type(frame).__module__}.{type(frame).__name__}",
        cure="make it one, or use RankingDataset.from_qids with arrays",
    )


def _from_pandas(frame: Any) -> tuple[pl.LazyFrame, set[str]]:
    columns, coded = [], set()
    for name, column in frame.items():
        kind = str(column.dtype)
        missing = column.isna().to_numpy()
        values: Any
        if kind == "category":
            coded.add(str(name))
            values = column.cat.codes.to_numpy()
        elif column.dtype.kind in "iufb":
            values = (
                column.to_numpy(dtype=str(column.dtype).lower(), na_value=0) if missing.any() else column.to_numpy()
            )
        else:
            values = [None if gone else value for value, gone in zip(column.tolist(), missing.tolist(), strict=True)]
        series = pl.Series(str(name), values, strict=False)
        if missing.any():
            series = series.set(pl.Series(missing), None)
        columns.append(series)
    return pl.DataFrame(columns).lazy(), coded
