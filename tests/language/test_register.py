"""Objectives and metrics of one's own under a name: known to expressions, files and other processes, and not else."""

import itertools
import sys
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest

import rankwise as rw
from rankwise.language import registry
from rankwise.objectives.function_objective import Adapted
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 4, "leaves": 3, "min_documents": 3, "threads": 1}


@dataclass(frozen=True, kw_only=True, repr=False)
class Squares(rw.Objective):
    """Half the squared distance to labels times a factor."""

    factor: float = 1.0
    exact_hessian: ClassVar[bool] = True

    def prepare(self, labels, offsets, **documents):
        def squares(scores, labels, offsets):
            gap = scores - self.factor * labels
            return np.add.reduceat(gap**2, offsets[:-1]) / 2, gap, np.ones_like(gap)

        return Adapted(squares).prepare(labels, offsets, **documents)


def squared_error(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]) / 2, gap, np.ones_like(gap)


def regret(scores, labels, offsets):
    lists = [slice(start, end) for start, end in itertools.pairwise(offsets)]
    return [labels[q][np.argmax(scores[q])] - labels[q].max() for q in lists]


@dataclass(frozen=True)
class Found(rw.Metric):
    depth: int = 1

    def values(self, scores, labels, offsets):
        lists = [slice(start, end) for start, end in itertools.pairwise(offsets)]
        return [labels[q][np.argsort(-scores[q])[: self.depth]].any() for q in lists]


SCORES, LABELS, OFFSETS = np.array([0.5, 2.0, 1.0]), np.array([2.0, 0.0, 1.0]), np.array([0, 2, 3])


def test_an_objective_reads_back_and_takes_part_in_expressions():
    assert rw.register("squares", Squares) is Squares
    assert rw.objective("squares") == Squares()
    mixed = rw.objective("stochastic(0.5*squares(factor=2.0) + xendcg, samples=2)")
    assert repr(mixed) == "stochastic(0.5*squares(factor=2.0) + xendcg, samples=2)"
    assert rw.objective(repr(Squares(factor=3.0))) == Squares(factor=3.0)
    with refusal(what="unknown argument of squares", got="'factr'", hint="did you mean 'factor'"):
        rw.objective("squares(factr=2.0)")


def test_a_function_is_an_objective_under_its_registered_name():
    rw.register("errors", squared_error, kind="objective")
    expected = rw.objective(squared_error)(SCORES, LABELS, OFFSETS)
    for one, other in zip(rw.objective("errors")(SCORES, LABELS, OFFSETS), expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert repr(rw.objective(squared_error)) == "errors"  # whoever passes the function itself finds it in files, too
    refuses(lambda: rw.objective("errors(sigma=1)"), what="unknown argument of errors")


def test_metrics_are_functions_or_classes():
    rw.register("regrets", regret, kind="metric")
    rw.register("found", Found)
    data = rw.RankingDataset(np.zeros((3, 1)), LABELS, OFFSETS)
    assert rw.evaluate(SCORES, data, ["regrets", "found(depth=2)"]).mean == {"regrets": -1.0, "found(depth=2)": 1.0}
    found: Any = rw.metric("found(depth=2)")
    assert found == Found(depth=2)
    assert str(rw.metric(regret)) == "regrets"
    assert rw.metric(Found(depth=3)) == Found(depth=3)
    refuses(lambda: rw.metric("regrets", conventions="lightgbm"), what="a custom metric has no options or conventions")
    with refusal(what="a custom metric has the name of something else", got="'found'"):
        rw.metric(type("Other", (rw.Metric,), {"name": "found", "values": lambda *_: [1.0]})())


def test_a_decorator_gives_back_what_it_decorates():
    @rw.register("mine", kind="metric")
    def mine(scores, labels, offsets):
        return labels[offsets[:-1]]

    assert mine(SCORES, LABELS, OFFSETS).tolist() == [2.0, 1.0]
    assert rw.metric("mine")(SCORES, LABELS, OFFSETS).tolist() == [2.0, 1.0]


def test_a_cell_of_a_notebook_may_run_again():
    def cell(factor):
        @rw.register("mine", kind="metric")
        def mine(scores, labels, offsets):
            return factor * labels[offsets[:-1]]

    cell(1.0)
    cell(2.0)
    assert rw.metric("mine")(SCORES, LABELS, OFFSETS).tolist() == [4.0, 2.0]


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("xendcg", "taken: got 'xendcg', which is an objective of rankwise"),
        ("stochastic", "taken: got 'stochastic', which is an objective of rankwise"),
        ("ndcg", "taken: got 'ndcg', which is a metric of rankwise"),
        ("recip_rank", "taken: got 'recip_rank', which is a metric of rankwise"),
        ("lightgbm", "taken: got 'lightgbm', which is a ranker of rankwise"),
        ("bagged", "taken: got 'bagged', which is a ranker of rankwise"),
        ("loss", "taken: got 'loss', which is a word of rankwise's own"),
        ("other", r"taken: got 'other', which is the metric .*regret"),
        ("my loss", "a name must be a word that an expression can hold: got 'my loss'"),
        ("None", "a name must be a word that an expression can hold"),
        ("größe", "a name must be a word that an expression can hold"),
        (3, "a name must be a word that an expression can hold: got 3"),
    ],
)
def test_taken_and_invalid_names(name, sentence):
    rw.register("other", regret, kind="metric")
    with pytest.raises(ValueError, match=sentence):
        rw.register(name, squared_error, kind="objective")
    assert list(registry._entries) == ["other"]


