"""Base classes of recommenders: scores by ids of users and items, recommendations, similar items."""

import warnings
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import Ranker, RankingDataset, check, moved, use_threads
from rankwise.base.arrays import Array, Column, Ids, Json
from rankwise.base.threads import thread_count
from rankwise.check.parameters import OneOf, check_declared
from rankwise.models import Schema, model_card
from rankwise.rankers import check_fitted, reject
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.factors import FactorsModel, write_vectors
from rankwise.wings.recommend.model import UNKNOWN, Liked, RecommenderModel, best, in_order

if TYPE_CHECKING:
    import polars as pl


_WAY = "way to treat unknown users and items"
Unknown = Annotated[
    str,
    OneOf(("error", "popular"), _WAY),
    """What happens to a user who was not there in training: ``"error"``, or ``"popular"``, items are ordered by how
    many users they were relevant for.""",
]
UnknownVector = Annotated[
    str,
    OneOf(UNKNOWN, _WAY),
    """What happens to a user or item that was not there in training: ``"error"``; ``"mean"``, the mean vector stands
    for it; or ``"popular"``, items are ordered for a new user by how many users they were relevant for, and the mean
    vector stands for a new item.""",
]


class RecommenderMixin(Ranker):
    """A ranker of items for users, whose ``model_`` knows the ids of both."""

    model_kind: ClassVar[type[RecommenderModel]]
    model_: RecommenderModel
    unknown: str
    threads: int | None

    def predict(self, data: object, **others: Never) -> Array:
        """Return one score per item of every user's list, the higher the better; scores compare within a user."""
        reject(self, "predict", others)
        check_fitted(self)
        lists = by_ids(data, type(self).__name__)
        users = self.model_.warm(self.model_.user_numbers(np.asarray(lists.query_ids), self.unknown))
        items = self.model_.item_numbers(np.asarray(lists.document_ids), self.unknown)
        with use_threads(self._thread_count()):
            return self.model_.score_lists(users, items, lists.offsets, self.unknown)

    def matrix(self, users: ArrayLike, items: ArrayLike | None = None) -> Array:
        """Scores of these users (rows) by these items (columns), by default the whole catalogue."""
        check_fitted(self)
        rows = self.model_.warm(self.model_.user_numbers(users, self.unknown))
        columns = np.arange(self.model_.items.size)
        if items is not None and items is not self.model_.items:
            columns = self.model_.item_numbers(items, self.unknown)
        with use_threads(self._thread_count()):
            return self.model_.score_matrix(rows, columns, self.unknown)

    @moved.renamed("rw.recommend.ALS.recommend")
    def recommend(
        self,
        users: ArrayLike | None = None,
        cutoff: int = 10,
        *,
        exclude_seen: bool = True,
        history: "Interactions | ArrayLike | None" = None,
    ) -> "pl.DataFrame":
        """Return a table of the best ``cutoff`` items of each user, best first: user, rank, item and score.

        ``users`` are ids, by default all that training had. With ``exclude_seen`` items that a user rated in the
        training data (of a RankingDataset: that were relevant) are left out; a user who knows nearly all gets fewer,
        and of those who know all a warning says that they are left out.

        With ``history`` users need not have been there in training, and nothing is trained again: it has the ids of the
        items that one user likes, whom ``users`` may name, or it is interactions of many users. What they have rated
        there is what they have seen, and users who like nothing get what is popular.
        """
        import polars as pl

        check_fitted(self)
        cutoff, model, unknown = check.integer("cutoff", cutoff, least=1), self.model_, self.unknown
        if history is not None:
            if not isinstance(history, Interactions):
                history, users = _history_of(history, users), None
            model, unknown = self._with_history(history), "popular"
        ids = model.users if users is None else np.atleast_1d(np.asarray(users))
        everything = np.arange(model.items.size)
        blocks: list[tuple[Column, ...]] = []
        with use_threads(self._thread_count()):
            for block in model.blocks(model.user_numbers(ids, self.unknown)):
                scores = model.score_matrix(model.warm(block), everything, unknown)
                if exclude_seen:
                    model.hide_seen(block, scores)
                blocks.append(best(scores, cutoff))
        if not blocks:
            raise check.error("there is no user to recommend to", hint="name the ids of some, or leave `users` out")
        counts, ranks, items, values = (np.concatenate(column) for column in zip(*blocks, strict=True))
        if not counts.all():
            first = ids[np.argmin(counts)].item()
            lost = f"{int((counts == 0).sum()):,} of {counts.size:,} users; the first is {first!r}"
            warnings.warn(f"users who have rated every item get no recommendation: {lost}", stacklevel=3)
        table = {"user": np.repeat(ids, counts), "rank": ranks, "item": model.items[items], "score": values}
        return pl.DataFrame(table)

    def _with_history(self, history: Interactions) -> RecommenderModel:
        """Return the model with users of this history in the place of those of training."""
        model, rated = self.model_, in_order(history)
        seen = Liked(*rated.seen(), np.ones(rated.n_ratings), rated.n_items)
        numbers = np.full(rated.n_items, -1)
        occurring = np.unique(seen.items)
        numbers[occurring] = model.item_numbers(rated.catalogue[occurring], self.unknown)
        lost = int((numbers[occurring] < 0).sum())
        if lost:
            of = f"{lost:,} of the {occurring.size:,} items of the history"
            warnings.warn(f"{of} were not there in training and say nothing", stacklevel=4)
        seen = seen.of_items(numbers, model.items.size)
        with use_threads(self._thread_count()):
            arrays = self._of_history(rated.users, Liked.of(rated).of_items(numbers, model.items.size))
        return replace(model, users=rated.users, seen_offsets=seen.offsets, seen_items=seen.items, **arrays)

    def _of_history(self, users: Ids, liked: Liked) -> dict[str, Column]:
        """Return the model's arrays of users, for new users who like these items."""
        return self.model_.history(liked)

    @moved.renamed("rw.recommend.ALS.similar_items")
    def similar_items(self, items: ArrayLike, cutoff: int = 10) -> "pl.DataFrame":
        """Return the ``cutoff`` items that are most like each of these, best first.

        A table with the columns item, rank, similar, and the measure: the ``cosine`` of vectors, the ``similarity`` of
        neighbours, or EASE's ``weight`` from the one item to the other.
        """
        import polars as pl

        check_fitted(self)
        model = self.model_
        if not model.similarity:
            hint = "train EASE, ItemKNN, ALS or FactorizationRanker"
            raise check.error(f"{type(self).__name__} does not compare items", hint=hint)
        ids = np.atleast_1d(np.asarray(items))
        with use_threads(self._thread_count()):
            similar = model.similar_to(model.item_numbers(ids, "error"))
        counts, ranks, numbers, values = best(similar, check.integer("cutoff", cutoff, least=1))
        if not counts.all():
            lost = f"{int((counts == 0).sum()):,} of {counts.size:,}; the first is {ids[np.argmin(counts)].item()!r}"
            warnings.warn(f"items that are like no other are left out: {lost}", stacklevel=3)
        names = {"item": np.repeat(ids, counts), "rank": ranks, "similar": model.items[numbers]}
        return pl.DataFrame({**names, model.similarity: values})

    def vectors(self) -> "tuple[pl.DataFrame, pl.DataFrame]":
        """Return the vectors of users and of items: two tables with the columns id and vector.

        The score of an item for a user is the product of their vectors: biases of items are a last number in them.
        """
        check_fitted(self)
        if not isinstance(self.model_, FactorsModel):
            raise check.error(
                f"{type(self).__name__} has no vectors: its scores are no products of a user's and an item's",
                hint="train ALS or FactorizationRanker for a nearest-neighbour index",
            )
        return self.model_.tables()

    def save_vectors(self, path: str | Path, *, format: str = "npy", force: bool = False) -> Path:  # noqa: A002
        """Write the vectors of users and items into a folder, for an index of nearest neighbours by inner product.

        ``"npy"`` writes user_vectors.npy, user_ids.npy, item_vectors.npy and item_ids.npy, ``"parquet"`` users.parquet
        and items.parquet with the columns id and vector. Files that exist are replaced only with ``force``.
        """
        return write_vectors(path, self.vectors(), format, force=force)

    def _thread_count(self) -> int:
        return thread_count() if self.threads is None else self.threads

    def contributions(self, data: object) -> Never:
        """Raise: there are no features to explain scores by."""
        check_fitted(self)
        self.model_.contributions(np.empty((0, 0), np.float32))

    def read_model(self, description: Json, files: dict[str, bytes], schema: Schema) -> RecommenderModel:
        """Return the model of a description and its files, and verify it."""
        return self.model_kind.from_files(description, files, schema)


