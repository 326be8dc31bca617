"""Gains of labels, discounts of ranks, and the ideal DCG of queries: the formulas that metrics and losses share."""

import functools
import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from rankwise import check
from rankwise.base.arrays import Array, Offsets, read_only
from rankwise.base.compiling import kernel
from rankwise.base.threads import over_queries
from rankwise.metrics.sorting import sort_down

Gain = str | tuple[float, ...]

EXPONENTIAL, LINEAR, BINARY, NONE = 0, 1, 2, 3
DISCOUNTS = ("log2", "jarvelin")
NO_CUTOFF = 2**40

GRADES = 16
"""Integer labels below this are looked up in a table."""
_TOO_LARGE = 1e300  # sums of gains must not overflow
_discounts = np.empty(0)
_growing = threading.Lock()


def discounts(n: int) -> Array:
    """Return the discount 1/log2(1 + r) of ranks 1 to n, from a table that is computed once and grows as needed.

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


def discounts_of(rule: str, n: int) -> Array:
    """Return the discounts of ranks 1 to n by a rule of :data:`DISCOUNTS`: 1/log2(1 + r), or 1 and then 1/log2(r).

    >>> discounts_of("jarvelin", 4).round(4)
    array([1.    , 1.    , 0.6309, 0.5   ])
    """
    return discounts(n) if rule == "log2" else np.concatenate([[1.0], discounts(n)])[:n]


class Rule(NamedTuple):
    """The gain of labels in the form that kernels read: a table for small integer labels, a formula for others."""

    formula: int
    """EXPONENTIAL, LINEAR, BINARY (1 from ``threshold`` on, else 0), or NONE: a label outside the table is an error."""
    threshold: float
    table: Array
    """The gain of labels 0, 1, 2, …"""
    descending: Offsets
    """The labels of the table from the highest gain to the lowest."""


@functools.cache
def gain_rule(gain: Gain) -> Rule:
    """Return the rule of a gain: 2^y − 1, y, or a table."""
    grades = np.arange(GRADES, dtype=np.float64)
    if gain == "exponential":
        return _rule(EXPONENTIAL, 2.0**grades - 1.0)
    return _rule(LINEAR, grades) if gain == "linear" else _rule(NONE, np.array(gain, np.float64))


@functools.cache
def relevance_rule(relevant: float) -> Rule:
    """Return the rule by which labels from ``relevant`` on have a gain of 1 and others of 0."""
    return _rule(BINARY, (np.arange(GRADES) >= relevant).astype(np.float64), relevant)


def _rule(formula: int, table: Array, threshold: float = 0.0) -> Rule:
    return Rule(formula, float(threshold), read_only(table), read_only(np.argsort(-table, kind="stable")))


def checked_gain(gain: object) -> Gain:
    """Check a gain: "exponential", "linear", or a table of numbers by label."""
    words = ("exponential", "linear")
    if isinstance(gain, str):
        return gain if gain in words else check.choice("gain", gain, words)
    if not isinstance(gain, Sequence | np.ndarray) or not len(gain):
        hint = "set gain=exponential, gain=linear, or a table such as gain=(0, 1, 3, 7)"
        raise check.error("gain must be a word or a table of numbers by label", got=repr(gain), hint=hint)
    return tuple(check.number("a gain in the table", value, least=0.0, most=_TOO_LARGE) for value in gain)


def label_error(labels: Array, offsets: Offsets, gain: Gain) -> ValueError:
    """Return the error that names the first label without a gain."""
    check.labels(labels, offsets)
    is_whole = labels == np.floor(labels)
    if gain == "exponential":
        bad = labels >= np.log2(_TOO_LARGE)
    else:
        bad = labels >= _TOO_LARGE if gain == "linear" else ~(is_whole & (labels < len(gain)))
    row = int(np.argmax(bad))
    where, got = check.query_of_row(row, offsets), f"{labels[row]:g}"
    if isinstance(gain, str):
        hint = "set gain=linear" if gain == "exponential" else "divide all labels by a number"
        return check.error(f"a label is too large for the gain {gain}", got=got, where=where, hint=hint)
    if not is_whole[row]:
        return check.error(
            "a gain table needs whole labels", got=got, where=where, hint="set gain=exponential or gain=linear"
        )
    what = f"a label is beyond the gain table, which ends at {len(gain) - 1}"
    return check.error(what, got=got, where=where, hint="give the table one more number for each higher label")


def gains(labels: ArrayLike, gain: Gain = "exponential") -> Array:
    """Return the gains of labels: 2^y − 1 ("exponential"), y ("linear") or ``gain[y]`` (a table, for whole labels).

    >>> gains([0, 1, 2.5]).round(4)
    array([0.    , 1.    , 4.6569])
    >>> gains([0, 1, 2], (0, 3, 9))
    array([0., 3., 9.])
    """
    array = np.ascontiguousarray(labels, np.float64)
    rule = gain_rule(checked_gain(gain))
    out = np.empty(array.size)
    if not fill_gains(read_only(array), rule, out, np.empty(rule.table.size + 1, np.int64)):
        raise label_error(array, np.array([0, array.size]), gain)
    return out


class Ideal(NamedTuple):
    """Gains of documents, and the ideal DCG of their queries."""

    gains: Array
    """(n_docs,) gain of each document."""
    dcg: Array
    """(n_queries,) DCG of each query in its ideal order; 0 where nothing is relevant."""


def gains_and_ideal(labels: Array, offsets: Offsets, gain: Gain = "exponential", cutoff: int | None = None) -> Ideal:
    """Compute the gain of every document and the ideal DCG of every query up to ``cutoff``, from checked labels.

    >>> ideal = gains_and_ideal(np.array([0.0, 2.0, 1.0]), np.array([0, 3]))
    >>> ideal.gains, ideal.dcg.round(4)  # 3 + 1/log2(3)
    (array([0., 3., 1.]), array([3.6309]))
    """
    ideal = gains_by_rule(labels, offsets, gain_rule(gain), discounts(longest(offsets)), cutoff)
    if np.isnan(ideal.dcg).any():
        raise label_error(labels, offsets, gain)
    return ideal


def gain_shares(labels: Array, offsets: Offsets, gain: Gain = "exponential", cutoff: int | None = None) -> Array:
    """Compute the gain of every document over the ideal DCG of its query; 0 in queries without a relevant one.

    >>> gain_shares(np.array([0.0, 1.0, 0.0, 0.0]), np.array([0, 3, 4]))
    array([0., 1., 0., 0.])
    """
    gains, dcg = gains_and_ideal(labels, offsets, gain, cutoff)
    return np.asarray(gains / np.repeat(np.where(dcg > 0.0, dcg, 1.0), np.diff(offsets)))


def gains_by_rule(labels: Array, offsets: Offsets, rule: Rule, weights: Array, cutoff: int | None = None) -> Ideal:
    """Compute gains and ideal sums for any rule and any weights of ranks; NaN where a label has no gain."""
    gains, dcg = np.empty(labels.size), np.empty(offsets.size - 1)
    over_queries(_fill_ideal, offsets, labels, rule, weights, NO_CUTOFF if cutoff is None else cutoff, gains, dcg)
    return Ideal(gains, dcg)


def longest(offsets: Offsets) -> int:
    """Return the number of documents of the longest query."""
    return int(np.diff(offsets).max(initial=0))


@kernel
def _fill_ideal(first, last, offsets, labels, rule, weights, cutoff, gains, dcg):  # type: ignore[no-untyped-def]
    counts = np.empty(rule.table.size + 1, np.int64)
    for q in range(first, last):
        query = gains[offsets[q] : offsets[q + 1]]
        valid = fill_gains(labels[offsets[q] : offsets[q + 1]], rule, query, counts)
        dcg[q] = ideal_sum(query, rule, counts, weights, cutoff) if valid else np.nan


@kernel
def fill_gains(labels, rule, out, counts):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the gain of each label, and return whether every label has one.

    ``counts`` has one place more than the rule's table: how often each label of the table occurs, then all others.
    """
    table = rule.table
    counts[:] = 0
    valid = True
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
            valid &= label >= 0.0 and out[i] < _TOO_LARGE and label < np.inf and rule.formula != NONE
    return valid


@kernel
def ideal_sum(gains, rule, counts, weights, cutoff):  # type: ignore[no-untyped-def]
    """Σ_r weights[r]·gain up to the cutoff, over the documents in descending order of gain.

    ``counts`` is what :func:`fill_gains` counted with the same rule.
    """
    total, rank = 0.0, 0
    depth = min(cutoff, gains.size)
    if counts[-1] == 0:
        for label in rule.descending:
            gain = rule.table[label]
            for _ in range(min(counts[label], depth - rank)):
                total += weights[rank] * gain
                rank += 1
            if rank == depth:
                break
    else:
        descending, rows = gains.copy(), np.empty(gains.size, np.int64)
        sort_down(descending, rows, 0, gains.size)
        for rank in range(depth):
            total += weights[rank] * descending[rank]
    return total
