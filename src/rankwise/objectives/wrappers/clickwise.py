"""Learning from clicks without bias: every click is a list of its own, in which it alone is relevant."""

from dataclasses import dataclass, field, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Offsets, offsets_of, read_only, rows_of
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.base import Derivatives, Objective, Prepared
from rankwise.objectives.prepared import checked_lists, document_weights, refuse_columns
from rankwise.stream import Stream

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # spreads the numbers of documents over 64 bits
_LARGEST = 1e9  # clicks of one document


@dataclass(frozen=True, repr=False)
class clickwise(Objective):  # noqa: N801 (wrappers are adjectives)
    """The sum over clicks of the inner loss of the list with that click alone, times the click's weight.

    With ``document_weights`` = 1/propensity this is unbiased, click by click and whatever the inner loss: a click on
    document i happens with probability (propensity of i) · (relevance of i), so the mean over clicks is
    Σ_i relevance_i · inner(scores; i alone relevant), and the same holds for the gradient and the Hessian. Nothing is
    divided by what depends on the clicks that were drawn; the constant of each query is 1. An objective's own
    ``document_weights`` divide by the weights of the clicks drawn, which is steadier, and biased (docs/objectives.md).

    ``clip``: the largest weight of a click. Rarely seen documents then count less than they should, and vary less.
    A label is how often a document was clicked. Time and memory grow with the number of clicks of a list.

    >>> from rankwise import SoftmaxCE
    >>> d = clickwise(SoftmaxCE())([0.0, 0.0], [1, 1], [0, 2], document_weights=[1.0, 4.0])
    >>> d.value.round(4), d.gradient  # (1 + 4) log 2; a click at each place, 1/2 and four times 1/2
    (array([3.4657]), array([ 1.5, -1.5]))
    """

    inner: Objective
    clip: float | None = field(default=None, kw_only=True)
    name: ClassVar[str] = "clickwise"
    paper: ClassVar[str] = "Joachims et al. 2017"

    def __post_init__(self) -> None:
        if self.clip is not None:
            check.number("clip", self.clip, least=0.0, open_ends=True)
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Make a list of every click, and prepare the inner objective for these."""
        refuse_columns(self, documents, ("document_weights",))
        lists = checked_lists(labels, offsets)
        clicked = np.flatnonzero(lists.labels > 0.0)
        queries = np.searchsorted(lists.offsets, clicked, side="right") - 1
        weights = lists.labels[clicked]
        if weights.max(initial=0.0) > _LARGEST:
            raise check.error(
                "a label is too large for a number of clicks", got=f"{weights.max():g}", hint="label clicks with 1"
            )
        factors = document_weights(documents, lists)
        if factors.size:
            largest = np.inf if self.clip is None else self.clip
            weights = weights * np.minimum(factors[clicked], largest)
        places = clicked - lists.offsets[queries]
        own = offsets_of(lists.sizes[queries])
        alone = np.zeros(int(own[-1]))
        alone[own[:-1] + places] = 1.0
        counts = np.bincount(queries, minlength=lists.n_queries)
        inner = self.inner.prepare(alone, own)
        return PreparedClickwise(inner, lists.offsets, offsets_of(counts), places, weights)


class PreparedClickwise(Prepared):
    """The lists of clicks, and where they belong."""

    def __init__(
        self, inner: Prepared, offsets: Offsets, clicks: Offsets, places: NDArray[np.int64], weights: Array
    ) -> None:
        self.inner, self.offsets, self.clicks, self.places, self.weights = inner, offsets, clicks, places, weights
        self.queries = np.repeat(np.arange(self.n_queries), np.diff(clicks))
        rows, _ = rows_of(self.queries, offsets)
        self.rows = np.arange(rows.start, rows.stop) if isinstance(rows, slice) else rows

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Add up the inner derivatives of the lists of a query's clicks."""
        own = clicks_stream(stream, self.n_queries, self.queries, self.places)
        part = self.inner.differentiate(read_only(scores[self.rows]), own, hessian)
        value = _summed(self.queries, self.weights * part.value, self.n_queries)
        gradient, diagonal = (self._gathered(array) for array in part[1:3])
        better = part.numerator is not part.gradient
        return Derivatives(value, gradient, diagonal, self._gathered(part.numerator) if better else gradient)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries, with the lists of their clicks."""
        numbers, clicks = rows_of(queries, self.clicks)
        chosen = np.arange(self.weights.size)[numbers]
        offsets = read_only(rows_of(queries, self.offsets)[1])
        return PreparedClickwise(self.inner.take(chosen), offsets, clicks, self.places[numbers], self.weights[numbers])

    def _gathered(self, array: Array) -> Array:
        """Add what each list of a click says about a document; what was left out stays out."""
        if array.size < self.rows.size:
            return array
        factors = np.repeat(self.weights, np.diff(self.inner.offsets))
        return _summed(self.rows, factors * array, int(self.offsets[-1]))


def clicks_stream(
    stream: Stream | None, n_queries: int, queries: NDArray[np.int64], places: NDArray[np.int64]
) -> Stream | None:
    """Give every click random numbers of its own, known by its query and its place in the list."""
    if stream is None:
        return None
    words = stream.queries(n_queries)[queries] + _GOLDEN * (places + 1).astype(np.uint64)
    return replace(stream.child("click"), query_ids=words)


def _summed(places: NDArray[np.int64], values: Array, count: int) -> Array:
    """Add up the values of each of ``count`` places."""
    return np.bincount(places, values, count).astype(np.float64, copy=False)
