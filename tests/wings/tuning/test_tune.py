"""The search for parameters: what it tries, repeats, keeps, refuses and draws."""

import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.check.parameters import searched
from rankwise.cli.train.rankers import read_parameters
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
from rankwise.wings.tuning import plot, spaces
from rankwise.wings.tuning.result import Trial, Tuning
from rankwise.wings.tuning.tune import TrialCallback
from tests.processes import wait_until
from tests.refusals import refusal, refuses

Pair = tuple[rw.RankingDataset, rw.RankingDataset]
QUICK: dict[str, Any] = {
    "space": "none",
    "search": {"leaves": "whole(3, 15)", "learning_rate": "log(0.05, 0.5)"},
    "fixed": {"rounds": 12, "min_documents": 5},
    "threads": 1,
}


@pytest.fixture(scope="module")
def parts() -> Pair:
    train, valid = rw.split(rw.synthetic(n_queries=50, n_docs=15, seed=1), (0.7, 0.3), seed=1)
    return train, valid


@pytest.fixture(scope="module")
def tuning(parts: Pair, tmp_path_factory: pytest.TempPathFactory) -> Tuning:
    """One search for all tests that only look."""
    study = tmp_path_factory.mktemp("study") / "search.db"
    search = {**QUICK["search"], "lambdarank.sigma": "log(0.5, 2)", "lambdarank.norm": [True, False]}
    return rw.tune(*parts, trials=14, seed=1, checkpoint=study, **{**QUICK, "search": search})


def tried(tuning: Tuning) -> list[tuple[Any, ...]]:
    return [(trial.state, trial.value, trial.values) for trial in tuning.trials]


# Bags


def test_a_bag_is_judged_by_its_out_of_fold_curve(parts: Pair, tmp_path: Path):
    settings: dict[str, Any] = {**QUICK, "fixed": {"rounds": 8, "min_documents": 5, "smoothing": 3}, "folds": 3}
    tuning = rw.tune(*parts, "xendcg", trials=3, checkpoint=tmp_path / "search.db", **settings)
    bag: Any = tuning.ranker(threads=1)
    assert type(bag) is rw.bagged
    assert bag.get_params()["ranker__leaves"] == tuning.best.values["leaves"]
    bag.fit(*parts)
    assert (bag.history_["ndcg@10"][bag.best_round_ - 1], bag.best_round_) == (tuning.value, tuning.best.best_round)
    pooled = rw.tune(rw.concatenate(parts), objective="xendcg", trials=3, **settings)
    assert tried(pooled) == tried(tuning)  # the same queries, none of them called validation data
    assert "out of fold, in a bag of 3, after round" in repr(tuning)
    again = Tuning.from_dict(json.loads(json.dumps(tuning.to_dict())))
    assert (again.folds, again.value) == (3, tuning.value)
    assert '--params THIS --ranker "bagged(lightgbm, folds=3)" -o MODEL' in tuning.save(
        tmp_path / "best.toml"
    ).read_text(encoding="utf-8")
    assert read_parameters(tmp_path / "best.toml")[0] == "lightgbm"
    resumed = rw.tune(*parts, "xendcg", trials=3, checkpoint=tmp_path / "search.db", resume=True, **settings)
    assert tried(resumed) == tried(tuning)
    with pytest.raises(ValueError, match="bag"):
        rw.tune(*parts, "xendcg", trials=3, checkpoint=tmp_path / "search.db", resume=True, **{**settings, "folds": 4})


def test_what_is_no_bag_is_refused(parts: Pair):
    with refusal(what="…takes the name of one", got="bagged(…", hint="set ranker='lightgbm'…folds=5…"):
        rw.tune(*parts, ranker=rw.bagged(rw.LightGBMRanker()))  # type: ignore[arg-type]
    refuses(lambda: rw.tune(parts[0]), what="valid must be a RankingDataset", got="NoneType", hint="…or set folds=5…")
    refuses(lambda: rw.tune(*parts, folds=1), what="folds must be a whole number of at least 2")
    with refusal(what="a bag is made of rankers of trees or nets, or of one's own"):
        rw.tune(*parts, ranker="factorization", folds=2)


# What it finds


def test_the_best_trial_is_the_best(tuning: Tuning):
    complete = [trial for trial in tuning.trials if trial.state == "complete"]
    assert len(tuning.trials) == 14
    assert tuning.value == max(trial.value for trial in complete if trial.value is not None)
    assert tuning.stopped == "trials"
    for trial in tuning.trials:
        for name, one in tuning.space.items():
            assert one.holds(trial.values[name])


def test_training_with_the_best_parameters_gives_the_value(tuning: Tuning, parts: Pair):
    ranker = tuning.ranker(threads=1).fit(*parts)
    assert max(ranker.history_["ndcg@10"]) == tuning.value
    assert ranker.best_round_ == tuning.best.best_round
    values = tuning.best.values
    assert rw.objective(tuning.parameters["objective"]) == rw.objectives.LambdaRank(
        sigma=values["lambdarank.sigma"], norm=values["lambdarank.norm"]
    )
    assert tuning.parameters["leaves"] == values["leaves"]
    assert tuning.parameters["min_documents"] == 5


