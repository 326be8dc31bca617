"""Pairwise losses: the loss and the weight of a pair are two choices, and LambdaRank and RankNet name such choices."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.check.parameters import Above, AtLeast, OneOf, Search
from rankwise.metrics.gains import NO_CUTOFF, Gain, checked_gain
from rankwise.objectives.base import Objective
from rankwise.objectives.pairwise.cpu.pairwise import pairwise
from rankwise.objectives.pairwise.cpu.tiles import EXPONENTIAL, HINGE, LOGISTIC, SQUARED_HINGE
from rankwise.objectives.pairwise.cpu.weights import WEIGHTS, distance_weights, rank_weights
from rankwise.objectives.prepared import (
    PerDocument,
    Prepared,
    PreparedKernel,
    checked_lists,
    document_weights,
    reject_columns,
)
from rankwise.objectives.ragged import RaggedLists, Values
from rankwise.objectives.wrappers.weighted import PreparedWeighted

LOSSES = {"logistic": LOGISTIC, "hinge": HINGE, "squared_hinge": SQUARED_HINGE, "exponential": EXPONENTIAL}
_LAMBDA_METRICS = ("ndcg", "map", "mrr")
_LAMBDA_WEIGHTS = ("lambda", "ndcg2", "ndcg2++")


class _Pairs(Objective):
    """A loss that is one of :class:`Pairwise`."""

    accepted: ClassVar[tuple[str, ...]] = ("document_weights",)
    """The columns of documents that it takes."""
    prepares_on_device: ClassVar[bool] = True
    steepness: ClassVar[str] = "sigma"

    @abstractmethod
    def pairs(self) -> "Pairwise":
        """Return the same loss as a :class:`Pairwise`."""

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the gains of documents, relative to the ideal of their list."""
        reject_columns(self, columns, self.accepted)
        checked, lists = checked_lists(labels, offsets)
        pairs = self.pairs()
        truncation = NO_CUTOFF if pairs.truncation is None else pairs.truncation
        gains = lists.as_argument(_gains(pairs, checked, lists))
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=pairwise,
            device_kernel="rankwise.objectives.pairwise.triton.pairwise:pairwise",
            arguments=PairArguments(
                rows=lists.order(gains) if lists.device is None else lists.none,
                gains=gains,
                document_weights=document_weights(columns, lists),
                discounts=lists.table(rank_weights, pairs.weight, pairs.cutoff),
                distances=lists.table(distance_weights, pairs.weight, pairs.cutoff),
                settings=PairSettings(
                    float(pairs.sigma), truncation, pairs.norm, LOSSES[pairs.loss], *WEIGHTS[pairs.weight]
                ),
            ),
            work=lists.sizes * (0.7 * np.minimum(lists.sizes, truncation) + 20.0) if lists.device is None else None,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class Pairwise(_Pairs):
    """Any loss of a pair with any weight of a pair: Σ w·ℓ(σ(s_i − s_j)) over pairs where i is worth more than j.

    ``loss`` of a pair with margin m: "logistic" log(1 + e^−m), "hinge" max(0, 1 − m), "squared_hinge" its square, or
    "exponential" e^−m (a straight line where m is below −20, so that no score overflows). The hinge has no second
    derivative; that of half the squared hinge replaces it, so ``exact_hessian`` is False.

    ``weight`` of a pair: "none" (1), or how much swapping the two changes "ndcg", "map", "mrr", or "precision" or
    "recall" at ``cutoff``, which leaves the pairs with one document on each side of it; LambdaLoss's "ndcg2" and
    "ndcg2++" (Wang et al. 2018); or LambdaGap's, made for precision at ``cutoff`` (Adàlia et al. 2025). Those are 1 for
    a relevant document and one that is not, exactly ``cutoff`` ranks apart ("lambdagap_s") or at least so many
    ("lambdagap_x"); and "arp", by how many ranks in all a swap moves relevant documents that lie behind ``cutoff``.

    Weights depend on the current ranking and are held fixed when derivatives are taken. ``norm``, ``truncation``,
    ``gain``, ``relevant`` and ``document_weights`` are those of :class:`LambdaRank`.

    >>> d = Pairwise(loss="hinge")([0.0, 0.5], [1, 0], [0, 2])
    >>> d.value, d.gradient  # 1 − (0 − 0.5)
    (array([1.5]), array([-1.,  1.]))
    """

    loss: Annotated[str, OneOf(LOSSES, "loss of a pair")] = "logistic"
    weight: Annotated[str, OneOf(WEIGHTS, "weight of a pair")] = "none"
    sigma: Annotated[float, Above(0)] = 1.0
    truncation: Annotated[int | None, AtLeast(1)] = None
    norm: bool = False
    cutoff: Annotated[int, AtLeast(1)] = 10
    gain: Gain = "exponential"
    relevant: Annotated[float, Above(0)] = 1.0
    name: ClassVar[str] = "pairwise"
    paper: ClassVar[str] = "Burges et al. 2005, Wang et al. 2018, Adàlia et al. 2025"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.norm, bool):
            raise check.error("norm must be True or False", got=repr(self.norm))
        object.__setattr__(self, "gain", checked_gain(self.gain))

    @property
    def held_fixed(self) -> str:  # type: ignore[override]
        """The weights of pairs, unless all are 1, and which of them the hinge leaves out."""
        weighed = self.norm or self.truncation is not None or self.weight != "none"
        return "the weights of pairs" if weighed else "what is beyond the hinge" if self.loss == "hinge" else ""

    @property
    def exact_hessian(self) -> bool:
        """The norm's factors depend on the scores but are held fixed, and the hinge has no second derivative."""
        return not self.norm and self.loss != "hinge"

    def pairs(self) -> "Pairwise":
        """Return the loss itself."""
        return self


