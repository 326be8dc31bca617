"""Smooth ranks by the Laplace distribution: sums over all documents by two sweeps along the sorted list.

With x = η(s_k − s_i), the comparison of k and i is F(x) = e^x/2 below 0 and 1 − e^−x/2 above it. It has the derivatives
w = e^−|x|/2 and t = ∓w: −w where k is higher, w where it is lower, and between the two, 0, where both are equal. An
exponential of a difference of scores is a product along the sorted list, so a document's sum over all that are higher
is that of its neighbour, times one factor: Σ F, Σ w and Σ t of all documents take two sweeps, O(n log n) time with the
sort and O(n) memory. Factors are at most 1, so nothing overflows.

Every relevant document i adds to the derivatives by any other score s_k

    gradient  c·w,   Hessian  c·(b·w² + η·t),

where c depends on i and on whether k is relevant, and to its own −Σ c·w and Σ c·η·t + b·(Σ w)(Σ c·w). These sums take
two more sweeps.
"""

import numpy as np

from rankwise.arrays import APART
from rankwise.compiling import FUSED, kernel
from rankwise.metrics.order import longest_of, order_in, scratch_for
from rankwise.objectives.fastmath import exp
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG, SETTLED

# What is kept of each place of a sorted list. The sums are over others that are not relevant, and over those that are.
_SCORE, _FALL, _WORTH, _RANK, _NEAR, _TILT, _PULL, _BEND, _SLOPE, _CURVE, _ROWS = range(11)
_SIDES = 2


@kernel
def laplace_kernel(first, last, offsets, scores, gains, relevant, counts, best, eta, metric, value, gradient, hessian):
    """Fill minus NDCG, minus AP, or the rank-biased loss, with their derivatives."""
    longest = longest_of(first, last, offsets)
    ranked, sorting = np.empty(longest, np.int64), scratch_for(longest)
    places = np.empty((_ROWS, _SIDES, longest + APART))
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n = end - start
        value[q] = 0.0
        gradient[start:end] = 0.0
        if hessian.size:
            hessian[start:end] = 0.0
        if counts[q] == SETTLED:
            value[q] = -1.0
        elif counts[q] > 0:
            order_in(scores[start:end], ranked[:n], sorting)
            for k in range(n):
                places[_SCORE, 0, k] = scores[start + ranked[k]]
                places[_WORTH, 0, k] = gains[start + ranked[k]]
            value[q] = _smooth(n, metric, best[q], eta, hessian.size > 0, places)
            for k in range(n):
                gradient[start + ranked[k]] = places[_SLOPE, 0, k]
                if hessian.size:
                    hessian[start + ranked[k]] = places[_CURVE, 0, k]


@kernel
def _smooth(n, metric, best, eta, bends, places):
    """One sorted list: fill SLOPE and CURVE, and give the value."""
    score, worth, slope, curve = places[_SCORE, 0], places[_WORTH, 0], places[_SLOPE, 0], places[_CURVE, 0]
    _fill_falls(n, eta, score, places[_FALL, 0])
    _look(n, score, places[_FALL, 0], worth, places[_RANK], places[_NEAR], places[_TILT])
    total = 0.0
    for k in range(n):
        slope[k] = curve[k] = 0.0
        if worth[k] > 0.0:
            others, relevant = places[_RANK, 0, k], places[_RANK, 1, k]
            part, pull_others, pull_relevant, bend = _part(metric, worth[k], best, eta, others, relevant)
            near_others, near_relevant = places[_NEAR, 0, k], places[_NEAR, 1, k]
            pulled = pull_others * near_others + pull_relevant * near_relevant
            tilted = pull_others * places[_TILT, 0, k] + pull_relevant * places[_TILT, 1, k]
            total += part
            slope[k] = -pulled
            curve[k] = eta * tilted + bend * (near_others + near_relevant) * pulled
            places[_PULL, 0, k], places[_PULL, 1, k] = pull_others, pull_relevant
            places[_BEND, 0, k], places[_BEND, 1, k] = bend * pull_others, bend * pull_relevant
    _spread(n, eta, bends, score, places[_FALL, 0], worth, places[_PULL], places[_BEND], slope, curve)
    return total


