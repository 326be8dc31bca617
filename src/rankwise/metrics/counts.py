"""Counts of documents, as trec_eval's tables begin with them: of queries, retrieved and relevant documents."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise.compiling import kernel
from rankwise.metrics.base import Call, RankMetric, clean, fill_worths, longest_of, relevance_rule
from rankwise.metrics.dcg import PLAIN, weighted_sum
from rankwise.metrics.precision import Binary

_QUERIES, _RETRIEVED, _RELEVANT = 0, 1, 2


@dataclass(frozen=True, kw_only=True, repr=False)
class NumQ(RankMetric):
    """1 for every query: its total is the number of queries.

    >>> NumQ()([3.0, 2.0, 1.0], [1, 0, 0], [0, 2, 3])
    array([1., 1.])
    """

    name: ClassVar[str] = "num_q"
    of_every_query: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _counted, relevance_rule(1.0), _QUERIES


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRet(RankMetric):
    """How many documents were retrieved, up to the cutoff: those with a score other than −inf.

    >>> NumRet()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "num_ret"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    of_every_query: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _counted, relevance_rule(1.0), _RETRIEVED


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRel(Binary):
    """How many documents are relevant, retrieved or not, whatever the cutoff.

    >>> NumRel()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([2.])
    """

    name: ClassVar[str] = "num_rel"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    of_every_query: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return _counted, relevance_rule(self.relevant), _RELEVANT


@dataclass(frozen=True, kw_only=True, repr=False)
class NumRelRet(Binary):
    """How many relevant documents were retrieved, up to the cutoff.

    >>> NumRelRet()([3.0, -np.inf, 1.0], [1, 1, 0], [0, 3])
    array([1.])
    """

    name: ClassVar[str] = "num_rel_ret"
    bounds: ClassVar[tuple[float, float]] = (0.0, np.inf)
    of_every_query: ClassVar[bool] = True
    counts: ClassVar[bool] = True

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, relevance_rule(self.relevant), np.ones(longest), PLAIN


@kernel
def _counted(first, last, offsets, scores, labels, cutoff, ties, rule, what, empty, out):  # type: ignore[no-untyped-def]  # noqa: ARG001
    worths = np.empty(longest_of(first, last, offsets))
    counts = np.empty(rule.table.size + 1, np.int64)
    for q in range(first, last):
        mine = scores[offsets[q] : offsets[q + 1]]
        worth = worths[: mine.size]
        if not fill_worths(labels[offsets[q] : offsets[q + 1]], rule, worth, counts) or not clean(mine):
            out[q] = np.inf
        elif what == _RELEVANT:
            out[q] = worth.sum()
        elif what == _RETRIEVED:
            out[q] = min((mine > -np.inf).sum(), cutoff)
        else:
            out[q] = 1.0
