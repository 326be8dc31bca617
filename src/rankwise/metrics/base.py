"""What every metric stands on: gains, discounts, the ideal, and a metric as a value that parses, prints and is called.

The kernels of the metrics are in the files of their families and the order of documents is in ``order.py``. A kernel
handles queries ``first`` to ``last`` and writes one number per query: NaN for a query that is skipped, +inf where the
input is broken, which is then looked for and named. So correct input is read only once.
"""

import functools
import math
import threading
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check, grammar
from rankwise.arrays import Array, read_only
from rankwise.compiling import kernel
from rankwise.metrics.contract import Metric
from rankwise.metrics.order import AVERAGE, BEST, ROW, TIES, WORST, group_end, order, ranking, scratch_for, sort_down
from rankwise.threads import Kernel, over_queries

__all__ = ["AVERAGE", "BEST", "ROW", "TIES", "WORST", "Metric", "group_end", "order", "ranking", "scratch_for"]

Gain = str | tuple[float, ...]
Call = tuple[Kernel, *tuple[object, ...]]
"""A kernel, and arguments of its own."""

EXPONENTIAL, LINEAR, BINARY, NONE = 0, 1, 2, 3
NO_CUTOFF = 2**40

GRADES = 16
"""Whole labels below this are looked up."""
_TOO_MUCH = 1e300  # gains must leave room to be added up
_discounts = np.empty(0)
_growing = threading.Lock()


def discounts(n: int) -> NDArray[np.float64]:
    """Give the discount 1/log2(1 + r) of ranks 1 to n, from a table that is made once and grows as needed.

    >>> discounts(3).round(4)
    array([1.    , 0.6309, 0.5   ])
    """
    global _discounts
    with _growing:
        if _discounts.size < n:
            table = 1.0 / np.log2(np.arange(2.0, max(n, 2 * _discounts.size, 1024) + 2.0))
            table.flags.writeable = False
            _discounts = table
        return _discounts[:n]


class Rule(NamedTuple):
    """What labels are worth, in the form kernels take: by table for whole labels, by formula for others."""

    formula: int
    """EXPONENTIAL, LINEAR, BINARY (1 from ``threshold`` on, else 0), or NONE: a label outside the table is an error."""
    threshold: float
    table: NDArray[np.float64]
    """The worth of labels 0, 1, 2, …"""
    descending: NDArray[np.int64]
    """The labels of the table from the highest worth to the lowest."""


@functools.cache
def gain_rule(gain: Gain) -> Rule:
    """Give the rule of a gain: 2^y − 1, y, or a table."""
    grades = np.arange(GRADES, dtype=np.float64)
    if gain == "exponential":
        return _rule(EXPONENTIAL, 2.0**grades - 1.0)
    return _rule(LINEAR, grades) if gain == "linear" else _rule(NONE, np.array(gain, np.float64))


@functools.cache
def relevance_rule(relevant: float) -> Rule:
    """Give the rule that labels from ``relevant`` on are worth 1 and others 0."""
    return _rule(BINARY, (np.arange(GRADES) >= relevant).astype(np.float64), relevant)


def _rule(formula: int, table: NDArray[np.float64], threshold: float = 0.0) -> Rule:
    return Rule(formula, float(threshold), read_only(table), read_only(np.argsort(-table, kind="stable")))


def gains(labels: ArrayLike, gain: Gain = "exponential") -> NDArray[np.float64]:
    """Turn labels into gains: 2^y − 1 ("exponential"), y ("linear") or ``gain[y]`` (a table, for whole labels).

    >>> gains([0, 1, 2.5]).round(4)
    array([0.    , 1.    , 4.6569])
    >>> gains([0, 1, 2], (0, 3, 9))
    array([0., 3., 9.])
    """
    array = np.ascontiguousarray(labels, np.float64)
    rule = gain_rule(checked_gain(gain))
    out = np.empty(array.size)
    if not fill_worths(read_only(array), rule, out, np.empty(rule.table.size + 1, np.int64)):
        raise bad_label(array, np.array([0, array.size]), gain)
    return out


