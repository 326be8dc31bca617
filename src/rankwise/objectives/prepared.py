"""Lists that were checked once, and the frame that runs a kernel over them in every round."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.arrays import NONE, UNWANTED, Array, Column, Floats, Offsets, read_only, reusable, rows_of
from rankwise.objectives import curvature
from rankwise.objectives.base import Derivatives, Objective, Prepared, drawing
from rankwise.stream import Stream
from rankwise.threads import Kernel, over_queries

_COLUMNS = {
    "document_weights": "SoftmaxCE, XENDCG, LambdaRank and Pairwise",
    "document_rewards": "PLRank",
    "groups": "fair",
    "teacher_scores": "Distil and MarginMSE",
}
"""The columns of single documents that there are, and who takes them."""


class Lists(NamedTuple):
    """Checked labels of lists, in the types that kernels are compiled for."""

    labels: Array
    offsets: Offsets

    @property
    def n_queries(self) -> int:
        """Number of lists."""
        return int(self.offsets.size - 1)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of documents of each list."""
        return self.offsets[1:] - self.offsets[:-1]  # np.diff takes several times as long for a few lists

    def sums(self, values: Array) -> Array:
        """Add up one number per document over each list."""
        return np.add.reduceat(values, self.offsets[:-1]) if values.size else np.zeros(self.n_queries)


def checked_lists(labels: ArrayLike, offsets: ArrayLike) -> Lists:
    """Check labels and offsets; an error names the query."""
    cuts = check.offsets(offsets, int(np.size(labels)))
    return Lists(read_only(check.labels(labels, cuts)), read_only(cuts))


def refuse_columns(who: object, documents: Mapping[str, ArrayLike], taken: tuple[str, ...] = ()) -> None:
    """Say that an objective has no use for a column of single documents, rather than leave it out silently."""
    for name in documents:
        if name not in taken:
            known = ", ".join(f"{column} go to {takers}" for column, takers in _COLUMNS.items())
            raise check.error(f"{who} takes no {name}", hint=f"leave it out; {known}")


def document_weights(documents: Mapping[str, ArrayLike], lists: Lists) -> Array:
    """Check the weights of single documents; an empty array stands for none."""
    values = documents.get("document_weights")
    if values is None:
        return NONE
    return read_only(check.document_values("document weights", values, lists.offsets, least=0.0))


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedKernel(Prepared):
    """A kernel with its arguments, but for the scores.

    The kernel is called as ``kernel(first, last, offsets, scores, *per_document, *per_query, *settings[, *random],
    value, gradient, hessian[, numerator])`` and fills every element of its outputs for queries ``first`` to
    ``last``. A Hessian of size 0 is not wanted, and neither is the numerator then.
    """

    objective: Objective
    kernel: Kernel
    offsets: Offsets
    per_document: tuple[Column, ...] = ()
    """Arrays of one element per document."""
    per_query: tuple[Column, ...] = ()
    """Arrays of one element per query."""
    settings: tuple[object, ...] = ()
    """What is the same for all lists."""
    keys: Callable[[Stream], object] | None = None
    """What the kernel draws with: the key or keys of a stream, given to it with the word of each query."""
    numerator: bool | None = None
    """Whether a numerator is filled too; None where the kernel knows none."""
    curvature: str = ""
    """What is done to the Hessian afterwards (``curvature.py``)."""
    work: Array | Floats | None = None
    """The cost of each query, as :func:`rankwise.threads.over_queries` counts it."""

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Run the kernel."""
        n_docs = scores.size
        outputs = [np.empty(self.n_queries), reusable(n_docs), reusable(n_docs) if hessian else UNWANTED]
        own_numerator = bool(self.numerator) and hessian
        if self.numerator is not None:
            outputs.append(reusable(n_docs) if own_numerator else UNWANTED)
        random: tuple[object, ...] = ()
        if self.keys is not None:
            stream = drawing(stream, self.objective)
            random = (self.keys(stream), read_only(stream.queries(self.n_queries)))
        arguments = (scores, *self.per_document, *self.per_query, *self.settings, *random, *outputs)
        over_queries(self.kernel, self.offsets, *arguments, work=self.work)
        value, gradient, diagonal = outputs[:3]
        if hessian and self.curvature:
            curvature.treat(self.curvature, self.offsets, gradient, diagonal)
        return Derivatives(value, gradient, diagonal, outputs[3] if own_numerator else gradient)

    def take(self, queries: NDArray[np.int64]) -> Self:
        """Give the same kernel with the arrays of these queries."""
        rows, offsets = rows_of(queries, self.offsets)
        return dataclasses.replace(
            self,
            offsets=read_only(offsets),
            per_document=tuple(read_only(column[rows]) if column.size else column for column in self.per_document),
            per_query=tuple(read_only(column[queries]) for column in self.per_query),
            work=None if self.work is None else self.work[queries],
        )
