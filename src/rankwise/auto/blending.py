"""A blend of the best bags, as one more candidate: it is taken only where it is ahead by more than noise."""

import time
from collections.abc import Sequence

import numpy as np

from rankwise.auto.budget import Budget
from rankwise.auto.choice import BLEND, Candidate
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import MetricLike
from rankwise.metrics import metric as find_metric
from rankwise.rankers.ensembles.blended import blended

MOST = 4
"""Bags that are blended at most, the best ones."""
_TRIALS = 250
"""How often the metric is computed for each bag at most, to choose weights: 50 picks in each of five folds."""
_SHARE = 0.02
"""Of all seconds, which choosing weights may take although they are over."""


def blend(
    candidates: Sequence[Candidate], data: RankingDataset, metric: MetricLike, budget: Budget
) -> tuple[Candidate | None, str]:
    """Give a blend of the best bags, or why there is none; empty where there is nothing to blend."""
    best = sorted(candidates, key=lambda one: -one.mean)[:MOST]
    if len(best) < 2:
        return None, ""
    seconds = _TRIALS * len(best) * _seconds(best[0], data, metric)
    if seconds > max(budget.left, _SHARE * budget.seconds):
        return None, f"No blend: choosing its weights may take {seconds:.0f} s, and no time was left."
    found = blended.of_fitted([one.ranker for one in best], data, metrics=(metric,))
    count = sum(weight > 0.0 for weight in found.weights_.values)
    if count < 2:
        return None, "No blend: all weight went to one bag."
    name, evaluation = f"blend of {count} bags", found.out_of_fold_
    return Candidate(name=name, ranker=found, kind=BLEND, evaluation=evaluation, metric=best[0].metric), ""


def _seconds(one: Candidate, data: RankingDataset, metric: MetricLike) -> float:
    """How long it takes to compute the metric once."""
    measure, scores = find_metric(metric), np.asarray(one.ranker.oof_scores_)
    began = time.perf_counter()
    measure(scores, data.labels, data.offsets, data.judged)
    return time.perf_counter() - began
