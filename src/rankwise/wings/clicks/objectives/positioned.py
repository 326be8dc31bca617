"""Two towers: a score for what documents are, plus a bias for where they were shown, which serving leaves out."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from rankwise import Stream, check
from rankwise.base.arrays import Array, read_only
from rankwise.check.parameters import Above, AtLeast
from rankwise.objectives import Derivatives, Prepared
from rankwise.objectives.wrappers import PerDocument, PerQuery, Values, Wrapper, checked_lists, columns_for, required

_OVERSHOT = 0.9  # of the slope at the start of a step: one that rises more steeply at its end is shortened
_TINY = float(np.finfo(float).tiny)  # more than a sum of no weights
_PAIRS = 10  # steps that L-BFGS remembers


@dataclass(frozen=True, kw_only=True, repr=False)
class positioned(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The inner loss of s(x) + b_k, where k is the position at which the document was shown: the two-tower model.

    The model learns s, which is what ``predict`` returns; b is one number for each position, shared by all queries. It
    is not learned beside s but computed anew at every call, as the minimiser of Σ loss(s + b) + ridge/2 · Σ b_k² at
    these scores. The gradient by s is then exact with b held fixed (the envelope theorem), nothing is kept from round
    to round, and the same definition serves trees, nets and any other trainer. The Hessian leaves out that b follows s.
    Queries count by their weights, and the ``ridge`` is spread evenly over the weights.

    A call costs some 5 to 15 calls of the inner objective, ``steps`` at most; b is found once no step of L-BFGS is
    longer than ``tolerance``, in units of scores. Nets fit b within a batch of queries, which should hold many more
    lists than there are positions. An inner loss that is not convex has an optimum nearby instead of the minimiser.

    Positions are ``positions``, from 1, as click data have them. What s and b explain can be told apart only where
    documents change positions, or documents with equal features are shown at different ones: compare
    ``log.examine()``. :meth:`position_bias` returns b after training.

    >>> from rankwise.objectives import SoftmaxCE
    >>> clicks = positioned(SoftmaxCE(), ridge=1e-9)
    >>> columns = {"labels": [3, 1], "offsets": [0, 2], "positions": [1, 2]}
    >>> clicks([0.0, 0.0], **columns).gradient.round(6)  # the position explains the clicks
    array([-0.,  0.])
    >>> np.exp(clicks.position_bias([0.0, 0.0], **columns)).round(3)  # a third of the attention
    array([1.   , 0.333])
    """

    ridge: Annotated[float, Above(0)] = 1.0
    steps: Annotated[int, AtLeast(1)] = 12
    tolerance: Annotated[float, Above(0)] = 1e-4
    name: ClassVar[str] = "positioned"
    paper: ClassVar[str] = "Guo et al. 2019"
    needs: ClassVar[tuple[str, ...]] = ("positions",)
    exact_hessian: ClassVar[bool] = False
    prepares_on_device: ClassVar[bool] = False  # positions are checked and numbered on the host
    couples_queries: ClassVar[bool] = True

    @property
    def accepts(self) -> tuple[str, ...]:
        """Weights of queries, and the columns of the inner objective."""
        return tuple(dict.fromkeys(("weights", *self.inner.accepts)))

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> "PreparedPositioned":
        """Prepare the inner objective, and number the positions."""
        checked, lists = checked_lists(labels, offsets)
        places = required(self, columns, "the position at which every document was shown", "position")
        positions = check.positions(places, lists.offsets)
        inner = self.inner.prepare(checked, lists.offsets, **columns_for(self.inner, self, columns))
        shown, places = np.unique(positions, return_inverse=True)
        weights = columns.get("weights")
        return PreparedPositioned(
            lists=inner.lists,
            objective=self,
            inner=inner,
            places=read_only(places),
            weights=np.ones(lists.n_queries) if weights is None else check.query_weights(weights, lists.n_queries),
            shown=tuple(shown.tolist()),
        )

    def position_bias(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        positions: ArrayLike,
        stream: Stream | None = None,
        **columns: ArrayLike,
    ) -> Array:
        """Return b of positions 1, 2, … at the scores of a model, relative to the first that was shown; NaN: never.

        Of a softmax loss of clicks, exp(b_k) is the attention at position k over that at the first one, if clicks are
        attention times attractiveness and s(x) tells the attractiveness.
        """
        prepared = self.prepare(labels, offsets, positions=positions, **columns)
        bias = prepared.bias(prepared.lists.checked_scores(scores)[0], stream)
        by_position = np.full(max(prepared.shown, default=0), np.nan)
        by_position[np.array(prepared.shown, np.int64) - 1] = bias - bias[:1]
        return by_position


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedPositioned(Prepared):
    """An objective, and the place of each document among the positions."""

    objective: positioned
    inner: Prepared
    places: PerDocument
    """The number of each document's position, from 0."""
    weights: PerQuery
    shown: tuple[int, ...]
    """The positions that these are."""

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Fill the inner derivatives at s + b."""
        bias = self.bias(scores, stream)
        self.inner.fill(self._shown(scores, bias), _child(stream), out)
        out.value[:] = out.value + 0.5 * self.objective.ridge * float(bias @ bias) / max(
            float(self.weights.sum()), _TINY
        )

    def _shown(self, scores: Values, bias: Array) -> Values:
        return self.lists.as_argument(scores + self.lists.column(bias)[self.places])

    def bias(self, scores: Values, stream: Stream | None) -> Array:
        """Return the b that minimises the inner loss at these scores; its draws are the same for every b."""
        lists, ridge, child = self.lists, self.objective.ridge, _child(stream)
        weights = lists.to_documents(self.weights)
        if len(self.shown) < 2:
            return np.zeros(len(self.shown))

        def gradient(bias: Array, out: Derivatives) -> Array:
            self.inner.fill(self._shown(scores, bias), child, out)
            by_place = lists.totals(weights * out.gradient, self.places, len(self.shown)) + ridge * bias
            by_place[0] = 0.0  # b of the first position is 0: most losses do not see a constant
            return by_place

        first, later = (lists.outputs(hessian=one, numerator=False) for one in (True, False))
        slope = gradient(np.zeros(len(self.shown)), first)
        curvature = lists.totals(weights * abs(first.hessian), self.places, len(self.shown)) + ridge
        steps, tolerance = self.objective.steps, self.objective.tolerance
        return _minimiser(lambda bias: gradient(bias, later), slope, curvature, steps, tolerance)


def _child(stream: Stream | None) -> Stream | None:
    return None if stream is None else stream.child("positioned")


def _minimiser(
    gradient: Callable[[Array], Array], slope: Array, curvature: Array, steps: int, tolerance: float
) -> Array:
    """Return where a gradient is 0, by L-BFGS from 0, where it is ``slope``, with at most ``steps`` gradients.

    Steps are judged by gradients alone: the values of LambdaRank and its like do not belong to theirs.
    """
    at, pairs = np.zeros_like(slope), list[tuple[Array, Array]]()
    step = -slope / curvature
    for _ in range(steps):
        if abs(step).max(initial=0.0) <= tolerance:
            return at + step
        fall, ahead = slope @ step, gradient(at + step)
        if ahead @ step > -_OVERSHOT * fall:
            step = step * (fall / (fall - ahead @ step))  # where a straight line through both slopes is 0
            continue
        change = ahead - slope
        if change @ step > 0.0:
            pairs = [*pairs, (step, change)][-_PAIRS:]
        at, slope = at + step, ahead
        step = _newton_step(slope, curvature, pairs)
    return at


def _newton_step(slope: Array, curvature: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """Return the step of L-BFGS: its two loops over remembered steps and the changes of the gradient along them."""
    step, factors = -slope, list[float]()
    for moved, change in reversed(pairs):
        factors.append(float(moved @ step / (moved @ change)))
        step = step - factors[-1] * change
    step = step / curvature
    for moved, change in pairs:
        step = step + (factors.pop() - change @ step / (moved @ change)) * moved
    return step
