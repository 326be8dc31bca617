"""Peers of the device kernels: losses of padded batches in plain torch, as an engineer writes them with care.

Scores are a matrix of lists times documents, filled up to the longest list; comparisons of documents are a cube.
Smooth metrics and likelihoods are left to autograd. Where the gradient has a simple form (pairs, PL-Rank) it is written
out, which is quicker and takes less memory than autograd. What labels alone decide is made beforehand.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from benchmarks.speed.peers import Lists

ETA = 10.0
FAR = -1e9  # a score of padding: below all, and differences of two stay finite
TRUNCATION = 30


class Batch(NamedTuple):
    """Some lists, padded."""

    inside: Tensor
    labels: Tensor  # NaN in the padding, so that no comparison holds
    gains: Tensor
    shares: Tensor  # labels over their sum
    ideal: Tensor  # DCG
    ideal_first: Tensor  # of the first 30
    ideal_ten: Tensor
    rows: Tensor  # by label, best first
    after: Tensor  # the place where smaller labels begin, for each place in that order
    graded: Tensor  # 0 where all labels are equal

    @classmethod
    def of(cls, labels: np.ndarray, sizes: np.ndarray, device: torch.device) -> "Batch":
        inside = np.arange(sizes.max()) < sizes[:, None]
        graded = np.full(inside.shape, np.nan, np.float32)
        graded[inside] = labels
        known = np.where(inside, graded, -1.0)
        rows = np.argsort(-known, axis=1, kind="stable")
        ordered = np.take_along_axis(known, rows, 1)
        after = np.stack([np.searchsorted(-row, -row, side="right") for row in ordered])
        gains = np.where(inside, 2.0 ** np.maximum(known, 0.0) - 1.0, 0.0)
        terms = -np.sort(-gains, 1) / np.log2(np.arange(inside.shape[1]) + 2.0)
        ideal = [np.maximum(terms[:, :cutoff].sum(1), 1e-9) for cutoff in (None, TRUNCATION, 10)]
        positive = np.maximum(known, 0.0)
        columns = (
            inside, graded, gains, positive / np.maximum(positive.sum(1, keepdims=True), 1e-9), *ideal, rows, after,
            np.nanmax(graded, 1) > np.nanmin(graded, 1),
        )  # fmt: skip
        kinds = (None, *[torch.float32] * 6, None, None, torch.float32)
        return cls(*(torch.tensor(part, dtype=kind, device=device) for part, kind in zip(columns, kinds, strict=True)))


def softmax_ce(scores: Tensor, batch: Batch) -> Tensor:
    return -(batch.shares * torch.log_softmax(scores.masked_fill(~batch.inside, FAR), 1)).sum(1)


def xendcg(scores: Tensor, batch: Batch) -> Tensor:
    masses = (batch.gains + torch.rand_like(scores)) * batch.inside
    logs = torch.log_softmax(scores.masked_fill(~batch.inside, FAR), 1)
    return -(masses / masses.sum(1, keepdim=True) * logs).sum(1)


def approx_ndcg(scores: Tensor, batch: Batch) -> Tensor:
    steep = ETA * scores.masked_fill(~batch.inside, FAR)
    return _ndcg_of(torch.sigmoid(steep[:, None, :] - steep[:, :, None]), batch)


def approx_ndcg_laplace(scores: Tensor, batch: Batch) -> Tensor:
    steep = ETA * scores.masked_fill(~batch.inside, FAR)
    gap = steep[:, None, :] - steep[:, :, None]
    half = 0.5 * torch.exp(-gap.abs())
    return _ndcg_of(torch.where(gap < 0.0, half, 1.0 - half), batch)


def _ndcg_of(above: Tensor, batch: Batch) -> Tensor:
    ranks = above.sum(-1) + 0.5  # a document's comparison with itself is 0.5 already
    return -(batch.gains / torch.log2(1.0 + ranks)).sum(-1) / batch.ideal


def noisy_approx_ndcg(scores: Tensor, batch: Batch) -> Tensor:
    return approx_ndcg(scores - 0.05 * torch.empty_like(scores).exponential_().log(), batch)


def listmle(scores: Tensor, batch: Batch) -> Tensor:
    ordered = scores.masked_fill(~batch.inside, FAR).gather(1, batch.rows)
    rest = torch.logcumsumexp(ordered.flip(1), 1).flip(1)
    rest = torch.cat((rest, torch.full_like(rest[:, :1], FAR)), 1).gather(1, batch.after)
    real = batch.inside.gather(1, batch.rows)
    return batch.graded * ((torch.logaddexp(ordered, rest) - ordered) * real).sum(1)


@torch.no_grad()
def lambdarank(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    order = torch.argsort(scores.masked_fill(~batch.inside, FAR), dim=1, descending=True, stable=True)
    ranks = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    discounts = 1.0 / torch.log2(ranks + 2.0)
    first = ranks < TRUNCATION
    gap = scores[:, :, None] - scores[:, None, :]
    better = (batch.labels[:, :, None] > batch.labels[:, None, :]) & (first[:, :, None] | first[:, None, :])
    worths = batch.gains / batch.ideal_first[:, None]
    weight = (worths[:, :, None] - worths[:, None, :]) * (discounts[:, :, None] - discounts[:, None, :]).abs()
    weight = torch.where(better, weight / (0.01 + gap.abs()), 0.0)
    value, gradient, hessian, pull = _logistic(gap, weight)
    factor = torch.where(pull > 0.0, torch.log2(1.0 + 2.0 * pull) / (2.0 * pull).clamp(min=1e-30), 1.0)
    return factor * value, factor[:, None] * gradient, factor[:, None] * hessian


@torch.no_grad()
def ranknet(scores: Tensor, batch: Batch) -> tuple[Tensor, Tensor, Tensor]:
    better = (batch.labels[:, :, None] > batch.labels[:, None, :]).to(scores.dtype)
    return _logistic(scores[:, :, None] - scores[:, None, :], better)[:3]


def _logistic(gap: Tensor, weight: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    fall = torch.sigmoid(-gap)
    pulls = weight * fall
    bends = pulls * (1.0 - fall)
    value = (weight * torch.nn.functional.softplus(-gap)).sum((1, 2))
    return value, pulls.sum(1) - pulls.sum(2), bends.sum(1) + bends.sum(2), pulls.sum((1, 2))


@torch.no_grad()
def plrank(scores: Tensor, batch: Batch, samples: int = 32, cutoff: int = 10) -> tuple[Tensor, Tensor]:
    """PL-Rank-3: the rankings of Gumbel samples, and one addition for each placed document."""
    cutoff = min(cutoff, scores.shape[1])
    filled = scores.masked_fill(~batch.inside, FAR)
    noise = torch.empty((filled.shape[0], samples, filled.shape[1]), device=filled.device).exponential_().log_()
    placed = torch.topk(filled[:, None, :] - noise, cutoff, dim=2).indices
    masses = torch.exp(filled - filled.amax(1, keepdim=True))
    rewards = batch.gains / batch.ideal_ten[:, None]
    thetas = 1.0 / torch.log2(torch.arange(cutoff, device=scores.device) + 2.0)
    flat = placed.flatten(1)
    e, rho, real = (
        column.gather(1, flat).view_as(placed) for column in (masses, rewards, batch.inside.to(scores.dtype))
    )
    left = (masses.sum(1)[:, None, None] - e.cumsum(2) + e).clamp(min=1e-30)
    reward = thetas * rho
    onward = reward.flip(2).cumsum(2).flip(2)
    dr, ri = (thetas * real / left).cumsum(2), (onward * real / left).cumsum(2)
    own = onward - reward + e * (rho * (dr - dr[..., -1:]) - (ri - ri[..., -1:]))
    gradient = masses * (rewards * dr[..., -1].sum(1, keepdim=True) - ri[..., -1].sum(1, keepdim=True))
    gradient = gradient.scatter_add(1, flat, (own * real).flatten(1))
    return -onward[..., 0].mean(1), gradient / -samples


class Peer(NamedTuple):
    """A loss of padded lists: by autograd, or with its gradient."""

    function: Callable[..., Tensor | tuple[Tensor, ...]]
    by_autograd: bool
    cubes: int  # of lists × longest × longest that it holds at its peak, about
    repeats: int = 1  # samples, one after the other, their gradients added up
    draws: bool = False


PEERS = {
    "softmax_ce": Peer(softmax_ce, by_autograd=True, cubes=0),
    "xendcg": Peer(xendcg, by_autograd=True, cubes=0, draws=True),
    "approx_ndcg": Peer(approx_ndcg, by_autograd=True, cubes=4),
    "approx_ndcg(kernel=laplace)": Peer(approx_ndcg_laplace, by_autograd=True, cubes=8),
    "lambdarank": Peer(lambdarank, by_autograd=False, cubes=8),
    "ranknet": Peer(ranknet, by_autograd=False, cubes=7),
    "plrank": Peer(plrank, by_autograd=False, cubes=0, draws=True),
    "listmle": Peer(listmle, by_autograd=True, cubes=0),
    "stochastic(approx_ndcg)": Peer(noisy_approx_ndcg, by_autograd=True, cubes=4, repeats=8, draws=True),
}


class PaddedLists:
    """All lists in padded batches, as they come or sorted by length."""

    def __init__(self, lists: Lists, device: torch.device, batch: int, by_length: bool = False) -> None:
        scores, labels, offsets = lists
        sizes = np.diff(offsets)
        queries = np.argsort(sizes, kind="stable") if by_length else np.arange(sizes.size)
        self.order = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in queries])
        self.queries = queries
        self.batches: list[tuple[Tensor, Batch]] = []
        ends = np.concatenate(([0], np.cumsum(sizes[queries])))
        for first in range(0, queries.size, batch):
            mine = sizes[queries[first : first + batch]]
            rows = self.order[ends[first] : ends[first + mine.size]]
            made = Batch.of(labels[rows], mine, device)
            padded = torch.zeros(made.inside.shape, device=device)
            padded[made.inside] = torch.tensor(scores[rows], dtype=torch.float32, device=device)
            self.batches.append((padded, made))

    def call(self, peer: Peer, compiled: bool = False) -> Callable[[], None]:
        """Value and gradient of the mean over lists, thrown away."""
        function = torch.compile(peer.function, dynamic=False) if compiled else peer.function

        def run() -> None:
            for _ in self._values(peer, function):
                pass

        return run

    def results(self, peer: Peer) -> tuple[np.ndarray, np.ndarray]:
        """Values by list and gradients by document, in the order that the lists came in."""
        values = np.concatenate([value.cpu().numpy() for value, _ in self._values(peer, peer.function)])
        gradients = np.concatenate(
            [
                gradient[batch.inside].cpu().numpy()
                for (_, gradient), (_, batch) in zip(self._values(peer, peer.function), self.batches, strict=True)
            ]
        )
        in_rows, in_queries = np.empty_like(gradients), np.empty_like(values)
        in_rows[self.order], in_queries[self.queries] = gradients, values
        return in_queries, in_rows

    def _values(self, peer: Peer, function: Callable[..., object]) -> Iterator[tuple[Tensor, Tensor]]:
        for scores, batch in self.batches:
            if not peer.by_autograd:
                value, gradient = function(scores, batch)[:2]  # type: ignore[index]
                yield value, gradient
                continue
            leaf = scores.detach().requires_grad_(True)
            for _ in range(peer.repeats):
                value = function(leaf, batch)
                value.sum().backward()  # type: ignore[attr-defined]
            yield value.detach(), leaf.grad  # type: ignore[misc]
