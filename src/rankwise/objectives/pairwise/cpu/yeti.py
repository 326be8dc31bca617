"""The kernel of YetiLoss.

Swapping the documents at ranks r and r + 1 moves no other document, so the metric's change is the difference of the two
gains, times a number that depends on the rank and, for MAP and MRR, on what is ranked above. A ranking of n documents
therefore costs a sort and n − 1 pairs.
"""

import numpy as np

from rankwise.base.arrays import APART
from rankwise.base.compiling import FUSED, kernel
from rankwise.metrics.sorting import longest_of, order_in, scratch_for
from rankwise.objectives.cpu import perturb_list
from rankwise.objectives.fastmath import exp, log1p_unit

METRICS = ("ndcg", "map", "mrr", "classic")
MAP, MRR = METRICS.index("map"), METRICS.index("mrr")

# Columns of the ranks of a drawn ranking, and of the pairs of a rank and the next.
_NOISY, _SCORE, _GAIN, _WEIGHT, _LOSS, _GRADIENT, _HESSIAN, _ARRAYS = range(8)


@kernel
def yeti_kernel(
    first, last, offsets, scores, gains, discount_gaps, metric, noise, scale, sigma, keys, queries, value, gradient,
    hessian,
):  # fmt: skip
    """Fill value, gradient and Hessian of these queries, from rankings that the keys draw."""
    longest = longest_of(first, last, offsets)
    ranked, sorting = np.empty(longest, np.int64), scratch_for(longest)
    places, spare = np.empty((_ARRAYS, longest + APART)), np.empty(0 if hessian.size else longest)
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n, score, gain = end - start, scores[start:end], gains[start:end]
        list_gradient, list_hessian = gradient[start:end], hessian[start:end] if hessian.size else spare[: end - start]
        list_gradient[:] = 0.0
        list_hessian[:] = 0.0
        value[q] = 0.0
        if gain.min() == gain.max():
            continue
        for key in keys:
            noisy = places[_NOISY, :n]
            perturb_list(key, queries[q], noise, scale, 1.0, score, noisy)
            order_in(noisy, ranked[:n], sorting)
            value[q] += _ranking(
                ranked[:n], score, gain, discount_gaps, metric, sigma, places, list_gradient, list_hessian
            )
        value[q] /= keys.size
        list_gradient *= sigma / keys.size
        list_hessian *= sigma * sigma / keys.size


@kernel
def _ranking(ranked, score, gain, discount_gaps, metric, sigma, places, gradient, hessian):
    """Add the pairs of one drawn ranking to the derivatives, but for the factors of σ, and return their loss."""
    pairs = min(ranked.size - 1, discount_gaps.size)
    for k in range(pairs + 1):
        row = np.uint64(ranked[k])
        places[_SCORE, k], places[_GAIN, k] = sigma * score[row], gain[row]
    pairs = _weigh(pairs, metric, discount_gaps, places[_GAIN], places[_WEIGHT])
    _fill_losses(pairs, places[_SCORE], places[_WEIGHT], places[_LOSS], places[_GRADIENT], places[_HESSIAN])
    total, first, second = 0.0, 0.0, 0.0  # derivatives of the pair before
    for k in range(pairs):
        row = np.uint64(ranked[k])
        total += places[_LOSS, k]
        gradient[row] += first - places[_GRADIENT, k]
        hessian[row] += second + places[_HESSIAN, k]
        first, second = places[_GRADIENT, k], places[_HESSIAN, k]
    gradient[ranked[pairs]] += first
    hessian[ranked[pairs]] += second
    return total


@kernel
def _weigh(pairs, metric, discount_gaps, gain, weight):
    """Fill the metric's loss by a swap of each pair, negative where it gains; return how many pairs count."""
    above = 0.0  # relevant documents above the pair
    for k in range(pairs):
        weight[k] = (gain[k] - gain[k + 1]) * discount_gaps[k]
        if metric == MAP:  # the one of the two that is relevant is relevant document number above + 1
            weight[k] *= 1.0 + above
            above += gain[k] > 0.0
        elif metric == MRR and gain[k] > 0.0:  # nothing below the first relevant document counts
            return k + 1
    return pairs


@kernel(fastmath=FUSED)
def _fill_losses(pairs, score, weight, losses, gradients, hessians):
    """Fill each pair's loss, minus its derivative by the upper score, and its second derivative."""
    for k in range(pairs):
        w = weight[k]
        sign = 1.0 if w > 0.0 else -1.0
        margin = sign * (score[k] - score[k + 1])
        small = exp(-abs(margin))
        inverse = 1.0 / (1.0 + small)
        wrong = inverse * (small if margin > 0.0 else 1.0)  # 1/(1 + e^margin)
        losses[k] = abs(w) * (max(-margin, 0.0) + log1p_unit(small))
        gradients[k] = w * wrong
        hessians[k] = abs(w) * (small * inverse * inverse)
