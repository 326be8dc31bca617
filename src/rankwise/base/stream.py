"""Random numbers keyed by their purpose, independent of the order in which they are drawn.

A number is a pure function of (seed, round, path, query id, index within the query, draw). Threads, the way queries
are split among workers, and the order of queries therefore never change a result, and a GPU can repeat the same draws:
the generator is Philox4x32-10 (Salmon et al. 2011), which needs nothing but 32-bit multiplications.

The key of the generator is a 64-bit digest of (seed, round, path); its 128-bit counter holds the query id (64 bits),
an index within the query (32) and the number of a block of draws (32). One block makes two uniforms: draws 2b and
2b + 1 of one index, or, where each document needs one number, that draw of two neighbouring documents.
"""

import hashlib
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel

_MULTIPLIER_0 = np.uint64(0xD2511F53)
_MULTIPLIER_1 = np.uint64(0xCD9E8D57)
_WEYL_0 = np.uint32(0x9E3779B9)
_WEYL_1 = np.uint32(0xBB67AE85)
_LOW = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)
_12 = np.uint64(12)
_GAMMA = np.uint64(0x9E3779B97F4A7C15)


@kernel(inline=True)
def philox(c0, c1, c2, c3, k0, k1):  # type: ignore[no-untyped-def]
    """Ten rounds of Philox4x32 over a counter of four and a key of two 32-bit words, held in uint64."""
    for _ in range(10):
        left = _MULTIPLIER_0 * c0
        right = _MULTIPLIER_1 * c2
        c0, c1, c2, c3 = (right >> _32) ^ c1 ^ k0, right & _LOW, (left >> _32) ^ c3 ^ k1, left & _LOW
        k0 = (k0 + np.uint64(_WEYL_0)) & _LOW
        k1 = (k1 + np.uint64(_WEYL_1)) & _LOW
    return c0, c1, c2, c3


@kernel(inline=True)
def uniform_pair(key, query, index, block):  # type: ignore[no-untyped-def]
    """Two uniforms strictly inside (0, 1): draws 2·block and 2·block + 1 of document ``index`` of ``query``.

    ``key`` and ``query`` are uint64 (``Stream.key`` and an element of ``Stream.queries``).
    """
    c0, c1, c2, c3 = philox(
        np.uint64(index) & _LOW, np.uint64(block) & _LOW, query & _LOW, query >> _32, key & _LOW, key >> _32
    )
    first = np.float64(((c0 << _32) | c1) >> _12)
    second = np.float64(((c2 << _32) | c3) >> _12)
    # 52 bits and a half: the largest value is 1 - 2^-53, which float64 still tells from 1.
    return (first + 0.5) * 2.0**-52, (second + 0.5) * 2.0**-52


@kernel(inline=True)
def uniform(key, query, index, draw):  # type: ignore[no-untyped-def]
    """One uniform strictly inside (0, 1): number ``draw`` of document ``index`` of ``query``."""
    pair = uniform_pair(key, query, index, draw >> 1)
    return pair[draw & 1]


@kernel(inline=True)
def philox_word(key, query):  # type: ignore[no-untyped-def]
    """64 random bits of a query, to seed other generators with."""
    c0, c1, _, _ = philox(np.uint64(0), np.uint64(0), query & _LOW, query >> _32, key & _LOW, key >> _32)
    return (c0 << _32) | c1


@kernel(inline=True)
def split_mix(state):  # type: ignore[no-untyped-def]
    """Two 32-bit words, held in uint64, of a SplitMix64 generator (Steele et al. 2014) and its next state.

    A tenth of the cost of Philox, for millions of draws in sequence: seed it with a word of Philox for every block.
    """
    state += _GAMMA
    word = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    word ^= word >> np.uint64(31)
    return word >> _32, word & _LOW, state


