"""Small TOML or JSON files of settings, written by people: errors name the file, and the line where possible."""

import json
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path

from rankwise import check
from rankwise.arrays import Keywords

MOST_BYTES = 2**20


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
            here = [*table, *_parts(key[1])] if key and not header else table
            if (header or key) and here[: len(path)] == list(path):
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


def _parts(name: str) -> list[str]:
    """Return the parts of a dotted name, without quotes."""
    return [part.strip().strip("\"'") for part in re.findall(r"""[\w-]+|"[^"]*"|'[^']*'""", name)]
