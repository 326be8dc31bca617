"""Importances of features: of trees, and of whatever is made of them."""

from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refusal

TREES: dict[str, Any] = {"rounds": 5, "leaves": 4, "min_documents": 5, "threads": 1}
NET: dict[str, Any] = {"epochs": 1, "hidden": (4,), "threads": 1, "device": "cpu"}


def trees(objective: str = "xendcg") -> rw.LightGBMRanker:
    return rw.LightGBMRanker(objective, **TREES)


def test_a_search_and_a_student_have_those_of_the_ranker_that_they_became(data):
    settings: dict[str, Any] = {"folds": 2, "threads": 1, "progress": False}
    model = rw.AutoRanker(None, recipes=[trees(), trees("lambdarank")], **settings).fit(data)
    np.testing.assert_array_equal(model.feature_importances_, model.ranker_.feature_importances_)
    student = rw.distilled(trees(), trees("lambdarank")).fit(data)
    np.testing.assert_array_equal(student.feature_importances_, student.ranker_.feature_importances_)
    for one in (model, student):
        assert one.feature_importances_.shape == (data.n_features,)
        assert one.feature_importances_.sum() == pytest.approx(1.0)


def test_models_of_different_libraries_have_shares_by_their_weights(data):
    pytest.importorskip("xgboost")
    settings: dict[str, Any] = {"folds": 2, "threads": 1, "progress": False}
    recipes = [trees(), rw.XGBoostRanker("xendcg", **TREES)]
    auto: Any = rw.AutoRanker(None, recipes=recipes, **settings).fit(data)
    for model in (auto, rw.CalibratedRanker(rw.blended(recipes, folds=2)).fit(data)):
        assert model.ranker_.weighs
        np.testing.assert_array_equal(model.feature_importances_, model.ranker_.feature_importances_)
        assert model.feature_importances_.sum() == pytest.approx(1.0)


class Explained(rw.Ranker):
    """A ranker of the user's that knows shares of features."""

    def _fit(self, train, valid):
        self.shares_ = np.eye(train.n_features)[0]

    def _predict(self, features, offsets):
        return features @ self.shares_

    @property
    def feature_importances_(self):
        return self.shares_


def test_a_bag_has_those_that_rankers_of_the_user_know(data):
    np.testing.assert_array_equal(
        rw.bagged(Explained(), folds=2).fit(data).feature_importances_, np.eye(data.n_features)[0]
    )


def test_a_recommender_is_called_by_its_name():
    model = rw.recommend.Popularity().fit(rw.recommend.synthetic_ratings(n_users=20, n_items=10, n_ratings=5, seed=1))
    with refusal(AttributeError, what="Popularity has no feature_importances_, which are shares in the gain of splits"):
        _ = model.feature_importances_


def test_a_bag_that_is_not_one_forest_has_the_mean_of_its_members(data, tmp_path):
    """CatBoost's statistics of categories cannot be added up."""
    pytest.importorskip("catboost")
    codes = (data.labels + np.arange(data.n_docs) % 2).astype(np.float32)
    categorical = data.with_(features=np.column_stack([codes, data.features[:, 1:]]), categorical=(0,))
    bag: Any = rw.bagged(rw.CatBoostRanker("xendcg", **TREES), folds=2).fit(categorical)
    assert bag.averaged
    mean = np.mean([one.feature_importances_ for one in bag.members_], axis=0)
    np.testing.assert_allclose(bag.feature_importances_, mean)
    loaded: Any = rw.load(bag.save(tmp_path / "bag"))
    np.testing.assert_array_equal(loaded.feature_importances_, bag.feature_importances_)


def test_nets_and_what_is_made_of_them_say_what_to_take_instead(data):
    net = rw.NeuralRanker("softmax_ce", **NET)
    made: dict[str, Any] = {
        "NeuralRanker": rw.NeuralRanker("softmax_ce", **NET).fit(data),
        "NeuralRanker ": rw.bagged(net, folds=2).fit(data),
        "a blend": rw.blended([trees(), net], folds=2).fit(data),
    }
    for name, model in made.items():
        assert not hasattr(model, "feature_importances_"), name
        with pytest.raises(AttributeError, match=rf"(?s){name.strip()}.* Hint: abs\(\w+\.explain\(data\)\)"):
            _ = model.feature_importances_
    moved = np.abs(made["a blend"].explain(data))[:, :-1].mean(axis=0)  # as the hint says
    assert moved.shape == (data.n_features,)
    assert moved.any()
