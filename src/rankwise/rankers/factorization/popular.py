"""The baseline that every recommender must beat: the same list for everyone."""

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Ids
from rankwise.data.dataset import RankingDataset
from rankwise.data.interactions.lists import Interactions


class Popular:
    """Scores an item by how many users of the training data found it relevant; whoever the user is.

    >>> import polars as pl
    >>> rows = {"user": [1, 2, 3, 3], "item": ["a", "a", "a", "b"], "rating": [5, 4, 1, 5]}
    >>> Popular(Interactions.from_frame(pl.DataFrame(rows))).matrix([1, 9], ["a", "b", "c"])
    array([[2., 1., 0.],
           [2., 1., 0.]])
    """

    def __init__(self, train: Interactions) -> None:
        _, items, _ = train.relevant_items()
        self.items = train.catalogue
        self.counts = np.bincount(items, minlength=train.n_items).astype(np.float64)

    def predict(self, data: RankingDataset) -> Array:
        """Give one score per document, by its id."""
        if data.document_ids is None:
            raise check.error("popularity goes by the ids of items", got="data without document_ids")
        return self._scores(data.document_ids)

    def matrix(self, users: ArrayLike, items: ArrayLike) -> Array:
        """Scores of users (rows) by items (columns)."""
        return np.tile(self._scores(np.asarray(items)), (np.size(users), 1))

    def _scores(self, items: Ids) -> Array:
        numbers = np.searchsorted(self.items, items).clip(0, self.items.size - 1)
        return np.where(self.items[numbers] == items, self.counts[numbers], 0.0)
