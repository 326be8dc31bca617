"""What every library of trees must keep to: objectives learn, weights count, models continue, failures speak."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.rankers.table import ranker_class
from tests.objectives.pairwise.pairs_by_hand import frozen

SMALL = {"leaves": 8, "min_documents": 5, "threads": 1, "rounds": 10, "learning_rate": 0.1}
NATIVE = {"lightgbm": "lambdarank", "xgboost": "rank:ndcg", "catboost": "QueryRMSE"}
SAMPLING: dict[str, dict[str, Any]] = {
    "lightgbm": {"bagging_fraction": 0.5, "bagging_freq": 1},
    "xgboost": {"subsample": 0.5, "colsample_bytree": 0.7},
    "catboost": {"bootstrap_type": "Bernoulli", "subsample": 0.5, "rsm": 0.7, "random_strength": 1.0},
}


@pytest.fixture(params=NATIVE)
def library(request):
    return request.param


def ranker(library, objective="xendcg", **changes):
    return ranker_class(library)(objective, **SMALL | changes)


def same(one, other, data):
    return np.array_equal(one.predict(data), other.predict(data))


WRAPPED = [f"{name}(approx_ndcg)" for name in WRAPPERS]
EVERY_OBJECTIVE = [*OBJECTIVES, *WRAPPED, "0.7*xendcg + 0.3*approx_ndcg"]


def losses(text, data, scores):
    """The mean loss of equal scores, and of these."""
    objective, start = rw.objective(text), np.zeros(data.n_docs)
    if isinstance(
        objective, rw.LambdaRank
    ):  # its value holds the pairs' weights fixed: it compares only under the same weights
        held = frozen(objective, start, data.labels, data.offsets)
        return [held(at).mean() for at in (start, scores)]
    columns = {name: getattr(data, name) for name in objective.reads}
    streams = [data.stream(1000 + k) for k in range(8)]  # the expected loss: over draws none of which training saw
    return [
        np.mean([objective(at, data.labels, data.offsets, stream, **columns).value.mean() for stream in streams])
        for at in (start, scores)
    ]


@pytest.mark.parametrize("library", ["xgboost", "catboost"])  # LightGBM's own tests have it
@pytest.mark.parametrize("text", EVERY_OBJECTIVE)
def test_every_objective_and_wrapper_lowers_its_loss(library, text, data):
    # Most objectives do not look at these columns.
    data = data.with_(groups=np.arange(data.n_docs) % 3, teacher_scores=3.0 * data.labels)
    model = ranker(library, text, rounds=8).fit(data)
    before, after = losses(text, data, model.predict(data))
    assert after < before
    assert len(model.history_["loss"]) == 8
    assert rw.evaluate(model, data).mean["ndcg@10"] > rw.evaluate(np.zeros(data.n_docs), data).mean["ndcg@10"] + 0.05


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
            assert np.array_equal(model.model_.cut(rounds).predict(data.features), scores)
    expected = rw.evaluate(model, valid).mean["ndcg@10"]
    assert model.history_["ndcg@10"][model.best_round_ - 1] == pytest.approx(expected, abs=1e-12)


def test_early_stopping_keeps_the_best_round_of_any_metric(library, data, valid):
    settings = {"rounds": 80, "patience": 5, "metrics": ("ap", "ndcg@5"), "learning_rate": 0.4}
    model = ranker(library, "lambdarank", **settings).fit(data, valid)
    assert model.stopped_ == "patience"
    column = model.history_["ap"]
    assert model.best_round_ == np.argmax(column) + 1 == len(column) - 5
    assert model.model_.n_trees == model.best_round_
    assert model.score(valid) == pytest.approx(max(column))


@pytest.mark.parametrize("native", [False, True])
def test_a_weight_of_2_equals_the_query_twice(library, native):
    objective = f"native:{NATIVE[library]}" if native else "lambdarank"
    rng = np.random.default_rng(1)
    features = rng.integers(0, 6, (120, 4)).astype(float)  # few values: bins do not depend on how often rows occur
    lists = rw.RankingDataset.from_sizes(features, rng.integers(0, 3, 120), [10] * 12)
    again = rw.concatenate([lists.with_(query_ids=np.arange(12)), lists.take([3]).with_(query_ids=[99])])
    exact: dict[str, dict[str, Any]] = {
        "lightgbm": {"min_data_in_bin": 1, "min_sum_hessian_in_leaf": 0.0},
        "xgboost": {"reg_lambda": 0.0, "min_child_weight": 1e-6},  # ours are relative to the average document
        "catboost": {"l2_leaf_reg": 0.0, "bootstrap_type": "No", "random_strength": 0.0},
    }
    settings = exact[library] | {"min_documents": 1, "leaves": 4}
    weighted = ranker(library, objective, **settings).fit(lists.with_(weights=np.where(np.arange(12) == 3, 2.0, 1.0)))
    twice, once = ranker(library, objective, **settings).fit(again), ranker(library, objective, **settings).fit(lists)
    assert np.allclose(weighted.predict(lists), twice.predict(lists), atol=2e-6)
    assert not np.allclose(weighted.predict(lists), once.predict(lists), atol=1e-3)
    if not native:
        assert weighted.history_["loss"] == pytest.approx(twice.history_["loss"])


def test_a_saved_model_scores_the_same_in_a_new_process(library, data, tmp_path):
    holes = data.with_(features=np.where(data.features > 1.5, np.nan, data.features))
    model = ranker(library, "stochastic(lambdarank, samples=2)").fit(holes)
    model.save(tmp_path / "model")
    np.savez(tmp_path / "data.npz", features=holes.features)
    code = (
        "import sys, numpy as np, rankwise as rw\n"
        "folder = sys.argv[1]\n"
        "features = np.load(folder + '/data.npz')['features']\n"
        "np.save(folder + '/scores.npy', rw.load(folder + '/model').predict(features))\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)
    assert np.array_equal(np.load(tmp_path / "scores.npy"), model.predict(holes))
    assert np.ptp(model.predict(holes)) > 0


def test_files_that_are_no_models_are_refused(library, data):
    model = ranker(library, rounds=3).fit(data)
    content = model.model_.content()
    for damaged in (b"", b"{", b"hello", content[: len(content) // 2]):
        with pytest.raises(ValueError, match="cannot read as an? .* model"):
            model.library.forest(damaged)


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


@pytest.mark.parametrize("sampled", [False, True])
def test_resuming_ends_in_the_same_model(library, sampled, data, valid, tmp_path):
    settings: dict[str, Any] = {"checkpoint_every": 4, "rounds": 11, "patience": None} | (
        SAMPLING[library] if sampled else {}
    )
    whole = ranker(library, Failing(None), checkpoint=tmp_path / "whole", **settings).fit(data, valid)
    objective = Failing(6)
    model = ranker(library, objective, checkpoint=tmp_path / "cut", **settings)
    with pytest.raises(Interrupted):
        model.fit(data, valid)
    objective.rounds.clear()
    model.fit(data, valid, resume=True)
    assert objective.rounds == list(range(4, 11))  # the first four were not trained again
    assert same(model, whole, valid)
    assert model.model_.content() == whole.model_.content()
    assert model.history_ == whole.history_
    if not sampled or library == "catboost":  # whose every round has a seed of its own
        never_cut = ranker(library, Failing(None), **settings).fit(data, valid)
        assert same(never_cut, whole, valid)
    if sampled:
        still = ranker(library, Failing(None), **settings | {"seed": 1}).fit(data, valid)
        assert not same(still, whole, valid)


def test_data_that_are_measured_beside_have_the_metric_of_every_round_and_change_nothing(
    library, data, valid, tmp_path
):
    settings: dict[str, Any] = {"rounds": 7, "patience": None, "metrics": ("ndcg@5",), "checkpoint_every": 3}
    plain = ranker(library, **settings).fit(data, valid)
    folder = tmp_path / "checkpoint"
    model = ranker(library, **settings, checkpoint=folder).fit(data, valid, measure={"train": data, "other": valid})
    assert same(model, plain, valid)
    assert model.history_["ndcg@5"] == plain.history_["ndcg@5"] == model.history_["other ndcg@5"]
    for done in range(1, model.best_round_ + 1):
        scores = model.model_.cut(done).predict(data.features)
        expected = rw.evaluate(scores, data, "ndcg@5").mean["ndcg@5"]
        assert model.history_["train ndcg@5"][done - 1] == pytest.approx(expected, abs=1e-12)
    resumed = ranker(library, **settings, checkpoint=folder)
    with pytest.raises(ValueError, match=r"another training \(data: measure train differs\)"):
        resumed.fit(data, valid, measure={"train": valid, "other": valid}, resume=True)
    resumed.fit(data, valid, measure={"train": data, "other": valid}, resume=True)
    assert resumed.history_ == model.history_
    with pytest.raises(ValueError, match=r"measure must be a table of data sets by name: got ''. Hint: pass measure="):
        ranker(library, rounds=2).fit(data, measure={"": valid})
    with pytest.raises(ValueError, match="features"):
        ranker(library, rounds=2).fit(data, measure={"other": valid.with_(features=valid.features[:, :3])})


def test_an_older_model_is_continued_on_new_data(library, data, valid):
    older = ranker(library, "lambdarank", rounds=5).fit(valid)
    newer = ranker(library, "lambdarank", rounds=3).fit(data, init_model=older)
    assert newer.model_.n_trees == 8
    assert same(newer.model_.cut(5), older.model_, data.features)
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


def test_nothing_to_learn_is_an_error_that_says_why(library, data):
    with pytest.raises(ValueError, match="learned nothing.*no query with documents of different labels"):
        ranker(library, "lambdarank").fit(data.with_(labels=np.ones(data.n_docs)))
    with pytest.raises(ValueError, match="learned nothing.*features that are the same for every document"):
        ranker(library).fit(data.with_(features=np.ones((data.n_docs, 12))))


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


@pytest.mark.parametrize("missing", ["xgboost", "catboost"])
def test_a_library_that_is_not_installed_says_how_to_install_it(missing):
    code = (
        f"import sys; sys.modules[{missing!r}] = None\n"
        "import rankwise as rw\n"
        "from rankwise.rankers.table import ranker_class\n"
        f"ranker_class({missing!r})('xendcg', rounds=1).fit(rw.synthetic(n_queries=5, n_docs=9, seed=1))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"Error: {missing} is not installed. Install it with: pip install 'rankwise[{missing}]'" in done.stderr


def test_the_native_file_opens_in_the_library(library, data, tmp_path):
    model = ranker(library).fit(data)
    path = str(Path(model.save(tmp_path / "model")) / model.library.file)
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
    "catboost": {"target_border": (1.5, "rw.binarize")},
}


@pytest.mark.parametrize(("library", "name"), [(library, name) for library in LOSSES for name in LOSSES[library]])
def test_parameters_of_the_librarys_own_losses_reach_them_and_are_refused_elsewhere(library, name, data):
    value, ours = LOSSES[library][name]
    for objective in ("lambdarank", "stochastic(lambdarank)", rw.XENDCG()):
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
    with pytest.raises(
        ValueError, match="'sigmoid' .*got the objective native:rank_xendcg.*or train native:lambdarank"
    ):
        ranker("lightgbm", "native:rank_xendcg", sigmoid=2.0)
    with pytest.raises(ValueError, match="'ndcg_exp_gain' .*got the objective native:rank:pairwise"):
        ranker("xgboost", "native:rank:pairwise", ndcg_exp_gain=False)
    with pytest.raises(ValueError, match="'tweedie_variance_power' .*Hint: leave it out.$"):
        ranker("lightgbm", "native:lambdarank", tweedie_variance_power=1.1)
    with pytest.raises(
        ValueError, match="CatBoost's YetiRank has no such parameter: got 'mod'. Hint: did you mean 'mode'"
    ):
        ranker("catboost", "native:YetiRank:mod=NDCG").fit(data)
    with pytest.raises(ValueError, match="position_bias_regularization needs displayed positions"):
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
