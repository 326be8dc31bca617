"""Clusters that break down in the middle: one error, soon, and a training that resumes on what is left."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import Future
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests import tiers
from tests.processes import HANG, environment

distributed = pytest.importorskip("distributed")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")]

SETTINGS: dict[str, Any] = {
    "rounds": 12,
    "leaves": 7,
    "min_documents": 5,
    "threads": 1,
    "checkpoint_every": 5,
    "patience": None,
}
SILENCE = 10
"""Seconds without an answer after which a worker is lost: many heartbeats, of which a busy machine may delay some."""
LIBRARIES = [rw.LightGBMRanker, rw.XGBoostRanker]


@contextlib.contextmanager
def two_processes():
    """Two processes, of which Dask itself never says that one is silent."""
    import dask

    with (
        dask.config.set({"distributed.scheduler.worker-ttl": None}),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture
def silent_cluster():
    with two_processes() as client:
        yield client


@pytest.fixture(scope="module")
def cluster():
    """Whoever is killed in it starts again."""
    with two_processes() as client:
        yield client


@pytest.fixture
def path(whole, tmp_path):
    return rw.data.write_parquet(whole.with_(query_ids=np.arange(whole.n_queries)), tmp_path / "train.parquet")


def within(function, *arguments, **options):
    """Call a function that might hang."""
    done = Future()  # type: ignore[var-annotated]

    def run():
        try:
            done.set_result(function(*arguments, **options))
        except BaseException as failed:
            done.set_exception(failed)

    threading.Thread(target=run, daemon=True).start()
    return done.result(HANG)


def loss_of_one_machine(ranker, whole):
    return ranker("xendcg", **SETTINGS).fit(whole).history_["loss"]


@pytest.mark.parametrize("ranker", tiers.some(LIBRARIES))
def test_a_worker_falls_silent_between_blocks(silent_cluster, path, whole, tmp_path, ranker):
    """Slow: it waits for silence twice."""
    cluster = silent_cluster
    processes = cluster.run(os.getpid)
    victim = processes[max(processes)]
    settings = SETTINGS | {"checkpoint": tmp_path / "kept"}
    first, again = (ranker("xendcg", **settings) for _ in range(2))
    within(
        rw.cluster.dask.fit, ranker("xendcg", **SETTINGS), path, client=cluster
    )  # everything is imported and compiled

    def silence(done, _):
        if done == 5:
            os.kill(victim, signal.SIGSTOP)

    try:
        with pytest.raises(
            rw.cluster.LostWorkerError, match=rf"{max(processes)} did not answer for {SILENCE} seconds while .*resume="
        ):
            within(rw.cluster.dask.fit, first, path, client=cluster, timeout=SILENCE, callback=silence)
        with pytest.warns(RuntimeWarning, match=f"without {max(processes)}, silent for more than {SILENCE} seconds"):
            model = within(rw.cluster.dask.fit, again, path, client=cluster, timeout=SILENCE, resume=True)
    finally:
        os.kill(victim, signal.SIGCONT)
    assert model.partitions_.workers == 1
    assert model.history_["loss"] == pytest.approx(loss_of_one_machine(ranker, whole), rel=0.05)


@pytest.mark.parametrize(
    ("ranker", "moment"),
    tiers.some([(rw.XGBoostRanker, "scatter"), (rw.LightGBMRanker, "gather"), (rw.LightGBMRanker, "scatter")], 2),
)
def test_a_worker_is_killed_while_data_are_sent(cluster, path, whole, tmp_path, monkeypatch, ranker, moment):
    """Slow: processes start, and one of them again."""
    settings, method = SETTINGS | {"checkpoint": tmp_path / "kept"}, getattr(cluster, moment)
    done: list[int] = []

    def deadly(*arguments, **options):
        if done and done[-1] == 5:
            done.append(0)
            processes = cluster.run(os.getpid)
            os.kill(processes[max(processes)], signal.SIGKILL)
        return method(*arguments, **options)

    monkeypatch.setattr(cluster, moment, deadly)
    options = {"callback": lambda round, _: done.append(round)}
    with pytest.raises(rw.cluster.LostWorkerError, match="resume=True"):
        within(rw.cluster.dask.fit, ranker("xendcg", **settings), path, client=cluster, **options)
    cluster.wait_for_workers(2, timeout=HANG)
    done.clear()
    model = within(rw.cluster.dask.fit, ranker("xendcg", **settings), path, client=cluster, resume=True, **options)
    assert done == list(range(6, 13))
    assert model.history_["loss"] == pytest.approx(loss_of_one_machine(ranker, whole), rel=0.05)


def started(folder, name):
    """A scheduler and a worker in processes of their own, and what reaches them."""
    file = folder / f"{name}.json"
    scheduler = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--port", "0", "--no-dashboard"]
    worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--no-nanny", "--nthreads", "1", "--no-dashboard"]
    worker += ["--local-directory", str(folder), "--death-timeout", "60"]
    return [
        subprocess.Popen([*command, "--scheduler-file", str(file)], stderr=subprocess.DEVNULL, env=environment())
        for command in (scheduler, worker)
    ], file


@pytest.mark.parametrize("moment", tiers.some(["inside", "between"]))
def test_the_scheduler_is_killed(path, whole, tmp_path, moment):
    """Slow: schedulers and workers are processes that start twice."""
    settings = SETTINGS | {"checkpoint": tmp_path / "kept"}
    processes, file = started(tmp_path, "first")
    more: list[Any] = []

    def end(done, _):
        if moment == "between" and done == 5:
            processes[0].kill()
            processes[0].wait()

    try:
        with distributed.Client(scheduler_file=str(file), timeout=HANG) as client:
            client.wait_for_workers(1, timeout=HANG)
            if moment == "inside":  # a block that lasts, and a scheduler that goes in the middle of it
                settings |= {"rounds": 10**6, "checkpoint_every": 10**6}
                threading.Timer(5, processes[0].kill).start()
            with pytest.raises(
                rw.cluster.LostWorkerError, match=r"scheduler .* was lost while .*resume=True.*new Client"
            ):
                within(rw.cluster.dask.fit, rw.LightGBMRanker("xendcg", **settings), path, client=client, callback=end)
            with pytest.raises(rw.cluster.LostWorkerError, match="scheduler"):
                within(
                    rw.cluster.dask.fit,
                    rw.LightGBMRanker("xendcg", **settings),
                    path,
                    client=client,
                    timeout=5,
                    resume=True,
                )
        if moment == "inside":
            return
        more, file = started(tmp_path, "second")
        with distributed.Client(scheduler_file=str(file), timeout=HANG) as client:
            client.wait_for_workers(1, timeout=HANG)
            model = within(
                rw.cluster.dask.fit, rw.LightGBMRanker("xendcg", **settings), path, client=client, resume=True
            )
        assert model.history_["loss"] == pytest.approx(loss_of_one_machine(rw.LightGBMRanker, whole), rel=1e-9)
    finally:
        for process in (*processes, *more):
            process.kill()
            process.wait()
