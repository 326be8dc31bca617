"""Expected reciprocal rank: a reader who stops at the first document that satisfies (Chapelle et al. 2009).

Averaged ties are exact. In a tie group of which m documents can satisfy, with probabilities R_1 … R_m, let F_i be the
mean, over all choices of i of them, of the product of 1 − R (a normalised elementary symmetric polynomial, found by
adding one document at a time). The reader passes i of them unsatisfied with probability F_i, and the number of them
among the first j places of the group is hypergeometric. Since F_i ≤ F_1^i, terms beyond about 40/(mean R) vanish in
float64, so that even a list of a million equal scores takes time linear in its length.
"""

from dataclasses import dataclass
from typing import Annotated, ClassVar

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Offsets
from rankwise.base.compiling import kernel
from rankwise.check.parameters import Within
from rankwise.metrics.base import KernelCall, RankMetric
from rankwise.metrics.gains import gain_rule
from rankwise.metrics.kernel_query import buffers_for, open_query, rank
from rankwise.metrics.sorting import group_end

_NOTHING = 1e-18


@dataclass(frozen=True, kw_only=True, repr=False)
class ERR(RankMetric):
    """Expected reciprocal rank: Σ_r 1/r·R_r·Π_{i<r}(1 − R_i), where R = (2^y − 1)/2^highest satisfies the reader.

    >>> ERR(highest=2)([3.0, 2.0, 1.0], [2, 0, 1], [0, 3]).round(4)  # 3/4 + 1/4 · 1/4 · 1/3
    array([0.7708])
    """

    name: ClassVar[str] = "err"
    highest: Annotated[int, Within(1, 50)] = 4
    """The highest grade of the labels' scale, which must not depend on which labels happen to occur."""

    def _kernel(self, longest: int) -> KernelCall:
        return cascade, gain_rule("exponential"), 2.0**self.highest, 1.0 / np.arange(1.0, longest + 1.0)

    def _label_error(self, labels: Array, offsets: Offsets) -> ValueError:
        check.labels(labels, offsets)
        row = int(np.argmax(labels > self.highest))
        return check.error(
            f"a label is above err's highest grade of {self.highest}",
            got=f"{labels[row]:g}",
            where=check.query_of_row(row, offsets),
            hint=f"set highest= to the highest grade, for example err(highest={int(np.ceil(labels.max()))})",
        )


@kernel
def cascade(first, last, offsets, scores, labels, cutoff, ties, rule, unit, weights, empty, out):  # type: ignore[no-untyped-def]
    """Σ_r weights[r]·R_r·Π_{i<r}(1 − R_i) over the ranking of each query, with R = gain/unit."""
    buffers = buffers_for(first, last, offsets, rule)
    for q in range(first, last):
        query = open_query(q, offsets, scores, labels, rule, buffers)
        satisfying, ranked, most = query.gains, query.ranked, 0.0
        for i in range(satisfying.size):
            satisfying[i] /= unit
            most = max(most, satisfying[i])
        if not query.valid or most == 0.0 or most >= 1.0:
            out[q] = empty if query.valid and most == 0.0 else np.inf
            continue
        count = rank(query, cutoff, ties)
        total, reading, start = 0.0, 1.0, 0
        while start < min(count, cutoff):
            stop = group_end(query.scores, ranked, start, count, ties)
            if stop - start == 1:
                satisfied = satisfying[ranked[start]]
                total += reading * satisfied * weights[start]
                reading *= 1.0 - satisfied
            else:
                group = satisfying[ranked[start:stop]]
                places = min(stop, cutoff) - start
                total += reading * _tied(group, weights[start : start + places])
                for satisfied in group:
                    reading *= 1.0 - satisfied
            start = stop
        out[q] = total


@kernel
def _tied(group, weights):  # type: ignore[no-untyped-def]
    """Return the mean over all orders of the group of Σ_j weights[j]·(probability to stop at its place j)."""
    able = group[group > 0.0]
    if able.size == 0:
        return 0.0
    terms = min(able.size, weights.size)
    passing = 1.0 - able.mean()
    if passing**terms < _NOTHING:
        terms = int(np.ceil(np.log(_NOTHING) / np.log(passing)))
    # passed[i] = F_i, one document that can satisfy after another
    passed = np.zeros(terms + 1)
    passed[0] = 1.0
    for n in range(able.size):
        for i in range(min(n + 1, terms), 0, -1):
            passed[i] = ((n + 1 - i) * passed[i] + i * (1.0 - able[n]) * passed[i - 1]) / (n + 1)
    # met[i] = probability that i of them stand among the places so far
    met = np.zeros(terms + 1)
    met[0] = 1.0
    total = 0.0
    for place in range(weights.size):
        left = group.size - place
        stopping = 0.0
        for i in range(min(place, terms), -1, -1):
            draw = (able.size - i) / left * met[i]
            if i < terms:
                stopping += draw * (passed[i] - passed[i + 1])
                met[i + 1] += draw
            met[i] *= (left - able.size + i) / left
        total += weights[place] * stopping
    return total
