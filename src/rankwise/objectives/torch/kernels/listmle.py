"""ListMLE on a device: sums of exponentials over those who come after, and over those who came before, by two scans.

Who comes after whom depends on labels alone, so the CPU puts documents in order, once. All sums are logs in double
precision, as scores may be far apart. The formulas are in ``rankwise.objectives.plackett_luce.listmle``.
"""

import dataclasses

import numpy as np
import torch
import triton
import triton.language as tl

from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.arithmetic import log_add
from rankwise.objectives.torch.kernels.lists import block_of
from rankwise.objectives.torch.kernels.placed import Call


def arrange(prepared: PreparedKernel) -> PreparedKernel:
    """Find the document at each place of the ideal order, and the places where those of equal rank begin and end."""
    (labels,), (apart,) = prepared.per_document, prepared.settings
    sizes = np.diff(prepared.offsets)
    begins, queries = np.repeat(prepared.offsets[:-1], sizes), np.repeat(np.arange(sizes.size), sizes)
    rows = np.lexsort((-labels, queries))
    places = np.arange(rows.size)
    ends = begins + np.repeat(sizes, sizes)
    mixed = labels[rows[begins]] > labels[rows[np.maximum(ends - 1, 0)]]
    # A new group begins with each list, and with each label or, in row order, document; lists of one label are one.
    news = (places == begins) | (mixed & (np.diff(labels[rows], prepend=0.0) != 0.0 if apart else True))
    starts = np.flatnonzero(news)
    group = np.cumsum(news) - 1
    stops = np.append(starts[1:], rows.size)
    columns = (rows - begins, starts[group] - begins, stops[group] - begins)
    return dataclasses.replace(prepared, per_document=tuple(column.astype(np.int32) for column in columns))


@triton.jit
def _rests(offsets, scores, order, sums, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the log of the sum over each place and those behind it, from the end."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    carried = tl.full([], float("-inf"), tl.float64)
    for step in range(0, size, block):
        places = size - 1 - step - tl.arange(0, block)
        inside = places >= 0
        row = tl.load(order + first + places, mask=inside, other=0)
        score = tl.load(scores + first + row, mask=inside, other=float("-inf")).to(tl.float64)
        behind = log_add(tl.associative_scan(score, 0, log_add), carried)
        tl.store(sums + first + places, behind, mask=inside)
        carried = tl.max(behind)


@triton.jit
def _passes(offsets, scores, order, stops, sums, once, twice, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the logs of Σ 1/Z and Σ 1/Z² over each place and those before it."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    carried_once = tl.full([], float("-inf"), tl.float64)
    carried_twice = tl.full([], float("-inf"), tl.float64)
    for start in range(0, size, block):
        places = start + tl.arange(0, block)
        inside = places < size
        stop = tl.load(stops + first + places, mask=inside, other=0)
        row = tl.load(order + first + places, mask=inside, other=0)
        score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
        rest = tl.load(sums + first + stop, mask=inside & (stop < size), other=float("-inf"))
        log_z = tl.where(inside, log_add(score, rest), float("inf"))
        before_once = log_add(tl.associative_scan(-log_z, 0, log_add), carried_once)
        before_twice = log_add(tl.associative_scan(-2.0 * log_z, 0, log_add), carried_twice)
        tl.store(once + first + places, before_once, mask=inside)
        tl.store(twice + first + places, before_twice, mask=inside)
        carried_once, carried_twice = tl.max(before_once), tl.max(before_twice)


@triton.jit
def _likelihood(  # type: ignore[no-untyped-def]
    offsets, scores, order, starts, stops, sums, once, twice, value, gradient, hessian,
    wanted: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a list: every document is passed over by those before it, and picked at last."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    total = tl.zeros([block], tl.float64)
    for begin in range(0, size, block):
        places = begin + tl.arange(0, block)
        inside = places < size
        start = tl.load(starts + first + places, mask=inside, other=0)
        stop = tl.load(stops + first + places, mask=inside, other=0)
        row = tl.load(order + first + places, mask=inside, other=0)
        score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
        rest = tl.load(sums + first + stop, mask=inside & (stop < size), other=float("-inf"))
        led = inside & (start > 0)
        passed = tl.exp(score + tl.load(once + first + start - 1, mask=led, other=float("-inf")))
        log_z = log_add(score, rest)
        others = tl.exp(rest - log_z)
        total += tl.where(inside, log_add(tl.zeros_like(score), rest - score), 0.0)
        tl.store(gradient + first + row, passed - others, mask=inside)
        if wanted:
            square = tl.exp(2.0 * score + tl.load(twice + first + start - 1, mask=led, other=float("-inf")))
            curve = tl.maximum(passed - square, 0.0) + tl.exp(score - log_z) * others
            tl.store(hessian + first + row, curve, mask=inside)
    tl.store(value + query, tl.sum(total))


def launch(call: Call) -> None:
    """Scan from the end, scan from the beginning, and put both together."""
    order, starts, stops = call.per_document
    lists, grid, block = call.lists, (call.lists.n_queries,), block_of(call.lists)
    sums, once, twice = torch.empty((3, lists.n_docs), dtype=torch.float64, device=lists.device)
    _rests[grid](lists.offsets, call.scores, order, sums, block=block)
    _passes[grid](lists.offsets, call.scores, order, stops, sums, once, twice, block=block)
    wanted = call.hessian is not None
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    _likelihood[grid](
        lists.offsets, call.scores, order, starts, stops, sums, once, twice, *outputs, wanted=wanted, block=block
    )
