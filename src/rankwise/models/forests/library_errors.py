"""What libraries of trees say when they refuse: a sentence for an error of ours, and no line on the screen."""

import contextlib
import os
import re
import sys
import tempfile
import threading
from collections.abc import Iterator

STANDARD_OUTPUT, _STANDARD_ERROR = 1, 2
_redirecting = {STANDARD_OUTPUT: threading.Lock(), _STANDARD_ERROR: threading.Lock()}


def first_line(failed: Exception) -> str:
    r"""Return what a library says, without its clock, its stack and its place in the source.

    >>> first_line(ValueError("Check failed: (max_bin) > (1) at /src/io/config.cpp, line 527 ."))
    'Check failed: (max_bin) > (1)'
    >>> first_line(ValueError("[12:00:00] /src/objective.cc:20: Check failed: labels must be whole.\nStack trace"))
    'labels must be whole'
    """
    line = str(failed).strip().partition("\n")[0]
    where = r"^.*?\.(?:cpp|cc|cu|h):\d+: (?:.*Check failed: )?| at \S+\.[ch]pp, line \d+ ?\.?$"
    return re.sub(where, "", line).rstrip(". ")


@contextlib.contextmanager
def without_lines(beginning: bytes | tuple[bytes, ...], stream: int = _STANDARD_ERROR) -> Iterator[None]:
    """Leave out lines that a library writes to a stream of the process itself; all others are written after it.

    For calls that take milliseconds: what other threads write meanwhile waits.
    """
    with _redirecting[stream], contextlib.ExitStack() as stack:
        try:
            screen = os.dup(stream)
        except OSError:  # there is none
            yield
            return
        stack.callback(os.close, screen)
        captured = stack.enter_context(tempfile.TemporaryFile())
        for file in (sys.stdout, sys.stderr):
            if file is not None:
                file.flush()
        os.dup2(captured.fileno(), stream)
        try:
            yield
        finally:
            os.dup2(screen, stream)
            captured.seek(0)
            for line in captured.read().splitlines(keepends=True):
                if line.strip() and not line.startswith(beginning):
                    os.write(stream, line)
