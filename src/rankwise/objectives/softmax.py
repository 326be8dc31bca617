"""Cross entropy between the softmax of the scores and a target distribution: one kernel, three targets.

With ρ = softmax(scores) and a target φ that sums to 1, the loss of a list is −Σ φ log ρ, its gradient ρ − φ and its
diagonal Hessian ρ(1 − ρ). ListNet, SoftmaxCE and XE-NDCG differ in φ alone.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numba
import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.objectives.base import (
    Derivatives,
    Lists,
    algebra,
    differentiate,
    document_weights,
    drawing,
    lists,
    refuse_documents,
)
from rankwise.objectives.fastmath import exp
from rankwise.stream import Stream, uniform

_NEWTON = ("neumann", "diagonal")
_GAMMAS = ("uniform", "zero", "one", "tight")
# Lets sums and maxima be vectorised; their order is the same in every run, and no input is NaN.
_SUMS_IN_ANY_ORDER = {"reassoc", "contract", "nnan", "nsz"}
# Of float64: adding 1.5 · 2^52 to a number rounds it and leaves it in the lowest bits.
_ROUNDER, _BIAS, _MANTISSA = 6755399441055744.0, 1023, 52
_EXP, _SHARE, _GAMMA_UNIFORM, _GAMMA_ZERO, _GAMMA_ONE, _GAMMA_TIGHT = range(6)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class ListNet:
    """Cross entropy with the softmax of the labels (Cao et al. 2007, as used by Bruch 2021).

    Lists without relevant documents count too: their target is uniform. ``epsilon`` is added to the softmax's
    denominator (eq. 14 of the 2021 paper). ``newton="neumann"`` gives trees the paper's three-term Newton numerator,
    ``"diagonal"`` the gradient.

    >>> d = ListNet()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.gradient.round(4)  # 1/2 minus e/(e + 1), and its mirror image
    array([-0.2311,  0.2311])
    """

    newton: str = "neumann"
    epsilon: float = 0.0
    exact_hessian: ClassVar[bool] = True
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Bruch 2021"

    def __post_init__(self) -> None:
        _check(self.newton, self.epsilon)

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        refuse_documents(documents, self)
        return _cross_entropy(self, _EXP, lists(scores, labels, offsets), None)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class SoftmaxCE:
    """Cross entropy with the labels over their sum (Bruch et al. 2019 and 2020).

    On binary labels exp(−loss) is a lower bound of the list's reciprocal rank and of its NDCG (see ``guarantees``).
    Lists without relevant documents contribute nothing. ``document_weights`` multiply the labels: inverse propensities
    there give the unbiased estimate that the 2019 paper's closing remark asks for.

    >>> d = SoftmaxCE()([0.0, 0.0, 0.0], [1, 0, 1], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # log 3; 1/3 minus 1/2, 0, 1/2
    (array([1.0986]), array([-0.1667,  0.3333, -0.1667]))
    """

    newton: str = "neumann"
    epsilon: float = 0.0
    exact_hessian: ClassVar[bool] = True
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Bruch et al. 2019"

    def __post_init__(self) -> None:
        _check(self.newton, self.epsilon)

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        stream: Stream | None = None,
        *,
        document_weights: ArrayLike | None = None,
    ) -> Derivatives:
        """Give the loss and its derivatives; draws nothing."""
        return _cross_entropy(self, _SHARE, lists(scores, labels, offsets), document_weights)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class XENDCG:
    """Cross entropy with φ ∝ 2^label − γ, a convex bound on NDCG (Bruch 2021).

    ``gamma="uniform"`` draws γ in [0, 1] anew for every document and round, as the paper does; ``"zero"`` and
    ``"one"`` fix it; ``"tight"`` takes the γ that makes the paper's bound tightest at the current scores. The bound is
    a mean of log ρ with weights between 2^y − 1 and 2^y, which is largest when every document above the mean has its
    largest weight (γ = 0) and every one below it its smallest (γ = 1). Since γ minimises the loss, the gradient is
    ρ − φ here too.

    ``document_weights`` (inverse propensities) multiply the gain 2^y − 1 and leave the rest of the mass, 1 − γ, alone.

    >>> d = XENDCG(gamma="zero")([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.gradient.round(4)  # 1/3 minus 4/7, 2/7, 1/7
    array([-0.2381,  0.0476,  0.1905])
    """

    gamma: str = "uniform"
    newton: str = "neumann"
    epsilon: float = 0.0
    exact_hessian: ClassVar[bool] = True
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Bruch 2021"

    def __post_init__(self) -> None:
        check.choice("gamma", self.gamma, _GAMMAS)
        _check(self.newton, self.epsilon)

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        stream: Stream | None = None,
        *,
        document_weights: ArrayLike | None = None,
    ) -> Derivatives:
        """Give the loss and its derivatives; draws γ where it is uniform."""
        if self.gamma == "uniform":
            stream = drawing(stream, self)
        target = _GAMMA_UNIFORM + _GAMMAS.index(self.gamma)
        return _cross_entropy(self, target, lists(scores, labels, offsets), document_weights, stream)


def _check(newton: str, epsilon: float) -> None:
    check.choice("newton", newton, _NEWTON)
    check.number("epsilon", epsilon, least=0.0)


def _cross_entropy(
    objective: Any, target: int, given: Lists, weights: ArrayLike | None, stream: Stream | None = None
) -> Derivatives:
    neumann = objective.newton == "neumann"
    draws = target == _GAMMA_UNIFORM and stream is not None
    key = stream.key if draws and stream is not None else np.uint64(0)
    queries = stream.queries(given.n_queries) if draws and stream is not None else np.empty(0, np.uint64)
    settings = (target, key, queries, document_weights(weights, given), float(objective.epsilon), neumann)
    if neumann:
        return differentiate(_neumann_kernel, given, *settings, numerator=True)
    return differentiate(_diagonal_kernel, given, *settings)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _neumann_kernel(  # type: ignore[no-untyped-def]
    first,
    last,
    offsets,
    scores,
    labels,
    target,
    key,
    queries,
    weights,
    epsilon,
    neumann,
    value,
    gradient,
    hessian,
    numerator,
):
    for q in range(first, last):
        a, b = offsets[q], offsets[q + 1]
        query = queries[q] if queries.size else np.uint64(0)
        weight = weights[a:b] if weights.size else weights
        s, g, h = scores[a:b], gradient[a:b], hessian[a:b]
        if b - a == 1 or not fill_target(target, key, query, s, labels[a:b], weight, g):
            value[q] = 0.0
            g[:] = 0.0
            h[:] = 0.0
            numerator[a:b] = 0.0
        else:
            value[q] = cross_entropy(s, epsilon, neumann, g, h, numerator[a:b])


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _diagonal_kernel(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, labels, target, key, queries, weights, epsilon, neumann, value, gradient, hessian
):
    _neumann_kernel(
        first, last, offsets, scores, labels, target, key, queries, weights, epsilon, neumann,
        value, gradient, hessian, gradient,
    )  # fmt: skip


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def fill_target(target, key, query, scores, labels, weights, phi):  # type: ignore[no-untyped-def]
    """Fill ``phi`` with one list's target distribution; False where the list has none to learn from."""
    n = labels.size
    total = 0.0
    if target == _EXP:
        top = largest(labels)
        for i in range(n):
            phi[i] = exp(labels[i] - top)
            total += phi[i]
    elif target == _SHARE:
        for i in range(n):
            phi[i] = labels[i] * (weights[i] if weights.size else 1.0)
            total += phi[i]
    else:
        scale = 1.0
        if not fill_whole_gains(labels, phi):
            top = largest(labels)
            if top >= 64.0:
                scale = 2.0**-top  # keeps 2^label finite for any label
            for i in range(n):
                phi[i] = 2.0 ** (labels[i] - top) - scale if top >= 64.0 else 2.0 ** labels[i] - 1.0
        if weights.size:
            for i in range(n):
                phi[i] *= weights[i]
        if target == _GAMMA_UNIFORM:
            for i in range(n):
                phi[i] += scale * (1.0 - uniform(key, query, i, 0))
        elif target == _GAMMA_ZERO:
            for i in range(n):
                phi[i] += scale
        elif target == _GAMMA_TIGHT:
            add_tight_mass(scores, scale, phi)
        for i in range(n):
            total += phi[i]
    if total <= 0.0:
        return False
    share = 1.0 / total
    for i in range(n):
        phi[i] *= share
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def largest(labels):  # type: ignore[no-untyped-def]
    """The largest label, or 0."""
    top = 0.0
    for y in labels:
        top = max(top, y)
    return top


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath={"contract"})  # unset, it would be the caller's
def fill_whole_gains(labels, gains):  # type: ignore[no-untyped-def]
    """Fill ``gains`` with 2^label − 1, made of exponent bits; False where a label is not a whole number below 64."""
    odd = 0
    for i in range(labels.size):
        rounded = labels[i] + _ROUNDER
        whole = np.float64(rounded).view(np.int64) - np.float64(_ROUNDER).view(np.int64)
        gains[i] = np.int64((whole + _BIAS) << _MANTISSA).view(np.float64) - 1.0
        odd += (rounded - _ROUNDER != labels[i]) | (whole >= 64)
    return odd == 0


@numba.njit(cache=True, nogil=True, error_model="numpy")
def add_tight_mass(scores, scale, phi):  # type: ignore[no-untyped-def]
    """Add 1 − γ to gains for the γ that makes the weighted mean of the scores largest.

    Dinkelbach's iteration: from a mean, give every document above it its largest weight; that raises the mean, and
    after a few steps nothing changes. It begins at the best document, above which nothing lies.
    """
    n = scores.size
    best = 0
    gain, weighted_sum = 0.0, 0.0
    for i in range(n):
        if scores[i] > scores[best]:
            best = i
    reference = scores[best]
    for i in range(n):
        gain += phi[i]
        weighted_sum += phi[i] * (scores[i] - reference)
    mean = weighted_sum / gain if gain > 0.0 else -np.inf
    if gain == 0.0:
        phi[best] += scale
        return
    while True:
        extra, extra_sum = 0.0, 0.0
        for i in range(n):
            if scores[i] - reference > mean:
                extra += scale
                extra_sum += scale * (scores[i] - reference)
        better = (weighted_sum + extra_sum) / (gain + extra)
        if better <= mean:
            break
        mean = better
    for i in range(n):
        if scores[i] - reference > mean:
            phi[i] += scale


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def cross_entropy(scores, epsilon, neumann, phi, hessian, numerator):  # type: ignore[no-untyped-def]
    """One list: ``phi`` holds the target and becomes the gradient; the value is returned.

    Only the document with the largest score can have ρ near 1, where 1 − ρ must not be computed by subtraction. It is
    therefore kept apart: its 1 − ρ is the share of the mass that the rest has. All terms stay finite however far the
    best document is ahead.
    """
    n = scores.size
    top = scores[0]
    for i in range(n):
        top = max(top, scores[i])
    best = 0
    while scores[best] != top:
        best += 1
    shift = max(top, np.log(epsilon)) if epsilon > 0.0 else top
    loss = 0.0
    for i in range(n):
        hessian[i] = exp(scores[i] - shift)
        loss += phi[i] * (shift - scores[i])
    mass = hessian[best]
    hessian[best] = 0.0
    rest = epsilon * np.exp(-shift) if epsilon > 0.0 else 0.0
    for i in range(n):
        rest += hessian[i]
    total = rest + mass
    scale = 1.0 / total
    target = phi[best]
    for i in range(n):
        rho = hessian[i] * scale
        phi[i] = rho - phi[i]
        hessian[i] = rho
    phi[best] = mass * scale - target
    # From here on phi holds the gradient, and hessian ρ, with 0 for the best document.
    if neumann:
        _neumann(scores, epsilon, phi, hessian, best, mass * scale, rest, total, numerator)
    for i in range(n):
        hessian[i] -= hessian[i] * hessian[i]
    hessian[best] = mass * scale * (rest * scale)
    return loss + np.log(total)


@numba.njit(cache=True, nogil=True, error_model="numpy", fastmath=_SUMS_IN_ANY_ORDER)
def _neumann(scores, epsilon, gradient, rho, best, rho_best, rest, total, numerator):  # type: ignore[no-untyped-def]
    """Three terms of the Neumann series of the inverse Hessian times the gradient, times the diagonal (2021, 4.3).

    With a = t₁/(1 − ρ) and b = t₂/(1 − ρ) the terms are t₁ = gradient, t₂ = ρ(Σa − a), t₃ = ρ(Σb − b). What the best
    document sends to the others, ρ·a of it, is written as t₁ of it times their shares of the rest: finite always.
    ``rho`` is 0 at the best document, so that it takes no part in the sums.
    """
    n = scores.size
    first_best = gradient[best]
    gradient[best] = 0.0
    a_sum, b_sum = 0.0, 0.0
    if rest >= 1e-200:
        for i in range(n):
            numerator[i] = 1.0 / (1.0 - rho[i])
            a_sum += gradient[i] * numerator[i]
        second_best = rho_best * a_sum
        share = total / rest
        for i in range(n):
            inverse = numerator[i]
            second_term = rho[i] * (share * first_best + a_sum - gradient[i] * inverse)
            b = second_term * inverse
            b_sum += b
            numerator[i] = gradient[i] + second_term + rho[i] * (share * second_best - b)
    else:  # the best is so far ahead that 1 − ρ is 1 for the others, and their shares need a shift of their own
        second = np.log(epsilon) if epsilon > 0.0 else -np.inf
        for i in range(n):
            a_sum += gradient[i]
            if i != best:
                second = max(second, scores[i])
        second_best = rho_best * a_sum
        rest = epsilon * np.exp(-second) if epsilon > 0.0 else 0.0
        for i in range(n):
            numerator[i] = 0.0 if i == best else exp(scores[i] - second)
            rest += numerator[i]
        for i in range(n):
            second_term = numerator[i] / rest * first_best
            b_sum += second_term
            numerator[i] = gradient[i] + second_term + numerator[i] / rest * second_best
    for i in range(n):
        numerator[i] += rho[i] * b_sum
    gradient[best] = first_best
    numerator[best] = first_best + second_best + rho_best * b_sum
