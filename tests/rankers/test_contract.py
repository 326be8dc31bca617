"""What every ranker must keep to, over one table: fit, predict, save, load, resume, refuse, clone, explain.

A ranker of the table is tested with its line of ``SETTINGS``; a ranker made of others by one of ``RANKERS``.
"""

import pickle
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone

import rankwise as rw
from rankwise.data.columns import column_of
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.rankers import table
from tests.kernels import around
from tests.objectives.pairwise.pairs_by_hand import frozen
from tests.processes import HANG, environment
from tests.refusals import refusal, refuses

TREES: dict[str, Any] = {"rounds": 8, "leaves": 7, "min_documents": 5, "learning_rate": 0.1, "threads": 1}
NET: dict[str, Any] = {
    "epochs": 8, "hidden": (16,), "dropout": 0.0, "averaging": 0.0, "learning_rate": 0.02, "batch_queries": 10,
    "threads": 1, "device": "cpu",
}  # fmt: skip
RATINGS: dict[str, Callable[[], Any]] = {
    "factorization": lambda: rw.recommend.FactorizationRanker(epochs=2, factors=3, threads=1, device="cpu"),
    "ease": rw.recommend.EASE,
    "als": lambda: rw.recommend.ALS(factors=3),
    "knn": lambda: rw.recommend.ItemKNN(neighbours=5),
    "popularity": rw.recommend.Popularity,
}
"""Rankers of ratings."""
SETTINGS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("lightgbm", "xgboost", "catboost"), {"objective": "xendcg"} | TREES),
    "neural": {"objective": "softmax_ce"} | NET,
    "linear": {"objective": "softmax_ce", "transform": "quantile", "threads": 1},
}
SINGLE: dict[str, Callable[..., Any]] = {
    name: lambda name=name, **changes: table.ranker_class(name)(**SETTINGS[name] | changes)
    for name in table.RANKERS
    if name not in RATINGS
}
"""Rankers that are trained by themselves, with changes of their parameters."""


RANKERS: dict[str, Callable[..., Any]] = {
    **SINGLE,
    **{
        f"bagged({name})": lambda build=build, **changes: rw.bagged(build(**changes), folds=2)
        for name, build in SINGLE.items()
    },
    "blended": lambda checkpoint=None, **changes: rw.blended(
        [SINGLE["lightgbm"](**changes), SINGLE["neural"](epochs=4), 0], folds=2, checkpoint=checkpoint
    ),
    "blended(xgboost)": lambda checkpoint=None, **changes: rw.blended(
        [SINGLE["xgboost"](**changes), SINGLE["xgboost"](seed=1)], folds=2, checkpoint=checkpoint
    ),
    "distilled": lambda **changes: rw.distilled(SINGLE["xgboost"](), SINGLE["lightgbm"](**changes)),
}
"""Rankers of lists with features; changes are those of the ranker inside."""

every_ranker = pytest.mark.parametrize("name", RANKERS)
every_single = pytest.mark.parametrize("name", SINGLE)
GOING_ON = [name for name in SINGLE if name != "linear"]
"""Rankers whose rounds go on from those before: each of a linear ranker ends elsewhere, at another strength."""


@cache
def lists(part: str) -> rw.RankingDataset:
    """The data of ``tests/conftest.py``, of which some features are missing."""
    whole = rw.synthetic(n_queries=65, n_features=12, n_docs=20, seed=3)
    holes = whole.with_(features=np.where(whole.features > 2.0, np.nan, whole.features))
    return holes.take({"train": slice(0, 40), "valid": slice(40, 65)}[part])


@cache
def ratings() -> rw.recommend.Interactions:
    return rw.recommend.synthetic_ratings(30, 40, n_ratings=12, seed=1)


@cache
def trained(name: str) -> Any:
    """A trained ranker, which tests must not change."""
    if name in RATINGS:
        return RATINGS[name]().fit(ratings())
    return RANKERS[name]().fit(lists("train"), lists("valid"))


def scores_of(model: Any) -> Any:
    return model.predict(ratings().dataset(1, seed=0) if hasattr(model, "recommend") else lists("valid"))


def same(one: Any, other: Any, data: Any) -> bool:
    return np.array_equal(one.predict(data), other.predict(data))


# Learning.


