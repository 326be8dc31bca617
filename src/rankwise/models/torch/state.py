"""Devices by name, and global state of torch that is set and restored: random numbers, precision, threads."""

import contextlib
import os
import threading
from collections.abc import Iterator

import torch

from rankwise import check
from rankwise.base.threads import openmp

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


def local_device(name: str) -> torch.device:
    """Return the device of ``"auto"``, ``"cpu"``, ``"cuda"``; under torchrun each process takes a GPU of its own."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")) % max(torch.cuda.device_count(), 1))
    return torch.device(name)


def usable_device(name: str) -> torch.device:
    """Return the device of a name; raise if torch cannot use it."""
    try:
        return torch.empty(0, device=local_device(name)).device
    except (AssertionError, RuntimeError, TypeError) as missing:
        got = f"{name!r} ({(str(missing).splitlines() or [''])[0]})"
        raise check.error(
            "torch cannot use the device", got=got, hint="`set device='cpu'` or `device='auto'`"
        ) from None
