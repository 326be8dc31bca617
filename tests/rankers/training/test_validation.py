"""What is measured on validation data: judged documents as they are, clicks by the inverse of their propensity."""

from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.training.validation import Validation, name
from tests.refusals import refusal

SMALL: dict[str, Any] = {"rounds": 6, "threads": 1, "leaves": 5, "min_documents": 5, "patience": None}


@pytest.fixture(scope="module")
def judged():
    return rw.synthetic(n_queries=150, n_features=8, n_docs=12, seed=3)


@pytest.fixture(scope="module")
def clicks(judged):
    return rw.clicks.simulate_clicks(judged, model="position", impressions=3, ranker=np.arange(judged.n_docs), seed=1)


def by_hand(text, scores, clicks, weights):
    """The metric of every click alone, one after the other."""
    total = sum_of_weights = 0.0
    for row in np.flatnonzero(clicks.labels > 0):
        query = int(np.searchsorted(clicks.offsets, row, side="right")) - 1
        first, last = clicks.offsets[query], clicks.offsets[query + 1]
        alone = np.zeros(last - first)
        alone[row - first] = clicks.labels[row]
        value = rw.metric(text)(scores[first:last], alone, [0, last - first])[0]
        weight = weights[query] / clicks.propensities[row]
        total, sum_of_weights = total + weight * value, sum_of_weights + weight
    return total / sum_of_weights


@pytest.mark.parametrize("text", ["ndcg@10", "dcg@3", "ap", "rr", "rbp(p=0.9)", "precision@5", "err@10"])
def test_every_metric_is_the_weighed_mean_over_clicks(text, clicks):
    part = clicks.take(slice(0, 40))
    scores = np.round(np.random.default_rng(5).normal(size=part.n_docs), 1)  # with ties
    weights = np.linspace(0.5, 2.0, part.n_queries)
    found = Validation(part.with_(weights=weights), (rw.metric(text),), debias=True)(scores)
    assert found == {f"debiased({rw.metric(text)})": pytest.approx(by_hand(text, scores, part, weights), rel=1e-12)}


def test_the_gain_of_a_graded_click_counts():
    shown = rw.RankingDataset(np.zeros((3, 1)), [2, 0, 1], [0, 3], propensities=[0.5, 1.0, 0.25])
    found = Validation(shown, (rw.metric("ndcg"),), debias=True)([3.0, 2.0, 1.0])
    assert found["debiased(ndcg)"] == pytest.approx((3 / 0.5 * 1 + 1 / 0.25 * 0.5) / (3 / 0.5 + 1 / 0.25))


def test_clicks_count_without_the_bias_of_their_places(judged):
    chances = np.array([0.05, 0.3, 0.5, 0.7, 0.95])[judged.labels.astype(int)]
    best, shown = chances + 1e-6 * np.arange(judged.n_docs), -np.arange(judged.n_docs, dtype=float)
    log = rw.clicks.simulate_clicks(judged, model="position", impressions=400, ranker=shown, keep_empty=True, seed=2)
    rows = np.concatenate([np.arange(a, b) for a, b in zip(judged.offsets, judged.offsets[1:], strict=False)])
    again = np.concatenate([np.tile(rows[a:b], 400) for a, b in zip(judged.offsets, judged.offsets[1:], strict=False)])
    np.testing.assert_array_equal(log.features, judged.features[again])  # shown in the order of rows

    def expected(scores):
        """What users who look at everything would say: each document by how likely it is clicked."""
        order = np.lexsort((-scores, judged.qids()))
        ranks = np.empty(judged.n_docs)
        ranks[order] = np.arange(judged.n_docs) - judged.offsets[judged.qids()] + 1
        return np.average(np.where(ranks <= 3, 1 / np.log2(1 + ranks), 0.0), weights=chances)

    plain, fair = (Validation(log, (rw.metric("ndcg@3"),), debias=debias) for debias in (False, True))
    for scores in (best, shown):
        assert fair(scores[again])["debiased(ndcg@3)"] == pytest.approx(expected(scores), rel=0.02)
    assert expected(best) > 1.3 * expected(shown)
    assert plain(shown[again])["ndcg@3"] > 0.9 * plain(best[again])["ndcg@3"]  # clicks flatter what was shown


def test_without_propensities_metrics_are_what_they_are(judged, clicks):
    scores = np.random.default_rng(1).normal(size=judged.n_docs)
    metric = rw.metric("ndcg@10")
    expected = {"ndcg@10": float(np.nanmean(metric(scores, judged.labels, judged.offsets)))}
    assert Validation(judged, (metric,), debias=True)(scores) == pytest.approx(expected)
    assert name(metric, clicks, debias=False) == "ndcg@10"
    nothing = clicks.with_(labels=np.zeros(clicks.n_docs))
    with refusal(what="ndcg@10 scores no query"):
        Validation(nothing, (metric,), debias=True)(np.zeros(clicks.n_docs))


@pytest.mark.parametrize("ranker", [rw.LightGBMRanker, rw.XGBoostRanker, rw.CatBoostRanker])
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_training_that_takes_inverse_propensities_validates_by_them(ranker, clicks, capsys):
    model = ranker("lambdarank", debias=True, progress=True, **SMALL).fit(clicks, clicks)
    assert list(model.history_) == ["loss", "debiased(ndcg@10)"]
    assert "debiased(ndcg@10) 0." in capsys.readouterr().err
    measured = Validation(clicks, (rw.metric("ndcg@10"),), debias=True)
    last = model.history_["debiased(ndcg@10)"][model.best_round_ - 1]
    assert measured(model.predict(clicks))["debiased(ndcg@10)"] == pytest.approx(last, rel=1e-6)
    assert last == max(model.history_["debiased(ndcg@10)"])
    plain = ranker("lambdarank", **SMALL).fit(clicks, clicks)
    assert list(plain.history_) == ["loss", "ndcg@10"]


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_nets_validate_by_inverse_propensities(clicks):
    pytest.importorskip("torch")
    settings: Any = {"epochs": 2, "hidden": (4,), "device": "cpu", "threads": 1}
    model = rw.NeuralRanker("softmax_ce", debias=True, **settings).fit(clicks, clicks)
    assert list(model.history_) == ["loss", "debiased(ndcg@10)"]


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_a_search_says_what_it_measured(clicks):
    pytest.importorskip("optuna")
    fixed = {"debias": True, **SMALL}
    searched: Any = {"trials": 2, "space": "none", "search": {"learning_rate": "log(0.05, 0.2)"}, "progress": False}
    found = rw.tune(clicks, clicks, "lambdarank", fixed={n: v for n, v in fixed.items() if n != "threads"}, **searched)
    assert found.metric == "debiased(ndcg@10)"
    assert "debiased(ndcg@10)" in str(found)
    with refusal(
        what="debias is no parameter to search, since validation data are measured by it",
        hint="fix it: fixed={'debias': True}",
    ):
        rw.tune(clicks, clicks, "lambdarank", **{**searched, "search": {"debias": "choice(True, False)"}})
