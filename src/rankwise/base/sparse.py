"""Sparse feature matrices of scipy: compressed rows (CSR) in float32. What is not stored is zero, and NaN is missing.

``scipy.sparse`` is imported only once a matrix is sparse: its import is slow.
"""

from typing import Any

import numpy as np

from rankwise.base.arrays import Column, Floats, read_only

Matrix = Any
"""A dense matrix, or a sparse one of scipy, which has no types."""


def is_sparse(values: object) -> bool:
    """Whether a value is a sparse matrix or array of scipy, in any format.

    >>> from scipy.sparse import coo_array
    >>> is_sparse(coo_array((2, 3))), is_sparse(np.zeros((2, 3)))
    (True, False)
    """
    return hasattr(values, "tocsr")


def compressed(values: Matrix) -> Matrix:
    """Return a matrix in the form that the package works with: a ``csr_array``, sorted, without duplicates, read-only.

    Memory is shared with ``values`` unless it must be converted; an index out of range raises ValueError.
    """
    from scipy.sparse import csr_array

    matrix = csr_array(values, copy=False)
    matrix.check_format(full_check=True)
    if matrix.dtype != np.float32:
        matrix = matrix.astype(np.float32)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    parts = tuple(read_only(part) for part in (matrix.data, matrix.indices, matrix.indptr))
    shared = csr_array(parts, shape=matrix.shape, copy=False)
    shared.has_canonical_format = True
    return shared


def dense(rows: Matrix) -> Floats:
    """Return rows as a dense matrix.

    >>> from scipy.sparse import csr_array
    >>> dense(csr_array(np.eye(2, dtype=np.float32)))
    array([[1., 0.],
           [0., 1.]], dtype=float32)
    """
    matrix: Floats = rows.toarray() if is_sparse(rows) else rows
    return matrix


def for_library(features: Matrix) -> Matrix:
    """Return the type of matrix that libraries accept: scipy's older ``csr_matrix``, with the same memory."""
    if not is_sparse(features):
        return features
    from scipy.sparse import csr_matrix

    return csr_matrix((features.data, features.indices, features.indptr), shape=features.shape, copy=False)


def stacked(parts: list[Matrix]) -> Matrix:
    """Concatenate the rows of matrices; sparse if one of them is."""
    if not any(map(is_sparse, parts)):
        return np.concatenate(parts)
    from scipy.sparse import csr_array, vstack

    return vstack([csr_array(part) for part in parts], format="csr")


def buffers(features: Matrix) -> tuple[Column, ...]:
    """Return the arrays that a matrix consists of."""
    return (features.data, features.indices, features.indptr) if is_sparse(features) else (features,)


def same_rows(features: Matrix) -> bool:
    """Whether all rows are equal, so that no feature distinguishes documents."""
    if not features.shape[0]:
        return True
    if is_sparse(features):
        return bool((features.min(axis=0).toarray() == features.max(axis=0).toarray()).all())
    return bool((features == features[0]).all())
