"""Batch normalisation of padded documents: padding has no part in means and variances."""

from typing import Any

import torch
from torch import nn


def padded_batch_norm(layer: nn.BatchNorm1d, values: torch.Tensor, inside: torch.Tensor) -> torch.Tensor:
    """Apply a layer in training to rows, of which those ``inside`` are documents: the layer's result for them alone.

    >>> values, inside = torch.tensor([[1.0], [5.0], [99.0]]), torch.tensor([True, True, False])
    >>> layer, same = torch.nn.BatchNorm1d(1), torch.nn.BatchNorm1d(1)
    >>> torch.allclose(padded_batch_norm(layer, values, inside)[:2], same(values[:2]))
    True
    >>> layer.running_var, same.running_var
    (tensor([1.7000]), tensor([1.7000]))
    """
    result, mean, variance, count = _BatchNorm.apply(values, layer.weight, layer.bias, inside, layer.eps)  # type: ignore[no-untyped-call]
    if layer.running_mean is not None and layer.running_var is not None and layer.num_batches_tracked is not None:
        with torch.no_grad():
            layer.running_mean.lerp_(mean, layer.momentum or 0.0)
            layer.running_var.lerp_(variance * (count / (count - 1.0)), layer.momentum or 0.0)
            layer.num_batches_tracked += 1
    return result  # type: ignore[no-any-return]


class _BatchNorm(torch.autograd.Function):
    """(x − mean) / √(variance + ε) · weight + bias, with sums over documents alone; in single precision."""

    @staticmethod
    def forward(
        ctx: Any, values: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor, inside: torch.Tensor, eps: float
    ) -> tuple[torch.Tensor, ...]:
        with torch.autocast(values.device.type, enabled=False):
            numbers, share = values.float(), inside.float()
            count = share.sum()
            share = share / count
            mean = share @ numbers
            away = numbers - mean
            variance = share @ away.square()
        scale = torch.rsqrt(variance + eps)
        ctx.save_for_backward(away, inside, count, scale, weight)
        ctx.mark_non_differentiable(mean, variance, count)
        return torch.addcmul(bias, away, scale * weight).to(values.dtype), mean, variance, count

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor, *_: object) -> tuple[torch.Tensor | None, ...]:
        away, inside, count, scale, weight = ctx.saved_tensors
        numbers = gradient.float()  # 0 for padding, whose scores have no gradient
        by_bias, by_weight = numbers.sum(0), (numbers * away).sum(0) * scale
        by_value = torch.addcmul(numbers, away, -scale * by_weight / count)
        by_value.sub_(by_bias / count).mul_(scale * weight).mul_(inside[:, None])
        return by_value.to(gradient.dtype), by_weight, by_bias, None, None
