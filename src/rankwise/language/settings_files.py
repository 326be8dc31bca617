"""Small TOML or JSON files of settings, written by people: errors name the file, and the line where possible."""

import json
import math
import re
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin

from rankwise import check
from rankwise.base.arrays import Keywords

MOST_BYTES = 2**20
_WORDS = {
    str: ("a string", "strings", '"…"'),
    bool: ("true or false", "true or false", "true"),
    float: ("a number", "numbers", "0.5"),
    Any: ("a setting", "settings", "value"),
}


@dataclass(frozen=True, eq=False)
class SettingsFile:
    """The settings of a file, and their lines."""

    keys: Keywords
    file: str
    text: str

    def place(self, *path: str) -> str:
        r"""Return the line of a key: ``place("methods", "a")`` is that of ``a`` in the table ``methods``.

        >>> read('seed = 1\n[methods]\na = "xendcg"', "an experiment", "mine.toml").place("methods", "a")
        'line 3 of mine.toml'
        """
        table: list[str] = []
        for number, line in enumerate(self.text.split("\n"), 1):
            header = re.match(r"\s*\[{1,2}([^\[\]]+)\]", line)
            key = re.match(r"""\s*((?:[\w.-]|"[^"]*"|'[^']*')+)\s*=""", line)
            if header:
                table = _parts(header[1])
            place = [*table, *_parts(key[1])] if key and not header else table
            if (header or key) and place[: len(path)] == list(path):
                return f"line {number} of {self.file}"
        return self.place(*path[:-1]) if len(path) > 1 else self.file


def load(path: Path, what: str, *, as_json: bool | None = None, most: int = MOST_BYTES) -> SettingsFile:
    """Read a file: JSON by its name or ``as_json``, else TOML; ``what`` names its content in errors."""
    with path.open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise check.error(f"{what} may have {most} bytes at most", got="more", where=str(path))
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as broken:
        line = content.count(b"\n", 0, broken.start) + 1
        raise check.error(
            f"{what} must be UTF-8 text",
            got=f"the byte 0x{content[broken.start]:02x}",
            where=f"line {line} of {path}",
            hint="save the file as UTF-8",
        ) from None
    return read(text, what, str(path), as_json=path.suffix.lower() == ".json" if as_json is None else as_json)


def read(text: str, what: str, file: str, *, as_json: bool = False) -> SettingsFile:
    """Read the text of a file."""
    text = text.replace("\r\n", "\n")
    try:
        keys = json.loads(text) if as_json else tomllib.loads(text)
    except ValueError as broken:
        raise check.error(f"cannot read {what}", got=str(broken), where=file) from None
    except RecursionError:
        raise check.error(f"cannot read {what}", got="too many brackets inside each other", where=file) from None
    if not isinstance(keys, dict):
        raise check.error(f"{what} holds name = value pairs", got=type(keys).__name__, where=file)
    return SettingsFile(keys, file, text)


def check_keys(keys: Iterable[str], known: Iterable[str], what: str, place: Callable[[str], str]) -> None:
    """Raise if there is a key that ``what`` does not have."""
    known = list(known)
    for key in keys:
        if key not in known:
            hint = check.suggestion(key, known)
            raise check.error(f"unknown key in {what}", got=repr(key), where=place(key), hint=hint)


def check_type(key: str, value: object, kind: Any, where: str = "") -> None:
    """Raise unless the value of a key is of a type; a list is a ``tuple[…, ...]``, and a table a ``dict[str, …]``.

    >>> check_type("data", "synthetic", tuple[str, ...], "mine.toml")
    Traceback (most recent call last):
    rankwise.errors.InputError: data must be a list of strings: got 'synthetic' at mine.toml. Hint: write data = ["…"].
    """
    if not _fits(value, kind):
        words, _, example = _described(kind)
        raise check.error(f"{key} must be {words}", got=repr(value), where=where, hint=f"write {key} = {example}")


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value that was read from a file, or given in Python, is of a type."""
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Callable:
        return callable(value)
    if origin is tuple:
        return isinstance(value, list | tuple) and all(_fits(one, inner[0]) for one in value)
    if origin is dict:
        return isinstance(value, dict) and all(
            isinstance(key, str) and _fits(one, inner[1]) for key, one in value.items()
        )
    if kind is Any:  # a parameter of a ranker; TOML's dates, times, nan and inf are none
        if isinstance(value, list | tuple | dict):
            return all(_fits(one, Any) for one in (value.values() if isinstance(value, dict) else value))
        return value is None or isinstance(value, str | int) or (isinstance(value, float) and math.isfinite(value))
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return isinstance(value, kind)


def _described(kind: Any) -> tuple[str, str, str]:
    """Return a type in words, several such values in words, and an example in TOML."""
    if kind in _WORDS:
        return _WORDS[kind]
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):  # of which a file holds what TOML has
        either = [_described(one) for one in inner if one in _WORDS or get_origin(one) in (tuple, dict)]
        return " or ".join(words for words, _, _ in either), either[0][1], either[0][2]
    _, several, example = _described(inner[-1] if origin is dict else inner[0])
    if origin is dict:
        return f"a table of {several}", f"tables of {several}", f"{{name = {example}}}"
    return f"a list of {several}", f"lists of {several}", f"[{example}]"


def _parts(name: str) -> list[str]:
    """Return the parts of a dotted name, without quotes."""
    return [part.strip().strip("\"'") for part in re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", name)]
