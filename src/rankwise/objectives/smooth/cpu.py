"""The kernels of metrics with smooth ranks: by a row of sigmoids for each relevant document, or by sweeps along a list.

With p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), the derivatives of all three metrics have one form. A relevant
document i adds to any other k, whose relevance is r_k,

    gradient_k += c·w,   hessian_k += c·(b·w² + η·t),   c = α + β·r_k,

and −Σ c·w and Σ c·η·t + b·(Σ w)(Σ c·w) to its own. α, β and b follow from the rank of i.

Laplace's distribution compares k and i by F(x) = e^x/2 below 0 and 1 − e^−x/2 above it, with x = η(s_k − s_i). It has
the derivatives w = e^−|x|/2 and t = ∓w: −w where k is higher, w where it is lower, and between the two, 0, where both
are equal. An exponential of a difference of scores is a product along the sorted list, so a document's sum over all
that are higher is that of its neighbour, times one factor: Σ F, Σ w and Σ t of all documents take two sweeps, and the
sums over relevant documents two more. That is O(n log n) time with the sort, and O(n) memory. Factors are at most 1, so
nothing overflows.
"""

import numpy as np

from rankwise.base.arrays import APART
from rankwise.base.compiling import FUSED, REORDERED, kernel
from rankwise.metrics.sorting import longest_of, order_in, scratch_for
from rankwise.objectives.fastmath import exp

NDCG, AP, RBP = range(3)
SETTLED = -1
"""The count of a list in which all documents are relevant: every order is the ideal one."""
LN2 = 0.6931471805599453
_SAFE_SPREAD = 600.0  # scores within this many units of 1/η: e^(ηs) of all of them is a number


@kernel
def fill_relevant(first, last, offsets, gains, metric, relevant, counts):
    """Fill the documents of each query, relevant ones first, and the count of relevant ones to learn from."""
    for q in range(first, last):
        start, n = offsets[q], offsets[q + 1] - offsets[q]
        count = 0
        for i in range(n):
            if gains[start + i] > 0.0:
                relevant[start + count] = i
                count += 1
        position = count
        for i in range(n):
            if gains[start + i] <= 0.0:
                relevant[start + position] = i
                position += 1
        if metric == NDCG:
            counts[q] = count if n > 1 else 0
        else:
            counts[q] = count if count < n else SETTLED if metric == AP else 0


@kernel
def fill_powers(scores, eta, powers):
    """Fill ``powers`` with e^(η(s − middle)) and return True, or ηs and return False where those would overflow."""
    low, high = scores[0], scores[0]
    for s in scores:
        low, high = min(low, s), max(high, s)
    if eta * (high - low) > _SAFE_SPREAD:
        for k in range(scores.size):
            powers[k] = eta * scores[k]
        return False
    middle = 0.5 * (low + high)
    for k in range(scores.size):
        powers[k] = exp(eta * (scores[k] - middle))
    return True


@kernel(fastmath=REORDERED)
def _fill_row(powers, i, above):
    """Fill ``above`` with σ(η(s_k − s_i)) for every k, 0 for i itself."""
    power = powers[i]
    for k in range(powers.size):
        above[k] = powers[k] / (powers[k] + power)
    above[i] = 0.0


@kernel(fastmath=REORDERED)
def _fill_wide_row(steep, i, above):
    """Fill the same from ηs."""
    own = steep[i]
    for k in range(steep.size):
        gap = steep[k] - own
        small = exp(-abs(gap))
        above[k] = (1.0 if gap > 0.0 else small) / (1.0 + small)
    above[i] = 0.0


@kernel
def smooth_kernel(first, last, offsets, scores, gains, relevant, counts, best, eta, metric, value, gradient, hessian):
    """Fill minus NDCG, minus AP, or the rank-biased loss, with their derivatives."""
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest + APART), np.empty(longest + APART)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n, diagonal = b - a, hessian[a:b] if hessian.size else hessian
        value[q] = -1.0 if counts[q] == SETTLED else 0.0
        gradient[a:b] = 0.0
        diagonal[:] = 0.0
        if counts[q] > 0:
            rows, row = relevant[a : a + counts[q]], above[:n]
            value[q] = _add_list(
                scores[a:b], gains[a:b], rows, best[q], eta, metric, powers[:n], row, gradient[a:b], diagonal
            )