@dataclass(frozen=True, kw_only=True, repr=False)
class LambdaRank(_Pairs):
    """The logistic loss of every pair, weighed by how much swapping the two changes a metric (Burges 2010).

    The loss of a list is Σ |Δ|·log(1 + e^{−σ(s_i − s_j)}) over pairs where i is worth more than j. |Δ| depends on the
    current ranking and is held fixed when derivatives are taken, so σ²|Δ|p(1 − p) adds up to the Hessian. Equal
    scores rank in row order. Lists in which all documents are worth the same contribute nothing.

    ``truncation``: only pairs with a document among this many first; the ideal DCG is taken there too. None: all pairs.
    ``norm``: LightGBM's normalisation. |Δ| is divided by 0.01 + |s_i − s_j| (unless all scores are equal), then the
    list is scaled by log2(1 + S)/S, where S is the sum of the sizes of the pairs' gradients, both ends counted. Both
    are held fixed as |Δ| is, which is why ``exact_hessian`` is True without norm only.
    ``metric``: whose change |Δ| is: "ndcg", "map" or "mrr", the last two with labels from ``relevant`` on as relevant.
    ``weights``: "lambda" is |Δ| itself; "ndcg2" and "ndcg2++" are LambdaLoss's for NDCG (Wang et al. 2018):
    |G_i − G_j|·(D_k − D_{k+1}) for documents k ranks apart with discounts D, and ten times that plus |Δ|; the paper
    has them over all pairs: truncation=None.
    ``gain``: of NDCG, "exponential" (2^y − 1), "linear" or a table by label.

    ``document_weights`` (inverse propensities of clicked documents) multiply each pair by the weight of its better
    document; that of the worse document plays no part. Unbiased for lists with one relevant document; with more, a
    relevant document without a click counts as the worse one, and the ideal DCG is that of the clicks drawn.
    ``clickwise(lambdarank)`` is unbiased for any.

    >>> d = LambdaRank(norm=False)([0.0, 0.0], [0, 1], [0, 2])  # Δ = (1 − 0)(1 − 1/log2(3)) = 0.369
    >>> d.value.round(4), d.gradient.round(4)  # 0.369 log 2; 0.369/2
    (array([0.2558]), array([ 0.1845, -0.1845]))
    """

    sigma: Annotated[float, Above(0), Search("log(0.25, 4.0)")] = 1.0
    truncation: Annotated[int | None, AtLeast(1), Search("whole_log(5, 100)")] = 30
    norm: Annotated[bool, Search("choice(True, False)")] = True
    metric: Annotated[str, OneOf(_LAMBDA_METRICS, "metric to weigh pairs by")] = "ndcg"
    weights: Annotated[str, OneOf(_LAMBDA_WEIGHTS)] = "lambda"
    gain: Gain = "exponential"
    relevant: float = 1.0
    name: ClassVar[str] = "lambdarank"
    held_fixed: ClassVar[str] = "the weights of pairs"
    exact_with: ClassVar[str] = "norm=False"
    paper: ClassVar[str] = "Burges 2010, Wang et al. 2018"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.weights != "lambda" and self.metric != "ndcg":
            raise check.error(
                f"the weights {self.weights} are made for NDCG",
                got=f"metric={self.metric}",
                hint="write lambdarank(metric=ndcg) or lambdarank(weights=lambda)",
            )
        object.__setattr__(self, "gain", self.pairs().gain)

    @property
    def exact_hessian(self) -> bool:
        """The norm's factors depend on the scores but are held fixed."""
        return not self.norm

    def pairs(self) -> Pairwise:
        """Return the same loss as a :class:`Pairwise`."""
        return Pairwise(
            weight=self.metric if self.weights == "lambda" else self.weights,
            sigma=self.sigma,
            truncation=self.truncation,
            norm=self.norm,
            gain=self.gain,
            relevant=self.relevant,
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class RankNet(_Pairs):
    """The logistic loss of every pair (Burges et al. 2005): Σ log(1 + e^{−σ(s_i − s_j)}) over pairs with y_i > y_j.

    Takes time in the square of the longest lists, but memory in proportion to their length. Only the order of labels
    matters, so lists in which all are equal contribute nothing.

    >>> d = RankNet()([0.0, 0.0, 0.0], [2, 1, 0], [0, 3])
    >>> d.value.round(4), d.gradient.round(4)  # 3 log 2; the best document is pulled up by two pairs, 1/2 each
    (array([2.0794]), array([-1.,  0.,  1.]))
    """

    sigma: Annotated[float, Above(0), Search("log(0.25, 4.0)")] = 1.0
    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "ranknet"
    accepted: ClassVar[tuple[str, ...]] = ()
    paper: ClassVar[str] = "Burges et al. 2005"

    def pairs(self) -> Pairwise:
        """Return the same loss as a :class:`Pairwise`."""
        return Pairwise(sigma=self.sigma)


@dataclass(frozen=True, kw_only=True, repr=False)
class BPR(_Pairs):
    """The logistic loss of relevant documents against drawn others (Rendle et al. 2009): Bayesian personalised ranking.

    Σ over relevant documents of the mean of log(1 + e^{−(s_i − s_j)}) over those that are not: the expected loss of a
    relevant item of the user and one that is drawn among the others on the list, over all such draws at once. A label
    above 0 is relevant. In a factorization: ``FactorizationRanker("bpr", negatives=1, resample=True)``.

    >>> d = BPR()([0.0, 0.0, 0.0], [1, 0, 0], [0, 3])
    >>> d.value.round(4), d.gradient  # log 2, the mean of two pairs
    (array([0.6931]), array([-0.5 ,  0.25,  0.25]))
    """

    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "bpr"
    accepted: ClassVar[tuple[str, ...]] = ()
    steepness: ClassVar[str] = ""
    paper: ClassVar[str] = "Rendle et al. 2009"

    def pairs(self) -> Pairwise:
        """Return the loss of all pairs, without weights of queries."""
        return Pairwise()

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Count the documents of each list that are not relevant."""
        checked, lists = checked_lists(labels, offsets)
        relevant = lists.floats(checked > 0.0)
        pairs = super().prepare(relevant, lists, **columns)  # type: ignore[arg-type]
        weights = lists.as_argument(1.0 / lists.positive_or_one(lists.sums(1.0 - relevant)))
        return PreparedWeighted(lists=pairs.lists, inner=pairs, weights=weights)


class PairSettings(NamedTuple):
    """Settings of the kernel of pairwise losses, on the CPU and on a device."""

    sigma: float
    truncation: int
    """Only pairs whose upper document is among this many first count."""
    norm: bool
    loss: int
    weight: int
    swap_share: float
    """The factor of the metric's change in the weight of a pair."""
    distance_share: float
    """The factor of the distance's weight in the weight of a pair (LambdaLoss, LambdaGap)."""


class PairArguments(NamedTuple):
    """Arguments of the kernel of pairwise losses, beside the scores."""

    rows: PerDocument
    """The documents of each query from the largest gain to the least; empty on a device, which does not need it."""
    gains: PerDocument
    """Gains in units in which a swap of two documents changes the metric itself."""
    document_weights: PerDocument
    discounts: Array
    """The discount of each rank in the metric."""
    distances: Array
    """The weight of a pair by how many ranks the two are apart."""
    settings: PairSettings


def _gains(pairs: Pairwise, labels: Values, lists: RaggedLists) -> Values:
    """Return gains in units in which a swap of two documents changes the metric itself."""
    if pairs.weight == "none":
        return labels
    if pairs.weight.startswith("ndcg"):
        return lists.gain_shares(labels, pairs.gain, pairs.truncation)
    relevant = lists.floats(labels >= pairs.relevant)
    if pairs.weight == "precision":
        relevant = relevant / pairs.cutoff
    if pairs.weight == "recall":
        relevant = relevant / lists.to_documents(lists.positive_or_one(lists.sums(relevant)))
    return relevant
