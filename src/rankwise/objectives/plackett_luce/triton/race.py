"""Plackett-Luce rankings on a device: the exponential race of the CPU, from the same random numbers.

Each document has a time of arrival in every sample, and the first to arrive are placed: the same ranking as on the CPU
with ``sampler="race"``, in double precision too. Two steps:

1. ``_arrive``, for tiles of documents: minus the time of arrival of each, so that the highest key comes first.
2. ``_select``, for a list and some samples: the first to arrive, one after the other, and the mass of those left over.
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
from rankwise.base.device.launching import list_bounds, tile_bounds, triton_kernel
from rankwise.base.device.ragged import Ragged
from rankwise.base.device.random import uniform_pair
from rankwise.objectives.plackett_luce.cpu import draws
from rankwise.objectives.ragged import Random

ANTITHETIC, LATIN = tl.constexpr(draws.ANTITHETIC), tl.constexpr(draws.LATIN)
LARGEST_UNIFORM = tl.constexpr(draws.LARGEST_UNIFORM)
_NONE = tl.constexpr(-1)
_TILE, _ROWS, _WIDEST = 128, 4, 512
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
        if draws == ANTITHETIC:
            odd = 1.0 - even
        if draws == LATIN:
            u, v = uniform_pair(strata_low, strata_high, word, documents, nothing)
            start = tl.minimum((u * samples).to(tl.int64), samples - 1)
            stride = tl.load(strides + (v * (samples - 1)).to(tl.int64))
            largest = tl.full([tile], LARGEST_UNIFORM, tl.float64)
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
        return _strides(self.samples, self.lists.device) if self.draws == LATIN.value else self.random.queries

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
            lists.n_docs, lists.n_queries, some, _ROWS, lists.block(_WIDEST),
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