@kernel(fastmath=FUSED)
def _fill_falls(n, eta, score, fall):
    """Fill e^−η(gap) between each document and the next one."""
    for k in range(n - 1):
        fall[k] = exp(eta * (score[k + 1] - score[k]))


@kernel
def _part(metric, worth, best, eta, others, relevant):
    """What a relevant document adds to the value, c for others that are not relevant and that are, and b.

    Its rank is 1 + ``others`` + ``relevant``.
    """
    rank = 1.0 + others + relevant
    if metric == NDCG:  # gain/ideal · −1/log2(1 + rank)
        log, share = np.log(1.0 + rank), worth * LN2 / best
        pull = share * eta / ((1.0 + rank) * log * log)
        return -share / log, pull, pull, -eta * (log + 2.0) / ((1.0 + rank) * log)
    if metric == AP:  # −1/count · rank among the relevant / rank
        share, among = 1.0 / (best * rank), 1.0 + relevant
        turn = eta * share / rank
        return -share * among, turn * among, -turn * others, -2.0 * eta / rank
    return others, eta, 0.0, 0.0


@kernel
def _look(n, score, fall, worth, rank, near, tilt):
    """Fill Σ F, Σ w and Σ t of every place, over others that are not relevant (row 0) and that are (row 1)."""
    for side in range(_SIDES):
        count, far, equal = 0.0, 0.0, 0.0  # Σ e^−|x| over those that are higher, and how many score the same
        for k in range(n):
            if k > 0 and score[k] != score[k - 1]:
                count += equal
                far = (far + equal) * fall[k - 1]
                equal = 0.0
            rank[side, k] = count - 0.5 * far + 0.5 * equal
            near[side, k] = 0.5 * (far + equal)
            tilt[side, k] = -0.5 * far
            equal += (worth[k] > 0.0) == (side == 1)
        far, equal = 0.0, 0.0
        for k in range(n - 1, -1, -1):
            if k < n - 1 and score[k] != score[k + 1]:
                far = (far + equal) * fall[k]
                equal = 0.0
            rank[side, k] += 0.5 * (far + equal)
            near[side, k] += 0.5 * (far + equal)
            tilt[side, k] += 0.5 * far
            equal += (worth[k] > 0.0) == (side == 1)


@kernel
def _spread(n, eta, bends, score, fall, worth, pull, bend, slope, curve):
    """Add to every place what relevant documents add to it: first those that are higher, then those that are lower."""
    for downwards in (True, False):
        far_0, far_1, same_0, same_1 = 0.0, 0.0, 0.0, 0.0
        bent_0, bent_1, bound_0, bound_1 = 0.0, 0.0, 0.0, 0.0
        turn = 0.5 * eta if downwards else -0.5 * eta
        for step in range(n):
            k = step if downwards else n - 1 - step
            before = k - 1 if downwards else k + 1
            if step > 0 and score[k] != score[before]:
                f = fall[min(k, before)]
                far_0, far_1, same_0, same_1 = (far_0 + same_0) * f, (far_1 + same_1) * f, 0.0, 0.0
                if bends:
                    bent_0, bent_1, bound_0, bound_1 = (bent_0 + bound_0) * f * f, (bent_1 + bound_1) * f * f, 0.0, 0.0
            relevant = worth[k] > 0.0
            far, same = (far_1, same_1) if relevant else (far_0, same_0)
            slope[k] += 0.5 * (far + same)
            if bends:
                curve[k] += turn * far + 0.25 * (bent_1 + bound_1 if relevant else bent_0 + bound_0)
            if relevant:
                same_0 += pull[0, k]
                same_1 += pull[1, k]
                bound_0 += bend[0, k]
                bound_1 += bend[1, k]
