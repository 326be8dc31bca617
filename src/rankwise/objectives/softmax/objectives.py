"""Cross entropy between the softmax of the scores and a target distribution, and the calibrated loss.

With ρ = softmax(scores) and a target φ that sums to 1, the loss of a list is −Σ φ log ρ, its gradient ρ − φ and its
diagonal Hessian ρ(1 − ρ). ListNet, SoftmaxCE and XE-NDCG differ in φ alone.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from rankwise.base import hooks
from rankwise.base.stream import Stream
from rankwise.check.parameters import Above, AtLeast, OneOf, Search, Within
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import (
    PerDocument,
    PerQuery,
    Prepared,
    PreparedKernel,
    checked_lists,
    document_weights,
    reject_columns,
)
from rankwise.objectives.softmax import cpu

_DEVICE = "rankwise.objectives.softmax.triton"
_GAMMAS = {"uniform": cpu.GAMMA_UNIFORM, "zero": cpu.GAMMA_ZERO, "one": cpu.GAMMA_ONE}
_CHOSEN_BY_WINGS = hooks.places("gamma")

Newton = Annotated[str, OneOf(("neumann", "diagonal"))]


class _CrossEntropy(Objective):
    """Checks and preparation of the softmax family; each declares its fields, in the order of its expression."""

    newton: str
    epsilon: float
    exact_hessian: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = True
    accepted: ClassVar[tuple[str, ...]] = ()
    """The columns of documents that it takes."""
    target: ClassVar[int]

    @property
    def shift_invariant(self) -> bool:
        """Whether nothing is added to the denominator."""
        return self.epsilon == 0.0

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the target distribution, or gains where it depends on draws or scores."""
        if columns:
            reject_columns(self, columns, self.accepted)
        checked, lists = checked_lists(labels, offsets)
        weights = document_weights(columns, lists) if columns else lists.none
        masses, units = lists.empty_documents(), lists.empty_queries()
        device_kernel = f"{_DEVICE}.cross_entropy:fill_targets"
        lists.run(cpu.fill_targets, device_kernel, checked, (weights, self.target), None, (masses, units))
        prepared = PreparedKernel(
            lists=lists,
            objective=self,
            kernel=cpu.cross_entropy_kernel,
            device_kernel=f"{_DEVICE}.cross_entropy:cross_entropy",
            arguments=SoftmaxArguments(
                lists.as_argument(masses), lists.as_argument(units), self.target, float(self.epsilon)
            ),
            streams=_streams if self.target == cpu.GAMMA_UNIFORM else None,
            numerator=self.newton == "neumann",
        )
        gamma = getattr(self, "gamma", "")
        return hooks.find("gamma", gamma)(prepared) if gamma in _CHOSEN_BY_WINGS else prepared


@dataclass(frozen=True, kw_only=True, repr=False)
class ListNet(_CrossEntropy):
    """Cross entropy with the softmax of the labels (Cao et al. 2007, as used by Bruch 2021).

    Lists without relevant documents count too: their target is uniform. ``epsilon`` is added to the softmax's
    denominator (eq. 14 of the 2021 paper). ``newton="neumann"`` gives trees the paper's three-term Newton numerator,
    ``"diagonal"`` the gradient.

    >>> d = ListNet()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.gradient.round(4)  # 1/2 minus e/(e + 1), and its mirror image
    array([-0.2311,  0.2311])
    """

    newton: Newton = "neumann"
    epsilon: Annotated[float, AtLeast(0)] = 0.0
    name: ClassVar[str] = "listnet"
    paper: ClassVar[str] = "Bruch 2021"
    exponential_gains: ClassVar[bool] = True
    target: ClassVar[int] = cpu.EXP


@dataclass(frozen=True, kw_only=True, repr=False)
class SoftmaxCE(_CrossEntropy):
    """Cross entropy with the labels over their sum (Bruch et al. 2019 and 2020).

    On binary labels exp(−loss) is a lower bound of the list's reciprocal rank and of its NDCG (see ``guarantees``).
    Lists without relevant documents contribute nothing. ``document_weights`` multiply the labels, and the
    target is divided by its sum: a self-normalised estimate from clicks, steady, and biased where several documents are
    relevant (with one click in a list its weight cancels). ``clickwise(softmax_ce)`` is the unbiased one.

    >>> d = SoftmaxCE()([0.0, 0.0, 0.0], [1, 0, 1], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # log 3; 1/3 minus 1/2, 0, 1/2
    (array([1.0986]), array([-0.1667,  0.3333, -0.1667]))
    """

    newton: Newton = "neumann"
    epsilon: Annotated[float, AtLeast(0)] = 0.0
    name: ClassVar[str] = "softmax_ce"
    paper: ClassVar[str] = "Bruch et al. 2019"
    accepted: ClassVar[tuple[str, ...]] = ("document_weights",)
    target: ClassVar[int] = cpu.SHARE


