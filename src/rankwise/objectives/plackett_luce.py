"""Draw rankings from a Plackett-Luce distribution, exactly: each next document by the softmax of those that are left.

Two samplers. ``sequence`` draws rank by rank from a table. The ``head``, the highest documents, as many as the cutoff,
stand first and in order; the ``tail`` follows in any order. ``mass[j]`` is the sum of the weights from position j to
the end, added up from the end. A number below ``mass[h]``, with h the first position not yet taken, falls into the
interval of one document: a guide finds it in the tail, a short search in the head; a document that is taken already is
drawn again. What is left is always ``mass[h]`` less the few taken behind h, each lighter than document h: no step loses
digits, however dominant the first documents are. ``race`` gives every document an exponential waiting time and takes
the first to arrive, in logs: it costs a number per document, needs no table, has no limits, and a GPU can repeat it draw
by draw.

Weights are exp(score − score of the last document of the head), so that those in the tail are at most 1.
"""

from typing import Final

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.metrics.base import longest_of
from rankwise.metrics.order import order
from rankwise.objectives.base import read_only
from rankwise.stream import Stream, uniform_pair
from rankwise.threads import over_queries

SAMPLERS: Final = ("sequence", "race")
DRAWS: Final = ("independent", "antithetic", "latin")
ANTITHETIC, LATIN = 1, 2

_STEEP = 600.0  # beyond this gap within the head, exp(gap) comes near the end of float64: the race takes over
_SHORT = 32
_LARGEST_UNIFORM = 1.0 - 2.0**-53


def sample(scores: ArrayLike, offsets: ArrayLike, stream: Stream, n: int, cutoff: int | None = None) -> NDArray[np.int64]:
    """Draw ``n`` rankings of every query: rows of documents' indexes within their query, best first.

    The result has the shape (n, ranks), where a query has as many ranks as documents, or ``cutoff`` if that is fewer,
    and its columns follow those of the query before it.

    >>> sample([0.0, 9.0, 0.0, 50.0, 0.0], [0, 3, 5], Stream(seed=1), n=2, cutoff=2)
    array([[1, 2, 0, 1],
           [1, 2, 0, 1]])
    """
    cuts = check.offsets(offsets, int(np.size(scores)))
    values = read_only(check.document_values("scores", scores, cuts))
    n = check.integer("the number of rankings", n, least=1)
    sizes = np.diff(cuts)
    ranks = sizes if cutoff is None else np.minimum(sizes, check.integer("cutoff", cutoff, least=1))
    starts = np.concatenate(([0], np.cumsum(ranks)))
    drawn = np.empty((n, int(starts[-1])), np.int64)
    settings = (read_only(keys(stream)), read_only(stream.queries(sizes.size)), values, starts, drawn)
    over_queries(_sample, read_only(cuts), *settings, work=20.0 * (sizes + n * ranks))
    return drawn


def keys(stream: Stream) -> NDArray[np.uint64]:
    """The keys of the numbers that place documents, that draw again, and that lay out strata."""
    return np.array([stream.child(purpose).key for purpose in range(3)], np.uint64)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _sample(first, last, offsets, key, queries, scores, starts, drawn):  # type: ignore[no-untyped-def]
    longest, n = longest_of(first, last, offsets), drawn.shape[0]
    numbers, whole = np.empty((FLOATS, longest + 1)), np.empty((INTEGERS, longest + 1), np.int64)
    for q in range(first, last):
        values = scores[offsets[q] : offsets[q + 1]]
        head = starts[q + 1] - starts[q]
        place = whole[PLACE]
        steep = tabulate(values, values, head, numbers, whole)
        for i in range(n):
            draw(steep, key, queries[q], i, n, 0, values.size, head, numbers, whole)
            for k in range(head):
                drawn[i, starts[q] + k] = place[whole[AT, k]]


