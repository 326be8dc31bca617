"""Digests of users' code: another one for whatever changes what is computed, the same for whatever does not."""

import copy
import dataclasses
import functools
import os
import subprocess
import sys
import textwrap
from typing import Any

import numba
import numpy as np
import pytest

import rankwise as rw
from rankwise.language.user_code import digests

GAINS = "GAINS = [0, 1, 3]\n"
HELPER = "def helper(x):\n    return x * 2\n"
METRIC = "def own(scores, labels, offsets, depth=1):\n    return helper(labels[depth]) + GAINS[1]\n"


def defined(*source: str, name: str = "own") -> Any:
    """What a module of this source, that is nowhere on disk, calls ``name``."""
    names: dict = {"__name__": "users_module", "np": np, "rw": rw, "dataclasses": dataclasses, "functools": functools}
    exec("".join(source), names)  # noqa: S102
    return names[name]


WHOLE = (GAINS, HELPER, METRIC)
CHANGES = {
    "the body": (GAINS, HELPER, METRIC.replace("+", "-")),
    "a constant": (GAINS, HELPER, METRIC.replace("GAINS[1]", "GAINS[2]")),
    "a default": (GAINS, HELPER, METRIC.replace("depth=1", "depth=2")),
    "a function that it calls": (GAINS, HELPER.replace("2", "3"), METRIC),
    "a value that it reads": (GAINS.replace("3", "4"), HELPER, METRIC),
    "a function inside": (GAINS, HELPER, METRIC.replace("helper(labels[depth])", "(lambda: helper(labels[depth]))()")),
}
NO_CHANGES = {
    "a comment": (GAINS, HELPER, METRIC.replace("\n    return", "\n    # first things first\n    return")),
    "the documentation": (GAINS, HELPER, METRIC.replace("\n    return", '\n    """Mine."""\n    return')),
    "its place": ("\n\n\n", *WHOLE),
    "what it does not use": ("OTHER = 7\n", *WHOLE),
}


@pytest.mark.parametrize("what", CHANGES)
def test_code_that_computes_something_else_has_another_digest(what):
    assert digests(defined(*CHANGES[what])) != digests(defined(*WHOLE))


@pytest.mark.parametrize("what", NO_CHANGES)
def test_code_that_computes_the_same_has_the_same_digest(what):
    assert digests(defined(*NO_CHANGES[what])) == digests(defined(*WHOLE))
    assert list(digests(defined(*WHOLE))) == ["own"]


CLASS = """
@dataclasses.dataclass(frozen=True)
class Own(rw.Metric):
    name = "own"
    depth: int = 1

    def values(self, scores, labels, offsets):
        return self.deep(labels)[offsets[:-1]]

    @staticmethod
    def deep(labels):
        return labels * 2
"""


def test_the_digest_of_a_class_covers_methods_and_settings():
    own = defined(CLASS, name="Own")
    assert digests(own()) == digests(defined(CLASS, name="Own")())
    assert digests(own(depth=2)) != digests(own())
    for old, new in (("offsets[:-1]", "offsets[1:]"), ("* 2", "* 3"), ("depth: int = 1", "depth: int = 3")):
        assert digests(defined(CLASS.replace(old, new), name="Own")()) != digests(own())


def test_a_copy_has_the_same_digest():
    own = defined("class Own:\n    def __call__(self):\n        return 1\n", name="Own")()
    before = digests(own)
    copy.copy(own)  # which leaves __slotnames__ on the class, as pickling does
    assert digests(own) == before


def test_closures_partials_methods_and_compiled_functions_are_part_of_the_digest():
    def scaled(factor):
        return lambda scores, labels, offsets: factor * labels

    def helper(labels, factor):
        return factor * labels

    class Callable:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, scores, labels, offsets):
            return self.factor * labels

    def compiled(factor):
        return numba.njit(defined(f"def own(x):\n    return {factor} * x\n"))

    def partial(factor):
        return functools.partial(helper, factor=factor)

    for make in (scaled, Callable, compiled, partial, lambda factor: Callable(factor).__call__):
        assert digests(make(2)) == digests(make(2))
        assert digests(make(2)) != digests(make(3))


def test_users_functions_are_found_inside_our_objectives_and_metrics():
    def own(scores, labels, offsets):
        return scores - labels, np.ones_like(scores)

    def firsts(scores, labels, offsets):
        return labels[offsets[:-1]]

    mixed = rw.objectives.stochastic(0.5 * rw.objective(own) + rw.objectives.XENDCG())
    assert digests(mixed, [rw.metric(firsts), rw.metric("ndcg@5")]) == digests(own, firsts)
    assert list(digests(mixed, [rw.metric(firsts)])) == ["own", "firsts"]
    assert digests(rw.objectives.LambdaRank(), "ndcg@10", rw.metric("ap"), 3, None, np.zeros(2), {"a": (1, "b")}) == {}


def test_functions_that_refer_to_each_other_and_to_themselves_end():
    both = "def own(x):\n    return other(x - 1) if x else own\n", "def other(x):\n    return own(x)\n"
    assert digests(defined(*both)) == digests(defined(*both))


def test_the_digest_is_the_same_in_another_process_whatever_its_hashes():
    code = """
    from rankwise.language.user_code import digests
    import numpy as np
    def own(x):
        return np.mean(x) if x in {"a", "b", "c", "d"} else (1, 2.5, b"x", None)
    print(digests(own))
    """
    environment = [os.environ | {"PYTHONHASHSEED": seed} for seed in ("1", "2")]
    command = [sys.executable, "-c", textwrap.dedent(code)]
    printed = [
        subprocess.run(command, env=one, capture_output=True, text=True, check=True).stdout for one in environment
    ]
    assert printed[0] == printed[1]
    assert "own" in printed[0]
