"""What the keys of an experiment may hold: their types, and what else must be true of each by itself."""

import math
import types
from collections.abc import Callable
from typing import Any, get_args, get_origin

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.experiments.running.protocols import PROTOCOLS, TREATMENTS
from rankwise.metrics import MetricLike, expression, metric
from rankwise.model_selection import spaces
from rankwise.rankers import expressions, table
from rankwise.rankers.expressions import RankerExpression

CURVES = ("train", "valid", "test", "bound")
_TESTS = ("t", "corrected_t", "fisher", "wilcoxon")
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a string", 'key = "…"'),
    bool: ("true or false", "key = true"),
    int: ("a whole number", "key = 5"),
    int | None: ("a whole number", "key = 500"),
    float: ("a number", "key = 0.5"),
    tuple[str, ...]: ("a list of strings", 'key = ["…"]'),
    tuple[float, ...]: ("a list of numbers", "key = [0.5, 1.0]"),
    MetricLike: ("a string", 'key = "…"'),
    tuple[MetricLike, ...]: ("a list of strings", 'key = ["…"]'),
    dict[str, str]: ("a table of strings", '[key] and below it name = "…"'),
    str | dict[str, str]: ("a string or a table of strings", 'key = "…"'),
    Keywords: ("a table of settings", "[key] and below it name = value"),
    dict[str, Keywords]: ("a table of tables of settings", "[key.name] and below it name = value"),
}
_CHECKS: dict[str, Callable[[Any], Any]] = {
    "name": lambda value: _folder_name(value),
    "protocol": lambda value: check.choice("protocol", value, PROTOCOLS),
    "treatment": lambda value: check.choice("treatment", value, TREATMENTS),
    "test": lambda value: check.choice("test of significance", value, _TESTS),
    "tune_space": lambda value: check.choice("space", value, spaces.SPACES),
    "curves": lambda value: tuple(check.choice("curve", one, CURVES) for one in value),
    "trials": lambda value: check.integer("trials", value, least=1),
    "seed": lambda value: check.integer("seed", value, least=0),
    "queries": lambda value: None if value is None else check.integer("queries", value, least=3),
    "tune_trials": lambda value: check.integer("tune_trials", value, least=0),
    "tune_minutes": lambda value: check.number("tune_minutes", value, least=0.0),
    "split": check.fractions,
    "levels": lambda value: tuple(check.number("a level", one, least=0.0) for one in value),
    "relevant": lambda value: check.number("relevant", value),
    "alpha": lambda value: check.number("alpha", value, least=0.0, most=1.0, open_ends=True),
    "metrics": lambda value: tuple(map(expression, value)),
    "ratios": lambda value: tuple(str(metric(one)) for one in value),
    "decide": lambda value: expression(value),
    "methods": lambda value: [method(text) for text in value.values()],
}
_REWRITTEN = ("levels", "metrics", "ratios", "decide")  # others stay as they are written, also in digests


def checked(key: str, value: object, kind: object) -> Any:
    """Check the value of one key, of the type ``kind``, and give it in its one form: lists become tuples.

    >>> checked("data", "synthetic", tuple[str, ...])
    Traceback (most recent call last):
    rankwise.errors.InputError: data must be a list of strings: got 'synthetic'. Hint: write data = ["…"].
    """
    if not _fits(value, kind):
        words, example = _WORDS[kind]
        raise check.error(f"{key} must be {words}", got=repr(value), hint=f"write {example.replace('key', key)}")
    value = tuple(value) if isinstance(value, list) else value
    if key not in _CHECKS:
        return value
    result = _CHECKS[key](value)
    return result if key in _REWRITTEN else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read from a file, or given in Python, is of a type."""
    inner = get_args(kind)
    if kind == MetricLike:
        return isinstance(value, str) or callable(value)
    if isinstance(kind, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if get_origin(kind) is tuple:
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(
            isinstance(name, str) and _fits(one, inner[1]) for name, one in value.items()
        )
    if kind is Any:  # a parameter of a ranker; TOML's dates, times, nan and inf are none
        if isinstance(value, list | tuple | dict):
            return all(_fits(one, Any) for one in (value.values() if isinstance(value, dict) else value))
        return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    if kind in (int, float):
        return isinstance(value, int if kind is int else int | float) and not isinstance(value, bool)
    return isinstance(value, kind)


def _folder_name(name: str) -> str:
    if not name.isprintable() or set(name) & set("/\\") or not name.strip(". ") or len(name) > 100:
        hint = "write a few letters, without slashes"
        raise check.error("the name of an experiment is that of its folder", got=repr(name), hint=hint)
    return name


def method(text: str) -> RankerExpression:
    """Read a method: a ranker that learns from features, or an ensemble of such rankers."""
    ranker = expressions.read(text)
    for one in (ranker, *ranker.singles()):
        check.choice("ranker of an experiment", one.name, [*table.ranker_names(), "bagged", "blended", "distilled"])
    return ranker