@every_ranker
def test_it_learns_and_repeats(name):
    model, valid = trained(name), lists("valid")
    floor = rw.evaluate(np.zeros(valid.n_docs), valid).mean["ndcg@10"]
    assert rw.evaluate(model, valid).mean["ndcg@10"] > floor + 0.05
    assert model.score(valid) == rw.evaluate(model, valid).mean["ndcg@10"]
    as_libraries: Any = {"eval_set": [(valid.features, valid.labels)], "eval_qid": [valid.qids()]}
    again = RANKERS[name]().fit(lists("train"), **as_libraries)
    assert same(again, model, valid)
    assert again.history_ == model.history_
    ends = {"blended": "complete", "neural": "epochs", "linear": "strengths"}
    assert model.stopped_ == next((end for part, end in ends.items() if part in name), "rounds")


EVERY_OBJECTIVE = [*OBJECTIVES, *(around(name, "approx_ndcg") for name in WRAPPERS), "0.7*xendcg + 0.3*approx_ndcg"]
EVERY_OBJECTIVE += ["xendcg + 0.3*on(purchase, approx_ndcg)"]


def losses(text, data, scores):
    """The mean loss of equal scores, and of these."""
    objective, start = rw.objective(text), np.zeros(data.n_docs)
    if isinstance(
        objective, rw.objectives.LambdaRank
    ):  # its value holds the pairs' weights fixed: it compares only under the same weights
        held = frozen(objective, start, data.labels, data.offsets)
        return [held(at).mean() for at in (start, scores)]
    columns = {name: column_of(data, name) for name in objective.reads}
    streams = [data.stream(1000 + k) for k in range(8)]  # the expected loss: over draws none of which training saw
    return [
        np.mean([objective(at, data.labels, data.offsets, stream, **columns).value.mean() for stream in streams])
        for at in (start, scores)
    ]


@every_single
@pytest.mark.parametrize("text", EVERY_OBJECTIVE)
def test_every_objective_and_wrapper_lowers_its_loss(name, text, data):
    # Most objectives do not look at these columns.
    data = data.with_(groups=np.arange(data.n_docs) % 3, teacher_scores=3.0 * data.labels)
    data = data.with_(
        positions=np.arange(data.n_docs) % 7 + 1, more_labels={"purchase": np.maximum(data.labels, 2.0) - 2}
    )
    if "safe" in text:
        data = data.with_(init_scores=np.zeros(data.n_docs))
    changes = {"l2": 0.03} if name == "linear" else {}  # a strength that is not chosen: choosing has tests of its own
    model = SINGLE[name](objective=text, **changes).fit(data)
    before, after = losses(text, data, model.predict(data))
    assert after < before
    assert len(model.history_["loss"]) == (8 if name in GOING_ON else 1)
    assert rw.evaluate(model, data).mean["ndcg@10"] > rw.evaluate(np.zeros(data.n_docs), data).mean["ndcg@10"] + 0.05


def with_goal(data: rw.RankingDataset) -> rw.RankingDataset:
    """The data with labels by name that are not those of the features' own order."""
    return data.with_(more_labels={"purchase": np.maximum(data.labels, np.arange(data.n_docs) % 3 == 0)})


@every_single
def test_labels_by_name_train_as_labels_do(name, data, valid):
    data, valid = with_goal(data), with_goal(valid)
    named = SINGLE[name](objective="on(purchase, xendcg)", metrics=["ndcg(label=purchase)@10", "ndcg@10"]).fit(
        data, valid
    )
    plain = SINGLE[name](objective="xendcg").fit(
        *(part.with_(labels=part.labels_of("purchase")) for part in (data, valid))
    )
    assert same(named, plain, valid)
    assert named.history_["ndcg(label=purchase)@10"] == plain.history_["ndcg@10"]
    assert named.history_["ndcg@10"] != plain.history_["ndcg@10"]
    assert named.score(valid) == rw.evaluate(named, valid, "ndcg(label=purchase)@10").mean["ndcg(label=purchase)@10"]
    assert named.scales_ == {}


