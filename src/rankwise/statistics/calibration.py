"""Curves from scores to probabilities: Platt's sigmoid, and isotonic regression that keeps the order of scores."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array

METHODS = ("isotonic", "platt", "sigmoid")
_OUTER = 1e-3  # slope beyond the outer knots of isotonic regression, of the mean slope: it only breaks ties
_EQUAL = 1e-9  # the relative difference of rates below which they differ by rounding, and blocks are one


@dataclass(frozen=True, eq=False)
class Curve:
    """An increasing, piecewise linear curve from scores to log odds.

    Beyond its knots it goes on with ``outer`` times the mean slope.

    >>> Curve([0.0, 1.0], [-1.0, 1.0])([0.5, 2.0]).round(4)  # sigmoids of 0 and 3
    array([0.5   , 0.9526])
    """

    scores: Array
    log_odds: Array
    outer: float = 1.0

    def __post_init__(self) -> None:
        for name in ("scores", "log_odds"):
            knots = np.asarray(getattr(self, name), np.float64)
            if knots.ndim != 1 or knots.size < 2 or not np.isfinite(knots).all() or (knots[1:] <= knots[:-1]).any():
                raise check.error(f"the {name.replace('_', ' ')} of a curve must increase", got=repr(knots))
            object.__setattr__(self, name, knots)
        if self.scores.size != self.log_odds.size:
            raise check.error("a curve has as many scores as log odds", got=f"{self.scores.size} scores")
        object.__setattr__(self, "outer", check.number("the slope beyond the knots of a curve", self.outer, least=0.0))
        with np.errstate(all="ignore"):
            slopes = (*(np.diff(self.log_odds) / np.diff(self.scores)), self.outer_slope)
        if not np.isfinite(slopes).all():
            raise check.error("the slopes of a curve must be finite", got=f"knots {self.scores} and {self.log_odds}")

    @property
    def outer_slope(self) -> float:
        """The slope beyond the knots."""
        return float(self.outer * (self.log_odds[-1] - self.log_odds[0]) / (self.scores[-1] - self.scores[0]))

    def __call__(self, scores: ArrayLike) -> Array:
        """Return a probability for each score."""
        s = np.asarray(scores, np.float64)
        beyond = (s - self.scores[-1]).clip(min=0.0) + (s - self.scores[0]).clip(max=0.0)
        return sigmoid(np.interp(s, self.scores, self.log_odds) + self.outer_slope * beyond)


IDENTITY = Curve(np.array([0.0, 1.0]), np.array([0.0, 1.0]))
"""The curve of scores that are log odds."""


def sigmoid(log_odds: ArrayLike) -> Array:
    """Return probabilities of log odds."""
    z = np.asarray(log_odds, np.float64)
    small = np.exp(-np.abs(z))
    return np.asarray(np.where(z >= 0.0, 1.0, small) / (1.0 + small))


def fitted(method: str, scores: Array, relevant: Array, weights: Array) -> Curve | None:
    """Fit a curve to scores and the relevance of their documents, 0 or 1; None if relevance does not rise with scores.

    ``"platt"`` is logistic regression with Platt's targets, which are a little inside 0 and 1. ``"isotonic"`` is
    centred isotonic regression (Oron and Flournoy 2017): the blocks of pooled documents become knots at their mean
    scores, and lines between them keep the order of scores, which blocks would make equal.
    """
    return (_isotonic if method == "isotonic" else _platt)(scores, relevant, weights)


def _isotonic(scores: Array, relevant: Array, weights: Array) -> Curve | None:
    from scipy.optimize import isotonic_regression

    values, place = np.unique(scores, return_inverse=True)
    mass = np.bincount(place, weights)
    values, total, mass = values[mass > 0.0], np.bincount(place, weights * relevant)[mass > 0.0], mass[mass > 0.0]
    rising = isotonic_regression(total / mass, weights=mass).x
    block = np.append(0, np.cumsum(np.diff(rising) > _EQUAL * rising[1:]))
    size = np.bincount(block, mass)
    rates, centres = np.bincount(block, total) / size, np.bincount(block, mass * values) / size
    if rates.size < 2:
        return None
    # Only the outer blocks can be 0 or 1, whose log odds are infinite: half a document less than all is allowed.
    rates[0] = max(rates[0], min(0.5 / (size[0] + 1.0), 0.5 * rates[1]))
    rates[-1] = min(rates[-1], max(1.0 - 0.5 / (size[-1] + 1.0), 0.5 + 0.5 * rates[-2]))
    return Curve(centres, np.log(rates / (1.0 - rates)), _OUTER)


def _platt(scores: Array, relevant: Array, weights: Array) -> Curve | None:
    from scipy.optimize import minimize

    low, high = float(scores.min()), float(scores.max())
    if low == high:
        return None
    positive = float(weights @ relevant)
    negative = float(weights.sum()) - positive
    targets = np.where(relevant > 0.0, (positive + 1.0) / (positive + 2.0), 1.0 / (negative + 2.0))
    places = (scores - low) / (high - low)
    share = weights / weights.sum()

    def loss(line: Array) -> tuple[float, Array]:
        z = line[0] + (line[1] - line[0]) * places
        value = share @ (np.maximum(z, 0.0) - targets * z + np.log1p(np.exp(-np.abs(z))))
        gap = share * (sigmoid(z) - targets)
        return float(value), np.array([gap @ (1.0 - places), gap @ places])

    base = np.full(2, np.log((positive + 1.0) / (negative + 1.0)))  # far from 0 of rare events
    ends = minimize(loss, base, jac=True, method="BFGS", options={"gtol": 1e-10}).x
    return Curve(np.array([low, high]), ends) if ends[0] < ends[1] else None
