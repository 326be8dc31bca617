"""PL-Rank on a device: rankings are drawn there, the same as on the CPU (``race.py``, ``sequence.py``).

The formulas are in ``rankwise.objectives.plackett_luce.plrank``. Three steps, over as many samples at once as the
scratch holds:

1. ``_look_back``, from the last rank to the first: chances, and the reward that follows each rank.
2. ``_look_ahead``, from the first rank to the last: what each placed document gets, and what all others share.
3. ``_gather``, for tiles of documents: the sum over samples, so that nothing is added to by two programs at once.

All of it is in double precision: masses of documents far apart, and differences of them, are what it is about.
"""

import torch
import triton
import triton.language as tl

from rankwise.objectives.torch.kernels.arithmetic import log_add
from rankwise.objectives.torch.kernels.placed import Call, drawn
from rankwise.objectives.torch.kernels.race import Race
from rankwise.objectives.torch.kernels.sequence import Sequence

_TILE, _LANES = 128, 32


@triton.jit
def _look_back(  # type: ignore[no-untyped-def]
    offsets, scores, worths, thetas, placed, log_lefts, means, chances, keeps, afters, onwards, log_lasts, values,
    cutoff, count, n_queries, baseline: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    """Fill chances, shares that are left, and the rewards after each rank and from it on, for samples of a list."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    head = tl.minimum(tl.load(offsets + query + 1) - first, cutoff)
    sample = (tl.program_id(1) * lanes + tl.arange(0, lanes)).to(tl.int64)
    wanted = sample < count
    out = sample * n_queries + query
    log_left = tl.load(log_lefts + out, mask=wanted, other=0.0)
    mean = tl.load(means + out, mask=wanted, other=0.0)
    log_last = log_left
    to_come = tl.zeros([lanes], tl.float64)
    to_weigh, total = to_come, to_come
    for step in range(head):
        rank = head - 1 - step
        at = out * cutoff + rank
        document = tl.load(placed + at, mask=wanted, other=0)
        score = tl.load(scores + first + document, mask=wanted, other=0.0).to(tl.float64)
        reward = tl.load(worths + first + document, mask=wanted, other=0.0).to(tl.float64)
        theta = tl.load(thetas + rank).to(tl.float64)
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


@triton.jit
def _look_ahead(  # type: ignore[no-untyped-def]
    offsets, worths, thetas, placed, chances, keeps, afters, onwards, drs, ris, sums_a, sums_b,
    cutoff, count, n_queries, lanes: tl.constexpr,
):  # fmt: skip
    """Put what each placed document gets into the places of ``afters`` and ``onwards``: to its gradient, its Hessian.

    The paper's DN, DR, RI and the two sums of the Hessian are kept times Z_k (the Hessian's times Z_k²).
    """
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    head = tl.minimum(tl.load(offsets + query + 1) - first, cutoff)
    sample = (tl.program_id(1) * lanes + tl.arange(0, lanes)).to(tl.int64)
    wanted = sample < count
    out = sample * n_queries + query
    dn = tl.zeros([lanes], tl.float64)
    dr, ri, a, b, kept = dn, dn, dn, dn, dn
    for rank in range(head):
        at = out * cutoff + rank
        reward = tl.load(worths + first + tl.load(placed + at, mask=wanted, other=0), mask=wanted, other=0.0)
        reward, theta = reward.to(tl.float64), tl.load(thetas + rank).to(tl.float64)
        p = tl.load(chances + at, mask=wanted, other=0.0)
        after = tl.load(afters + at, mask=wanted, other=0.0)
        onward = tl.load(onwards + at, mask=wanted, other=0.0)
        dn = 1.0 + kept * dn
        dr = theta + kept * dr
        ri = onward + kept * ri
        a = theta * dn + kept * kept * a
        b = onward * dn + kept * kept * b
        kept = tl.load(keeps + at, mask=wanted, other=0.0)
        step = p * (reward * dr - ri)
        tl.store(afters + at, after + step, mask=wanted)
        bend = after * (1.0 - 2.0 * p * dn) + step + 2.0 * p * p * (b - reward * a)
        tl.store(onwards + at, bend, mask=wanted)
    tl.store(drs + out, dr, mask=wanted)
    tl.store(ris + out, ri, mask=wanted)
    tl.store(sums_a + out, a, mask=wanted)
    tl.store(sums_b + out, b, mask=wanted)


@triton.jit
def _gather(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, scores, worths, ranks, slopes, bends, log_lasts, drs, ris, sums_a, sums_b,
    gradients, hessians, cutoff, count, n_queries, n_docs, wanted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add to each document of a tile what it gets from every sample, placed there or not."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    score = tl.load(scores + first + documents, mask=real, other=0.0).to(tl.float64)
    reward = tl.load(worths + first + documents, mask=real, other=0.0).to(tl.float64)
    slope = tl.load(gradients + first + documents, mask=real, other=0.0)
    bend = tl.zeros([tile], tl.float64)
    if wanted:
        bend = tl.load(hessians + first + documents, mask=real, other=0.0)
    for number in range(count):
        sample = tl.full([tile], number, tl.int64)
        out = sample * n_queries + query
        rank = tl.load(ranks + sample * n_docs + first + documents, mask=real, other=0)
        placed = rank >= 0
        p = tl.exp(tl.minimum(score - tl.load(log_lasts + out), 0.0))
        step = p * (reward * tl.load(drs + out) - tl.load(ris + out))
        at = out * cutoff + tl.maximum(rank, 0)
        slope += tl.where(placed, tl.load(slopes + at, mask=real & placed, other=0.0), step)
        if wanted:
            apart = step + 2.0 * p * p * (tl.load(sums_b + out) - reward * tl.load(sums_a + out))
            bend += tl.where(placed, tl.load(bends + at, mask=real & placed, other=0.0), apart)
    tl.store(gradients + first + documents, slope, mask=real)
    if wanted:
        tl.store(hessians + first + documents, bend, mask=real)


def launch(call: Call) -> None:
    """Draw samples batch by batch, and average what they say."""
    (worths,), (thetas, samples, by_race, draws, baseline) = call.per_document, call.settings
    lists = call.lists
    race = Race(lists, call.scores, worths, drawn(call), int(thetas.numel()), samples, draws)
    sampler = race if by_race else Sequence(race)
    wanted = call.hessian is not None
    values = torch.zeros(lists.n_queries, dtype=torch.float64, device=lists.device)
    sums = torch.zeros((2 if wanted else 1, lists.n_docs), dtype=torch.float64, device=lists.device)
    tiles = lists.tiles(_TILE)
    for start, count in race.batches():
        placed, ranks, log_lefts, means = sampler.draw(start, count)
        chances, keeps, afters, onwards = values.new_empty((4, count, lists.n_queries, race.cutoff))
        log_lasts, totals, *shared = values.new_empty((6, count, lists.n_queries))
        grid, sizes = (lists.n_queries, -(-count // _LANES)), (race.cutoff, count, lists.n_queries)
        _look_back[grid](
            lists.offsets, call.scores, worths, thetas, placed, log_lefts, means, chances, keeps, afters, onwards,
            log_lasts, totals, *sizes, baseline=baseline, lanes=_LANES, num_warps=1,
        )  # fmt: skip
        _look_ahead[grid](
            lists.offsets, worths, thetas, placed, chances, keeps, afters, onwards, *shared, *sizes,
            lanes=_LANES, num_warps=1,
        )  # fmt: skip
        _gather[(tiles[0].numel(),)](
            lists.offsets, *tiles, call.scores, worths, ranks, afters, onwards, log_lasts, *shared, sums[0], sums[-1],
            *sizes, lists.n_docs, wanted=wanted, tile=_TILE, num_warps=4,
        )  # fmt: skip
        values += totals.sum(0)
    call.value.copy_(values / -samples)
    call.gradient.copy_(sums[0] / -samples)
    if call.hessian is not None:
        call.hessian.copy_(sums[1] / -samples)
