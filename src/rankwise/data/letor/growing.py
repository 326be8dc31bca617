"""Arrays that grow while a file is read, without ever existing twice.

Memory is extended by ``realloc`` in steps of bounded size; for large blocks the C library moves pages, not bytes, so
that the peak is what the finished array needs and one step more. A matrix whose width turns out to be larger is spread
out in place, from its last row to its first.
"""

import numpy as np
from numpy.typing import DTypeLike

from rankwise.arrays import Column
from rankwise.compiling import kernel

_LEAST_STEP = 1 << 16
_MOST_STEP = 1 << 24
_NO_INDEXES, _NO_VALUES = np.empty(0, np.int64), np.empty(0, np.float32)


@kernel
def _spread(flat, rows, old, new, shift):  # type: ignore[no-untyped-def]
    """Give rows of width ``old`` the width ``new``, their columns moved right by ``shift``; what is new is zero."""
    for row in range(rows - 1, -1, -1):
        start, target = row * old, row * new
        for column in range(new - 1, -1, -1):
            source = column - shift
            flat[target + column] = flat[start + source] if 0 <= source < old else flat.dtype.type(0)


@kernel
def _narrow(flat, rows, old, new):  # type: ignore[no-untyped-def]
    """Cut rows of width ``old`` to their first ``new`` columns."""
    for row in range(rows):
        for column in range(new):
            flat[row * new + column] = flat[row * old + column]


class Growing:
    """A matrix (or, with width 1, a column) to which rows are added; what has not been written is zero.

    >>> column = Growing(np.int64)
    >>> column.append(np.array([1, 2]))
    >>> column.append(np.array([3]))
    >>> column.finish()
    array([[1],
           [2],
           [3]])
    """

    def __init__(self, dtype: DTypeLike, width: int = 1) -> None:
        self.flat: Column = np.zeros(0, dtype)
        self.rows = 0
        self.width = width

    @property
    def capacity(self) -> int:
        """How many rows fit before memory must grow."""
        return self.flat.size // self.width if self.width else np.iinfo(np.int64).max

    def reserve(self, rows: int) -> None:
        """Reserve memory for at least ``rows`` rows; grows by half, but by no more than a fixed step."""
        if rows <= self.capacity:
            return
        step = min(_MOST_STEP, max(_LEAST_STEP, self.flat.nbytes // 2)) // (self.flat.itemsize * self.width)
        self._resize(max(rows, self.capacity + step) * self.width)

    def matrix(self) -> Column:
        """All rows that fit, to be written into; valid until memory grows again."""
        if not self.width:
            return np.zeros((self.rows, 0), self.flat.dtype)
        return self.flat[: self.capacity * self.width].reshape(-1, self.width)

    def append(self, values: Column) -> None:
        """Add rows to a column of width 1."""
        self.reserve(self.rows + values.size)
        self.flat[self.rows : self.rows + values.size] = values
        self.rows += values.size

    def widen(self, width: int, shift: int = 0) -> None:
        """Add columns (zero) at the right, or ``shift`` of them at the left."""
        if self.rows * width > self.flat.size:
            self._resize(self.rows * width)
        _spread(self.flat, self.rows, self.width, width, shift)
        self.width = width

    def narrow(self, width: int) -> None:
        """Keep the first ``width`` columns."""
        _narrow(self.flat, self.rows, self.width, width)
        self.width = width

    def clear(self) -> None:
        """Forget all rows; memory is kept, and is zero again."""
        self.flat[: self.rows * self.width] = 0
        self.rows = 0

    def finish(self) -> Column:
        """Give back the memory that was not used and return the matrix."""
        self._resize(self.rows * self.width)
        flat, self.flat = self.flat, np.zeros(0, self.flat.dtype)
        return flat.reshape(self.rows, self.width)

    def _resize(self, size: int) -> None:
        # NumPy cannot know that nobody keeps a view from before; matrix() says that it must not be kept.
        self.flat.resize(size, refcheck=False)


class GrowingMatrix(Growing):
    """The features of a file, a row for each of its lines."""

    def cells(self) -> tuple[Column, Column, Column]:
        """No space for single cells: rows are written in full."""
        return _NO_INDEXES, _NO_VALUES, _NO_INDEXES

    def set(self, row: int, column: int, value: np.float32) -> None:
        """Write a number that the kernel was not sure of."""
        self.matrix()[row, column] = value

    def keep(self, rows: int, cells: int) -> None:
        """Count the rows of a batch."""
        self.rows += rows
