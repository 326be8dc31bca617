"""How many pairs stand in the wrong order when relevant and other documents are shuffled: Mann and Whitney's U.

Short lists are counted out by a recurrence, which takes time with the cube of the list and loses digits on the way.
Long ones are inverted from the characteristic function, which a few dozen frequencies describe: the discordance of m
and n documents, less its mean, has φ(t) = Π_j j·sin((n + j)t/2) / ((n + j)·sin(jt/2)) over j = 1, …, m.
"""

import math

import numpy as np

from rankwise.arrays import Array
from rankwise.compiling import kernel

_COUNTED_UP_TO = 2**20  # steps of the recurrence
_FEWEST = 8  # with fewer documents on one side, φ falls too slowly, and the recurrence is short
_CELLS = 2**17
_DEVIATIONS = 12.0  # beyond lie 1e-30 of the orderings
_NOTHING = 1e-18


def discordant_pairs(relevant: int, others: int) -> tuple[Array, Array]:
    """Give numbers of discordant pairs, ascending, and the chance of each in a random order.

    In long lists, numbers twelve standard deviations from the mean are left out, and neighbouring numbers are taken
    together, in thousands of cells to a standard deviation. The distribution function is right to 1e-12.

    >>> numbers, chances = discordant_pairs(2, 2)
    >>> numbers, (chances * 6).round(12)
    (array([0., 1., 2., 3., 4.]), array([1., 1., 2., 1., 1.]))
    """
    few, many = sorted((relevant, others))
    if few < _FEWEST or few * few * many <= _COUNTED_UP_TO:
        chances = counted(few, many)
        return np.arange(chances.size, dtype=np.float64), chances
    return inverted(few, many)


def counted(few: int, many: int) -> Array:
    """Chances of 0, 1, 2, … discordant pairs.

    The generating function is the Gaussian binomial Π (1 − q^(m+i))/(1 − q^i), multiplied out factor by factor; the
    upper half mirrors the lower one. Good to twelve digits for lists of fifty documents, to six for a thousand.

    >>> (counted(1, 3) * 4).round(12)
    array([1., 1., 1., 1.])
    """
    few, many = sorted((few, many))
    top = few * many
    chances = np.zeros(top + 1)
    chances[0] = 1.0
    half = top // 2 + 1
    _gaussian_binomial(chances[:half], few, many)
    lower = np.maximum(chances[:half], 0.0)
    chances[:half] = lower
    chances[top - half + 1 :] = lower[::-1]
    chances /= chances.sum()
    return chances


def inverted(few: int, many: int) -> tuple[Array, Array]:
    """Numbers of discordant pairs and their chances, as sums of waves in cells of equal width around the mean."""
    top = few * many
    deviation = math.sqrt(top * (few + many + 1) / 12.0)
    reach = min(top + 1, math.ceil(2.0 * _DEVIATIONS * deviation))
    width = -(-reach // _CELLS) // 2 * 2 + 1  # odd, so that cells of whole numbers can lie evenly around the mean
    cells = -(-reach // width)
    cells += (cells + top + 1) % 2
    waves = _characteristic(few, many, cells * width)
    frequencies = 2.0 * np.pi / (cells * width) * np.arange(waves.size)
    waves[1:] *= np.sin(0.5 * width * frequencies[1:]) / (width * np.sin(0.5 * frequencies[1:]))  # the mean over a cell
    spectrum = np.zeros(cells // 2 + 1, np.complex128)
    first = -0.5 * (cells - 1) * width
    spectrum[: waves.size] = waves * np.exp(1j * frequencies * first)
    chances: Array = np.maximum(np.fft.irfft(spectrum, cells), 0.0)
    numbers: Array = 0.5 * top + first + width * np.arange(cells, dtype=np.float64)
    return numbers, chances / chances.sum()


def _characteristic(few: int, many: int, period: int) -> Array:
    """φ at the multiples of 2π/period, up to where nothing follows.

    φ has zeros in clusters; it has vanished when it is nothing for as long as a cluster may be.
    """
    j = np.arange(1.0, few + 1.0)
    values, nothing = [1.0], 0
    while nothing < min(period // many + 2, 20) and len(values) < period // few:
        half = np.pi * len(values) / period
        values.append(float(np.prod(j * np.sin((many + j) * half) / ((many + j) * np.sin(j * half)))))
        nothing = nothing + 1 if abs(values[-1]) < _NOTHING else 0
    return np.array(values)


@kernel
def _gaussian_binomial(chances, few, many):  # type: ignore[no-untyped-def]
    for i in range(1, few + 1):
        step = many + i
        for u in range(chances.size - 1, step - 1, -1):
            chances[u] -= chances[u - step]
        for u in range(i, chances.size):
            chances[u] += chances[u - i]
        # Dividing by how the total grows keeps the numbers near 1.
        scale = i / step
        for u in range(chances.size):
            chances[u] *= scale
