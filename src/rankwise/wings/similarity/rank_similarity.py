"""How alike two rankings of each query are: rank-biased overlap, overlap of the first, Kendall's τ and τ_AP.

Equal scores are ties: every value is the mean over all orders of tied documents in both rankings, but for Kendall's
τ_b, which has its own correction. A score of −inf marks a document that a ranking does not hold.

The overlap of the first d documents of two rankings is, in the mean over orders, a sum over documents of the product
of two chances. At each depth one tie group of each ranking is being passed, so that four counts suffice: documents in
both, those of either open group that the other ranking has passed, and those in both open groups.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Annotated, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.check.docstrings import PlainSignature
from rankwise.check.parameters import AtLeast, OneOf, Within, check_declared
from rankwise.language import grammar
from rankwise.metrics.base import KernelCall
from rankwise.metrics.gains import NO_CUTOFF
from rankwise.metrics.sorting import AVERAGE, group_end, longest_of, ranking, scratch_for
from rankwise.wings.similarity.correlation import agreements, levels_in, pairs_apart

_REFERENCES = {"both": 0, "first": 1, "second": 2}
_ABSENT = np.iinfo(np.int64).max


@dataclass(frozen=True, kw_only=True, repr=False)
class Similarity(ABC):
    """How alike two rankings are: a value that prints as its expression and is called with two arrays of scores.

    >>> one, other = [4.0, 3.0, 2.0, 1.0], [3.0, 4.0, 2.0, -np.inf]
    >>> [similarity_measure(text)(one, other, [0, 4]) for text in ("overlap@1", "overlap@3", "rbo")]
    [array([0.]), array([1.]), array([0.9])]
    """

    __signature__: ClassVar[object] = PlainSignature()
    name: ClassVar[str]
    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    cutoff: Annotated[int | None, AtLeast(1)] = None
    """Only the first documents of both rankings; None for all."""

    def __post_init__(self) -> None:
        check_declared(self)

    def __call__(self, one: ArrayLike, other: ArrayLike, offsets: ArrayLike) -> Array:
        """Return one number per query; NaN where it is not defined."""
        bounds = check.offsets(offsets, np.asarray(one).size)
        rows = [read_only(check.scores(scores, bounds)) for scores in (one, other)]
        kernel, *settings = self._kernel()
        out = np.empty(bounds.size - 1)
        cutoff = NO_CUTOFF if self.cutoff is None else int(self.cutoff)
        over_queries(kernel, read_only(bounds), *rows, cutoff, *settings, out)
        return out

    def __matmul__(self, cutoff: int) -> Self:
        return replace(self, cutoff=cutoff)

    def __str__(self) -> str:
        options = grammar.arguments(self, leave_out=("cutoff",))
        return self.name + (f"({options})" if options else "") + (f"@{self.cutoff}" if self.cutoff else "")

    __repr__ = __str__

    @abstractmethod
    def _kernel(self) -> KernelCall:
        """Return the kernel and its settings."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RBO(Similarity):
    """Rank-biased overlap, extrapolated: the expected agreement at the depth where a reader stops.

    RBO_EXT of Webber, Moffat and Zobel (2010, equation 32), for rankings of any lengths and documents; with ties RBO^a
    of Corsi and Urbano (2024), the mean over their orders. Not defined where one of the rankings is empty.
    """

    name: ClassVar[str] = "rbo"
    p: Annotated[float, Within(0.0, 1.0, open=True)] = 0.9
    """Probability that a reader continues to the next rank; of 0.9 the first ten ranks have 86% of the weight."""

    def _kernel(self) -> KernelCall:
        return _rank_biased_overlap, float(self.p)


@dataclass(frozen=True, kw_only=True, repr=False)
class Overlap(Similarity):
    """The share of common documents among the first ``cutoff``, or among as many as the longer ranking has."""

    name: ClassVar[str] = "overlap"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff is None:
            raise check.error("overlap needs a cutoff", got="overlap", hint="write overlap@10")

    def _kernel(self) -> KernelCall:
        return _rank_biased_overlap, 0.0


