"""Options that are gone, and the line to type instead."""

import shlex
from collections.abc import Container, Iterator, Mapping, Sequence

GONE = {
    "": {"--confidence": "--level", "--alpha": "--level", "--study": "--checkpoint", "--bag": "--folds"},
    "compare": {"--test": "--paired-test"},
    "interleave": {"--k": "--cutoff"},
    "recommend": {"--test": "--holdout", "--titles": "--title-file"},
    "report": {"--search": "--tuning"},
    "data clicks": {"--model": "--click-model", "--ranker": "--scores"},
    "clicks info": {"--ranker": "--system"},
    "clicks propensities": {"--ranker": "--system"},
    "clicks compare": {"--ranker": "--system"},
    "clicks train": {"--model": "--ranker", "--ranker": "--system"},
}
"""Command, or "" for all -> option -> what it is called now."""
OF_TRAIN = ("--bag", "--blend", "--teacher", "--teacher-weight", "--folds")
"""Options of ``train`` that are parts of the expression of a ranker now, or a command."""


def line(path: str, words: Sequence[str], options: Container[str]) -> tuple[str, str] | None:
    """Return the first option of a command line that is gone, and the line to type; None where all are known.

    >>> line("rankwise compare", ["a", "b", "--alpha", "0.1"], {"--level"})
    ('--alpha', 'rankwise compare a b --level 0.9')
    """
    command = path.partition(" ")[2]
    names = GONE[""] | GONE.get(command, {})
    for word in words:
        option = word.partition("=")[0]
        if command == "train" and option in OF_TRAIN:
            return option, _joined(_trained(words))
        if option not in options and names.get(option) in options:
            return option, _joined([*command.split(), *_renamed(words, names)])
    return None


def _renamed(words: Sequence[str], names: Mapping[str, str]) -> Iterator[str]:
    """Return a line with options as they are called now; what was a level of significance is one of confidence."""
    before = ""
    for word in words:
        option, equals, value = word.partition("=")
        if before == "--alpha":
            yield _confidence(word)
        else:
            yield names.get(option, option) + equals + (_confidence(value) if option == "--alpha" else value)
        before = word


def _confidence(alpha: str) -> str:
    """Return the level of confidence of a level of significance; what is no number stays, to be refused as a level."""
    try:
        return f"{1.0 - float(alpha):.12g}"
    except ValueError:
        return alpha


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


def _joined(words: Sequence[str]) -> str:
    """Write a line; what holds single quotes is in double ones, which are easier to read than escapes."""
    plain = (f'"{word}"' if "'" in word and not set('"$`\\\\') & set(word) else shlex.quote(word) for word in words)
    return " ".join(["rankwise", *plain])
