"""Hints of the library in the words of the command line: "set label=…" becomes "use --label …"."""

import inspect
import re
import shlex
from collections.abc import Mapping
from typing import Any

from rankwise import check, registry
from rankwise.cli.options import READING

_LEFT_OUT = re.compile(r"\bleave (?P<name>[a-z_]+) out\b")
_NAME = re.compile(r"(?<![\w.-])[a-z]+(?:_[a-z]+)+(?![\w=(])")  # a word that only an argument looks like
_FOR_PYTHON = re.compile(r" \((?:rw|data)\.(?:[^()]|\([^()]*\))*\)")
"""A remark in brackets that begins with a name of Python."""
_OTHER_NAMES = {"format": "data_format", "folder": "data_folder"}
_WITHOUT = {("rating", "None"): "implicit"}
"""Arguments that have an option of their own for one of their values."""
_WORDS = {"True": "true", "False": "false", "None": "none"}
_REGISTERED = {
    f"pass one of your own as the function itself, or {registry.HINT}": "import one of your own with --import MODULE",
    registry.HINT: "import one of your own with --import MODULE",
    "register its class before loading: rw.register": "name the module that registers it: --import MODULE",
}
_PAIR = re.compile(r"\{'(?P<name>\w+)': (?P<value>[^}]*)\}")


def advise(sentence: str, command: Any) -> str:
    """Write the hint of an error for the command that it ended; what is before the hint stays as it is."""
    before, mark, hint = sentence.partition("Hint: ")
    if not mark:
        return sentence
    for phrase, word in _REGISTERED.items():
        hint = hint.replace(phrase, word)
    options = {option.name: option for option in command.params if option.param_type_name == "option"}
    hint = hint.replace("allow it with force", "allow it with --force") if "force" in options else hint
    hint = _LEFT_OUT.sub(lambda match: _left_out(match, options), hint)
    hint = _FOR_PYTHON.sub("", hint)
    sentence = check.translated(before + mark + hint, lambda name, value: _option(name, value, options), "use")
    before, mark, hint = sentence.partition("Hint: ")
    hint, listed, names = hint.partition("choose one of ")  # what stands there was misspelt in a place of its own
    hint = _NAME.sub(lambda match: options[match[0]].opts[0] if match[0] in options else match[0], hint)
    return before + mark + hint + listed + names


def _option(name: str, value: str, options: Mapping[str, Any]) -> str | None:
    """Return the words of a command line for an argument, or None where it has no option."""
    if pair := _PAIR.fullmatch(value):
        option = options.get({"fixed": "set_"}.get(name, name))
        return (
            None if option is None else f"{option.opts[0]} '{pair['name']}={_WORDS.get(pair['value'], pair['value'])}'"
        )
    name = _WITHOUT.get((name, value), name)
    option = options.get(_OTHER_NAMES.get(name, name)) or options.get(f"{name}_")
    of_reading = _reading()
    if option is None or (name in of_reading and option.rich_help_panel != READING):  # explain calls an id --query
        general = "read" if name in of_reading else "set_"
        if general not in options or name in _elsewhere():
            return None
        return f"{options[general].opts[0]} {name}={_plain(value) or '…'}"
    if option.is_flag and value == "False":
        return str(option.secondary_opts[0]) if option.secondary_opts else f"no {option.opts[0]}"
    if option.is_flag:
        return str(option.opts[0])
    if value == "None":
        return f"{option.opts[0]} inf" if name == "minutes" else f"no {option.opts[0]}"
    word = _plain(value)
    return f"{option.opts[0]} {word if word in ('', '…') else shlex.quote(word)}".rstrip()


def _reading() -> set[str]:
    """Arguments of reading ranking data."""
    from rankwise.data.columns import roles
    from rankwise.data.reading import LETOR_OPTIONS

    return {*LETOR_OPTIONS, *roles(), "sort", "separator", "categories"} - {"progress"}


def _elsewhere() -> set[str]:
    """Arguments that no option sets: those of metrics and objectives, which expressions hold, and those of ``fit``."""
    from dataclasses import fields

    from rankwise.metrics.table import METRICS
    from rankwise.objectives.table import OBJECTIVES, WRAPPERS
    from rankwise.rankers.training.iterative import IterativeRanker

    makers: list[Any] = [*METRICS.values(), *OBJECTIVES.values(), *WRAPPERS.values()]
    arguments = inspect.signature(IterativeRanker.fit).parameters
    return {one.name for maker in makers for one in fields(maker)} | {*arguments}


def _plain(value: str) -> str:
    """Write a value of Python as a word: quotes and brackets are not needed, nor spaces between the items of a list."""
    if value.startswith("["):
        return ",".join(item.strip(" '\"") for item in value[1:-1].split(","))
    return _WORDS.get(value, value.strip("'\"[](){}"))


def _left_out(match: re.Match[str], options: Mapping[str, Any]) -> str:
    option = options.get(_OTHER_NAMES.get(match["name"], match["name"]))
    return match[0] if option is None else f"leave {option.opts[0]} out"
