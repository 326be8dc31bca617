"""Monotone constraints: the same form for every library, and scores that really keep them."""

from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from tests.cli.running import run
from tests.refusals import refusal, refuses

LIBRARIES = ("lightgbm", "xgboost", "catboost")
SIGNS = {"price": -1, "rating": 1}
SMALL: dict[str, Any] = {"rounds": 15, "leaves": 8, "min_documents": 5, "learning_rate": 0.3, "threads": 1}
DRAWS: dict[str, Any] = {
    "lightgbm": {"extra_trees": True, "feature_fraction": 0.5, "bagging_fraction": 0.7, "bagging_freq": 1},
    "xgboost": {"colsample_bynode": 0.5, "subsample": 0.7},
    "catboost": {"subsample": 0.7, "rsm": 0.5},
}


def lists(seed: int = 0) -> rw.RankingDataset:
    """Labels that fall with the rating here and there, and go up and down with the price."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(600, 4)).astype(np.float32)
    truth = rows[:, 0] + np.sin(4 * rows[:, 1]) + np.sin(3 * rows[:, 2]) + 0.5 * rows[:, 2]
    labels = np.clip(np.round(1.5 + truth + rng.normal(size=600)), 0, 4)
    rows[rng.random(rows.shape) < 0.05] = np.nan
    names = ["bm25", "price", "rating", "age"]
    return rw.RankingDataset(rows, labels, np.arange(0, 601, 15), feature_names=names)


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    return lists()


@pytest.fixture(params=LIBRARIES)
def library(request) -> str:
    pytest.importorskip(request.param)
    return str(request.param)


def ranker(library: str, objective: Any = "lambdarank", **changes: Any) -> Any:
    return ranker_class(library)(objective, **SMALL | {"monotone_constraints": SIGNS} | changes)


def steps(model: Any, data: rw.RankingDataset, column: int) -> np.ndarray:
    """How scores of documents change where one of their features rises from step to step."""
    rows = np.repeat(data.features[None, :60], 41, axis=0)
    rows[:, :, column] = np.linspace(-3, 3, 41, dtype=np.float32)[:, None]
    scores = model.predict(rows.reshape(-1, data.n_features)).reshape(41, 60)
    return np.asarray(np.diff(scores, axis=0))


def kept(model: Any, data: rw.RankingDataset) -> bool:
    """Whether scores keep the constraints, which they would not do by themselves."""
    return bool((steps(model, data, 1) <= 0).all() and (steps(model, data, 2) >= 0).all())


@pytest.mark.parametrize("objective", ["lambdarank", "xendcg", "plrank", "approx_ndcg", "calibrated"])
def test_scores_keep_constraints_with_our_objectives(library, objective, data):
    assert not kept(ranker(library, objective, monotone_constraints=None).fit(data), data)
    model = ranker(library, objective).fit(data)
    assert kept(model, data)
    assert model.importances("split")[1:3].any()


@pytest.mark.parametrize("policy", ["lossguide", "depthwise"])  # the first is the default
@pytest.mark.parametrize("objective", ["stochastic(lambdarank, samples=2)", "0.5*xendcg + 0.5*smooth_ap"])
def test_scores_keep_constraints_with_every_grow_policy_of_xgboost(objective, policy, data):
    pytest.importorskip("xgboost")
    assert kept(ranker("xgboost", objective, grow_policy=policy).fit(data), data)


@pytest.mark.parametrize(
    ("library", "objective"),
    [
        ("lightgbm", "native:lambdarank"),
        ("lightgbm", "native:rank_xendcg"),
        ("xgboost", "native:rank:ndcg"),
        ("catboost", "native:QueryRMSE"),
        ("catboost", "native:LambdaMart"),
    ],
)
def test_scores_keep_constraints_with_objectives_of_the_libraries(library, objective, data):
    pytest.importorskip(library)
    assert kept(ranker(library, objective).fit(data), data)


def test_scores_keep_constraints_where_documents_and_features_are_drawn(library, data):
    model = ranker(library, **DRAWS[library]).fit(data)
    assert kept(model, data)
    assert len(model.history_["loss"]) == 15


@pytest.mark.parametrize("library", ["lightgbm", "xgboost"])
def test_a_draw_of_features_that_may_not_be_split_does_not_end_training(library):
    """Both features rise and may only fall; a tree that sees no other has no split."""
    pytest.importorskip(library)
    rng = np.random.default_rng(1)
    rows = rng.normal(size=(400, 3)).astype(np.float32)
    labels = np.clip(np.round(2 + rows.sum(axis=1)), 0, 4)
    data = rw.RankingDataset(rows, labels, np.arange(0, 401, 20))
    half = {"lightgbm": {"feature_fraction": 0.5}, "xgboost": {"colsample_bytree": 0.5}}[library]
    for seed in range(4):
        model = ranker(library, "xendcg", monotone_constraints={0: -1, 1: -1}, seed=seed, **half).fit(data)
        assert (model.stopped_, len(model.history_["loss"])) == ("rounds", 15)
        assert not model.importances("split")[:2].any()


def test_names_numbers_and_lists_say_the_same(library, data, tmp_path):
    model = ranker(library).fit(data)
    for constraints in ({1: -1, 2: 1}, [0, -1, 1, 0], np.array([0, -1, 1, 0])):
        other = ranker(library, monotone_constraints=constraints).fit(data)
        np.testing.assert_array_equal(other.predict(data), model.predict(data))
    unnamed = data.with_(feature_names=None)
    first = ranker(library, monotone_constraints={1: -1, 2: 1}).fit(unnamed)
    for trained, lists in ((model, data), (first, unnamed)):
        loaded: Any = rw.load(trained.save(tmp_path / f"{trained is model}"))
        np.testing.assert_array_equal(loaded.fit(lists).predict(lists), trained.predict(lists))


@pytest.mark.parametrize(
    ("constraints", "fields"),
    [
        (
            {"prize": -1},
            {"what": "unknown feature in monotone_constraints", "got": "'prize'", "hint": "did you mean 'price'"},
        ),
        ({"price": 2}, {"what": "monotone_constraints must be 1, -1 or 0", "got": "2", "where": "column 'price'"}),
        ({"price": True}, {"what": "monotone_constraints must be 1, -1 or 0", "got": "True"}),
        ({4: 1}, {"what": "…must be smaller than the number of features", "got": "4 of 4"}),
        ([1, 0], {"what": "a list of monotone_constraints has one for each feature", "got": "2 for 4 features"}),
        ("1,0,0,0", {"what": "monotone_constraints must be signs by feature", "got": "'1,0,0,0'"}),
    ],
)
def test_constraints_that_are_malformed_are_refused(library, constraints, fields, data):
    refuses(lambda: ranker(library, monotone_constraints=constraints).fit(data), **fields)


def test_constraints_that_data_cannot_have_are_refused(library, data):
    with refusal(what="the features of these data have no names", got="monotone_constraints of 'price'"):
        ranker(library).fit(data.with_(feature_names=None))
    codes = data.with_(features=np.abs(np.round(np.nan_to_num(data.features))), categorical=(1,))
    with refusal(what="categories have no order", got="monotone_constraints", where="column 'price'"):
        ranker(library).fit(codes)


@pytest.mark.parametrize(
    ("library", "objective", "parameters"),
    [
        ("lightgbm", "xendcg", {"linear_tree": True}),
        ("lightgbm", "xendcg", {"monotone_constraints_method": "advanced"}),
        ("lightgbm", "xendcg", {"mc_method": "intermediate"}),
        ("catboost", "xendcg", {"grow_policy": "Lossguide"}),
        ("catboost", "native:YetiRank", {}),
        ("catboost", "native:PairLogit", {}),
    ],
)
def test_what_would_not_keep_constraints_is_refused(library, objective, parameters, data):
    pytest.importorskip(library)
    with refusal(what="…cannot be trained so", got="…keep monotone_constraints…"):
        ranker(library, objective, **parameters).fit(data)


def test_a_model_that_is_continued_must_keep_them_too(library, data):
    free = ranker(library, monotone_constraints=None).fit(data)
    with refusal(what="…continued was trained without this one of monotone_constraints", where="column 'price…"):
        ranker(library).fit(data, init_model=free)
    assert kept(ranker(library).fit(data, init_model=ranker(library).fit(data)), data)


def test_bags_blends_and_students_keep_them(data):
    bag = rw.bagged(ranker("lightgbm"), folds=2).fit(data)
    blend = rw.blended([ranker("lightgbm"), ranker("lightgbm", "xendcg")], folds=2).fit(data)
    student = rw.distilled(ranker("lightgbm", monotone_constraints=None), ranker("lightgbm")).fit(data)
    for model in (bag, blend, student):
        assert kept(model, data)


def test_auto_ranker_keeps_them_and_leaves_nets_out(data):
    settings: dict[str, Any] = {"minutes": None, "folds": 2, "threads": 1, "progress": False}
    recipes = [ranker("lightgbm", loss, monotone_constraints=None) for loss in ("lambdarank", "xendcg")]
    model = rw.AutoRanker(recipes=recipes, monotone_constraints=SIGNS, **settings).fit(data)
    assert kept(model, data)
    assert all(one.get_params()["monotone_constraints"] is None for one in recipes)
    model = rw.AutoRanker(monotone_constraints=SIGNS, **settings | {"max_recipes": 1, "minutes": 0.05}).fit(data)
    (note,) = [note for note in model.leaderboard_.notes if "monotone_constraints" in note]
    assert note == "Left out: recipes of neural, which cannot keep monotone_constraints."
    with refusal(what="…cannot have the monotone_constraints of the search", got="NeuralRanker", where="recipe…"):
        rw.AutoRanker(recipes=[*recipes, rw.NeuralRanker()], monotone_constraints=SIGNS, **settings).fit(data)
    with refusal(got="constraints of its own", where="recipe 1"):
        rw.AutoRanker(recipes=[ranker("lightgbm")], monotone_constraints=SIGNS, **settings).fit(data)
    with refusal(what="unknown feature in monotone_constraints", got="'prize'"):
        rw.AutoRanker(monotone_constraints={"prize": 1}, **settings).fit(data)


def test_the_command_line_and_files_of_parameters_know_them(data, tmp_path):
    path = rw.data.write_parquet(data, tmp_path / "train.parquet")
    words = ["--set", "rounds=15", "--set", "leaves=8", "--threads", "1"]
    signs = '{"price": -1, "rating": 1}'
    run("train", path, "-o", tmp_path / "set", *words, "--set", f"monotone_constraints={signs}")
    (tmp_path / "best.toml").write_text("monotone_constraints = {price = -1, rating = 1}\n")
    run("train", path, "-o", tmp_path / "file", *words, "--params", tmp_path / "best.toml")
    few = ["--max-recipes", "1", "--minutes", "0.05", "--folds", "2", "--threads", "1"]
    run("auto", path, "-o", tmp_path / "auto", *few, "--monotone", "price=-1", "--monotone", "rating=1")
    for name in ("set", "file", "auto"):
        assert kept(rw.load(tmp_path / name), data)
