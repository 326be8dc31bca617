"""Steps of a command: a bar that moves from one to the next."""

from collections.abc import Callable

from rankwise import check
from rankwise.base.progress import Update


class Steps:
    """A bar of equal steps; a step that knows how far it is may say so. ``note`` is called with each step."""

    def __init__(self, update: Update | None, note: Callable[[str], None] | None = None) -> None:
        self.update, self.note, self.done, self.text = update, note, -1, ""

    def step(self, text: str) -> None:
        """Begin the next step."""
        self.text, self.done = check.shown(text), self.done + 1
        if self.note is not None:
            self.note(self.text)
        self.part(0, 1)

    def part(self, done: int, total: int) -> None:
        """Show how much of the current step is done."""
        if self.update is not None:
            from rich.markup import escape

            self.update(self.done + done / max(total, 1), escape(check.printable(self.text)))
