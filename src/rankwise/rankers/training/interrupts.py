"""Ctrl-C during a training: it ends a round at once, and never comes in the middle of keeping what was learned.

Nor does it come in the middle of a library's call: Python loses what is raised in a callback from C, where a library
then fails in its own way, or goes on, or ends the process.
"""

import contextlib
import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any, Self


@dataclass(kw_only=True, eq=False)
class Interrupts:
    """While this is entered, Ctrl-C raises KeyboardInterrupt only inside :meth:`allowed`, and else waits for it.

    So what lies between two such places happens as a whole. Handlers of SIGINT other than Python's own are left alone,
    as are threads other than the main one, to which no signal comes. ``held`` defers whatever handler there is until a
    library's call is over.
    """

    held: bool = False
    asked: bool = field(default=False, init=False)
    """Whether an interruption is waiting."""
    _open: bool = field(default=False, init=False)
    _raised: list[BaseException] = field(default_factory=list, init=False)
    _before: Any = field(default=None, init=False)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            handler = signal.getsignal(signal.SIGINT)
            if handler is signal.default_int_handler or (self.held and callable(handler)):
                self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
        if self.held and self.asked:
            self._deliver()

    @contextlib.contextmanager
    def allowed(self) -> Iterator[None]:
        """Allow interruptions inside: one that waits, and those that come."""
        self._raised.clear()
        self._open = True
        try:
            if self.asked:
                self._deliver()
            yield
        except Exception as error:
            if not self._raised or error is self._raised[0]:
                raise
            raise self._raised[0] from error  # it was lost, and something else failed for it
        finally:
            self._open = False
        if self._raised:  # lost, as while an object is freed
            raise self._raised[0]

    def _deliver(self) -> None:
        """Call the handler that was there before, for an interruption that was waiting."""
        self.asked = False
        self._before(signal.SIGINT, None)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if not self._open:
            self.asked = True
            return
        self._open = False  # here, since the interruption may come in the middle of leaving the place where it may
        try:
            self._before(number, frame)
        except BaseException as interruption:
            self._raised.append(interruption)
            raise
        self._open = True