@dataclass(frozen=True, kw_only=True, repr=False)
class XENDCG(_CrossEntropy):
    """Cross entropy with φ ∝ 2^label − γ, a convex bound on NDCG (Bruch 2021).

    ``gamma="uniform"`` draws γ in [0, 1] anew for every document and round, as the paper does; ``"zero"`` and
    ``"one"`` fix it. ``"tight"``, for :func:`guarantees`, uses the γ that makes the paper's bound tightest at the
    current scores, and trains much worse rankers: documents that are ranked high already then count as relevant.

    ``document_weights`` (inverse propensities) multiply the gain 2^y − 1 and leave the rest of the mass, 1 − γ, alone;
    the sum is divided by itself as in :class:`SoftmaxCE`, with the same bias.

    >>> d = XENDCG(gamma="zero")([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.gradient.round(4)  # 1/3 minus 4/7, 2/7, 1/7
    array([-0.2381,  0.0476,  0.1905])
    """

    gamma: Annotated[str, OneOf((*_GAMMAS, *_CHOSEN_BY_WINGS))] = "uniform"
    newton: Newton = "neumann"
    epsilon: Annotated[float, AtLeast(0)] = 0.0
    name: ClassVar[str] = "xendcg"
    paper: ClassVar[str] = "Bruch 2021"
    exponential_gains: ClassVar[bool] = True
    accepted: ClassVar[tuple[str, ...]] = ("document_weights",)

    @property
    def target(self) -> int:  # type: ignore[override]
        """The target of this γ; gains alone where a wing chooses γ."""
        return _GAMMAS.get(self.gamma, cpu.GAMMA_UNIFORM)


@dataclass(frozen=True, kw_only=True, repr=False)
class Calibrated(Objective):
    """Sigmoid cross entropy plus a listwise loss that has the same minimiser: the sigmoid of a score is a probability.

    The loss of a list is (1 − α) Σ [log(1 + e^s) − y s] − α Σ y log p (Bai et al. 2023), where σ = 1/(1 + e^−s),
    p = σ/Σσ, and y is the label over ``max_label``, at most 1. The second part ranks. It is not divided by Σy, so that
    both parts are linear in y, and their expected values are least where σ is the probability of relevance. α = 1
    leaves σ free up to a factor in each list. With Y = Σy the gradient of the second part is (Yp − y)(1 − σ), and its
    diagonal Hessian Y p(1 − p)(1 − σ)² − (Yp − y)σ(1 − σ). ``curvature="positive"`` leaves out the second term where
    it is negative, ``"exact"`` keeps it.

    ``max_label`` is a setting, and not the largest label of the data, so that partitions and mini-batches agree. With
    the default 1 every label of at least 1 is relevant, and σ is the probability of that; with ``max_label=4`` it is
    the expected label over 4.

    Unlike other losses, this one changes if a constant is added to all scores of a query, and learns from queries of
    one document and from queries without relevant documents. Training starts at the base rate: all scores are the log
    odds of the mean y, unless it continues a model or starts from ``init_scores``. In a sum this is the constant with
    the least loss, that of the terms which are calibrated. ``stochastic`` and ``clickwise`` rank with it, but their
    noise and their lists of one click each move the level of the scores, which then are no log odds.

    >>> d = Calibrated(alpha=1.0)([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4), d.gradient  # log 2; (1/2 − 1)/2 and (1/2 − 0)/2
    (array([0.6931]), array([-0.25,  0.25]))
    """

    alpha: Annotated[float, Within(0, 1), Search("uniform(0.05, 0.95)")] = 0.5
    max_label: Annotated[float, Above(0)] = 1.0
    curvature: Annotated[str, OneOf(("positive", "exact"))] = "positive"
    shift_invariant: ClassVar[bool] = False
    log_odds: ClassVar[bool] = True
    exact_with: ClassVar[str] = "curvature=exact"
    prepares_on_device: ClassVar[bool] = True
    name: ClassVar[str] = "calibrated"
    paper: ClassVar[str] = "Bai et al. 2023"

    @property
    def exact_hessian(self) -> bool:
        """Whether the Hessian is exact."""
        return self.curvature == "exact" or self.alpha == 0.0

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute relevance between 0 and 1 from labels."""
        reject_columns(self, columns)
        checked, lists = checked_lists(labels, offsets)
        relevance = lists.as_argument((checked / float(self.max_label)).clip(0.0, 1.0))
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=cpu.calibrated_kernel,
            device_kernel=f"{_DEVICE}.calibrated:calibrated",
            arguments=CalibratedArguments(relevance, float(self.alpha), self.curvature == "exact"),
        )


class SoftmaxArguments(NamedTuple):
    """Arguments of the kernel of cross entropy, beside the scores."""

    masses: PerDocument
    """The target distribution; where γ depends on draws or scores the gains, to which 1 − γ is added."""
    units: PerQuery
    """The unit of the masses of a query: 1, less for large labels, negative if there is nothing to learn."""
    target: int
    epsilon: float


class CalibratedArguments(NamedTuple):
    """Arguments of the kernel, beside the scores."""

    relevance: PerDocument
    alpha: float
    exact: bool
    """Whether negative terms of the Hessian are kept."""


def _streams(stream: Stream) -> list[Stream]:
    return [stream]
