"""Custom metrics, functions and subclasses, wherever a metric is accepted."""

import functools
import itertools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest
import xgboost as xgb

import rankwise as rw
from rankwise.rankers.table import ranker_class
from tests.refusals import refusal, refuses


def top_label(scores: Any, labels: Any, offsets: Any) -> Any:
    """The label of the first document; queries without relevant documents are skipped."""
    lists = [slice(start, end) for start, end in itertools.pairwise(offsets)]
    return np.array([labels[q][np.argmax(scores[q])] if labels[q].any() else np.nan for q in lists])


def worst(scores: Any, labels: Any, offsets: Any) -> Any:
    return -rw.metric("dcg@3")(scores, labels, offsets)


@dataclass(frozen=True)
class Found(rw.Metric):
    name = "found"
    depth: int = 1

    def values(self, scores: Any, labels: Any, offsets: Any) -> Any:
        lists = [slice(start, end) for start, end in itertools.pairwise(offsets)]
        return [float(labels[q][np.argsort(-scores[q])[: self.depth]].any()) for q in lists]


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, ...]:
    return rw.split(rw.synthetic(n_queries=40, n_docs=12, n_features=6, seed=2), (0.7, 0.3), seed=1)


def test_evaluate_and_compare_take_functions_and_subclasses(parts):
    data = parts[0]
    first, second = data.features[:, 0], data.features[:, 1]
    found = rw.evaluate(first, data, [top_label, Found(depth=3), "ndcg@10"])
    assert found.metrics == ("top_label", "found(depth=3)", "ndcg@10")
    np.testing.assert_array_equal(found["top_label"], top_label(first, data.labels, data.offsets))
    np.testing.assert_array_equal(found[top_label], found["top_label"])
    np.testing.assert_array_equal(found[Found(depth=3)], found["found(depth=3)"])
    assert found.scored["top_label"] == int((~np.isnan(found["top_label"])).sum())
    compared = rw.compare({"a": first, "b": second}, data, top_label)
    assert compared.pairs[0].metric == "top_label"
    again = rw.compare({"a": found, "b": rw.evaluate(second, data, top_label)}, metrics=top_label)
    assert again.pairs[0].difference == compared.pairs[0].difference
    drawn = rw.evaluate(first, data, top_label, policy="plackett_luce", samples=4)
    assert np.isfinite(drawn.mean["top_label"])


def test_the_attribute_name_overrides_the_name_of_the_function(parts):
    def f(scores: Any, labels: Any, offsets: Any) -> Any:
        return top_label(scores, labels, offsets)

    f.name = "best document"  # type: ignore[attr-defined]
    assert str(rw.metric(f)) == "best document"
    partial: Any = functools.partial(top_label)
    with refusal(what="a metric needs a name", hint="define it with def, or give it an attribute name"):
        rw.metric(partial)
    partial.name = "bound"
    assert rw.evaluate(parts[0].features[:, 0], parts[0], partial).metrics == ("bound",)


def test_metrics_are_identified_by_name(parts):
    def ndcg(scores: Any, labels: Any, offsets: Any) -> Any:
        return top_label(scores, labels, offsets)

    other: Any = functools.partial(top_label)
    other.name = "top_label"
    scores, data = parts[0].features[:, 0], parts[0]
    with refusal(what="a custom metric has the name of something else", got="'ndcg'"):
        rw.evaluate(scores, data, ndcg)
    other.name = "loss"
    refuses(lambda: rw.metric(other), what="a custom metric has the name of something else", got="'loss'")
    refuses(lambda: rw.metric(lambda scores, labels, offsets: labels[offsets[:-1]]), what="a metric needs a name")
    other.name = "top_label"
    with refusal(what="two metrics have the same name", got="'top_label'"):
        rw.evaluate(scores, data, [top_label, other])
    with refusal(what="two metrics have the same name"):
        rw.LightGBMRanker(metrics=(top_label, other), threads=1).fit(*parts)
    assert rw.evaluate(scores, data, [top_label, top_label]).metrics == ("top_label",)
    refuses(lambda: rw.metric(Found), what="a metric is needed, and not its class", got="Found", hint="write Found()")  # type: ignore[arg-type]
    refuses(lambda: rw.metric(top_label, conventions="lightgbm"), what="a custom metric has no options or conventions")


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (lambda labels, offsets: 0.5, r"one number per query: got shape \(\) of float64 for .* and not their mean"),
        (lambda labels, offsets: labels, r"one number per query: got shape \(\d+,\) of float64"),
        (lambda labels, offsets: [["x"]] * (len(offsets) - 1), r"one number per query: got shape \(\d+, 1\)"),
        (lambda labels, offsets: [[1.0], [1.0, 2.0]], r"one number per query: got shape \(0,\) of object"),
        (lambda labels, offsets: None, r"one number per query: got shape \(\) of object"),
        (lambda labels, offsets: np.full(len(offsets) - 1, np.inf), r"must be finite: got inf at query \d+\."),
    ],
    ids=["mean", "documents", "words", "ragged", "none", "infinite"],
)
def test_a_wrong_result_is_an_error_that_names_the_function(result, message, parts):
    def broken(scores: Any, labels: Any, offsets: Any) -> Any:
        return result(labels, offsets)

    with pytest.raises(ValueError, match=f"values of broken must .*{message.removeprefix('must ')}"):
        rw.evaluate(parts[0].features[:, 0], parts[0], broken)


