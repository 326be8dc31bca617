"""The one table of device kernels: what does on a device what a kernel, or a wrapper, does on the CPU.

A kernel of the CPU is known by its arrays (``PreparedKernel``), whatever objective made it. Its line here has the
launch, which is given these arrays on the device, and how they are arranged for it, where it wants them otherwise.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch

from rankwise.objectives.base import Prepared, PreparedSum
from rankwise.objectives.distil import PreparedTempered, margins_kernel
from rankwise.objectives.pairwise.pairs import pairwise as pairwise_kernel
from rankwise.objectives.pairwise.yeti import yeti_kernel
from rankwise.objectives.plackett_luce.listmle import listmle_kernel
from rankwise.objectives.plackett_luce.plrank import plrank_kernel
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.smooth.bounded import PreparedBounded
from rankwise.objectives.smooth.laplace import laplace_kernel
from rankwise.objectives.smooth.ranks import ap_kernel, ndcg_kernel, rbp_kernel
from rankwise.objectives.softmax.cross_entropy import cross_entropy_kernel
from rankwise.objectives.torch.kernels import distil, laplace, listmle, pairwise, plrank, smooth, softmax, yeti
from rankwise.objectives.torch.kernels.bounded import PlacedBounded
from rankwise.objectives.torch.kernels.clickwise import PlacedClickwise
from rankwise.objectives.torch.kernels.fair import PlacedFair
from rankwise.objectives.torch.kernels.lists import DeviceLists
from rankwise.objectives.torch.kernels.placed import Launch, NoDeviceKernelError, Placed, PlacedKernel
from rankwise.objectives.torch.kernels.stochastic import PlacedStochastic
from rankwise.objectives.torch.kernels.wrappers import PlacedSum, PlacedWeighted
from rankwise.objectives.wrappers.clickwise import PreparedClickwise
from rankwise.objectives.wrappers.fair import PreparedFair
from rankwise.objectives.wrappers.stochastic import PreparedStochastic
from rankwise.objectives.wrappers.weighted import PreparedWeighted


def _as_it_is(prepared: PreparedKernel) -> PreparedKernel:
    return prepared


class DeviceKernel(NamedTuple):
    """A launch, and how the arrays of the CPU are arranged for it: None where it cannot do what the settings say."""

    launch: Launch
    arrange: Callable[[PreparedKernel], PreparedKernel | None] = _as_it_is


DEVICE_KERNELS: dict[Any, DeviceKernel] = {
    cross_entropy_kernel: DeviceKernel(softmax.launch),
    ndcg_kernel: DeviceKernel(partial(smooth.launch, smooth.NDCG), partial(smooth.arrange, smooth.NDCG)),
    ap_kernel: DeviceKernel(partial(smooth.launch, smooth.AP), partial(smooth.arrange, smooth.AP)),
    rbp_kernel: DeviceKernel(partial(smooth.launch, smooth.RBP), partial(smooth.arrange, smooth.RBP)),
    laplace_kernel: DeviceKernel(laplace.launch),
    pairwise_kernel: DeviceKernel(pairwise.launch, pairwise.arrange),
    yeti_kernel: DeviceKernel(yeti.launch, yeti.arrange),
    plrank_kernel: DeviceKernel(plrank.launch),
    listmle_kernel: DeviceKernel(listmle.launch, listmle.arrange),
    margins_kernel: DeviceKernel(distil.margins),
}
"""By the kernel of the CPU."""

DEVICE_WRAPPERS: dict[type[Prepared], Any] = {
    PreparedSum: PlacedSum,
    PreparedWeighted: PlacedWeighted,
    PreparedStochastic: PlacedStochastic,
    PreparedBounded: PlacedBounded,
    PreparedClickwise: PlacedClickwise,
    PreparedFair: PlacedFair,
    PreparedTempered: distil.PlacedTempered,
}
"""By what a wrapper has prepared: each has ``of(prepared, lists, dtype, place)``, which places what is inside."""


def place(prepared: Prepared, lists: DeviceLists, dtype: torch.dtype) -> Placed:
    """Copy a prepared objective to the device of its lists; ``NoDeviceKernelError`` where the CPU has to do it."""
    if type(prepared) in DEVICE_WRAPPERS:
        placed: Placed = DEVICE_WRAPPERS[type(prepared)].of(prepared, lists, dtype, place)
        return placed
    found = DEVICE_KERNELS.get(prepared.kernel) if isinstance(prepared, PreparedKernel) else None
    if found is None or not isinstance(prepared, PreparedKernel):
        raise NoDeviceKernelError(prepared)
    arranged = found.arrange(prepared)
    if arranged is None:
        raise NoDeviceKernelError(prepared)
    return PlacedKernel.of(arranged, found.launch, lists, dtype)
