"""Who computes: processes of this machine, or the workers of a Dask cluster."""

import contextlib
import multiprocessing
import os
import pickle
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from typing import Any

from rankwise import check, registry
from rankwise.plain import Keywords


@contextlib.contextmanager
def processes(count: int) -> Iterator[Executor]:
    """Processes that end when they are no longer wanted, and also when this one is killed."""
    before = set(multiprocessing.active_children())
    about: Keywords = {"initializer": _begin, "initargs": (registry.parcels(),)}
    pool = ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), **about)
    try:
        yield pool
    except BaseException:
        for child in set(multiprocessing.active_children()) - before:
            child.terminate()
        pool.shutdown(wait=False, cancel_futures=True)
        raise
    pool.shutdown()


def check_portable(what: str, thing: object, *, alone: str) -> None:
    """Refuse what no other process could be sent, such as functions inside of others, here rather than there.

    ``alone`` is the argument that keeps it in this process.
    """
    try:
        pickle.dumps(thing)
    except (AttributeError, TypeError, pickle.PicklingError) as wrong:
        hint = f"define functions in a module that can be imported, or set {alone}"
        raise check.error(f"{what} cannot be sent to other processes", got=str(wrong), hint=hint) from None


@contextlib.contextmanager
def without_interrupts() -> Iterator[None]:
    """Start processes for which Ctrl-C is not meant: they inherit that it is blocked, and print no tracebacks.

    Without it they would be interrupted while they import this package, which is before :func:`_begin`.
    """
    if threading.current_thread() is not threading.main_thread() or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    came: list[int] = []
    handler = signal.signal(signal.SIGINT, lambda number, _: came.append(number))  # another thread may get it
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        signal.signal(signal.SIGINT, handler)
    if came:
        raise KeyboardInterrupt


def _begin(registered: list[bytes]) -> None:
    """Prepare a worker: Ctrl-C is for the process that started it, and without that one it has nothing to do."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    registry.receive(registered)
    parent = multiprocessing.parent_process()

    def follow() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=follow, daemon=True).start()


@contextlib.contextmanager
def cluster(address: str) -> Iterator[Executor]:
    """The workers of a Dask cluster."""
    distributed: Any = check.extra("distributed", "dask")  # noqa: S610
    with distributed.Client(address) as client, client.get_executor(pure=False) as pool:
        yield pool
