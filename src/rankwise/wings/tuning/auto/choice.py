"""The choice among candidates by out-of-fold values: an average of bags, unless one alone is surely better."""

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankwise import Evaluation, Metric, RankingDataset, blended
from rankwise import metric as find_metric
from rankwise.base.arrays import Array
from rankwise.metrics import MetricLike
from rankwise.rankers import AVERAGE, centred, member_kind, out_of_fold_of, score_deviation, surely
from rankwise.rankers.training import Constraints, UnmetConstraintWarning
from rankwise.statistics import TTest, t_test
from rankwise.wings.tuning.auto.budget import Budget

BEST = "best"
FAST = "fast"
"""What is preferred: the best ranking, or one forest, which is fast to score and can be exported."""
_SURE = 0.05
"""The level at which a recipe is surely better, shared by all that were tried."""
_SHARE = 0.05
"""The share of all seconds that an average may take although they are over."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RankerCandidate:
    """A trained ranker that could be chosen, and its values on queries that it has not seen."""

    name: str
    ranker: Any
    library: str
    """The name of its rankers; empty for an average over several kinds."""
    forest: bool = False
    """Whether it is one forest."""
    bags: int = 1
    """The number of bags that it is made of."""
    group: int = 0
    """The number of its recipe."""
    floor: bool = True
    """Whether it is averaged without proof."""
    evaluation: Evaluation
    metric: str

    @property
    def mean(self) -> float:
        """The mean of the metric over all queries."""
        return self.evaluation.mean[self.metric]


def gap(one: RankerCandidate, other: RankerCandidate) -> TTest:
    """Test the mean of a candidate's values less another's, paired by query."""
    return t_test(*differences(one, other))


def differences(one: RankerCandidate, other: RankerCandidate) -> tuple[Array, Array | None]:
    """Return a candidate's values less another's, of the queries that the metric scores, and their weights."""
    values = one.evaluation[one.metric] - other.evaluation[other.metric]
    scored = ~np.isnan(values)
    weights = other.evaluation.weights
    return values[scored], None if weights is None else weights[scored]


def average_of(bags: Sequence[RankerCandidate], data: RankingDataset, metric: Metric) -> Array:
    """Return the metric of the average by kinds on every query, out of fold."""
    kinds: dict[object, list[Array]] = {}
    for one in bags:
        scores = out_of_fold_of(one.ranker).cross_fitted
        unit = centred(scores, data.offsets) / (score_deviation(scores, data.offsets) or np.inf)
        kinds.setdefault(member_kind(one.ranker), []).append(unit)
    return metric.of(np.mean([np.mean(units, axis=0) for units in kinds.values()], axis=0), data)


def averaged(bags: Sequence[RankerCandidate], data: RankingDataset, metric: Metric) -> list[RankerCandidate]:
    """Return the bags to average: those that need no proof, and recipes with which they are surely better.

    The recipe that adds most comes first, and is added where the one-sided p-value of what it adds, paired by query and
    out of fold, is below a twentieth of one share in the recipes that were tried: the best of many is lucky.
    """
    kept, others = [one for one in bags if one.floor], {one.group for one in bags if not one.floor}
    if not kept:
        return list(bags)
    level, weights = _SURE / max(len(others), 1), data.weights
    while others:
        now, gains = average_of(kept, data, metric), dict[int, TTest]()
        for group in others:
            gain = average_of([*kept, *(one for one in bags if one.group == group)], data, metric) - now
            scored = ~np.isnan(gain)
            gains[group] = t_test(gain[scored], None if weights is None else weights[scored])
        best = max(gains, key=lambda group: gains[group].mean)
        if gains[best].mean <= 0.0 or gains[best].p > 2.0 * level:
            break
        kept += [one for one in bags if one.group == best]
        others.remove(best)
    return [one for one in bags if one in kept]


def choose(candidates: Sequence[RankerCandidate], prefer: str = BEST, *, alone: bool = True) -> RankerCandidate:
    """Return the candidate to choose; the first one is the baseline.

    With ``prefer="best"`` it is the average over all kinds. With ``prefer="fast"`` it is that of the forests of one
    library: the baseline's, unless another's is surely better. Where bags may be taken ``alone``, either is passed
    over for a single one that is surely better, by more than two standard errors of the difference, paired by query,
    and by more where there are more to choose from. Where there is no forest, ``"fast"`` is ``"best"``.
    """
    forests = [one for one in candidates if one.forest] if prefer == FAST else []
    if not forests:
        return _average_or_bag(candidates, alone)
    libraries = dict.fromkeys(one.library for one in forests)
    chosen, *rivals = (_average_or_bag([one for one in forests if one.library == name], alone) for name in libraries)
    for rival in rivals:
        if surely_better(rival, chosen):
            chosen = rival
    return chosen


def _average_or_bag(candidates: Sequence[RankerCandidate], alone: bool) -> RankerCandidate:
    """Return the first average, or the best bag where it is surely better or there is no average."""
    bags = [one for one in candidates if one.bags == 1] or candidates  # constraints may leave averages alone
    best = max(bags, key=lambda one: one.mean)
    average = next((one for one in candidates if one.bags > 1), best)
    of_all = average is not best and all(average.library in ("", one.library) for one in bags)
    if of_all and not alone:
        return average
    return best if surely_better(best, average, len(bags)) else average


def surely_better(one: RankerCandidate, other: RankerCandidate, among: int = 1) -> bool:
    """Whether a candidate, the best ``among`` so many, is ahead by more than two standard errors, or their like."""
    if one is other:
        return False
    ahead = gap(one, other)
    return ahead.mean > surely(among) * ahead.error


def keeping(
    candidates: Sequence[RankerCandidate], data: RankingDataset, constraints: Constraints
) -> tuple[list[RankerCandidate], str]:
    """Return the candidates that keep the constraints out of fold, and a note of how many; or the nearest alone.

    An average may break what each of its bags keeps, and so every candidate is measured.
    """
    if not constraints.goals:
        return list(candidates), ""
    bounds = [constraints.bounds(out_of_fold_of(one.ranker).cross_fitted, data) for one in candidates]
    short = [constraints.shortfall(one, 1) for one in bounds]
    able = [one for one, missed in zip(candidates, short, strict=True) if not missed]
    if not able:
        nearest = int(np.argmin(short))
        reached = constraints.reached(bounds[nearest], 1)
        text = f"no candidate met the constraints: the nearest, {candidates[nearest].name}, is chosen, with {reached}"
        warnings.warn(f"{text} (lower bounds, out of fold)", UnmetConstraintWarning, stacklevel=4)
        return [candidates[nearest]], f"{text[0].upper()}{text[1:]}."
    goals = ", ".join(f"{metric} at least {goal:g}" for metric, goal in constraints.goals.items())
    return able, f"{len(able)} of {len(candidates)} keep {goals} (lower bounds, out of fold)."


@contextlib.contextmanager
def _unconstrained(bags: Sequence[RankerCandidate]) -> Iterator[None]:
    """Let bags with constraints be averaged: whether the average keeps them is measured."""
    before = [(one.ranker, vars(one.ranker.ranker).get("constraints")) for one in bags]
    constrained = [(bag, goals) for bag, goals in before if goals is not None]
    try:
        for bag, _ in constrained:
            bag.set_params(constraints=None)
        yield
    finally:
        for bag, goals in constrained:
            bag.set_params(constraints=goals)


def averages(
    bags: Sequence[RankerCandidate], data: RankingDataset, metric: MetricLike, budget: Budget
) -> tuple[list[RankerCandidate], str]:
    """Return the averages of all bags and of those of each library, and why one is missing."""
    libraries: dict[str, list[RankerCandidate]] = {}
    for one in bags:
        libraries.setdefault(one.library, []).append(one)
    groups = {library: members for library, members in libraries.items() if len(members) > 1 and members[0].forest}
    if len(libraries) > 1 or not groups:
        groups = {"": list(bags)} | groups
    candidates: list[RankerCandidate] = []
    for library, several in groups.items():
        if len(members := averaged(several, data, find_metric(metric))) < 2:
            continue
        title, seconds = f"{library} average".strip(), len(members) * budget.closing
        if seconds > max(budget.left, _SHARE * budget.seconds):
            return candidates, f"No {title}: it may take {seconds:.0f} s, and no time was left."
        with _unconstrained(members):
            blend = blended.of_fitted([one.ranker for one in members], data, weights=AVERAGE, metrics=(metric,))
        count = sum(weight > 0.0 for weight in blend.weights_.values)
        if count > 1:
            candidates.append(
                RankerCandidate(
                    name=f"{title} of {count} bags",
                    ranker=blend,
                    library=library,
                    forest=hasattr(blend, "ranker_"),
                    bags=count,
                    evaluation=blend.out_of_fold_,
                    metric=members[0].metric,
                )
            )
    return candidates, ""
