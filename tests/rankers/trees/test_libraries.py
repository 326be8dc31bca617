"""What every library of trees must keep to, beside what every ranker must: scores, files, categories, parameters."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from tests.rankers.test_contract import NATIVE, Failing, Interrupted, same
from tests.refusals import refusal

SMALL = {"leaves": 8, "min_documents": 5, "threads": 1, "rounds": 10, "learning_rate": 0.1}


@pytest.fixture(params=NATIVE)
def library(request):
    return request.param


def ranker(library, objective="xendcg", **changes):
    return ranker_class(library)(objective, **SMALL | changes)


def test_the_scores_an_objective_sees_are_those_of_the_model(library, data, valid):
    """Every library keeps scores up to date in its own way; they must be what the finished trees give."""
    seen = []

    def watched(scores, labels, offsets, stream=None):
        seen.append(scores.copy())
        return rw.objective("lambdarank")(scores, labels, offsets)

    model = ranker(library, watched, rounds=6, patience=None, learning_rate=0.3).fit(data, valid)
    assert not seen[0].any()
    for rounds, scores in enumerate(seen[: model.best_round_]):
        if rounds:
            assert np.array_equal(model.model_.cut(rounds).scores(data.features), scores)
    expected = rw.evaluate(model, valid).mean["ndcg@10"]
    assert model.history_["ndcg@10"][model.best_round_ - 1] == pytest.approx(expected, abs=1e-12)


def test_files_that_are_no_models_are_refused(library, data):
    model = ranker(library, rounds=3).fit(data)
    content = model.model_.content()
    for damaged in (b"", b"{", b"hello", content[: len(content) // 2]):
        with pytest.raises(ValueError, match="cannot read as an? .* model"):
            model.library.forest.read(damaged, model.model_.schema)


def test_contributions_add_up_and_importances_find_the_features(library, data):
    model = ranker(library).fit(data)
    parts = model.explain(data)
    assert parts.shape == (data.n_docs, 13)
    assert np.allclose(parts.sum(axis=1), model.predict(data), atol=1e-5)
    assert np.allclose(parts[:, -1], parts[0, -1])
    assert model.feature_importances_.sum() == pytest.approx(1.0)
    used = np.abs(parts[:, :-1]).max(axis=0) > 0
    for kind in ("gain", "split"):
        assert model.importances(kind).shape == (12,)
        assert np.array_equal(model.importances(kind) > 0, used)


def test_data_that_are_measured_beside_have_the_metric_of_every_round_and_change_nothing(
    library, data, valid, tmp_path
):
    settings: dict[str, Any] = {"rounds": 7, "patience": None, "metrics": ("ndcg@5",), "checkpoint_every": 3}
    plain = ranker(library, **settings).fit(data, valid)
    folder = tmp_path / "checkpoint"
    model = ranker(library, **settings, checkpoint=folder).fit(data, valid, eval_sets={"train": data, "other": valid})
    assert same(model, plain, valid)
    assert model.history_["ndcg@5"] == plain.history_["ndcg@5"] == model.history_["other ndcg@5"]
    for done in range(1, model.best_round_ + 1):
        scores = model.model_.cut(done).scores(data.features)
        expected = rw.evaluate(scores, data, "ndcg@5").mean["ndcg@5"]
        assert model.history_["train ndcg@5"][done - 1] == pytest.approx(expected, abs=1e-12)
    resumed = ranker(library, **settings, checkpoint=folder)
    with refusal(what="the checkpoint belongs to another training (data: measure train differs)"):
        resumed.fit(data, valid, eval_sets={"train": valid, "other": valid}, resume=True)
    resumed.fit(data, valid, eval_sets={"train": data, "other": valid}, resume=True)
    assert resumed.history_ == model.history_
    with refusal(what="eval_sets must be a table of data sets by name", hint="pass eval_sets=…"):
        ranker(library, rounds=2).fit(data, eval_sets={"": valid})
    with refusal(what="feature names must be as many as there are features, and all different"):
        ranker(library, rounds=2).fit(data, eval_sets={"other": valid.with_(features=valid.features[:, :3])})


def test_an_older_model_is_continued_on_new_data(library, data, valid):
    older = ranker(library, "lambdarank", rounds=5).fit(valid)
    newer = ranker(library, "lambdarank", rounds=3).fit(data, init_model=older)
    assert newer.model_.n_trees == 8
    assert np.array_equal(newer.model_.cut(5).scores(data.features), older.model_.scores(data.features))
    start = rw.objective("lambdarank")(older.predict(data), data.labels, data.offsets).value.mean()
    assert newer.history_["loss"][0] == pytest.approx(start, rel=1e-6)


def test_native_objectives_learn_in_the_same_harness(library, data, valid):
    kind: Any = ranker_class(library)
    for builtin in kind.library.builtins:
        lists = data
        if builtin == "rank:map":  # it takes two grades
            lists = data.with_(labels=np.minimum(data.labels, 1))
        settings = {"rounds": 5, "learning_rate": 0.3}
        model = ranker(library, f"native:{builtin}", **settings).fit(lists, valid)
        assert rw.evaluate(model, lists).mean["ndcg@10"] > rw.evaluate(np.zeros(data.n_docs), lists).mean["ndcg@10"]
        assert "loss" not in model.history_
        assert same(ranker(library, f"native:{builtin}", **settings).fit(lists, valid), model, valid)


def test_a_function_that_gives_no_value_trains_as_one_that_does(library, data, valid):
    def silent(scores, labels, offsets):
        return scores - labels, np.ones_like(scores)

    def telling(scores, labels, offsets):
        return np.zeros(len(offsets) - 1), *silent(scores, labels, offsets)

    one, other = (ranker(library, function, rounds=3).fit(data, valid) for function in (silent, telling))
    np.testing.assert_array_equal(one.predict(valid), other.predict(valid))
    assert "loss" not in one.history_
    assert other.history_["loss"] == [0.0, 0.0, 0.0]


def test_an_objective_that_fails_leaves_the_trees_as_they_were(library, data):
    with pytest.raises(Interrupted):
        ranker(library, Failing(2)).fit(data)


def test_categories_are_split_as_categories(library):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, 10, 400)
    labels = np.isin(codes, [1, 4, 5, 8]).astype(float)
    column = np.where(rng.random(400) < 0.02, np.nan, codes)  # some are missing
    lists = rw.RankingDataset.from_sizes(column[:, None], labels, [20] * 20, categorical=[0])
    native = {"lightgbm": {"min_data_per_group": 1, "cat_smooth": 1}, "xgboost": {}, "catboost": {}}[library]
    settings = native | {"leaves": 2, "rounds": 1, "min_documents": 1}
    model = ranker(library, "lambdarank", **settings).fit(lists)
    scores = model.predict(lists)
    known = ~np.isnan(column)
    assert scores[known & (labels == 1)].min() > scores[known & (labels == 0)].max()  # no threshold can do this
    assert np.isfinite(model.predict([[77.0], [np.nan]])).all()  # one never seen, one missing
    parts = model.explain(lists)
    assert np.allclose(parts.sum(axis=1), scores, atol=1e-5)
    assert (model.importances("split") > 0).all()


def test_unknown_parameters_are_errors_with_a_suggestion(library):
    known = {"lightgbm": "lambda_l2", "xgboost": "colsample_bytree", "catboost": "l2_leaf_reg"}[library]
    with pytest.raises(ValueError, match=f"no such parameter: got '{known}x'. Hint: did you mean '{known}'"):
        ranker(library, **{known + "x": 1})
    theirs = {"lightgbm": "num_leaves", "xgboost": "max_leaves", "catboost": "num_leaves"}[library]
    with pytest.raises(ValueError, match=f"'{theirs}' of {library} has another name here. Hint: set leaves"):
        ranker(library, **{theirs: 5})
    for theirs, ours in {"n_estimators": "rounds", "random_state": "seed"}.items():
        with pytest.raises(ValueError, match=f"'{theirs}' of {library} has another name here. Hint: set {ours}"):
            ranker(library, **{theirs: 5})
    with pytest.raises(ValueError, match=f"unknown objective of {library} itself"):
        ranker(library, "native:nothing").fit(rw.synthetic(n_queries=5, n_docs=5, seed=1))


def test_the_native_file_opens_in_the_library(library, data, tmp_path):
    model = ranker(library).fit(data)
    path = str(Path(model.save(tmp_path / "model")) / model.library.forest.file)
    if library == "lightgbm":
        import lightgbm

        scores = lightgbm.Booster(model_file=path).predict(data.features)
    elif library == "xgboost":
        import xgboost

        scores = xgboost.Booster(model_file=path).predict(
            xgboost.DMatrix(data.features, feature_names=list(data.feature_names))
        )
    else:
        import catboost

        scores = catboost.CatBoost().load_model(path).predict(data.features)
    assert np.array_equal(scores, model.predict(data))


# Parameters of the libraries' own losses, with a value that is not the default one -> what says it to ours.
LOSSES: dict[str, dict[str, tuple[Any, str]]] = {
    "lightgbm": {
        "lambdarank_truncation_level": (3, "set it on the objective, lambdarank(truncation=3)"),
        "lambdarank_norm": (False, "set it on the objective, lambdarank(norm=False)"),
        "sigmoid": (2.0, "set it on the objective, lambdarank(sigma=2.0)"),
        "label_gain": ([0, 1, 2, 3, 4], "set it on the objective, lambdarank(gain=(0, 1, 2, 3, 4))"),
        "lambdarank_position_bias_regularization": (0.5, "set it on the ranker, debias=True"),
    },
    "xgboost": {
        "lambdarank_num_pair_per_sample": (3, "set it on the objective, lambdarank(truncation=3)"),
        "lambdarank_pair_method": ("mean", "lambdarank(truncation=…), or truncation=None for all pairs"),
        "lambdarank_normalization": (False, "set it on the objective, lambdarank(norm=False)"),
        "lambdarank_score_normalization": (False, "set it on the objective, lambdarank(norm=False)"),
        "lambdarank_unbiased": (True, "set it on the ranker, debias=True"),
        "ndcg_exp_gain": (False, "lambdarank(gain='exponential') or gain='linear'"),
    },
    "catboost": {"target_border": (1.5, "rw.data.binarize")},
}


@pytest.mark.parametrize(("library", "name"), [(library, name) for library in LOSSES for name in LOSSES[library]])
def test_parameters_of_the_librarys_own_losses_reach_them_and_are_refused_elsewhere(library, name, data):
    value, ours = LOSSES[library][name]
    for objective in ("lambdarank", "stochastic(lambdarank)", rw.objectives.XENDCG()):
        with pytest.raises(
            ValueError, match=re.escape(f"'{name}' belongs to other objectives of {library}")
        ) as refused:
            ranker(library, objective, **{name: value})
        assert ours in str(refused.value)
        assert f"train native:{NATIVE[library] if library != 'catboost' else 'YetiRank'}" in str(refused.value)
    shown = data.with_(positions=np.concatenate([np.arange(size, 0, -1) for size in data.sizes]))
    plain = ranker(library, f"native:{NATIVE[library]}").fit(shown)
    model = ranker(library, f"native:{NATIVE[library]}", **{name: value}).fit(shown)
    assert not same(model, plain, data)
    with pytest.raises(ValueError, match=f"'{name}' belongs to other objectives"):
        model.set_params(objective="lambdarank").fit(shown)


def test_a_parameter_of_another_native_objective_is_refused(data):
    with refusal(what="'sigmoid'…", got="the objective native:rank_xendcg", hint="…or train native:lambdarank"):
        ranker("lightgbm", "native:rank_xendcg", sigmoid=2.0)
    with refusal(what="'ndcg_exp_gain'…", got="the objective native:rank:pairwise"):
        ranker("xgboost", "native:rank:pairwise", ndcg_exp_gain=False)
    with refusal(what="'tweedie_variance_power'…", hint="leave it out"):
        ranker("lightgbm", "native:lambdarank", tweedie_variance_power=1.1)
    with refusal(what="CatBoost's YetiRank has no such parameter", got="'mod'", hint="did you mean 'mode'"):
        ranker("catboost", "native:YetiRank:mod=NDCG").fit(data)
    with refusal(what="lambdarank_position_bias_regularization needs displayed positions"):
        ranker("lightgbm", "native:lambdarank", lambdarank_position_bias_regularization=0.5).fit(data)
    plain, steep = (ranker("catboost", f"native:LambdaMart{more}").fit(data) for more in ("", ":sigma=3"))
    assert not same(plain, steep, data)


@pytest.mark.parametrize("alias", ["eval_at", "ndcg_at", "map_eval_at"])
def test_what_is_measured_is_said_to_the_ranker(alias):
    for objective in ("lambdarank", "native:lambdarank"):
        with pytest.raises(ValueError, match=f"'{alias}' of lightgbm has another name here. Hint: set metrics"):
            ranker("lightgbm", objective, **{alias: [3]})


def test_parameters_of_lightgbms_program_are_refused():
    for name in ("task", "model_input", "num_machine", "predict_raw_score"):
        with pytest.raises(ValueError, match=f"'{name}' of lightgbm has no effect here. Hint: leave it out"):
            ranker("lightgbm", **{name: "1"})


def noisy(n_queries):
    """Return one feature, and data of it and of labels that go with it."""
    values, noise = np.random.default_rng(0).normal(size=(2, 30 * n_queries, 1))
    return values**3, rw.RankingDataset.from_sizes(values**3, (values + noise)[:, 0] > 1.0, [30] * n_queries)


def test_the_seed_reaches_the_sample_of_documents_that_bins_are_made_from(library):
    """Both draw 200,000 documents by default; XGBoost's bins are those of all, and nothing else is drawn here."""
    values, many = noisy(7_000)
    seeds = (0, 1) if library == "xgboost" else (0, 1, 1)
    first, *others = (
        ranker(library, "lambdarank", rounds=1, leaves=64, seed=seed).fit(many).predict(values) for seed in seeds
    )
    assert np.array_equal(first, others[0]) == (library == "xgboost")
    assert np.array_equal(others[0], others[-1])
    few = many.take(slice(0, 300))
    one, other = (ranker(library, "lambdarank", rounds=2, seed=seed).fit(few) for seed in (0, 1))
    assert same(one, other, few)


def test_a_sample_for_bins_that_is_named_is_kept_whatever_the_seed():
    """So papers' recipes name theirs: seed 0 gave 38."""
    values, data = noisy(100)
    settings: Any = {"rounds": 1, "leaves": 64, "bin_construct_sample_cnt": 500}
    zero, one, named = (
        ranker("lightgbm", "lambdarank", **settings, **more).fit(data).predict(values)
        for more in ({}, {"seed": 1}, {"seed": 1, "data_random_seed": 38})
    )
    assert not np.array_equal(zero, one)
    assert np.array_equal(zero, named)
