"""Bounding on a device: every list's value is mapped by what its orderings can reach, in double precision."""

from dataclasses import dataclass
from typing import NamedTuple, Self

import torch
import triton
import triton.language as tl
from torch import Tensor

from rankwise.objectives.smooth.bounded import PreparedBounded
from rankwise.objectives.smooth.bounds import SATURATED, Bounds
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.arithmetic import sigmoid
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Place, Placed
from rankwise.objectives.torch.kernels.wrappers import chain
from rankwise.stream import Stream

_SATURATED = tl.constexpr(SATURATED)
_BLOCK = 256


@triton.jit
def _below(values, low, high, limit):  # type: ignore[no-untyped-def]
    """Where the sorted values from ``low`` to ``high`` reach a limit."""
    while low < high:
        middle = (low + high) // 2
        below = tl.load(values + middle) < limit
        low = tl.where(below, middle + 1, low)
        high = tl.where(below, high, middle)
    return low


@launched
def _map(  # type: ignore[no-untyped-def]
    value, scales, shifts, straight, which, starts, values, shares, gains, slopes, bends, sign: tl.float64,
    distribution: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """Map the value of a list in place, and fill the map's derivatives (``Bounds.apply``)."""
    query = tl.program_id(0)
    scale = tl.load(scales + query)
    metric = sign * tl.load(value + query).to(tl.float64) * scale
    if distribution:
        own = tl.load(which + query)
        first, last = tl.load(starts + own), tl.load(starts + own + 1)
        steep = tl.load(gains + own)
        # Sigmoids that are 0 or 1 to the last digit are not looked at one by one.
        low = _below(values, first, last, metric - _SATURATED / steep)
        high = _below(values, low, last, metric + _SATURATED / steep)
        sums = tl.zeros([block], tl.float64)
        sums_1, sums_2 = sums, sums
        for start in range(low, high, block):
            places = start + tl.arange(0, block)
            inside = places < high
            share = tl.load(shares + places, mask=inside, other=0.0)
            chance = share - tl.load(shares + places - 1, mask=inside & (places > first), other=0.0)
            s = sigmoid(steep * (metric - tl.load(values + places, mask=inside, other=0.0)))
            sums += chance * s
            sums_1 += chance * s * (1.0 - s)
            sums_2 += chance * s * (1.0 - s) * (1.0 - 2.0 * s)
        mapped = tl.sum(sums) + tl.load(shares + low - 1, mask=low > first, other=0.0)
        slope = tl.maximum(steep * tl.sum(sums_1), 1e-300)
        bend = steep * steep * tl.sum(sums_2)
    else:
        slope = tl.load(straight + query)
        mapped = slope * (metric - tl.load(shifts + query))
        bend = slope * 0.0
    alive = scale > 0.0
    tl.store(value + query, tl.where(alive, sign * mapped, 0.0).to(value.dtype.element_ty))
    tl.store(slopes + query, tl.where(alive, slope * scale, 0.0).to(value.dtype.element_ty))
    tl.store(bends + query, tl.where(alive, sign * bend * scale * scale, 0.0).to(value.dtype.element_ty))


class _Maps(NamedTuple):
    """The maps of lists, in double precision; ``tables`` are the distributions, if it is they that map."""

    sign: float
    columns: tuple[Tensor, ...]
    which: Tensor
    tables: tuple[Tensor, ...]

    @classmethod
    def of(cls, maps: Bounds, device: torch.device) -> Self:
        columns = tuple(to_device(column, device) for column in (maps.scale, maps.shift, maps.slope))
        if maps.tables is None:
            return cls(maps.sign, columns, columns[0], ())
        which, *tables = (to_device(column, device) for column in maps.tables)
        return cls(maps.sign, columns, which, tuple(tables))

    def apply(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Map values in place; give the first and second derivative of the map."""
        slopes, bends = torch.empty_like(value), torch.empty_like(value)
        tables = self.tables or self.columns[:1] * 4
        _map[(value.numel(),)](
            value, *self.columns, self.which, *tables, slopes, bends, self.sign,
            distribution=bool(self.tables), block=_BLOCK, num_warps=2,
        )  # fmt: skip
        return slopes, bends

    def take(self, numbers: Tensor) -> Self:
        columns = tuple(column[numbers] for column in self.columns)
        return self._replace(columns=columns, which=self.which[numbers])


@dataclass(frozen=True)
class PlacedBounded:
    """A metric relative to what each list allows."""

    inner: Placed
    lists: DeviceLists
    maps: _Maps
    bends: bool

    @classmethod
    def of(cls, prepared: PreparedBounded, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the metric, and the maps."""
        inner = place(prepared.inner, lists, dtype)
        return cls(inner, lists, _Maps.of(prepared.map, lists.device), prepared.objective.gain != "thesis")

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Apply the map to each list."""
        part = self.inner(scores, None if stream is None else stream.child("bounded"), hessian=hessian)
        slopes, bends = self.maps.apply(part.value)
        chain(self.lists, slopes, bends if self.bends else None, part)
        return part

    def take(self, taken: Taken) -> Self:
        """Take the lists of the metric, with their maps."""
        return type(self)(self.inner.take(taken), taken.lists, self.maps.take(taken.numbers), self.bends)
