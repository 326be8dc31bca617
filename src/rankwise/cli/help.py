"""Help pages: prose, examples, and options in groups, as plain text; a long page has one line for most options."""

import re
import sys
import textwrap
from collections.abc import Sequence
from typing import Any

from rankwise.cli.options import ARGUMENTS, READING, RUNNING

_NAMED = {READING: "rankwise data info"}
"""Groups of which pages have only the names of options -> the command whose page explains them."""
_LONG = 80  # lines of two screens
_COLUMN = 24  # of the names of options


class Helped:
    """A command, or a group of commands, with such a page."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the page, in letters that the terminal has."""
        write(self, ctx, formatter)
        encoding = sys.stdout.encoding or "utf-8"
        formatter.buffer = [text.encode(encoding, "replace").decode(encoding) for text in formatter.buffer]


def write(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the page of a command or of a group of commands."""
    command.format_usage(ctx, formatter)
    _text(command.help or "", formatter)
    commands: dict[str, list[tuple[str, str]]] = {}
    for name, one in getattr(command, "commands", {}).items():
        commands.setdefault(one.rich_help_panel or "Commands", []).append((name, (one.help or "").split("\n")[0]))
    groups: dict[str, list[Any]] = {ARGUMENTS: [], "": []}
    for one in command.get_params(ctx):
        group = ARGUMENTS if one.param_type_name == "argument" else one.rich_help_panel or ""
        groups.setdefault(RUNNING if "--help" in one.opts and not commands else group, []).append(one)
    groups = {title: groups[title] for title in sorted(groups, key=(READING, RUNNING).__contains__)}
    groups |= {RUNNING: groups.pop(RUNNING)} if RUNNING in groups else {}
    start = len(formatter.buffer)
    for brief in (False, True):
        del formatter.buffer[start:]
        for title, listed in groups.items():
            _options(title, listed, ctx, formatter, brief=brief and title not in (ARGUMENTS, ""))
        if "".join(formatter.buffer).count("\n") <= _LONG:
            break
    for title, rows in commands.items():
        with formatter.section(title):
            formatter.write_dl(rows)
    _text(command.epilog or "", formatter)


def _text(words: str, formatter: Any) -> None:
    """Write paragraphs to the width of the screen; lines of examples stay as they are."""
    for paragraph in words.split("\n\n") if words else ():
        formatter.write_paragraph()
        if paragraph.startswith("rankwise "):
            formatter.write("".join(f"  {_folded(line, formatter.width - 4)}\n" for line in paragraph.split("\n")))
        else:
            formatter.write(textwrap.fill(paragraph, formatter.width) + "\n")


def _folded(line: str, room: int) -> str:
    r"""Return an example in lines that fit and can be copied: a long one goes on before an option.

    >>> print(_folded("rankwise tune train.txt --folds 5 -o best.toml", 34))
    rankwise tune train.txt --folds 5 \
          -o best.toml
    """
    lines = [""]
    if len(line) >= room:  # what it does stands beside it, and is a comment where columns do not fit
        line = re.sub(" {2,}", "  # ", line)
    for part in re.split(r" (?=-)", line):
        if len(lines[-1] + part) >= room and lines[-1]:
            lines.append("")
        lines[-1] += f" {part}" if lines[-1] else part
    return " \\\n      ".join(lines)


def _options(title: str, listed: Sequence[Any], ctx: Any, formatter: Any, *, brief: bool) -> None:
    """Write a group of options, or only their names where another page explains them."""
    explained = _NAMED.get(title, ctx.command_path)
    if explained != ctx.command_path:
        with formatter.section(f"{title}, see '{explained} --help'"):
            names = " ".join(one.opts[0] for one in listed)
            lines = textwrap.wrap(names, formatter.width - 2, break_on_hyphens=False)
            formatter.write("".join(f"  {line}\n" for line in lines))
    elif listed:
        rows = [(_name(one, brief=brief), *_sentence(one)) for one in listed]
        room = formatter.width - _COLUMN - 6
        with formatter.section(title or "Options"):
            if brief:
                rows = [(name, *_cut(text, more, room)) for name, text, more in rows]
            formatter.write_dl([(name, text + more) for name, text, more in rows], col_max=_COLUMN)


def _cut(text: str, more: str, room: int) -> tuple[str, str]:
    """Return a text that fits on a line, with the default behind it where that leaves enough of the text."""
    more = more if len(text + more) <= room or len(more) <= room // 3 else ""
    return textwrap.shorten(text, room - len(more), placeholder=" …"), more


def _name(one: Any, *, brief: bool) -> str:
    if one.param_type_name == "argument":
        return str(one.metavar)
    names = ", ".join(sorted(one.opts, key=len))
    if one.secondary_opts:
        names = names.replace("--", "--[no-]", 1)
    full = names if one.is_flag else f"{names} {one.metavar or ''}".rstrip()
    if not brief or len(full) <= _COLUMN:
        return full
    short = str(one.opts[0])
    return short if one.is_flag else f"{short} {one.metavar if len(short + one.metavar) < _COLUMN else 'NAME'}"


def _sentence(one: Any) -> tuple[str, str]:
    """Return what an option is, and its default."""
    if "--help" in one.opts:
        return "Show this page.", ""
    more = "required" if one.required else one.show_default if isinstance(one.show_default, str) else ""
    return one.help or "", f" [{more}]" if more and one.param_type_name == "option" else ""
