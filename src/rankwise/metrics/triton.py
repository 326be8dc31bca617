"""Gains, ideal DCG and metrics of queries on a device.

Metrics are those that are a weighted sum over ranks (``dcg.py``), equal to the CPU's to the last bit. Gains, divisors
and skipped queries are computed from the labels once, on the CPU. A lane of a program walks down the ranking of one
query, from the first rank to the last that counts, and adds in double precision in the CPU's order. A product is
divided before it is added, so that no compiler can fuse the two.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device import to_device
from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.base.device.order import ordered
from rankwise.base.device.ragged import Ragged
from rankwise.data.dataset import RankingDataset
from rankwise.metrics.base import Metric, RankMetric
from rankwise.metrics.dcg import BY_IDEAL, BY_RELEVANT, BY_RETRIEVED, TO_RELEVANT, weighted_sum
from rankwise.metrics.gains import GRADES, NO_CUTOFF, Gain, Ideal, discounts, gains_by_rule, longest
from rankwise.metrics.sorting import AVERAGE, ROW, TIES

_BLOCK = 32


@triton_kernel
def _sum_over_ranks(
    offsets, scores, ranked, gains, weights, depths, totals, n_queries, average: tl.constexpr, block: tl.constexpr
):
    """Σ_r weights[r]·gain for ``block`` queries; tied documents share the weights of their ranks."""
    query = tl.program_id(0) * block + tl.arange(0, block)
    real = query < n_queries
    first = tl.load(offsets + query, mask=real, other=0)
    size = tl.load(offsets + query + 1, mask=real, other=0) - first
    depth = tl.load(depths + query, mask=real, other=0)
    total = tl.zeros([block], tl.float64)
    # The current tie group.
    gain, weight, count = total, total, total
    score = tl.zeros([block], scores.dtype.element_ty)
    rank = 0
    going = depth > 0
    while tl.max(going.to(tl.int32), 0) > 0:
        inside = going & (rank < size)
        row = first + tl.load(ranked + first + rank, mask=inside, other=0)
        mine = tl.load(scores + row, mask=inside, other=0.0)
        begins = (mine != score) | (count == 0.0) if average else mine == mine
        ends = going & (count > 0.0) & (begins | (rank >= size))
        total = tl.where(ends, total + weight * gain / tl.where(ends, count, 1.0), total)
        weight = tl.where(ends, 0.0, weight)
        gain = tl.where(ends, 0.0, gain)
        count = tl.where(ends, 0.0, count)
        going = inside & ((rank < depth) | ~begins)
        counts = going & (rank < depth)
        weight += tl.where(counts, tl.load(weights + rank + tl.zeros_like(query), mask=counts, other=0.0), 0.0)
        gain += tl.where(going, tl.load(gains + row, mask=going, other=0.0), 0.0)
        count += tl.where(going, 1.0, 0.0)
        score = tl.where(going, mine, score)
        rank += 1
    tl.store(totals + query, total, mask=real)


@dataclass(frozen=True)
class DeviceMetric:
    """A metric prepared for the labels of some queries, on a device."""

    lists: Ragged
    gains: Tensor
    weights: Tensor
    depths: Tensor
    """Number of ranks of each query that count."""
    divisors: Tensor
    highest: float
    """Upper limit of a value, which rounding might exceed."""
    empty: float
    scored: Tensor
    """Whether each query has a value; for others it is ``empty``."""
    average: bool

    @classmethod
    def of(cls, metric: Metric, data: RankingDataset, device: torch.device) -> "DeviceMetric | None":
        """Prepare a metric for these data; None for metrics and treatments of ties that have no device kernel."""
        if not isinstance(metric, RankMetric) or TIES[metric.ties] not in (AVERAGE, ROW) or metric.judged_only:
            return None
        labels, offsets = data.labels_of(metric.label), data.offsets
        call: tuple[Any, ...] = metric._kernel(longest(offsets))
        if call[0] is not weighted_sum or (metric.label is None and metric.reads != ("labels",)):
            return None
        _, rule, weights, divide = call
        cutoff = NO_CUTOFF if metric.cutoff is None else metric.cutoff
        gains, best = gains_by_rule(labels, offsets, rule, weights, cutoff)
        sizes = np.diff(offsets)
        if divide != BY_IDEAL:
            best = np.bincount(np.repeat(np.arange(sizes.size), sizes), gains, sizes.size).astype(np.float64)
        scored = best > 0.0
        depths = np.minimum(sizes, np.minimum(cutoff, best.astype(np.int64)) if divide == TO_RELEVANT else cutoff)
        shares = divide in (BY_IDEAL, BY_RELEVANT, TO_RELEVANT)
        divisors = np.where(scored, best, 1.0) if shares else np.ones(sizes.size)
        if divide == BY_RETRIEVED:
            divisors = np.maximum(np.minimum(sizes, cutoff), 1).astype(np.float64)
        return cls(
            lists=Ragged.of(offsets, device),
            gains=to_device(gains, device),
            weights=to_device(weights, device),
            depths=to_device(np.where(scored, depths, 0).astype(np.int32), device),
            divisors=to_device(divisors, device),
            highest=1.0 if shares else np.inf,
            empty=0.0 if metric.of_every_query else np.nan if metric.empty == "skip" else float(metric.empty),
            scored=to_device(scored, device),
            average=TIES[metric.ties] == AVERAGE,
        )

    def __call__(self, scores: Tensor, ranked: Tensor) -> Tensor:
        """Return one number per query, NaN for those that are skipped, from the :func:`ranking` of the scores."""
        totals = torch.empty(self.lists.n_queries, dtype=torch.float64, device=self.lists.device)
        with torch.cuda.device_of(scores):
            _sum_over_ranks[(triton.cdiv(self.lists.n_queries, _BLOCK),)](
                self.lists.offsets, scores, ranked, self.gains, self.weights, self.depths, totals,
                self.lists.n_queries, self.average, _BLOCK, num_warps=1,
            )  # fmt: skip
        return torch.where(self.scored, (totals / self.divisors).clamp(max=self.highest), self.empty)


_EXPONENTIAL, _LINEAR, _TABLE = (tl.constexpr(number) for number in range(3))
_GRADES = tl.constexpr(GRADES)


@triton.jit
def _gain(label, table, n_table, rule: tl.constexpr):
    """Return the gain of labels, in double precision; NaN for those that have none."""
    if rule == _EXPONENTIAL:
        gain = tl.exp2(label) - 1.0
    elif rule == _LINEAR:
        gain = label
    else:
        valid = (label == tl.floor(label)) & (label >= 0.0) & (label < n_table)
        gain = tl.load(table + tl.where(valid, label, 0.0).to(tl.int32), mask=valid, other=float("nan"))
    return gain


@triton_kernel
def _gains_and_ideal(
    offsets, labels, table, cumulative, cutoff, n_table, gains, ideal, rule: tl.constexpr, shares: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Fill the gains of a query and its ideal DCG: from counts of grades, or by counting the documents before each."""
    query, first, size = program_list(offsets)
    lanes, grades = tl.arange(0, block), tl.arange(0, _GRADES)
    depth = tl.minimum(size, cutoff)
    counts = tl.zeros([_GRADES], tl.int32)
    for start in range(0, size, block):
        inside = start + lanes < size
        label = tl.load(labels + first + start + lanes, mask=inside, other=-1.0).to(tl.float64)
        gain = _gain(label, table, n_table, rule)
        tl.store(gains + first + start + lanes, gain.to(gains.dtype.element_ty), mask=inside)
        counts += tl.sum((label[:, None] == grades[None, :].to(tl.float64)).to(tl.int32), 0)
    total = tl.full([], 0.0, tl.float64)
    if tl.sum(counts) == size:
        grade_gains = _gain(grades.to(tl.float64), table, n_table, rule)
        grade_gains = tl.where(counts > 0, grade_gains, 0.0)
        above = (grade_gains[None, :] > grade_gains[:, None]) | (
            (grade_gains[None, :] == grade_gains[:, None]) & (grades[None, :] < grades[:, None])
        )
        before = tl.sum(tl.where(above, counts[None, :], 0), 1)
        upto = tl.load(cumulative + tl.minimum(before + counts, depth))
        total += tl.sum(grade_gains * (upto - tl.load(cumulative + tl.minimum(before, depth))))
    else:
        for start in range(0, size, 32):
            mine = start + tl.arange(0, 32)
            real = mine < size
            gain = _gain(tl.load(labels + first + mine, mask=real, other=0.0).to(tl.float64), table, n_table, rule)
            rank = tl.zeros([32], tl.int32)
            for begin in range(0, size, block):
                candidates = begin + lanes
                inside = candidates < size
                other = _gain(
                    tl.load(labels + first + candidates, mask=inside, other=0.0).to(tl.float64), table, n_table, rule
                )
                wins = (other[:, None] > gain[None, :]) | (
                    (other[:, None] == gain[None, :]) & (candidates[:, None] < mine[None, :])
                )
                rank += tl.sum((inside[:, None] & wins).to(tl.int32), 0)
            counted = real & (rank < depth)
            weight = tl.load(cumulative + rank + 1, mask=counted, other=0.0) - tl.load(
                cumulative + rank, mask=counted, other=0.0
            )
            total += tl.sum(tl.where(counted, weight * gain, 0.0))
    tl.store(ideal + query, total.to(ideal.dtype.element_ty))
    if shares:
        divisor = tl.where(total > 0.0, total, 1.0)
        for start in range(0, size, block):
            inside = start + lanes < size
            label = tl.load(labels + first + start + lanes, mask=inside, other=0.0).to(tl.float64)
            gain = _gain(label, table, n_table, rule) / divisor
            tl.store(gains + first + start + lanes, gain.to(gains.dtype.element_ty), mask=inside)


