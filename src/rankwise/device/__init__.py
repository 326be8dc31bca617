"""Ragged arrays on a GPU, and what all Triton kernels share: launches, tiles, order, random numbers."""

import numpy as np
import torch
from torch import Tensor

from rankwise.arrays import Column


def to_device(column: Column, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array to a device without waiting for it to arrive; floating-point numbers in a precision."""
    tensor = torch.from_numpy(np.array(column, order="C"))  # a copy: arrays of objectives are read-only
    if dtype is not None and tensor.dtype.is_floating_point:
        tensor = tensor.to(dtype)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)
