"""Plackett-Luce rankings on a device, rank by rank from a table: the sampler ``sequence``, draw by draw as the CPU's.

The table is that of ``cpu/draws.py``: documents in positions, the highest first, with the mass from each position on.
Three steps, in double precision:

1. Documents are ranked.
2. ``_tabulate``, for each list: positions, the highest in order, then those without a reward, then the others; masses,
   added up from the end, and whether the list is too steep for that.
3. ``_draw``, for a list and some samples: a number below the mass that is left falls into the interval of a document,
   which bisection finds; a document that is placed already is drawn again.

A ranking costs as much as it has ranks, whatever the length of the list. Lists too steep for a table are left to the
race.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
import triton.language as tl
from torch import Tensor

from rankwise.base.device.launching import list_bounds, program_list, triton_kernel
from rankwise.base.device.order import ordered
from rankwise.base.device.random import uniform_pair
from rankwise.objectives.plackett_luce.cpu.draws import STEEP
from rankwise.objectives.plackett_luce.triton.race import ANTITHETIC, LARGEST_UNIFORM, LATIN, Race, Rankings

_STEEP = tl.constexpr(STEEP)
_LANES, _WIDEST = 32, 4096


@triton_kernel
def _tabulate(
    offsets, scores, rewards, ranks, by_rank, places, ranked, masses, merits, levels, steep, cutoff, block: tl.constexpr
):
    """Fill positions, and mass and merit, the mass times the reward, from each position to the end.

    Weights are e^(score − level).
    """
    query, first, size = program_list(offsets)
    head = tl.minimum(size, cutoff)
    level = tl.load(scores + first + tl.load(by_rank + first + head - 1)).to(tl.float64)
    highest = tl.load(scores + first + tl.load(by_rank + first)).to(tl.float64)
    tl.store(levels + query, level)
    tl.store(steep + query, (highest - level > _STEEP).to(tl.int32))
    barren, paid = head * 0, head * 0
    for start in range(0, size, block):
        row = start + tl.arange(0, block)
        inside = row < size
        rank = tl.load(ranks + first + row, mask=inside, other=0)
        rewarded = tl.load(rewards + first + row, mask=inside, other=0.0) != 0.0
        without = (inside & (rank >= head) & (rewarded == 0)).to(tl.int32)
        with_one = (inside & (rank >= head) & rewarded).to(tl.int32)
        tail = tl.where(rewarded, size - paid - tl.cumsum(with_one), head + barren + tl.cumsum(without) - 1)
        place = tl.where(rank < head, rank, tail)
        tl.store(places + first + row, place, mask=inside)
        tl.store(ranked + first + place, row, mask=inside)
        barren += tl.sum(without)
        paid += tl.sum(with_one)
    tl.debug_barrier()
    mass = tl.full([], 0.0, tl.float64)
    merit = tl.full([], 0.0, tl.float64)
    for start in range(0, size, block):
        position = size - 1 - start - tl.arange(0, block)
        inside = position >= 0
        row = tl.load(ranked + first + position, mask=inside, other=0)
        score = tl.load(scores + first + row, mask=inside, other=0.0).to(tl.float64)
        weight = tl.where(inside, tl.exp(tl.minimum(score - level, _STEEP)), 0.0)
        reward_mass = weight * tl.load(rewards + first + row, mask=inside, other=0.0).to(tl.float64)
        tl.store(masses + first + position, mass + tl.cumsum(weight, 0), mask=inside)
        tl.store(merits + first + position, merit + tl.cumsum(reward_mass, 0), mask=inside)
        mass += tl.sum(weight)
        merit += tl.sum(reward_mass)


@triton_kernel
def _draw(
    offsets, scores, rewards, places, ranked, masses, merits, levels, steep, place_low, place_high, retry_low,
    retry_high, strata_low, strata_high, words, strides, placed, ranks, lefts, first_sample, samples, cutoff,
    count, n_docs, n_queries, steps, draws: tl.constexpr, lanes: tl.constexpr,
):  # fmt: skip
    """Fill the document of each rank, the rank of each document, the log of the mass left, and its mean reward."""
    query = tl.program_id(0)
    if tl.load(steep + query) != 0:
        return
    first, size = list_bounds(offsets, query)
    head = tl.minimum(size, cutoff)
    word = tl.load(words + query)
    batch_sample = (tl.program_id(1) * lanes + tl.arange(0, lanes)).to(tl.int64)
    valid = batch_sample < count
    sample = batch_sample + first_sample
    sample_ranks, out = ranks + batch_sample * n_docs + first, query.to(tl.int64) * count + batch_sample
    chosen = placed + query.to(tl.int64) * cutoff * count + batch_sample
    nothing = tl.zeros([lanes], tl.int32)
    top, retries = nothing, nothing
    for rank in range(head):
        block = sample >> 1 if draws == ANTITHETIC else sample
        even, odd = uniform_pair(place_low, place_high, word, nothing + rank // 2, block)
        u = tl.where(nothing + rank % 2 == 0, even, odd)
        if draws == ANTITHETIC:
            u = tl.where(sample % 2 == 0, u, 1.0 - u)
        if draws == LATIN:
            a, b = uniform_pair(strata_low, strata_high, word, nothing + rank, nothing)
            stratum = tl.minimum((a * samples).to(tl.int64), samples - 1)
            stride = tl.load(strides + (b * (samples - 1)).to(tl.int64))
            u = ((stratum + sample * stride) % samples + u) / samples
            u = tl.minimum(u, tl.full([lanes], LARGEST_UNIFORM, tl.float64))
        position = top
        pending = tl.where(valid, 1, 0) * tl.where(rank < size - 1, 1, 0)  # else only the top is left
        while tl.max(pending) > 0:
            x = u * tl.load(masses + first + top, mask=pending > 0, other=0.0)
            low, high = top, nothing + size
            for _ in range(steps):
                middle = (low + high) // 2
                right = tl.load(masses + first + middle, mask=(pending > 0) & (middle < size), other=0.0) > x
                low, high = tl.where(right, middle, low), tl.where(right, high, middle)
            position = tl.where(pending > 0, low, position)
            row = tl.load(ranked + first + position, mask=pending > 0, other=0)
            pending = tl.where(tl.load(sample_ranks + row, mask=pending > 0, other=-1) >= 0, 1, 0)
            fresh, _ = uniform_pair(retry_low, retry_high, word, retries, sample)
            u = tl.where(pending > 0, fresh, u)
            retries += pending
        row = tl.load(ranked + first + position, mask=valid, other=0)
        tl.store(chosen + rank * count, row, mask=valid)
        tl.store(sample_ranks + row, nothing + rank, mask=valid)
        moving = tl.where(valid & (position == top), 1, 0)
        while tl.max(moving) > 0:
            top += moving
            row = tl.load(ranked + first + top, mask=(moving > 0) & (top < size), other=0)
            placed_rank = tl.load(sample_ranks + row, mask=(moving > 0) & (top < size), other=-1)
            moving = tl.where(placed_rank >= 0, 1, 0)
    # Documents placed behind the first one left weigh less than it, so that the subtraction loses no digits.
    level = tl.load(levels + query)
    left = tl.load(masses + first + top, mask=valid & (top < size), other=0.0)
    reward_mass = tl.load(merits + first + top, mask=valid & (top < size), other=0.0)
    for rank in range(head):
        row = tl.load(chosen + rank * count, mask=valid, other=0)
        behind = valid & (tl.load(places + first + row, mask=valid, other=0) > top)
        score = tl.load(scores + first + row, mask=behind, other=0.0).to(tl.float64)
        weight = tl.where(behind, tl.exp(tl.minimum(score - level, _STEEP)), 0.0)
        left -= weight
        reward_mass -= weight * tl.load(rewards + first + row, mask=behind, other=0.0).to(tl.float64)
    some = (left > 0.0) & (nothing + head < size)
    safe = tl.where(some, left, 1.0)
    tl.store(lefts + out, tl.where(some, level + tl.log(safe), float("-inf")), mask=valid)
    means = lefts + n_queries.to(tl.int64) * count
    tl.store(means + out, tl.where(some, reward_mass / safe, 0.0), mask=valid)


@dataclass(frozen=True)
class TableDraws:
    """The sampler by a table; queries too steep for one are drawn by the race."""

    race: Race

    @cached_property
    def _table(self) -> tuple[Tensor, ...]:
        lists, scores, rewards = self.race.lists, self.race.scores, self.race.rewards
        (ranks,), (by_rank,) = ordered(lists, scores[None])
        places, ranked = ranks.new_empty((2, lists.n_docs)).unbind()
        masses, merits = scores.new_empty((2, lists.n_docs), dtype=torch.float64).unbind()
        levels, steep = masses.new_empty(lists.n_queries), ranks.new_empty(lists.n_queries)
        block = lists.block(_WIDEST)
        _tabulate[(lists.n_queries,)](
            lists.offsets, scores, rewards, ranks, by_rank, places, ranked, masses, merits, levels, steep,
            self.race.cutoff, block, num_warps=16 if block == _WIDEST else 4,
        )  # fmt: skip
        return places, ranked, masses, merits, levels, steep

    def sample(self, start: int, count: int) -> Rankings:
        """Draw a batch."""
        race, lists = self.race, self.race.lists
        rankings = race.sample(start, count, only=self._table[-1])
        place, retry, strata = race.random.keys  # as in ``draw_streams``
        # One warp with a thread for each sample: a thread sees its own writes at once.
        _draw[(lists.n_queries, -(-count // _LANES))](
            lists.offsets, race.scores, race.rewards, *self._table, *place, *retry, *strata, race.random.queries,
            race.strides, *rankings, start, race.samples, race.cutoff, count, lists.n_docs, lists.n_queries,
            lists.longest.bit_length(), race.draws, _LANES, num_warps=1,
        )  # fmt: skip
        return rankings
