"""Bounding: the metric of each list relative to its values over all orderings of the list (Westerborg 2022)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import Objective, Stream, check
from rankwise.base.arrays import Array, Offsets
from rankwise.check.parameters import Above, AtLeast, OneOf
from rankwise.objectives import (
    ApproxNDCG,
    Derivatives,
    PLRank,
    Prepared,
    SmoothAP,
    SmoothRBP,
    on,
    stochastic,
    weighted,
)
from rankwise.objectives.wrappers import RaggedLists, Values, Wrapper, checked_lists, mapped
from rankwise.wings.lab.bounding.bounds import BoundMaps, BoundRule, bounds
from rankwise.wings.lab.bounding.orderings import AP, DISCORDANCE, LINEAR, Orderings, ndcg_orderings

_METHODS = ("min_max", "expectation", "expectation_max", "distribution")
_GAINS = ("capped", "thesis")


@dataclass(frozen=True, kw_only=True, repr=False)
class bounded(Wrapper):  # noqa: N801 (wrappers are adjectives)
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

    method: Annotated[str, OneOf(_METHODS, "method of bounding")] = "min_max"
    gain: Annotated[str, OneOf(_GAINS, "gain of the smoothed distribution")] = "capped"
    orderings: Annotated[int, AtLeast(1)] = 300_000
    favour: Annotated[float, Above(0)] = 1.0
    name: ClassVar[str] = "bounded"
    paper: ClassVar[str] = "Westerborg 2022"
    accepts: ClassVar[tuple[str, ...]] = ()
    prepares_on_device: ClassVar[bool] = False  # distributions are computed on the host

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(metric_inside(self.inner), ApproxNDCG | SmoothAP | SmoothRBP | PLRank):
            raise check.error(
                "only a metric can be bounded",
                got=repr(self.inner),
                hint="use approx_ndcg, smooth_ap, smooth_rbp or plrank, also inside stochastic, weighted or on",
            )

    @property
    def exact_hessian(self) -> bool:
        """As exact as the inner one, except under the thesis's gain."""
        complete = self.method != "distribution" or self.gain != "thesis"
        return complete and self.inner.exact_hessian

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the metric, and compute the bounds of each list."""
        if "document_rewards" in columns:
            raise check.error(f"{self} cannot bound document_rewards", hint="bound the gains of the labels instead")
        inner = self.inner.prepare(labels, offsets, **columns)
        return PreparedBounded(
            lists=inner.lists,
            objective=self,
            inner=inner,
            bounds=self._bounds(*checked_lists(labels, offsets), columns),
        )

    def mapped(self, values: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Array:
        """Return the bounded value of a loss of each list: the map alone, for inspection.

        >>> from rankwise.objectives import SmoothRBP
        >>> bounded(SmoothRBP()).mapped([0.0, 1.0, 2.0], [1, 0, 0] * 3, [0, 3, 6, 9])  # at most 2 pairs are wrong
        array([0. , 0.5, 1. ])
        """
        return self._bounds(*checked_lists(labels, offsets)).apply(np.asarray(values, np.float64))[0]

    def _bounds(self, labels: Array, lists: RaggedLists, columns: Mapping[str, ArrayLike] | None = None) -> BoundMaps:
        weights, layer = np.ones(lists.n_queries), self.inner
        while isinstance(layer, stochastic | weighted | on):
            if isinstance(layer, on):
                labels = check.labels(layer.labels_in(columns or {}), lists.offsets)
            if isinstance(layer, weighted):
                weights = weights * layer.weights(labels, lists)
            layer = layer.inner
        rule = BoundRule(self.gain, self.orderings, self.favour)
        return bounds(metric_orderings(layer, labels, lists.offsets), weights, self.method, rule)


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedBounded(Prepared):
    """A metric and the map of every query's value."""

    objective: bounded
    inner: Prepared
    bounds: BoundMaps

    @property
    def own_numerator(self) -> bool:
        """A map of the value has no Newton numerator of its own."""
        return False

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Apply the map to each query."""
        child = None if stream is None else stream.child("bounded")
        plain = out._replace(numerator=out.gradient)
        self.inner.fill(scores, child, plain)
        if self.lists.device is None:
            out.value[:], first, second = self.bounds.apply(out.value)
        else:
            first, second = self.bounds.apply_on_device(out.value)
        self.lists.chain(plain, first, None if self.objective.gain == "thesis" else second)
        if out.numerator is not out.gradient:
            out.numerator[:] = out.gradient

    def move(self, lists: Any) -> Self:
        """Return the same on the device of ``lists``; the maps are steep and stay in double precision."""
        return replace(super().move(lists), bounds=mapped(self.bounds, partial(_exactly, lists.device)))


def _exactly(device: Any, value: Any, _: str) -> Any:
    """Return an array as a tensor on a device, in its own precision; other values unchanged."""
    if not isinstance(value, np.ndarray):
        return value
    import torch

    return torch.from_numpy(value.copy()).to(device)


def metric_inside(objective: Objective) -> Objective:
    """Return the objective inside wrappers around which a metric is still a metric."""
    while isinstance(objective, stochastic | weighted | on):
        objective = objective.inner
    return objective


def metric_orderings(metric: Any, labels: Array, offsets: Offsets) -> Orderings:
    """Return the orderings of lists as a metric sees them."""
    if isinstance(metric, ApproxNDCG):
        return ndcg_orderings(labels, offsets, metric.gain)
    if isinstance(metric, PLRank):
        lists = RaggedLists(offsets)
        return Orderings(LINEAR, offsets, metric.rewards(labels, lists), metric.rank_weights(lists.longest))
    kind = AP if isinstance(metric, SmoothAP) else DISCORDANCE
    return Orderings(kind, offsets, (labels >= metric.relevant).astype(np.float64), np.empty(0))
