"""Rankers as scikit-learn sees them: cloned, cross-validated and searched with queries kept whole."""

import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.base import clone
from sklearn.experimental import enable_halving_search_cv  # noqa: F401 (HalvingGridSearchCV is there after it)
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    HalvingGridSearchCV,
    RandomizedSearchCV,
    cross_val_score,
    cross_validate,
    learning_curve,
    validation_curve,
)
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import get_tags
from sklearn.utils.validation import check_is_fitted

import rankwise as rw
from tests.processes import HANG
from tests.refusals import refusal, refuses


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=36, n_features=8, n_docs=15, seed=2)


@pytest.fixture(scope="module")
def arrays(data):
    return data.features, data.labels, data.qids()


@pytest.fixture
def routing():
    with sklearn.config_context(enable_metadata_routing=True):
        yield


def ranker(**changes):
    return rw.LightGBMRanker("lambdarank", **{"rounds": 5, "leaves": 5, "min_documents": 5, "threads": 1} | changes)


def by_hand(arrays, **changes):
    """The score of each of three folds, without any of scikit-learn's machinery but the folds."""
    features, labels, qids = arrays
    found = []
    for train, test in GroupKFold(3).split(features, labels, qids):
        model = ranker(**changes).fit(features[train], labels[train], qid=qids[train])
        fold = rw.RankingDataset.from_qids(features[test], labels[test], qids[test])
        found.append(rw.evaluate(model, fold, ["ndcg@10"]).mean["ndcg@10"])
    return found


def test_parameters_are_read_set_and_cloned():
    one = ranker(lambda_l2=2.0, metrics=("ap", "ndcg@5"))
    assert one.get_params()["lambda_l2"] == 2.0
    assert one.get_params()["rounds"] == 5
    one.set_params(rounds=7, lambda_l2=3.0, max_bin=63)
    assert (one.rounds, one.native) == (7, {"lambda_l2": 3.0, "max_bin": 63})
    other = clone(one)
    assert other is not one
    assert other.get_params() == one.get_params()
    other.set_params(lambda_l2=0.0)
    assert one.native["lambda_l2"] == 3.0
    assert repr(ranker(extra_trees=True)) == (
        "lightgbm(lambdarank, rounds=5, leaves=5, min_documents=5, threads=1, extra_trees=True)"
    )


def test_a_clone_is_not_fitted_and_keeps_its_requests(data, routing):
    fitted = ranker().set_fit_request(sample_weight=True).fit(data)
    check_is_fitted(fitted)
    other = clone(fitted)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        check_is_fitted(other)
    assert other.get_metadata_routing().fit.requests["sample_weight"] is True
    assert clone(ranker()).get_metadata_routing().fit.requests == {"qid": True, "group": None, "sample_weight": None}


def test_cross_validation_routes_query_ids(arrays, routing):
    features, labels, qids = arrays
    params = {"qid": qids, "groups": qids}
    for one in (ranker(), ranker().set_fit_request(qid=True).set_score_request(qid=True)):
        found = cross_val_score(one, features, labels, cv=GroupKFold(3), params=params)
        assert found == pytest.approx(by_hand(arrays), abs=1e-12)
    whole = cross_validate(
        ranker(), features, labels, cv=GroupKFold(3), params=params, return_train_score=True, return_estimator=True
    )
    assert (whole["train_score"] > whole["test_score"]).all()
    assert [model.n_features_in_ for model in whole["estimator"]] == [8, 8, 8]


def test_grid_search_finds_the_best_of_both_kinds_of_parameters(arrays, routing):
    features, labels, qids = arrays
    grid = {"objective": ["lambdarank", "xendcg"], "leaves": [2, 8], "lambda_l2": [0.0, 100.0]}
    search = GridSearchCV(ranker(), grid, cv=GroupKFold(3)).fit(features, labels, qid=qids, groups=qids)
    at = search.cv_results_["params"].index({"lambda_l2": 100.0, "leaves": 2, "objective": "lambdarank"})
    assert search.cv_results_["mean_test_score"][at] == pytest.approx(
        np.mean(by_hand(arrays, leaves=2, lambda_l2=100.0))
    )
    assert search.best_score_ == max(search.cv_results_["mean_test_score"])
    assert search.best_estimator_.get_params() | search.best_params_ == search.best_estimator_.get_params()
    assert search.predict(features).shape == labels.shape
    assert 0 < search.score(features, labels, qid=qids) <= 1


def test_weights_are_routed_when_asked_for(arrays, routing):
    features, labels, qids = arrays
    weights = np.where(qids < 18, 5.0, 1.0)
    one = ranker().set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
    params = {"qid": qids, "groups": qids, "sample_weight": weights}
    found = cross_val_score(one, features, labels, cv=GroupKFold(3), params=params)
    assert not np.allclose(found, by_hand(arrays))
    refuses(lambda: ranker().set_fit_request(weight=True), what="unknown column for fit", got="'weight'")


def test_without_routing_the_error_says_what_to_do(arrays):
    features, labels, qids = arrays
    with refusal(what="either qid or group…", hint="…enable_metadata_routing=True…"):
        ranker().fit(features, labels, qid=qids).score(features, labels)


