"""Where a device plugs in its own kernels.

The definition of every objective is the one that runs on the CPU. A *device kernel* computes the same numbers where the
tensors already are; it is an optimisation, pinned to the definition by test. Without one, tensors travel to the CPU and
back, which works everywhere and says so once.
"""

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor

    from rankwise.objectives.base import Objective
    from rankwise.stream import Stream


class DevicePrepared(Protocol):
    """An objective that has seen labels on a device: called with scores, it gives ``(value, gradient)`` there.

    Scores are in single or double precision and cut from the graph. It gives the loss of each query and its derivative
    by each score.
    """

    def __call__(self, scores: "Tensor", stream: "Stream | None") -> "tuple[Tensor, Tensor]":
        """Give value and gradient."""
        ...


DeviceKernel = Callable[..., DevicePrepared | None]
"""``kernel(objective, labels, offsets, **documents)`` prepares once what scores do not change; all tensors lie on its
device, ``offsets`` are checked. It gives None where it has no kernel for these settings: then the CPU does it."""

DEVICE_KERNELS: dict[tuple[type, str], DeviceKernel] = {}
"""The one table of device kernels: (class of the objective, type of the device, as in ``tensor.device.type``)."""

_warned: set[str] = set()


def device_kernel(objective: "Objective", device: str) -> DeviceKernel | None:
    """Find the kernel of an objective on a type of device."""
    return DEVICE_KERNELS.get((type(objective), device))


def warn_of_travel(objective: "Objective", device: str) -> None:
    """Say, once for each type of device, that tensors travel to the CPU and back."""
    if device not in _warned:
        _warned.add(device)
        warnings.warn(
            f"{objective!r} has no kernel for the device {device!r}: scores travel to the CPU and gradients back, at "
            "every step. The numbers are the same. This is said once.",
            stacklevel=2,
        )
