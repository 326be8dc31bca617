"""The loss of a linear model as a function of its weights, and its least value under penalties and signs."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.base.arrays import Array, Floats, read_only
from rankwise.base.compiling import REORDERED, kernel
from rankwise.base.stream import Stream
from rankwise.base.threads import over_queries
from rankwise.models.linear import products
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.ragged import Derivatives
from rankwise.rankers.linear import lbfgs

_CHUNK = 1024  # documents whose gradients are added up before those of others; sums do not depend on threads
_PRECISE, _QUICK = 1e-14, 1e-6  # how far above its least value a loss may be, as a share of what it starts at
_WIDEST, _SAMPLE = 2000, 2**14  # weights, and documents, that curvature is computed of


class Fitted(NamedTuple):
    """Weights with the least penalised loss."""

    weights: Array
    """With the intercept last."""
    loss: float
    """Without penalties."""
    converged: bool


@dataclass(kw_only=True)
class Problem:
    """Mean loss of training queries by weights of transformed features, the last of which is an intercept."""

    prepared: Prepared
    rows: Floats
    start: Array | float
    """Scores that are added to those of the model."""
    stream: Stream
    """The same numbers are drawn at all weights: there is one function to minimise."""
    origin: Array
    """The first weights, at which curvature is taken, so that a training that resumes ends in the same model."""
    shares: Array
    """Weights of queries, which add up to 1."""
    intercept: bool
    signs: Array
    """1, −1 or 0 of each weight."""
    smooth: bool
    """Whether values and gradients belong to one function; else, as of LambdaRank, a number of steps is the end."""

    def __post_init__(self) -> None:
        count = self.rows.shape[0]
        self._chunks = read_only(np.append(np.arange(0, count, _CHUNK), count))
        self._out = self.prepared.empty(hessian=False)

    def scores(self, weights: Array) -> Array:
        """Return the scores of training documents."""
        scores = np.empty(self.rows.shape[0])
        products(self.rows, weights[:-1], float(weights[-1]), scores)
        scores += self.start
        return scores

    def value(self, scores: Array, shares: Array) -> float:
        """Return the mean loss of scores over the queries that have shares."""
        self._out = self.prepared(scores, self.stream, hessian=False, out=self._out)
        counted = shares > 0
        return float(shares[counted] @ self._out.value[counted] / shares.sum())

    def loss(self, weights: Array, shares: Array) -> tuple[float, Array]:
        """Return the mean loss, and its derivatives by weights; ``shares`` of queries add up to 1, and may be 0."""
        value, out = self._derivatives(weights, shares, self._out)
        return value, self._back(out.gradient)

    def _derivatives(self, weights: Array, shares: Array, out: Derivatives) -> tuple[float, Derivatives]:
        """Return the mean loss, and its derivatives by scores."""
        out = self.prepared(self.scores(weights), self.stream, hessian=len(out.hessian) > 0, out=out)
        counted, each = shares > 0, self.prepared.lists.to_documents(shares)
        hessian = out.hessian * each if len(out.hessian) else out.hessian
        weighed = Derivatives(out.value, out.gradient * each, hessian, out.numerator)
        return float(shares[counted] @ out.value[counted]), weighed

    def _back(self, gradient: Array) -> Array:
        """Return derivatives by weights from those by scores."""
        partial = np.zeros((self._chunks.size - 1, self.rows.shape[1]))
        work = 0.5 * self.rows.shape[1] * np.diff(self._chunks)
        over_queries(_add_rows, self._chunks, self.rows, gradient, partial, work=work)
        return np.append(partial.sum(axis=0), gradient.sum() if self.intercept else 0.0)

    @cached_property
    def curvature(self) -> tuple[NDArray[np.int64], Array, Array] | None:
        """Eigenvalues and vectors of about the Hessian by weights, from the diagonal one by scores, at the origin.

        Columns that are 0 are left out, so that rounding gives them no weight; first come the numbers of the others.
        Where steps are measured by it a tenth as many are needed. None where it would cost more than it saves.
        """
        width = self.rows.shape[1]
        if width > _WIDEST:
            return None
        _, out = self._derivatives(self.origin, self.shares, self.prepared.empty(hessian=True))
        step = max(1, self.rows.shape[0] // max(_SAMPLE, 4 * width))
        heights = np.ascontiguousarray(step * np.maximum(out.hessian[::step], 0.0))
        gram = np.zeros((width + 1, width + 1))
        columns = np.arange(width + 1)
        over_queries(_gram, columns, self.rows[::step], heights, gram, work=heights.size * columns[1:])
        gram[-1, -1] = heights.sum() if self.intercept else 0.0
        used = np.flatnonzero(gram.diagonal())
        values, vectors = np.linalg.eigh(gram[np.ix_(used, used)])  # which reads the lower triangle
        return used, np.maximum(values, 1e-7 * values.sum() / gram.shape[0] + 1e-12), vectors

    def _inverse(self, l2: float) -> lbfgs.Inverse | None:
        """Return what multiplies by about the inverse Hessian."""
        if self.curvature is None:
            return None
        used, values, vectors = self.curvature

        def inverse(gradient: Array) -> Array:
            found = gradient / (l2 + 1.0)
            found[used] = vectors @ ((gradient[used] @ vectors) / (values + l2))
            return found

        return inverse

    def fit(self, start: Array, shares: Array, l1: float, l2: float, *, quick: bool = False) -> Fitted:
        """Minimise mean loss + l1 · Σ|w| + l2 / 2 · Σw² from ``start`` on; the intercept is not penalised."""
        ridge = np.append(np.full(start.size - 1, l2), 0.0)

        def loss(weights: Array) -> tuple[float, Array]:
            value, gradient = self.loss(weights, shares)
            return value + 0.5 * float(ridge @ weights**2), gradient + ridge * weights

        tolerance, steps = _QUICK if quick or not self.smooth else _PRECISE, 500 if self.smooth else 10 if quick else 50
        if l1 or self.signs.any():
            weights, converged = self._bounded(loss, start, l1, tolerance)
        else:
            weights, converged = lbfgs.minimise(loss, start, self._inverse(l2), tolerance, steps)
        return Fitted(weights, self.value(self.scores(weights), shares), converged or not self.smooth)

    def _bounded(
        self, loss: Callable[[Array], tuple[float, Array]], start: Array, l1: float, tolerance: float
    ) -> tuple[Array, bool]:
        """Minimise under signs, and with l1, where positive and negative parts of weights are variables, by SciPy."""
        from scipy.optimize import minimize

        each = np.append(np.full(start.size - 1, l1), 0.0)

        def parts(both: Array) -> tuple[float, Array]:
            up, down = np.split(both, 2)
            value, gradient = loss(up - down)
            return value + float(each @ (up + down)), np.concatenate([gradient + each, each - gradient])

        signs = np.append(self.signs, 0.0)
        first = np.concatenate([np.maximum(start, 0.0), np.maximum(-start, 0.0)])
        ends: Any = np.concatenate([np.where(signs < 0, 0.0, np.inf), np.where(signs > 0, 0.0, np.inf)])
        options = {"maxiter": 2000, "maxfun": 4000, "ftol": tolerance, "gtol": 1e-11, "maxcor": 10}
        bounds = [(0.0, end) for end in ends]
        found = minimize(parts, first, jac=True, method="L-BFGS-B", bounds=bounds, options=options)
        return found.x[: start.size] - found.x[start.size :], found.status != 1


@kernel(fastmath=REORDERED)
def _add_rows(first, last, offsets, rows, gradient, partial):  # type: ignore[no-untyped-def]
    for chunk in range(first, last):
        total = partial[chunk]
        for row in range(offsets[chunk], offsets[chunk + 1]):
            slope = gradient[row]
            for column in range(total.size):
                total[column] += slope * rows[row, column]


@kernel(fastmath=REORDERED)
def _gram(first, last, offsets, rows, heights, gram):  # type: ignore[no-untyped-def]  # noqa: ARG001
    for row in range(heights.size):
        for column in range(first, last):
            here = heights[row] * rows[row, column]
            for other in range(column + 1):
                gram[column, other] += here * rows[row, other]
            gram[gram.shape[0] - 1, column] += here