# Numba counts references to arrays by atomic instructions, at slices and in functions that return from several branches
# or call others: about a sixth of the time, were they in the loop over relevant documents. So it slices nothing, and
# what it calls is plain.
@kernel(fastmath=REORDERED)
def _add_list(scores, gains, relevant, best, eta, metric, powers, above, gradient, hessian):
    """Add the derivatives of a list, and return its value."""
    moderate, value = fill_powers(scores, eta, powers), 0.0
    for i in relevant:
        if moderate:
            _fill_row(powers, i, above)
        else:
            _fill_wide_row(powers, i, above)
        part, alpha, beta, b = _part_of_row(gains, best, eta, metric, i, above)
        if hessian.size:
            _add_derivatives(gains, alpha, beta, b, eta, i, above, gradient, hessian)
        else:
            _add_gradient(gains, alpha, beta, i, above, gradient)
        value += part
    return value


@kernel(fastmath=REORDERED)
def _part_of_row(gains, best, eta, metric, i, above):
    """Return the part of a relevant document in the value, α, β and b."""
    total, relevant_above, irrelevant_above = 0.0, 0.0, 0.0
    if metric == NDCG:
        for k in range(above.size):
            total += above[k]
    else:
        for k in range(above.size):
            relevant_above += gains[k] * above[k]
            irrelevant_above += (1.0 - gains[k]) * above[k]
    if metric == NDCG:  # −gain/ideal · D(R) with D(R) = 1/log2(1 + R)
        rank = 1.0 + total
        log = np.log(1.0 + rank)
        share = -gains[i] * LN2 / best
        part = share / log
        alpha = -share * eta / ((1.0 + rank) * log * log)
        beta, b = 0.0, -eta * (log + 2.0) / ((1.0 + rank) * log)
    elif metric == AP:  # −1/count · rank among the relevant / rank
        rank = 1.0 + relevant_above + irrelevant_above
        precision = (1.0 + relevant_above) / rank
        part = -precision / best
        beta = -eta / (best * rank)
        alpha, b = -beta * precision, -2.0 * eta / rank
    else:  # pairs of relevant documents add a constant, which eq. 2.12 subtracts
        part, alpha, beta, b = irrelevant_above, eta, -eta, 0.0
    return part, alpha, beta, b


@kernel(fastmath=REORDERED)
def _add_gradient(gains, alpha, beta, i, above, gradient):
    own_gradient = 0.0
    for k in range(above.size):
        c = alpha + beta * gains[k] if beta != 0.0 else alpha
        change = c * (above[k] * (1.0 - above[k]))
        gradient[k] += change
        own_gradient += change
    gradient[i] -= own_gradient


@kernel(fastmath=REORDERED)
def _add_derivatives(gains, alpha, beta, b, eta, i, above, gradient, hessian):
    own_gradient, own_hessian, w_sum = 0.0, 0.0, 0.0
    for k in range(above.size):
        p = above[k]
        w = p * (1.0 - p)
        c = alpha + beta * gains[k] if beta != 0.0 else alpha
        change, tilt = c * w, eta * (1.0 - 2.0 * p)
        gradient[k] += change
        hessian[k] += change * (b * w + tilt)
        own_gradient += change
        own_hessian += change * tilt
        w_sum += w
    gradient[i] -= own_gradient
    hessian[i] += own_hessian + b * w_sum * own_gradient


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
                    far_bc_0, far_bc_1 = (far_bc_0 + same_bc_0) * f * f, (far_bc_1 + same_bc_1) * f * f
                    same_bc_0, same_bc_1 = 0.0, 0.0
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
