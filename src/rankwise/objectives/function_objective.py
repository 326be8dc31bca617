"""A user's own function as an objective.

``f(scores, labels, offsets)`` or ``f(scores, labels, offsets, stream)`` may return :class:`Derivatives`,
``(value, gradient, hessian)`` or ``(gradient, hessian)``. A function of torch, which does not take arrays, is called
with tensors and returns the loss of each query; autograd gives its gradient, and |gradient| stands for the Hessian.
"""

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.base.stream import Stream
from rankwise.language import registry
from rankwise.metrics.base import Metric
from rankwise.objectives.base import Objective
from rankwise.objectives.prepared import NoDeviceKernelError, PerDocument, Prepared, checked_lists, reject_columns
from rankwise.objectives.ragged import Derivatives, Selection, Values

_EXPECTED = (
    "return Derivatives(value, gradient, hessian, numerator), (value, gradient, hessian) or (gradient, hessian): one "
    "value per query, one gradient and one Hessian per document; or, of tensors, a tensor with the loss of each query"
)
_NO_HESSIAN = (
    "return (value, gradient, hessian); where there is no second derivative, np.ones_like(scores) makes plain gradient "
    "steps, and np.abs(gradient) larger ones"
)


def as_objective(thing: object, wrapper: str = "") -> Objective:
    """Return an objective, or a function as one; an error names the ``wrapper`` around it.

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
        hint="write rw.objectives.XENDCG(), rw.objective('xendcg'), or a function f(scores, labels, offsets)",
    )


@dataclass(frozen=True, repr=False)
class Adapted(Objective):
    """A function as an objective."""

    function: Callable[..., object]

    @property
    def exact_hessian(self) -> bool:
        """The attribute of the function, or False."""
        return bool(getattr(self.function, "exact_hessian", False))

    @property
    def estimator(self) -> bool:
        """The attribute of the function, or False."""
        return bool(getattr(self.function, "estimator", False))

    @property
    def accepts(self) -> tuple[str, ...]:
        """Rewards of documents, where the function has such a parameter."""
        return ("document_rewards",) if "document_rewards" in (self._parameters or ()) else ()

    @property
    def _parameters(self) -> Mapping[str, inspect.Parameter] | None:
        try:
            return inspect.signature(self.function).parameters
        except (TypeError, ValueError):  # compiled functions may have no signature
            return None

    def prepare(self, labels: ArrayLike, offsets: ArrayLike, **columns: ArrayLike) -> Prepared:
        """Check the labels, and inspect the parameters of the function: one with a fourth is called with the stream."""
        checked, lists = checked_lists(labels, offsets)
        streamed, parameters = False, self._parameters
        if parameters is not None:
            kinds = [parameter.kind for parameter in parameters.values()]
            if inspect.Parameter.VAR_KEYWORD not in kinds:
                reject_columns(self, columns, tuple(parameters))
            plain = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
            streamed = inspect.Parameter.VAR_POSITIONAL in kinds or sum(map(kinds.count, plain)) > 3
        further = {name: lists.checked(name, values) for name, values in columns.items()}
        return _PreparedFunction(lists=lists, objective=self, labels=checked, columns=further, streamed=streamed)

    def __repr__(self) -> str:
        name = registry.name_of(self.function) or getattr(self.function, "__name__", None)
        return str(name) if name else repr(self.function)


def _wants_tensors(wrong: Exception) -> bool:
    """Whether a function failed because it was called with arrays where it needs tensors of torch."""
    return "torch" in sys.modules and ("Tensor" in str(wrong) or "'numpy.ndarray' object has no" in str(wrong))


@dataclass(frozen=True, kw_only=True, eq=False)
class _PreparedFunction(Prepared):
    objective: Adapted
    labels: PerDocument
    columns: dict[str, Array]
    streamed: bool

    @property
    def own_numerator(self) -> bool:
        """True, as a function may return one."""
        return True

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Call the function, and copy its result."""
        random = (stream,) if self.streamed else ()
        arguments = scores, self.labels, self.offsets, *random
        try:
            result = self.objective.function(*arguments, **self.columns)
        except (TypeError, AttributeError) as wrong:
            if not _wants_tensors(wrong):
                raise
            value, gradient = self._by_autograd(*arguments)
            result = value, gradient, np.abs(gradient)
        parts = list(result) if isinstance(result, tuple | list) else []
        if len(parts) == 2 and np.shape(parts[0]) == (self.n_queries,) != np.shape(parts[1]):
            what = f"the objective {self.objective!r} returned no Hessian"
            raise check.error(what, got="one value per query and a gradient", hint=_NO_HESSIAN)
        if len(parts) == 2:
            parts.insert(0, np.full(self.n_queries, np.nan))  # a function without a value
        if len(parts) == 3:
            parts.append(parts[1])
        if len(parts) != 4:
            raise self._unexpected(f"{type(result).__name__}" + (f" of {len(parts)}" if parts else ""))
        out.value[:] = self._column("value", parts[0])
        out.gradient[:] = self._column("gradient", parts[1])
        if len(out.hessian):
            out.hessian[:] = self._column("hessian", parts[2])
        if out.numerator is not out.gradient:
            out.numerator[:] = self._column("numerator", parts[3])

    def _by_autograd(self, scores: Values, labels: Array, offsets: Array, *random: object) -> tuple[Array, Array]:
        """Call a function of torch with tensors; return the loss of each query, and its gradient."""
        import torch

        leaf = torch.from_numpy(np.array(scores, np.float64)).requires_grad_()
        columns = {name: torch.from_numpy(np.array(column)) for name, column in self.columns.items()}
        rest = (torch.from_numpy(np.array(one)) for one in (labels, offsets))
        with torch.enable_grad():
            loss = self.objective.function(leaf, *rest, *random, **columns)
        if not isinstance(loss, torch.Tensor) or loss.shape != (self.n_queries,) or not loss.requires_grad:
            got = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, torch.Tensor) else type(loss).__name__
            raise self._unexpected(f"{got} where {self.n_queries} losses belong, one per query, computed from scores")
        (gradient,) = torch.autograd.grad(loss.sum(), leaf)
        return loss.detach().numpy(), gradient.numpy()

    def select(self, selection: Selection) -> Self:
        """Return the function with the lists of these queries."""
        columns = {name: selection.per_document(column) for name, column in self.columns.items()}
        return replace(super().select(selection), columns=columns)

    def move(self, lists: object) -> NoReturn:
        """Raise, as a function of arrays is computed on the CPU."""
        raise NoDeviceKernelError(self.objective)

    def _column(self, name: str, values: ArrayLike) -> Array:
        array = np.asarray(values)
        count = self.n_queries if name == "value" else int(self.offsets[-1])
        if array.shape != (count,) or array.dtype.kind not in "fiu":
            raise self._unexpected(f"a {name} of shape {array.shape} and {array.dtype} where {count} numbers belong")
        return np.asarray(array, np.float64)

    def _unexpected(self, got: str) -> ValueError:
        return check.error(f"the objective {self.objective!r} did not return derivatives", got=got, hint=_EXPECTED)
