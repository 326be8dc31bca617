"""The module of a factorization in torch, and its loss over the whole catalogue."""

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from rankwise import Objective
from rankwise.base.arrays import Floats, rows_of
from rankwise.models import Weights, snapshot
from rankwise.objectives.autograd import PreparedLoss
from rankwise.objectives.torch import TorchLoss
from rankwise.wings.recommend.factorization.lists import TrainingLists
from rankwise.wings.recommend.factors import FactorsModel


class FactorNet(torch.nn.Module):
    """Scores of items for users: products of their vectors, plus the items' biases where there are any.

    A bias of users would change no ranking and get no gradient, as every objective here compares a user's own items.
    """

    def __init__(self, user_vectors: Floats, item_vectors: Floats, item_bias: Floats, *, sparse: bool) -> None:
        super().__init__()
        self.users, self.items = (_table(one, sparse) for one in (user_vectors, item_vectors))
        self.bias = _table(item_bias[:, None], sparse) if item_bias.size else None

    def forward(self, users: torch.Tensor, items: torch.Tensor, sizes: torch.Tensor) -> torch.Tensor:
        """Score the lists of some users, one after another: ``sizes`` are their lengths."""
        rows: torch.Tensor = self.users(users).repeat_interleave(sizes, dim=0, output_size=items.numel())
        scores: torch.Tensor = (rows * self.items(items)).sum(dim=1)
        return scores if self.bias is None else scores + self.bias(items)[:, 0]

    def catalogue(self, users: torch.Tensor) -> torch.Tensor:
        """Score all items for some users, one user after another."""
        scores: torch.Tensor = self.users(users) @ self.items.weight.T
        return (scores if self.bias is None else scores + self.bias.weight[:, 0]).reshape(-1)

    def vectors(self) -> tuple[Floats, Floats, Floats]:
        """Return the vectors of users and items, and the biases (none: an empty array), on the CPU."""
        return factor_arrays(snapshot(self))


@dataclass(frozen=True)
class CatalogueLoss:
    """The loss of users over lists of all items: those that are not on a user's list are not relevant."""

    objective: Objective
    source: TrainingLists

    def take(self, queries: NDArray[np.int64]) -> PreparedLoss:
        """Return the loss of some users."""
        data, n_items = self.source.train, self.source.item_ids.size
        rows, offsets = rows_of(queries, data.offsets)
        labels = np.zeros((queries.size, n_items))
        labels[np.repeat(np.arange(queries.size), np.diff(offsets)), self.source.items[rows]] = data.labels[rows]
        return TorchLoss(self.objective, "none").prepare(labels.ravel(), np.arange(queries.size + 1) * n_items)


def _table(values: Floats, sparse: bool) -> torch.nn.Embedding:
    """Return a table of vectors; made of values, it leaves torch's global random state alone."""
    return torch.nn.Embedding(values.shape[0], values.shape[1], sparse=sparse, _weight=torch.from_numpy(values))


def factor_arrays(weights: Weights) -> tuple[Floats, Floats, Floats]:
    """Return the vectors of users and items, and the biases, of a net's weights."""
    users, items = (weights[f"{name}.weight"].numpy() for name in ("users", "items"))
    bias: Floats = weights["bias.weight"].numpy()[:, 0] if "bias.weight" in weights else np.empty(0, np.float32)
    return users, items, bias


def factor_weights(model: FactorsModel) -> Weights:
    """Return the vectors of a model as the weights of a net."""
    arrays = {"users.weight": model.user_vectors, "items.weight": model.item_vectors}
    arrays |= {"bias.weight": model.item_bias[:, None]} if model.item_bias.size else {}
    return {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
