"""What refuses input, by the fields of its error."""

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, TypeVar, overload

import pytest

from rankwise import check

_Error = TypeVar("_Error", bound=BaseException)


@overload
def refusal(**fields: str) -> AbstractContextManager[pytest.ExceptionInfo[check.InputError], bool]: ...


@overload
def refusal(kind: type[_Error], /, **fields: str) -> AbstractContextManager[pytest.ExceptionInfo[_Error], bool]: ...


def refusal(kind: type[BaseException] = check.InputError, /, **fields: str) -> Any:
    """Check that a ``with`` block raises an error with these fields, of what, got, where, hint and about.

    Fields that are not given may be anything, and so may the part of one where "…" stands.
    """
    return _refusal(kind, fields)


@contextlib.contextmanager
def _refusal(kind: type[BaseException], fields: dict[str, str]) -> Iterator[pytest.ExceptionInfo[BaseException]]:
    with pytest.raises(kind) as raised:
        yield raised
    message = check.Message.of(raised.value)
    found = {"what": message.what, "got": message.got, "where": message.where, "hint": message.plain}
    found["about"] = message.about
    wrong = {name: found[name] for name, words in fields.items() if not _is(words, str(found[name]))}
    assert not wrong, f"expected { ({name: fields[name] for name in wrong}) }, not {wrong}"


def refuses(call: Callable[[], object], kind: type[BaseException] = check.InputError, /, **fields: str) -> None:
    """Check that a call raises an error with these fields, see :func:`refusal`."""
    with refusal(kind, **fields):
        call()


def _is(words: str, text: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, words.split("…"))), text, re.DOTALL) is not None