def test_arguments_are_checked_and_read_only(parts):
    def greedy(scores: Any, labels: Any, offsets: Any) -> Any:
        scores[:] = 0.0

    with pytest.raises(ValueError, match="read-only"):
        rw.evaluate(parts[0].features[:, 0], parts[0], greedy)
    refuses(lambda: rw.metric(top_label)([np.nan, 1.0], [1, 0], [0, 2]), what="scores must be finite", got="nan")


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_a_ranker_stops_by_it_and_is_saved_with_its_name(library, parts, tmp_path):
    settings: dict[str, Any] = {"rounds": 12, "leaves": 4, "min_documents": 3, "threads": 1, "patience": 2}
    model = ranker_class(library)("lambdarank", metrics=(worst, Found(depth=2), "rr"), **settings).fit(*parts)
    assert list(model.history_) == ["loss", "worst", "found(depth=2)", "rr"]
    assert model.best_round_ == int(np.argmax(model.history_["worst"])) + 1
    expected = rw.evaluate(model, parts[1], worst).mean["worst"]
    assert model.score(parts[1]) == expected
    assert model.history_["worst"][model.best_round_ - 1] == pytest.approx(expected, abs=1e-6)
    loaded = rw.load(model.save(tmp_path / "model"))
    assert loaded.metrics == ("worst", "found(depth=2)", "rr")
    assert loaded.history_ == model.history_
    np.testing.assert_array_equal(loaded.predict(parts[1]), model.predict(parts[1]))
    refuses(lambda: loaded.score(parts[1]), got="unknown metric: got 'worst'…pass one of your own as the function…")
    assert loaded.set_params(metrics=worst).score(parts[1]) == expected


def test_training_resumes_with_the_function_and_raises_without(parts, tmp_path):
    settings: dict[str, Any] = {"leaves": 4, "threads": 1, "patience": None, "checkpoint_every": 2}
    whole = rw.LightGBMRanker("xendcg", metrics=top_label, rounds=6, **settings | {"checkpoint_every": 50}).fit(*parts)
    folder = tmp_path / "checkpoint"
    rw.LightGBMRanker("xendcg", metrics=top_label, rounds=4, checkpoint=folder, **settings).fit(*parts)
    with refusal(got="unknown metric: got 'top_label'…as the function itself…"):
        rw.load(folder).set_params(rounds=6, checkpoint=folder).fit(*parts, resume=True)
    again = rw.LightGBMRanker("xendcg", metrics=top_label, rounds=6, checkpoint=folder, **settings)
    again.fit(*parts, resume=True)
    assert again.history_ == whole.history_
    np.testing.assert_array_equal(again.predict(parts[1]), whole.predict(parts[1]))


def test_a_cross_validation_resumes_with_a_function_of_the_same_name(parts, tmp_path):
    def run(**more: Any) -> Any:
        def first_label(scores: Any, labels: Any, offsets: Any) -> Any:  # another object every time, as after a restart
            return top_label(scores, labels, offsets)

        ranker = rw.LightGBMRanker("xendcg", rounds=3, leaves=4, metrics=first_label, threads=1)
        return rw.cross_validate(ranker, parts[0], 2, metrics=first_label, checkpoint=tmp_path / "folds", **more)

    whole = run()
    np.testing.assert_array_equal(run(resume=True)["first_label"], whole["first_label"])


def test_a_net_stops_by_it(parts):
    pytest.importorskip("torch")
    model = rw.NeuralRanker("xendcg", epochs=2, hidden=(4,), metrics=top_label, threads=1, device="cpu").fit(*parts)
    assert len(model.history_["top_label"]) == 2


def test_training_loops_of_the_libraries_accept_it(parts):
    train, valid = parts
    seen: dict[str, Any] = {}
    own = lgb.Dataset(train.features, train.labels, group=train.sizes)
    held_out = lgb.Dataset(valid.features, valid.labels, group=valid.sizes, reference=own)
    params = {"objective": "lambdarank", "metric": "None", "num_threads": 1, "verbosity": -1}
    booster = lgb.train(
        params,
        own,
        3,
        valid_sets=[held_out],
        feval=rw.metrics.lightgbm_metric(top_label),
        callbacks=[lgb.record_evaluation(seen)],
    )
    expected = rw.evaluate(booster, valid, top_label).mean["top_label"]
    assert seen["valid_0"]["top_label"][-1] == pytest.approx(expected)
    history: dict[str, Any] = {}
    matrix = xgb.DMatrix(train.features, train.labels, group=train.sizes, nthread=1)
    found = xgb.train(
        {"objective": "rank:ndcg", "nthread": 1, "disable_default_eval_metric": 1},
        matrix,
        3,
        custom_metric=rw.metrics.xgboost_metric(Found()),
        evals=[(matrix, "train")],
        evals_result=history,
        verbose_eval=False,
    )
    assert history["train"]["found"][-1] == pytest.approx(rw.evaluate(found, train, Found()).mean["found"])


def test_tuning_searches_by_it(parts, tmp_path):
    pytest.importorskip("optuna")
    search = {"leaves": "whole(3, 8)"}
    fixed = {"rounds": 4, "min_documents": 3}
    tuning = rw.tune(
        parts[0],
        parts[1],
        "xendcg",
        metric=top_label,
        trials=2,
        space="none",
        search=search,
        fixed=fixed,
        threads=1,
        progress=False,
    )
    assert tuning.metric == "top_label"
    model = tuning.ranker(threads=1).fit(*parts)
    assert max(model.history_["top_label"]) == tuning.value
    with refusal(what="a metric of one's own cannot be written to a file", got="top_label"):
        tuning.save(Path(tmp_path, "best.toml"))
