"""Target distributions of the softmax family on a device: from labels, and of the tightest γ from scores.

The formulas are in ``cpu.py``.
"""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.base.device.ragged import Ragged
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.softmax.cpu import EXP, GAMMA_UNIFORM, GAMMA_ZERO, SHARE

_EXP, _SHARE = tl.constexpr(EXP), tl.constexpr(SHARE)
_ZERO, _UNIFORM = tl.constexpr(GAMMA_ZERO), tl.constexpr(GAMMA_UNIFORM)
_BLOCK = 256


@triton_kernel
def _fill_targets(
    offsets, labels, weights, masses, units, target: tl.constexpr, weighted: tl.constexpr, block: tl.constexpr
):
    """Fill the target distribution of a list, in double precision; a label that is not valid makes it NaN."""
    query, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    tops = tl.zeros([block], tl.float64)
    wrong = tl.zeros([block], tl.int32)
    for start in range(0, size, block):
        inside = start + lanes < size
        label = tl.load(labels + first + start + lanes, mask=inside, other=0.0).to(tl.float64)
        tops = tl.maximum(tops, label)
        wrong += ((label >= 0.0) & (label < float("inf"))).to(tl.int32) == 0
    top = tl.max(tops)
    large = (top >= 64.0) & (target > _SHARE)  # keeps 2^label finite for any label
    unit = tl.where(large, tl.exp2(-top), 1.0)
    sums = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        inside = start + lanes < size
        rows = first + start + lanes
        label = tl.load(labels + rows, mask=inside, other=0.0).to(tl.float64)
        if target == _EXP:
            mass = tl.exp(label - top)
        elif target == _SHARE:
            mass = label
        else:
            mass = tl.exp2(tl.where(large, label - top, label)) - unit
        if weighted:
            mass = mass * tl.load(weights + rows, mask=inside, other=0.0)
        if target == _ZERO:
            mass = mass + unit
        mass = tl.where(inside, mass, 0.0)
        sums += mass
        tl.store(masses + rows, mass.to(masses.dtype.element_ty), mask=inside)
    total = tl.sum(sums)
    learns = size > 1
    if target < _UNIFORM:
        learns = learns & (total > 0.0)
        total = tl.where(total > 0.0, total, 1.0)
        for start in range(0, size, block):
            inside = start + lanes < size
            rows = first + start + lanes
            mass = tl.load(masses + rows, mask=inside, other=0.0).to(tl.float64) / total
            tl.store(masses + rows, mass.to(masses.dtype.element_ty), mask=inside)
    unit = tl.where(learns, unit, -1.0)
    tl.store(units + query, tl.where(tl.sum(wrong) > 0, float("nan"), unit))


def fill_targets(lists: DeviceLists, labels: Tensor, arguments: Any, _: None, out: tuple[Tensor, Tensor]) -> None:
    """Compute the target distributions."""
    weights, target = arguments
    weighted = weights.numel() > 0
    _fill_targets[(lists.n_queries,)](
        lists.offsets, labels, weights if weighted else labels, *out, target, weighted, _BLOCK, num_warps=2
    )


@triton_kernel
def _tighten(offsets, scores, gains, units, masses, block: tl.constexpr):
    """Fill the target of the tightest γ: ``add_tight_mass`` of the CPU, in double precision.

    A score may equal the mean, and single precision would find it on the wrong side.
    """
    query, first, size = program_list(offsets)
    unit = tl.load(units + query).to(tl.float64)
    lanes = tl.arange(0, block)
    zeros = tl.zeros([block], tl.float64)
    tops = tl.full([block], float("-inf"), tl.float64)
    gain_sums = zeros
    for start in range(0, size, block):
        inside = start + lanes < size
        score = tl.load(scores + first + start + lanes, mask=inside, other=float("-inf")).to(tl.float64)
        tops = tl.maximum(tops, score)
        gain_sums += tl.load(gains + first + start + lanes, mask=inside, other=0.0).to(tl.float64)
    top, gain = tl.max(tops), tl.sum(gain_sums)
    sums = zeros
    best = size
    for start in range(0, size, block):
        inside = start + lanes < size
        gap = tl.load(scores + first + start + lanes, mask=inside, other=0.0).to(tl.float64) - top
        sums += tl.where(inside, tl.load(gains + first + start + lanes, mask=inside, other=0.0) * gap, 0.0)
        best = tl.minimum(best, tl.min(tl.where(inside & (gap == 0.0), start + lanes, size)))
    total = tl.sum(sums)
    mean = total / tl.where(gain > 0.0, gain, 1.0)
    extra = unit
    rising = gain > 0.0
    while rising:
        extras, sums = zeros, zeros
        for start in range(0, size, block):
            inside = start + lanes < size
            gap = tl.load(scores + first + start + lanes, mask=inside, other=0.0).to(tl.float64) - top
            above = tl.where(inside & (gap > mean), unit, 0.0)
            extras += above
            sums += above * gap
        extra = tl.sum(extras)
        better = (total + tl.sum(sums)) / (gain + extra)
        rising = better > mean
        mean = tl.maximum(mean, better)
    for start in range(0, size, block):
        documents = start + lanes
        inside = documents < size
        gap = tl.load(scores + first + documents, mask=inside, other=0.0).to(tl.float64) - top
        lifted = tl.where(gain > 0.0, gap > mean, documents == best)  # where nothing gains, the best alone has weight
        mass = tl.load(gains + first + documents, mask=inside, other=0.0) + tl.where(lifted, unit, 0.0)
        tl.store(masses + first + documents, (mass / (gain + extra)).to(masses.dtype.element_ty), mask=inside)


def tight_targets(lists: Ragged, scores: Tensor, gains: Tensor, units: Tensor) -> Tensor:
    """Return the target distributions of the tightest γ at the scores."""
    masses = torch.empty_like(gains)
    _tighten[(lists.n_queries,)](lists.offsets, scores, gains, units, masses, _BLOCK, num_warps=2)
    return masses
