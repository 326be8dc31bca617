"""The contract of an objective, and sums of objectives.

An objective is a frozen dataclass of plain settings. :meth:`Objective.prepare` reads labels once and returns a
:class:`Prepared`, which is called with the scores of every round.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import ClassVar, Self

from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.base.stream import Stream
from rankwise.check.docstrings import PlainSignature
from rankwise.check.parameters import check_declared
from rankwise.data.columns import flat
from rankwise.language import grammar
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.ragged import Derivatives, Values

MORE_LABELS = "more_labels."
"""The start of the names of labels by name among columns."""
GoalTotals = dict[str, tuple[int, ...]]
"""Sum of several goals, by its expression -> :meth:`Prepared.gradient_total` of each term."""
LevelTotals = tuple[int, int]
"""What :func:`level_totals` returns."""
_SURE = 40.0  # log odds of a probability that is 0 or 1 in double precision


@dataclass(frozen=True, repr=False)
class Objective(ABC):
    """A loss of ranked lists with its gradient and curvature, for every ranker, wrapper and trainer.

    A subclass is a frozen dataclass of plain, keyword-only settings with a ``name`` and a :meth:`prepare`. It inherits
    its expression (``repr``), which :func:`rankwise.objective` reads back, and its operators:
    ``0.7 * XENDCG() + 0.3 * ApproxNDCG()``.
    """

    __signature__: ClassVar[object] = PlainSignature()
    name: ClassVar[str] = ""
    """Its name in expressions."""
    paper: ClassVar[str] = ""
    """Its paper."""
    steepness: ClassVar[str] = ""
    """The setting that differences of scores are multiplied by, if there is one: sigma, eta."""
    needs: ClassVar[tuple[str, ...]] = ()
    """The columns of the data that :meth:`prepare` needs itself, beside labels and weights."""
    exact_with: ClassVar[str] = ""
    """The argument that makes the Hessian exact where it is not by default."""

    def __post_init__(self) -> None:
        check_declared(self)

    @property
    def children(self) -> "tuple[Objective, ...]":
        """The objectives inside: that of a wrapper, or the terms of a sum."""
        return ()

    def parts(self) -> "Iterator[Objective]":
        """Iterate over the objective and all that are inside."""
        yield self
        for child in self.children:
            yield from child.parts()

    @property
    def exact_hessian(self) -> bool:
        """Whether the Hessian is exact; if not, the docstring describes its replacement."""
        return bool(self.children) and all(child.exact_hessian for child in self.children)

    @property
    def estimator(self) -> bool:
        """Whether it is unbiased over the stream but not differentiable draw by draw."""
        return any(child.estimator for child in self.children)

    @property
    def held_fixed(self) -> str:
        """The parts that depend on the scores but are held fixed when derivatives are taken."""
        return ", ".join(dict.fromkeys(child.held_fixed for child in self.children if child.held_fixed))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the data that it needs, and what is inside."""
        return tuple(dict.fromkeys((*self.needs, *(name for child in self.children for name in child.reads))))

    @property
    def accepts(self) -> tuple[str, ...]:
        """The columns that replace something in :meth:`prepare` where the data have them."""
        return tuple(dict.fromkeys(name for child in self.children for name in child.accepts))

    @property
    def couples_queries(self) -> bool:
        """Whether the derivatives of a query depend on the other queries that it is prepared with."""
        return any(child.couples_queries for child in self.children)

    @property
    def shift_invariant(self) -> bool:
        """Whether a constant that is added to all scores of a query changes nothing."""
        return all(child.shift_invariant for child in self.children)

    @property
    def log_odds(self) -> bool:
        """Whether scores are log odds, so that training starts at those of the base rate: see :func:`base_score`."""
        return any(child.log_odds for child in self.children)

    @property
    def prepares_on_device(self) -> bool:
        """Whether labels that are on a device are prepared there; otherwise they are copied to the host."""
        return bool(self.children) and all(child.prepares_on_device for child in self.children)

    @property
    def exponential_gains(self) -> bool:
        """Whether labels count by 2^y or e^y, and must be grades: amounts would be far too far apart."""
        by_gain = getattr(self, "gain", None) == "exponential" and getattr(self, "metric", "ndcg") in ("ndcg", "dcg")
        return by_gain and str(getattr(self, "weight", "ndcg")).startswith("ndcg")

    @property
    def score_scale(self) -> float:
        """The difference of scores that matters to the loss: 1/σ or 1/η where it has such a steepness, else 1."""
        if self.steepness:
            return 1.0 / float(getattr(self, self.steepness))
        return min((child.score_scale for child in self.children), default=1.0)

    @abstractmethod
    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Check labels, and compute once what does not depend on scores.

        ``columns`` are further columns of documents, such as ``document_weights``; an objective rejects those that it
        does not take.
        """

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        stream: Stream | None = None,
        **columns: ArrayLike | Mapping[str, ArrayLike],
    ) -> Derivatives:
        """Return value, gradient and curvature at ``scores``, for a single look; trainers prepare once instead."""
        return self.prepare(labels, offsets, **flat(columns))(scores, stream)

    def __repr__(self) -> str:
        arguments = grammar.arguments(self)
        name = self.name or type(self).__name__
        return f"{name}({arguments})" if arguments else name

    def __add__(self, other: object) -> "Sum":
        return Sum((*_terms(self), *_terms(other))) if isinstance(other, Objective) else NotImplemented

    def __sub__(self, other: object) -> "Sum":
        return self + -1.0 * other if isinstance(other, Objective) else NotImplemented

    def __mul__(self, factor: object) -> "Sum":
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            return NotImplemented
        factor = check.number("the factor of an objective", factor)
        return Sum(tuple((factor * inner, term) for inner, term in _terms(self)))

    __rmul__ = __mul__


def _terms(objective: Objective) -> tuple[tuple[float, Objective], ...]:
    return objective.terms if isinstance(objective, Sum) else ((1.0, objective),)


def columns_for(child: Objective, parent: Objective, columns: Mapping[str, ArrayLike]) -> Mapping[str, ArrayLike]:
    """Return the columns to pass on to a nested objective.

    Columns that the parent reads go only to children that read them, and labels by name to those that read any. All
    other columns go to every child, which rejects those that it does not take.
    """
    of_child, of_parent = ((*one.reads, *one.accepts) for one in (child, parent))
    by_name = any(name.startswith(MORE_LABELS) for name in of_child)
    return {
        name: column
        for name, column in flat(columns).items()
        if name in of_child or (by_name if name.startswith(MORE_LABELS) else name not in of_parent)
    }


@dataclass(frozen=True, repr=False)
class Sum(Objective):
    """A weighted sum of objectives; value, gradient, Hessian and numerator add up.

    Terms of a sum with several goals are put on one scale: see :class:`rankwise.objectives.on`.
    """

    terms: tuple[tuple[float, Objective], ...]
    scales: tuple[float, ...] | None = field(default=None, compare=False)
    """The factor of each term beside its weight; None: computed from the lists that are prepared."""

    @property
    def children(self) -> tuple[Objective, ...]:
        """The terms."""
        return tuple(term for _, term in self.terms)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Prepare every term."""
        if not self.terms:
            raise check.error("a sum of objectives needs at least one term")
        factors = tuple(factor for factor, _ in self.terms)
        parts = tuple(term.prepare(labels, offsets, **columns_for(term, self, columns)) for term in self.children)
        if not self.has_goals:
            return PreparedSum(lists=parts[0].lists, factors=factors, parts=parts)
        totals = () if self.scales else tuple(part.gradient_total() for part in parts)
        scales = self.scales or scales_of(totals)
        factors = tuple(factor * scale for factor, scale in zip(factors, scales, strict=True))
        return PreparedSum(lists=parts[0].lists, factors=factors, parts=parts, objective=self, totals=totals)

    @property
    def couples_queries(self) -> bool:
        """As inside; the scales of several goals that are not set depend on all queries, too."""
        return super().couples_queries or (self.has_goals and self.scales is None)

    @property
    def has_goals(self) -> bool:
        """Whether it has terms of several goals, which are put on one scale."""
        return len(self.terms) > 1 and any(name.startswith(MORE_LABELS) for name in self.reads)

    def __repr__(self) -> str:
        expression = ""
        for factor, term in self.terms:
            sign = (" - " if factor < 0 else " + ") if expression else ("-" if factor < 0 else "")
            size = abs(factor)
            plain = size == 1.0 and (expression or factor > 0)
            expression += sign + (repr(term) if plain else f"{size!r}*{term!r}")
        return expression


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedSum(Prepared):
    """The terms of a sum and their factors."""

    factors: tuple[float, ...]
    parts: tuple[Prepared, ...]
    objective: Sum | None = None
    """The sum, if it has several goals."""
    totals: tuple[int, ...] = ()
    """Of each term :meth:`Prepared.gradient_total`, where scales were computed from it."""

    def weighed(self, weights: Sequence[float]) -> Self:
        """Return the same with other weights of the terms."""
        scales = self.objective.scales if self.objective is not None else (1.0,) * len(weights)
        scales = scales_of(self.totals) if scales is None else scales
        factors = (weight * scale for weight, scale in zip(weights, scales, strict=True))
        return replace(self, factors=tuple(factors))

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Add up the terms, each with a random stream of its own."""
        part_out = self.lists.outputs_like(out) if len(self.parts) > 1 else out
        for number, (factor, part) in enumerate(zip(self.factors, self.parts, strict=True)):
            child = None if stream is None else stream.child("term", number)
            if number == 0:
                part.fill(scores, child, out)
                out.scale(factor, factor, factor)
            else:
                part.fill(scores, child, part_out)
                self.lists.add(out, factor, part_out)


def scales_of(totals: Sequence[int]) -> tuple[float, ...]:
    """Return the factor of each term that gives it the gradient of the first; 1 for a term without any.

    >>> scales_of((4, 400, 0))
    (1.0, 0.01, 1.0)
    """
    first = next(filter(None, totals), 1)
    return tuple(first / total if total else 1.0 for total in totals)


def goal_totals(prepared: Prepared, weights: Array | None = None) -> GoalTotals:
    """Return the totals of sums of several goals whose scales are not set, by expression: of the innermost ones.

    ``weights`` are those of queries.
    """
    totals: GoalTotals = {}
    for child in prepared.children:
        totals |= goal_totals(child, weights)
    if not totals and isinstance(prepared, PreparedSum) and prepared.totals:
        weighted = prepared.totals if weights is None else (part.gradient_total(weights) for part in prepared.parts)
        totals[repr(prepared.objective)] = tuple(weighted)
    return totals


def with_scales(objective: Objective, measure: Callable[[Objective], Sequence[GoalTotals]]) -> Objective:
    """Return an objective whose sums of several goals have the scales of all data, however these are divided.

    ``measure`` returns :func:`goal_totals` of each part of the data. Inner sums come first: outer ones depend on them.
    """
    while (parts := measure(objective))[0]:
        totals = {goal: [*map(sum, zip(*(part[goal] for part in parts), strict=True))] for goal in parts[0]}
        objective = _rescaled(objective, {goal: scales_of(total) for goal, total in totals.items()})
    return objective


def _rescaled(objective: Objective, scales: Mapping[str, tuple[float, ...]]) -> Objective:
    if isinstance(objective, Sum):
        terms = tuple((factor, _rescaled(term, scales)) for factor, term in objective.terms)
        return Sum(terms, scales.get(repr(objective), objective.scales))
    values = {item.name: getattr(objective, item.name) for item in fields(objective)}
    inside = {name: _rescaled(value, scales) for name, value in values.items() if isinstance(value, Objective)}
    return replace(objective, **inside) if inside else objective


def level_totals(prepared: Prepared, weights: Array | None = None) -> LevelTotals:
    """Return Σ gradient where all scores are very low, and very high; ``weights`` are those of queries."""
    low, high = (prepared.gradient_total(weights, at=score) for score in (-_SURE, _SURE))
    return low, high


def base_score(totals: Sequence[LevelTotals]) -> float:
    """Return the log odds of the base rate, by :func:`level_totals` of each part of the data; 0 where there are none.

    It is the constant with the least loss. The gradient of sigmoid cross entropy adds up to −Σy where scores are very
    low, and to Σ(1 − y) where they are very high, each by its weights; losses of ranking add 0 to both.

    >>> from rankwise.objectives import Calibrated, XENDCG
    >>> prepared = (0.5 * Calibrated() + XENDCG()).prepare([0, 1, 0, 0, 0], [0, 3, 5])
    >>> round(base_score([level_totals(prepared)]), 4)  # log 1/4
    -1.3863
    """
    low, high = map(sum, zip(*totals, strict=True))
    return math.log(-low / high) if low < 0 < high else 0.0


def scales_in(objective: Objective) -> dict[str, float]:
    """Return the scale of each term of sums of several goals, by its expression."""
    sums = [part for part in objective.parts() if isinstance(part, Sum) and part.scales is not None]
    return {repr(term): scale for one in sums for term, scale in zip(one.children, one.scales or (), strict=True)}
