"""Constraints on validation metrics: the weights of objectives in every round, and the rounds that meet constraints.

A constraint demands that a metric, such as NDCG by purchases, reaches a goal while the ranker's objective is trained.
Its part of the training is the same objective on the labels of that metric. Parts are weighed by multipliers μ, which
are learned by dual ascent: after round t, μ ← max(0, μ + (goal − bound) · RATE / √t), and the next round weighs the
objective by 1 / (1 + Σμ) and the part of each constraint by μ / (1 + Σμ). Parts are on one scale, as in all sums with
``on(…)``. The mean over validation queries may reach a goal by luck, so its lower bound must: one-sided, 95%, by
Student's t. The history holds bounds and multipliers; so checkpoints hold all that the next round depends on.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array
from rankwise.data.dataset import RankingDataset
from rankwise.metrics import Metric, metric
from rankwise.objectives.base import MORE_LABELS, Objective, Sum
from rankwise.objectives.wrappers.base import Wrapper
from rankwise.objectives.wrappers.goal import on
from rankwise.statistics.significance import t_test

BOUND, MULTIPLIER = "bound ", "multiplier "
"""How names of metrics begin in the history."""
RATE = 10.0
_CONFIDENCE = 0.95

History = Mapping[str, Sequence[float]]


class UnmetConstraintWarning(UserWarning):
    """No round met the constraints of a training, and the nearest is kept."""


@dataclass(frozen=True)
class Constraints:
    """Metrics of validation data, and the goals that their lower bounds must reach."""

    goals: Mapping[Metric, float]

    @classmethod
    def of_setting(cls, setting: object) -> Self:
        """Read the parameter ``constraints`` of a ranker.

        >>> Constraints.of_setting({"ndcg(label=purchase)@10": 0.62}).goals
        {ndcg(label=purchase)@10: 0.62}
        """
        if not isinstance(setting, Mapping | None):
            hint = 'write constraints={"ndcg(label=purchase)@10": 0.62}'
            raise check.error("constraints must be goals by metric", got=repr(setting), hint=hint)
        goals = (setting or {}).items()
        return cls({metric(name): check.number(f"the goal of {name}", goal) for name, goal in goals})

    def objective(self, objective: Objective) -> Objective:
        """Return the sum that is trained; its weights vary from round to round."""
        parts = [_learning(objective, getattr(constrained, "label", None)) for constrained in self.goals]
        return Sum(((1.0, objective), *((0.0, part) for part in parts)))

    def weights(self, history: History) -> tuple[float, ...]:
        """Return the weights of the objective and of each constraint's part in the next round."""
        multipliers = [history.get(f"{MULTIPLIER}{name}", (0.0,))[-1] for name in self.goals]
        total = 1.0 + math.fsum(multipliers)
        return (1.0 / total, *(one / total for one in multipliers)) if multipliers else ()

    def multipliers(self, history: History, measures: Mapping[str, float]) -> dict[str, float]:
        """Return the multipliers after a round with these measures."""
        updated = {}
        for name, goal in self.goals.items():
            column = history.get(f"{MULTIPLIER}{name}", ())
            step = RATE / math.sqrt(len(column) + 1) / max(1.0, abs(goal))
            before = column[-1] if column else 0.0
            updated[f"{MULTIPLIER}{name}"] = max(0.0, before + step * (goal - measures[f"{BOUND}{name}"]))
        return updated

    def shortfall(self, history: History, done: int) -> float:
        """Return how far round ``done`` is from meeting the constraint that it misses most; 0 if it meets all."""
        short = [
            (goal - history[f"{BOUND}{name}"][done - 1]) / max(1.0, abs(goal)) for name, goal in self.goals.items()
        ]
        return max(0.0, *short) if short else 0.0

    def bounds(self, scores: Array, data: RankingDataset) -> History:
        """Return the lower bounds that scores reach, as the history of one round."""
        columns = {f"{BOUND}{metric}": metric.of(scores, data) for metric in self.goals}
        return {name: [lower_bound(name, values, data.weights)] for name, values in columns.items()}

    def reached(self, history: History, done: int) -> str:
        """Return what round ``done`` reaches of every goal, for people."""
        return ", ".join(
            f"{name} at least {history[f'{BOUND}{name}'][done - 1]:.4f} of {goal:g}"
            for name, goal in self.goals.items()
        )

    def unmet(self, history: History, best: int, unit: str) -> str:
        """Return the sentence that no round met all constraints; empty if round ``best``, which is kept, did."""
        if not self.shortfall(history, best):
            return ""
        return (
            f"no {unit[:-1]} met the constraints: the nearest, {unit[:-1]} {best}, is kept, with "
            f"{self.reached(history, best)} "
            "(lower bounds on the validation data). Lower the goals, train longer, or validate on more queries"
        )


def _learning(objective: Objective, label: str | None) -> Objective:
    """Return the objective on other labels: those of its ``on``, in whatever wrappers, are replaced."""
    plain = objective.inner if isinstance(objective, on) else objective
    if not any(name.startswith(MORE_LABELS) for name in plain.reads):
        return plain if label is None else on(label, plain)
    if isinstance(objective, Wrapper):
        return replace(objective, inner=_learning(objective.inner, label))
    raise check.error(
        "constraints and sums with on(…) do not go together",
        got=repr(objective),
        hint="leave on(…) out, and set a constraint for its labels",
    )


NONE = Constraints({})


def reject(ranker: object, why: str, hint: str) -> None:
    """Raise if a ranker has constraints, where these would not be kept."""
    if setting := getattr(ranker, "constraints", None):
        raise check.error(why, got=f"constraints={setting!r}", hint=hint)


def lower_bound(name: str, values: Array, weights: Array | None) -> float:
    """Return the one-sided 95% lower bound of the mean over the queries that a metric scores.

    >>> round(lower_bound("ndcg", np.array([0.2, 0.4, np.nan, 0.6]), None), 4)  # 0.4 − 2.92 · 0.2 / √3
    0.0628
    """
    scored = ~np.isnan(values)
    weights = None if weights is None else weights[scored]
    count = int(np.count_nonzero(scored if weights is None else weights))
    if count < 2:
        hint = "validate on more queries"
        raise check.error(f"the {name} needs at least two validation queries that it scores", got=count, hint=hint)
    return t_test(values[scored], weights).interval(2.0 * _CONFIDENCE - 1.0)[0]
