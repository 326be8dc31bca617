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
from numpy.typing import NDArray
from torch import Tensor

from rankwise.objectives.base import Objective, drawing
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.torch.kernels.lists import DeviceLists, to_device
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
        """Give value and gradient, and the Hessian's diagonal on request, for scores of its own precision."""
        ...

    def take(self, queries: NDArray[np.int64]) -> "Placed":
        """Give the same for some of the queries, by number: a mini-batch."""
        ...


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
    def of(cls, prepared: PreparedKernel, launch: Launch, device: torch.device, dtype: torch.dtype) -> Self:
        """Copy what the CPU has prepared."""
        return cls(
            objective=prepared.objective,
            launch=launch,
            lists=DeviceLists(prepared.offsets, device),
            per_document=tuple(to_device(column, device, dtype) for column in prepared.per_document),
            per_query=tuple(to_device(column, device, dtype) for column in prepared.per_query),
            settings=prepared.settings,
            draws=prepared.keys is not None,
            curvature=prepared.curvature,
        )

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Run the kernel."""
        random = None
        if self.draws:
            random = DeviceStream(drawing(stream, self.objective), self.lists.n_queries, self.lists.device)
        found = DeviceDerivatives(
            scores.new_empty(self.lists.n_queries), torch.empty_like(scores), torch.empty_like(scores) if hessian else None
        )
        self.launch(Call(self.lists, scores, self.per_document, self.per_query, self.settings, random, *found))
        return found

    def take(self, queries: NDArray[np.int64]) -> Self:
        """Give the same kernel with the arrays of these queries."""
        lists, rows = self.lists.take(queries)
        numbers = to_device(queries, self.lists.device)
        return dataclasses.replace(
            self,
            lists=lists,
            per_document=tuple(column[rows] if column.numel() else column for column in self.per_document),
            per_query=tuple(column[numbers] for column in self.per_query),
        )
