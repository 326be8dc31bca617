"""Executors of the members of a bag: this process, other processes, or the workers of a Dask cluster."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue
from typing import Any

from rankwise import check
from rankwise.base import hooks
from rankwise.base.pools import check_portable, processes, without_interrupts
from rankwise.base.threads import thread_count
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.ensembles.members import MemberExecutor, MemberPlan, Members


class InProcess:
    """Members in this process."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def call(self, method: str, *columns: Sequence[Any]) -> Callable[[], list[Any]]:
        """Call a method at once."""
        result = self.members.call(method, *columns)
        return lambda: result


class Subprocess:
    """Members in a process of their own."""

    def __init__(self, pool: Executor, *members: object) -> None:
        self.pool, self.started = pool, pool.submit(_start, *members)

    def call(self, method: str, *columns: Sequence[Any]) -> Callable[[], list[Any]]:
        """Ask for a call; calls are answered in their order."""
        done: SimpleQueue[Future[Any]] = SimpleQueue()  # whose get Ctrl-C may end at any point, unlike result
        with _explained():
            self.pool.submit(_call, method, *columns).add_done_callback(done.put)

        def result() -> list[Any]:
            last = done.get()
            with _explained():
                self.started.result()  # done before; raises what went wrong at the beginning
                results: list[Any] = last.result()
                return results

        return result


def start(
    data: RankingDataset,
    plans: Sequence[MemberPlan],
    measured: Sequence[RankingDataset],
    stack: contextlib.ExitStack,
    *,
    count: int,
    dask: str | None,
    threads: int | None,
) -> list[MemberExecutor]:
    """Start the members in so many processes, which end with ``stack``: member i in executor i modulo their number."""
    if dask is not None:
        check_portable("the ranker", plans, alone="processes=1")
        on_cluster = hooks.find("executors of members", "dask")
        return list(on_cluster(data, plans, measured, stack, dask, threads))
    count = min(count, len(plans))
    threads = max(1, thread_count() // count) if threads is None else threads
    if count == 1:
        return [InProcess(Members(data, plans, measured, threads))]
    check_portable("the ranker", plans, alone="processes=1")
    executors: list[MemberExecutor] = []
    with without_interrupts():
        for first in range(count):
            pool = stack.enter_context(processes(1))
            executors.append(Subprocess(pool, data, plans[first::count], measured, threads))
    return executors


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Explain how to recover from a dead worker process."""
    try:
        yield
    except BrokenProcessPool:
        hint = (
            "it may have been out of memory: set fewer processes; with a checkpoint, `resume=True` resumes; a "
            "script that starts processes needs if __name__ == '__main__':"
        )
        what = check.error("a process that trains members of a bag has ended", hint=hint)
        raise ChildProcessError(str(what)) from None


_members: list[Members] = []
"""Members that this process trains, where it is one of those that train a bag."""


def _start(*members: Any) -> None:
    _members.append(Members(*members))


def _call(method: str, *columns: Sequence[Any]) -> list[Any]:
    return _members[0].call(method, *columns)
