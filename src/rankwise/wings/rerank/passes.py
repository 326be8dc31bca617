"""Two exact passes: a ranking loss of any number of documents in the memory of one mini-batch.

A ranking loss needs only the scores of a model. The first pass scores all mini-batches without a graph; the loss is
differentiated by each score; and the second pass, which is the backward pass of the loss, scores each mini-batch again,
now with a graph, and propagates its part of the gradient. By the chain rule that is the gradient of the whole, provided
that both passes return the same scores, dropout included: each mini-batch is scored again from the random state of the
first time. The idea is GradCache's (Gao et al. 2021), for scores instead of embeddings.
"""

import contextlib
from collections.abc import Callable, Iterator, Sized
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

from rankwise import check
from rankwise.base.arrays import Keywords

Batch = TypeVar("Batch")
BatchRead = TypeVar("BatchRead", covariant=True)


class Batches(Sized, Protocol[BatchRead]):
    """Mini-batches that can be indexed twice: a list, or an object that builds each anew."""

    def __getitem__(self, number: int, /) -> BatchRead: ...


def two_passes(
    score: Callable[[Batch], Any],
    batches: Batches[Batch],
    loss: Callable[[Tensor], Tensor],
    *,
    model: object = None,
) -> Tensor:
    """Return the loss of all mini-batches; its ``backward()`` scores each again and propagates the gradient.

    ``score(batch)`` returns the scores of a mini-batch: a tensor of shape (n,) or (n, 1), ``{"scores": …}``, or an
    object with ``logits``. ``loss`` maps all scores, flat, in the order of the mini-batches and at least in single
    precision, to one number. ``model`` is the ``DistributedDataParallel`` that ``score`` calls, whose gradients must be
    exchanged only once; by default ``score`` itself, if it is a module.

    The value can be scaled, divided and added to others before ``backward()``, as gradient scalers and trainers that
    accumulate gradients do. Where gradients are off there is one pass only.

    A model must return the same scores twice: it may draw from torch's generators alone, and other state that its calls
    change, such as the running means of a batch normalization, changes twice.

    >>> model = torch.nn.Sequential(torch.nn.Linear(3, 1), torch.nn.Dropout(0.5))
    >>> batches = [torch.randn(4, 3), torch.randn(2, 3)]
    >>> value = two_passes(model, batches, lambda scores: -scores.log_softmax(0)[0])
    >>> value.backward()
    >>> model[0].weight.grad.shape
    torch.Size([1, 3])
    """
    if not len(batches):
        raise check.error("there must be at least one document to score", got="none")
    numbers, settings = range(len(batches)), _autocast_settings()
    if not torch.is_grad_enabled():
        scores = _concatenated([flat(score(batches[number])) for number in numbers])
        with _autocast(settings, enabled=False):
            return loss(scores)
    parallel = _parallel(score if model is None else model)
    if parallel is not None and parallel.static_graph:
        raise check.error(
            "two passes run a model many times in a step, which static_graph=True does not allow",
            hint="leave static_graph out of DistributedDataParallel",
        )
    states, parts = [], []
    with torch.no_grad():
        for number in numbers:
            states.append([generator.get_state() for generator in _generators()])
            parts.append(flat(score(batches[number])))
    # Weights cast without a graph would be reused in the second pass, and get no gradient.
    torch.clear_autocast_cache()
    scores = _concatenated(parts).requires_grad_()
    with _autocast(settings, enabled=False):  # the loss is computed in the precision of its scores
        value = loss(scores)
    gradients = torch.split(torch.autograd.grad(value, scores)[0], [part.numel() for part in parts])

    def second_pass(factor: Tensor) -> None:
        for number in numbers:
            # Gradients are exchanged in the last mini-batch only: ranks may have different numbers of mini-batches.
            with contextlib.nullcontext() if parallel is None or number == numbers[-1] else parallel.no_sync():
                with torch.enable_grad(), rng_restored(states[number]), _autocast(settings):
                    scores = flat(score(batches[number]))
                torch.autograd.backward(scores, (gradients[number] * factor).to(scores))

    value = value.detach().requires_grad_()
    value.register_hook(second_pass)  # type: ignore[no-untyped-call]
    return value


def flat(output: Any) -> Tensor:
    """Return the scores of a mini-batch, of shape (n,), from the output of a model."""
    scores = output
    if not isinstance(scores, Tensor):
        scores = (
            output["scores"] if isinstance(output, dict) and "scores" in output else getattr(output, "logits", None)
        )
    if isinstance(scores, Tensor) and scores.ndim == 2 and scores.shape[1] == 1:
        scores = scores[:, 0]
    if not isinstance(scores, Tensor) or scores.ndim != 1:
        raise check.error(
            "a model must give one score for each pair",
            got=f"shape {tuple(scores.shape)}" if isinstance(scores, Tensor) else type(output).__name__,
            hint="let score() give a tensor of shape (n,) or (n, 1), such as one column of the logits",
        )
    return scores


def _concatenated(parts: list[Tensor]) -> Tensor:
    scores = torch.cat(parts)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))


@contextlib.contextmanager
def rng_restored(states: list[Tensor]) -> Iterator[None]:
    """Restore the states of all generators within the context: dropout draws the same masks again."""
    generators = _generators()[: len(states)]  # a device may have come into use since
    outside = [generator.get_state() for generator in generators]
    try:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
        yield
    finally:
        for generator, state in zip(generators, outside, strict=True):
            generator.set_state(state)


def _autocast_settings() -> list[Keywords]:
    """Return the settings of autocast on each kind of device: a backward pass runs outside of them."""
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    cached = torch.is_autocast_cache_enabled()
    return [
        {
            "device_type": kind,
            "dtype": torch.get_autocast_dtype(kind),
            "enabled": torch.is_autocast_enabled(kind),
            "cache_enabled": cached,
        }
        for kind in kinds
        if torch.amp.is_autocast_available(kind)
    ]


@contextlib.contextmanager
def _autocast(settings: list[Keywords], **changes: bool) -> Iterator[None]:
    with contextlib.ExitStack() as stack:
        for setting in settings:
            stack.enter_context(torch.autocast(**setting | changes))
        yield


def _generators() -> list[torch.Generator]:
    """Return every generator that a model may draw from; those of a device exist once it is in use."""
    generators = [torch.default_generator]
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        generators += torch.cuda.default_generators
    if torch.xpu.is_initialized():  # type: ignore[no-untyped-call]
        generators += torch.xpu.default_generators
    if torch.backends.mps.is_available():
        generators.append(torch.mps._get_default_mps_generator())
    return generators


def global_mean(total: Tensor, weight: Tensor, model: object) -> Tensor:
    """Return the mean over the lists of all ranks, from the sums of this rank.

    DistributedDataParallel averages gradients over ranks. With a mean on each rank, a list on a rank with few lists
    would count more than one on a rank with many; so the sum of this rank is divided by the weight of all, and
    multiplied by the number of ranks, which the average divides by. Without a process group, or where gradients are off
    and ranks need not be in step, it is the mean of this rank's lists.
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
    while hasattr(model, "_orig_mod"):  # of a model wrapped by torch.compile
        model = model._orig_mod
    return model if isinstance(model, DistributedDataParallel) else None
