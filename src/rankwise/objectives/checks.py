"""Checks of the contract of objectives, which every trainer relies on, on small lists."""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from rankwise.arrays import Array, offsets_of, rows_of
from rankwise.objectives.base import Objective
from rankwise.objectives.lists import Derivatives
from rankwise.objectives.prepared import Prepared
from rankwise.objectives.table import ObjectiveLike
from rankwise.objectives.table import objective as find_objective
from rankwise.stream import Stream

_SIZES = (1, 2, 3, 5, 8, 1, 6, 7)
_SCALES = (1.0, 5.0, 50.0)
_DRAWS = 10  # of scores at each scale, for the sign of the Hessian
_EXTREMES = (37.0, 4000.0)
PASSED, FAILED, SKIPPED, NOTED = "passed", "FAILED", "skipped", "noted"
Differences = Mapping[float, tuple[Derivatives, Array, Array]]
"""Scale of scores -> derivatives there, and finite differences of the value and of the gradient."""


class Check(NamedTuple):
    """One property of an objective."""

    name: str
    outcome: str
    """``passed``, ``FAILED``, ``skipped`` where it does not apply, or ``noted`` where either answer is fine."""
    detail: str


@dataclasses.dataclass(frozen=True)
class ObjectiveChecks:
    """The outcome of the checks of an objective; prints as a table."""

    objective: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(check.outcome != FAILED for check in self.checks)

    def __str__(self) -> str:
        widths = [max(len(check[k]) for check in self.checks) for k in range(2)]
        lines = [f"{check.name:{widths[0]}}  {check.outcome:{widths[1]}}  {check.detail}" for check in self.checks]
        verdict = "keeps the contract" if self.passed else "does not keep the contract"
        return "\n".join(line.rstrip() for line in (f"{self.objective} {verdict}", *lines))

    __repr__ = __str__


def check_objective(objective: ObjectiveLike, *, seed: int = 0) -> ObjectiveChecks:
    """Check whether your own objective keeps the contract that every trainer and wrapper relies on.

    ``objective`` is a function, an object or an expression. Derivatives are compared with finite differences at
    scores of ±1, ±5 and ±50, queries must not depend on each other, results at scores of ±4000 must be finite. Each
    line names the scores tried: a property that holds for these may fail for others. ``.passed`` is True if nothing
    failed.

    >>> def squared_hinge(scores, labels, offsets):  # of each document against its label
    ...     gap = np.maximum(0.0, labels - scores)
    ...     return np.add.reduceat(gap**2, offsets[:-1]), -2.0 * gap, 2.0 * (gap > 0.0)
    >>> check_objective(squared_hinge)  # doctest: +ELLIPSIS
    squared_hinge keeps the contract
    shapes and finite numbers     passed   33 documents in 8 queries
    gradient = d value / d score  passed   largest difference ...
    Hessian = d gradient / ...
    """
    chosen = find_objective(objective)
    example = _Example(chosen, seed)
    return ObjectiveChecks(repr(chosen), tuple(Check(*row) for row in _rows(example)))


class _Example:
    """An objective, and lists with all special cases: one document, equal labels, nothing relevant."""

    def __init__(self, objective: Objective, seed: int) -> None:
        self.objective = objective
        rng = np.random.default_rng(seed)
        self.offsets = offsets_of(_SIZES)
        self.scores: Array = rng.normal(size=int(self.offsets[-1]))
        self.labels: Array = rng.integers(0, 4, self.scores.size).astype(np.float64)
        self.labels[self.offsets[6] : self.offsets[7]] = 0.0
        self.labels[self.offsets[2] : self.offsets[3]] = 2.0
        columns = {
            "groups": np.arange(self.scores.size) % 3 % 2,
            "teacher_scores": rng.normal(scale=2.0, size=self.scores.size),
        }
        self.documents = {name: columns[name] for name in objective.reads if name in columns}
        self.ids = np.arange(len(_SIZES)) + 100
        self.stream = Stream(7, 0, self.ids)
        # A generator of its own, so that further checks do not change the draws above.
        self._more = np.random.default_rng([seed, 1])

    @functools.cached_property
    def prepared(self) -> Prepared:
        """The objective that has seen the labels of all queries."""
        return self.objective.prepare(self.labels, self.offsets, **self.documents)

    def spread(self, scale: float) -> Array:
        """Draw scores between ``-scale`` and ``scale``."""
        return self._more.uniform(-scale, scale, self.scores.size)

    def at(self, scores: Array, queries: slice | list[int] = slice(None)) -> Derivatives:
        """Call the objective with all queries, or some."""
        numbers = np.arange(len(_SIZES))[queries]
        rows, offsets = rows_of(numbers, self.offsets)
        stream = Stream(7, 0, self.ids[numbers])
        documents = {name: column[rows] for name, column in self.documents.items()}
        return self.objective(scores[rows], self.labels[rows], offsets, stream, **documents)


