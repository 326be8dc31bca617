"""Ragged lists on the CPU: the ranges of queries in flat arrays, and the arithmetic of prepared objectives.

``device.py`` has the same operations for tensors on a GPU, so that every wrapper is written once, for both.
"""

import functools
import inspect
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base.arrays import NONE, UNWANTED, Array, Offsets, empty_apart, read_only, rows_of
from rankwise.base.stream import Stream
from rankwise.base.threads import Kernel, over_queries
from rankwise.metrics.gains import Gain, Ideal, gain_shares, gains_and_ideal
from rankwise.objectives import cpu

Values = Any
"""A NumPy array, or a torch tensor on a device."""


class Derivatives(NamedTuple):
    """Loss and derivatives at a set of scores: arrays, or tensors on a device."""

    value: Values
    """(n_queries,) loss of each query, minimised."""
    gradient: Values
    """(n_docs,) d value / d score."""
    hessian: Values
    """(n_docs,) diagonal of the second derivative, or its replacement (see ``exact_hessian``); empty if left out."""
    numerator: Values
    """(n_docs,) what trees divide by the Hessian; the gradient itself unless there is a better Newton step."""

    @property
    def columns(self) -> tuple[Values, ...]:
        """The distinct arrays of documents: gradient, Hessian unless it was left out, numerator if it is another."""
        columns = (self.gradient,) if len(self.hessian) == 0 else (self.gradient, self.hessian)
        return columns if self.numerator is self.gradient else (*columns, self.numerator)

    def scale(self, value: float, first: float, second: float) -> None:
        """Multiply values, first derivatives and second derivatives by a number each, in place."""
        first_order = (self.gradient,) if self.numerator is self.gradient else (self.gradient, self.numerator)
        for factor, arrays in ((value, (self.value,)), (first, first_order), (second, (self.hessian,))):
            for array in arrays if factor != 1.0 else ():
                array *= factor


class Random(NamedTuple):
    """The arguments that a kernel draws random numbers with."""

    keys: Values
    """The keys of its streams."""
    queries: Values
    """The counter word of each query."""


Launch = Callable[..., None]
"""A kernel's launch on a device: ``launch(lists, scores, arguments, random, out)``."""
DeviceKernel = str | Launch
"""A launch, or its address ``"package.module:function"``, imported at first use; empty for none."""
FIRST = ("first", "last", "offsets", "scores")
"""The first parameters of every kernel."""
NO_RANDOM = Random(read_only(np.zeros(1, np.uint64)), read_only(np.empty(0, np.uint64)))
"""The arguments of a kernel that can draw, for calls without draws."""


