"""The loop over queries: serial or in threads, decided in one place.

A kernel is a module-level Numba function compiled with ``nogil=True`` that handles queries ``first`` to ``last`` and
writes into arrays given to it. Ranges of queries are handed to Python threads, which run side by side because compiled
code lets go of the interpreter. Nothing here depends on Numba's own threading layers: any number of Python threads may
call kernels at once (Dask workers do), an error in a kernel is an ordinary exception, and small batches stay serial.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check

# Below this much work (about two milliseconds) handing ranges to threads costs more than it saves.
MOST = 1024
"""Threads at most."""
_WORTH_THREADS = 1_000_000
_RANGES_PER_THREAD = 4

_chosen: ContextVar[int | None] = ContextVar("rankwise_threads", default=None)
_pools: dict[int, ThreadPoolExecutor] = {}
os.register_at_fork(after_in_child=_pools.clear)


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
    kernel: Callable[..., Any],
    offsets: NDArray[np.int64],
    *arguments: Any,
    work: NDArray[np.floating[Any]] | None = None,
) -> None:
    """Call ``kernel(first, last, offsets, *arguments)`` over ranges that together cover every query once.

    ``work`` estimates each query's cost in units of about two nanoseconds; by default its number of documents times
    ten. Ranges are cut so that they hold about the same work.
    """
    offsets = offsets.view()
    offsets.flags.writeable = False  # Numba would compile every kernel once more for offsets that can be written
    n_queries = offsets.size - 1
    cumulative = 10.0 * offsets if work is None else np.concatenate(([0.0], np.cumsum(work)))
    count = thread_count()
    if count == 1 or n_queries < 2 or cumulative[-1] < _WORTH_THREADS:
        kernel(0, n_queries, offsets, *arguments)
        return
    targets = np.linspace(0.0, cumulative[-1], count * _RANGES_PER_THREAD + 1)
    cuts = np.unique(np.searchsorted(cumulative, targets).clip(0, n_queries))
    ranges = list(zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True))
    if count not in _pools:
        _pools[count] = ThreadPoolExecutor(count - 1, thread_name_prefix="rankwise")
    waiting = iter(ranges)  # every thread takes the next range when it is done with one; the caller takes part

    def take_ranges() -> None:
        for first, last in waiting:
            kernel(first, last, offsets, *arguments)

    helping = [_pools[count].submit(take_ranges) for _ in range(count - 1)]
    try:
        take_ranges()
    finally:
        for task in helping:
            task.result()