@kernel
def fill_worths(labels, rule, out, counts):  # type: ignore[no-untyped-def]
    """Write what each label is worth, and tell whether every label has a worth.

    ``counts`` has one place more than the rule's table: how often each label of the table occurs, then all others.
    """
    table = rule.table
    counts[:] = 0
    fine = True
    for i in range(labels.size):
        label = labels[i]
        if 0.0 <= label < table.size and label == np.floor(label):
            grade = np.uint64(label)
            out[i] = table[grade]
            counts[grade] += 1
        else:
            if rule.formula == EXPONENTIAL:
                out[i] = 2.0**label - 1.0
            elif rule.formula == LINEAR:
                out[i] = label
            else:
                out[i] = 1.0 if label >= rule.threshold else 0.0
            counts[table.size] += 1
            fine &= label >= 0.0 and out[i] < _TOO_MUCH and label < np.inf and rule.formula != NONE
    return fine


@kernel
def ideal(worths, rule, counts, weights, cutoff):  # type: ignore[no-untyped-def]
    """Σ over ranks up to the cutoff of weight times worth, the documents being in descending order of worth.

    ``counts`` is what :func:`fill_worths` counted with the same rule.
    """
    total, rank = 0.0, 0
    depth = min(cutoff, worths.size)
    if counts[-1] == 0:
        for label in rule.descending:
            worth = rule.table[label]
            for _ in range(min(counts[label], depth - rank)):
                total += weights[rank] * worth
                rank += 1
            if rank == depth:
                break
    else:
        sorted_, rows = worths.copy(), np.empty(worths.size, np.int64)
        sort_down(sorted_, rows, 0, worths.size)
        for rank in range(depth):
            total += weights[rank] * sorted_[rank]
    return total


@kernel
def clean(scores):  # type: ignore[no-untyped-def]
    """Whether no score is NaN or +inf."""
    fine = True
    for score in scores:
        fine &= score < np.inf
    return fine


@kernel
def longest_of(first, last, offsets):  # type: ignore[no-untyped-def]
    """Find the number of documents of the longest of these queries: how large a kernel's buffers must be."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


def weighted_mean(values: Array, weights: Array | None = None) -> float:
    """Σwv / Σw over the queries that a metric scores, rounded once, so that the order of queries cannot show.

    >>> weighted_mean(np.array([0.5, np.nan, 1.0]), np.array([1.0, 1.0, 3.0]))
    0.875
    """
    scored = ~np.isnan(values)
    if weights is None:
        return math.fsum(values[scored]) / int(scored.sum())
    return math.fsum(weights[scored] * values[scored]) / math.fsum(weights[scored])


def require_scored(name: str, values: Array, weights: Array | None = None) -> None:
    """Refuse values of a metric that skips every query: there is no mean."""
    if np.isnan(values if weights is None else values[weights > 0]).all():
        raise check.error(
            f"{name} scores no query",
            got=f"{values.size:,} {'query' if values.size == 1 else 'queries'} without a relevant document "
            "(or of weight 0)",
            hint="check the labels; or give such queries a worth, as in ndcg(empty=0)@10",
        )


@dataclass(frozen=True, kw_only=True, repr=False)
class RankMetric(Metric):
    """A metric of this package: it prints as the expression that makes it, and a kernel computes it.

    A score of −inf means that the document was not retrieved: it has no rank, but counts among the relevant ones and in
    the ideal.
    """

    bounds: ClassVar[tuple[float, float]] = (0.0, 1.0)
    of_every_query: ClassVar[bool] = False
    """Whether it says something about queries without relevant documents too; ``empty`` is then nothing to choose."""
    sees_judged: ClassVar[bool] = False
    """Whether documents that nobody judged are something else to it than documents that are not relevant."""

    cutoff: int | None = None
    """Only ranks up to this one count; None counts all."""
    ties: str = "average"
    """Equal scores: the exact "average" over all orders, the "row" order, or the "worst" or "best" order."""
    empty: str | int = "skip"
    """Worth of a query without relevant documents: "skip" (NaN, left out of means), 0 or 1."""

    def __post_init__(self) -> None:
        if self.cutoff is not None:
            object.__setattr__(self, "cutoff", check.integer("cutoff", self.cutoff, least=1))
        check.choice("way to treat ties", self.ties, TIES)
        if isinstance(self.empty, bool) or self.empty not in ("skip", 0, 1):
            raise check.error("the worth of an empty query must be skip, 0 or 1", got=repr(self.empty))
        if self.of_every_query and self.empty != "skip":
            what = f"{self.name} is of every query, with relevant documents or without"
            raise check.error(what, got=f"empty={self.empty!r}", hint="leave empty out")

    def __call__(
        self, scores: ArrayLike, labels: ArrayLike, offsets: ArrayLike, judged: ArrayLike | None = None
    ) -> NDArray[np.float64]:
        """One number per query; input in the form that kernels take is looked at by them alone."""
        n_docs = np.asarray(labels).size
        starts = read_only(check.offsets(offsets, n_docs))
        columns = _column(scores, starts, check.scores), _column(labels, starts, check.labels)
        out = np.empty(starts.size - 1)
        longest = int(np.diff(starts).max(initial=0))
        cutoff = NO_CUTOFF if self.cutoff is None else self.cutoff
        empty = 0.0 if self.of_every_query else np.nan if self.empty == "skip" else float(self.empty)
        kernel, *parts = self._kernel(longest)
        if self.sees_judged:
            known = np.ones(n_docs, np.int8) if judged is None else check.judged(judged, columns[1], starts)
            parts.append(known)
        settings = (read_only(part) if isinstance(part, np.ndarray) else part for part in parts)
        over_queries(kernel, starts, *columns, cutoff, TIES[self.ties], *settings, empty, out)
        if np.isposinf(out).any():
            check.scores(columns[0], starts)
            raise self._bad_label(columns[1], starts)
        return out

    def values(self, scores: Array, labels: Array, offsets: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give one number per query."""
        return self(scores, labels, offsets)

    def __matmul__(self, cutoff: int) -> Self:
        """``metric @ 10`` is the metric with a cutoff of 10."""
        return replace(self, cutoff=cutoff)

    def __str__(self) -> str:
        shared = tuple(field.name for field in fields(RankMetric))
        own = tuple(field.name for field in fields(self) if field.name not in shared)
        parts = [grammar.arguments(self, leave_out=shared), grammar.arguments(self, leave_out=(*own, "cutoff"))]
        options = ", ".join(filter(None, parts))
        return self.name + (f"({options})" if options else "") + (f"@{self.cutoff}" if self.cutoff else "")

    __repr__ = __str__

    @abstractmethod
    def _kernel(self, longest: int) -> Call:
        """Give the kernel, and the arguments of its own for lists of up to ``longest`` documents."""

    def _bad_label(self, labels: NDArray[np.float64], offsets: NDArray[np.int64]) -> ValueError:
        """Say what is wrong with a label that has no worth."""
        return bad_label(labels, offsets, getattr(self, "gain", "linear"))


