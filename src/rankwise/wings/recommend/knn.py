"""Neighbours of items: an item is as good for a user as it is like what the user liked."""

from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Floats, offsets_of, row_blocks
from rankwise.base.sparse import Matrix
from rankwise.check.docstrings import documented
from rankwise.check.parameters import AtLeast, OneOf, Option, assign
from rankwise.rankers.training import parameters as training
from rankwise.wings.recommend.base import Recommender, Unknown
from rankwise.wings.recommend.data.holdout import ratings_of
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.model import HISTORY, HistoryModel, Kinds, Liked, best

_BLOCK = 1 << 22  # how many similarities lie in memory at once


@dataclass(frozen=True, eq=False, kw_only=True)
class Neighbours(HistoryModel):
    """The nearest neighbours of every item; a score is the sum of similarities to what the user liked."""

    neighbour_offsets: NDArray[np.int64]
    """(n_items + 1,) where the neighbours of each item start."""
    neighbour_items: NDArray[np.int32]
    similarities: Floats

    kind = "ItemKNN"
    kinds: ClassVar[Kinds] = {
        **HISTORY,
        "neighbour_offsets": ("int64", (("m+1",),)),
        "neighbour_items": ("int32", (("k",),)),
        "similarities": ("float32", (("k",),)),
    }
    similarity: ClassVar[str] = "similarity"

    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        from scipy import sparse

        rows, _ = ratings_of(np.maximum(users, 0), self.liked_offsets)
        starts = offsets_of(np.diff(self.liked_offsets)[np.maximum(users, 0)])
        n = self.items.size
        ones = sparse.csr_array((np.ones(rows.size), self.liked_items[rows], starts), shape=(users.size, n))
        every = np.zeros((users.size, n + 1))  # the last column: unknown items
        every[:, :-1] = (ones @ self._near().T).toarray()
        every[users < 0, :-1] = self.popularity
        return every[:, items]

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """The similarities of these items to their neighbours."""
        similar = self._near()[items].toarray()
        return np.where(similar > 0.0, similar, -np.inf)

    def _near(self) -> Matrix:
        """Similarities of items (rows) to their neighbours."""
        from scipy import sparse

        n, values = self.items.size, self.similarities.astype(np.float64)
        return sparse.csr_array((values, self.neighbour_items, self.neighbour_offsets), shape=(n, n))


@documented
class ItemKNN(Recommender):
    """Item-based neighbours (Sarwar et al. 2001): an item's score is the sum of its similarities to a user's items.

    Each item is compared with its ``neighbours`` most similar items alone. ``"cosine"`` compares the sets of users for
    whom items were relevant: how many they share over √(n · m) + shrinkage. ``"adjusted"`` is the cosine of their
    ratings, each less the mean of its user's, and needs ratings.

    >>> import polars as pl
    >>> rows = {"user": [1, 1, 2, 2, 3], "item": ["a", "b", "a", "b", "a"]}
    >>> model = ItemKNN(shrinkage=0.0).fit(Interactions.from_frame(pl.DataFrame(rows), rating=None))
    >>> model.matrix([3]).round(4)  # two users share a and b: 2 / √(3 · 2)
    array([[0.    , 0.8165]])
    """

    name = "knn"
    model_kind = Neighbours
    model_: Neighbours

    def __init__(
        self,
        *,
        neighbours: Annotated[int, AtLeast(1), "Number of similar items (k) of an item.", Option(metavar="K")] = 100,
        similarity: Annotated[
            str, OneOf(("cosine", "adjusted")), '``"cosine"`` or ``"adjusted"``, as above.'
        ] = "cosine",
        shrinkage: Annotated[
            float,
            AtLeast(0),
            "Number that is added to the product of the lengths, so that items with few users are similar to none.",
        ] = 10.0,
        unknown: Unknown = "error",
        threads: training.Threads = None,
        **others: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(others)

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        columns = (_centred(train) if self.similarity == "adjusted" else liked.sparse()).T.tocsr()
        counts, neighbours, values = _nearest(columns, int(self.neighbours), float(self.shrinkage))
        return {"neighbour_offsets": offsets_of(counts), "neighbour_items": neighbours, "similarities": values}


def _centred(train: Interactions) -> Matrix:
    """Ratings of users by items, each less the mean of its user's."""
    from scipy import sparse

    if train.counted:
        hint = "`set similarity='cosine'`"
        raise check.error("adjusted similarities need ratings", got="events without ratings", hint=hint)
    offsets, items = train.seen()
    ratings = train.to_frame()["rating"].to_numpy()
    owners = np.repeat(np.arange(train.n_users), np.diff(offsets))
    means = np.bincount(owners, ratings, train.n_users) / np.maximum(np.diff(offsets), 1)
    return sparse.csr_array((ratings - means[owners], items, offsets), shape=(train.n_users, train.n_items))


def _nearest(columns: Matrix, k: int, shrinkage: float) -> tuple[NDArray[np.int64], NDArray[np.int32], Floats]:
    """Return how many similar items each item has, and flat: their numbers, best first, and similarities above 0."""
    n = columns.shape[0]
    lengths = np.sqrt((columns * columns).sum(axis=1))
    rows = columns.T.tocsr()
    blocks = []
    for block in row_blocks(n, n, _BLOCK):
        shared = (columns[block] @ rows).toarray()
        divisor = lengths[block, None] * lengths + shrinkage
        similar = np.divide(shared, divisor, out=np.full(shared.shape, -np.inf), where=(shared > 0.0) & (divisor > 0.0))
        similar[np.arange(len(similar)), np.arange(n)[block]] = -np.inf
        blocks.append(best(similar, k))
    counts, _, neighbours, similarities = (np.concatenate(column) for column in zip(*blocks, strict=True))
    return counts, neighbours.astype(np.int32), similarities.astype(np.float32)
