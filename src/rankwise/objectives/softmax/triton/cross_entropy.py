"""The softmax family on a device: targets, and cross entropy, for which a program walks along a list three times.

Several walk along a long one. The formulas, and why the best document is computed apart, are in ``cpu.py``.
"""

import math
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.base.device.random import document_uniforms
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives, Random
from rankwise.objectives.softmax.cpu import EXP, GAMMA_UNIFORM, GAMMA_ZERO, SHARE

_EXP, _SHARE = tl.constexpr(EXP), tl.constexpr(SHARE)
_ZERO, _UNIFORM = tl.constexpr(GAMMA_ZERO), tl.constexpr(GAMMA_UNIFORM)
_BLOCK = 256
LONG = 4096
"""The longest list of one program; longer lists are shared among several."""


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


@triton.jit
def _masses(masses, unit, rows, inside, documents, draws: tl.constexpr, key_low, key_high, word):
    """Return the target of some documents of a list; it is not normalised if γ is drawn."""
    mass = tl.load(masses + rows, mask=inside, other=0.0)
    if draws:
        gamma = document_uniforms(key_low, key_high, word, documents, tl.zeros_like(documents))
        mass = tl.where(inside, mass + unit * (1.0 - gamma).to(mass.dtype), 0.0)
    return mass


@triton.jit
def _walk_tops(
    first, begin, end, scores, masses, unit, draws: tl.constexpr, key_low, key_high, word, block: tl.constexpr
):
    """Return the largest score of a range of a list, the first document that has it, and the sum of the masses."""
    lanes = tl.arange(0, block)
    tops = tl.full([block], float("-inf"), scores.dtype.element_ty)
    places = tl.zeros([block], tl.int32)
    sums = tl.zeros([block], scores.dtype.element_ty)
    for start in range(begin, end, block):
        documents = start + lanes
        inside = documents < end
        score = tl.load(scores + first + documents, mask=inside, other=float("-inf"))
        places = tl.where(score > tops, documents, places)
        tops = tl.maximum(tops, score)
        if draws:
            sums += _masses(masses, unit, first + documents, inside, documents, draws, key_low, key_high, word)
    top = tl.max(tops)
    return top, tl.min(tl.where(tops == top, places, end)), tl.sum(sums)


@triton.jit
def _walk_sums(
    first, begin, end, scores, masses, unit, share, shift, best,
    draws: tl.constexpr, key_low, key_high, word, block: tl.constexpr,
):  # fmt: skip
    """Return the softmax's denominator without the best document, and the loss, of a range of a list."""
    lanes = tl.arange(0, block)
    rests = tl.zeros([block], scores.dtype.element_ty)
    losses = tl.zeros([block], scores.dtype.element_ty)
    for start in range(begin, end, block):
        documents = start + lanes
        inside = documents < end
        score = tl.load(scores + first + documents, mask=inside, other=0.0)
        mass = _masses(masses, unit, first + documents, inside, documents, draws, key_low, key_high, word) * share
        rests += tl.where(inside & (documents != best), tl.exp(score - shift), 0.0)
        losses += tl.where(inside, mass * (shift - score), 0.0)
    return tl.sum(rests), tl.sum(losses)


