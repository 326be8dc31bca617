"""Ragged arrays on a device, and the tiles that programs work on."""

from functools import cached_property, lru_cache
from typing import Any, Self

import numpy as np
import torch
import triton.language as tl
from numpy.typing import NDArray
from torch import Tensor

from rankwise.base.arrays import Offsets, offsets_of
from rankwise.base.device import to_device
from rankwise.base.device.launching import list_bounds, program_list, triton_kernel

TILE = 32
"""Documents of a tile whose pairs are summed: one for each thread of a warp."""
_FULL = 8192
"""Target number of warps: four times what an H100-class GPU holds at once."""
_BEHIND = tl.constexpr(2**30)
"""The start of a tile without documents."""
_MANY = 2**14
"""From so many queries on the host makes the table of tiles: a device's programs each count the tiles of all before."""


@triton_kernel
def _fill_rows(offsets, starts, rows, block: tl.constexpr):
    """Fill the rows of the documents of a query, from its first row on."""
    query, first, size = program_list(offsets)
    start = tl.load(starts + query)
    for begin in range(0, size, block):
        documents = begin + tl.arange(0, block)
        tl.store(rows + first + documents, start + documents, mask=documents < size)


@triton_kernel
def _fill_tiles(offsets, tile_queries, tile_starts, n_queries, most, tile: tl.constexpr, block: tl.constexpr):
    """Fill the tiles of a query, behind those of the queries before it; the last fills the end of the table."""
    query = tl.program_id(0)
    lanes = tl.arange(0, block)
    before = tl.zeros([block], tl.int32)
    for start in range(0, query, block):
        inside = start + lanes < query
        size = tl.load(offsets + start + lanes + 1, mask=inside, other=0)
        size -= tl.load(offsets + start + lanes, mask=inside, other=0)
        before += ((size + tile - 1) // tile).to(tl.int32)
    begin = tl.sum(before)
    count = (list_bounds(offsets, query)[1] + tile - 1) // tile
    stop = tl.where(query == n_queries - 1, most - begin, count)
    for start in range(0, stop, block):
        number = start + lanes
        place = tl.where(number < count, number * tile, _BEHIND)
        tl.store(tile_queries + begin + number, tl.zeros([block], tl.int32) + query, mask=number < stop)
        tl.store(tile_starts + begin + number, place, mask=number < stop)


@lru_cache(maxsize=64)
def numbers(count: int, device: torch.device) -> Tensor:
    """Return the numbers from 0 on; all callers share one tensor."""
    return torch.arange(count, device=device)


class Ragged:
    """The ranges of queries in flat tensors, on a device.

    If the host has the offsets, they determine the shapes of launches. Offsets that only the device has are not copied,
    as the host would have to wait: shapes then follow from the numbers of documents and queries.

    A *tile* is a range of one query, at most ``block`` documents long. One program works on one tile, so that long
    lists are shared among multiprocessors and short ones waste little.
    """

    def __init__(self, offsets: Tensor, n_docs: int, host: Offsets | None = None) -> None:
        self.offsets, self.device, self._host = offsets, offsets.device, host
        self.n_queries, self.n_docs = offsets.numel() - 1, n_docs
        self.once = host is None
        """Whether they are used once: tables that are quick to make are then better than those quick to read."""
        self._tiles: dict[int, tuple[Tensor, Tensor]] = {}
        self._pair_shapes: dict[int, tuple[int, int]] = {}

    @classmethod
    def of(cls, offsets: Offsets, device: torch.device, **settings: Any) -> Self:
        """Copy offsets to a device; ``settings`` are those of a subclass."""
        n_docs = int(offsets[-1])
        dtype = np.int32 if n_docs < 2**31 else np.int64
        return cls(to_device(offsets.astype(dtype), device), n_docs, offsets, **settings)

    @property
    def host(self) -> Offsets:
        """The offsets on the host; if only the device has them, they are copied, once."""
        if self._host is None:
            self._host = self.offsets.cpu().numpy().astype(np.int64)
        return self._host

    @cached_property
    def sizes(self) -> Tensor:
        """Number of documents of each query."""
        return self.offsets[1:] - self.offsets[:-1]

    @cached_property
    def longest(self) -> int:
        """An upper bound of the sizes, and of 1: the largest, if the host has the offsets."""
        if self._host is None:
            return max(self.n_docs - self.n_queries + 1, 1)
        return int((self._host[1:] - self._host[:-1]).max(initial=1))

    @cached_property
    def typical(self) -> int:
        """The size that the shape of launches is chosen for: the largest, or four times the mean."""
        if self._host is None:
            return min(self.longest, 4 * self.n_docs // max(self.n_queries, 1) + 1)
        return self.longest

    def tiles(self, block: int) -> tuple[Tensor, Tensor]:
        """Return the query of each tile, and its start in that query; the longest queries come first.

        A long query that comes last would keep one multiprocessor busy while the others are idle.
        """
        if block not in self._tiles:
            once = self.once and self.n_queries < _MANY
            self._tiles[block] = self._device_tiles(block) if once else self._host_tiles(block)
        return self._tiles[block]

    def _host_tiles(self, block: int) -> tuple[Tensor, Tensor]:
        counts = -(-(self.host[1:] - self.host[:-1]) // block)
        queries = np.argsort(-counts, kind="stable")
        ends = offsets_of(counts[queries])
        starts = (np.arange(ends[-1]) - np.repeat(ends[:-1], counts[queries])) * block
        table = np.stack((np.repeat(queries, counts[queries]), starts)).astype(np.int32)
        tile_queries, tile_starts = to_device(table, self.device)
        return tile_queries, tile_starts

    def _device_tiles(self, block: int) -> tuple[Tensor, Tensor]:
        """Return a table of the largest possible number of tiles; empty ones start behind the end of their query."""
        most = self.n_docs // block + self.n_queries
        tile_queries, tile_starts = torch.empty((2, most), dtype=torch.int32, device=self.device).unbind()
        _fill_tiles[(self.n_queries,)](
            self.offsets, tile_queries, tile_starts, self.n_queries, most, block, 256, num_warps=1
        )
        return tile_queries, tile_starts

    @cached_property
    def numbers(self) -> Tensor:
        """The queries, numbered from 0."""
        return numbers(1 << (self.n_queries - 1).bit_length(), self.device)[: self.n_queries]

    @cached_property
    def longest_first(self) -> Tensor:
        """The queries by size, the longest first, as they take longest."""
        if self.once:
            return torch.argsort(self.sizes, descending=True).to(torch.int32)
        return to_device(np.argsort(self.host[:-1] - self.host[1:], kind="stable").astype(np.int32), self.device)

    def pair_shape(self, reach: int | None = None) -> tuple[int, int]:
        """Return the number of partners of each document in a block of pairs, and the number of warps of a tile.

        ``reach``: if not all pairs count, one document of each pair is among this many first.

        A thread has pairs of one document alone, and adds them up in its registers; with several documents for a thread
        every sum would go through shared memory. A tile has several warps, which share the partners, if one warp with
        a tile of the longest query would finish long after all others.
        """
        reach = self.longest if reach is None else min(reach, self.longest)
        if reach not in self._pair_shapes:
            n_tiles = self.tiles(TILE)[0].numel()
            if self.once:
                pairs = n_tiles * min(self.n_docs // max(self.n_queries, 1), reach)
            else:
                sizes = self.host[1:] - self.host[:-1]
                pairs = int((-(-sizes // TILE) * np.minimum(sizes, reach)).sum())
            straggles, warps = self.typical * (_FULL // 4) > pairs, 1
            while straggles and warps < 8 and n_tiles * warps < _FULL:
                warps *= 2
            self._pair_shapes[reach] = 8 * warps, warps
        return self._pair_shapes[reach]

    def block(self, widest: int = 256) -> int:
        """Return the number of documents that a program reads in one step along a query: a power of 2."""
        return min(max(4, 1 << (self.typical - 1).bit_length()), widest)

    def to_documents(self, values: Tensor) -> Tensor:
        """Return the value of its query for each document."""
        return values.repeat_interleave(self.sizes, output_size=self.n_docs)

    def rows(self, queries: NDArray[np.int64]) -> "tuple[Ragged, Tensor, Tensor]":
        """Return some of the queries with their documents numbered anew, their numbers, and their documents' rows."""
        sizes = (self.host[1:] - self.host[:-1])[queries]
        offsets = offsets_of(sizes)
        ragged = Ragged.of(offsets, self.device)
        numbers, starts = to_device(np.stack((queries, self.host[:-1][queries])), self.device)
        rows = torch.empty(ragged.n_docs, dtype=torch.int64, device=self.device)
        _fill_rows[(ragged.n_queries,)](ragged.offsets, starts, rows, 256, num_warps=1)
        return ragged, numbers, rows
