"""Sums and weights on a device, and the chain rule of all wrappers there."""

from dataclasses import dataclass
from typing import Self

import torch
import triton.language as tl
from torch import Tensor

from rankwise.objectives.base import PreparedSum
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Place, Placed
from rankwise.objectives.wrappers.weighted import PreparedWeighted
from rankwise.stream import Stream

_TILE = 256


@dataclass(frozen=True)
class PlacedSum:
    """A weighted sum of objectives."""

    factors: tuple[float, ...]
    parts: tuple[Placed, ...]

    @classmethod
    def of(cls, prepared: PreparedSum, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place every term."""
        return cls(prepared.factors, tuple(place(part, lists, dtype) for part in prepared.parts))

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Add up the terms, each with a random stream of its own."""
        total: DeviceDerivatives | None = None
        for number, (factor, part) in enumerate(zip(self.factors, self.parts, strict=True)):
            own = None if stream is None else stream.child("term", number)
            total = added(total, factor, part(scores, own, hessian=hessian))
        if total is None:
            raise LookupError("a sum without terms")
        return total

    def take(self, taken: Taken) -> Self:
        """Take the lists of every term."""
        return type(self)(self.factors, tuple(part.take(taken) for part in self.parts))


@dataclass(frozen=True)
class PlacedWeighted:
    """An objective on lists, each of which has a weight."""

    inner: Placed
    weights: Tensor
    lists: DeviceLists

    @classmethod
    def of(cls, prepared: PreparedWeighted, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the inner objective, and the weights."""
        return cls(place(prepared.inner, lists, dtype), to_device(prepared.weights, lists.device, dtype), lists)

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Multiply the inner derivatives by each list's weight."""
        part = self.inner(scores, None if stream is None else stream.child("weighted"), hessian=hessian)
        chain(self.lists, self.weights, None, part)
        part.value.mul_(self.weights)
        return part

    def take(self, taken: Taken) -> Self:
        """Take the lists of the inner objective, with their weights."""
        return type(self)(self.inner.take(taken), self.weights[taken.numbers], taken.lists)


def added(total: DeviceDerivatives | None, factor: float, part: DeviceDerivatives) -> DeviceDerivatives:
    """Add ``factor`` times derivatives to a total of our own, in place; the first of them begins it."""
    if total is None:
        for column in part:
            if column is not None and factor != 1.0:
                column.mul_(factor)
        return part
    for sum_, column in zip(total, part, strict=True):
        if sum_ is not None and column is not None:
            sum_.add_(column, alpha=factor)
    return total


@launched
def _chain(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, slopes, bends, gradient, hessian,
    bent: tl.constexpr, wanted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    slope = tl.load(slopes + query)
    inner = tl.load(gradient + first + documents, mask=real, other=0.0)
    tl.store(gradient + first + documents, slope * inner, mask=real)
    if wanted:
        curve = slope * tl.load(hessian + first + documents, mask=real, other=0.0)
        if bent:
            curve += tl.load(bends + query) * inner * inner
        tl.store(hessian + first + documents, curve, mask=real)


def chain(lists: DeviceLists, slopes: Tensor, bends: Tensor | None, part: DeviceDerivatives) -> None:
    """Apply a map φ of each list's value to its derivatives, in place: g' = φ'·g and h' = φ'·h + φ''·g²."""
    tiles = lists.tiles(_TILE)
    _chain[(tiles[0].numel(),)](
        lists.offsets, *tiles, slopes, slopes if bends is None else bends, part.gradient,
        part.gradient if part.hessian is None else part.hessian,
        bent=bends is not None, wanted=part.hessian is not None, tile=_TILE, num_warps=2,
    )  # fmt: skip
