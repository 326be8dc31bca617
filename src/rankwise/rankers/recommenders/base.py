"""What recommenders share: scores by ids of users and items, and tables of what to recommend."""

from abc import abstractmethod
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.arrays import Array, Column, Floats
from rankwise.data.dataset import RankingDataset
from rankwise.data.interactions.lists import Interactions
from rankwise.plain import Json
from rankwise.rankers import storage
from rankwise.rankers.base import Ranker
from rankwise.rankers.recommenders import content, vectors
from rankwise.rankers.recommenders.known import Known, best, in_order
from rankwise.rankers.schema import Schema
from rankwise.rankers.verify.factors import Kinds
from rankwise.threads import checked, thread_count, use_threads

if TYPE_CHECKING:
    import polars as pl


class Recommends(Ranker):
    """A ranker of items for users, whose ``model_`` knows the ids of both."""

    model_: Any
    unknown: str
    threads: int | None

    def predict(self, data: object, **others: Never) -> Array:
        """Give one score per item of every user's list, the higher the better; scores compare within a user."""
        self._refuse("predict", others)
        self._check_fitted()
        lists = by_ids(data, type(self).__name__)
        users = self.model_.warm(self.model_.user_numbers(np.asarray(lists.query_ids), self.unknown))
        items = self.model_.item_numbers(np.asarray(lists.document_ids), self.unknown)
        with use_threads(self._thread_count()):
            scores: Array = self.model_.score(users, items, lists.offsets, self.unknown)
        return scores

    def matrix(self, users: ArrayLike, items: ArrayLike | None = None) -> Array:
        """Scores of these users (rows) by these items (columns), by default the whole catalogue."""
        self._check_fitted()
        rows = self.model_.warm(self.model_.user_numbers(users, self.unknown))
        columns = np.arange(self.model_.items.size)
        if items is not None and items is not self.model_.items:
            columns = self.model_.item_numbers(items, self.unknown)
        with use_threads(self._thread_count()):
            scores: Array = self.model_.matrix(rows, columns, self.unknown)
        return scores

    def recommend(self, users: ArrayLike | None = None, k: int = 10, *, exclude_seen: bool = True) -> "pl.DataFrame":
        """Give the best ``k`` items of each user, best first: a table with the columns user, rank, item and score.

        ``users`` are ids, by default all that training had. With ``exclude_seen`` items that a user rated in the
        training data (of a RankingDataset: that were relevant) are left out; a user who knows nearly all gets fewer.
        """
        import polars as pl

        self._check_fitted()
        k, model = check.integer("k", k, least=1), self.model_
        ids = model.users if users is None else np.atleast_1d(np.asarray(users))
        everything = np.arange(model.items.size)
        found: list[tuple[Column, ...]] = []
        with use_threads(self._thread_count()):
            for block in model.blocks(model.user_numbers(ids, self.unknown)):
                scores = model.matrix(model.warm(block), everything, self.unknown)
                if exclude_seen:
                    model.hide_seen(block, scores)
                found.append(best(scores, k))
        if not found:
            raise check.error("there is no user to recommend to", hint="name the ids of some, or leave users out")
        counts, ranks, items, values = (np.concatenate(column) for column in zip(*found, strict=True))
        table = {"user": np.repeat(ids, counts), "rank": ranks, "item": model.items[items], "score": values}
        return pl.DataFrame(table)

    def vectors(self) -> "tuple[pl.DataFrame, pl.DataFrame]":
        """Give the vectors of users and of items: two tables with the columns id and vector."""
        raise check.error(
            f"{type(self).__name__} has no vectors: its scores are no products of a user's and an item's",
            hint="train ALS or FactorizationRanker for a nearest-neighbour index",
        )

    def save_vectors(self, path: str | Path, *, format: str = "npy", force: bool = False) -> Path:  # noqa: A002
        """Write the vectors of users and items into a folder, for an index of nearest neighbours by inner product.

        ``"npy"`` writes user_vectors.npy, user_ids.npy, item_vectors.npy and item_ids.npy, ``"parquet"`` users.parquet
        and items.parquet with the columns id and vector. Files that exist are replaced only with ``force``.
        """
        tables = self.vectors()
        return vectors.write(path, tables, format, force=force)

    def _thread_count(self) -> int:
        return thread_count() if self.threads is None else checked(self.threads)

    def _score(self, features: Floats) -> Array:
        raise check.error(f"{type(self).__name__} scores ids of users and items, and no features")


class Recommender(Recommends):
    """A recommender that learns from interactions at once, without rounds.

    A subclass has the parameters ``unknown`` and ``threads`` and makes its ``model_kind`` in :meth:`_model`.
    """

    model_kind: ClassVar[type[Known]]
    model_arrays: ClassVar[Kinds]
    """The dtypes and shapes of its arrays."""
    ways: ClassVar[tuple[str, ...]] = ("error", "popular")
    """What may stand for unknown users."""
    metrics: Any = ("ndcg@10",)

    def fit(self, train: object, **others: Never) -> Self:  # type: ignore[override]
        """Learn from interactions: from what is relevant for each user."""
        self._refuse("fit", others)
        if not isinstance(train, Interactions):
            hint = "pass rw.Interactions, such as rw.Interactions.read('ratings.csv')"
            raise check.error(f"{type(self).__name__} learns from interactions", got=type(train).__name__, hint=hint)
        check.choice("way to treat unknown users and items", self.unknown, self.ways)
        with use_threads(self._thread_count()):
            self.model_ = self._model(in_order(train))
        self._schema = Schema(0)
        return self

    @abstractmethod
    def _model(self, train: Interactions) -> Known:
        """Check the parameters and learn; users are in the order of their ids."""

    def _description(self) -> Json:
        parameters = {name: storage.plain(value) for name, value in self.get_params().items()}
        return {"ranker": self.name, "parameters": parameters}

    @classmethod
    def _from_description(cls, description: Json, files: dict[str, bytes]) -> Self:
        ranker = cls(**description["parameters"])
        ranker._restore(description, files)
        return ranker

    def _files(self) -> dict[str, bytes]:
        return {content.MODEL: content.packed(self.model_)}

    def _restore(self, description: Json, files: dict[str, bytes]) -> None:
        self.model_ = content.unpacked(self.model_kind, files[content.MODEL], self.model_arrays)
        self._schema = Schema(0)


def by_ids(data: object, who: str) -> RankingDataset:
    """Check that data are lists of items by user; features are left behind."""
    if not isinstance(data, RankingDataset) or data.query_ids is None or data.document_ids is None:
        got = type(data).__name__
        hint = "pass a RankingDataset with query_ids (users) and document_ids (items), such as interactions.dataset()"
        raise check.error(
            f"{who} goes by the ids of users and items",
            got=f"{got} without them" if isinstance(data, RankingDataset) else got,
            hint=hint,
        )
    bare = np.empty((data.n_docs, 0), np.float32)
    return data if data.n_features == 0 else data.with_(features=bare, feature_names=None, categorical=())
