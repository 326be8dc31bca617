"""Declared parameters: what a signature says about them, and what values they take."""

import inspect
from dataclasses import replace
from typing import Annotated

import numpy as np
import pytest
from sklearn.base import clone

import rankwise as rw
from rankwise.check.docstrings import documented
from rankwise.check.parameters import (
    Above,
    AtLeast,
    OneOf,
    Option,
    Search,
    Unset,
    Within,
    assign,
    check_declared,
    declared,
)
from rankwise.language import registry
from rankwise.rankers import table
from rankwise.rankers.training import parameters as training
from rankwise.wings.lab.experiments.spec import read_spec
from rankwise.wings.tuning import spaces
from tests.refusals import refusal, refuses

Seed = Annotated[int, AtLeast(0), "Seed of every draw."]


class _Ranker:
    def __init__(
        self,
        objective="lambdarank",
        *,
        leaves: Annotated[int | None, AtLeast(2), "Leaves at most.", Unset("by size"), Search("whole(7, 63)")] = None,
        rate: Annotated[float, Above(0), "The learning rate."] = 0.1,
        share: Annotated[float, Within(0, 1)] = 0.5,
        stop_on: Annotated[str, OneOf(("first", "mean"), "way to stop (stop_on)")] = "first",
        debias: Annotated[bool, "Whether clicks are weighed."] = False,
        alpha: float = 1.0,
        seed: Annotated[Seed, "Folds are drawn by it, too.", Option(short="-s")] = 0,
        pruning: Seed | None = None,
        **native,
    ):
        assign(self, locals())


def test_a_signature_declares_what_a_parameter_may_be():
    parameters = declared(_Ranker)
    assert list(parameters) == ["objective", "leaves", "rate", "share", "stop_on", "debias", "alpha", "seed", "pruning"]
    leaves, seed, pruning = parameters["leaves"], parameters["seed"], parameters["pruning"]
    assert (leaves.kind, leaves.optional, leaves.unset, leaves.search) == (int, True, "by size", Search("whole(7, 63)"))
    assert (seed.text, seed.option.short) == ("Seed of every draw. Folds are drawn by it, too.", "-s")
    assert (pruning.kind, pruning.optional, pruning.range()) == (int, True, "≥ 0")


def test_a_constructor_keeps_its_arguments():
    kept = vars(_Ranker("xendcg", leaves=7, max_bin=15))
    assert (kept["objective"], kept["leaves"], kept["native"]) == ("xendcg", 7, {"max_bin": 15})
    assert kept.keys() == {*declared(_Ranker), "native"}


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"leaves": 1}, "leaves must be a whole number of at least 2: got 1"),
        ({"leaves": 2.0}, "leaves must be a whole number of at least 2: got 2.0"),
        ({"rate": 0}, "rate must be a number in (0, inf): got 0"),
        ({"share": 1.5}, "share must be a number in [0, 1]: got 1.5"),
        ({"stop_on": "last"}, "unknown way to stop (stop_on): got 'last'"),
        ({"debias": 1}, "debias must be True or False: got 1"),
        ({"seed": None}, "seed must be a whole number of at least 0: got None"),
        ({"pruning": -1}, "pruning must be a whole number of at least 0: got -1"),
    ],
)
def test_other_values_are_refused(setting, words):
    with pytest.raises(ValueError) as refused:
        check_declared(_Ranker(**setting))
    assert str(refused.value).startswith(words)


def test_values_inside_pass():
    check_declared(_Ranker(leaves=None, rate=1e-9, share=1, stop_on="mean", debias=True, pruning=0))
    check_declared(_Ranker(alpha="a plain annotation is no declaration"))  # type: ignore[arg-type]


# A parameter that is added to a ranker is known everywhere, by its declaration alone.


@pytest.fixture
def ranker(monkeypatch):
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))  # it is known here alone

    @rw.register("declaring")
    class Declaring(rw.LightGBMRanker):
        def __init__(
            self,
            objective: training.Objective = "lambdarank",
            *,
            rounds: training.Rounds = 3,
            sharpness: Annotated[
                float,
                Above(0),
                Search("log(0.5, 2.0)"),
                "Sharpness of the first ``leaf``.",
                Option(metavar="S", group="Training"),
            ] = 1.5,
            **native,
        ):
            super().__init__(objective, rounds=rounds, leaves=4, threads=1, **native)
            assign(self, {"sharpness": sharpness})

    return documented(Declaring)


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=30, n_docs=8, seed=1)


