"""Ranking with scores that are log odds: sigmoid cross entropy, and a listwise loss that agrees with it."""

from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

from numpy.typing import ArrayLike

from rankwise.check.parameters import Above, OneOf, Search, Within
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import PerDocument, Prepared, PreparedKernel, checked_lists, reject_columns
from rankwise.objectives.softmax import cpu


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
            device_kernel="rankwise.objectives.softmax.triton.calibrated:calibrated",
            arguments=CalibratedArguments(relevance, float(self.alpha), self.curvature == "exact"),
        )


class CalibratedArguments(NamedTuple):
    """Arguments of the kernel, beside the scores."""

    relevance: PerDocument
    alpha: float
    exact: bool
    """Whether negative terms of the Hessian are kept."""
