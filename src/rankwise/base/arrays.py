"""Types of arrays and of dictionaries, and functions of ragged rows."""

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

Json = dict[str, Any]
"""An object of JSON or TOML, read from a file or to be written to one."""
Keywords = dict[str, Any]
"""Settings by name, to be passed on: parameters of a ranker, options of a reader or of another library."""

NONE = np.empty(0)
"""A column that is absent."""
NONE.flags.writeable = False
UNWANTED = np.empty(0)
"""An output that is not needed; writable, as outputs are."""

BLOCK = 2**20
"""Numbers of a matrix that are processed at a time, so that one on disk is never in memory as a whole."""
APART = 64
"""Elements to leave between arrays that one loop reads and writes; see :func:`empty_apart`."""


def read_only(array: Column, *, contiguous: bool = True) -> Column:
    """Return a read-only view of an array, or a contiguous copy: Numba would compile once more for writable input."""
    array = np.ascontiguousarray(array).view() if contiguous else array.view()
    array.flags.writeable = False
    return array


def offsets_of(sizes: ArrayLike) -> Offsets:
    """Return the offsets of queries from their numbers of documents.

    >>> offsets_of([2, 1])
    array([0, 2, 3])
    """
    sizes = np.asarray(sizes)
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=offsets[1:])
    return offsets


def rows_of(queries: NDArray[np.int64], offsets: Offsets) -> tuple[slice | NDArray[np.int64], Offsets]:
    """Return the rows of the documents of these queries, in this order, and the offsets of the result.

    >>> rows_of(np.array([1, 0]), np.array([0, 2, 3]))
    (array([2, 0, 1]), array([0, 1, 3]))
    """
    starts = offsets[queries]
    sizes = offsets[queries + 1] - starts
    inside = offsets_of(sizes)
    if queries.size and (np.diff(queries) == 1).all():
        return slice(int(starts[0]), int(starts[0] + inside[-1])), inside
    return np.arange(inside[-1]) + np.repeat(starts - inside[:-1], sizes), inside


def group_rows(ids: Ids) -> NDArray[np.int64] | None:
    """Return the order that makes equal ids adjacent, in order of first appearance; None if they are adjacent.

    >>> group_rows(np.array(["b", "a", "b"])), group_rows(np.array(["b", "b", "a"]))
    (array([0, 2, 1]), None)
    """
    heads = ids[np.concatenate(([True], ids[1:] != ids[:-1]))] if ids.size else ids
    if np.unique(heads).size == heads.size:
        return None
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    return np.argsort(first[number], kind="stable")


def codes_in_queries(ids: Ids, offsets: Offsets) -> NDArray[np.int64]:
    """Return numbers for the different ids of each query, from 0.

    >>> codes_in_queries(np.array(["b", "a", "b", "c"]), np.array([0, 3, 4]))
    array([1, 0, 1, 0])
    """
    values, codes = np.unique(ids, return_inverse=True)
    queries = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    different, numbers = np.unique(queries * values.size + codes, return_inverse=True)
    return np.asarray(numbers - np.searchsorted(different, queries * values.size))


def comparable(*several: Ids) -> tuple[Ids, ...]:
    """Return ids of one type, as text unless all types are equal, so that 12 and "12" are the same.

    >>> comparable(np.array([12]), np.array(["0012", "12"]))
    (array(['12'], dtype='<U21'), array(['0012', '12'], dtype='<U4'))
    """
    return several if len({ids.dtype.kind for ids in several}) == 1 else tuple(ids.astype(np.str_) for ids in several)


def index_of(ids: Ids, others: Ids) -> NDArray[np.int64]:
    """Return the index of each id among others, which are distinct, or −1; 12 and "12" are the same id.

    >>> index_of(np.array(["12", "0012"]), np.array([7, 12]))
    array([ 1, -1])
    """
    if not others.size:
        return np.full(ids.size, -1)
    ids, others = comparable(ids, others)
    order = np.argsort(others, kind="stable")
    nearest: NDArray[np.int64] = order[np.searchsorted(others, ids, sorter=order).clip(0, others.size - 1)]
    return np.where(others[nearest] == ids, nearest, -1)


def part_of(column: Column | None, rows: slice | NDArray[np.int64]) -> Column | None:
    """Return rows of a column; None for an absent one."""
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
    """Yield blocks of rows of a matrix of about so many ``numbers``, at least one row each.

    >>> list(row_blocks(5, 2, numbers=4))
    [slice(0, 2, None), slice(2, 4, None), slice(4, 5, None)]
    """
    step = max(1, (BLOCK if numbers is None else numbers) // max(1, width))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))


def empty_apart(size: int) -> Array:
    """Return an uninitialised array with nothing else within 512 bytes of it.

    Compiled loops take another path, with other rounding, where two arrays lie within a few vectors of each other, and
    results must not depend on where arrays happen to lie.
    """
    return np.empty(size + 2 * APART)[APART : size + APART]
