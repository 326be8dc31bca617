"""Arrays in the forms that the whole package works with: their types, and ragged rows."""

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]
Floats = NDArray[np.float32]
Offsets = NDArray[np.int64]
Column = NDArray[Any]
"""Values of any type."""
Ids = NDArray[Any]
"""Ids of queries, documents, users or items: integers or strings."""

NONE = np.empty(0)
"""Stands for a column that was not given."""
NONE.flags.writeable = False
UNWANTED = np.empty(0)
"""Stands for an output that was not asked for; it can be written, as those that are asked for can."""

BLOCK = 2**20
"""How many numbers of a matrix are worked on at a time, so that one on disk is never in memory as a whole."""
APART = 64
"""Elements to leave between arrays that one loop reads and writes; see :func:`separate`."""


def read_only(array: Column) -> Column:
    """Give a contiguous array that cannot be written: Numba would compile once more for writable input."""
    return read_only_view(np.ascontiguousarray(array))


def read_only_view(array: Column) -> Column:
    """Give a view of the same memory, contiguous or not, that cannot be written."""
    array = array.view()
    array.flags.writeable = False
    return array


def offsets_of(sizes: ArrayLike) -> Offsets:
    """Turn the number of documents of each query into offsets.

    >>> offsets_of([2, 1])
    array([0, 2, 3])
    """
    sizes = np.asarray(sizes)
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
    return offsets


def rows_of(queries: NDArray[np.int64], offsets: Offsets) -> tuple[slice | NDArray[np.int64], Offsets]:
    """Say where the documents of these queries lie, in this order, and what their offsets are among themselves.

    >>> rows_of(np.array([1, 0]), np.array([0, 2, 3]))
    (array([2, 0, 1]), array([0, 1, 3]))
    """
    starts = offsets[queries]
    sizes = offsets[queries + 1] - starts
    inside = offsets_of(sizes)
    if queries.size and (np.diff(queries) == 1).all():
        return slice(int(starts[0]), int(starts[0] + inside[-1])), inside
    return np.arange(inside[-1]) + np.repeat(starts - inside[:-1], sizes), inside


def part_of(column: Column | None, rows: slice | NDArray[np.int64]) -> Column | None:
    """Take rows of a column that may not be there."""
    return None if column is None else column[rows]


def weighted_sum(columns: Iterable[tuple[float, Array]]) -> Array:
    """Σ factor · column, from the first to the last.

    >>> weighted_sum([(2.0, np.array([1.0, 2.0])), (1.0, np.array([0.0, 1.0]))])
    array([2., 5.])
    """
    total: Any = 0.0
    for factor, column in columns:
        total = total + factor * column
    return np.asarray(total)


def row_blocks(n_rows: int, width: int, numbers: int | None = None) -> Iterator[slice]:
    """Cut the rows of a matrix into blocks of about so many ``numbers``, at least one row each.

    >>> list(row_blocks(5, 2, numbers=4))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = rows_at_once(width, BLOCK if numbers is None else numbers)
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def rows_at_once(width: int, numbers: int) -> int:
    """How many rows make a block of about so many ``numbers``."""
    return max(1, numbers // max(1, width))


def separate(size: int) -> Array:
    """Return an uninitialised array with nothing else within 512 bytes of it.

    Compiled loops take another path, with other rounding, where two arrays lie within a few vectors of each other, and
    results must not depend on where arrays happen to lie.
    """
    return np.empty(size + 2 * APART)[APART : size + APART]
