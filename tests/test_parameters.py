"""Declared parameters: what a signature says about them, and what values they take."""

from typing import Annotated

import pytest

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
    check_declared(_Ranker(alpha="a plain annotation is no declaration"))