class RaggedLists:
    """The documents of queries as ranges of flat arrays."""

    device: Any = None
    """torch's device, None for the CPU."""
    none: Any = NONE
    """A column without elements."""
    unwanted: Any = UNWANTED
    """An output without elements."""

    def __init__(self, offsets: Values) -> None:
        self.offsets = offsets
        self.n_queries, self.n_docs = int(offsets.size - 1), int(offsets[-1])

    @cached_property
    def sizes(self) -> Values:
        """Number of documents of each query."""
        return self.offsets[1:] - self.offsets[:-1]  # np.diff takes several times as long for a few queries

    @cached_property
    def longest(self) -> int:
        """An upper bound of the sizes, and of 1."""
        return int(self.sizes.max(initial=1))

    # Operations of `prepare`.

    def empty_documents(self, *, integer: bool = False) -> Values:
        """Return an uninitialised column of documents: floating-point numbers, or 32-bit integers."""
        return np.empty(self.n_docs, np.int32) if integer else empty_apart(self.n_docs)

    def empty_queries(self, *, integer: bool = False) -> Values:
        """Return an uninitialised column of queries: floating-point numbers, or 32-bit integers."""
        return np.empty(self.n_queries, np.int32 if integer else np.float64)

    def sums(self, values: Values) -> Values:
        """Sum one number per document over each query."""
        return np.add.reduceat(values, self.offsets[:-1]) if values.size else np.zeros(self.n_queries)

    def minima(self, values: Values) -> Values:
        """Return the least number of each query's documents."""
        return np.minimum.reduceat(values, self.offsets[:-1]) if values.size else np.zeros(self.n_queries)

    def to_documents(self, values: Values) -> Values:
        """Return the value of its query for each document."""
        return np.repeat(values, self.sizes)

    def floats(self, values: Values) -> Values:
        """Return integers or truth values as floating-point numbers."""
        return values.astype(np.float64)

    def positive_or_one(self, values: Values) -> Values:
        """Return values, with 1 for those that are not positive, to divide by."""
        return np.where(values > 0.0, values, 1.0)

    def order(self, keys: Values) -> Values:
        """Return the documents of each query from the highest key to the lowest, numbered from 0; ties in row order."""
        rows = self.empty_documents(integer=True)
        over_queries(cpu.order, self.offsets, read_only(keys), rows)
        return read_only(rows)

    def table(self, function: Callable[..., Array], *arguments: Any) -> Values:
        """Return ``function(*arguments, longest)``, a table that is the same for all queries."""
        return read_only(function(*arguments, self.longest))

    def gains_and_ideal(self, labels: Values, gain: Gain = "exponential", cutoff: int | None = None) -> Ideal:
        """Return the gain of each document and the ideal DCG of each query."""
        return gains_and_ideal(labels, self.offsets, gain, cutoff)

    def gain_shares(self, labels: Values, gain: Gain = "exponential", cutoff: int | None = None) -> Values:
        """Return the gain of each document over the ideal DCG of its query."""
        return gain_shares(labels, self.offsets, gain, cutoff)

    def checked(self, name: str, values: ArrayLike) -> Values:
        """Return a column of documents, such as ``"teacher_scores"``, after checking it."""
        checks = {"labels": check.labels, "document_weights": check.document_weights}
        checks["teacher_scores"] = check.teacher_scores
        check_values = checks.get(name, functools.partial(check.document_values, name.replace("_", " ")))
        return read_only(check_values(values, self.offsets))

    def column(self, values: Array) -> Values:
        """Return an array as a column of these lists: on a device a copy, floating-point numbers in its precision."""
        return values

    # Operations of `fill`.

    def checked_scores(self, scores: Values) -> tuple[Values, Values]:
        """Return checked scores as read-only float64, and the flags of :meth:`mark_invalid`."""
        array = np.asarray(scores)
        # The extremes are a quick check (no comparison holds for NaN). Not a product of arrays: BLAS's threads go on
        # spinning after it, and keep a core from the tree learner.
        plain = array.dtype == np.float64 and array.shape == (self.n_docs,) and array.size > 0
        with np.errstate(invalid="ignore"):
            fine = plain and array.min() > -check.LARGEST_SCORE and array.max() < check.LARGEST_SCORE
        return read_only(array if fine else check.loss_scores(array, self.offsets)), None

    def mark_invalid(self, flags: Values, out: Derivatives) -> None:
        """Do nothing: scores that are not finite were rejected; on a device they make the values NaN."""

    def outputs(self, *, hessian: bool, numerator: bool) -> Derivatives:
        """Return uninitialised columns for derivatives; without ``numerator`` that is the gradient's."""
        gradient = self.empty_documents()
        diagonal = self.empty_documents() if hessian else self.unwanted
        return Derivatives(self.empty_queries(), gradient, diagonal, self.empty_documents() if numerator else gradient)

    def outputs_like(self, out: Derivatives) -> Derivatives:
        """Return uninitialised arrays of the same form, for a part of a sum."""
        return self.outputs(hessian=len(out.hessian) > 0, numerator=out.numerator is not out.gradient)

    def random(self, stream: Stream, streams: Sequence[Stream]) -> Random:
        """Return the keys of some streams, and the words of the queries of ``stream``."""
        keys = np.array([each.key for each in streams], np.uint64)
        return Random(read_only(keys), read_only(stream.queries(self.n_queries)))

    def run(
        self, kernel: Kernel, device_kernel: DeviceKernel, scores: Values, arguments: Any, random: Random | None,
        out: Any, work: Values | None = None,
    ) -> None:  # fmt: skip
        """Run a kernel over all queries: the first on the CPU, the second on a device."""
        count = len(parameters(kernel)) - len(FIRST) - len(arguments)
        draws: tuple[Values, ...] = ()
        if "keys" in parameters(kernel):
            draws, count = NO_RANDOM if random is None else random, count - len(NO_RANDOM)
        outputs = [UNWANTED if output is None else output for output in out[:count]]
        over_queries(kernel, self.offsets, scores, *arguments, *draws, *outputs, work=work)

    def as_argument(self, values: Values) -> Values:
        """Return values in the form that kernels take: Numba would compile once more for an array that is writable."""
        return read_only(values)

    def replace_curvature(self, treatment: str, out: Derivatives) -> None:
        """Replace the Hessian by one that Newton's method can use (``cpu.py``)."""
        if treatment in cpu.TREATMENTS:
            over_queries(
                cpu.replace_curvature, self.offsets, cpu.TREATMENTS.index(treatment), out.gradient, out.hessian
            )

    def add(self, out: Derivatives, factor: float, part: Derivatives) -> None:
        """Add ``factor`` times the derivatives of a part."""
        for total, array in zip((out.value, *out.columns), (part.value, *part.columns), strict=True):
            total += array if factor == 1.0 else factor * array

    def chain(self, out: Derivatives, first: Values, second: Values | None = None) -> None:
        """Apply a map φ of each query's value to its derivatives: g' = φ'·g and h' = φ'·h + φ''·g²."""
        seconds = UNWANTED if second is None or not second.any() else second
        numerator = UNWANTED if out.numerator is out.gradient else out.numerator
        over_queries(
            cpu.chain, self.offsets, read_only(first), read_only(seconds), out.gradient, out.hessian, numerator
        )

    def noisy(
        self, scores: Values, stream: Stream, samples: int, *, scale: float, temperature: float, noise: str
    ) -> Iterator[Values]:
        """Yield (scores + scale · noise) / temperature for each sample, in the same memory."""
        noisy, queries = empty_apart(self.n_docs), read_only(stream.queries(self.n_queries))
        settings = (cpu.NOISES.index(noise), float(scale), 1.0 / float(temperature), read_only(scores), noisy)
        for child in noise_streams(stream, samples):
            over_queries(cpu.perturb, self.offsets, child.key, queries, *settings)
            yield read_only(noisy)

    def gather(
        self, copies: "Selection", copy_offsets: Offsets, weights: Values, part: Derivatives, out: Derivatives
    ) -> None:
        """Sum the weighted derivatives of the copies of each query, which follow each other."""
        out.value[:] = np.bincount(copies.queries, weights * part.value, self.n_queries)
        factors = copies.lists.to_documents(weights)
        rows = np.arange(self.n_docs)[copies.rows]
        for total, array in zip(out.columns, part.columns, strict=True):
            total[:] = np.bincount(rows, factors * array, self.n_docs)

    def totals(self, values: Values, places: Values, count: int) -> Array:
        """Sum one number per document over all documents of each of ``count`` places, whatever their query."""
        return np.asarray(np.bincount(places, values, count), np.float64)

    # Selections and devices.

    def select(self, queries: NDArray[np.int64]) -> "Selection":
        """Return some of the queries, by number; one may occur several times."""
        rows, offsets = rows_of(queries, self.offsets)
        return Selection(RaggedLists(read_only(offsets)), queries, rows, queries)

    def to(self, device: Any, dtype: Any) -> Self:
        """Return the same lists on a device, with derivatives in a precision."""
        from rankwise.objectives.device import DeviceLists  # torch and Triton, which the CPU does without

        return DeviceLists.at(self.offsets, self.n_docs, device, dtype)  # type: ignore[return-value]


def noise_streams(stream: Stream, samples: int) -> list[Stream]:
    """Return the streams of the noise of each sample."""
    return [stream.child("noise", sample) for sample in range(samples)]


def draw_streams(stream: Stream) -> list[Stream]:
    """Return the streams of places, retries and strata of drawn rankings."""
    return [stream.child(purpose) for purpose in ("place", "retry", "strata")]


@functools.cache
def parameters(kernel: Any) -> tuple[str, ...]:
    """Return the names of a kernel's parameters."""
    return tuple(inspect.signature(getattr(kernel, "py_func", kernel)).parameters)


class Selection(NamedTuple):
    """Some of the queries of lists."""

    lists: RaggedLists
    """Their documents, numbered anew."""
    queries: NDArray[np.int64]
    """Their numbers, on the host."""
    rows: Values
    """The rows of their documents: a slice or an array."""
    numbers: Values
    """Their numbers, where the lists are."""

    def per_document(self, column: Values) -> Values:
        """Return their documents' part of a column; one that is empty stays so."""
        return self.lists.as_argument(column[self.rows]) if len(column) else column

    def per_query(self, column: Values) -> Values:
        """Return their part of a column of queries."""
        return self.lists.as_argument(column[self.numbers])
