"""Wrappers on a device: what is inside stays there, and so does the chain rule."""

from dataclasses import dataclass

import numpy as np
import torch
import triton
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.objectives.base import drawing
from rankwise.objectives.torch.kernels.lists import DeviceLists, to_device
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Placed
from rankwise.objectives.torch.kernels.random import DeviceStream, document_uniforms, uniform_pair
from rankwise.objectives.wrappers.stochastic import stochastic
from rankwise.objectives.wrappers.stochastic_scores import NOISES
from rankwise.stream import Stream

_GUMBEL, _LOGISTIC = tl.constexpr(NOISES.index("gumbel")), tl.constexpr(NOISES.index("logistic"))
_TILE = 256


@triton.jit
def _perturb(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, key, words, scores, noisy, scale, sharpness,
    noise: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Fill (scores + scale · noise) · sharpness; noise is made in double precision, as on the CPU."""
    query = tl.load(tile_queries + tl.program_id(0))
    first = tl.load(offsets + query)
    documents = tl.load(tile_starts + tl.program_id(0)) + tl.arange(0, tile)
    real = documents < tl.load(offsets + query + 1) - first
    word = tl.load(words + query)
    nothing = tl.zeros_like(documents)
    if noise == _GUMBEL:
        u = document_uniforms(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = -tl.log(-tl.log(u))
    elif noise == _LOGISTIC:
        u = document_uniforms(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = tl.log(u / (1.0 - u))
    else:
        u, v = uniform_pair(tl.load(key), tl.load(key + 1), word, documents, nothing)
        drawn = tl.sqrt(-2.0 * tl.log(u)) * tl.cos(6.283185307179586 * v)
    score = tl.load(scores + first + documents, mask=real, other=0.0)
    sums = (score.to(tl.float64) + scale * drawn) * sharpness
    tl.store(noisy + first + documents, sums.to(score.dtype), mask=real)


def perturbed(lists: DeviceLists, scores: Tensor, drawn: DeviceStream, sample: int, wrapper: stochastic) -> Tensor:
    """Give scores with the noise of a sample."""
    noisy = torch.empty_like(scores)
    tiles = lists.tiles(_TILE)
    _perturb[(tiles[0].numel(),)](
        lists.offsets, *tiles, drawn.key("noise", sample), drawn.queries, scores, noisy, wrapper.noise_scale,
        1.0 / wrapper.temperature, noise=NOISES.index(wrapper.noise), tile=_TILE,
    )  # fmt: skip
    return noisy


@dataclass(frozen=True)
class PlacedStochastic:
    """The mean over samples of the objective inside."""

    objective: stochastic
    inner: Placed
    lists: DeviceLists

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Average the inner derivatives over samples."""
        wrapper, stream = self.objective, drawing(stream, self.objective)
        drawn = DeviceStream(stream, self.lists.n_queries, self.lists.device)
        total: DeviceDerivatives | None = None
        for sample in range(wrapper.samples):
            noisy = perturbed(self.lists, scores, drawn, sample, wrapper)
            total = added(total, 1.0, self.inner(noisy, stream.child("sample", sample), hessian=hessian))
        mean, inverse = 1.0 / wrapper.samples, 1.0 / wrapper.temperature
        if total is None:
            raise LookupError("no samples")
        for column, factor in zip(total, (mean, mean * inverse, mean * inverse * inverse), strict=True):
            if column is not None:
                column.mul_(factor)
        return total

    def take(self, queries: NDArray[np.int64]) -> "PlacedStochastic":
        """Take the queries of the inner objective."""
        return PlacedStochastic(self.objective, self.inner.take(queries), self.lists.take(queries)[0])


@dataclass(frozen=True)
class PlacedWeighted:
    """An objective on lists, each of which has a weight."""

    inner: Placed
    weights: Tensor
    lists: DeviceLists

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Multiply the inner derivatives by each list's weight."""
        part = self.inner(scores, None if stream is None else stream.child("weighted"), hessian=hessian)
        each = self.lists.spread(self.weights)
        return DeviceDerivatives(
            part.value * self.weights, part.gradient * each, None if part.hessian is None else part.hessian * each
        )

    def take(self, queries: NDArray[np.int64]) -> "PlacedWeighted":
        """Take the queries of the inner objective, with their weights."""
        numbers = to_device(queries, self.lists.device)
        return PlacedWeighted(self.inner.take(queries), self.weights[numbers], self.lists.take(queries)[0])


@dataclass(frozen=True)
class PlacedSum:
    """A weighted sum of objectives."""

    factors: tuple[float, ...]
    parts: tuple[Placed, ...]

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Add up the terms, each with a random stream of its own."""
        total: DeviceDerivatives | None = None
        for number, (factor, part) in enumerate(zip(self.factors, self.parts, strict=True)):
            own = None if stream is None else stream.child("term", number)
            total = added(total, factor, part(scores, own, hessian=hessian))
        if total is None:
            raise LookupError("no terms")
        return total

    def take(self, queries: NDArray[np.int64]) -> "PlacedSum":
        """Take the queries of every term."""
        return PlacedSum(self.factors, tuple(part.take(queries) for part in self.parts))


def added(total: DeviceDerivatives | None, factor: float, part: DeviceDerivatives) -> DeviceDerivatives:
    """Add ``factor`` times derivatives to a total of our own, in place; the first of them begins it."""
    if total is None:
        return DeviceDerivatives(*(None if one is None else one.mul_(factor) for one in part))
    for sum_, one in zip(total, part, strict=True):
        if sum_ is not None and one is not None:
            sum_.add_(one, alpha=factor)
    return total