# Rows of a thread's working memory, each as long as the longest list.
WEIGHT, WORTH, HEIGHT, MASS, MERIT, CHANCE, KEEP, ARRIVAL, SPARE, FLOATS = range(10)
PLACE, GUIDE, TAKEN, AT, STRATUM, STRIDE, INTEGERS = range(7)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def tabulate(scores, rewards, head, numbers, whole):  # type: ignore[no-untyped-def]
    """Put a query's documents into positions and add up their weights; tell whether the head is too steep for that."""
    n = scores.size
    place, guide, taken = whole[PLACE], whole[GUIDE], whole[TAKEN]
    weight, worth, height, mass, merit = numbers[WEIGHT], numbers[WORTH], numbers[HEIGHT], numbers[MASS], numbers[MERIT]
    _arrange(scores, rewards, head, place, taken)
    level = scores[place[head - 1]]
    for j in range(n):
        height[j] = scores[place[j]] - level
        weight[j] = np.exp(min(height[j], _STEEP))
        worth[j] = rewards[place[j]]
        taken[j] = -1
    mass[n] = merit[n] = 0.0
    for j in range(n - 1, -1, -1):
        mass[j] = mass[j + 1] + weight[j]
        merit[j] = merit[j + 1] + weight[j] * worth[j]
    # guide[c] is the position whose interval holds the lower end of the c-th of equal parts of the tail's mass.
    cells, j = n - head, n - 1
    for c in range(cells):
        while j > head and mass[j] <= c * (mass[head] / cells):
            j -= 1
        guide[c] = j
    return height[0] > _STEEP


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _arrange(scores, rewards, head, place, mark):  # type: ignore[no-untyped-def]
    """The highest documents in order, then the rest: those without a reward first, so that strata hold like documents."""
    n = scores.size
    if head > _SHORT:
        order(scores, place[:n])
    else:
        count = 0
        for i in range(n):
            score = scores[i]
            if count == head and score <= scores[place[head - 1]]:
                continue
            at = count if count < head else head - 1
            while at > 0 and scores[place[at - 1]] < score:
                place[at] = place[at - 1]
                at -= 1
            place[at] = i
            count = min(count + 1, head)
    mark[:n] = 0
    for j in range(head):
        mark[place[j]] = 1
    left, right = head, n - 1
    for i in range(n):
        if mark[i] == 0:
            if rewards[i] == 0.0:
                place[left] = i
                left += 1
            else:
                place[right] = i
                right -= 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def lay_strata(key, query, count, samples, stratum, stride):  # type: ignore[no-untyped-def]
    """Give each of ``count`` coordinates a walk through all strata: a random start, a random stride coprime to them."""
    for c in range(count):
        u, v = uniform_pair(key, query, c, 0)
        stratum[c] = min(np.int64(u * samples), samples - 1)
        step = 1 + np.int64(v * (samples - 1))
        while _divisor(step, samples) > 1:
            step = step % samples + 1
        stride[c] = step


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _divisor(a, b):  # type: ignore[no-untyped-def]
    while b:
        a, b = b, a % b
    return a


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _stratified(u, c, samples, stratum, stride):  # type: ignore[no-untyped-def]
    """Move the uniform of coordinate ``c`` into its stratum, and the stratum on to the next sample's."""
    inside = (stratum[c] + u) / samples
    ahead = stratum[c] + stride[c]
    stratum[c] = ahead - samples if ahead >= samples else ahead
    return min(inside, _LARGEST_UNIFORM)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def draw(race, key, query, i, samples, draws, n, head, numbers, whole):  # type: ignore[no-untyped-def]
    """Draw sample ``i``: fill AT with positions, CHANCE with the probability of each given those before it, KEEP with
    what share of the mass each leaves; return the mass before the last rank and the mean reward after it.
    """  # noqa: D205
    if i == 0 and draws == LATIN:
        lay_strata(key[2], query, n if race else head, samples, whole[STRATUM], whole[STRIDE])
    if race:
        return _race(key, query, i, samples, draws, n, head, numbers, whole)
    return _sequence(key, query, i, samples, draws, n, head, numbers, whole)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _sequence(key, query, i, samples, draws, n, head, numbers, whole):  # type: ignore[no-untyped-def]
    weight, worth, mass, merit = numbers[WEIGHT], numbers[WORTH], numbers[MASS], numbers[MERIT]
    chance, keep = numbers[CHANCE], numbers[KEEP]
    guide, taken, at = whole[GUIDE], whole[TAKEN], whole[AT]
    cells = n - head
    density = cells / mass[head] if mass[head] > 0.0 else 0.0
    block = i >> 1 if draws == ANTITHETIC else i
    top, behind, again, spare = 0, 0.0, 0, 0.0
    left = before = mass[0]
    for k in range(head):
        if k & 1:
            u = spare
        else:
            u, spare = uniform_pair(key[0], query, k >> 1, block)
        if draws == LATIN:
            u = _stratified(u, k, samples, whole[STRATUM], whole[STRIDE])
        elif draws == ANTITHETIC and i & 1:
            u = 1.0 - u
        if k == n - 1:
            j = top  # the only document left
        else:
            while True:
                x = u * mass[top]
                if x >= mass[head]:
                    j, end = top, head
                    while end - j > _SHORT:
                        middle = (j + end) >> 1
                        if x < mass[middle]:
                            j = middle
                        else:
                            end = middle
                    while x < mass[j + 1]:
                        j += 1
                else:
                    j = guide[min(np.int64(x * density), cells - 1)]
                    while x >= mass[j]:
                        j -= 1
                    while x < mass[j + 1]:
                        j += 1
                if taken[j] != i:
                    break
                u, _ = uniform_pair(key[1], query, again, i)
                again += 1
        at[k], taken[j] = j, i
        before = left
        if j == top:
            passed = False
            top += 1
            while top < n and top <= k and taken[top] == i:
                top += 1
                passed = True
            if passed:
                behind = 0.0
                for a in range(k):
                    behind += weight[at[a]] if at[a] > top else 0.0
        else:
            behind += weight[j]
        left = mass[top] - behind
        chance[k] = weight[j] / before
        keep[k] = left / before
    good = merit[top]
    for a in range(head):
        good -= weight[at[a]] * worth[at[a]] if at[a] > top else 0.0
    return before, good / left if head < n and left > 0.0 else 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _race(key, query, i, samples, draws, n, head, numbers, whole):  # type: ignore[no-untyped-def]
    weight, worth, height = numbers[WEIGHT], numbers[WORTH], numbers[HEIGHT]
    chance, keep, arrival, spare = numbers[CHANCE], numbers[KEEP], numbers[ARRIVAL], numbers[SPARE]
    place, taken, at = whole[PLACE], whole[TAKEN], whole[AT]
    reach = 0.0  # the longest waiting time that still matters, in units of 1 / weight
    for j in range(n):
        d = place[j]
        if i & 1:
            u = spare[j]
        else:
            u, spare[j] = uniform_pair(key[0], query, d, i >> 1)
            if draws == ANTITHETIC:
                spare[j] = 1.0 - u
        if draws == LATIN:
            u = _stratified(u, d, samples, whole[STRATUM], whole[STRIDE])
        if j >= head and 1.0 - u >= reach * weight[j] and head <= _SHORT:
            continue  # −log u ≥ 1 − u: this one comes too late
        came = height[j] - np.log(-np.log(u))
        if head > _SHORT:
            arrival[j] = -came
            continue
        if j >= head and came <= arrival[head - 1]:
            continue
        k = min(j, head - 1)
        while k > 0 and arrival[k - 1] < came:
            arrival[k], at[k] = arrival[k - 1], at[k - 1]
            k -= 1
        arrival[k], at[k] = came, j
        if j >= head - 1:
            reach = np.exp(-arrival[head - 1])
    if head > _SHORT:
        first_to_come = np.argsort(arrival[:n])
        at[:head] = first_to_come[:head]
    for k in range(head):
        taken[at[k]] = i
    # Masses are added up from the documents that were not placed to the one placed first: nothing is subtracted.
    left, good = 0.0, 0.0
    for j in range(head, n):
        if taken[j] != i:
            left += weight[j]
            good += weight[j] * worth[j]
    mean = good / left if left > 0.0 else 0.0
    log_left = np.log(left) if left > 0.0 else -np.inf
    for j in range(head):
        if taken[j] != i:
            log_left, share = _join(height[j], log_left)
            mean = share * worth[j] + (1.0 - share) * mean
    last = -np.inf
    for k in range(head - 1, -1, -1):
        after = log_left
        log_left, chance[k] = _join(height[at[k]], log_left)
        keep[k] = np.exp(after - log_left)
        if k == head - 1:
            last = log_left
    return np.exp(min(last, _STEEP)), mean


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _join(a, b):  # type: ignore[no-untyped-def]
    """The log of exp a + exp b, and the share of the first."""
    top = max(a, b)
    both = top + np.log1p(np.exp(min(a, b) - top))
    return both, np.exp(a - both)
