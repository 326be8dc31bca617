"""Learning curves: nested parts, paired errors, and forecasts that are exact where the curve is."""

import numpy as np
import pytest

import rankwise as rw
from rankwise.model_selection.cross_validate import Trainings
from rankwise.quality import learning_curve as module
from rankwise.quality.learning_curve import forecast
from tests.refusals import refusal, refuses

QUICK = "lightgbm(rounds=5, leaves=4, min_documents=5, patience=None, threads=1)"


def test_parts_of_a_size_share_no_query_and_contain_two_smaller_ones(monkeypatch: pytest.MonkeyPatch):
    train, test = rw.split(rw.synthetic(n_queries=75, n_docs=5, seed=1), (0.8, 0.2), seed=1)
    seen: list[set[int]] = []

    def trained(_, number, ranker, part, valid):
        seen.append(set(part.query_ids.tolist()))
        return ranker.fit(part)

    monkeypatch.setattr(Trainings, "model", trained)
    curve = rw.learning_curve(train, test, QUICK, draws=2)
    assert seen[0] == set(np.asarray(train.query_ids).tolist())
    for draw in (seen[1:15], seen[15:]):
        for parts, smaller in ((draw[8:12], draw[:8]), (draw[12:], draw[8:12]), (seen[:1], draw[12:])):
            assert [len(part) for part in parts] == [
                len(a | b) for a, b in zip(smaller[::2], smaller[1::2], strict=True)
            ]
            assert all(a | b == part for part, a, b in zip(parts, smaller[::2], smaller[1::2], strict=True))
            assert sum(map(len, smaller)) == len(seen[0])
    assert seen[1] != seen[15]
    assert curve.queries == (7, 15, 30, 60)
    assert curve.to_frame().height == 29 == sum(values.size for values in curve.values)


def test_values_are_those_of_training_by_hand():
    data = rw.synthetic(n_queries=70, n_docs=6, seed=2).with_(weights=np.linspace(0.5, 2.0, 70))
    train, test = rw.split(data, (0.7, 0.3), seed=1)
    test = test.with_(labels=np.where(np.repeat(np.arange(test.n_queries), test.sizes) < 3, 0.0, test.labels))
    curve = rw.learning_curve(train, test, QUICK, metric="ndcg@5", draws=1)
    evaluation = rw.evaluate(rw.ranker(QUICK).fit(train), test, "ndcg@5")
    assert curve.values[-1].item() == pytest.approx(evaluation.mean["ndcg@5"], rel=1e-12)
    scored = evaluation.scored["ndcg@5"]
    assert (curve.n_scored, curve.n_skipped) == (scored, test.n_queries - scored)
    assert curve.n_skipped >= 3
    assert curve.interval[0] < curve.gain < curve.interval[1]
    assert f"{scored} test queries ({curve.n_skipped} skipped)" in " ".join(repr(curve).split())
    assert "Doubling the training queries from 49 to 98 is worth" in " ".join(repr(curve).split())


def test_results_do_not_depend_on_the_order_of_test_queries():
    train, test = rw.split(rw.synthetic(n_queries=75, n_docs=5, seed=1), (0.8, 0.2), seed=1)
    curve = rw.learning_curve(train, test, QUICK, draws=1)
    turned = rw.learning_curve(train, test.take(np.arange(test.n_queries)[::-1]), QUICK, draws=1)
    assert turned.gain == pytest.approx(curve.gain, rel=1e-9)
    assert turned.single == pytest.approx(curve.single, rel=1e-9)


def listed(means, rng, *, of_queries=0.0, of_models=0.0, n=200):
    """Values of sizes that double: means, plus noise of queries alone, and of models in proportion to 1/size."""
    easy = rng.normal(size=n) * of_queries
    sizes = []
    for level, mean in enumerate(means):
        count = 2 ** (len(means) - 1 - level)
        models = rng.normal(size=(1, count, 1)) * of_models / np.sqrt(2.0**level)
        sizes.append(mean + easy + models + 1e-5 * rng.normal(size=(1, count, n)))
    return sizes


