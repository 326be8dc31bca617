"""Which of the candidates is taken: the simplest kind that is within noise of the best, by out-of-fold values alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.arrays import Array
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.significance import TTest, t_test

TREES, NETS, MIXED = 0, 1, 2
"""From the simplest: one forest, one bag of nets or of a ranker of one's own, several models."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A trained ranker that could be taken, and how good it is on queries that it has not seen."""

    name: str
    ranker: Any
    kind: int
    """``TREES``, ``NETS`` or ``MIXED``."""
    blend: bool = False
    """Whether it is made of several bags; where these are trees of one library, it is one forest all the same."""
    evaluation: Evaluation
    metric: str

    @property
    def mean(self) -> float:
        """The mean of the metric over all queries."""
        return self.evaluation.mean[self.metric]


def behind(one: Candidate, leader: Candidate) -> TTest:
    """How far a candidate is from the leader, paired by query: the mean of its values less the leader's."""
    return t_test(*differences(one, leader))


def differences(one: Candidate, leader: Candidate) -> tuple[Array, Array | None]:
    """A candidate's values less the leader's, of the queries that the metric scores, and the weights of these."""
    values = one.evaluation[one.metric] - leader.evaluation[leader.metric]
    scored = ~np.isnan(values)
    weights = leader.evaluation.weights
    return values[scored], None if weights is None else weights[scored]


def choose(candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate]:
    """Give the leader, whose mean is the highest, and the one to take.

    That is of the simplest kind whose best is within noise of the leader: behind it by no more than one standard error
    of the paired difference. Within that kind it is a blend, where one is within noise of the best: the best of several
    bags is the best by luck too, and their mean is not. Of equals the first is better.
    """
    leader = max(candidates, key=lambda one: one.mean)
    for kind in range(leader.kind + 1):
        own = [one for one in candidates if one.kind == kind]
        best = max(own, key=lambda one: one.mean, default=None)
        if best is not None and _within_noise(best, leader):
            blends = [one for one in own if one.blend and _within_noise(one, best)]
            return leader, max(blends, key=lambda one: one.mean, default=best)
    return leader, leader


def _within_noise(one: Candidate, better: Candidate) -> bool:
    gap = behind(one, better)
    return one is better or -gap.mean <= gap.error
