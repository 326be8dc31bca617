"""Tables with rules and colour, for terminals that are wide enough."""

from typing import TYPE_CHECKING

from rankwise import check
from rankwise.base import tables
from rankwise.base.tables import Table

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as Grid

_WIDE = 100_000  # columns: no margin


def width(content: Table, console: "Console") -> int:
    """Return the number of columns of the terminal that a table with rules needs."""
    return console.measure(grid(content), options=console.options.update(max_width=_WIDE)).maximum


def grid(content: Table) -> "Grid":
    """Lay a table out with rules; numbers line up also where some have marks beside them."""
    from rich import box
    from rich.markup import escape
    from rich.table import Table as Grid

    def plain(text: str) -> str:
        return escape("\n".join(map(check.printable, text.split("\n"))))

    rows = content.cells()
    laid_out = Grid(box=box.SIMPLE_HEAD, header_style="bold cyan")
    room = [max((tables.width(row[j].text) for row in rows), default=0) for j in range(len(content.header))]
    for name, side, least in zip(content.header, content.align, room, strict=True):
        laid_out.add_column(plain(name if side == "l" else name.rjust(least)), no_wrap=True)
    for row in rows:
        cells = []
        for cell, side, least in zip(row, content.align, room, strict=True):
            indent = " " * (least - tables.width(cell.text)) if side == "r" else ""
            text = f"[bold green]{plain(cell.text)}[/]" if cell.best else plain(cell.text)
            cells.append(indent + text + tables.raised(cell.marks))
        laid_out.add_row(*cells)
    return laid_out
