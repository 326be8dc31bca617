"""Checks of the feature matrix and its columns."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from rankwise.base import sparse
from rankwise.base.arrays import Floats
from rankwise.check.errors import error, is_missing
from rankwise.check.message import Row
from rankwise.check.settings import integer

_MOST_CONTRIBUTIONS = 2**29  # 4 GiB


def features(values: object) -> Floats:
    """Check the feature matrix: two dimensions of numbers; NaN, None and pandas' NA mean missing.

    A sparse matrix of scipy is returned as a ``csr_array``.
    """
    is_sparse = sparse.is_sparse(values)
    array: Any = values if is_sparse else np.asarray(values)
    if not is_sparse and array.dtype.kind == "O":
        flat = array.ravel().tolist()
        if all(is_missing(value) or isinstance(value, int | float | np.number | np.bool_) for value in flat):
            numbers = [np.nan if is_missing(value) else value for value in flat]
            array = np.array(numbers, np.float64).reshape(array.shape)
    if len(array.shape) != 2 or array.dtype.kind not in "fiub":
        raise error(
            "features must be a matrix of numbers, one row per document",
            got=f"{'a sparse matrix of ' if is_sparse else ''}shape {array.shape} of {array.dtype}",
            hint="reshape one feature to a column with [:, None]; encode text as category codes",
        )
    if not is_sparse:
        return np.ascontiguousarray(array, dtype=np.float32)
    try:
        matrix: Floats = sparse.compressed(array)
    except ValueError as broken:
        raise error("the sparse matrix of features is broken", got=str(broken).rstrip(".")) from None
    return matrix


def dense_features(values: sparse.Matrix, what: str, hint: str) -> None:
    """Raise if a matrix is sparse where a dense one is needed."""
    if sparse.is_sparse(values):
        raise error(
            f"{what} needs a dense matrix of features",
            got=f"a sparse one of {values.shape[0]:,} documents × {values.shape[1]:,} features",
            hint=f"{hint}`set sparse=False` where it is read` (data.features.toarray())|`",
        )


def explainable(values: sparse.Matrix) -> None:
    """Raise if an explanation of a sparse matrix, with a number for every feature of every document, is too large."""
    numbers = values.shape[0] * (values.shape[1] + 1)
    if sparse.is_sparse(values) and numbers > _MOST_CONTRIBUTIONS:
        raise error(
            f"an explanation has a number for every feature of every document, {_MOST_CONTRIBUTIONS:,} at most",
            got=f"{values.shape[0]:,} documents × {values.shape[1]:,} features",
            hint="explain fewer documents at a time, data.take([0])",
        )


def feature_names(values: Sequence[str] | None, n_features: int) -> tuple[str, ...] | None:
    """Check that there is one name per feature, all different."""
    if values is None:
        return None
    names = tuple(map(str, values))
    if len(names) != n_features or len(set(names)) != n_features:
        raise error(
            "feature names must be as many as there are features, and all different",
            got=f"{len(set(names))} different names for {n_features} features",
        )
    if any("\0" in name for name in names):  # which ends names, and some libraries, early
        raise error("feature names must not hold a zero byte", got=repr(next(name for name in names if "\0" in name)))
    return names


def columns(what: str, values: Iterable[int], n_features: int) -> tuple[int, ...]:
    """Check a list of column numbers."""
    numbers = tuple(integer(f"a column in {what}", value, least=0) for value in values)
    for value in numbers:
        if value >= n_features:
            raise error(
                f"a column in {what} must be smaller than the number of features", got=f"{value} of {n_features}"
            )
    return numbers


def categories(
    matrix: Floats,
    columns: Iterable[int],
    *,
    least: float,
    counts: Mapping[int, int] | None = None,
    first_row: int = 0,
) -> None:
    """Check that columns of features hold codes of categories: whole numbers of at least ``least``, or NaN.

    ``counts`` has the number of categories of some columns; rows are counted from ``first_row``.
    """
    for column in columns:
        values = matrix[:, column]
        count = (counts or {}).get(column)
        most = 2.0**24 if count is None else count - 1.0  # float32 cannot tell larger whole numbers apart
        bad = ((values != np.floor(values)) | (values < max(least, -(2.0**24))) | (values > most)) & ~np.isnan(values)
        if bad.any():
            row = int(np.argmax(bad))
            what = "the codes of a categorical column must be whole numbers" + (" of 0 or more" if least == 0 else "")
            raise error(
                what if count is None else f"{what}, below its {count} categories",
                got=f"{values[row]:g}",
                where=Row(first_row + row, f", column {column}"),
                hint="number the categories from 0; NaN stands for one that is missing",
            )
