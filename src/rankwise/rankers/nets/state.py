"""Global state of torch that training sets and restores: random numbers, current device, precision, threads."""

import contextlib
import threading
from collections.abc import Iterator

import torch

from rankwise.threads import openmp

_DRAWING = threading.RLock()
"""Serialises the use of torch's global random state, which all threads share."""


@contextlib.contextmanager
def own_randomness(device: torch.device) -> Iterator[None]:
    """Restore torch's global random state after the block, which one net enters at a time."""
    with _DRAWING, torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        yield


def seed_torch(device: torch.device, seed: int) -> None:
    """Seed the generator of this device, and no other device's."""
    torch.default_generator.manual_seed(seed)
    if device.type == "cuda":
        with on(device):
            torch.cuda.manual_seed(seed)


def on(device: torch.device) -> contextlib.AbstractContextManager[object]:
    """Make ``device`` the current CUDA device."""
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def bind_context(device: torch.device) -> None:
    """Bind the CUDA context to autograd's thread by a kernel: cuBLAS warns where it comes first and finds none."""
    if device.type == "cuda":
        with on(device):
            torch.ones(1, device=device, requires_grad=True).square().backward()  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def products_in(precision: str, device: torch.device) -> Iterator[None]:
    """Multiply matrices in TF32 on a GPU, if that is the precision; the user's choice is restored."""
    if precision != "tf32" or device.type != "cuda":
        yield
        return
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def one_thread() -> None:
    """Set torch to one thread."""
    torch.set_num_threads(1)


@contextlib.contextmanager
def torch_threads() -> Iterator[None]:
    """Set torch to as many threads as kernels use."""
    count = openmp(one_thread)
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
