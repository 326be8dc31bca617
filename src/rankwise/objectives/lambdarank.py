"""LambdaRank: pairs weighed by what swapping them would do to a metric."""

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.metrics.base import NO_CUTOFF, Gain, bad_label, checked_gain, discounts, gain_rule, gains, relevance_rule
from rankwise.objectives import base
from rankwise.objectives.base import Array, Derivatives, Operators, algebra, differentiate, lists
from rankwise.objectives.pairs import MAP, MRR, NDCG, Settings, pairwise
from rankwise.stream import Stream

_METRICS = {"ndcg": NDCG, "map": MAP, "mrr": MRR}
_WEIGHTS = {"lambda": (1.0, 0.0), "ndcg2": (0.0, 1.0), "ndcg2++": (1.0, 10.0)}


@algebra
@dataclass(frozen=True, kw_only=True, repr=False)
class LambdaRank(Operators):
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
    document. A click on the better document is what makes the pair seen at all, with that document's propensity, so
    dividing by it makes the sum over seen pairs unbiased; the weight of the worse document plays no part.

    >>> d = LambdaRank(norm=False)([0.0, 0.0], [0, 1], [0, 2])  # Δ = (1 − 0)(1 − 1/log2(3)) = 0.369
    >>> d.value.round(4), d.gradient.round(4)  # 0.369 log 2; 0.369/2
    (array([0.2558]), array([ 0.1845, -0.1845]))
    """

    sigma: float = 1.0
    truncation: int | None = 30
    norm: bool = True
    metric: str = "ndcg"
    weights: str = "lambda"
    gain: Gain = "exponential"
    relevant: float = 1.0
    estimator: ClassVar[bool] = False
    paper: ClassVar[str] = "Burges 2010, Wang et al. 2018"

    def __post_init__(self) -> None:
        check.number("sigma", self.sigma, least=0.0, open_ends=True)
        if self.truncation is not None:
            check.integer("truncation", self.truncation, least=1)
        if not isinstance(self.norm, bool):
            raise check.error("norm must be True or False", got=repr(self.norm))
        check.choice("metric to weigh pairs by", self.metric, _METRICS)
        check.choice("weights", self.weights, _WEIGHTS)
        check.number("relevant", self.relevant, least=0.0, open_ends=True)
        object.__setattr__(self, "gain", checked_gain(self.gain))
        if self.weights != "lambda" and self.metric != "ndcg":
            raise check.error(
                f"the weights {self.weights} are made for NDCG",
                got=f"metric={self.metric}",
                cure="write metric=ndcg or weights=lambda",
            )

    @property
    def exact_hessian(self) -> bool:
        """The norm's factors depend on the scores but are held fixed."""
        return not self.norm

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        stream: Stream | None = None,
        *,
        document_weights: ArrayLike | None = None,
    ) -> Derivatives:
        """Give the loss and its derivatives, pair weights held fixed; draws nothing."""
        given = lists(scores, labels, offsets)
        sizes = np.diff(given.offsets)
        truncation = NO_CUTOFF if self.truncation is None else self.truncation
        settings = Settings(float(self.sigma), truncation, self.norm, _METRICS[self.metric], *_WEIGHTS[self.weights])
        rule = gain_rule(self.gain) if self.metric == "ndcg" else relevance_rule(float(self.relevant))
        parts = differentiate(
            pairwise,
            given,
            base.document_weights(document_weights, given),
            rule,
            discounts(int(sizes.max(initial=0)) + 1),
            settings,
            work=sizes * (0.7 * np.minimum(sizes, truncation) + 20.0),
        )
        if np.isnan(parts.value).any():
            raise bad_label(given.labels, given.offsets, self.gain)
        return parts


def frozen(
    objective: LambdaRank,
    scores: ArrayLike,
    labels: ArrayLike,
    offsets: ArrayLike,
    *,
    document_weights: ArrayLike | None = None,
) -> Callable[[ArrayLike], Array]:
    """Give the loss as a function of the scores, with pair weights and norm held at those of the given ``scores``.

    This is the function whose derivatives LambdaRank gives, written without any regard to speed: each Δ is found by
    swapping two documents and looking at the metric again. It is there to check the kernel and to explain it.

    >>> loss = frozen(LambdaRank(norm=False), [0.0, 0.0], [0, 1], [0, 2])
    >>> step = 1e-5
    >>> ((loss([step, 0.0]) - loss([-step, 0.0])) / (2 * step)).round(4)  # the gradient of LambdaRank's example
    array([0.1845])
    """
    given = lists(scores, labels, offsets)
    heavy = np.ones(given.scores.size) if document_weights is None else np.asarray(document_weights, np.float64)
    parts = []
    for start, stop in itertools.pairwise(given.offsets.tolist()):
        mine = slice(start, stop)
        high, low, weight = _pairs(objective, given.scores[mine], given.labels[mine], heavy[mine])
        parts.append((start + high, start + low, weight))

    def loss(at: ArrayLike) -> Array:
        values = np.asarray(at, np.float64)
        return np.array(
            [w @ np.logaddexp(0.0, -objective.sigma * (values[high] - values[low])) for high, low, w in parts]
        )

    return loss


def _pairs(objective: LambdaRank, scores: Array, labels: Array, heavy: Array) -> tuple[NDArray[Any], ...]:
    """The better and the worse document of each pair of one list, and the pair's weight."""
    ranked = np.argsort(-scores, kind="stable")
    reach = scores.size if objective.truncation is None else objective.truncation
    relevant = (labels >= objective.relevant).astype(np.float64)
    worths = gains(labels, objective.gain) if objective.metric == "ndcg" else relevant
    discount = discounts(scores.size + 1)
    best = float(np.sort(worths)[::-1][:reach] @ discount[: min(reach, scores.size)])
    share, distance_share = _WEIGHTS[objective.weights]
    high, low, weights = [], [], []
    for upper, lower in itertools.combinations(range(scores.size), 2):
        i, j = ranked[upper], ranked[lower]
        if upper >= reach or worths[i] == worths[j]:
            continue
        swapped = ranked.copy()
        swapped[[upper, lower]] = j, i
        weight = 0.0
        if share:
            weight += share * abs(
                _quality(objective.metric, worths[swapped]) - _quality(objective.metric, worths[ranked])
            )
        if distance_share:
            drop = discount[lower - upper - 1] - discount[lower - upper]
            weight += distance_share * abs(worths[i] - worths[j]) * drop
        weight /= best if objective.metric == "ndcg" else 1.0
        if objective.norm and scores.max() > scores.min():
            weight /= 0.01 + abs(scores[i] - scores[j])
        better, worse = (i, j) if worths[i] > worths[j] else (j, i)
        high.append(better)
        low.append(worse)
        weights.append(weight * heavy[better])
    pairs = np.array(high, np.int64), np.array(low, np.int64), np.array(weights)
    if objective.norm:
        wrong = 1.0 / (1.0 + np.exp(np.minimum(objective.sigma * (scores[pairs[0]] - scores[pairs[1]]), 700.0)))
        total = 2.0 * objective.sigma * float(pairs[2] @ wrong)
        pairs[2][:] *= np.log1p(total) / (total * np.log(2.0)) if total > 0.0 else 1.0
    return pairs


def _quality(metric: str, worths: Array) -> float:
    """DCG, average precision or reciprocal rank of documents in this order."""
    if metric == "ndcg":
        return float(worths @ discounts(worths.size))
    ranks = np.flatnonzero(worths) + 1.0
    return float(np.mean(np.arange(1, ranks.size + 1) / ranks)) if metric == "map" else float(1.0 / ranks[0])
