"""Vectors of users and items: scores from them, vectors of new users, and files for nearest-neighbour indexes.

Needs no torch.
"""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Never, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import Objective, Stream, check
from rankwise.base import files
from rankwise.base.arrays import Array, Column, Floats, Ids, Json, Offsets
from rankwise.base.compiling import FUSED, kernel
from rankwise.base.threads import over_queries
from rankwise.models import Schema
from rankwise.wings.recommend.model import FACTORS, Kinds, Liked, RecommenderModel

if TYPE_CHECKING:
    import polars as pl

VECTOR_FORMATS = {
    "npy": ("user_vectors.npy", "user_ids.npy", "item_vectors.npy", "item_ids.npy"),
    "parquet": ("users.parquet", "items.parquet"),
}
"""Files of each format."""
_FILE = "model.safetensors"
_ITERATIONS = 100  # of L-BFGS


@dataclass(frozen=True, eq=False, kw_only=True)
class FactorsModel(RecommenderModel):
    """One vector per user and item; the score of an item for a user is the product of their vectors, plus its bias."""

    user_vectors: Floats
    item_vectors: Floats
    item_bias: Floats
    """(n_items,), or empty."""

    kind = "ALS"
    kinds: ClassVar[Kinds] = FACTORS
    similarity: ClassVar[str] = "cosine"

    @property
    def cold(self) -> NDArray[np.bool_]:
        """(n_users,) whether the vector is zero."""
        return np.asarray(~self.user_vectors.any(axis=1))

    def score_lists(self, users: NDArray[np.int64], items: NDArray[np.int64], offsets: Offsets, unknown: str) -> Array:
        """Score lists: ``items[offsets[q]]`` to ``items[offsets[q + 1]]`` for ``users[q]``."""
        scores = np.empty(items.size)
        # The last row, index −1, stands for all unknown ones.
        vectors = tuple(
            np.vstack([rows, mean]).astype(np.float32) if (numbers < 0).any() else rows
            for rows, mean, numbers in (
                (self.user_vectors, self.mean_user, users),
                (self.item_vectors, self._mean_item, items),
            )
        )
        over_queries(_score, offsets, users, items, *vectors, self._bias(), scores)
        if unknown != "mean" and (users < 0).any():
            strange = np.repeat(users < 0, np.diff(offsets))
            scores[strange] = np.append(self.popularity, 0.0)[items[strange]]
        return scores

    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        rows, columns = self.user_vectors[users], self.item_vectors[items]
        rows[users < 0], columns[items < 0] = self.mean_user, self._mean_item
        scores = (rows @ columns.T).astype(np.float64)
        if self.item_bias.size:
            scores += self._bias()[items]
        if unknown != "mean":
            scores[users < 0] = np.append(self.popularity, 0.0)[items]
        return scores

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """Return the cosines of these items' vectors with those of all items; a vector of zeros has none."""
        lengths = np.linalg.norm(self.item_vectors, axis=1, keepdims=True)
        vectors = self.item_vectors / np.maximum(lengths, 1e-30)
        cosines: Array = (vectors[items] @ vectors.T).astype(np.float64)
        cosines[np.arange(items.size), items] = -np.inf
        cosines[lengths[items, 0] == 0.0] = -np.inf
        return cosines

    def tables(self) -> "tuple[pl.DataFrame, pl.DataFrame]":
        """Return the vectors of users and of items with their ids; their products are the scores.

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

    def _bias(self) -> Array:
        """One bias per item and, at the end, that of unknown items."""
        if not self.item_bias.size:
            return np.zeros(self.items.size + 1)
        return np.append(self.item_bias, self.item_bias.mean()).astype(np.float64)

    @property
    def mean_user(self) -> Array:
        """The mean of the users' vectors that are not zero."""
        warm = self.user_vectors[~self.cold]
        return np.asarray((warm if len(warm) else self.user_vectors).mean(axis=0, dtype=np.float64))

    @property
    def _mean_item(self) -> Array:
        return np.asarray(self.item_vectors.mean(axis=0, dtype=np.float64))


