"""One query inside the kernel of a metric: its scores, gains and ranking, in buffers that all queries share.

The kernel of a metric computes queries ``first`` to ``last`` and writes one number per query: NaN for a query that is
skipped, and +inf where the input is invalid. The caller then looks for the reason, so that valid input is read once.
"""

from typing import NamedTuple

import numpy as np

from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel
from rankwise.metrics.gains import fill_gains
from rankwise.metrics.sorting import group_end, longest_of, ranking, scratch_for


class Query(NamedTuple):
    """A query as metrics see it."""

    scores: Array
    gains: Array
    counts: Offsets
    """How often each label of the gain rule's table occurs, then all others."""
    ranked: Offsets
    """Its documents in the order of :func:`rank`."""
    scratch: tuple[Array, Offsets, Offsets]
    valid: bool
    """Whether every label has a gain and no score is NaN or +inf."""


@kernel
def buffers_for(first, last, offsets, rule):
    """Return buffers that hold any of these queries."""
    longest = longest_of(first, last, offsets)
    counts = np.empty(rule.table.size + 1, np.int64)
    return np.empty(longest), counts, np.empty(longest, np.int64), scratch_for(longest)


@kernel(inline=True)
def open_query(q, offsets, scores, labels, rule, buffers):
    """Return a query with its gains; they are valid until the next one is opened in the same buffers."""
    gains, counts, ranked, scratch = buffers
    start, stop = offsets[q], offsets[q + 1]
    valid = fill_gains(labels[start:stop], rule, gains[: stop - start], counts) and _below_inf(scores[start:stop])
    return Query(scores[start:stop], gains[: stop - start], counts, ranked, scratch, valid)


@kernel
def _below_inf(scores):
    """Return whether no score is NaN or +inf."""
    valid = True
    for score in scores:
        valid &= score < np.inf
    return valid


@kernel(inline=True)
def rank(query, cutoff, ties):
    """Fill the ranking of a query and return how many documents it holds; see :func:`rankwise.metrics.sorting.ranking`.

    Ties "worst" and "best" go by the gains.
    """
    return ranking(query.scores, query.gains, cutoff, ties, query.ranked, query.scratch)


@kernel(inline=True)
def sum_over_ranks(query, count, depth, ties, weights):
    """Σ_r weights[r]·gain up to rank ``depth`` of the ranking; tied documents share the weights of their ranks."""
    total = 0.0
    start = 0
    while start < depth:
        stop = group_end(query.scores, query.ranked, start, count, ties)
        if stop - start == 1:
            total += weights[start] * query.gains[query.ranked[start]]
        else:
            gain, weight = 0.0, 0.0
            for place in range(start, stop):
                gain += query.gains[query.ranked[place]]
            for place in range(start, min(stop, depth)):
                weight += weights[place]
            total += weight * gain / (stop - start)
        start = stop
    return total
