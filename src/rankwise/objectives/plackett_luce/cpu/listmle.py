"""The kernels of ListMLE: groups of the ideal order, and its likelihood."""

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.metrics.sorting import longest_of


@kernel
def fill_groups(first, last, offsets, labels, order, apart, starts, stops):
    """Fill the groups of places: equal labels, single documents in row order, or a whole list of equal labels."""
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        label, row, start, stop = labels[mine], order[mine], starts[mine], stops[mine]
        n = row.size
        mixed = label[row[0]] > label[row[n - 1]]
        begin = 0
        for k in range(1, n + 1):
            if k == n or (mixed and (not apart or label[row[k]] != label[row[k - 1]])):
                start[begin:k] = begin
                stop[begin:k] = k
                begin = k


@kernel
def listmle_kernel(first, last, offsets, scores, order, starts, stops, value, gradient, hessian):
    """Fill value, gradient and Hessian of these queries."""
    n = longest_of(first, last, offsets)
    rest, spare = np.empty(n), np.empty(0 if hessian.size else n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        diagonal = hessian[mine] if hessian.size else spare[: offsets[q + 1] - offsets[q]]
        value[q] = _likelihood(scores[mine], order[mine], starts[mine], stops[mine], rest, gradient[mine], diagonal)


@kernel
def _likelihood(scores, rows, starts, stops, rest, gradient, hessian):
    n = scores.size
    # rest[k]: the log of the sum over those that come after place k. Sums stay in logs, as scores may be far apart.
    sum_, stop = -np.inf, n
    while stop > 0:
        start = starts[stop - 1]
        rest[start:stop] = sum_
        for j in range(start, stop):
            sum_ = _log_add(sum_, scores[rows[j]])
        stop = start
    # Of those that come before, the logs of Σ 1/Z and of Σ 1/Z². A document has been passed over by each of them with
    # p = e^s/Z, and at last been picked with its own p; every pick adds p to its gradient and p(1 − p) to its Hessian.
    # 1 − p of its own pick is the share of the rest, which needs no subtraction.
    total, once, twice, start = 0.0, -np.inf, -np.inf, 0
    while start < n:
        stop = stops[start]
        for k in range(start, stop):
            score = scores[rows[k]]
            passed = np.exp(score + once)
            log_z = _log_add(score, rest[k])
            picked, rest_share = np.exp(score - log_z), np.exp(rest[k] - log_z)
            total += _log_add(0.0, rest[k] - score)
            gradient[rows[k]] = passed - rest_share
            hessian[rows[k]] = max(passed - np.exp(2.0 * score + twice), 0.0) + picked * rest_share
        for k in range(start, stop):
            log_z = _log_add(scores[rows[k]], rest[k])
            once, twice = _log_add(once, -log_z), _log_add(twice, -2.0 * log_z)
        start = stop
    return total


@kernel
def _log_add(a, b):
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))
