"""Prepared objectives on a device: what the CPU has prepared is copied there once, and kernels run over it.

An objective prepares itself on the CPU, whatever the device: labels, gains and ideal DCG have one definition. What it
prepared is a kernel with arrays per document, per query, and settings (``PreparedKernel``). Placing it copies these
arrays; a *launch* does on the device what the kernel does on the CPU. The one table of launches is ``table.py``.
"""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import torch
from torch import Tensor

from rankwise.objectives.base import Objective, Prepared, drawing
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.curvature import treat
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.random import DeviceStream
from rankwise.stream import Stream


class DeviceDerivatives(NamedTuple):
    """The loss of each query and its derivatives by each score, on a device."""

    value: Tensor
    gradient: Tensor
    hessian: Tensor | None


class Placed(Protocol):
    """A prepared objective on a device."""

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Give value and gradient, and the Hessian's diagonal on request, for finite scores of its own precision."""
        ...

    def take(self, taken: Taken) -> "Placed":
        """Give the same for some of the lists: a mini-batch."""
        ...


Place = Callable[[Prepared, DeviceLists, torch.dtype], Placed]


class NoDeviceKernelError(LookupError):
    """A prepared objective that the CPU has to compute."""


@dataclass(frozen=True)
class Call:
    """What a launch is given: arguments, and outputs of which it fills every element."""

    lists: DeviceLists
    scores: Tensor
    per_document: tuple[Tensor, ...]
    per_query: tuple[Tensor, ...]
    settings: tuple[Any, ...]
    random: DeviceStream | None
    value: Tensor
    gradient: Tensor
    hessian: Tensor | None


Launch = Callable[[Call], None]


def drawn(call: Call) -> DeviceStream:
    """What a launch that draws was given to draw with."""
    if call.random is None:
        raise LookupError("a launch that draws needs a stream")
    return call.random


@dataclass(frozen=True)
class PlacedKernel:
    """A launch with its arguments, but for the scores; the arrays are those of the ``PreparedKernel``."""

    objective: Objective
    launch: Launch
    lists: DeviceLists
    per_document: tuple[Tensor, ...]
    per_query: tuple[Tensor, ...]
    settings: tuple[Any, ...]
    draws: bool
    curvature: str

    @classmethod
    def of(cls, prepared: PreparedKernel, launch: Launch, lists: DeviceLists, dtype: torch.dtype) -> Self:
        """Copy what the CPU has prepared: every array, also among the settings."""

        def copied(things: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(to_device(x, lists.device, dtype) if isinstance(x, np.ndarray) else x for x in things)

        return cls(
            objective=prepared.objective,
            launch=launch,
            lists=lists,
            per_document=copied(prepared.per_document),
            per_query=copied(prepared.per_query),
            settings=copied(prepared.settings),
            draws=prepared.keys is not None,
            curvature=prepared.curvature,
        )

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Run the kernel."""
        random = None
        if self.draws:
            random = DeviceStream(drawing(stream, self.objective), self.lists)
        found = DeviceDerivatives(
            scores.new_empty(self.lists.n_queries),
            torch.empty_like(scores),
            torch.empty_like(scores) if hessian else None,
        )
        self.launch(Call(self.lists, scores, self.per_document, self.per_query, self.settings, random, *found))
        if found.hessian is not None:
            treat(self.curvature, self.lists, found.gradient, found.hessian)
        return found

    def take(self, taken: Taken) -> Self:
        """Give the same kernel with the arrays of these lists."""
        return dataclasses.replace(
            self,
            lists=taken.lists,
            per_document=tuple(column[taken.rows] if column.numel() else column for column in self.per_document),
            per_query=tuple(column[taken.numbers] for column in self.per_query),
        )
