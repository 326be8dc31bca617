"""Learning from clicks without bias: every click is a list of its own, in which it alone is relevant."""

from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import Stream, check
from rankwise.base.arrays import Offsets, offsets_of, rows_of
from rankwise.check.parameters import Above
from rankwise.objectives import Derivatives, Prepared
from rankwise.objectives.wrappers import Selection, Values, Wrapper, checked_lists, document_weights, reject_columns

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # spreads the numbers of documents over 64 bits
_LARGEST = 1e9  # clicks of one document


@dataclass(frozen=True, kw_only=True, repr=False)
class clickwise(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The sum over clicks of the inner loss of the list with that click alone, times the click's weight.

    With ``document_weights`` = 1/propensity this is unbiased, click by click and whatever the inner loss: a click on
    document i happens with probability (propensity of i) · (relevance of i), so the mean over clicks is
    Σ_i relevance_i · inner(scores; i alone relevant), and the same holds for the gradient and the Hessian. Nothing is
    divided by a number that depends on the clicks drawn. An objective's own ``document_weights`` divide by the weights
    of the clicks drawn, which has less variance, and is biased (docs/click-weights.md).

    ``clip``: the largest weight of a click. Rarely seen documents then count less than they should, and vary less.
    A label is how often a document was clicked. Time and memory grow with the number of clicks of a list.

    >>> from rankwise.objectives import SoftmaxCE
    >>> d = clickwise(SoftmaxCE())([0.0, 0.0], [1, 1], [0, 2], document_weights=[1.0, 4.0])
    >>> d.value.round(4), d.gradient  # (1 + 4) log 2; a click on each document, 1/2 and four times 1/2
    (array([3.4657]), array([ 1.5, -1.5]))
    """

    clip: Annotated[float | None, Above(0)] = None
    name: ClassVar[str] = "clickwise"
    paper: ClassVar[str] = "Joachims et al. 2017"
    accepts: ClassVar[tuple[str, ...]] = ()  # a list for each click has the gain of that click
    prepares_on_device: ClassVar[bool] = False  # the number of clicks would have to be known

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective for one list per click."""
        reject_columns(self, columns, ("document_weights",))
        counts, lists = checked_lists(labels, offsets)
        clicked = np.flatnonzero(counts > 0.0)
        queries = np.searchsorted(lists.offsets, clicked, side="right") - 1
        weights = counts[clicked]
        if weights.max(initial=0.0) > _LARGEST:
            raise check.error(
                "a label is too large for a number of clicks", got=f"{weights.max():g}", hint="label clicks with 1"
            )
        factors = document_weights(columns, lists)
        if factors.size:
            largest = np.inf if self.clip is None else self.clip
            weights = weights * np.minimum(factors[clicked], largest)
        positions = clicked - lists.offsets[queries]
        copies = lists.select(queries)
        alone = np.zeros(copies.lists.n_docs)
        alone[copies.lists.offsets[:-1] + positions] = 1.0
        return PreparedClickwise(
            lists=lists,
            inner=self.inner.prepare(alone, copies.lists.offsets),
            copies=copies,
            clicks=offsets_of(np.bincount(queries, minlength=lists.n_queries)),
            positions=positions,
            weights=weights,
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedClickwise(Prepared):
    """An objective on the lists of clicks."""

    inner: Prepared
    copies: Selection
    """The list of each click: those of a query follow each other."""
    clicks: Offsets
    """Where the clicks of each query begin, on the host."""
    positions: NDArray[np.int64]
    """The position of each click in its list, on the host."""
    weights: Values
    """The weight of each click."""

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Sum the inner derivatives over the lists of a query's clicks."""
        if not self.positions.size:
            for column in (out.value, *out.columns):
                column[:] = 0.0
            return
        part = self.copies.lists.outputs_like(out)
        self.inner.fill(self.copies.per_document(scores), self._stream(stream), part)
        self.lists.gather(self.copies, self.clicks, self.weights, part, out)

    def _stream(self, stream: Stream | None) -> Stream | None:
        """Return random numbers of its own for every click, keyed by its query and its position in the list."""
        if stream is None:
            return None
        words = stream.queries(self.n_queries)[self.copies.queries]
        return replace(stream.child("click"), query_ids=words + _GOLDEN * (self.positions + 1).astype(np.uint64))

    def select(self, selection: Selection) -> Self:
        """Return some of the queries, with the lists of their clicks."""
        rows, clicks = rows_of(selection.queries, self.clicks)
        numbers = np.arange(self.positions.size)[rows]
        queries = np.repeat(np.arange(selection.queries.size), np.diff(clicks))
        chosen = self.copies.lists.select(numbers)
        return replace(
            self,
            lists=selection.lists,
            inner=self.inner.select(chosen),
            copies=selection.lists.select(queries),
            clicks=clicks,
            positions=self.positions[rows],
            weights=chosen.per_query(self.weights),
        )

    def move(self, lists: Any) -> Self:
        """Return the same on the device of ``lists``."""
        copies = lists.select(self.copies.queries)
        inner, weights = self.inner.move(copies.lists), lists.column(self.weights)
        return replace(self, lists=lists, inner=inner, copies=copies, weights=weights)
