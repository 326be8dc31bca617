"""The kernel of metrics with smooth ranks, which computes a row of sigmoids for each relevant document.

With p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), the derivatives of all three metrics have one form. A relevant
document i adds to any other k, whose relevance is r_k,

    gradient_k += c·w,   hessian_k += c·(b·w² + η·t),   c = α + β·r_k,

and −Σ c·w and Σ c·η·t + b·(Σ w)(Σ c·w) to its own. α, β and b follow from the rank of i.
"""

import numpy as np

from rankwise.arrays import APART
from rankwise.compiling import REORDERED, kernel
from rankwise.metrics.order import longest_of
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
def fill_row(powers, moderate, i, above):
    """Fill ``above`` with σ(η(s_k − s_i)) for every k, 0 for i itself."""
    power = powers[i]
    if moderate:
        for k in range(powers.size):
            above[k] = powers[k] / (powers[k] + power)
    else:
        for k in range(powers.size):
            gap = powers[k] - power
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
            moderate = fill_powers(scores[a:b], eta, powers[:n])
            for place in range(a, a + counts[q]):
                i = relevant[place]
                fill_row(powers[:n], moderate, i, above[:n])
                value[q] += _add_document(gains[a:b], best[q], eta, metric, i, above[:n], gradient[a:b], diagonal)


@kernel(fastmath=REORDERED)
def _add_document(gains, best, eta, metric, i, above, gradient, hessian):
    """Add the derivatives of a relevant document's part, and return the part."""
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
    _add_derivatives(gains, alpha, beta, b, eta, i, above, gradient, hessian)
    return part


@kernel(fastmath=REORDERED)
def _add_derivatives(gains, alpha, beta, b, eta, i, above, gradient, hessian):
    own_gradient, own_hessian, w_sum = 0.0, 0.0, 0.0
    if hessian.size == 0:
        for k in range(above.size):
            change = (alpha + beta * gains[k]) * (above[k] * (1.0 - above[k]))
            gradient[k] += change
            own_gradient += change
        gradient[i] -= own_gradient
        return
    for k in range(above.size):
        p = above[k]
        w = p * (1.0 - p)
        change, tilt = (alpha + beta * gains[k]) * w, eta * (1.0 - 2.0 * p)
        gradient[k] += change
        hessian[k] += change * (b * w + tilt)
        own_gradient += change
        own_hessian += change * tilt
        w_sum += w
    gradient[i] -= own_gradient
    hessian[i] += own_hessian + b * w_sum * own_gradient
