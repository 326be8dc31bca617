"""Which weights of pairs there are, and their tables: what each rank gives, and what a distance between ranks does."""

import numpy as np

from rankwise.arrays import Array
from rankwise.metrics.base import discounts
from rankwise.objectives.pairwise.weights import AVERAGE_PRECISION, COUNT, DISCOUNTED, RECIPROCAL_RANK

WEIGHTS = {
    "none": (COUNT, 1.0, 0.0),
    "ndcg": (DISCOUNTED, 1.0, 0.0),
    "ndcg2": (DISCOUNTED, 0.0, 1.0),
    "ndcg2++": (DISCOUNTED, 1.0, 10.0),
    "map": (AVERAGE_PRECISION, 1.0, 0.0),
    "mrr": (RECIPROCAL_RANK, 1.0, 0.0),
    "precision": (DISCOUNTED, 1.0, 0.0),
    "recall": (DISCOUNTED, 1.0, 0.0),
    "arp": (DISCOUNTED, 1.0, 0.0),
    "lambdagap_s": (DISCOUNTED, 0.0, 1.0),
    "lambdagap_x": (DISCOUNTED, 0.0, 1.0),
}
"""What weighs a pair: how the kernel finds it, the share of the metric's change, the share of the rank distance."""


def rank_weights(weight: str, cutoff: int, longest: int) -> Array:
    """What the metric gives to each rank: the discount, 1 up to the cutoff, or minus the ranks from the cutoff to it.

    >>> rank_weights("recall", 2, 4), rank_weights("arp", 2, 4)
    (array([1., 1., 0., 0.]), array([ 0.,  0., -1., -2.]))
    """
    ranks, found = np.arange(1, longest + 1), discounts(longest)
    if weight in ("precision", "recall"):
        found = (ranks <= cutoff).astype(np.float64)
    elif weight == "arp":
        found = np.minimum(cutoff - ranks, 0).astype(np.float64)
    return found


def distance_weights(weight: str, cutoff: int, longest: int) -> Array:
    """What documents weigh that are 0, 1, 2, … ranks apart: LambdaGap's mask, or LambdaLoss's drop of the discount.

    >>> distance_weights("lambdagap_s", 2, 4), distance_weights("lambdagap_x", 2, 4)
    (array([0., 0., 1., 0.]), array([0., 0., 1., 1.]))
    """
    apart, table = np.arange(longest), discounts(longest)
    found: Array = np.concatenate(([0.0], table[:-1] - table[1:]))
    if weight == "lambdagap_s":
        found = (apart == cutoff).astype(np.float64)
    elif weight == "lambdagap_x":
        found = (apart >= cutoff).astype(np.float64)
    return found
