"""What libraries of trees say when they refuse: it becomes an error of ours, and no line of theirs on the screen."""

import contextlib
import functools
import os
import re
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from rankwise import check

Method = TypeVar("Method", bound=Callable[..., Any])

_NAMES = {"lightgbm": "LightGBM", "xgboost": "XGBoost"}
_STANDARD_ERROR = 2
_redirecting = threading.Lock()


def refused(method: Method) -> Method:
    """Decorate a method to raise what a library refuses as an error about input."""

    @functools.wraps(method)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            return method(*arguments, **options)
        except Exception as failed:
            name = _NAMES.get(type(failed).__module__.partition(".")[0])
            if name is None:
                raise
            hint = f"look at the parameters of {name} itself, and at the data"
            raise check.error(f"{name} cannot train so", got=first_line(failed), hint=hint) from None

    return cast("Method", run)


def first_line(failed: Exception) -> str:
    """What a library says, without its clock, its stack and its place in the source.

    >>> first_line(ValueError("Check failed: (max_bin) > (1) at /src/io/config.cpp, line 527 ."))
    'Check failed: (max_bin) > (1)'
    """
    line = str(failed).strip().partition("\n")[0]
    return re.sub(r"^\[[\d:]+\] \S+: | at \S+\.[ch]pp, line \d+ ?\.?$", "", line).rstrip(". ")


@contextlib.contextmanager
def without_lines(beginning: bytes) -> Iterator[None]:
    """Leave out lines that a library writes to the process's standard error itself; all others are written after it.

    For calls that take milliseconds: what other threads write meanwhile waits.
    """
    with _redirecting, contextlib.ExitStack() as stack:
        try:
            screen = os.dup(_STANDARD_ERROR)
        except OSError:  # there is none
            yield
            return
        stack.callback(os.close, screen)
        captured = stack.enter_context(tempfile.TemporaryFile())
        if sys.stderr is not None:
            sys.stderr.flush()
        os.dup2(captured.fileno(), _STANDARD_ERROR)
        try:
            yield
        finally:
            os.dup2(screen, _STANDARD_ERROR)
            captured.seek(0)
            for line in captured.read().splitlines(keepends=True):
                if line.strip() and not line.startswith(beginning):
                    os.write(_STANDARD_ERROR, line)