class Plain:
    pass


class Unfinished(rw.Objective):
    pass


class WithInit(rw.Metric):
    def __init__(self, depth):
        self.depth = depth

    def values(self, scores, labels, offsets):
        return labels[offsets[:-1]]


class Called(rw.Metric):
    name = "called"

    def values(self, scores, labels, offsets):
        return labels[offsets[:-1]]


@pytest.mark.parametrize(
    ("thing", "kind", "sentence"),
    [
        (regret, None, 'may be an objective or a metric: got regret. Hint: set kind="objective", or kind="metric"'),
        (regret, "ranker", "a ranker is a class"),
        (regret, "loss", "unknown kind: got 'loss'"),
        (Plain, None, "registered as what it derives from: got Plain. Hint: derive it from rw.Objective, rw.Metric or"),
        (Squares, "metric", "registered as what it derives from: got Squares as metric"),
        (Squares(), None, "an object is not registered, but its class"),
        (3, None, "an object is not registered, but its class"),
        (Unfinished, None, "not complete: got Unfinished without prepare"),
        (WithInit, None, "cannot tell the settings of the metric: got WithInit.*@dataclass"),
        (Called, None, "another name: got 'mine' for a class whose name is 'called'"),
    ],
)
def test_what_cannot_be_registered(thing, kind, sentence):
    with pytest.raises(ValueError, match=sentence):
        rw.register("mine", thing, kind=kind)


def test_a_lambda_does_not_replace_another():
    rw.register("mine", lambda scores, labels, offsets: labels, kind="metric")
    with refusal(what="the name is taken"):
        rw.register("mine", lambda scores, labels, offsets: scores, kind="metric")


@pytest.mark.parametrize("objective", ["errors", "squares(factor=2.0)", "0.5*errors + xendcg"])
def test_a_model_is_trained_on_after_it_was_loaded(objective, data, valid, tmp_path):
    rw.register("errors", squared_error, kind="objective")
    rw.register("squares", Squares)
    rw.register("regrets", regret, kind="metric")
    model = rw.LightGBMRanker(objective, metrics=("regrets",), **SMALL).fit(data, valid)
    model.save(tmp_path / "model")
    loaded: Any = rw.load(tmp_path / "model")
    again = loaded.fit(data, valid)
    assert again.history_ == model.history_
    assert list(again.history_) == ["loss", "regrets"]
    np.testing.assert_array_equal(again.predict(data), model.predict(data))


