"""Metrics with smooth ranks: NDCG, AP and RBP made differentiable.

The rank of a document is 1 plus the number of documents that score higher. A sigmoid in the place of the comparison
makes it smooth: R_i = 1 + Σ_j σ(η(s_j − s_i)). Only relevant documents' ranks enter a metric, so the cost of a list is
the number of its relevant documents times its length, and the memory one row. First and second derivatives are exact
(``cpu.py``).
"""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise.check.parameters import Above, OneOf, Search
from rankwise.metrics.gains import Gain, checked_gain
from rankwise.objectives.base import Objective
from rankwise.objectives.cpu import TREATMENTS
from rankwise.objectives.prepared import PerDocument, PerQuery, PreparedKernel, checked_lists, reject_columns
from rankwise.objectives.ragged import RaggedLists, Values
from rankwise.objectives.smooth import cpu

_DEVICE = "rankwise.objectives.smooth.triton"
_SORT = 20.0  # the cost of a document where lists are sorted, in units of a sigmoid

Kernel = Annotated[str, OneOf(("sigmoid", "laplace"), "kernel of smooth ranks")]
Curvature = Annotated[str, OneOf(("exact", *TREATMENTS))]


class _Smooth(Objective):
    """Checks and preparation of the smooth metrics; each declares its fields, in the order of its expression."""

    eta: float
    kernel: str
    curvature: str
    metric: ClassVar[int]
    steepness: ClassVar[str] = "eta"
    exact_with: ClassVar[str] = "curvature=exact"
    prepares_on_device: ClassVar[bool] = True

    @property
    def exact_hessian(self) -> bool:
        """Only the untreated diagonal is exact."""
        return self.curvature == "exact"

    @abstractmethod
    def _gains(self, labels: Values, lists: RaggedLists) -> tuple[Values, Values]:
        """Return the gain of each document, and the ideal DCG or the number of relevant documents of each query."""

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> PreparedKernel:
        """Compute gains, and the relevant documents of each query."""
        reject_columns(self, columns)
        checked, lists = checked_lists(labels, offsets)
        gains, best = self._gains(checked, lists)
        relevant, counts = lists.empty_documents(integer=True), lists.empty_queries(integer=True)
        arguments = (lists.as_argument(gains), (self.metric,), None, (relevant, counts))
        lists.run(cpu.fill_relevant, f"{_DEVICE}.sigmoid:fill_relevant", *arguments)
        inputs = [lists.as_argument(column) for column in (gains, relevant, counts, best)]
        by_sigmoid = self.kernel == "sigmoid"
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=cpu.smooth_kernel if by_sigmoid else cpu.laplace_kernel,
            device_kernel=f"{_DEVICE}.{'sigmoid' if by_sigmoid else 'laplace'}:smooth",
            arguments=SmoothArguments._make((*inputs, float(self.eta), self.metric)),
            curvature=self.curvature,
            work=None if lists.device else lists.sizes * (1.0 + np.maximum(counts, 0) if by_sigmoid else _SORT),
        )


class SmoothArguments(NamedTuple):
    """Arguments of the kernels of smooth metrics, beside the scores."""

    gains: PerDocument
    """Gains, or 1 for relevant documents and 0 for others."""
    relevant: PerDocument
    """The relevant documents of each query, then the others."""
    counts: PerQuery
    """The number of relevant documents; 0 where there is nothing to learn, −1 where every order has the value −1."""
    best: PerQuery
    """The ideal DCG, or the number of relevant documents."""
    eta: float
    metric: int


@dataclass(frozen=True, kw_only=True, repr=False)
class ApproxNDCG(_Smooth):
    """Minus NDCG with smooth ranks (Qin et al. 2010; Bruch et al. 2020, 5.2; thesis eq. 2.10).

    ``eta`` is the steepness η of the sigmoid: 10 in the 2020 paper, 1 in the thesis. The exact diagonal of the Hessian
    is indefinite; ``curvature`` is its replacement, which trees divide by (see ``objectives/cpu.py``): measured by
    ``python -m benchmarks.quality.curvature``, as are the defaults of the other smooth metrics.

    ``kernel="laplace"`` compares scores by Laplace's distribution function in the place of the sigmoid, here and in the
    other smooth metrics: a list then takes a sort and a few sweeps, whatever the number of its relevant documents. At
    equal scores it is twice as steep as the sigmoid with the same ``eta``.

    >>> d = ApproxNDCG()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5: minus 1/log2(2.5)
    array([-0.7565])
    """

    eta: Annotated[float, Above(0), Search("log(0.5, 20.0)")] = 10.0
    kernel: Kernel = "sigmoid"
    gain: Gain = "exponential"
    curvature: Curvature = "gradient"
    name: ClassVar[str] = "approx_ndcg"
    paper: ClassVar[str] = "Bruch et al. 2020"
    metric: ClassVar[int] = cpu.NDCG

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "gain", checked_gain(self.gain))

    def _gains(self, labels: Values, lists: RaggedLists) -> tuple[Values, Values]:
        return lists.gains_and_ideal(labels, self.gain)


@dataclass(frozen=True, kw_only=True, repr=False)
class _Binary(_Smooth):
    """A smooth metric of documents that are relevant or not."""

    eta: Annotated[float, Above(0), Search("log(0.2, 10.0)")] = 1.0
    kernel: Kernel = "sigmoid"
    relevant: Annotated[float, Above(0)] = 1.0
    curvature: Curvature = "floored"

    def _gains(self, labels: Values, lists: RaggedLists) -> tuple[Values, Values]:
        relevant = lists.floats(labels >= self.relevant)
        return relevant, lists.sums(relevant)


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothAP(_Binary):
    """Minus average precision with smooth ranks (thesis eq. 2.11); documents with label ≥ ``relevant`` are relevant.

    >>> d = SmoothAP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value.round(4)  # rank 1.5
    array([-0.6667])
    """

    curvature: Curvature = "absolute"
    name: ClassVar[str] = "smooth_ap"
    paper: ClassVar[str] = "Westerborg 2022"
    metric: ClassVar[int] = cpu.AP


@dataclass(frozen=True, kw_only=True, repr=False)
class SmoothRBP(_Binary):
    """The rank-biased loss of thesis eq. 2.12: Σ over relevant documents of (rank − 1), minus its least value.

    At whole ranks it counts the pairs in which a non-relevant document stands before a relevant one.

    >>> d = SmoothRBP()([0.0, 0.0], [1, 0], [0, 2])
    >>> d.value, d.gradient
    (array([0.5]), array([-0.25,  0.25]))
    """

    name: ClassVar[str] = "smooth_rbp"
    paper: ClassVar[str] = "Westerborg 2022"
    metric: ClassVar[int] = cpu.RBP
