"""Losses of torch that have seen the labels, and their autograd functions.

The forward pass computes values and gradient, the backward pass multiplies. An objective without a device kernel is
computed on the CPU.
"""

import warnings
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from rankwise import check
from rankwise.base.arrays import Array, Column, read_only
from rankwise.base.stream import Stream
from rankwise.objectives.base import Objective, PreparedSum
from rankwise.objectives.prepared import KERNEL_DEVICES, NoDeviceKernelError, NoKernelWarning, Prepared, has_kernels

if TYPE_CHECKING:
    from rankwise.objectives.torch import TorchLoss

TensorLike = Tensor | ArrayLike
Result = TypeVar("Result")
_NUMPY = {torch.float32: np.float32, torch.float64: np.float64}
_warned: set[str] = set()


class PreparedLoss:
    """A loss that has seen the labels: ``prepared(scores, weights=None, stream=None)``.

    It is copied to the device of the scores at its first call with such; mini-batches are selected there.
    """

    def __init__(self, loss: "TorchLoss", prepared: Prepared) -> None:
        self.loss, self._cpu_or_first = loss, prepared
        self._on: dict[tuple[torch.device, torch.dtype], Prepared | None] = {}
        lists: Any = prepared.lists
        if lists.device is not None:
            self._on[lists.device, lists.dtype] = prepared

    def __call__(self, scores: Tensor, weights: TensorLike | None = None, stream: Stream | None = None) -> Tensor:
        """Return the loss at ``scores``."""
        if torch.compiler.is_compiling():
            value: Tensor = uncompiled(self._reduced, scores, weights, stream)
            return value
        return self._reduced(scores, weights, stream)

    def _reduced(self, scores: Tensor, weights: TensorLike | None, stream: Stream | None) -> Tensor:
        scores = as_tensor(scores)
        lists = (self.on(scores) or self.prepared()).lists
        if scores.ndim != 1 or scores.numel() != lists.n_docs:
            raise check.error(
                "scores must be flat, one number per document",
                got=f"shape {tuple(scores.shape)} for {lists.n_docs} documents",
                hint="remove the last axis with scores.squeeze(-1), or pass a padded batch to loss.padded",
            )
        if stream is None:
            stream = self.loss.next_stream()
        if weights is None and self.loss.reduction != "none":
            factor = 1.0 / max(lists.n_queries, 1) if self.loss.reduction == "mean" else 1.0
            total: Tensor = _Loss.run(scores, self, stream, factor, None)[0]
            return total
        value: Tensor = _Loss.run(scores, self, stream, 1.0, as_tensor(lists.sizes).to(scores.device))[0]
        return value if weights is None else _weighted(value, weights, self.loss.reduction, lists.n_docs)

    def take(self, queries: ArrayLike) -> "PreparedLoss":
        """Return the loss of some of the queries, by number: a mini-batch."""
        return LossPart(self, queries)

    def weighed(self, weights: Sequence[float]) -> "PreparedLoss":
        """Return the same with other weights of the terms of a sum."""
        prepared = self.prepared()
        return PreparedLoss(self.loss, prepared.weighed(weights)) if isinstance(prepared, PreparedSum) else self

    def prepared(self) -> Prepared:
        """Return the prepared objective on the CPU, or where its labels were."""
        return self._cpu_or_first

    def on(self, scores: Tensor) -> Prepared | None:
        """Return the prepared objective on the scores' device, in their precision; None if only the CPU has kernels."""
        if not has_kernels(scores.device.type):
            return None
        key = scores.device, kernel_precision(scores)
        if key not in self._on:
            self._on[key] = self._moved(scores, *key)
        return self._on[key]

    def _moved(self, scores: Tensor, device: torch.device, dtype: torch.dtype) -> Prepared | None:
        try:
            with device_of(scores):
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
        with device_of(scores):
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
        with device_of(scores):
            value, gradient, _, _ = prepared(scores.detach(), stream, hessian=False)
        return value, gradient

    def _on_cpu(self, scores: Tensor, stream: Stream | None) -> tuple[Array, Array]:
        if scores.device.type != "cpu":
            _warn_of_copies(self.loss.objective, scores.device.type)
        value, gradient, _, _ = self.prepared()(as_array(scores).astype(np.float64, copy=False), stream, hessian=False)
        if np.isnan(value).any():
            raise check.error(
                f"{self.loss.objective!r} returns no value, which a loss needs",
                hint="let the function return (value, gradient, hessian)",
            )
        return value, gradient

    def _back(self, numbers: Array, scores: Tensor) -> Tensor:
        """Return an array as a tensor on the device of the scores."""
        precision = kernel_precision(scores)
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
        with device_of(scores):
            return None if full is None else full.take(self._queries)


