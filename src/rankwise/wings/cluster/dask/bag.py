"""Members of a bag on the workers of a Dask cluster: each worker trains its own, a round at a time."""

import contextlib
import secrets
from collections.abc import Callable, Sequence
from typing import Any

from rankwise import RankingDataset, check
from rankwise.language import registry
from rankwise.rankers import MemberPlan, Members
from rankwise.wings.cluster.backend import lost_worker_error
from rankwise.wings.cluster.dask.workers import Liveness

_SILENCE = 60.0  # seconds after which a worker that is not heard of counts as lost
_members: dict[str, Members] = {}
"""The members that this worker trains, by the key of their bag."""


class OnCluster:
    """Members on a worker of a cluster."""

    def __init__(self, client: Any, liveness: Liveness, worker: str, *members: Any) -> None:
        self.client, self.liveness, self.worker = client, liveness, worker
        self.key = secrets.token_hex(8)
        self._last = self._submit(_start, self.key, registry.pickle_registry(), *members)

    def call(self, method: str, *arguments: object) -> Callable[[], Any]:
        """Submit a call; each waits for the one before it."""
        self._last = future = self._submit(_call, self._last, self.key, method, arguments)

        def result() -> Any:
            while True:
                with contextlib.suppress(TimeoutError):
                    return future.result(timeout=1.0)
                if self.worker in self.liveness.gone("training a bag"):
                    raise lost_worker_error(f"the worker {self.worker} of the cluster was lost while training a bag")

        return result

    def _submit(self, function: Callable[..., Any], *arguments: object) -> Any:
        return self.client.submit(function, *arguments, workers=[self.worker], pure=False)


def on_cluster(
    data: RankingDataset,
    plans: Sequence[MemberPlan],
    measured: Sequence[RankingDataset],
    stack: contextlib.ExitStack,
    address: str,
    threads: int | None,
) -> list[OnCluster]:
    """Deal members out to the workers of a cluster; member i goes to worker i modulo their number."""
    distributed: Any = check.optional("distributed", "dask")
    client = stack.enter_context(distributed.Client(address, timeout=30, set_as_default=False))
    workers = sorted(client.nthreads().items())[: len(plans)]
    if not workers:
        raise check.error("the cluster has no workers", got=address, hint="start some: dask worker ADDRESS")
    liveness = Liveness(client, [worker for worker, _ in workers], _SILENCE)
    scattered, step = client.scatter(data, broadcast=True, hash=False), len(workers)
    return [
        OnCluster(client, liveness, worker, scattered, plans[first::step], measured, threads or worker_threads)
        for first, (worker, worker_threads) in enumerate(workers)
    ]


def _start(key: str, registered: list[bytes], *members: Any) -> None:
    registry.restore_registry(registered)
    _members[key] = Members(*members)


def _call(_: object, key: str, method: str, arguments: tuple[Any, ...]) -> Any:
    if key not in _members:
        raise lost_worker_error("a worker of the cluster has been started anew while training a bag")
    members = _members.pop(key) if method == "learned" else _members[key]  # no round follows that
    return members.call(method, *arguments)()
