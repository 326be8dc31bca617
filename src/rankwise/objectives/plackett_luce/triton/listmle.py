"""ListMLE on a device: sums of exponentials over the documents after each place, and before it, by two scans.

All sums are logs in double precision, as scores may be far apart. The formulas are in ``cpu/listmle.py``.
"""

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log_add
from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.ragged import Derivatives

_TILE = 4096
"""Places of a list that one program scans; several share a longer list."""


@triton.jit
def _larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def _smaller(a, b):
    return tl.minimum(a, b)


@triton_kernel
def _fill_groups(offsets, labels, order, starts, stops, apart: tl.constexpr, block: tl.constexpr):
    """Fill the groups of places: equal labels, single documents in row order, or a whole list of equal labels."""
    _, first, size = program_list(offsets)
    lanes = tl.arange(0, block)
    last = tl.load(order + first + size - 1)
    mixed = tl.load(labels + first + tl.load(order + first)) > tl.load(labels + first + last)
    begin = size * 0
    for start in range(0, size, block):
        place = start + lanes
        inside, led = place < size, (place < size) & (place > 0)
        label = tl.load(labels + first + tl.load(order + first + place, mask=inside, other=0), mask=inside, other=0.0)
        before = tl.load(order + first + place - 1, mask=led, other=0)
        label_before = tl.load(labels + first + before, mask=led, other=0.0)
        differs = (label != label_before) if apart else led
        breaks = tl.where(mixed, tl.where(led & differs, place, 0), 0)
        begins = tl.maximum(tl.associative_scan(breaks, 0, _larger), begin)
        tl.store(starts + first + place, begins, mask=inside)
        begin = tl.max(begins)
    tl.debug_barrier()
    end = size
    for step in range(0, size, block):
        place = size - 1 - step - lanes
        inside, led = place >= 0, (place >= 0) & (place < size - 1)
        after = tl.load(starts + first + place + 1, mask=led, other=0)
        ends = tl.where(led & (after == place + 1), place + 1, size)
        stop = tl.minimum(tl.associative_scan(tl.where(inside, ends, size), 0, _smaller), end)
        tl.store(stops + first + place, stop, mask=inside)
        end = tl.min(stop)


def fill_groups(lists: DeviceLists, labels: Tensor, arguments: Any, _: None, out: tuple[Tensor, Tensor]) -> None:
    """Fill the groups of the ideal order."""
    order, apart = arguments
    _fill_groups[(lists.n_queries,)](lists.offsets, labels, order, *out, apart, lists.block())


@triton.jit
def _then(factor, sum_, later_factor, later_sum):
    """Compose the map x → factor · x + sum with a later one."""
    return factor * later_factor, sum_ * later_factor + later_sum


@triton.jit
def _log_sums(logs, before, top, mass, power: tl.constexpr):
    """Return the logs of running sums of e^(power · log), as the largest log and a sum relative to it, in [1, n].

    ``before`` are the logs of the preceding places, ``top`` and ``mass`` the results of the preceding block. Powers are
    computed outside of the scan: each of its steps is a multiplication and an addition.
    """
    tops = tl.maximum(tl.associative_scan(logs, 0, _larger), top)
    tops_before = tl.maximum(tl.associative_scan(before, 0, _larger), top)
    factor = tl.exp(power * tl.where(tops_before == float("-inf"), -1000.0, tops_before - tops))
    factor, sums = tl.associative_scan((factor, tl.exp(power * (logs - tops))), 0, _then)
    return tops, sums + factor * mass


@triton.jit
def _joined(tops, masses, first, last, power: tl.constexpr):
    """Return the sum over the tiles ``first`` to ``last``: the largest log, and the sum relative to it."""
    top = tl.full([], float("-inf"), tl.float64)
    for number in range(first, last):
        top = tl.maximum(top, tl.load(tops + number))
    mass = tl.full([], 0.0, tl.float64)
    for number in range(first, last):
        other = tl.load(tops + number)
        factor = tl.exp(power * tl.where(other == float("-inf"), -1000.0, other - top))
        mass += tl.load(masses + number) * factor
    return top, mass


