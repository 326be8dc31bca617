"""Hints of the library in the words of the command line: "set label=…" becomes "use --label …"."""

import re
import shlex
from collections.abc import Mapping
from typing import Any

from rankwise import registry
from rankwise.cli.options import READING

_ARGUMENT = re.compile(
    r"""(?:\b(?P<verb>set|pass|allow\ it\ with|with)\ )?
        \b(?P<name>[a-z_]+)=
        (?P<value>'[^']*'|"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^}]*\}|…|[\w.+-]*\w)?""",
    re.VERBOSE,
)
_LEFT_OUT = re.compile(r"\bleave (?P<name>[a-z_]+) out\b")
_NAME = re.compile(r"(?<![\w.-])[a-z]+(?:_[a-z]+)+(?![\w=(])")  # a word that only an argument looks like
_OTHER_NAMES = {"format": "data_format", "folder": "data_folder"}
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
    hint = _LEFT_OUT.sub(lambda found: _left_out(found, options), hint)
    depth = _depths(hint)
    hint = _ARGUMENT.sub(lambda found: _argument(found, options, depth), hint)
    return before + mark + _NAME.sub(lambda found: options[found[0]].opts[0] if found[0] in options else found[0], hint)


def _argument(found: re.Match[str], options: Mapping[str, Any], depth: list[int]) -> str:
    """Write one argument as an option; those of an expression, such as ndcg(gain=linear), are written as in Python."""
    if depth[found.start("name")]:
        return found[0]
    written = _option(found["name"], found["value"] or "", options)
    if written is None:
        return found[0]
    verb = {"set": "use ", "pass": "use ", None: ""}.get(found["verb"], f"{found['verb']} ")
    return verb + written


def _option(name: str, value: str, options: Mapping[str, Any]) -> str | None:
    """Give the words of a command line for an argument; None where it has no option."""
    if pair := _PAIR.fullmatch(value):
        option = options.get({"fixed": "set_"}.get(name, name))
        return (
            None if option is None else f"{option.opts[0]} '{pair['name']}={_WORDS.get(pair['value'], pair['value'])}'"
        )
    option = options.get(_OTHER_NAMES.get(name, name)) or options.get(f"{name}_")
    of_reading = _reading()
    if option is None or (name in of_reading and option.rich_help_panel != READING):  # explain calls an id --query
        general = "read" if name in of_reading else "set_"
        if general not in options or name in _of_expressions():
            return None
        return f"{options[general].opts[0]} {name}={_plain(value) or '…'}"
    if option.is_flag:
        return str(option.secondary_opts[0] if value == "False" and option.secondary_opts else option.opts[0])
    word = _plain(value)
    return f"{option.opts[0]} {word if word in ('', '…') else shlex.quote(word)}".rstrip()


def _reading() -> set[str]:
    """Arguments of reading ranking data."""
    from rankwise.data.formats import LETOR_OPTIONS
    from rankwise.data.frames import ROLES

    return {*LETOR_OPTIONS, *ROLES, "sort", "separator", "categories"} - {"progress"}


def _of_expressions() -> set[str]:
    """Arguments of metrics and objectives, which are written inside of their expressions."""
    from dataclasses import fields

    from rankwise.metrics.table import METRICS
    from rankwise.objectives.table import OBJECTIVES, WRAPPERS

    makers: list[Any] = [*METRICS.values(), *OBJECTIVES.values(), *WRAPPERS.values()]
    return {one.name for made in makers for one in fields(made)}


def _plain(value: str) -> str:
    """Write a value of Python as a word: quotes and brackets are not needed."""
    return _WORDS.get(value, value.strip("'\"[](){}"))


def _left_out(found: re.Match[str], options: Mapping[str, Any]) -> str:
    option = options.get(_OTHER_NAMES.get(found["name"], found["name"]))
    return found[0] if option is None else f"leave {option.opts[0]} out"


def _depths(text: str) -> list[int]:
    """How many brackets of a call are open at each letter.

    >>> _depths("a(b)c")
    [0, 0, 1, 1, 0]
    """
    depths, depth = [], 0
    for place, letter in enumerate(text):
        if letter == ")" and depth:
            depths.append(depth)
            depth -= 1
            continue
        depths.append(depth)
        if letter == "(" and (depth or text[place - 1 : place].isidentifier()):
            depth += 1
    return depths
