"""YetiLoss: neighbours of rankings drawn around the scores, weighed by what swapping them does to a metric.

Swapping the documents at ranks r and r + 1 moves nobody else, so the metric's change is the difference of what the two
are worth, times a number that depends on the rank and, for MAP and MRR, on what lies above it. A ranking of n documents
therefore costs a sort and n − 1 pairs: no pair is looked at that is not a neighbour, and no matrix of pairs is kept.
"""

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, read_only
from rankwise.kernels import APART, FUSED, kernel
from rankwise.metrics.base import Gain, checked_gain, discounts, longest_of
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.metrics.order import order_in, scratch_for
from rankwise.objectives.base import Objective, Prepared
from rankwise.objectives.fastmath import exp, log1p_unit
from rankwise.objectives.prepared import Lists, PreparedKernel, checked_lists, refuse_columns
from rankwise.objectives.wrappers.stochastic_scores import NOISES, check_noise, perturb_list
from rankwise.stream import Stream

_METRICS = ("ndcg", "map", "mrr", "classic")
MAP, MRR = _METRICS.index("map"), _METRICS.index("mrr")


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

    >>> from rankwise.stream import Stream
    >>> d = Yeti()([0.0, 0.0], [0, 1], [0, 2], Stream(seed=0))  # two documents are neighbours in every ranking
    >>> d.value.round(4), d.gradient.round(4)  # LambdaRank's: 0.369 log 2; 0.369/2
    (array([0.2558]), array([ 0.1845, -0.1845]))
    """

    metric: str = "ndcg"
    """Whose change weighs a pair: "ndcg", "map" or "mrr"; or "classic", the difference of labels times
    (1 − decay)·decay^(r − 1) at rank r."""
    permutations: int = 10
    """Rankings drawn per query."""
    noise: str = "logistic"
    """What is added to the scores: "logistic", "gumbel" (Plackett-Luce rankings) or "gaussian" noise."""
    scale: float = 1.0
    """How far the noise reaches, in units of the scores; 0 takes the ranking by score alone."""
    sigma: float = 1.0
    cutoff: int | None = None
    """Only the first so many ranks count in the metric. None: all of them. "classic" has none."""
    decay: float = 0.85
    """How likely the user of "classic" goes on to the next rank."""
    gain: Gain = "exponential"
    """Gain of a label in ndcg: 2^y − 1 ("exponential"), y ("linear"), or a table."""
    relevant: float = 1.0
    """Labels from this on are relevant in map and mrr."""
    exact_hessian: ClassVar[bool] = True
    name: ClassVar[str] = "yeti"
    steepness: ClassVar[str] = "sigma"
    held_fixed: ClassVar[str] = "the weights of pairs"
    paper: ClassVar[str] = "Lyzhin et al. 2023"

    def __post_init__(self) -> None:
        check.choice("metric to weigh pairs by", self.metric, _METRICS)
        check.integer("permutations", self.permutations, least=1)
        check_noise(self.scale, self.noise)
        check.number("sigma", self.sigma, least=0.0, open_ends=True)
        if self.cutoff is not None:
            check.integer("cutoff", self.cutoff, least=1)
            if self.metric == "classic":
                hint = "leave it out: decay says how far down pairs count"
                raise check.error("the classic weights have no cutoff", got=f"cutoff={self.cutoff}", hint=hint)
        check.number("decay", self.decay, least=0.0, most=1.0, open_ends=True)
        object.__setattr__(self, "gain", checked_gain(self.gain))
        check.number("relevant", self.relevant, least=0.0, open_ends=True)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Compute what documents are worth, relative to the best that their list allows."""
        refuse_columns(self, documents)
        lists = checked_lists(labels, offsets)
        return PreparedKernel(
            objective=self,
            kernel=yeti_kernel,
            offsets=lists.offsets,
            per_document=(read_only(self._worths(lists)),),
            settings=(
                read_only(self._drops(int(lists.sizes.max(initial=1)))),
                _METRICS.index(self.metric),
                NOISES.index(self.noise),
                float(self.scale),
                float(self.sigma),
            ),
            keys=partial(_keys, permutations=self.permutations),
            work=20.0 * self.permutations * lists.sizes,
        )

    def _worths(self, lists: Lists) -> Array:
        """What documents are worth, in units in which a swap changes the metric itself."""
        if self.metric == "classic":
            return gains_and_ideal(lists.labels, lists.offsets, "linear").gains
        if self.metric == "ndcg":
            best = gains_and_ideal(lists.labels, lists.offsets, self.gain, self.cutoff)
            shares: Array = best.gains / np.repeat(np.where(best.dcg > 0.0, best.dcg, 1.0), lists.sizes)
            return shares
        relevant: Array = (lists.labels >= self.relevant).astype(np.float64)
        if self.metric == "map":
            relevant = relevant / np.repeat(np.maximum(lists.sums(relevant), 1.0), lists.sizes)
        return relevant

    def _drops(self, longest: int) -> Array:
        """How much less each rank weighs than the one before it, as far down as pairs count."""
        ranks = longest if self.cutoff is None else min(longest, self.cutoff + 1)
        if self.metric == "classic":
            return np.array((1.0 - self.decay) * self.decay ** np.arange(ranks - 1))
        weights = discounts(ranks).copy() if self.metric == "ndcg" else 1.0 / np.arange(1.0, ranks + 1.0)
        if self.cutoff is not None:
            weights[self.cutoff :] = 0.0
        return weights[:-1] - weights[1:]


