"""Refusals of input, by the fields of their errors."""

import re
from collections.abc import Callable
from typing import Any

import pytest

from rankwise import check


class refusal:
    """Check that a ``with`` block raises an error with these fields, of what, got, where, hint and about.

    Fields that are not given may be anything, and so may the part of one where "…" stands.
    """

    raised: pytest.ExceptionInfo[Any]

    def __init__(self, kind: type[BaseException] = check.InputError, /, **fields: str) -> None:
        self.raises: Any = pytest.raises(kind)
        self.fields = fields

    def __enter__(self) -> pytest.ExceptionInfo[Any]:
        self.raised = self.raises.__enter__()
        return self.raised

    def __exit__(self, *raised: object) -> bool:
        expected: bool = self.raises.__exit__(*raised)
        if expected:
            message = check.Message.of(self.raised.value)
            found = {name: str(getattr(message, "plain" if name == "hint" else name)) for name in self.fields}
            wrong = {name: text for name, text in found.items() if not _is(self.fields[name], text)}
            assert not wrong, f"expected {self.fields}, not {wrong}"
        return expected


def refuses(call: Callable[[], object], kind: type[BaseException] = check.InputError, /, **fields: str) -> None:
    """Check that a call raises an error with these fields, see :class:`refusal`."""
    with refusal(kind, **fields):
        call()


def _is(words: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, words.split("…"))), text, re.DOTALL) is not None
