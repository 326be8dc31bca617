"""Products of matrices that are the same to the last bit however many threads BLAS has.

What a library of BLAS adds up in which order depends on its threads in two cases: where sums are so long that they are
cut, and where one side is a single vector, which another routine multiplies. Both are avoided here.
"""

import numpy as np

from rankwise.arrays import Floats

_LONGEST = 256


def product(left: Floats, right: Floats) -> Floats:
    """Multiply matrices in single precision.

    >>> product(np.ones((1, 300), np.float32), np.ones((300, 1), np.float32))
    array([[300.]], dtype=float32)
    """
    if left.shape[0] == 1:
        return product(np.repeat(left, 2, axis=0), right)[:1]
    if right.shape[1] == 1:
        return product(left, np.repeat(right, 2, axis=1))[:, :1]
    total = left[:, :_LONGEST] @ right[:_LONGEST]
    for start in range(_LONGEST, left.shape[1], _LONGEST):
        total += left[:, start : start + _LONGEST] @ right[start : start + _LONGEST]
    return total