def gains_and_ideal(
    lists: Ragged, labels: Tensor, gain: Gain = "exponential", cutoff: int | None = None, *, shares: bool = False
) -> Ideal:
    """Return the gain of each document, or its share of the ideal, and the ideal DCG of each query up to ``cutoff``."""
    rule = ("exponential", "linear").index(gain) if isinstance(gain, str) else _TABLE.value
    depth = lists.longest if cutoff is None else min(cutoff, lists.longest)
    table = labels if isinstance(gain, str) else _gain_table(gain, lists.device)
    cumulative = _cumulative(1 << (depth - 1).bit_length(), lists.device)
    gains, ideal = torch.empty_like(labels), labels.new_empty(lists.n_queries)
    _gains_and_ideal[(lists.n_queries,)](
        lists.offsets, labels, table, cumulative, depth, len(gain), gains, ideal, rule, shares, min(lists.block(), 128)
    )
    return Ideal(gains, ideal)  # type: ignore[arg-type]


@lru_cache(maxsize=32)
def _cumulative(n: int, device: torch.device) -> Tensor:
    """Return the sum of the first 0, 1, 2, …, n discounts."""
    return to_device(np.concatenate(([0.0], np.cumsum(discounts(n)))), device)


@lru_cache(maxsize=32)
def _gain_table(gain: tuple[float, ...], device: torch.device) -> Tensor:
    return to_device(np.array(gain, np.float64), device)


def ranking(lists: Ragged, scores: Tensor) -> Tensor:
    """Return the document at each rank of each query, for finite scores; equal scores stay in row order."""
    with torch.cuda.device_of(scores):
        return ordered(lists, scores[None])[1]
