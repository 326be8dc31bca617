"""Objectives and metrics inside the libraries' own training: the same models as our rankers, or a word why not."""

import copy
import pickle
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import sklearn
import xgboost as xgb

import rankwise as rw
from tests.refusals import refusal

OBJECTIVES = ["xendcg", "lambdarank", "plrank(cutoff=5)"]
LGB: dict[str, Any] = {
    "n_estimators": 12,
    "learning_rate": 0.05,
    "num_leaves": 7,
    "min_child_samples": 10,
    "force_col_wise": True,
    "n_jobs": 1,
    "verbose": -1,
}
SAME: dict[str, Any] = {"rounds": 12, "learning_rate": 0.05, "leaves": 7, "min_documents": 10, "threads": 1, "seed": 4}


@pytest.fixture(scope="module", params=[False, True], ids=["plain", "weighted"])
def data(request) -> rw.RankingDataset:
    made = rw.synthetic(n_queries=40, n_docs=15, n_features=8, seed=3)
    weights = np.random.default_rng(0).uniform(0.5, 2.0, made.n_queries).astype(np.float32)
    return made.with_(weights=weights) if request.param else made


def rows(data: rw.RankingDataset) -> Any:
    return None if data.weights is None else np.repeat(data.weights, data.sizes)


@pytest.mark.parametrize("text", OBJECTIVES)
def test_an_estimator_of_lightgbm_trains_the_model_of_our_ranker(text, data):
    ours = rw.LightGBMRanker(text, **SAME).fit(data)
    theirs = lgb.LGBMRanker(objective=rw.objectives.lightgbm_objective(text, seed=4, query_ids=data.query_ids), **LGB)
    theirs.fit(data.features, data.labels, group=data.sizes, sample_weight=rows(data))
    np.testing.assert_array_equal(theirs.predict(data.features), ours.predict(data))
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=rows(data))
    params = {"objective": rw.objectives.lightgbm_objective(text, seed=4, query_ids=data.query_ids), **LGB}
    np.testing.assert_array_equal(lgb.train(params, own).predict(data.features), ours.predict(data))


def test_columns_of_documents_go_to_the_objective(data):
    groups = np.random.default_rng(1).choice(["a", "b"], data.n_docs)
    ours = rw.LightGBMRanker("fair(plrank(samples=20))", **SAME).fit(data.with_(groups=groups))
    objective = rw.objectives.lightgbm_objective(
        "fair(plrank(samples=20))", seed=4, query_ids=data.query_ids, groups=groups
    )
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=rows(data))
    theirs = lgb.train({"objective": objective, **LGB}, own)
    np.testing.assert_array_equal(theirs.predict(data.features), ours.predict(data))
    matrix = xgb.DMatrix(data.features, data.labels, group=data.sizes, weight=data.weights, nthread=1)
    scores = np.arange(data.n_docs, dtype=np.float32) % 7
    fair, plain = (rw.objectives.xgboost_objective(*one, **how)(scores, matrix)[0] for one, how in (
        (("fair(plrank(samples=20))",), {"groups": groups}), (("plrank(samples=20)",), {})))  # fmt: skip
    assert (fair != plain).any()
    with refusal(what="fair needs the group of every document"):
        rw.objectives.xgboost_objective("fair(plrank)")(scores, matrix)


@pytest.mark.parametrize("text", OBJECTIVES)
def test_xgboosts_own_loop_trains_the_model_of_our_ranker(text, data):
    bins = 1024  # one for each value: XGBoost would choose fewer by the weights of its matrix
    ours = rw.XGBoostRanker(text, **SAME, max_bin=bins).fit(data)
    params = {
        "base_score": 0.0,
        "disable_default_eval_metric": 1,
        "learning_rate": 0.05,
        "grow_policy": "lossguide",
        "max_depth": 0,
        "max_leaves": 7,
        "min_child_weight": 10,
        "max_bin": bins,
        "nthread": 1,
    }
    own = xgb.DMatrix(data.features, data.labels, group=data.sizes, weight=data.weights, nthread=1)
    objective = rw.objectives.xgboost_objective(text, seed=4, query_ids=data.query_ids)
    theirs = xgb.train(params, own, num_boost_round=12, obj=objective)
    np.testing.assert_allclose(theirs.predict(xgb.DMatrix(data.features)), ours.predict(data), rtol=1e-4, atol=1e-4)
    raw = rw.objectives.xgboost_objective(text, seed=4, query_ids=data.query_ids, relative=False)
    scores = np.zeros(data.n_docs, np.float32)
    again = rw.objectives.xgboost_objective(text, seed=4, query_ids=data.query_ids)
    (gradient, hessian), (numerator, mean_one) = raw(scores, own), again(scores, own)
    assert np.abs(mean_one).mean(dtype=np.float64) == pytest.approx(1.0, rel=1e-6)
    np.testing.assert_allclose(numerator / mean_one, gradient / hessian, rtol=1e-5)


