"""Expressions at random: each is read and written back, or refused by one line that points at the place."""

import random
import re
from collections.abc import Callable
from typing import Any

import pytest

import rankwise as rw
from rankwise import check
from rankwise.metrics.base import Metric
from rankwise.rankers import expressions
from rankwise.rankers.expressions import RankerExpression
from rankwise.wings.tuning.spaces import Choice, Range, dimension
from tests.robustness.fuzzing import cases, damaged

pytestmark = pytest.mark.slow

OBJECTIVES = (
    "0.7*xendcg(gamma=tight, epsilon=0.5) - 1e-3*(approx_ndcg(eta=5) + listmle)",
    "stochastic(weighted(lambdarank(sigma=2.0, norm=False), by=ideal_dcg, power=-0.5), samples=4, noise='gaussian')",
    "bounded(smooth_rbp(eta=1), method=distribution, orderings=1_000)*2",
)
METRICS = (
    "ndcg(gain=[0, 1, 3], ties=average, empty=skip)@10",
    "rbp(p=0.95, relevant=2)",
    'err(highest=4, ties="row")@5',
)
RANGES = ("log(0.02, 0.2, start=0.1)", "whole(7, 63)", "choice('a', 'b', True, 0.5, start='a')")
RANKERS = (
    "lightgbm(stochastic(xendcg, scale=0.25), leaves=400)",
    "xgboost('native:rank:ndcg', monotone_constraints={price: -1, 2: 1})",
    "blended(bagged(listnet, folds=3), neural(hidden=(8, 4)), column(0), folds=3)",
    "distilled(auto(minutes=2, recipes=(lightgbm(xendcg),)), lightgbm(leaves=7), weight=0.5)",
)
WORDS = (
    *("xendcg", "ndcg", "stochastic", "inner", "eta", "__import__", "lambda", "None", "True", "inf", "nan", "native:x"),
    *("(", ")", "((((", "[", "]", ",", "=", "==", "+", "-", "*", "**", "@", "/", "//", "%", ".", ":", ":=", ";", "#"),
    *(
        "'",
        '"',
        "'''",
        "\\",
        "\\x",
        "\\N{DASH}",
        "f'{1}'",
        "b''",
        "0x1F",
        "1j",
        "1_0",
        "1__0",
        "9" * 400,
        "1e999",
        "-0.0",
    ),
    *(
        "\0",
        "\n",
        "\t",
        "\r",
        "\x1b[2J",
        "\u202e",
        "\u2028",
        "\ud800",
        "é",
        "ｘ",
        "²",
        "٣",
        "𝟏",
        " if ",
        " and ",
        "`",
        "$",
    ),
)


def expression(chance: random.Random, samples: tuple[str, ...]) -> str:
    """A damaged sample, or words in any order."""
    if chance.random() < 0.6:
        words = [word.encode("utf-8", "surrogatepass") for word in WORDS]
        return damaged(chance.choice(samples).encode(), chance, words).decode("utf-8", "surrogateescape")
    text = "".join(chance.choice(WORDS) for _ in range(chance.randint(0, 12)))
    return text * chance.choice((1, 1, 1, 1, 1000))


@pytest.mark.parametrize(
    ("read", "samples", "kinds"),
    [
        (rw.objective, OBJECTIVES, rw.Objective),
        (rw.metric, METRICS, Metric),
        (dimension, RANGES, Range | Choice),
        (expressions.read, RANKERS, RankerExpression),
        (rw.ranker, RANKERS, rw.Ranker),
    ],
    ids=["objectives", "metrics", "ranges", "expressions of rankers", "rankers"],
)
def test_expressions(read: Callable[[str], Any], samples: tuple[str, ...], kinds: Any) -> None:
    for text in samples:
        assert isinstance(read(text), kinds)
    for case, chance in cases(2_000 if kinds is rw.Ranker else 10_000):  # a ranker takes longer to build than to read
        text = expression(chance, samples)
        try:
            made = read(text)
        except Exception as raised:
            wrong = _complaint(raised, text)
            assert wrong is None, f"{wrong}\n{case}: {text[:400]!r}"
        else:
            assert isinstance(made, kinds), f"{case}: {text[:400]!r} gave {made!r}"
            if kinds is not RankerExpression:  # its own text is not kept
                again = read(str(made))
                assert again == made or repr(again) == repr(made), f"{case}: {text[:400]!r} was written as {made}"


def _complaint(raised: Exception, text: str) -> str | None:
    sentence = str(raised)
    if not isinstance(raised, check.InputError):
        return f"leaked {type(raised).__name__}: {sentence}"
    place = re.search(r"\bcharacter (\d+) of ['\"]", sentence)
    if place is None and "characters at most" not in sentence:
        return f"the error points nowhere: {sentence}"
    if place is not None and not 1 <= int(place[1]) <= len(text) + 1:
        return f"the error points outside: {sentence}"
    if not sentence.isprintable() or len(sentence) > 1000:
        return f"the error is no plain line: {sentence!r}"
    return None
