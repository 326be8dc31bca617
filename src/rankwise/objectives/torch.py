"""Objectives as losses of torch: one autograd function for all of them.

On the CPU tensors and arrays share memory. On a device with kernels (Triton) nothing is copied to the host: labels on
the device are prepared there. An objective without a device kernel, such as a user's
function, is computed on the CPU, with one warning.
"""

import inspect
import sys
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from rankwise import check
from rankwise.arrays import Array, Column, offsets_of, read_only
from rankwise.objectives import autograd
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import KERNEL_DEVICES, NoDeviceKernelError, Prepared, checked_lists, has_kernels
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as as_objective
from rankwise.stream import Stream

TensorLike = Tensor | ArrayLike
Result = TypeVar("Result")
_REDUCTIONS = ("mean", "sum", "none")
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
_warned: set[str] = set()


class TorchLoss(torch.nn.Module):
    """An objective as a module of torch without parameters; see :func:`rankwise.torch_loss`.

    The loss has the precision of the scores, at least single; gradients flow to the scores, in their precision, and to
    the weights. Labels and columns of documents (``document_weights``, ``teacher_scores`` …) are data: none flow there.

    ``step`` counts the calls without a stream while the module is training; seed and step make their random numbers,
    and are saved with the module's state. A trainer of Hugging Face's counts instead, where it calls.
    """

    def __init__(self, objective: ObjectiveLike, reduction: str = "mean", seed: int = 0) -> None:
        super().__init__()
        self.objective = as_objective(objective)
        self.reduction = check.choice("reduction", reduction, _REDUCTIONS)
        self.seed, self.step = check.integer("seed", seed, least=0), 0
        self._stream = Stream(self.seed)
        self._trainer: tuple[Any, int, int] = (None, 0, 0)
        """The trainer that called last: its state, its step, and the number of batches of that step."""

    def next_stream(self) -> Stream:
        """Return the random numbers of this step; a module that is training continues with the next.

        Trainers of Hugging Face's resume at a step of theirs and save no loss, so that their step counts where one of
        them calls. Batches whose gradients are added up in one step each have random numbers of their own.
        """
        state: Any = _trainer_state() if self.training else None
        if state is None:
            stream = self._stream.at(self.step)
            if self.training:
                self.__dict__["step"] += 1  # nn.Module's __setattr__ would look for parameters
            return stream
        last, step, batches = self._trainer
        batches = batches if state is last and state.global_step == step else 0
        self.__dict__["_trainer"] = (state, state.global_step, batches + 1)
        stream = self._stream.at(state.global_step)
        return stream.child("batch", batches) if batches else stream

    def get_extra_state(self) -> Tensor:
        """Return seed and step, for ``state_dict``: a loop that resumes draws what it would have drawn."""
        return torch.tensor([self.seed, self.step])

    def set_extra_state(self, state: Tensor) -> None:
        """Restore seed and step from ``load_state_dict``."""
        self.seed, self.step = (int(number) for number in state)
        self._stream = Stream(self.seed)

    def forward(
        self,
        scores: Tensor,
        labels: TensorLike,
        offsets: TensorLike,
        weights: TensorLike | None = None,
        stream: Stream | None = None,
        **columns: TensorLike,
    ) -> Tensor:
        """Return the loss of flat, ragged lists: query q has the documents ``offsets[q]`` to ``offsets[q + 1]``."""
        if torch.compiler.is_compiling():
            prepared: PreparedLoss = _uncompiled(self._prepare, labels, offsets, columns, scores)
            return prepared(scores, weights, stream)
        return self._prepare(labels, offsets, columns, scores)(scores, weights, stream)

    def prepare(self, labels: TensorLike, offsets: TensorLike, **columns: TensorLike) -> "PreparedLoss":
        """Prepare labels once, for a loop over the same lists: ``prepared.take(queries)(scores)``."""
        return self._prepare(labels, offsets, columns, None)

    def _prepare(
        self, labels: TensorLike, offsets: TensorLike, columns: dict[str, TensorLike], scores: Tensor | None
    ) -> "PreparedLoss":
        if np.ndim(labels) > 1 or np.ndim(offsets) > 1:
            raise check.error(
                "a loss is of flat lists, one after the other, and of offsets that say where each starts",
                got=f"labels of shape {tuple(np.shape(labels))}, offsets of shape {tuple(np.shape(offsets))}",
                hint="call loss.padded(scores, labels, mask) for a padded batch",
            )
        if isinstance(labels, Tensor) and self.objective.prepares_on_device and has_kernels(labels.device.type):
            dtype = torch.float64 if scores is None else _precision(scores)
            with _on(labels):
                checked = checked_lists(labels.detach().to(dtype), offsets)
                return PreparedLoss(self, self.objective.prepare(*checked, **columns))  # type: ignore[arg-type]
        arrays = {name: _array(column) for name, column in columns.items()}
        return PreparedLoss(self, self.objective.prepare(_array(labels), _array(offsets), **arrays))

    @torch.compiler.disable
    def padded(
        self,
        scores: Tensor,
        labels: TensorLike,
        mask: TensorLike,
        weights: TensorLike | None = None,
        stream: Stream | None = None,
        **columns: TensorLike,
    ) -> Tensor:
        """Return the loss of a padded batch: one row per query, ``mask`` True where there is a document.

        Padding is never read, and its gradient is exactly 0.
        """
        scores, inside = _tensor(scores), _tensor(mask)
        padded = {"scores": scores, "labels": labels, **columns}
        flat = {name: _unpadded(name, _tensor(column), inside) for name, column in padded.items()}
        offsets = offsets_of(_array(inside.sum(1)))
        return self(flat.pop("scores"), flat.pop("labels"), offsets, weights, stream, **flat)  # type: ignore[no-any-return]

    def extra_repr(self) -> str:
        """Return the arguments of its expression."""
        return f"{self.objective!r}, reduction={self.reduction!r}"


