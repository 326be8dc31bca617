"""Cross entropy between the softmax of the scores and a target distribution: one kernel, three targets.

With ρ = softmax(scores) and a target φ that sums to 1, the loss of a list is −Σ φ log ρ, its gradient ρ − φ and its
diagonal Hessian ρ(1 − ρ). ListNet, SoftmaxCE and XE-NDCG differ in φ alone.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.objectives.base import (
    Derivatives,
    Lists,
    Operators,
    algebra,
    differentiate,
    document_weights,
    drawing,
    lists,
    refuse_documents,
)
from rankwise.objectives.cross_entropy import EXP, GAMMA_UNIFORM, SHARE, diagonal_kernel, neumann_kernel
from rankwise.stream import Stream

_NEWTON = ("neumann", "diagonal")
_GAMMAS = ("uniform", "zero", "one", "tight")


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class ListNet(Operators):
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
        return _cross_entropy(self, EXP, lists(scores, labels, offsets), None)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class SoftmaxCE(Operators):
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
        return _cross_entropy(self, SHARE, lists(scores, labels, offsets), document_weights)


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class XENDCG(Operators):
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
        target = GAMMA_UNIFORM + _GAMMAS.index(self.gamma)
        return _cross_entropy(self, target, lists(scores, labels, offsets), document_weights, stream)


def _check(newton: str, epsilon: float) -> None:
    check.choice("newton", newton, _NEWTON)
    check.number("epsilon", epsilon, least=0.0)


def _cross_entropy(
    objective: Any, target: int, given: Lists, weights: ArrayLike | None, stream: Stream | None = None
) -> Derivatives:
    neumann = objective.newton == "neumann"
    draws = target == GAMMA_UNIFORM and stream is not None
    key = stream.key if draws and stream is not None else np.uint64(0)
    queries = stream.queries(given.n_queries) if draws and stream is not None else np.empty(0, np.uint64)
    settings = (target, key, queries, document_weights(weights, given), float(objective.epsilon), neumann)
    if neumann:
        return differentiate(neumann_kernel, given, *settings, numerator=True)
    return differentiate(diagonal_kernel, given, *settings)
