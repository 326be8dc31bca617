"""The expected loss under random scores, on a device: noise is made there, by the stream of the CPU."""

from dataclasses import dataclass
from typing import Self

import torch
import triton.language as tl
from torch import Tensor

from rankwise import check
from rankwise.objectives.base import drawing
from rankwise.objectives.torch.kernels.launched import launched
from rankwise.objectives.torch.kernels.lists import DeviceLists, Taken
from rankwise.objectives.torch.kernels.placed import DeviceDerivatives, Place, Placed
from rankwise.objectives.torch.kernels.random import DeviceStream, document_uniforms, uniform_pair
from rankwise.objectives.torch.kernels.wrappers import added
from rankwise.objectives.wrappers.stochastic import PreparedStochastic, stochastic
from rankwise.objectives.wrappers.stochastic_scores import NOISES
from rankwise.stream import Stream

_GUMBEL, _LOGISTIC = tl.constexpr(NOISES.index("gumbel")), tl.constexpr(NOISES.index("logistic"))
_TILE = 256


@launched
def _perturb(  # type: ignore[no-untyped-def]
    offsets, tile_queries, tile_starts, keys, words, scores, noisy, n_docs, scale: tl.float64, sharpness: tl.float64,
    noise: tl.constexpr, tile: tl.constexpr,
):  # fmt: skip
    """Fill (scores + scale · noise) · sharpness for one sample; noise is made in double precision, as on the CPU."""
    query = tl.load(tile_queries + tl.program_id(0))
    key = keys + 2 * tl.program_id(1)
    noisy += tl.program_id(1).to(tl.int64) * n_docs
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
    tl.store(noisy + first + documents, sums.to(noisy.dtype.element_ty), mask=real)


def fill_noisy(
    lists: DeviceLists, scores: Tensor, keys: Tensor, queries: Tensor, noisy: Tensor,
    *, noise: int, scale: float, sharpness: float = 1.0,
) -> None:  # fmt: skip
    """Fill (scores + scale · noise) · sharpness, one row for each sample, by its key and the words of the queries."""
    tiles = lists.tiles(_TILE)
    _perturb[(tiles[0].numel(), keys.shape[0])](
        lists.offsets, *tiles, keys, queries, scores, noisy, lists.n_docs, scale, sharpness,
        noise=noise, tile=_TILE, num_warps=2,
    )  # fmt: skip


@dataclass(frozen=True)
class PlacedStochastic:
    """The mean over samples of the objective inside."""

    objective: stochastic
    inner: Placed
    lists: DeviceLists

    @classmethod
    def of(cls, prepared: PreparedStochastic, lists: DeviceLists, dtype: torch.dtype, place: Place) -> Self:
        """Place the inner objective."""
        return cls(prepared.objective, place(prepared.inner, lists, dtype), lists)

    def __call__(self, scores: Tensor, stream: Stream | None, *, hessian: bool = False) -> DeviceDerivatives:
        """Average the inner derivatives over samples."""
        wrapper, stream = self.objective, drawing(stream, self.objective)
        drawn = DeviceStream(stream, self.lists)
        keys = drawn.keys("noise", wrapper.samples)
        noisy = scores.new_empty((wrapper.samples, scores.numel()))
        fill_noisy(
            self.lists, scores, keys, drawn.queries, noisy,
            noise=NOISES.index(wrapper.noise), scale=wrapper.noise_scale, sharpness=1.0 / wrapper.temperature,
        )  # fmt: skip
        total: DeviceDerivatives | None = None
        for sample, row in enumerate(noisy):
            total = added(total, 1.0, self.inner(row, stream.child("sample", sample), hessian=hessian))
        if total is None:
            raise check.error("stochastic needs at least one sample")
        mean, inverse = 1.0 / wrapper.samples, 1.0 / wrapper.temperature
        for column, factor in zip(total, (mean, mean * inverse, mean * inverse * inverse), strict=True):
            if column is not None:
                column.mul_(factor)
        return total

    def take(self, taken: Taken) -> Self:
        """Take the lists of the inner objective."""
        return type(self)(self.objective, self.inner.take(taken), taken.lists)
