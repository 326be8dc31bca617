"""Models that other libraries trained, as rankers of ours: the same bits, on every road."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import catboost as cb
import lightgbm as lgb
import numpy as np
import onnxruntime
import pandas as pd
import pytest
import xgboost as xgb

import rankwise as rw
from tests.refusals import refusal, refuses

LGB: dict[str, Any] = {"n_estimators": 8, "num_leaves": 9, "min_child_samples": 5, "n_jobs": 1, "verbose": -1}
XGB: dict[str, Any] = {"n_estimators": 8, "max_depth": 4, "n_jobs": 1}
CAT: dict[str, Any] = {"iterations": 8, "depth": 4, "thread_count": 1, "verbose": 0, "allow_writing_files": False}


@pytest.fixture(scope="module")
def train() -> rw.RankingDataset:
    data = rw.synthetic(n_queries=40, n_docs=15, n_features=6, seed=3)
    features = data.features.copy()
    features[np.random.default_rng(0).random(features.shape) < 0.1] = np.nan
    return data.with_(features=features, feature_names=None)


@pytest.fixture(scope="module")
def rows(train) -> np.ndarray:
    rng = np.random.default_rng(1)
    rows: np.ndarray = train.features[rng.integers(0, train.n_docs, 200)].copy()
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


def of_lightgbm(kind: type, train: rw.RankingDataset, **parameters: Any) -> Any:
    labels = (train.labels > 0).astype(int) if kind is lgb.LGBMClassifier else train.labels
    group = {"group": train.sizes} if kind is lgb.LGBMRanker else {}
    return kind(**LGB | parameters).fit(train.features, labels, **group)


def of_xgboost(kind: type, train: rw.RankingDataset, **parameters: Any) -> Any:
    labels = (train.labels > 0).astype(int) if kind is xgb.XGBClassifier else train.labels
    qid = {"qid": np.repeat(np.arange(train.n_queries), train.sizes)} if kind is xgb.XGBRanker else {}
    return kind(**XGB | parameters).fit(train.features, labels, **qid)


def of_catboost(kind: type, train: rw.RankingDataset, **parameters: Any) -> Any:
    labels = (train.labels > 0).astype(int) if kind is cb.CatBoostClassifier else train.labels
    ids = {"group_id": np.repeat(np.arange(train.n_queries), train.sizes)} if kind is cb.CatBoostRanker else {}
    return kind(**CAT | parameters).fit(train.features, labels, **ids)


def scaled(model: Any) -> Any:
    model.set_scale_and_bias(0.3, 0.7)
    return model


MODELS: dict[str, Any] = {
    "lambdarank": lambda data: of_lightgbm(lgb.LGBMRanker, data),
    "lightgbm poisson": lambda data: of_lightgbm(lgb.LGBMRegressor, data, objective="poisson"),
    "lightgbm dart": lambda data: of_lightgbm(lgb.LGBMRegressor, data, boosting_type="dart"),
    "lightgbm forest": lambda data: of_lightgbm(
        lgb.LGBMRegressor, data, boosting_type="rf", subsample=0.5, subsample_freq=1
    ),
    "lightgbm classifier": lambda data: of_lightgbm(lgb.LGBMClassifier, data),
    "lgb.Booster": lambda data: of_lightgbm(lgb.LGBMRanker, data, objective="rank_xendcg").booster_,
    "lightgbm custom": lambda data: lgb.train(
        {"objective": rw.objectives.lightgbm_objective("xendcg"), "num_threads": 1, "verbosity": -1},
        lgb.Dataset(data.features, data.labels, group=data.sizes),
        num_boost_round=5,
    ),
    "lightgbm linear": lambda data: lgb.train(
        {"linear_tree": True, "num_threads": 1, "verbosity": -1, "objective": "regression"},
        lgb.Dataset(data.features, data.labels),
        num_boost_round=5,
    ),
    "lightgbm one leaf": lambda data: of_lightgbm(lgb.LGBMRegressor, data, min_child_samples=data.n_docs),
    "lightgbm one leaf read again": lambda data: lgb.Booster(
        model_str=of_lightgbm(lgb.LGBMRegressor, data, min_child_samples=data.n_docs).booster_.model_to_string()
    ),
    "lightgbm forest of single leaves": lambda data: of_lightgbm(
        lgb.LGBMRegressor, data, boosting_type="rf", subsample=0.5, subsample_freq=1, min_child_samples=data.n_docs
    ),
    "rank:ndcg": lambda data: of_xgboost(xgb.XGBRanker, data),
    "xgboost one leaf": lambda data: of_xgboost(xgb.XGBRegressor, data, gamma=1e9),
    "xgboost poisson": lambda data: of_xgboost(xgb.XGBRegressor, data, objective="count:poisson"),
    "xgboost dart": lambda data: of_xgboost(xgb.XGBRanker, data, booster="dart", rate_drop=0.3, random_state=1),
    "xgboost dart around a mean": lambda data: of_xgboost(
        xgb.XGBRegressor, data, booster="dart", rate_drop=0.3, random_state=1, base_score=0.3
    ),
    "xgboost forest": lambda data: of_xgboost(xgb.XGBRegressor, data, num_parallel_tree=3, subsample=0.5),
    "xgboost classifier": lambda data: of_xgboost(xgb.XGBClassifier, data),
    "xgb.Booster": lambda data: of_xgboost(xgb.XGBRanker, data, objective="rank:pairwise").get_booster(),
    "xgboost custom": lambda data: xgb.train(
        {"nthread": 1, "disable_default_eval_metric": 1},
        xgb.DMatrix(data.features, data.labels, group=data.sizes, nthread=1),
        num_boost_round=5,
        obj=rw.objectives.xgboost_objective("xendcg"),
    ),
    "YetiRank": lambda data: of_catboost(cb.CatBoostRanker, data),
    "catboost regressor": lambda data: of_catboost(cb.CatBoostRegressor, data, grow_policy="Lossguide"),
    "catboost one leaf": lambda data: of_catboost(
        cb.CatBoostRegressor, data, grow_policy="Lossguide", min_data_in_leaf=data.n_docs
    ),
    "catboost classifier": lambda data: of_catboost(cb.CatBoostClassifier, data),
    "catboost scaled": lambda data: scaled(of_catboost(cb.CatBoostRegressor, data)),
    "CatBoost": lambda data: cb.CatBoost(CAT | {"loss_function": "RMSE"}).fit(data.features, data.labels),
}


def raw_scores(model: Any, rows: np.ndarray) -> np.ndarray:
    """What the library itself adds up."""
    if isinstance(model, cb.CatBoost):
        return np.asarray(cb.CatBoost.predict(model, rows, prediction_type="RawFormulaVal"))
    if isinstance(model, xgb.Booster):
        return np.asarray(model.predict(xgb.DMatrix(rows), output_margin=True))
    if isinstance(model, xgb.XGBModel):
        return np.asarray(model.predict(rows, output_margin=True))
    return np.asarray(model.predict(rows, raw_score=True))


@pytest.fixture(scope="module", params=MODELS)
def theirs(request, train) -> Any:
    return MODELS[request.param](train)


def test_scores_are_those_of_the_library_to_the_last_bit(theirs, rows, tmp_path):
    ranker = rw.wrap(theirs)
    expected = raw_scores(theirs, rows).astype(np.float64)
    np.testing.assert_array_equal(ranker.predict(rows), expected)
    np.testing.assert_array_equal(ranker.scorer()(rows), expected)
    loaded = rw.load(ranker.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(rows), expected)
    np.testing.assert_array_equal(loaded.scorer()(rows), expected)
    assert repr(loaded) == repr(ranker)


@pytest.mark.parametrize("name", [name for name in MODELS if "leaf" in name])
def test_trees_of_one_leaf_are_explained(name, train, rows, tmp_path):
    ranker = rw.load(rw.wrap(MODELS[name](train)).save(tmp_path / "model"))
    parts = ranker.explain(rows)
    assert not parts[:, :-1].any()
    np.testing.assert_allclose(parts[:, -1], ranker.predict(rows), atol=1e-6)
    assert not ranker.feature_importances_.any()


def test_evaluation_and_ranking_go_through_the_same_door(theirs, train):
    ranker = rw.wrap(theirs)
    direct = rw.evaluate(theirs, train, ["ndcg@5", "ap"])
    np.testing.assert_array_equal(direct["ndcg@5"], rw.evaluate(ranker, train, "ndcg@5")["ndcg@5"])
    assert rw.compare({"theirs": theirs, "ours": ranker}, train, "ap").pairs[0].difference == 0.0
    assert ranker.rank(train, cutoff=1).height == train.n_queries
    assert ranker.score(train) == rw.evaluate(theirs, train, "ndcg@10").mean["ndcg@10"]
    assert ranker.n_features_in_ == 6


def test_importances_and_explanations_are_those_of_the_library(train, rows):
    trees = MODELS["lambdarank"](train)
    ranker = rw.wrap(trees)
    np.testing.assert_array_equal(ranker.importances("split"), trees.feature_importances_)
    np.testing.assert_allclose(ranker.explain(rows).sum(axis=1), ranker.predict(rows), atol=1e-9)
    margins = rw.wrap(MODELS["xgboost classifier"](train))
    np.testing.assert_allclose(margins.explain(rows).sum(axis=1), margins.predict(rows), atol=1e-5)
    assert margins.importances("gain").shape == (6,)


@pytest.mark.parametrize("name", ["lightgbm poisson", "xgboost classifier", "catboost regressor"])
def test_a_model_of_another_library_is_exported_without_a_detour(name, train, rows, tmp_path):
    model = MODELS[name](train)
    session = onnxruntime.InferenceSession(
        str(rw.export(model, tmp_path / "model.onnx", "onnx")), providers=["CPUExecutionProvider"]
    )
    np.testing.assert_allclose(session.run(["scores"], {"features": rows})[0], raw_scores(model, rows), atol=1e-5)


def test_an_estimator_that_stopped_early_is_cut_where_it_predicts(train, rows):
    held_out = rw.synthetic(n_queries=10, n_docs=15, n_features=6, seed=9)
    forest = lgb.LGBMRanker(**LGB | {"n_estimators": 60, "learning_rate": 0.5})
    forest.fit(
        train.features,
        train.labels,
        group=train.sizes,
        eval_X=held_out.features,
        eval_y=held_out.labels,
        eval_group=[held_out.sizes],
        callbacks=[lgb.early_stopping(3, verbose=False)],
    )
    assert forest.best_iteration_ < 60
    np.testing.assert_array_equal(rw.wrap(forest).predict(rows), forest.predict(rows))
    assert rw.wrap(forest).model_.n_trees == forest.best_iteration_
    other = xgb.XGBRanker(**XGB | {"n_estimators": 60, "learning_rate": 0.7, "early_stopping_rounds": 3})
    ids = [np.repeat(np.arange(one.n_queries), one.sizes) for one in (train, held_out)]
    other.fit(
        train.features,
        train.labels,
        qid=ids[0],
        eval_set=[(held_out.features, held_out.labels)],
        eval_qid=[ids[1]],
        verbose=False,
    )
    booster = other.get_booster()
    assert other.best_iteration + 1 < booster.num_boosted_rounds()
    np.testing.assert_array_equal(rw.wrap(other).predict(rows), other.predict(rows))
    np.testing.assert_array_equal(rw.wrap(booster).predict(rows), booster.predict(xgb.DMatrix(rows)))


def test_names_of_features_are_kept(train):
    names = ["bm25", "age", "clicks", "length", "depth", "links"]
    table = pd.DataFrame(train.features, columns=names)
    turned = train.with_(features=train.features[:, ::-1], feature_names=names[::-1])
    models = (
        lgb.LGBMRanker(**LGB).fit(table, train.labels, group=train.sizes),
        xgb.XGBRegressor(**XGB).fit(table, train.labels),
        cb.CatBoostRegressor(**CAT).fit(table, train.labels),
    )
    for model in models:
        ranker = rw.wrap(model)
        assert ranker.feature_names_in_.tolist() == names
        np.testing.assert_array_equal(ranker.predict(turned), ranker.predict(train))
        with refusal(what="the model was trained on 6 features", got="5"):
            rw.evaluate(model, train.with_(features=train.features[:, :5]))


def test_columns_with_spaces_are_found_though_lightgbm_writes_underlines(train):
    names = ["unit price", "age", "shop kind", "length", "depth", "links"]
    table = pd.DataFrame(train.features, columns=names)
    table["shop kind"] = pd.Categorical(np.array(["north", "south", "west"])[train.labels.astype(int) % 3])
    model = lgb.LGBMRanker(**LGB).fit(table, train.labels, group=train.sizes)
    ranker = rw.wrap(model)
    whole = table.assign(qid=train.qids(), label=train.labels)
    data = rw.RankingDataset.from_frame(whole, features=names[::-1])
    np.testing.assert_array_equal(ranker.predict(data), model.predict(table))
    np.testing.assert_array_equal(ranker.predict(table[names[::-1]]), model.predict(table))
    with refusal(got="no 'unit_price' among 5 columns"):
        ranker.predict(rw.RankingDataset.from_frame(whole, features=names[1:]))


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_categories_of_a_table_are_found_by_their_values(library, train):
    rng = np.random.default_rng(2)
    table = pd.DataFrame(train.features, columns=list("abcdef"))
    table["c"] = pd.Categorical(
        np.array(["red", "green", "blue"])[(train.labels + rng.integers(0, 2, train.n_docs)).astype(int) % 3]
    )
    table["e"] = pd.Categorical(
        np.array([30, 10, 20])[(2 * train.labels + rng.integers(0, 2, train.n_docs)).astype(int) % 3]
    )
    if library == "lightgbm":
        model: Any = lgb.LGBMRanker(**LGB).fit(table, train.labels, group=train.sizes)
    else:
        model = xgb.XGBRegressor(**XGB, enable_categorical=True).fit(table, train.labels)
    ranker = rw.wrap(model)
    assert ranker.categories_ == {"c": ("blue", "green", "red"), "e": (10, 20, 30)}
    np.testing.assert_array_equal(ranker.predict(table), model.predict(table))
    np.testing.assert_array_equal(ranker.predict(table[list("fedcba")].iloc[::-1]), model.predict(table)[::-1])
    np.testing.assert_array_equal(ranker.scorer()(table), model.predict(table))


def shops(*, constant: bool) -> pd.DataFrame:
    """Categories as pandas has them, beside codes that are plain numbers."""
    rng = np.random.default_rng(4)
    kinds = np.array(["north"] if constant else ["north", "south", "west"])
    return pd.DataFrame(
        {
            "shop": pd.Categorical(kinds[rng.integers(0, len(kinds), 400)]),
            "price": rng.random(400),
            "colour": pd.Categorical(np.array(["red", "green", "blue"])[rng.integers(0, 3, 400)]),
            "brand": rng.integers(0, 8, 400),
        }
    )


@pytest.mark.parametrize("codes", [False, True], ids=["categories", "codes too"])
def test_categories_stay_with_their_columns_where_lightgbm_dropped_a_constant_one(codes):
    table = shops(constant=True)
    labels = (table["colour"] == "red") + 2 * (table["brand"] % 3 == 0)
    chosen: Any = ["shop", "colour", "brand"] if codes else "auto"
    model = lgb.train(
        {"num_threads": 1, "verbosity": -1, "min_data_in_leaf": 5},
        lgb.Dataset(table, labels, categorical_feature=chosen),
        num_boost_round=8,
    )
    ranker = rw.wrap(model)
    assert ranker.categories_ == {"shop": ("north",), "colour": ("blue", "green", "red")}
    np.testing.assert_array_equal(ranker.predict(table), model.predict(table))
    turned = table[["colour", "brand", "price", "shop"]]
    np.testing.assert_array_equal(ranker.predict(turned), model.predict(table))


@pytest.mark.parametrize(
    ("change", "chosen", "why"),
    [
        ({"brand": lambda table: table["brand"] % 3}, ["shop", "brand"], "whose they are is not known"),
        ({}, ["brand"], "ordered categories and plain codes are not told apart"),
        ({"colour": lambda table: table["colour"].cat.as_ordered()}, "auto", "ordered categories and plain codes"),
    ],
    ids=["codes that fit too", "categories as numbers", "ordered"],
)
def test_categories_whose_columns_are_not_known_are_refused(change, chosen, why):
    table = shops(constant=False).assign(**change)
    if chosen == ["shop", "brand"]:
        table = table.drop(columns="colour")
    model = lgb.train(
        {"num_threads": 1, "verbosity": -1},
        lgb.Dataset(table, table["price"], categorical_feature=chosen),
        num_boost_round=2,
    )
    with pytest.raises(ValueError, match=f"{why}.* Hint: train it on unordered categories alone, or evaluate it"):
        rw.wrap(model)


@pytest.mark.parametrize("objective", ["rank:ndcg", "binary:logistic"])
def test_names_of_features_that_are_not_ascii_are_kept_by_xgboost(objective, train, tmp_path):
    names = ["prix en €", "größe", "名", 'a"b', "e", "f"]
    table = pd.DataFrame(train.features, columns=names)
    own = xgb.DMatrix(table, train.labels > 0, qid=train.qids(), nthread=1)
    model = xgb.train({"objective": objective, "nthread": 1}, own, num_boost_round=3)
    ranker = rw.load(rw.wrap(model).save(tmp_path / "model"))
    assert ranker.feature_names_in_.tolist() == names
    np.testing.assert_array_equal(ranker.predict(table), model.predict(own, output_margin=True))


def test_linear_leaves_of_a_model_that_was_wrapped_cannot_be_explained(train, rows):
    with refusal(what="LightGBM cannot explain these trees", got="linear leaves"):
        rw.wrap(MODELS["lightgbm linear"](train)).explain(rows)


def test_trees_that_catboost_cannot_add_are_an_error_in_the_first_round(train):
    older = rw.wrap(MODELS["catboost regressor"](train))
    newer = rw.CatBoostRanker("xendcg", rounds=5, leaves=8, threads=1)
    with refusal(what="CatBoost cannot add trees to this model", hint="train with the grow_policy…"):
        newer.fit(train, init_model=older)


def multiclass(library: str, train: rw.RankingDataset) -> Any:
    labels = np.minimum(train.labels, 2).astype(int)
    kinds: dict[str, Any] = {
        "lightgbm": lambda: lgb.LGBMClassifier(**LGB),
        "xgboost": lambda: xgb.XGBClassifier(**XGB),
        "catboost": lambda: cb.CatBoostClassifier(**CAT),
    }
    return kinds[library]().fit(train.features, labels)


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_several_classes_are_refused_and_evaluated_by_the_expected_grade(library, train):
    model = multiclass(library, train)
    refuses(lambda: rw.wrap(model), what="…cannot be wrapped as a ranker", got="3 scores of each document…")
    expected = model.predict_proba(train.features) @ np.arange(3.0)
    np.testing.assert_array_equal(rw.evaluate(model, train)["ndcg@10"], rw.evaluate(expected, train)["ndcg@10"])


@pytest.mark.parametrize(
    ("make", "fields"),
    [
        (lambda data: lgb.LGBMRanker(), {"what": "this LGBMRanker is not trained yet, or has no trees"}),
        (lambda data: xgb.XGBRanker(), {"what": "this XGBRanker is not trained yet, or has no trees"}),
        (lambda data: cb.CatBoostRanker(), {"what": "this CatBoostRanker is not trained yet, or has no trees"}),
        (lambda data: rw.LightGBMRanker(), {"what": "this LightGBMRanker is not trained yet"}),
        (
            lambda data: of_xgboost(xgb.XGBRegressor, data, booster="gblinear", max_depth=None),
            {"got": "…a linear model without…"},
        ),
        (lambda data: of_xgboost(xgb.XGBRanker, data, missing=-1.0), {"what": "missing values are NaN here"}),
        (
            lambda data: cb.CatBoostRegressor(**CAT).fit(
                pd.DataFrame({"a": data.features[:, 0], "b": data.labels.astype(int)}), data.labels, cat_features=["b"]
            ),
            {"got": "features that are categories, of which CatBoost keeps hashes and not the values"},
        ),
        (
            lambda data: xgb.XGBRegressor(**XGB).fit(data.features, np.stack([data.labels, data.labels], axis=1)),
            {"got": "2 scores of each document…"},
        ),
        (lambda data: object(), {"what": "only trained models of LightGBM, XGBoost and CatBoost can be wrapped"}),
    ],
    ids=["lightgbm", "xgboost", "catboost", "ours", "linear", "missing", "categories", "targets", "object"],
)
def test_what_cannot_be_wrapped_is_refused_in_one_sentence(make, fields, train):
    refuses(lambda: rw.wrap(make(train)), **fields)


def test_linear_leaves_are_scored_by_the_library_and_not_exported(train, tmp_path):
    ranker = rw.wrap(MODELS["lightgbm linear"](train))
    assert not ranker.scorer().rearranged
    with pytest.raises(ValueError, match="linear_tree"):
        rw.export(ranker, tmp_path / "model.onnx", "onnx")


def test_a_ranker_of_ours_is_what_it_was(train):
    ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=5, threads=1).fit(train)
    assert rw.wrap(ranker) is ranker


@pytest.mark.parametrize("kind", [rw.LightGBMRanker, rw.XGBoostRanker, rw.CatBoostRanker])
def test_the_librarys_own_object_of_a_ranker_is_wrapped_again(kind, train):
    ranker = kind("xendcg", rounds=3, leaves=5, threads=1).fit(train)
    np.testing.assert_array_equal(rw.wrap(ranker.model_.booster).predict(train), ranker.predict(train))


def test_a_wrapped_model_is_a_copy(train, rows):
    booster = MODELS["xgb.Booster"](train)
    ranker = rw.wrap(booster)
    before = ranker.predict(rows)
    booster.update(xgb.DMatrix(train.features, train.labels, group=train.sizes, nthread=1), 8)
    np.testing.assert_array_equal(ranker.predict(rows), before)


@pytest.mark.parametrize("name", ["lambdarank", "xgboost classifier", "CatBoost"])
def test_a_wrapped_model_is_continued(name, train):
    older = rw.wrap(MODELS[name](train))
    newer = type(older)("xendcg", rounds=2, leaves=7, min_documents=5, threads=1).fit(train, init_model=older)
    assert newer.model_.n_trees == older.model_.n_trees + 2
    kept = newer.model_.cut(older.model_.n_trees)
    np.testing.assert_allclose(kept.scores(train.features), older.predict(train), atol=1e-6)


def test_a_saved_model_scores_alike_in_a_process_of_its_own(train, rows, tmp_path):
    model = MODELS["xgboost classifier"](train)
    folder = rw.wrap(model).save(tmp_path / "model")
    np.save(tmp_path / "rows.npy", rows)
    code = (
        "import sys, json, numpy as np, rankwise as rw;"
        "print(json.dumps(rw.load(sys.argv[1]).predict(np.load(sys.argv[2])).tolist()))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(folder), str(Path(tmp_path, "rows.npy"))],
        capture_output=True,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == raw_scores(model, rows).astype(np.float64).tolist()
