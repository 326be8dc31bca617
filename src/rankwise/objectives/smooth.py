"""Metrics with smooth ranks: NDCG, AP and RBP made differentiable.

The rank of a document is 1 plus the number of documents that score higher. A sigmoid in the place of the comparison
makes it smooth: R_i = 1 + Σ_j σ(η(s_j − s_i)). Only relevant documents' ranks enter a metric, so the cost of a list is
the number of its relevant documents times its length, and the memory one row. First and second derivatives are exact:
with p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), R_i has the derivatives ηw and η²t along s_k, and −ηΣw and
η²Σt along s_i itself.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Offsets, read_only
from rankwise.kernels import APART, REORDERED, kernel
from rankwise.metrics.base import Gain, checked_gain, longest_of
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.permutations import AP, DISCORDANCE, Orderings, ndcg_orderings
from rankwise.objectives import curvature as curvatures
from rankwise.objectives.base import Objective, Prepared
from rankwise.objectives.fastmath import exp
from rankwise.objectives.prepared import Lists, PreparedKernel, checked_lists, refuse_columns
from rankwise.threads import Kernel

_SAFE_SPREAD = 600.0  # scores within this many units of 1/η: e^(ηs) of all of them is a number
_LN2 = np.log(2.0)


@dataclass(frozen=True, kw_only=True, repr=False)
class ApproxNDCG(Objective):
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
    name: ClassVar[str] = "approx_ndcg"
    steepness: ClassVar[str] = "eta"
    paper: ClassVar[str] = "Bruch et al. 2020"

    def __post_init__(self) -> None:
        check_smooth(self)
        object.__setattr__(self, "gain", checked_gain(self.gain))

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Compute gains and the ideal DCG of each list."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        best = gains_and_ideal(lists.labels, lists.offsets, self.gain)
        return _prepare(self, _ndcg_kernel, lists, best.gains, best.dcg)

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return ndcg_orderings(labels, offsets, self.gain)


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothAP(Objective):
    """Minus average precision with smooth ranks (thesis eq. 2.11); documents with label ≥ ``relevant`` are relevant.

    >>> d = SmoothAP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5
    array([-0.6667])
    """

    eta: float = 1.0
    relevant: float = 1.0
    curvature: str = "floored"
    name: ClassVar[str] = "smooth_ap"
    steepness: ClassVar[str] = "eta"
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        check_smooth(self)

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Tell the relevant documents from the others."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        return _prepare(self, _ap_kernel, lists, (lists.labels >= self.relevant).astype(np.float64))

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return Orderings(AP, offsets, (labels >= self.relevant).astype(np.float64), np.empty(0))


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothRBP(Objective):
    """The rank-biased loss of thesis eq. 2.12: Σ over relevant documents of (rank − 1), minus its least value.

    At whole ranks it counts the pairs in which a non-relevant document stands before a relevant one.

    >>> d = SmoothRBP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value, d.gradient
    (array([0.5]), array([-0.25,  0.25]))
    """

    eta: float = 1.0
    relevant: float = 1.0
    curvature: str = "floored"
    name: ClassVar[str] = "smooth_rbp"
    steepness: ClassVar[str] = "eta"
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        check_smooth(self)

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Tell the relevant documents from the others."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        return _prepare(self, _rbp_kernel, lists, (lists.labels >= self.relevant).astype(np.float64))

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return Orderings(DISCORDANCE, offsets, (labels >= self.relevant).astype(np.float64), np.empty(0))


def check_smooth(objective: "ApproxNDCG | SmoothAP | SmoothRBP") -> None:
    """Check the settings that smooth metrics share."""
    check.number("eta", objective.eta, least=0.0, open_ends=True)
    curvatures.choose(objective.curvature, "exact")
    if not isinstance(objective, ApproxNDCG):
        check.number("relevant", objective.relevant, least=0.0, open_ends=True)


def _prepare(
    objective: ApproxNDCG | SmoothAP | SmoothRBP,
    kernel: Kernel,
    lists: Lists,
    worths: Array,
    *best: Array,
) -> Prepared:
    work: Array = lists.sizes * (1.0 + lists.sums((worths > 0.0).astype(np.float64)))
    return PreparedKernel(
        objective=objective,
        kernel=kernel,
        offsets=lists.offsets,
        per_document=(read_only(worths),),
        per_query=tuple(read_only(column) for column in best),
        settings=(float(objective.eta),),
        curvature=objective.curvature,
        work=work,
    )


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
def _ndcg_kernel(first, last, offsets, scores, worths, ideal, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
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
def _ap_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
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
def _rbp_kernel(first, last, offsets, scores, relevant, eta, value, gradient, hessian):  # type: ignore[no-untyped-def]
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