def test_the_first_trial_is_what_one_would_train_untuned(parts: Pair):
    found = rw.tune(*parts, "stochastic(lambdarank)", trials=1, fixed={"rounds": 2}, threads=1)
    first = found.trials[0].values
    assert (first["learning_rate"], first["leaves"], first["min_documents"]) == (0.05, 31, 20)
    assert (first["feature_fraction"], first["extra_trees"]) == (1.0, False)
    assert (first["stochastic.scale"], first["lambdarank.truncation"]) == (0.5, 30)


def test_a_seed_repeats_and_another_does_not(parts: Pair):
    one, same, other = (rw.tune(*parts, "xendcg", trials=3, seed=seed, **QUICK) for seed in (1, 1, 2))
    assert tried(one) == tried(same)
    assert tried(one)[1:] != tried(other)[1:]


def test_frame_and_text_tell_of_every_trial(tuning: Tuning):
    frame = tuning.to_frame()
    assert frame["trial"].to_list() == list(range(14))
    assert frame["ndcg@10"].to_list() == [trial.value for trial in tuning.trials]
    assert {"leaves", "learning_rate", "lambdarank.sigma", "lambdarank.norm"} <= set(frame.columns)
    text = repr(tuning)
    assert f"ndcg@10 {tuning.value:.4f} on the validation data" in text
    assert "log(0.05, 0.5)" in text
    document = json.loads(json.dumps(tuning.to_dict()))
    assert document["value"] == tuning.value
    assert len(document["trials"]) == 14


def test_weights_of_validation_queries_count(parts: Pair):
    train, valid = parts
    weights = np.random.default_rng(0).integers(0, 3, valid.n_queries).astype(float)
    found = rw.tune(train, valid.with_(weights=weights), "xendcg", trials=2, **QUICK)
    ranker = found.ranker(threads=1).fit(train, valid.with_(weights=weights))
    values = rw.metric("ndcg@10")(ranker.predict(valid), valid.labels, valid.offsets)
    scored = ~np.isnan(values) & (weights > 0)
    assert found.value == pytest.approx(np.average(values[scored], weights=weights[scored]), abs=1e-12)


def test_every_named_space_trains(parts: Pair):
    for objective in ("native:lambdarank", "plrank(samples=5)", "0.5*xendcg + 0.5*approx_ndcg"):
        assert rw.tune(*parts, objective, trials=1, fixed={"rounds": 2}, threads=1).trials[0].state == "complete"
    fixed = {"rounds": 3, "min_sum_hessian_in_leaf": 1e-3}
    paper = rw.tune(*parts, "plrank(samples=5)", space="kang2024", trials=2, fixed=fixed, threads=1)
    assert paper.parameters["patience"] == 20
    assert 1e-3 <= paper.parameters["learning_rate"] <= 1e-2
    assert 3 <= paper.parameters["max_depth"] <= 8


@pytest.mark.parametrize(
    ("ranker", "space"), [("xgboost", "default"), ("xgboost", "kang2024"), ("catboost", "default")]
)
def test_the_spaces_of_other_libraries_train(ranker: str, space: str, parts: Pair):
    pytest.importorskip(ranker)
    settings: dict[str, Any] = {"trials": 2, "fixed": {"rounds": 3}, "threads": 1}
    found = rw.tune(*parts, "plrank(metric=dcg, samples=5)", ranker=ranker, space=space, **settings)
    assert [trial.state for trial in found.trials] == ["complete"] * 2
    assert type(found.ranker()).__name__.lower() == f"{ranker}ranker"


# Spaces


def test_the_papers_ranges():
    search, fixed = spaces.named("kang2024", "xgboost", rw.objectives.PLRank())
    assert {name: one.expression() for name, one in search.items()} == {
        "learning_rate": "log(0.001, 0.01)",
        "max_depth": "whole(3, 8)",
        "min_child_weight": "whole(2, 10)",
        **dict.fromkeys(("gamma", "reg_lambda", "reg_alpha"), "log(1e-08, 1.0)"),
    }
    assert (fixed["rounds"], fixed["patience"]) == (200, 20)


def test_every_layer_of_the_papers_nets_has_its_own_size():
    search, fixed = spaces.named("kang2024", "neural", rw.objectives.PLRank())
    assert {name: one.expression() for name, one in search.items()} == {
        "hidden.layers": "whole(1, 4)",
        **{f"hidden.{layer}": "whole(4, 128)" for layer in range(1, 5)},
        "optimizer": "choice('adam', 'sgd')",
        "learning_rate": "log(0.0001, 0.1)",
        "batch_queries": "choice(64, 128, 256, 512)",
    }
    assert (fixed["preset"], fixed["epochs"], fixed["patience"]) == ("2024", 200, 20)


