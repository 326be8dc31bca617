"""The loop over queries, serial or in threads; and threads of libraries, which do not survive a fork.

A kernel is a module-level Numba function compiled with ``nogil=True`` that computes queries ``first`` to ``last`` and
writes into arrays passed to it. Ranges of queries are distributed to Python threads, which run in parallel because
compiled code releases the interpreter's lock. Numba's threading layers are not used: any number of Python threads may
call kernels at once (Dask workers do), an error in a kernel is an ordinary exception, and small batches stay serial.
"""

import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from rankwise import check
from rankwise.base.arrays import Array, Floats, Offsets, read_only

Kernel = Callable[..., object]
"""``kernel(first, last, offsets, …)``, compiled."""
MOST = 1024
"""Upper limit of :func:`use_threads`."""
# Below this much work (about two milliseconds) threads cost more than they save.
_WORTH_THREADS = 1_000_000
_RANGES_PER_THREAD = 8  # if all were as small as the last ones

_chosen: ContextVar[int | None] = ContextVar("rankwise_threads", default=None)
_pools: dict[int, ThreadPoolExecutor] = {}


@dataclass
class _Fork:
    """The state of the process that this one was forked from; empty if it was not forked."""

    loaded: tuple[str, ...] = ()
    """Libraries with OpenMP that were loaded there."""
    polars: bool = False
    """Whether polars had started threads there."""
    warned: bool = False
    limited: threading.local = field(default_factory=threading.local)
    """Libraries limited to one thread; a setting of each thread."""
    running: bool = False
    """Whether threads of polars run here when this process is forked."""

    def before(self) -> None:
        """Look for threads of polars in this process; only Linux names them."""
        self.running = False
        for task in Path("/proc/self/task").glob("*/comm"):
            with contextlib.suppress(OSError):  # a thread that has ended
                name = task.read_text(encoding="utf-8", errors="replace").strip()
                self.running |= name.startswith("polars-") and name[7:].isdecimal()

    def after(self) -> None:
        _pools.clear()
        loaded = tuple(name for name in ("lightgbm", "torch", "xgboost") if name in sys.modules)
        self.__init__(loaded, self.running)  # type: ignore[misc]


_fork = _Fork()
if hasattr(os, "register_at_fork"):  # not on Windows, which cannot fork
    os.register_at_fork(before=_fork.before, after_in_child=_fork.after)


def thread_count() -> int:
    """Return the number of threads of kernels: by :func:`use_threads`, else ``RANKWISE_THREADS``, else all cores."""
    chosen = _chosen.get()
    if chosen is not None:
        return chosen
    setting = os.environ.get("RANKWISE_THREADS")
    if setting is None:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if not setting.isdecimal() or not 1 <= int(setting) <= MOST:
        raise check.error(f"RANKWISE_THREADS must be a whole number from 1 to {MOST}", got=repr(setting))
    return int(setting)


def openmp(limit: Callable[[], object]) -> int:
    """Return the number of threads for a library with OpenMP: :func:`thread_count`, or 1 in some forked processes.

    Threads do not survive a fork, and OpenMP waits for them. So in a process that was forked after such a library was
    loaded, ``limit`` sets the library to one thread, with a warning where there would be more.
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
        what = f"this process was forked from one that had loaded {' and '.join(_fork.loaded)}, whose threads do not "
        what += "survive that: one thread is used"
        hint = '`set threads=1`, or start processes with multiprocessing.get_context("spawn")'
        check.warn(what, hint=hint, category=RuntimeWarning, stacklevel=3)
    return 1


def check_tables() -> None:
    """Raise if reading a table would hang: polars had started threads before this process was forked."""
    if _fork.polars:
        what = "polars, which reads tables here, had started threads before this process was forked, and would wait "
        what += "for them forever"
        hint = 'pass arrays or a RankingDataset, or start processes with multiprocessing.get_context("spawn")'
        raise RuntimeError(check.Message(what, hint=hint))


@contextlib.contextmanager
def use_threads(count: int) -> Iterator[None]:
    """Use ``count`` threads inside a ``with`` block; results never depend on it.

    >>> with use_threads(1):
    ...     thread_count()
    1
    """
    if check.integer("threads", count, least=1) > MOST:  # libraries abort if the system cannot start them
        raise check.error(f"threads must be at most {MOST}", got=count)
    token = _chosen.set(int(count))
    try:
        yield
    finally:
        _chosen.reset(token)


def over_queries(
    kernel: Kernel,
    offsets: Offsets,
    *arguments: object,
    work: Array | Floats | None = None,
) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` over ranges that together cover every query once.

    ``work`` estimates each query's cost in units of about two nanoseconds; by default its number of documents times
    ten.
    """
    if offsets.flags.writeable:  # Numba would compile every kernel once more for offsets that can be written
        offsets = read_only(offsets)
    n_queries, count = offsets.size - 1, thread_count()
    total = 10.0 * float(offsets[-1]) if work is None else float(work.sum())
    if count == 1 or n_queries < 2 or total < _WORTH_THREADS:
        kernel(0, n_queries, offsets, *arguments)
        return
    ends = 10.0 * offsets[1:] if work is None else np.cumsum(work)
    cuts = np.searchsorted(ends, total * _shares(count)) + 1
    cuts[0], cuts[-1] = 0, n_queries  # queries at the end may have no work
    cuts = np.unique(cuts.clip(0, n_queries))
    # Every thread takes the next range when it has finished one; so does the caller.
    waiting = iter(list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True)))

    def take_ranges() -> None:
        for first, last in waiting:
            kernel(first, last, offsets, *arguments)

    if count not in _pools:
        _pools[count] = ThreadPoolExecutor(count - 1, thread_name_prefix="rankwise")
    tasks = [_pools[count].submit(take_ranges) for _ in range(count - 1)]
    try:
        take_ranges()
    finally:
        for task in tasks:
            if not task.cancel():  # a thread that has not begun, on a busy machine, is not waited for
                task.result()


@functools.cache
def _shares(count: int) -> Array:
    """Return the ends of ranges for so many threads, as shares of the work: large ranges first, small ones last."""
    cuts = [0.0]
    while cuts[-1] < 1.0:
        left = 1.0 - cuts[-1]
        cuts.append(min(cuts[-1] + max(left / (2 * count), 1.0 / (_RANGES_PER_THREAD * count)), 1.0))
    return np.array(cuts)
