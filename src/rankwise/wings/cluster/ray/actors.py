"""Actors of a Ray cluster that train together: each has a thread that works and one that answers.

Ray notices an actor whose process has ended, and says nothing about one that stands still. So the driver asks each
actor for a sign of life every second, and there is one error for both.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self, cast

from rankwise import check
from rankwise.wings.cluster.backend import GRACE, LEAST, LOOK, ClusterBackend, lost_worker_error, worker_error

_INTERVAL = 1.0  # seconds between two signs of life
_START = 60.0  # seconds that actors get to start at least: each is a process that imports libraries


class _Kept(NamedTuple):
    """A result in the object store of the actor that computed it, so that a look at success moves no data."""

    result: Any


class _Actor:
    """A process that calls functions, one after the other."""

    def call(self, function: Callable[..., Any], arguments: list[Any]) -> _Kept:
        """Call a function and keep its result."""
        import ray

        return _Kept(ray.put(function(*_values(arguments))))

    def identity(self) -> tuple[str, int]:
        """Return the address of the node and the id of the process."""
        import os

        import ray

        return str(ray.util.get_node_ip_address()), os.getpid()


def _values(arguments: Any) -> Any:
    """Replace futures by their values, in lists too."""
    import ray

    if isinstance(arguments, list):
        return [_values(item) for item in arguments]
    value = ray.get(arguments) if isinstance(arguments, ray.ObjectRef) else arguments
    return ray.get(value.result) if isinstance(value, _Kept) else value


class _Sign(NamedTuple):
    """The last question to an actor: its future, and when it was asked."""

    answer: Any
    asked: float


class Actors(ClusterBackend):
    """Actors, which live from ``alone`` to its end."""

    frame, frame_hint = "Ray Dataset", "ray.data.from_pandas"

    def __init__(self, count: int | None, *, threads: int | None = None, timeout: float = 300.0) -> None:
        self.count, self.timeout, self._threads = count, timeout, threads
        self.names: list[str] = []
        self._actors: list[Any] = []
        self._hosts: list[str] = []
        self._signs: dict[str, _Sign] = {}

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Start the actors, for this training alone."""
        import ray

        if not ray.is_initialized():
            ray.init()
        nodes = sum(bool(node["Alive"]) for node in ray.nodes())
        count = self.count or nodes
        cpus = int(ray.cluster_resources().get("CPU", 1))
        self._threads = self._threads or max(1, cpus // count)
        kind = ray.remote(concurrency_groups={"work": 1, "life": 1})(_Actor)
        options = {"num_cpus": self._threads, "scheduling_strategy": "SPREAD", "max_restarts": 0}
        self._actors = [kind.options(**options).remote() for _ in range(count)]
        try:
            signs = [actor.identity.options(concurrency_group="life").remote() for actor in self._actors]
            seconds = max(self.timeout, _START)
            ready, late = ray.wait(signs, num_returns=count, timeout=seconds)
            if late:
                got = f"{len(ready)} of {count} after {seconds:g} seconds, in a cluster of {cpus} CPUs"
                hint = f"each needs {self._threads} free CPUs: set fewer workers=, or threads= of the ranker"
                raise check.error("the actors of the training do not start", got=got, hint=hint)
            try:
                identities = ray.get(signs)
            except ray.exceptions.RayError as failed:
                raise lost_worker_error(f"an actor was lost while it started ({type(failed).__name__})") from failed
            self._hosts = [host for host, _ in identities]
            self.names = [f"{host} (process {process})" for host, process in identities]
            yield
        finally:
            for actor in self._actors:
                ray.kill(actor)

    def first(self, count: int) -> Self:
        """Return the first actors; the others idle."""
        part = type(self)(count, threads=self._threads, timeout=self.timeout)
        part.names, part._hosts, part._actors = self.names[:count], self._hosts[:count], self._actors[:count]
        return part

    def hosts(self) -> list[str]:
        """Return the address of each actor's node."""
        return self._hosts

    def threads(self) -> list[int]:
        """Return the CPUs of each actor."""
        return [cast("int", self._threads)] * len(self.names)

    def submit(
        self, doing: str, function: Callable[..., Any], *arguments: Sequence[Any], anywhere: bool = False
    ) -> list[Any]:
        """Start calls; an actor has them in turn, and so do ``anywhere`` all actors."""
        calls = list(zip(*arguments, strict=True)) if arguments else [()] * len(self.names)
        if not anywhere and len(calls) != len(self._actors):
            raise check.error("each actor needs its item of the arguments", got=f"{len(calls)}")
        actors = (self._actors[number % len(self._actors)] for number in range(len(calls)))
        return [
            actor.call.options(concurrency_group="work").remote(function, list(items))
            for actor, items in zip(actors, calls, strict=True)
        ]

    def wait(self, doing: str, futures: Sequence[Any]) -> None:
        """Wait until all calls are done; raise as soon as one has failed or an actor is lost."""
        import ray

        pending, errors, noticed = list(futures), [], 0.0
        while pending:
            ready, pending = ray.wait(pending, num_returns=len(pending), timeout=LOOK)
            errors += [error for future in ready if (error := _error(future)) is not None]
            self._check_life(doing)
            if errors:
                noticed = noticed or time.monotonic()
                if not pending or time.monotonic() - noticed > GRACE:
                    self._check_life(doing, ask=True)
                    raise worker_error(doing, errors, "ray")

    def results(self, doing: str, futures: Sequence[Any]) -> list[Any]:
        """Wait until all calls are done, and return their results."""
        import ray

        self.wait(doing, futures)
        try:
            return [_values(future) for future in futures]
        except ray.exceptions.RayError as failed:  # the actor that owned it is gone since
            self._check_life(doing, ask=True)
            raise lost_worker_error(f"a result was lost while {doing} ({type(failed).__name__})") from failed

    def share(self, doing: str, value: Any) -> Any:
        """Store a value in the object store."""
        import ray

        return ray.put(value)

    def tables(self, data: Any) -> list[Any] | None:
        """Return references to tables as they are."""
        return data if isinstance(data, list) else None

    def collect(self, data: Any) -> Any:
        """Return a Ray Dataset as a frame of pandas."""
        return data.to_pandas() if hasattr(data, "to_arrow_refs") else None

    def tidy(self, function: Callable[..., Any], *arguments: object) -> None:
        """Do nothing: what an actor keeps ends with it."""

    def _check_life(self, doing: str, *, ask: bool = False) -> None:
        """Raise if an actor has died, or does not answer for as long as the time-out; ``ask`` all of them now."""
        import ray

        now = time.monotonic()
        for name, actor in zip(self.names, self._actors, strict=True):
            sign = self._signs.get(name)
            if ask or sign is None or (_done(sign.answer) and now - sign.asked > _INTERVAL):
                self._signs[name] = _Sign(actor.identity.options(concurrency_group="life").remote(), now)
        signs = [self._signs[name] for name in self.names]
        if ask:
            ray.wait([sign.answer for sign in signs], num_returns=len(signs), timeout=GRACE)
        dead, silent = [], []
        for name, sign in zip(self.names, signs, strict=True):
            if not _done(sign.answer):
                silent += [name] if now - sign.asked > max(self.timeout, LEAST) else []
            elif _error(sign.answer) is not None:
                dead.append(name)
        if dead or silent:
            raise self.gone(doing, dead, silent)


def arrow_tables(data: Any) -> list[Any]:
    """Compute a Ray Dataset and return references to its blocks, in their order, by which objectives draw."""
    options = data.context.execution_options
    preserve_order, options.preserve_order = options.preserve_order, True
    try:
        return list(data.to_arrow_refs())
    finally:
        options.preserve_order = preserve_order


def _done(future: Any) -> bool:
    import ray

    return bool(ray.wait([future], timeout=0)[0])


def _error(future: Any) -> BaseException | None:
    """Return the error of a call that is done."""
    import ray

    try:
        ray.get(future)
    except ray.exceptions.RayTaskError as failed:
        return cast("BaseException", failed.cause)
    except ray.exceptions.RayError as failed:
        return cast("BaseException", failed)
    return None
