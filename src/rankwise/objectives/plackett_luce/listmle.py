"""ListMLE: the likelihood of the ideal order."""

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.compiling import kernel
from rankwise.metrics.base import longest_of
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import PerDocument, Prepared, PreparedKernel, checked_lists, reject_columns

_DEVICE = "rankwise.objectives.plackett_luce.listmle_triton"
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
    prepares_on_device: ClassVar[bool] = True
    name: ClassVar[str] = "listmle"
    paper: ClassVar[str] = "Xia et al. 2008"

    def __post_init__(self) -> None:
        check.choice("way to treat ties", self.ties, _TIES)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the ideal order, which is all that counts."""
        reject_columns(self, columns)
        checked, lists = checked_lists(labels, offsets)
        order = lists.order(checked)
        starts, stops = lists.empty_documents(integer=True), lists.empty_documents(integer=True)
        arguments = (order, self.ties == "apart")
        lists.run(_fill_groups, f"{_DEVICE}:fill_groups", checked, arguments, None, (starts, stops))
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=listmle_kernel,
            device_kernel=f"{_DEVICE}:listmle",
            arguments=ListMLEArguments(order, lists.as_argument(starts), lists.as_argument(stops)),
            work=40.0 * lists.sizes if lists.device is None else None,
        )


class ListMLEArguments(NamedTuple):
    """The ideal order of each list, in groups: the documents after a group come after all of it."""

    order: PerDocument
    """The document at each place."""
    starts: PerDocument
    """The first place of the group of each place."""
    stops: PerDocument
    """The first place behind the group of each place."""


@kernel
def _fill_groups(first, last, offsets, labels, order, apart, starts, stops):  # type: ignore[no-untyped-def]
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
def listmle_kernel(first, last, offsets, scores, order, starts, stops, value, gradient, hessian):  # type: ignore[no-untyped-def]
    """Fill value, gradient and Hessian of these queries."""
    n = longest_of(first, last, offsets)
    rest, spare = np.empty(n), np.empty(0 if hessian.size else n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        diagonal = hessian[mine] if hessian.size else spare[: offsets[q + 1] - offsets[q]]
        value[q] = _likelihood(scores[mine], order[mine], starts[mine], stops[mine], rest, gradient[mine], diagonal)


@kernel
def _likelihood(scores, rows, starts, stops, rest, gradient, hessian):  # type: ignore[no-untyped-def]
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
            picked, others = np.exp(score - log_z), np.exp(rest[k] - log_z)
            total += _log_add(0.0, rest[k] - score)
            gradient[rows[k]] = passed - others
            hessian[rows[k]] = max(passed - np.exp(2.0 * score + twice), 0.0) + picked * others
        for k in range(start, stop):
            log_z = _log_add(scores[rows[k]], rest[k])
            once, twice = _log_add(once, -log_z), _log_add(twice, -2.0 * log_z)
        start = stop
    return total


@kernel
def _log_add(a, b):  # type: ignore[no-untyped-def]
    high, low = max(a, b), min(a, b)
    return high if low == -np.inf else high + np.log1p(np.exp(low - high))
