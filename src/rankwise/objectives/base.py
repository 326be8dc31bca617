"""The contract of an objective: derivatives, what is prepared once, and how objectives combine.

An objective is a frozen dataclass of plain settings. :meth:`Objective.prepare` looks at labels once and gives a
:class:`Prepared`, which is called with the scores of every round. ``prepared.py`` holds the form of it that runs
kernels, ``adapted.py`` that around a user's function.
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, grammar
from rankwise.arrays import Array, Offsets, read_only

if TYPE_CHECKING:
    from rankwise.stream import Stream


_LARGE = 1e15


class Derivatives(NamedTuple):
    """What an objective says about a set of scores."""

    value: Array
    """(n_queries,) loss of each query, minimised."""
    gradient: Array
    """(n_docs,) d value / d score."""
    hessian: Array
    """(n_docs,) diagonal of the second derivative, or what stands for it (see ``exact_hessian``); empty if left out."""
    numerator: Array
    """(n_docs,) what trees divide by the Hessian; the gradient itself unless there is a better Newton step."""


class Prepared(ABC):
    """An objective that has seen the labels: everything that scores do not change is done.

    It may keep what only saves time. Results never depend on that.
    """

    offsets: Offsets

    @property
    def n_queries(self) -> int:
        """Number of lists."""
        return int(self.offsets.size - 1)

    def __call__(self, scores: ArrayLike, stream: "Stream | None" = None, *, hessian: bool = True) -> Derivatives:
        """Give value, gradient and curvature at ``scores``; without ``hessian`` only value and gradient."""
        return self.differentiate(self._checked(scores), stream, hessian)

    @abstractmethod
    def differentiate(self, scores: Array, stream: "Stream | None", hessian: bool) -> Derivatives:
        """Do what a call does for scores that are finite, float64 and not to be written."""

    @abstractmethod
    def take(self, queries: NDArray[np.int64]) -> "Prepared":
        """Give the same for some of the queries, by number: a mini-batch."""

    def _checked(self, scores: ArrayLike) -> Array:
        array = np.asarray(scores)
        # The extremes tell at once that all is well (no comparison holds for NaN); else all is looked at again. Not a
        # product of arrays: the threads of BLAS go on spinning after it, and take the tree learner a core.
        plain = array.dtype == np.float64 and array.shape == (self.offsets[-1],) and array.size > 0
        with np.errstate(invalid="ignore"):
            fine = plain and array.min() > -_LARGE and array.max() < _LARGE
        return read_only(array if fine else check.loss_scores(array, self.offsets))


@dataclass(frozen=True, repr=False)
class Objective(ABC):
    """A loss of ranked lists, with its gradient and curvature: what every ranker, wrapper and trainer takes.

    A subclass is a frozen dataclass of plain, keyword-only settings that has a ``name`` and a :meth:`prepare`. From
    here it has its expression (``repr``), which :func:`rankwise.objective` reads back, and its operators:
    ``0.7 * XENDCG() + 0.3 * ApproxNDCG()``.
    """

    name: ClassVar[str] = ""
    """What it is called in expressions."""
    paper: ClassVar[str] = ""
    """Where it comes from."""
    steepness: ClassVar[str] = ""
    """The setting that differences of scores are multiplied by, if there is one: sigma, eta."""

    @property
    def inside(self) -> "tuple[Objective, ...]":
        """The objectives that this one is made of: a wrapper's, or the terms of a sum."""
        return ()

    @property
    def exact_hessian(self) -> bool:
        """Whether the Hessian is exact; if not, the docstring says what stands there instead."""
        return bool(self.inside) and all(part.exact_hessian for part in self.inside)

    @property
    def estimator(self) -> bool:
        """Whether it is unbiased over the stream but not differentiable draw by draw."""
        return any(part.estimator for part in self.inside)

    @property
    def held_fixed(self) -> str:
        """What depends on the scores and is held fixed when derivatives are taken."""
        return ", ".join(dict.fromkeys(part.held_fixed for part in self.inside if part.held_fixed))

    @property
    def reads(self) -> tuple[str, ...]:
        """The columns of the data that it looks at beside labels and weights, which :meth:`prepare` is then handed."""
        return tuple(dict.fromkeys(name for part in self.inside for name in part.reads))

    @property
    def score_scale(self) -> float:
        """The difference of scores that matters to the loss: 1/σ or 1/η where it has such a steepness, else 1."""
        if self.steepness:
            return 1.0 / float(getattr(self, self.steepness))
        return min((part.score_scale for part in self.inside), default=1.0)

    @abstractmethod
    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Check labels and do once what scores do not change.

        ``documents`` are further columns of single documents, such as ``document_weights``; an objective refuses those
        that it has no use for.
        """

    def __call__(
        self,
        scores: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        stream: "Stream | None" = None,
        **documents: ArrayLike,
    ) -> Derivatives:
        """Give value, gradient and curvature at ``scores``, for a single look; trainers prepare once instead."""
        return self.prepare(labels, offsets, **documents)(scores, stream)

    def __repr__(self) -> str:
        inside = grammar.arguments(self)
        name = self.name or type(self).__name__
        return f"{name}({inside})" if inside else name

    def __add__(self, other: object) -> "Sum":
        return Sum((*_terms(self), *_terms(other))) if isinstance(other, Objective) else NotImplemented

    def __sub__(self, other: object) -> "Sum":
        return self + -1.0 * other if isinstance(other, Objective) else NotImplemented

    def __mul__(self, factor: object) -> "Sum":
        if isinstance(factor, bool) or not isinstance(factor, int | float):
            return NotImplemented
        factor = check.number("the factor of an objective", factor)
        return Sum(tuple((factor * own, term) for own, term in _terms(self)))

    __rmul__ = __mul__


def _terms(objective: Objective) -> tuple[tuple[float, Objective], ...]:
    return objective.terms if isinstance(objective, Sum) else ((1.0, objective),)


def handed(whole: Objective, part: Objective, documents: Mapping[str, ArrayLike]) -> Mapping[str, ArrayLike]:
    """What is told of single documents to an objective inside another.

    What the whole reads goes only to parts that read it. All other columns go to every part, which refuses those that
    it has no use for.
    """
    return {name: column for name, column in documents.items() if name not in whole.reads or name in part.reads}


@dataclass(frozen=True, repr=False)
class Sum(Objective):
    """A weighted sum of objectives; value, gradient, Hessian and numerator add up."""

    terms: tuple[tuple[float, Objective], ...]

    @property
    def inside(self) -> tuple[Objective, ...]:
        """The terms."""
        return tuple(term for _, term in self.terms)

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Prepare every term."""
        factors = tuple(factor for factor, _ in self.terms)
        parts = [term.prepare(labels, offsets, **handed(self, term, documents)) for term in self.inside]
        return PreparedSum(factors, parts)

    def __repr__(self) -> str:
        expression = ""
        for factor, term in self.terms:
            sign = (" - " if factor < 0 else " + ") if expression else ("-" if factor < 0 else "")
            size = abs(factor)
            plain = size == 1.0 and (expression or factor > 0)
            expression += sign + (repr(term) if plain else f"{size!r}*{term!r}")
        return expression


