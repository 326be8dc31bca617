"""Draw rankings from a Plackett-Luce distribution, exactly: each next document by the softmax of those that are left.

Two samplers. ``sequence`` draws rank by rank from a table (see ``table.py``). A number below ``mass[h]``, h
being the first position not yet taken, falls into the interval of one document: a guide finds it in the tail, a short
search in the head; a document that is taken already is drawn again. What is left is always ``mass[h]`` less the few
taken behind h, each lighter than document h, so that no step loses digits, however dominant the first documents are.
``race`` gives every document an exponential waiting time and takes the first to arrive, in logs: it costs a number per
document, needs no table, has no limits, and a GPU can repeat it draw by draw. It takes over where scores are so steep
that a table would overflow.
"""

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import offsets_of, read_only
from rankwise.compiling import kernel
from rankwise.metrics.order import longest_of, sort_down
from rankwise.objectives.plackett_luce.table import (
    AFTER,
    ARRIVAL,
    BEFORE,
    CHANCE,
    EVEN,
    FINENESS,
    GUIDE,
    HEIGHT,
    KEEP,
    MASS,
    MERIT,
    ODD,
    PLACE,
    SHORT,
    STEEP,
    STRATUM,
    STRIDE,
    TAKEN,
    UNIFORM,
    WEIGHT,
    WORTH,
    samples_at_once,
    tabulate,
    working_memory,
)
from rankwise.stream import Stream, uniform_pair
from rankwise.threads import over_queries

SAMPLERS: Final = ("sequence", "race")
DRAWS: Final = ("independent", "antithetic", "latin")
ANTITHETIC, LATIN = 1, 2

LARGEST_UNIFORM = 1.0 - 2.0**-53


def sample(
    scores: ArrayLike, offsets: ArrayLike, stream: Stream, n: int, cutoff: int | None = None
) -> NDArray[np.int64]:
    """Draw ``n`` rankings of every query: rows of documents' indexes within their query, best first.

    The result has the shape (n, ranks), where a query has as many ranks as documents, or ``cutoff`` if that is fewer,
    and its columns follow those of the query before it.

    >>> sample([0.0, 50.0, 99.0, 9.0, 0.0], [0, 3, 5], Stream(seed=1), n=3, cutoff=2)
    array([[2, 1, 0, 1],
           [2, 1, 0, 1],
           [2, 1, 0, 1]])
    """
    cuts = check.offsets(offsets, int(np.size(scores)))
    values = read_only(check.document_values("scores", scores, cuts))
    n = check.integer("the number of rankings", n, least=1)
    sizes = np.diff(cuts)
    ranks = sizes if cutoff is None else np.minimum(sizes, check.integer("cutoff", cutoff, least=1))
    starts = offsets_of(ranks)
    drawn = np.empty((n, int(starts[-1])), np.int64)
    keys = read_only(np.array([child.key for child in draw_streams(stream)], np.uint64))
    settings = (keys, read_only(stream.queries(sizes.size)), values, starts, drawn)
    over_queries(_sample, read_only(cuts), *settings, work=20.0 * (sizes + n * ranks))
    return drawn


def draw_streams(stream: Stream) -> list[Stream]:
    """Return the streams of the numbers that place documents, that draw again, and that lay out strata."""
    return [stream.child(purpose) for purpose in ("place", "retry", "strata")]


@kernel
def _sample(first, last, offsets, key, queries, scores, starts, drawn):
    n = drawn.shape[0]
    numbers, whole, batch, at = working_memory(longest_of(first, last, offsets))
    for q in range(first, last):
        values = scores[offsets[q] : offsets[q + 1]]
        head = starts[q + 1] - starts[q]
        steep = tabulate(values, values, head, numbers, whole)
        for i in range(0, n, samples_at_once(head)):
            count = min(samples_at_once(head), n - i)
            draw(steep, key, queries[q], i, count, n, 0, values.size, head, numbers, whole, batch, at)
            for a in range(count):
                for k in range(head):
                    drawn[i + a, starts[q] + k] = whole[PLACE, at[a * head + k]]


@kernel
def _lay_strata(key, query, count, samples, stratum, stride):
    """Give each of ``count`` coordinates a walk through all strata: a random start, a random stride coprime to them."""
    for c in range(count):
        u, v = uniform_pair(key, query, c, 0)
        stratum[c] = min(np.int64(u * samples), samples - 1)
        step = 1 + np.int64(v * (samples - 1))
        while _divisor(step, samples) > 1:
            step = step % samples + 1
        stride[c] = step


@kernel
def _divisor(a, b):
    while b:
        a, b = b, a % b
    return a


@kernel
def draw(race, key, query, first, count, samples, draws, n, head, numbers, whole, batch, at):
    """Draw samples ``first`` to ``first + count``, after those before them.

    Rank k of the a-th fills element a·head + k: ``at`` gets the position, CHANCE its probability given those before,
    KEEP the share of the mass that it leaves. Element a of BEFORE gets the mass before the last rank, element a of
    AFTER the mean reward of the documents left after it.
    """
    if first == 0 and draws == LATIN:
        _lay_strata(key[2], query, n if race else head, samples, whole[STRATUM], whole[STRIDE])
    if race:
        for a in range(count):
            _race(key, query, first + a, a, samples, draws, n, head, numbers, whole, batch, at)
    else:
        _fill_uniforms(key, query, first, count, samples, draws, head, whole, batch[UNIFORM])
        _sequence(key, query, first, count, n, head, numbers, whole, batch, at)


