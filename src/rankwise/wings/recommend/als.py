"""Alternating least squares on implicit feedback (Hu, Koren and Volinsky 2008), each step solved exactly."""

from typing import Annotated, Any

import numpy as np

from rankwise import Stream
from rankwise.base.arrays import Array, Column, Ids, read_only
from rankwise.base.compiling import FUSED, kernel
from rankwise.base.sparse import Matrix
from rankwise.base.threads import over_queries
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, AtLeast, Option, assign
from rankwise.rankers.training import parameters as training
from rankwise.wings.recommend.base import Recommender, UnknownVector
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.factors import FactorsModel
from rankwise.wings.recommend.model import Liked


@documented
class ALS(Recommender):
    """Implicit ALS (Hu, Koren and Volinsky 2008): factors of users and items by weighted least squares.

    Minimises Σ c (p − u·v)² over all users and items, plus λ (Σ‖u‖² + Σ‖v‖²): p is 1 where an item is relevant for a
    user and 0 elsewhere, and the confidence c is 1 + α there and 1 elsewhere. Where events were counted (interactions
    without ratings), it is 1 + α · count. With the items' vectors fixed, each user's is the solution of one system of
    linear equations, and the other way round; both are solved in turns.

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
    model_kind = FactorsModel
    model_: FactorsModel

    def __init__(
        self,
        *,
        factors: Annotated[int, AtLeast(1), "Length of the vectors.", Option(metavar="N")] = 64,
        regularization: Annotated[float, Above(0), "Weight λ of the lengths of the vectors."] = 50.0,
        alpha: Annotated[float, Above(0), "Weight α of what is relevant."] = 10.0,
        iterations: Annotated[
            int, AtLeast(1), "Number of times that users and then items are solved for.", Option(metavar="N")
        ] = 10,
        seed: Annotated[training.Seed, "The items' first vectors are drawn by it and their ids."] = 0,
        unknown: UnknownVector = "error",
        threads: training.Threads = None,
        **others: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(others)

    def _of_history(self, users: Ids, liked: Liked) -> dict[str, Column]:
        """Solve for the users alone: items keep their vectors."""
        vectors = np.zeros((liked.n_users, self.model_.item_vectors.shape[1]))
        items = self.model_.item_vectors.astype(np.float64)
        solve(liked.sparse(counts=True), items, vectors, self.alpha, self.regularization)
        return {"user_vectors": vectors.astype(np.float32)}

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        alpha, strength = float(self.alpha), float(self.regularization)
        by_user = liked.sparse(counts=True)
        by_item = by_user.T.tocsr()
        stream = Stream(self.seed, query_ids=train.catalogue).child("initial")
        users = np.zeros((liked.n_users, self.factors))
        items = (2.0 * stream.per_query(liked.n_items, self.factors) - 1.0) * 0.1
        items[np.diff(by_item.indptr) == 0] = 0.0
        for _ in range(self.iterations):
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
