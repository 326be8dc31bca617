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
    model = score if model is None and isinstance(score, torch.nn.Module) else model
    if not len(batches):
        raise check.error("there must be at least one document to score", got="none")
    if not torch.is_grad_enabled():
        scores = _concatenated([flat(score(batches[number])) for number in range(len(batches))])
        with full_precision():
            return loss(scores)
    check_parallel(model)
    states, parts = [], []
    with torch.no_grad():
        for number in range(len(batches)):
            states.append(RngState())
            parts.append(flat(score(batches[number])))
    # Weights cast without a graph would be reused in the second pass, and get no gradient.
    torch.clear_autocast_cache()
    scores = _concatenated(parts).requires_grad_()
    with full_precision():
        value = loss(scores)
    gradients = torch.split(torch.autograd.grad(value, scores)[0], [part.numel() for part in parts])
    autocast, last = AutocastState(), len(batches) - 1

    def second_pass(factor: Tensor) -> None:
        for number, (state, gradient) in enumerate(zip(states, gradients, strict=True)):
            with synchronized(model, number == last):
                with torch.enable_grad(), state.restored(), autocast.restored():
                    scores = flat(score(batches[number]))
                torch.autograd.backward(scores, (gradient * factor).to(scores))

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


class RngState:
    """State of torch's random number generators, of the CPU and of all devices in use, at construction.

    Dropout draws the same masks again inside ``with state.restored():``; afterwards generators continue as before it.
    """

    def __init__(self) -> None:
        self._states = [(generator, generator.get_state()) for generator in _generators()]

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the state within the context."""
        outside = [(generator, generator.get_state()) for generator, _ in self._states]
        try:
            for generator, state in self._states:
                generator.set_state(state)
            yield
        finally:
            for generator, state in outside:
                generator.set_state(state)


class AutocastState:
    """Autocast settings at construction: a backward pass runs outside of them, often in another thread."""

    def __init__(self) -> None:
        self._settings = [
            (kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)) for kind in _autocast_devices()
        ]
        self._cached = torch.is_autocast_cache_enabled()

    @contextlib.contextmanager
    def restored(self) -> Iterator[None]:
        """Restore the settings within the context; autocast is off in it if it was off then."""
        with contextlib.ExitStack() as stack:
            for kind, dtype, enabled in self._settings:
                stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=self._cached))
            yield


@contextlib.contextmanager
def full_precision() -> Iterator[None]:
    """Turn autocast off: the loss is computed in the precision of its scores."""
    with contextlib.ExitStack() as stack:
        for kind in _autocast_devices():
            stack.enter_context(torch.autocast(kind, enabled=False))
        yield


def _autocast_devices() -> list[str]:
    accelerator = torch.accelerator.current_accelerator()
    kinds = ["cpu"] if accelerator is None else ["cpu", accelerator.type]
    return [kind for kind in kinds if torch.amp.is_autocast_available(kind)]


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


# Steps shared by several processes.


def synchronized(model: object, last: bool) -> contextlib.AbstractContextManager[object]:
    """Exchange gradients in the ``last`` mini-batch only, so that ranks may have different numbers of mini-batches."""
    parallel = _parallel(model)
    return contextlib.nullcontext() if parallel is None or last else parallel.no_sync()


def check_parallel(model: object) -> None:
    """Reject a model that cannot be run twice in one step."""
    parallel = _parallel(model)
    if parallel is not None and parallel.static_graph:
        raise check.error(
            "two passes run a model many times in a step, which static_graph=True does not allow",
            hint="leave static_graph out of DistributedDataParallel",
        )


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
