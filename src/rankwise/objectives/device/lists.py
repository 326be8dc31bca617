"""Ragged lists on a device, and the tiles that programs work on."""

from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.arrays import Offsets, offsets_of
from rankwise.objectives.torch.devices import to_device
from rankwise.objectives.torch.kernels.launched import launched

TILE = 32
"""Documents of a tile whose pairs are summed: one for each thread of a warp."""
_FULL = 8192
"""Warps that keep a device busy, as many as it has room for at once four times over."""


@launched
def _fill_rows(offsets, starts, rows, block: tl.constexpr):  # type: ignore[no-untyped-def]
    """Fill the rows of the documents of a list, which begin at a given row."""
    query = tl.program_id(0)
    first = tl.load(offsets + query)
    size = tl.load(offsets + query + 1) - first
    start = tl.load(starts + query)
    for begin in range(0, size, block):
        documents = begin + tl.arange(0, block)
        tl.store(rows + first + documents, start + documents, mask=documents < size)


class DeviceLists:
    """Where lists begin and end, on a device; the host knows it too, so that no launch has to wait for the device.

    A *tile* is a stretch of one list, at most ``block`` documents long. One program works on one tile, so that long
    lists are shared among multiprocessors and short ones waste little.
    """

    def __init__(self, offsets: Offsets, device: torch.device) -> None:
        self.host, self.device = offsets, device
        self.n_queries, self.n_docs = int(offsets.size - 1), int(offsets[-1])
        self.longest = int((offsets[1:] - offsets[:-1]).max(initial=0))
        self.offsets = to_device(offsets.astype(np.int32 if self.n_docs < 2**31 else np.int64), device)
        self.sizes = self.offsets[1:] - self.offsets[:-1]
        self._tiles: dict[int, tuple[Tensor, Tensor]] = {}

    def tiles(self, block: int) -> tuple[Tensor, Tensor]:
        """The list of each tile, and the place in that list where it begins; the longest lists come first.

        A long list that comes last would keep one multiprocessor busy while the others are idle.
        """
        if block not in self._tiles:
            counts = -(-(self.host[1:] - self.host[:-1]) // block)
            queries = np.argsort(-counts, kind="stable")
            ends = offsets_of(counts[queries])
            starts = (np.arange(ends[-1]) - np.repeat(ends[:-1], counts[queries])) * block
            table = np.stack((np.repeat(queries, counts[queries]), starts)).astype(np.int32)
            tile_queries, tile_starts = to_device(table, self.device)
            self._tiles[block] = tile_queries, tile_starts
        return self._tiles[block]

    @cached_property
    def numbers(self) -> Tensor:
        """The lists, numbered from 0."""
        return torch.arange(self.n_queries, device=self.device)

    @cached_property
    def longest_first(self) -> Tensor:
        """The lists by length: what takes long begins early."""
        return to_device(np.argsort(self.host[:-1] - self.host[1:], kind="stable").astype(np.int32), self.device)

    @cached_property
    def pair_shape(self) -> dict[str, int]:
        """The shape of blocks of pairs, others times the documents of a tile, and the warps that share them.

        A thread has pairs of one document alone, and adds them up in its registers; with several documents for a thread
        every sum would go through shared memory. A tile has several warps, which take turns with the others, where one
        warp with a tile of the longest list would still be at work when all others are done.
        """
        sizes = self.host[1:] - self.host[:-1]
        last = self.longest * (_FULL // 4) > int((-(-sizes // TILE) * sizes).sum())
        warps = 1
        while last and warps < 8 and self.tiles(TILE)[0].numel() * warps < _FULL:
            warps *= 2
        return {"tile": TILE, "step": 8 * warps, "num_warps": warps}

    def spread(self, values: Tensor) -> Tensor:
        """Give every document the value of its list."""
        return values.repeat_interleave(self.sizes, output_size=self.n_docs)

    def take(self, queries: NDArray[np.int64]) -> "Taken":
        """Give some of the lists, by number."""
        sizes = (self.host[1:] - self.host[:-1])[queries]
        lists = DeviceLists(offsets_of(sizes), self.device)
        numbers, starts = to_device(np.stack((queries, self.host[:-1][queries])), self.device)
        rows = torch.empty(lists.n_docs, dtype=torch.int64, device=self.device)
        _fill_rows[(lists.n_queries,)](lists.offsets, starts, rows, block=256, num_warps=1)
        return Taken(lists, queries, numbers, rows)


class Taken(NamedTuple):
    """Some of the lists: which, on the host and on the device, and the rows of their documents."""

    lists: DeviceLists
    queries: NDArray[np.int64]
    numbers: Tensor
    rows: Tensor


def block_of(lists: DeviceLists, widest: int = 256) -> int:
    """How many documents a program looks at in one step along a list: no more than the longest has, a power of 2."""
    return min(max(4, 1 << (lists.longest - 1).bit_length()), widest)
