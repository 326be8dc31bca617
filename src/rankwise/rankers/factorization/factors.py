"""Vectors of users and items: what a factorization has learned, and scores and rankings from it. Needs no torch."""

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Column, Floats, Ids
from rankwise.data.interactions.parts import ratings_of
from rankwise.kernels import FUSED, kernel
from rankwise.metrics.order import ROW, ranking, scratch_for
from rankwise.rankers.verify.factors import verify
from rankwise.threads import over_queries

UNKNOWN = ("error", "popular", "mean")
BLOCK = 1 << 22  # how many scores of users by items lie in memory at once


@dataclass(frozen=True, eq=False)
class Factors:
    """One vector per user and item; the score of an item for a user is the product of their vectors, plus its bias."""

    users: Ids
    """(n_users,) ids, ascending."""
    items: Ids
    """(n_items,) ids, ascending."""
    user_vectors: Floats
    item_vectors: Floats
    item_bias: Floats
    """(n_items,), or empty."""
    popularity: Array
    """(n_items,) for how many users the item was relevant in training."""
    seen_offsets: NDArray[np.int64]
    """(n_users + 1,) where the items that each user knows from training start."""
    seen_items: NDArray[np.int32]

    def user_numbers(self, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
        """Find users; −1 stands for one that the model does not know, where that is allowed."""
        return _numbers("user", self.users, ids, unknown)

    def item_numbers(self, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
        """Find items; −1 stands for one that the model does not know, where that is allowed."""
        return _numbers("item", self.items, ids, unknown)

    def score(
        self, users: NDArray[np.int64], items: NDArray[np.int64], offsets: NDArray[np.int64], unknown: str
    ) -> Array:
        """Score lists: ``items[offsets[q]]`` to ``items[offsets[q + 1]]`` for ``users[q]``."""
        scores = np.empty(items.size)
        # The last row, which −1 means, stands for all that are not known.
        vectors = tuple(
            np.vstack([one, one.mean(axis=0, dtype=np.float64)]).astype(np.float32) if (numbers < 0).any() else one
            for one, numbers in ((self.user_vectors, users), (self.item_vectors, items))
        )
        over_queries(_score, offsets, users, items, *vectors, self._bias(), scores)
        if unknown == "popular" and (users < 0).any():
            strange = np.repeat(users < 0, np.diff(offsets))
            scores[strange] = np.append(self.popularity, 0.0)[items[strange]]
        return scores

    def matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        rows, columns = self._with_mean(self.user_vectors, users), self._with_mean(self.item_vectors, items)
        scores = (rows @ columns.T).astype(np.float64)
        if self.item_bias.size:
            scores += self._bias()[items]
        if unknown == "popular":
            scores[users < 0] = np.append(self.popularity, 0.0)[items]
        return scores

    def hide_seen(self, users: NDArray[np.int64], scores: Array) -> None:
        """Take out what users know from training; −inf is never recommended."""
        known = np.flatnonzero(users >= 0)
        rows, owners = ratings_of(users[known], self.seen_offsets)
        scores[known[owners], self.seen_items[rows]] = -np.inf

    def content(self) -> bytes:
        """Give the model as the content of a ``.safetensors`` file."""
        content: bytes = check.extra("safetensors.numpy", "torch").save(self.tensors())  # noqa: S610 (not Django)
        return content

    @classmethod
    def read(cls, content: bytes) -> "Factors":
        """Read the content of a file."""
        library = check.extra("safetensors.numpy", "torch")  # noqa: S610
        from safetensors import SafetensorError

        try:
            arrays = library.load(content)
        except (SafetensorError, KeyError, TypeError, ValueError) as broken:
            raise check.error("the content is not that of a .safetensors file", got=str(broken)) from None
        verify(arrays)
        return cls.of_tensors(arrays)

    def tensors(self) -> dict[str, Column]:
        """Give everything as arrays of numbers, for a file; ids that are words as rows of code points."""
        arrays = {field.name: getattr(self, field.name) for field in fields(self)}
        for name in ("users", "items"):
            if arrays[name].dtype.kind == "U":
                words = np.ascontiguousarray(arrays[name])
                arrays[name] = words.view(np.uint32).reshape(words.size, -1)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def of_tensors(cls, arrays: dict[str, Column]) -> "Factors":
        """Take back what :meth:`tensors` gave."""
        read = {field.name: arrays[field.name] for field in fields(cls)}
        for name in ("users", "items"):
            if read[name].ndim == 2:
                read[name] = np.ascontiguousarray(read[name]).view(f"U{read[name].shape[1]}")[:, 0]
        return cls(**read)

    def _bias(self) -> Array:
        """One bias per item and, at the end, for those that are not known."""
        if not self.item_bias.size:
            return np.zeros(self.items.size + 1)
        return np.append(self.item_bias, self.item_bias.mean()).astype(np.float64)

    @staticmethod
    def _with_mean(vectors: Floats, numbers: NDArray[np.int64]) -> Floats:
        found = vectors[numbers]
        found[numbers < 0] = vectors.mean(axis=0, dtype=np.float64)
        return found


def top(scores: Array, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the numbers of the best ``k`` columns of each row, best first (−1 beyond the last), and how many there are.

    Equal scores keep the order of columns; −inf is never among the best.

    >>> top(np.array([[1.0, 3.0, 2.0], [0.0, -np.inf, -np.inf]]), 2)
    (array([[ 1,  2],
           [ 0, -1]]), array([2, 1]))
    """
    n_rows, n_columns = scores.shape
    best, counts = np.full((n_rows, k), -1, np.int64), np.zeros(n_rows, np.int64)
    work = np.full(n_rows, 10.0 * n_columns)
    over_queries(_top, np.arange(n_rows + 1), np.ascontiguousarray(scores), min(k, n_columns), best, counts, work=work)
    return best, counts


def best(scores: Array, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]:
    """Give how many of the best ``k`` were found in each row, and flat: their ranks, columns and scores."""
    found, counts = top(scores, k)
    rows, places = np.nonzero(found >= 0)
    columns = found[rows, places]
    return counts, places + 1, columns, scores[rows, columns]


def _numbers(what: str, known: Ids, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
    wanted = np.asarray(ids)
    same = (wanted.dtype.kind in "iu") == (known.dtype.kind in "iu")
    numbers = np.searchsorted(known, wanted) if same else np.zeros(wanted.size, np.int64)
    numbers = numbers.clip(0, known.size - 1)
    strange = known[numbers] != wanted if same else np.ones(wanted.size, bool)
    if strange.any():
        if check.choice("way to treat unknown users and items", unknown, UNKNOWN) == "error":
            raise check.error(
                f"the model was not trained on this {what}",
                got=f"{wanted[np.argmax(strange)].item()!r}, one of {int(strange.sum()):,} unknown",
                hint="train with it, or choose what stands for such: set_params(unknown='popular') or 'mean'",
            )
        numbers[strange] = -1
    return numbers


@kernel(fastmath=FUSED | {"reassoc"})
def _score(first, last, offsets, users, items, user_vectors, item_vectors, bias, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        one = user_vectors[users[q]]
        for i in range(offsets[q], offsets[q + 1]):
            other = item_vectors[items[i]]
            total = np.float64(0.0)
            for f in range(one.size):
                total += np.float64(one[f]) * np.float64(other[f])
            out[i] = total + bias[items[i]]


@kernel
def _top(first, last, rows, scores, k, best, counts):  # type: ignore[no-untyped-def]  # noqa: ARG001
    n = scores.shape[1]
    order, room = np.empty(n, np.int64), scratch_for(n)
    for row in range(first, last):
        count = min(ranking(scores[row], scores[row], k, ROW, order, room), k)
        counts[row] = count
        best[row, :count] = order[:count]
