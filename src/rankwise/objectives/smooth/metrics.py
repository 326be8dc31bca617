"""Metrics with smooth ranks: NDCG, AP and RBP made differentiable.

The rank of a document is 1 plus the number of documents that score higher. A sigmoid in the place of the comparison
makes it smooth: R_i = 1 + Σ_j σ(η(s_j − s_i)). Only relevant documents' ranks enter a metric, so the cost of a list is
the number of its relevant documents times its length, and the memory one row. First and second derivatives are exact:
with p = σ(η(s_k − s_i)), w = p(1 − p) and t = w(1 − 2p), R_i has the derivatives ηw and η²t along s_k, and −ηΣw and
η²Σt along s_i itself.

With ``kernel="laplace"`` the comparison is the distribution function of Laplace instead (``laplace.py``), for which all
ranks of a list cost little more than sorting it.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Offsets, read_only
from rankwise.metrics.base import Gain, checked_gain
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.permutations import AP, DISCORDANCE, Orderings, ndcg_orderings
from rankwise.objectives import curvature as curvatures
from rankwise.objectives.base import Objective, Prepared
from rankwise.objectives.prepared import Lists, PreparedKernel, checked_lists, refuse_columns
from rankwise.objectives.smooth import laplace
from rankwise.objectives.smooth.ranks import ap_kernel, ndcg_kernel, rbp_kernel
from rankwise.threads import Kernel

_KERNELS = ("sigmoid", "laplace")
_SORT = np.float64(20.0)  # what a document costs where lists are sorted, in units of a sigmoid


@dataclass(frozen=True, kw_only=True, repr=False)
class ApproxNDCG(Objective):
    """Minus NDCG with smooth ranks (Qin et al. 2010; Bruch et al. 2020, 5.2; thesis eq. 2.10).

    ``eta`` is the steepness η of the sigmoid: 10 in the 2020 paper, 1 in the thesis. The exact diagonal of the Hessian
    is indefinite; ``curvature`` says what trees divide by instead (see ``objectives/curvature.py``).

    ``kernel="laplace"`` compares scores by Laplace's distribution function in the place of the sigmoid, here and in the
    other smooth metrics: a list then takes a sort and a few sweeps, whatever the number of its relevant documents. At
    equal scores it is twice as steep as the sigmoid with the same ``eta``.

    >>> d = ApproxNDCG()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5: minus 1/log2(2.5)
    array([-0.7565])
    """

    eta: float = 10.0
    kernel: str = "sigmoid"
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
        return _prepare(self, lists, best.gains, best.dcg)

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
    kernel: str = "sigmoid"
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
        return _prepare(self, lists, (lists.labels >= self.relevant).astype(np.float64))

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
    kernel: str = "sigmoid"
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
        return _prepare(self, lists, (lists.labels >= self.relevant).astype(np.float64))

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings:
        """The lists as this metric sees them, for bounding."""
        return Orderings(DISCORDANCE, offsets, (labels >= self.relevant).astype(np.float64), np.empty(0))


def check_smooth(objective: "ApproxNDCG | SmoothAP | SmoothRBP") -> None:
    """Check the settings that smooth metrics share."""
    check.number("eta", objective.eta, least=0.0, open_ends=True)
    check.choice("kernel of smooth ranks", objective.kernel, _KERNELS)
    curvatures.choose(objective.curvature, "exact")
    if not isinstance(objective, ApproxNDCG):
        check.number("relevant", objective.relevant, least=0.0, open_ends=True)


_METRICS: dict[type[Objective], tuple[Kernel, int]] = {
    ApproxNDCG: (ndcg_kernel, laplace.NDCG),
    SmoothAP: (ap_kernel, laplace.AP),
    SmoothRBP: (rbp_kernel, laplace.RBP),
}
"""The kernel of sigmoids, and the metric's number in that of Laplace."""


def _prepare(objective: ApproxNDCG | SmoothAP | SmoothRBP, lists: Lists, worths: Array, *best: Array) -> Prepared:
    kernel, metric = _METRICS[type(objective)]
    settings: tuple[object, ...] = (float(objective.eta),)
    relevant = lists.sums((worths > 0.0).astype(np.float64))
    work: Array = lists.sizes * (1.0 + relevant)
    if objective.kernel == "laplace":
        kernel, settings = laplace.laplace_kernel, (*settings, metric)
        work, best = lists.sizes * _SORT, best or (relevant,)
    return PreparedKernel(
        objective=objective,
        kernel=kernel,
        offsets=lists.offsets,
        per_document=(read_only(worths),),
        per_query=tuple(read_only(column) for column in best),
        settings=settings,
        curvature=objective.curvature,
        work=work,
    )
