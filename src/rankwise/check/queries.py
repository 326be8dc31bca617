"""Checks of queries: their ids, where each begins, and one number for each."""

import difflib
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise.base.arrays import Array, Ids, Offsets, offsets_of
from rankwise.check.errors import error, is_missing
from rankwise.check.message import Row

_NO_ID = re.compile("[\0\ud800-\udfff]")
LARGEST_WEIGHT = 1e30  # derivatives times weights go to the libraries in float32


def query_ids(values: ArrayLike, n_queries: int) -> Ids:
    """Check that there is one id per query, integers or strings, all different."""
    array = identifiers("query ids", values, n_queries, "query")
    again = first_repeated(array)
    if again is not None:
        raise error(
            "query ids must all be different",
            got=f"{_plain(array[again])!r} again",
            where=f"query number {again}",
            hint="join the documents of a query, or give the second one another id",
        )
    return array


def first_repeated(ids: Ids) -> int | None:
    """Return the index of the first id that occurs earlier, too; None if all are different."""
    unique, first = np.unique(ids, return_index=True)
    return None if unique.size == ids.size else int(np.setdiff1d(np.arange(ids.size), first)[0])


def groups(values: ArrayLike, n_docs: int) -> Ids:
    """Check the group of every document: an integer or a string; true and false are 1 and 0."""
    array = np.asarray(values)
    hint = "give documents of no known group a group of their own, such as 'unknown'"
    flags = array.astype(np.int64) if array.dtype.kind == "b" else array
    return identifiers("groups", flags, n_docs, "document", hint=hint)


def identifiers(what: str, values: ArrayLike, count: int, one: str, *, hint: str = "fill or drop it") -> Ids:
    """Check a column of integers or strings, of which none is missing, and return it in a plain NumPy type."""
    different_as_text(what, values)
    array = np.asarray(values)
    if array.ndim == 1 and array.dtype.kind in "Of":
        listed = array.tolist()
        row = next((row for row, value in enumerate(listed) if is_missing(value)), None)
        if row is not None:
            place = Row(row) if one == "document" else f"{one} number {row}"
            raise error(f"{what} must be known for every {one}", got=repr(listed[row]), where=place, hint=hint)
        if all(isinstance(value, str | int) and not isinstance(value, bool) for value in listed):
            texts = any(isinstance(value, str) for value in listed)
            array = array.astype(np.str_) if texts else np.array(listed)
    if array.shape != (count,) or array.dtype.kind not in "iuU":
        raise error(
            f"{what} must be one integer or string per {one}",
            got=f"shape {array.shape} of {array.dtype} for {count}",
        )
    return array


def different_as_text(what: str, values: object) -> None:
    """Raise if a list has integers and strings, which become text, and two of them are equal as text.

    >>> different_as_text("document ids", [1, "2"])
    >>> different_as_text("document ids", [1, "1"])
    Traceback (most recent call last):
    rankwise.errors.InputError: document ids must not differ by their type alone: got 1 and '1'. Hint: make all of them
    text, or all integers.
    """
    if not isinstance(values, list | tuple):  # arrays have one type
        return
    numbers = {str(value) for value in values if isinstance(value, int | np.integer)}
    clash = next((value for value in values if isinstance(value, str) and value in numbers), None) if numbers else None
    if clash is not None:
        raise error(
            f"{what} must not differ by their type alone",
            got=f"{clash} and {clash!r}",
            hint="make all of them text, or all integers",
        )


def is_id_text(text: str) -> bool:
    r"""Whether a text can be an id: not empty, Unicode, and without NUL, which NumPy cuts off.

    >>> is_id_text("tv"), is_id_text(""), is_id_text("tv\0"), is_id_text("\ud800")
    (True, False, False, False)
    """
    return bool(text) and (text.isprintable() or _NO_ID.search(text) is None)


def member(what: str, value: object, ids: Ids, *, where: str = "") -> int:
    """Return the index of an id among others, whether it is written as a number or as text.

    >>> member("query", "7", np.array([3, 7]))
    1
    >>> member("query", "q12", np.array(["q1", "q2", "x"]))
    Traceback (most recent call last):
    rankwise.errors.InputError: there is no such query: got 'q12'. Hint: the nearest of 3 are 'q2', 'q1'.
    """
    texts = np.asarray(ids).astype(np.str_)
    places = np.flatnonzero(texts == str(value))
    if places.size:
        return int(places[0])
    listed = texts.tolist()
    near = difflib.get_close_matches(str(value), listed, n=5)
    hint = f"the nearest of {len(listed):,} are " if near else f"there are {len(listed):,}, such as "
    names = ", ".join(repr(name) for name in near or listed[:5])
    raise error(f"there is no such {what}", got=repr(_plain(value)), where=where, hint=hint + names)


def offsets(values: ArrayLike, n_docs: int) -> NDArray[np.int64]:
    """Check that ``values`` divide ``n_docs`` rows into queries of at least one document."""
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu":
        raise error(
            "offsets must be a one-dimensional array of integers, one more than there are queries",
            got=f"shape {array.shape} of {array.dtype}",
            hint="pass the row where each query starts, then the number of rows, or use RankingDataset.from_sizes",
        )
    array = array.astype(np.int64, copy=False)
    if array[0] != 0 or array[-1] != n_docs:
        raise error(
            "offsets must cover every row: begin with 0 and end with the number of rows",
            got=f"{array[0]} to {array[-1]} for {n_docs} rows",
            hint="pass cumulative counts, or use RankingDataset.from_sizes(features, labels, sizes)",
        )
    growing = array[1:] > array[:-1]
    if not growing.all():
        query = int(np.argmin(growing))
        raise error(
            "every query needs at least one document",
            got=f"{array[query + 1] - array[query]} documents",
            where=f"query number {query}",
            hint="leave out queries without documents",
        )
    return array


