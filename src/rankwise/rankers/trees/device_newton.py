"""Newton's numerator and Hessian on the device that trees are grown on, from derivatives that are computed there.

A library that grows trees on a GPU keeps its scores there too, but XGBoost hands them out through the host alone. From
there on nothing travels: scores are copied to the device, a device kernel of the objective gives gradient and Hessian,
the rules of ``newton.py`` are applied to them, and the library reads both where they are. The host sees the loss of
each query, and whether all numbers are finite.
"""

from typing import Any

import numpy as np
import torch
import triton.language as tl
from torch import Tensor

from rankwise import check
from rankwise.base.arrays import Array, Ids
from rankwise.base.device.launching import list_bounds, triton_kernel
from rankwise.base.stream import Stream
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.ragged import Derivatives
from rankwise.rankers.trees.newton import LEAST, LONGEST_STEP, SHARE, newton

_SHARE, _LONGEST_STEP, _LEAST = tl.constexpr(SHARE), tl.constexpr(LONGEST_STEP), tl.constexpr(float(LEAST))
_BLOCK = 256


@triton_kernel
def _newton(  # type: ignore[no-untyped-def]
    offsets, own_numerator, hessian, weights, numerator, divisor,
    weighted: tl.constexpr, floor: tl.constexpr, block: tl.constexpr,
):  # fmt: skip
    """One list: ``newton.py`` says what is done, and why."""
    query = tl.program_id(0)
    first, size = list_bounds(offsets, query)
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
        curvature = tl.load(hessian + rows, mask=inside, other=0.0)
        raised = curvature
        if floor:
            pull = tl.abs(above)
            least = tl.maximum(mean * _SHARE, pull * _LONGEST_STEP)
            raised = tl.where(curvature < least, least, curvature)  # not a maximum, which would lose a NaN
            raised = tl.where(curvature <= 0.0, tl.where(mean > 0.0, mean, pull), raised)
            raised = tl.where(pull == 0.0, tl.where(curvature < 0.0, 0.0, curvature), raised)
        below = raised * weight
        if floor:
            below = tl.where(below < _LEAST, _LEAST, below)
        tl.store(numerator + rows, above * weight, mask=inside)
        tl.store(divisor + rows, below, mask=inside)


class DeviceNewton:
    """A prepared objective on a device, for trees."""

    def __init__(
        self, prepared: Prepared, query_ids: Ids | None, weights: Array | None, *, floor_hessian: bool
    ) -> None:
        self.prepared, self.query_ids, self.weights, self.floor = prepared, query_ids, weights, floor_hessian
        self.out = prepared.empty()
        lists: Any = prepared.lists
        self._host = torch.empty(lists.n_docs, pin_memory=lists.device.type == "cuda")  # from where copies are quick
        self._scores = torch.empty(lists.n_docs, device=lists.device)
        self._weights = None if weights is None else prepared.lists.column(weights)

    def __call__(self, scores: Array, stream: Stream) -> tuple[Array, Tensor, Tensor]:
        """Return the loss of each query, and numerator and Hessian on the device, ready to be read by anyone."""
        lists: Any = self.prepared.lists
        if scores.shape != (lists.n_docs,):
            check.loss_scores(scores, lists.host)
        np.copyto(self._host.numpy(), scores, casting="same_kind")
        self._scores.copy_(self._host, non_blocking=True)
        with torch.cuda.device_of(self._scores):  # type: ignore[no-untyped-call]
            out = self.prepared(self._scores, stream, out=self.out)
            numerator, hessian = self._newton(out)
            finite = torch.isfinite(numerator).all() & torch.isfinite(hessian).all()
            value = out.value.double().cpu().numpy()  # waits for the device, so that others can read what is there
        if np.isnan(value).any():
            check.loss_scores(np.asarray(scores, np.float64), lists.host)  # names the row
        if not finite:
            parts = Derivatives(*(column.double().cpu().numpy() for column in out))
            newton(parts, lists.host, self.query_ids, self.weights, floor_hessian=self.floor)  # names the row
        return value, numerator, hessian

    def _newton(self, out: Derivatives) -> tuple[Tensor, Tensor]:
        """Apply the rules to derivatives."""
        lists = self.prepared.lists
        numerator, hessian = torch.empty_like(out.numerator), torch.empty_like(out.numerator)
        weights = out.numerator if self._weights is None else self._weights
        _newton[(lists.n_queries,)](
            lists.offsets, out.numerator, out.hessian, weights, numerator, hessian,
            self._weights is not None, self.floor, _BLOCK, num_warps=2,
        )  # fmt: skip
        return numerator, hessian
