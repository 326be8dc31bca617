"""Clicks on a device: every click is a list of its own, and a query gathers what the lists of its clicks say."""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.arrays import Offsets, rows_of
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Place, Placed
from rankwise.objectives.wrappers.clickwise import PreparedClickwise, clicks_stream
from rankwise.stream import Stream

_TILE = 256


@launched
def _gather(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, clicks, click_offsets, weights, losses, slopes, curves,
    value, gradient, hessian, wanted: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Add up, for a tile of documents, what the lists of all clicks of their query say, in the order of clicks."""
    query = tl.load(tile_queries + tl.program_id(0))
    start = tl.load(tile_starts + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = start + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    slope = tl.zeros([tile], gradient.dtype.element_ty)
    curve = slope
    cost = tl.sum(slope)
    for click in range(tl.load(clicks + query), tl.load(clicks + query + 1)):
        weight = tl.load(weights + click)
        rows = tl.load(click_offsets + click) + documents
        slope += weight * tl.load(slopes + rows, mask=real, other=0.0)
        if wanted:
            curve += weight * tl.load(curves + rows, mask=real, other=0.0)
        cost += weight * tl.load(losses + click)
    tl.store(gradient + first + documents, slope, mask=real)
    if wanted:
        tl.store(hessian + first + documents, curve, mask=real)
    if start == 0:
        tl.store(value + query, cost)


@dataclass(frozen=True)
class PlacedClickwise:
    """The sum over clicks of the inner loss of the list with that click alone."""

    inner: Placed
    lists: DeviceLists
    clicked: Taken
    """The list of each click."""
    clicks: Offsets
    """Where the clicks of each query begin, on the host, as ``places`` are, those of clicks in their lists."""
    places: NDArray[np.int64]
    weights: Tensor

    @classmethod
    def of(cls, prepared: PreparedClickwise, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the inner objective, which sees the lists of clicks."""
        clicked = lists.take(prepared.queries)
        inner = place(prepared.inner, clicked.lists, dtype)
        weights = to_device(prepared.weights, lists.device, dtype)
        return cls(inner, lists, clicked, prepared.clicks, prepared.places, weights)

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Add up the inner derivatives of the lists of a query's clicks."""
        lists, clicked = self.lists, self.clicked
        own = clicks_stream(stream, lists.n_queries, clicked.queries, self.places)
        part = self.inner(scores[clicked.rows], own, hessian=hessian)
        found = DeviceDerivatives(
            scores.new_empty(lists.n_queries), torch.empty_like(scores), torch.empty_like(scores) if hessian else None
        )
        clicks = to_device(self.clicks.astype(np.int32), lists.device)
        tiles = lists.tiles(_TILE)
        curves = (part.gradient, found.gradient) if part.hessian is None else (part.hessian, found.hessian)
        _gather[(tiles[0].numel(),)](
            lists.offsets, *tiles, clicks, clicked.lists.offsets, self.weights, part.value, part.gradient, curves[0],
            found.value, found.gradient, curves[1], wanted=hessian, tile=_TILE, num_warps=2,
        )  # fmt: skip
        return found

    def take(self, taken: Taken) -> Self:
        """Take the lists, with those of their clicks."""
        rows, clicks = rows_of(taken.queries, self.clicks)
        own = self.clicked.lists.take(np.arange(self.places.size)[rows])
        queries = np.repeat(np.arange(taken.queries.size), np.diff(clicks))
        return type(self)(
            self.inner.take(own), taken.lists, taken.lists.take(queries), clicks, self.places[rows],
            self.weights[own.numbers],
        )  # fmt: skip
