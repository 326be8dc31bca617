"""The calibrated loss: pencil cases, the minimiser of the expected loss over all labels, extremes, and trainers."""

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import rankwise as rw
from rankwise.objectives.checks import differences
from rankwise.rankers.table import ranker_class
from rankwise.statistics.calibration import sigmoid

CHANCES = np.array([0.9, 0.4, 0.1])


def test_pencil_cases():
    # At scores 0: sigma = 1/2, p = 1/2. ListCE of labels (1, 0): log 2, (1/2 - 1)/2 and (1/2)/2.
    actual = rw.Calibrated(alpha=1.0, curvature="exact")([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(actual.value, np.log(2))
    np.testing.assert_allclose(actual.gradient, [-1 / 4, 1 / 4])
    # Y p (1 - p)(1 - sigma)^2 = 1/16, less (Yp - y) sigma (1 - sigma) = -1/8 and 1/8.
    np.testing.assert_allclose(actual.hessian, [1 / 16 + 1 / 8, 1 / 16 - 1 / 8])
    floored = rw.Calibrated(alpha=1.0)([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(floored.hessian, [1 / 16 + 1 / 8, 1 / 16])
    # Sigmoid cross entropy: log 2 for each document, sigma - y, sigma (1 - sigma).
    pointwise = rw.Calibrated(alpha=0.0)([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(pointwise.value, 2 * np.log(2))
    np.testing.assert_allclose(pointwise.gradient, [-1 / 2, 1 / 2])
    np.testing.assert_allclose(pointwise.hessian, 1 / 4)
    mixed = rw.Calibrated(alpha=0.25)([0, 0], [1, 0], [0, 2])
    for part, one, other in zip(mixed, pointwise, floored, strict=True):
        np.testing.assert_allclose(part, 0.75 * one + 0.25 * other)


def expected(scores, normalised=False):
    """Value and gradient of the mean over all eight label vectors, by their probabilities."""
    value, gradient = 0.0, np.zeros(3)
    for labels in itertools.product((0.0, 1.0), repeat=3):
        chance = float(np.prod(np.where(labels, CHANCES, 1 - CHANCES)))
        chance /= max(sum(labels), 1.0) if normalised else 1.0
        pointwise, listwise = (rw.Calibrated(alpha=a)(scores, labels, [0, 3]) for a in (0.0, 1.0))
        value += chance * (pointwise.value[0] + listwise.value[0])
        gradient += chance * (pointwise.gradient + listwise.gradient)
    return value, gradient


def test_the_expected_loss_is_least_at_the_probabilities():
    scores = minimize(expected, np.zeros(3), jac=True, options={"gtol": 1e-10}).x
    np.testing.assert_allclose(sigmoid(scores), CHANCES, atol=1e-7)
    # Divided by the sum of labels it would not be.
    scores = minimize(expected, np.zeros(3), args=(True,), jac=True, options={"gtol": 1e-10}).x
    assert np.abs(sigmoid(scores) - CHANCES).max() > 0.02


def test_labels_are_divided_by_the_largest():
    scores = np.array([0.3, -1.0, 2.0, 0.5])
    graded = rw.Calibrated(max_label=2.0)(scores, [2, 1, 0, 5], [0, 4])
    shares = rw.Calibrated()(scores, [1.0, 0.5, 0.0, 1.0], [0, 4])
    for one, other in zip(graded, shares, strict=True):
        np.testing.assert_array_equal(one, other)


def test_extreme_scores_by_pencil():
    # sigma = 1 and 0, y = 0 and 1: sigmoid cross entropy 4000 each; ListCE = -log p = 4000, p = 1 and 0.
    actual = rw.Calibrated()([4000.0, -4000.0], [0, 1], [0, 2])
    np.testing.assert_allclose(actual.value, 0.5 * 8000 + 0.5 * 4000)
    np.testing.assert_allclose(actual.gradient, [0.5 * 1 + 0.5 * 0, -0.5 - 0.5])
    # Far below 0 sigma is e^s, p = 1/(1 + e^-60), and the gradient -(1 - p)(1 - sigma) keeps its digits.
    alone = rw.Calibrated(alpha=1.0)([-2000.0, -2060.0], [1, 0], [0, 2])
    np.testing.assert_allclose(alone.gradient, [-np.exp(-60), np.exp(-60)], rtol=1e-11)
    np.testing.assert_allclose(alone.hessian, np.exp(-60), rtol=1e-11)


@pytest.mark.parametrize("level", [-4000.0, -30.0, 30.0, 4000.0])
def test_derivatives_far_from_zero(level):
    objective = rw.Calibrated(alpha=0.7, curvature="exact")
    scores, labels = level + np.array([0.0, 1.0, -2.0]), [1, 0, 1]
    actual = objective(scores, labels, [0, 3])
    rows = differences(
        lambda s: np.append(objective(s, labels, [0, 3]).gradient, objective(s, labels, [0, 3]).value), scores
    )
    np.testing.assert_allclose(actual.gradient, rows[:, 3], atol=1e-7)
    np.testing.assert_allclose(actual.hessian, np.diag(rows), atol=1e-8)


def test_settings_are_checked():
    for wrong, message in (
        ({"alpha": 1.5}, r"alpha must be a number in \[0, 1\]: got 1.5"),
        ({"max_label": 0.0}, "max_label must be a number"),
        ({"curvature": "abs"}, "unknown curvature"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.Calibrated(**wrong)


def rare(seed: int = 0) -> tuple[rw.RankingDataset, np.ndarray]:
    """Queries of one and of several documents, of which about 2% are relevant, and their probabilities."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 30], 300)
    features = rng.normal(size=(sizes.sum(), 2))
    chances = sigmoid(-4.5 + features[:, 0])
    return rw.RankingDataset(features, rng.random(chances.size) < chances, np.append(0, np.cumsum(sizes))), chances


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        *((name, {"rounds": 60, "leaves": 4, "learning_rate": 0.1}) for name in ("lightgbm", "xgboost", "catboost")),
        ("neural", {"epochs": 25, "hidden": (), "learning_rate": 0.2}),  # linear: the level is its last bias
    ],
)
def test_every_trainer_reaches_rare_base_rates(name, settings):
    pytest.importorskip({"neural": "torch"}.get(name, name))
    data, chances = rare()
    settings |= {"threads": 1} if name != "neural" else {}
    model: Any = ranker_class(name)("calibrated", seed=0, **settings).fit(data)
    predicted = sigmoid(model.predict(data))
    assert abs(predicted.mean() - chances.mean()) < 0.01
    assert np.corrcoef(predicted, chances)[0, 1] > 0.6
