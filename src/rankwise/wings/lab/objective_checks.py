"""Checks of the contract of objectives, which every trainer relies on, on small lists."""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import Objective, Stream
from rankwise import objective as find_objective
from rankwise.base.arrays import Array, offsets_of, rows_of
from rankwise.base.tables import Table
from rankwise.objectives import Derivatives
from rankwise.objectives.wrappers import MORE_LABELS
from rankwise.statistics import Result

if TYPE_CHECKING:
    import polars as pl

_SIZES = (1, 2, 3, 5, 8, 1, 6, 7)
_SCALES = (1.0, 5.0, 50.0)
_DRAWS = 10  # of scores at each scale, for the sign of the Hessian
_EXTREMES = (37.0, 4000.0)
PASSED, FAILED, SKIPPED, NOTED = "passed", "FAILED", "skipped", "noted"


class Check(NamedTuple):
    """One property of an objective."""

    name: str
    outcome: str
    """``passed``, ``FAILED``, ``skipped`` where it does not apply, or ``noted`` where either answer is fine."""
    detail: str


@dataclasses.dataclass(frozen=True, repr=False)
class ObjectiveChecks(Result):
    """The outcome of the checks of an objective; prints as a table."""

    objective: str
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return all(check.outcome != FAILED for check in self.checks)

    @property
    def sentence(self) -> str:
        """The verdict."""
        return f"{self.objective} {'keeps' if self.passed else 'does not keep'} the contract"

    def table(self) -> Table:
        """Return the outcome and details of each check."""
        return Table(header=("", "", ""), rows=self.checks, align="lll", title=self.sentence)

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per check: name, outcome and detail."""
        import polars as pl

        return pl.DataFrame(self.checks, schema=Check._fields, orient="row")


def check_objective(objective: Objective | str | Callable[..., object], *, seed: int = 0) -> ObjectiveChecks:
    """Check whether your own objective keeps the contract that every trainer and wrapper relies on.

    ``objective`` is a function, an object or an expression. Derivatives are compared with finite differences at
    scores of ±1, ±5 and ±50, queries must not depend on each other, results at scores of ±4000 must be finite. Each
    line names the scores tried: a property that holds for these may fail for others. ``.passed`` is True if nothing
    failed.

    A Hessian that is not the derivative of the gradient is noted, since many losses replace it. It fails where the
    objective claims to be exact (a function by its attribute: ``f.exact_hessian = True``), and where it has the
    opposite sign.

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
    return ObjectiveChecks(repr(chosen), tuple(_checks(_Example(chosen, seed))))


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
            "positions": np.concatenate([np.arange(1, size + 1) for size in _SIZES]),
            "init_scores": rng.normal(size=self.scores.size),
        }
        self.documents = {name: columns[name] for name in objective.reads if name in columns}
        # Generators of their own, so that further checks do not change the draws above.
        self._more = np.random.default_rng([seed, 1])
        goals = np.random.default_rng([seed, 2])
        names = [name for name in objective.reads if name.startswith(MORE_LABELS)]
        self.documents |= {name: goals.integers(0, 3, self.scores.size).astype(np.float64) for name in names}

    def spread(self, scale: float) -> Array:
        """Draw scores between ``-scale`` and ``scale``."""
        return self._more.uniform(-scale, scale, self.scores.size)

    def at(self, scores: Array, queries: slice = slice(None)) -> Derivatives:
        """Call the objective with all queries, or some."""
        numbers = np.arange(len(_SIZES))[queries]
        rows, offsets = rows_of(numbers, self.offsets)
        documents = {name: column[rows] for name, column in self.documents.items()}
        return self.objective(scores[rows], self.labels[rows], offsets, _stream(numbers), **documents)

    def differences(self, scores: Array) -> tuple[Derivatives, Array, Array]:
        """Return the derivatives, and differences of the value and of the gradient by each score."""
        prepared = self.objective.prepare(self.labels, self.offsets, **self.documents)
        stream = _stream(np.arange(len(_SIZES)))

        def value_and_gradient(scores: Array) -> Array:
            at = prepared(scores, stream, hessian=False)
            return np.array([at.value.sum(), *at.gradient])

        rows = differences(value_and_gradient, scores)
        return self.at(scores), rows[:, 0], np.diag(rows[:, 1:])


def _stream(numbers: NDArray[np.int64]) -> Stream:
    return Stream(7, 0, numbers + 100)


def _checks(example: _Example) -> Iterator[Check]:
    """Yield every check; without finite numbers of the right shape only the first."""
    scores = example.scores
    try:
        derivatives = example.at(scores)
    except ValueError as wrong:
        yield Check("shapes and finite numbers", FAILED, str(wrong))
        return
    valued = not np.isnan(derivatives.value).all()
    bad = _not_finite(derivatives, *(["value"] if valued else []), "gradient", "hessian")
    detail = f"not finite: {bad}" if bad else f"{scores.size} documents in {len(_SIZES)} queries"
    yield Check("shapes and finite numbers", FAILED if bad else PASSED, detail)
    if bad:
        return
    spreads = {scale: example.spread(scale) for scale in _SCALES}
    yield from _derivatives(example, spreads, valued)
    yield Check("queries do not see each other", *_independence(example, derivatives.gradient))
    yield Check("extreme scores stay finite", *_extremes(example))
    still = (example.at(scores, slice(0, 1)).gradient == 0.0).all()
    detail = "gradient 0" if still else "it has a gradient: not a ranking loss"
    yield Check("one document: nothing to learn", NOTED, detail)
    again = example.at(scores)
    same = np.array_equal(again.gradient, derivatives.gradient) and np.array_equal(again.hessian, derivatives.hessian)
    hint = "random numbers must come from the stream, and nothing may be kept between calls"
    yield Check("the same call gives the same", PASSED if same else FAILED, "bit for bit" if same else hint)
    blind = np.allclose(example.at(scores + 2.0).gradient, derivatives.gradient, rtol=1e-6, atol=1e-9)
    detail = "yes, at scores + 2" if blind else "no: scores mean more than their order"
    yield Check("blind to a constant", NOTED, detail)
    yield Check("Hessian not negative", *_signs(example, spreads))


