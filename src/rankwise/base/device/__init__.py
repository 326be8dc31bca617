"""Ragged arrays on a GPU, and the parts that all Triton kernels share: launches, tiles, order, random numbers."""

import numpy as np
import torch
from torch import Tensor

from rankwise.base.arrays import Column

_STAGED = 2**15
"""Bytes up to which CUDA copies to a buffer of its own at once, so that pinned memory is no faster."""


def to_device(column: Column, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Copy an array to a device without waiting for it to arrive; floating-point numbers in a precision."""
    tensor = torch.from_numpy(np.array(column, order="C"))  # a copy: arrays of objectives are read-only
    if dtype is not None and tensor.dtype.is_floating_point:
        tensor = tensor.to(dtype)
    if device.type == "cuda" and tensor.nbytes > _STAGED:
        tensor = tensor.pin_memory()
    return tensor.to(device, non_blocking=True)
