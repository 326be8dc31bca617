"""What every command shares: one place where an error becomes a sentence, advice for that command, and an exit code."""

import errno
import inspect
import re
import shlex
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import is_dataclass
from itertools import chain
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from rankwise import check
from rankwise.cli import console, data_options
from rankwise.cli.options import READING, RUNNING, SHARED, described
from rankwise.data.columns import reading_arguments

_OTHER_NAMES = {"format": "data_format", "folder": "data_folder", "more_labels": "label"}
_WORDS = {"True": "true", "False": "false", "None": "none"}
_OPTION = re.compile(r"--[a-z-]+")


class Command(TyperCommand):
    """A command. Bad input exits with 2 and says its sentence; anything unforeseen exits with 1."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _without_types(self, ctx)
        super().format_help(ctx, formatter)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        try:
            with warnings.catch_warnings(), console.documents_alone(bool(ctx.params.get("json"))):
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


class Group(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _without_types(self, ctx)
        super().format_help(ctx, formatter)


def register(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    panel: str | None = None,
    *,
    shared: Mapping[str, Any] = SHARED,
    leave_out: Sequence[str] = (),
) -> None:
    """Add a function to the commands, below the title ``panel`` of the list of all.

    Its docstring is the help page and describes its options, but for ``shared`` ones. A parameter ``reading`` has the
    options of reading, without those that the command calls something else, as ``explain --query ID`` does. Another
    parameter that is a dataclass has an option for each of its fields.
    """
    text, options = page(command)
    options = {**data_options.OPTIONS, **shared, **options}
    signature = inspect.signature(command).parameters
    bundles: dict[str, Any] = {
        name: one.annotation for name, one in signature.items() if is_dataclass(one.annotation) and name != "reading"
    }
    fields = {name: inspect.signature(bundle).parameters for name, bundle in bundles.items()}
    parameters = []
    for parameter in chain(*(fields[name].values() if name in fields else [one] for name, one in signature.items())):
        kind = parameter.annotation
        if not hasattr(kind, "__metadata__") and parameter.name != "reading":
            kind = Annotated[kind, options[parameter.name.rstrip("_")]]
        parameters.append(parameter.replace(annotation=kind, kind=inspect.Parameter.KEYWORD_ONLY))
    names = {one.name for one in parameters}
    added = data_options.parameters(options, {*names, *leave_out}) if "reading" in signature else []
    parameters = [*(one for one in parameters if one.name != "reading"), *added]
    parameters.sort(key=lambda one: (None, READING, RUNNING).index(one.annotation.__metadata__[0].rich_help_panel))

    def run(**words: Any) -> None:
        values = {one.name: words.pop(one.name) for one in added}
        for name, bundle in bundles.items():
            words[name] = bundle(**{field: words.pop(field) for field in fields[name]})
        command(**words, **({"reading": data_options.Reading.of(values)} if added else {}))

    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    app.command(name, cls=Command, help=text, rich_help_panel=panel)(run)


def grouped(
    title: str,
    commands: Mapping[str, Any],
    shared: Mapping[str, Any] = SHARED,
    leave_out: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> typer.Typer:
    """Return a group of commands, whose help begins with ``title``; ``leave_out`` is by command."""
    app = typer.Typer(cls=Group, no_args_is_help=True, rich_markup_mode="rich", help=title)
    for name, command in commands.items():
        register(app, name, command, shared=shared, leave_out=leave_out.get(name, ()))
    return app


def _without_types(command: Any, ctx: Any) -> None:
    """Keep help from printing <bool> beside a switch, which takes no value, and <str> beside an argument's name."""
    for one in command.get_params(ctx):
        if one.param_type_name == "argument" or getattr(one, "is_flag", False):
            one.display_type_rich = lambda ctx: None  # noqa: ARG005 (as it is called)


def page(command: Callable[..., object]) -> tuple[str, dict[str, Any]]:
    r"""Read a docstring: the help page, where prose flows to the width of the screen, and the options.

    >>> def command():
    ...     '''First
    ...     sentence.
    ...
    ...     [cyan]an example[/cyan]
    ...     [cyan]another[/cyan]
    ...
    ...     --option X: An option.
    ...     '''
    >>> text, options = page(command)
    >>> text, options["option"].help
    ('First sentence.\n\n[cyan]an example[/cyan]\n[cyan]another[/cyan]', 'An option.')
    """
    text, mark, options = inspect.cleandoc(command.__doc__ or "").partition("\n\n-")
    paragraphs = (text if text.startswith("[cyan]") else " ".join(text.split()) for text in text.split("\n\n"))
    return "\n\n".join(paragraphs), described(f"-{options}") if mark else {}


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
    """Return the sentence of a message whose hint names the options of a command: "set label=…" is "use --label …"."""
    options = {option.name: option for option in command.params if option.param_type_name == "option"}
    words = {"--import", *(word for option in options.values() for word in option.opts)}
    message = message.rewritten(
        lambda name, value: _option(name, value, options), "use", lambda text: words.issuperset(_OPTION.findall(text))
    )
    return str(message)


def _option(name: str, value: str | None, options: Mapping[str, Any]) -> str | None:
    """Return the words of a command line for an argument, or None where it has no option."""
    from rankwise.data.reading import CSV_OPTIONS, LETOR_OPTIONS

    of_reading = name in {*LETOR_OPTIONS, *reading_arguments(), *CSV_OPTIONS} - {"progress"}
    option = options.get(_OTHER_NAMES.get(name, name)) or options.get(f"{name}_")
    if option is None or (of_reading and option.rich_help_panel != READING):  # explain calls an id --query
        general = options.get("read" if of_reading else "set_")
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
