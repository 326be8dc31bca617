"""Alternating least squares on implicit feedback (Hu, Koren and Volinsky 2008), each step solved exactly."""

from typing import Any

import numpy as np

from rankwise import check
from rankwise.arrays import Array, Column, Ids, read_only
from rankwise.compiling import FUSED, kernel
from rankwise.data.interactions.lists import Interactions
from rankwise.recommend.base import Recommender
from rankwise.recommend.factors import FactorsModel
from rankwise.recommend.model import Liked
from rankwise.sparse import Matrix
from rankwise.stream import Stream
from rankwise.threads import over_queries


class ALS(Recommender):
    """Implicit ALS (Hu, Koren and Volinsky 2008): factors of users and items by weighted least squares.

    Minimises Σ c (p − u·v)² over all users and items, plus λ (Σ‖u‖² + Σ‖v‖²): p is 1 where an item is relevant for a
    user and 0 elsewhere, and the confidence c is 1 + α there and 1 elsewhere. Where events were counted (interactions
    without ratings), it is 1 + α · count. With the items' vectors fixed, each user's is the solution of one system of
    linear equations, and the other way round; both are solved in turns.

    Args:
        factors: The length of the vectors.
        regularization: λ.
        alpha: α.
        iterations: How many times users and then items are solved for.
        seed: Of the items' first vectors, drawn by their ids.
        unknown: A user or item that was not there in training: ``"error"``; ``"mean"``, the mean vector stands for it;
            or ``"popular"``, items are ordered for a new user by how many users they were relevant for.
        threads: How many threads; by default ``RANKWISE_THREADS`` or every core.

    >>> import polars as pl
    >>> pairs = [(user, item) for user in range(12) for item in range(20) if (user + item) % 2 == 0 and user != item]
    >>> frame = pl.DataFrame(pairs, schema=["user", "item"], orient="row")
    >>> model = ALS(factors=4, regularization=1.0).fit(Interactions.from_frame(frame, rating=None))
    >>> model.recommend([3], cutoff=1)["item"]
    shape: (1,)
    Series: 'item' [i64]
    [
        3
    ]
    """

    name = "als"
    ways = ("error", "popular", "mean")
    model_kind = FactorsModel
    model_: FactorsModel

    def __init__(
        self,
        *,
        factors: int = 64,
        regularization: float = 50.0,
        alpha: float = 10.0,
        iterations: int = 10,
        seed: int = 0,
        unknown: str = "error",
        threads: int | None = None,
        **unheard: Any,
    ) -> None:
        self.factors = factors
        self.regularization = regularization
        self.alpha = alpha
        self.iterations = iterations
        self.seed = seed
        self.unknown = unknown
        self.threads = threads
        self._check_native(unheard)

    def _of_history(self, users: Ids, liked: Liked) -> dict[str, Column]:
        """Solve for the users alone: items keep their vectors."""
        vectors = np.zeros((liked.n_users, self.model_.item_vectors.shape[1]))
        items = self.model_.item_vectors.astype(np.float64)
        solve(liked.sparse(counts=True), items, vectors, self.alpha, self.regularization)
        return {"user_vectors": vectors.astype(np.float32)}

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        factors = check.integer("factors", self.factors, least=1)
        strength = check.number("regularization", self.regularization, least=0.0, open_ends=True)
        alpha = check.number("alpha", self.alpha, least=0.0, open_ends=True)
        iterations = check.integer("iterations", self.iterations, least=1)
        by_user = liked.sparse(counts=True)
        by_item = by_user.T.tocsr()
        stream = Stream(check.integer("seed", self.seed, least=0), query_ids=train.catalogue).child("initial")
        users = np.zeros((liked.n_users, factors))
        items = (2.0 * stream.per_query(liked.n_items, factors) - 1.0) * 0.1
        items[np.diff(by_item.indptr) == 0] = 0.0
        for _ in range(iterations):
            solve(by_user, items, users, alpha, strength)
            solve(by_item, users, items, alpha, strength)
        vectors = {"user_vectors": users.astype(np.float32), "item_vectors": items.astype(np.float32)}
        return {**vectors, "item_bias": np.empty(0, np.float32)}


def solve(matrix: Matrix, fixed: Array, out: Array, alpha: float, strength: float) -> None:
    """Solve for all rows of a sparse matrix of counts: (YᵀY + α Σ r·yyᵀ + λ) x = Σ (1 + α r) y."""
    offsets = read_only(matrix.indptr.astype(np.int64))
    columns, values = read_only(matrix.indices.astype(np.int32)), read_only(matrix.data.astype(np.float64))
    size = fixed.shape[1]
    gram = fixed.T @ fixed
    gram[np.diag_indices_from(gram)] += strength
    counts = np.diff(offsets).astype(np.float64)
    work = np.where(counts > 0, 0.3 * size**2 * (counts + size / 3.0), 1.0)
    over_queries(_solve, offsets, columns, values, read_only(fixed), read_only(gram), alpha, out, work=work)


@kernel(fastmath=FUSED)
def _solve(first, last, offsets, columns, values, fixed, gram, alpha, out):  # type: ignore[no-untyped-def]
    size = fixed.shape[1]
    system = np.empty((size, size))
    for q in range(first, last):
        x = out[q]
        x[:] = 0.0
        if offsets[q] == offsets[q + 1]:
            continue
        system[:] = gram
        for row in range(offsets[q], offsets[q + 1]):
            y, weight = fixed[columns[row]], alpha * values[row]
            for i in range(size):
                x[i] += (1.0 + weight) * y[i]
                factor = weight * y[i]
                for j in range(size):
                    system[i, j] += factor * y[j]
        x[:] = np.linalg.solve(system, x)
