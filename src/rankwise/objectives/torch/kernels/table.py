"""The one table of launches: for a kernel of the CPU, what a device makes of its arrays, and the launch."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from rankwise.objectives.base import Prepared, PreparedSum
from rankwise.objectives.pairwise.pairs import pairwise as pairwise_kernel
from rankwise.objectives.prepared import PreparedKernel
from rankwise.objectives.smooth.ranks import ap_kernel, ndcg_kernel, rbp_kernel
from rankwise.objectives.softmax.cross_entropy import cross_entropy_kernel
from rankwise.objectives.torch.kernels import pairwise, smooth, softmax
from rankwise.objectives.torch.kernels.lists import DeviceLists, to_device
from rankwise.objectives.torch.kernels.placed import Launch, Placed, PlacedKernel
from rankwise.objectives.torch.kernels.wrappers import PlacedStochastic, PlacedSum, PlacedWeighted
from rankwise.objectives.wrappers.stochastic import PreparedStochastic
from rankwise.objectives.wrappers.weighted import PreparedWeighted

Arranged = Callable[[PreparedKernel], PreparedKernel | None]
"""Gives the arrays as the device wants them, or None where it has no kernel for these settings."""


def place(prepared: Prepared, device: torch.device, dtype: torch.dtype) -> Placed | None:
    """Copy a prepared objective to a device; None where there is no kernel for it there."""
    if isinstance(prepared, PreparedKernel):
        arrange, launch = LAUNCHES.get(prepared.kernel, (_none, None))
        arranged = arrange(prepared)
        if arranged is None or launch is None:
            return None
        return PlacedKernel.of(arranged, launch, device, dtype)
    if isinstance(prepared, PreparedSum):
        parts = [place(part, device, dtype) for part in prepared.parts]
        found = tuple(part for part in parts if part is not None)
        return PlacedSum(prepared.factors, found) if len(found) == len(parts) else None
    if isinstance(prepared, PreparedStochastic | PreparedWeighted):
        inner = place(prepared.inner, device, dtype)
        if inner is None:
            return None
        lists = DeviceLists(prepared.offsets, device)
        if isinstance(prepared, PreparedStochastic):
            return PlacedStochastic(prepared.objective, inner, lists)
        return PlacedWeighted(inner, to_device(prepared.weights, device, dtype), lists)
    return None


def _none(_: PreparedKernel) -> None:
    return None


def _cross_entropy(prepared: PreparedKernel) -> PreparedKernel | None:
    settings: Any = prepared.settings
    return prepared if softmax.has_kernel(settings[0]) else None


def _smooth(prepared: PreparedKernel, *, metric: int) -> PreparedKernel:
    """Put the relevant documents of each list first, and count them; 0 where a list has nothing to learn from."""
    (worths,), sizes = prepared.per_document, np.diff(prepared.offsets)
    relevant = worths > 0.0
    queries = np.repeat(np.arange(sizes.size), sizes)
    order = np.lexsort((~relevant, queries)) - np.repeat(prepared.offsets[:-1], sizes)
    counts = np.bincount(queries[relevant], minlength=sizes.size).astype(np.int32)
    if metric == smooth.AP:
        counts[counts == sizes] = smooth.SETTLED
    elif metric == smooth.RBP:
        counts[counts == sizes] = 0
    else:
        counts[sizes == 1] = 0
    return dataclasses.replace(
        prepared, per_document=(worths, order.astype(np.int32)), per_query=(counts, *prepared.per_query)
    )


def _pairwise(prepared: PreparedKernel) -> PreparedKernel:
    """Put worths back into rows: the CPU sorts them, a device has no use for that."""
    rows, ranked, weights = prepared.per_document
    worths = np.empty_like(ranked)
    worths[rows + np.repeat(prepared.offsets[:-1], np.diff(prepared.offsets))] = ranked
    return dataclasses.replace(prepared, per_document=(worths, weights))


LAUNCHES: dict[Any, tuple[Arranged, Launch]] = {
    cross_entropy_kernel: (_cross_entropy, softmax.cross_entropy),
    ndcg_kernel: (partial(_smooth, metric=smooth.NDCG), partial(smooth.launch, smooth.NDCG)),
    ap_kernel: (partial(_smooth, metric=smooth.AP), partial(smooth.launch, smooth.AP)),
    rbp_kernel: (partial(_smooth, metric=smooth.RBP), partial(smooth.launch, smooth.RBP)),
    pairwise_kernel: (_pairwise, pairwise.launch),
}
