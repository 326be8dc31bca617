"""The workers of a Dask cluster that train together: all have a task at the same time, and none is waited for long.

Dask itself would wait for a worker that is gone, and run its task again elsewhere: right for tasks that stand alone,
and a hang for those that talk to each other. So tasks are pinned to workers, and the client looks after them.
"""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from typing import Any

from rankwise import check
from rankwise.dask.liveness import Client, Liveness, LostWorkerError, broken, lost, present

_LOOK = 0.5  # seconds between two looks at who is there
_TIDYING = 1.0  # seconds that tidying up is waited for
_GRACE = 5.0  # seconds that the others get to end after one has failed: whose error it was shows then


class Workers:
    """Workers, one for each process of the cluster, in an order that stays."""

    def __init__(self, client: Client, names: Sequence[str] | None = None, *, timeout: float = 300.0) -> None:
        self.client, self.timeout = client, timeout
        self.names = list(names) if names is not None else processes(client, timeout)
        self.liveness = Liveness(client, self.names, timeout)

    def first(self, count: int) -> "Workers":
        """Give the first ``count`` workers."""
        return Workers(self.client, self.names[:count], timeout=self.timeout)

    def submit(self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Start ``function`` on every worker, with its own item of each of the ``arguments``; gives the futures."""
        with self.connected(doing):
            return [
                self.client.submit(function, *own, workers=[name], allow_other_workers=False, pure=False)
                for name, *own in zip(self.names, *arguments, strict=True)
            ]

    def all(self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function`` on every worker at the same time and give what comes back, in the workers' order."""
        return self.results(doing, self.submit(doing, function, *arguments))

    def results(self, doing: str, futures: Sequence[Any]) -> list[Any]:
        """Wait until all tasks are done, and give what they returned."""
        self.wait(doing, futures)
        results: list[Any] = self.call(doing, self.client.gather, list(futures))
        return results

    def wait(self, doing: str, futures: Sequence[Any]) -> None:
        """Wait until all tasks are done; raises as soon as one has failed or a worker is lost."""
        try:
            self._wait(doing, futures)
        except BaseException:
            quietly(self.client.cancel, list(futures), force=True)
            raise

    def call(self, doing: str, function: Callable[..., Any], *arguments: object, **options: Any) -> Any:
        """Call what waits for workers by itself, such as a method of the client; raises when one of them is lost."""
        done = _started(function, *arguments, **options)
        with self.connected(doing):
            while not wait_for([done], _LOOK).done:
                if gone := self.liveness.gone(doing):
                    raise self._lost(doing, gone)
            return done.result()

    @contextlib.contextmanager
    def connected(self, doing: str) -> Iterator[None]:
        """Turn every way in which Dask says that a connection broke into one error."""
        try:
            yield
        except LostWorkerError:
            raise
        except Exception as failed:
            # Dask says it in many ways, a KeyError with the worker's address among them.
            if not broken(failed) and not self.liveness.gone(doing, ask=True):
                raise
            raise self._broken(doing, failed) from failed

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other trainings off the cluster: two at once would each wait for workers that the other has."""
        from distributed import Lock

        with self.connected("waiting for another training to end"):
            lock = Lock("rankwise", self.client.scheduler, self.client.loop)  # type: ignore[no-untyped-call]
            while not self.call("waiting for another training to end", lock.acquire, timeout=_GRACE):
                pass
        try:
            yield
        finally:
            quietly(lock.release)

    def _wait(self, doing: str, futures: Sequence[Any]) -> None:
        changed, noticed = threading.Event(), 0.0
        for future in futures:
            future.add_done_callback(lambda _: changed.set())
        while True:
            changed.clear()
            states = [future.status for future in futures]
            if all(state == "finished" for state in states):
                return
            if gone := self.liveness.gone(doing, ask="lost" in states or "cancelled" in states):
                raise self._lost(doing, gone)
            if any(state in ("error", "lost", "cancelled") for state in states):
                now = time.monotonic()
                noticed = noticed or now
                if "pending" not in states or now - noticed > _GRACE:
                    raise self._failure(doing, futures)
            changed.wait(_LOOK)

    def _failure(self, doing: str, futures: Sequence[Any]) -> BaseException:
        gone = self.liveness.gone(doing, ask=True)
        failed = [future.exception() for future in futures if future.status == "error"]
        for one in failed:
            # Of a library's network that broke down, or of Dask's own.
            theirs = type(one).__module__.partition(".")[0] in ("lightgbm", "xgboost", "distributed")
            if isinstance(one, Exception) and not theirs and not gone:
                return one  # bad data, a missing package: what the others say follows from it
        if gone:
            return self._lost(doing, gone)
        said = f" ({_last_line(failed[0])})" if failed else ""
        return lost(f"a worker failed while {doing}{said}")

    def _lost(self, doing: str, gone: Sequence[str]) -> LostWorkerError:
        silent = [name for name in gone if name in self.liveness.silent]
        parts = []
        if dead := [name for name in gone if name not in silent]:
            parts.append(f"worker {', '.join(dead)} was lost")
        if silent:
            parts.append(f"worker {', '.join(silent)} did not answer for {self.liveness.timeout:g} seconds")
        return lost(f"{' and '.join(parts)} while {doing}")

    def _broken(self, doing: str, failed: Exception) -> LostWorkerError:
        """Find out whose connection broke: the scheduler may need a moment to know."""
        end = time.monotonic() + min(_GRACE, self.timeout)
        while time.monotonic() < end:
            if gone := self.liveness.gone(doing, ask=True):
                return self._lost(doing, gone)
            time.sleep(_LOOK)
        return lost(f"a connection of the cluster broke while {doing} ({_last_line(failed)})")


def quietly(function: Callable[..., Any], *arguments: object, **options: Any) -> None:
    """Tidy up on the cluster, which may no longer be there: what fails or takes longer than a second is left."""
    done = _started(function, *arguments, **options)
    with contextlib.suppress(Exception):
        done.result(_TIDYING)


def processes(client: Client, timeout: float) -> list[str]:
    """Find the workers, one for each process, by name; those that have been silent for too long are left out."""
    workers, silent = present(client, timeout)
    if silent:
        text = f"training without {', '.join(silent)}, silent for more than {timeout:g} seconds"
        warnings.warn(text, RuntimeWarning, stacklevel=4)
    if not workers:
        raise check.error("the Dask cluster has no workers", got=str(client), hint="start some, and wait for them")
    # Workers that are threads of this process share one copy of each library, which has one network at most.
    return [worker for number, worker in enumerate(workers) if number == 0 or not worker.startswith("inproc:")]


def _started(function: Callable[..., Any], *arguments: object, **options: Any) -> "Future[Any]":
    """Call a function in a thread of its own, which is left to itself if nobody waits for it any more."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(function(*arguments, **options))
        except BaseException as failed:  # whatever it is, it is raised where the result is asked for
            done.set_exception(failed)

    threading.Thread(target=run, name="rankwise-cluster", daemon=True).start()
    return done


def _last_line(failed: BaseException) -> str:
    """What went wrong at the bottom, without the stack that XGBoost prints below it."""
    lines = str(failed).partition("Stack trace")[0].split("\n")
    return f"{type(failed).__name__}: {next((line for line in reversed(lines) if line.strip()), '')}"