FOLDS = GroupKFold(3)
TOOLS = {
    "grid": lambda one, X, y, q: GridSearchCV(one, {"leaves": [2, 4]}, cv=FOLDS).fit(X, y, qid=q, groups=q),
    "random": lambda one, X, y, q: RandomizedSearchCV(one, {"leaves": [2]}, n_iter=1, cv=FOLDS).fit(
        X, y, qid=q, groups=q
    ),
    "halving": lambda one, X, y, q: HalvingGridSearchCV(
        one, {"leaves": [2, 4]}, cv=FOLDS, resource="rounds", max_resources=4, min_resources=2
    ).fit(X, y, qid=q, groups=q),
    "nested": lambda one, X, y, q: cross_validate(
        GridSearchCV(one, {"leaves": [2, 4]}), X, y, cv=FOLDS, params={"qid": q}, groups=q
    ),
    "score": lambda one, X, y, q: cross_val_score(one, X, y, cv=FOLDS, params={"qid": q}, groups=q),
    "validate": lambda one, X, y, q: cross_validate(one, X, y, cv=FOLDS, params={"qid": q}, groups=q),
    "learning": lambda one, X, y, q: learning_curve(one, X, y, cv=FOLDS, params={"qid": q}, groups=q),
    "validation": lambda one, X, y, q: validation_curve(
        one, X, y, param_name="leaves", param_range=[2, 4], cv=FOLDS, params={"qid": q}, groups=q
    ),
    "pipeline": lambda one, X, y, q: cross_val_score(
        make_pipeline(StandardScaler(), one), X, y, cv=FOLDS, params={"lightgbmranker__qid": q}, groups=q
    ),
}


@pytest.mark.parametrize("tool", ["score", "validate", "pipeline"])
def test_without_routing_scikit_learn_warns_with_the_line_that_routes(tool, arrays):
    with pytest.warns(UserWarning, match=r"sklearn\.set_config\(enable_metadata_routing=True\)"):
        scores = TOOLS[tool](ranker(), *arrays)
    assert np.isnan(scores["test_score"] if tool == "validate" else scores).all()


def test_halving_searches_over_rounds(arrays, routing):
    search = TOOLS["halving"](ranker(), *arrays)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert set(search.cv_results_["n_resources"]) <= {2, 4}


def test_query_ids_may_be_requested_under_another_name(arrays, routing):
    features, labels, qids = arrays
    renamed = ranker().set_fit_request(qid="query").set_score_request(qid="query")
    found = cross_val_score(renamed, features, labels, cv=FOLDS, params={"query": qids, "groups": qids})
    assert found == pytest.approx(by_hand(arrays), abs=1e-12)


def test_without_routing_a_scoring_of_ones_own_and_tables_that_hold_query_ids_are_scored(data, arrays):
    features, labels, qids = arrays
    found = cross_val_score(
        ranker(), features, labels, cv=FOLDS, groups=qids, params={"qid": qids}, scoring=lambda model, X, y: len(y)
    )
    assert found.sum() == len(labels)
    table = pd.DataFrame(features).rename(columns=str).assign(qid=qids, label=labels)
    assert cross_val_score(ranker(), table, cv=FOLDS, groups=qids) == pytest.approx(by_hand(arrays), abs=1e-12)


def test_the_hint_for_permutation_importance_works(arrays):
    features, labels, qids = arrays
    model = ranker().fit(features, labels, qid=qids)
    with refusal(hint="…scoring=lambda ranker, X, y: ranker.score(X, y, qid=qid)…"):
        permutation_importance(model, features, labels)
    found = permutation_importance(
        model, features, labels, scoring=lambda ranker, X, y: ranker.score(X, y, qid=qids), n_repeats=2, random_state=0
    )
    assert found.importances_mean.max() > 0


def test_a_pipeline_passes_query_ids_on(arrays, routing):
    features, labels, qids = arrays
    pipeline = make_pipeline(StandardScaler(), ranker()).fit(features, labels, qid=qids)
    assert pipeline.score(features, labels, qid=qids) > 0.5


def test_attributes_and_tags(data, arrays):
    features, labels, qids = arrays
    named, unnamed = ranker().fit(data), ranker().fit(features, labels, qid=qids)
    assert named.feature_names_in_.tolist() == list(data.feature_names)
    assert named.n_features_in_ == unnamed.n_features_in_ == 8
    assert not hasattr(unnamed, "feature_names_in_")
    assert named.feature_importances_.shape == (8,)
    assert named.feature_importances_.sum() == pytest.approx(1.0)
    assert get_tags(named).input_tags.allow_nan
    with refusal(what="this LightGBMRanker is not trained yet"):
        _ = ranker().feature_importances_


def test_scikit_learn_is_not_needed():
    code = """
import sys
sys.modules["sklearn"] = None
import rankwise as rw
data = rw.synthetic(n_queries=10, n_docs=10, seed=1)
print(rw.LightGBMRanker("xendcg", rounds=2, threads=1, min_documents=2).fit(data).score(data) > 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=HANG, check=False)
    assert done.stdout.strip() == "True", done.stderr
