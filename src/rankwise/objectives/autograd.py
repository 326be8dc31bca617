"""Autograd functions of losses: the forward pass computes values and gradient, the backward pass multiplies."""

from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

from rankwise import check
from rankwise.stream import Stream

if TYPE_CHECKING:
    from rankwise.objectives.torch import PreparedLoss


def loss(
    scores: Tensor, prepared: "PreparedLoss", stream: Stream | None, factor: float = 1.0, sizes: Tensor | None = None
) -> Tensor:
    """Return ``factor`` times the sum of the losses of all queries; with ``sizes`` of queries, the loss of each."""
    losses: Tensor = _Loss.run(scores, prepared, stream, factor, sizes)[0]
    return losses


class _Function(torch.autograd.Function):
    """A function that is called without torch's binding of arguments, which takes as long as a small loss."""

    @classmethod
    def run(cls, *arguments: Any) -> Any:
        """Call the function; with ``apply`` if a transform of ``torch.func`` is active."""
        if torch._C._are_functorch_transforms_active():
            return cls.apply(*arguments)  # type: ignore[no-untyped-call]
        return super(torch.autograd.Function, cls).apply(*arguments)  # type: ignore[misc]


class _Loss(_Function):
    """The loss of each query, or of all; its gradient is computed with it, for the backward pass."""

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
