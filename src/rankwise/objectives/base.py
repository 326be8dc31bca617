"""The contract of an objective, the frame around its kernels, and the operators that combine objectives."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, grammar
from rankwise.metrics.base import Metric
from rankwise.stream import Stream
from rankwise.threads import over_queries

Array = NDArray[np.float64]

_shelf: list[Array] = []
_SHELF_LENGTH = 6
_SHELVED_BYTES = 32 * 2**20
_NOBODY_ELSE = 3


class Derivatives(NamedTuple):
    """What an objective says about a set of scores."""

    value: Array
    """(n_queries,) loss of each query, minimised."""
    gradient: Array
    """(n_docs,) d value / d score."""
    hessian: Array
    """(n_docs,) diagonal of the second derivative, or what stands for it (see ``exact_hessian``)."""
    numerator: Array
    """(n_docs,) what trees divide by the Hessian; the gradient itself unless there is a better Newton step."""


@runtime_checkable
class Objective(Protocol):
    """Anything that can be called like this is an objective: in every ranker, in every wrapper, unregistered.

    ``stream`` may be None where nothing is drawn. Objectives that can weigh single documents also take
    ``document_weights`` (inverse propensities of clicked documents) as a keyword; wrappers hand it on.
    """

    exact_hessian: bool
    """False: the docstring says what stands there instead."""
    estimator: bool
    """True: unbiased over the stream, not differentiable draw by draw."""

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Give value, gradient and curvature at ``scores``."""
        ...


class Lists(NamedTuple):
    """Checked input of an objective, in the types that kernels are compiled for."""

    scores: Array
    labels: Array
    offsets: NDArray[np.int64]

    @property
    def n_queries(self) -> int:
        """Number of lists."""
        return int(self.offsets.size - 1)