def test_a_function_that_is_registered_is_saved_by_its_name(data, tmp_path):
    rw.register("errors", squared_error, kind="objective")
    rw.LightGBMRanker(squared_error, **SMALL).fit(data).save(tmp_path / "model")
    assert rw.load(tmp_path / "model").objective == "errors"


def test_a_model_of_unknown_names_scores_and_cannot_be_trained(data, valid, tmp_path, monkeypatch):
    rw.register("my_lambdarank", squared_error, kind="objective")
    rw.register("regrets", regret, kind="metric")
    model = rw.LightGBMRanker("my_lambdarank", metrics="regrets", **SMALL).fit(data, valid)
    model.save(tmp_path / "model")
    monkeypatch.setattr(registry, "_entries", {})
    loaded: Any = rw.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
    with refusal(
        what="this model was trained with an objective not known here",
        got="…'my_lambdarank'…",
        hint="…rw.register…set_params…",
    ):
        loaded.fit(data, valid)
    with refusal(what="…trained with metrics not known here", got="…'regrets'…", hint="…rw.register…set_params…"):
        loaded.set_params(objective="xendcg").fit(data, valid)
    loaded.set_params(metrics="ndcg@5").fit(data, valid)


def test_errors_of_unknown_names_have_a_hint_to_register():
    with refusal(what="unknown objective", got="'qqq'", hint="…register one of your own with rw.register"):
        rw.objective("qqq")
    with refusal(what="unknown metric", got="'qqq'", hint="…function itself, or register one of your own with…"):
        rw.metric("qqq")


def test_tuned_parameters_with_registered_names_are_written(data, valid, tmp_path):
    rw.register("squares", Squares)
    rw.register("regrets", regret, kind="metric")
    found = rw.tune(
        data, valid, "squares", metric=regret, trials=2, space="none", search={"squares.factor": "uniform(1.5, 2)"},
        fixed={name: value for name, value in SMALL.items() if name != "threads"}, threads=1, progress=False,
    )  # fmt: skip
    text = found.save(tmp_path / "best.toml").read_text(encoding="utf-8")
    assert 'objective = "squares(factor=' in text
    assert 'metrics = ["regrets"]' in text


MODULE = """
import numpy as np
import rankwise as rw

@rw.register("module_loss", kind="objective")
def module_loss(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]), 2 * gap, np.full_like(gap, 2.0)
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """The name of a module, on the path, that registers module_loss."""
    (tmp_path / "users_losses.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    yield "users_losses"
    sys.modules.pop("users_losses", None)


def test_other_processes_receive_what_is_registered(module, monkeypatch):
    __import__(module)
    rw.register("here_alone", lambda scores, labels, offsets: labels, kind="metric")
    registry._entries["broken"] = registry.Registration("objective", sys._getframe())  # which nobody can pickle
    parcels = registry.pickle_registry()
    monkeypatch.setattr(registry, "_entries", {})
    sys.modules.pop(module)
    registry.restore_registry([*parcels, b"no parcel"])  # as a process that has just begun
    assert rw.objective("module_loss")(SCORES, LABELS, OFFSETS).gradient.tolist() == [-3.0, 4.0, 0.0]
    assert "broken" not in registry._entries


def test_loading_imports_nothing(module, data, tmp_path, monkeypatch):
    __import__(module)
    rw.LightGBMRanker("module_loss", **SMALL).fit(data).save(tmp_path / "model")
    monkeypatch.setattr(registry, "_entries", {})
    sys.modules.pop(module)
    model: Any = rw.load(tmp_path / "model")
    with refusal(what="this model was trained with an objective not known here", got="…'module_loss'…"):
        model.fit(data)
    assert module not in sys.modules
    __import__(module)
    assert model.fit(data).stopped_ == "rounds"
