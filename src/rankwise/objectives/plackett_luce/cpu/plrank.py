"""The kernel of PL-Rank: the expected reward of drawn rankings, with gradient and diagonal Hessian from the same draws.

A ranking places documents one by one; the chance of d at rank k is p_k(d) = exp(s_d) / Z_k, where Z_k sums over what is
left. Let F_k be the reward that follows rank k and G_k that from rank k on (PR_{k+1} and PR_k in the paper). For a
document placed at rank r (or never: then r is the last rank and F_r counts as 0), with e = exp(s_d) and DN_r = Σ 1/Z_k,

    gradient  F_r + e Σ_{k≤r} (θ_k ρ_d − G_k) / Z_k
    Hessian   F_r (1 − 2 e DN_r) + e Σ_{k≤r} (θ_k ρ_d − G_k) / Z_k + 2 e² Σ_{k≤r} (G_k − θ_k ρ_d) DN_k / Z_k

of the expected reward, each in expectation over rankings, where θ_k is the discount of rank k and ρ_d the reward of d.
The Hessian is that of the paper in fewer terms. As sums over ranks, both weigh F_k with a factor whose mean, given the
documents placed before k, is zero. So any number that depends on the ranks before k alone may be subtracted from F_k:
the baseline subtracts the mean reward of the documents left, times the discounts to come, and replaces the reward of
rank k by its expectation.

All sums are relative to the mass that is left, e / Z_k = p_k ≤ 1, and documents that a ranking does not place share
their sums: a ranking costs time in its number of ranks, and there is one pass over the list.
"""

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.metrics.sorting import longest_of
from rankwise.objectives.plackett_luce.cpu.draws import (
    AFTER,
    BEFORE,
    CHANCE,
    KEEP,
    PLACE,
    REWARD,
    WEIGHT,
    sample_batch,
    samples_at_once,
    tabulate,
    working_memory,
)

# Columns that are summed for each document.
PLACED_G, PLACED_H, APART_G, APART_H, TIMES, SUMS = range(6)


@kernel
def fill_ideal(first, last, offsets, rewards, discounts, ideal):
    """Fill the largest Σ discount · reward of each query, for discounts in any order."""
    for q in range(first, last):
        reward = np.sort(rewards[offsets[q] : offsets[q + 1]])[::-1]
        discount = np.sort(discounts[: reward.size])[::-1]
        ideal[q] = 0.0
        for k in range(discount.size):
            ideal[q] += discount[k] * reward[k]


@kernel
def plrank_kernel(
    first, last, offsets, scores, rewards, discounts, samples, race, draws, baseline, keys, queries,
    value, gradient, hessian,
):  # fmt: skip
    """Fill value, gradient and Hessian of these queries, from rankings that the keys draw."""
    longest = longest_of(first, last, offsets)
    floats, integers, batch, at = working_memory(longest)
    sums, ranks, shared = np.empty((longest, SUMS)), np.empty((3, longest)), np.empty(4)
    has_hessian = hessian.size > 0
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n, reward = end - start, rewards[start:end]
        value[q] = 0.0
        gradient[start:end] = 0.0
        if has_hessian:
            hessian[start:end] = 0.0
        head = min(n, discounts.size)
        if n == 1:
            value[q] = -discounts[0] * reward[0]
        elif reward.any():
            steep = tabulate(scores[start:end], reward, head, floats, integers)
            sums[:n] = 0.0
            shared[:] = 0.0
            total = 0.0
            for i in range(0, samples, samples_at_once(head)):
                count = min(samples_at_once(head), samples - i)
                sample_batch(
                    race or steep, keys, queries[q], i, count, samples, draws, n, head, floats, integers, batch, at
                )
                total += _add(
                    count, baseline, has_hessian, head, discounts, floats[REWARD], batch, at, sums, ranks, shared
                )
            _finish(samples, n, floats[WEIGHT], floats[REWARD], sums, shared)
            value[q] = -total / samples
            for j in range(n):
                i = start + integers[PLACE, j]
                gradient[i] = -sums[j, PLACED_G]
                if has_hessian:
                    hessian[i] = -sums[j, PLACED_H]


@kernel
def _add(count, baseline, has_hessian, head, discounts, document_rewards, batch, at, sums, ranks, shared):
    """Add a batch of samples to the sums of the documents they place, and to those shared by all that they do not."""
    chance, keep = batch[CHANCE], batch[KEEP]
    rewards, following, onward = ranks
    total = 0.0
    for sample in range(count):
        row, mean, share = sample * head, batch[AFTER, sample], 1.0 / batch[BEFORE, sample]
        to_come, to_weigh = 0.0, 0.0
        for k in range(head - 1, -1, -1):
            discount, reward = discounts[k], document_rewards[np.uint64(at[row + k])]
            mean = chance[row + k] * reward + keep[row + k] * mean
            earned, expected = discount * reward, discount * mean if baseline else discount * reward
            rewards[k] = reward
            following[k] = to_come - to_weigh * mean if baseline else to_come
            onward[k] = following[k] + expected
            total += expected
            to_come += earned
            to_weigh += discount
        # The paper's DN, DR, RI and the two sums of the Hessian, times Z_k (the Hessian's times Z_k²).
        dn, dr, ri, a, b, keep_before = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
        for k in range(head):
            discount, reward, after, from_rank, p = discounts[k], rewards[k], following[k], onward[k], chance[row + k]
            dn = 1.0 + keep_before * dn
            dr = discount + keep_before * dr
            ri = from_rank + keep_before * ri
            if has_hessian:
                a = discount * dn + keep_before * keep_before * a
                b = from_rank * dn + keep_before * keep_before * b
            keep_before = keep[row + k]
            step = p * (reward * dr - ri)
            mine = sums[np.uint64(at[row + k])]
            mine[PLACED_G] += after + step
            if has_hessian:
                mine[PLACED_H] += after * (1.0 - 2.0 * p * dn) + step + 2.0 * p * p * (b - reward * a)
            mine[TIMES] += 1.0
        dr, ri, a, b = dr * share, ri * share, a * share * share, b * share * share
        shared[0] += dr
        shared[1] += ri
        shared[2] += a
        shared[3] += b
        for k in range(head):
            mine = sums[np.uint64(at[row + k])]
            mine[APART_G] += rewards[k] * dr - ri
            mine[APART_H] += b - rewards[k] * a
    return total


@kernel
def _finish(samples, n, weight, reward, sums, shared):
    """Add the sums of the samples that do not place a document: those of all samples minus those that do."""
    dr, ri, a, b = shared
    for j in range(n):
        mine, e = sums[j], weight[j]
        # A document that is always placed has no such samples, and its sums may lie far above its share of them.
        if mine[TIMES] < samples:
            step = e * (reward[j] * dr - ri - mine[APART_G])
            mine[PLACED_G] += step
            mine[PLACED_H] += step + 2.0 * e * e * (b - reward[j] * a - mine[APART_H])
        mine[PLACED_G] /= samples
        mine[PLACED_H] /= samples