def test_layers_are_searched_one_by_one(parts: Pair, tmp_path: Path):
    pytest.importorskip("torch")
    settings: dict[str, Any] = {"ranker": "neural", "space": "kang2024", "threads": 1}
    study, fixed = tmp_path / "study.db", {"epochs": 1, "device": "cpu"}
    found = rw.tune(*parts, "softmax_ce", trials=12, fixed=fixed, checkpoint=study, prune=False, **settings)
    depths = set()
    for trial in found.trials:
        sizes = [trial.values[f"hidden.{layer}"] for layer in range(1, trial.values["hidden.layers"] + 1)]
        assert trial.parameters["hidden"] == "-".join(map(str, sizes))
        assert len([name for name in trial.values if name.startswith("hidden.")]) == 1 + len(sizes)
        depths |= {len(sizes)}
    assert len(depths) > 1
    assert any(len(set(trial.parameters["hidden"].split("-"))) > 1 for trial in found.trials)
    again = rw.tune(
        *parts, "softmax_ce", trials=12, fixed=fixed, checkpoint=study, resume=True, prune=False, **settings
    )
    assert [trial.parameters for trial in again.trials] == [trial.parameters for trial in found.trials]
    assert found.plot(tmp_path / "search.png").is_file()
    assert f"{found.best.values['hidden.1']}" in repr(found)
    fixed |= {"hidden": "8-4"}
    assert rw.tune(*parts, "softmax_ce", trials=1, fixed=fixed, **settings).parameters["hidden"] == "8-4"


def test_what_the_objective_says_is_kept():
    search, _ = spaces.named("default", "lightgbm", rw.objective("stochastic(lambdarank(sigma=2.0), scale=0.25)"))
    inside = {name for name in search if "." in name}
    assert inside == {"stochastic.samples", "lambdarank.truncation", "lambdarank.norm"}


NOT_SEARCHED = {
    *("listnet", "softmax_ce", "xendcg", "yeti", "pairwise", "bpr", "listmle", "margin_mse"),
    *("bounded", "on", "clickwise", "fair", "positioned", "safe"),
}
"""Objectives and wrappers that a search leaves as they are."""


def test_every_objective_has_ranges_or_is_named_as_one_that_is_not_searched():
    makers = OBJECTIVES | WRAPPERS
    hint = "declare ranges on its fields, Annotated[float, Search(…)], or name the objective in NOT_SEARCHED here"
    assert {name for name, maker in makers.items() if not searched(maker)} == NOT_SEARCHED, hint


RANKERS = {
    "lightgbm": {
        "learning_rate": "log(0.02, 0.2)",
        "leaves": "whole_log(7, 127)",
        "min_documents": "whole_log(5, 200)",
        "feature_fraction": "uniform(0.3, 1.0, start=1.0)",
        "lambda_l2": "log(0.001, 100.0, start=0.001)",
        "min_sum_hessian_in_leaf": "log(1e-05, 0.1, start=0.001)",
        "extra_trees": "choice(False, True, start=False)",
    },
    "xgboost": {
        "learning_rate": "log(0.02, 0.3)",
        "leaves": "whole_log(7, 127)",
        "min_child_weight": "log(0.001, 10.0)",
        "colsample_bynode": "uniform(0.3, 1.0, start=1.0)",
        "reg_lambda": "log(0.001, 100.0, start=1.0)",
    },
    "catboost": {
        "learning_rate": "log(0.02, 0.3)",
        "leaves": "whole_log(7, 63)",
        "l2_leaf_reg": "log(0.1, 30.0, start=3.0)",
        "random_strength": "uniform(0.0, 2.0, start=1.0)",
    },
    "neural": {
        "learning_rate": "log(0.0001, 0.03, start=0.001)",
        "hidden": "choice('64', '128-64', '256-128-64', '512-256-128', '1024-512-256', start='128-64')",
        "dropout": "uniform(0.0, 0.6, start=0.3)",
        "batch_norm": "choice('off', 'hidden', 'all', start='off')",
        "weight_decay": "log(1e-07, 0.01, start=1e-07)",
        "batch_queries": "choice(16, 32, 64, 128, start=32)",
    },
    "linear": {
        "transform": "choice('quantile+query', 'quantile', 'standard')",
        "l2": "log(0.001, 10.0, start=0.03)",
    },
    "factorization": {
        "learning_rate": "log(0.001, 0.1, start=0.01)",
        "factors": "choice(16, 32, 64, 128, start=32)",
        "weight_decay": "log(1e-07, 0.01, start=1e-07)",
        "item_bias": "choice(False, True, start=False)",
        "batch_users": "choice(16, 32, 64, 128, start=32)",
    },
}
WITHIN = {
    "lambdarank": {"sigma": "log(0.25, 4.0)", "truncation": "whole_log(5, 100)", "norm": "choice(True, False)"},
    "ranknet": {"sigma": "log(0.25, 4.0)"},
    "plrank": {"cutoff": "whole_log(5, 50)", "samples": "choice(25, 50, 100)"},
    "approx_ndcg": {"eta": "log(0.5, 20.0)"},
    "smooth_ap": {"eta": "log(0.2, 10.0)"},
    "smooth_rbp": {"eta": "log(0.2, 10.0)"},
    "calibrated": {"alpha": "uniform(0.05, 0.95)"},
    "distil": {"temperature": "log(0.25, 8.0)"},
}


