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
from rankwise.objectives.torch.kernels.launched import launched
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
def _larger(a, b):  # type: ignore[no-untyped-def]
    return tl.maximum(a, b)


@triton.jit
def _then(fall, sum_, later_fall, later_sum):  # type: ignore[no-untyped-def]
    """The map x → fall · x + sum after another one."""
    return fall * later_fall, sum_ * later_fall + later_sum


@triton.jit
def _log_sums(logs, before, top, mass, power: tl.constexpr):  # type: ignore[no-untyped-def]
    """The logs of running sums of e^(power · log), as the largest log and a sum relative to it, in [1, n].

    ``before`` are the logs of the places before. ``top`` and ``mass`` are where the block before this one ended. Powers
    are taken outside of the scan: going one place further is a multiplication and an addition.
    """
    tops = tl.maximum(tl.associative_scan(logs, 0, _larger), top)
    tops_before = tl.maximum(tl.associative_scan(before, 0, _larger), top)
    fall = tl.exp(power * tl.where(tops_before == float("-inf"), -1000.0, tops_before - tops))
    fall, sums = tl.associative_scan((fall, tl.exp(power * (logs - tops))), 0, _then)
    return tops, sums + fall * mass


@launched
def _rests(offsets, scores, order, rests, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the log of the sum over each place and those behind it, from the end."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    lanes = tl.arange(0, block)
    top = tl.full([], float("-inf"), tl.float64)
    mass = tl.full([], 0.0, tl.float64)
    for step in range(0, size, block):
        place = size - 1 - step - lanes
        inside, led = place >= 0, (place >= 0) & (place < size - 1)
        row = tl.load(order + first + place, mask=inside, other=0)
        row_before = tl.load(order + first + place + 1, mask=led, other=0)
        score = tl.load(scores + first + row, mask=inside, other=float("-inf")).to(tl.float64)
        score_before = tl.load(scores + first + row_before, mask=led, other=float("-inf")).to(tl.float64)
        tops, sums = _log_sums(score, score_before, top, mass, 1.0)
        tl.store(rests + first + place, tops + tl.log(sums), mask=inside)
        top, mass = tl.max(tops), tl.sum(tl.where(lanes == block - 1, sums, 0.0))


@triton.jit
def _log_z(first, size, place, inside, scores, order, stops, rests):  # type: ignore[no-untyped-def]
    """The score of each place, the log of the sum over those who come after it, and of both."""
    stop = tl.load(stops + first + place, mask=inside, other=0)
    row = tl.load(order + first + place, mask=inside, other=0)
    score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
    rest = tl.load(rests + first + stop, mask=inside & (stop < size), other=float("-inf"))
    return row, score, rest, log_add(score, rest)


@launched
def _passes(offsets, scores, order, stops, rests, once, twice, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the logs of Σ 1/Z and Σ 1/Z² over each place and those before it."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    lanes = tl.arange(0, block)
    top = tl.full([], float("-inf"), tl.float64)
    mass = tl.full([], 0.0, tl.float64)
    mass_twice = tl.full([], 0.0, tl.float64)
    for start in range(0, size, block):
        place = start + lanes
        inside, led = place < size, (place < size) & (place > 0)
        _, _, _, log_z = _log_z(first, size, place, inside, scores, order, stops, rests)
        _, _, _, log_z_before = _log_z(first, size, place - 1, led, scores, order, stops, rests)
        shares = tl.where(inside, -log_z, float("-inf"))
        shares_before = tl.where(led, -log_z_before, float("-inf"))
        tops, sums = _log_sums(shares, shares_before, top, mass, 1.0)
        _, sums_twice = _log_sums(shares, shares_before, top, mass_twice, 2.0)
        tl.store(once + first + place, tops + tl.log(sums), mask=inside)
        tl.store(twice + first + place, 2.0 * tops + tl.log(sums_twice), mask=inside)
        top, mass = tl.max(tops), tl.sum(tl.where(lanes == block - 1, sums, 0.0))
        mass_twice = tl.sum(tl.where(lanes == block - 1, sums_twice, 0.0))


@launched
def _likelihood(  # type: ignore[no-untyped-def]
    offsets, scores, order, starts, stops, rests, once, twice, value, gradient, hessian,
    wanted: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a list: every document is passed over by those before it, and picked at last."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    total = tl.zeros([block], tl.float64)
    for begin in range(0, size, block):
        place = begin + tl.arange(0, block)
        inside = place < size
        row, score, rest, log_z = _log_z(first, size, place, inside, scores, order, stops, rests)
        start = tl.load(starts + first + place, mask=inside, other=0)
        led = inside & (start > 0)
        passed = tl.exp(score + tl.load(once + first + start - 1, mask=led, other=float("-inf")))
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
    rests, once, twice = torch.empty((3, lists.n_docs), dtype=torch.float64, device=lists.device)
    _rests[grid](lists.offsets, call.scores, order, rests, block=block)
    _passes[grid](lists.offsets, call.scores, order, stops, rests, once, twice, block=block)
    wanted = call.hessian is not None
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    _likelihood[grid](
        lists.offsets, call.scores, order, starts, stops, rests, once, twice, *outputs, wanted=wanted, block=block
    )
