"""EASE: a linear model from items to items without self-similarity, in closed form (Steck 2019)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.base.arrays import Array, Column, Floats
from rankwise.base.sparse import Matrix
from rankwise.check.docstrings import documented
from rankwise.check.parameters import Above, assign
from rankwise.models import InvalidModelError, rejecting
from rankwise.rankers.training import parameters as training
from rankwise.wings.recommend.base import Recommender, Unknown
from rankwise.wings.recommend.data.holdout import ratings_of
from rankwise.wings.recommend.data.interactions import Interactions
from rankwise.wings.recommend.model import HISTORY, HistoryModel, Kinds, Liked

_LARGEST = 30_000
"""Users or items, whichever are fewer: their matrix is inverted."""


@dataclass(frozen=True, eq=False, kw_only=True)
class ItemWeights(HistoryModel):
    """The weights B from items to items; scores are x·B for a user's relevant items x.

    With P = (XᵀX + λ)⁻¹ it is B = 1 − P / diag(P). Where there are fewer users than items that somebody liked, B is
    stored as W = L⁻¹X with LLᵀ = XXᵀ + λ: then λP = 1 − WᵀW.
    """

    own_items: NDArray[np.int32]
    """(a,) numbers of the items that were relevant for somebody; all others score 0."""
    weights: Floats
    """(a, a) B, or (n_users, a) W."""
    scale: Array
    """(a,) 1 / (λ diag(P)) for W, empty for B."""

    kind = "EASE"
    kinds: ClassVar[Kinds] = {
        **HISTORY,
        "own_items": ("int32", (("a",),)),
        "scale": ("float64", (("0",), ("a",))),
        "weights": ("float32", (("a", "a"), ("n", "a"))),
    }
    similarity: ClassVar[str] = "weight"

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Column], **others: Any) -> Self:
        """Return the model of :meth:`arrays`, verified."""
        model = super().from_arrays(arrays, **others)
        with rejecting():
            if model.weights.shape[0] != (model.users if model.scale.size else model.own_items).size:
                raise InvalidModelError(f"weights of the shape {model.weights.shape} that do not go with scale")
        return model

    def score_matrix(self, users: NDArray[np.int64], items: NDArray[np.int64], unknown: str) -> Array:
        """Scores of users by items."""
        rows, owners = ratings_of(np.maximum(users, 0), self.liked_offsets)
        ones = np.zeros((users.size, self.items.size), np.float32)
        ones[owners, self.liked_items[rows]] = 1.0
        every = np.zeros((users.size, self.items.size + 1))  # the last column: unknown items
        every[:, self.own_items] = self._product(ones[:, self.own_items])
        every[users < 0, :-1] = self.popularity
        return every[:, items]

    def similar_to(self, items: NDArray[np.int64]) -> Array:
        """The weights from these items to all, where they are positive."""
        ones = (self.own_items == items[:, None]).astype(np.float32)
        weights = self._product(ones)
        every = np.full((items.size, self.items.size), -np.inf)
        every[:, self.own_items] = np.where((weights > 0.0) & (ones == 0.0), weights, -np.inf)
        return every

    def _product(self, ones: Floats) -> Array:
        """Return x·B for rows x of items that somebody liked."""
        if self.scale.size:
            return np.asarray(ones - (ones - (ones @ self.weights.T) @ self.weights) * self.scale)
        return (ones @ self.weights).astype(np.float64)


@documented
class EASE(Recommender):
    """EASE (Steck 2019): the linear model from a user's items to all items that no item may use for itself.

    Minimises ‖X − XB‖² + λ‖B‖² with diag(B) = 0, X being 1 where an item is relevant for a user, in closed form.
    Inverts a matrix of items by items, or of users by users where those are fewer.

    >>> import polars as pl
    >>> rows = {"user": [1, 1, 2, 2, 3], "item": ["a", "b", "a", "b", "a"]}
    >>> model = EASE(regularization=1.0).fit(Interactions.from_frame(pl.DataFrame(rows), rating=None))
    >>> model.matrix([3]).round(4)  # the ridge regression of b on a over three users: 2 / (3 + 1)
    array([[0. , 0.5]])
    """

    name = "ease"
    model_kind = ItemWeights
    model_: ItemWeights

    def __init__(
        self,
        *,
        regularization: Annotated[float, Above(0), "Weight λ of the size of B."] = 200.0,
        unknown: Unknown = "error",
        threads: training.Threads = None,
        **others: Any,
    ) -> None:
        assign(self, locals())
        self._check_native(others)

    def _learn(self, train: Interactions, liked: Liked) -> dict[str, Column]:
        strength = float(self.regularization)
        items = np.unique(liked.items)
        x = liked.sparse()[:, items]
        if min(x.shape) > _LARGEST:
            got = f"{x.shape[0]:,} users and {x.shape[1]:,} items"
            hint = "use ALS, or leave out items that few users know"
            raise check.error(f"EASE inverts a matrix of at most {_LARGEST:,} users or items", got=got, hint=hint)
        weights, scale = _by_users(x, strength) if x.shape[0] < x.shape[1] else _by_items(x, strength)
        return {"own_items": items, "weights": weights, "scale": scale}


def _by_items(x: Matrix, strength: float) -> tuple[Floats, Array]:
    from scipy.linalg import cho_factor, cho_solve

    gram = (x.T @ x).toarray()
    gram[np.diag_indices_from(gram)] += strength
    inverse = cho_solve(cho_factor(gram), np.eye(len(gram)))
    weights = -inverse / np.diag(inverse)
    weights[np.diag_indices_from(weights)] = 0.0
    return weights.astype(np.float32), np.empty(0)


def _by_users(x: Matrix, strength: float) -> tuple[Floats, Array]:
    from scipy.linalg import cholesky, solve_triangular

    gram = (x @ x.T).toarray()
    gram[np.diag_indices_from(gram)] += strength
    w = solve_triangular(cholesky(gram, lower=True), x.toarray(), lower=True)
    return w.astype(np.float32), 1.0 / (1.0 - np.einsum("ui,ui->i", w, w))
