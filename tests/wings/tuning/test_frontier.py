"""Frontiers: volumes against counting boxes, points that are the sums they say, and folders that resume."""

import itertools
import json
from typing import Any

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Annotation, Text

import rankwise as rw
from rankwise.rankers.expressions import objective_of
from rankwise.statistics.evaluation import Evaluation
from rankwise.wings.tuning import frontier as module
from rankwise.wings.tuning.frontier import Frontier, dominated_volume
from tests.refusals import refusal, refuses

GOALS = ["xendcg", "on(buy, xendcg)"]
NAMES = ["ndcg@10", "ndcg(label=buy)@10"]
frontier: Any = rw.frontier  # of parts and goals
RANKER = rw.LightGBMRanker(rounds=15, leaves=4, min_documents=5, threads=1)


@pytest.fixture(scope="module")
def parts():
    data = rw.synthetic(n_queries=120, n_docs=10, n_features=10, goals={"buy": 90}, seed=1)
    return rw.split(data, (0.5, 0.5), seed=1)


@pytest.fixture(scope="module")
def curve(parts):
    return frontier(RANKER, *parts, GOALS, points=3, folds=2)


def made_of(values, goals=("a", "b")):
    """A frontier of points of which the values on two queries are known."""
    columns = {
        f"{name}, {number}": [value] * 12
        for number, row in enumerate(values)
        for name, value in zip(goals, row, strict=True)
    }
    weights = tuple((1.0 / len(goals),) * len(goals) for _ in values)
    objectives: Any = dict.fromkeys(goals)
    return Frontier(objectives, weights, (None,) * len(values), Evaluation(columns, np.arange(12)))


@pytest.mark.parametrize("goals", [2, 3])
def test_volume_is_that_of_the_boxes_that_are_dominated(goals):
    rng = np.random.default_rng(goals)
    for _ in range(20):
        points = rng.integers(-1, 6, (5, goals))
        cells = itertools.product(range(6), repeat=goals)  # of size 1, each by its lower corner
        expected = sum(any(all(np.array(cell) < point) for point in points) for cell in cells)
        assert dominated_volume(points.astype(float)) == expected
    many = rng.random((4, 5, goals))
    np.testing.assert_allclose(dominated_volume(many), [dominated_volume(one) for one in many])


def test_dominated_points_and_the_knee_by_pencil():
    made = made_of([(1.0, 0.0), (0.9, 0.7), (0.5, 0.8), (0.5, 0.6), (0.0, 1.0)])
    assert made.dominated.tolist() == [False, False, False, True, False]
    assert made.knee == 1
    assert made.hypervolume().value == pytest.approx(0.9 * 0.7 + 0.5 * 0.1)
    assert made.hypervolume([-1.0, -1.0]).value == pytest.approx(2 * 1 + 1.9 * 0.7 + 1.5 * 0.1 + 1.0 * 0.2)
    assert [row[-1] for row in made.table().rows] == ["", "knee", "", "dominated", ""]
    three = made_of([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0.5)], goals="abc")
    assert three.knee == 3
    assert three.hypervolume().value == pytest.approx(0.125)
    refuses(lambda: made.hypervolume([0.0]), what="reference must have a number for each goal")


def test_points_are_bags_of_the_weighted_sums(parts, curve):
    train, valid = parts
    assert curve.weights == ((1.0, 0.0), (0.5, 0.5), (0.0, 1.0))
    assert list(curve.goals) == NAMES
    expressions = [objective_of(model) for model in curve.models]
    assert expressions == ["xendcg", "0.5*xendcg + 0.5*on(buy, xendcg)", "on(buy, xendcg)"]
    alone = RANKER.__sklearn_clone__().set_params(objective=GOALS[1], metrics=NAMES[1])
    bag = rw.bagged(alone, folds=2).fit(train)
    np.testing.assert_array_equal(curve.models[2].predict(valid), bag.predict(valid))
    expected = [rw.metric(name).of(bag.predict(valid), valid) for name in NAMES]
    np.testing.assert_allclose(curve.means[2], [np.nanmean(one) for one in expected], rtol=1e-12)
    assert curve.means[0, 0] > curve.means[2, 0]
    assert curve.means[0, 1] < curve.means[2, 1]
    assert (curve.intervals[..., 0] < curve.means).all()
    assert (curve.means < curve.intervals[..., 1]).all()


def test_resampled_volume_pairs_the_points(curve):
    volume = curve.hypervolume()
    assert 0.0 < volume.low < volume.high
    assert volume.value == curve.hypervolume(curve.reference).value
    shifted = Evaluation({name: column + 0.1 for name, column in curve.evaluation.values.items()}, np.arange(60))
    higher = Frontier(curve.goals, curve.weights, curve.models, shifted)
    assert higher.hypervolume().value == pytest.approx(volume.value)
    assert volume.value < curve.hypervolume(curve.reference - 0.1).value


def test_points_without_validation_data_are_measured_out_of_fold(parts):
    made = rw.frontier(RANKER, parts[0], None, dict(zip(NAMES, GOALS, strict=True)), points=2, folds=2)
    assert made.means[0, 0] == made.models[0].out_of_fold_.mean[NAMES[0]]
    assert made.evaluation.query_ids.size == parts[0].n_queries