def lists(scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> Lists:
    """Check the input of an objective; an error names the query."""
    cuts = check.offsets(offsets, int(np.size(labels)))
    return Lists(
        read_only(check.loss_scores(scores, cuts)),
        read_only(check.labels(labels, cuts)),
        read_only(cuts),
    )


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Give a contiguous array that cannot be written: Numba would compile once more for writable input."""
    array = np.ascontiguousarray(array).view()
    array.flags.writeable = False
    return array


def differentiate(
    kernel: Callable[..., Any], given: Lists, *settings: Any, numerator: bool = False, work: Array | None = None
) -> Derivatives:
    """Run ``kernel(first, last, offsets, scores, labels, *settings, value, gradient, hessian[, numerator])``.

    The kernel fills every element of its outputs for queries ``first`` to ``last``.
    """
    n_docs = given.scores.size
    value, gradient, hessian = np.empty(given.n_queries), memory(n_docs), memory(n_docs)
    outputs = [value, gradient, hessian]
    if numerator:
        outputs.append(memory(n_docs))
    over_queries(kernel, given.offsets, given.scores, given.labels, *settings, *outputs, work=work)
    return Derivatives(value, gradient, hessian, outputs[-1] if numerator else gradient)


def memory(size: int) -> Array:
    """Give an array with anything in it: one that was given before and that nobody holds any more, or a new one.

    A trainer asks for the same arrays round after round, and fresh pages cost as much time as a fast kernel.
    """
    if size * 8 > _SHELVED_BYTES:
        return np.empty(size)
    for array in _shelf:
        # Held by the shelf, by this loop and by the call: then by nobody else, not even through a view.
        if array.size == size and sys.getrefcount(array) == _NOBODY_ELSE:
            return array
    array = np.empty(size)
    _shelf.append(array)
    del _shelf[:-_SHELF_LENGTH]
    return array


def drawing(stream: Stream | None, who: object) -> Stream:
    """Give the stream of an objective that draws, or say that it needs one."""
    if stream is None:
        raise check.error(
            f"{who} draws random numbers and needs a stream",
            got="None",
            cure="pass stream=rw.Stream(seed, round, query_ids)",
        )
    return stream


def document_weights(values: ArrayLike | None, given: Lists) -> Array:
    """Check the weights of single documents; an empty array stands for none."""
    if values is None:
        return read_only(np.empty(0))
    return read_only(check.document_values("document weights", values, given.offsets, least=0.0))


def refuse_documents(documents: dict[str, Any], who: object) -> None:
    """Say that an objective has no use for columns of single documents, rather than leave them out silently."""
    if documents:
        raise check.error(
            f"{who} takes no {' or '.join(documents)}",
            cure="leave it out; SoftmaxCE, XENDCG and LambdaRank take document_weights, PLRank document_rewards",
        )


T = TypeVar("T", bound=type)

if TYPE_CHECKING:

    class Operators:
        """What :func:`algebra` gives a class, for type checkers; at run time there is nothing to inherit."""

        def __add__(self, other: Any) -> "Sum": ...
        def __sub__(self, other: Any) -> "Sum": ...
        def __mul__(self, factor: float) -> "Sum": ...
        def __rmul__(self, factor: float) -> "Sum": ...

else:
    Operators = object


def algebra(cls: T) -> T:
    """Give a class of objectives its text and its operators: ``0.7 * XENDCG() + 0.3 * ApproxNDCG()``."""
    for name, method in {"__repr__": _text, **_OPERATORS}.items():
        setattr(cls, name, method)
    return cls


def _text(self: Any) -> str:
    from rankwise.objectives.table import name_of

    inside = grammar.arguments(self)
    return f"{name_of(type(self))}({inside})" if inside else name_of(type(self))


def _terms(objective: Any) -> tuple[tuple[float, Any], ...]:
    return objective.terms if isinstance(objective, Sum) else ((1.0, objective),)


def _combine(left: Any, a: float, right: Any, b: float) -> Any:
    if not callable(right) or isinstance(right, type | Metric):
        return NotImplemented
    parts = [(a * c, o) for c, o in _terms(left)] + [(b * c, o) for c, o in _terms(right)]
    return Sum(tuple(parts))


def _scale(self: Any, factor: Any) -> Any:
    if isinstance(factor, bool) or not isinstance(factor, int | float):
        return NotImplemented
    factor = check.number("the factor of an objective", factor)
    return Sum(tuple((factor * c, o) for c, o in _terms(self)))


@dataclass(frozen=True, repr=False)
class Sum(Operators):
    """A weighted sum of objectives; value, gradient, Hessian and numerator add up."""

    terms: tuple[tuple[float, Any], ...]
    paper: ClassVar[str] = ""

    @property
    def exact_hessian(self) -> bool:
        """Whether every term's Hessian is exact."""
        return all(getattr(objective, "exact_hessian", False) for _, objective in self.terms)

    @property
    def estimator(self) -> bool:
        """Whether any term is an estimator."""
        return any(getattr(objective, "estimator", False) for _, objective in self.terms)

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, stream: Stream | None = None, **documents: Any
    ) -> Derivatives:
        """Add up the terms, each with a random stream of its own."""
        parts = [
            (factor, objective(scores, labels, offsets, None if stream is None else stream.child(k), **documents))
            for k, (factor, objective) in enumerate(self.terms)
        ]
        return linear([factor for factor, _ in parts], [part for _, part in parts])

    def __repr__(self) -> str:
        text = ""
        for factor, objective in self.terms:
            sign = (" - " if factor < 0 else " + ") if text else ("-" if factor < 0 else "")
            size = abs(factor)
            text += sign + (repr(objective) if size == 1.0 and (text or factor > 0) else f"{size!r}*{objective!r}")
        return text


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "__add__": lambda self, other: _combine(self, 1.0, other, 1.0),
    "__sub__": lambda self, other: _combine(self, 1.0, other, -1.0),
    "__mul__": _scale,
    "__rmul__": _scale,
}
for _name, _method in _OPERATORS.items():
    setattr(Sum, _name, _method)


def linear(factors: list[float], parts: list[Derivatives]) -> Derivatives:
    """Add derivatives with factors; the numerator stays the gradient itself where every part's does."""
    value, gradient, hessian = (
        sum((f * p[k] for f, p in zip(factors[1:], parts[1:], strict=True)), factors[0] * parts[0][k]) for k in range(3)
    )
    if all(part.numerator is part.gradient for part in parts):
        return Derivatives(value, gradient, hessian, gradient)
    numerator = sum(
        (f * p.numerator for f, p in zip(factors[1:], parts[1:], strict=True)), factors[0] * parts[0].numerator
    )
    return Derivatives(value, gradient, hessian, numerator)
