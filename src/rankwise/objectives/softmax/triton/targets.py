"""Target distributions of the softmax family on a device; the formulas are in ``cpu.py``."""

from typing import Any

import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import program_list, triton_kernel
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
