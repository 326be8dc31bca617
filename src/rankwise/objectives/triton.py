"""Triton kernels of the operations of prepared objectives, which ``ragged.py`` describes."""

import triton.language as tl

from rankwise import check
from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.base.device.random import document_uniforms, uniform_pair
from rankwise.objectives.cpu import FLOOR_SHARE, LEAST, NOISES, TREATMENTS

_GUMBEL, _LOGISTIC = tl.constexpr(NOISES.index("gumbel")), tl.constexpr(NOISES.index("logistic"))
_FLOORED = tl.constexpr(TREATMENTS.index("floored"))
_FLOOR_SHARE, _LEAST = tl.constexpr(FLOOR_SHARE), tl.constexpr(LEAST)
_LARGEST_SCORE = tl.constexpr(check.LARGEST_SCORE)


@triton_kernel
def clean(scores, usable, flags, n_docs, block: tl.constexpr):
    """Copy scores up to the largest, with 0 for those that are not finite: then the flag of a block is NaN, else 0."""
    rows = tl.program_id(0) * block + tl.arange(0, block)
    score = tl.load(scores + rows, mask=rows < n_docs, other=0.0).to(usable.dtype.element_ty)
    finite = score - score == 0.0
    limited = tl.minimum(tl.maximum(score, -_LARGEST_SCORE), _LARGEST_SCORE)
    tl.store(usable + rows, tl.where(finite, limited, 0.0), mask=rows < n_docs)
    tl.store(flags + tl.program_id(0), tl.where(tl.max(tl.where(finite, 0, 1)) > 0, float("nan"), 0.0))


@triton_kernel
def reduce(
    value, errors, flags, gradient, total, moved, n_queries, n_flags, n_docs, factor: tl.float64,
    has_errors: tl.constexpr, has_moved: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Multiply the gradient by a factor, and mark ``moved`` if it is not 0; the first program adds up values."""
    lanes = tl.arange(0, block)
    number = tl.cast(factor, value.dtype.element_ty)
    rows = tl.program_id(0) * block + lanes
    scaled = tl.load(gradient + rows, mask=rows < n_docs, other=0.0) * number
    tl.store(gradient + rows, scaled, mask=rows < n_docs)
    if has_moved:
        tl.atomic_max(moved, tl.max(tl.where(scaled != 0.0, 1, 0)))
    if tl.program_id(0) == 0:
        sums = tl.zeros([block], tl.float64)
        for start in range(0, n_queries, block):
            inside = start + lanes < n_queries
            sums += tl.load(value + start + lanes, mask=inside, other=0.0).to(tl.float64)
            if has_errors:
                sums += tl.load(errors + start + lanes, mask=inside, other=0.0).to(tl.float64)
        for start in range(0, n_flags, block):
            sums += tl.load(flags + start + lanes, mask=start + lanes < n_flags, other=0.0).to(tl.float64)
        tl.store(total, (tl.sum(sums) * number).to(total.dtype.element_ty))


@triton_kernel
def fill_errors(offsets, labels, errors, block: tl.constexpr):
    """Fill 0 for each query, NaN if one of its labels is negative or not finite."""
    query, first, size = program_list(offsets)
    wrong = tl.zeros([block], tl.int32)
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        label = tl.load(labels + first + documents, mask=documents < size, other=0.0)
        wrong += tl.where((label >= 0.0) & (label < float("inf")), 0, 1)
    tl.store(errors + query, tl.where(tl.sum(wrong) > 0, float("nan"), 0.0))


@triton_kernel
def chain(
    offsets, tile_queries, tile_starts, firsts, seconds, gradient, hessian, numerator,
    curved: tl.constexpr, has_hessian: tl.constexpr, has_numerator: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Apply a map of each query's value to its derivatives, in place."""
    query, start, base, size = tile_bounds(offsets, tile_queries, tile_starts)
    documents = start + tl.arange(0, tile)
    rows, inside = base + documents, documents < size
    first = tl.load(firsts + query)
    inner = tl.load(gradient + rows, mask=inside, other=0.0)
    tl.store(gradient + rows, first * inner, mask=inside)
    if has_hessian:
        second = first * tl.load(hessian + rows, mask=inside, other=0.0)
        if curved:
            second += tl.load(seconds + query) * inner * inner
        tl.store(hessian + rows, second, mask=inside)
    if has_numerator:
        tl.store(numerator + rows, first * tl.load(numerator + rows, mask=inside, other=0.0), mask=inside)


@triton_kernel
def replace_curvature(offsets, gradient, hessian, treatment: tl.constexpr, block: tl.constexpr):
    """Replace the Hessian of a query by one that depends on all of it: a floor below its largest, or ones."""
    _, first, size = program_list(offsets)
    source = hessian if treatment == _FLOORED else gradient
    largest = tl.zeros([block], hessian.dtype.element_ty)
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        largest = tl.maximum(largest, tl.abs(tl.load(source + first + documents, mask=documents < size, other=0.0)))
    top = tl.max(largest)
    for start in range(0, size, block):
        documents = start + tl.arange(0, block)
        inside = documents < size
        if treatment == _FLOORED:
            diagonal = tl.load(hessian + first + documents, mask=inside, other=0.0)
            diagonal = tl.where(top > 0.0, tl.maximum(diagonal, top * _FLOOR_SHARE) + _LEAST, diagonal)
        else:  # a list without gradient must not count in a leaf
            diagonal = tl.zeros([block], hessian.dtype.element_ty) + tl.where(top > 0.0, 1.0, 0.0)
        tl.store(hessian + first + documents, diagonal, mask=inside)


@triton_kernel
def perturb(
    offsets, tile_queries, tile_starts, keys, words, scores, noisy, n_docs, scale: tl.float64, sharpness: tl.float64,
    noise: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Fill (scores + scale · noise) · sharpness for one sample; noise is drawn in double precision, as on the CPU."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    key = keys + 2 * tl.program_id(1)
    noisy += tl.program_id(1).to(tl.int64) * n_docs
    documents = start + tl.arange(0, tile)
    inside = documents < size
    word = tl.load(words + query)
    nothing = tl.zeros_like(documents)
    if noise == _GUMBEL:
        u = document_uniforms(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = -tl.log(-tl.log(u))
    elif noise == _LOGISTIC:
        u = document_uniforms(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = tl.log(u / (1.0 - u))
    else:
        u, v = uniform_pair(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = tl.sqrt(-2.0 * tl.log(u)) * tl.cos(6.283185307179586 * v)
    score = tl.load(scores + first + documents, mask=inside, other=0.0)
    sums = (score.to(tl.float64) + scale * drawn) * sharpness
    tl.store(noisy + first + documents, sums.to(noisy.dtype.element_ty), mask=inside)


@triton_kernel
def gather(
    offsets, tile_queries, tile_starts, copies, copy_offsets, weights, values, column, value, out,
    has_value: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Sum, for a tile of documents, a column over the copies of their query, in the order of copies."""
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    documents = start + tl.arange(0, tile)
    inside = documents < size
    total = tl.zeros([tile], out.dtype.element_ty)
    cost = tl.sum(total)
    for copy in range(tl.load(copies + query), tl.load(copies + query + 1)):
        weight = tl.load(weights + copy)
        rows = tl.load(copy_offsets + copy) + documents
        total += weight * tl.load(column + rows, mask=inside, other=0.0)
        if has_value:
            cost += weight * tl.load(values + copy)
    tl.store(out + first + documents, total, mask=inside)
    if has_value:  # noqa: SIM102 (a constant decides when it is compiled)
        if start == 0:
            tl.store(value + query, cost)
