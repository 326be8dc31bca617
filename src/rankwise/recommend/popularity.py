"""The baseline that every recommender must beat: the same list for everyone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.arrays import Array, Column
from rankwise.data.interactions.lists import Interactions
from rankwise.recommend.base import Recommender
from rankwise.recommend.model import Liked, RecommenderModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Counts(RecommenderModel):
    """The number of users for whom each item is relevant."""

    kind = "Popularity"

    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        return np.tile(np.append(self.popularity, 0.0)[items], (users.size, 1))


class Popularity(Recommender):
    """Scores an item by how many users of the training data found it relevant; whoever the user is.

    Args:
        unknown: A user or item that was not there in training: ``"popular"``, as for everyone, or ``"error"``.
        threads: How many threads; by default ``RANKWISE_THREADS`` or every core.

    >>> import polars as pl
    >>> rows = {"user": [1, 2, 3, 3], "item": ["a", "a", "a", "b"], "rating": [5, 4, 1, 5]}
    >>> Popularity().fit(Interactions.from_frame(pl.DataFrame(rows))).matrix([1, 9], ["a", "b", "c"])
    array([[2., 1., 0.],
           [2., 1., 0.]])
    """

    name = "popularity"
    model_kind = Counts
    model_: Counts

    def __init__(self, *, unknown: str = "popular", threads: int | None = None, **unheard: Any) -> None:
        self.unknown = unknown
        self.threads = threads
        self._check_native(unheard)

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        return {}
