"""Findings with a severity, about click logs and ranking data: their order, and their table."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, Self

from rankwise.base.tables import Table

_MARKS = {"error": "✗", "warning": "!", "note": "·"}


@dataclass(frozen=True)
class Diagnostic:
    """A sentence about data, with its severity."""

    severity: Literal["error", "warning", "note"]
    topic: str
    sentence: str

    @property
    def rank(self) -> int:
        """0 for an error, 1 for a warning, 2 for a note: the order of a page."""
        return list(_MARKS).index(self.severity)


class Findings(Table):
    """Rows of a severity and a text, which as text are a list with marks.

    >>> print(Findings.of([("error", "All labels are 0.")]).text())
    ✗ All labels are 0.
    """

    @classmethod
    def of(cls, marked: Iterable[tuple[str, str]], title: str = "") -> Self:
        """Return severities and texts as a table."""
        return cls(header=("", "finding"), rows=tuple(marked), align="ll", title=title)

    def text(self) -> str:
        """Write a list, each item with the mark of its severity."""
        texts = (f"{_MARKS[severity.text]} {text.text}" for severity, text in self.cells())
        lines = (line for text in texts for line in textwrap.wrap(text, 100, subsequent_indent="  "))
        return "\n".join([*([self.title] if self.title else []), *lines])
