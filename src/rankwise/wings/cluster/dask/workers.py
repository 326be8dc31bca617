"""The workers of a Dask cluster that train together: all have a task at the same time, and none is waited for long.

Dask itself waits for a lost worker for ever, or runs its task again elsewhere, gives a silent one five minutes, and
reports both by a dozen exceptions: right for tasks that stand alone, and a hang for those that talk to each other. So
tasks are pinned to workers, the client reads everyone's last heartbeat from the scheduler every second, and there is
one error.
"""

import contextlib
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError, Executor, Future
from concurrent.futures import wait as wait_for
from typing import Any, cast
from urllib.parse import urlsplit

from rankwise import check
from rankwise.wings.cluster.backend import (
    GRACE,
    LEAST,
    LOOK,
    ClusterBackend,
    LostWorkerError,
    last_line,
    lost_worker_error,
    worker_error,
)

Client = Any
"""A ``distributed.Client``, most of which has no types."""
_INTERVAL = 1.0  # seconds between two questions to the scheduler
_ANSWER = 5.0  # seconds that it gets to answer one
_NEW_CLIENT = "; a new scheduler needs a new Client"
_TIDYING = 1.0  # seconds that tidying up is waited for


def broken(failed: BaseException) -> bool:
    """Whether an exception of the client means that a connection of the cluster broke."""
    if isinstance(failed, ConnectionError | TimeoutError | CancelledError) or type(failed) is OSError:
        return True
    return type(failed).__module__.partition(".")[0] == "distributed"  # CommClosedError, ClosedClientError and others


class Liveness:
    """Watches which workers are gone, or silent for ``timeout`` seconds."""

    def __init__(self, client: Client, workers: Iterable[str], timeout: float) -> None:
        self.client, self.workers, self.timeout = client, tuple(workers), max(timeout, LEAST)
        self.silent: list[str] = []
        """Workers that the scheduler still lists, without a heartbeat."""
        self._gone: list[str] = []
        self._answered = self._asked = time.monotonic()
        # By the scheduler's clock, which need not be ours, so what counts is when it was seen to change.
        self._heartbeats: dict[str, tuple[float, float]] = {}

    def gone(self, doing: str, *, ask: bool = False) -> list[str]:
        """Return the workers that are gone or silent; the scheduler is asked once a second at most, unless ``ask``."""
        if not ask and time.monotonic() - self._asked < _INTERVAL:
            return self._gone
        try:
            beats = heartbeats(self.client, _ANSWER)
        except Exception as failed:
            if not broken(failed):
                raise
            silence, connected = time.monotonic() - self._answered, self.client.status == "running"
            if not ask and silence < self.timeout and connected:
                return self._gone
            how = f"did not answer for {silence:.0f} seconds" if connected else "was lost"
            raise lost_worker_error(f"the scheduler of the cluster {how} while {doing}", _NEW_CLIENT) from failed
        finally:
            self._asked = time.monotonic()
        now, latest = self._asked, max(beats.values(), default=0.0)
        self._answered = now
        self.silent = []
        for worker in self.workers:
            if worker not in beats:
                continue
            beat, seen = beats[worker], self._heartbeats.get(worker)
            if seen is None or beat != seen[0]:
                seen = self._heartbeats[worker] = beat, now
            if max(now - seen[1], latest - beat) > self.timeout:
                self.silent.append(worker)
        self._gone = [worker for worker in self.workers if worker not in beats or worker in self.silent]
        return self._gone


def heartbeats(client: Client, seconds: float) -> Mapping[str, float]:
    """Return the time of each worker's last heartbeat, by the scheduler's clock."""
    scheduler = client.scheduler
    if scheduler is None or client.status != "running":  # connecting anew, it has forgotten all futures
        raise ConnectionError(f"the client is {client.status}")
    identity = client.sync(scheduler.identity, callback_timeout=seconds)
    return {str(worker): float(state["last_seen"]) for worker, state in identity["workers"].items()}


