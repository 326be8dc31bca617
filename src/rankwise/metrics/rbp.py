"""Rank-biased precision: a reader who goes on to the next rank with probability p (Moffat and Zobel 2008)."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from rankwise import check
from rankwise.arrays import Array
from rankwise.metrics.base import Call, relevance_rule
from rankwise.metrics.dcg import BY_IDEAL, PLAIN, weighted_sum
from rankwise.metrics.precision import Binary


@dataclass(frozen=True, kw_only=True, repr=False)
class RBP(Binary):
    """Rank-biased precision: (1 − p)·Σ p^(r−1) over the ranks r of relevant documents.

    >>> RBP(p=0.5)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3])  # (1 + 1/4) / 2
    array([0.625])
    """

    name: ClassVar[str] = "rbp"
    p: float = 0.8
    """Probability that a reader goes on from one rank to the next: 0.8 for the first page, 0.95 for patient readers."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check.number("p", self.p, least=0.0, most=1.0, open_ends=True)

    def _weights(self, longest: int) -> Array:
        weights: Array = (1.0 - self.p) * self.p ** np.arange(float(longest))
        return weights

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, relevance_rule(self.relevant), self._weights(longest), PLAIN


@dataclass(frozen=True, kw_only=True, repr=False)
class NRBP(RBP):
    """Rank-biased precision over the highest that the query allows, 1 − p^P for P relevant documents.

    With a cutoff, P counts at most ``cutoff`` documents.

    >>> NRBP(p=0.5)([3.0, 2.0, 1.0], [1, 0, 1], [0, 3]).round(4)  # 0.625 / 0.75
    array([0.8333])
    """

    name: ClassVar[str] = "nrbp"

    def _kernel(self, longest: int) -> Call:
        return weighted_sum, relevance_rule(self.relevant), self._weights(longest), BY_IDEAL
