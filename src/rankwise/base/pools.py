"""Executors: processes of this machine."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.language import registry


@contextlib.contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Yield an executor of processes that end with the ``with`` block, and also when this process is killed."""
    before = set(multiprocessing.active_children())
    options: Keywords = {"initializer": _begin, "initargs": (registry.pickle_registry(),)}
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), **options)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        # To wait takes a moment, as the processes are ended; else Python's exit meets a pool that is being closed.
        pool.shutdown(wait=True, cancel_futures=True)
        raise
    pool.shutdown()


def check_portable(what: str, thing: object, *, alone: str) -> None:
    """Raise if an object cannot be sent to other processes, such as a function inside another one.

    ``alone`` is the argument that keeps the work in this process.
    """
    try:
        pickle.dumps(thing)
    except (AttributeError, TypeError, pickle.PicklingError) as wrong:
        hint = f"define functions in a module that can be imported, or set {alone}"
        raise check.error(f"{what} cannot be sent to other processes", got=str(wrong), hint=hint) from None


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Block Ctrl-C in processes that are started in a ``with`` block, so that they print no tracebacks.

    They inherit it; :func:`_begin` would be too late, as they import this package first.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    interrupts: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # another thread may get it
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if interrupts:
        raise KeyboardInterrupt


def _begin(registered: list[bytes]) -> None:
    """Prepare a worker: ignore Ctrl-C, which is for the parent process, and exit with the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    registry.restore_registry(registered)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()
