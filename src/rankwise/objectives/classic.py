"""The classic baselines: RankNet's pairs without weights, and ListMLE's likelihood of the ideal order."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.metrics.base import NO_CUTOFF, bad_label, discounts, gain_rule, longest_of
from rankwise.metrics.order import order
from rankwise.objectives.base import (
    Array,
    Derivatives,
    Operators,
    algebra,
    differentiate,
    document_weights,
    lists,
    refuse_documents,
)
from rankwise.objectives.pairs import COUNT, Settings, pairwise
from rankwise.stream import Stream

_TIES = ("apart", "row")


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class RankNet(Operators):
    """The logistic loss of every pair (Burges et al. 2005): Σ log(1 + e^{−σ(s_i − s_j)}) over pairs with y_i > y_j.

    Takes time in the square of the longest lists, but memory in proportion to their length. Only the order of labels
    matters, so lists in which all are equal contribute nothing.

    >>> d = RankNet()([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # 3 log 2; the best document is pulled up by two pairs, 1/2 each
    (array([2.0794]), array([-1.,  0.,  1.]))
    """

    sigma: float = 1.0
    exact_hessian: ClassVar[bool] = True
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Burges et al. 2005"

    def __post_init__(self) -> None:
        check.number("sigma", self.sigma, least=0.0, open_ends=True)

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        given = lists(scores, labels, offsets)
        sizes = np.diff(given.offsets).astype(np.float64)
        settings = Settings(float(self.sigma), NO_CUTOFF, False, COUNT, 1.0, 0.0)
        none = document_weights(None, given)
        work = 0.5 * sizes**2 + 20.0 * sizes
        parts = differentiate(pairwise, given, none, gain_rule("linear"), discounts(1), settings, work=work)
        if np.isnan(parts.value).any():
            raise bad_label(given.labels, given.offsets, "linear")
        return parts


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class ListMLE(Operators):
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
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Xia et al. 2008"

    def __post_init__(self) -> None:
        check.choice("way to treat ties", self.ties, _TIES)

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        given = lists(scores, labels, offsets)
        work: Array = 40.0 * np.diff(given.offsets)
        return differentiate(_listmle, given, self.ties == "apart", work=work)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _listmle(first, last, offsets, scores, labels, apart, value, gradient, hessian):  # type: ignore[no-untyped-def]
    n = longest_of(first, last, offsets)
    rows, rest = np.empty(n, np.int64), np.empty(n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        value[q] = _likelihood(scores[mine], labels[mine], apart, rows, rest, gradient[mine], hessian[mine])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _likelihood(scores, labels, apart, rows, rest, gradient, hessian):  # type: ignore[no-untyped-def]
    n = scores.size
    gradient[:] = 0.0
    hessian[:] = 0.0
    if labels.min() == labels.max():
        return 0.0
    order(labels, rows[:n])
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))
