"""Check a library's model file before the library sees it.

The libraries believe every number in a file: a node that does not exist, or a loop of nodes, ends the process or never
ends. Checksums find accidents; these checks find what somebody has written by hand. They are not complete: models of
strangers belong into a process of their own.
"""

import contextlib
from collections.abc import Iterator

from rankwise import check


class ForgedError(Exception):
    """Something in a file that no model has: what, and where."""

    def __init__(self, got: str, where: str = "") -> None:
        super().__init__(got, where)
        self.got, self.where = got, where


@contextlib.contextmanager
def refusing() -> Iterator[None]:
    """Turn what was found into the error that users see."""
    try:
        yield
    except ForgedError as found:
        raise check.error(
            "the model file is damaged or forged",
            got=found.got,
            where=found.where,
            hint="get the model again from whom you trust, or train anew",
        ) from None


@contextlib.contextmanager
def inside(where: str) -> Iterator[None]:
    """Say where something is."""
    try:
        yield
    except ForgedError as found:
        raise ForgedError(found.got, where) from None
