"""The order of ragged arrays on a device: by counting where queries are short, by sorting where they are long."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import tile_bounds, triton_kernel
from rankwise.base.device.ragged import TILE, Ragged

COUNTED = 2048
"""Size up to which each document counts those before it: n² comparisons, but no pass over all queries."""


@triton.jit
def count_before(keys, size, mine, key, step: tl.constexpr):
    """Count for each document of a tile those of its list before it; equal keys stay in row order."""
    places = tl.arange(0, step)[:, None] * 0 + mine[None, :] * 0
    for begin in range(0, size, step):
        candidates = begin + tl.arange(0, step)
        candidate_key = tl.load(keys + candidates, mask=candidates < size, other=float("-inf"))[:, None]
        places += (
            (candidate_key > key[None, :]) | ((candidate_key == key[None, :]) & (candidates[:, None] < mine[None, :]))
        ).to(tl.int32)
    return tl.sum(places, 0)


@triton_kernel
def _count(offsets, tile_queries, tile_starts, keys, places, ranked, n_docs, tile: tl.constexpr, step: tl.constexpr):
    _, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    row = tl.program_id(1).to(tl.int64) * n_docs
    mine = start + tl.arange(0, tile)
    real = mine < size
    key = tl.load(keys + row + first + mine, mask=real, other=0.0)
    place = count_before(keys + row + first, size, mine, key, step)
    tl.store(places + row + first + mine, place, mask=real)
    tl.store(ranked + row + first + place, mine, mask=real)


def ordered(lists: Ragged, keys: Tensor) -> tuple[Tensor, Tensor]:
    """Return the place of each document by key, highest first, and the document at each place.

    ``keys`` has one row for each of several orders. Documents and places are counted from 0 in each query.
    """
    places, ranked = torch.empty((2, *keys.shape), dtype=torch.int32, device=lists.device).unbind()
    if lists.typical <= COUNTED:
        tiles, (step, warps) = lists.tiles(TILE), lists.pair_shape()
        grid = (tiles[0].numel(), keys.shape[0])
        # A comparison takes little time, hence more of them in a step.
        _count[grid](lists.offsets, *tiles, keys, places, ranked, lists.n_docs, TILE, 4 * step, num_warps=warps)
        return places, ranked
    order = torch.sort(keys, descending=True, stable=True).indices
    if lists.n_queries > 1:
        order = order.gather(1, torch.sort(lists.to_documents(lists.numbers)[order], stable=True).indices)
    rows = torch.arange(lists.n_docs, device=lists.device) - lists.to_documents(lists.offsets[:-1])
    ranked.copy_(order - (torch.arange(lists.n_docs, device=lists.device) - rows))
    places.scatter_(1, order, rows.to(torch.int32).expand_as(order))
    return places, ranked
