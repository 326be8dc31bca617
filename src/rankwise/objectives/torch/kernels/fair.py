"""Fair exposure on a device: the prices of exposure come from rankings that are drawn there."""

import dataclasses
from dataclasses import dataclass
from typing import Self

import torch
import triton.language as tl
from torch import Tensor

from rankwise import check
from rankwise.objectives.base import drawing
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Place, Placed, PlacedKernel
from rankwise.objectives.torch.kernels.race import Race
from rankwise.objectives.torch.kernels.random import DeviceStream
from rankwise.objectives.torch.kernels.sequence import Sequence
from rankwise.objectives.torch.kernels.wrappers import added
from rankwise.objectives.wrappers.fair import PreparedFair
from rankwise.stream import Stream

_TILE, _STEP = 64, 64


@launched
def _expose(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, ranks, thetas, exposures, count, n_docs, tile: tl.constexpr,
):  # fmt: skip
    """Add to each document of a tile the weights of the ranks that some samples give it."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    exposure = tl.load(exposures + first + documents, mask=real, other=0.0)
    for number in range(count):
        sample = tl.full([tile], number, tl.int64)
        rank = tl.load(ranks + sample * n_docs + first + documents, mask=real, other=-1)
        exposure += tl.load(thetas + tl.maximum(rank, 0), mask=rank >= 0, other=0.0).to(tl.float64)
    tl.store(exposures + first + documents, exposure, mask=real)


@launched
def _price(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, numbers, merits, thetas, exposures, rewards, cutoff, samples,
    tile: tl.constexpr, step: tl.constexpr,
):  # fmt: skip
    """Fill minus the price of each document's exposure: ``_price`` of the CPU."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < size
    number = tl.load(numbers + first + documents, mask=real, other=-1)
    seen = tl.zeros([tile], tl.float64)
    everything = tl.zeros([step], tl.float64)
    groups = tl.full([step], -1, number.dtype)
    for begin in range(0, size, step):
        others = begin + tl.arange(0, step)
        inside = others < size
        other = tl.load(numbers + first + others, mask=inside, other=-1)
        exposure = tl.load(exposures + first + others, mask=inside & (other >= 0), other=0.0)
        seen += tl.sum(tl.where(other[None, :] == number[:, None], exposure[None, :], 0.0), 1)
        everything += exposure
        groups = tl.maximum(groups, other)
    weights = tl.zeros([step], tl.float64)
    for begin in range(0, tl.minimum(size, cutoff), step):
        places = begin + tl.arange(0, step)
        weights += tl.load(thetas + places, mask=places < tl.minimum(size, cutoff), other=0.0).to(tl.float64)
    total = tl.where(tl.max(groups) > 0, tl.sum(weights), 0.0)  # two groups at least
    safe = tl.where(total > 0.0, total, 1.0)
    merit = tl.load(merits + first + documents, mask=number >= 0, other=1.0).to(tl.float64)
    price = 2.0 * (tl.sum(everything) - seen / merit) / (samples * safe * safe)
    price = tl.where(total > 0.0, tl.where(number >= 0, price, 0.0), 0.0)
    tl.store(rewards + first + documents, price.to(rewards.dtype.element_ty), mask=real)


@dataclass(frozen=True)
class PlacedFair:
    """An objective, and the disparity of exposure between groups."""

    weight: float
    inner: Placed
    priced: PlacedKernel
    numbers: Tensor
    merits: Tensor

    @classmethod
    def of(cls, prepared: PreparedFair, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the inner objective and PL-Rank, which is told the prices."""
        priced = place(prepared.priced, lists, dtype)
        if not isinstance(priced, PlacedKernel):
            raise check.error("fair prices exposure by a kernel", got=repr(priced))
        columns = (to_device(column, lists.device, dtype) for column in prepared.columns)
        return cls(float(prepared.objective.weight), place(prepared.inner, lists, dtype), priced, *columns)

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Add the disparity to the inner derivatives, which draw what they would draw alone."""
        part = self.inner(scores, stream, hessian=hessian)
        if not self.weight:
            return part
        own = drawing(stream, self.priced.objective).child("fair")
        rewards = self._rewards(scores, own.child("prices"))
        at_prices = dataclasses.replace(self.priced, per_document=(rewards,))
        found = at_prices(scores, own.child("rankings"), hessian=hessian)
        found.value.mul_(0.5)  # Σ price · exposure is twice the disparity, which is quadratic in the exposure
        return added(part, self.weight, found)

    def take(self, taken: Taken) -> Self:
        """Take the lists of the inner objective, with their groups."""
        columns = (self.numbers[taken.rows], self.merits[taken.rows])
        return type(self)(self.weight, self.inner.take(taken), self.priced.take(taken), *columns)

    def _rewards(self, scores: Tensor, stream: Stream) -> Tensor:
        lists, (thetas, samples, by_race, draws, _) = self.priced.lists, self.priced.settings
        random = DeviceStream(stream, lists)
        rewards = torch.zeros_like(scores)
        race = Race(lists, scores, scores, random, int(thetas.numel()), samples, draws)
        sampler = race if by_race else Sequence(race)
        exposures = torch.zeros(lists.n_docs, dtype=torch.float64, device=lists.device)
        tiles = lists.tiles(_TILE)
        grid = (tiles[0].numel(),)
        for start, count in race.batches():
            ranks = sampler.draw(start, count).ranks
            _expose[grid](lists.offsets, *tiles, ranks, thetas, exposures, count, lists.n_docs, tile=_TILE)
        _price[grid](
            lists.offsets, *tiles, self.numbers, self.merits, thetas, exposures, rewards, race.cutoff, samples,
            tile=_TILE, step=_STEP,
        )  # fmt: skip
        return rewards