def _rows(example: _Example) -> Iterator[tuple[str, str, str]]:
    """Yield every check; without finite numbers of the right shape only the first."""
    name = "shapes and finite numbers"
    try:
        derivatives = example.at(example.scores)
    except ValueError as wrong:
        yield name, FAILED, str(wrong)
        return
    valued = not np.isnan(derivatives.value).all()
    bad = [part for part in ("value", "gradient", "hessian") if not np.isfinite(getattr(derivatives, part)).all()]
    bad = bad if valued else [part for part in bad if part != "value"]
    size = f"{example.scores.size} documents in {len(_SIZES)} queries"
    yield name, FAILED if bad else PASSED, f"not finite: {', '.join(bad)}" if bad else size
    if bad:
        return
    spreads = {scale: example.spread(scale) for scale in _SCALES}
    differences = {}
    if not example.objective.estimator:
        differences = {scale: _differences(example, scores) for scale, scores in spreads.items()}
    yield _gradient(example, differences, valued)
    yield _hessian(example, differences)
    yield _independence(example, derivatives)
    yield _extremes(example)
    yield _single(example)
    yield _repeats(example, derivatives)
    yield _shift(example, derivatives)
    yield _sign(example, spreads)


def _gradient(example: _Example, differences: Differences, valued: bool) -> tuple[str, str, str]:
    name = "gradient = d value / d score"
    if not valued:
        return name, SKIPPED, "the function returns no value"
    if example.objective.estimator:
        return name, SKIPPED, "an estimator is not differentiable draw by draw"
    if example.objective.held_fixed:
        return name, SKIPPED, f"held fixed when derivatives are taken: {example.objective.held_fixed}"
    return name, *_compared({scale: (at.gradient, expected) for scale, (at, expected, _) in differences.items()}, 2e-6)


def _hessian(example: _Example, differences: Differences) -> tuple[str, str, str]:
    name = "Hessian = d gradient / d score"
    if example.objective.estimator:
        return name, SKIPPED, "an estimator is not differentiable draw by draw"
    pairs = {scale: (at.hessian, expected) for scale, (at, _, expected) in differences.items()}
    outcome, detail = _compared(pairs, 1e-5)
    if outcome == FAILED and not example.objective.exact_hessian:
        return name, NOTED, f"{detail}: something else stands there"
    return name, outcome, detail


def _sign(example: _Example, spreads: Mapping[float, Array]) -> tuple[str, str, str]:
    """Report negative Hessians: at several scales of scores, with ties and without, and at equal scores."""
    tried = [("equal scores", np.zeros_like(example.scores))]
    for scale, scores in spreads.items():
        drawn = [scores, *(example.spread(scale) for _ in range(_DRAWS - 1))]
        tied = np.round(scores / scale) * scale  # three values: -scale, 0 and scale
        tried += [(f"scores of ±{scale:g}", one) for one in drawn] + [(f"tied scores of ±{scale:g}", tied)]
    hessians = np.nan_to_num(np.stack([example.at(scores).hessian for _, scores in tried]))
    lists = f"{len(tried) * len(_SIZES)} lists with {_plus_minus(_SCALES)}, tied and equal scores"
    worst, document = np.unravel_index(np.argmin(hessians), hessians.shape)
    if hessians[worst, document] >= 0.0:
        return "Hessian not negative", NOTED, f"nowhere in {lists}"
    share = float((hessians < 0.0).mean())
    least = f"{hessians[worst, document]:.2g} at {tried[worst][0]}"
    return (
        "Hessian not negative",
        NOTED,
        f"negative at {share:.2g} of documents, least {least}, of {lists}; trees floor it",
    )