class PreparedSum(Prepared):
    """The terms of a sum, prepared, and their factors."""

    def __init__(self, factors: tuple[float, ...], parts: Sequence[Prepared]) -> None:
        self.factors, self.parts = factors, parts
        self.offsets = parts[0].offsets

    def differentiate(self, scores: Array, stream: "Stream | None", hessian: bool) -> Derivatives:
        """Add up the terms, each with a random stream of its own."""
        total: Derivatives | None = None
        for k, (factor, part) in enumerate(zip(self.factors, self.parts, strict=True)):
            own = None if stream is None else stream.child("term", k)
            found = part.differentiate(scores, own, hessian)
            total = add(total, factor, found)
        if total is None:
            raise check.error("a sum of objectives needs at least one term")
        return total

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Take the queries of every term."""
        return PreparedSum(self.factors, [part.take(queries) for part in self.parts])


def add(total: Derivatives | None, factor: float, part: Derivatives) -> Derivatives:
    """Add ``factor`` times derivatives to a total of our own, in place; the first of them begins it.

    The numerator stays the gradient itself while every part's is.
    """
    if total is None:
        value, gradient, hessian = (factor * array for array in part[:3])
        numerator = gradient if part.numerator is part.gradient else factor * part.numerator
        return Derivatives(value, gradient, hessian, numerator)
    numerator = total.numerator
    if numerator is not total.gradient or part.numerator is not part.gradient:
        numerator = numerator.copy() if numerator is total.gradient else numerator
        numerator += part.numerator if factor == 1.0 else factor * part.numerator
    for sum_, array in zip(total[:3], part[:3], strict=True):
        sum_ += array if factor == 1.0 else factor * array
    return Derivatives(*total[:3], total.gradient if numerator is total.gradient else numerator)


def drawing(stream: "Stream | None", who: object) -> "Stream":
    """Give the stream of an objective that draws, or say that it needs one."""
    if stream is None:
        raise check.error(
            f"{who} draws random numbers and needs a stream",
            got="None",
            hint="pass stream=rw.Stream(seed, round, query_ids)",
        )
    return stream
