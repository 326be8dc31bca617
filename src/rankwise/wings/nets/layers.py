"""Layers of nets: linear layers of members, self-attention within lists, batch normalisation of padded documents.

Members share matrices and differ by vectors: Gorishniy, Kotelnikov and Babenko, "TabM: advancing tabular deep learning
with parameter-efficient ensembling", ICLR 2025 (arXiv 2410.24210), after BatchEnsemble (Wen, Tran and Ba, ICLR 2020).
Their values are (documents, members, width).

Attention: after Pobrotyn et al., "Context-aware learning to rank with self-attention", SIGIR eCom 2020, and Qin et al.,
"Are neural rankers still outperformed by gradient boosted decision trees?", ICLR 2021. Documents have no positions: a
list's scores do not depend on its order, nor on the other lists of a batch.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from rankwise.base.device import to_device

_PER_DOUBLING = 2


class Body(nn.Sequential):
    """Layers one after the other, some of which look at whole lists."""

    def forward(
        self, values: torch.Tensor, offsets: torch.Tensor | None = None, inside: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Apply all layers; ``inside``: which rows are documents, and no padding."""
        for layer in self:
            if isinstance(layer, ListAttention):
                values = layer(values, offsets)
            elif inside is not None and isinstance(layer, nn.BatchNorm1d):
                values = padded_batch_norm(layer, values, inside)
            else:
                values = layer(values)
        return values


class MemberLinear(nn.Module):
    """A linear layer of every member: that of member i has the matrix diag(after_i) · weight · diag(before_i).

    As in TabM all members start alike but for the signs of the ``first`` layer's inputs, which are drawn.

    >>> MemberLinear(3, 5, members=4, first=True)(torch.zeros(7, 3)).shape
    torch.Size([7, 4, 5])
    """

    def __init__(self, width: int, size: int, members: int, *, first: bool = False) -> None:
        super().__init__()
        self.first = first
        plain = nn.Linear(width, size)
        self.weight = plain.weight
        signs = torch.randint(0, 2, (members, width)) * 2.0 - 1.0
        self.before = nn.Parameter(signs if first else torch.ones(members, width))
        self.after = nn.Parameter(torch.ones(members, size))
        self.bias = nn.Parameter(plain.bias.detach().repeat(members, 1))

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Apply each member's layer; the input of the first is the same for all, and has no axis of members."""
        values = values[:, None] if self.first else values
        return nn.functional.linear(values * self.before, self.weight) * self.after + self.bias


class MemberHeads(nn.Module):
    """The last layer: a vector of each member's own, and one score from each; a bias if the loss needs one."""

    def __init__(self, width: int, members: int, *, bias: bool) -> None:
        super().__init__()
        bound = 1 / math.sqrt(width)
        self.weight = nn.Parameter(torch.empty(members, width).uniform_(-bound, bound))
        self.bias = nn.Parameter(torch.zeros(members)) if bias else None

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Return (documents, members) scores."""
        scores = (values * self.weight).sum(-1)
        return scores if self.bias is None else scores + self.bias


class ListAttention(nn.Module):
    """Adds to every document the attention of ``heads`` to the documents of its list, itself among them.

    Values are (documents, width), or (documents, members, width), in which every member attends to itself alone.

    >>> attention = ListAttention(8, heads=2, dropout=0.0)
    >>> attention(torch.ones(5, 8), torch.tensor([0, 2, 5])).shape
    torch.Size([5, 8])
    """

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.project = nn.Linear(width, 3 * width)
        self.join = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        """Attend within lists: query q has the documents ``offsets[q]`` to ``offsets[q + 1]``."""
        n_docs, width = values.shape[0], values.shape[-1]
        projected = self.project(self.norm(values)).reshape(n_docs, -1, 3 * width)
        attended, (lists, places) = [], buckets(offsets)
        for bucket in lists:
            rows, inside = (on_device(one, values.device) for one in (bucket.rows, bucket.inside))
            attended.append(self._attend(projected[rows], None if bucket.full else inside).flatten(0, 1))
        joined = torch.cat(attended)[on_device(places, values.device)].reshape(values.shape)
        return values + self.dropout(self.join(joined))  # type: ignore[no-any-return]

    def _attend(self, projected: torch.Tensor, inside: torch.Tensor | None) -> torch.Tensor:
        """Attend within lists, (lists, length, members, 3 · width), of which some are padded or (None) none are."""
        n_lists, length, members, triple = projected.shape
        width = triple // 3
        apart = projected.reshape(n_lists, length, members, 3, self.heads, width // self.heads)
        query, key, value = apart.permute(3, 0, 2, 4, 1, 5).flatten(1, 2)  # (lists · members, heads, length, part)
        mask = None if inside is None else inside.repeat_interleave(members, dim=0)[:, None, None, :]
        attended = nn.functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        return attended.reshape(n_lists, members, self.heads, length, -1).permute(0, 3, 1, 2, 4).flatten(3)


@dataclass(frozen=True)
class Bucket:
    """Lists of about one length, padded to the longest."""

    rows: torch.Tensor
    """(lists, length) numbers of documents; 0 where there is none."""
    inside: torch.Tensor
    """(lists, length) whether there is a document."""
    full: bool
    """Whether nothing is padded."""


def buckets(offsets: torch.Tensor) -> tuple[list[Bucket], torch.Tensor]:
    """Group lists by length, so that padding is less than √2, and return where each document went.

    >>> groups, places = buckets(torch.tensor([0, 2, 7, 10, 12]))
    >>> [bucket.rows.tolist() for bucket in groups]
    [[[0, 1], [10, 11]], [[7, 8, 9]], [[2, 3, 4, 5, 6]]]
    >>> places.tolist()  # of each document in the rows of all buckets, one after the other
    [0, 1, 7, 8, 9, 10, 11, 4, 5, 6, 2, 3]
    """
    numbers = offsets.cpu().numpy()
    sizes = np.diff(numbers)
    kinds = np.ceil(_PER_DOUBLING * np.log2(np.maximum(sizes, 1)))
    groups, start = [], 0
    places = np.empty(int(numbers[-1]), np.int64)
    for kind in np.unique(kinds[sizes > 0]):
        chosen = np.flatnonzero((kinds == kind) & (sizes > 0))
        step = np.arange(sizes[chosen].max())
        inside = step < sizes[chosen][:, None]
        rows = np.where(inside, numbers[chosen][:, None] + step, 0)
        groups.append(Bucket(torch.from_numpy(rows), torch.from_numpy(inside), bool(inside.all())))
        places[rows[inside]] = start + np.flatnonzero(inside)
        start += inside.size
    return groups, torch.from_numpy(places)


def on_device(numbers: torch.Tensor, device: torch.device) -> torch.Tensor:
    """Copy numbers to a device, if they are not there, without waiting for it."""
    return numbers if numbers.device == device else to_device(numbers.numpy(), device)


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