@pytest.mark.parametrize("ranker", RANKERS)
@pytest.mark.parametrize("objective", WITHIN)
def test_the_default_space_and_its_order_are_those_of_older_searches(ranker: str, objective: str):
    search, fixed = spaces.named("default", ranker, rw.objective(f"stochastic({objective})"))
    expected = {f"{objective}.{name}": text for name, text in WITHIN[objective].items()}
    noise = {"stochastic.samples": "choice(2, 4, 8)", "stochastic.scale": "log(0.02, 2.0)"}
    assert {name: str(one) for name, one in search.items()} == RANKERS[ranker] | noise | expected
    assert list(search) == [*RANKERS[ranker], *noise, *expected]  # numbers are drawn in this order
    assert fixed == ({"optimizer": "adamw"} if ranker == "neural" else {})


def test_the_weight_of_a_goal_is_searched(parts: Pair):
    train, valid = (part.with_(more_labels={"purchase": (part.labels > 2).astype(float)}) for part in parts)
    settings: dict[str, Any] = {"space": "none", "fixed": {"rounds": 5, "leaves": 4}, "threads": 1, "trials": 4}
    search = {"weight.purchase": "uniform(0.1, 0.9)"}
    found = rw.tune(train, valid, "xendcg + 0.7*on(purchase, xendcg)", search=search, **settings)
    weights = [trial.values["weight.purchase"] for trial in found.trials]
    assert weights[0] == 0.7  # the first trial is what was written
    assert len(set(weights)) == 4
    for trial, weight in zip(found.trials, weights, strict=True):
        assert trial.parameters["objective"] == f"xendcg + {weight!r}*on(purchase, xendcg)"
    assert max(found.ranker(threads=1).fit(train, valid).history_["ndcg@10"]) == found.value


def test_weights_have_the_names_of_goals_or_terms():
    inner = rw.objective("stochastic(lambdarank + 0.5*xendcg)")
    assert spaces.weights(inner) == {"weight.lambdarank": 1.0, "weight.xendcg": 0.5}
    assert repr(spaces.changed(inner, {"weight.xendcg": 2.0})) == "stochastic(lambdarank + 2.0*xendcg)"
    same = rw.objective("on(purchase, xendcg) + on(purchase, ranknet) + 2.0*lambdarank")
    assert spaces.weights(same) == {"weight.1": 1.0, "weight.2": 1.0, "weight.lambdarank": 2.0}
    assert spaces.weights("native:lambdarank") == spaces.weights(None) == {}


def test_ranges_are_expressions():
    for text in ("uniform(0.5, 1.0)", "log(0.01, 0.1, start=0.05)", "whole(1, 9)", "whole_log(1, 9)", "choice(1, 'a')"):
        assert str(spaces.dimension(text)) == text
        assert str(spaces.dimension(spaces.dimension(text))) == text
    assert spaces.dimension("whole(1, 9)").holds(3)
    assert not spaces.dimension("whole(1, 9)").holds(3.5)
    assert not spaces.dimension("uniform(0, 1)").holds(True)


BAD_RANGES = [
    ("log(0, 1)", "ascending order and above 0: got 0.0, 1.0"),
    ("uniform(2, 1)", "the ends of a range must be in ascending order: got 2.0, 1.0"),
    ("whole(1, 2.5)", "the high of a range must be a whole number: got 2.5"),
    ("uniform(0, 1, start=3)", "the start of a range must lie inside it"),
    ("choice(1)", "a choice needs at least two values"),
    ("choice(1, 2, start=3)", "the start of a choice must be one of its values: got 3"),
    ("choice(1, None)", "a choice is between words, numbers or truths: got None"),
    ("lgo(1, 2)", "unknown range: got 'lgo' at character 1 of 'lgo(1, 2)'. Hint: did you mean 'log'"),
    ("7", "the expression does not describe a range: got '7'"),
]


@pytest.mark.parametrize(("text", "sentence"), BAD_RANGES, ids=[text for text, _ in BAD_RANGES])
def test_bad_ranges(text: str, sentence: str):
    with pytest.raises(ValueError) as refused:
        spaces.dimension(text)
    assert sentence in str(refused.value)


REFUSALS: list[tuple[dict[str, Any], str]] = [
    ({"space": "kang2025"}, "unknown space: got 'kang2025'. Hint: did you mean 'kang2024'"),
    ({"space": "none", "search": {}}, "there is nothing to search"),
    ({"search": {"leaves": "whole(1, 9)"}}, "leaves must be a whole number of at least 2: got 1"),
    ({"search": {"leaves": "uniform(2, 9)"}}, "leaves must be a whole number of at least 2: got 2.0"),
    ({"search": {"stop_on": ["first", "last"]}}, "unknown way to stop (stop_on): got 'last'"),
    ({"fixed": {"patience": 0}}, "patience must be a whole number of at least 1: got 0"),
    ({"search": {"weight.lambdarank": "uniform(0, 1)"}}, "lambdarank has no such parameter: got 'weight.lambdarank'"),
    ({"search": {"leafs": "whole(3, 9)"}}, "LightGBMRanker has no such parameter: got 'leafs'"),
    ({"search": {"lambdarank.sgima": "log(1, 2)"}}, "lambdarank has no such parameter: got 'lambdarank.sgima'"),
    ({"search": {"seed": "whole(1, 2)"}}, "seed is no parameter to search or fix. Hint: pass it to tune itself: seed="),
    (
        {"ranker": "neural", "search": {"hidden.2": "whole(4, 9)"}},
        "every layer of a net needs a range of sizes: got hidden.2 for hidden.layers=None",
    ),
    ({"fixed": {"metrics": "ap"}}, "Hint: pass it to tune itself: metric="),
    ({"fixed": {"lambdarank.sigma": 2}}, "Hint: write it into the objective's expression"),
    ({"trials": 0}, "trials must be a whole number of at least 1: got 0"),
    ({"minutes": 0}, "minutes must be a number in (0, inf): got 0"),
    ({"ranker": "lightgmb"}, "did you mean 'lightgbm'"),
    ({"metric": "ndgc"}, "did you mean 'ndcg'"),
    ({"fixed": {"boosting": "rf"}}, "no trial was complete: got 2 trials, the first: LightGBMRanker cannot be trained"),
    ({"fixed": {"rounds": 0}}, "rounds must be a whole number of at least 1: got 0"),
]


