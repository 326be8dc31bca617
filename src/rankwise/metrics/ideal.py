"""Gains of documents and the ideal DCG of their lists, for losses that need both."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise.compiling import kernel
from rankwise.metrics.base import NO_CUTOFF, Gain, Rule, bad_label, discounts, fill_worths, gain_rule, ideal
from rankwise.threads import over_queries


class Ideal(NamedTuple):
    """What documents are worth, and their lists at best."""

    gains: NDArray[np.float64]
    """(n_docs,) gain of each document."""
    dcg: NDArray[np.float64]
    """(n_queries,) DCG of each list in its ideal order; 0 where nothing is relevant."""


def gains_and_ideal(
    labels: NDArray[np.float64], offsets: NDArray[np.int64], gain: Gain = "exponential", cutoff: int | None = None
) -> Ideal:
    """Give every document's gain and every list's ideal DCG up to ``cutoff``; ``labels`` are checked already.

    >>> found = gains_and_ideal(np.array([0.0, 2.0, 1.0]), np.array([0, 3]))
    >>> found.gains, found.dcg.round(4)  # 3 + 1/log2(3)
    (array([0., 3., 1.]), array([3.6309]))
    """
    found = worths_and_ideal(labels, offsets, gain_rule(gain), discounts(longest(offsets)), cutoff)
    if np.isnan(found.dcg).any():
        raise bad_label(labels, offsets, gain)
    return found


def worths_and_ideal(
    labels: NDArray[np.float64],
    offsets: NDArray[np.int64],
    rule: Rule,
    weights: NDArray[np.float64],
    cutoff: int | None = None,
) -> Ideal:
    """Do the same for any worth of labels and any weights of ranks; lists with a label that has no worth have NaN."""
    worths, best = np.empty(labels.size), np.empty(offsets.size - 1)
    over_queries(_kernel, offsets, labels, rule, weights, NO_CUTOFF if cutoff is None else cutoff, worths, best)
    return Ideal(worths, best)


def longest(offsets: NDArray[np.int64]) -> int:
    """How many documents the longest list has."""
    return int(np.diff(offsets).max(initial=0))


@kernel
def _kernel(first, last, offsets, labels, rule, table, cutoff, worths, best):  # type: ignore[no-untyped-def]
    counts = np.empty(rule.table.size + 1, np.int64)
    for q in range(first, last):
        start, stop = offsets[q], offsets[q + 1]
        own = worths[start:stop]
        fine = fill_worths(labels[start:stop], rule, own, counts)
        best[q] = ideal(own, rule, counts, table, cutoff) if fine else np.nan
