"""Help pages: prose, examples, and options in groups, as plain text."""

from collections.abc import Sequence
from typing import Any

from rankwise.cli.options import ARGUMENTS, READING, RUNNING

_NAMED = {READING: "rankwise data info"}
"""Groups of which pages have only the names of options -> the command whose page explains them."""


def write(command: Any, ctx: Any, formatter: Any) -> None:
    """Write the page of a command or of a group of commands."""
    command.format_usage(ctx, formatter)
    text(command.help or "", formatter)
    groups: dict[str, list[Any]] = {ARGUMENTS: [], "": []}
    for one in command.get_params(ctx):
        argument = one.param_type_name == "argument"
        group = ARGUMENTS if argument else one.rich_help_panel or ""
        groups.setdefault(RUNNING if "--help" in one.opts else group, []).append(one)
    for title in sorted(groups, key=lambda title: (title in (READING, RUNNING), title == RUNNING)):
        options(title, groups[title], ctx, formatter)
    commands: dict[str, list[tuple[str, str]]] = {}
    for name, one in getattr(command, "commands", {}).items():
        commands.setdefault(one.rich_help_panel or "Commands", []).append((name, (one.help or "").split("\n")[0]))
    for title, rows in commands.items():
        with formatter.section(title):
            formatter.write_dl(rows)
    text(command.epilog or "", formatter)


def text(words: str, formatter: Any) -> None:
    """Write paragraphs to the width of the screen; lines of examples stay as they are."""
    for paragraph in words.split("\n\n") if words else ():
        formatter.write_paragraph()
        if paragraph.startswith("rankwise "):
            formatter.write("".join(f"  {line}\n" for line in paragraph.split("\n")))
        else:
            formatter.write_text(paragraph)


def options(title: str, listed: Sequence[Any], ctx: Any, formatter: Any) -> None:
    """Write a group of options, or only their names where another page explains them."""
    explained = _NAMED.get(title, ctx.command_path)
    if not listed:
        return
    if explained != ctx.command_path:
        with formatter.section(f"{title}, see '{explained} --help'"):
            formatter.write_text(" ".join(one.opts[0] for one in listed))
        return
    with formatter.section(title or "Options"):
        formatter.write_dl([(_name(one), _sentence(one)) for one in listed], col_max=24)


def _name(one: Any) -> str:
    if one.param_type_name == "argument":
        return str(one.metavar)
    words = ", ".join([*reversed(one.opts), *one.secondary_opts])
    return words if one.is_flag else f"{words} {one.metavar or ''}".rstrip()


def _sentence(one: Any) -> str:
    if "--help" in one.opts:
        return "Show this page."
    more = "required" if one.required else f"default: {one.show_default}" if isinstance(one.show_default, str) else ""
    return f"{one.help} [{more}]" if more and one.param_type_name == "option" else one.help or ""
