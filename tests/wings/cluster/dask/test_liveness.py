"""Whether a cluster still answers: heartbeats that stand still, workers that go, schedulers that are silent."""

import threading
import time
from typing import Any

import pytest

import rankwise as rw
from rankwise.wings.cluster.dask import workers
from rankwise.wings.cluster.dask.workers import Liveness, Workers, broken, processes

distributed = pytest.importorskip("distributed")


class Cluster:
    """A client whose scheduler answers what it is told to, by a clock that stands still unless it is moved."""

    def __init__(self, monkeypatch, **heartbeats: float) -> None:
        self.beats: dict[str, float] = heartbeats
        self.status, self.scheduler, self.now = "running", self, 0.0
        self.failure: Exception | None = None
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def identity(self) -> dict[str, Any]:
        return {"workers": {name: {"last_seen": beat} for name, beat in self.beats.items()}}

    def sync(self, function, callback_timeout=None):
        if self.failure is not None:
            raise self.failure
        return function()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def after(self, seconds: float, **beats: float) -> None:
        self.now += seconds
        self.beats.update(beats)


def test_a_heartbeat_that_stands_still_is_noticed_after_the_timeout(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0, b=1000.0)  # the scheduler's clock is not ours
    watched = Liveness(cluster, ["a", "b"], timeout=20.0)
    assert watched.gone("growing", ask=True) == []
    cluster.after(19.0, a=1019.0)
    assert watched.gone("growing") == []
    cluster.after(2.0, a=1021.0)
    assert watched.gone("growing") == watched.silent == ["b"]
    cluster.after(2.0, a=1023.0, b=1023.0)
    assert watched.gone("growing") == []


def test_the_only_worker_is_measured_by_our_clock(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0)
    watched = Liveness(cluster, ["a"], timeout=20.0)
    assert watched.gone("growing", ask=True) == []
    cluster.after(21.0)
    assert watched.gone("growing") == ["a"]


def test_a_worker_that_was_silent_before_anyone_looked(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0, b=900.0)
    assert Liveness(cluster, ["a", "b"], timeout=20.0).gone("growing", ask=True) == ["b"]
    with pytest.warns(RuntimeWarning, match="training without b, silent for more than 20 seconds"):
        assert processes(cluster, 20.0) == ["a"]
    assert processes(cluster, 300.0) == ["a", "b"]


def test_a_worker_that_is_gone_is_named(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0, b=1000.0)
    names = Workers(cluster, ["a", "b"], timeout=20.0)
    del cluster.beats["b"]
    cluster.after(1.0, a=1001.0)
    with (
        pytest.raises(rw.cluster.LostWorkerError, match=r"worker b was lost while scattering\. Hint: .*resume=True"),
        names.connected("scattering"),
    ):
        raise KeyError("b")  # as Dask says it
    with pytest.raises(KeyError, match="mine"), Workers(cluster, ["a"]).connected("scattering"):
        raise KeyError("mine")


def test_a_connection_that_broke_for_no_known_reason(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0)
    with (
        pytest.raises(
            rw.cluster.LostWorkerError, match=r"a connection .* broke while scattering \(CommClosedError: closed\)"
        ),
        Workers(cluster, ["a"]).connected("scattering"),
    ):
        raise distributed.comm.CommClosedError("closed")


def test_a_scheduler_that_does_not_answer(monkeypatch):
    cluster = Cluster(monkeypatch, a=1000.0)
    watched = Liveness(cluster, ["a"], timeout=20.0)
    cluster.failure = TimeoutError("timed out after 5 s")
    cluster.after(10.0)
    assert watched.gone("growing") == []  # it may come back
    cluster.after(11.0)
    with pytest.raises(
        rw.cluster.LostWorkerError, match="scheduler .* did not answer for 21 seconds while growing.*new Client"
    ):
        watched.gone("growing")
    with pytest.raises(rw.cluster.LostWorkerError, match="the scheduler of the cluster does not answer"):
        processes(cluster, 20.0)
    cluster.failure = None
    cluster.status = "closed"
    with pytest.raises(rw.cluster.LostWorkerError, match="the scheduler of the cluster"):
        Liveness(cluster, ["a"], timeout=20.0).gone("growing", ask=True)


def test_what_a_broken_connection_is():
    assert all(
        map(broken, (TimeoutError(), OSError("Timed out trying to connect"), distributed.comm.CommClosedError()))
    )
    assert broken(distributed.client.FutureCancelledError("key", "lost"))
    assert not any(map(broken, (FileNotFoundError(), PermissionError(), ValueError(), KeyError())))


def test_tidying_up_waits_for_nobody(monkeypatch):
    monkeypatch.setattr(workers, "_TIDYING", 0.01)
    held = threading.Event()
    workers.quietly(held.wait)
    held.set()
    workers.quietly(lambda: 1 / 0)
