"""The torch face of the objectives: one autograd function for all of them.

An objective gives each query's loss and its derivative by each score in one call, so the forward pass computes both and
the backward pass multiplies. On the CPU tensors and arrays share memory; only what has another precision than the
objectives' own, double, is widened, once.
"""

import inspect
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rankwise import check
from rankwise.arrays import Column, offsets_of, read_only
from rankwise.objectives.base import Prepared
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as find_objective
from rankwise.objectives.torch.devices import OnDevice, on_device, warn_of_travel
from rankwise.stream import Stream

TensorLike = Tensor | ArrayLike
Given = TypeVar("Given")
_REDUCTIONS = ("mean", "sum", "none")


class TorchLoss(torch.nn.Module):
    """An objective as a module of torch without parameters; see :func:`rankwise.torch_loss`.

    The loss has the precision of the scores, at least single; gradients flow to the scores, in their precision, and to
    the weights. Labels and columns of documents (``document_weights``, ``teacher_scores`` …) are data: none flow there.

    ``step`` counts the calls that were not given a stream, while the module is training; seed and step make their
    random numbers, and are saved with the module's state. A trainer of Hugging Face's counts instead, where it calls.
    """

    def __init__(self, objective: ObjectiveLike, reduction: str = "mean", seed: int = 0) -> None:
        super().__init__()
        self.objective = find_objective(objective)
        self.reduction = check.choice("reduction", reduction, _REDUCTIONS)
        self.seed, self.step = check.integer("seed", seed, least=0), 0
        self._trainer: tuple[Any, int, int] = (None, 0, 0)
        """The trainer that called last: its state, its step, and how many batches of that step there were."""

    def next_stream(self) -> Stream:
        """The random numbers of this step; a module that is training continues with the next.

        Trainers of Hugging Face's resume at a step of theirs and save no loss, so that their step counts where one of
        them calls. Batches whose gradients are added up in one step each have random numbers of their own.
        """
        state: Any = trainer_state() if self.training else None
        if state is None:
            stream = Stream(self.seed, self.step)
            self.step += self.training
            return stream
        last, step, batches = self._trainer
        batches = batches if state is last and state.global_step == step else 0
        self._trainer = (state, state.global_step, batches + 1)
        stream = Stream(self.seed, state.global_step)
        return stream.child("batch", batches) if batches else stream

    def get_extra_state(self) -> Tensor:
        """Seed and step, for ``state_dict``: a loop that resumes draws what it would have drawn."""
        return torch.tensor([self.seed, self.step])

    def set_extra_state(self, state: Tensor) -> None:
        """Take up seed and step from ``load_state_dict``."""
        self.seed, self.step = (int(number) for number in state)

    def forward(
        self,
        scores: Tensor,
        labels: TensorLike,
        offsets: TensorLike,
        weights: TensorLike | None = None,
        stream: Stream | None = None,
        **documents: TensorLike,
    ) -> Tensor:
        """Give the loss of flat, ragged lists: query q has the documents ``offsets[q]`` to ``offsets[q + 1]``."""
        if torch.compiler.is_compiling():
            prepared: PreparedLoss = _outside(self.prepare, labels, offsets, **documents)
            return prepared(scores, weights, stream)
        return self.prepare(labels, offsets, **documents)(scores, weights, stream)

    def prepare(self, labels: TensorLike, offsets: TensorLike, **documents: TensorLike) -> "PreparedLoss":
        """Look at labels once, for a loop that comes back to the same lists: ``prepared.take(queries)(scores)``."""
        columns = {name: _array(column) for name, column in documents.items()}
        grades, starts = _array(labels), _array(offsets)
        if grades.ndim > 1 or starts.ndim > 1:
            raise check.error(
                "a loss is of flat lists, one after the other, and of offsets that say where each starts",
                got=f"labels of shape {grades.shape}, offsets of shape {starts.shape}",
                hint="call loss.padded(scores, labels, mask) for a padded batch",
            )
        return PreparedLoss(self, _Everywhere(self.objective.prepare(grades, starts, **columns)))

    @torch.compiler.disable
    def padded(
        self,
        scores: Tensor,
        labels: TensorLike,
        mask: TensorLike,
        weights: TensorLike | None = None,
        stream: Stream | None = None,
        **documents: TensorLike,
    ) -> Tensor:
        """Give the loss of a padded batch: one row per query, ``mask`` True where there is a document.

        What stands in the padding is never looked at, and its gradient is exactly 0.
        """
        scores, inside = _tensor(scores), _tensor(mask)
        columns = {"scores": scores, "labels": labels, **documents}
        flat = {name: _inside(name, _tensor(column), inside) for name, column in columns.items()}
        offsets = offsets_of(_array(inside.sum(1)))
        return self(flat.pop("scores"), flat.pop("labels"), offsets, weights, stream, **flat)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """What stands between the brackets of its expression."""
        return f"{self.objective!r}, reduction={self.reduction!r}"


