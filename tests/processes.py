"""Other processes that tests start: what they find there, and how long a test waits for them."""

import os
import socket
import time
from collections.abc import Callable
from pathlib import Path

HANG = 900.0
"""Seconds after which waiting is given up: no machine is so slow, so something hangs."""


def environment(**changes: str) -> dict[str, str]:
    """This process's environment, in which another Python finds the same package, and these tests beside it."""
    paths = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths)} | changes


def free_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


def wait_until(done: Callable[[], bool]) -> None:
    """Return as soon as ``done()`` holds, however long the machine takes."""
    given_up = time.monotonic() + HANG
    while not done():
        assert time.monotonic() < given_up, "nothing happens any more"
        time.sleep(0.05)
