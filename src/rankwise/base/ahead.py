"""Compile ahead: while the first process after installation reads its data, a second one compiles what training calls.

Numba compiles one kernel at a time in a process, and most of the work is Python's. The second process trains on a few
rows, which leaves its kernels in the cache. It is silent, and ends by itself; without it everything works, and waits
longer. ``RANKWISE_COMPILE_AHEAD=0`` switches it off.

It cannot know the objective, and compiles the default. When training begins, the first process writes its objective
into the note, the file that both know: with another one it compiles that itself, and leaves the metric to the second.
"""

import atexit
import contextlib
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_SWITCH = "RANKWISE_COMPILE_AHEAD"
_OFF, _HELPER = "0", "helper"  # what the variable says to the second process
_COMMAND = "from rankwise.rankers.training.ahead import train_on_little; train_on_little({!r})"
_MODULES = ("rankwise.data.", "rankwise.metrics.", "rankwise.objectives.", "rankwise.wings.datasets.")
"""Where the kernels are that announce a training; a service, which scores only, starts no other process."""
_LONGEST = 60.0
"""Seconds after which the second process is no longer waited for."""

_tried: list[bool] = []
helpers: list[subprocess.Popen[bytes]] = []
"""The second process, if this one started one."""
_notes: list[tuple[Path, str]] = []
"""Where the first process writes its objective; in the second one with the objective that is compiled here."""


class OtherObjectiveError(Exception):
    """The first process trains another objective than is being compiled here."""


def start(module: str, folder: Path, environment: str) -> None:
    """Start the second process when a kernel of ``module`` is missing, once for a cache folder and environment."""
    if _tried or not module.startswith(_MODULES):
        return
    _tried.append(True)
    is_python = Path(sys.executable or "").name.startswith("python")
    if os.environ.get(_SWITCH) in (_OFF, _HELPER) or not is_python or _cores() < 2 or multiprocessing.parent_process():
        return
    path = os.pathsep.join(filter(None, sys.path))
    variables = {**os.environ, _SWITCH: _HELPER, "NUMBA_CACHE_DIR": str(folder.parent), "PYTHONPATH": path}
    note = folder / f"ahead-{environment}"
    command = [sys.executable, "-P", "-c", _COMMAND.format(str(note))]
    nothing, no_window = subprocess.DEVNULL, getattr(subprocess, "CREATE_NO_WINDOW", 0)
    with contextlib.suppress(OSError):  # it was started before, or nothing can be written, or there is no memory
        folder.mkdir(parents=True, exist_ok=True)
        note.touch(exist_ok=False)
        helper = subprocess.Popen(  # noqa: S603 (our own)
            command, env=variables, stdin=nothing, stdout=nothing, stderr=nothing, creationflags=no_window
        )
        helpers.append(helper)
        _notes.append((note, ""))
        atexit.register(_let_go, helper)


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _let_go(helper: "subprocess.Popen[bytes]") -> None:
    """Leave a process that may go on after this one, without a warning about it."""
    if helper.poll() is None:
        helper.returncode = 0


def tell(objective: str) -> bool:
    """Tell the second process what is trained here; returns whether there is one."""
    if not helpers or helpers[0].poll() is not None:
        return False
    with contextlib.suppress(OSError):
        _notes[0][0].write_text(objective, encoding="utf-8")
    return True


@contextlib.contextmanager
def only_for(objective: str, note: str) -> Iterator[None]:
    """In the second process, compile no kernel in the ``with`` block once the first one trains another objective."""
    _notes.append((Path(note), objective))
    try:
        yield
    finally:
        _notes.clear()


def wait_for(path: Path) -> None:
    """Wait for a kernel that the second process is compiling now."""
    end = time.monotonic() + _LONGEST
    while helpers and _busy(path).exists() and helpers[0].poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def claim(path: Path) -> None:
    """In the second process, say that a kernel is being compiled."""
    if os.environ.get(_SWITCH) == _HELPER:
        for note, objective in _notes:
            if note.is_file() and note.read_text(encoding="utf-8") not in ("", objective):
                raise OtherObjectiveError
        with contextlib.suppress(OSError):
            path.parent.mkdir(parents=True, exist_ok=True)
            _busy(path).touch()


@contextlib.contextmanager
def released(path: Path) -> Iterator[None]:
    """End the claim with the ``with`` block, in which the kernel is saved."""
    try:
        yield
    finally:
        if os.environ.get(_SWITCH) == _HELPER:
            _busy(path).unlink(missing_ok=True)


def _busy(path: Path) -> Path:
    return path.with_suffix(".busy")
