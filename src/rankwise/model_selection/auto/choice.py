"""The choice among candidates, by out-of-fold values alone: the simplest kind within noise of the best; and blends."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.model_selection.auto.budget import Budget, clock
from rankwise.rankers.ensembles.blended import blended
from rankwise.rankers.ensembles.weights import COMPUTED
from rankwise.statistics.evaluation import Evaluation
from rankwise.statistics.significance import TTest, t_test

TREES, NETS, MIXED = 0, 1, 2
"""From the simplest: one forest, one bag of nets or of a ranker of one's own, several models."""
MOST = 8
"""The number of bags that are blended at most, the best ones: each makes scoring slower."""
_SHARE = 0.02
"""The share of all seconds that a blend may take although they are over."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RankerCandidate:
    """A trained ranker that could be chosen, and its values on queries that it has not seen."""

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


def behind(one: RankerCandidate, leader: RankerCandidate) -> TTest:
    """Test the mean of a candidate's values less the leader's, paired by query."""
    return t_test(*differences(one, leader))


def differences(one: RankerCandidate, leader: RankerCandidate) -> tuple[Array, Array | None]:
    """Return a candidate's values less the leader's, of the queries that the metric scores, and their weights."""
    values = one.evaluation[one.metric] - leader.evaluation[leader.metric]
    scored = ~np.isnan(values)
    weights = leader.evaluation.weights
    return values[scored], None if weights is None else weights[scored]


def choose(candidates: Sequence[RankerCandidate]) -> tuple[RankerCandidate, RankerCandidate]:
    """Return the leader, whose mean is the highest, and the one to choose.

    That is of the simplest kind whose best is within noise of the leader: behind it by no more than one standard error
    of the paired difference. Within that kind it is a blend, where one is within noise of the best: the best of several
    bags is the best by luck too, and their mean is not. Of equals the first is better.
    """
    leader = max(candidates, key=lambda one: one.mean)
    for kind in range(leader.kind + 1):
        alike = [one for one in candidates if one.kind == kind]
        best = max(alike, key=lambda one: one.mean, default=None)
        if best is not None and _within_noise(best, leader):
            within = [one for one in alike if one.blend and _within_noise(one, best)]
            return leader, max(within, key=lambda one: one.mean, default=best)
    return leader, leader


def _within_noise(one: RankerCandidate, better: RankerCandidate) -> bool:
    gap = behind(one, better)
    return one is better or -gap.mean <= gap.error


def blends(
    candidates: Sequence[RankerCandidate], data: RankingDataset, metric: MetricLike, budget: Budget
) -> tuple[list[RankerCandidate], str]:
    """Return blends of the best bags, and why one is missing; empty where there is nothing to blend."""
    blend_candidates: list[RankerCandidate] = []
    for title, members in _groups(sorted(candidates, key=lambda one: -one.mean)):
        seconds = len(members) * _seconds(members[0], data, metric, budget)
        if seconds > max(budget.left, _SHARE * budget.seconds):
            return blend_candidates, f"No {title}: it may take {seconds:.0f} s, and no time was left."
        blend = blended.of_fitted([one.ranker for one in members], data, metrics=(metric,))
        count = sum(weight > 0.0 for weight in blend.weights_.values)
        if count > 1:
            blend_candidates.append(
                RankerCandidate(
                    name=f"{title} of {count} bags",
                    ranker=blend,
                    kind=MIXED if blend.weighted else TREES,
                    blend=True,
                    evaluation=blend.out_of_fold_,
                    metric=members[0].metric,
                )
            )
    return blend_candidates, ""


def _groups(best: Sequence[RankerCandidate]) -> Iterator[tuple[str, list[RankerCandidate]]]:
    """Yield groups to blend: the best bags of one library; then the best of each library and the best beside."""
    libraries: dict[str, list[RankerCandidate]] = {}
    for one in best:
        libraries.setdefault(one.ranker.ranker.name, []).append(one)
    for library, bags in libraries.items():
        if len(bags) > 1:
            yield f"{library} blend", bags[:MOST]
    if len(libraries) > 1:
        first = [bags[0] for bags in libraries.values()]
        beside = [one for one in best if one not in first]
        yield "mixed blend", [*first, *beside][:MOST]


def blend_seconds(
    candidates: Sequence[RankerCandidate], data: RankingDataset, metric: MetricLike, budget: Budget
) -> float:
    """Return the seconds that all blends may take; one bag will be blended with the next."""
    bags = sum(len(members) for _, members in _groups(sorted(candidates, key=lambda one: -one.mean)))
    return max(bags, 2) * _seconds(candidates[0], data, metric, budget)


def _seconds(one: RankerCandidate, data: RankingDataset, metric: MetricLike, budget: Budget) -> float:
    """Return the seconds of a blend for each of its bags: to choose weights by a metric, and to end."""
    measure, scores = find_metric(metric), np.asarray(one.ranker.oof_scores_)
    began = clock()
    measure(scores, data.labels, data.offsets, data.judged)
    return COMPUTED * (clock() - began) + budget.closing