def checked_gain(gain: object) -> Gain:
    """Check a gain: one of the two words, or a table of numbers by label."""
    if isinstance(gain, str):
        return check.choice("gain", gain, ("exponential", "linear"))
    if not isinstance(gain, Sequence | np.ndarray) or not len(gain):
        hint = "set gain=exponential, gain=linear, or a table such as gain=(0, 1, 3, 7)"
        raise check.error("gain must be a word or a table of numbers by label", got=repr(gain), hint=hint)
    return tuple(check.number("a gain in the table", value, least=0.0, most=_TOO_MUCH) for value in gain)


def bad_label(labels: NDArray[np.float64], offsets: NDArray[np.int64], gain: Gain) -> ValueError:
    """Say which label has no gain, and why."""
    check.labels(labels, offsets)
    whole = labels == np.floor(labels)
    if gain == "exponential":
        bad = labels >= np.log2(_TOO_MUCH)
    else:
        bad = labels >= _TOO_MUCH if gain == "linear" else ~(whole & (labels < len(gain)))
    row = int(np.argmax(bad))
    where, got = check.query_of_row(row, offsets), f"{labels[row]:g}"
    if isinstance(gain, str):
        hint = "set gain=linear" if gain == "exponential" else "divide all labels by a number"
        return check.error(f"a label is too large for the gain {gain}", got=got, where=where, hint=hint)
    if not whole[row]:
        return check.error(
            "a gain table needs whole labels", got=got, where=where, hint="set gain=exponential or gain=linear"
        )
    what = f"a label is beyond the gain table, which ends at {len(gain) - 1}"
    return check.error(what, got=got, where=where, hint="give the table one more number for each higher label")


def _column(
    values: ArrayLike, offsets: NDArray[np.int64], full_check: Callable[..., NDArray[np.float64]]
) -> NDArray[np.float64]:
    """One float64 per document; values of the right form are looked at by the kernel, others here."""
    array = np.asarray(values)
    if array.dtype != np.float64 or array.shape != (offsets[-1],):
        array = full_check(array, offsets)
    return read_only(array)
