"""What every command shares: one place where an error becomes a sentence, advice for that command, and an exit code."""

import errno
import inspect
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from rankwise import check
from rankwise.cli import console
from rankwise.cli.advice import advise


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
            console.problem(advise(str(stopped), self) or "interrupted")
            raise typer.Exit(130) from None
        except Exception as raised:
            if _speaks_for_itself(raised):
                raise
            debug = ctx.find_root().params.get("debug")
            if debug:
                traceback.print_exc()
            if _about_input(raised):
                console.problem(advise(_sentence(raised), self))
                raise typer.Exit(2) from None
            hint = "" if debug else "; run it again with --debug for the traceback"
            console.problem(f"unexpected {type(raised).__name__}: {raised}. This is a bug in rankwise{hint}.")
            raise typer.Exit(1) from None

    def _warn(self, message: Warning | str, *_: object, **__: object) -> None:
        """Show a warning as a sentence with advice for this command, without the place in our code it comes from."""
        console.note(f"warning: {advise(str(message), self)}")


class Group(TyperGroup):
    """A group of commands."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help page."""
        _without_types(self, ctx)
        super().format_help(ctx, formatter)


def register(app: typer.Typer, name: str, command: Callable[..., None], panel: str | None = None) -> None:
    """Add a function to the commands; its docstring is the help page, ``panel`` where the others list it."""
    app.command(name, cls=Command, help=page(command), rich_help_panel=panel)(command)


def _without_types(command: Any, ctx: Any) -> None:
    """Keep help from printing <bool> beside a switch, which takes no value, and <str> beside an argument's name."""
    for one in command.get_params(ctx):
        if one.param_type_name == "argument" or getattr(one, "is_flag", False):
            one.display_type_rich = lambda ctx: None  # noqa: ARG005 (as it is called)


def page(command: Callable[..., object]) -> str:
    r"""Make a help page of a docstring: prose flows to the width of the screen, lines of examples stay lines.

    >>> def command():
    ...     '''First
    ...     sentence.
    ...
    ...     [cyan]an example[/cyan]
    ...     [cyan]another[/cyan]
    ...     '''
    >>> page(command)
    'First sentence.\n\n[cyan]an example[/cyan]\n[cyan]another[/cyan]'
    """
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(text if text.startswith("[cyan]") else " ".join(text.split()) for text in paragraphs)


def _about_input(raised: Exception) -> bool:
    """Whether an error is about what the user passed: of a TypeError, if we raised it, and say what to do."""
    expected = isinstance(raised, ValueError | OSError | check.MissingExtraError)
    return expected or (isinstance(raised, TypeError) and "Hint: " in str(raised))


def _speaks_for_itself(raised: Exception) -> bool:
    """Whether an error is an exit, a usage error, which the parser shows, or a reader of our output who went away."""
    from_parser = type(raised).__module__.partition(".")[0] in ("typer", "click")
    return from_parser or (isinstance(raised, OSError) and raised.errno == errno.EPIPE)


def _sentence(raised: Exception) -> str:
    """Return the sentence of an error; a bare operating system error becomes 'file: reason'."""
    if isinstance(raised, OSError) and raised.strerror:
        return f"{raised.filename}: {raised.strerror.lower()}" if raised.filename else raised.strerror.lower()
    return str(raised) or type(raised).__name__
