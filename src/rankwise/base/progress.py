"""The progress bar of everything that takes long: on standard error, where ``progress=`` or a terminal asks for it."""

import contextlib
import sys
from collections.abc import Callable, Iterator

Update = Callable[[float, str], None]
"""Called with how much is complete, and a line of text."""


def is_shown(progress: bool | None) -> bool:
    """Whether progress is shown: None shows it on terminals only."""
    return (sys.stderr is not None and sys.stderr.isatty()) if progress is None else progress


@contextlib.contextmanager
def bar(
    progress: bool | None,
    total: float | None,
    text: str = "",
    *,
    completed: float = 0.0,
    columns: tuple[str, ...] = ("bar", "text", "elapsed"),
    width: int = 40,
    transient: bool = False,
) -> Iterator[Update | None]:
    """Show a bar within the context and yield the function that moves it; None where nothing is shown.

    ``columns`` are among ``spinner, bar, count, percentage, bytes, text, elapsed`` and ``left``.
    """
    if not is_shown(progress):
        yield None
        return
    from rich import progress as rich
    from rich.console import Console

    parts: dict[str, list[rich.ProgressColumn]] = {
        "spinner": [rich.SpinnerColumn()],
        "bar": [rich.BarColumn(width)],
        "count": [rich.MofNCompleteColumn()],
        "percentage": [rich.TaskProgressColumn()],
        "bytes": [rich.DownloadColumn(), rich.TransferSpeedColumn()],
        "text": [rich.TextColumn("{task.description}")],
        "elapsed": [rich.TimeElapsedColumn()],
        "left": [rich.TextColumn("left"), rich.TimeRemainingColumn()],
    }
    shown = [part for column in columns for part in parts[column]]
    with rich.Progress(*shown, console=Console(stderr=True), transient=transient) as display:
        task = display.add_task(text, total=total)
        display.update(task, completed=completed)
        yield lambda done, line: display.update(task, completed=done, description=line)
