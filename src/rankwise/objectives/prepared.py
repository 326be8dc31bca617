"""Objectives that have seen the labels: a tree of dataclasses over lists, on the CPU or on a device.

Everything that does not depend on scores is computed once, in :meth:`Objective.prepare`. The nodes of the tree are
kernels with their arguments, and wrappers around them. Each fills the derivatives at some scores into arrays that its
caller owns. Selecting a mini-batch and moving to a device are maps over the fields of the tree.
"""

import functools
import typing
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib.util import find_spec
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array, Column, read_only
from rankwise.base.stream import Stream
from rankwise.base.threads import Kernel
from rankwise.data.columns import taken_by_objectives
from rankwise.objectives.ragged import (
    FIRST,
    Derivatives,
    DeviceKernel,
    RaggedLists,
    Random,
    Selection,
    Values,
    parameters,
)

PerDocument = Annotated[Values, "document"]
"""A field with one element per document, or none at all."""
PerQuery = Annotated[Values, "query"]
"""A field with one element per query."""

_DRAWS, _BITS = 8, 200  # of a total of gradients

KERNEL_DEVICES = {"cuda"}
"""The types of devices that there are kernels for, as in ``tensor.device.type``."""


class NoKernelWarning(UserWarning):
    """A loss on a device is computed on the CPU."""


class NoDeviceKernelError(LookupError):
    """A prepared objective that only the CPU can compute."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Prepared(ABC):
    """An objective that has seen the labels.

    A subclass is a frozen dataclass that defines :meth:`fill`. Its fields may be other prepared objectives, and columns
    that are annotated ``PerDocument`` or ``PerQuery``.
    """

    lists: RaggedLists

    @property
    def n_queries(self) -> int:
        """Number of queries."""
        return self.lists.n_queries

    @property
    def offsets(self) -> Values:
        """Where the documents of each query begin."""
        return self.lists.offsets

    @property
    def children(self) -> "tuple[Prepared, ...]":
        """The prepared objectives inside."""
        values = [getattr(self, field.name) for field in fields(self)]
        flat = [part for value in values for part in (value if isinstance(value, tuple) else (value,))]
        return tuple(part for part in flat if isinstance(part, Prepared))

    @property
    def own_numerator(self) -> bool:
        """Whether trees divide a numerator of its own instead of the gradient."""
        return any(child.own_numerator for child in self.children)

    def __call__(
        self, scores: Any, stream: Stream | None = None, *, hessian: bool = True, out: Derivatives | None = None
    ) -> Derivatives:
        """Return value, gradient and curvature at ``scores``; without ``hessian`` only value and gradient.

        ``out``, of :meth:`empty`, receives the result, so that a training loop allocates no memory.
        """
        out = self.empty(hessian=hessian) if out is None else out
        usable, flags = self.lists.checked_scores(scores)
        self.fill(usable, stream, out)
        self.lists.mark_invalid(flags, out)
        return out

    def empty(self, *, hessian: bool = True) -> Derivatives:
        """Return uninitialised arrays for the result of a call."""
        return self.lists.outputs(hessian=hessian, numerator=hessian and self.own_numerator)

    @abstractmethod
    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Fill the derivatives at finite scores; an empty Hessian and a numerator that is the gradient are left out."""

    def gradient_total(self, weights: Array | None = None, *, at: float | None = None) -> int:
        """Return Σ |gradient| at equal scores in units of 2^-200: totals of parts of the data add up exactly.

        ``weights`` are those of queries. With ``at`` it is Σ gradient where all scores are that number.
        Objectives that draw do so several times, with the same random numbers for every query, so that the total
        depends neither on ids nor on other queries.
        """
        lists, by_draw = self.lists, list[Array]()
        out, scores = self.empty(hessian=False), lists.empty_documents()
        scores[:] = at or 0.0
        for number in range(_DRAWS):
            self.fill(lists.as_argument(scores), Stream(0, number, np.zeros(self.n_queries, np.int64)), out)
            totals = lists.sums(abs(out.gradient) if at is None else out.gradient)
            by_query = np.asarray(totals.cpu() if hasattr(totals, "cpu") else totals, np.float64)
            by_draw.append(by_query if weights is None else by_query * weights)
            if number == 1 and np.array_equal(by_draw[0], by_draw[1]):
                by_draw *= _DRAWS // 2  # there is nothing random in it
                break
        return sum(int(total) for totals in by_draw for total in np.ldexp(totals, _BITS).tolist())

    def take(self, queries: ArrayLike) -> Self:
        """Return the same for some of the queries, by number: a mini-batch."""
        return self.select(self.lists.select(check.query_numbers(queries, self.n_queries)))

    def select(self, selection: Selection) -> Self:
        """Return the same for a selection of the queries."""

        def selected(value: Any, role: str) -> Any:
            if role == "document":
                return None if value is None else selection.per_document(value)
            if role == "query":
                return None if value is None else selection.per_query(value)
            if isinstance(value, RaggedLists):
                return selection.lists
            return value.select(selection) if isinstance(value, Prepared) else value

        part: Self = mapped(self, selected)
        return part

    def to(self, device: Any, dtype: Any = None) -> Self:
        """Return the same on a device, by torch's name; floating-point columns in a precision, single by default."""
        return self.move(self.lists.to(device, dtype))

    def move(self, lists: Any) -> Self:
        """Return the same on the device of ``lists``."""

        def moved(value: Any, _: str) -> Any:
            if isinstance(value, RaggedLists):
                return lists
            return value.move(lists) if isinstance(value, Prepared) else lists.column(value)

        copy: Self = mapped(self, moved)
        return copy


