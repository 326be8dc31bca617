"""The arithmetic of ``ragged.py`` for tensors on a GPU: the same operations, in torch and Triton.

No number is read on the host, so that the host never waits for the device. Scores or labels that the CPU would reject,
as they are not finite, make the values NaN.
"""

import functools
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.base.device import to_device
from rankwise.base.device.order import ordered
from rankwise.base.device.ragged import Ragged
from rankwise.base.device.random import key_words, query_words
from rankwise.base.stream import Stream
from rankwise.base.threads import Kernel
from rankwise.metrics.gains import Gain, Ideal
from rankwise.metrics.triton import gains_and_ideal
from rankwise.objectives.cpu import NOISES, TREATMENTS
from rankwise.objectives.ragged import (
    Derivatives,
    DeviceKernel,
    Launch,
    RaggedLists,
    Random,
    Selection,
    Values,
    noise_streams,
)
from rankwise.objectives.triton import chain, clean, fill_errors, gather, perturb, reduce, replace_curvature

_TILE, _BLOCK, _WIDE = 256, 256, 1024


class DeviceLists(Ragged, RaggedLists):
    """The documents of queries as ranges of flat tensors."""

    def __init__(
        self, offsets: Tensor, n_docs: int, host: Offsets | None = None, dtype: torch.dtype = torch.float32
    ) -> None:
        super().__init__(offsets, n_docs, host)
        self.dtype = dtype
        self.errors: Tensor | None = None
        """A number that is added to the value of each query, if any: 0, or NaN if a label is not valid."""
        self.none = self.unwanted = _nothing(dtype, self.device)

    @classmethod
    def at(cls, offsets: Any, n_docs: int, device: Any, dtype: Any = None) -> Self:
        """Return lists on a device; offsets on a device are not copied to the host."""
        dtype = dtype or torch.float32
        if isinstance(offsets, Tensor) and offsets.device.type != "cpu":
            width = torch.int32 if n_docs < 2**31 else torch.int64  # kernels are compiled once for either
            return cls(offsets.to(width), n_docs, None, dtype)
        return cls.of(check.offsets(offsets, n_docs), torch.device(device), dtype=dtype)

    @classmethod
    def checked_labels(cls, labels: Tensor, offsets: Any) -> tuple[Tensor, Self]:
        """Return labels on a device, and their lists; labels that are not valid make values NaN."""
        labels = labels.detach() if labels.is_floating_point() else labels.to(torch.float32)
        lists = cls.at(offsets, labels.numel(), labels.device, labels.dtype)
        lists.once = True
        lists.errors = lists.empty_queries()
        fill_errors[(lists.n_queries,)](lists.offsets, labels, lists.errors, lists.block(), num_warps=1)
        return labels, lists

    def column(self, values: Values) -> Values:
        """Return a column on this device, floating-point numbers in its precision; other values unchanged."""
        if isinstance(values, np.ndarray):
            return to_device(values, self.device, self.dtype)
        if isinstance(values, Tensor):
            return values.to(self.device, self.dtype if values.is_floating_point() else None)
        return values

    # Operations of `prepare`.

    def empty_documents(self, *, integer: bool = False) -> Tensor:
        return torch.empty(self.n_docs, dtype=torch.int32 if integer else self.dtype, device=self.device)

    def empty_queries(self, *, integer: bool = False) -> Tensor:
        return torch.empty(self.n_queries, dtype=torch.int32 if integer else self.dtype, device=self.device)

    def sums(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "sum", offsets=self.offsets.long(), unsafe=True)

    def minima(self, values: Tensor) -> Tensor:
        return torch.segment_reduce(values, "min", offsets=self.offsets.long(), unsafe=True)

    def floats(self, values: Tensor) -> Tensor:
        return values.to(self.dtype)

    def positive_or_one(self, values: Tensor) -> Tensor:
        return torch.where(values > 0.0, values, 1.0)

    def order(self, keys: Tensor) -> Tensor:
        return ordered(self, keys[None])[1][0]

    def table(self, function: Callable[..., Array], *arguments: Any) -> Tensor:
        """Return a table for queries of up to the longest size, or longer: it is copied once."""
        return _table(function, arguments, 1 << (self.longest - 1).bit_length(), self.device, self.dtype)

    def gains_and_ideal(self, labels: Tensor, gain: Gain = "exponential", cutoff: int | None = None) -> Ideal:
        return gains_and_ideal(self, labels, gain, cutoff)

    def gain_shares(self, labels: Tensor, gain: Gain = "exponential", cutoff: int | None = None) -> Values:
        return gains_and_ideal(self, labels, gain, cutoff, shares=True).gains

    def checked(self, name: str, values: Values) -> Tensor:
        """Return a column of documents; its numbers are not checked, but labels that are not valid make values NaN."""
        column = self.column(values if isinstance(values, Tensor) else np.asarray(values, np.float64))
        if column.shape != (self.n_docs,):
            got = f"shape {tuple(column.shape)} for {self.n_docs} documents"
            raise check.error(f"{name.replace('_', ' ')} must be one number per document", got=got)
        column = self.floats(column)
        if name == "labels" and self.errors is not None:
            self.errors = self.errors + cast("Tensor", DeviceLists.checked_labels(column, self.offsets)[1].errors)
        return column.clamp(-check.LARGEST_SCORE, check.LARGEST_SCORE) if name == "teacher_scores" else column

    # Operations of `fill`.

    def checked_scores(self, scores: Tensor) -> tuple[Tensor, Tensor]:
        """Return scores with 0 for those that are not finite, as kernels rely on an order of documents; and flags."""
        if scores.shape != (self.n_docs,):
            got = f"shape {tuple(scores.shape)} for {self.n_docs} documents"
            raise check.error("scores must be one number per document", got=got)
        programs = max(-(-self.n_docs // _WIDE), 1)
        usable, flags = self.empty_documents(), torch.empty(programs, dtype=self.dtype, device=self.device)
        clean[(programs,)](scores.contiguous(), usable, flags, self.n_docs, _WIDE)
        return usable, flags

    def mark_invalid(self, flags: Tensor, out: Derivatives) -> None:
        """Make the values NaN where scores or labels are not finite."""
        out.value.add_(flags.sum())
        if self.errors is not None:
            out.value.add_(self.errors)

    def reduce(self, flags: Tensor, out: Derivatives, factor: float, moved: Tensor | None = None) -> Tensor:
        """Return ``factor`` times the sum of the values, and multiply the gradient by it, in place.

        ``moved``, an integer, becomes 1 if the gradient is not 0.
        """
        total = torch.empty((), dtype=self.dtype, device=self.device)
        errors = flags if self.errors is None else self.errors
        reduce[(flags.numel(),)](
            out.value, errors, flags, out.gradient, total, self.offsets if moved is None else moved, self.n_queries,
            flags.numel(), self.n_docs, factor, self.errors is not None, moved is not None, _WIDE,
        )  # fmt: skip
        return total

    def random(self, stream: Stream, streams: Sequence[Stream]) -> Random:
        return Random(key_words(streams), query_words(stream, self))

    def run(
        self, kernel: Kernel, device_kernel: DeviceKernel, scores: Tensor, arguments: Any, random: Random | None,
        out: Any, work: Array | None = None,
    ) -> None:  # fmt: skip
        launch = device_kernel if callable(device_kernel) else _imported(device_kernel)
        launch(self, scores, arguments, random, out)

    def as_argument(self, values: Values) -> Values:
        return values

    def replace_curvature(self, treatment: str, out: Derivatives) -> None:
        if treatment == "absolute":
            out.hessian.abs_()
        elif treatment == "gradient":
            out.hessian.copy_(out.gradient).abs_()
        elif treatment in TREATMENTS:
            number = TREATMENTS.index(treatment)
            replace_curvature[(self.n_queries,)](self.offsets, out.gradient, out.hessian, number, _BLOCK, num_warps=2)

    def add(self, out: Derivatives, factor: float, part: Derivatives) -> None:
        for total, tensor in zip((out.value, *out.columns), (part.value, *part.columns), strict=True):
            total.add_(tensor, alpha=factor)

    def chain(self, out: Derivatives, first: Tensor, second: Tensor | None = None) -> None:
        tiles = self.tiles(_TILE)
        has_hessian = out.hessian.numel() > 0
        chain[(tiles[0].numel(),)](
            self.offsets, *tiles, first, first if second is None else second, out.gradient,
            out.hessian if has_hessian else out.gradient, out.numerator,
            second is not None, has_hessian, out.numerator is not out.gradient, _TILE, num_warps=2,
        )  # fmt: skip

    def noisy(
        self, scores: Tensor, stream: Stream, samples: int, *, scale: float, temperature: float, noise: str
    ) -> Iterator[Tensor]:
        random = self.random(stream, noise_streams(stream, samples))
        noisy = scores.new_empty((samples, self.n_docs))
        fill_noisy(self, scores, random, noisy, noise=NOISES.index(noise), scale=scale, sharpness=1.0 / temperature)
        return iter(noisy)

    def gather(
        self, copies: Selection, copy_offsets: Offsets, weights: Tensor, part: Derivatives, out: Derivatives
    ) -> None:
        numbers = to_device(copy_offsets.astype(np.int32), self.device)
        tiles = self.tiles(_TILE)
        for total, column in zip(out.columns, part.columns, strict=True):
            gather[(tiles[0].numel(),)](
                self.offsets, *tiles, numbers, copies.lists.offsets, weights, part.value, column, out.value, total,
                total is out.gradient, _TILE, num_warps=2,
            )  # fmt: skip

    def totals(self, values: Tensor, places: Tensor, count: int) -> Array:
        """Sum one number per document over all documents of each of ``count`` places; the host waits for the sums."""
        sums = torch.zeros(count, dtype=torch.float64, device=self.device)
        return cast("Array", sums.index_add_(0, places, values.double()).cpu().numpy())

    # Selections and devices.

    def select(self, queries: NDArray[np.int64]) -> Selection:
        ragged, numbers, rows = self.rows(queries)
        lists = DeviceLists(ragged.offsets, ragged.n_docs, ragged.host, self.dtype)
        lists.errors = None if self.errors is None else self.errors[numbers]
        return Selection(lists, queries, rows, numbers)

    def to(self, device: Any, dtype: Any) -> Self:
        if torch.device(device) == self.device:
            lists = DeviceLists(self.offsets, self.n_docs, self._host, dtype or self.dtype)
        else:
            lists = DeviceLists.at(self.host, self.n_docs, device, dtype)
        lists.errors = lists.column(self.errors)
        return cast("Self", lists)


def fill_noisy(
    lists: Ragged, scores: Tensor, random: Random, noisy: Tensor, *, noise: int, scale: float, sharpness: float = 1.0
) -> None:
    """Fill (scores + scale · noise) · sharpness, one row for each sample, by its key and the words of the queries."""
    tiles, keys = lists.tiles(_TILE), to_device(np.array(random.keys, np.int32), lists.device)
    perturb[(tiles[0].numel(), len(random.keys))](
        lists.offsets, *tiles, keys, random.queries, scores, noisy, lists.n_docs, scale, sharpness, noise, _TILE,
        num_warps=2,
    )  # fmt: skip


@functools.cache
def _nothing(dtype: torch.dtype, device: torch.device) -> Tensor:
    return torch.empty(0, dtype=dtype, device=device)


@functools.cache
def _imported(name: str) -> Launch:
    module, _, function = name.partition(":")
    launch: Launch = getattr(importlib.import_module(module), function)
    return launch


@functools.lru_cache(maxsize=64)
def _table(function: Callable[..., Array], arguments: Any, longest: int, device: Any, dtype: Any) -> Tensor:
    return to_device(function(*arguments, longest), device, dtype)
