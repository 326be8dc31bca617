"""The calibrated loss: pencil cases, the minimiser of the expected loss over all labels, extremes, and trainers."""

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

import rankwise as rw
from rankwise.models.forests.forest import summed
from rankwise.objectives.base import base_score, level_totals
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.statistics.calibration import sigmoid
from rankwise.wings.lab.objective_checks import differences

CHANCES = np.array([0.9, 0.4, 0.1])


def test_pencil_cases():
    # At scores 0: sigma = 1/2, p = 1/2. ListCE of labels (1, 0): log 2, (1/2 - 1)/2 and (1/2)/2.
    actual = rw.objectives.Calibrated(alpha=1.0, curvature="exact")([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(actual.value, np.log(2))
    np.testing.assert_allclose(actual.gradient, [-1 / 4, 1 / 4])
    # Y p (1 - p)(1 - sigma)^2 = 1/16, less (Yp - y) sigma (1 - sigma) = -1/8 and 1/8.
    np.testing.assert_allclose(actual.hessian, [1 / 16 + 1 / 8, 1 / 16 - 1 / 8])
    floored = rw.objectives.Calibrated(alpha=1.0)([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(floored.hessian, [1 / 16 + 1 / 8, 1 / 16])
    # Sigmoid cross entropy: log 2 for each document, sigma - y, sigma (1 - sigma).
    pointwise = rw.objectives.Calibrated(alpha=0.0)([0, 0], [1, 0], [0, 2])
    np.testing.assert_allclose(pointwise.value, 2 * np.log(2))
    np.testing.assert_allclose(pointwise.gradient, [-1 / 2, 1 / 2])
    np.testing.assert_allclose(pointwise.hessian, 1 / 4)
    mixed = rw.objectives.Calibrated(alpha=0.25)([0, 0], [1, 0], [0, 2])
    for part, one, other in zip(mixed, pointwise, floored, strict=True):
        np.testing.assert_allclose(part, 0.75 * one + 0.25 * other)


def expected(scores, normalised=False):
    """Value and gradient of the mean over all eight label vectors, by their probabilities."""
    value, gradient = 0.0, np.zeros(3)
    for labels in itertools.product((0.0, 1.0), repeat=3):
        chance = float(np.prod(np.where(labels, CHANCES, 1 - CHANCES)))
        chance /= max(sum(labels), 1.0) if normalised else 1.0
        pointwise, listwise = (rw.objectives.Calibrated(alpha=a)(scores, labels, [0, 3]) for a in (0.0, 1.0))
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
    graded = rw.objectives.Calibrated(max_label=2.0)(scores, [2, 1, 0, 5], [0, 4])
    shares = rw.objectives.Calibrated()(scores, [1.0, 0.5, 0.0, 1.0], [0, 4])
    for one, other in zip(graded, shares, strict=True):
        np.testing.assert_array_equal(one, other)


def test_extreme_scores_by_pencil():
    # sigma = 1 and 0, y = 0 and 1: sigmoid cross entropy 4000 each; ListCE = -log p = 4000, p = 1 and 0.
    actual = rw.objectives.Calibrated()([4000.0, -4000.0], [0, 1], [0, 2])
    np.testing.assert_allclose(actual.value, 0.5 * 8000 + 0.5 * 4000)
    np.testing.assert_allclose(actual.gradient, [0.5 * 1 + 0.5 * 0, -0.5 - 0.5])
    # Far below 0 sigma is e^s, p = 1/(1 + e^-60), and the gradient -(1 - p)(1 - sigma) keeps its digits.
    alone = rw.objectives.Calibrated(alpha=1.0)([-2000.0, -2060.0], [1, 0], [0, 2])
    np.testing.assert_allclose(alone.gradient, [-np.exp(-60), np.exp(-60)], rtol=1e-11)
    np.testing.assert_allclose(alone.hessian, np.exp(-60), rtol=1e-11)


@pytest.mark.parametrize("level", [-4000.0, -30.0, 30.0, 4000.0])
def test_derivatives_far_from_zero(level):
    objective = rw.objectives.Calibrated(alpha=0.7, curvature="exact")
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
            rw.objectives.Calibrated(**wrong)


def rare(seed: int = 0) -> tuple[rw.RankingDataset, np.ndarray]:
    """Queries of one and of several documents, of which about 2% are relevant, and their probabilities."""
    rng = np.random.default_rng(seed)
    sizes = rng.choice([1, 2, 30], 300)
    features = rng.normal(size=(sizes.sum(), 2))
    chances = sigmoid(-4.5 + features[:, 0])
    return rw.RankingDataset(features, rng.random(chances.size) < chances, np.append(0, np.cumsum(sizes))), chances


def log_odds(rate: float) -> float:
    return float(np.log(rate / (1.0 - rate)))


def start(objective: str, data: rw.RankingDataset) -> float:
    return TrainingSettings.of(rw.LightGBMRanker(objective)).start(TrainingData(train=data))


@pytest.mark.parametrize(
    ("objective", "rate"),
    [
        ("calibrated", 0.3),  # weights of queries are 1 and 2: (1 + 2) / (4 + 2·3)
        ("calibrated(alpha=0.9)", 0.3),
        ("calibrated(max_label=2)", 0.15),
        ("on(purchase, calibrated)", 0.1),
        ("0.5*calibrated + xendcg", 0.3),
        ("calibrated + 3*calibrated(max_label=2, alpha=0.0)", (0.3 + 6 * 0.15) / 7),  # by 1 − alpha: 1/2 and 3
        ("stochastic(calibrated, samples=3)", 0.3),
        ("calibrated(alpha=1.0)", 0.5),  # no level
        ("xendcg - calibrated", 0.5),  # no least loss
        ("on(nothing, calibrated)", 0.5),
    ],
)
def test_training_starts_at_the_constant_with_the_least_loss(objective: str, rate: float):
    goals: Any = {"purchase": [1, 0, 0, 0, 0, 0, 0], "nothing": np.zeros(7)}
    data = rw.RankingDataset(np.zeros((7, 1)), [1, 0, 0, 0, 0, 1, 0], [0, 4, 7], weights=[1, 2], more_labels=goals)
    assert start(objective, data) == pytest.approx(log_odds(rate), abs=1e-12)


def test_where_training_starts_does_not_depend_on_how_data_are_divided():
    data, _ = rare()
    weights = np.random.default_rng(1).uniform(0.5, 2.0, data.n_queries)
    data = data.with_(weights=weights)
    parts = [data.take(slice(first, first + 70)) for first in range(0, data.n_queries, 70)]
    totals = [
        level_totals(rw.objectives.Calibrated().prepare(part.labels, part.offsets), part.weights) for part in parts
    ]
    assert base_score(totals[::-1]) == start("calibrated", data)


TRAINERS: dict[str, dict[str, Any]] = {
    "lightgbm": {"rounds": 60, "leaves": 4, "learning_rate": 0.1, "threads": 1},
    "xgboost": {"rounds": 60, "leaves": 4, "learning_rate": 0.1, "threads": 1},
    "catboost": {"rounds": 60, "leaves": 4, "learning_rate": 0.1, "threads": 1},
    "neural": {"epochs": 25, "hidden": (), "learning_rate": 0.2, "device": "cpu"},  # linear: the level is its last bias
}


def trainer(name: str, objective: str = "calibrated", **settings: Any) -> Any:
    pytest.importorskip({"neural": "torch"}.get(name, name))
    return ranker_class(name)(objective, **TRAINERS[name] | settings)


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_reaches_rare_base_rates(name: str):
    data, chances = rare()
    predicted = sigmoid(trainer(name).fit(data).predict(data))
    assert abs(predicted.mean() - chances.mean()) < 0.01
    assert np.corrcoef(predicted, chances)[0, 1] > 0.6


@pytest.mark.parametrize("name", TRAINERS)
def test_the_model_itself_holds_where_training_started(name: str, tmp_path: Path):
    """A first step that is nearly nothing leaves the base rate, in scores, files, scorers, explanations and bags."""
    data, _ = rare()
    settings: dict[str, Any] = {"learning_rate": 1e-6}
    settings |= {"epochs": 2} if name == "neural" else {"rounds": 2}
    rate, near = log_odds(data.labels.mean()), 1e-3 if name != "neural" else 0.6
    model = trainer(name, **settings).fit(data)
    scores = model.predict(data)
    assert scores.mean() == pytest.approx(rate, abs=near)
    assert model.history_["loss"][0] == pytest.approx(
        rw.objectives.Calibrated()(scores, data.labels, data.offsets).value.mean(), rel=0.02
    )
    np.testing.assert_array_equal(rw.load(model.save(tmp_path / "model")).predict(data), scores)
    np.testing.assert_allclose(model.contributions(data).parts.sum(axis=1), scores, atol=1e-5)
    if name != "neural":
        np.testing.assert_allclose(model.scorer()(data.features), scores, atol=1e-6)
    bag = rw.bagged(trainer(name, **settings), folds=3).fit(data)
    assert bag.predict(data).mean() == pytest.approx(rate, abs=near, rel=0.1)
    ranking = trainer(name, "xendcg", **settings).fit(data)
    continued = trainer(name, **settings).fit(data, init_model=ranking)
    assert abs(continued.predict(data).mean()) < 1.0
    zeros = data.with_(init_scores=np.zeros(data.n_docs))
    assert abs(trainer(name, **settings).fit(zeros).predict(zeros).mean()) < 1.0


@pytest.mark.parametrize("name", TRAINERS)
def test_an_interrupted_training_starts_once(name: str, tmp_path: Path):
    data, _ = rare()
    settings: dict[str, Any] = {"epochs" if name == "neural" else "rounds": 6}
    ranker = trainer(name, **settings, checkpoint=tmp_path / "whole", checkpoint_every=2)
    whole = ranker.fit(data).predict(data)

    def interrupt(done: int, history: object) -> None:
        if done == 4:
            raise RuntimeError("a power cut")

    ranker.set_params(checkpoint=tmp_path / "cut")
    with pytest.raises(RuntimeError, match="a power cut"):
        ranker.fit(data, callback=interrupt)
    np.testing.assert_array_equal(ranker.fit(data, resume=True).predict(data), whole)


@pytest.mark.parametrize("name", ["lightgbm", "xgboost", "catboost"])
def test_one_forest_of_several_holds_where_they_started(name: str):
    data, _ = rare()
    models = [trainer(name, rounds=3).fit(part) for part in (data, data.take(slice(0, 100)))]
    forest = summed([model.model_ for model in models], [0.25, 0.75])
    expected = 0.25 * models[0].predict(data) + 0.75 * models[1].predict(data)
    assert forest is not None
    np.testing.assert_allclose(forest.scores(data.features), expected, atol=1e-5)