def trainer_state() -> Any:
    """Return the state of the Hugging Face trainer that is calling, or None.

    Trainers hand a loss nothing but data: the only way to their step is up the stack.
    """
    trainer: Any = getattr(sys.modules.get("transformers.trainer"), "Trainer", None)
    frame = None if trainer is None else inspect.currentframe()
    while frame is not None:
        if frame.f_code.co_name in ("compute_loss", "training_step"):
            caller = frame.f_locals.get("self")
            if isinstance(caller, trainer):
                return caller.state
        frame = frame.f_back
    return None


class _Everywhere:
    """A prepared objective on the CPU, and on every device that asked for it."""

    def __init__(self, prepared: Prepared) -> None:
        self.here = prepared
        self._there: dict[tuple[torch.device, torch.dtype], OnDevice | None] = {}

    def there(self, device: torch.device, dtype: torch.dtype) -> OnDevice | None:
        """Give it on a device, if there are kernels for it; it is copied once."""
        if (device, dtype) not in self._there:
            self._there[device, dtype] = on_device(self.here, device, dtype)
        return self._there[device, dtype]


class PreparedLoss:
    """A loss that has seen the labels: ``prepared(scores, weights=None, stream=None)``.

    ``take`` gives the loss of some of the queries. They are taken where the scores then turn out to be.
    """

    def __init__(self, loss: TorchLoss, whole: _Everywhere, queries: NDArray[np.int64] | None = None) -> None:
        self.loss, self._whole, self._queries = loss, whole, queries
        self._here: Prepared | None = None
        self._there: OnDevice | None = None
        offsets = whole.here.offsets
        self._sizes = (offsets[1:] - offsets[:-1])[slice(None) if queries is None else queries]
        self._n_docs = int(self._sizes.sum())

    def __call__(self, scores: Tensor, weights: TensorLike | None = None, stream: Stream | None = None) -> Tensor:
        """Give the loss at ``scores``."""
        if torch.compiler.is_compiling():
            value: Tensor = _outside(self._reduced, scores, weights, stream)
            return value
        return self._reduced(scores, weights, stream)

    def _reduced(self, scores: Tensor, weights: TensorLike | None, stream: Stream | None) -> Tensor:
        scores = _tensor(scores)
        if scores.ndim != 1 or scores.numel() != self._n_docs:
            raise check.error(
                "scores must be flat, one number per document",
                got=f"shape {tuple(scores.shape)} for {self._n_docs} documents",
                hint="take the last axis off with scores.squeeze(-1), or pass a padded batch to loss.padded",
            )
        if stream is None:
            stream = self.loss.next_stream()
        if weights is None and self.loss.reduction != "none":
            share = max(self._sizes.size, 1) if self.loss.reduction == "mean" else 1
            total: Tensor = _Total.apply(scores, self, stream, share)[0]  # type: ignore[no-untyped-call]
            return total
        there = self._placed(scores)
        sizes = there.lists.sizes if there is not None else torch.from_numpy(self._sizes).to(scores.device)
        value: Tensor = _Loss.apply(scores, sizes, self, stream)[0]  # type: ignore[no-untyped-call]
        return value if weights is None else _weighted(value, weights, self.loss.reduction, self._n_docs)

    def take(self, queries: NDArray[np.int64]) -> "PreparedLoss":
        """Give the loss of some of the queries, by number: a mini-batch."""
        own = queries if self._queries is None else self._queries[queries]
        return PreparedLoss(self.loss, self._whole, own)

    def differentiate(self, scores: Tensor, stream: Stream | None) -> tuple[Tensor, Tensor]:
        """Value and gradient where the scores are, in single precision at least: by a device kernel, or the CPU."""
        device, precision = scores.device, _precision(scores)
        there = self._placed(scores)
        if there is not None:
            return there.differentiate(scores.detach().to(precision), stream)
        if device.type != "cpu":
            warn_of_travel(self.loss.objective, device.type)
        if self._here is None:
            self._here = self._whole.here if self._queries is None else self._whole.here.take(self._queries)
        found = self._here(_array(scores.detach().to("cpu", torch.float64)), stream, hessian=False)
        if np.isnan(found.value).any():
            raise check.error(
                f"{self.loss.objective!r} gives no value, which a loss needs",
                hint="let the function return (value, gradient, hessian)",
            )
        return _tensor(found.value).to(device, precision), _tensor(found.gradient).to(device, precision)

    def _placed(self, scores: Tensor) -> OnDevice | None:
        """These queries where the scores are, if there are kernels; those of the last device are kept."""
        whole = self._whole.there(scores.device, _precision(scores))
        if whole is None or self._queries is None:
            return whole
        if self._there is None or (self._there.lists.device, self._there.dtype) != (scores.device, _precision(scores)):
            self._there = whole.take(self._queries)
        return self._there


