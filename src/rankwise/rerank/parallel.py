"""Steps that several processes share: gradients travel once, and a list counts the same on whichever rank it is."""

import contextlib
from typing import Any

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from rankwise import check


def synchronized(model: object, last: bool) -> contextlib.AbstractContextManager[Any]:
    """Keep gradients on this rank until the ``last`` mini-batch, so that ranks may have different numbers of them."""
    parallel = _parallel(model)
    return contextlib.nullcontext() if parallel is None or last else parallel.no_sync()


def check_parallel(model: object) -> None:
    """Refuse what cannot be run twice in one step."""
    parallel = _parallel(model)
    if parallel is not None and parallel.static_graph:
        raise check.error(
            "two passes run a model many times in a step, which static_graph=True does not allow",
            hint="leave static_graph out of DistributedDataParallel",
        )


def global_mean(total: Tensor, weight: Tensor, model: object) -> Tensor:
    """The mean over all lists of all ranks, from the sums of this rank.

    DistributedDataParallel averages gradients over ranks. A mean on each rank would let a list on a rank with few count
    more than one on a rank with many; so the sum of this rank is divided by the weight of all, and multiplied by the
    number of ranks, over which it is averaged next. Without a process group, or where no gradient is wanted and ranks
    need not be in step, it is the mean of this rank's lists.
    """
    ranks = 1
    distributed = torch.distributed
    if torch.is_grad_enabled() and distributed.is_available() and distributed.is_initialized():
        parallel = _parallel(model)
        group = None if parallel is None else parallel.process_group
        ranks = distributed.get_world_size(group)
        if ranks > 1:
            weight = weight.detach().clone()
            distributed.all_reduce(weight, group=group)
    return ranks * total / torch.where(weight == 0, 1, weight)


def _parallel(model: object) -> DistributedDataParallel | None:
    while hasattr(model, "_orig_mod"):  # what torch.compile wraps a model in
        model = model._orig_mod
    return model if isinstance(model, DistributedDataParallel) else None
