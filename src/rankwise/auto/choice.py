"""Which of the candidates is taken: the simplest that is within noise of the best, by out-of-fold values alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.evaluation.evaluation import Evaluation
from rankwise.evaluation.significance import TTest, t_test

TREES, NETS, BLEND = 0, 1, 2
"""From the simplest: one bag of trees, one bag of nets, several bags."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidate:
    """A trained ranker that could be taken, and how good it is on queries that it has not seen."""

    name: str
    ranker: Any
    kind: int
    """``TREES``, ``NETS`` or ``BLEND``."""
    evaluation: Evaluation
    metric: str

    @property
    def mean(self) -> float:
        """The mean of the metric over all queries."""
        return self.evaluation.mean[self.metric]


def behind(one: Candidate, leader: Candidate) -> TTest:
    """How far a candidate is from the leader, paired by query: the mean of its values less the leader's."""
    differences = one.evaluation[one.metric] - leader.evaluation[leader.metric]
    scored = ~np.isnan(differences)
    weights = leader.evaluation.weights
    return t_test(differences[scored], None if weights is None else weights[scored])


def choose(candidates: Sequence[Candidate]) -> tuple[Candidate, Candidate]:
    """Give the leader, whose mean is the highest, and the one to take.

    That is the best of the simplest kind whose best is behind the leader by no more than one standard error of the
    paired difference. Of equals the first is better.
    """
    leader = max(candidates, key=lambda one: one.mean)
    for kind in range(leader.kind):
        simpler = [one for one in candidates if one.kind == kind]
        if simpler:
            best = max(simpler, key=lambda one: one.mean)
            gap = behind(best, leader)
            if -gap.mean <= gap.error:
                return leader, best
    return leader, leader