def test_three_goals_have_a_triangle_of_weights():
    weights = module._weights(3, 3)
    assert weights[0] == (1.0, 0.0, 0.0)
    assert weights[-1] == (0.0, 0.0, 1.0)
    assert len(weights) == len(set(weights)) == 6
    assert all(sum(one) == 1.0 for one in weights)


def test_interrupted_frontier_resumes(parts, tmp_path, monkeypatch, curve):
    original, trained = rw.bagged.fit, list[str]()

    def interrupted(bag, *arguments, **options):
        if len(trained) == 2:
            raise KeyboardInterrupt
        trained.append(objective_of(bag))
        return original(bag, *arguments, **options)

    monkeypatch.setattr(rw.bagged, "fit", interrupted)
    settings = {"points": 3, "folds": 2, "checkpoint": tmp_path / "kept"}
    with refusal(KeyboardInterrupt, what="…point 3 of 3: the points before it are kept…"):
        frontier(RANKER, *parts, GOALS, **settings)
    trained[:] = []
    resumed = frontier(RANKER, *parts, GOALS, **settings, resume=True)
    assert trained == ["on(buy, xendcg)"]
    np.testing.assert_array_equal(resumed.means, curve.means)
    with refusal(what="the folder holds another frontier (parameters: folds differs)"):
        frontier(RANKER, *parts, GOALS, **settings | {"folds": 3}, resume=True)


def test_results_are_written(curve, tmp_path):
    assert json.loads(json.dumps(curve.to_dict()))["hypervolume"]["value"] == curve.hypervolume().value
    frame = curve.to_frame()
    assert frame["knee"].sum() == 1
    assert frame[NAMES[1]].to_list() == curve.means[:, 1].tolist()
    assert "Hypervolume" in repr(curve)
    three = made_of([(1, 0, 0), (0, 1, 0), (0, 0, 1), (0.5, 0.5, 0.5)], goals="abc")
    assert three.plot(tmp_path / "three.png").stat().st_size > 1000


@pytest.mark.parametrize("spread", [0.3, 0.05])
def test_labels_lie_apart_from_each_other_and_from_points(spread):
    angles = np.linspace(0.2, 1.3, 9)
    made = made_of([(0.6 + spread * np.cos(one), 0.6 + spread * np.sin(one)) for one in angles] + [(0.6, 0.6)])
    weights = tuple((round(1.0 - share, 3), round(share, 3)) for share in np.linspace(0.0, 1.0, 10))
    drawn = Frontier(made.goals, weights, made.models, made.evaluation).figure()
    renderer, panel = FigureCanvasAgg(drawn).get_renderer(), drawn.axes[0]
    labels = [text for text in panel.texts if isinstance(text, Annotation)]
    assert [text.get_text() for text in labels] == [f"{second:.3g}" for _, second in weights]
    boxes = [Text.get_window_extent(text, renderer) for text in labels]
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))
    marks = panel.transData.transform(made.means)
    assert not any(box.contains(*mark) for box in boxes for mark in marks)
    assert all(panel.bbox.contains(*corner) for box in boxes for corner in (box.min, box.max))
    (legend,) = drawn.legends
    assert [text.get_text() for text in legend.get_texts()] == ["not dominated", "knee", "dominated", "95% interval"]
    assert legend.get_title().get_text() == "beside points: weight of b"


@pytest.mark.parametrize("goal", ["2.0*on(buy, xendcg)", "stochastic(on(buy, lambdarank))", "on(a, on(buy, xendcg))"])
def test_wrapped_goals_are_measured_by_the_labels_that_they_learn(goal):
    assert list(module._goals(["xendcg", goal])) == NAMES


def test_bad_goals_are_refused(parts, tmp_path):
    with refusal(what="a frontier has two or three goals with different metrics", got="2 objectives with 1 metric"):
        frontier(RANKER, *parts, ["xendcg", "lambdarank"])
    with refusal(what="a frontier has two or three goals with different metrics"):
        frontier(RANKER, *parts, ["xendcg"])
    refuses(lambda: frontier(RANKER, *parts, "xendcg"), what="a frontier has a list of objectives")
    with refusal(what="the data have no labels called 'sale'"):
        frontier(RANKER, *parts, ["xendcg", "on(sale, xendcg)"])
    with refusal(what="the data have no labels called 'buy'", got="more_labels: none"):
        frontier(RANKER, parts[0].with_(more_labels=None), parts[1], GOALS, checkpoint=tmp_path / "points")
    assert not (tmp_path / "points").exists()  # nothing was trained
    with refusal(what="the metric of an objective of several labels is not known", got="xendcg + on…"):
        frontier(RANKER, *parts, ["xendcg", "xendcg + on(buy, xendcg)"])
    constrained = rw.LightGBMRanker(constraints={NAMES[1]: 0.5})
    for ranker in (constrained, rw.bagged(constrained, 2)):
        with refusal(what="a frontier weighs goals, and constraints weigh them otherwise"):
            frontier(ranker, *parts, GOALS)
    refuses(lambda: frontier(RANKER, *parts, GOALS, points=1), what="points must be a whole number of at least 2")
