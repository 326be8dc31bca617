"""Training in several processes under ``torchrun``, and the device of each."""

import atexit
import os
from collections.abc import Iterable

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray

from rankwise.base.arrays import Array
from rankwise.rankers.training.loop import SingleProcess


class Processes(SingleProcess):
    """The processes that train one model.

    Every process holds the same data (a memory map costs nothing twice) and the same weights, takes its share of the
    queries of each batch, and adds its gradient to that of the others.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        if _launched() and not dist.is_initialized():
            dist.init_process_group("nccl" if device.type == "cuda" and _gpu_for_each() else "gloo")
            atexit.register(_leave)
        together = dist.is_available() and dist.is_initialized()
        self.rank = dist.get_rank() if together else 0
        self.count = dist.get_world_size() if together else 1
        self.first, self.alone = self.rank == 0, self.count == 1

    def share(self, queries: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return this process's part of a batch."""
        return queries[self.rank :: self.count]

    def add(self, values: torch.Tensor | Array) -> Array:
        """Add up numbers of all processes, and read them."""
        numbers = torch.as_tensor(values, device=self.device)
        if not self.alone:
            dist.all_reduce(numbers)
        return numbers.cpu().numpy()

    def broadcast(self, values: list[float]) -> list[float]:
        """Return the first process's values in all processes, so that they decide alike."""
        if self.alone:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self.device)
        dist.broadcast(tensor, src=0)
        return tensor.tolist()

    def add_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Add up the gradients of all processes, in one message."""
        if self.alone:
            return
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        flat = torch.cat([(torch.zeros_like(one) if one.grad is None else one.grad).reshape(-1) for one in trained])
        dist.all_reduce(flat)
        start = 0
        for one in trained:
            one.grad = flat[start : start + one.numel()].view_as(one)
            start += one.numel()

    def average(self, tensors: Iterable[torch.Tensor]) -> None:
        """Average running statistics, which every process took of its own share."""
        if self.alone:
            return
        for tensor in tensors:
            if tensor.is_floating_point():
                dist.all_reduce(tensor)
                tensor /= self.count


def _launched() -> bool:
    variables = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
    return dist.is_available() and all(name in os.environ for name in variables) and int(os.environ["WORLD_SIZE"]) > 1


def _gpu_for_each() -> bool:
    """Whether every process of this machine has a GPU of its own: NCCL refuses two on one, and gloo does not."""
    return int(os.environ.get("LOCAL_WORLD_SIZE", "1")) <= torch.cuda.device_count()


def _leave() -> None:
    if dist.is_initialized():
        dist.destroy_process_group()


def seed_of(key: np.uint64) -> int:
    """Return a seed for torch's generators from the key of a stream."""
    return int(key >> np.uint64(1))