@dataclass(frozen=True, kw_only=True, repr=False)
class Tau(Similarity):
    """Kendall's τ_b of two rankings of the same documents.

    Not defined where they hold other documents, or one of them ties all.
    """

    name: ClassVar[str] = "tau"
    bounds: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.cutoff is not None:
            raise check.error(f"{self.name} has no cutoff", got=f"@{self.cutoff}", hint="use rbo or overlap@10")

    def _kernel(self) -> KernelCall:
        return _tau, -1


@dataclass(frozen=True, kw_only=True, repr=False)
class TauAP(Tau):
    """τ_AP of two rankings of the same documents: τ with more weight on the first ranks (Yilmaz et al. 2008).

    For each rank i > 1 of one ranking, the share of documents above it that the other has above it too. With ties the
    mean over their orders (τ_AP,a of Urbano and Marrero 2017 where only the other has ties).
    """

    name: ClassVar[str] = "tau_ap"
    reference: Annotated[str, OneOf((*_REFERENCES,), "reference")] = "both"
    """Which ranking is the true one, whose order is looked up: the "first", the "second", or the mean of "both"."""

    def _kernel(self) -> KernelCall:
        return _tau, _REFERENCES[self.reference]


SIMILARITIES: dict[str, type[Similarity]] = {kind.name: kind for kind in (RBO, Overlap, Tau, TauAP)}
SimilarityLike = str | Similarity


def similarity_measure(expression: SimilarityLike) -> Similarity:
    """Return the similarity of rankings that an expression describes: rbo, overlap@10, tau or tau_ap.

    >>> similarity_measure("rbo(p=0.95)"), similarity_measure("tau_ap(reference=second)")
    (rbo(p=0.95), tau_ap(reference=second))
    """
    if isinstance(expression, Similarity):
        return expression
    plain, _, cutoff = expression.partition("@") if isinstance(expression, str) else ("", "", "")
    if plain == "overlap" and cutoff.isdigit():  # which has no value without a cutoff
        return Overlap(cutoff=int(cutoff))
    parsed: Similarity = grammar.parse(expression, SIMILARITIES, "similarity")
    return parsed


def similarity_measures(values: SimilarityLike | Iterable[SimilarityLike]) -> dict[str, Similarity]:
    """Return one similarity or several by their expressions."""
    several = [values] if isinstance(values, str | Similarity) else values
    return {str(one): one for one in map(similarity_measure, several)}


@kernel
def _group_ends(scores, ranked, count, ends):  # type: ignore[no-untyped-def]
    """Fill where the tie group of each ranked document ends; other documents are absent."""
    ends[:] = _ABSENT
    start = 0
    while start < count:
        stop = group_end(scores, ranked, start, count, AVERAGE)
        for place in range(start, stop):
            ends[ranked[place]] = stop
        start = stop


@kernel
def _count_group(ranked, start, stop, others, passed, open_end):  # type: ignore[no-untyped-def]
    """Count the documents of a group that the other ranking has passed, and those in its open group."""
    done, both = 0, 0
    for place in range(start, stop):
        end = others[ranked[place]]
        done += end <= passed
        both += end == open_end
    return done, both


