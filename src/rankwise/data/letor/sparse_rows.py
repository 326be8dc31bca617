"""The features of a wide file: of every line only what it holds, which becomes a sparse matrix."""

from typing import Any

import numpy as np

from rankwise.arrays import Column, offsets_of
from rankwise.data.letor.growing import Growing
from rankwise.plain import Keywords

_BATCH = 1 << 14  # rows, as the reader has
_CELLS = 1 << 16


class SparseRows:
    """Takes the place of :class:`rankwise.data.letor.growing.GrowingMatrix` in a reader."""

    def __init__(self, width: int) -> None:
        self.width, self.rows = width, 0
        self.columns, self.values = Growing(np.int32), Growing(np.float32)
        self.counts = Growing(np.int64)
        self._ends = np.empty(_BATCH, np.int64)
        self._make_batch()

    def _make_batch(self) -> None:
        size = self.width + _CELLS  # a line always fits
        self._columns, self._values = np.empty(size, np.int64), np.empty(size, np.float32)

    def cells(self) -> tuple[Column, Column, Column]:
        """Space for a batch: columns, values, and where each row ends among them."""
        return self._columns, self._values, self._ends

    def matrix(self) -> Column:
        """No row is written in full."""
        return np.empty((0, 0), np.float32)

    def reserve(self, rows: int) -> None:
        """Nothing: memory grows as rows are kept."""

    def set(self, cell: int, _: int, value: np.float32) -> None:
        """Write a number that the kernel was not sure of."""
        self._values[cell] = value

    def keep(self, rows: int, cells: int) -> None:
        """Take the cells of a batch."""
        self.columns.append(self._columns[:cells])
        self.values.append(self._values[:cells])
        self.counts.append(np.diff(self._ends[:rows], prepend=0))
        self.rows += rows

    def widen(self, width: int, shift: int = 0) -> None:
        """Allow more columns, or move those that were read by ``shift``."""
        self.width = width
        self.columns.flat[: self.columns.rows] += shift
        self._make_batch()

    def narrow(self, width: int) -> None:
        """Keep the first ``width`` columns; no later one was written to."""
        self.width = width

    def finish(self) -> Any:
        """Give the sparse matrix."""
        from scipy.sparse import csr_array

        about: Keywords = {"shape": (self.rows, self.width), "copy": False}
        offsets = offsets_of(self.counts.finish()[:, 0])
        return csr_array((self.values.finish()[:, 0], self.columns.finish()[:, 0], offsets), **about)