@torch.compiler.disable
def _outside(function: Callable[..., Given], *arguments: Any, **keywords: Any) -> Given:
    """Call a function between two graphs of torch.compile, which cannot look into kernels of Numba.

    Whoever does not compile is spared the decorator, which takes longer than the loss of a few lists.
    """
    return function(*arguments, **keywords)


def _precision(scores: Tensor) -> torch.dtype:
    """What kernels compute scores in: single precision at least."""
    return torch.promote_types(scores.dtype, torch.float32)


def _inside(name: str, column: Tensor, inside: Tensor) -> Tensor:
    """The documents of a padded column, row after row."""
    if inside.dtype != torch.bool or inside.ndim != 2 or column.shape != inside.shape:
        made = "make the mask with positions < sizes[:, None]; it is True where there is a document"
        raise check.error(
            f"a padded batch needs {name} and mask of one shape, queries times documents, and a mask of True and False",
            got=f"{name} of shape {tuple(column.shape)}, mask of shape {tuple(inside.shape)} and {inside.dtype}",
            hint="pass mask.bool()" if inside.dtype != torch.bool and column.shape == inside.shape else made,
        )
    return torch.masked_select(column, inside.to(column.device))


def _weighted(value: Tensor, weights: TensorLike, reduction: str, n_docs: int) -> Tensor:
    """Weigh the queries and put them together; the mean by weights that are all 0 is 0."""
    given = _tensor(weights)
    check.query_weights(_array(weights), value.numel(), all_zero=True, n_docs=n_docs)
    given = given.to(value.device, value.dtype)
    weighted = given * value
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    total = given.sum()
    return weighted.sum() / torch.where(total == 0, 1, total)


def _with_signature(forward: Callable[..., Given]) -> Callable[..., Given]:
    """Note a function's signature, which torch asks for at every call and would otherwise work out anew."""
    forward.__signature__ = inspect.signature(forward)  # type: ignore[attr-defined]
    return forward


class _Loss(torch.autograd.Function):
    """The loss of each query; its gradient is known with it and waits for the backward pass."""

    @staticmethod
    @_with_signature
    def forward(scores: Tensor, _sizes: Tensor, prepared: PreparedLoss, stream: Stream | None) -> tuple[Tensor, Tensor]:
        return prepared.differentiate(scores, stream)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, ...], output: tuple[Tensor, Tensor]) -> None:
        scores, sizes = inputs[:2]
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(scores, output[1], sizes)

    @staticmethod
    def backward(ctx: Any, factors: Tensor | None, _: None) -> tuple[Tensor | None, None, None, None]:
        if factors is None:
            return None, None, None, None
        scores, gradient, sizes = ctx.saved_tensors
        spread = factors.repeat_interleave(sizes, output_size=gradient.numel())
        return _Gradient.of(spread, scores, gradient), None, None, None


class _Total(torch.autograd.Function):
    """The losses of all queries in one number, which is most of what is asked for: all gradients have one factor."""

    @staticmethod
    @_with_signature
    def forward(scores: Tensor, prepared: PreparedLoss, stream: Stream | None, share: int) -> tuple[Tensor, Tensor]:
        value, gradient = prepared.differentiate(scores, stream)
        return value.sum() / share, gradient

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1])
        ctx.share = inputs[3]

    @staticmethod
    def backward(ctx: Any, factor: Tensor | None, _: None) -> tuple[Tensor | None, None, None, None]:
        if factor is None:
            return None, None, None, None
        return _Gradient.of(factor / ctx.share, *ctx.saved_tensors), None, None, None


class _Gradient(torch.autograd.Function):
    """The gradient, which depends on the scores but cannot say how: to differentiate it must not give silent zeros."""

    @classmethod
    def of(cls, factors: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
        """Multiply; a graph is made only for those who keep one."""
        if torch.is_grad_enabled():
            return cls.apply(factors, scores, gradient)  # type: ignore[no-any-return, no-untyped-call]
        return (factors * gradient).to(scores.dtype)

    @staticmethod
    @_with_signature
    def forward(factors: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
        return (factors * gradient).to(scores.dtype)

    @staticmethod
    def setup_context(ctx: object, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        pass

    @staticmethod
    def backward(_ctx: object, _: Tensor) -> NoReturn:
        raise check.error(
            "the loss of an objective can be differentiated once",
            got="a derivative of its gradient",
            hint="leave create_graph=True out; an objective's own call gives the diagonal of the Hessian",
        )


def _tensor(values: TensorLike) -> Tensor:
    """A tensor that shares memory with an array, or with a copy of one that cannot be written: torch knows no such."""
    return values if isinstance(values, Tensor) else torch.from_numpy(np.require(values, requirements=("C", "W")))


def _array(values: TensorLike) -> Column:
    """A read-only array that shares memory with a tensor of the CPU, or a copy of one from elsewhere."""
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return read_only(np.asarray(values))
