"""Draw rankings from a Plackett-Luce distribution, exactly: each next document by the softmax of those that are left.

Two samplers. ``sequence`` draws rank by rank from a table (see ``table.py``). A number below ``mass[h]``, where h is
the first position not yet placed, falls into the interval of one document: a guide finds it in the tail, a short search
in the head; if that document is placed already, another number is drawn. The mass left is ``mass[h]`` minus the weights
of the few placed behind h, each less than that of h, so that no step loses digits, however dominant the first documents
are.
``race`` draws an exponential waiting time for each document and places the first to arrive, in logs: it costs a number
per document, needs no table, and has no limits. It is used where scores are so steep that a table would overflow.
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
    LAST_SAMPLE,
    MASS,
    MERIT,
    ODD,
    PLACE,
    REWARD,
    SHORT,
    STEEP,
    STRATUM,
    STRIDE,
    UNIFORM,
    WEIGHT,
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
    checked = check.offsets(offsets, int(np.size(scores)))
    values = read_only(check.document_values("scores", scores, checked))
    n = check.integer("the number of rankings", n, least=1)
    sizes = np.diff(checked)
    ranks = sizes if cutoff is None else np.minimum(sizes, check.integer("cutoff", cutoff, least=1))
    rank_offsets = offsets_of(ranks)
    drawn = np.empty((n, int(rank_offsets[-1])), np.int64)
    keys = read_only(np.array([child.key for child in draw_streams(stream)], np.uint64))
    settings = (keys, read_only(stream.queries(sizes.size)), values, rank_offsets, drawn)
    over_queries(_sample, read_only(checked), *settings, work=20.0 * (sizes + n * ranks))
    return drawn


def draw_streams(stream: Stream) -> list[Stream]:
    """Return the streams of places, retries and strata."""
    return [stream.child(purpose) for purpose in ("place", "retry", "strata")]


@kernel
def _sample(first, last, offsets, key, queries, scores, rank_offsets, drawn):
    n = drawn.shape[0]
    floats, integers, batch, at = working_memory(longest_of(first, last, offsets))
    for q in range(first, last):
        values = scores[offsets[q] : offsets[q + 1]]
        head = rank_offsets[q + 1] - rank_offsets[q]
        steep = tabulate(values, values, head, floats, integers)
        for i in range(0, n, samples_at_once(head)):
            count = min(samples_at_once(head), n - i)
            draw(steep, key, queries[q], i, count, n, 0, values.size, head, floats, integers, batch, at)
            for a in range(count):
                for k in range(head):
                    drawn[i + a, rank_offsets[q] + k] = integers[PLACE, at[a * head + k]]


@kernel
def _lay_strata(key, query, count, samples, stratum, stride):
    """Fill a walk through all strata for each of ``count`` coordinates: a random start and a random coprime stride."""
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
def draw(race, key, query, first, count, samples, draws, n, head, floats, integers, batch, at):
    """Draw samples ``first`` to ``first + count``, after those before them.

    Element a·head + k is rank k of the a-th: ``at`` is the position, CHANCE its probability given those before, KEEP
    the share of the mass left after it. Element a of BEFORE is the mass before the last rank, element a of AFTER the
    mean reward of the documents left after it.
    """
    if first == 0 and draws == LATIN:
        _lay_strata(key[2], query, n if race else head, samples, integers[STRATUM], integers[STRIDE])
    if race:
        for a in range(count):
            _race(key, query, first + a, a, samples, draws, n, head, floats, integers, batch, at)
    else:
        _fill_uniforms(key, query, first, count, samples, draws, head, integers, batch[UNIFORM])
        _sequence(key, query, first, count, n, head, floats, integers, batch, at)


@kernel
def _fill_uniforms(key, query, first, count, samples, draws, head, integers, uniforms):
    """Fill one uniform per sample and rank, in loops over samples that vectorise."""
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
            stratum, stride = integers[STRATUM, k], integers[STRIDE, k]
            for a in range(count):
                row[a] = min((stratum + row[a]) / samples, LARGEST_UNIFORM)
                stratum += stride
                stratum -= samples if stratum >= samples else 0
            integers[STRATUM, k] = stratum


@kernel
def _sequence(key, query, first, count, n, head, floats, integers, batch, at):
    weight, reward, mass, merit = floats[WEIGHT], floats[REWARD], floats[MASS], floats[MERIT]
    uniforms, chance, keep = batch[UNIFORM], batch[CHANCE], batch[KEEP]
    guide, last_sample = integers.reshape(-1)[GUIDE * integers.shape[1] :], integers[LAST_SAMPLE]
    cells, in_tail = FINENESS * (n - head), mass[head]
    density = cells / in_tail if in_tail > 0.0 else 0.0
    one, last_cell = np.uint64(1), np.uint64(max(cells - 1, 0))
    for a in range(count):
        i, row = first + a, a * head
        top, behind, retries = np.uint64(0), 0.0, 0
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
                if last_sample[j] != i:
                    break
                u, _ = uniform_pair(key[1], query, retries, i)
                retries += 1
            at[row + k], last_sample[j] = np.int64(j), i
            before = left
            if j == top:
                top += one
                if last_sample[top] == i:
                    while last_sample[top] == i:
                        top += one
                    behind = 0.0
                    for b in range(row, row + k):
                        behind += weight[at[b]] if at[b] > np.int64(top) else 0.0
            else:
                behind += weight[j]
            left = mass[top] - behind
            share = 1.0 / before
            chance[row + k], keep[row + k] = weight[j] * share, left * share
        reward_mass = merit[top]
        for b in range(row, row + head):
            reward_mass -= weight[at[b]] * reward[at[b]] if at[b] > np.int64(top) else 0.0
        batch[BEFORE, a] = before
        batch[AFTER, a] = reward_mass / left if head < n and left > 0.0 else 0.0


@kernel
def _race(key, query, i, a, samples, draws, n, head, floats, integers, batch, ranked):
    weight, reward, height, arrival = floats[WEIGHT], floats[REWARD], floats[HEIGHT], floats[ARRIVAL]
    stratum, stride, place, last_sample = integers[STRATUM], integers[STRIDE], integers[PLACE], integers[LAST_SAMPLE]
    at, chance, keep = ranked[a * head :], batch[CHANCE, a * head :], batch[KEEP, a * head :]
    even, odd, order = floats[EVEN], floats[ODD], integers[GUIDE]
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
            next_stratum = stratum[d] + stride[d]
            stratum[d] = next_stratum - samples if next_stratum >= samples else next_stratum
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
            arrived = np.log(-np.log(u)) - height[j]
            if j >= head and arrived >= arrival[head - 1]:
                continue
            k = min(j, head - 1)
            while k > 0 and arrival[k - 1] > arrived:
                arrival[k], at[k] = arrival[k - 1], at[k - 1]
                k -= 1
            arrival[k], at[k] = arrived, j
            if j >= head - 1:
                reach = np.exp(arrival[head - 1])
    for k in range(head):
        last_sample[at[k]] = i
    # Masses are added up from the documents that were not placed to the one placed first: nothing is subtracted.
    left, reward_mass = 0.0, 0.0
    for j in range(head, n):
        if last_sample[j] != i:
            left += weight[j]
            reward_mass += weight[j] * reward[j]
    mean = reward_mass / left if left > 0.0 else 0.0
    log_left = np.log(left) if left > 0.0 else -np.inf
    for j in range(head):
        if last_sample[j] != i:
            log_left, share = _join(height[j], log_left)
            mean = share * reward[j] + (1.0 - share) * mean
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
    """Return the log of exp a + exp b, and the share of the first."""
    top = max(a, b)
    both = top + np.log1p(np.exp(min(a, b) - top))
    return both, np.exp(a - both)