@pytest.mark.parametrize(("change", "sentence"), REFUSALS, ids=[str(change) for change, _ in REFUSALS])
def test_refusals(change: dict[str, Any], sentence: str, parts: Pair):
    with pytest.raises(ValueError) as refused:
        rw.tune(*parts, **{"trials": 2, **QUICK, **change})
    assert sentence in str(refused.value)


def test_data_must_be_data_sets(parts: Pair):
    refuses(lambda: rw.tune(parts[0], None), what="valid must be a RankingDataset", got="NoneType")


# Ending trials early


class Asked:
    """Stands for a trial of Optuna."""

    def __init__(self) -> None:
        self.reports: list[tuple[int, float]] = []
        self.stop = False

    def report(self, value: float, step: int) -> None:
        self.reports.append((step, value))

    def should_prune(self) -> bool:
        return self.stop


def test_trials_are_compared_at_the_same_distance():
    slow, fast = Asked(), Asked()
    trials: list[tuple[Any, float]] = [(slow, 0.05), (fast, 0.2)]
    for trial, rate in trials:
        watch = TrialCallback(trial, "ndcg", rate=rate, middle=0.1, deadline=np.inf)
        for round, value in enumerate(np.linspace(0.1, 0.5, 41), start=1):
            watch(round, {"ndcg": [float(value)]})
    assert [step for step, _ in slow.reports] == [1, 2]  # after rounds 20 and 40
    assert [step for step, _ in fast.reports] == [1, 2, 3, 4, 5, 6, 7, 8]  # after rounds 5, 10, …
    assert slow.reports[0][1] == pytest.approx(0.1 + 19 * 0.01)


def test_a_trial_ends_when_it_falls_behind_or_time_is_up():
    optuna = pytest.importorskip("optuna")
    behind: Any = Asked()
    behind.stop = True
    watch = TrialCallback(behind, "ndcg", rate=1.0, middle=0.1, deadline=np.inf)
    with pytest.raises(optuna.TrialPruned, match="behind the others after round 1"):
        watch(1, {"ndcg": [0.5]})
    late = TrialCallback(behind, "ndcg", rate=0.1, middle=0.1, deadline=time.monotonic() - 1)
    with pytest.raises(optuna.TrialPruned, match="out of time after round 1"):
        late(1, {"ndcg": [0.5]})


def test_a_trial_ends_before_a_round_that_would_be_too_late(monkeypatch):
    optuna = pytest.importorskip("optuna")
    now = iter([1.0, 2.0, 3.0])
    monkeypatch.setattr("rankwise.wings.tuning.tune.clock", lambda: next(now))
    trial: Any = Asked()
    watch = TrialCallback(trial, "ndcg", rate=0.1, middle=0.1, deadline=3.5)
    watch(1, {"ndcg": [0.5]})
    watch(2, {"ndcg": [0.5]})
    with pytest.raises(optuna.TrialPruned, match="out of time after round 3"):
        watch(3, {"ndcg": [0.5]})
    assert watch.out_of_time


def test_hopeless_trials_are_pruned_and_never_the_best(parts: Pair):
    search = {"feature_fraction": "uniform(0.02, 1.0)", "leaves": "whole(2, 15)"}
    settings = {**QUICK, "search": search, "fixed": {"rounds": 200, "min_documents": 5, "learning_rate": 0.3}}
    found = rw.tune(*parts, "xendcg", trials=12, seed=3, **settings)
    pruned = [trial for trial in found.trials if trial.state == "pruned"]
    assert pruned
    assert all(trial.reason.startswith("behind the others") for trial in pruned)
    assert found.best.state == "complete"
    unpruned = rw.tune(*parts, "xendcg", trials=12, seed=3, prune=False, **settings)
    assert all(trial.state == "complete" for trial in unpruned.trials)


def test_a_trial_that_cannot_be_trained_fails_alone(parts: Pair):
    search = {"min_documents": "choice(5, 100000)", "leaves": "whole(3, 9)"}
    found = rw.tune(*parts, "xendcg", trials=8, space="none", search=search, fixed={"rounds": 3}, threads=1)
    failed = [trial for trial in found.trials if trial.state == "failed"]
    assert failed
    assert len(found.trials) == 8
    assert all("the model learned nothing" in trial.reason for trial in failed)
    assert found.parameters["min_documents"] == 5
    assert "failed" in repr(found)


