"""ListMLE: the likelihood of the ideal order."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.kernels import kernel
from rankwise.metrics.base import longest_of
from rankwise.metrics.order import order
from rankwise.objectives.base import Objective, Prepared
from rankwise.objectives.prepared import PreparedKernel, checked_lists, refuse_columns

_TIES = ("apart", "row")


@dataclass(frozen=True, kw_only=True, repr=False)
class ListMLE(Objective):
    """Minus the log-likelihood of the ideal order under Plackett and Luce's model (Xia et al. 2008).

    Documents are picked one after another, best label first, each with probability e^{s_i}/Z_i, and the loss is
    −Σ log(e^{s_i}/Z_i). Z_i is e^{s_i} plus the sum of e^{s_j} over the documents that come after i.

    Labels with ties leave open who comes after whom. ``ties="apart"`` (default) lets only documents with a smaller
    label come after i: equal labels say nothing about each other, so the loss does not depend on the order of rows,
    and lists in which all labels are equal contribute nothing by themselves. ``ties="row"`` puts equal labels in row
    order, as most implementations do: then the loss also learns that order, which is noise unless it means something
    (lists with all labels equal are still left out). Without ties both are the same.

    >>> d = ListMLE()([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # log 3 + log 2; 1/3 − 1, 1/3 + 1/2 − 1, 1/3 + 1/2
    (array([1.7918]), array([-0.6667, -0.1667,  0.8333]))
    """

    ties: str = "apart"
    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "listmle"
    paper: ClassVar[str] = "Xia et al. 2008"

    def __post_init__(self) -> None:
        check.choice("way to treat ties", self.ties, _TIES)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Check the labels: their order is what counts."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        return PreparedKernel(
            objective=self,
            kernel=listmle_kernel,
            offsets=lists.offsets,
            per_document=(lists.labels,),
            settings=(self.ties == "apart",),
            work=40.0 * lists.sizes,
        )


@kernel
def listmle_kernel(first, last, offsets, scores, labels, apart, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """Fill value, gradient and Hessian of these queries."""
    n = longest_of(first, last, offsets)
    rows, rest, spare = np.empty(n, np.int64), np.empty(n), np.empty(0 if hessian.size else n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        diagonal = hessian[mine] if hessian.size else spare[: offsets[q + 1] - offsets[q]]
        value[q] = _likelihood(scores[mine], labels[mine], apart, rows, rest, gradient[mine], diagonal)


@kernel
def _likelihood(scores, labels, apart, rows, rest, gradient, hessian):  # type: ignore[no-untyped-def]
    n = scores.size
    gradient[:] = 0.0
    hessian[:] = 0.0
    order(labels, rows[:n])
    if labels[rows[0]] == labels[rows[n - 1]]:
        return 0.0
    # rest[k]: the log of the sum over those who come after place k. Sums stay in logs, as scores may be far apart.
    sum_, k = -np.inf, n
    while k > 0:
        stop = k
        k -= 1
        while apart and k > 0 and labels[rows[k - 1]] == labels[rows[k]]:
            k -= 1
        rest[k:stop] = sum_
        for j in range(k, stop):
            sum_ = _log_add(sum_, scores[rows[j]])
    # Those who come before with their Z: logs of Σ 1/Z and of Σ 1/Z². A document has been passed over by each of them
    # with p = e^s/Z, and at last been picked with its own p; every pick adds p to its gradient and p(1 − p) to its
    # Hessian. 1 − p of its own pick is the rest's share, which needs no subtraction.
    total, once, twice, k = 0.0, -np.inf, -np.inf, 0
    while k < n:
        start, stop = k, k + 1
        while apart and stop < n and labels[rows[stop]] == labels[rows[start]]:
            stop += 1
        for k in range(start, stop):
            score = scores[rows[k]]
            passed = np.exp(score + once)
            log_z = _log_add(score, rest[k])
            picked, others = np.exp(score - log_z), np.exp(rest[k] - log_z)
            total += _log_add(0.0, rest[k] - score)
            gradient[rows[k]] = passed - others
            hessian[rows[k]] = max(passed - np.exp(2.0 * score + twice), 0.0) + picked * others
        for k in range(start, stop):
            log_z = _log_add(scores[rows[k]], rest[k])
            once, twice = _log_add(once, -log_z), _log_add(twice, -2.0 * log_z)
        k = stop
    return total


@kernel
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))
