"""Options that are gone, and the line to type instead."""

import shlex
from collections.abc import Callable, Container, Sequence

GONE = {"--confidence": "--level", "--alpha": "--level", "--study": "--checkpoint", "--bag": "--folds"}
"""Option -> what it is called now."""
OF_TRAIN = ("--bag", "--blend", "--teacher", "--teacher-weight", "--folds")
"""Options of ``train`` that are parts of the expression of a ranker now, or a command."""


def line(path: str, words: Sequence[str], options: Container[str]) -> tuple[str, str] | None:
    """Return the first option of a command line that is gone, and the line to type; None where all are known."""
    command = path.split()[1:]
    for word in words:
        option = word.partition("=")[0]
        if command == ["train"] and option in OF_TRAIN:
            return option, _joined(*_trained(words))
        if option not in options and GONE.get(option, option) in options:
            rest, values = _without(words, [option])
            value = f"{1 - float(values[option][-1]):.12g}" if option == "--alpha" else values[option][-1]
            return option, _joined(*command, *rest, GONE[option], value)
    return None


def _trained(words: Sequence[str]) -> list[str]:
    """Return the command, with the expression of its ranker, or the other command, that does what ``train`` did.

    >>> " ".join(_trained(["a.txt", "--bag", "5", "--objective", "xendcg"]))
    'train a.txt --objective xendcg --ranker bagged(lightgbm, folds=5)'
    >>> _trained(["a.txt", "--teacher", "large", "--teacher-weight=0.5"])[-1]
    "distilled('large', lightgbm, weight=0.5)"
    """
    rest, values = _without(words, [*OF_TRAIN, "--ranker"])
    ranker = values.get("--ranker", ["lightgbm"])[-1]
    folds = f", folds={values['--bag'][-1]}" if "--bag" in values else ""
    if "--blend" in values:
        ranker = f"blended({', '.join(map(_member, values['--blend']))}{folds})"
    elif folds:
        ranker = f"bagged({ranker}{folds})"
    if "--teacher" in values:
        weight = f", weight={values['--teacher-weight'][-1]}" if "--teacher-weight" in values else ""
        ranker = f"distilled({values['--teacher'][-1]!r}, {ranker}{weight})"
    chosen = ["--ranker", ranker] if "(" in ranker or "--ranker" in values else []
    if "--folds" in values:
        return ["cross-validate", *rest, "--folds", values["--folds"][-1], *chosen]
    return ["train", *rest, *chosen]


def _member(word: str) -> str:
    """Return a member of a blend: ``column:NAME``, or ``column:N`` from 1, was a feature."""
    kind, mark, column = word.partition(":")
    if kind != "column" or not mark:
        return word
    return f"column({int(column) - 1 if column.isdecimal() and int(column) else repr(column)})"


def _without(words: Sequence[str], options: Sequence[str]) -> tuple[list[str], dict[str, list[str]]]:
    """Return the words of a line without some options, and the values of these."""
    rest: list[str] = []
    values: dict[str, list[str]] = {}
    left = iter(words)
    for word in left:
        option, equals, value = word.partition("=")
        if option in options:
            values.setdefault(option, []).append(value if equals else next(left, "…"))
        else:
            rest.append(word)
    return rest, values


def _joined(*words: str) -> str:
    quote: Callable[[str], str] = lambda word: f'"{word}"' if "'" in word and '"' not in word else shlex.quote(word)  # noqa: E731
    return " ".join(["rankwise", *map(quote, words)])
