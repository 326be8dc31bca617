"""Random orderings of one list, and what a metric is worth in each: millions of them, so only what matters is drawn."""

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array
from rankwise.compiling import kernel
from rankwise.stream import Stream, philox_word, split_mix
from rankwise.threads import over_queries

_BLOCK = 256  # orderings that follow from one seed; a thread makes whole blocks, so their number changes nothing
_32 = np.uint64(32)


def drawn(worths: Array, thetas: Array, *, is_ap: bool, orderings: int, seed: int = 0) -> Array:
    """Give the metric of so many random orderings: Σ thetas[rank]·worth, or average precision of worths of 0 and 1."""
    n = worths.size
    ascending, by_rank = np.sort(worths), np.zeros(n)
    by_rank[: thetas.size] = thetas[:n]
    if is_ap:
        by_rank = 1.0 / np.arange(1.0, n + 1.0)
    found = np.empty(orderings)
    blocks = _blocks(orderings)
    work = np.diff(blocks) * (2.0 * np.count_nonzero(ascending) + n * is_ap)
    over_queries(_draw, blocks, Stream(seed).key, ascending, by_rank, is_ap, found, work=work)
    return found


def favoured(
    levels: Array, counts: NDArray[np.int64], weights: Array, thetas: Array, *, is_ap: bool, orderings: int, seed: int
) -> Array:
    """Give the metric of so many orderings in which documents of some levels of worth are likelier to come next."""
    found = np.empty(orderings)
    blocks = _blocks(orderings)
    work = np.diff(blocks) * (6.0 * counts.sum())
    over_queries(_draw_favoured, blocks, Stream(seed).key, levels, counts, weights, thetas, is_ap, found, work=work)
    return found


def _blocks(orderings: int) -> NDArray[np.int64]:
    return np.minimum(np.arange(-(-orderings // _BLOCK) + 1) * _BLOCK, orderings)


@kernel
def worth_of(ranked, thetas, is_ap):  # type: ignore[no-untyped-def]
    """The metric of one ordering, given the worths by rank."""
    total = 0.0
    if is_ap:
        seen = 0.0
        for r in range(ranked.size):
            if ranked[r] > 0.0:
                seen += 1.0
                total += seen / (r + 1.0)
        return total / max(seen, 1.0)
    for r in range(min(ranked.size, thetas.size)):
        total += thetas[r] * ranked[r]
    return total


@kernel
def _draw(first, last, blocks, key, worths, by_rank, is_ap, out):  # type: ignore[no-untyped-def]
    """Shuffle only as many places as matter: those of the documents that are worth something.

    A shuffle that begins with any order ends in any other with the same chance, so the last one is where to begin.
    """
    n = worths.size
    some = np.count_nonzero(worths)
    least = worths[n - some] if some else 0.0
    alike = some > 0 and least == worths[n - 1]
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
                    total += by_rank[rank] * worths[n - 1 - k]  # worths ascend: the last ``some`` are not zero
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
def _draw_favoured(first, last, blocks, key, levels, counts, weights, thetas, is_ap, out):  # type: ignore[no-untyped-def]
    """Rank by rank: which level comes next, by the weights of what is left, until only the lowest one is."""
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
                while left[k] < 0.5 * weights[k]:  # none is left: what is left of others was rounded
                    k = k - 1 if k else levels.size - 1
                ranked[r] = levels[k]
                higher -= k > 0
                left[k] -= weights[k]
                total -= weights[k]
            out[d] = worth_of(ranked, thetas, is_ap)
