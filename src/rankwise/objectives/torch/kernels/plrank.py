"""PL-Rank on a device: rankings are drawn there, by the exponential race of the CPU, from the same random numbers.

Every sample gives each document a time of arrival, and the first to arrive are placed: the same ranking as the CPU's
with ``sampler="race"``. (``"sequence"`` draws other rankings from the same distribution.) The formulas are in
``rankwise.objectives.plackett_luce.plrank``. Five steps, over as many samples at once as the scratch holds:

1. ``_arrive``, for tiles of documents: the time of arrival of each, with its sign turned: the highest key comes first.
2. ``_select``, for a list and some samples: the first to arrive, one after the other, and the mass of those left over.
3. ``_look_back``, from the last rank to the first: chances, and the reward that follows each rank.
4. ``_look_ahead``, from the first rank to the last: what each placed document gets, and what all others share.
5. ``_gather``, for tiles of documents: the sum over samples, so that nothing is added to by two programs at once.

All of it is in double precision: masses of documents far apart, and differences of them, are what it is about.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.objectives.plackett_luce.draws import ANTITHETIC, LATIN
from rankwise.objectives.torch.kernels.arithmetic import log_add
from rankwise.objectives.torch.kernels.lists import DeviceLists, block_of, to_device
from rankwise.objectives.torch.kernels.placed import Call, drawn
from rankwise.objectives.torch.kernels.random import DeviceStream, uniform_pair

_ANTITHETIC, _LATIN = tl.constexpr(ANTITHETIC), tl.constexpr(LATIN)
_LARGEST_UNIFORM = tl.constexpr(1.0 - 2.0**-53)
_NONE = tl.constexpr(-1)
_TILE, _LANES, _ROWS, _WIDEST = 128, 32, 4, 512
_SCRATCH = 2**25
"""Numbers that the scratch of a batch of samples may hold: 256 MiB."""


@triton.jit
def _arrive(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, place_key, strata_key, words, strides, scores, keys,
    first_sample, samples, count, n_docs, draws: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Fill the keys of a tile of documents for two samples, which share a block of the generator."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    word = tl.load(words + query)
    pair = first_sample // 2 + tl.program_id(1)
    nothing = tl.zeros_like(documents)
    even, odd = uniform_pair(tl.load(place_key), tl.load(place_key + 1), word, documents, nothing + pair)
    if draws == _ANTITHETIC:
        odd = 1.0 - even
    if draws == _LATIN:
        u, v = uniform_pair(tl.load(strata_key), tl.load(strata_key + 1), word, documents, nothing)
        start = tl.minimum((u * samples).to(tl.int64), samples - 1)
        stride = tl.load(strides + (v * (samples - 1)).to(tl.int64))
        even = tl.minimum(((start + 2 * pair * stride) % samples + even) / samples, _LARGEST_UNIFORM)
        odd = tl.minimum(((start + (2 * pair + 1) * stride) % samples + odd) / samples, _LARGEST_UNIFORM)
    score = tl.load(scores + first + documents, mask=real, other=0.0).to(tl.float64)
    row = (2 * tl.program_id(1)).to(tl.int64)
    here = keys + row * n_docs + first + documents
    tl.store(here, score - tl.log(-tl.log(even)), mask=real)
    tl.store(here + n_docs, score - tl.log(-tl.log(odd)), mask=real & (nothing + row + 1 < count))


@triton.jit
def _select(  # type: ignore[no-untyped-def]
    offsets, scores, worths, keys, placed, ranks, log_lefts, means, cutoff, count, n_queries, n_docs,
    rows: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Fill which document each rank gets and which rank each document, the log of what is left, and its mean reward."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    head = tl.minimum(size, cutoff)
    sample = (tl.program_id(1) * rows + tl.arange(0, rows)).to(tl.int64)
    wanted = sample < count
    source = keys + (sample * n_docs + first)[:, None]
    lanes = tl.arange(0, block)
    bar = tl.full([rows], float("inf"), tl.float64)
    last = tl.full([rows], _NONE, tl.int32)
    for rank in range(head):
        top = tl.full([rows], float("-inf"), tl.float64)
        best = tl.full([rows], 2147483647, tl.int32)
        for begin in range(0, size, block):
            document = (begin + lanes)[None, :]
            key = tl.load(source + document, mask=wanted[:, None] & (document < size), other=float("-inf"))
            # Equal keys, as good as impossible, come in the order of rows.
            later = (key < bar[:, None]) | ((key == bar[:, None]) & (document > last[:, None]))
            later = later & (document < size)
            here = tl.max(tl.where(later, key, float("-inf")), 1)
            at = tl.min(tl.where(later & (key == here[:, None]), document, 2147483647), 1)
            best = tl.where((here > top) | (best == 2147483647), at, best)
            top = tl.maximum(top, here)
        bar, last = top, best
        tl.store(placed + (sample * n_queries + query) * cutoff + rank, best, mask=wanted)
        tl.store(ranks + sample * n_docs + first + best, rank, mask=wanted)
    highest = tl.full([rows], float("-inf"), tl.float64)
    for begin in range(0, size, block):
        document = (begin + lanes)[None, :]
        inside = document < size
        key = tl.load(source + document, mask=wanted[:, None] & inside, other=float("-inf"))
        left = inside & ((key < bar[:, None]) | ((key == bar[:, None]) & (document > last[:, None])))
        score = tl.load(scores + first + document, mask=inside, other=0.0).to(tl.float64)
        highest = tl.maximum(highest, tl.max(tl.where(left, score, float("-inf")), 1))
    shift = tl.where(head < size, highest, 0.0)
    mass = tl.zeros([rows], tl.float64)
    good = tl.zeros([rows], tl.float64)
    for begin in range(0, size, block):
        document = (begin + lanes)[None, :]
        inside = document < size
        key = tl.load(source + document, mask=wanted[:, None] & inside, other=float("-inf"))
        left = inside & ((key < bar[:, None]) | ((key == bar[:, None]) & (document > last[:, None])))
        score = tl.load(scores + first + document, mask=inside, other=0.0).to(tl.float64)
        weight = tl.where(left, tl.exp(tl.minimum(score - shift[:, None], 0.0)), 0.0)
        mass += tl.sum(weight, 1)
        good += tl.sum(weight * tl.load(worths + first + document, mask=inside, other=0.0).to(tl.float64), 1)
    some = mass > 0.0
    out = sample * n_queries + query
    log_mass = tl.where(some, shift + tl.log(tl.where(some, mass, 1.0)), float("-inf"))
    tl.store(log_lefts + out, log_mass, mask=wanted)
    tl.store(means + out, good / tl.where(some, mass, 1.0), mask=wanted)


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


class Rankings(NamedTuple):
    """Some samples: which document each rank gets, which rank each document (−1: none), and what is left over."""

    placed: Tensor
    ranks: Tensor
    log_lefts: Tensor
    means: Tensor


@dataclass(frozen=True)
class Race:
    """What rankings are drawn with, batch by batch."""

    lists: DeviceLists
    scores: Tensor
    worths: Tensor
    random: DeviceStream
    cutoff: int
    samples: int
    draws: int

    def batches(self) -> Iterator[tuple[int, int]]:
        """The first sample of each batch and how many it has, an even number: two share the generator's blocks."""
        each = 2 * self.lists.n_docs + (5 * self.cutoff + 8) * self.lists.n_queries
        most = min(self.samples + self.samples % 2, max(2, _SCRATCH // max(each, 1) // 2 * 2))
        for start in range(0, self.samples, most):
            yield start, min(most, self.samples - start)

    @cached_property
    def _drawn_with(self) -> tuple[Tensor, ...]:
        strides = to_device(_strides(self.samples), self.lists.device)
        return self.random.key("place"), self.random.key("strata"), self.random.queries, strides

    def draw(self, start: int, count: int) -> Rankings:
        """Draw a batch."""
        lists, tiles = self.lists, self.lists.tiles(_TILE)
        arrivals = torch.empty((count, lists.n_docs), dtype=torch.float64, device=lists.device)
        ranks = torch.full((count, lists.n_docs), -1, dtype=torch.int32, device=lists.device)
        placed = torch.empty((count, lists.n_queries, self.cutoff), dtype=torch.int32, device=lists.device)
        log_lefts, means = arrivals.new_empty((2, count, lists.n_queries))
        _arrive[(tiles[0].numel(), -(-count // 2))](
            lists.offsets, *tiles, *self._drawn_with, self.scores, arrivals, start, self.samples, count, lists.n_docs,
            draws=self.draws, tile=_TILE, num_warps=4,
        )  # fmt: skip
        block = block_of(lists, _WIDEST)
        _select[(lists.n_queries, -(-count // _ROWS))](
            lists.offsets, self.scores, self.worths, arrivals, placed, ranks, log_lefts, means, self.cutoff, count,
            lists.n_queries, lists.n_docs, rows=_ROWS, block=block, num_warps=4,
        )  # fmt: skip
        return Rankings(placed, ranks, log_lefts, means)


def launch(call: Call) -> None:
    """Draw samples batch by batch, and average what they say."""
    (worths,), (thetas, samples, _, draws, baseline) = call.per_document, call.settings
    lists = call.lists
    race = Race(lists, call.scores, worths, drawn(call), int(thetas.numel()), samples, draws)
    wanted = call.hessian is not None
    values = torch.zeros(lists.n_queries, dtype=torch.float64, device=lists.device)
    sums = torch.zeros((2 if wanted else 1, lists.n_docs), dtype=torch.float64, device=lists.device)
    tiles = lists.tiles(_TILE)
    for start, count in race.batches():
        placed, ranks, log_lefts, means = race.draw(start, count)
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


def _strides(samples: int) -> NDArray[np.int64]:
    """For each number below ``samples − 1``: the stride through strata that it stands for, coprime to their number."""
    steps = []
    for step in range(1, max(samples, 2)):
        while math.gcd(step, samples) > 1:
            step = step % samples + 1
        steps.append(step)
    return np.array(steps, np.int64)
