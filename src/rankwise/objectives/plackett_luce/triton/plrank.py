"""PL-Rank on a device: rankings are drawn there, the same as on the CPU (``draws.py``).

The formulas are in ``cpu/plrank.py``. Two steps, for as many samples at once as the scratch memory holds:

1. ``_rank_derivatives``, one thread for each sample of a list: from the last rank to the first, chances and the reward
   that follows each rank; then from the first to the last, the derivatives of placed documents, and the sums that all
   others share.
2. ``_gather``, for tiles of documents: the sum over samples. No two programs add to the same element.

Both compute in double precision, as masses of documents far apart are subtracted. Only the chances of documents that
are not placed, from which nothing is subtracted, have the precision of the scores.
"""

from typing import Any

import torch
import triton.language as tl
from torch import Tensor

from rankwise.base.device.arithmetic import log_add
from rankwise.base.device.launching import program_list, tile_bounds, triton_kernel
from rankwise.objectives.device import DeviceLists
from rankwise.objectives.plackett_luce.triton.draws import Race, TableDraws
from rankwise.objectives.ragged import Derivatives, Random

_TILE, _LANES = 128, 32


@triton_kernel
def _rank_derivatives(
    offsets, scores, rewards, discounts, placed, lefts, by_rank, shared, cutoff, count, cells, pairs,
    baseline: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    """Fill the gradient and the Hessian of each rank's document, in the first two parts of ``by_rank``.

    ``lefts``, ``by_rank`` and ``shared`` are columns one after another: ``pairs`` of a query and a sample, and
    ``cells`` of such a pair and a rank. The paper's DN, DR, RI and the two sums of the Hessian are multiplied by Z_k
    (the Hessian's by Z_k²).
    """
    afters, onwards, chances, keeps = by_rank, by_rank + cells, by_rank + 2 * cells, by_rank + 3 * cells
    log_lasts, values, drs, ris = shared, shared + pairs, shared + 2 * pairs, shared + 3 * pairs
    sums_a, sums_b = shared + 4 * pairs, shared + 5 * pairs
    log_lefts, means = lefts, lefts + pairs
    query, first, size = program_list(offsets)
    head = tl.minimum(size, cutoff)
    sample = (tl.program_id(1) * lanes + tl.arange(0, lanes)).to(tl.int64)
    valid = sample < count
    out = query.to(tl.int64) * count + sample
    ranks = query.to(tl.int64) * cutoff * count + sample
    log_left = tl.load(log_lefts + out, mask=valid, other=0.0)
    mean = tl.load(means + out, mask=valid, other=0.0)
    log_last = log_left
    nothing = tl.zeros([lanes], tl.float64)
    to_come, to_weigh, total = nothing, nothing, nothing
    for step in range(head):
        rank = head - 1 - step
        at = ranks + rank * count
        document = tl.load(placed + at, mask=valid, other=0)
        score = tl.load(scores + first + document, mask=valid, other=0.0).to(tl.float64)
        reward = tl.load(rewards + first + document, mask=valid, other=0.0).to(tl.float64)
        discount = tl.load(discounts + rank).to(tl.float64)
        both = log_add(score, log_left)
        chance, keep = tl.exp(score - both), tl.exp(log_left - both)
        log_left = both
        log_last = tl.where(step == 0, both, log_last)
        mean = chance * reward + keep * mean
        after, expected = to_come, discount * reward
        if baseline:
            after, expected = to_come - to_weigh * mean, discount * mean
        tl.store(chances + at, chance, mask=valid)
        tl.store(keeps + at, keep, mask=valid)
        tl.store(afters + at, after, mask=valid)
        tl.store(onwards + at, after + expected, mask=valid)
        total += expected
        to_come += discount * reward
        to_weigh += discount
    tl.store(log_lasts + out, log_last, mask=valid)
    tl.store(values + out, total, mask=valid)
    tl.debug_barrier()
    dn, dr, ri, a, b, keep_before = nothing, nothing, nothing, nothing, nothing, nothing
    for rank in range(head):
        at = ranks + rank * count
        reward = tl.load(rewards + first + tl.load(placed + at, mask=valid, other=0), mask=valid, other=0.0)
        reward, discount = reward.to(tl.float64), tl.load(discounts + rank).to(tl.float64)
        p = tl.load(chances + at, mask=valid, other=0.0)
        after = tl.load(afters + at, mask=valid, other=0.0)
        onward = tl.load(onwards + at, mask=valid, other=0.0)
        dn = 1.0 + keep_before * dn
        dr = discount + keep_before * dr
        ri = onward + keep_before * ri
        a = discount * dn + keep_before * keep_before * a
        b = onward * dn + keep_before * keep_before * b
        keep_before = tl.load(keeps + at, mask=valid, other=0.0)
        gradient_term = p * (reward * dr - ri)
        tl.store(afters + at, after + gradient_term, mask=valid)
        hessian_term = after * (1.0 - 2.0 * p * dn) + gradient_term + 2.0 * p * p * (b - reward * a)
        tl.store(onwards + at, hessian_term, mask=valid)
    tl.store(drs + out, dr, mask=valid)
    tl.store(ris + out, ri, mask=valid)
    tl.store(sums_a + out, a, mask=valid)
    tl.store(sums_b + out, b, mask=valid)


@triton_kernel
def _gather(
    offsets, tile_queries, tile_starts, scores, rewards, ranks, by_rank, shared, sums, value, gradient, hessian, cutoff,
    count, cells, pairs, samples, n_queries, n_docs, begun: tl.constexpr, ends: tl.constexpr,
    has_hessian: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add up the derivatives of each document of a tile over all samples, whether they place it or not.

    ``begun``: ``sums`` hold those of the batches before this one. ``ends``: this is the last, which fills the means.
    """
    rank_gradients, rank_hessians = by_rank, by_rank + cells
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
    gradient_sum = tl.zeros([tile], tl.float64)
    hessian_sum, total = gradient_sum, tl.sum(gradient_sum)
    if begun:
        total += tl.load(sums + query)
        gradient_sum += tl.load(sums + n_queries + first + documents, mask=real, other=0.0)
        hessian_sum += tl.load(sums + n_queries + n_docs + first + documents, mask=real & has_hessian, other=0.0)
    for _ in range(count):
        rank = tl.load(ranks + first + documents, mask=real, other=0)
        placed = rank >= 0
        gap = tl.minimum(score - tl.load(log_lasts + out), 0.0)
        p = tl.exp(gap.to(scores.dtype.element_ty)).to(tl.float64)
        step = p * (reward * tl.load(drs + out) - tl.load(ris + out))
        cell = at + tl.maximum(rank, 0) * count
        gradient_sum += tl.where(placed, tl.load(rank_gradients + cell, mask=real & placed, other=0.0), step)
        if has_hessian:
            apart = step + 2.0 * p * p * (tl.load(sums_b + out) - reward * tl.load(sums_a + out))
            hessian_sum += tl.where(placed, tl.load(rank_hessians + cell, mask=real & placed, other=0.0), apart)
        total += tl.load(values + out)
        ranks += n_docs
        out += 1
        at += 1
    if ends:
        tl.store(gradient + first + documents, (gradient_sum / -samples).to(gradient.dtype.element_ty), mask=real)
        if has_hessian:
            tl.store(hessian + first + documents, (hessian_sum / -samples).to(hessian.dtype.element_ty), mask=real)
        if start == 0:
            tl.store(value + query, (total / -samples).to(value.dtype.element_ty))
    else:
        tl.store(sums + n_queries + first + documents, gradient_sum, mask=real)
        tl.store(sums + n_queries + n_docs + first + documents, hessian_sum, mask=real & has_hessian)
        if start == 0:
            tl.store(sums + query, total)


def plrank(lists: DeviceLists, scores: Tensor, arguments: Any, random: Random, out: Derivatives) -> None:
    """Compute the loss and its derivatives: draw samples batch by batch, and average over them."""
    rewards, discounts, samples, by_race, draws, baseline = arguments
    race = Race(lists, scores, rewards, random, discounts.numel(), samples, draws)
    sampler = race if by_race else TableDraws(race)
    has_hessian = out.hessian.numel() > 0
    outputs = (out.value, out.gradient, out.hessian if has_hessian else out.gradient)
    tiles, batches = lists.tiles(_TILE), list(race.batches())
    n_sums = lists.n_queries + 2 * lists.n_docs if len(batches) > 1 else 0
    sums = torch.empty(n_sums, dtype=torch.float64, device=lists.device)
    for start, count in batches:
        placed, ranks, lefts = sampler.sample(start, count)
        pairs = lists.n_queries * count
        cells = pairs * race.cutoff
        by_rank, shared = sums.new_empty(4 * cells), sums.new_empty(6 * pairs)
        _rank_derivatives[(lists.n_queries, -(-count // _LANES))](
            lists.offsets, scores, rewards, discounts, placed, lefts, by_rank, shared, race.cutoff, count, cells, pairs,
            baseline, _LANES, num_warps=1,
        )  # fmt: skip
        _gather[(tiles[0].numel(),)](
            lists.offsets, *tiles, scores, rewards, ranks, by_rank, shared, sums, *outputs, race.cutoff, count, cells,
            pairs, samples, lists.n_queries, lists.n_docs, start > 0, start + count >= samples, has_hessian, _TILE,
        )  # fmt: skip
