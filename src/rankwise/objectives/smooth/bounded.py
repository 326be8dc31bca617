"""Bounding: every list's metric brought to a scale of its own, by what its orderings can reach (Westerborg 2022)."""

from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Offsets
from rankwise.metrics.permutations import Orderings
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.base import Derivatives, Objective, Prepared
from rankwise.objectives.prepared import Lists, checked_lists
from rankwise.objectives.smooth.bounds import Bounds, bounds
from rankwise.objectives.wrappers.stochastic import stochastic
from rankwise.objectives.wrappers.weighted import times_lists, weighted
from rankwise.plain import Keywords
from rankwise.stream import Stream

_METHODS = ("min_max", "expectation", "expectation_max", "distribution")
_GAINS = ("capped", "thesis")


@dataclass(frozen=True, repr=False)
class bounded(Objective):  # noqa: N801 (wrappers are adjectives)
    """A smooth metric relative to what the list allows: its difficulty is taken out (thesis, chapter 3).

    With the metric's least, mean and largest value over all orderings of the list, ``method`` maps M to

    - ``"min_max"``: (M − least)/(most − least), eq. 3.1;
    - ``"expectation"``: M/mean, eq. 3.6;
    - ``"expectation_max"``: (M − mean)/(most − mean), eq. 3.11;
    - ``"distribution"``: the share of orderings that do no better, smoothed by sigmoids, eq. 3.12 and algorithm 2.

    NDCG and AP are bounded as metrics and then negated, RBP as the loss that it is. Every map rises, so the gradient of
    a list is a positive multiple of the inner one. A list whose orderings are all worth the same gives zeros. Graded
    labels need nothing special: the extremes sort the gains, the mean is eq. 3.5, the distribution shuffles them.

    The distribution of RBP is exact; those of NDCG and AP are exact for up to ``orderings`` different orderings and
    drawn from that many otherwise. They are computed once for each kind of list, when the objective is prepared.
    ``gain="thesis"`` takes the sigmoid's gain from eq. 3.13, under which the function is flat above the best ordering
    drawn; ``"capped"`` lowers it until the slope at the ideal ordering is a twentieth of the mean slope. Under
    ``"thesis"`` the Hessian leaves out the map's own second derivative, which such a gain makes enormous.

    ``favour`` takes up section 6.2: orderings are not alike, since rankers do better than chance. They are built
    from the first rank on, and a relevant document is ``favour`` times likelier to come next than another one, so that
    it stands before it with a probability of favour/(1 + favour). Between are grades, by their share in the best gain.
    """

    inner: Objective
    method: str = field(default="min_max", kw_only=True)
    gain: str = field(default="capped", kw_only=True)
    orderings: int = field(default=300_000, kw_only=True)
    favour: float = field(default=1.0, kw_only=True)
    name: ClassVar[str] = "bounded"
    paper: ClassVar[str] = "Westerborg 2022"

    def __post_init__(self) -> None:
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))
        check.choice("method of bounding", self.method, _METHODS)
        check.choice("gain of the smoothed distribution", self.gain, _GAINS)
        check.integer("orderings", self.orderings, least=1)
        check.number("favour", self.favour, least=0.0, open_ends=True)
        if not isinstance(metric_inside(self.inner), _Metric):
            raise _not_a_metric(self.inner)

    @property
    def exact_hessian(self) -> bool:
        """As exact as the inner one, except under the thesis's gain."""
        whole = self.method != "distribution" or self.gain != "thesis"
        return whole and self.inner.exact_hessian

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The metric."""
        return (self.inner,)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Prepare the metric, and find what the orderings of each list can reach."""
        if "document_rewards" in documents:
            raise check.error(f"{self} cannot bound document_rewards", hint="bound what the labels are worth instead")
        lists = checked_lists(labels, offsets)
        return PreparedBounded(self, self.inner.prepare(*lists, **documents), self._bounds(lists))

    def mapped(self, values: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Array:
        """Give what bounding makes of a loss of each list: the map alone, for looking at it.

        >>> from rankwise.objectives.smooth.metrics import SmoothRBP
        >>> bounded(SmoothRBP()).mapped([0.0, 1.0, 2.0], [1, 0, 0] * 3, [0, 3, 6, 9])  # at most 2 pairs are wrong
        array([0. , 0.5, 1. ])
        """
        return self._bounds(checked_lists(labels, offsets)).apply(np.asarray(values, np.float64))[0]

    def _bounds(self, lists: Lists) -> Bounds:
        weights, layer = np.ones(lists.n_queries), self.inner
        while isinstance(layer, stochastic | weighted):
            if isinstance(layer, weighted):
                weights = weights * layer.weights(lists)
            layer = layer.inner
        rule: Keywords = {"gain": self.gain, "orderings": self.orderings, "favour": self.favour}
        return bounds(metric_orderings(layer, *lists), weights, self.method, **rule)


@runtime_checkable
class _Metric(Protocol):
    """An objective that is a metric: it can say what the orderings of lists are worth."""

    def orderings(self, labels: Array, offsets: Offsets) -> Orderings: ...


class PreparedBounded(Prepared):
    """A metric that is prepared, and the map of every list."""

    def __init__(self, objective: bounded, inner: Prepared, map_: Bounds) -> None:
        self.objective, self.inner, self.map, self.offsets = objective, inner, map_, inner.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Apply the map to each list: g' = φ'·g and h' = φ'·h + φ''·g²."""
        part = self.inner.differentiate(scores, None if stream is None else stream.child("bounded"), hessian)
        value, slope, bend = self.map.apply(part.value)
        gradient, diagonal = (times_lists(slope, array, self.offsets) for array in part[1:3])
        if hessian and self.objective.gain != "thesis" and bend.any():
            diagonal += times_lists(bend, part.gradient**2, self.offsets)
        return Derivatives(value, gradient, diagonal, gradient)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of the inner objective, with their maps."""
        return PreparedBounded(self.objective, self.inner.take(queries), self.map.take(queries))


def metric_inside(objective: Objective) -> Objective:
    """What wrappers that keep a metric a metric are around."""
    while isinstance(objective, stochastic | weighted):
        objective = objective.inner
    return objective


def metric_orderings(objective: Objective, labels: Array, offsets: Offsets) -> Orderings:
    """What the orderings of lists are worth to an objective that is a metric."""
    if not isinstance(objective, _Metric):
        raise _not_a_metric(objective)
    return objective.orderings(labels, offsets)


def _not_a_metric(inner: Objective) -> ValueError:
    return check.error(
        "only a metric can be bounded",
        got=repr(inner),
        hint="use approx_ndcg, smooth_ap, smooth_rbp or plrank, also inside stochastic or weighted",
    )
