"""Arrays that grow while a file is read, without ever being copied: matrices, sparse rows and ids.

Memory is extended by ``realloc`` in steps of bounded size; for large blocks the C library moves pages, not bytes, so
that the peak is what the finished array needs and one step more. A matrix whose width turns out to be larger is spread
out in place, from its last row to its first.
"""

import contextlib
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from rankwise.base.arrays import Column, Keywords, offsets_of
from rankwise.base.compiling import kernel

_LEAST_STEP = 1 << 16
_MOST_STEP = 1 << 24
_BATCH = 1 << 14  # rows, as the reader has
_CELLS = 1 << 16
_MOST_DIGITS = 64
_MOST_NUMBER = 10**18 - 1  # of ids; longer ones are words
_NO_INDEXES, _NO_VALUES = np.empty(0, np.int64), np.empty(0, np.float32)


@kernel
def _spread(flat, rows, old, new, shift):  # type: ignore[no-untyped-def]
    """Widen rows from ``old`` to ``new`` columns, moved right by ``shift``; new columns are zero."""
    for row in range(rows - 1, -1, -1):
        start, target = row * old, row * new
        for column in range(new - 1, -1, -1):
            source = column - shift
            flat[target + column] = flat[start + source] if 0 <= source < old else flat.dtype.type(0)


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

    def clear(self) -> None:
        """Forget all rows; memory is kept, and is zero again."""
        self.flat[: self.rows * self.width] = 0
        self.rows = 0

    def finish(self) -> Column:
        """Release the memory that was not used, and return the matrix."""
        self._resize(self.rows * self.width)
        flat, self.flat = self.flat, np.zeros(0, self.flat.dtype)
        return flat.reshape(self.rows, self.width)

    def cells(self) -> tuple[Column, Column, Column]:
        """No space for single cells, as :class:`GrowingRows` has it: rows are written in full."""
        return _NO_INDEXES, _NO_VALUES, _NO_INDEXES

    def set(self, row: int, column: int, value: np.float32) -> None:
        """Write a number that the kernel was not sure of."""
        self.matrix()[row, column] = value

    def keep(self, rows: int, cells: int) -> None:
        """Count the rows of a batch."""
        self.rows += rows

    def _resize(self, size: int) -> None:
        # No view may be kept from before: matrix() documents that.
        self.flat.resize(size, refcheck=False)


class GrowingRows:
    """The features of a wide file: of every line only what it holds, which becomes a sparse matrix."""

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
        """Keep the cells of a batch."""
        self.columns.append(self._columns[:cells])
        self.values.append(self._values[:cells])
        self.counts.append(np.diff(self._ends[:rows], prepend=0))
        self.rows += rows

    def widen(self, width: int, shift: int = 0) -> None:
        """Allow more columns, or move those that were read by ``shift``."""
        self.width = width
        self.columns.flat[: self.columns.rows] += shift
        self._make_batch()

    def finish(self) -> Any:
        """Return the sparse matrix."""
        from scipy.sparse import csr_array

        options: Keywords = {"shape": (self.rows, self.width), "copy": False}
        offsets = offsets_of(self.counts.finish()[:, 0])
        return csr_array((self.values.finish()[:, 0], self.columns.finish()[:, 0], offsets), **options)


@kernel
def _copy_spans(text, spans, out):  # type: ignore[no-untyped-def]
    for i in range(spans.shape[0]):
        for place in range(spans[i, 1]):
            out[i, place] = text[spans[i, 0] + place]


def _words(text: NDArray[np.uint8], spans: NDArray[np.int64]) -> Column:
    """Return the bytes of these spans (start, length)."""
    raw = np.zeros((len(spans), spans[:, 1].max()), np.uint8)
    _copy_spans(text, spans, raw)
    return raw.view(f"S{raw.shape[1]}")[:, 0]


def probabilities(text: NDArray[np.uint8], spans: NDArray[np.int64]) -> Column | None:
    """Return the numbers in these spans; None unless each holds one from 0 to 1."""
    if not len(spans):
        return np.empty(0)
    if spans[:, 1].min() < 1 or spans[:, 1].max() > _MOST_DIGITS:
        return None
    try:
        values = _words(text, spans).astype(np.float64)
    except ValueError:
        return None
    return values if values.min() >= 0.0 and values.max() <= 1.0 else None


class NotUtf8Error(Exception):
    """An id is not UTF-8; the argument is where it begins in the text."""


class GrowingIds:
    """A column of ids that grows: whole numbers as long as all are, words from the first one that is not."""

    def __init__(self) -> None:
        self.batches: list[Column] = []

    def append(self, text: NDArray[np.uint8], spans: NDArray[np.int64]) -> None:
        """Add the ids that stand in these spans (start, length) of UTF-8 text."""
        if not len(spans):
            return
        words = _words(text, spans)
        if all(batch.dtype.kind == "i" for batch in self.batches[-1:]) and words.itemsize <= len(str(-_MOST_NUMBER)):
            with contextlib.suppress(ValueError):
                numbers = words.astype(np.int64)
                if (np.abs(numbers) <= _MOST_NUMBER).all() and (numbers.astype(words.dtype) == words).all():
                    self.batches.append(numbers)
                    return
        try:
            self.batches.append(words.astype(np.str_))
        except UnicodeDecodeError:  # not ASCII
            decoded = []
            for word, start in zip(words.tolist(), spans[:, 0].tolist(), strict=True):
                try:
                    decoded.append(word.decode())
                except UnicodeDecodeError:
                    raise NotUtf8Error(start) from None
            self.batches.append(np.array(decoded))

    def finish(self) -> Column:
        """Return all ids, as int64 or as strings."""
        batches, self.batches = self.batches, []
        return np.concatenate(batches) if batches else np.empty(0, np.int64)
