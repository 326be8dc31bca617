"""Random orderings of one query: a metric of millions of drawn ones, and the distribution of discordant pairs.

The number of discordant pairs of m relevant and n other documents in random order is Mann and Whitney's U. For short
lists it is counted by a recurrence, which takes time with the cube of the length and loses digits on the way. For long
ones its characteristic function is inverted, which a few dozen frequencies describe: less its mean, U has
φ(t) = Π_j j·sin((n + j)t/2) / ((n + j)·sin(jt/2)) over j = 1, …, m.
"""

import math

import numpy as np

from rankwise import Stream
from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel
from rankwise.base.stream import philox_word, split_mix
from rankwise.base.threads import Kernel, over_queries

_BLOCK = 256  # orderings from one seed; a thread draws whole blocks, so that the number of threads has no effect
_32 = np.uint64(32)

_COUNTED_UP_TO = 2**20  # steps of the recurrence
_FEWEST = 8  # with fewer documents on one side, φ falls too slowly, and the recurrence is short
_CELLS = 2**17
_DEVIATIONS = 12.0  # beyond lie 1e-30 of the orderings
_NOTHING = 1e-18


def sample_orderings(gains: Array, discounts: Array, *, is_ap: bool, orderings: int, seed: int = 0) -> Array:
    """Return the metric of random orderings: Σ discounts[rank]·gain, or average precision of gains of 0 and 1."""
    n = gains.size
    ascending, by_rank = np.sort(gains), np.zeros(n)
    by_rank[: discounts.size] = discounts[:n]
    if is_ap:
        by_rank = 1.0 / np.arange(1.0, n + 1.0)
    work = 2.0 * np.count_nonzero(ascending) + n * is_ap
    return _metrics(_draw, orderings, seed, work, ascending, by_rank, is_ap)


def draw_favouring(
    levels: Array, counts: Offsets, weights: Array, discounts: Array, *, is_ap: bool, orderings: int, seed: int
) -> Array:
    """Return the metric of random orderings in which documents of some levels of gain are likelier to come next."""
    work = 6.0 * counts.sum()
    return _metrics(_draw_favouring, orderings, seed, work, levels, counts, weights, discounts, is_ap)


def _metrics(kernel: Kernel, orderings: int, seed: int, work: float, *arguments: object) -> Array:
    """Return the metric of orderings that a kernel draws; ``work`` is the cost of one."""
    blocks, values = np.minimum(np.arange(-(-orderings // _BLOCK) + 1) * _BLOCK, orderings), np.empty(orderings)
    over_queries(kernel, blocks, Stream(seed).key, *arguments, values, work=np.diff(blocks) * work)
    return values


@kernel
def metric_of(ranked, discounts, is_ap):  # type: ignore[no-untyped-def]
    """Return the metric of one ordering from the gains by rank."""
    total = 0.0
    if is_ap:
        seen = 0.0
        for r in range(ranked.size):
            if ranked[r] > 0.0:
                seen += 1.0
                total += seen / (r + 1.0)
        return total / max(seen, 1.0)
    for r in range(min(ranked.size, discounts.size)):
        total += discounts[r] * ranked[r]
    return total


@kernel
def _draw(first, last, blocks, key, gains, by_rank, is_ap, out):  # type: ignore[no-untyped-def]
    """Shuffle only as many places as needed: those of the documents with a gain.

    A shuffle turns any order into every other with the same chance, so each one continues from the last.
    """
    n = gains.size
    some = np.count_nonzero(gains)
    least = gains[n - some] if some else 0.0
    alike = some > 0 and least == gains[n - 1]
    place, relevant = np.arange(n), np.zeros(n)
    for block in range(first, last):
        state = philox_word(key, np.uint64(block))
        for k in range(n):
            place[k] = k
        for d in range(blocks[block], blocks[block + 1]):
            total, spare, is_spare = 0.0, np.uint64(0), False
            for k in range(some):
                if is_spare:
                    word = spare
                else:
                    word, spare, state = split_mix(state)
                is_spare = not is_spare
                other = k + np.int64((word * np.uint64(n - k)) >> _32)
                rank = place[other]
                place[other] = place[k]
                place[k] = rank
                if is_ap:
                    relevant[rank] = 1.0
                elif alike:
                    total += by_rank[rank]
                else:
                    total += by_rank[rank] * gains[n - 1 - k]  # gains ascend: the last ``some`` are not zero
            if is_ap:
                seen = 0.0
                for r in range(n):
                    seen += relevant[r]
                    total += relevant[r] * seen * by_rank[r]
                    relevant[r] = 0.0
                out[d] = total / max(seen, 1.0)
            else:
                out[d] = total * least if alike else total


@kernel
def _draw_favouring(first, last, blocks, key, levels, counts, weights, discounts, is_ap, out):  # type: ignore[no-untyped-def]
    """Draw the level of rank after rank, by the weights of the documents left, until only the lowest level is left."""
    n = counts.sum()
    ranked, left = np.empty(n), np.empty(levels.size)
    for block in range(first, last):
        state = philox_word(key, np.uint64(block))
        for d in range(blocks[block], blocks[block + 1]):
            total, higher = 0.0, n - counts[0]
            for k in range(levels.size):
                left[k] = counts[k] * weights[k]
                total += left[k]
            for r in range(n):
                if higher == 0:
                    ranked[r:] = levels[0]
                    break
                high, low, state = split_mix(state)
                rest = (np.float64((high << _32) | low) + 0.5) * 2.0**-64 * total
                k = 0
                while k < levels.size - 1 and rest >= left[k]:
                    rest -= left[k]
                    k += 1
                while left[k] < 0.5 * weights[k]:  # no document of this level is left; the remainder is rounding
                    k = k - 1 if k else levels.size - 1
                ranked[r] = levels[k]
                higher -= k > 0
                left[k] -= weights[k]
                total -= weights[k]
            out[d] = metric_of(ranked, discounts, is_ap)


def discordant_pairs(relevant: int, irrelevant: int) -> tuple[Array, Array]:
    """Return numbers of discordant pairs, ascending, and the chance of each in a random order.

    For long lists, numbers twelve standard deviations from the mean are left out, and neighbouring numbers are grouped,
    in thousands of cells to a standard deviation. The distribution function is exact to 1e-12.

    >>> numbers, chances = discordant_pairs(2, 2)
    >>> numbers, (chances * 6).round(12)
    (array([0., 1., 2., 3., 4.]), array([1., 1., 2., 1., 1.]))
    """
    few, many = sorted((relevant, irrelevant))
    if few < _FEWEST or few * few * many <= _COUNTED_UP_TO:
        chances = counted(few, many)
        return np.arange(chances.size, dtype=np.float64), chances
    return inverted(few, many)


def counted(few: int, many: int) -> Array:
    """Return the chances of 0, 1, 2, … discordant pairs.

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
    """Return numbers of discordant pairs and their chances, as sums of waves in cells of equal width."""
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
    """Return φ at the multiples of 2π/period, up to where it has vanished.

    φ has zeros in clusters; it has vanished when it is zero for as long as a cluster may be.
    """
    j = np.arange(1.0, few + 1.0)
    values, zeros = [1.0], 0
    while zeros < min(period // many + 2, 20) and len(values) < period // few:
        half = np.pi * len(values) / period
        values.append(float(np.prod(j * np.sin((many + j) * half) / ((many + j) * np.sin(j * half)))))
        zeros = zeros + 1 if abs(values[-1]) < _NOTHING else 0
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
