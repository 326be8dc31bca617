"""Data larger than memory: features stay in a file and are read a block at a time.

Labels, query ids and other columns are in memory: they take a few bytes for each document. The features are in one
``.npy`` file, mapped into memory, so that every use of a data set works. Code that reads all features, such as trees
and predictions, reads blocks with :func:`blocks` instead: pages of a mapping count as memory of the process until the
system reclaims them.
"""

import mmap
import os
import tempfile
import weakref
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base import arrays
from rankwise.base.arrays import Column, Keywords
from rankwise.base.sparse import dense, is_sparse
from rankwise.data.categories import Values, translated, translation
from rankwise.data.dataset import RankingDataset

_ROWS_COMPARED = 8  # of a file with its mapping
BLOCK = 1 << 23
"""Bytes of features that are in memory at once."""


class DiskDataset(RankingDataset):
    """A data set whose features stay on disk; made by :func:`rankwise.open_data`.

    A run of neighbouring queries, ``data.take(slice(0, 1000))``, stays there too; others are read into memory.
    """

    def __repr__(self) -> str:
        where = ", features on disk" if MappedRows.of(self.features) is not None else ""
        return f"{type(self).__name__}{super().__repr__().removeprefix('RankingDataset').removesuffix(')')}{where})"


def blocks(features: Column, size: int | None = None) -> Iterator[Column]:
    """Iterate over a matrix in blocks of rows: views if it is in memory, new arrays if it is sparse or in a file.

    A new array has at most ``size`` bytes, :data:`BLOCK` by default.

    >>> [block.shape for block in blocks(np.zeros((3, 2), np.float32))]
    [(3, 2)]
    """
    if is_sparse(features):
        for rows in arrays.row_blocks(features.shape[0], features.shape[1], (size or BLOCK) // 4):
            yield dense(features[rows])
        return
    file = MappedRows.of(features)
    if file is None:
        yield features
        return
    for rows in arrays.row_blocks(file.shape[0], file.shape[1], (size or BLOCK) // 4):
        yield file.read(rows.start, rows.stop)


def recode(data: RankingDataset, categories: Mapping[int, Values]) -> RankingDataset:
    """Return data whose codes are indexes into other lists of categories; values that they lack become NaN.

    >>> data = RankingDataset([[0.0], [1.0]], [1, 0], [0, 2], categorical=[0], categories={0: ["a", "b"]})
    >>> recode(data, {0: ("b", "c")}).features[:, 0]
    array([nan,  0.], dtype=float32)
    """
    if all(data.categories[column] == values for column, values in categories.items()):
        return data
    tables = {}
    for column, values in categories.items():
        table = translation(data.categories[column], values, data.column_name(column))
        if table is not None:
            tables[column] = table
    changes: Keywords = {"categories": {**data.categories, **categories}}
    if tables:
        changes["features"] = _translate(data.features, tables, data.column_name)
    return data.with_(**changes)


def _translate(
    features: NDArray[np.float32], tables: dict[int, NDArray[np.float32]], name: Callable[[int], str]
) -> NDArray[np.float32]:
    """Translate the codes of some columns by tables; rows of a mapped file are copied to a temporary file."""
    file = MappedRows.of(features)
    if file is None:
        return _looked_up(np.array(features), tables, name)
    beside = Path(file.path).parent
    handle, path = tempfile.mkstemp(".npy", "rankwise-", beside if os.access(beside, os.W_OK) else None)
    with os.fdopen(handle, "wb") as target:
        header = {"descr": "<f4", "fortran_order": False, "shape": features.shape}
        np.lib.format.write_array_header_1_0(target, header)
        for block in blocks(features):
            target.write(_looked_up(block, tables, name).data)
    mapped: NDArray[np.float32] = np.load(path, mmap_mode="r")
    weakref.finalize(mapped, Path(path).unlink, missing_ok=True)
    return mapped


def _looked_up(
    rows: NDArray[np.float32], tables: dict[int, NDArray[np.float32]], name: Callable[[int], str]
) -> NDArray[np.float32]:
    for column, table in tables.items():
        rows[:, column] = translated(rows[:, column], table, name(column))
    return rows


def rows_at_once(n_features: int, block: int | None = None) -> int:
    """Return the number of rows to read at once."""
    return max(1, (block or BLOCK) // 4 // max(1, n_features))


class MappedRows:
    """Rows of a matrix that is mapped from a file, read without the mapping."""

    def __init__(self, root: "np.memmap[Any, Any]", start: int, shape: tuple[int, int]) -> None:
        self.root, self.path, self.start, self.shape = root, str(root.filename), start, shape
        self.handle = os.open(self.path, os.O_RDONLY)

    def __del__(self) -> None:
        if hasattr(self, "handle"):
            os.close(self.handle)

    @classmethod
    def of(cls, array: Column) -> "MappedRows | None":
        """Return the rows of float32 in their file; None if they are in memory, or the file may hold other numbers."""
        root = _mapped(array)
        fits = array.ndim == 2 and array.size and array.dtype == np.float32 and array.flags.c_contiguous
        if root is None or not fits or not Path(root.filename or "").is_file():
            return None
        start = root.offset + array.ctypes.data - root.ctypes.data
        try:
            file = cls(root, int(start), (int(array.shape[0]), int(array.shape[1])))
        except OSError:  # a mapping stays valid where the file may no longer be opened
            return None
        return file if file.holds(array) else None

    def holds(self, array: Column) -> bool:
        """Whether the file of this name is the one that is mapped, by a sample of rows."""
        if os.fstat(self.handle).st_size < self.start + array.nbytes:
            return False
        rows = np.unique(np.linspace(0, self.shape[0] - 1, _ROWS_COMPARED, dtype=np.int64)).tolist()
        return all(self.read(row, row + 1).tobytes() == array[row].tobytes() for row in rows)

    def release(self) -> None:
        """Release the pages of the mapping that were read; they are read again when they are needed."""
        pages: Any = self.root.base
        if hasattr(pages, "madvise"):
            pages.madvise(mmap.MADV_DONTNEED)

    def read(self, first: int, last: int) -> NDArray[np.float32]:
        """Read rows ``first`` to ``last`` into memory."""
        width = 4 * self.shape[1]
        if not hasattr(os, "preadv"):  # on Windows: a copy of the mapping
            content = np.asarray(self.root).view(np.uint8).reshape(-1)[self.start - self.root.offset + first * width :]
            return np.array(content[: (last - first) * width]).view(np.float32).reshape(last - first, self.shape[1])
        rows = np.empty((last - first, self.shape[1]), np.float32)
        remaining, at = rows.view(np.uint8).reshape(-1).data, self.start + first * width
        while remaining:
            count = os.preadv(self.handle, [remaining], at)
            if not count:
                raise check.error("a file of features is shorter than it was", where=self.path, hint="open it again")
            remaining, at = remaining[count:], at + count
        return rows


def in_memory(features: object) -> bool:
    """Whether all numbers of a matrix are in memory: it is neither mapped from a file nor sparse."""
    return isinstance(features, np.ndarray) and _mapped(features) is None


def _mapped(array: Column) -> "np.memmap[Any, Any] | None":
    """Return the mapping of a file behind any number of views; None if the array is not backed by a file.

    A mapping that is copied on writing may differ from its file, and does not count.
    """
    owner: Any = array
    while isinstance(owner, np.ndarray | memoryview):
        behind = owner.obj if isinstance(owner, memoryview) else owner.base
        if isinstance(owner, np.memmap) and isinstance(behind, mmap.mmap):
            return None if owner.mode == "c" else owner
        owner = behind
    return None
