"""Distillation on a device: squared differences to a teacher, and losses at a temperature."""

from dataclasses import dataclass
from typing import Self

import torch
import triton.language as tl
from torch import Tensor

from rankwise.objectives.distil import PreparedTempered
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import Call, DeviceDerivatives, Place, Placed
from rankwise.stream import Stream

_BLOCK = 256


@launched
def _margins(offsets, scores, teacher, value, gradient, hessian, wanted: tl.constexpr, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill twice the variance of scores − teacher of a list, and its derivatives; means are in double precision."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    lanes = tl.arange(0, block)
    total = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        inside = start + lanes < size
        rows = first + start + lanes
        own = tl.load(scores + rows, mask=inside, other=0.0).to(tl.float64)
        total += own - tl.load(teacher + rows, mask=inside, other=0.0).to(tl.float64)
    mean = tl.sum(total) / tl.maximum(size, 1)
    pairs = tl.maximum(size - 1, 1)
    squares = tl.zeros([block], tl.float64)
    for start in range(0, size, block):
        inside = start + lanes < size
        rows = first + start + lanes
        own = tl.load(scores + rows, mask=inside, other=0.0).to(tl.float64)
        gap = own - tl.load(teacher + rows, mask=inside, other=0.0).to(tl.float64) - mean
        gap = tl.where(inside & (size > 1), gap, 0.0)
        squares += gap * gap
        tl.store(gradient + rows, 4.0 * gap / pairs, mask=inside)
        if wanted:
            each = tl.full([block], 4.0, tl.float64) / size
            tl.store(hessian + rows, tl.where(size > 1, each, 0.0), mask=inside)
    tl.store(value + query, 2.0 * tl.sum(squares) / pairs)


def margins(call: Call) -> None:
    """Launch the kernel of ``margins_kernel``."""
    wanted = call.hessian is not None
    outputs = (call.value, call.gradient, call.hessian if wanted else call.gradient)
    _margins[(call.lists.n_queries,)](
        call.lists.offsets, call.scores, call.per_document[0], *outputs, wanted=wanted, block=_BLOCK, num_warps=2
    )


@dataclass(frozen=True)
class PlacedTempered:
    """A loss of scores / T, times T², with its derivatives by the scores."""

    inner: Placed
    temperature: float

    @classmethod
    def of(cls, prepared: PreparedTempered, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the inner loss."""
        return cls(place(prepared.inner, lists, dtype), prepared.temperature)

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Multiply the value by T² and first derivatives by T; second ones stay."""
        found = self.inner(scores / self.temperature, stream, hessian=hessian)
        found.value.mul_(self.temperature**2)
        found.gradient.mul_(self.temperature)
        return found

    def take(self, taken: Taken) -> Self:
        """Take the lists of the inner loss."""
        return type(self)(self.inner.take(taken), self.temperature)
