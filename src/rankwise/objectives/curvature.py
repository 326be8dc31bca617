"""Treatments of a diagonal Hessian that Newton's method cannot use.

The exact diagonal of a ranking metric's second derivative is indefinite: a tree learner that divides by it steps the
wrong way on every document where it is negative. These treatments, shared by all such objectives, replace a query's
Hessian in place.
"""

from typing import Final

import numpy as np
from numpy.typing import NDArray

from rankwise.compiling import kernel
from rankwise.threads import over_queries

TREATMENTS: Final = ("absolute", "floored", "ones", "gradient")
FLOOR_SHARE = 0.25
LEAST = 1e-6


def treat(
    treatment: str, offsets: NDArray[np.int64], gradient: NDArray[np.float64], hessian: NDArray[np.float64]
) -> None:
    """Replace ``hessian`` by its size, a floor relative to the query's largest, ones, or the size of the gradient."""
    if treatment in TREATMENTS:
        over_queries(_treat, offsets, TREATMENTS.index(treatment), gradient, hessian)


@kernel
def _treat(first, last, offsets, treatment, gradient, hessian):  # type: ignore[no-untyped-def]
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