@triton_kernel
def _rests(
    offsets, tile_queries, tile_starts, scores, order, tops, masses, rests,
    summed: tl.constexpr, shared: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the log of the sum over each place and all after it; with ``summed`` only the sum of the tile."""
    _query, begin, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if begin >= size:
        return
    lanes = tl.arange(0, block)
    end = tl.minimum(begin + tile, size)
    top = tl.full([], float("-inf"), tl.float64)
    mass = tl.full([], 0.0, tl.float64)
    if shared and not summed:
        number = tl.program_id(0)
        top, mass = _joined(tops, masses, number + 1, number - begin // tile + (size + tile - 1) // tile, 1.0)
    for step in range(0, end - begin, block):
        place = end - 1 - step - lanes
        # The sum of a tile begins in it; the final sums continue those of the tiles after it.
        inside, led = place >= begin, (place >= begin) & (place < (end if summed else size) - 1)
        row = tl.load(order + first + place, mask=inside, other=0)
        row_before = tl.load(order + first + place + 1, mask=led, other=0)
        score = tl.load(scores + first + row, mask=inside, other=float("-inf")).to(tl.float64)
        score_before = tl.load(scores + first + row_before, mask=led, other=float("-inf")).to(tl.float64)
        block_tops, sums = _log_sums(score, score_before, top, mass, 1.0)
        if not summed:
            tl.store(rests + first + place, block_tops + tl.log(sums), mask=inside)
        last = tl.minimum(end - begin - step, block) - 1  # lanes behind it hold no sums
        top, mass = tl.max(block_tops), tl.sum(tl.where(lanes == last, sums, 0.0))
    if summed:
        tl.store(tops + tl.program_id(0), top)
        tl.store(masses + tl.program_id(0), mass)


@triton.jit
def _log_z(first, size, place, inside, scores, order, stops, rests):
    """Return row and score of each place, the log of the sum over all documents after it, and the log of Z."""
    stop = tl.load(stops + first + place, mask=inside, other=0)
    row = tl.load(order + first + place, mask=inside, other=0)
    score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
    rest = tl.load(rests + first + stop, mask=inside & (stop < size), other=float("-inf"))
    return row, score, rest, log_add(score, rest)


@triton_kernel
def _passes(
    offsets, tile_queries, tile_starts, scores, order, stops, rests, tops, masses, masses_twice, once, twice,
    summed: tl.constexpr, shared: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the logs of Σ 1/Z and Σ 1/Z² over each place and all before it; with ``summed`` only the tile's sums."""
    _query, begin, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if begin >= size:
        return
    lanes = tl.arange(0, block)
    end = tl.minimum(begin + tile, size)
    top = tl.full([], float("-inf"), tl.float64)
    mass = tl.full([], 0.0, tl.float64)
    mass_twice = tl.full([], 0.0, tl.float64)
    if shared and not summed:
        number = tl.program_id(0)
        top, mass = _joined(tops, masses, number - begin // tile, number, 1.0)
        mass_twice = _joined(tops, masses_twice, number - begin // tile, number, 2.0)[1]
    for start in range(begin, end, block):
        place = start + lanes
        inside, led = place < end, (place < end) & (place > (begin if summed else 0))
        log_z = _log_z(first, size, place, inside, scores, order, stops, rests)[3]
        log_z_before = _log_z(first, size, place - 1, led, scores, order, stops, rests)[3]
        shares = tl.where(inside, -log_z, float("-inf"))
        shares_before = tl.where(led, -log_z_before, float("-inf"))
        block_tops, sums = _log_sums(shares, shares_before, top, mass, 1.0)
        sums_twice = _log_sums(shares, shares_before, top, mass_twice, 2.0)[1]
        if not summed:
            tl.store(once + first + place, block_tops + tl.log(sums), mask=inside)
            tl.store(twice + first + place, 2.0 * block_tops + tl.log(sums_twice), mask=inside)
        last = tl.minimum(end - start, block) - 1
        top, mass = tl.max(block_tops), tl.sum(tl.where(lanes == last, sums, 0.0))
        mass_twice = tl.sum(tl.where(lanes == last, sums_twice, 0.0))
    if summed:
        tl.store(tops + tl.program_id(0), top)
        tl.store(masses + tl.program_id(0), mass)
        tl.store(masses_twice + tl.program_id(0), mass_twice)


@triton_kernel
def _likelihood(
    offsets, tile_queries, tile_starts, scores, order, starts, stops, rests, once, twice, losses, value, gradient,
    hessian, shared: tl.constexpr, has_hessian: tl.constexpr, tile: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the derivatives of a tile, from the sums of both scans."""
    query, begin, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if begin >= size:
        return
    end = tl.minimum(begin + tile, size)
    total = tl.zeros([block], tl.float64)
    for step in range(begin, end, block):
        place = step + tl.arange(0, block)
        inside = place < end
        row, score, rest, log_z = _log_z(first, size, place, inside, scores, order, stops, rests)
        start = tl.load(starts + first + place, mask=inside, other=0)
        led = inside & (start > 0)
        passed = tl.exp(score + tl.load(once + first + start - 1, mask=led, other=float("-inf")))
        rest_share = tl.exp(rest - log_z)
        total += tl.where(inside, log_add(tl.zeros_like(score), rest - score), 0.0)
        tl.store(gradient + first + row, passed - rest_share, mask=inside)
        if has_hessian:
            square = tl.exp(2.0 * score + tl.load(twice + first + start - 1, mask=led, other=float("-inf")))
            diagonal = tl.maximum(passed - square, 0.0) + tl.exp(score - log_z) * rest_share
            tl.store(hessian + first + row, diagonal, mask=inside)
    if shared:
        tl.store(losses + tl.program_id(0), tl.sum(total))
    else:
        tl.store(value + query, tl.sum(total))


@triton_kernel
def _add_tiles(offsets, tile_queries, tile_starts, losses, value, tile: tl.constexpr):
    """Add up the losses of the tiles of a list; its first tile does it."""
    query, begin, _first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if begin > 0:
        return
    total = tl.full([], 0.0, tl.float64)
    for number in range(tl.program_id(0), tl.program_id(0) + (size + tile - 1) // tile):
        total += tl.load(losses + number)
    tl.store(value + query, total)


def listmle(lists: DeviceLists, scores: Tensor, arguments: Any, _: None, out: Derivatives) -> None:
    """Compute the loss and its derivatives: a scan from the end, a scan from the beginning, and their combination."""
    order, starts, stops = arguments
    tiles, shared = lists.tiles(_TILE), lists.longest > _TILE
    grid, block, warps = (tiles[0].numel(),), lists.block(1024), 8 if lists.typical > 512 else 4
    has_hessian = out.hessian.numel() > 0
    rests, once, twice = torch.empty((3, lists.n_docs), dtype=torch.float64, device=lists.device).unbind()
    tops, masses, masses_twice = rests.new_empty((3, grid[0])).unbind()
    inputs, outputs = (lists.offsets, *tiles, scores, order), (out.value, out.gradient)
    for summed in (True, False) if shared else (False,):
        _rests[grid](*inputs, tops, masses, rests, summed, shared, _TILE, block, num_warps=warps)
    for summed in (True, False) if shared else (False,):
        _passes[grid](
            *inputs, stops, rests, tops, masses, masses_twice, once, twice, summed, shared, _TILE, block,
            num_warps=warps,
        )  # fmt: skip
    hessian = out.hessian if has_hessian else out.gradient
    _likelihood[grid](
        *inputs, starts, stops, rests, once, twice, tops, *outputs, hessian, shared, has_hessian, _TILE, block,
        num_warps=warps,
    )  # fmt: skip
    if shared:
        _add_tiles[grid](lists.offsets, *tiles, tops, out.value, _TILE, num_warps=1)