def _compared(pairs: Mapping[float, tuple[Array, Array]], tolerance: float) -> tuple[str, str]:
    """Compare derivatives with finite differences at each scale of scores; the worst of them is reported."""
    errors = {}
    for scale, (computed, expected) in pairs.items():
        gap = float(np.abs(computed - expected).max())
        relative = gap / max(1.0, float(np.abs(expected).max()))
        errors[scale] = (np.inf if np.isnan(relative) else relative, gap)
    worst = max(errors, key=lambda scale: errors[scale][0])
    detail = f"largest difference {errors[worst][1]:.1e} from finite differences, at scores of ±{worst:g}"
    if errors[worst][0] > tolerance:
        return FAILED, detail
    return PASSED, f"{detail} (tried: {_plus_minus(pairs)})"


def _plus_minus(scales: Iterable[float]) -> str:
    return ", ".join(f"±{scale:g}" for scale in scales)


def differences(function: Callable[[Array], Array], scores: Array, step: float = 1e-4) -> Array:
    """Return fourth-order central differences of a function by each score, one row per document."""
    rows = []
    for i in range(scores.size):
        unit = np.zeros_like(scores)
        unit[i] = step
        near = function(scores + unit) - function(scores - unit)
        far = function(scores + 2.0 * unit) - function(scores - 2.0 * unit)
        rows.append((8.0 * near - far) / (12.0 * step))
    return np.array(rows)


def _differences(example: _Example, scores: Array) -> tuple[Derivatives, Array, Array]:
    """Return the derivatives, and differences of the value and of the gradient by each score."""

    def value_and_gradient(scores: Array) -> Array:
        at = example.prepared(scores, example.stream, hessian=False)
        return np.array([at.value.sum(), *at.gradient])

    rows = differences(value_and_gradient, scores)
    return example.at(scores), rows[:, 0], np.diag(rows[:, 1:])


def _independence(example: _Example, derivatives: Derivatives) -> tuple[str, str, str]:
    name = "queries do not see each other"
    for q in range(len(_SIZES)):
        alone = example.at(example.scores, slice(q, q + 1))
        if not np.allclose(
            alone.gradient, derivatives.gradient[example.offsets[q] : example.offsets[q + 1]], rtol=1e-9, atol=1e-12
        ):
            return name, FAILED, f"query {q} has another gradient when it is alone"
    turned = example.at(example.scores, slice(None, None, -1))
    rows = rows_of(np.arange(len(_SIZES))[::-1], example.offsets)[0]
    if not np.allclose(turned.gradient, derivatives.gradient[rows], rtol=1e-9, atol=1e-12):
        return name, FAILED, "the gradient depends on the order of queries"
    return name, PASSED, "alone and in another order"


def _extremes(example: _Example) -> tuple[str, str, str]:
    name = "extreme scores stay finite"
    for gap in _EXTREMES:
        for sign in (1.0, -1.0):
            scores = sign * gap * np.tanh(example.scores)
            parts = example.at(scores)._asdict().items()
            bad = [part for part, array in parts if part != "value" and not np.isfinite(array).all()]
            if bad:
                return name, FAILED, f"{', '.join(bad)} at scores of ±{gap:g}"
    return name, PASSED, f"±{_EXTREMES[0]:g} and ±{_EXTREMES[1]:g}"


def _single(example: _Example) -> tuple[str, str, str]:
    alone = example.at(example.scores, slice(0, 1))
    still = bool((alone.gradient == 0.0).all())
    return "one document: nothing to learn", NOTED, "gradient 0" if still else "it has a gradient: not a ranking loss"


def _repeats(example: _Example, derivatives: Derivatives) -> tuple[str, str, str]:
    again = example.at(example.scores)
    same = np.array_equal(again.gradient, derivatives.gradient) and np.array_equal(again.hessian, derivatives.hessian)
    hint = "random numbers must come from the stream, and nothing may be kept between calls"
    return "the same call gives the same", PASSED if same else FAILED, "bit for bit" if same else hint


def _shift(example: _Example, derivatives: Derivatives) -> tuple[str, str, str]:
    moved = example.at(example.scores + 2.0)
    blind = np.allclose(moved.gradient, derivatives.gradient, rtol=1e-6, atol=1e-9)
    return "blind to a constant", NOTED, "yes, at scores + 2" if blind else "no: scores mean more than their order"
