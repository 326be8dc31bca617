"""The maps of bounded metrics, and the targets of the tightest γ, on a device."""

from typing import TYPE_CHECKING, Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import sigmoid
from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.wings.lab.bounding.bounds import LEAST_SLOPE, SATURATED

if TYPE_CHECKING:
    from rankwise.wings.lab.bounding.bounds import BoundMaps

_SATURATED, _LEAST_SLOPE = tl.constexpr(SATURATED), tl.constexpr(LEAST_SLOPE)
_BLOCK = 256


def map_values(bounds: "BoundMaps", values: Tensor) -> tuple[Tensor, Tensor]:
    """Map the value of each query in place; return the map's first and second derivative."""
    firsts, seconds = torch.empty_like(values), torch.empty_like(values)
    tables = (bounds.scale,) * 5 if bounds.tables is None else bounds.tables
    _map_values[(values.numel(),)](
        values, bounds.scale, bounds.shift, bounds.slope, *tables, firsts, seconds, bounds.sign,
        bounds.tables is not None, _BLOCK, num_warps=2,
    )  # fmt: skip
    return firsts, seconds


@triton.jit
def _below(values, low, high, limit):
    """Return the first place from ``low`` to ``high`` whose sorted value reaches a limit."""
    while low < high:
        middle = (low + high) // 2
        below = tl.load(values + middle) < limit
        low = tl.where(below, middle + 1, low)
        high = tl.where(below, high, middle)
    return low


@triton_kernel
def _map_values(
    value, scales, shifts, slopes, which, offsets, values, shares, gains, firsts, seconds, sign: tl.float64,
    distribution: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Map the value of a query in place, and fill the map's derivatives (``BoundMaps.apply``)."""
    query = tl.program_id(0)
    scale = tl.load(scales + query).to(tl.float64)
    metric = sign * tl.load(value + query).to(tl.float64) * scale
    if distribution:
        table = tl.load(which + query)
        first, last = tl.load(offsets + table), tl.load(offsets + table + 1)
        gain = tl.load(gains + table)
        # Sigmoids that are 0 or 1 to the last digit are not computed one by one.
        low = _below(values, first, last, metric - _SATURATED / gain)
        high = _below(values, low, last, metric + _SATURATED / gain)
        sums = tl.zeros([block], tl.float64)
        sums_1, sums_2 = sums, sums
        for start in range(low, high, block):
            places = start + tl.arange(0, block)
            inside = places < high
            share = tl.load(shares + places, mask=inside, other=0.0)
            chance = share - tl.load(shares + places - 1, mask=inside & (places > first), other=0.0)
            s = sigmoid(gain * (metric - tl.load(values + places, mask=inside, other=0.0)))
            sums += chance * s
            sums_1 += chance * s * (1.0 - s)
            sums_2 += chance * s * (1.0 - s) * (1.0 - 2.0 * s)
        mapped = tl.sum(sums) + tl.load(shares + low - 1, mask=low > first, other=0.0)
        first_derivative = tl.maximum(gain * tl.sum(sums_1), _LEAST_SLOPE)
        second_derivative = gain * gain * tl.sum(sums_2)
    else:
        first_derivative = tl.load(slopes + query).to(tl.float64)
        mapped = first_derivative * (metric - tl.load(shifts + query))
        second_derivative = first_derivative * 0.0
    alive = scale > 0.0
    tl.store(value + query, tl.where(alive, sign * mapped, 0.0).to(value.dtype.element_ty))
    tl.store(firsts + query, tl.where(alive, first_derivative * scale, 0.0).to(value.dtype.element_ty))
    tl.store(seconds + query, tl.where(alive, sign * second_derivative * scale * scale, 0.0).to(value.dtype.element_ty))


@triton_kernel
def _tighten(offsets, scores, gains, units, masses, block: tl.constexpr):
    """Fill the target of the tightest γ: ``_tighten`` of the CPU, in double precision.

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


def tighten(lists: Any, scores: Tensor, arguments: Any, _: None, out: tuple[Tensor]) -> None:
    """Fill the target distributions of the tightest γ at the scores."""
    _tighten[(lists.n_queries,)](lists.offsets, scores, *arguments, *out, _BLOCK, num_warps=2)