class Workers(ClusterBackend):
    """The workers of a Dask cluster."""

    frame, frame_hint = "Dask DataFrame", "dask.dataframe.from_pandas"

    def __init__(self, client: Client, names: Sequence[str] | None = None, *, timeout: float = 300.0) -> None:
        self.client, self.timeout = client, timeout
        self.names = list(names) if names is not None else processes(client, timeout)
        self.liveness = Liveness(client, self.names, timeout)

    def first(self, count: int) -> "Workers":
        """Return the first ``count`` workers."""
        return Workers(self.client, self.names[:count], timeout=self.timeout)

    def hosts(self) -> list[str]:
        """Return the host of each worker's address."""
        return [str(urlsplit(name).hostname) for name in self.names]

    def threads(self) -> list[int]:
        """Return the threads that Dask gave to each worker."""
        threads = self.call("the workers find each other", self.client.nthreads)
        return [int(threads.get(name, 1)) for name in self.names]  # a worker that is gone is noticed by the next call

    def submit(
        self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any], anywhere: bool = False
    ) -> list[Any]:
        """Start tasks, each pinned to its worker; or ``anywhere``, where Dask finds their data."""
        columns = list(zip(*arguments, strict=True)) if arguments else [()] * len(self.names)
        places = [self.names] * len(columns) if anywhere else [[name] for name in self.names]
        with self.connected(doing):
            return [
                self.client.submit(function, *items, workers=place, allow_other_workers=False, pure=False)
                for place, items in zip(places, columns, strict=True)
            ]

    def share(self, doing: str, value: Any) -> Any:
        """Scatter a value to the first worker, from which the others fetch it.

        With ``broadcast`` a worker that dies meanwhile would hang the scheduler's lock on copies for ever.
        """
        return self.call(doing, self.client.scatter, [value], workers=self.names[:1], hash=False)[0]

    def tables(self, data: Any) -> list[Any] | None:
        """Return the partitions of a Dask DataFrame."""
        if not hasattr(data, "to_delayed"):
            return None
        with self.connected("the data are asked for"):
            return cast("list[Any]", self.client.compute(data.to_delayed(), workers=self.names))

    def collect(self, data: Any) -> Any:
        """Return a Dask DataFrame as one of pandas."""
        if not hasattr(data, "to_delayed"):
            return None
        doing = "reading the validation data"
        with self.connected(doing):
            future = self.client.compute(data, workers=self.names)
        return self.results(doing, [future])[0]

    def tidy(self, function: Callable[..., Any], *arguments: object) -> None:
        """Call a function on every worker for a second at most."""
        quietly(self.client.run, function, *arguments, workers=self.names, on_error="ignore")

    def results(self, doing: str, futures: Sequence[Any]) -> list[Any]:
        """Wait until all tasks are done, and return their results."""
        self.wait(doing, futures)
        return cast("list[Any]", self.call(doing, self.client.gather, list(futures)))

    def wait(self, doing: str, futures: Sequence[Any]) -> None:
        """Wait until all tasks are done; raises as soon as one has failed or a worker is lost."""
        changed, noticed = threading.Event(), 0.0
        for future in futures:
            future.add_done_callback(lambda _: changed.set())
        try:
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
                    if "pending" not in states or now - noticed > GRACE:
                        raise self._failure(doing, futures)
                changed.wait(LOOK)
        except BaseException:
            quietly(self.client.cancel, list(futures), force=True)
            raise

    def call(self, doing: str, function: Callable[..., Any], *arguments: object, **options: Any) -> Any:
        """Call a function that waits for workers, such as a method of the client; raise when one of them is lost."""
        done = _started(function, *arguments, **options)
        with self.connected(doing):
            while not wait_for([done], LOOK).done:
                if gone := self.liveness.gone(doing):
                    raise self._lost(doing, gone)
            return done.result()

    @contextlib.contextmanager
    def connected(self, doing: str) -> Iterator[None]:
        """Turn every exception of Dask about a broken connection into one error."""
        try:
            yield
        except LostWorkerError:
            raise
        except Exception as failed:
            # Among them a KeyError with the worker's address.
            if not broken(failed) and not self.liveness.gone(doing, ask=True):
                raise
            raise self._broken(doing, failed) from failed

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other trainings off the cluster: two at once would each wait for workers that the other has."""
        from distributed import Lock

        with self.connected("waiting for another training to end"):
            lock = Lock("rankwise", scheduler_rpc=self.client.scheduler, loop=self.client.loop)
            while not self.call("waiting for another training to end", lock.acquire, timeout=GRACE):
                pass
        try:
            yield
        finally:
            quietly(lock.release)

    def _failure(self, doing: str, futures: Sequence[Any]) -> BaseException:
        if gone := self.liveness.gone(doing, ask=True):
            return self._lost(doing, gone)
        return worker_error(
            doing, [future.exception() for future in futures if future.status == "error"], "distributed"
        )

    def _lost(self, doing: str, gone: Sequence[str]) -> LostWorkerError:
        silent = [name for name in gone if name in self.liveness.silent]
        return self.gone(doing, [name for name in gone if name not in silent], silent)

    def _broken(self, doing: str, failed: Exception) -> LostWorkerError:
        """Return whose connection broke: the scheduler may need a moment to know."""
        end = time.monotonic() + min(GRACE, self.timeout)
        while time.monotonic() < end:
            if gone := self.liveness.gone(doing, ask=True):
                return self._lost(doing, gone)
            time.sleep(LOOK)
        return lost_worker_error(f"a connection of the cluster broke while {doing} ({last_line(failed)})")


def quietly(function: Callable[..., Any], *arguments: object, **options: Any) -> None:
    """Call a function that tidies up on the cluster, without errors and for a second at most."""
    done = _started(function, *arguments, **options)
    with contextlib.suppress(Exception):
        done.result(_TIDYING)


def processes(client: Client, timeout: float) -> list[str]:
    """Return the names of the workers, one for each process, without those that are silent."""
    try:
        beats = heartbeats(client, timeout)
    except Exception as failed:
        if not broken(failed):
            raise
        raise lost_worker_error("the scheduler of the cluster does not answer", _NEW_CLIENT) from failed
    latest = max(beats.values(), default=0.0)
    silent = sorted(worker for worker, beat in beats.items() if latest - beat > max(timeout, LEAST))
    workers = sorted(beats.keys() - set(silent))
    if silent:
        text = f"training without {', '.join(silent)}, silent for more than {timeout:g} seconds"
        warnings.warn(text, RuntimeWarning, stacklevel=5)
    if not workers:
        raise check.error("the Dask cluster has no workers", got=str(client), hint="start some, and wait for them")
    # Workers that are threads of this process share one copy of each library, which has one network at most.
    return [worker for number, worker in enumerate(workers) if number == 0 or not worker.startswith("inproc:")]


def _started(function: Callable[..., Any], *arguments: object, **options: Any) -> "Future[Any]":
    """Call a function in a thread of its own, which is abandoned if nobody waits for it any more."""
    done: Future[Any] = Future()

    def run() -> None:
        try:
            done.set_result(function(*arguments, **options))
        except BaseException as failed:  # raised where the result is read
            done.set_exception(failed)

    threading.Thread(target=run, name="rankwise-cluster", daemon=True).start()
    return done


@contextlib.contextmanager
def executor(address: str) -> Iterator[Executor]:
    """Yield the workers of a cluster as an executor."""
    distributed: Any = check.optional("distributed", "dask")
    with distributed.Client(address) as client, client.get_executor(pure=False) as pool:
        yield pool