def mapped(node: Any, function: Callable[[Any, str], Any]) -> Any:
    """Return a dataclass or named tuple with ``function(value, role)`` for every field, and for fields of those."""
    changes = {}
    kind: Any = type(node)
    for name, role in _roles(kind).items():
        value = getattr(node, name)
        if isinstance(value, tuple) and not role:
            is_named = hasattr(value, "_fields")
            changes[name] = mapped(value, function) if is_named else tuple(function(part, "") for part in value)
        else:
            changes[name] = function(value, role)
    return node._replace(**changes) if hasattr(node, "_replace") else replace(node, **changes)


@functools.cache
def _roles(kind: type) -> dict[str, str]:
    """Return the fields of a dataclass or named tuple, with "document", "query" or nothing for each."""
    hints = typing.get_type_hints(kind, include_extras=True)
    names = [field.name for field in fields(kind)] if is_dataclass(kind) else kind._fields  # type: ignore[attr-defined]
    return {name: _role(hints.get(name)) for name in names}


def _role(hint: Any) -> str:
    if hasattr(hint, "__metadata__"):
        return str(hint.__metadata__[0])
    return next((role for role in map(_role, typing.get_args(hint)) if role), "")


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedKernel(Prepared):
    """A kernel with all its arguments but the scores.

    The kernel's parameters are ``first, last, offsets, scores``, then the fields of ``arguments`` by name, ``keys`` and
    ``queries`` if it draws random numbers, and ``value, gradient, hessian``, possibly ``numerator``. It fills every
    element of these outputs for the queries ``first`` to ``last``. A Hessian or numerator of size 0 is left out.
    """

    objective: object
    """The objective, for messages."""
    kernel: Kernel
    arguments: Any
    """A named tuple of the kernel's arguments beside the scores, on the CPU and on a device."""
    device_kernel: DeviceKernel = ""
    """The same computation on a device: a launch, or ``"package.module:function"``."""
    streams: Callable[[Stream], Sequence[Stream]] | None = None
    """The streams whose keys the kernel draws with, if it draws."""
    numerator: bool = False
    """Whether the kernel's numerator is to be used."""
    curvature: str = ""
    """Treatment of the Hessian (``cpu.py``)."""
    work: Annotated[Column | None, "query"] = None
    """The cost of each query on the CPU, as :func:`rankwise.base.threads.over_queries` counts it."""

    def __post_init__(self) -> None:
        kind: Any = type(self.arguments)
        _check_parameters(self.kernel, kind)

    @property
    def own_numerator(self) -> bool:
        """Whether the kernel's numerator is used."""
        return self.numerator

    def fill(self, scores: Values, stream: Stream | None, out: Derivatives) -> None:
        """Run the kernel."""
        random: Random | None = None
        if self.streams is not None:
            stream = require_stream(stream, self.objective)
            random = self.lists.random(stream, self.streams(stream))
        separate = out.numerator is not out.gradient
        kernel_out = out if separate and self.numerator else out._replace(numerator=None)
        self.lists.run(self.kernel, self.device_kernel, scores, self.arguments, random, kernel_out, self.work)
        if len(out.hessian) and self.curvature:
            self.lists.replace_curvature(self.curvature, out)
        if separate and not self.numerator:
            out.numerator[:] = out.gradient

    def with_arguments(self, **changes: Any) -> Self:
        """Return the same with other arguments."""
        return replace(self, arguments=self.arguments._replace(**changes))

    def move(self, lists: Any) -> Self:
        """Return the same on the device of ``lists``."""
        if not self.device_kernel:
            raise NoDeviceKernelError(self.objective)
        return replace(super().move(lists), work=None)


