"""Whether the workers and the scheduler of a Dask cluster still answer.

Dask itself gives a silent worker five minutes, waits for a lost one for ever, and says what happened by a dozen
exceptions. A training whose workers talk to each other cannot continue without one of them, so the client asks the
scheduler every second for everyone's last heartbeat, and there is one error.
"""

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import CancelledError
from typing import Any

from rankwise import check

Client = Any
"""A ``distributed.Client``: most of what it does has no types."""
_INTERVAL = 1.0  # seconds between two questions to the scheduler
_ANSWER = 5.0  # seconds that it gets to answer one
_LEAST = 5.0  # seconds of silence that a busy worker may need: heartbeats of large clusters come every few seconds
_NEW_CLIENT = "; a new scheduler needs a new Client"


class LostWorkerError(ConnectionError):
    """A worker of the cluster, or its scheduler, is gone or does not answer."""


def lost(what: str, hint: str = "") -> LostWorkerError:
    """Say what was lost, and how to resume."""
    resume = "with a checkpoint, resume=True resumes after the last block, with the workers that are there then"
    return LostWorkerError(str(check.error(what, hint=resume + hint)))


def broken(failed: BaseException) -> bool:
    """Whether an exception that the client raised says that a connection of the cluster broke."""
    if isinstance(failed, ConnectionError | TimeoutError | CancelledError) or type(failed) is OSError:
        return True
    return type(failed).__module__.partition(".")[0] == "distributed"  # CommClosedError, ClosedClientError and others


class Liveness:
    """Who of some workers has gone, or has been silent for ``timeout`` seconds."""

    def __init__(self, client: Client, workers: Iterable[str], timeout: float) -> None:
        self.client, self.workers, self.timeout = client, tuple(workers), max(timeout, _LEAST)
        self.silent: list[str] = []
        """Those that are still known to the scheduler, and have not been heard of."""
        self._gone: list[str] = []
        self._answered = self._asked = time.monotonic()
        # By the scheduler's clock, which need not be ours, so what counts is when it was seen to change.
        self._heartbeats: dict[str, tuple[float, float]] = {}

    def gone(self, doing: str, *, ask: bool = False) -> list[str]:
        """Give the workers that are gone or silent; asks once a second at most, unless told to ``ask``."""
        if ask or time.monotonic() - self._asked >= _INTERVAL:
            self._ask(doing, patient=not ask)
        return self._gone

    def _ask(self, doing: str, *, patient: bool) -> None:
        try:
            there = heartbeats(self.client, _ANSWER)
        except Exception as failed:
            if not broken(failed):
                raise
            silence, connected = time.monotonic() - self._answered, self.client.status == "running"
            if patient and silence < self.timeout and connected:
                return
            how = f"did not answer for {silence:.0f} seconds" if connected else "was lost"
            raise lost(f"the scheduler of the cluster {how} while {doing}", _NEW_CLIENT) from failed
        finally:
            self._asked = time.monotonic()
        now, latest = self._asked, max(there.values(), default=0.0)
        self._answered = now
        self.silent = []
        for worker in self.workers:
            if worker not in there:
                continue
            beat, seen = there[worker], self._heartbeats.get(worker)
            if seen is None or beat != seen[0]:
                seen = self._heartbeats[worker] = beat, now
            if max(now - seen[1], latest - beat) > self.timeout:
                self.silent.append(worker)
        self._gone = [worker for worker in self.workers if worker not in there or worker in self.silent]


def present(client: Client, timeout: float) -> tuple[list[str], list[str]]:
    """Give the workers of the cluster, and apart from them those that were silent for ``timeout`` seconds."""
    try:
        there = heartbeats(client, timeout)
    except Exception as failed:
        if not broken(failed):
            raise
        raise lost("the scheduler of the cluster does not answer", _NEW_CLIENT) from failed
    latest = max(there.values(), default=0.0)
    silent = sorted(worker for worker, beat in there.items() if latest - beat > max(timeout, _LEAST))
    return sorted(there.keys() - set(silent)), silent


def heartbeats(client: Client, seconds: float) -> Mapping[str, float]:
    """Give the time of each worker's last heartbeat, by the scheduler's clock."""
    scheduler = client.scheduler
    if scheduler is None or client.status != "running":  # connecting anew, it has forgotten all futures
        raise ConnectionError(f"the client is {client.status}")
    found = client.sync(scheduler.identity, callback_timeout=seconds)
    return {str(worker): float(about["last_seen"]) for worker, about in found["workers"].items()}