@kernel
def fill_uniforms(key, query, out, draw=0):  # type: ignore[no-untyped-def]
    """Fill one uniform per document of a query, for one draw; two neighbours share a block of the generator."""
    n = out.size
    for pair in range(n // 2):
        out[2 * pair], out[2 * pair + 1] = uniform_pair(key, query, pair, draw)
    if n % 2:
        out[n - 1] = uniform_pair(key, query, n // 2, draw)[0]


@kernel
def empty_set(most):  # type: ignore[no-untyped-def]
    """Return an empty set of up to ``most`` numbers of 0 or more, for draws without repetition."""
    size = 4
    while size < 2 * most:
        size *= 2
    return np.full(size, -1, np.int64)


@kernel
def insert(numbers, number):  # type: ignore[no-untyped-def]
    """Insert a number into a set, and return whether it is new there."""
    place = number & (numbers.size - 1)
    while numbers[place] != -1 and numbers[place] != number:
        place = (place + 1) & (numbers.size - 1)
    is_new = numbers[place] == -1
    numbers[place] = number
    return is_new


@kernel
def _fill_documents(key, queries, offsets, draw, out):  # type: ignore[no-untyped-def]
    for q in range(queries.size):
        fill_uniforms(key, queries[q], out[offsets[q] : offsets[q + 1]], draw)


@kernel
def _fill_queries(key, queries, first_draw, out):  # type: ignore[no-untyped-def]
    for q in range(queries.size):
        for d in range(out.shape[1]):
            out[q, d] = uniform(key, queries[q], 0, first_draw + d)


@dataclass(frozen=True, eq=False)
class Stream:
    """A stateless source of random numbers for the queries of one data set.

    >>> stream = Stream(seed=7, query_ids=["a", "b"])
    >>> numbers = stream.documents(np.array([0, 2, 5]))
    >>> turned = Stream(seed=7, query_ids=["b", "a"]).documents(np.array([0, 3, 5]))
    >>> bool((numbers[:2] == turned[3:]).all() and (numbers[2:] == turned[:3]).all())
    True
    """

    seed: int
    round: int = 0
    query_ids: ArrayLike | None = None
    path: tuple[str, ...] = field(default=(), kw_only=True)

    def __post_init__(self) -> None:
        check.integer("seed", self.seed, least=0)
        check.integer("round", self.round, least=0)
        if self.query_ids is not None:
            # Hashed once; children and later rounds share the result.
            object.__setattr__(self, "query_ids", hashed_ids(self.query_ids))

    @property
    def key(self) -> np.uint64:
        """The 64-bit key of the generator: a digest of seed, round and path."""
        digest = hashlib.blake2b("/".join((str(self.seed), str(self.round), *self.path)).encode(), digest_size=8)
        return np.uint64(int.from_bytes(digest.digest(), "little"))

    def queries(self, n_queries: int) -> NDArray[np.uint64]:
        """The 64-bit counter word of each query: its id, or its number where no ids were given."""
        if self.query_ids is None:
            return np.arange(n_queries, dtype=np.uint64)
        ids: NDArray[np.uint64] = self.query_ids  # type: ignore[assignment]
        if ids.size != n_queries:
            raise check.error(
                "a stream needs one query id per query",
                got=f"{ids.size} ids for {n_queries} queries",
                hint="make the stream with the query_ids of the data that it is used for",
            )
        return ids

    def child(self, purpose: str, number: int = 0) -> Self:
        """Return an independent stream for a part of the work, by the name of its purpose and a number.

        >>> Stream(7).child("sample", 3).path
        ('sample:3',)
        """
        if not purpose.isidentifier():
            raise check.error("the purpose of a stream must be a word", got=repr(purpose), hint='write child("order")')
        return self._copy(path=(*self.path, f"{purpose}:{check.integer('the number of a stream', number, least=0)}"))

    def take(self, queries: NDArray[np.int64], n_queries: int) -> Self:
        """Return the stream of some of ``n_queries`` queries, by number: they keep their random numbers."""
        return self._copy(query_ids=self.queries(n_queries)[queries])

    def at(self, round: int) -> Self:
        """Return the same stream at another boosting round or epoch."""
        return self._copy(round=check.integer("round", round, least=0))

    def _copy(self, **changes: object) -> Self:
        """Return a copy with some fields replaced, without checks: a loss needs several at every step."""
        copy = object.__new__(type(self))
        copy.__dict__.update(self.__dict__, **changes)
        return copy

    def documents(self, offsets: Offsets, draw: int = 0) -> Array:
        """Return one uniform per document."""
        out = np.empty(int(offsets[-1]))
        _fill_documents(self.key, self.queries(offsets.size - 1), offsets, draw, out)
        return out

    def per_query(self, n_queries: int, draws: int = 1, first: int = 0) -> Array:
        """Return an array (n_queries, draws) of uniforms of each query, from draw ``first`` on."""
        out = np.empty((n_queries, draws))
        _fill_queries(self.key, self.queries(n_queries), first, out)
        return out


def hashed_ids(ids: ArrayLike) -> NDArray[np.uint64]:
    """Return query ids as 64-bit words: integers as they are, strings as a stable hash."""
    array = np.asarray(ids)
    if array.ndim != 1:
        raise check.error("query ids must be one-dimensional", got=f"shape {array.shape}")
    if array.dtype.kind == "u":
        return array.astype(np.uint64, copy=False)
    if array.dtype.kind == "i":
        return array.astype(np.int64).view(np.uint64)
    if array.dtype.kind in "US" or all(isinstance(name, str) for name in array.tolist()):
        names = (name if isinstance(name, bytes) else name.encode() for name in array.tolist())
        digests = b"".join(hashlib.blake2b(name, digest_size=8).digest() for name in names)
        return np.frombuffer(digests, "<u8").astype(np.uint64)
    raise check.error("query ids must be integers or strings", got=str(array.dtype))
