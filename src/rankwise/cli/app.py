"""The root of the command line: its help, its version and its commands."""

import importlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from rankwise._version import __version__
from rankwise.base import caches, hooks
from rankwise.cli import console, data
from rankwise.cli.command import BEGIN, DATA, EVALUATE, PANELS, TRAIN, Group, register
from rankwise.cli.evaluate import evaluate, history
from rankwise.cli.options import Only
from rankwise.cli.running import Running
from rankwise.cli.train import cross_validate, train

EPILOG = (
    "Exit codes: 0 done, 1 unexpected error, 2 bad usage or bad input, 3 a check fails or an alarm, 4 cannot tell, "
    "130 interrupted with Ctrl-C.\n\n"
    "Scripts: --json prints one JSON document on standard output and nothing else; messages and progress "
    "go to standard error. Nothing that exists is overwritten without --force. NO_COLOR=1 turns colours off."
)


class Commands(Group):
    """The commands."""

    silent = False
    """Whether nothing but the result and problems may be said."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Accept ``--debug`` and ``--import`` wherever they stand, and see early whether others want silence."""
        self.silent = "--json" in args or "--no-progress" in args
        if "--debug" in args:
            args = ["--debug", *(word for word in args if word != "--debug")]
        return super().parse_args(ctx, imports_first(args))

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with caches.announce_compiling(False if self.silent else None):
            return super().invoke(ctx)


_IMPORT = "--import"


def imports_first(words: Sequence[str]) -> list[str]:
    """Move ``--import MODULE``, wherever it stands on a command line, before the command.

    >>> imports_first(["train", "data.txt", "--import", "mine", "-o", "model"])
    ['--import', 'mine', 'train', 'data.txt', '-o', 'model']
    """
    front: list[str] = []
    rest: list[str] = []
    left = iter(words)
    for word in left:
        if word == _IMPORT:
            front += [word, *[value for value in [next(left, None)] if value is not None]]
        elif word.startswith(f"{_IMPORT}="):
            front.append(word)
        else:
            rest.append(word)
    return front + rest


def _import(modules: Sequence[str] | None) -> Sequence[str] | None:
    """Import what the user named: a module, also of the current folder, or a file that ends in ``.py``."""
    for name in modules or ():
        path = Path(name)
        is_file = path.suffix == ".py"
        folder = str(path.parent.resolve()) if is_file else str(Path.cwd())
        if folder not in sys.path:
            sys.path.insert(0, folder)  # processes that this one starts look there, too
        try:
            importlib.import_module(path.stem if is_file else name)
        except Exception as failed:  # whatever a module of the user's raises
            console.problem(f"cannot import {name}: {type(failed).__name__}: {failed}")
            raise typer.Exit(2) from None
    return modules


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"rankwise {__version__}")
        raise typer.Exit


HELP = """Learning to rank: make and read data, train and tune rankers, evaluate and compare them.

rankwise demo                                        begin here
rankwise data info train.txt                         what is in a file?
rankwise train train.txt --valid valid.txt -o model  train a ranker
rankwise evaluate test.txt model                     how good is it?
rankwise compare test.txt old=a.txt new=model        better, or luck?
rankwise explain model test.txt --id 7               why this order?
rankwise reproduce --list                            papers' experiments

'rankwise COMMAND --help' says more about each, with examples."""

app = typer.Typer(
    cls=Commands,
    help=HELP,
    epilog=EPILOG,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere on the line.")
    ] = False,
    modules: Annotated[
        list[str] | None,
        typer.Option(
            "--import",
            metavar="MODULE",
            envvar="RANKWISE_IMPORT",
            callback=_import,
            help="Import a Python module, or a file ending in .py, that registers objectives, metrics and rankers of "
            "your own; may be repeated, and stand anywhere on the line.",
        ),
    ] = None,
) -> None:
    """Answer the options that come before a command."""


def versions(*, running: Annotated[Running, Only("json")]) -> None:
    """Print versions, caches, devices, and which extras are missing: for a report of a bug.

    rankwise versions
    rankwise versions --json
    """
    from rankwise.base import versions as found

    document = found.versions()
    running.show(document, ("", found.table(document)))


register(
    app, TRAIN, train.train, cross_validate.cross_validate, train.predict, train.objectives,
)  # fmt: skip
register(app, BEGIN, versions)
register(app, EVALUATE, evaluate.evaluate, evaluate.compare, history.history)
app.add_typer(data.app, name="data", rich_help_panel=DATA)
for _wing in hooks.places("commands"):
    hooks.find("commands", _wing)(app)
app.registered_commands.sort(key=lambda command: PANELS.index(command.rich_help_panel))
app.registered_groups.sort(key=lambda group: PANELS.index(group.rich_help_panel))
