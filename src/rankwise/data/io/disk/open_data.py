"""Opening data larger than memory: features are copied once, a block at a time, into a binary file that is mapped."""

import math
import os
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.io import file_formats
from rankwise.data.io.disk.cache import mapped
from rankwise.data.io.disk.mapped import BLOCK, DiskDataset, MappedRows, rows_at_once
from rankwise.data.io.letor.buffers import Growing
from rankwise.data.io.letor.line_blocks import files_of
from rankwise.data.io.letor.reader import Reader
from rankwise.data.io.reading import format_of_data
from rankwise.data.io.tables.features import CategoryLists, matrix
from rankwise.data.io.tables.parquet import load, parquet_files
from rankwise.data.io.urls import accepts_urls

Progress = Callable[[int, int], object]
_PIECE = 1 << 16  # bytes that are read at once while runs are merged


@accepts_urls
def open_data(
    path: str | Path,
    *,
    folder: str | Path | None = None,
    block: int = BLOCK,
    progress: Progress | None = None,
    **options: Any,
) -> DiskDataset:
    r"""Open ranking data that need not fit into memory: Parquet, a file or a folder of them, or LETOR text.

    The first time the features are copied, a block at a time, into a binary file that is mapped from then on: beside
    the source, in ``.rankwise-cache``, or in ``folder``. It takes four bytes for each feature of each document. A URL
    (``https://``, ``s3://``, ``gs://`` …) is downloaded into the cache before. ``block`` is how many bytes, of text or
    of features, are in memory at once meanwhile; the copy does not depend on it. ``progress(done, in_all)`` is called
    after each. ``options`` are those of :func:`rankwise.read_parquet` or :func:`rankwise.read_letor`. With ``sort``,
    rows of Parquet are sorted by query on disk, which takes the space of the copy twice while it is made.
    LightGBMRanker and XGBoostRanker then train without ever having all features in memory; every other use works as
    well.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as here:
    ...     _ = Path(here, "rows.txt").write_text("0 qid:1 1:0.5\n2 qid:1 1:0.25\n1 qid:2 1:1\n")
    ...     data = open_data(f"{here}/rows.txt")
    ...     print(data, data.features[:, 0])
    DiskDataset(2 queries, 3 documents, 1 feature, labels 0 to 2, features on disk) [0.5 0.25 1. ]
    """
    path = Path(path)
    if not path.is_dir():
        check.readable(path)
    if options.get("drop_duplicates"):
        hint = "convert it before: rankwise data convert rows.parquet --drop-duplicates -o once.parquet"
        raise check.error("data that stay on disk keep all rows", got="drop_duplicates=True", hint=hint)
    check.integer("block", block, least=1)
    options = {name: tuple(value) if isinstance(value, Iterator) else value for name, value in options.items()}
    kind = format_of_data(path)
    if kind == "csv":
        hint = "convert it: rankwise data convert rows.csv -o rows.parquet"
        raise check.error("data that stay on disk are Parquet or LETOR text", got=f"{path}, CSV", hint=hint)
    if kind == "parquet":
        write, files = partial(copy_parquet, block=block, progress=progress), parquet_files(path)
    elif options.pop("sort", False):
        what, hint = "LETOR text is read in the order of its lines", "sort its lines by query before"
        raise check.error(what, got="sort=True", where=str(path), hint=hint)
    else:
        write, files = partial(copy_letor, block=block, progress=progress), files_of(path, options.get("sizes"))
    data = mapped(path, write, files, None if folder is None else Path(folder), **options)
    file = MappedRows.of(data.features)
    if file is not None:
        file.release()
    return DiskDataset(**vars(data))


def copy_parquet(
    path: Path, target: Path, *, block: int, progress: Progress | None = None, **columns: Any
) -> RankingDataset:
    """Write the features of Parquet files to ``target``, and return the data set with the features mapped from there.

    ``block`` is how many bytes of features are in memory at once.
    """

    def fill(
        table: pl.LazyFrame, names: Sequence[str], n_docs: int, lists: CategoryLists, order: NDArray[np.int64] | None
    ) -> NDArray[np.float32]:
        def rows(first: int, count: int) -> NDArray[np.float32]:
            return matrix(table.slice(first, count), names, count, lists, warn=first == 0)

        step = rows_at_once(len(names), block)
        with target.open("xb") as file:
            out = _Matrix(file, len(names))
            if order is not None:
                _add_sorted(out, rows, order, step, target.with_name("runs"), progress)
                return out.finish()
            for first in range(0, max(n_docs, 1), step):
                out.add(rows(first, min(step, n_docs - first)))
                if progress is not None:
                    progress(out.rows, n_docs)
            return out.finish()

    return load(path, columns, fill)


