"""Prices of exposure on a device, from rankings that are drawn there."""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import tile_bounds, triton_kernel
from rankwise.objectives.plackett_luce import Race, TableDraws

_TILE, _STEP = 64, 64


@triton_kernel
def _expose(
    offsets, tile_queries, tile_starts, ranks, discounts, exposures, count, n_docs, tile: tl.constexpr,
):  # fmt: skip
    """Add to each document of a tile the weights of the ranks that some samples give it."""
    _, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    documents = start + tl.arange(0, tile)
    real = documents < size
    exposure = tl.load(exposures + first + documents, mask=real, other=0.0)
    for number in range(count):
        sample = tl.full([tile], number, tl.int64)
        rank = tl.load(ranks + sample * n_docs + first + documents, mask=real, other=-1)
        exposure += tl.load(discounts + tl.maximum(rank, 0), mask=rank >= 0, other=0.0).to(tl.float64)
    tl.store(exposures + first + documents, exposure, mask=real)


@triton_kernel
def _price(
    offsets, tile_queries, tile_starts, numbers, merits, discounts, exposures, rewards, cutoff, samples,
    tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Fill minus the price of each document's exposure: ``_price`` of the CPU."""
    _, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    documents = start + tl.arange(0, tile)
    real = documents < size
    number = tl.load(numbers + first + documents, mask=real, other=-1)
    group_exposure = tl.zeros([tile], tl.float64)
    exposure_sums = tl.zeros([step], tl.float64)
    groups = tl.full([step], -1, number.dtype)
    for begin in range(0, size, step):
        partners = begin + tl.arange(0, step)
        inside = partners < size
        partner_number = tl.load(numbers + first + partners, mask=inside, other=-1)
        exposure = tl.load(exposures + first + partners, mask=inside & (partner_number >= 0), other=0.0)
        group_exposure += tl.sum(tl.where(partner_number[None, :] == number[:, None], exposure[None, :], 0.0), 1)
        exposure_sums += exposure
        groups = tl.maximum(groups, partner_number)
    weights = tl.zeros([step], tl.float64)
    for begin in range(0, tl.minimum(size, cutoff), step):
        places = begin + tl.arange(0, step)
        weights += tl.load(discounts + places, mask=places < tl.minimum(size, cutoff), other=0.0).to(tl.float64)
    total = tl.where(tl.max(groups) > 0, tl.sum(weights), 0.0)  # two groups at least
    safe = tl.where(total > 0.0, total, 1.0)
    merit = tl.load(merits + first + documents, mask=number >= 0, other=1.0).to(tl.float64)
    price = 2.0 * (tl.sum(exposure_sums) - group_exposure / merit) / (samples * safe * safe)
    price = tl.where(total > 0.0, tl.where(number >= 0, price, 0.0), 0.0)
    tl.store(rewards + first + documents, price.to(rewards.dtype.element_ty), mask=real)


def price(lists: Any, scores: Tensor, arguments: Any, random: Any, out: tuple[Tensor]) -> None:
    """Fill minus the price of each document's exposure."""
    groups, merits, discounts, samples, by_race, draws = arguments
    race = Race(lists, scores, scores, random, discounts.numel(), samples, draws)
    sampler = race if by_race else TableDraws(race)
    exposures = torch.zeros(lists.n_docs, dtype=torch.float64, device=lists.device)
    tiles = lists.tiles(_TILE)
    grid = (tiles[0].numel(),)
    for start, count in race.batches():
        ranks = sampler.sample(start, count).ranks
        _expose[grid](lists.offsets, *tiles, ranks, discounts, exposures, count, lists.n_docs, _TILE)
    _price[grid](lists.offsets, *tiles, groups, merits, discounts, exposures, *out, race.cutoff, samples, _TILE, _STEP)