def test_minutes_end_the_search_and_cut_the_last_trial(parts: Pair):
    settings = {**QUICK, "fixed": {"rounds": 40, "patience": None}}
    found = rw.tune(*parts, "xendcg", minutes=1.0 / 60, **settings)
    assert found.stopped == "minutes"
    assert found.trials[0].state == "complete"
    late = [trial for trial in found.trials if trial.reason.startswith("out of time")]
    assert len(late) <= 1
    assert found.seconds >= 1.0 or late == [found.trials[-1]]
    assert found.parameters["patience"] is None


# Resuming


def test_a_search_that_was_interrupted_ends_as_it_would_have(parts: Pair, tmp_path: Path, tuning: Tuning):
    search = {name: str(one) for name, one in tuning.space.items()}
    settings = {**QUICK, "search": search, "seed": 1, "checkpoint": tmp_path / "search.db"}
    rw.tune(*parts, trials=4, **settings)
    begun = sqlite3.connect(tmp_path / "search.db")
    with begun:  # a process that is killed leaves a trial that seems to run
        begun.execute("insert into trials (number, study_id, state) values (4, 1, 'RUNNING')")
    begun.close()
    whole = rw.tune(*parts, trials=14, resume=True, **settings)
    assert tried(whole) == tried(tuning)
    nothing_left = rw.tune(*parts, trials=14, resume=True, **settings)
    assert tried(nothing_left) == tried(tuning)


def test_two_processes_do_not_meddle_with_each_other(parts: Pair, tmp_path: Path):
    optuna = pytest.importorskip("optuna")
    study = tmp_path / "search.db"
    rw.tune(*parts, "xendcg", trials=1, checkpoint=study, **QUICK)
    storage = optuna.storages.RDBStorage(f"sqlite:///{study}")
    trial = optuna.load_study(study_name="rankwise", storage=storage).ask()
    trial.set_user_attr("process", [socket.gethostname(), os.getppid()])
    with pytest.raises(ValueError, match=f"another process is at work on this search: got process {os.getppid()}"):
        rw.tune(*parts, "xendcg", trials=2, checkpoint=study, resume=True, **QUICK)
    trial.set_user_attr("process", ["another-machine", os.getppid()])
    assert len(rw.tune(*parts, "xendcg", trials=2, checkpoint=study, resume=True, **QUICK).trials) == 2
    storage.remove_session()
    storage.engine.dispose()


