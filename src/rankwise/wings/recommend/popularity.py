"""The baseline that every recommender must beat: the same list for everyone."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Column
from rankwise.check.docstrings import documented
from rankwise.check.parameters import assign
from rankwise.rankers.training import parameters as training
from rankwise.wings.recommend.base import Recommender, Unknown
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.model import Liked, RecommenderModel


@dataclass(frozen=True, eq=False, kw_only=True)
class Counts(RecommenderModel):
    """The number of users for whom each item is relevant."""

    kind = "Popularity"

    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        return np.tile(np.append(self.popularity, 0.0)[items], (users.size, 1))


@documented
class Popularity(Recommender):
    """Scores an item by how many users of the training data found it relevant; whoever the user is.

    >>> import polars as pl
    >>> rows = {"user": [1, 2, 3, 3], "item": ["a", "a", "a", "b"], "rating": [5, 4, 1, 5]}
    >>> Popularity().fit(Interactions.from_frame(pl.DataFrame(rows))).matrix([1, 9], ["a", "b", "c"])
    array([[2., 1., 0.],
           [2., 1., 0.]])
    """

    name = "popularity"
    model_kind = Counts
    model_: Counts

    def __init__(self, *, unknown: Unknown = "popular", threads: training.Threads = None, **others: Any) -> None:
        assign(self, locals())
        self._check_native(others)

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        return {}