@triton.jit
def _walk_outputs(
    first, begin, end, scores, masses, unit, share, shift, best, rest, total, gradient, hessian,
    draws: tl.constexpr, has_hessian: tl.constexpr, key_low, key_high, word, block: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a range of a list; zeros if there is nothing to learn."""
    lanes = tl.arange(0, block)
    for start in range(begin, end, block):
        documents = start + lanes
        inside = documents < end
        rows = first + documents
        score = tl.load(scores + rows, mask=inside, other=0.0)
        mass = _masses(masses, unit, rows, inside, documents, draws, key_low, key_high, word) * share
        rho = tl.exp(score - shift) / total
        tl.store(gradient + rows, tl.where(unit < 0.0, 0.0, rho - mass), mask=inside)
        if has_hessian:
            diagonal = tl.where(documents == best, rho * (rest / total), rho - rho * rho)
            tl.store(hessian + rows, tl.where(unit < 0.0, 0.0, diagonal), mask=inside)


@triton_kernel
def _cross_entropy(
    offsets, scores, masses, units, words, value, gradient, hessian, key_low, key_high, log_epsilon: tl.float64,
    has_epsilon: tl.constexpr, draws: tl.constexpr, has_hessian: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the value and the derivatives of a list."""
    query, first, size = program_list(offsets)
    unit = tl.load(units + query)
    word = tl.load(words + query) if draws else 0
    top, best, mass = _walk_tops(first, 0, size, scores, masses, unit, draws, key_low, key_high, word, block)
    share = 1.0 / mass if draws else 1.0
    log_epsilon = tl.cast(log_epsilon, top.dtype)
    shift = tl.maximum(top, log_epsilon) if has_epsilon else top
    rest, loss = _walk_sums(
        first, 0, size, scores, masses, unit, share, shift, best, draws, key_low, key_high, word, block
    )
    if has_epsilon:
        rest += tl.exp(log_epsilon - shift)
    total = rest + tl.exp(top - shift)
    tl.store(value + query, tl.where(unit < 0.0, 0.0, loss + tl.log(total) + 0.0 * unit))
    _walk_outputs(
        first, 0, size, scores, masses, unit, share, shift, best, rest, total, gradient, hessian,
        draws, has_hessian, key_low, key_high, word, block,
    )  # fmt: skip


@triton.jit
def _joined_tops(parts, number, count, block: tl.constexpr):
    """Return the results of the first walk for a list: largest score, the first document that has it, sum of masses."""
    lanes = tl.arange(0, block)
    tops = tl.full([block], float("-inf"), tl.float64)
    sums = tl.zeros([block], tl.float64)
    best = tl.full([block], 2147483647, tl.int32)
    for start in range(0, count, block):
        inside = start + lanes < count
        at = (number + start + lanes) * 4
        top = tl.load(parts + at, mask=inside, other=float("-inf"))
        place = tl.load(parts + at + 1, mask=inside, other=2147483647.0).to(tl.int32)
        best = tl.where(top > tops, place, tl.where(top == tops, tl.minimum(best, place), best))
        tops = tl.maximum(tops, top)
        sums += tl.load(parts + at + 2, mask=inside, other=0.0)
    top = tl.max(tops)
    return top, tl.min(tl.where(tops == top, best, 2147483647)), tl.sum(sums)


@triton_kernel
def _long_walk(
    offsets, tile_queries, tile_starts, scores, masses, units, words, parts, sums, value, gradient, hessian,
    key_low, key_high, log_epsilon: tl.float64,
    walk: tl.constexpr, has_epsilon: tl.constexpr, draws: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr,
    block: tl.constexpr,
):  # fmt: skip
    """Walk along a part of a list, one of three times; each begins with the results of all parts of the list before."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    number = tl.program_id(0) - start // tile  # the first program of the list
    count = (size + tile - 1) // tile
    end = tl.minimum(start + tile, size)
    unit = tl.load(units + query)
    word = tl.load(words + query) if draws else 0
    if walk == 0:
        top, best, mass = _walk_tops(first, start, end, scores, masses, unit, draws, key_low, key_high, word, block)
        tl.store(parts + tl.program_id(0) * 4, top.to(tl.float64))
        tl.store(parts + tl.program_id(0) * 4 + 1, best.to(tl.float64))
        tl.store(parts + tl.program_id(0) * 4 + 2, mass.to(tl.float64))
    else:
        top, best, mass = _joined_tops(parts, number, count, 32)
        share = (1.0 / mass).to(scores.dtype.element_ty) if draws else 1.0
        top = top.to(scores.dtype.element_ty)
        log_epsilon = tl.cast(log_epsilon, top.dtype)
        shift = tl.maximum(top, log_epsilon) if has_epsilon else top
        if walk == 1:
            rest, loss = _walk_sums(
                first, start, end, scores, masses, unit, share, shift, best, draws, key_low, key_high, word, block
            )
            tl.store(sums + tl.program_id(0) * 2, rest.to(tl.float64))
            tl.store(sums + tl.program_id(0) * 2 + 1, loss.to(tl.float64))
        else:
            lanes = tl.arange(0, 32)
            rests, losses = tl.zeros([32], tl.float64), tl.zeros([32], tl.float64)
            for begin in range(0, count, 32):
                inside = begin + lanes < count
                rests += tl.load(sums + (number + begin + lanes) * 2, mask=inside, other=0.0)
                losses += tl.load(sums + (number + begin + lanes) * 2 + 1, mask=inside, other=0.0)
            rest = tl.sum(rests)
            if has_epsilon:
                rest += tl.exp(log_epsilon - shift)
            rest = rest.to(top.dtype)
            total = rest + tl.exp(top - shift)
            if start == 0:
                loss = tl.sum(losses).to(top.dtype) + tl.log(total) + 0.0 * unit
                tl.store(value + query, tl.where(unit < 0.0, 0.0, loss))
            _walk_outputs(
                first, start, end, scores, masses, unit, share, shift, best, rest, total, gradient, hessian,
                draws, has_hessian, key_low, key_high, word, block,
            )  # fmt: skip


@triton.jit
def _others(first, size, documents, best, scores, gradient):
    """Return which documents of a list are not the best, their scores and their gradient."""
    other = (documents < size) & (documents != best)
    score = tl.load(scores + first + documents, mask=other, other=0.0).to(tl.float64)
    return other, score, tl.load(gradient + first + documents, mask=other, other=0.0).to(tl.float64)


@triton_kernel
def _neumann(
    offsets, scores, gradient, numerator, log_epsilon: tl.float64, has_epsilon: tl.constexpr, block: tl.constexpr
):
    """Fill the three-term Newton numerator from the gradient: ``_neumann`` of the CPU, in double precision.

    The shares of the rest, other than the best document, have a shift of their own.
    """
    _, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    top, best, _ = _walk_tops(first, 0, size, scores, scores, 0.0, False, 0, 0, 0, block)
    top = top.to(tl.float64)
    seconds = tl.full([block], float("-inf"), tl.float64)
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
        other, score, first_term = _others(first, size, start + lanes, best, scores, gradient)
        sums += tl.where(other, first_term / (1.0 - tl.exp(score - shift) / total), 0.0)
    a_sum = tl.sum(sums)
    first_best = tl.load(gradient + first + best).to(tl.float64)
    second_best = a_sum * rho_best
    sums = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        other, score, first_term = _others(first, size, start + lanes, best, scores, gradient)
        rho, share = tl.exp(score - shift) / total, tl.exp(score - second) / second_rest
        term = share * first_best + rho * (a_sum - first_term / (1.0 - rho))
        sums += tl.where(other, term / (1.0 - rho), 0.0)
    b_sum = tl.sum(sums)
    for start in range(0, size, block):
        rows, inside = first + start + lanes, start + lanes < size
        other, score, first_term = _others(first, size, start + lanes, best, scores, gradient)
        rho, share = tl.exp(score - shift) / total, tl.exp(score - second) / second_rest
        term = share * first_best + rho * (a_sum - first_term / (1.0 - rho))
        result = first_term + term + share * second_best + rho * (b_sum - term / (1.0 - rho))
        result = tl.where(other, result, first_best + second_best + rho_best * b_sum)
        tl.store(numerator + rows, result.to(numerator.dtype.element_ty), mask=inside)


def cross_entropy(lists: DeviceLists, scores: Tensor, arguments: Any, random: Random | None, out: Derivatives) -> None:
    """Compute the loss and its derivatives."""
    masses, units, target, epsilon = arguments
    draws, has_hessian = target == GAMMA_UNIFORM, out.hessian.numel() > 0
    words, key = (lists.offsets, (0, 0)) if random is None else (random.queries, random.keys[0])
    log_epsilon = math.log(epsilon) if epsilon > 0.0 else 0.0
    inputs = (scores, masses, units, words)
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient, *key, log_epsilon)
    if lists.typical <= LONG:
        _cross_entropy[(lists.n_queries,)](
            lists.offsets, *inputs, *outputs, epsilon > 0.0, draws, has_hessian, _BLOCK, num_warps=2
        )
    else:
        tiles = lists.tiles(LONG)
        scratch = torch.empty((6, tiles[0].numel()), dtype=torch.float64, device=lists.device)
        for walk in range(3):
            _long_walk[(tiles[0].numel(),)](
                lists.offsets, *tiles, *inputs, scratch[:4], scratch[4:], *outputs,
                walk, epsilon > 0.0, draws, has_hessian, LONG, 1024, num_warps=8,
            )  # fmt: skip
    if out.numerator is not None and out.numerator is not out.gradient:
        _neumann[(lists.n_queries,)](
            lists.offsets, scores, out.gradient, out.numerator, log_epsilon, epsilon > 0.0, _BLOCK, num_warps=2
        )
