"""The calibrated loss on a device: a program walks along a list four times. The formulas are in ``softmax/cpu.py``."""

from typing import Any

import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log1p_unit
from rankwise.base.device.launching import program_list, triton_kernel
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives

_BLOCK = 256


@triton.jit
def _load(scores, relevance, first, documents, size):
    """Return scores, relevance and log σ of some documents, in double precision; log σ is −∞ beyond the list."""
    inside = documents < size
    score = tl.load(scores + first + documents, mask=inside, other=0.0).to(tl.float64)
    target = tl.load(relevance + first + documents, mask=inside, other=0.0).to(tl.float64)
    tail = log1p_unit(tl.exp(-tl.abs(score)))
    return score, target, tl.where(inside, tl.minimum(score, 0.0) - tail, float("-inf")), tail


@triton_kernel
def _calibrated(
    offsets, scores, relevance, value, gradient, hessian, alpha: tl.float64,
    exact: tl.constexpr, has_hessian: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill value, gradient and Hessian of a list."""
    query, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    zeros = tl.zeros([block], tl.float64)
    tops = tl.full([block], float("-inf"), tl.float64)
    pointwise, listwise, targets = zeros, zeros, zeros
    for start in range(0, size, block):
        score, target, log_sigmoid, tail = _load(scores, relevance, first, start + lanes, size)
        inside = start + lanes < size
        tops = tl.maximum(tops, log_sigmoid)
        pointwise += tl.where(inside, (tl.maximum(score, 0.0) - target * score) + tail, 0.0)
        listwise -= tl.where(inside, target * log_sigmoid, 0.0)
        targets += target
    top, total_relevance = tl.max(tops), tl.sum(targets)
    best = size
    for start in range(0, size, block):
        _, _, log_sigmoid, _ = _load(scores, relevance, first, start + lanes, size)
        best = tl.minimum(best, tl.min(tl.where(log_sigmoid == top, start + lanes, size)))
    rests = zeros
    for start in range(0, size, block):
        _, _, log_sigmoid, _ = _load(scores, relevance, first, start + lanes, size)
        rests += tl.where(start + lanes == best, 0.0, tl.exp(log_sigmoid - top))
    rest = tl.sum(rests)
    total = 1.0 + rest
    for start in range(0, size, block):
        score, target, log_sigmoid, _ = _load(scores, relevance, first, start + lanes, size)
        rows, inside = first + start + lanes, start + lanes < size
        small = tl.exp(-tl.abs(score))
        sigmoid = tl.where(score >= 0.0, 1.0, small) / (1.0 + small)
        complement = tl.where(score >= 0.0, small, 1.0) / (1.0 + small)
        share = tl.exp(log_sigmoid - top) / total
        others = tl.where(start + lanes == best, rest / total, 1.0 - share)
        gap = (total_relevance - target) * share - target * others
        slope = (1.0 - alpha) * (sigmoid - target) + alpha * gap * complement
        tl.store(gradient + rows, slope.to(gradient.dtype.element_ty), mask=inside)
        if has_hessian:
            bend = -gap * sigmoid * complement
            if not exact:
                bend = tl.maximum(bend, 0.0)
            listed = total_relevance * share * others * complement * complement + bend
            diagonal = (1.0 - alpha) * sigmoid * complement + alpha * listed
            tl.store(hessian + rows, diagonal.to(hessian.dtype.element_ty), mask=inside)
    loss = tl.sum(listwise) + total_relevance * (top + tl.log(total))
    loss = (1.0 - alpha) * tl.sum(pointwise) + alpha * loss
    tl.store(value + query, loss.to(value.dtype.element_ty))


def calibrated(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives."""
    has_hessian = out.hessian.numel() > 0
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient)
    _calibrated[(lists.n_queries,)](
        lists.offsets, scores, arguments.relevance, *outputs, arguments.alpha, arguments.exact, has_hessian, _BLOCK,
        num_warps=2,
    )  # fmt: skip