def _trainer_state() -> Any:
    """Return the state of the Hugging Face trainer that is calling, or None.

    Trainers pass nothing but data to a loss: their step can only be found up the stack.
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


class PreparedLoss:
    """A loss that has seen the labels: ``prepared(scores, weights=None, stream=None)``.

    It is copied to the device of the scores at its first call with such; mini-batches are selected there.
    """

    def __init__(self, loss: TorchLoss, prepared: Prepared) -> None:
        self.loss, self._cpu_or_first = loss, prepared
        self._on: dict[tuple[torch.device, torch.dtype], Prepared | None] = {}
        lists: Any = prepared.lists
        if lists.device is not None:
            self._on[lists.device, lists.dtype] = prepared

    def __call__(self, scores: Tensor, weights: TensorLike | None = None, stream: Stream | None = None) -> Tensor:
        """Return the loss at ``scores``."""
        if torch.compiler.is_compiling():
            value: Tensor = _uncompiled(self._reduced, scores, weights, stream)
            return value
        return self._reduced(scores, weights, stream)

    def _reduced(self, scores: Tensor, weights: TensorLike | None, stream: Stream | None) -> Tensor:
        scores = _tensor(scores)
        lists = (self.on(scores) or self.prepared()).lists
        if scores.ndim != 1 or scores.numel() != lists.n_docs:
            raise check.error(
                "scores must be flat, one number per document",
                got=f"shape {tuple(scores.shape)} for {lists.n_docs} documents",
                hint="take the last axis off with scores.squeeze(-1), or pass a padded batch to loss.padded",
            )
        if stream is None:
            stream = self.loss.next_stream()
        if weights is None and self.loss.reduction != "none":
            factor = 1.0 / max(lists.n_queries, 1) if self.loss.reduction == "mean" else 1.0
            return autograd.loss(scores, self, stream, factor)
        value = autograd.loss(scores, self, stream, sizes=_tensor(lists.sizes).to(scores.device))
        return value if weights is None else _weighted(value, weights, self.loss.reduction, lists.n_docs)

    def take(self, queries: ArrayLike) -> "PreparedLoss":
        """Return the loss of some of the queries, by number: a mini-batch."""
        return LossPart(self, queries)

    def prepared(self) -> Prepared:
        """Return the prepared objective on the CPU, or where its labels were."""
        return self._cpu_or_first

    def on(self, scores: Tensor) -> Prepared | None:
        """Return the prepared objective on the scores' device, in their precision; None if only the CPU has kernels."""
        if not has_kernels(scores.device.type):
            return None
        key = scores.device, _precision(scores)
        if key not in self._on:
            self._on[key] = self._moved(scores, *key)
        return self._on[key]

    def _moved(self, scores: Tensor, device: torch.device, dtype: torch.dtype) -> Prepared | None:
        try:
            with _on(scores):
                return self.prepared().to(device, dtype)
        except NoDeviceKernelError:
            return None

    def total(
        self, scores: Tensor, stream: Stream | None, factor: float, moved: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return ``factor`` times the sum of the losses, and its gradient; ``moved`` becomes 1 if that is not 0."""
        prepared = self.on(scores)
        if prepared is None:
            value, gradient = self._on_cpu(scores, stream)
            if factor != 1.0:
                gradient *= factor
            if moved is not None and gradient.any():
                moved.fill_(1)
            return self._back(np.array(value.sum() * factor), scores), self._back(gradient, scores)
        with _on(scores):
            lists: Any = prepared.lists
            usable, flags = lists.checked_scores(scores.detach())
            out = prepared.empty(hessian=False)
            prepared.fill(usable, stream, out)
            return lists.reduce(flags, out, factor, moved), out.gradient

    def differentiate(self, scores: Tensor, stream: Stream | None) -> tuple[Tensor, Tensor]:
        """Return value and gradient on the device of the scores, in single precision at least."""
        prepared = self.on(scores)
        if prepared is None:
            value, gradient = self._on_cpu(scores, stream)
            return self._back(value, scores), self._back(gradient, scores)
        with _on(scores):
            value, gradient, _, _ = prepared(scores.detach(), stream, hessian=False)
        return value, gradient

    def _on_cpu(self, scores: Tensor, stream: Stream | None) -> tuple[Array, Array]:
        if scores.device.type != "cpu":
            _warn_of_copies(self.loss.objective, scores.device.type)
        value, gradient, _, _ = self.prepared()(_array(scores).astype(np.float64, copy=False), stream, hessian=False)
        if np.isnan(value).any():
            raise check.error(
                f"{self.loss.objective!r} gives no value, which a loss needs",
                hint="let the function return (value, gradient, hessian)",
            )
        return value, gradient

    def _back(self, numbers: Array, scores: Tensor) -> Tensor:
        """Return an array as a tensor on the device of the scores."""
        precision = _precision(scores)
        tensor = torch.from_numpy(numbers.astype(_NUMPY[precision], copy=False))
        return tensor if scores.device.type == "cpu" else tensor.to(scores.device)


class LossPart(PreparedLoss):
    """A mini-batch of a loss, selected on the device of the scores."""

    def __init__(self, full: PreparedLoss, queries: ArrayLike) -> None:
        self.loss, self._full, self._queries = full.loss, full, queries
        self._on: dict[tuple[torch.device, torch.dtype], Prepared | None] = {}

    def prepared(self) -> Prepared:
        """Return the prepared objective on the CPU, or where its labels were."""
        if "_cpu_or_first" not in self.__dict__:
            self._cpu_or_first = self._full.prepared().take(self._queries)
        return self._cpu_or_first

    def _moved(self, scores: Tensor, device: torch.device, dtype: torch.dtype) -> Prepared | None:
        full = self._full.on(scores)
        with _on(scores):
            return None if full is None else full.take(self._queries)


def _on(tensor: Tensor) -> AbstractContextManager[None]:
    """Return a context in which the device of a tensor is the current one, where Triton launches."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call, no-any-return]


def _warn_of_copies(objective: Objective, device: str) -> None:
    """Warn, once for each type of device, that scores are copied to the CPU and gradients back."""
    if device not in _warned:
        _warned.add(device)
        missing = device in KERNEL_DEVICES and find_spec("triton") is None
        warnings.warn(
            f"{objective!r} has no kernel for the device {device!r}: scores are copied to the CPU and gradients back, "
            "at every step. The numbers are the same. "
            + ("Install triton, which the kernels are written in. " if missing else "")
            + "This is said once.",
            stacklevel=2,
        )


@torch.compiler.disable
def _uncompiled(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function between two graphs of torch.compile, which cannot trace kernels.

    Without compilation the decorator is avoided, as it takes longer than the loss of a few lists.
    """
    return function(*arguments)


def _precision(scores: Tensor) -> torch.dtype:
    """Return the precision that kernels compute in: single at least."""
    return scores.dtype if scores.dtype in (torch.float32, torch.float64) else torch.float32


def _unpadded(name: str, column: Tensor, inside: Tensor) -> Tensor:
    """Return the documents of a padded column, row after row."""
    if inside.dtype != torch.bool or inside.ndim != 2 or column.shape != inside.shape:
        mask_hint = "make the mask with positions < sizes[:, None]; it is True where there is a document"
        raise check.error(
            f"a padded batch needs {name} and mask of one shape, queries times documents, and a mask of True and False",
            got=f"{name} of shape {tuple(column.shape)}, mask of shape {tuple(inside.shape)} and {inside.dtype}",
            hint="pass mask.bool()" if inside.dtype != torch.bool and column.shape == inside.shape else mask_hint,
        )
    return torch.masked_select(column, inside.to(column.device))


def _weighted(value: Tensor, weights: TensorLike, reduction: str, n_docs: int) -> Tensor:
    """Return the weighted reduction of values; the mean by weights that are all 0 is 0."""
    factors = _tensor(weights)
    check.query_weights(_array(weights), value.numel(), all_zero=True, n_docs=n_docs)
    factors = factors.to(value.device, value.dtype)
    weighted = factors * value
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    total = factors.sum()
    return weighted.sum() / torch.where(total == 0, 1, total)


def _tensor(values: TensorLike) -> Tensor:
    """Return a tensor that shares memory with an array, or with a copy of one that is read-only."""
    return values if isinstance(values, Tensor) else torch.from_numpy(np.require(values, requirements=("C", "W")))


def _array(values: TensorLike) -> Column:
    """Return a read-only array that shares memory with a tensor of the CPU, or a copy of one from elsewhere."""
    if isinstance(values, Tensor):
        values = values.detach()
        values = values if values.device.type == "cpu" else values.cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return read_only(np.asarray(values))
