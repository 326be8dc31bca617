"""Vectors of users and items as files, for an index of nearest neighbours."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rankwise import check, files

if TYPE_CHECKING:
    import polars as pl

FORMATS = ("npy", "parquet")


def names(format: str) -> tuple[str, ...]:  # noqa: A002 (what everyone calls it)
    """Give the names of the files that are written."""
    if check.choice("format of vectors", format, FORMATS) == "parquet":
        return "users.parquet", "items.parquet"
    return "user_vectors.npy", "user_ids.npy", "item_vectors.npy", "item_ids.npy"


def ready(folder: str | Path, format: str, *, force: bool) -> Path:  # noqa: A002
    """Check, before the work begins, that the files can be written into a folder, which is made if need be."""
    folder = files.check_writable_folder(folder)
    for name in names(format):
        check.free_path(folder / name, force=force)
    return folder


def write(
    folder: str | Path,
    tables: "tuple[pl.DataFrame, pl.DataFrame]",
    format: str,  # noqa: A002
    *,
    force: bool,
) -> Path:
    """Write the vectors and ids of users and items into a folder, row for row."""
    folder = ready(folder, format, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    if format == "parquet":
        for name, table in zip(names(format), tables, strict=True):
            with files.replacing(folder / name, force=force) as new:
                table.write_parquet(new)
        return folder
    arrays = [array for table in tables for array in (table["vector"].to_numpy(), _ids(table["id"]))]
    for name, array in zip(names(format), arrays, strict=True):
        with files.replacing(folder / name, force=force) as new, new.open("wb") as out:
            np.save(out, np.ascontiguousarray(array), allow_pickle=False)
    return folder


def _ids(column: "pl.Series") -> "np.ndarray[tuple[int], np.dtype[np.generic]]":
    """Ids that are words become fixed-width text, which needs no pickle."""
    array: np.ndarray[tuple[int], np.dtype[np.generic]] = column.to_numpy()
    return array if array.dtype.kind in "iu" else np.array(column.to_list(), np.str_)