@kernel
def _fill_uniforms(key, query, first, count, samples, draws, head, whole, uniforms):
    """One uniform per sample and rank, in loops over samples that vectorise."""
    for k in range(0, head, 2):
        even, odd = uniforms[k * count : (k + 1) * count], uniforms[(k + 1) * count : (k + 2) * count]
        for a in range(count):
            block = (first + a) >> 1 if draws == ANTITHETIC else first + a
            even[a], odd[a] = uniform_pair(key[0], query, k >> 1, block)
    for k in range(head):
        row = uniforms[k * count : (k + 1) * count]
        if draws == ANTITHETIC:
            for a in range(1 - (first & 1), count, 2):
                row[a] = 1.0 - row[a]
        elif draws == LATIN:
            stratum, stride = whole[STRATUM, k], whole[STRIDE, k]
            for a in range(count):
                row[a] = min((stratum + row[a]) / samples, LARGEST_UNIFORM)
                stratum += stride
                stratum -= samples if stratum >= samples else 0
            whole[STRATUM, k] = stratum


@kernel
def _sequence(key, query, first, count, n, head, numbers, whole, batch, at):
    weight, worth, mass, merit = numbers[WEIGHT], numbers[WORTH], numbers[MASS], numbers[MERIT]
    uniforms, chance, keep = batch[UNIFORM], batch[CHANCE], batch[KEEP]
    guide, taken = whole.reshape(-1)[GUIDE * whole.shape[1] :], whole[TAKEN]
    cells, in_tail = FINENESS * (n - head), mass[head]
    density = cells / in_tail if in_tail > 0.0 else 0.0
    one, last_cell = np.uint64(1), np.uint64(max(cells - 1, 0))
    for a in range(count):
        i, row = first + a, a * head
        top, behind, again = np.uint64(0), 0.0, 0
        left = before = mass[0]
        for k in range(head):
            u = uniforms[k * count + a]
            j = top
            while k < n - 1:  # else only document ``top`` is left
                x = u * mass[top]
                if x >= in_tail:
                    j, end = top, np.uint64(head)
                    while end - j > np.uint64(SHORT):
                        middle = (j + end) >> one
                        if x < mass[middle]:
                            j = middle
                        else:
                            end = middle
                    while x < mass[j + one]:
                        j += one
                else:
                    j = np.uint64(guide[min(np.uint64(x * density), last_cell)])
                    while x >= mass[j]:
                        j -= one
                    while x < mass[j + one]:
                        j += one
                if taken[j] != i:
                    break
                u, _ = uniform_pair(key[1], query, again, i)
                again += 1
            at[row + k], taken[j] = np.int64(j), i
            before = left
            if j == top:
                top += one
                if taken[top] == i:
                    while taken[top] == i:
                        top += one
                    behind = 0.0
                    for b in range(row, row + k):
                        behind += weight[at[b]] if at[b] > np.int64(top) else 0.0
            else:
                behind += weight[j]
            left = mass[top] - behind
            share = 1.0 / before
            chance[row + k], keep[row + k] = weight[j] * share, left * share
        good = merit[top]
        for b in range(row, row + head):
            good -= weight[at[b]] * worth[at[b]] if at[b] > np.int64(top) else 0.0
        batch[BEFORE, a] = before
        batch[AFTER, a] = good / left if head < n and left > 0.0 else 0.0


@kernel
def _race(key, query, i, a, samples, draws, n, head, numbers, whole, batch, ranked):
    weight, worth, height, arrival = numbers[WEIGHT], numbers[WORTH], numbers[HEIGHT], numbers[ARRIVAL]
    stratum, stride, place, taken = whole[STRATUM], whole[STRIDE], whole[PLACE], whole[TAKEN]
    at, chance, keep = ranked[a * head :], batch[CHANCE, a * head :], batch[KEEP, a * head :]
    even, odd, order = numbers[EVEN], numbers[ODD], whole[GUIDE]
    if i & 1 == 0:
        for d in range(n):
            even[d], odd[d] = uniform_pair(key[0], query, d, i >> 1)
        if draws == ANTITHETIC:
            for d in range(n):
                odd[d] = 1.0 - even[d]
    uniforms = odd if i & 1 else even
    if draws == LATIN:
        for d in range(n):
            uniforms[d] = min((stratum[d] + uniforms[d]) / samples, LARGEST_UNIFORM)
            ahead = stratum[d] + stride[d]
            stratum[d] = ahead - samples if ahead >= samples else ahead
    if head > SHORT:
        for j in range(n):
            arrival[j] = height[j] - np.log(-np.log(uniforms[place[j]]))
            order[j] = j
        sort_down(arrival, order, 0, n)
        for k in range(head):
            at[k] = order[k]
    else:
        reach = 0.0  # the longest waiting time that still matters, in units of 1 / weight
        for j in range(n):
            u = uniforms[place[j]]
            if j >= head and 1.0 - u >= reach * weight[j]:
                continue  # −log u ≥ 1 − u: it comes too late
            came = np.log(-np.log(u)) - height[j]
            if j >= head and came >= arrival[head - 1]:
                continue
            k = min(j, head - 1)
            while k > 0 and arrival[k - 1] > came:
                arrival[k], at[k] = arrival[k - 1], at[k - 1]
                k -= 1
            arrival[k], at[k] = came, j
            if j >= head - 1:
                reach = np.exp(arrival[head - 1])
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
    last = 0.0
    for k in range(head - 1, -1, -1):
        after = log_left
        log_left, chance[k] = _join(height[at[k]], log_left)
        keep[k] = np.exp(after - log_left)
        if k == head - 1:
            last = log_left
    batch[BEFORE, a], batch[AFTER, a] = np.exp(min(last, STEEP)), mean


@kernel(inline=True)
def _join(a, b):
    """The log of exp a + exp b, and the share of the first."""
    top = max(a, b)
    both = top + np.log1p(np.exp(min(a, b) - top))
    return both, np.exp(a - both)
