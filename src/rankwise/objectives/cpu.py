"""Numba kernels of the operations of prepared objectives, which ``ragged.py`` describes.

Treatments of a Hessian: the exact diagonal of a ranking metric's second derivative is indefinite, and a tree learner
that divides by it steps the wrong way on every document where it is negative. They replace it in place.
"""

from typing import Final

import numpy as np

from rankwise.base.compiling import FUSED, kernel
from rankwise.base.stream import fill_uniforms, uniform_pair
from rankwise.metrics.sorting import longest_of, order_in, scratch_for
from rankwise.objectives.fastmath import log

NOISES: Final = ("gumbel", "logistic", "gaussian")
TREATMENTS: Final = ("absolute", "floored", "ones", "gradient")
FLOOR_SHARE = 0.25
LEAST = 1e-6


@kernel
def order(first, last, offsets, keys, rows):
    """Fill the documents of each query from the highest key to the lowest."""
    n = longest_of(first, last, offsets)
    ranked, scratch = np.empty(n, np.int64), scratch_for(n)
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        order_in(keys[start : start + n], ranked[:n], scratch)
        for k in range(n):
            rows[start + k] = ranked[k]


@kernel
def chain(first, last, offsets, firsts, seconds, gradient, hessian, numerator):
    """Apply a map of each query's value to its derivatives, in place."""
    for q in range(first, last):
        factor = firsts[q]
        for i in range(offsets[q], offsets[q + 1]):
            inner = gradient[i]
            gradient[i] = factor * inner
            if hessian.size:
                hessian[i] = factor * hessian[i]
                if seconds.size:
                    hessian[i] += seconds[q] * (inner * inner)
            if numerator.size:
                numerator[i] = factor * numerator[i]


@kernel
def replace_curvature(first, last, offsets, treatment, gradient, hessian):
    """Replace the Hessian by its size, a floor below the query's largest, ones, or the size of the gradient."""
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        if treatment == 0:
            for i in range(start, end):
                hessian[i] = abs(hessian[i])
        elif treatment == 1:
            largest = 0.0
            for i in range(start, end):
                largest = max(largest, abs(hessian[i]))
            if largest > 0.0:
                for i in range(start, end):
                    hessian[i] = max(hessian[i], FLOOR_SHARE * largest) + LEAST
        elif treatment == 2:
            # A list without gradient must not count in a leaf.
            flat = True
            for i in range(start, end):
                flat = flat and gradient[i] == 0.0
            for i in range(start, end):
                hessian[i] = 0.0 if flat else 1.0
        else:
            for i in range(start, end):
                hessian[i] = abs(gradient[i])


@kernel
def perturb(first, last, offsets, key, queries, noise, scale, sharpness, scores, noisy):
    """Fill the noisy scores of all queries."""
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        perturb_list(key, queries[q], noise, scale, sharpness, scores[mine], noisy[mine])


@kernel(fastmath=FUSED)
def perturb_list(key, query, noise, scale, sharpness, scores, noisy):
    """Fill ``noisy`` with (scores + scale · noise) · sharpness for one query; ``noise`` is an index of ``NOISES``."""
    if noise < 2:
        fill_uniforms(key, query, noisy)  # separate loops are vectorised better than one
    if noise == 0:
        for i in range(scores.size):
            noisy[i] = (scores[i] - scale * log(-log(noisy[i]))) * sharpness
    elif noise == 1:
        for i in range(scores.size):
            noisy[i] = (scores[i] + scale * log(noisy[i] / (1.0 - noisy[i]))) * sharpness
    else:
        for i in range(scores.size):
            u, v = uniform_pair(key, query, i, 0)
            noisy[i] = (scores[i] + scale * np.sqrt(-2.0 * log(u)) * np.cos(2.0 * np.pi * v)) * sharpness
