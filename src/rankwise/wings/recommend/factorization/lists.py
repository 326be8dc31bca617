"""Training data of a factorization: lists of items by user, in numbers of both."""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwise import Objective, RankingDataset, check
from rankwise.base.arrays import Array, Floats, Ids, offsets_of, rows_of
from rankwise.rankers import document_columns
from rankwise.rankers.training import TrainingData, fingerprint
from rankwise.wings.recommend.base import by_ids
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.factors import TrainedFactors
from rankwise.wings.recommend.model import in_order


@dataclass
class TrainingLists:
    """Training lists; ``items`` and ``train`` may change from epoch to epoch, users do not."""

    train: RankingDataset
    user_ids: Ids
    """(n_users,) ascending: all that the data have, with lists or without."""
    item_ids: Ids
    """(n_items,) the whole catalogue, ascending."""
    users: NDArray[np.int64]
    """(n_queries,) numbers among ``user_ids``."""
    items: NDArray[np.int64]
    """(n_docs,) numbers among ``item_ids``."""
    seen_offsets: NDArray[np.int64]
    seen_items: NDArray[np.int32]
    redraw: Callable[[int], tuple[NDArray[np.int64], Array]] | None = None
    """From an epoch to its items and labels."""
    catalogue: bool = False
    """Whether every other item of the catalogue is on every user's list, beside the relevant ones in ``train``."""
    drawn: bool = True
    """Whether lists were made of interactions, each with a relevant item; those of a data set may have none."""

    def epoch(self, number: int) -> RankingDataset:
        """Return the lists of an epoch."""
        if self.redraw is not None:
            self.items, labels = self.redraw(number)
            self.train = self.train.with_(labels=labels, document_ids=self.item_ids[self.items])
        return self.train

    def factors(self, user_vectors: Floats, item_vectors: Floats, item_bias: Floats, rounds: int = 0) -> TrainedFactors:
        """Return the model of these vectors."""
        return TrainedFactors(
            users=self.user_ids,
            items=self.item_ids,
            popularity=self.popularity,
            seen_offsets=self.seen_offsets,
            seen_items=self.seen_items,
            user_vectors=user_vectors,
            item_vectors=item_vectors,
            item_bias=item_bias,
            rounds=rounds,
        )

    @cached_property
    def popularity(self) -> Array:
        """The number of users for whom each item is relevant."""
        return np.bincount(self.items[self.train.labels > 0], minlength=self.item_ids.size).astype(np.float64)

    def taught(self, objective: Objective, seed: int) -> NDArray[np.bool_]:
        """(n_users,) whether a user has a list that the objective learns from."""
        taught = np.bincount(self.users, minlength=self.user_ids.size) > 0
        if self.drawn:
            return taught
        data = self.train
        columns = document_columns(data, objective, debias=False)
        scores = np.arange(data.n_docs) % 7 / 7  # equal scores may have no gradient where others have
        gradient = objective(scores, data.labels, data.offsets, data.stream(seed), **columns).gradient
        taught[self.users] = np.logical_or.reduceat(gradient != 0, data.offsets[:-1])
        return taught

    def digest(self) -> str:
        """Return a digest of all that training sees."""
        digest = hashlib.blake2b(fingerprint(self.train).encode(), digest_size=16)
        for part in (self.user_ids, self.item_ids, self.items):
            digest.update(f"{part.dtype}{part.shape}".encode() + np.ascontiguousarray(part).tobytes())
        return digest.hexdigest()


@dataclass(frozen=True, kw_only=True, eq=False)
class ListsData(TrainingData):
    """Training data in numbers of users and items."""

    lists: TrainingLists


def source(data: object, *, resample: bool = False, **drawn: Any) -> TrainingLists:
    """Return the training lists of interactions, by the arguments of ``lists``, or of a data set with ids."""
    if isinstance(data, Interactions):
        return _drawn_lists(data, resample, **drawn)
    train = by_ids(data, "FactorizationRanker")
    if resample:
        hint = "train on Interactions, or leave resample out"
        raise check.error("negatives can be drawn anew only from interactions", got="lists that are made", hint=hint)
    user_ids, users = np.unique(cast("Ids", train.query_ids), return_inverse=True)
    item_ids, items = np.unique(cast("Ids", train.document_ids), return_inverse=True)
    order = np.argsort(users)
    ordered = train.take(order)
    relevant = ordered.labels > 0
    counts = np.add.reduceat(relevant, ordered.offsets[:-1])
    rows, _ = rows_of(order, train.offsets)
    seen = items[rows][relevant].astype(np.int32)
    return TrainingLists(train, user_ids, item_ids, users, items, offsets_of(counts), seen, drawn=False)


def _drawn_lists(data: Interactions, resample: bool, negatives: int | str, graded: bool, seed: int) -> TrainingLists:
    catalogue = negatives == "all"
    count: Any = 0 if catalogue else negatives

    def draw(epoch: int) -> Any:
        return data.lists(count, seed=seed, round=epoch, graded=graded)

    first = draw(0)
    if not first.users.size:
        hint = "lower the rating from which on items are relevant"
        raise check.error("no user has a relevant item to learn from", got=repr(data), hint=hint)
    train = data.dataset(count, seed=seed, graded=graded)
    ordered = in_order(data)
    offsets, items = ordered.seen()

    def redraw(epoch: int) -> tuple[NDArray[np.int64], Array]:
        lists = draw(epoch)
        return lists.items.astype(np.int64), lists.labels

    users, drawn = np.searchsorted(ordered.users, data.users[first.users]), first.items.astype(np.int64)
    again = redraw if resample and not catalogue else None
    return TrainingLists(train, ordered.users, data.catalogue, users, drawn, offsets, items, again, catalogue)
