"""Smooth ranks by the Laplace distribution: sums over all documents by two sweeps along the sorted list.

With x = η(s_k − s_i), the comparison of k and i is F(x) = e^x/2 below 0 and 1 − e^−x/2 above it. It has the derivatives
w = e^−|x|/2 and t = ∓w: −w where k is higher, w where it is lower, and between the two, 0, where both are equal. An
exponential of a difference of scores is a product along the sorted list, so a document's sum over all that are higher
is that of its neighbour, times one factor: Σ F, Σ w and Σ t of all documents take two sweeps, O(n log n) time with the
sort and O(n) memory. Factors are at most 1, so nothing overflows.

Every relevant document i adds to the derivatives by any other score s_k

    gradient  c·w,   Hessian  c·(b·w² + η·t),

where c depends on i and on whether k is relevant, and −Σ c·w and Σ c·η·t + b·(Σ w)(Σ c·w) to those by its own score.
These sums take two more sweeps.
"""

import numpy as np

from rankwise.arrays import APART
from rankwise.compiling import FUSED, kernel
from rankwise.metrics.order import longest_of, order_in, scratch_for
from rankwise.objectives.fastmath import exp
from rankwise.objectives.smooth.cpu import AP, LN2, NDCG, SETTLED

# Columns of the places of a sorted list. Sums are over irrelevant documents (side 0), and over relevant ones (side 1).
_SCORE, _DECAY, _GAIN, _RANK, _NEAR, _TILT, _C, _BC, _GRADIENT, _HESSIAN, _ROWS = range(11)
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
                places[_GAIN, 0, k] = gains[start + ranked[k]]
            value[q] = _smooth(n, metric, best[q], eta, hessian.size > 0, places)
            for k in range(n):
                gradient[start + ranked[k]] = places[_GRADIENT, 0, k]
                if hessian.size:
                    hessian[start + ranked[k]] = places[_HESSIAN, 0, k]


@kernel
def _smooth(n, metric, best, eta, has_hessian, places):
    """Fill the gradient and the Hessian of a sorted list, and return the value."""
    score, gain, gradient, hessian = places[_SCORE, 0], places[_GAIN, 0], places[_GRADIENT, 0], places[_HESSIAN, 0]
    _fill_decays(n, eta, score, places[_DECAY, 0])
    _fill_sums(n, score, places[_DECAY, 0], gain, places[_RANK], places[_NEAR], places[_TILT])
    total = 0.0
    for k in range(n):
        gradient[k] = hessian[k] = 0.0
        if gain[k] > 0.0:
            irrelevant, relevant = places[_RANK, 0, k], places[_RANK, 1, k]
            part, c_irrelevant, c_relevant, b = _part(metric, gain[k], best, eta, irrelevant, relevant)
            near_irrelevant, near_relevant = places[_NEAR, 0, k], places[_NEAR, 1, k]
            c_w_sum = c_irrelevant * near_irrelevant + c_relevant * near_relevant
            c_t_sum = c_irrelevant * places[_TILT, 0, k] + c_relevant * places[_TILT, 1, k]
            total += part
            gradient[k] = -c_w_sum
            hessian[k] = eta * c_t_sum + b * (near_irrelevant + near_relevant) * c_w_sum
            places[_C, 0, k], places[_C, 1, k] = c_irrelevant, c_relevant
            places[_BC, 0, k], places[_BC, 1, k] = b * c_irrelevant, b * c_relevant
    _spread(n, eta, has_hessian, score, places[_DECAY, 0], gain, places[_C], places[_BC], gradient, hessian)
    return total


@kernel(fastmath=FUSED)
def _fill_decays(n, eta, score, decay):
    """Fill e^−η(gap) between each document and the next one."""
    for k in range(n - 1):
        decay[k] = exp(eta * (score[k + 1] - score[k]))


@kernel
def _part(metric, gain, best, eta, irrelevant, relevant):
    """Return the part of a relevant document in the value, c for irrelevant documents and for relevant ones, and b.

    Its rank is 1 + ``irrelevant`` + ``relevant``.
    """
    rank = 1.0 + irrelevant + relevant
    if metric == NDCG:  # gain/ideal · −1/log2(1 + rank)
        log, share = np.log(1.0 + rank), gain * LN2 / best
        c = share * eta / ((1.0 + rank) * log * log)
        return -share / log, c, c, -eta * (log + 2.0) / ((1.0 + rank) * log)
    if metric == AP:  # −1/count · rank among the relevant / rank
        share, among = 1.0 / (best * rank), 1.0 + relevant
        slope = eta * share / rank
        return -share * among, slope * among, -slope * irrelevant, -2.0 * eta / rank
    return irrelevant, eta, 0.0, 0.0


@kernel
def _fill_sums(n, score, decay, gain, rank, near, tilt):
    """Fill Σ F, Σ w and Σ t of every place, over irrelevant documents (row 0) and relevant ones (row 1)."""
    for side in range(_SIDES):
        count, far, equal = 0.0, 0.0, 0.0  # Σ e^−|x| over those that are higher, and how many score the same
        for k in range(n):
            if k > 0 and score[k] != score[k - 1]:
                count += equal
                far = (far + equal) * decay[k - 1]
                equal = 0.0
            rank[side, k] = count - 0.5 * far + 0.5 * equal
            near[side, k] = 0.5 * (far + equal)
            tilt[side, k] = -0.5 * far
            equal += (gain[k] > 0.0) == (side == 1)
        far, equal = 0.0, 0.0
        for k in range(n - 1, -1, -1):
            if k < n - 1 and score[k] != score[k + 1]:
                far = (far + equal) * decay[k]
                equal = 0.0
            rank[side, k] += 0.5 * (far + equal)
            near[side, k] += 0.5 * (far + equal)
            tilt[side, k] += 0.5 * far
            equal += (gain[k] > 0.0) == (side == 1)


@kernel
def _spread(n, eta, has_hessian, score, decay, gain, c, bc, gradient, hessian):
    """Add the terms of relevant documents to every place: first of higher ones, then of lower ones."""
    for downwards in (True, False):
        far_0, far_1, same_0, same_1 = 0.0, 0.0, 0.0, 0.0
        far_bc_0, far_bc_1, same_bc_0, same_bc_1 = 0.0, 0.0, 0.0, 0.0
        tilt = 0.5 * eta if downwards else -0.5 * eta
        for step in range(n):
            k = step if downwards else n - 1 - step
            before = k - 1 if downwards else k + 1
            if step > 0 and score[k] != score[before]:
                f = decay[min(k, before)]
                far_0, far_1, same_0, same_1 = (far_0 + same_0) * f, (far_1 + same_1) * f, 0.0, 0.0
                if has_hessian:
                    far_bc_0, far_bc_1, same_bc_0, same_bc_1 = (
                        (far_bc_0 + same_bc_0) * f * f,
                        (far_bc_1 + same_bc_1) * f * f,
                        0.0,
                        0.0,
                    )
            relevant = gain[k] > 0.0
            far, same = (far_1, same_1) if relevant else (far_0, same_0)
            gradient[k] += 0.5 * (far + same)
            if has_hessian:
                hessian[k] += tilt * far + 0.25 * (far_bc_1 + same_bc_1 if relevant else far_bc_0 + same_bc_0)
            if relevant:
                same_0 += c[0, k]
                same_1 += c[1, k]
                same_bc_0 += bc[0, k]
                same_bc_1 += bc[1, k]
