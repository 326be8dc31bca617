"""Objectives as losses of torch: one autograd function for all of them.

On the CPU tensors and arrays share memory. On a device with kernels (Triton) nothing is copied to the host: labels on
the device are prepared there. An objective without a device kernel is computed on the CPU, with one warning.
"""

import inspect
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rankwise import check
from rankwise.base.arrays import offsets_of
from rankwise.base.stream import Stream
from rankwise.data.columns import flat
from rankwise.objectives.autograd import (
    PreparedLoss,
    TensorLike,
    as_array,
    as_tensor,
    device_of,
    kernel_precision,
    uncompiled,
)
from rankwise.objectives.prepared import checked_lists, has_kernels
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as as_objective

_REDUCTIONS = ("mean", "sum", "none")


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
        **columns: TensorLike | Mapping[str, TensorLike],
    ) -> Tensor:
        """Return the loss of flat, ragged lists: query q has the documents ``offsets[q]`` to ``offsets[q + 1]``."""
        if torch.compiler.is_compiling():
            prepared: PreparedLoss = uncompiled(self._prepare, labels, offsets, columns, scores)
            return prepared(scores, weights, stream)
        return self._prepare(labels, offsets, columns, scores)(scores, weights, stream)

    def prepare(
        self, labels: TensorLike, offsets: TensorLike, **columns: TensorLike | Mapping[str, TensorLike]
    ) -> PreparedLoss:
        """Prepare labels once, for a loop over the same lists: ``prepared.take(queries)(scores)``."""
        return self._prepare(labels, offsets, columns, None)

    def _prepare(
        self, labels: TensorLike, offsets: TensorLike, columns: Mapping[str, Any], scores: Tensor | None
    ) -> PreparedLoss:
        columns = flat(columns)
        if np.ndim(labels) > 1 or np.ndim(offsets) > 1:
            raise check.error(
                "a loss takes flat lists, one after the other, and offsets, where each of them begins",
                got=f"labels of shape {tuple(np.shape(labels))}, offsets of shape {tuple(np.shape(offsets))}",
                hint="call loss.padded(scores, labels, mask) for a padded batch",
            )
        if isinstance(labels, Tensor) and self.objective.prepares_on_device and has_kernels(labels.device.type):
            dtype = torch.float64 if scores is None else kernel_precision(scores)
            with device_of(labels):
                checked = checked_lists(labels.detach().to(dtype), offsets)
                return PreparedLoss(self, self.objective.prepare(*checked, **columns))  # type: ignore[arg-type]
        arrays = {name: as_array(column) for name, column in columns.items()}
        return PreparedLoss(self, self.objective.prepare(as_array(labels), as_array(offsets), **arrays))

    @torch.compiler.disable
    def padded(
        self,
        scores: Tensor,
        labels: TensorLike,
        mask: TensorLike,
        weights: TensorLike | None = None,
        stream: Stream | None = None,
        **columns: TensorLike | Mapping[str, TensorLike],
    ) -> Tensor:
        """Return the loss of a padded batch: one row per query, ``mask`` True where there is a document.

        Padding is never read, and its gradient is exactly 0.
        """
        scores, inside = as_tensor(scores), as_tensor(mask)
        padded = {"scores": scores, "labels": labels, **flat(columns)}
        rows = {name: _unpadded(name, as_tensor(column), inside) for name, column in padded.items()}
        offsets = offsets_of(as_array(inside.sum(1)))
        return self(rows.pop("scores"), rows.pop("labels"), offsets, weights, stream, **rows)  # type: ignore[no-any-return]

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