def _not_finite(derivatives: Derivatives, *parts: str) -> str:
    return ", ".join(part for part in parts if not np.isfinite(getattr(derivatives, part)).all())


def _derivatives(example: _Example, spreads: Mapping[float, Array], valued: bool) -> Iterator[Check]:
    """Compare gradient and Hessian with finite differences, where the objective has derivatives."""
    objective = example.objective
    gradient, hessian = "gradient = d value / d score", "Hessian = d gradient / d score"
    if objective.estimator:
        for name in (gradient, hessian):
            yield Check(name, SKIPPED, "an estimator is not differentiable draw by draw")
        return
    at_scale = {scale: example.differences(scores) for scale, scores in spreads.items()}
    if not valued:
        yield Check(gradient, SKIPPED, "the function returns no value")
    elif objective.held_fixed:
        yield Check(gradient, SKIPPED, f"held fixed when derivatives are taken: {objective.held_fixed}")
    else:
        pairs = {scale: (at.gradient, expected) for scale, (at, expected, _) in at_scale.items()}
        yield Check(gradient, *_compared(pairs, 2e-6))
    outcome, detail = _compared({scale: (at.hessian, expected) for scale, (at, _, expected) in at_scale.items()}, 1e-5)
    if outcome == FAILED and not objective.exact_hessian:
        outcome, detail = NOTED, f"{detail}: something else stands there"
        if all(_turned(at.hessian, expected) for at, _, expected in at_scale.values()):
            outcome, detail = FAILED, f"{detail}, and its sign is the opposite"
    yield Check(hessian, outcome, detail)


def _turned(hessian: Array, expected: Array) -> bool:
    """Whether a Hessian is negative where it should be positive, and nowhere has the sign that it should have."""
    tells = np.abs(expected) > 1e-6 * np.abs(expected).max()
    return bool((hessian * expected < 0.0)[tells & (expected > 0.0)].any() and (hessian * expected <= 0.0)[tells].all())


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


def _independence(example: _Example, gradient: Array) -> tuple[str, str]:
    if example.objective.couples_queries:
        return SKIPPED, "queries share parameters"
    for q in range(len(_SIZES)):
        alone = example.at(example.scores, slice(q, q + 1)).gradient
        if not np.allclose(alone, gradient[example.offsets[q] : example.offsets[q + 1]], rtol=1e-9, atol=1e-12):
            return FAILED, f"query {q} has another gradient when it is alone"
    turned = example.at(example.scores, slice(None, None, -1)).gradient
    rows = rows_of(np.arange(len(_SIZES))[::-1], example.offsets)[0]
    if not np.allclose(turned, gradient[rows], rtol=1e-9, atol=1e-12):
        return FAILED, "the gradient depends on the order of queries"
    return PASSED, "alone and in another order"


def _extremes(example: _Example) -> tuple[str, str]:
    for gap in _EXTREMES:
        for sign in (1.0, -1.0):
            derivatives = example.at(sign * gap * np.tanh(example.scores))
            if bad := _not_finite(derivatives, "gradient", "hessian", "numerator"):
                return FAILED, f"{bad} at scores of ±{gap:g}"
    return PASSED, " and ".join(f"±{gap:g}" for gap in _EXTREMES)


def _signs(example: _Example, spreads: Mapping[float, Array]) -> tuple[str, str]:
    """Return where Hessians are negative: at several scales of scores, tied or not, and at equal ones."""
    tried = [("equal scores", np.zeros_like(example.scores))]
    for scale, scores in spreads.items():
        drawn = [scores, *(example.spread(scale) for _ in range(_DRAWS - 1))]
        tied = np.round(scores / scale) * scale  # three values: -scale, 0 and scale
        tried += [(f"scores of ±{scale:g}", one) for one in drawn] + [(f"tied scores of ±{scale:g}", tied)]
    hessians = np.nan_to_num(np.stack([example.at(scores).hessian for _, scores in tried]))
    lists = f"{len(tried) * len(_SIZES)} lists with {_plus_minus(_SCALES)}, tied and equal scores"
    worst, document = np.unravel_index(np.argmin(hessians), hessians.shape)
    if hessians[worst, document] >= 0.0:
        return NOTED, f"nowhere in {lists}"
    least = f"{hessians[worst, document]:.2g} at {tried[worst][0]}"
    detail = f"negative at {(hessians < 0.0).mean():.2g} of documents, least {least}, of {lists}"
    if hessians.max() <= 0.0:
        return FAILED, f"{detail}, and nowhere positive: trees cannot divide by it"
    return NOTED, f"{detail}; trees floor it"
