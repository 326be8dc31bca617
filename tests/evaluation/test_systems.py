"""What is evaluated and compared: scores, rankers, estimators of scikit-learn, and functions of features."""

from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_array
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LinearRegression, LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import LinearSVC

import rankwise as rw
from tests.refusals import refusal

NAMES = ("bm25", "age", "clicks", "length")


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    made = rw.synthetic(n_queries=30, n_docs=12, n_features=4, seed=5)
    return made.with_(feature_names=None)


def same(system: Any, scores: Any, data: rw.RankingDataset) -> None:
    found = rw.evaluate(system, data, ["ndcg@10", "ap"])
    expected = rw.evaluate(scores, data, ["ndcg@10", "ap"])
    for name in found.metrics:
        np.testing.assert_array_equal(found[name], expected[name])
    assert rw.compare({"system": system, "scores": scores}, data, "ap").pairs[0].ties > 0


def test_a_function_of_features(data):
    same(lambda features: features[:, 0] - features[:, 1], data.features[:, 0] - data.features[:, 1], data)


def test_a_regressor_predicts_scores(data):
    ridge = Ridge().fit(data.features, data.labels)
    same(ridge, ridge.predict(data.features), data)
    column = LinearRegression().fit(data.features, data.labels[:, None])
    same(column, column.predict(data.features)[:, 0], data)
    steps = make_pipeline(StandardScaler(), Ridge()).fit(data.features, data.labels)
    same(steps, steps.predict(data.features), data)


def test_a_classifier_is_more_than_its_classes(data):
    relevant = data.labels > 0
    logistic = LogisticRegression().fit(data.features, relevant)
    same(logistic, logistic.decision_function(data.features), data)
    words = np.where(relevant, "yes", "no")
    bayes = GaussianNB().fit(data.features, words)
    same(bayes, bayes.predict_proba(data.features)[:, 1], data)
    machine = LinearSVC().fit(data.features, relevant)
    same(machine, machine.decision_function(data.features), data)


def test_a_classifier_of_grades_ranks_by_the_expected_grade(data):
    grades = np.minimum(data.labels, 3) * 2  # 0, 2, 4, 6
    forest = RandomForestClassifier(n_estimators=10, random_state=0).fit(data.features, grades)
    same(forest, forest.predict_proba(data.features) @ np.array([0.0, 2.0, 4.0, 6.0]), data)
    with refusal(what="…ranks by the expected grade…", got="LinearSVC of 4 classes"):
        rw.evaluate(LinearSVC().fit(data.features, grades), data)
    words = np.array(["bad", "fair", "good", "best"])[(grades / 2).astype(int)]
    with refusal(got="GaussianNB of 4 classes", hint="train it on the grades…"):
        rw.evaluate(GaussianNB().fit(data.features, words), data)


def test_an_estimator_of_a_table_is_given_one(data):
    table = pd.DataFrame(data.features, columns=list(NAMES))
    ridge = Ridge().fit(table, data.labels)
    scores = ridge.predict(table)
    same(ridge, scores, data)
    turned = data.with_(features=data.features[:, ::-1], feature_names=NAMES[::-1])
    same(ridge, scores, turned)
    with refusal(what="the model was trained on a feature that these data do not have", got="no 'clicks'…"):
        rw.evaluate(ridge, data.with_(feature_names=("bm25", "age", "links", "length")))


def test_categories_arrive_as_their_values(data):
    codes = np.arange(data.n_docs) % 3
    values = np.array(["red", "green", "blue"], dtype=object)[codes]
    table = pd.DataFrame({"a": data.features[:, 0], "c": values})
    columns = ColumnTransformer([("c", OneHotEncoder(), ["c"])], remainder="passthrough")
    model = make_pipeline(columns, Ridge()).fit(table, data.labels)
    features = np.stack([data.features[:, 0], codes], axis=1)
    coded = rw.RankingDataset(
        features,
        data.labels,
        data.offsets,
        feature_names=("a", "c"),
        categorical=(1,),
        categories={1: ("red", "green", "blue")},
    )
    same(model, model.predict(table), coded)


def test_sparse_features_are_handed_on(data):
    features = np.where(np.abs(data.features) < 0.5, 0.0, data.features)
    dense = data.with_(features=features)
    sparse = data.with_(features=csr_array(features))
    ridge = Ridge().fit(features, data.labels)
    same(ridge, ridge.predict(features), sparse)
    same(lambda rows: rows[:, [0]].toarray()[:, 0], features[:, 0], sparse)
    trees = lgb.LGBMRanker(n_estimators=5, num_leaves=5, n_jobs=1, verbose=-1)
    trees.fit(features, data.labels, group=data.sizes)
    same(trees, rw.wrap(trees).predict(dense), sparse)
    table = Ridge().fit(pd.DataFrame(features, columns=list(NAMES)), data.labels)
    with refusal(what="an estimator that was trained on a table needs a dense matrix of features"):
        rw.evaluate(table, sparse)


def test_another_number_of_features_is_an_error_that_counts(data):
    ridge = Ridge().fit(data.features, data.labels)
    with refusal(what="the model was trained on 4 features", got="3"):
        rw.evaluate(ridge, data.with_(features=data.features[:, :3]))


def test_a_model_of_ones_own_still_takes_the_data_set(data):
    class Longest:
        def predict(self, lists: rw.RankingDataset) -> np.ndarray:
            return np.repeat(lists.sizes, lists.sizes).astype(float) + lists.labels

    same(Longest(), data.labels, data)


def test_a_class_is_no_model(data):
    kinds: tuple[Any, ...] = (Ridge, lgb.LGBMClassifier, rw.LightGBMRanker)
    for kind in kinds:
        with pytest.raises(ValueError, match=f"a trained model is needed, and not its class: got {kind.__name__}"):
            rw.evaluate(kind, data)


def test_what_gives_no_scores_is_named(data):
    with refusal(what="scores must be one number per document", got="shape (2,)…"):
        rw.evaluate(lambda features: features[:2, 0], data)