def sizes(values: ArrayLike, n_docs: int) -> NDArray[np.int64]:
    """Return the offsets of queries from their numbers of documents."""
    array = np.asarray(values)
    if array.ndim != 1 or array.dtype.kind not in "iu" or (array < 1).any():
        raise error("sizes must be a one-dimensional array of positive integers", got=f"{array!r}")
    if array.sum() != n_docs:
        raise error(
            "sizes must add up to the number of rows",
            got=f"a sum of {array.sum()} for {n_docs} rows",
            hint="pass the number of documents of each query, in the order of the rows",
        )
    return offsets_of(array)


def runs(
    qids: ArrayLike, *, hint: str = "sort the rows by query id (a stable sort keeps the order of documents)"
) -> NDArray[np.int64]:
    """Return the offsets of a column of query ids, in which the rows of a query must be adjacent."""
    column = np.asarray(qids)
    if column.ndim != 1:
        raise error("qids must be a one-dimensional column", got=f"shape {column.shape}")
    if column.size == 0:
        return np.zeros(1, np.int64)
    starts = np.concatenate(([0], np.flatnonzero(column[1:] != column[:-1]) + 1))
    heads = column[starts]
    again = first_repeated(heads)
    if again is not None:
        raise error(
            "the rows of a query must lie together",
            got=f"query {_plain(heads[again])!r} again after another query",
            where=Row(int(starts[again])),
            hint=hint,
        )
    return np.concatenate((starts, [column.size])).astype(np.int64)


def query_numbers(values: ArrayLike | slice, n_queries: int) -> NDArray[np.int64]:
    """Return the numbers of queries that a slice, a mask or numbers select."""
    if isinstance(values, slice):
        return np.arange(n_queries)[values]
    chosen = np.asarray(values)
    if chosen.size == 0:
        chosen = chosen.astype(np.int64)
    try:
        if chosen.ndim != 1 or chosen.dtype.kind not in "iub":
            raise IndexError(f"shape {chosen.shape} of {chosen.dtype}")
        numbers: NDArray[np.int64] = np.arange(n_queries)[chosen]
    except IndexError as outside:
        what = f"queries must be a slice, a mask or numbers of the {n_queries} queries"
        raise error(what, got=str(outside), hint="pass [5] for a single query") from None
    return numbers


def rows(values: ArrayLike, n_docs: int) -> NDArray[np.int64]:
    """Check that every document has a different row of the source."""
    array = np.asarray(values)
    is_column = array.shape == (n_docs,) and array.dtype.kind in "iu"
    if not is_column or (array < 0).any() or np.unique(array).size < n_docs:
        raise error(
            "rows must be the number of a row for each document, from 0 and all different",
            got=f"shape {array.shape} of {array.dtype} for {n_docs} documents",
        )
    return array.astype(np.int64, copy=False)


def query_of_row(row: int, query_offsets: Offsets, query_ids: Sequence[object] | Ids | None = None) -> Row:
    """Return the position of a row for an error: its number and its query."""
    query = int(np.searchsorted(query_offsets, row, side="right")) - 1
    name = f"query number {query}" if query_ids is None else f"query {_plain(query_ids[query])!r}"
    return Row(row, f" ({name})")


def query_weights(values: ArrayLike, n_queries: int, *, all_zero: bool = False, n_docs: int | None = None) -> Array:
    """Check one weight per query: finite, not negative, and not all zero unless that is allowed (in a batch).

    By ``n_docs``, where it is known, the error recognises weights of documents.
    """
    array = np.asarray(values, dtype=np.float64)
    if array.shape != (n_queries,):
        by_document = array.shape == (n_docs,)
        raise error(
            "weights must be one number per query",
            got="one per document" if by_document else f"shape {array.shape} for {n_queries} queries",
            hint="set document_weights= for weights of documents; of weights that are the same within a query pass the "
            "first, weights[offsets[:-1]]"
            if by_document
            else "pass a weight for each query",
        )
    bad = ~np.isfinite(array) | (array < 0)
    if bad.any():
        query = int(np.argmax(bad))
        raise error("weights must be finite and not negative", got=array[query], where=f"query number {query}")
    if n_queries and array.max() > LARGEST_WEIGHT:
        query, hint = int(np.argmax(array)), "divide all weights by their mean"
        what = f"weights must be at most {LARGEST_WEIGHT:g}, or their products are too large for a number"
        raise error(what, got=array[query], where=f"query number {query}", hint=hint)
    if n_queries and not all_zero and not array.any():
        raise error("weights must not all be zero", hint="leave weights out, or give some query a positive weight")
    return array


def metric_values(metric: object, values: ArrayLike, n_queries: int, ids: Ids | None = None) -> Array:
    """Check the values of a metric, which errors name: one number per query, NaN where it is skipped."""
    try:
        array = np.asarray(values)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.shape != (n_queries,) or array.dtype.kind not in "fiub":
        raise error(
            f"values of {metric} must be one number per query",
            got=f"shape {array.shape} of {array.dtype} for {n_queries} queries",
            hint="give a value for each query, NaN for one that is skipped, and not their mean",
        )
    infinite = np.isinf(array)
    if infinite.any():
        query = int(np.argmax(infinite))
        where = f"query number {query}" if ids is None else f"query {_plain(ids[query])!r}"
        hint = "NaN is allowed and means that the query is skipped"
        raise error(f"values of {metric} must be finite", got=array[query], where=where, hint=hint)
    return array.astype(np.float64, copy=False)


def _plain(value: object) -> Any:
    """Return the Python value of a NumPy scalar, which prints as the user wrote it."""
    return value.item() if isinstance(value, np.generic) else value
