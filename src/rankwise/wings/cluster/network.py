"""How workers of a library find each other: the library's own network, which lasts for a training.

A :class:`Network` is planned on the client, sent to the workers, and joined by each of them before its first block;
where the library draws, before every block. LightGBM gets everyone's address and port. XGBoost's workers meet at a
tracker, which the first worker runs: workers reach each other in any cluster, which is not sure of the client.
"""

import contextlib
import logging
import math
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rankwise.base.arrays import Json, Keywords
from rankwise.wings.cluster.backend import ClusterBackend

_tracker: Any = None  # of XGBoost, on the worker that runs it
_DOING = "the workers find each other"
_HEAD_START = 0.03
"""Seconds that the last worker gets. Workers of LightGBM call those of higher rank, and one that calls before the other
listens sleeps for 0.2 seconds before it tries again."""
_TRACES = re.compile(rb"\n\[(machines|num_machines|local_listen_port|time_out|pre_partition|tree_learner): [^\n]*\]")


class Network:
    """A way for workers to train together; this one is that of a single worker, which needs none."""

    def native(self, rank: int) -> Keywords:
        """Return parameters of the library for the worker of this rank."""
        return {}

    def membership(self, rank: int) -> contextlib.AbstractContextManager[None]:
        """Be part of the network."""
        return contextlib.nullcontext()

    def leave(self, growth: Any) -> None:
        """Leave the network."""

    def clean(self, content: bytes) -> bytes:
        """Remove the network's parameters from a model."""
        return content


@dataclass(frozen=True)
class LightGBMNetwork(Network):
    """Addresses and ports of all workers, and the time to wait for them."""

    machines: tuple[str, ...]
    minutes: int

    def native(self, rank: int) -> Keywords:
        """Return LightGBM's parameters of training on several machines."""
        return {
            "machines": ",".join(self.machines),
            "num_machines": len(self.machines),
            "local_listen_port": int(self.machines[rank].rpartition(":")[2]),
            "time_out": self.minutes,
            "tree_learner": "data",
            "pre_partition": True,
        }

    @contextlib.contextmanager
    def membership(self, rank: int) -> Iterator[None]:
        """Keep LightGBM from printing how it connects, which it does when the booster is made."""
        import lightgbm

        library: Any = lightgbm.basic._LIB  # type: ignore[attr-defined]
        library.LGBM_RegisterLogCallback(library.callback)  # it is of the thread that imported LightGBM alone
        lightgbm.register_logger(logging.getLogger("rankwise.lightgbm"), "debug", "debug")
        if rank < len(self.machines) - 1:
            time.sleep(_HEAD_START)
        yield

    def leave(self, growth: Any) -> None:
        """Free the network now: a booster does so when it is collected, perhaps in the middle of another training."""
        if growth.booster is not None:
            growth.booster.free_network()

    def clean(self, content: bytes) -> bytes:
        """Remove the addresses, which stand among the parameters of the model."""
        return _TRACES.sub(b"", content)


@dataclass(frozen=True)
class XGBoostNetwork(Network):
    """The address of the tracker, and the time to wait for it."""

    tracker: Json
    seconds: int

    @contextlib.contextmanager
    def membership(self, rank: int) -> Iterator[None]:
        """Enter the communicator; leaving it in error tells the others."""
        import xgboost

        name = f"{rank:06d}"  # ranks are given by the order of names, so that sums are added in the same order
        arguments = {**self.tracker, "dmlc_task_id": name, "dmlc_timeout": self.seconds, "dmlc_retry": 3}
        with xgboost.config_context(verbosity=0), xgboost.collective.CommunicatorContext(**arguments):
            yield


def connect(library: str, backend: ClusterBackend) -> Network:
    """Plan a network of ``library`` for all workers."""
    return Network() if len(backend.names) == 1 else NETWORKS[library](backend, math.ceil(backend.timeout))


def _lightgbm(backend: ClusterBackend, seconds: int) -> Network:
    machines = zip(backend.hosts(), backend.all(_DOING, _free_port), strict=True)
    return LightGBMNetwork(tuple(f"{host}:{port}" for host, port in machines), math.ceil(seconds / 60))


def _xgboost(backend: ClusterBackend, seconds: int) -> Network:
    count, host = len(backend.names), backend.hosts()[:1]
    (tracker,) = backend.first(1).all(_DOING, _start_tracker, [count], host, [seconds])
    return XGBoostNetwork(tracker, seconds)


NETWORKS = {"lightgbm": _lightgbm, "xgboost": _xgboost}
"""How the network of a library is planned, by its name; others do not train on a cluster."""


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("", 0))
        return int(probe.getsockname()[1])


def _start_tracker(workers: int, host: str, seconds: int) -> Json:
    """Run XGBoost's tracker in this process, in the place of the one before."""
    from xgboost.tracker import RabitTracker

    global _tracker
    if _tracker is not None:
        threading.Thread(target=_free, args=(_tracker,), daemon=True).start()  # it waits for a worker that is silent
    _tracker = RabitTracker(n_workers=workers, host_ip=host, sortby="task", timeout=seconds)
    _tracker.start()
    return dict(_tracker.worker_args())


def _free(tracker: Any) -> None:
    from xgboost.core import XGBoostError

    with contextlib.suppress(XGBoostError):  # its network broke down, which was reported then
        tracker.free()
