"""Findings with a severity, about click logs and ranking data: how they are ordered and printed."""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

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


def lines(marked: Iterable[tuple[str, str]]) -> list[str]:
    """Return the lines of a page from severities and texts.

    >>> lines([("error", "All labels are 0.")])
    ['✗ All labels are 0.']
    """
    texts = (f"{_MARKS[severity]} {text}" for severity, text in marked)
    return [line for text in texts for line in textwrap.wrap(text, 100, subsequent_indent="  ")]
