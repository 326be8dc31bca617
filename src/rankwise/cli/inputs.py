"""Words of a command line: lists between commas, numbers, ``name=FILE`` pairs and settings."""

import json
from collections.abc import Container, Sequence
from pathlib import Path
from types import MappingProxyType

from rankwise import check
from rankwise.arrays import Keywords
from rankwise.files import is_device

STANDARD_INPUT = "-"
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


def named(pairs: Sequence[str]) -> dict[str, Path]:
    """Read ``name=FILE`` pairs; a bare FILE is called by its name without folders and endings.

    >>> named(["old=a/b.txt", "runs/new.txt.gz"])
    {'old': PosixPath('a/b.txt'), 'new': PosixPath('runs/new.txt.gz')}
    """
    files = [file(pair) for pair in pairs]
    return dict(zip(names([(name, path, "") for name, path in files]), (path for _, path in files), strict=True))


def file(pair: str) -> tuple[str, Path]:
    """Read one ``name=FILE``; the name of a bare FILE is empty.

    >>> file("new=runs/b.txt"), file("runs/b.txt")
    (('new', PosixPath('runs/b.txt')), ('', PosixPath('runs/b.txt')))
    """
    name, equals, path = pair.partition("=")
    if not equals or "://" in name:
        name, path = "", pair
    elif not name or not path:
        raise check.error("rankings are given as name=FILE", got=repr(pair))
    return name, Path(path)


def names(rankings: Sequence[tuple[str, Path, str]]) -> list[str]:
    """Name rankings of (name that the user gave, file, tag of a run), where a name or a tag may be empty.

    A ranking without a name is called after its file; where files have no name, as pipes, or the same, by the tag.

    >>> names([("", Path("one/x.run"), "bm25"), ("", Path("two/x.run"), "net"), ("", Path("two/y.run"), "net")])
    ['bm25', 'net', 'y']
    """
    after_file = [name or ("" if _nameless(path) else path.name.partition(".")[0]) for name, path, _ in rankings]
    collected: dict[str, Path] = {}
    for (name, path, tag), usual in zip(rankings, after_file, strict=True):
        chosen = usual if usual and (name or after_file.count(usual) == 1) else tag or usual or path.name
        if chosen in collected:
            got = f"{chosen!r} for {collected[chosen]} and {path}"
            raise check.error("two rankings have the same name", got=got, hint="give each a name of its own: NAME=FILE")
        collected[chosen] = path
    return list(collected)


def readable(objective: str | None, metrics: Sequence[str]) -> None:
    """Raise if an objective or a metric cannot be read, before the work begins."""
    from rankwise.metrics.table import metric
    from rankwise.objectives.table import native
    from rankwise.objectives.table import objective as read

    if objective is not None and native(objective) is None:
        read(objective)
    for one in metrics:
        metric(one)


def once_from_standard_input(*paths: str) -> None:
    """Refuse to read standard input twice."""
    if paths.count(STANDARD_INPUT) > 1:
        hint = "give the others as files, or as <(command)"
        raise check.error("standard input can be read only once", got=f"- {paths.count('-')} times", hint=hint)


def _nameless(path: Path) -> bool:
    """Whether a path is a pipe or standard input."""
    return str(path) == STANDARD_INPUT or is_device(path)


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
