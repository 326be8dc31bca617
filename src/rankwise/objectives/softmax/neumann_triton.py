"""The three-term Newton numerator of the softmax family on a device: one program for each list, in double precision.

The formula is that of ``_neumann`` in ``cpu.py``: with t₁ the gradient, a = t₁/(1 − ρ) and b = t₂/(1 − ρ), it is
t₁ + ρ(Σa − a) + ρ(Σb − b). The best document is computed apart: its term ρ·a in the sums of the others is written as
its t₁ times their shares of the rest, which have a shift of their own. All numbers are finite however far it is ahead.
"""

import math

import triton.language as tl
from torch import Tensor

from rankwise.device.launching import list_bounds, triton_kernel
from rankwise.device.ragged import Ragged

_BLOCK = 256


@triton_kernel
def _neumann(
    offsets, scores, gradient, numerator, log_epsilon: tl.float64, has_epsilon: tl.constexpr, block: tl.constexpr
):
    first, size = list_bounds(offsets, tl.program_id(0))
    lanes = tl.arange(0, block)
    lowest = tl.full([block], float("-inf"), tl.float64)
    tops, places = lowest, tl.zeros([block], tl.int32)
    for start in range(0, size, block):
        inside = start + lanes < size
        score = tl.load(scores + first + start + lanes, mask=inside, other=float("-inf")).to(tl.float64)
        places = tl.where(score > tops, start + lanes, places)
        tops = tl.maximum(tops, score)
    top = tl.max(tops)
    best = tl.min(tl.where(tops == top, places, size))
    seconds = lowest
    for start in range(0, size, block):
        other = (start + lanes < size) & (start + lanes != best)
        score = tl.load(scores + first + start + lanes, mask=other, other=float("-inf")).to(tl.float64)
        seconds = tl.maximum(seconds, score)
    second = tl.max(seconds)
    shift = top
    if has_epsilon:
        shift = tl.maximum(top, log_epsilon)
        second = tl.maximum(second, log_epsilon)
    second = tl.where(second == float("-inf"), top, second)  # a list of one document
    rests = tl.zeros([block], tl.float64)
    second_rests = rests
    for start in range(0, size, block):
        other = (start + lanes < size) & (start + lanes != best)
        score = tl.load(scores + first + start + lanes, mask=other, other=0.0).to(tl.float64)
        rests += tl.where(other, tl.exp(score - shift), 0.0)
        second_rests += tl.where(other, tl.exp(score - second), 0.0)
    rest, second_rest = tl.sum(rests), tl.sum(second_rests)
    if has_epsilon:
        rest += tl.exp(log_epsilon - shift)
        second_rest += tl.exp(log_epsilon - second)
    second_rest = tl.where(second_rest > 0.0, second_rest, 1.0)
    mass = tl.exp(top - shift)
    total = rest + mass
    rho_best = mass / total
    sums = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        other = (start + lanes < size) & (start + lanes != best)
        score = tl.load(scores + first + start + lanes, mask=other, other=0.0).to(tl.float64)
        first_term = tl.load(gradient + first + start + lanes, mask=other, other=0.0).to(tl.float64)
        sums += tl.where(other, first_term / (1.0 - tl.exp(score - shift) / total), 0.0)
    a_sum = tl.sum(sums)
    first_best = tl.load(gradient + first + best).to(tl.float64)
    second_best = a_sum * rho_best
    sums = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        other = (start + lanes < size) & (start + lanes != best)
        score = tl.load(scores + first + start + lanes, mask=other, other=0.0).to(tl.float64)
        first_term = tl.load(gradient + first + start + lanes, mask=other, other=0.0).to(tl.float64)
        rho, share = tl.exp(score - shift) / total, tl.exp(score - second) / second_rest
        term = share * first_best + rho * (a_sum - first_term / (1.0 - rho))
        sums += tl.where(other, term / (1.0 - rho), 0.0)
    b_sum = tl.sum(sums)
    for start in range(0, size, block):
        rows, inside = first + start + lanes, start + lanes < size
        other = inside & (start + lanes != best)
        score = tl.load(scores + rows, mask=other, other=0.0).to(tl.float64)
        first_term = tl.load(gradient + rows, mask=other, other=0.0).to(tl.float64)
        rho, share = tl.exp(score - shift) / total, tl.exp(score - second) / second_rest
        term = share * first_best + rho * (a_sum - first_term / (1.0 - rho))
        result = first_term + term + share * second_best + rho * (b_sum - term / (1.0 - rho))
        result = tl.where(other, result, first_best + second_best + rho_best * b_sum)
        tl.store(numerator + rows, result.to(numerator.dtype.element_ty), mask=inside)


def neumann(lists: Ragged, scores: Tensor, gradient: Tensor, epsilon: float, numerator: Tensor) -> None:
    """Fill the numerator, from the gradient of the softmax family at finite scores."""
    log_epsilon = math.log(epsilon) if epsilon > 0.0 else 0.0
    _neumann[(lists.n_queries,)](
        lists.offsets, scores, gradient, numerator, log_epsilon, epsilon > 0.0, _BLOCK, num_warps=2
    )
