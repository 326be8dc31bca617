"""Words of a command line: lists between commas, numbers and settings."""

import json
from collections.abc import Container, Sequence
from types import MappingProxyType

from rankwise import check
from rankwise.base.arrays import Keywords

NONE: Keywords = MappingProxyType({})  # type: ignore[assignment]  # which nobody changes
"""No settings."""


def items(text: str) -> list[str]:
    """Cut a list at its commas, but not at those inside brackets.

    >>> items("ndcg(gain=linear, ties=worst)@5, ap")
    ['ndcg(gain=linear, ties=worst)@5', 'ap']
    """
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def numbers(what: str, text: str) -> tuple[float, ...]:
    """Read numbers between commas.

    >>> numbers("proportions", ".6,.2,.2")
    (0.6, 0.2, 0.2)
    """
    try:
        return tuple(float(item) for item in items(text))
    except ValueError:
        raise check.error(f"{what} must be numbers between commas", got=repr(text)) from None


def readable(objective: str | None, metrics: Sequence[str]) -> None:
    """Raise if an objective or a metric cannot be read, before the work begins."""
    from rankwise.metrics.table import metric
    from rankwise.objectives.table import native
    from rankwise.objectives.table import objective as read

    if objective is not None and native(objective) is None:
        read(objective)
    for one in metrics:
        metric(one)


def pairs(words: Sequence[str], form: str = "NAME=VALUE") -> dict[str, str]:
    """Read ``name=text`` pairs.

    >>> pairs(["leaves=whole(7, 63)"])
    {'leaves': 'whole(7, 63)'}
    """
    collected: dict[str, str] = {}
    for word in words:
        name, equals, text = word.partition("=")
        if not name.strip() or not equals or not text.strip():
            raise check.error(f"settings are written {form}", got=repr(word))
        collected[name.strip()] = text.strip()
    return collected


def goals(words: Sequence[str]) -> dict[str, float]:
    """Read ``METRIC=GOAL`` pairs.

    >>> goals(["ndcg(label=purchase)@10=0.62"])
    {'ndcg(label=purchase)@10': 0.62}
    """
    collected: dict[str, float] = {}
    for word in words:
        name, equals, text = word.rpartition("=")
        try:
            collected[name.strip()] = float(text if equals else "")
        except ValueError:
            hint = "write 'ndcg(label=purchase)@10=0.62'"
            raise check.error("constraints are written METRIC=GOAL", got=repr(word), hint=hint) from None
    return collected


def settings(words: Sequence[str], texts: Container[str] = ()) -> dict[str, object]:
    """Read ``name=value`` pairs; a value is a number, true, false, none, a list in brackets, or a word.

    Those of ``texts`` are words whatever they look like.

    >>> settings(["lambda_l2=0.5", "extra_trees=true", "boosting=dart", "seeds=[1, 2]", "query=007"], ["query"])
    {'lambda_l2': 0.5, 'extra_trees': True, 'boosting': 'dart', 'seeds': [1, 2], 'query': '007'}
    """
    return {name: text if name in texts else value(text) for name, text in pairs(words).items()}


def value(text: str) -> object:
    """Read a number, true, false, none, a list in brackets, or a word."""
    words: dict[str, object] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for read in (json.loads, float):
        try:
            return read(text)
        except RecursionError:
            raise check.error("a setting has too many brackets inside each other", got=f"{text[:20]}…") from None
        except ValueError:
            continue
    return text
