"""Vectors of users who were not there in training: items keep theirs, and each user's is found alone."""

import numpy as np

from rankwise.arrays import Array, Floats, Ids
from rankwise.objectives.base import Objective
from rankwise.recommend.factors import Factors
from rankwise.recommend.known import Liked
from rankwise.stream import Stream

_ITERATIONS = 100


def fold_in(model: Factors, users: Ids, liked: Liked, objective: Objective, strength: float, seed: int) -> Floats:
    """Minimise each user's loss over the whole catalogue plus ``strength`` ‖u‖², by L-BFGS from the mean vector.

    What an objective draws is drawn once, so that it is a function that has a minimum. Users who like nothing have
    zeros.
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
