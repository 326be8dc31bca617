"""Say once, on standard error, that kernels are being compiled: seconds in which nothing else would be seen to happen.

Only a kernel that has to be compiled says so, not one that was kept from an earlier run; and only where a terminal
shows it or progress is wanted, and never where it is not.
"""

import contextlib
import sys
from collections.abc import Iterator

_said: list[bool] = []
_wanted: list[bool | None] = []  # of the whole process, as kernels are compiled in any thread


@contextlib.contextmanager
def telling(wanted: bool | None) -> Iterator[None]:
    """Let it be said or not inside a ``with`` block, None meaning on a terminal; the outermost block decides."""
    _wanted.append(wanted)
    try:
        yield
    finally:
        _wanted.pop()


def tell() -> None:
    """Say that compiling begins."""
    wanted = _wanted[0] if _wanted else None
    if _said or sys.stderr is None or not (sys.stderr.isatty() if wanted is None else wanted):
        return
    _said.append(True)
    print("rankwise: compiling kernels for their first use (seconds each; kept for later runs)", file=sys.stderr)
