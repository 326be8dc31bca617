"""YetiLoss: pairs of neighbours in drawn rankings, weighed by the change of a metric when the two are swapped."""

from dataclasses import dataclass
from functools import partial
from typing import Annotated, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.check.parameters import Above, AtLeast, OneOf, Within
from rankwise.metrics.gains import Gain, checked_gain, discounts
from rankwise.objectives.base import Objective
from rankwise.objectives.cpu import NOISES
from rankwise.objectives.pairwise.cpu.yeti import METRICS, yeti_kernel
from rankwise.objectives.prepared import PerDocument, Prepared, PreparedKernel, checked_lists, reject_columns
from rankwise.objectives.ragged import RaggedLists, Values, noise_streams


@dataclass(frozen=True, kw_only=True, repr=False)
class Yeti(Objective):
    """YetiLoss: the logistic loss of neighbours in drawn rankings, weighed as LambdaRank's (Lyzhin et al. 2023).

    Noise is added to the scores and documents are sorted by the sums. Every two neighbours i above j of that
    ranking, with one worth more than the other, add |Δ|·log(1 + e^{−σ(s_better − s_worse)}): the scores in the loss are
    those without noise, and |Δ| is how much swapping the two *in the drawn ranking* changes the metric. The loss is the
    mean over ``permutations`` such rankings. Draws and weights are held fixed when derivatives are taken, as
    LambdaRank's weights are, so σ²|Δ|p(1 − p) adds up to the Hessian.

    Rankings, noise and decay are those of CatBoost's YetiRank by default: 10 rankings, and log(u/(1 − u)), logistic
    noise, which CatBoost calls Gumbel. ``yeti(metric=classic)`` is its YetiRank without a mode, ``yeti(gain=linear)``
    its ``mode=NDCG``. Its MAP mode has other weights; ours are the change of average precision itself.

    >>> from rankwise.base.stream import Stream
    >>> d = Yeti()([0.0, 0.0], [0, 1], [0, 2], Stream(seed=0))  # two documents are neighbours in every ranking
    >>> d.value.round(4), d.gradient.round(4)  # LambdaRank's: 0.369 log 2; 0.369/2
    (array([0.2558]), array([ 0.1845, -0.1845]))
    """

    metric: Annotated[str, OneOf(METRICS, "metric to weigh pairs by")] = "ndcg"
    """The metric whose change is the weight of a pair: "ndcg", "map" or "mrr"; or "classic", the difference of labels
    times (1 − decay)·decay^(r − 1) at rank r."""
    permutations: Annotated[int, AtLeast(1)] = 10
    """Rankings drawn per query."""
    noise: Annotated[str, OneOf(NOISES)] = "logistic"
    """The noise added to the scores: "logistic", "gumbel" (Plackett-Luce rankings) or "gaussian"."""
    scale: Annotated[float, AtLeast(0)] = 1.0
    """The scale of the noise, in units of the scores; 0 is the ranking by score alone."""
    sigma: Annotated[float, Above(0)] = 1.0
    cutoff: Annotated[int | None, AtLeast(1)] = None
    """The number of ranks that count in the metric. None: all of them. "classic" has none."""
    decay: Annotated[float, Within(0, 1, open=True)] = 0.85
    """The probability that the user of "classic" goes on to the next rank."""
    gain: Gain = "exponential"
    """Gain of a label in ndcg: 2^y − 1 ("exponential"), y ("linear"), or a table."""
    relevant: Annotated[float, Above(0)] = 1.0
    """Labels from this on are relevant in map and mrr."""
    exact_hessian: ClassVar[bool] = True
    prepares_on_device: ClassVar[bool] = True
    name: ClassVar[str] = "yeti"
    steepness: ClassVar[str] = "sigma"
    held_fixed: ClassVar[str] = "the weights of pairs"
    paper: ClassVar[str] = "Lyzhin et al. 2023"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff is not None and self.metric == "classic":
            hint = "leave it out: decay says how far down pairs count"
            raise check.error("the classic weights have no cutoff", got=f"cutoff={self.cutoff}", hint=hint)
        object.__setattr__(self, "gain", checked_gain(self.gain))

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Compute the gains of documents, relative to the ideal of their list."""
        reject_columns(self, columns)
        checked, lists = checked_lists(labels, offsets)
        return PreparedKernel(
            lists=lists,
            objective=self,
            kernel=yeti_kernel,
            device_kernel="rankwise.objectives.pairwise.triton.yeti:yeti",
            arguments=YetiArguments(
                gains=lists.as_argument(self._gains(checked, lists)),
                discount_gaps=lists.table(_discount_gaps, self),
                metric=METRICS.index(self.metric),
                noise=NOISES.index(self.noise),
                scale=float(self.scale),
                sigma=float(self.sigma),
            ),
            streams=partial(noise_streams, samples=self.permutations),
            work=20.0 * self.permutations * lists.sizes if lists.device is None else None,
        )

    def _gains(self, labels: Values, lists: RaggedLists) -> Values:
        """Return gains in units in which a swap changes the metric itself."""
        if self.metric == "classic":
            return lists.gains_and_ideal(labels, "linear").gains
        if self.metric == "ndcg":
            return lists.gain_shares(labels, self.gain, self.cutoff)
        relevant = lists.floats(labels >= self.relevant)
        if self.metric == "map":
            relevant = relevant / lists.to_documents(lists.positive_or_one(lists.sums(relevant)))
        return relevant


def _discount_gaps(yeti: Yeti, longest: int) -> Array:
    """Return the discount of each rank minus that of the next, as far down as pairs count."""
    ranks = longest if yeti.cutoff is None else min(longest, yeti.cutoff + 1)
    if yeti.metric == "classic":
        return np.array((1.0 - yeti.decay) * yeti.decay ** np.arange(ranks - 1))
    weights = discounts(ranks).copy() if yeti.metric == "ndcg" else 1.0 / np.arange(1.0, ranks + 1.0)
    if yeti.cutoff is not None:
        weights[yeti.cutoff :] = 0.0
    return weights[:-1] - weights[1:]


class YetiArguments(NamedTuple):
    """Arguments of the kernel of YetiLoss, beside the scores."""

    gains: PerDocument
    discount_gaps: Array
    """The discount of each rank minus that of the next."""
    metric: int
    noise: int
    scale: float
    sigma: float
