"""Cholesky's factor of a large matrix and what is solved with it, the same to the last bit with any number of threads.

Matrices are kept in tiles, whose products are too small for BLAS to divide among threads of its own; ours each take
whole tiles.
"""

from typing import cast

import numpy as np

from rankwise.arrays import Array
from rankwise.compiling import REORDERED, kernel
from rankwise.threads import over_queries

_SIDE = 64  # OpenBLAS takes one thread for products of up to 64³ terms
Tiles = np.ndarray[tuple[int, int, int, int], np.dtype[np.float64]]
"""(rows of tiles, columns of tiles, _SIDE, _SIDE)"""


def tiled(matrix: Array) -> Tiles:
    """Cut a matrix into tiles, with zeros beyond its edges."""
    rows, columns = (-(-size // _SIDE) for size in matrix.shape)
    padded = np.zeros((rows * _SIDE, columns * _SIDE))
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return cast("Tiles", np.ascontiguousarray(padded.reshape(rows, _SIDE, columns, _SIDE).swapaxes(1, 2)))


def whole(tiles: Tiles, shape: tuple[int, int]) -> Array:
    """Put tiles together."""
    rows, columns = tiles.shape[:2]
    return tiles.swapaxes(1, 2).reshape(rows * _SIDE, columns * _SIDE)[: shape[0], : shape[1]]


def solved(gram: Array, right: Array) -> Array:
    """Give L⁻¹ · right, where LLᵀ = gram, which is positive definite."""
    lower, out = _factored(gram), tiled(right)
    n, m = out.shape[:2]
    over_queries(_substitute, np.arange(m + 1), lower, out, False, work=np.full(m, 125_000.0 * n * n))
    return whole(out, right.shape)


def inverted(gram: Array) -> Array:
    """Give the inverse of a positive definite matrix: with W = L⁻¹, which is a lower half, it is WᵀW."""
    lower = _factored(gram)
    n = lower.shape[0]
    half, out = tiled(np.eye(n * _SIDE)), np.empty_like(lower)
    work = 40_000.0 * n * np.arange(n, 0, -1.0)
    over_queries(_substitute, np.arange(n + 1), lower, half, True, work=work)
    over_queries(_square, np.arange(n + 1), half, out, work=work)
    return whole(out, gram.shape)


def _factored(gram: Array) -> Tiles:
    """Give L in tiles; those above the diagonal hold anything."""
    lower = tiled(gram)
    n = lower.shape[0]
    for place in range(gram.shape[0], n * _SIDE):  # beyond the edges: 1 on the diagonal
        lower[n - 1, n - 1, place % _SIDE, place % _SIDE] = 1.0
    for column in range(n):
        _factor(column, lower)
        work = np.full(n - column - 1, 250_000.0 * (column + 1))
        over_queries(_panel, np.arange(n - column), column, lower, work=work)
    return lower


@kernel(fastmath=REORDERED)
def cholesky(a):  # type: ignore[no-untyped-def]
    """Turn the lower half of a positive definite matrix into L with LLᵀ = a."""
    for i in range(a.shape[0]):
        for j in range(i + 1):
            total = a[i, j]
            left, right = a[i, :j], a[j, :j]
            for k in range(j):
                total -= left[k] * right[k]
            a[i, j] = np.sqrt(total) if i == j else total / a[j, j]


@kernel
def _factor(column, tiles):  # type: ignore[no-untyped-def]
    """Finish the tile on the diagonal."""
    own, product = tiles[column, column], np.empty((_SIDE, _SIDE))
    for k in range(column):
        np.dot(tiles[column, k], tiles[column, k].T, product)
        own -= product
    cholesky(own)
    for i in range(_SIDE):
        own[i, i + 1 :] = 0.0


@kernel(fastmath=REORDERED)
def _panel(first, last, offsets, column, tiles):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Finish the tiles below it: X · Lᵀ = A."""
    product, diagonal = np.empty((_SIDE, _SIDE)), tiles[column, column]
    for q in range(first, last):
        row = column + 1 + q
        own = tiles[row, column]
        for k in range(column):
            np.dot(tiles[row, k], tiles[column, k].T, product)
            own -= product
        for i in range(_SIDE):
            for j in range(_SIDE):
                total = own[i, j]
                for k in range(j):
                    total -= own[i, k] * diagonal[j, k]
                own[i, j] = total / diagonal[j, j]


@kernel(fastmath=REORDERED)
def _substitute(first, last, offsets, lower, out, half):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Solve for columns of tiles: L · X = B; ``half``: of B and so of X only the lower half is not 0."""
    product = np.empty((_SIDE, _SIDE))
    for column in range(first, last):
        start = column if half else 0
        for row in range(start, lower.shape[0]):
            own, diagonal = out[row, column], lower[row, row]
            for k in range(start, row):
                np.dot(lower[row, k], out[k, column], product)
                own -= product
            for i in range(_SIDE):
                for k in range(i):
                    factor = diagonal[i, k]
                    for j in range(_SIDE):
                        own[i, j] -= factor * own[k, j]
                for j in range(_SIDE):
                    own[i, j] /= diagonal[i, i]


@kernel
def _square(first, last, offsets, tiles, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    """Fill WᵀW of a lower half W, both of its halves."""
    product, total = np.empty((_SIDE, _SIDE)), np.empty((_SIDE, _SIDE))
    for i in range(first, last):
        for j in range(i, tiles.shape[1]):
            total[:] = 0.0
            for k in range(j, tiles.shape[0]):
                np.dot(tiles[k, i].T, tiles[k, j], product)
                total += product
            out[i, j] = total
            if i != j:
                out[j, i] = total.T
