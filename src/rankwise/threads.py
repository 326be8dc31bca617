"""The loop over queries: serial or in threads, decided in one place; and threads of libraries, which no fork survives.

A kernel is a module-level Numba function compiled with ``nogil=True`` that handles queries ``first`` to ``last`` and
writes into arrays given to it. Ranges of queries are handed to Python threads, which run side by side because compiled
code lets go of the interpreter. Nothing here depends on Numba's own threading layers: any number of Python threads may
call kernels at once (Dask workers do), an error in a kernel is an ordinary exception, and small batches stay serial.
"""

import contextlib
import functools
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.arrays import Array, Floats

Kernel = Callable[..., object]
"""``kernel(first, last, offsets, …)``, compiled."""
MOST = 1024
"""Threads at most."""
# Below this much work (about two milliseconds) handing ranges to threads costs more than it saves.
_WORTH_THREADS = 1_000_000
_RANGES_PER_THREAD = 8  # if all were as small as the last ones

_chosen: ContextVar[int | None] = ContextVar("rankwise_threads", default=None)
_pools: dict[int, ThreadPoolExecutor] = {}


@dataclass
class _Fork:
    """What a process knows of the one that it was forked from; nothing where it was started in another way."""

    loaded: tuple[str, ...] = ()
    """Libraries that were loaded there and use OpenMP."""
    polars: bool = False
    """Whether polars had started threads there."""
    warned: bool = False
    limited: threading.local = field(default_factory=threading.local)
    """The libraries that were told to use one thread; each thread tells them for itself."""
    running: bool = False
    """Whether threads of polars run here, when this process is forked."""

    def before(self) -> None:
        """Look at the threads of this process; on systems that do not name them, none are found."""
        names = [_text(task) for task in Path("/proc/self/task").glob("*/comm")]
        self.running = any(name.startswith("polars-") and name[7:].isdecimal() for name in names)

    def after(self) -> None:
        """Begin a forked process."""
        _pools.clear()
        loaded = tuple(name for name in ("lightgbm", "torch", "xgboost") if name in sys.modules)
        self.__init__(loaded, self.running)  # type: ignore[misc]


def _text(task: Path) -> str:
    try:
        return task.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:  # it has ended
        return ""


_fork = _Fork()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_fork.before, after_in_child=_fork.after)


def thread_count() -> int:
    """How many threads kernels use: that of :func:`use_threads`, else of ``RANKWISE_THREADS``, else every core."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    named = os.environ.get("RANKWISE_THREADS")
    if named is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not named.isdecimal() or not 1 <= int(named) <= MOST:
        raise check.error(f"RANKWISE_THREADS must be a whole number from 1 to {MOST}", got=repr(named))
    return int(named)


def openmp(limit: Callable[[], object]) -> int:
    """Return how many threads a library that uses OpenMP may use; :func:`thread_count`, but for forked processes.

    Threads do not survive a fork, and OpenMP waits for them. So in a process that was forked after such a library was
    loaded, ``limit`` tells the library to use one thread from now on, and a warning says so where there would be more.
    """
    count = thread_count()
    if not _fork.loaded:
        return count
    limited: set[object] = _fork.limited.__dict__.setdefault("libraries", set())
    if limit not in limited:
        limit()
        limited.add(limit)
    if count > 1 and not _fork.warned:
        _fork.warned = True
        warnings.warn(
            f"this process was forked from one that had loaded {' and '.join(_fork.loaded)}, whose threads do not "
            "survive that: one thread is used. Hint: set threads=1, or start processes with "
            'multiprocessing.get_context("spawn").',
            RuntimeWarning,
            stacklevel=3,
        )
    return 1


def check_tables() -> None:
    """Raise where reading a table would never end: polars had started threads before this process was forked."""
    if _fork.polars:
        raise RuntimeError(
            "polars, which reads tables here, had started threads before this process was forked, and would wait for "
            "them forever. Hint: pass arrays or a RankingDataset, or start processes with "
            'multiprocessing.get_context("spawn").'
        )


def checked(count: object) -> int:
    """Return a number of threads; libraries end the process when the system refuses to start as many as they want."""
    if check.integer("threads", count, least=1) > MOST:
        raise check.error(f"threads must be at most {MOST}", got=count)
    return int(count)  # type: ignore[call-overload, no-any-return]


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside a ``with`` block; results never depend on it.

    >>> with use_threads(1):
    ...     thread_count()
    1
    """
    token = _chosen.set(checked(count))
    try:
        yield
    finally:
        _chosen.reset(token)


def over_queries(
    kernel: Kernel,
    offsets: NDArray[np.int64],
    *arguments: object,
    work: Array | Floats | None = None,
) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` over ranges that together cover every query once.

    ``work`` estimates each query's cost in units of about two nanoseconds; by default its number of documents times
    ten.
    """
    if offsets.flags.writeable:  # Numba would compile every kernel once more for offsets that can be written
        offsets = offsets.view()
        offsets.flags.writeable = False
    n_queries, count = offsets.size - 1, thread_count()
    total = 10.0 * float(offsets[-1]) if work is None else float(work.sum())
    if count == 1 or n_queries < 2 or total < _WORTH_THREADS:
        kernel(0, n_queries, offsets, *arguments)
        return
    ends = 10.0 * offsets[1:] if work is None else np.cumsum(work)
    cuts = np.searchsorted(ends, total * _shares(count)) + 1
    cuts[0], cuts[-1] = 0, n_queries  # those at the end may be no work at all
    cuts = np.unique(cuts.clip(0, n_queries))
    # Every thread takes the next range when it is done with one; the caller takes part.
    waiting = iter(list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))

    def take_ranges() -> None:
        for first, last in waiting:
            kernel(first, last, offsets, *arguments)

    if count not in _pools:
        _pools[count] = ThreadPoolExecutor(count - 1, thread_name_prefix="rankwise")
    helping = [_pools[count].submit(take_ranges) for _ in range(count - 1)]
    try:
        take_ranges()
    finally:
        for task in helping:
            if not task.cancel():  # whoever has not begun by now, on a busy machine, is not waited for
                task.result()


@functools.cache
def _shares(count: int) -> NDArray[np.float64]:
    """Cuts of the work into ranges for so many threads: large ones first, so that small ones are left to wait for."""
    cuts = [0.0]
    while cuts[-1] < 1.0:
        left = 1.0 - cuts[-1]
        cuts.append(min(cuts[-1] + max(left / (2 * count), 1.0 / (_RANGES_PER_THREAD * count)), 1.0))
    return np.array(cuts)
