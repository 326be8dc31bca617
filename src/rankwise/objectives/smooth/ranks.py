"""Kernels of metrics with smooth ranks: a row of sigmoids for each relevant document, and what follows from it."""

import numpy as np

from rankwise.kernels import APART, REORDERED, kernel
from rankwise.metrics.base import longest_of
from rankwise.objectives.fastmath import exp

_SAFE_SPREAD = 600.0  # scores within this many units of 1/η: e^(ηs) of all of them is a number
_LN2 = np.log(2.0)


@kernel
def fill_powers(scores, eta, powers):  # type: ignore[no-untyped-def]
    """Fill ``powers`` with e^(η(s − middle)) and give True, or ηs and give False where those would overflow."""
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
def fill_row(powers, moderate, i, above):  # type: ignore[no-untyped-def]
    """Fill ``above`` with σ(η(s_k − s_i)) for every k, 0 for i itself, and give the sum: the rank of i minus 1."""
    own = powers[i]
    if moderate:
        for k in range(powers.size):
            above[k] = powers[k] / (powers[k] + own)
    else:
        for k in range(powers.size):
            gap = powers[k] - own
            small = exp(-abs(gap))
            above[k] = (1.0 if gap > 0.0 else small) / (1.0 + small)
    above[i] = 0.0
    total = 0.0
    for k in range(powers.size):
        total += above[k]
    return total


@kernel
def _clear(value, gradient, hessian):  # type: ignore[no-untyped-def]
    value[:] = 0.0
    gradient[:] = 0.0
    hessian[:] = 0.0


@kernel
def ndcg_kernel(first, last, offsets, scores, worths, ideal, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """Minus NDCG of these queries."""
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest + APART), np.empty(longest + APART)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        diagonal = hessian[a:b] if hessian.size else hessian
        _clear(value[q : q + 1], gradient[a:b], diagonal)
        if n > 1 and ideal[q] > 0.0:
            value[q] = approx_ndcg(
                scores[a:b], worths[a:b], ideal[q], eta, powers[:n], above[:n], gradient[a:b], diagonal
            )


@kernel(fastmath=REORDERED)
def approx_ndcg(scores, worths, ideal, eta, powers, above, gradient, hessian):  # type: ignore[no-untyped-def]
    """One list: minus Σ gain · D(R)/ideal, with D(R) = 1/log2(1 + R)."""
    moderate = fill_powers(scores, eta, powers)
    total = 0.0
    for i in range(scores.size):
        if worths[i] <= 0.0:
            continue
        rank = 1.0 + fill_row(powers, moderate, i, above)
        log = np.log(1.0 + rank)
        share = -worths[i] * _LN2 / ideal
        total += share / log
        slope = -share * eta / ((1.0 + rank) * log * log)  # c of D′
        bend = share * eta * eta * (log + 2.0) / ((1.0 + rank) ** 2 * log * log * log)  # of D″
        spread_by(above, slope, bend, eta, i, gradient, hessian)
    return total


@kernel(fastmath=REORDERED)
def spread_by(above, slope, bend, eta, i, gradient, hessian):  # type: ignore[no-untyped-def]
    """Add the derivatives of a function of one rank: η·f′ = ``slope`` and η²·f″ = ``bend`` at the rank of i."""
    turn = slope * eta
    own_slope, own_turn = 0.0, 0.0
    if hessian.size == 0:
        for k in range(above.size):
            w = above[k] * (1.0 - above[k])
            gradient[k] += slope * w
            own_slope += w
        gradient[i] -= slope * own_slope
        return
    for k in range(above.size):
        p = above[k]
        w = p * (1.0 - p)
        t = w * (1.0 - 2.0 * p)
        gradient[k] += slope * w
        hessian[k] += bend * w * w + turn * t
        own_slope += w
        own_turn += t
    gradient[i] -= slope * own_slope
    hessian[i] += bend * own_slope * own_slope + turn * own_turn


@kernel
def ap_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """Minus average precision of these queries."""
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest + APART), np.empty(longest + APART)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        diagonal = hessian[a:b] if hessian.size else hessian
        _clear(value[q : q + 1], gradient[a:b], diagonal)
        count = relevant[a:b].sum()
        if count == n:
            value[q] = -1.0  # every order is the best one, and rounding must not make a gradient of that
        elif count > 0.0:
            value[q] = smooth_ap(scores[a:b], relevant[a:b], eta, powers[:n], above[:n], gradient[a:b], diagonal)


@kernel(fastmath=REORDERED)
def smooth_ap(scores, relevant, eta, powers, above, gradient, hessian):  # type: ignore[no-untyped-def]
    """One list: minus the mean over relevant documents of F = A/R, A being the rank among the relevant ones."""
    moderate = fill_powers(scores, eta, powers)
    count = relevant.sum()
    total = 0.0
    for i in range(scores.size):
        if relevant[i] == 0.0:
            continue
        rank = 1.0 + fill_row(powers, moderate, i, above)
        among = 1.0
        for k in range(scores.size):
            among += relevant[k] * above[k]
        precision = among / rank
        total -= precision / count
        slope, twice = -eta / (count * rank), 2.0 / rank
        own_w, own_t, own_slope, own_turn = 0.0, 0.0, 0.0, 0.0
        if hessian.size == 0:
            for k in range(scores.size):
                w = above[k] * (1.0 - above[k])
                lead = relevant[k] - precision
                gradient[k] += slope * w * lead
                own_slope += w * lead
            gradient[i] -= slope * own_slope
            continue
        for k in range(scores.size):
            p = above[k]
            w = p * (1.0 - p)
            t = w * (1.0 - 2.0 * p)
            lead = relevant[k] - precision
            gradient[k] += slope * w * lead
            hessian[k] += slope * eta * lead * (t - twice * w * w)
            own_w += w
            own_t += t
            own_slope += w * lead
            own_turn += t * lead
        gradient[i] -= slope * own_slope
        hessian[i] += slope * eta * (own_turn - twice * own_w * own_slope)
    return total


@kernel
def rbp_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """The rank-biased loss of these queries."""
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest + APART), np.empty(longest + APART)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        diagonal = hessian[a:b] if hessian.size else hessian
        _clear(value[q : q + 1], gradient[a:b], diagonal)
        if n > 1:
            value[q] = smooth_rbp(scores[a:b], relevant[a:b], eta, powers[:n], above[:n], gradient[a:b], diagonal)


@kernel(fastmath=REORDERED)
def smooth_rbp(scores, relevant, eta, powers, above, gradient, hessian):  # type: ignore[no-untyped-def]
    """One list: only mixed pairs count, as pairs of relevant documents add a constant that eq. 2.12 takes away."""
    moderate = fill_powers(scores, eta, powers)
    total = 0.0
    for i in range(scores.size):
        if relevant[i] == 0.0:
            continue
        fill_row(powers, moderate, i, above)
        for k in range(scores.size):
            above[k] *= 1.0 - relevant[k]
            total += above[k]
        spread_by(above, eta, 0.0, eta, i, gradient, hessian)
    return total
