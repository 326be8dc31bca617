"""Blends of the best bags as further candidates: one forest of the trees of each library, and one of all kinds."""

from collections.abc import Iterator, Sequence

import numpy as np

from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.model_selection.auto.budget import Budget
from rankwise.model_selection.auto.choice import MIXED, TREES, Candidate
from rankwise.rankers.ensembles.blended import blended
from rankwise.rankers.ensembles.weights import COMPUTED

MOST = 8
"""Bags that are blended at most, the best ones: each makes scoring slower."""
_SHARE = 0.02
"""Of all seconds, which a blend may take although they are over."""


def blends(
    candidates: Sequence[Candidate], data: RankingDataset, metric: MetricLike, budget: Budget
) -> tuple[list[Candidate], str]:
    """Give blends of the best bags, and why one is missing; empty where there is nothing to blend."""
    found: list[Candidate] = []
    for title, members in _groups(sorted(candidates, key=lambda one: -one.mean)):
        seconds = len(members) * _seconds(members[0], data, metric, budget)
        if seconds > max(budget.left, _SHARE * budget.seconds):
            return found, f"No {title}: it may take {seconds:.0f} s, and no time was left."
        made = blended.of_fitted([one.ranker for one in members], data, metrics=(metric,))
        count = sum(weight > 0.0 for weight in made.weights_.values)
        if count > 1:
            kind = MIXED if made.weighted else TREES
            name, evaluation = f"{title} of {count} bags", made.out_of_fold_
            found.append(
                Candidate(
                    name=name, ranker=made, kind=kind, blend=True, evaluation=evaluation, metric=members[0].metric
                )
            )
    return found, ""


def _groups(best: Sequence[Candidate]) -> Iterator[tuple[str, list[Candidate]]]:
    """What may be blended, the best first: bags of one library; then the best of each library and the best beside."""
    libraries: dict[str, list[Candidate]] = {}
    for one in best:
        libraries.setdefault(one.ranker.ranker.name, []).append(one)
    for library, own in libraries.items():
        if len(own) > 1:
            yield f"{library} blend", own[:MOST]
    if len(libraries) > 1:
        first = [own[0] for own in libraries.values()]
        beside = [one for one in best if one not in first]
        yield "mixed blend", [*first, *beside][:MOST]


def expected(candidates: Sequence[Candidate], data: RankingDataset, metric: MetricLike, budget: Budget) -> float:
    """Seconds that all blends may take; one bag will be blended with the next."""
    bags = sum(len(members) for _, members in _groups(sorted(candidates, key=lambda one: -one.mean)))
    return max(bags, 2) * _seconds(candidates[0], data, metric, budget)


def _seconds(one: Candidate, data: RankingDataset, metric: MetricLike, budget: Budget) -> float:
    """How long a blend may take for each of its bags: to choose weights by a metric, until all about it is known."""
    measure, scores = find_metric(metric), np.asarray(one.ranker.oof_scores_)
    began = budget.now()
    measure(scores, data.labels, data.offsets, data.judged)
    return COMPUTED * (budget.now() - began) + budget.closing
