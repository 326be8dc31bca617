"""Where the loss of tensors of a device is computed: there, by device kernels, or on the CPU.

The definition of every objective is the one that runs on the CPU. A *device kernel* computes the same numbers where the
tensors already are; it is an optimisation, pinned to the definition by test, and the table of them is
``kernels/table.py``. What has none, such as a user's own function, travels to the CPU and back, which works everywhere
and is said once.
"""

import warnings
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankwise.arrays import Column

if TYPE_CHECKING:
    from rankwise.objectives.base import Objective, Prepared
    from rankwise.objectives.torch.kernels.lists import DeviceLists
    from rankwise.objectives.torch.kernels.placed import Placed
    from rankwise.stream import Stream

KERNEL_DEVICES = {"cuda"}
"""The types of devices that device kernels are for, as in ``tensor.device.type``."""

_warned: set[str] = set()


class OnDevice(NamedTuple):
    """A prepared objective on a device, with its lists."""

    lists: "DeviceLists"
    dtype: torch.dtype
    placed: "Placed"

    def differentiate(self, scores: Tensor, stream: "Stream | None") -> tuple[Tensor, Tensor]:
        """Give value and gradient.

        No number is looked at on the host, so that nobody waits for the device. Scores that are not finite would lead
        kernels astray, which count on an order of documents: they see 0 instead, and all values become NaN.
        """
        if scores.is_cuda and scores.device.index != torch.cuda.current_device():
            with torch.cuda.device(scores.device):  # Triton launches on the current device
                return self.differentiate(scores, stream)
        found = self.placed(torch.nan_to_num(scores, 0.0, 0.0, 0.0).contiguous(), stream)
        return torch.add(found.value, scores.sum(), alpha=0.0), found.gradient

    def take(self, queries: NDArray[np.int64]) -> "OnDevice":
        """Give the same for some of the lists."""
        taken = self.lists.take(queries)
        return OnDevice(taken.lists, self.dtype, self.placed.take(taken))


def to_device(column: Column, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array, without waiting for it to arrive."""
    tensor = torch.from_numpy(np.array(column, order="C"))  # a copy: arrays of objectives are not to be written
    if dtype is not None and tensor.dtype.is_floating_point:
        tensor = tensor.to(dtype)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def on_device(prepared: "Prepared", device: torch.device, dtype: torch.dtype) -> OnDevice | None:
    """Copy a prepared objective to a device; None where there are no kernels for the device or the objective."""
    if device.type not in KERNEL_DEVICES or find_spec("triton") is None:
        return None
    # Triton comes with torch for the devices that it is for, and not with others.
    from rankwise.objectives.torch.kernels.lists import DeviceLists
    from rankwise.objectives.torch.kernels.placed import NoDeviceKernelError
    from rankwise.objectives.torch.kernels.table import place

    lists = DeviceLists(prepared.offsets, device)
    try:
        return OnDevice(lists, dtype, place(prepared, lists, dtype))
    except NoDeviceKernelError:
        return None


def warn_of_travel(objective: "Objective", device: str) -> None:
    """Say, once for each type of device, that tensors travel to the CPU and back."""
    if device not in _warned:
        _warned.add(device)
        missing = device in KERNEL_DEVICES and find_spec("triton") is None
        warnings.warn(
            f"{objective!r} has no kernel for the device {device!r}: scores travel to the CPU and gradients back, at "
            "every step. The numbers are the same. "
            + ("Install triton, which the kernels are written in. " if missing else "")
            + "This is said once.",
            stacklevel=2,
        )
