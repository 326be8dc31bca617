"""Checks of the keys of an experiment: of types, and of what declarations of single numbers and words cannot say."""

import math
import types
from collections.abc import Callable
from typing import Any, Union, get_args, get_origin

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import Parameter
from rankwise.metrics import MetricLike, expression, metric
from rankwise.rankers import expressions, table
from rankwise.rankers.expressions import RankerExpression

CURVES = ("train", "valid", "test", "bound")
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a string", 'key = "…"'),
    bool: ("true or false", "key = true"),
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
    "curves": lambda value: tuple(check.choice("curve", one, CURVES) for one in value),
    "split": check.fractions,
    "levels": lambda value: tuple(check.number("a level", one, least=0.0) for one in value),
    "metrics": lambda value: tuple(map(expression, value)),
    "ratios": lambda value: tuple(str(metric(one)) for one in value),
    "decide": lambda value: expression(value),
    "methods": lambda value: [method(text) for text in value.values()],
}
_REWRITTEN = ("levels", "metrics", "ratios", "decide")  # others stay as they are written, also in digests


def checked(key: Parameter, value: object) -> Any:
    """Check the value of one key by its declaration, and return it in its one form: lists become tuples.

    >>> checked(Parameter("data", tuple[str, ...]), "synthetic")
    Traceback (most recent call last):
    ValueError: data must be a list of strings: got 'synthetic'. Hint: write data = ["…"].
    """
    if key.kind in _WORDS and not _fits(value, key.kind):
        words, example = _WORDS[key.kind]
        hint = f"write {example.replace('key', key.name)}"
        raise check.error(f"{key.name} must be {words}", got=repr(value), hint=hint)
    value = tuple(value) if isinstance(value, list) else value
    result = _CHECKS.get(key.name, key.check)(value)
    return result if key.name in _REWRITTEN else value


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read from a file, or given in Python, is of a type."""
    inner = get_args(kind)
    if kind == MetricLike:
        return isinstance(value, str) or callable(value)
    if get_origin(kind) in (Union, types.UnionType):
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
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
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
