"""Models of recommenders: ids of users and items, the items that each user has seen, and verified arrays."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Floats, Ids, Json, Offsets, index_of, offsets_of, row_blocks
from rankwise.base.compiling import kernel
from rankwise.base.sparse import Matrix
from rankwise.base.threads import over_queries
from rankwise.metrics.sorting import ROW, ranking, scratch_for
from rankwise.models import InvalidModelError, Model, Schema, rejecting, storage
from rankwise.wings.recommend.data.holdout import count_flags, ratings_of
from rankwise.wings.recommend.data.interactions import Interactions

Kinds = Mapping[str, tuple[str, tuple[tuple[str, ...], ...]]]
"""Name -> (dtype, the shapes that it may have, in letters: n users, m items, any other letter one size of its own)."""

KNOWN: Kinds = {
    "popularity": ("float64", (("m",),)),
    "seen_offsets": ("int64", (("n+1",),)),
    "seen_items": ("int32", (("s",),)),
}
HISTORY: Kinds = {"liked_offsets": ("int64", (("n+1",),)), "liked_items": ("int32", (("l",),))}
FACTORS: Kinds = {
    "user_vectors": ("float32", (("n", "f"),)),
    "item_vectors": ("float32", (("m", "f"),)),
    "item_bias": ("float32", (("m",), ("0",))),
}
UNKNOWN = ("error", "popular", "mean")
_FILE = "model.npz"
_LAST_LETTER = 0x10FFFF
_BLOCK = 1 << 22  # how many scores of users by items lie in memory at once


@dataclass(frozen=True, eq=False, kw_only=True)
class RecommenderModel(Model):
    """Ids, popularity and seen items; a subclass adds the arrays that it scores with."""

    users: Ids
    """(n_users,) ids, ascending."""
    items: Ids
    """(n_items,) ids, ascending."""
    popularity: Array
    """(n_items,) for how many users the item was relevant in training."""
    seen_offsets: NDArray[np.int64]
    """(n_users + 1,) where the training items of each user start."""
    seen_items: NDArray[np.int32]

    schema = Schema(0)
    kinds: ClassVar[Kinds] = {}
    """The dtypes and shapes of a subclass's own arrays."""
    similarity: ClassVar[str] = ""
    """The name of the similarity of two items; empty where there is none."""

    def scores(self, features: Floats, offsets: Offsets | None = None) -> Never:
        """Raise: it is ids that are scored."""
        raise check.error(f"{self.kind} scores ids of users and items, and no features")

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Never:
        """Raise: there are no features."""
        raise check.error(f"a {self.kind} cannot explain its scores by features")

    @abstractmethod
    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Return the scores of users by items, both by number; −1 stands for an unknown one."""

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """Return the similarity of each of these items to every item, both by number; −inf where there is none."""
        raise NotImplementedError

    def user_numbers(self, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
        """Return the numbers of users; −1 stands for an unknown one, where that is allowed."""
        return _numbers("user", self.users, ids, unknown)

    def item_numbers(self, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
        """Return the numbers of items; −1 stands for an unknown one, where that is allowed."""
        return _numbers("item", self.items, ids, unknown)

    def read_ids(self, words: Sequence[str], what: str = "users") -> list[int] | list[str]:
        """Read ids of users, or items, as the model has them: numbers or words."""
        if getattr(self, what).dtype.kind not in "iu":
            return list(words)
        for word in words:
            if not word.lstrip("-").isdigit() or str(int(word)) != word:
                raise check.error(f"the ids of {what} are whole numbers here", got=repr(word))
        return [int(word) for word in words]

    def score_lists(self, users: NDArray[np.int64], items: NDArray[np.int64], offsets: Offsets, unknown: str) -> Array:
        """Score lists: ``items[offsets[q]]`` to ``items[offsets[q + 1]]`` for ``users[q]``."""
        scores = np.empty(items.size)
        columns = np.append(np.arange(self.items.size), -1)
        for block in self.blocks(np.arange(users.size)):
            rows, owners = ratings_of(block, offsets)
            scores[rows] = self.score_matrix(users[block], columns, unknown)[owners, items[rows]]
        return scores

    def blocks(self, users: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
        """Yield blocks of users whose scores of all items fit into a little memory."""
        return (users[rows] for rows in row_blocks(users.size, max(self.items.size, 1), _BLOCK))

    @property
    def cold(self) -> NDArray[np.bool_]:
        """(n_users,) whether the user liked nothing in training, and is scored by popularity."""
        return np.zeros(self.users.size, np.bool_)

    def warm(self, users: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the numbers of users, with −1, as for unknown ones, for those who liked nothing."""
        cold = self.cold
        return np.where(cold[users] & (users >= 0), -1, users) if cold.any() else users

    def hide_seen(self, users: NDArray[np.int64], scores: Array) -> None:
        """Set the scores of items that users have seen in training to −inf, which is never recommended."""
        trained = np.flatnonzero(users >= 0)
        rows, owners = ratings_of(users[trained], self.seen_offsets)
        scores[trained[owners], self.seen_items[rows]] = -np.inf

    def arrays(self) -> dict[str, Column]:
        """Return all arrays as arrays of numbers; ids that are words as rows of code points."""
        arrays: dict[str, Column] = {key: one for key, one in vars(self).items() if isinstance(one, np.ndarray)}
        for name in ("users", "items"):
            if arrays[name].dtype.kind == "U":
                words = np.ascontiguousarray(arrays[name])
                arrays[name] = words.view(np.uint32).reshape(words.size, -1)
        return {name: np.ascontiguousarray(array) for name, array in arrays.items()}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Column], **others: Any) -> Self:
        """Return the model of :meth:`arrays`, verified, and of what is no array."""
        verify(arrays, cls.kinds)
        values = {field.name: arrays[field.name] for field in fields(cls) if field.name not in others}
        for name in ("users", "items"):
            if values[name].ndim == 2:
                values[name] = np.ascontiguousarray(values[name]).view(f"U{values[name].shape[1]}")[:, 0]
        return cls(**values, **others)

    def files(self) -> dict[str, bytes]:
        """Return the file of its arrays."""
        return {_FILE: storage.npz(self.arrays())}

    def description(self) -> Json:
        """Return nothing: all is in the file."""
        return {}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the file."""
        with check.library("the arrays of a recommender", _FILE):
            arrays = storage.arrays(files[_FILE])
        return cls.from_arrays(arrays)

    @classmethod
    def history(cls, liked: "Liked") -> dict[str, Column]:
        """Return those of its arrays that hold the relevant items of users."""
        arrays: dict[str, Column] = {"liked_offsets": liked.offsets, "liked_items": liked.items}
        return {name: array for name, array in arrays.items() if name in cls.kinds}


@dataclass(frozen=True, eq=False, kw_only=True)
class HistoryModel(RecommenderModel):
    """A model that scores by the relevant items of each user."""

    liked_offsets: NDArray[np.int64]
    """(n_users + 1,) where the relevant items of each user start."""
    liked_items: NDArray[np.int32]

    @property
    def cold(self) -> NDArray[np.bool_]:
        """(n_users,) whether the user liked nothing in training."""
        return np.asarray(np.diff(self.liked_offsets) == 0)


@dataclass(frozen=True, eq=False)
class Liked:
    """The relevant items of training, by user: a matrix of users by items whose entries are 1, or counts."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    values: Array
    n_items: int

    @classmethod
    def of(cls, train: Interactions) -> Self:
        """Return the relevant items; events that were counted keep their counts."""
        offsets, items, ratings = train.relevant_items()
        return cls(offsets, items, ratings if train.counted else np.ones(items.size), train.n_items)

    def of_items(self, numbers: NDArray[np.int64], n_items: int) -> Self:
        """Return the same in numbers of another catalogue, without the items that it lacks (−1)."""
        shared = numbers[self.items] >= 0
        offsets, items = offsets_of(count_flags(shared, self.offsets)), numbers[self.items][shared].astype(np.int32)
        return replace(self, offsets=offsets, items=items, values=self.values[shared], n_items=n_items)

    @property
    def n_users(self) -> int:
        """The number of users."""
        return self.offsets.size - 1

    @property
    def popularity(self) -> Array:
        """The number of users for whom each item is relevant."""
        return np.bincount(self.items, minlength=self.n_items).astype(np.float64)

    def sparse(self, *, counts: bool = False) -> Matrix:
        """Return SciPy's sparse matrix, of ones or of ``counts``."""
        from scipy import sparse

        values = self.values if counts else np.ones(self.items.size)
        return sparse.csr_array((values, self.items, self.offsets), shape=(self.n_users, self.n_items))


