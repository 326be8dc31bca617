"""What every command shares: one place where an error becomes a sentence, advice for that command, and an exit code."""

import errno
import inspect
import re
import shlex
import traceback
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from rankwise import check
from rankwise.cli import console, gone, help  # noqa: A004 (of commands)
from rankwise.cli.options import READING, Interface
from rankwise.data.columns import reading_arguments

PANELS = BEGIN, TRAIN, EVALUATE, EXPERIMENTS, DATA = (
    "Begin", "Train and use a ranker", "Evaluate and explain", "Experiments", "Data and recommendations"
)  # fmt: skip
"""Titles below which commands are listed, in this order."""
_WORDS = {"True": "true", "False": "false", "None": "none"}
_OPTION = re.compile(r"--[a-z-]+")


class Command(help.Helped, TyperCommand):
    """A command. Bad input exits with 2 and says its sentence; anything unforeseen exits with 1."""

    def __init__(self, *, function: Callable[..., None], **details: Any) -> None:
        self.function = function
        super().__init__(**details)
        self.callback = self._call

    @cached_property
    def interface(self) -> Interface:
        """Its arguments and options; made when they are needed, as this imports what they are declared by."""
        return Interface(self.function)

    @cached_property
    def _parsing(self) -> Any:
        def run(**words: Any) -> None:
            self.interface(**words)

        run.__signature__ = inspect.Signature(self.interface.parameters())  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in self.interface.parameters()}
        return get_command_from_info(CommandInfo(callback=run), pretty_exceptions_short=False, rich_markup_mode=None)

    @property
    def params(self) -> Any:
        """The parser's arguments and options."""
        return self._parsing.params

    @params.setter
    def params(self, value: Any) -> None:
        """Leave them as they are: they are those of the function."""

    def _call(self, **words: Any) -> Any:
        return self._parsing.callback(**words)

    def make_context(self, *arguments: Any, **details: Any) -> Any:
        """Begin to parse a line; what was registered since the last one may have other options."""
        for name in ("interface", "_parsing"):
            self.__dict__.pop(name, None)
        try:
            return super().make_context(*arguments, **details)
        except check.MissingExtraError as missing:
            console.problem(str(missing))
            raise typer.Exit(2) from None

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the words of a line, without options that are gone."""
        options = {word for one in self.params for word in one.opts}
        imports = [word for name in ctx.find_root().params.get("modules") or () for word in ("--import", name)]
        if instead := gone.line(ctx.command_path, [*args, *imports], options):
            console.problem(f"{instead[0]} is gone. Hint: type {instead[1]}")
            raise typer.Exit(2)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the words of the line of usage."""
        return [str(one.metavar) for one in self.get_params(ctx) if one.param_type_name == "argument"] + ["[OPTIONS]"]

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings(), console.reserve_stdout_for_json(bool(ctx.params.get("json"))):
                warnings.showwarning = self._warn
                return super().invoke(ctx)
        except KeyboardInterrupt as stopped:
            console.problem(advice(check.Message.of(stopped), self) or "interrupted")
            raise typer.Exit(130) from None
        except Exception as raised:
            if _speaks_for_itself(raised):
                raise
            debug = ctx.find_root().params.get("debug")
            if debug:
                traceback.print_exc()
            if _about_input(raised):
                console.problem(advice(_message(raised), self))
                raise typer.Exit(2) from None
            hint = "" if debug else "; run it again with --debug for the traceback"
            console.problem(f"unexpected {type(raised).__name__}: {raised}. This is a bug in rankwise{hint}.")
            raise typer.Exit(1) from None

    def _warn(self, message: Any, *_: object, **__: object) -> None:
        """Show a warning as a sentence with advice for this command, without the place in our code it comes from."""
        console.note(f"warning: {advice(check.Message.of(message), self)}")


class Group(help.Helped, TyperGroup):
    """A group of commands."""