def test_a_loss_times_a_constant_grows_the_same_trees_in_xgboosts_own_loop():
    data = rw.synthetic(n_queries=20, n_docs=15, n_features=8, seed=3)
    own = xgb.DMatrix(data.features, data.labels, group=data.sizes, nthread=1)
    params = {"disable_default_eval_metric": 1, "nthread": 1}
    plain, scaled = (
        xgb.train(params, own, num_boost_round=5, obj=rw.objectives.xgboost_objective(text)).predict(own)
        for text in ("lambdarank", "0.0078125*lambdarank")
    )
    np.testing.assert_array_equal(plain, scaled)


def test_an_estimator_that_is_trained_again_draws_the_same():
    data = rw.synthetic(n_queries=20, n_docs=15, n_features=8, seed=3)
    model = lgb.LGBMRanker(objective=rw.objectives.lightgbm_objective("xendcg"), **LGB)
    first = model.fit(data.features, data.labels, group=data.sizes).predict(data.features)
    again = model.fit(data.features, data.labels, group=data.sizes).predict(data.features)
    np.testing.assert_array_equal(first, again)
    cloned = sklearn.base.clone(model).fit(data.features, data.labels, group=data.sizes)
    np.testing.assert_array_equal(cloned.predict(data.features), first)


def test_what_travels_to_workers_survives_the_way():
    data = rw.synthetic(n_queries=10, n_docs=15, n_features=8, seed=3)
    scores = np.zeros(data.n_docs)
    for made in (rw.objectives.lightgbm_objective("xendcg", seed=1), rw.metrics.lightgbm_metric("ndcg@5")):
        here = copy.deepcopy(made)(data.labels, scores, None, data.sizes)
        there = pickle.loads(pickle.dumps(made))(data.labels, scores, None, data.sizes)  # noqa: S301
        np.testing.assert_array_equal(here[1], there[1])


def test_a_metric_in_an_estimator_of_lightgbm(data):
    seen: dict[str, Any] = {}
    model = lgb.LGBMRanker(objective=rw.objectives.lightgbm_objective("xendcg"), **LGB | {"metric": "None"})
    model.fit(
        data.features,
        data.labels,
        group=data.sizes,
        sample_weight=rows(data),
        eval_X=data.features,
        eval_y=data.labels,
        eval_group=[data.sizes],
        eval_sample_weight=None if data.weights is None else [rows(data)],
        eval_metric=rw.metrics.lightgbm_metric("ndcg@5"),
        callbacks=[lgb.record_evaluation(seen)],
    )
    (found,) = seen.values()
    expected = rw.evaluate(model, data, "ndcg@5").mean["ndcg@5"]
    assert found["ndcg@5"][-1] == pytest.approx(expected, abs=1e-6)


def test_errors_say_what_does_work():
    data = rw.synthetic(n_queries=5, n_docs=15, n_features=8, seed=3)
    with refusal(what="the data set has no groups", hint="pass group=…LGBMRanker"):
        lgb.LGBMRegressor(objective=rw.objectives.lightgbm_objective("xendcg"), **LGB).fit(data.features, data.labels)
    with refusal(what="…nothing about queries", hint="pass it to xgb.train…rw.XGBoostRanker…"):
        xgb.XGBRegressor(objective=rw.objectives.xgboost_objective("xendcg"), n_jobs=1).fit(data.features, data.labels)
    with refusal(what="…one list at a time…", hint="pass it to xgb.train(custom_metric…"):
        xgb.XGBRanker(eval_metric=rw.metrics.xgboost_metric("ndcg@5"), n_jobs=1).fit(
            data.features,
            data.labels,
            group=data.sizes,
            eval_set=[(data.features, data.labels)],
            eval_group=[data.sizes],
        )
    for name in ("reward@10", "ndcg(label=purchase)@5", "alpha_ndcg@10"):
        for adapter in (rw.metrics.lightgbm_metric, rw.metrics.xgboost_metric):
            with refusal(what="libraries hand a metric scores and labels", got=f"{name}, which reads …"):
                adapter(name)
