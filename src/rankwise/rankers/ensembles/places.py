"""Where members of a bag learn: in this process, in others of this machine, or on the workers of a Dask cluster."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from concurrent.futures.process import BrokenProcessPool
from queue import SimpleQueue
from typing import Any, Protocol

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.pools import check_portable, processes, without_interrupts
from rankwise.rankers.ensembles.members import Members
from rankwise.rankers.ensembles.plans import Plan
from rankwise.threads import thread_count

Result = Callable[[], Any]


class Place(Protocol):
    """Some members, and whoever trains them."""

    def call(self, method: str, *arguments: object) -> Result:
        """Call a method of :class:`Members`; what is given waits for its result."""
        ...


class Here:
    """Members in this process."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def call(self, method: str, *arguments: object) -> Result:
        """Call a method at once."""
        found = getattr(self.members, method)(*arguments)
        return lambda: found


class Elsewhere:
    """Members in a process of their own."""

    def __init__(self, pool: Executor, *members: object) -> None:
        self.pool, self.started = pool, pool.submit(_start, *members)

    def call(self, method: str, *arguments: object) -> Result:
        """Ask for a call; calls are answered in their order."""
        done: SimpleQueue[Future[Any]] = SimpleQueue()  # whose get Ctrl-C may end at any point, unlike result
        with _naming_the_end():
            self.pool.submit(_call, method, arguments).add_done_callback(done.put)

        def result() -> Any:
            last = done.get()
            with _naming_the_end():
                self.started.result()  # done before; raises what went wrong at the beginning
                return last.result()

        return result


def places(
    data: RankingDataset,
    plans: Sequence[Plan],
    others: Sequence[RankingDataset],
    stack: contextlib.ExitStack,
    *,
    count: int,
    dask: str | None,
    threads: int | None,
) -> list[Place]:
    """Deal members out to so many processes, which end with ``stack``; member i goes to place i modulo their number."""
    if dask is not None:
        check_portable("the ranker", plans, alone="processes=1")
        cluster = importlib.import_module("rankwise.dask.bag")  # a wing, which imports this package
        return list(cluster.on_cluster(data, plans, others, stack, dask, threads))
    count = min(count, len(plans))
    threads = max(1, thread_count() // count) if threads is None else threads
    if count == 1:
        return [Here(Members(data, plans, others, threads))]
    check_portable("the ranker", plans, alone="processes=1")
    found: list[Place] = []
    with without_interrupts():
        for first in range(count):
            pool = stack.enter_context(processes(1))
            found.append(Elsewhere(pool, data, plans[first::count], others, threads))
    return found


@contextlib.contextmanager
def _naming_the_end() -> Iterator[None]:
    """Say what to do about a process that is no more."""
    try:
        yield
    except BrokenProcessPool:
        hint = (
            "it may have been out of memory: set fewer processes; with a checkpoint, resume=True resumes; a "
            "script that starts processes needs if __name__ == '__main__':"
        )
        what = check.error("a process that trains members of a bag has ended", hint=hint)
        raise ChildProcessError(str(what)) from None


_members: list[Members] = []
"""What this process trains, where it is one of those that train a bag."""


def _start(*members: Any) -> None:
    _members.append(Members(*members))


def _call(method: str, arguments: tuple[object, ...]) -> Any:
    return getattr(_members[0], method)(*arguments)