def _keys(stream: Stream, permutations: int) -> NDArray[np.uint64]:
    """The key of each ranking's noise, which is that of the samples of :func:`rankwise.sample_scores`."""
    return read_only(np.array([stream.child("noise", k).key for k in range(permutations)], np.uint64))


# What is kept of each place of a drawn ranking, and of the pair of that place and the next.
_NOISY, _SCORE, _WORTH, _WEIGHT, _LOSS, _PULL, _BEND, _ARRAYS = range(8)


@kernel
def yeti_kernel(  # type: ignore[no-untyped-def]
    first, last, offsets, scores, worths, drops, metric, noise, scale, sigma, keys, queries, value, gradient, hessian
):
    """Fill value, gradient and Hessian of these queries, from rankings that the keys draw."""
    longest = longest_of(first, last, offsets)
    ranked, sorting = np.empty(longest, np.int64), scratch_for(longest)
    places, spare = np.empty((_ARRAYS, longest + APART)), np.empty(0 if hessian.size else longest)
    for q in range(first, last):
        start, end = offsets[q], offsets[q + 1]
        n, score, worth = end - start, scores[start:end], worths[start:end]
        slope, bend = gradient[start:end], hessian[start:end] if hessian.size else spare[: end - start]
        slope[:] = 0.0
        bend[:] = 0.0
        value[q] = 0.0
        if worth.min() == worth.max():
            continue
        for key in keys:
            noisy = places[_NOISY, :n]
            perturb_list(key, queries[q], noise, scale, 1.0, score, noisy)
            order_in(noisy, ranked[:n], sorting)
            value[q] += _ranking(ranked[:n], score, worth, drops, metric, sigma, places, slope, bend)
        value[q] /= keys.size
        slope *= sigma / keys.size
        bend *= sigma * sigma / keys.size


@kernel
def _ranking(ranked, score, worth, drops, metric, sigma, places, slope, bend):  # type: ignore[no-untyped-def]
    """Add the pairs of one drawn ranking to the derivatives, but for the factors of σ, and give their loss."""
    pairs = min(ranked.size - 1, drops.size)
    for k in range(pairs + 1):
        row = np.uint64(ranked[k])
        places[_SCORE, k], places[_WORTH, k] = sigma * score[row], worth[row]
    pairs = _weigh(pairs, metric, drops, places[_WORTH], places[_WEIGHT])
    _fill_losses(pairs, places[_SCORE], places[_WEIGHT], places[_LOSS], places[_PULL], places[_BEND])
    total, pull, curve = 0.0, 0.0, 0.0  # of the pair before
    for k in range(pairs):
        row = np.uint64(ranked[k])
        total += places[_LOSS, k]
        slope[row] += pull - places[_PULL, k]
        bend[row] += curve + places[_BEND, k]
        pull, curve = places[_PULL, k], places[_BEND, k]
    slope[ranked[pairs]] += pull
    bend[ranked[pairs]] += curve
    return total


@kernel
def _weigh(pairs, metric, drops, worth, weight):  # type: ignore[no-untyped-def]
    """Fill how much the metric falls when each pair is swapped, below 0 where it rises; give how many pairs count."""
    above = 0.0  # relevant documents above the pair
    for k in range(pairs):
        weight[k] = (worth[k] - worth[k + 1]) * drops[k]
        if metric == MAP:  # the one of the two that is relevant is relevant document number above + 1
            weight[k] *= 1.0 + above
            above += worth[k] > 0.0
        elif metric == MRR and worth[k] > 0.0:  # nothing below the first relevant document counts
            return k + 1
    return pairs


@kernel(fastmath=FUSED)
def _fill_losses(pairs, score, weight, losses, pulls, bends):  # type: ignore[no-untyped-def]
    """Fill each pair's loss, by how much it pulls its upper document up, and its curvature, by a signed weight."""
    for k in range(pairs):
        w = weight[k]
        sign = 1.0 if w > 0.0 else -1.0
        margin = sign * (score[k] - score[k + 1])
        small = exp(-abs(margin))
        whole = 1.0 / (1.0 + small)
        wrong = whole * (small if margin > 0.0 else 1.0)  # 1/(1 + e^margin)
        losses[k] = abs(w) * (max(-margin, 0.0) + log1p_unit(small))
        pulls[k] = w * wrong
        bends[k] = abs(w) * (small * whole * whole)
