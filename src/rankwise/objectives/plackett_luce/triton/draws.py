"""Plackett-Luce rankings on a device: both samplers of ``cpu/draws.py``, from the same random numbers.

The race gives each document a time of arrival in every sample, and places the first to arrive, in two steps:

1. ``_arrive``, for tiles of documents: minus the time of arrival of each, so that the highest key comes first.
2. ``_select``, for a list and some samples: the first to arrive, one after the other, and the mass of those left over.

The sequence draws rank by rank from a table of positions, and a ranking costs as much as it has ranks:

1. ``_tabulate``, for each list: positions, the highest in order, then those without a reward, then the others; masses,
   added up from the end, and whether the list is too steep for that, and left to the race.
2. ``_draw``, for a list and some samples: a number below the mass that is left falls into the interval of a document,
   which bisection finds; a document that is placed already is drawn again.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device import to_device
from rankwise.base.device.launching import list_bounds, program_list, tile_bounds, triton_kernel
from rankwise.base.device.order import ordered
from rankwise.base.device.ragged import Ragged
from rankwise.base.device.random import uniform_pair
from rankwise.objectives.plackett_luce.cpu import draws
from rankwise.objectives.ragged import Random

_ANTITHETIC, _LATIN = tl.constexpr(draws.ANTITHETIC), tl.constexpr(draws.LATIN)
_LARGEST_UNIFORM, _STEEP = tl.constexpr(draws.LARGEST_UNIFORM), tl.constexpr(draws.STEEP)
_NONE = tl.constexpr(-1)
_TILE, _ROWS, _LANES = 128, 4, 32
_WIDEST_RACE, _WIDEST_TABLE = 512, 4096
_SCRATCH = 2**25
"""Numbers that the scratch of a batch of samples may hold: 256 MiB."""


@triton_kernel
def _arrive(
    offsets, tile_queries, tile_starts, only, place_low, place_high, strata_low, strata_high, words, strides, scores,
    keys, ranks, first_sample, samples, count, n_docs, some: tl.constexpr, draws: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Clear the ranks of a tile of documents, and fill its keys: two samples share a block of the generator."""
    query, begin, first, size = tile_bounds(offsets, tile_queries, tile_starts)
    documents = begin + tl.arange(0, tile)
    real = documents < size
    for sample in range(tl.program_id(1), count, tl.num_programs(1)):
        target = ranks + tl.full([tile], sample, tl.int64) * n_docs + first + documents
        tl.store(target, tl.full([tile], _NONE, tl.int32), mask=real)
    if some:  # noqa: SIM102 (the outer one is decided when it is compiled)
        if tl.load(only + query) == 0:
            return
    word = tl.load(words + query)
    nothing = tl.zeros_like(documents)
    score = tl.load(scores + first + documents, mask=real, other=0.0).to(tl.float64)
    for number in range(tl.program_id(1), (count + 1) // 2, tl.num_programs(1)):
        pair = first_sample // 2 + number
        even, odd = uniform_pair(place_low, place_high, word, documents, nothing + pair)
        if draws == _ANTITHETIC:
            odd = 1.0 - even
        if draws == _LATIN:
            u, v = uniform_pair(strata_low, strata_high, word, documents, nothing)
            start = tl.minimum((u * samples).to(tl.int64), samples - 1)
            stride = tl.load(strides + (v * (samples - 1)).to(tl.int64))
            largest = tl.full([tile], _LARGEST_UNIFORM, tl.float64)
            even = tl.minimum(((start + 2 * pair * stride) % samples + even) / samples, largest)
            odd = tl.minimum(((start + (2 * pair + 1) * stride) % samples + odd) / samples, largest)
        target = keys + (nothing + 2 * number).to(tl.int64) * n_docs + first + documents
        tl.store(target, score - tl.log(-tl.log(even)), mask=real)
        tl.store(target + n_docs, score - tl.log(-tl.log(odd)), mask=real & (2 * number + 1 < count))


@triton.jit
def _left(documents, first, size, source, valid, bar, last, scores):
    """Return documents, whether there are such, whether they arrive after the last that is placed, and their scores."""
    document = documents[None, :]
    inside = document < size
    key = tl.load(source + document, mask=valid[:, None] & inside, other=float("-inf"))
    left = inside & ((key < bar[:, None]) | ((key == bar[:, None]) & (document > last[:, None])))
    return document, inside, left, tl.load(scores + first + document, mask=inside, other=0.0).to(tl.float64)


@triton_kernel
def _select(
    offsets, only, scores, rewards, keys, placed, ranks, lefts, cutoff, count, n_docs, n_queries,
    some: tl.constexpr, rows: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill the document of each rank, the rank of each document, the log of the mass left, and its mean reward.

    Results are ordered by list, rank and sample, so that threads with one sample each write side by side.
    """
    query = tl.program_id(0)
    if some:  # noqa: SIM102 (the outer one is decided when it is compiled)
        if tl.load(only + query) == 0:
            return
    first, size = list_bounds(offsets, query)
    head = tl.minimum(size, cutoff)
    for begin in range(tl.program_id(1) * rows, count, tl.num_programs(1) * rows):
        sample = (begin + tl.arange(0, rows)).to(tl.int64)
        valid = sample < count
        source = keys + (sample * n_docs + first)[:, None]
        lanes = tl.arange(0, block)
        bar = tl.full([rows], float("inf"), tl.float64)
        last = tl.full([rows], _NONE, tl.int32)
        for rank in range(head):
            top = tl.full([rows], float("-inf"), tl.float64)
            best = tl.full([rows], 2147483647, tl.int32)
            for start in range(0, size, block):
                document = (start + lanes)[None, :]
                key = tl.load(source + document, mask=valid[:, None] & (document < size), other=float("-inf"))
                # Equal keys, which are next to impossible, come in row order.
                later = (key < bar[:, None]) | ((key == bar[:, None]) & (document > last[:, None]))
                later = later & (document < size)
                block_top = tl.max(tl.where(later, key, float("-inf")), 1)
                at = tl.min(tl.where(later & (key == block_top[:, None]), document, 2147483647), 1)
                best = tl.where((block_top > top) | (best == 2147483647), at, best)
                top = tl.maximum(top, block_top)
            bar, last = top, best
            tl.store(placed + (query.to(tl.int64) * cutoff + rank) * count + sample, best, mask=valid)
            tl.store(ranks + sample * n_docs + first + best, rank, mask=valid)
        highest = tl.full([rows], float("-inf"), tl.float64)
        for start in range(0, size, block):
            document, inside, left, score = _left(start + lanes, first, size, source, valid, bar, last, scores)
            highest = tl.maximum(highest, tl.max(tl.where(left, score, float("-inf")), 1))
        shift = tl.where(head < size, highest, 0.0)
        mass = tl.zeros([rows], tl.float64)
        reward_mass = tl.zeros([rows], tl.float64)
        for start in range(0, size, block):
            document, inside, left, score = _left(start + lanes, first, size, source, valid, bar, last, scores)
            weight = tl.where(left, tl.exp(tl.minimum(score - shift[:, None], 0.0)), 0.0)
            mass += tl.sum(weight, 1)
            reward_mass += tl.sum(
                weight * tl.load(rewards + first + document, mask=inside, other=0.0).to(tl.float64), 1
            )
        alive = mass > 0.0
        out = query.to(tl.int64) * count + sample
        log_mass = tl.where(alive, shift + tl.log(tl.where(alive, mass, 1.0)), float("-inf"))
        tl.store(lefts + out, log_mass, mask=valid)
        means = lefts + n_queries.to(tl.int64) * count
        tl.store(means + out, reward_mass / tl.where(alive, mass, 1.0), mask=valid)


class Rankings(NamedTuple):
    """Some samples: the document of each rank, the rank of each document (−1: none), and the mass left over.

    ``placed`` has an element for each query, rank and sample, ``ranks`` for each sample and document. ``lefts`` has the
    log of the mass left for each query and sample, then its mean reward.
    """

    placed: Tensor
    ranks: Tensor
    lefts: Tensor


@dataclass(frozen=True)
class Race:
    """The sampler by an exponential race: draws rankings batch by batch."""

    lists: Ragged
    scores: Tensor
    rewards: Tensor
    random: Random
    cutoff: int
    samples: int
    draws: int

    def batches(self) -> Iterator[tuple[int, int]]:
        """Yield the first sample of each batch and its size, an even number: two share a block of the generator."""
        each = 2 * self.lists.n_docs + (5 * self.cutoff + 8) * self.lists.n_queries
        most = min(self.samples + self.samples % 2, max(2, _SCRATCH // max(each, 1) // 2 * 2))
        for start in range(0, self.samples, most):
            yield start, min(most, self.samples - start)

    @cached_property
    def strides(self) -> Tensor:
        """Strides through strata; any tensor if there are none."""
        return _strides(self.samples, self.lists.device) if self.draws == _LATIN.value else self.random.queries

    def sample(self, start: int, count: int, only: Tensor | None = None) -> Rankings:
        """Draw a batch; of all queries, or only of those that are marked."""
        lists, tiles = self.lists, self.lists.tiles(_TILE)
        some = only is not None
        arrivals = torch.empty(count * lists.n_docs, dtype=torch.float64, device=lists.device)
        ranks = torch.empty(count * lists.n_docs, dtype=torch.int32, device=lists.device)
        placed = ranks.new_empty(lists.n_queries * self.cutoff * count)
        lefts = arrivals.new_empty(2 * lists.n_queries * count)
        marks = ranks if only is None else only
        place, _, strata = self.random.keys  # as in ``draw_streams``
        # Most queries are not marked, and one program is enough to skip a query.
        _arrive[(tiles[0].numel(), 1 if some else -(-count // 2))](
            lists.offsets, *tiles, marks, *place, *strata, self.random.queries, self.strides, self.scores, arrivals,
            ranks, start, self.samples, count, lists.n_docs, some, self.draws, _TILE,
        )  # fmt: skip
        _select[(lists.n_queries, 1 if some else -(-count // _ROWS))](
            lists.offsets, marks, self.scores, self.rewards, arrivals, placed, ranks, lefts, self.cutoff, count,
            lists.n_docs, lists.n_queries, some, _ROWS, lists.block(_WIDEST_RACE),
        )  # fmt: skip
        return Rankings(placed, ranks, lefts)


@lru_cache(maxsize=64)
def _strides(samples: int, device: torch.device) -> Tensor:
    """Return a stride through strata for each number below ``samples − 1``, coprime to ``samples``."""
    steps = []
    for step in range(1, max(samples, 2)):
        while math.gcd(step, samples) > 1:
            step = step % samples + 1
        steps.append(step)
    return to_device(np.array(steps, np.int64), device)


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
        block = sample >> 1 if draws == _ANTITHETIC else sample
        even, odd = uniform_pair(place_low, place_high, word, nothing + rank // 2, block)
        u = tl.where(nothing + rank % 2 == 0, even, odd)
        if draws == _ANTITHETIC:
            u = tl.where(sample % 2 == 0, u, 1.0 - u)
        if draws == _LATIN:
            a, b = uniform_pair(strata_low, strata_high, word, nothing + rank, nothing)
            stratum = tl.minimum((a * samples).to(tl.int64), samples - 1)
            stride = tl.load(strides + (b * (samples - 1)).to(tl.int64))
            u = ((stratum + sample * stride) % samples + u) / samples
            u = tl.minimum(u, tl.full([lanes], _LARGEST_UNIFORM, tl.float64))
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
        block = lists.block(_WIDEST_TABLE)
        _tabulate[(lists.n_queries,)](
            lists.offsets, scores, rewards, ranks, by_rank, places, ranked, masses, merits, levels, steep,
            self.race.cutoff, block, num_warps=16 if block == _WIDEST_TABLE else 4,
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