def in_order(train: Interactions) -> Interactions:
    """Return interactions with users in ascending order of their ids."""
    return train.take(np.argsort(train.users, kind="stable"))


def best(scores: Array, k: int) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64], Array]:
    """Return how many of the best ``k`` each row has, and flat: their ranks, columns and scores.

    Equal scores keep the order of columns; −inf is never among the best.

    >>> best(np.array([[1.0, 3.0, 2.0], [0.0, -np.inf, -np.inf]]), 2)
    (array([2, 1]), array([1, 2, 1]), array([1, 2, 0]), array([3., 2., 0.]))
    """
    n_rows, n_columns = scores.shape
    numbers, counts = np.full((n_rows, k), -1, np.int64), np.zeros(n_rows, np.int64)
    work = np.full(n_rows, 10.0 * n_columns)
    over_queries(
        _top, np.arange(n_rows + 1), np.ascontiguousarray(scores), min(k, n_columns), numbers, counts, work=work
    )
    rows, ranks = np.nonzero(numbers >= 0)
    columns = numbers[rows, ranks]
    return counts, ranks + 1, columns, scores[rows, columns]


def _numbers(what: str, trained: Ids, ids: ArrayLike, unknown: str) -> NDArray[np.int64]:
    queried = np.atleast_1d(np.asarray(ids))
    numbers = index_of(queried, trained)
    strange = numbers < 0
    if strange.any() and check.choice("way to treat unknown users and items", unknown, UNKNOWN) == "error":
        raise check.error(
            f"the model was not trained on this {what}",
            got=f"{queried[np.argmax(strange)].item()!r}, one of {int(strange.sum()):,} unknown",
            hint="train with it, or `set unknown='popular'` for what is popular",
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


def verify(arrays: Mapping[str, Column], kinds: Kinds = FACTORS) -> None:
    """Check the arrays of a model, ids among them; an error says what of them cannot be.

    ``x_offsets`` and ``x_items`` are lists of items; so are numbers of items wherever a name ends in ``items``.
    """
    kinds = {**KNOWN, **kinds}
    with rejecting():
        for name in ("users", "items", *kinds):
            if name not in arrays:
                raise InvalidModelError(f"no {name}")
        for name, (kind, shapes) in kinds.items():
            if arrays[name].dtype != kind or arrays[name].ndim != len(shapes[0]):
                raise InvalidModelError(f"{name} of the shape {arrays[name].shape} and the kind {arrays[name].dtype}")
        n_users, n_items = (_ids(arrays[name], name) for name in ("users", "items"))
        sizes = {"n": n_users, "m": n_items, "n+1": n_users + 1, "m+1": n_items + 1, "0": 0}
        for name, (_, shapes) in kinds.items():
            _size(name, arrays[name].shape, shapes, sizes)
        for name in kinds:
            values = arrays[name]
            if name.endswith("_offsets"):
                items = arrays[name.removesuffix("offsets") + "items"]
                if values[0] != 0 or values[-1] != items.size or (np.diff(values) < 0).any():
                    raise InvalidModelError("lists of items that do not follow each other")
            if name.endswith("items") and values.size and not 0 <= values.min() <= values.max() < n_items:
                raise InvalidModelError(f"an item that is not among the {n_items}")


def _ids(ids: Ids, name: str) -> int:
    """Ids are whole numbers that rise, or rows of letters."""
    words = ids.ndim == 2 and ids.dtype == np.uint32 and ids.shape[1] > 0
    if not ids.size or not (words or (ids.ndim == 1 and ids.dtype.kind in "iu")):
        raise InvalidModelError(f"{name} of the shape {ids.shape} and the kind {ids.dtype}")
    if words:
        if ids.max() > _LAST_LETTER or ((ids >= 0xD800) & (ids < 0xE000)).any():
            raise InvalidModelError(f"something in {name} that is no letter")
        ids = np.ascontiguousarray(ids).view(f"U{ids.shape[1]}")[:, 0]
    if not (ids[:-1] < ids[1:]).all():
        raise InvalidModelError(f"{name} that do not rise")
    return len(ids)


def _size(name: str, shape: tuple[int, ...], shapes: tuple[tuple[str, ...], ...], sizes: dict[str, int]) -> None:
    """Compare a shape with those that it may have; a letter that is new gets its size."""
    for possible in shapes:
        if all(sizes.get(letter, size) == size for letter, size in zip(possible, shape, strict=True)):
            sizes.update(zip(possible, shape, strict=True))
            return
    raise InvalidModelError(f"{name} of the shape {shape} for {sizes['n']} users and {sizes['m']} items")