class Recommender(RecommenderMixin):
    """A recommender that learns from interactions at once, without rounds.

    A subclass has the parameters ``unknown`` and ``threads``; :meth:`_learn` computes the arrays of its ``model_kind``.
    """

    metrics: Any = ("ndcg@10",)

    def fit(self, train: object, **others: Never) -> Self:  # type: ignore[override]
        """Learn from interactions: from what is relevant for each user."""
        reject(self, "fit", others)
        if not isinstance(train, Interactions):
            hint = "pass rw.recommend.Interactions, such as rw.recommend.Interactions.read('ratings.csv')"
            raise check.error(f"{type(self).__name__} learns from interactions", got=type(train).__name__, hint=hint)
        check_declared(self)
        ordered = in_order(train)
        liked = Liked.of(ordered)
        if not liked.items.size:
            hint = "lower the rating from which on items are relevant"
            raise check.error("no user has a relevant item to learn from", got=repr(train), hint=hint)
        offsets, items = ordered.seen()
        with use_threads(self._thread_count()):
            arrays = self._learn(ordered, liked)
        self.model_ = self.model_kind(
            users=ordered.users,
            items=ordered.catalogue,
            popularity=liked.popularity,
            seen_offsets=offsets,
            seen_items=items,
            **self.model_kind.history(liked),
            **arrays,
        )
        self.trained_on_ = {"users": train.n_users, "items": train.n_items} | model_card.command()
        return self

    @abstractmethod
    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        """Check the parameters and return the arrays of the model; users are in the order of their ids."""

    def description(self) -> Json:
        """Return what files hold of the trained recommender, beside the model itself."""
        return {"ranker": self.name, "parameters": self.recipe()["parameters"], "data": dict(self.trained_on_)}

    @classmethod
    def from_description(cls, description: Json, files: dict[str, bytes]) -> Self:
        """Return the trained recommender of a description and its files."""
        ranker = cls.untrained(description)
        ranker.trained_on_ = model_card.trained_on(description)
        ranker.model_ = ranker.read_model(description, files, Schema(0))
        return ranker


