"""PL-Rank on a device: rankings are drawn there, the same as on the CPU (``race_triton.py``, ``sequence_triton.py``).

The formulas are in ``plrank.py``. Two steps, over as many samples at once as the scratch
holds:

1. ``_look``, one thread for each sample of a list: from the last rank to the first chances, and the reward that follows
   each rank; and back again what each placed document gets, and what all others share.
2. ``_gather``, for tiles of documents: the sum over samples, so that nothing is added to by two programs at once.

It is in double precision: masses of documents far apart, and differences of them, are what it is about. Only the
chances of those not placed, which nothing is subtracted from, have the precision of the scores.
"""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from rankwise.device.arithmetic import log_add
from rankwise.device.launching import list_bounds, tile_bounds, triton_kernel
from rankwise.objectives.lists import Random
from rankwise.objectives.plackett_luce.race_triton import Race
from rankwise.objectives.plackett_luce.sequence_triton import TableDraws

_TILE, _LANES = 128, 32


@triton_kernel
def _look(
    offsets, scores, rewards, discounts, placed, lefts, by_rank, shared, cutoff, count, cells, pairs,
    baseline: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    """Fill what each rank's document gets: its gradient, then its Hessian, in the first two parts of ``by_rank``.

    ``lefts``, ``by_rank`` and ``shared`` are columns one after another: ``pairs`` of a query and a sample, and
    ``cells`` of such a pair and a rank. The paper's DN, DR, RI and the two sums of the Hessian are kept times Z_k (the
    Hessian's times Z_k²).
    """
    afters, onwards, chances, keeps = by_rank, by_rank + cells, by_rank + 2 * cells, by_rank + 3 * cells
    log_lasts, values, drs, ris = shared, shared + pairs, shared + 2 * pairs, shared + 3 * pairs
    sums_a, sums_b = shared + 4 * pairs, shared + 5 * pairs
    log_lefts, means = lefts, lefts + pairs
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
    head = tl.minimum(size, cutoff)
    sample = (tl.program_id(1) * lanes + tl.arange(0, lanes)).to(tl.int64)
    wanted = sample < count
    out = query.to(tl.int64) * count + sample
    ranks = query.to(tl.int64) * cutoff * count + sample
    log_left = tl.load(log_lefts + out, mask=wanted, other=0.0)
    mean = tl.load(means + out, mask=wanted, other=0.0)
    log_last = log_left
    nothing = tl.zeros([lanes], tl.float64)
    to_come, to_weigh, total = nothing, nothing, nothing
    for step in range(head):
        rank = head - 1 - step
        at = ranks + rank * count
        document = tl.load(placed + at, mask=wanted, other=0)
        score = tl.load(scores + first + document, mask=wanted, other=0.0).to(tl.float64)
        reward = tl.load(rewards + first + document, mask=wanted, other=0.0).to(tl.float64)
        theta = tl.load(discounts + rank).to(tl.float64)
        both = log_add(score, log_left)
        chance, keep = tl.exp(score - both), tl.exp(log_left - both)
        log_left = both
        log_last = tl.where(step == 0, both, log_last)
        mean = chance * reward + keep * mean
        after, expected = to_come, theta * reward
        if baseline:
            after, expected = to_come - to_weigh * mean, theta * mean
        tl.store(chances + at, chance, mask=wanted)
        tl.store(keeps + at, keep, mask=wanted)
        tl.store(afters + at, after, mask=wanted)
        tl.store(onwards + at, after + expected, mask=wanted)
        total += expected
        to_come += theta * reward
        to_weigh += theta
    tl.store(log_lasts + out, log_last, mask=wanted)
    tl.store(values + out, total, mask=wanted)
    tl.debug_barrier()
    dn, dr, ri, a, b, kept = nothing, nothing, nothing, nothing, nothing, nothing
    for rank in range(head):
        at = ranks + rank * count
        reward = tl.load(rewards + first + tl.load(placed + at, mask=wanted, other=0), mask=wanted, other=0.0)
        reward, theta = reward.to(tl.float64), tl.load(discounts + rank).to(tl.float64)
        p = tl.load(chances + at, mask=wanted, other=0.0)
        after = tl.load(afters + at, mask=wanted, other=0.0)
        onward = tl.load(onwards + at, mask=wanted, other=0.0)
        dn = 1.0 + kept * dn
        dr = theta + kept * dr
        ri = onward + kept * ri
        a = theta * dn + kept * kept * a
        b = onward * dn + kept * kept * b
        kept = tl.load(keeps + at, mask=wanted, other=0.0)
        change = p * (reward * dr - ri)
        tl.store(afters + at, after + change, mask=wanted)
        bend = after * (1.0 - 2.0 * p * dn) + change + 2.0 * p * p * (b - reward * a)
        tl.store(onwards + at, bend, mask=wanted)
    tl.store(drs + out, dr, mask=wanted)
    tl.store(ris + out, ri, mask=wanted)
    tl.store(sums_a + out, a, mask=wanted)
    tl.store(sums_b + out, b, mask=wanted)


@triton_kernel
def _gather(
    offsets, tile_queries, tile_starts, scores, rewards, ranks, by_rank, shared, sums, value, gradient, hessian, cutoff,
    count, cells, pairs, samples, n_queries, n_docs, begun: tl.constexpr, ends: tl.constexpr,
    wanted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add up what each document of a tile gets from every sample, placed there or not.

    Batches of samples before this one (``begun``) have left their ``sums``; the last (``ends``) fills in the means.
    """
    slopes, bends = by_rank, by_rank + cells
    log_lasts, values, drs, ris = shared, shared + pairs, shared + 2 * pairs, shared + 3 * pairs
    sums_a, sums_b = shared + 4 * pairs, shared + 5 * pairs
    query, start, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    if start >= size:
        return
    documents = start + tl.arange(0, tile)
    real = documents < size
    score = tl.load(scores + first + documents, mask=real, other=0.0).to(tl.float64)
    reward = tl.load(rewards + first + documents, mask=real, other=0.0).to(tl.float64)
    out = query.to(tl.int64) * count
    at = out * cutoff
    slope = tl.zeros([tile], tl.float64)
    bend, total = slope, tl.sum(slope)
    if begun:
        total += tl.load(sums + query)
        slope += tl.load(sums + n_queries + first + documents, mask=real, other=0.0)
        bend += tl.load(sums + n_queries + n_docs + first + documents, mask=real & wanted, other=0.0)
    for _ in range(count):
        rank = tl.load(ranks + first + documents, mask=real, other=0)
        placed = rank >= 0
        gap = tl.minimum(score - tl.load(log_lasts + out), 0.0)
        p = tl.exp(gap.to(scores.dtype.element_ty)).to(tl.float64)
        step = p * (reward * tl.load(drs + out) - tl.load(ris + out))
        own = at + tl.maximum(rank, 0) * count
        slope += tl.where(placed, tl.load(slopes + own, mask=real & placed, other=0.0), step)
        if wanted:
            apart = step + 2.0 * p * p * (tl.load(sums_b + out) - reward * tl.load(sums_a + out))
            bend += tl.where(placed, tl.load(bends + own, mask=real & placed, other=0.0), apart)
        total += tl.load(values + out)
        ranks += n_docs
        out += 1
        at += 1
    if ends:
        tl.store(gradient + first + documents, (slope / -samples).to(gradient.dtype.element_ty), mask=real)
        if wanted:
            tl.store(hessian + first + documents, (bend / -samples).to(hessian.dtype.element_ty), mask=real)
        if start == 0:
            tl.store(value + query, (total / -samples).to(value.dtype.element_ty))
    else:
        tl.store(sums + n_queries + first + documents, slope, mask=real)
        tl.store(sums + n_queries + n_docs + first + documents, bend, mask=real & wanted)
        if start == 0:
            tl.store(sums + query, total)


def plrank(lists: Any, scores: Tensor, arguments: Any, random: Random, out: Any) -> None:
    """Compute the loss and its derivatives: draw samples batch by batch, and average over them."""
    rewards, discounts, samples, by_race, draws, baseline = arguments
    race = Race(lists, scores, rewards, random, discounts.numel(), samples, draws)
    sampler = race if by_race else TableDraws(race)
    wanted = out.hessian.numel() > 0
    outputs = (out.value, out.gradient, out.hessian if wanted else out.gradient)
    tiles, batches = lists.tiles(_TILE), list(race.batches())
    n_sums = lists.n_queries + 2 * lists.n_docs if len(batches) > 1 else 0
    sums = torch.empty(n_sums, dtype=torch.float64, device=lists.device)
    for start, count in batches:
        placed, ranks, lefts = sampler.draw(start, count)
        pairs = lists.n_queries * count
        cells = pairs * race.cutoff
        by_rank, shared = sums.new_empty(4 * cells), sums.new_empty(6 * pairs)
        _look[(lists.n_queries, -(-count // _LANES))](
            lists.offsets, scores, rewards, discounts, placed, lefts, by_rank, shared, race.cutoff, count, cells, pairs,
            baseline, _LANES, num_warps=1,
        )  # fmt: skip
        _gather[(tiles[0].numel(),)](
            lists.offsets, *tiles, scores, rewards, ranks, by_rank, shared, sums, *outputs, race.cutoff, count, cells,
            pairs, samples, lists.n_queries, lists.n_docs, start > 0, start + count >= samples, wanted, _TILE,
        )  # fmt: skip