@dataclass(frozen=True, eq=False, kw_only=True)
class TrainedFactors(FactorsModel):
    """Vectors that were trained in epochs; their file is one of safetensors."""

    rounds: int = 0
    """The number of epochs, those of a model that it continues included."""

    kind = "FactorizationRanker"

    def contributions(self, features: Floats, offsets: Offsets | None = None) -> Never:
        """Raise: single factors mean nothing, since any rotation of all vectors gives the same scores."""
        raise check.error(
            "a factorization has no features to explain scores by, and its factors mean nothing one by one",
            hint="look at similar_items, or at model_.item_vectors as a whole",
        )

    def files(self) -> dict[str, bytes]:
        """Return the file of its arrays."""
        return {_FILE: check.optional("safetensors.numpy", "recommend").save(self.arrays())}

    def description(self) -> Json:
        """Return the number of epochs, and the version of torch if it was trained here."""
        versions = {"torch": sys.modules["torch"].__version__} if "torch" in sys.modules else {}
        return {"epochs": self.rounds, "versions": versions}

    @classmethod
    def from_files(cls, description: Json, files: dict[str, bytes], schema: Schema) -> Self:
        """Read the file."""
        library = check.optional("safetensors.numpy", "recommend")
        with check.library("vectors", "a .safetensors file"):
            arrays = library.load(files[_FILE])
        return cls.from_arrays(arrays, rounds=int(description["epochs"]))


def fold_in(model: FactorsModel, users: Ids, liked: Liked, objective: Objective, strength: float, seed: int) -> Floats:
    """Minimise each user's loss over the whole catalogue plus ``strength`` ‖u‖², by L-BFGS from the mean vector.

    Items keep their vectors. An objective draws its random numbers once, so that the loss is a function with a minimum.
    Users who like nothing have zeros.
    """
    from scipy.optimize import minimize

    items = model.item_vectors.astype(np.float64)
    bias = model.item_bias.astype(np.float64) if model.item_bias.size else np.zeros(len(items))
    start = model.mean_user
    vectors = np.zeros((users.size, items.shape[1]), np.float32)
    for user in np.flatnonzero(np.diff(liked.offsets)).tolist():
        labels = np.zeros(len(items))
        labels[liked.items[liked.offsets[user] : liked.offsets[user + 1]]] = 1.0
        prepared = objective.prepare(labels, np.array([0, len(items)]))
        stream = Stream(seed, query_ids=users[user : user + 1]).child("history")

        def loss(vector: Array) -> tuple[float, Array]:
            value, gradient, _, _ = prepared(items @ vector + bias, stream, hessian=False)  # noqa: B023 (called here)
            return float(value.sum() + strength * vector @ vector), items.T @ gradient + 2.0 * strength * vector

        vectors[user] = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": _ITERATIONS}).x
    return vectors


def vectors_folder(folder: str | Path, format: str, *, force: bool) -> Path:  # noqa: A002 (the usual word)
    """Raise, before the work begins, if the files of vectors cannot be written into a folder."""
    folder = files.check_writable_folder(folder)
    for name in VECTOR_FORMATS[check.choice("format of vectors", format, VECTOR_FORMATS)]:
        check.free_path(folder / name, force=force)
    return folder


def write_vectors(
    folder: str | Path,
    tables: "tuple[pl.DataFrame, pl.DataFrame]",
    format: str,  # noqa: A002
    *,
    force: bool,
) -> Path:
    """Write the vectors and ids of users and items into a folder, row for row."""
    folder = vectors_folder(folder, format, force=force)
    folder.mkdir(parents=True, exist_ok=True)
    contents: list[Any] = list(tables)
    if format == "npy":
        contents = [array for table in tables for array in (table["vector"].to_numpy(), _ids(table["id"]))]
    for name, content in zip(VECTOR_FORMATS[format], contents, strict=True):
        with files.replacing(folder / name, force=force) as new, new.open("wb") as out:
            if format == "parquet":
                content.write_parquet(out)
            else:
                np.save(out, np.ascontiguousarray(content), allow_pickle=False)
    return folder


def _ids(column: "pl.Series") -> Column:
    """Return ids as an array; words become fixed-width text, which needs no pickle."""
    array: Column = column.to_numpy()
    return array if array.dtype.kind in "iu" else np.array(column.to_list(), np.str_)


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