class _Function(torch.autograd.Function):
    """A function that is called without torch's binding of arguments, which takes as long as a small loss."""

    @classmethod
    def run(cls, *arguments: Any) -> Any:
        """Call the function; with ``apply`` if a transform of ``torch.func`` is active."""
        if torch._C._are_functorch_transforms_active():
            return cls.apply(*arguments)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*arguments)  # type: ignore[misc]


class _Loss(_Function):
    """``factor`` times the sum of the losses of all queries, or, with ``sizes`` of queries, the loss of each.

    The gradient is computed with it, for the backward pass.
    """

    @staticmethod
    def forward(
        scores: Tensor, prepared: "PreparedLoss", stream: Stream | None, factor: float, sizes: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        return prepared.total(scores, stream, factor) if sizes is None else prepared.differentiate(scores, stream)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
        ctx.mark_non_differentiable(output[1])
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(inputs[0], output[1], inputs[4])

    @staticmethod
    def backward(ctx: Any, factors: Tensor | None, _: None) -> tuple[Tensor | None, None, None, None, None]:
        if factors is None:
            return None, None, None, None, None
        scores, gradient, sizes = ctx.saved_tensors
        if sizes is not None:
            factors = factors.repeat_interleave(sizes, output_size=gradient.numel())
        return _Gradient.of(factors, scores, gradient), None, None, None, None


class _Gradient(_Function):
    """The gradient, which raises on a second derivative instead of returning zeros."""

    @classmethod
    def of(cls, factors: Tensor, scores: Tensor, gradient: Tensor) -> Tensor:
        """Return the product; a graph is made only if gradients are enabled."""
        if torch.is_grad_enabled():
            return cls.run(factors, scores, gradient)  # type: ignore[no-any-return]
        return (factors * gradient).to(scores.dtype)

    @staticmethod
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


def device_of(tensor: Tensor) -> AbstractContextManager[None]:
    """Return a context in which the device of a tensor is the current one, where Triton launches."""
    return torch.cuda.device_of(tensor)  # type: ignore[no-untyped-call]


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
            NoKernelWarning,
            stacklevel=2,
        )


@torch.compiler.disable
def uncompiled(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call a function between two graphs of torch.compile, which cannot trace kernels.

    Without compilation the decorator is avoided, as it takes longer than the loss of a few lists.
    """
    return function(*arguments)


def kernel_precision(scores: Tensor) -> torch.dtype:
    """Return the precision that kernels compute in: single at least."""
    return scores.dtype if scores.dtype in (torch.float32, torch.float64) else torch.float32


def _weighted(value: Tensor, weights: TensorLike, reduction: str, n_docs: int) -> Tensor:
    """Return the weighted reduction of values; the mean by weights that are all 0 is 0."""
    factors = as_tensor(weights)
    check.query_weights(as_array(weights), value.numel(), all_zero=True, n_docs=n_docs)
    factors = factors.to(value.device, value.dtype)
    weighted = factors * value
    if reduction == "none":
        return weighted
    if reduction == "sum":
        return weighted.sum()
    total = factors.sum()
    return weighted.sum() / torch.where(total == 0, 1, total)


def as_tensor(values: TensorLike) -> Tensor:
    """Return a tensor that shares memory with an array, or with a copy of one that is read-only."""
    return values if isinstance(values, Tensor) else torch.from_numpy(np.require(values, requirements=("C", "W")))


def as_array(values: TensorLike) -> Column:
    """Return a read-only array that shares memory with a tensor of the CPU, or a copy of one from elsewhere."""
    if isinstance(values, Tensor):
        values = values.detach()
        values = values if values.device.type == "cpu" else values.cpu()
        values = (values.float() if values.dtype == torch.bfloat16 else values).numpy()
    return read_only(np.asarray(values))
