"""The workers of a Dask cluster that train together: all have a task at the same time, and none is waited for long.

Dask itself would wait for a worker that is gone, and run its task again elsewhere: right for tasks that stand alone,
and a hang for those that talk to each other. So tasks are pinned to workers, and the client looks after them.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any

from rankwise import check

_LOOK = 0.05  # seconds between two looks at the tasks, at first
_LONGEST_LOOK = 0.5
_ROLL_CALL = 1.0  # seconds between two questions to the scheduler who is still there
_GRACE = 5.0  # seconds that the others get to end after one has failed: whose error it was shows then


class LostWorkerError(ConnectionError):
    """A worker of the cluster is gone, or does not answer."""


class Crew:
    """Workers, one for each process of the cluster, in an order that stays."""

    def __init__(self, client: Any, workers: Sequence[str] | None = None) -> None:
        self.client = client
        self.workers = list(workers) if workers is not None else processes(client)

    def first(self, count: int) -> "Crew":
        """Give the crew of the first ``count`` workers."""
        return Crew(self.client, self.workers[:count])

    def submit(self, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Start ``function`` on every worker, with its own item of each of the ``arguments``; gives the futures."""
        return [
            self.client.submit(function, *own, workers=[worker], allow_other_workers=False, pure=False)
            for worker, *own in zip(self.workers, *arguments, strict=True)
        ]

    def all(self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any]) -> list[Any]:
        """Call ``function`` on every worker at the same time and give what comes back, in the workers' order."""
        futures = self.submit(function, *arguments)
        self.wait(doing, futures)
        results: list[Any] = self.client.gather(futures)
        return results

    def wait(self, doing: str, futures: Sequence[Any]) -> None:
        """Wait until all tasks are done; raises as soon as one has failed or a worker is gone."""
        try:
            self._wait(doing, futures)
        except BaseException:
            self.client.cancel(list(futures), force=True)
            raise

    def _wait(self, doing: str, futures: Sequence[Any]) -> None:
        look, called, noticed = _LOOK, time.monotonic(), 0.0
        gone: list[str] = []
        while True:
            states = [future.status for future in futures]
            if all(state == "finished" for state in states):
                return
            now = time.monotonic()
            if now - called > _ROLL_CALL or "lost" in states or "cancelled" in states:
                called, gone = now, self._gone(doing)
            if gone or any(state in ("error", "lost", "cancelled") for state in states):
                noticed = noticed or now
                if "pending" not in states or now - noticed > _GRACE:
                    raise self._failure(doing, futures, gone or self._gone(doing))
            time.sleep(look)
            look = min(1.2 * look, _LONGEST_LOOK)

    def _gone(self, doing: str) -> list[str]:
        try:
            there = self.client.nthreads()
        except (OSError, TimeoutError) as lost:
            raise LostWorkerError(f"the cluster's scheduler does not answer while {doing}: {lost}.") from None
        return [worker for worker in self.workers if worker not in there]

    def _failure(self, doing: str, futures: Sequence[Any], gone: Sequence[str]) -> BaseException:
        failed = [future.exception() for future in futures if future.status == "error"]
        for one in failed:
            library = type(one).__module__.partition(".")[0] in ("lightgbm", "xgboost")  # a network that broke down
            if isinstance(one, Exception) and not library and not gone:
                return one  # bad data, a missing package: what the others say follows from it
        busy = [worker for worker, future in zip(self.workers, futures, strict=False) if future.status == "pending"]
        stuck = [worker for worker in busy if worker not in gone]
        who = f"worker {', '.join(gone)} was lost" if gone else "a worker failed"
        said = f" ({_last_line(failed[0])})" if failed and not gone else ""
        cure = "with a checkpoint, fit(…, resume=True) goes on from the last block once the cluster is whole again"
        if stuck:
            cure += f"; restart {', '.join(stuck)} first (client.restart()), which still waits for the others"
        return LostWorkerError(f"{who} while {doing}{said}. Cure: {cure}.")


def processes(client: Any) -> list[str]:
    """Find the workers, one for each process, by name."""
    workers = sorted(client.nthreads())
    if not workers:
        raise check.error("the Dask cluster has no workers", got=str(client), cure="start some, and wait for them")
    # Workers that are threads of this process share one copy of each library, which has one network at most.
    return [worker for number, worker in enumerate(workers) if number == 0 or not worker.startswith("inproc:")]


def _last_line(failed: BaseException) -> str:
    """What went wrong at the bottom, without the stack that XGBoost prints below it."""
    lines = str(failed).partition("Stack trace")[0].split("\n")
    return f"{type(failed).__name__}: {next((line for line in reversed(lines) if line.strip()), '')}"
