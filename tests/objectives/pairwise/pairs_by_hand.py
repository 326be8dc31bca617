"""Pairwise losses written without any regard to speed, to hold the kernel to: each Δ by swapping two documents."""

import itertools

import numpy as np

from rankwise.metrics.gains import discounts, gains
from rankwise.objectives.pairwise.objectives import LambdaRank, Pairwise, RankNet

LOSSES = {
    "logistic": lambda m: np.logaddexp(0.0, -m),
    "hinge": lambda m: np.maximum(0.0, 1.0 - m),
    "squared_hinge": lambda m: np.maximum(0.0, 1.0 - m) ** 2,
    "exponential": lambda m: np.exp(-m),
}
SLOPES = {
    "logistic": lambda m: 1.0 / (1.0 + np.exp(np.minimum(m, 700.0))),
    "hinge": lambda m: (m < 1.0).astype(float),
    "squared_hinge": lambda m: 2.0 * np.maximum(0.0, 1.0 - m),
    "exponential": lambda m: np.exp(-m),
}
"""How fast each falls."""


def frozen(objective: LambdaRank | RankNet | Pairwise, scores, labels, offsets, *, document_weights=None):
    """Return the loss as a function of the scores, with pair weights and norm held at those of ``scores``.

    >>> loss = frozen(LambdaRank(norm=False), [0.0, 0.0], [0, 1], [0, 2])
    >>> step = 1e-5
    >>> ((loss([step, 0.0]) - loss([-step, 0.0])) / (2 * step)).round(4)  # the gradient of LambdaRank's example
    array([0.1845])
    """
    pairs = objective if isinstance(objective, Pairwise) else objective.pairs()
    scores, labels = np.asarray(scores, np.float64), np.asarray(labels, np.float64)
    doc_weights = np.ones(scores.size) if document_weights is None else np.asarray(document_weights, np.float64)
    parts = []
    for start, stop in itertools.pairwise(np.asarray(offsets).tolist()):
        mine = slice(start, stop)
        high, low, weight = _pairs(pairs, scores[mine], labels[mine], doc_weights[mine])
        parts.append((start + high, start + low, weight))

    def loss(at):
        values = np.asarray(at, np.float64)
        return np.array([w @ LOSSES[pairs.loss](pairs.sigma * (values[high] - values[low])) for high, low, w in parts])

    return loss


def _pairs(pairs: Pairwise, scores, labels, document_weights):
    """The better and the worse document of each pair of one list, and the pair's weight."""
    ranked = np.argsort(-scores, kind="stable")
    reach = scores.size if pairs.truncation is None else pairs.truncation
    relevant = (labels >= pairs.relevant).astype(np.float64)
    graded = pairs.weight.startswith("ndcg")
    list_gains = gains(labels, pairs.gain) if graded else labels if pairs.weight == "none" else relevant
    discount = discounts(scores.size + 1)
    best = float(np.sort(list_gains)[::-1][:reach] @ discount[: min(reach, scores.size)])
    share, distance_share = {"ndcg2": (0.0, 1.0), "ndcg2++": (1.0, 10.0)}.get(pairs.weight, (1.0, 0.0))
    high, low, weights = [], [], []
    for upper, lower in itertools.combinations(range(scores.size), 2):
        i, j = ranked[upper], ranked[lower]
        if upper >= reach or list_gains[i] == list_gains[j]:
            continue
        swapped = ranked.copy()
        swapped[[upper, lower]] = j, i
        weight = 0.0
        if share:
            weight += share * abs(_quality(pairs, list_gains[swapped]) - _quality(pairs, list_gains[ranked]))
        if distance_share:
            drop = discount[lower - upper - 1] - discount[lower - upper]
            weight += distance_share * abs(list_gains[i] - list_gains[j]) * drop
        if pairs.weight == "none":
            weight = 1.0
        if pairs.weight == "lambdagap_s":
            weight = 1.0 if lower == upper + pairs.cutoff else 0.0
        if pairs.weight == "lambdagap_x":
            weight = 1.0 if lower >= upper + pairs.cutoff else 0.0
        weight /= best if graded else 1.0
        if pairs.norm and scores.max() > scores.min():
            weight /= 0.01 + abs(scores[i] - scores[j])
        better, worse = (i, j) if list_gains[i] > list_gains[j] else (j, i)
        high.append(better)
        low.append(worse)
        weights.append(weight * document_weights[better])
    actual = np.array(high, np.int64), np.array(low, np.int64), np.array(weights)
    if pairs.norm:
        wrong = SLOPES[pairs.loss](pairs.sigma * (scores[actual[0]] - scores[actual[1]]))
        total = 2.0 * pairs.sigma * float(actual[2] @ wrong)
        actual[2][:] *= np.log1p(total) / (total * np.log(2.0)) if total > 0.0 else 1.0
    return actual


def _quality(pairs: Pairwise, list_gains) -> float:
    """The metric of documents in this order; DCG for NDCG."""
    ranks = np.flatnonzero(list_gains) + 1.0
    if pairs.weight == "map":
        return float(np.mean(np.arange(1, ranks.size + 1) / ranks))
    if pairs.weight == "mrr":
        return float(1.0 / ranks[0])
    if pairs.weight in ("precision", "recall"):
        return float((ranks <= pairs.cutoff).sum() / (pairs.cutoff if pairs.weight == "precision" else ranks.size))
    if pairs.weight == "arp":
        return float(sum(max(rank - pairs.cutoff, 0.0) for rank in ranks))
    return float(list_gains @ discounts(list_gains.size))