@kernel
def _rank_biased_overlap(first, last, offsets, one, other, cutoff, p, out):  # type: ignore[no-untyped-def]
    """RBO_EXT of each query, or with ``p`` = 0 the overlap at the cutoff."""
    longest = longest_of(first, last, offsets)
    scratch, orders, ends = scratch_for(longest), np.empty((2, longest), np.int64), np.empty((2, longest), np.int64)
    for q in range(first, last):
        left, right = one[offsets[q] : offsets[q + 1]], other[offsets[q] : offsets[q + 1]]
        n = left.size
        counts = (
            ranking(left, left, cutoff, AVERAGE, orders[0, :n], scratch),
            ranking(right, right, cutoff, AVERAGE, orders[1, :n], scratch),
        )
        if min(counts) == 0:
            out[q] = np.nan
            continue
        _group_ends(left, orders[0], counts[0], ends[0, :n])
        _group_ends(right, orders[1], counts[1], ends[1, :n])
        short, long = min(min(counts), cutoff), min(max(counts), cutoff)
        # Of the open groups, [from_a, to_a) and [from_b, to_b): common documents before both; documents of the open
        # group of one that the other has passed; documents in both.
        from_a, to_a, from_b, to_b = 0, 0, 0, 0
        common, a_done, b_done, both = 0.0, 0, 0, 0
        weight, total, overlap, at_short = 1.0, 0.0, 0.0, 0.0
        for depth in range(1, long + 1):
            if depth - 1 == to_a:
                common, b_done = common + a_done, b_done + both
                from_a, to_a, a_done, both = to_a, _ABSENT - 1, 0, 0
                if from_a < counts[0]:
                    to_a = ends[0, orders[0, from_a]]
                    a_done, both = _count_group(orders[0], from_a, to_a, ends[1], from_b, to_b)
            if depth - 1 == to_b:
                common, a_done = common + b_done, a_done + both
                from_b, to_b, b_done, both = to_b, _ABSENT - 1, 0, 0
                if from_b < counts[1]:
                    to_b = ends[1, orders[1, from_b]]
                    b_done, both = _count_group(orders[1], from_b, to_b, ends[0], from_a, to_a)
            a, b = (depth - from_a) / (to_a - from_a), (depth - from_b) / (to_b - from_b)
            overlap = common + a * a_done + b * b_done + a * b * both
            if depth == short:
                at_short = overlap
            agreement = overlap / depth
            if depth > short:
                agreement += at_short * (depth - short) / (short * depth)
            total += (1.0 - p) * weight * agreement
            weight *= p
        if p == 0.0:
            out[q] = overlap / long
        else:
            out[q] = min(total + ((overlap - at_short) / long + at_short / short) * weight, 1.0)


@kernel
def _tau(first, last, offsets, one, other, cutoff, reference, out):  # type: ignore[no-untyped-def]
    """Kendall's τ_b of each query (``reference`` −1), or τ_AP."""
    longest = longest_of(first, last, offsets)
    scratch, orders = scratch_for(longest), np.empty((2, longest), np.int64)
    levels, means = np.empty((2, longest), np.int64), np.empty(longest)
    tree, sums = np.empty(longest + 1, np.int64), np.empty(longest)
    for q in range(first, last):
        left, right = one[offsets[q] : offsets[q + 1]], other[offsets[q] : offsets[q + 1]]
        out[q] = np.nan
        if ((left == -np.inf) != (right == -np.inf)).any():
            continue
        n = ranking(left, left, cutoff, AVERAGE, orders[0, : left.size], scratch)
        ranking(right, right, cutoff, AVERAGE, orders[1, : left.size], scratch)
        ranked, opposite = orders[0, :n], orders[1, :n]
        mine, theirs = levels_in(left, ranked, levels[0], means), levels_in(right, opposite, levels[1], means)
        if n < 2 or (reference < 0 and min(mine, theirs) < 2):
            continue
        total = 0.0
        if reference != 1:
            agreements(left, ranked, levels[1], tree[: theirs + 1], sums)
            total += sums[:n].sum() if reference < 0 else _average(left, ranked, sums)
        if reference in (0, 1):
            agreements(right, opposite, levels[0], tree[: mine + 1], sums)
            total += _average(right, opposite, sums)
        if reference < 0:
            total = total / np.sqrt(pairs_apart(left, ranked)) / np.sqrt(pairs_apart(right, opposite))
        elif reference == 0:
            total *= 0.5
        out[q] = min(max(total, -1.0), 1.0)


@kernel
def _average(scores, ranked, sums):  # type: ignore[no-untyped-def]
    """τ_AP of one ranking, whose reference gave the :func:`agreements` ``sums``.

    A document of a tie group has all of earlier groups above it, and at the j-th place of its group j others of it,
    half of which belong there in the mean.
    """
    total, start = 0.0, 0
    while start < ranked.size:
        stop = group_end(scores, ranked, start, ranked.size, AVERAGE)
        right = 0.5 * (start + sums[start] / (stop - start))
        for place in range(max(start, 1), stop):
            total += (right + 0.5 * (place - start)) / place
        start = stop
    return 2.0 * total / (ranked.size - 1.0) - 1.0