def test_a_new_parameter_is_checked_at_fit(ranker, data):
    assert ranker(sharpness=2).fit(data).best_round_ == 3
    refuses(lambda: ranker(sharpness=0).fit(data), what="sharpness must be a number in (0, inf)", got="0")
    with refusal(what="sharpness must be a number in (0, inf)"):
        rw.bagged(ranker(sharpness="sharp"), folds=3).fit(data)


def test_a_new_parameter_is_one_of_scikit_learn(ranker):
    assert ranker().get_params()["sharpness"] == 1.5
    assert clone(ranker(sharpness=2.0)).set_params(sharpness=3.0).sharpness == 3.0


def test_a_new_parameter_is_part_of_the_grammar(ranker):
    read = rw.ranker("declaring(xendcg, sharpness=2.0)")
    assert repr(read) == "declaring(xendcg, sharpness=2.0)"
    refuses(lambda: rw.ranker("declaring(xendcg, sharpness=-1)"), what="sharpness must be a number in (0, inf)")


def test_a_new_parameter_is_a_key_of_experiments(ranker):
    text = '[methods]\na = "declaring"\n[settings]\nsharpness = {}'
    spec = read_spec(text.format("2.0"), where="x.toml", name="x")
    assert spec.ranker_of("a", "synthetic", 0.0).build().sharpness == 2.0
    with refusal(about="line 4 of x.toml", what="sharpness must be a number in (0, inf)"):
        read_spec(text.format("-2.0"), where="x.toml", name="x")


def test_a_new_parameter_is_searched(ranker, data):
    search, _ = spaces.named("default", "declaring", rw.objective("xendcg"))
    assert str(search["sharpness"]) == "log(0.5, 2.0)"
    with refusal(what="sharpness must be a number in (0, inf)"):
        rw.tune(data, data, ranker="declaring", space="none", search={"sharpness": "uniform(-1, 1)"}, trials=1)


def test_a_new_parameter_is_in_the_docstring_and_its_signature_is_plain(ranker):
    assert "    sharpness: Sharpness of the first ``leaf``. Above 0." in str(inspect.getdoc(ranker)).splitlines()
    assert "sharpness: float = 1.5" in str(inspect.signature(ranker))


def test_a_new_parameter_has_what_an_option_needs(ranker):
    sharpness = declared(ranker)["sharpness"]
    assert (sharpness.kind, sharpness.default, sharpness.help) == (float, 1.5, "Sharpness of the first leaf.")
    assert (sharpness.option.metavar, sharpness.option.group) == ("S", "Training")


@pytest.mark.parametrize("name", [*table.RANKERS, *table.ENSEMBLES, *table.RECOMMENDERS, *table.SAVED_AS_OTHERS])
def test_every_parameter_of_a_ranker_has_a_sentence(name):
    cls = table.expression_class(name)
    assert {one.name for one in declared(cls).values() if not one.text} == set()
    for one in declared(cls).values():
        if one.default is not inspect.Parameter.empty:
            one.check(one.default)
        assert f"    {one.name}: " in str(inspect.getdoc(cls))


def test_what_a_constructor_of_a_user_passes_on_is_checked():
    class Small(_Ranker):
        def __init__(self, leaves: "int" = 3, share=0.5, mine: float = 1.0):
            super().__init__(leaves=leaves, rate=share, share=share)
            self.mine = mine

    check_declared(Small(mine=-1.0))
    refuses(lambda: check_declared(Small(1)), what="leaves must be a whole number of at least 2", got="1")
    refuses(lambda: check_declared(Small(share=-1.0)), what="rate must be a number in (0, inf)", got="-1.0")
    refuses(lambda: check_declared(Small(share=2)), what="share must be a number in [0, 1]", got="2")


def test_words_and_numbers_of_numpy_are_taken():
    either = declared(lambda preset: None)["preset"]
    either = replace(either, kind=str | int, limits=OneOf(("2020",)), noted=True)
    assert either.check(np.str_("2020")) == "2020"
    assert either.check(np.int64(2020)) == 2020
    refuses(lambda: either.check(np.float64(0.5)), what="unknown preset", got="np.float64(0.5)")
