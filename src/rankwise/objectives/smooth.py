"""Metrics with smooth ranks: NDCG, AP and RBP made differentiable.

The rank of a document is 1 plus the number of documents that score higher. A sigmoid in the place of the comparison
makes it smooth: R_i = 1 + Σ_j σ(η(s_j − s_i)). Only relevant documents' ranks enter a metric, so the cost of a list is
the number of its relevant documents times its length, and the memory one row. First and second derivatives are exact:
with p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), R_i has the derivatives ηw and η²t along s_k, and −ηΣw and
η²Σt along s_i itself.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.metrics.base import Gain, checked_gain, longest_of
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.permutations import AP, DISCORDANCE, Orderings, ndcg_orderings
from rankwise.objectives import curvature as curvatures
from rankwise.objectives.base import (
    Array,
    Derivatives,
    Lists,
    Operators,
    algebra,
    differentiate,
    lists,
    read_only,
    refuse_documents,
)
from rankwise.objectives.fastmath import exp
from rankwise.stream import Stream

_SUMS_IN_ANY_ORDER = {"reassoc", "contract"}  # lets sums be vectorised; the order is the same in every run
_SAFE_SPREAD = 600.0  # scores within this many units of 1/η: e^(ηs) of all of them is a number
_LN2 = np.log(2.0)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class ApproxNDCG(Operators):
    """Minus NDCG with smooth ranks (Qin et al. 2010; Bruch et al. 2020, 5.2; thesis eq. 2.10).

    ``eta`` is the steepness η of the sigmoid: 10 in the 2020 paper, 1 in the thesis. The exact diagonal of the Hessian
    is indefinite; ``curvature`` says what trees divide by instead (see ``objectives/curvature.py``).

    >>> d = ApproxNDCG()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5: minus 1/log2(2.5)
    array([-0.7565])
    """

    eta: float = 10.0
    gain: Gain = "exponential"
    curvature: str = "floored"
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Bruch et al. 2020"

    def __post_init__(self) -> None:
        check_smooth(self)
        object.__setattr__(self, "gain", checked_gain(self.gain))

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        given = lists(scores, labels, offsets)
        best = gains_and_ideal(given.labels, given.offsets, self.gain)
        return _differentiate(_ndcg_kernel, given._replace(labels=read_only(best.gains)), self, best.dcg)

    def orderings(self, labels: Array, offsets: NDArray[np.int64]) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return ndcg_orderings(labels, offsets, self.gain)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothAP(Operators):
    """Minus average precision with smooth ranks (thesis eq. 2.11); documents with label ≥ ``relevant`` are relevant.

    >>> d = SmoothAP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5
    array([-0.6667])
    """

    eta: float = 1.0
    relevant: float = 1.0
    curvature: str = "floored"
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        check_smooth(self)

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        return _differentiate(_ap_kernel, binary(lists(scores, labels, offsets), self.relevant), self)

    def orderings(self, labels: Array, offsets: NDArray[np.int64]) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return Orderings(AP, offsets, (labels >= self.relevant).astype(np.float64), np.empty(0))


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothRBP(Operators):
    """The rank-biased loss of thesis eq. 2.12: Σ over relevant documents of (rank − 1), minus its least value.

    At whole ranks it counts the pairs in which a non-relevant document stands before a relevant one.

    >>> d = SmoothRBP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value, d.gradient
    (array([0.5]), array([-0.25,  0.25]))
    """

    eta: float = 1.0
    relevant: float = 1.0
    curvature: str = "floored"
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        check_smooth(self)

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        return _differentiate(_rbp_kernel, binary(lists(scores, labels, offsets), self.relevant), self)

    def orderings(self, labels: Array, offsets: NDArray[np.int64]) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return Orderings(DISCORDANCE, offsets, (labels >= self.relevant).astype(np.float64), np.empty(0))


def check_smooth(objective: Any) -> None:
    """Check the settings that smooth metrics share."""
    check.number("eta", objective.eta, least=0.0, open_ends=True)
    curvatures.choose(objective.curvature, "exact")
    if hasattr(objective, "relevant"):
        check.number("relevant", objective.relevant, least=0.0, open_ends=True)


def binary(given: Lists, relevant: float) -> Lists:
    """Turn labels into 1 (relevant) and 0."""
    return given._replace(labels=read_only((given.labels >= relevant).astype(np.float64)))


def _differentiate(kernel: Any, given: Lists, objective: Any, *settings: Any) -> Derivatives:
    relevant = np.add.reduceat((given.labels > 0.0).astype(np.float64), given.offsets[:-1])
    work: Array = np.diff(given.offsets) * (1.0 + relevant)
    found = differentiate(kernel, given, float(objective.eta), *settings, work=work)
    curvatures.treat(objective.curvature, given.offsets, found.gradient, found.hessian)
    return found


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _clear(value, gradient, hessian):  # type: ignore[no-untyped-def]
    value[:] = 0.0
    gradient[:] = 0.0
    hessian[:] = 0.0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ndcg_kernel(first, last, offsets, scores, worths, eta, ideal, value, gradient, hessian):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        _clear(value[q : q + 1], gradient[a:b], hessian[a:b])
        if n > 1 and ideal[q] > 0.0:
            value[q] = approx_ndcg(
                scores[a:b], worths[a:b], ideal[q], eta, powers[:n], above[:n], gradient[a:b], hessian[a:b]
            )


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
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


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def spread_by(above, slope, bend, eta, i, gradient, hessian):  # type: ignore[no-untyped-def]
    """Add the derivatives of a function of one rank: η·f′ = ``slope`` and η²·f″ = ``bend`` at the rank of i."""
    turn = slope * eta
    own_slope, own_turn = 0.0, 0.0
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _ap_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        _clear(value[q : q + 1], gradient[a:b], hessian[a:b])
        count = relevant[a:b].sum()
        if count == n:
            value[q] = -1.0  # every order is the best one, and rounding must not make a gradient of that
        elif count > 0.0:
            value[q] = smooth_ap(scores[a:b], relevant[a:b], eta, powers[:n], above[:n], gradient[a:b], hessian[a:b])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _rbp_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
    longest = longest_of(first, last, offsets)
    powers, above = np.empty(longest), np.empty(longest)
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        n = b - a
        _clear(value[q : q + 1], gradient[a:b], hessian[a:b])
        if n > 1:
            value[q] = smooth_rbp(scores[a:b], relevant[a:b], eta, powers[:n], above[:n], gradient[a:b], hessian[a:b])


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
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
