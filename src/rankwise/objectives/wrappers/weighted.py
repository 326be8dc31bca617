"""Weights of lists that the list itself gives."""

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import Array, Offsets, read_only, reusable
from rankwise.kernels import kernel
from rankwise.metrics.ideal import gains_and_ideal
from rankwise.objectives.adapted import as_objective
from rankwise.objectives.base import Derivatives, Objective, Prepared
from rankwise.objectives.prepared import Lists, checked_lists
from rankwise.stream import Stream
from rankwise.threads import over_queries

_MEASURES = ("size", "relevant", "ideal_dcg")


@dataclass(frozen=True, repr=False)
class weighted(Objective):  # noqa: N801 (wrappers are adjectives)
    """The inner loss times a weight that each list gives itself: its size, its relevant documents or its ideal DCG.

    ``power=-1`` divides by it. A list whose measure is 0 gets the weight 0.
    """

    inner: Objective
    by: str = field(default="size", kw_only=True)
    power: float = field(default=1.0, kw_only=True)
    name: ClassVar[str] = "weighted"

    def __post_init__(self) -> None:
        check.choice("measure to weigh by", self.by, _MEASURES)
        check.number("power", self.power)
        object.__setattr__(self, "inner", as_objective(self.inner, self.name))

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The inner objective."""
        return (self.inner,)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Prepare the inner objective, and weigh the lists."""
        lists = checked_lists(labels, offsets)
        return PreparedWeighted(self.inner.prepare(*lists, **documents), read_only(self.weights(lists)))

    def weights(self, lists: Lists) -> Array:
        """The weight of each list."""
        if self.by == "size":
            measure: Array = lists.sizes.astype(np.float64)
        elif self.by == "relevant":
            measure = lists.sums((lists.labels > 0.0).astype(np.float64))
        else:
            measure = gains_and_ideal(*lists).dcg
        with np.errstate(divide="ignore"):
            return np.where(measure > 0.0, measure**self.power, 0.0)


class PreparedWeighted(Prepared):
    """An objective on lists, each of which has a weight."""

    def __init__(self, inner: Prepared, weights: Array) -> None:
        self.inner, self.weights, self.offsets = inner, weights, inner.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Multiply the inner derivatives by each list's weight."""
        part = self.inner.differentiate(scores, None if stream is None else stream.child("weighted"), hessian)
        gradient, diagonal = (times_lists(self.weights, array, self.offsets) for array in part[1:3])
        own = part.numerator is not part.gradient
        numerator = times_lists(self.weights, part.numerator, self.offsets) if own else gradient
        return Derivatives(part.value * self.weights, gradient, diagonal, numerator)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of the inner objective, with their weights."""
        return PreparedWeighted(self.inner.take(queries), read_only(self.weights[queries]))


def times_lists(factors: Array, array: Array, offsets: Offsets) -> Array:
    """Multiply each list's part of an array by the list's factor; an array that was left out stays out."""
    if array.size == 0:
        return array
    product = reusable(array.size)
    over_queries(_times, offsets, read_only(factors), read_only(array), product)
    return product


@kernel
def _times(first, last, offsets, factors, array, product):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        factor, mine, out = factors[q], array[offsets[q] : offsets[q + 1]], product[offsets[q] : offsets[q + 1]]
        for i in range(mine.size):
            out[i] = factor * mine[i]
