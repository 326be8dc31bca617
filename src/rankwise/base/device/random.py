"""The random numbers of ``rankwise.base.stream`` on a device, bit for bit: Philox4x32-10 needs 32-bit words alone."""

from collections.abc import Sequence

import numpy as np
import triton
import triton.language as tl
from torch import Tensor

from rankwise.base.device import to_device
from rankwise.base.device.ragged import Ragged
from rankwise.base.stream import Stream


@triton.jit
def philox(c0, c1, c2, c3, k0, k1):
    """Ten rounds over a counter of four and a key of two words, all uint32."""
    for _ in tl.static_range(10):
        high_0 = tl.umulhi(c0, 0xD2511F53)
        low_0 = c0 * 0xD2511F53
        high_1 = tl.umulhi(c2, 0xCD9E8D57)
        low_1 = c2 * 0xCD9E8D57
        c0 = high_1 ^ c1 ^ k0
        c1 = low_1
        c2 = high_0 ^ c3 ^ k1
        c3 = low_0
        k0 = k0 + 0x9E3779B9
        k1 = k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
def uniform_pair(key_low, key_high, query, index, block):
    """Two uniforms of float64 inside (0, 1): draws 2·block and 2·block + 1 of document ``index`` of ``query``."""
    like = index.to(tl.uint32)
    c0, c1, c2, c3 = philox(
        like,
        tl.zeros_like(like) + block.to(tl.uint32),
        tl.zeros_like(like) + query.to(tl.uint32),
        tl.zeros_like(like) + (query >> 32).to(tl.uint32),
        tl.zeros_like(like) + key_low.to(tl.uint32),
        tl.zeros_like(like) + key_high.to(tl.uint32),
    )
    return _unit(c0, c1), _unit(c2, c3)


@triton.jit
def _unit(high, low):
    word = (high.to(tl.uint64) << 20) | (low.to(tl.uint64) >> 12)
    return (word.to(tl.float64) + 0.5) * 2.220446049250313e-16


@triton.jit
def document_uniforms(key_low, key_high, query, documents, draw):
    """One uniform for each document of a query, by its number in the query; two neighbours share a block."""
    first, second = uniform_pair(key_low, key_high, query, documents >> 1, draw)
    return tl.where((documents & 1) == 0, first, second)


def key_words(streams: Sequence[Stream]) -> list[list[int]]:
    """Return the two words of the key of each stream."""
    words: list[list[int]] = (
        np.array([stream.key for stream in streams], np.uint64).view(np.int32).reshape(-1, 2).tolist()
    )
    return words


def query_words(stream: Stream, lists: Ragged) -> Tensor:
    """Return the counter word of each query, on the device; queries without ids have their numbers."""
    if stream.query_ids is None:
        return lists.numbers
    return to_device(stream.queries(lists.n_queries).view(np.int64), lists.device)
