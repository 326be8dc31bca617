"""The softmax family on a device: one program for each list, which walks along it three times.

The formulas, and why the best document is kept apart, are in ``rankwise.objectives.softmax.cross_entropy``.
"""

import math

import torch
import triton
import triton.language as tl

from rankwise.objectives.softmax.cross_entropy import GAMMA_TIGHT, GAMMA_UNIFORM
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.placed import Call
from rankwise.objectives.torch.kernels.random import document_uniforms

_BLOCK, _WIDE, _LONG = 256, 4096, 2048  # documents at once, and where lists are longer than this in the mean


@triton.jit
def _masses(masses, unit, rows, inside, documents, draws: tl.constexpr, key, word):  # type: ignore[no-untyped-def]
    """The target of some documents of a list, which is not normalised where γ is drawn."""
    mass = tl.load(masses + rows, mask=inside, other=0.0)
    if draws:
        gamma = document_uniforms(tl.load(key), tl.load(key + 1), word, documents, tl.zeros_like(documents))
        mass = tl.where(inside, mass + unit * (1.0 - gamma).to(mass.dtype), 0.0)
    return mass


@launched
def _cross_entropy(  # type: ignore[no-untyped-def]
    offsets,
    scores,
    masses,
    units,
    key,
    words,
    value,
    gradient,
    hessian,
    log_epsilon: tl.float64,
    has_epsilon: tl.constexpr,
    draws: tl.constexpr,
    wanted: tl.constexpr,
    block: tl.constexpr,
):
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    unit = tl.load(units + query)
    lanes = tl.arange(0, block)
    if unit < 0.0:
        for start in range(0, size, block):
            inside = start + lanes < size
            rows = first + start + lanes
            tl.store(gradient + rows, tl.zeros([block], gradient.dtype.element_ty), mask=inside)
            if wanted:
                tl.store(hessian + rows, tl.zeros([block], hessian.dtype.element_ty), mask=inside)
        tl.store(value + query, 0.0)
        return
    word = tl.load(words + query) if draws else 0
    # The largest score, where it stands first, and the sum of the masses.
    tops = tl.full([block], float("-inf"), scores.dtype.element_ty)
    places = tl.zeros([block], tl.int32)
    sums = tl.zeros([block], scores.dtype.element_ty)
    for start in range(0, size, block):
        documents = start + lanes
        inside = documents < size
        score = tl.load(scores + first + documents, mask=inside, other=float("-inf"))
        places = tl.where(score > tops, documents, places)
        tops = tl.maximum(tops, score)
        if draws:
            sums += _masses(masses, unit, first + documents, inside, documents, draws, key, word)
    top = tl.max(tops)
    best = tl.min(tl.where(tops == top, places, size))
    share = 1.0 / tl.sum(sums) if draws else 1.0
    log_epsilon = tl.cast(log_epsilon, top.dtype)
    shift = tl.maximum(top, log_epsilon) if has_epsilon else top
    # The softmax's denominator without the best document, and the loss.
    rests = tl.zeros([block], scores.dtype.element_ty)
    losses = tl.zeros([block], scores.dtype.element_ty)
    for start in range(0, size, block):
        documents = start + lanes
        inside = documents < size
        score = tl.load(scores + first + documents, mask=inside, other=0.0)
        mass = _masses(masses, unit, first + documents, inside, documents, draws, key, word) * share
        rests += tl.where(inside & (documents != best), tl.exp(score - shift), 0.0)
        losses += tl.where(inside, mass * (shift - score), 0.0)
    rest = tl.sum(rests)
    if has_epsilon:
        rest += tl.exp(log_epsilon - shift)
    own = tl.exp(top - shift)
    total = rest + own
    tl.store(value + query, tl.sum(losses) + tl.log(total))
    for start in range(0, size, block):
        documents = start + lanes
        inside = documents < size
        rows = first + documents
        score = tl.load(scores + rows, mask=inside, other=0.0)
        mass = _masses(masses, unit, rows, inside, documents, draws, key, word) * share
        rho = tl.exp(score - shift) / total
        tl.store(gradient + rows, rho - mass, mask=inside)
        if wanted:
            tl.store(hessian + rows, tl.where(documents == best, rho * (rest / total), rho - rho * rho), mask=inside)


@launched
def _tighten(offsets, scores, gains, units, masses, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the target of the tightest γ: ``add_tight_mass`` of the CPU, in double precision.

    A document may lie on the mean exactly, and single precision would put it to the wrong side.
    """
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    unit = tl.load(units + query).to(tl.float64)
    lanes = tl.arange(0, block)
    zeros = tl.zeros([block], tl.float64)
    tops = tl.full([block], float("-inf"), tl.float64)
    masses_of = zeros
    for start in range(0, size, block):
        inside = start + lanes < size
        score = tl.load(scores + first + start + lanes, mask=inside, other=float("-inf")).to(tl.float64)
        tops = tl.maximum(tops, score)
        masses_of += tl.load(gains + first + start + lanes, mask=inside, other=0.0).to(tl.float64)
    top, gain = tl.max(tops), tl.sum(masses_of)
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


def launch(call: Call) -> None:
    """Launch the kernel of ``cross_entropy_kernel``."""
    target, epsilon = call.settings[0], call.settings[1]
    draws = target == GAMMA_UNIFORM
    masses, units = call.per_document[0], call.per_query[0]
    if target == GAMMA_TIGHT:
        gains, masses = masses, torch.empty_like(masses)
        _tighten[(call.lists.n_queries,)](call.lists.offsets, call.scores, gains, units, masses, _BLOCK, num_warps=2)
    offsets, long = call.lists.offsets, call.lists.n_docs > _LONG * call.lists.n_queries
    key, words = (call.random.key(), call.random.queries) if call.random is not None else (offsets, offsets)
    _cross_entropy[(call.lists.n_queries,)](
        call.lists.offsets,
        call.scores,
        masses,
        units,
        key,
        words,
        call.value,
        call.gradient,
        call.hessian if call.hessian is not None else call.gradient,
        math.log(epsilon) if epsilon > 0.0 else 0.0,
        epsilon > 0.0,
        draws,
        call.hessian is not None,
        _WIDE if long else _BLOCK,
        num_warps=16 if long else 2,
    )
