"""Strengths from preferences, against SciPy's optimum, every outcome of few comparisons, and what was planted."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import optimize

from rankwise.base.threads import use_threads
from rankwise.wings.judging import bradley_terry
from rankwise.wings.judging.bradley_terry import Fit, fit
from tests.refusals import refuses

RIDGE = 0.01


def design(first: Any, second: Any, size: int) -> Any:
    """One row per comparison: +1 for the first document, −1 for the second, 1 for the bias."""
    rows = np.zeros((len(first), size + 1))
    rows[np.arange(len(first)), first] = 1.0
    rows[np.arange(len(first)), second] = -1.0
    rows[:, -1] = 1.0
    return rows


def objective(values: Any, rows: Any, won: Any, ridge: float) -> float:
    chance = 1.0 / (1.0 + np.exp(-rows @ values))
    information = (rows * (chance * (1.0 - chance))[:, None]).T @ rows + ridge * np.eye(values.size)
    likelihood = won @ np.log(chance) + (1.0 - won) @ np.log1p(-chance)
    return float(-likelihood - 0.5 * np.linalg.slogdet(information)[1] + 0.5 * ridge * values @ values)


def gradient(values: Any, rows: Any, won: Any, ridge: float) -> Any:
    chance = 1.0 / (1.0 + np.exp(-rows @ values))
    weight = chance * (1.0 - chance)
    inverse = np.linalg.inv((rows * weight[:, None]).T @ rows + ridge * np.eye(values.size))
    leverage = weight * np.einsum("ki,ij,kj->k", rows, inverse, rows)
    return rows.T @ (won - chance + leverage * (0.5 - chance)) - ridge * values


def drawn(rng: np.random.Generator, sizes: list[int], more: int) -> tuple[Any, ...]:
    """Return parts, pairs and connected comparisons: a tree of each part, and some more."""
    parts, pairs, first, second = [0], [0], [], []
    for size in sizes:
        tree = np.arange(1, size), np.array([rng.integers(0, k) for k in range(1, size)])
        others = rng.integers(0, size, more)
        both = (
            np.concatenate([tree[0], others]),
            np.concatenate([tree[1], (others + rng.integers(1, size, more)) % size]),
        )
        swap = rng.random(both[0].size) < 0.5
        first.append(np.where(swap, both[1], both[0]) + parts[-1])
        second.append(np.where(swap, both[0], both[1]) + parts[-1])
        parts.append(parts[-1] + size)
        pairs.append(pairs[-1] + swap.size)
    return np.array(parts), np.array(pairs), np.concatenate(first), np.concatenate(second)


@pytest.mark.parametrize("seed", range(8))
def test_the_fit_is_scipys_optimum(seed: int):
    rng = np.random.default_rng(seed)
    parts, pairs, first, second = drawn(rng, [2, 4, 3], 6)
    won = rng.choice([0.0, 0.5, 1.0], size=first.size)
    found = fit(parts, pairs, first, second, won, ridge=RIDGE)
    arguments = (design(first, second, 9), won, RIDGE)
    rough = optimize.minimize(objective, np.zeros(10), args=arguments, method="BFGS").x
    exact = optimize.root(gradient, rough, args=arguments, tol=1e-13).x
    assert np.abs(exact - rough).max() < 1e-3  # the root is that optimum
    assert [*found.strengths, found.bias] == pytest.approx(exact, abs=1e-9)
    assert np.add.reduceat(found.strengths, parts[:-1]) == pytest.approx(0.0, abs=1e-9)


def test_errors_are_those_of_the_information_over_all_outcomes():
    """The information is the mean square of the score over every outcome of the comparisons."""
    parts, pairs = np.array([0, 3, 5]), np.array([0, 5, 8])
    first, second = np.array([0, 1, 1, 2, 0, 3, 4, 3]), np.array([1, 0, 2, 0, 2, 4, 3, 4])
    won = np.array([1.0, 0, 1, 1, 0, 1, 1, 0])
    found = fit(parts, pairs, first, second, won, ridge=RIDGE)
    rows = design(first, second, 5)
    chance = 1.0 / (1.0 + np.exp(-rows @ [*found.strengths, found.bias]))
    information = RIDGE * np.eye(6)
    for outcome in itertools.product([0.0, 1.0], repeat=8):
        probability = np.prod(np.where(outcome, chance, 1.0 - chance))
        score = rows.T @ (np.array(outcome) - chance)
        information += probability * np.outer(score, score)
    inverse = np.linalg.inv(information)
    # The mean of a part is known to be 0: its direction has the variance 1/ridge in the inverse.
    sizes = np.repeat(np.diff(parts), np.diff(parts))
    assert found.errors**2 == pytest.approx(np.diag(inverse)[:5] - 1.0 / (RIDGE * sizes), abs=1e-9)
    assert found.bias_error**2 == pytest.approx(inverse[5, 5], abs=1e-12)


def simulated(rng: np.random.Generator, queries: int, size: int, number: int, bias: float) -> tuple[Fit, Any]:
    """Fit pairs that were shown in both orders, of documents with planted strengths."""
    parts, pairs, first, second = drawn(rng, [size] * queries, number)
    first, second = np.repeat(first, 2), np.repeat(second, 2)
    first[1::2], second[1::2] = second[1::2].copy(), first[1::2].copy()
    strengths = rng.normal(size=(queries, size))
    strengths = (strengths - strengths.mean(1, keepdims=True)).ravel()
    won = rng.random(first.size) < 1.0 / (1.0 + np.exp(strengths[second] - strengths[first] - bias))
    return fit(parts, 2 * pairs, first, second, won.astype(float), ridge=RIDGE), strengths


def test_many_small_sets_do_not_overstate_the_position_bias():
    """Of two documents in both orders, the maximum of the likelihood has twice the bias."""
    found, _ = simulated(np.random.default_rng(1), 4000, 2, 0, 0.6)
    assert abs(found.bias - 0.6) < 0.12


def test_intervals_cover_what_was_planted():
    rng = np.random.default_rng(2)
    covered, bias = [], []
    for _ in range(150):
        found, truth = simulated(rng, 12, 6, 4, 0.6)
        covered.append(np.abs(found.strengths - truth) < 1.96 * found.errors)
        bias.append(abs(found.bias - 0.6) < 1.96 * found.bias_error)
    assert np.mean(covered) > 0.94
    assert np.mean(bias) > 0.90


def test_what_wins_everything_is_finite_and_settles():
    rng = np.random.default_rng(3)
    for number in range(120):
        parts, pairs, first, second = drawn(rng, rng.integers(2, 7, rng.integers(1, 5)).tolist(), number % 12)
        won = [(first < second) * 1.0, np.ones(first.size), rng.choice([0.0, 1.0], first.size)][number % 3]
        times = 40 if number % 4 == 0 else 1  # many repeats of one outcome
        at = np.concatenate([np.tile(np.arange(a, b), times) for a, b in itertools.pairwise(pairs)])
        first, second, won = first[at], second[at], won[at]
        found = fit(parts, times * pairs, first, second, won, ridge=RIDGE)
        score = gradient(np.array([*found.strengths, found.bias]), design(first, second, parts[-1]), won, RIDGE)
        assert np.abs(score).max() < 1e-7
        assert np.isfinite(found.errors).all()


def test_threads_do_not_change_the_fit():
    rng = np.random.default_rng(4)
    parts, pairs, first, second = drawn(rng, [10] * 900, 20)
    won = rng.choice([0.0, 1.0], first.size)
    results = []
    for count in (1, 3):
        with use_threads(count):
            results.append(fit(parts, pairs, first, second, won, ridge=RIDGE))
    assert 900 * 2 * 10**3 > 1_000_000  # the work that takes threads
    for one, other in zip(*results, strict=True):
        assert np.array_equal(one, other)


def test_more_documents_than_a_matrix_holds_are_refused(monkeypatch: Any):
    monkeypatch.setattr(bradley_terry, "MOST", 3)
    parts, pairs, first, second = drawn(np.random.default_rng(0), [4], 0)
    refuses(
        lambda: fit(parts, pairs, first, second, np.ones(3), ridge=RIDGE),
        what="at most 3 documents can be compared…",
        got="4",
    )