def register(app: typer.Typer, panel: str | None, *commands: Callable[..., None]) -> None:
    """Add functions to the commands, below the title ``panel``; a docstring is the help page."""
    for command in commands:
        paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
        text = "\n\n".join(one if one.startswith("rankwise ") else " ".join(one.split()) for one in paragraphs)
        name, cls = command.__name__.rstrip("_").replace("_", "-"), partial(Command, function=command)
        app.command(name, cls=cast("Any", cls), help=text, rich_help_panel=panel)(lambda: None)


def grouped(title: str, *commands: Callable[..., None]) -> typer.Typer:
    """Return a group of commands, whose help begins with ``title``."""
    app = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode=None, help=title)
    register(app, None, *commands)
    return app


def register_group(app: typer.Typer, panel: str, name: str, title: str, *commands: Callable[..., None]) -> None:
    """Add a group of commands, whose help begins with ``title``, below the title ``panel``."""
    app.add_typer(grouped(title, *commands), name=name, rich_help_panel=panel)


def register_in(app: typer.Typer, group: str, *commands: Callable[..., None]) -> None:
    """Add functions to a group of commands that is there already."""
    [found] = [one.typer_instance for one in app.registered_groups if one.name == group]
    register(cast("typer.Typer", found), None, *commands)


def _about_input(raised: Exception) -> bool:
    """Whether an error is about what the user passed: of a TypeError, if we raised it, and say what to do."""
    expected = isinstance(raised, ValueError | OSError | check.MissingExtraError)
    return expected or (isinstance(raised, TypeError) and check.Message.of(raised).hint != "")


def _speaks_for_itself(raised: Exception) -> bool:
    """Whether an error is an exit, a usage error, which the parser shows, or a reader of our output who went away."""
    from_parser = type(raised).__module__.partition(".")[0] in ("typer", "click")
    return from_parser or (isinstance(raised, OSError) and raised.errno == errno.EPIPE)


def _message(raised: Exception) -> check.Message:
    """Return the message of an error; a bare operating system error becomes 'file: reason'."""
    if isinstance(raised, OSError) and raised.strerror:
        reason = raised.strerror.lower()
        return check.Message(f"{raised.filename}: {reason}" if raised.filename else reason, end="")
    return check.Message.of(raised) if str(raised) else check.Message(type(raised).__name__, end="")


def advice(message: check.Message, command: Any) -> str:
    """Return a sentence whose hint names the options of a command: "set label=…" is "use --label …"."""
    options = {name: one for name, one in command.interface.named(command.params) if one.param_type_name == "option"}
    words = {"--import", *(word for option in options.values() for word in option.opts)}
    message = message.rewritten(
        lambda name, value: _option(name, value, options), "use", lambda text: words.issuperset(_OPTION.findall(text))
    )
    return str(message)


def _option(name: str, value: str | None, options: Mapping[str, Any]) -> str | None:
    """Return the words of a command line for an argument, or None where it has no option."""
    from rankwise.data.io.reading import CSV_OPTIONS, LETOR_OPTIONS

    of_reading = name in {*LETOR_OPTIONS, *reading_arguments(), *CSV_OPTIONS} - {"progress"}
    option = options.get("label" if name == "more_labels" else name)
    if option is None or (of_reading and option.rich_help_panel != READING):
        general = options.get("read" if of_reading or name == "format" else "set")
        if value is None or general is None or name == "resume":  # which no ranker has
            return None
        return f"{general.opts[0]} {name}={_plain(value) or '…'}"
    first = str(option.opts[0])
    if option.is_flag and value == "False":
        return str(option.secondary_opts[0]) if option.secondary_opts else f"no {first}"
    if value == "None":
        return f"no {first}"
    word = "" if value is None or option.is_flag else _plain(value)
    return f"{first} {word if word in ('', '…') else shlex.quote(word)}".rstrip()


def _plain(value: str) -> str:
    """Write a value of Python as a word: quotes and brackets are not needed, nor spaces between the items of a list."""
    if value.startswith(("[", "(")):
        return ",".join(item.strip(" '\"") for item in value[1:-1].split(","))
    return _WORDS.get(value, value.strip("'\"{}") or value[1:-1])
