"""Draw rankings from a Plackett-Luce distribution, exactly: each next document by the softmax of those that are left.

Documents stand in positions: the ``head``, the highest, as many as there are ranks, in order, then the ``tail``.
``mass[j]`` is the sum of the weights from position j on, added up from the end. Weights are exp(score − the score of
the last document of the head): those of the tail are at most 1.

Two samplers. ``sequence`` draws rank by rank from the table. A number below ``mass[h]``, where h is the first position
not yet placed, falls into the interval of one document: a guide finds it in the tail, a short search in the head; if
that document is placed already, another number is drawn. The mass left is ``mass[h]`` minus the weights of the few
placed behind h, each less than that of h, so that no step loses digits, however dominant the first documents are.
``race`` draws an exponential waiting time for each document and places the first to arrive, in logs: it costs a number
per document and has no limits. It is used where scores are so steep that a table would overflow.
"""

import math
from typing import Final

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.base.stream import uniform_pair
from rankwise.metrics.sorting import order_in, scratch_for, sort_down

SAMPLERS: Final = ("sequence", "race")
DRAWS: Final = ("independent", "antithetic", "latin")
ANTITHETIC, LATIN = 1, 2
LARGEST_UNIFORM = 1.0 - 2.0**-53

STEEP = 600.0  # beyond this gap within the head, exp(gap) comes near the end of float64
SHORT = 32  # ranges up to this length are searched one by one, not sorted or bisected
FINENESS = 4  # parts of the guide per document of the tail
_AT_ONCE, _SCRATCH = 64, 1024  # the number of samples drawn at once, and the scratch memory that limits it

# Rows of a thread's working memory, each as long as the longest list.
WEIGHT, REWARD, HEIGHT, MASS, MERIT, ARRIVAL, EVEN, ODD, FLOATS = range(9)
PLACE, LAST_SAMPLE, STRATUM, STRIDE, INTEGERS = range(5)
GUIDE = INTEGERS  # the rows from this on, laid end to end
# Rows that hold a batch of samples, one rank after the other and one sample after the other.
UNIFORM, CHANCE, KEEP, BEFORE, AFTER, BATCH = range(6)


@kernel
def working_memory(longest):
    """Return the working memory of a thread for lists of up to ``longest`` documents."""
    floats, integers = np.empty((FLOATS, longest + 1)), np.empty((INTEGERS + FINENESS, longest + 1), np.int64)
    size = max(_SCRATCH, longest) + _AT_ONCE  # an odd number of ranks makes one row of uniforms more
    return floats, integers, np.empty((BATCH, size)), np.empty(size, np.int64)


@kernel
def samples_at_once(head):
    """Return the number of samples that one call of :func:`sample_batch` draws."""
    return min(max(_SCRATCH // head, 1), _AT_ONCE)


@kernel
def tabulate(scores, rewards, head, floats, integers):
    """Fill the table of a query; return whether the head is too steep for a table."""
    n = scores.size
    place, last_sample = integers[PLACE], integers[LAST_SAMPLE]
    guide = integers.reshape(-1)[GUIDE * integers.shape[1] :]
    weight, reward, height, mass, merit = floats[WEIGHT], floats[REWARD], floats[HEIGHT], floats[MASS], floats[MERIT]
    _arrange(scores, rewards, head, place, last_sample)
    last_sample[: n + 1] = -1
    level = scores[place[head - 1]]
    for j in range(n):
        height[j] = scores[place[j]] - level
        weight[j] = np.exp(min(height[j], STEEP))
        reward[j] = rewards[place[j]]
    mass[n] = merit[n] = 0.0
    for j in range(n - 1, -1, -1):
        mass[j] = mass[j + 1] + weight[j]
        merit[j] = merit[j + 1] + weight[j] * reward[j]
    # guide[c] is the position whose interval holds the lower end of the c-th of equal parts of the tail's mass.
    cells, j = FINENESS * (n - head), n - 1
    part = mass[head] / cells
    for c in range(cells):
        while j > head and mass[j] <= c * part:
            j -= 1
        guide[c] = j
    return height[0] > STEEP


@kernel
def _arrange(scores, rewards, head, place, mark):
    """Fill the positions: the highest documents in order, then the rest, those without a reward first.

    Strata then hold similar documents.
    """
    n = scores.size
    if head > SHORT:
        order_in(scores, place[:n], scratch_for(n))
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


@kernel
def _lay_strata(key, query, count, samples, stratum, stride):
    """Fill a walk through all strata for each of ``count`` coordinates: a random start and a random coprime stride."""
    for c in range(count):
        u, v = uniform_pair(key, query, c, 0)
        stratum[c] = min(np.int64(u * samples), samples - 1)
        step = 1 + np.int64(v * (samples - 1))
        while math.gcd(step, samples) > 1:
            step = step % samples + 1
        stride[c] = step


@kernel
def sample_batch(race, key, query, first, count, samples, draws, n, head, floats, integers, batch, at):
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
