"""Output to the terminal: tables, notes, problems and progress. Results go to standard output, the rest to stderr.

On a terminal there is colour (unless ``NO_COLOR`` is set); in a pipe there is plain text of any width.
"""

import contextlib
import sys
import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

from rankwise import check
from rankwise.base.progress import bar
from rankwise.base.steps import Steps as Steps
from rankwise.base.tables import Table, raised, width
from rankwise.statistics.result import as_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

WIDE = 100_000  # a pipe has no right margin
_documents: "list[TextIO]" = []  # where documents go, while all else goes to standard error


def terminal(*, stderr: bool = False) -> "Console":
    """Make a console for this moment's standard output or error."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    return Console(file=stream, highlight=False, width=None if stream.isatty() else WIDE)


def table(content: Table, *, title: str = "", narrow: Table | None = None) -> None:
    """Print a table: with rules and colour on a terminal that is wide enough, else as aligned plain text.

    On a terminal ``narrow`` takes its place where that fits, and the whole does not.
    """
    console = terminal()
    if title:
        console.print(f"\n[bold]{plain(title)}[/]")
    for one in filter(None, (content, narrow) if console.is_terminal else ()):
        laid_out = grid(one)
        if console.measure(laid_out, options=console.options.update(max_width=WIDE)).maximum <= console.width:
            console.print(laid_out)
            for line in one.notes:
                console.print(plain(line), style="dim")
            return
    console.print(plain(content.text()), soft_wrap=True)


def grid(content: Table) -> "Grid":
    """Lay a table out with rules; numbers line up also where some have marks beside them."""
    from rich import box
    from rich.table import Table as Grid

    rows = content.cells()
    laid_out = Grid(box=box.SIMPLE_HEAD, header_style="bold cyan")
    room = [max((width(row[j].text) for row in rows), default=0) for j in range(len(content.header))]
    for name, side, least in zip(content.header, content.align, room, strict=True):
        laid_out.add_column(plain(name if side == "l" else name.rjust(least)), no_wrap=True)
    for row in rows:
        cells = []
        for cell, side, least in zip(row, content.align, room, strict=True):
            indent = " " * (least - width(cell.text)) if side == "r" else ""
            text = f"[bold green]{plain(cell.text)}[/]" if cell.best else plain(cell.text)
            cells.append(indent + text + raised(cell.marks))
        laid_out.add_row(*cells)
    return laid_out


def document(value: object) -> None:
    """Print one JSON document; a number that is missing or not finite becomes null."""
    (_documents[-1] if _documents else sys.stdout).write(as_json(value))


@contextlib.contextmanager
def documents_alone(enabled: bool) -> Iterator[None]:
    """With ``--json``, send what libraries print to standard error: standard output is for the document."""
    if not enabled:
        yield
        return
    _documents.append(sys.stdout)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _documents.pop()


def say(text: str, *, wrap: bool = True) -> None:
    """Print a paragraph that belongs to the result; a line that is to be copied is not wrapped."""
    terminal().print(plain(text), soft_wrap=not wrap)


def note(text: str) -> None:
    """Print a note, which is not a result."""
    terminal(stderr=True).print(plain(text), soft_wrap=True)


@contextlib.contextmanager
def notes_after() -> Iterator[list[str]]:
    """Collect the warnings of a training, for notes after its result; other warnings are shown at once."""
    held_back: list[str] = []
    show = warnings.showwarning

    def hold(message: Any, category: Any, *place: Any, **more: Any) -> None:
        if issubclass(category, RuntimeWarning):
            held_back.append(str(message))
        else:
            show(message, category, *place, **more)

    with warnings.catch_warnings():
        warnings.simplefilter("always", RuntimeWarning)
        warnings.showwarning = hold
        yield held_back


def problem(text: str) -> None:
    """Print an error."""
    terminal(stderr=True).print(f"[bold red]error[/]: {plain(text)}", soft_wrap=True)


def plain(text: str) -> str:
    """Keep square brackets in a text from being read as markup, and control characters from the terminal."""
    from rich.markup import escape

    return escape("\n".join(map(check.printable, text.split("\n"))))


@contextlib.contextmanager
def progress(total: int | None, enabled: bool | None = None) -> Iterator[Steps]:
    """Show a bar of ``total`` steps (None: unknown) on a terminal, elsewhere a line per step if ``enabled``."""
    shown = enabled is not False and terminal(stderr=True).is_terminal
    columns = ("spinner", "text", "bar", "percentage", "elapsed")
    with bar(shown, total, columns=columns, transient=True) as update:
        yield Steps(update, note if enabled and not shown else None)
