"""Users who click far more often than the spread of users explains."""

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import betaln, gammaln

from rankwise.base.arrays import Array
from rankwise.wings.clicks.logs.sessions import Sessions

_CHANCE = 1e-6  # of a rate that the spread of users has
_LEAST = 20.0  # documents shown to a user
_LEFT_OUT = 0.1  # users with the highest rates, of the first fit: many robots would widen the spread that hides them
_FITS = 20
_SUSPECT = 3.0  # standard deviations: what is below needs no sum over the tail


def robots(sessions: Sessions) -> NDArray[np.bool_]:
    """Return whether each user clicks more often than all but 10⁻⁶ of such users would, by a beta-binomial model.

    Rates of users have a beta distribution, fitted by maximum likelihood to the users that are not marked; users with
    less than 20 documents are never marked.
    """
    if sessions.users is None or not sessions.users.size:
        return np.zeros(0, np.bool_)
    sizes = np.diff(sessions.offsets)
    clicked = np.add.reduceat(sessions.clicked, sessions.offsets[:-1], dtype=np.float64)
    shown, clicks = (np.bincount(sessions.users, sessions.weights * column) for column in (sizes, clicked))
    counts, kind, users = np.unique(np.stack([shown, clicks], 1), axis=0, return_inverse=True, return_counts=True)
    n, c = counts.T
    marked = c / n > np.quantile(clicks / shown, 1.0 - _LEFT_OUT)
    marks = [marked]
    for _ in range(_FITS):
        shape = _fitted(n[~marked], c[~marked], users[~marked])
        marked = (n >= _LEAST) & _beyond(n, c, *shape)
        if any((marked == earlier).all() for earlier in marks[1:]):
            break
        marks.append(marked)
    return np.asarray(marked[kind.ravel()], np.bool_)


def _fitted(n: Array, c: Array, users: NDArray[np.int64]) -> tuple[float, float]:
    """Return the parameters of the beta distribution of rates."""
    mean = (c @ users + 0.5) / (n @ users + 1.0)

    def loss(free: Array) -> float:
        a, b = np.exp(free)
        return float(-(users @ (betaln(c + a, n - c + b) - betaln(a, b))) / users.sum())

    start = np.log([10.0 * mean, 10.0 * (1.0 - mean)])
    a, b = np.exp(minimize(loss, start, method="L-BFGS-B", bounds=[(-10.0, 15.0)] * 2).x)
    return float(a), float(b)


def _beyond(n: Array, c: Array, a: float, b: float) -> NDArray[np.bool_]:
    """Return whether a user with n documents has c clicks or more with a chance below 10⁻⁶."""
    mean = a / (a + b)
    deviation = np.sqrt(n * mean * (1.0 - mean) * (a + b + n) / (a + b + 1.0))
    beyond = c > n * mean + _SUSPECT * deviation
    for i in np.flatnonzero(beyond):
        k = np.arange(c[i], n[i] + 1.0).clip(max=n[i])
        choose = gammaln(n[i] + 1.0) - gammaln(k + 1.0) - gammaln(n[i] - k + 1.0)
        beyond[i] = np.exp(choose + betaln(k + a, n[i] - k + b) - betaln(a, b)).sum() < _CHANCE
    return beyond
