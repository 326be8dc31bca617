"""Examples in docstrings as code: Markdown takes lines that begin with >>> for quotes inside quotes."""

import re
from typing import Any

import griffe

_EXAMPLE = re.compile(r"(?m)^>>> .*\n?(?:^(?!\s*$).*\n?)*")
_BLANK = re.compile(r"(?m)^[ \t]*<BLANKLINE>$")


def fenced(text: str) -> str:
    """Put a fence around every example, from its first prompt to the next empty line; <BLANKLINE> becomes one."""
    return _EXAMPLE.sub(lambda example: f"```pycon\n{_BLANK.sub('', example[0].rstrip())}\n```\n", text)


class DoctestFences(griffe.Extension):
    """Rewrites docstrings as they are collected."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Fence the examples of anything that has a docstring."""
        if obj.docstring is not None:
            obj.docstring.value = fenced(obj.docstring.value)
