"""Metrics of ragged lists on a device: those that are a weighted sum over ranks (``metrics/dcg.py``), to the last bit.

Labels are looked at on the CPU, once: what documents are worth, what their lists are divided by, and which are skipped.
A lane of a program goes down the ranking of one list, from the first rank to the last that counts, and adds in double
precision in the order in which the CPU adds. A product is divided before it is added, so that no compiler can make one
operation of the two.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.arrays import Array, Offsets
from rankwise.metrics.base import AVERAGE, NO_CUTOFF, ROW, TIES, Metric, RankMetric
from rankwise.metrics.dcg import BY_IDEAL, BY_RELEVANT, BY_RETRIEVED, TO_RELEVANT, weighted_sum
from rankwise.metrics.ideal import longest, worths_and_ideal
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists
from rankwise.objectives.torch.kernels.order import ordered

_BLOCK = 32


@launched
def _down_the_ranking(  # type: ignore[no-untyped-def]
    offsets, scores, ranked, worths, weights, depths, totals, n_queries, average: tl.constexpr, block: tl.constexpr
):
    """Σ_r weights[r]·worth for ``block`` lists; documents of equal scores share the weights of their ranks."""
    query = tl.program_id(0) * block + tl.arange(0, block)
    real = query < n_queries
    first = tl.load(offsets + query, mask=real, other=0)
    size = tl.load(offsets + query + 1, mask=real, other=0) - first
    depth = tl.load(depths + query, mask=real, other=0)
    total = tl.zeros([block], tl.float64)
    # The group of equal scores that is being gone through.
    worth, weight, count = total, total, total
    score = tl.zeros([block], scores.dtype.element_ty)
    rank = 0
    going = depth > 0
    while tl.max(going.to(tl.int32), 0) > 0:
        inside = going & (rank < size)
        row = first + tl.load(ranked + first + rank, mask=inside, other=0)
        mine = tl.load(scores + row, mask=inside, other=0.0)
        begins = (mine != score) | (count == 0.0) if average else mine == mine
        ends = going & (count > 0.0) & (begins | (rank >= size))
        total = tl.where(ends, total + weight * worth / tl.where(ends, count, 1.0), total)
        weight = tl.where(ends, 0.0, weight)
        worth = tl.where(ends, 0.0, worth)
        count = tl.where(ends, 0.0, count)
        going = inside & ((rank < depth) | ~begins)
        counts = going & (rank < depth)
        weight += tl.where(counts, tl.load(weights + rank + tl.zeros_like(query), mask=counts, other=0.0), 0.0)
        worth += tl.where(going, tl.load(worths + row, mask=going, other=0.0), 0.0)
        count += tl.where(going, 1.0, 0.0)
        score = tl.where(going, mine, score)
        rank += 1
    tl.store(totals + query, total, mask=real)


@dataclass(frozen=True)
class PlacedMetric:
    """A metric that has seen the labels of some lists, on their device."""

    lists: DeviceLists
    worths: Tensor
    weights: Tensor
    depths: Tensor
    """How many ranks of each list count."""
    divisors: Tensor
    highest: float
    """What no list may exceed, though rounding may."""
    most: float
    """What no list can exceed."""
    empty: float
    scored: NDArray[np.bool_]
    """Which lists have a value of their own; others are worth ``empty``."""
    here: Tensor
    """The same on the device."""
    average: bool

    @classmethod
    def of(cls, metric: Metric, labels: Array, offsets: Offsets, device: torch.device) -> "PlacedMetric | None":
        """Give it for lists with these labels; None for metrics, and for ways to treat ties, that have no kernel."""
        if not isinstance(metric, RankMetric) or TIES[metric.ties] not in (AVERAGE, ROW):
            return None
        call: tuple[Any, ...] = metric._kernel(longest(offsets))
        if call[0] is not weighted_sum:
            return None
        _, rule, weights, divide = call
        cutoff = NO_CUTOFF if metric.cutoff is None else metric.cutoff
        worths, best = worths_and_ideal(labels, offsets, rule, weights, cutoff)
        sizes = np.diff(offsets)
        if divide != BY_IDEAL:
            best = np.bincount(np.repeat(np.arange(sizes.size), sizes), worths, sizes.size).astype(np.float64)
        scored = best > 0.0
        depths = np.minimum(sizes, np.minimum(cutoff, best.astype(np.int64)) if divide == TO_RELEVANT else cutoff)
        shares = divide in (BY_IDEAL, BY_RELEVANT, TO_RELEVANT)
        divisors = np.where(scored, best, 1.0) if shares else np.ones(sizes.size)
        if divide == BY_RETRIEVED:
            divisors = np.maximum(np.minimum(sizes, cutoff), 1).astype(np.float64)
        return cls(
            lists=DeviceLists(offsets, device),
            worths=to_device(worths, device),
            weights=to_device(weights, device),
            depths=to_device(np.where(scored, depths, 0).astype(np.int32), device),
            divisors=to_device(divisors, device),
            highest=1.0 if shares else np.inf,
            most=1.0 if shares else float(best.max(initial=0.0) * weights.max(initial=0.0)),
            empty=0.0 if metric.of_every_query else np.nan if metric.empty == "skip" else float(metric.empty),
            scored=scored,
            here=to_device(scored, device),
            average=TIES[metric.ties] == AVERAGE,
        )

    def __call__(self, scores: Tensor, ranked: Tensor) -> Tensor:
        """Give one number per list, NaN for those that are skipped; ``ranked`` is the :func:`ranking` of the scores."""
        totals = torch.empty(self.lists.n_queries, dtype=torch.float64, device=self.lists.device)
        with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
            _down_the_ranking[(triton.cdiv(self.lists.n_queries, _BLOCK),)](
                self.lists.offsets,
                scores,
                ranked,
                self.worths,
                self.weights,
                self.depths,
                totals,
                self.lists.n_queries,
                average=self.average,
                block=_BLOCK,
                num_warps=1,
            )
        return torch.where(self.here, (totals / self.divisors).clamp(max=self.highest), self.empty)


def ranking(lists: DeviceLists, scores: Tensor) -> Tensor:
    """Which document stands at each place of each list, by scores that are finite; equal scores stay in row order."""
    with torch.cuda.device_of(scores):  # type: ignore[no-untyped-call]
        return ordered(lists, scores[None])[1]