def _history_of(items: ArrayLike, users: ArrayLike | None) -> Interactions:
    """Return the items that one user likes as interactions; the user is called "new" without a name."""
    import polars as pl

    names = np.atleast_1d(np.asarray("new" if users is None else users))
    liked = np.atleast_1d(np.asarray(items))
    if names.size != 1 or liked.ndim != 1:
        hint = "pass interactions as the history of several: rw.recommend.Interactions.from_frame(…)"
        raise check.error("a list of items is the history of one user", got=f"{names.size} users", hint=hint)
    if not liked.size:
        raise check.error(
            "a history needs an item", got="none", hint="leave `history` out, and `set unknown='popular'`"
        )
    frame = pl.DataFrame({"user": np.repeat(names, liked.size), "item": liked})
    return Interactions.from_frame(frame, rating=None)


def by_ids(data: object, who: str) -> RankingDataset:
    """Return lists of items by user without features; raise if ids are missing."""
    if not isinstance(data, RankingDataset) or data.query_ids is None or data.document_ids is None:
        got = type(data).__name__ + (" without them" if isinstance(data, RankingDataset) else "")
        hint = "pass a RankingDataset with query_ids (users) and document_ids (items), such as interactions.dataset()"
        raise check.error(f"{who} goes by the ids of users and items", got=got, hint=hint)
    bare = np.empty((data.n_docs, 0), np.float32)
    return data if data.n_features == 0 else data.with_(features=bare, feature_names=None, categorical=())
