"""Two exact passes: a ranking loss of any number of documents in the memory of one mini-batch.

A ranking loss needs nothing of a model but its scores. The first pass scores everything without a graph; the loss gives
its gradient by each score; and the second pass, which is the backward pass of the loss, scores each mini-batch once
more, now with a graph, and pushes its part of the gradient through. By the chain rule that is the gradient of the
whole, provided that both passes give the same scores, dropout included: each mini-batch is replayed with the random
state that it was first scored with. The idea is GradCache's (Gao et al. 2021), for scores instead of embeddings.
"""

from collections.abc import Callable, Sized
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from rankwise import check
from rankwise.rerank.parallel import check_parallel, synchronized
from rankwise.rerank.replay import Precision, RandomState, full_precision

Batch = TypeVar("Batch")
BatchRead = TypeVar("BatchRead", covariant=True)


class Batches(Sized, Protocol[BatchRead]):
    """Mini-batches that can be asked for twice: a list of them, or what makes each anew."""

    def __getitem__(self, number: int, /) -> BatchRead: ...


def two_passes(
    score: Callable[[Batch], Any],
    batches: Batches[Batch],
    loss: Callable[[Tensor], Tensor],
    *,
    model: object = None,
) -> Tensor:
    """Give the loss of all mini-batches; ``backward()`` of it scores each once more and pushes the gradient through.

    ``score(batch)`` gives the scores of a mini-batch: a tensor of shape (n,) or (n, 1), ``{"scores": …}``, or an object
    with ``logits``. ``loss`` takes all scores in one row, in the order of the mini-batches, at least in single
    precision, and gives one number. ``model`` is what ``score`` calls where that is a ``DistributedDataParallel``, of
    which gradients must be sent but once; ``score`` itself, if it is a module.

    The value can be scaled, divided and added to others before ``backward()``, as gradient scalers and trainers that
    accumulate gradients do. Where gradients are off there is one pass only.

    A model must give the same scores twice: it may draw from torch's generators alone, and whatever else its calls
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
        scores = _joined([flat(score(batches[number])) for number in range(len(batches))])
        with full_precision():
            return loss(scores)
    check_parallel(model)
    states, parts = [], []
    with torch.no_grad():
        for number in range(len(batches)):
            states.append(RandomState())
            parts.append(flat(score(batches[number])))
    # Weights that were cast without a graph would be taken again where a graph is wanted, and get no gradient.
    torch.clear_autocast_cache()
    scores = _joined(parts).requires_grad_()
    with full_precision():
        value = loss(scores)
    gradients = torch.split(torch.autograd.grad(value, scores)[0], [part.numel() for part in parts])
    precision, last = Precision(), len(batches) - 1

    def replay(factor: Tensor) -> None:
        for number, (state, gradient) in enumerate(zip(states, gradients, strict=True)):
            with synchronized(model, number == last):
                with torch.enable_grad(), state.again(), precision.again():
                    found = flat(score(batches[number]))
                torch.autograd.backward(found, (gradient * factor).to(found))

    value = value.detach().requires_grad_()
    value.register_hook(replay)  # type: ignore[no-untyped-call]
    return value


def flat(scores: Any) -> Tensor:
    """The scores of a mini-batch in one row, of what a model gave."""
    found = scores
    if not isinstance(found, Tensor):
        found = found["scores"] if isinstance(found, dict) and "scores" in found else getattr(found, "logits", found)
    if isinstance(found, Tensor) and found.ndim == 2 and found.shape[1] == 1:
        found = found[:, 0]
    if not isinstance(found, Tensor) or found.ndim != 1:
        raise check.error(
            "a model must give one score for each pair",
            got=f"shape {tuple(found.shape)}" if isinstance(found, Tensor) else type(found).__name__,
            hint="let score() give a tensor of shape (n,) or (n, 1), such as one column of the logits",
        )
    return found


def _joined(parts: list[Tensor]) -> Tensor:
    scores = torch.cat(parts)
    return scores.to(torch.promote_types(scores.dtype, torch.float32))