def _add_sorted(
    out: "_Matrix",
    rows: Callable[[int, int], NDArray[np.float32]],
    order: NDArray[np.int64],
    step: int,
    scratch: Path,
    progress: Progress | None,
) -> None:
    """Write rows in an order: runs of ``step`` rows, sorted, go to a file, and are merged ``step`` rows at once."""
    n_docs, width = order.size, 4 * out.width
    step = max(step, math.isqrt(n_docs * _PIECE // max(width, 1)))  # so that pieces of a run are no smaller than that
    starts = range(0, n_docs, step)
    places = np.empty(n_docs, np.int64)
    places[order] = np.arange(n_docs)
    runs = [places[start : start + step] for start in starts]
    with scratch.open("w+b") as file:
        for done, (start, run) in enumerate(zip(starts, runs, strict=True), 1):
            file.write(rows(start, run.size)[np.argsort(run)].data)
            run.sort()
            if progress is not None:
                progress(done, 2 * len(runs))
        for done, first in enumerate(starts, len(runs) + 1):
            window = np.empty((min(step, n_docs - first), out.width), np.float32)
            for start, run in zip(starts, runs, strict=True):
                low, high = np.searchsorted(run, (first, first + step)).tolist()
                file.seek(width * (start + low))
                piece = np.frombuffer(file.read(width * (high - low)), np.float32)
                window[run[low:high] - first] = piece.reshape(high - low, out.width)
            out.add(window)
            if progress is not None:
                progress(done, 2 * len(runs))
    scratch.unlink()


def copy_letor(
    path: Path, target: Path, *, block: int, progress: Progress | None = None, **options: Any
) -> RankingDataset:
    """Write the features of LETOR text to ``target``, and return the data set with the features mapped from there.

    ``block`` is how many bytes of text, and of features, are in memory at once. The number of features is known only at
    the end of the text: where a line has more than the rows that are written already, these are widened in the file.
    """
    with target.open("w+b") as file, file_formats.open_bytes(path) as (source, raw):
        reader = _Spilling(path, _Matrix(file), block, **options)
        for text, last in reader.line_blocks(source, block):
            reader.feed(text, last)
            if progress is not None:
                progress(raw.tell(), path.stat().st_size)
        return reader.dataset()


class _Spilling(Reader):
    """A reader that keeps no features: it writes them to ``out`` whenever there are ``block`` bytes of them."""

    features: Growing

    def __init__(self, path: Path, out: "_Matrix", block: int, **options: Any) -> None:
        super().__init__(path, **options)
        self.out, self.block = out, block

    def feed(self, text: NDArray[np.uint8], last: int) -> None:
        super().feed(text, last)
        self.spill()

    def keep_batch(self, text: NDArray[np.uint8]) -> None:
        """Keep a batch of rows; as a matrix, sparse lines may take far more bytes than as text."""
        super().keep_batch(text)
        if 4 * self.features.rows * self.features.width >= self.block:
            self.spill()

    def spill(self) -> None:
        self.out.add(self.features.matrix()[: self.features.rows])
        self.features.clear()

    def widen(self, width: int, shift: int = 0) -> None:
        """Make the matrix wider; what is written of it by half at least, so that this does not happen often."""
        if self.out.rows:
            width = min(max(width, self.out.width * 3 // 2), self.most)
            self.out.resize(width, rows_at_once(width, self.block), shift)
        super().widen(width, shift)

    def matrix(self, width: int) -> NDArray[np.float32]:
        if width < self.out.width:
            self.out.resize(width, rows_at_once(self.out.width, self.block))
        return self.out.finish()


class _Matrix:
    """A ``.npy`` file that grows by rows; its header, as long for any number, is written again at the end."""

    def __init__(self, file: IO[bytes], width: int = 0) -> None:
        self.file, self.rows, self.width = file, 0, width

    def add(self, rows: NDArray[np.float32]) -> None:
        if not self.rows:
            self.width = rows.shape[1]
            self._head()
        self.file.write(np.ascontiguousarray(rows).data)
        self.rows += len(rows)

    def resize(self, width: int, step: int, shift: int = 0) -> None:
        """Change the number of columns, moved right by ``shift``, going through ``step`` rows at a time in place."""
        start, kept = self.file.seek(0, os.SEEK_END) - 4 * self.rows * self.width, min(width - shift, self.width)
        firsts = range(0, self.rows, step)
        for first in firsts if width < self.width else reversed(firsts):
            self.file.seek(start + 4 * first * self.width)
            count = min(step, self.rows - first)
            rows = np.frombuffer(self.file.read(4 * count * self.width), np.float32).reshape(count, self.width)
            resized = np.zeros((count, width), np.float32)
            resized[:, shift : shift + kept] = rows[:, :kept]
            self.file.seek(start + 4 * first * width)
            self.file.write(resized.data)
        self.file.truncate(start + 4 * self.rows * width)
        self.file.seek(0, os.SEEK_END)
        self.width = width

    def finish(self) -> NDArray[np.float32]:
        self._head()
        self.file.flush()
        os.fsync(self.file.fileno())
        mapped: NDArray[np.float32] = np.load(self.file.name, mmap_mode="r" if self.rows and self.width else None)
        return mapped

    def _head(self) -> None:
        shape = (self.rows, self.width)
        self.file.seek(0)
        np.lib.format.write_array_header_1_0(self.file, {"descr": "<f4", "fortran_order": False, "shape": shape})
