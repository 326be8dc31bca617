"""Squared differences to a teacher on a device."""

from typing import Any

import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives

_BLOCK = 256


@triton_kernel
def _margins(offsets, scores, teacher, value, gradient, hessian, has_hessian: tl.constexpr, block: tl.constexpr):
    """Fill twice the variance of scores − teacher of a list, and its derivatives; means are in double precision."""
    query, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    total = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        inside = start + lanes < size
        rows = first + start + lanes
        score = tl.load(scores + rows, mask=inside, other=0.0).to(tl.float64)
        total += score - tl.load(teacher + rows, mask=inside, other=0.0).to(tl.float64)
    mean = tl.sum(total) / tl.maximum(size, 1)
    pairs = tl.maximum(size - 1, 1)
    squares = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        inside = start + lanes < size
        rows = first + start + lanes
        score = tl.load(scores + rows, mask=inside, other=0.0).to(tl.float64)
        gap = score - tl.load(teacher + rows, mask=inside, other=0.0).to(tl.float64) - mean
        gap = tl.where(inside & (size > 1), gap, 0.0)
        squares += gap * gap
        tl.store(gradient + rows, 4.0 * gap / pairs, mask=inside)
        if has_hessian:
            diagonal = tl.full([block], 4.0, tl.float64) / size
            tl.store(hessian + rows, tl.where(size > 1, diagonal, 0.0), mask=inside)
    tl.store(value + query, 2.0 * tl.sum(squares) / pairs)


def margins(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives."""
    has_hessian = out.hessian.numel() > 0
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient)
    _margins[(lists.n_queries,)](lists.offsets, scores, arguments.teacher, *outputs, has_hessian, _BLOCK, num_warps=2)