@every_single
def test_scales_of_several_goals_are_kept_with_the_model(name, data, valid, tmp_path):
    data = with_goal(data)
    model = SINGLE[name](objective="ranknet + 0.5*on(purchase, softmax_ce)").fit(data)
    zeros, goal = np.zeros(data.n_docs), data.labels_of("purchase")
    pulls = [np.abs(rw.objective(text)(zeros, y, data.offsets).gradient).sum() for text, y in
             (("ranknet", data.labels), ("softmax_ce", goal))]  # fmt: skip
    assert model.scales_ == pytest.approx({"ranknet": 1.0, "on(purchase, softmax_ce)": pulls[0] / pulls[1]})
    assert rw.load(model.save(tmp_path / "model")).scales_ == model.scales_
    same_labels = data.with_(more_labels={"purchase": data.labels})
    assert SINGLE[name](objective="ranknet + 0.5*on(purchase, ranknet)").fit(same_labels).scales_ == {
        "ranknet": 1.0, "on(purchase, ranknet)": 1.0,
    }  # fmt: skip


def test_ensembles_and_searches_measure_labels_by_name(data, valid):
    data, metric = with_goal(rw.concatenate([data, valid])), "ndcg(label=purchase)@10"
    build = SINGLE["lightgbm"]
    bag = rw.bagged(build(objective="xendcg + 0.3*on(purchase, xendcg)", metrics=[metric]), folds=2).fit(data)
    assert bag.out_of_fold_.mean[metric] > 0.0
    assert bag.scales_ == build(objective="xendcg + 0.3*on(purchase, xendcg)").fit(data).scales_  # of all queries
    ignored, goals = np.arange(data.n_queries) % 2, build(objective="softmax_ce + on(purchase, ranknet)")
    scales = goals.fit(data.with_(weights=1.0 - ignored)).scales_  # queries of weight 0 do not count
    assert scales == goals.fit(data.take(np.flatnonzero(ignored == 0))).scales_
    blend = rw.blended([build(), 0], folds=2, metrics=[metric]).fit(data)
    assert blend.weights_.metric == metric
    table = rw.cross_validate(build(), data, metrics=[metric], folds=2)
    assert metric in table.mean
    with refusal(what="the data have no labels called 'sale'", got="more_labels: 'purchase'"):
        build(metrics=["ndcg(label=sale)"]).fit(data.take(slice(0, 40)), data.take(slice(40, 65)))
    shown = data.with_(propensities=np.full(data.n_docs, 0.5))
    with refusal(what="propensities are those of clicks, which are the labels"):
        build(metrics=[metric], debias=True).fit(shown.take(slice(0, 40)), shown.take(slice(40, 65)))


@pytest.mark.parametrize("name", GOING_ON)
def test_early_stopping_keeps_the_best_round_of_any_metric(name, data, valid):
    settings = {"rounds": 80, "learning_rate": 0.4} if name != "neural" else {"epochs": 40, "learning_rate": 0.1}
    metrics = {"patience": 5, "metrics": ("ap", "ndcg@5"), "objective": "lambdarank"}
    model = SINGLE[name](**settings, **metrics).fit(data, valid)
    assert model.stopped_ == "patience"
    column = model.history_["ap"]
    assert model.best_round_ == np.argmax(column) + 1 == len(column) - 5
    assert len(model.history_["ndcg@5"]) == len(model.history_["loss"]) == len(column)
    assert getattr(model.model_, "n_trees", model.best_round_) == model.best_round_
    assert model.score(valid) == pytest.approx(max(column))
    for text in ("ap", "ndcg@5"):
        expected = rw.evaluate(model, valid, [text]).mean[text]
        assert model.history_[text][model.best_round_ - 1] == pytest.approx(expected, abs=1e-12)


