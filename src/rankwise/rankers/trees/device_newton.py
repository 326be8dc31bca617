"""Newton's numerator and Hessian on the device that trees are grown on, from derivatives that are computed there.

A library that grows trees on a GPU keeps its scores there too, but XGBoost hands them out through the host alone. From
there on nothing travels: scores are copied to the device, a device kernel of the objective gives gradient and Hessian,
the rules of ``newton.py`` are applied to them, and the library reads both where they are. The host sees the loss of
each query, and whether all numbers are finite.
"""

from typing import NamedTuple, Self

import numpy as np
import torch
import triton.language as tl
from torch import Tensor

from rankwise import check
from rankwise.arrays import Array, Ids
from rankwise.objectives.lists import Derivatives
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.softmax.cross_entropy import cross_entropy_kernel
from rankwise.objectives.torch.devices import OnDevice, on_device, to_device
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.neumann import neumann
from rankwise.rankers.trees.newton import LEAST, LONGEST_STEP, SHARE, newton
from rankwise.stream import Stream

_SHARE, _LONGEST_STEP, _LEAST = tl.constexpr(SHARE), tl.constexpr(LONGEST_STEP), tl.constexpr(float(LEAST))
_BLOCK = 256


@launched
def _newton(  # type: ignore[no-untyped-def]
    offsets, own_numerator, hessian, weights, numerator, divisor,
    weighted: tl.constexpr, floor: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One list: ``newton.py`` says what is done, and why."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    lanes = tl.arange(0, block)
    sums = tl.zeros([block], tl.float32)
    for start in range(0, size, block):
        sums += tl.abs(tl.load(hessian + first + start + lanes, mask=start + lanes < size, other=0.0))
    mean = tl.sum(sums) / size
    weight = mean * 0.0 + 1.0
    if weighted:
        weight = tl.load(weights + query)
    for start in range(0, size, block):
        rows, inside = first + start + lanes, start + lanes < size
        above = tl.load(own_numerator + rows, mask=inside, other=0.0)
        own = tl.load(hessian + rows, mask=inside, other=0.0)
        raised = own
        if floor:
            pull = tl.abs(above)
            least = tl.maximum(mean * _SHARE, pull * _LONGEST_STEP)
            raised = tl.where(own < least, least, own)  # not a maximum, which would lose a NaN
            raised = tl.where(own <= 0.0, tl.where(mean > 0.0, mean, pull), raised)
            raised = tl.where(pull == 0.0, tl.where(own < 0.0, 0.0, own), raised)
        below = raised * weight
        if floor:
            below = tl.where(below < _LEAST, _LEAST, below)
        tl.store(numerator + rows, above * weight, mask=inside)
        tl.store(divisor + rows, below, mask=inside)


class Step(NamedTuple):
    """The loss of each query, on the host, and what a tree is grown from, on the device."""

    value: Array
    numerator: Tensor
    hessian: Tensor


class DeviceNewton:
    """A prepared objective on a device, for trees."""

    def __init__(
        self, prepared: Prepared, there: OnDevice, query_ids: Ids | None, weights: Array | None, *, floor_hessian: bool
    ) -> None:
        self.prepared, self.there = prepared, there
        self.query_ids, self.weights, self.floor = query_ids, weights, floor_hessian
        self.epsilon = softmax_of(prepared)
        self._weights = None if weights is None else to_device(weights, there.lists.device, torch.float32)

    @classmethod
    def of(
        cls, prepared: Prepared, device: str, query_ids: Ids | None, weights: Array | None, *, floor_hessian: bool
    ) -> Self | None:
        """Copy it to a device; None where the CPU has to compute it.

        That is so without a device kernel, and for the softmax family's own numerator inside of a wrapper or a sum.
        """
        place = torch.device(device)
        if place.type == "cuda" and not torch.cuda.is_available():
            return None
        there = on_device(prepared, place, torch.float32)
        if there is None or (softmax_of(prepared) is None and has_own_numerator(prepared)):
            return None
        return cls(prepared, there, query_ids, weights, floor_hessian=floor_hessian)

    def __call__(self, scores: Array, stream: Stream) -> Step:
        """Give the loss of each query, and numerator and Hessian on the device, ready to be read by anyone."""
        offsets, device = self.prepared.offsets, self.there.lists.device
        single = to_device(check.loss_scores(scores, offsets).astype(np.float32), device)
        with torch.cuda.device_of(single):  # type: ignore[no-untyped-call]
            found = self.there.placed(single, stream, hessian=True)
            own = found.gradient
            if self.epsilon is not None:
                own = neumann(self.there.lists, single, own, self.epsilon)
            numerator, hessian = self._newton(own, found.hessian)
            finite = torch.isfinite(numerator).all() & torch.isfinite(hessian).all()
            value = found.value.double().cpu().numpy()  # waits for the device, so that others can read what is there
        if not finite:
            gradient = found.gradient.double().cpu().numpy()
            diagonal = gradient if found.hessian is None else found.hessian.double().cpu().numpy()
            parts = Derivatives(value, gradient, diagonal, own.double().cpu().numpy())
            newton(parts, offsets, self.query_ids, self.weights, floor_hessian=self.floor)  # says where
        return Step(value, numerator, hessian)

    def _newton(self, own: Tensor, diagonal: Tensor | None) -> tuple[Tensor, Tensor]:
        """Apply the rules to a numerator of our own and a Hessian."""
        lists = self.there.lists
        numerator, hessian = torch.empty_like(own), torch.empty_like(own)
        weights = own if self._weights is None else self._weights
        _newton[(lists.n_queries,)](
            lists.offsets, own, diagonal, weights, numerator, hessian,
            weighted=self._weights is not None, floor=self.floor, block=_BLOCK, num_warps=2,
        )  # fmt: skip
        return numerator, hessian


def softmax_of(prepared: Prepared) -> float | None:
    """The ε of the softmax family, if trees are given its three-term numerator, which follows from the gradient."""
    own = isinstance(prepared, PreparedKernel) and prepared.kernel is cross_entropy_kernel and prepared.numerator
    return float(prepared.settings[1]) if own else None  # type: ignore[attr-defined]


def has_own_numerator(prepared: Prepared) -> bool:
    """Whether trees divide something better than the gradient, as they do for the softmax family."""
    one = prepared.take(np.array([0]))
    found = one(np.zeros(int(one.offsets[-1])), Stream(0))
    return found.numerator is not found.gradient