@functools.cache
def _check_parameters(kernel: Any, arguments: Any) -> None:
    """Raise if the parameters of a kernel are not the fields of its arguments, in their order."""
    expected = (*FIRST, *arguments._fields)
    names = parameters(kernel)
    outputs = tuple(name for name in names[len(expected) :] if name not in ("keys", "queries"))
    every = Derivatives._fields
    if names[: len(expected)] != expected or outputs not in (every, every[:-1]):
        raise TypeError(
            f"{getattr(kernel, '__name__', kernel)} must have the parameters {', '.join(expected)}[, keys, queries], "
            f"value, gradient, hessian[, numerator]: got {', '.join(names)}"
        )


def require_stream(stream: Stream | None, who: object) -> Stream:
    """Return the stream of an objective that draws, or raise if there is none."""
    if stream is None:
        raise check.error(
            f"{who} draws random numbers and needs a stream",
            got="None",
            hint="pass stream=rw.Stream(seed, round, query_ids)",
        )
    return stream


@functools.cache
def _has_triton() -> bool:
    return find_spec("triton") is not None


def has_kernels(device: str) -> bool:
    """Whether there are kernels for a type of device, by torch's name, and Triton, which they are written in."""
    return device in KERNEL_DEVICES and _has_triton()


def checked_lists(labels: Values, offsets: Any) -> tuple[Values, RaggedLists]:
    """Return checked labels and their lists; an error names the query.

    Tensors on a device with kernels stay there. ``offsets`` may be lists already.
    """
    if isinstance(offsets, RaggedLists):
        return labels, offsets
    device = getattr(getattr(labels, "device", None), "type", "")
    if device and has_kernels(device):
        from rankwise.objectives.device import DeviceLists  # torch and Triton, which the CPU does without

        return DeviceLists.checked_labels(labels, offsets)
    checked = check.offsets(offsets, int(np.size(labels)))
    return read_only(check.labels(labels, checked)), RaggedLists(read_only(checked))


def reject_columns(who: object, columns: Mapping[str, ArrayLike], accepted: tuple[str, ...] = ()) -> None:
    """Raise if a column of documents is not among those that an objective accepts."""
    for name in columns:
        if name not in accepted:
            hints = ", ".join(f"{column.name} go to {column.objectives}" for column in taken_by_objectives())
            raise check.error(f"{who} takes no {name}", hint=f"leave it out; {hints}")


def required(who: Any, columns: Mapping[str, ArrayLike], what: str, role: str, otherwise: str = "") -> ArrayLike:
    """Return the column that an objective needs, of a role; raise where the data have none."""
    (name,) = who.needs
    if name not in columns:
        hint = f"`set {role}=…`, the column that holds them, where the data are read"
        hint += f", or {otherwise}" if otherwise else ""
        raise check.error(f"{who.name} needs {what}", got=f"data without {name}", hint=hint)
    return columns[name]


def document_weights(columns: Mapping[str, ArrayLike], lists: RaggedLists) -> Values:
    """Return the checked weights of documents; an empty column if there are none."""
    weights = columns.get("document_weights")
    return lists.none if weights is None else lists.checked("document_weights", weights)
