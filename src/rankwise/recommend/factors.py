"""Vectors of users and items: what a factorization has learned, and scores and rankings from it. Needs no torch."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Floats
from rankwise.compiling import FUSED, kernel
from rankwise.recommend.content import arrays_of, of_arrays
from rankwise.recommend.known import Known
from rankwise.recommend.products import product
from rankwise.recommend.verify import verify
from rankwise.threads import over_queries

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True, eq=False, kw_only=True)
class Factors(Known):
    """One vector per user and item; the score of an item for a user is the product of their vectors, plus its bias."""

    user_vectors: Floats
    item_vectors: Floats
    item_bias: Floats
    """(n_items,), or empty."""

    similarity: ClassVar[str] = "cosine"

    @property
    def cold(self) -> NDArray[np.bool_]:
        """(n_users,) whose vectors say nothing."""
        return np.asarray(~self.user_vectors.any(axis=1))

    def score(
        self, users: NDArray[np.int64], items: NDArray[np.int64], offsets: NDArray[np.int64], unknown: str
    ) -> Array:
        """Score lists: ``items[offsets[q]]`` to ``items[offsets[q + 1]]`` for ``users[q]``."""
        scores = np.empty(items.size)
        # The last row, which −1 means, stands for all that are not known.
        vectors = tuple(
            np.vstack([one, mean]).astype(np.float32) if (numbers < 0).any() else one
            for one, mean, numbers in (
                (self.user_vectors, self.mean_user, users),
                (self.item_vectors, self._mean_item, items),
            )
        )
        over_queries(_score, offsets, users, items, *vectors, self._bias(), scores)
        if unknown != "mean" and (users < 0).any():
            strange = np.repeat(users < 0, np.diff(offsets))
            scores[strange] = np.append(self.popularity, 0.0)[items[strange]]
        return scores

    def matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        rows, columns = self.user_vectors[users], self.item_vectors[items]
        rows[users < 0], columns[items < 0] = self.mean_user, self._mean_item
        scores = product(rows, columns.T).astype(np.float64)
        if self.item_bias.size:
            scores += self._bias()[items]
        if unknown != "mean":
            scores[users < 0] = np.append(self.popularity, 0.0)[items]
        return scores

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """The cosines of these items' vectors with those of all others; a vector of zeros has no direction."""
        lengths = np.linalg.norm(self.item_vectors, axis=1, keepdims=True)
        vectors = self.item_vectors / np.maximum(lengths, 1e-30)
        cosines = product(vectors[items], vectors.T).astype(np.float64)
        cosines[np.arange(items.size), items] = -np.inf
        cosines[lengths[items, 0] == 0.0] = -np.inf
        return cosines

    def tables(self) -> "tuple[pl.DataFrame, pl.DataFrame]":
        """Give the vectors of users and of items with their ids, so that their products are the scores.

        Where items have biases, these are one number more in their vectors, and users have a 1 there.
        """
        import polars as pl

        users, items = self.user_vectors, self.item_vectors
        if self.item_bias.size:
            users = np.hstack([users, np.ones((len(users), 1), np.float32)])
            items = np.hstack([items, self.item_bias[:, None]])
        pairs = ((self.users, users), (self.items, items))
        width = pl.Array(pl.Float32, users.shape[1])
        first, second = (
            pl.DataFrame({"id": ids, "vector": pl.Series(np.ascontiguousarray(vectors), dtype=width)})
            for ids, vectors in pairs
        )
        return first, second

    def content(self) -> bytes:
        """Give the model as the content of a ``.safetensors`` file."""
        content: bytes = check.extra("safetensors.numpy", "torch").save(arrays_of(self))  # noqa: S610 (not Django)
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
        return of_arrays(cls, arrays)

    def _bias(self) -> Array:
        """One bias per item and, at the end, for those that are not known."""
        if not self.item_bias.size:
            return np.zeros(self.items.size + 1)
        return np.append(self.item_bias, self.item_bias.mean()).astype(np.float64)

    @property
    def mean_user(self) -> Array:
        """The mean vector of the users that something is known of."""
        warm = self.user_vectors[~self.cold]
        return np.asarray((warm if len(warm) else self.user_vectors).mean(axis=0, dtype=np.float64))

    @property
    def _mean_item(self) -> Array:
        return np.asarray(self.item_vectors.mean(axis=0, dtype=np.float64))


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
