"""Weights of queries that the query itself determines."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from numpy.typing import ArrayLike

from rankwise.base.stream import Stream
from rankwise.check.parameters import OneOf, Search
from rankwise.objectives.prepared import PerQuery, Prepared, checked_lists
from rankwise.objectives.ragged import Derivatives, RaggedLists, Values
from rankwise.objectives.wrappers.base import Wrapper

_MEASURES = ("size", "relevant", "ideal_dcg")


@dataclass(frozen=True, kw_only=True, repr=False)
class weighted(Wrapper):  # noqa: N801 (wrappers are adjectives)
    """The inner loss times a weight that each query determines: its size, its relevant documents or its ideal DCG.

    ``power=-1`` divides by it. A query whose measure is 0 gets the weight 0.
    """

    by: Annotated[str, OneOf(_MEASURES, "measure to weigh by")] = "size"
    power: Annotated[float, Search("uniform(-1.0, 1.0)")] = 1.0
    name: ClassVar[str] = "weighted"

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare the inner objective, and weigh the queries."""
        inner = self.inner.prepare(labels, offsets, **columns)
        return PreparedWeighted(lists=inner.lists, inner=inner, weights=self.weights(*checked_lists(labels, offsets)))

    def weights(self, labels: Values, lists: RaggedLists) -> Values:
        """Return the weight of each query."""
        if self.by == "size":
            measure = lists.floats(lists.sizes)
        elif self.by == "relevant":
            measure = lists.sums(lists.floats(labels > 0.0))
        else:
            measure = lists.gains_and_ideal(labels).dcg
        return lists.floats(measure > 0.0) * lists.positive_or_one(measure) ** self.power


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedWeighted(Prepared):
    """An objective on queries that have a weight each."""

    inner: Prepared
    weights: PerQuery

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Multiply the inner derivatives by each query's weight."""
        self.inner.fill(scores, None if stream is None else stream.child("weighted"), out)
        self.lists.chain(out, self.weights)
        out.value[:] = out.value * self.weights
