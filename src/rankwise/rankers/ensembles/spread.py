"""The unit of scores: how far they spread within lists. What is added to a whole list changes no ranking."""

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array


def centred(scores: Array, offsets: NDArray[np.int64]) -> Array:
    """Take the mean of its list from every score.

    >>> centred(np.array([1.0, 3.0, 7.0]), np.array([0, 2, 3]))
    array([-1.,  1.,  0.])
    """
    sizes = np.diff(offsets)
    return np.asarray(scores - np.repeat(np.add.reduceat(scores, offsets[:-1]) / sizes, sizes))


def spread(scores: Array, offsets: NDArray[np.int64]) -> float:
    """Give the root of the mean square of what is left of each list's mean, over lists of several documents.

    It is 0 where that is nothing but rounding.

    >>> spread(np.array([1.0, 3.0, 7.0]), np.array([0, 2, 3]))
    1.0
    """
    sizes = np.diff(offsets)
    several = np.repeat(sizes > 1, sizes)
    left = centred(scores, offsets)[several]
    found = float(np.sqrt(np.mean(left**2))) if left.size else 0.0
    return found if found > 1e-12 * float(np.abs(scores).max(initial=0.0)) else 0.0
