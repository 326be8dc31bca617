"""Command lines in the documentation: those of ``rankwise`` in blocks, in sentences and in the help of commands.

An HTML comment before a block, ``<!-- commands: not run, because … -->``, says why its commands are only parsed.
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "examples" / "README.md", *(ROOT / "docs").rglob("*.md")])

_FENCE = re.compile(
    r"(?m)^(?P<mark><!-- commands: not run, (?P<why>[^>]*) -->\n+)?```(?P<kind>\w*)\n(?P<text>.*?)^```", re.DOTALL
)
_INLINE = re.compile(r"`(rankwise [^`]*)`")
_SHELLS = ("", "console", "bash", "sh", "text")


@dataclass(frozen=True)
class Command:
    """A command line of a page."""

    words: tuple[str, ...]
    """After ``rankwise``."""
    line: int
    input: str = ""
    """The file that standard input comes from."""
    output: str = ""
    """The file that standard output goes to."""
    folder: str = ""
    """A folder that the line before it makes."""
    why_not: str = ""
    """Why it is not run."""


def blocks(page: Path) -> list[Command]:
    """Give the commands of a page's blocks, in their order."""
    text = page.read_text(encoding="utf-8")
    found, folder = [], ""
    for fence in _FENCE.finditer(text):
        if fence["kind"] not in _SHELLS:
            continue
        first = text.count("\n", 0, fence.start("text")) + 1
        for number, line in _lines(fence):
            if line.startswith("mkdir "):
                folder = line.split()[-1]
            else:
                found.append(replace(_command(line, first + number, fence["why"] or ""), folder=folder))
                folder = ""
    return found


def sentences(page: Path) -> list[Command]:
    """Give the commands that stand in sentences, unless something in them is left open."""
    text = _FENCE.sub(lambda fence: "\n" * fence[0].count("\n"), page.read_text(encoding="utf-8"))
    found = []
    for inline in _INLINE.finditer(text):
        line = " ".join(inline[1].split())
        if "…" not in line:
            found.append(_command(line, text.count("\n", 0, inline.start()) + 1, "it stands in a sentence"))
    return found


def _lines(fence: re.Match[str]) -> Iterator[tuple[int, str]]:
    """The command lines of a block: after a prompt where there are prompts; a line that ends in \\ goes on."""
    text = re.sub(r"\\\n\s*", " ", fence["text"])
    prompts = fence["kind"] == "console"
    for number, line in enumerate(text.split("\n")):
        if line.startswith("$ " if prompts else "rankwise "):
            plain = line.removeprefix("$ ")
            if plain.startswith(("rankwise ", "mkdir -p ")):
                yield number, plain


def _command(line: str, number: int, why: str) -> Command:
    line = re.sub(r"<\(zcat ([^)]*)\)", r"\1", line)  # every file may be packed as well
    words = shlex.split(line, comments=True)[1:]
    streams = {"<": "", ">": ""}
    for mark in streams:
        if mark in words:
            place = words.index(mark)
            streams[mark] = words[place + 1]
            del words[place : place + 2]
    return Command(tuple(words), number, streams["<"], streams[">"], why_not=why)
