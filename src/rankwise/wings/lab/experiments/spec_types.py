"""Checks of the keys of an experiment, also of what declarations of single numbers and words cannot say."""

from collections.abc import Callable
from typing import Any

from rankwise import check
from rankwise.check.parameters import Parameter
from rankwise.language import settings_files
from rankwise.metrics import expression, metric
from rankwise.rankers import RankerExpression, expressions, table

CURVES = ("train", "valid", "test", "bound")
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
    rankwise.errors.InputError: data must be a list of strings: got 'synthetic'. Hint: write data = ["…"].
    """
    if key.kind not in (int, float):  # whose checks say what else they must be
        settings_files.check_type(key.name, value, key.kind)
        value = tuple(value) if isinstance(value, list) else value
    result = _CHECKS.get(key.name, key.check)(value)
    return result if key.name in _REWRITTEN else value


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
