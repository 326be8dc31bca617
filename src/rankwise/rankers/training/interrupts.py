"""Ctrl-C during a training: it ends a round at once, and never comes in the middle of keeping what was learned."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType
from typing import Any, Self


class Interrupts:
    """While this is entered, Ctrl-C raises KeyboardInterrupt only inside :meth:`allowed`, and else waits for it.

    So what lies between two such places happens as a whole. Handlers of SIGINT other than Python's own are left alone,
    as are threads other than the main one, to which no signal comes.
    """

    def __init__(self) -> None:
        self.asked = False
        """Whether an interruption is waiting."""
        self._open = False
        self._before: Any = None

    def __enter__(self) -> Self:
        main = threading.current_thread() is threading.main_thread()
        if main and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Let interruptions in: one that waits, and those that come."""
        self._open = True
        try:
            if self.asked:
                self.asked = False
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._open:
            self.asked = True
            return
        self._open = False  # here, since the interruption may come in the middle of leaving the place where it may
        signal.default_int_handler(number, frame)
