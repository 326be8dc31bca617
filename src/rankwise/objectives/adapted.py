"""A user's own function as an objective: here, and nowhere else.

``f(scores, labels, offsets)`` or ``f(scores, labels, offsets, stream)`` may return :class:`Derivatives`,
``(value, gradient, hessian)`` or ``(gradient, hessian)``.
"""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, registry
from rankwise.arrays import UNWANTED, Array, read_only, rows_of
from rankwise.metrics.base import Metric
from rankwise.objectives.base import Derivatives, Objective, Prepared
from rankwise.objectives.prepared import Lists, checked_lists, refuse_columns
from rankwise.stream import Stream

_EXPECTED = (
    "return Derivatives(value, gradient, hessian, numerator), (value, gradient, hessian) or (gradient, hessian): one "
    "value per query, one gradient and one Hessian per document"
)


def as_objective(thing: object, wrapper: str = "") -> Objective:
    """Give an objective as it is, and a function as one; an error names the ``wrapper`` that goes around it.

    >>> def squares(scores, labels, offsets):
    ...     return scores - labels, np.ones_like(scores)
    >>> 0.5 * as_objective(squares)
    0.5*squares
    """
    if isinstance(thing, Objective):
        return thing
    if callable(thing) and not isinstance(thing, type | Metric):
        return Adapted(thing)
    raise check.error(
        f"{wrapper} goes around an objective" if wrapper else "an objective is an object, an expression or a function",
        got=repr(thing),
        hint="write rw.XENDCG(), rw.objective('xendcg'), or a function f(scores, labels, offsets)",
    )


@dataclass(frozen=True, repr=False)
class Adapted(Objective):
    """A function as an objective."""

    function: Callable[..., object]

    @property
    def exact_hessian(self) -> bool:
        """What the function says of itself, if it does."""
        return bool(getattr(self.function, "exact_hessian", False))

    @property
    def estimator(self) -> bool:
        """What the function says of itself, if it does."""
        return bool(getattr(self.function, "estimator", False))

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **documents: ArrayLike) -> Prepared:
        """Check the labels, and find out how the function is called."""
        parameters = _parameters(self.function)
        lists = checked_lists(labels, offsets)
        if parameters is not None and not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
            refuse_columns(self, documents, tuple(parameter.name for parameter in parameters))
        columns = {
            name: read_only(check.document_values(name.replace("_", " "), values, lists.offsets))
            for name, values in documents.items()
        }
        return _PreparedFunction(self, lists, columns, _takes_stream(parameters))

    def __repr__(self) -> str:
        name = registry.name_of(self.function) or getattr(self.function, "__name__", None)
        return str(name) if name else repr(self.function)


class _PreparedFunction(Prepared):
    def __init__(self, objective: Adapted, lists: Lists, columns: dict[str, Array], streamed: bool) -> None:
        self.objective, self.lists, self.columns, self.streamed = objective, lists, columns, streamed
        self.offsets = lists.offsets

    def differentiate(self, scores: Array, stream: Stream | None, hessian: bool) -> Derivatives:
        """Call the function, and bring what it returns into the one form."""
        drawn = (stream,) if self.streamed else ()
        found = self.objective.function(scores, self.lists.labels, self.offsets, *drawn, **self.columns)
        parts = list(found) if isinstance(found, tuple | list) else []
        if len(parts) == 2:
            parts.insert(0, np.full(self.n_queries, np.nan))  # it does not say what it minimises
        if len(parts) == 3:
            parts.append(parts[1])
        if len(parts) != 4:
            raise self._unexpected(f"{type(found).__name__}" + (f" of {len(parts)}" if parts else ""))
        value, gradient, diagonal = (
            self._column(*part) for part in zip(("value", "gradient", "hessian"), parts, strict=False)
        )
        numerator = gradient if parts[3] is parts[1] else self._column("numerator", parts[3])
        return Derivatives(value, gradient, diagonal if hessian else UNWANTED, numerator if hessian else gradient)

    def take(self, queries: NDArray[np.int64]) -> Prepared:
        """Give the function the lists of these queries."""
        rows, offsets = rows_of(queries, self.offsets)
        lists = Lists(read_only(self.lists.labels[rows]), read_only(offsets))
        columns = {name: read_only(column[rows]) for name, column in self.columns.items()}
        return _PreparedFunction(self.objective, lists, columns, self.streamed)

    def _column(self, name: str, values: ArrayLike) -> Array:
        array = np.asarray(values)
        count = self.n_queries if name == "value" else int(self.offsets[-1])
        if array.shape != (count,) or array.dtype.kind not in "fiu":
            raise self._unexpected(f"a {name} of shape {array.shape} and {array.dtype} where {count} numbers belong")
        return np.asarray(array, np.float64)

    def _unexpected(self, got: str) -> ValueError:
        return check.error(
            f"the objective {self.objective!r} returned what is no set of derivatives", got=got, hint=_EXPECTED
        )


def _parameters(function: Callable[..., object]) -> Sequence[inspect.Parameter] | None:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # compiled functions may not tell
        return None


def _takes_stream(parameters: Sequence[inspect.Parameter] | None) -> bool:
    """Whether a function takes a fourth argument; one that does not tell is called with the first three."""
    if parameters is None:
        return False
    plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in parameters):
        return True
    return len([parameter for parameter in parameters if parameter.kind in plain]) > 3
