"""Training on the whole catalogue: every user's list holds every item, and scores are products of matrices.

What :class:`NetLearner` does for lists of drawn items, here in NumPy, without lists: for a batch of users times all
items the objective gives the gradient by every score, and two more products give that by the vectors. Adam is torch's.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Floats, rows_of
from rankwise.compiling import kernel
from rankwise.objectives.base import Objective
from rankwise.rankers.nets.base import MODEL
from rankwise.rankers.nets.batches import Batching
from rankwise.rankers.training import stopping
from rankwise.rankers.training.loop import Alone, State
from rankwise.rankers.training.stopping import Exhausted
from rankwise.recommend.factorization.lists import Source
from rankwise.recommend.factors import Factors
from rankwise.recommend.known import in_order
from rankwise.recommend.products import product
from rankwise.stream import Stream

Vectors = dict[str, Floats]
TRAINING = "training.safetensors"
_BETAS, _EPSILON = (0.9, 0.999), 1e-8  # as torch has them


@dataclass(kw_only=True)
class CatalogueLearner:
    """Goes through the users once a round."""

    objective: Objective
    source: Source
    """Lists of relevant items; all others are not relevant."""
    vectors: Vectors
    """``users``, ``items``, and ``bias`` where items have one."""
    batching: Batching
    learning_rate: float
    weight_decay: float
    held_out: Sequence[Callable[[Factors], Array]]
    """For each data set that is measured, its scores."""
    processes: Alone = field(default_factory=Alone, init=False)

    def __post_init__(self) -> None:
        self._means = {name: np.zeros_like(one) for name, one in self.vectors.items()}
        self._squares = {name: np.zeros_like(one) for name, one in self.vectors.items()}
        self._steps = 0

    def round(self, stream: Stream) -> float:
        """Go through all users once; gives their mean loss on the way."""
        data, loss, moved = self.source.train, 0.0, False
        for users in self.batching.cut(data, stream):
            values, gradient = self._derivatives(users, stream)
            self._step(users, gradient / np.float32(users.size))
            loss += float(values.sum())
            moved = moved or bool(gradient.any())
        if not moved:
            raise Exhausted("converged", lambda: stopping.no_gradient(data, self.objective))
        return loss / data.n_queries

    def scores(self, number: int) -> Array:
        """Score a data set that is measured."""
        return self.held_out[number](self.model())

    def snapshot(self) -> Vectors:
        """Copy the vectors."""
        return {name: one.copy() for name, one in self.vectors.items()}

    def restore(self, kept: Vectors) -> None:
        """Put vectors back."""
        self.vectors = {name: one.copy() for name, one in kept.items()}

    def model(self) -> Factors:
        """Give the model that the vectors make."""
        return self._factors(self.vectors)

    def files(self, best: Vectors) -> dict[str, bytes]:
        """Give the best vectors, and apart from them the last, with what Adam remembers."""
        library = check.optional("safetensors.numpy", "torch")
        parts = {"vectors": self.vectors, "means": self._means, "squares": self._squares}
        last = {f"{part}/{name}": one for part, arrays in parts.items() for name, one in arrays.items()}
        last["steps"] = np.array([self._steps])
        return {MODEL: self._factors(best).content(), TRAINING: library.save(last)}

    def resume(self, files: Mapping[str, bytes], state: State) -> Vectors:
        """Resume from the last vectors of a checkpoint."""
        last = check.optional("safetensors.numpy", "torch").load(files[TRAINING])
        for part, arrays in (("vectors", self.vectors), ("means", self._means), ("squares", self._squares)):
            for name in arrays:
                if last[f"{part}/{name}"].shape != arrays[name].shape:
                    raise check.error("the checkpoint has vectors of another shape", got=f"{part}/{name}")
                arrays[name] = last[f"{part}/{name}"].copy()
        self._steps = int(last["steps"][0])
        best = Factors.read(files[MODEL])
        read = {"users": best.user_vectors, "items": best.item_vectors, "bias": best.item_bias}
        return {name: read[name].copy() for name in self.vectors}

    def _derivatives(self, users: NDArray[np.int64], stream: Stream) -> tuple[Array, Floats]:
        """The loss of each user, and its derivative by the score of every item."""
        data, n_items = self.source.train, self.source.item_ids.size
        rows, offsets = rows_of(users, data.offsets)
        labels = np.zeros((users.size, n_items))
        labels[np.repeat(np.arange(users.size), np.diff(offsets)), self.source.items[rows]] = data.labels[rows]
        scores = product(self.vectors["users"][self.source.users[users]], self.vectors["items"].T).astype(np.float64)
        if "bias" in self.vectors:
            scores += self.vectors["bias"]
        prepared = self.objective.prepare(labels.ravel(), np.arange(users.size + 1) * n_items)
        own = stream.take(users, data.n_queries)
        value, gradient, _, _ = prepared(scores.ravel(), own, hessian=False)
        return value, gradient.reshape(scores.shape).astype(np.float32)

    def _step(self, users: NDArray[np.int64], gradient: Floats) -> None:
        numbers = self.source.users[users]
        by_users = np.zeros_like(self.vectors["users"])
        by_users[numbers] = product(gradient, self.vectors["items"])
        slopes = {"users": by_users, "items": product(gradient.T, self.vectors["users"][numbers])}
        if "bias" in self.vectors:
            slopes["bias"] = gradient.sum(axis=0)
        self._steps += 1
        # Whole steps are taken on single precision, in the order of torch's.
        first, second = (1.0 - beta**self._steps for beta in _BETAS)
        for name, slope in slopes.items():
            arrays = (self.vectors[name], slope, self._means[name], self._squares[name])
            flat = (array.reshape(-1) for array in arrays)
            adam(*flat, self.learning_rate / first, second**0.5, self.weight_decay, *_BETAS, _EPSILON)

    def _factors(self, vectors: Vectors) -> Factors:
        return self.source.factors(vectors["users"], vectors["items"], vectors.get("bias", np.empty(0, np.float32)))


def catalogue_source(data: Any, *, graded: bool, seed: int) -> Source:
    """Give lists of the relevant items of interactions; whatever is not on a user's list is not relevant."""
    lists = data.lists(0, seed=seed, graded=graded)
    if not lists.users.size:
        hint = "lower the rating from which on items are relevant"
        raise check.error("no user has a relevant item to learn from", got=repr(data), hint=hint)
    ordered = in_order(data)
    offsets, items = ordered.seen()
    return Source(
        train=data.dataset(0, seed=seed, graded=graded),
        user_ids=ordered.users,
        item_ids=data.catalogue,
        users=np.searchsorted(ordered.users, data.users[lists.users]),
        items=lists.items.astype(np.int64),
        seen_offsets=offsets,
        seen_items=items,
    )


@kernel
def adam(values, slopes, means, squares, rate, root, decay, beta1, beta2, epsilon):  # type: ignore[no-untyped-def]
    """Step values down their slopes, in place; ``rate`` and ``root`` are corrected for the number of the step."""
    one = np.float32(1.0)
    beta1, beta2, decay = np.float32(beta1), np.float32(beta2), np.float32(decay)
    rate, root, epsilon = np.float32(rate), np.float32(root), np.float32(epsilon)
    for i in range(values.size):
        slope = slopes[i] + decay * values[i]
        means[i] = beta1 * means[i] + (one - beta1) * slope
        squares[i] = beta2 * squares[i] + (one - beta2) * slope * slope
        values[i] -= rate * means[i] / (np.sqrt(squares[i]) / root + epsilon)
