"""Copying features from Parquet or LETOR text into one binary file, with little of them in memory at any time."""

import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise.data import files, frames
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import rows_at_once
from rankwise.data.letor_reader import Reader, blocks


def parquet(path: Path, target: Path, **columns: Any) -> RankingDataset:
    """Write the features of Parquet files to ``target``; gives the data set with the features mapped from there."""
    paths = frames.parquet_files(path)
    known, absent = frames.described(paths, columns)
    table = pl.scan_parquet(paths)
    names = frames.feature_columns(table, known)
    thin: RankingDataset = frames.from_frame(table, **{**known, "features": (), "categorical": ()})
    step = rows_at_once(len(names))
    coded = set(known.get("categorical", ()))
    with target.open("xb") as file:
        out = _Matrix(file)
        for first in range(0, thin.n_docs, step):
            block, listed = frames.matrix(table.slice(first, step), names, min(step, thin.n_docs - first))
            out.add(block)
            coded |= listed
        features = out.finish()
    numbers = tuple(number for number, name in enumerate(names) if name in coded)
    changes = {"features": features, "feature_names": tuple(names), "categorical": numbers} | dict.fromkeys(absent)
    return thin.with_(**changes)


def letor(
    path: Path,
    target: Path,
    *,
    errors: str = "raise",
    n_features: int | None = None,
    first_index: object = "auto",
    sizes: Any = None,
) -> RankingDataset:
    """Write the features of LETOR text to ``target``; gives the data set with the features mapped from there.

    How many features there are shows only as the text is read. If a line has more than those whose rows are written
    already, the file is begun again: dense text is read once.
    """
    width = 0
    while True:
        reader = _Spilling(path, errors=errors, n_features=n_features, first_index=first_index, sizes=sizes)
        reader.features.width = max(reader.features.width, width)
        reader.make_room_for_width()
        try:
            with target.open("wb") as file, files.open_bytes(path) as (source, _):
                reader.out = _Matrix(file)
                for text, last in blocks(source):
                    reader.feed(text, last)
                return reader.dataset()
        except _OtherWidth as found:
            width, base, n_features = found.args
            first_index = "auto" if base < 0 else base


class _OtherWidth(Exception):  # noqa: N818 (nothing is wrong)
    """The matrix turns out to have another number of columns, or the first index another number."""


class _Spilling(Reader):
    """A reader that keeps no features."""

    out: "_Matrix"

    def feed(self, text: NDArray[np.uint8], last: int) -> None:
        """Read lines, and write their features."""
        super().feed(text, last)
        self.out.add(self.features.matrix()[: self.features.rows])
        self.features.rows = 0

    def widen(self, width: int, shift: int = 0) -> None:
        """Make the matrix wider, if none of it is written."""
        if self.out.rows:
            raise _OtherWidth(max(width, self.features.width), self.base, self.limit or None)
        super().widen(width, shift)

    def matrix(self, width: int) -> NDArray[np.float32]:
        """Map the features."""
        if width < self.out.width:  # the widest line was one that could not be read
            raise _OtherWidth(width, self.base, width)
        return self.out.finish()


class _Matrix:
    """A ``.npy`` file that grows by rows; its header, which has room for any number, is written again at the end."""

    def __init__(self, file: IO[bytes]) -> None:
        self.file, self.rows, self.width = file, 0, 0

    def add(self, rows: NDArray[np.float32]) -> None:
        """Write more rows."""
        if not self.rows:
            self.width = rows.shape[1]
            self._head()
        self.file.write(np.ascontiguousarray(rows).data)
        self.rows += len(rows)

    def finish(self) -> NDArray[np.float32]:
        """Map what was written into memory."""
        self.file.seek(0)
        self._head()
        self.file.flush()
        os.fsync(self.file.fileno())
        mapped: NDArray[np.float32] = np.load(self.file.name, mmap_mode="r")
        return mapped

    def _head(self) -> None:
        shape = (self.rows, self.width)
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<f4", "fortran_order": False, "shape": shape})
