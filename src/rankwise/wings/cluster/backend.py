"""The contract of a cluster: named workers, calls on all of them at the same time, and one error when one is lost."""

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Self

from rankwise import check

GRACE = 5.0  # seconds that the others get to end after one has failed: whose error it was shows then
LOOK = 0.5  # seconds between two looks at who is there
LEAST = 5.0  # seconds of silence that a busy worker may need: heartbeats of large clusters come every few seconds


class LostWorkerError(ConnectionError):
    """A worker of the cluster, or its scheduler, is gone or does not answer."""


def lost_worker_error(what: str, hint: str = "") -> LostWorkerError:
    """Return the error about a loss, with a hint how to resume."""
    resume = "with a checkpoint, resume=True resumes after the last block, with the workers that are there then"
    return LostWorkerError(str(check.error(what, hint=resume + hint)))


class ClusterBackend(ABC):
    """Workers that train together, one for each process, in an order that stays.

    ``doing`` is what the workers do, for errors. A future is whatever ``submit`` returns: passed to a later call, alone
    or in a list, it is replaced by its value on the worker, so that data stay where they are.
    """

    names: list[str]
    timeout: float
    frame: str
    """The kind of data frame that lies on such a cluster."""
    frame_hint: str
    """How to make one."""

    @abstractmethod
    def first(self, count: int) -> Self:
        """Return the first ``count`` workers."""

    @abstractmethod
    def hosts(self) -> list[str]:
        """Return the address at which the others reach each worker."""

    @abstractmethod
    def threads(self) -> list[int]:
        """Return how many threads each worker may use."""

    @abstractmethod
    def submit(
        self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any], anywhere: bool = False
    ) -> list[Any]:
        """Call ``function`` on every worker with its item of each of the ``arguments``; return futures.

        ``anywhere`` allows any number of items, each of which goes to some worker.
        """

    @abstractmethod
    def wait(self, doing: str, futures: Sequence[Any]) -> None:
        """Wait until all calls are done; raise as soon as one has failed or a worker is lost."""

    @abstractmethod
    def results(self, doing: str, futures: Sequence[Any]) -> list[Any]:
        """Wait until all calls are done, and return their results."""

    @abstractmethod
    def share(self, doing: str, value: Any) -> Any:
        """Send a value to the workers once; return its future."""

    @abstractmethod
    def tables(self, data: Any) -> list[Any] | None:
        """Return futures of the partitions of a data frame; None if ``data`` is none of this cluster's."""

    @abstractmethod
    def collect(self, data: Any) -> Any:
        """Return a data frame of the cluster as one in memory; None if ``data`` is none of this cluster's."""

    @abstractmethod
    def tidy(self, function: Callable[..., Any], *arguments: object) -> None:
        """Call a function that frees something on every worker, without errors or long waits."""

    @abstractmethod
    def alone(self) -> contextlib.AbstractContextManager[None]:
        """Reserve the workers for one training."""

    def all(self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function`` on every worker at the same time and return the results, in the workers' order."""
        return self.results(doing, self.submit(doing, function, *arguments))

    def gone(self, doing: str, dead: Sequence[str], silent: Sequence[str] = ()) -> LostWorkerError:
        """Return the error about workers that are dead, or silent for longer than the time-out."""
        parts = []
        if dead:
            parts.append(f"worker {', '.join(dead)} was lost")
        if silent:
            parts.append(f"worker {', '.join(silent)} did not answer for {max(self.timeout, LEAST):g} seconds")
        return lost_worker_error(f"{' and '.join(parts)} while {doing}")


def worker_error(doing: str, errors: Sequence[BaseException | None], *theirs: str) -> BaseException:
    """Return the error to raise when calls have failed on workers that are all there.

    Bad data or a missing package come first: errors of a library's network, or of the cluster's own package, named by
    ``theirs``, follow from them.
    """
    for error in errors:
        package = type(error).__module__.partition(".")[0]
        if isinstance(error, Exception) and package not in ("lightgbm", "xgboost", *theirs):
            return error
    reason = f" ({last_line(errors[0])})" if errors and errors[0] is not None else ""
    return lost_worker_error(f"a worker failed while {doing}{reason}")


def last_line(failed: BaseException) -> str:
    """Return the last line of an error, without the stack that XGBoost prints below it."""
    lines = str(failed).partition("Stack trace")[0].split("\n")
    return f"{type(failed).__name__}: {next((line for line in reversed(lines) if line.strip()), '')}"
