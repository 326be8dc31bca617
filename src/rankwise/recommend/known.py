"""What every recommender knows beside its model: the ids of users and items, and what each user has seen."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Column, Ids, offsets_of, places, row_blocks
from rankwise.compiling import kernel
from rankwise.data.interactions.lists import Interactions
from rankwise.data.interactions.parts import count_flags, ratings_of
from rankwise.metrics.order import ROW, ranking, scratch_for
from rankwise.sparse import Matrix
from rankwise.threads import over_queries

UNKNOWN = ("error", "popular", "mean")
_BLOCK = 1 << 22  # how many scores of users by items lie in memory at once


@dataclass(frozen=True, eq=False, kw_only=True)
class Known(ABC):
    """Ids, popularity and seen items; a subclass adds the model, and scores with it."""

    users: Ids
    """(n_users,) ids, ascending."""
    items: Ids
    """(n_items,) ids, ascending."""
    popularity: Array
    """(n_items,) for how many users the item was relevant in training."""
    seen_offsets: NDArray[np.int64]
    """(n_users + 1,) where the items that each user knows from training start."""
    seen_items: NDArray[np.int32]

    similarity: ClassVar[str] = ""
    """What the likeness of two items is; empty where there is none."""

    @abstractmethod
    def matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Give the scores of users by items, both by number; −1 stands for what the model does not know."""

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """How like each of these items every item is, both by number; −inf where it is not."""
        raise NotImplementedError

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
        asked = np.append(np.arange(self.items.size), -1)
        for block in self.blocks(np.arange(users.size)):
            rows, owners = ratings_of(block, offsets)
            scores[rows] = self.matrix(users[block], asked, unknown)[owners, items[rows]]
        return scores

    def blocks(self, users: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Cut users so that their scores of all items fit into a little memory."""
        return (users[rows] for rows in row_blocks(users.size, max(self.items.size, 1), _BLOCK))

    @property
    def cold(self) -> NDArray[np.bool_]:
        """(n_users,) who liked nothing in training: there is nothing to go by but what is popular."""
        return np.zeros(self.users.size, np.bool_)

    def warm(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give −1, as for unknown users, in the place of those who liked nothing."""
        cold = self.cold
        return np.where(cold[users] & (users >= 0), -1, users) if cold.any() else users

    def hide_seen(self, users: NDArray[np.int64], scores: Array) -> None:
        """Take out what users know from training; −inf is never recommended."""
        known = np.flatnonzero(users >= 0)
        rows, owners = ratings_of(users[known], self.seen_offsets)
        scores[known[owners], self.seen_items[rows]] = -np.inf


@dataclass(frozen=True, eq=False)
class Liked:
    """The relevant items of training, by user: a matrix of users by items whose entries are 1, or counts."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    values: Array
    n_items: int

    @classmethod
    def of(cls, train: Interactions) -> Self:
        """Take what is relevant; events that were counted keep their counts."""
        offsets, items, ratings = train.relevant_items()
        if not items.size:
            hint = "lower the rating from which on items are relevant"
            raise check.error("no user has a relevant item to learn from", got=repr(train), hint=hint)
        return cls(offsets, items, ratings if train.counted else np.ones(items.size), train.n_items)

    def of_items(self, numbers: NDArray[np.int64], n_items: int) -> Self:
        """Return the same in numbers of another catalogue, without the items that it lacks (−1)."""
        there = numbers[self.items] >= 0
        offsets = offsets_of(count_flags(there, self.offsets))
        return replace(
            self,
            offsets=offsets,
            items=numbers[self.items][there].astype(np.int32),
            values=self.values[there],
            n_items=n_items,
        )

    @property
    def n_users(self) -> int:
        """How many users there are."""
        return self.offsets.size - 1

    @property
    def popularity(self) -> Array:
        """For how many users each item is relevant."""
        return np.bincount(self.items, minlength=self.n_items).astype(np.float64)

    def sparse(self, *, counts: bool = False) -> Matrix:
        """Give the matrix as SciPy has it, of ones unless ``counts`` are asked for."""
        from scipy import sparse

        values = self.values if counts else np.ones(self.items.size)
        return sparse.csr_array((values, self.items, self.offsets), shape=(self.n_users, self.n_items))


def in_order(train: Interactions) -> Interactions:
    """Put users in the order of their ids, in which they are found."""
    return train.take(np.argsort(train.users, kind="stable"))


def known_of(train: Interactions, liked: Liked) -> dict[str, Column]:
    """Give what is known from training data, whose users are in order."""
    offsets, items = train.seen()
    return {
        "users": train.users,
        "items": train.catalogue,
        "popularity": liked.popularity,
        "seen_offsets": offsets,
        "seen_items": items,
    }


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
    wanted = np.atleast_1d(np.asarray(ids))
    numbers = places(wanted, known)
    strange = numbers < 0
    if strange.any() and check.choice("way to treat unknown users and items", unknown, UNKNOWN) == "error":
        raise check.error(
            f"the model was not trained on this {what}",
            got=f"{wanted[np.argmax(strange)].item()!r}, one of {int(strange.sum()):,} unknown",
            hint="train with it, or set unknown='popular' for what is popular",
        )
    return numbers


@kernel
def _top(first, last, rows, scores, k, best, counts):  # type: ignore[no-untyped-def]  # noqa: ARG001
    n = scores.shape[1]
    order, room = np.empty(n, np.int64), scratch_for(n)
    for row in range(first, last):
        count = min(ranking(scores[row], scores[row], k, ROW, order, room), k)
        counts[row] = count
        best[row, :count] = order[:count]
