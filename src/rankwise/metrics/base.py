"""What every metric stands on: gains, discounts, the ideal, and a metric as a value that parses, prints and is called.

The kernels of the metrics are in the files of their families and the order of documents is in ``order.py``. A kernel
handles queries ``first`` to ``last`` and writes one number per query: NaN for a query that is skipped, +inf where the
input is broken, which is then looked for and named. So correct input is read only once.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Self

import numba
import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, grammar
from rankwise.metrics.order import AVERAGE, BEST, ROW, TIES, WORST, group_end, order, ranking
from rankwise.threads import over_queries

__all__ = ["AVERAGE", "BEST", "ROW", "TIES", "WORST", "group_end", "order", "ranking"]

Gain = str | tuple[float, ...]

EXPONENTIAL, LINEAR, TABLE, BINARY = 0, 1, 2, 3
NO_CUTOFF = 2**62
_GRADES = 16

_POWERS = 2.0 ** np.arange(64) - 1.0
_discounts = np.empty(0)
_growing = threading.Lock()


def discounts(n: int) -> NDArray[np.float64]:
    """The discount 1/log2(1 + r) of ranks 1 to n, from a table that is made once and grows as needed.

    >>> discounts(3).round(4)
    array([1.    , 0.6309, 0.5   ])
    """
    global _discounts  # noqa: PLW0603
    with _growing:
        if _discounts.size < n:
            table = 1.0 / np.log2(np.arange(2.0, max(n, 2 * _discounts.size, 1024) + 2.0))
            table.flags.writeable = False
            _discounts = table
        return _discounts[:n]


def gain_rule(gain: Gain) -> tuple[int, NDArray[np.float64]]:
    """The code and the table by which kernels turn labels into gains: see :func:`fill_worths`."""
    if gain == "exponential":
        return EXPONENTIAL, _POWERS
    if gain == "linear":
        return LINEAR, _POWERS
    return TABLE, np.array(gain, np.float64)


def relevance_rule(relevant: float) -> tuple[int, NDArray[np.float64]]:
    """The code and the table by which kernels turn labels into 1 (label ≥ relevant) or 0."""
    return BINARY, np.array([relevant], np.float64)


def gains(labels: ArrayLike, gain: Gain = "exponential") -> NDArray[np.float64]:
    """The gain of each label: 2^y − 1 ("exponential"), y ("linear") or ``gain[y]`` (a table, for whole labels).

    >>> gains([0, 1, 2.5]).round(4)
    array([0.    , 1.    , 4.6569])
    >>> gains([0, 1, 2], (0, 3, 9))
    array([0., 3., 9.])
    """
    array = np.asarray(labels, np.float64)
    out = np.empty(array.size)
    rule, table = gain_rule(checked_gain(gain))
    if not fill_worths(array, rule, table, out):
        raise bad_label(array, np.array([0, array.size]), gain)
    return out


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_worths(labels, rule, table, out):  # type: ignore[no-untyped-def]
    """Write what each label is worth under a rule, and tell whether every label had a worth."""
    fine = True
    if rule == EXPONENTIAL:
        for i in range(labels.size):
            label = labels[i]
            if 0.0 <= label < 64.0 and label == np.floor(label):
                worth = table[np.int64(label)]
            else:
                worth = 2.0**label - 1.0
            out[i] = worth
            fine &= 0.0 <= worth < np.inf
    elif rule == LINEAR:
        for i in range(labels.size):
            out[i] = labels[i]
            fine &= 0.0 <= labels[i] < np.inf
    elif rule == TABLE:
        for i in range(labels.size):
            label = labels[i]
            known = 0.0 <= label < table.size and label == np.floor(label)
            out[i] = table[np.int64(label) if known else 0]
            fine &= known
    else:
        for i in range(labels.size):
            out[i] = 1.0 if labels[i] >= table[0] else 0.0
            fine &= 0.0 <= labels[i] < np.inf
    return fine


@numba.njit(cache=True, nogil=True, error_model="numpy")
def clean(scores):  # type: ignore[no-untyped-def]
    """Whether no score is NaN or +inf."""
    fine = True
    for score in scores:
        fine &= score < np.inf
    return fine


@numba.njit(cache=True, nogil=True, error_model="numpy")
def ideal(worths, weights, cutoff):  # type: ignore[no-untyped-def]
    """Σ over ranks up to the cutoff of weight times worth, the documents being in descending order of worth."""
    # Most data has few grades: count each, highest first. Otherwise sort.
    values, counts = np.empty(_GRADES), np.empty(_GRADES, np.int64)
    grades = 0
    for worth in worths:
        if worth <= 0.0:
            continue
        at = 0
        while at < grades and values[at] > worth:
            at += 1
        if at < grades and values[at] == worth:
            counts[at] += 1
            continue
        if grades == _GRADES:
            ordered = np.sort(worths)[::-1]
            total = 0.0
            for rank in range(min(cutoff, ordered.size)):
                total += weights[rank] * ordered[rank]
            return total
        for later in range(grades, at, -1):
            values[later], counts[later] = values[later - 1], counts[later - 1]
        values[at], counts[at] = worth, 1
        grades += 1
    total, rank = 0.0, 0
    for at in range(grades):
        for _ in range(min(counts[at], cutoff - rank)):
            total += weights[rank] * values[at]
            rank += 1
    return total


@dataclass(frozen=True, kw_only=True, repr=False)
class Metric:
    """A metric is a value: it compares, prints as the text that makes it, and is called with scores.

    ``metric(scores, labels, offsets)`` gives one number per query, NaN where the query is skipped. A score of −inf
    means that the document was not retrieved: it has no rank, but counts among the relevant ones and in the ideal.
    """

    name: ClassVar[str]
    """What the metric is called in texts."""

    cutoff: int | None = None
    """Only ranks up to this one count; None counts all."""
    ties: str = "average"
    """Documents with equal scores: "average" over their orders (exact), in "row" order, or the "worst" or "best" order."""
    empty: str | int = "skip"
    """Worth of a query without relevant documents: "skip" (NaN, left out of means), 0 or 1."""

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", check.integer("cutoff", self.cutoff, least=1))
        check.choice("way to treat ties", self.ties, TIES)
        if isinstance(self.empty, bool) or self.empty not in ("skip", 0, 1):
            raise check.error("the worth of an empty query must be skip, 0 or 1", got=repr(self.empty))

    def __call__(self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike) -> NDArray[np.float64]:
        """One number per query."""
        n_docs = np.asarray(labels).size
        starts = _read_only(check.offsets(offsets, n_docs))
        given = _column(scores, starts, check.scores), _column(labels, starts, check.labels)
        out = np.empty(starts.size - 1)
        longest = int(np.diff(starts).max(initial=0))
        cutoff = NO_CUTOFF if self.cutoff is None else self.cutoff
        empty = np.nan if self.empty == "skip" else float(self.empty)
        kernel, *own = self._kernel(longest)
        over_queries(kernel, starts, *given, cutoff, TIES[self.ties], *own, empty, out)
        if np.isposinf(out).any():
            check.scores(given[0], starts)
            raise self._bad_label(given[1], starts)
        return out

    def __matmul__(self, cutoff: int) -> Self:
        """``metric @ 10`` is the metric with a cutoff of 10."""
        return replace(self, cutoff=cutoff)

    def __str__(self) -> str:
        shared = tuple(field.name for field in fields(Metric))
        own = tuple(field.name for field in fields(self) if field.name not in shared)
        parts = [grammar.arguments(self, leave_out=shared), grammar.arguments(self, leave_out=(*own, "cutoff"))]
        options = ", ".join(filter(None, parts))
        return self.name + (f"({options})" if options else "") + (f"@{self.cutoff}" if self.cutoff else "")

    __repr__ = __str__

    def _kernel(self, longest: int) -> tuple[Any, ...]:
        """The kernel, and the arguments of its own for lists of up to ``longest`` documents."""
        raise NotImplementedError

    def _bad_label(self, labels: NDArray[np.float64], offsets: NDArray[np.int64]) -> ValueError:
        """Say what is wrong with a label that has no worth."""
        return bad_label(labels, offsets, getattr(self, "gain", "linear"))


def checked_gain(gain: object) -> Gain:
    """Check a gain: one of the two words, or a table of numbers by label."""
    if isinstance(gain, str):
        return check.choice("gain", gain, ("exponential", "linear"))
    if not isinstance(gain, Sequence | np.ndarray) or not len(gain):
        cure = "write exponential, linear, or a table such as (0, 1, 3, 7)"
        raise check.error("gain must be a word or a table of numbers by label", got=repr(gain), cure=cure)
    return tuple(check.number("a gain in the table", value, least=0.0, most=1e300) for value in gain)


def bad_label(labels: NDArray[np.float64], offsets: NDArray[np.int64], gain: Gain) -> ValueError:
    """Say which label has no gain, and why."""
    check.labels(labels, offsets)
    whole = labels == np.floor(labels)
    bad = labels >= 1024 if isinstance(gain, str) else ~(whole & (labels < len(gain)))
    row = int(np.argmax(bad))
    where, got = check.query_of_row(row, offsets), f"{labels[row]:g}"
    if isinstance(gain, str):
        return check.error("a label is too large for the gain 2^y - 1", got=got, where=where, cure="use gain=linear")
    if not whole[row]:
        return check.error("a gain table needs whole labels", got=got, where=where, cure="use gain=exponential or linear")
    what = f"a label is beyond the gain table, which ends at {len(gain) - 1}"
    return check.error(what, got=got, where=where, cure="give the table one more number for each higher label")


def _column(
    values: ArrayLike, offsets: NDArray[np.int64], full_check: Callable[..., NDArray[np.float64]]
) -> NDArray[np.float64]:
    """One float64 per document; values of the right form are looked at by the kernel, others here."""
    array = np.asarray(values)
    if array.dtype != np.float64 or array.shape != (offsets[-1],):
        array = full_check(array, offsets)
    return _read_only(np.ascontiguousarray(array))


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    # Numba compiles once more for writable arrays; this way there is one compiled form of each kernel.
    array = array.view()
    array.flags.writeable = False
    return array