def test_ctrl_c_keeps_what_was_found(parts: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    fits, fit = [0], LightGBMRanker.fit

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        fits[0] += 1
        if fits[0] == 3:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(LightGBMRanker, "fit", interrupted)
    study = tmp_path / "search.db"
    found = rw.tune(*parts, "xendcg", trials=5, checkpoint=study, **QUICK)
    assert (found.stopped, len(found.trials)) == ("interrupted", 2)
    whole = rw.tune(*parts, "xendcg", trials=5, checkpoint=study, resume=True, **QUICK)
    monkeypatch.undo()
    assert tried(whole) == tried(rw.tune(*parts, "xendcg", trials=5, **QUICK))


def test_ctrl_c_before_anything_was_found(parts: Pair, monkeypatch: pytest.MonkeyPatch):
    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(LightGBMRanker, "fit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        rw.tune(*parts, trials=2, **QUICK)


@pytest.mark.slow
def test_a_killed_search_loses_the_running_trial_alone(parts: Pair, tmp_path: Path):
    script = tmp_path / "search.py"
    script.write_text(
        "import rankwise as rw\n"
        "train, valid = rw.split(rw.synthetic(n_queries=50, n_docs=15, seed=1), (0.7, 0.3), seed=1)\n"
        f"rw.tune(train, valid, 'xendcg', trials=500, checkpoint={str(tmp_path / 'search.db')!r}, **{QUICK!r})\n"
    )
    process = subprocess.Popen([sys.executable, str(script)])
    study = tmp_path / "search.db"
    wait_until(lambda: process.poll() is not None or (study.exists() and _complete(study) >= 3))
    assert process.poll() is None
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    before = _complete(study)
    assert before >= 3
    found = rw.tune(*parts, "xendcg", trials=before + 2, checkpoint=study, resume=True, **QUICK)
    assert tried(found) == tried(rw.tune(*parts, "xendcg", trials=before + 2, **QUICK))


def _complete(study: Path) -> int:
    base = sqlite3.connect(study)
    try:
        return int(base.execute("select count(*) from trials where state in ('COMPLETE', 'PRUNED')").fetchone()[0])
    except sqlite3.OperationalError:  # the tables are not there yet
        return 0
    finally:
        base.close()


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_a_study_is_kept_and_belongs_to_its_search(parts: Pair, tmp_path: Path):
    study = tmp_path / "search.db"
    rw.tune(*parts, "xendcg", trials=1, checkpoint=study, **QUICK)
    with refusal(FileExistsError, what="…search.db exists already and is kept", hint="resume …resume=True…"):
        rw.tune(*parts, "xendcg", trials=1, checkpoint=study, **QUICK)
    again: dict[str, Any] = {"trials": 2, "checkpoint": study, "resume": True}
    with refusal(what="the file holds another search (objective differs)", got="'listnet', and 'xendcg' in…"):
        rw.tune(*parts, "listnet", **{**again, **QUICK})
    with refusal(what="the file holds another search (train differs)"):
        rw.tune(parts[1], parts[1], "xendcg", **{**again, **QUICK})
    with refusal(what="the file holds another search (space: leaves differs)"):
        rw.tune(*parts, "xendcg", **{**again, **QUICK, "search": {"leaves": "whole(3, 16)"}})
    assert len(rw.tune(*parts, "xendcg", **{**again, **QUICK}).trials) == 2


def test_files_that_are_no_study(parts: Pair, tmp_path: Path):
    (tmp_path / "text.db").write_text("this is no database, as anybody can see, but a text\n" * 20)
    with refusal(what="cannot open the file of a search", got="file is not a database", where="…text.db"):
        rw.tune(*parts, trials=1, checkpoint=tmp_path / "text.db", resume=True, **QUICK)
    with refusal(FileNotFoundError, what="there is no folder…"):
        rw.tune(*parts, trials=1, checkpoint=tmp_path / "no" / "search.db", **QUICK)
    assert (tmp_path / "text.db").read_text().startswith("this is no database")


@pytest.mark.parametrize(
    "name",
    ["a%20b.db", "{x}.db", "s?mode=ro.db", "s#1.db", "with blanks.db", "größe.db", ":memory:", "file:x", "a'b;.db"],
)
def test_a_study_may_have_any_name(name: str, parts: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    rw.tune(*parts, trials=1, checkpoint=name, **QUICK)
    assert [entry.name for entry in tmp_path.iterdir()] == [name]
    folder = tmp_path / "{in} % another?"
    folder.mkdir()
    Path(name).rename(folder / name)
    found = rw.tune(*parts, trials=2, checkpoint=folder / name, resume=True, **QUICK)
    assert len(found.trials) == 2
    assert [entry.name for entry in folder.iterdir()] == [name]


def test_a_study_that_is_damaged_or_cannot_be_opened(parts: Pair, tmp_path: Path):
    study = tmp_path / "search.db"
    rw.tune(*parts, trials=1, checkpoint=study, **QUICK)
    whole = study.read_bytes()
    for damaged in (
        whole[:5000],
        whole[:20000] + b"\xff" * 40000 + whole[60000:],
        whole.replace(b"identity", b"identit\xff"),
    ):
        study.write_bytes(damaged)
        with refusal(what="cannot open the file of a search", where="…search.db", hint="name another…"):
            rw.tune(*parts, trials=2, checkpoint=study, resume=True, **QUICK)
        assert study.read_bytes()[:4000] == damaged[:4000]
    with pytest.raises(IsADirectoryError, match=f"{tmp_path.name} is a folder, where a file is to be written"):
        rw.tune(*parts, trials=2, checkpoint=tmp_path, resume=True, **QUICK)


def test_a_study_that_cannot_be_opened_is_closed(parts: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def noted(*words: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*words, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", noted)
    (tmp_path / "text.db").write_text("this is no database, as anybody can see, but a text\n" * 20)
    with refusal(what="cannot open the file of a search"):
        rw.tune(*parts, trials=1, checkpoint=tmp_path / "text.db", resume=True, **QUICK)
    assert made
    for one in made:
        with pytest.raises(sqlite3.ProgrammingError, match="closed"):
            one.execute("select 1")


# The file of the best parameters


@pytest.mark.parametrize("ending", [".toml", ".json"])
def test_the_file_holds_what_trains_the_best_model(tuning: Tuning, tmp_path: Path, ending: str):
    path = tuning.save(tmp_path / f"best{ending}")
    ranker, parameters = read_parameters(path)
    assert ranker == "lightgbm"
    made = rw.LightGBMRanker(**parameters)
    assert made.get_params() | {"metrics": None} == tuning.ranker().get_params() | {"metrics": None}
    assert made.metrics == ["ndcg@10"]
    document = tomllib.loads(path.read_text()) if ending == ".toml" else json.loads(path.read_text())
    assert document["tuning"]["value"] == tuning.value
    refuses(lambda: tuning.save(path), FileExistsError, what="…exists already and is kept")
    tuning.save(path, force=True)


def test_none_survives_the_file(parts: Pair, tmp_path: Path):
    found = rw.tune(*parts, "xendcg", trials=1, **{**QUICK, "fixed": {"rounds": 3, "patience": None}})
    for name in ("best.toml", "best.json"):
        assert read_parameters(found.save(tmp_path / name))[1]["patience"] is None


def test_files_that_hold_no_parameters(tuning: Tuning, tmp_path: Path):
    with refusal(what="the ending of a file is that of its format", got="'best.ini'"):
        tuning.save(tmp_path / "best.ini")
    for text, sentence in {
        "leaves = = 3": "cannot read a file of parameters",
        "[trees]\nleaves = 3": "a file of parameters is flat: got the table \\[trees\\]",
    }.items():
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(ValueError, match=sentence):
            read_parameters(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_bytes(b"leaves = 3\nobjective = '\xff'")
    with refusal(what="a file of parameters must be UTF-8 text", got="the byte 0xff", where="line 2 of …bad.toml"):
        read_parameters(tmp_path / "bad.toml")
    (tmp_path / "bad.toml").write_text("ranker = 5")
    refuses(lambda: read_parameters(tmp_path / "bad.toml"), about="line 1 of …bad.toml", what="unknown ranker", got="5")
    (tmp_path / "bad.json").write_text("[" * 100_000)
    refuses(lambda: read_parameters(tmp_path / "bad.json"), what="cannot read a file of parameters", where="…bad.json")
    (tmp_path / "bad.json").write_text("[1, 2]")
    with refusal(what="a file of parameters holds name = value pairs", got="list"):
        read_parameters(tmp_path / "bad.json")


def mine(scores: Any, labels: Any, offsets: Any, stream: Any = None) -> Any:
    return rw.objectives.ListNet()(scores, labels, offsets, stream)


def test_a_users_own_objective_has_no_text(parts: Pair, tmp_path: Path):
    found = rw.tune(*parts, mine, trials=1, **QUICK)
    assert found.parameters["objective"] == rw.objective(mine)
    with refusal(what="an objective without an expression cannot be written to a file"):
        found.save(tmp_path / "best.toml")


# The picture


def synthetic(values: list[float], leaves: list[int]) -> Tuning:
    trials = tuple(
        Trial(number=i, state="complete", value=v, values={"leaves": n}, parameters={}, best_round=1, seconds=1.0)
        for i, (v, n) in enumerate(zip(values, leaves, strict=True))
    )
    space = {"leaves": spaces.dimension("whole(1, 9)")}
    return Tuning(
        ranker_name="lightgbm", metric="ap", space=space, trials=trials, seed=0, stopped="trials", checkpoint=None
    )


def test_a_parameters_share_in_the_spread():
    leaves = [1, 2, 3, 4, 5, 6, 7, 8]
    assert plot.share(synthetic([0.1, 0.1, 0.2, 0.2, 0.3, 0.3, 0.4, 0.4], leaves), "leaves") == pytest.approx(1.0)
    assert plot.share(synthetic([0.1, 0.2, 0.1, 0.2, 0.1, 0.2, 0.1, 0.2], leaves), "leaves") == 0.0
    # Within quarters 8·0.05², between them 8·0.1²: 1 − (0.02 / (8 − 4)) / (0.1 / (8 − 1)).
    values = [0.0, 0.1, 0.0, 0.1, 0.2, 0.3, 0.2, 0.3]
    assert plot.share(synthetic(values, leaves), "leaves") == pytest.approx(1 - (0.02 / 4) / (0.1 / 7))
    assert plot.share(synthetic([0.1, 0.1, 0.1, 0.1, 0.1, 0.1], leaves[:6]), "leaves") == 0.0
    assert plot.share(synthetic([0.1, 0.3], [1, 2]), "leaves") == 0.0  # chance alone explains as much
    random = np.random.default_rng(0)
    shares = [plot.share(synthetic(random.random(20).tolist(), list(range(20))), "leaves") for _ in range(200)]
    assert np.mean(shares) < 0.1


def test_draws_the_search(tuning: Tuning, tmp_path: Path):
    assert len(tuning.plot(tmp_path / "search.png").read_bytes()) > 10_000
    synthetic([0.5], [3]).plot(tmp_path / "one.png")


def test_factorization_is_searched_over_lists_of_interactions():
    train, valid = next(rw.recommend.synthetic_ratings(n_users=30, n_items=60, n_ratings=30, seed=1).folds(5, seed=0))
    lists, held_out = train.dataset(negatives=2), valid.dataset(negatives=2)
    settings: dict[str, Any] = {
        "ranker": "factorization",
        "trials": 2,
        "progress": False,
        "threads": 1,
        "fixed": {"epochs": 2},
    }
    found = rw.tune(lists, held_out, "softmax_ce", **settings)
    assert found.parameters["epochs"] == 2
    assert {trial.state for trial in found.trials} <= {"complete", "pruned"}
    with refusal(got="Interactions", hint="make lists of interactions with .dataset(negatives=…)"):
        rw.tune(train, held_out, "softmax_ce", **settings)  # type: ignore[arg-type]


def test_a_search_learns_the_labels_that_its_metric_measures(parts: Pair):
    train, valid = (part.with_(more_labels={"buy": part.features[:, 1] > 0.5}) for part in parts)
    few: dict[str, Any] = {"search": {"leaves": "whole(3, 7)"}, "space": "none", "trials": 1, "fixed": {"rounds": 5}}
    default, named = (
        rw.tune(train, valid, objective, metric="ndcg(label=buy)@10", threads=1, progress=False, **few)
        for objective in (None, "lambdarank")
    )
    assert default.parameters["objective"] == "on(buy, lambdarank)"
    assert named.parameters["objective"] == "lambdarank"
    assert default.value > named.value


@pytest.mark.parametrize("space", ["default", "kang2024"])
def test_every_value_of_a_space_is_one_that_nets_take(space):
    search, fixed = spaces.named(space, "neural", "")
    for name, one in search.items():
        values = one.values if isinstance(one, spaces.Choice) else (one.low, one.high)
        for value in values:
            layers = dict.fromkeys(spaces.layers_of(search), 4) | {name: value}
            assert rw.NeuralRanker(**{**fixed, **spaces.assembled(layers)}).settings