EXACT: dict[str, dict[str, Any]] = {
    "lightgbm": {"min_documents": 1, "leaves": 4, "min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0.0},
    "xgboost": {"min_documents": 1, "leaves": 4, "reg_lambda": 0.0, "min_child_weight": 1e-6},  # ours are relative
    "catboost": {"leaves": 4, "l2_leaf_reg": 0.0, "bootstrap_type": "No", "random_strength": 0.0},
    "neural": {"batch_queries": 100, "transform": "raw"},
    "linear": {"transform": None, "l2": 0.0},
}
"""What makes a query that is there twice weigh exactly twice as much."""
AVERAGED: dict[str, dict[str, Any]] = {
    "lightgbm": {"min_documents": 1, "min_data_in_bin": 1},
    "xgboost": {},  # reg_lambda and min_documents are relative to the average Hessian
    "catboost": {"bootstrap_type": "No", "random_strength": 0.0},  # l2_leaf_reg is relative to the average Hessian
    "neural": EXACT["neural"],
    "linear": EXACT["linear"],
}
"""The same where weights are 1 on average."""
NATIVE = {"lightgbm": "lambdarank", "xgboost": "rank:ndcg", "catboost": "QueryRMSE"}
COPIES = {"twice": [1, 1, 1, 2, *[1] * 8], "averaging 1": [0, 2, 1, 2, 0, *[1] * 5, 2, 0]}
GOALS = "softmax_ce + on('other', listnet)"


@pytest.mark.parametrize("copies", COPIES)
@pytest.mark.parametrize(
    ("name", "objective"),
    [
        *((name, objective) for name in SINGLE for objective in ("positioned(softmax_ce)", GOALS)),
        *((name, "lambdarank") for name in GOING_ON),  # whose gradients jump: rounding decides where a line search ends
        *((name, f"native:{objective}") for name, objective in NATIVE.items()),
    ],
)
def test_a_weight_of_2_equals_the_query_twice(name, objective, copies):
    rng = np.random.default_rng(1)
    features = rng.integers(0, 6, (120, 4)).astype(float)  # few values: bins do not depend on how often rows occur
    lists = rw.RankingDataset.from_sizes(features, rng.integers(0, 3, 120), [10] * 12)
    if "native" not in objective:
        shown = np.concatenate([rng.permutation(10) + 1 for _ in range(12)])
        lists = lists.with_(positions=shown, more_labels={"other": rng.integers(0, 2, 120)})
    rows = np.repeat(np.arange(12), COPIES[copies])
    again = rw.concatenate([lists.take([row]).with_(query_ids=[number]) for number, row in enumerate(rows)])
    heavier = lists.with_(weights=np.array(COPIES[copies], float))
    settings = (EXACT if copies == "twice" else AVERAGED)[name]
    weighted, twice, once = (
        SINGLE[name](objective=objective, **settings).fit(data) for data in (heavier, again, lists)
    )
    found = [model.predict(lists) for model in (weighted, twice, once)]
    scores = [one - one.mean() for one in found]  # no objective fixes the bias of a net
    assert np.allclose(scores[0], scores[1], atol=1e-5)
    assert not np.allclose(scores[0], scores[2], atol=1e-3)
    if "native" not in objective:
        assert weighted.history_["loss"] == pytest.approx(twice.history_["loss"], rel=1e-5)


@pytest.mark.parametrize("name", GOING_ON)
def test_an_older_model_is_continued_on_new_data(name, data, valid):
    older = SINGLE[name](objective="softmax_ce").fit(valid)
    settings = {} if name != "neural" else {"batch_queries": 999}
    newer = SINGLE[name](objective="softmax_ce", **settings).fit(data, init_model=older)
    start = rw.objective("softmax_ce")(older.predict(data), data.labels, data.offsets).value.mean()
    assert newer.history_["loss"][0] == pytest.approx(start, rel=1e-5)
    assert newer.history_["loss"][-1] < start


# What it can do.


@every_ranker
def test_data_sets_and_arrays_are_the_same(name):
    train, valid = lists("train").with_(feature_names=None), lists("valid").with_(feature_names=None)
    arrays = (train.features, train.labels)
    by_ids = RANKERS[name]().fit(*arrays, qid=train.qids(), valid=(valid.features, valid.labels, valid.qids()))
    assert np.array_equal(by_ids.predict(valid.features), scores_of(trained(name)))
    assert by_ids.history_ == trained(name).history_
    assert by_ids.n_features_in_ == 12
    weights = np.linspace(0.5, 2.0, train.n_queries)
    by_sizes = RANKERS[name]().fit(*arrays, group=train.sizes, sample_weight=np.repeat(weights, train.sizes))
    assert same(by_sizes, RANKERS[name]().fit(train.with_(weights=weights)), valid)
    assert not same(by_sizes, RANKERS[name]().fit(train), valid)


@every_ranker
def test_what_is_computed_from_scores_agrees_with_them(name):
    model, valid = trained(name), lists("valid")
    scores = model.predict(valid)
    assert np.array_equal(model.scorer()(valid.features), scores)
    top = model.rank(valid, cutoff=2)
    assert top.height == 2 * valid.n_queries
    assert top["score"].to_list() == [scores[row] for row in top["row"]]
    assert model.sample_rankings(valid, 3, seed=1).shape == (3, valid.n_docs)
    parts = model.explain(valid)
    assert parts.shape == (valid.n_docs, 13)
    assert np.allclose(parts.sum(axis=1), scores, atol=1e-5)
    assert same(pickle.loads(pickle.dumps(model)), model, valid)  # noqa: S301
    assert rw.compare({"model": model, "contrary": -scores}, valid).paired.unit == "query"


@every_ranker
def test_data_that_are_measured_beside_have_the_metric_of_every_round_and_change_nothing(name):
    train, valid, plain = lists("train"), lists("valid"), trained(name)
    model = RANKERS[name]().fit(train, valid, eval_sets={"train": train, "other": valid})
    assert same(model, plain, valid)
    assert model.history_["ndcg@10"] == plain.history_["ndcg@10"]
    best = (model.best_round_ or 1) - 1
    for part, data in (("train", train), ("other", valid)):
        column = model.history_[f"{part} ndcg@10"]
        assert len(column) == len(model.history_["ndcg@10"])
        if "blended" not in name:
            assert column[best] == pytest.approx(rw.evaluate(model, data).mean["ndcg@10"], abs=1e-6)
    with refusal(what="eval_sets must be a table of data sets by name", hint="pass eval_sets=…"):
        RANKERS[name]().fit(train, eval_sets={"": valid})


# Parameters, copies, files.


@every_ranker
def test_parameters_are_read_set_and_copied(name):
    ranker = RANKERS[name]()
    copied = clone(ranker)
    assert copied is not ranker
    assert repr(copied) == repr(ranker)
    inside = {"bagged": "ranker__", "blended": "ranker_1__", "distilled": "student__"}.get(name.partition("(")[0], "")
    copied.set_params(**{f"{inside}seed": 7})
    assert copied.get_params()[f"{inside}seed"] == 7
    assert ranker.get_params()[f"{inside}seed"] == 0
    assert repr(copied) != repr(ranker)
    refuses(lambda: ranker.set_params(**{f"{inside}sead": 1}), got="'sead'", hint="…'seed'")
    fresh = clone(trained(name))
    refuses(lambda: fresh.predict(lists("valid")), what="…not trained yet")


@pytest.fixture(scope="module")
def reloaded(tmp_path_factory):
    """Every trained ranker, saved, and what one other process says of all of them."""
    folder = tmp_path_factory.mktemp("saved")
    for name in (*RANKERS, *RATINGS):
        trained(name).save(folder / name)
    code = """
import pickle, sys
import numpy as np
import rankwise as rw
from tests.rankers.test_contract import RANKERS, RATINGS, scores_of

found = {}
for name in (*RANKERS, *RATINGS):
    model = rw.load(f"{sys.argv[1]}/{name}")
    found[name] = (scores_of(model), repr(model))
pickle.dump(found, open(sys.argv[1] + "/found.pickle", "wb"))
"""
    command = [sys.executable, "-W", "error", "-c", code, str(folder)]
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    return folder, pickle.loads((folder / "found.pickle").read_bytes())  # noqa: S301


@pytest.mark.parametrize("name", [*RANKERS, *RATINGS])
def test_a_saved_model_scores_the_same_in_a_new_process(name, reloaded, tmp_path):
    """Slow: every ranker is trained for all tests here, and another process imports all libraries."""
    folder, found = reloaded
    scores, text = found[name]
    model: Any = trained(name)
    loaded: Any = rw.load(folder / name)
    assert np.array_equal(scores, scores_of(model))
    assert np.ptp(scores) > 0
    assert text == repr(loaded)
    if name != "distilled":  # what is saved is the student
        assert text == repr(model)
        assert loaded.card() == model.card()
    assert (folder / name / "README.md").read_text(encoding="utf-8").startswith(model.card())
    assert getattr(loaded, "history_", None) == getattr(model, "history_", None)
    if hasattr(model, "oof_scores_"):
        assert np.array_equal(loaded.oof_scores_, model.oof_scores_)
        assert loaded.out_of_fold_.interval == model.out_of_fold_.interval
    assert not any(path.suffix in (".pkl", ".pickle") for path in (folder / name).iterdir())
    refuses(lambda: model.save(folder / name), FileExistsError, what="…exists already and is kept")
    assert np.array_equal(scores_of(rw.load(loaded.save(tmp_path / "again"))), scores)


@every_ranker
def test_training_queries_are_recognised_also_from_the_folder(name, reloaded):
    folder, _ = reloaded
    other = lists("valid").with_(features=lists("valid").features + np.float32(1.0))
    pools = "bagged" in name or "blended" in name
    model: Any
    for model in (trained(name), rw.load(folder / name)):
        assert model.seen_in_training(lists("train").take(slice(39, None, -1))).all()
        np.testing.assert_array_equal(model.seen_in_training(lists("valid")), pools)
        assert not model.seen_in_training(other).any()
        assert not model.seen_in_training(lists("train").query_ids).any()  # judgements are no clicks


@every_single
def test_the_parameters_of_a_saved_model_train_it_again(name, reloaded):
    folder, _ = reloaded
    loaded: Any = rw.load(folder / name)
    assert loaded.get_params() == trained(name).get_params()
    assert same(loaded.fit(lists("train"), lists("valid")), trained(name), lists("valid"))


# Checkpoints.


class Interrupted(Exception):
    pass


class Failing:
    """An objective that counts its rounds and fails once."""

    exact_hessian, estimator = True, False

    def __init__(self, at):
        self.inner, self._at, self.rounds = rw.objective("stochastic(xendcg, samples=2)"), at, []

    def __call__(self, scores, labels, offsets, stream=None):
        self.rounds.append(stream.round)
        if stream.round == self._at:
            self._at = None
            raise Interrupted
        return self.inner(scores, labels, offsets, stream)

    def __repr__(self):
        return "failing"


NETS = {"batch_queries": 99, "dropout": 0.3, "batch_norm": True}
SAMPLING: dict[str, list[dict[str, Any]]] = {
    "lightgbm": [
        {"bagging_fraction": 0.5, "bagging_freq": 1},
        {"feature_fraction": 0.5},
        {"extra_trees": True},
        {"linear_tree": True},
    ],
    "xgboost": [{"subsample": 0.5, "colsample_bytree": 0.7}],
    "catboost": [{"bootstrap_type": "Bernoulli", "subsample": 0.5, "rsm": 0.7, "random_strength": 1.0}],
    "neural": [{"optimizer": name, **NETS} for name in ("adam", "adamw", "adagrad", "sgd")],
}
BLOCKS = ("lightgbm", "xgboost")
"""Whose samples are those of blocks between checkpoints: a run without any draws others."""


@pytest.mark.parametrize(
    ("name", "settings"), [(name, one) for name in GOING_ON for one in ({}, *SAMPLING[name])], ids=str
)
def test_resuming_ends_in_the_same_model(name, settings, data, valid, tmp_path):
    unit = "epochs" if name == "neural" else "rounds"
    settings = {**settings, "batch_queries": 99} if name == "neural" else settings
    settings = {**settings, "checkpoint_every": 4, unit: 11, "patience": None}
    whole = SINGLE[name](objective=Failing(None), checkpoint=tmp_path / "whole", **settings).fit(data, valid)
    objective = Failing(6)
    model = SINGLE[name](objective=objective, checkpoint=tmp_path / "cut", **settings)
    with pytest.raises(Interrupted):
        model.fit(data, valid)
    kept = rw.load(tmp_path / "cut")  # a checkpoint is a model
    assert kept.score(valid) == pytest.approx(max(kept.history_["ndcg@10"]))
    objective.rounds.clear()
    model.fit(data, valid, resume=True)
    assert objective.rounds == list(range(4, 11))  # the first four were not trained again
    assert same(model, whole, valid)
    assert model.history_ == whole.history_
    assert model.best_round_ == whole.best_round_
    if name != "neural":
        assert model.model_.content() == whole.model_.content()
    drawn = settings.keys() & {"bagging_fraction", "feature_fraction", "extra_trees", "subsample", "dropout"}
    if name not in BLOCKS or not drawn:
        assert same(SINGLE[name](objective=Failing(None), **settings).fit(data, valid), whole, valid)
    if drawn:
        assert not same(SINGLE[name](objective=Failing(None), seed=1, **settings).fit(data, valid), whole, valid)
    with refusal(what="the checkpoint belongs to another training (parameters: learning_rate differs)"):
        SINGLE[name](objective=Failing(None), checkpoint=tmp_path / "cut", **settings | {"learning_rate": 0.3}).fit(
            data, valid, resume=True
        )


@pytest.mark.parametrize("name", [name for name in RANKERS if name not in SINGLE])
def test_what_is_made_of_rankers_resumes_within_a_ranker(name, tmp_path):
    train, valid = lists("train"), lists("valid")
    inner = SAMPLING["xgboost" if "xgboost" in name else "neural" if "neural" in name else "lightgbm"][0]
    inner = {} if "catboost" in name or "linear" in name else inner
    settings: dict[str, Any] = {"objective": "stochastic(softmax_ce)", "checkpoint_every": 2, "patience": 4, **inner}

    def kill(done: int, _: object) -> None:
        if done == 5:
            raise Interrupted

    with pytest.raises(Interrupted):
        RANKERS[name](checkpoint=tmp_path / "cut", **settings).fit(train, valid, callback=kill)
    if "bagged" in name:  # a checkpoint is a model
        assert rw.load(tmp_path / "cut").stopped_ == "checkpoint"
        assert np.isfinite(rw.load(tmp_path / "cut").predict(valid)).all()
    seen: list[int] = []
    resumed = RANKERS[name](checkpoint=tmp_path / "cut", **settings)
    resumed.fit(train, valid, resume=True, callback=lambda done, _: seen.append(done))
    assert seen[0] == 5  # the rounds before were not trained again
    whole = RANKERS[name](checkpoint=tmp_path / "whole", **settings).fit(train, valid)
    assert same(resumed, whole, valid)
    assert resumed.history_ == whole.history_
    with refusal(FileExistsError, hint="…resume=True…"):
        RANKERS[name](checkpoint=tmp_path / "cut", **settings).fit(train, valid)
    if hasattr(whole, "oof_scores_"):
        assert np.array_equal(resumed.oof_scores_, whole.oof_scores_)
        assert resumed.out_of_fold_.mean == whole.out_of_fold_.mean


# What is refused.


@every_ranker
def test_an_untrained_ranker_says_so(name, tmp_path):
    ranker = RANKERS[name]()
    for call in (ranker.predict, ranker.rank, ranker.explain, lambda data: ranker.save(tmp_path / "model")):
        with refusal(what="…not trained yet"):
            call(lists("valid"))


@every_ranker
def test_data_that_cannot_be_learned_from_or_scored_are_refused(name):
    train, valid = lists("train"), lists("valid")
    refuses(lambda: trained(name).predict(valid.features[:, :5]), what="the model was trained on 12 features", got="5")
    with refusal(what="the model was trained on 12 features"):
        RANKERS[name]().fit(train, valid.with_(features=valid.features[:, :5], feature_names=None))
    refuses(lambda: RANKERS[name]().fit(train, resume=True), what="resume needs a checkpoint")
    with refusal(TypeError, what="fit has no argument 'eval_data'", hint="…valid=…"):
        RANKERS[name]().fit(train, eval_data=valid)
    refuses(lambda: RANKERS[name]().fit(train, valid, eval_set=[valid]), what="validation data were passed twice")


@pytest.mark.parametrize("name", NATIVE)
def test_nothing_to_learn_is_an_error_that_says_why(name, data):
    with refusal(what="the model learned nothing from 40 queries", got="no query with documents of different labels"):
        SINGLE[name](objective="lambdarank").fit(data.with_(labels=np.ones(data.n_docs)))
    with refusal(what="the model learned nothing from 40 queries", got="features that are the same for every document"):
        SINGLE[name]().fit(data.with_(features=np.ones((data.n_docs, 12))))


@pytest.mark.parametrize(("module", "name"), [("xgboost", "xgboost"), ("catboost", "catboost"), ("torch", "neural")])
def test_a_library_that_is_not_installed_says_how_to_install_it(module, name, data, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    for part in [part for part in sys.modules if part.startswith(f"{module}.")]:
        monkeypatch.delitem(sys.modules, part)
    with pytest.raises(
        ImportError, match=rf"{module} is not installed. Install it with: pip install 'rankwise\[{module}"
    ):
        SINGLE[name]().fit(data)