@pytest.mark.parametrize("ratio", [0.5, 0.8, 1.0])
def test_the_forecast_of_a_power_law_is_exact(ratio):
    gains = 0.04 * ratio ** np.arange(4)
    means = 0.5 + np.append(0.0, np.cumsum(gains[:3]))
    sizes = listed(means, np.random.default_rng(0), of_queries=0.3)  # noise of queries cancels in pairs
    (low, gain, high), (least, change, most) = forecast(sizes, np.full(200, 1 / 200))
    assert gain == pytest.approx(gains[3], abs=2e-4)
    assert change == pytest.approx(gains[3], abs=2e-4)
    assert low < gain < high < low + 1e-3
    assert least < change < most


def test_intervals_hold_what_they_promise():
    """The last size has one model, whose luck must not be forecast."""
    rng = np.random.default_rng(1)
    gains = 0.02 * 0.8 ** np.arange(4)
    means, weights, of_models = 0.5 + np.append(0.0, np.cumsum(gains[:3])), np.full(50, 1 / 50), 0.02
    average, single = [], []
    for _ in range(200):
        sizes = listed(means, rng, of_models=of_models, n=50)
        (low, _, high), (least, _, most) = forecast(sizes, weights)
        average.append(low <= gains[3] <= high)
        new = means[-1] + gains[3] + rng.normal() * of_models / 4.0
        single.append(least <= new - (sizes[-1] @ weights).item() <= most)
    assert np.mean(average) > 0.9
    assert 0.9 < np.mean(single) < 0.995


def test_a_ranker_that_stops_early_does_not_see_the_test_queries(monkeypatch: pytest.MonkeyPatch):
    train, test = rw.split(rw.synthetic(n_queries=100, n_docs=5, seed=1), (0.7, 0.3), seed=1)
    held_out = []

    def trained(_, number, ranker, part, valid):
        held_out.append(valid)
        assert not set(valid.query_ids.tolist()) & set(part.query_ids.tolist())
        return ranker.fit(part, valid)

    monkeypatch.setattr(Trainings, "model", trained)
    curve = rw.learning_curve(train, test, QUICK.replace("patience=None", "patience=2"), draws=1)
    assert curve.queries[-1] == 56
    assert {valid.n_queries for valid in held_out} == {14}
    assert not set(np.asarray(held_out[0].query_ids).tolist()) & set(np.asarray(test.query_ids).tolist())


def test_what_is_too_little_is_refused_before_training():
    data = rw.synthetic(n_queries=60, n_docs=5, seed=1)
    train, test = data.take(slice(0, 39)), data.take(slice(39, None))
    with refusal(what="a learning curve needs at least 40 queries to train on", got="39"):
        rw.learning_curve(train, test)
    with refusal(what="a learning curve needs at least 10 queries to test that ndcg@10 scores", got="0"):
        rw.learning_curve(data, test.with_(labels=np.zeros(test.n_docs)))
    refuses(lambda: rw.learning_curve(data, test, 3), what="a ranker has fit and predict", got="int")


def test_the_figure_is_drawn(tmp_path):
    train, test = rw.split(rw.synthetic(n_queries=75, n_docs=5, seed=1), (0.8, 0.2), seed=1)
    assert rw.learning_curve(train, test, QUICK, draws=1).plot(tmp_path / "curve.svg").stat().st_size > 1000


def test_the_default_ranker_learns_the_labels_that_the_metric_measures(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "RANKER", QUICK)
    data = rw.synthetic(n_queries=75, n_docs=10, goals={"buy": 90}, seed=1)
    train, test = rw.split(data, (0.8, 0.2), seed=1)
    default, main = (rw.learning_curve(train, test, one, metric="ndcg(label=buy)@10", draws=1) for one in (None, QUICK))
    assert default.values[-1].mean() > main.values[-1].mean() + 0.05
