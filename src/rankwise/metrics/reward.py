"""The metric of documents with rewards instead of labels, as they are estimated from clicks."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.metrics.base import KernelCall, RankMetric
from rankwise.metrics.gains import discounts, relevance_rule
from rankwise.metrics.kernel_query import buffers_for, open_query, rank, sum_over_ranks


@dataclass(frozen=True, kw_only=True, repr=False)
class Reward(RankMetric):
    """The estimated DCG: Σ_r reward/log2(1 + r), of ``document_rewards`` instead of labels, negative ones included.

    Where rewards are unbiased estimates of relevance, so is the metric of DCG with these as gains, for scores that do
    not depend on the same clicks.

    >>> Reward(cutoff=2)([3.0, 2.0, 1.0], [0, 0, 0], [0, 3], document_rewards=[0.5, -0.25, 1.0]).round(4)
    array([0.3423])
    """

    name: ClassVar[str] = "reward"
    bounds: ClassVar[tuple[float, float]] = (-np.inf, np.inf)
    of_every_query: ClassVar[bool] = True
    reads: ClassVar[tuple[str, ...]] = ("document_rewards",)
    source: ClassVar[str] = "measure data that have them, as rw.clicks.targets makes"

    def _kernel(self, longest: int) -> KernelCall:
        return _sum_of_rewards, relevance_rule(1.0), discounts(longest)


@kernel
def _sum_of_rewards(first, last, offsets, scores, labels, cutoff, ties, rule, weights, rewards, empty, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        if not query.valid:
            out[q] = np.inf
            continue
        query.gains[:] = rewards[offsets[q] : offsets[q + 1]]
        count = rank(query, cutoff, ties)
        out[q] = sum_over_ranks(query, count, min(cutoff, count), ties, weights)
