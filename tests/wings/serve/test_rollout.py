"""``rankwise serve`` in service: signals, models that are replaced, several processes, idle connections."""

import errno
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest

import rankwise as rw
from tests import tiers
from tests.cli.running import refused
from tests.processes import HANG, environment, wait_until
from tests.wings.serve.running import Running

pytest.importorskip("starlette", reason="needs the extra serve")
from rankwise.models import storage
from rankwise.models.schema import Schema
from rankwise.wings.serve import processes, server
from rankwise.wings.serve.feature_log_writer import FeatureLog
from rankwise.wings.serve.request_parsing import RequestedQuery

SETTINGS: Any = {"leaves": 7, "min_documents": 1, "threads": 1, "patience": None}
EVERYWHERE = "0.0.0.0"  # noqa: S104 (nothing listens there)
ROWS = {"rows": [[1, 2], [3, 4]]}


@pytest.fixture(scope="module")
def models() -> list[rw.Ranker]:
    """Three models that give different scores."""
    data = rw.synthetic(n_queries=20, n_docs=10, n_features=2, seed=1).with_(feature_names=None)
    return [rw.LightGBMRanker("xendcg", rounds=rounds, **SETTINGS).fit(data) for rounds in (2, 3, 4)]


def damage(folder: Path) -> None:
    """Leave a folder as a copy that stopped halfway does."""
    largest = max(folder.iterdir(), key=lambda path: path.stat().st_size)
    largest.write_bytes(largest.read_bytes()[:-40])


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
@pytest.mark.parametrize("workers", tiers.some([2, 1]))
def test_sighup_replaces_all_models_or_none_and_sigterm_answers_what_is_in_flight(models, tmp_path, workers):
    folders = [models[0].save(tmp_path / name) for name in ("a", "b")]
    with Running(*folders, "--workers", workers, "--log-level", "debug") as running:
        roll_out(running, models, folders, workers)


def roll_out(running: Running, models: list[rw.Ranker], folders: list[Path], workers: int) -> None:
    def scores(name: str) -> Any:
        return running.ask(f"/models/{name}/score", ROWS)[1]["scores"]

    def expected(model: rw.Ranker) -> Any:
        return model.predict([[1, 2], [3, 4]]).tolist()

    def hang_up(message: str) -> None:
        """Send the signal, and wait until the log says what came of it."""
        before = running.log().count(message)
        running.process.send_signal(signal.SIGHUP)
        wait_until(lambda: running.log().count(message) > before)

    def loading() -> list[int]:
        return [line["process"] for line in running.logged() if line["message"] == "loading models"]

    loads = loading()
    assert len(set(loads)) == len(loads) == workers
    assert (running.process.pid in loads) == (workers == 1)  # the parent of several holds no models

    models[1].save(folders[0], force=True)
    models[1].save(folders[1], force=True)
    damage(folders[1])
    hang_up("models were not loaded anew")
    assert [scores(name) for name in "ab" * 4] == [expected(models[0])] * 8
    counted = 'rankwise_requests_total{method="score",model="a",status="200"} 4.0'  # of all processes
    assert counted in running.ask("/metrics")[1]

    first = running.ask("/ready")[1]["models"]["a"]
    if workers > 1:  # one that dies is started again, with the models that the others serve
        os.kill(loads[0], signal.SIGKILL)
        wait_until(lambda: len(loading()) == workers + 1)
        assert [scores(name) for name in "ab" * 4] == [expected(models[0])] * 8

    models[2].save(folders[1], force=True)
    hang_up("models were loaded anew")
    wait_until(lambda: scores("a") != expected(models[0]))
    answered = [[scores(name) for name in "ab"] for _ in range(4)]
    assert workers > 1 or answered == [[expected(models[1]), expected(models[2])]] * 4
    wait_until(lambda: all([scores("a"), scores("b")] == [expected(models[1]), expected(models[2])] for _ in range(8)))
    version = running.ask("/ready")[1]["models"]["a"]
    metrics = running.ask("/metrics")[1]
    assert f'model="a",production="true",version="{version}"}} 1.0' in metrics
    assert f'model="a",production="true",version="{first}"}} 1.0' not in metrics  # not of one that died either

    body = json.dumps(ROWS).encode()
    with socket.create_connection(("127.0.0.1", running.port), timeout=HANG) as connection:
        head = f"POST /models/b/score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:5])
        # Half a request has arrived once its process answers further ones; which process that is nobody knows
        assert [running.ask("/health")[0] for _ in range(4 * workers)] == [200] * 4 * workers
        running.process.send_signal(signal.SIGTERM)
        wait_until(lambda: is_refused(running.port))
        connection.sendall(body[5:])
        answer = b""
        while part := connection.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert b"connection: close\r\n" in answer.lower()
    assert json.loads(answer.partition(b"\r\n\r\n")[2])["scores"] == expected(models[2])
    assert running.end() == 0


def is_refused(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=HANG).close()
    except OSError:
        return True
    return False


@pytest.mark.slow
def test_a_model_that_several_workers_cannot_load_is_a_sentence(models, tmp_path):
    folder = models[0].save(tmp_path / "model")
    damage(folder)
    assert "damaged" in refused("serve", folder, "--port", 0, "--workers", 2)


LOADING = """
import os, signal
from types import SimpleNamespace
from rankwise.wings.serve import server
def service():
    os.kill(os.getpid(), signal.SIGHUP)
    raise SystemExit(7)
server.run(SimpleNamespace(workers=1, log_level="error", service=service, models=None), None)
"""


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="needs SIGHUP")
def test_sighup_while_models_are_loaded_for_the_first_time_does_not_end_the_service():
    assert subprocess.run([sys.executable, "-c", LOADING], env=environment(), timeout=HANG, check=False).returncode == 7


@pytest.mark.parametrize("wrong", [KeyError("odd"), OSError("full")])
def test_models_that_the_parent_cannot_copy_leave_those_that_are_served_and_nothing_else(
    models, tmp_path, monkeypatch, wrong
):
    folders = {name: models[0].save(tmp_path / name) for name in "ab"}
    (tmp_path / "copies").mkdir()
    parent = processes.WorkerProcesses(server.ServerSettings(folders, workers=2), Mock(), tmp_path / "copies")
    served = parent.folders = parent._copied()
    read = storage.read

    def read_first(path: Path) -> Any:
        if path == folders["b"]:
            raise wrong
        return read(path)

    monkeypatch.setattr(storage, "read", read_first)
    parent._reload()
    assert parent.folders == served
    assert sorted((tmp_path / "copies").iterdir()) == sorted(served.values())


def written(log: FeatureLog, request: str, *queries: dict[str, Any]) -> None:
    asked = [RequestedQuery(np.array([[1.5], [2.5]], np.float32) + len(request), words) for words in queries]
    log.write(asked, Schema(1, ("size",)), {"id": request})


def test_requests_of_one_query_without_ids_of_documents_do_not_replace_each_other(tmp_path):
    log = FeatureLog(tmp_path / "served.jsonl")
    written(log, "r", {"id": "tv"}, {"id": "tv"}, {})
    written(log, "rr", {"id": "tv"}, {"id": 1, "ids": [1, 2]}, {"id": "1", "ids": ["1", "2"]})
    data = rw.data.read_feature_log(log.path, repeated="last")
    assert [len(data.take([query]).labels) for query in range(data.n_queries)] == [6, 2, 2]


def test_a_full_disk_leaves_no_half_line(tmp_path, monkeypatch):
    log = FeatureLog(tmp_path / "served.jsonl")
    written(log, "r", {"id": "a"})
    write, before = os.write, log.path.read_bytes()

    def fills_up(file: int, content: bytes) -> int:
        monkeypatch.setattr(os, "write", full)
        return write(file, content[:20])

    def full(file: int, content: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", fills_up)
    with pytest.raises(OSError, match="No space"):
        written(log, "r", {"id": "b"})
    assert log.path.read_bytes() == before


REFUSED = [
    (("--log-features", "served.parquet"), "end its name in .jsonl"),
    (("--log-features", "nowhere/served.jsonl"), "no such file or directory"),
    (("--log-level", "loud"), "loud"),
    (("--sample", "2"), "--sample"),
    (("--production", "other"), "choose one of"),
]


@pytest.mark.parametrize(("words", "sentence"), REFUSED)
def test_options_that_make_no_sense_are_refused_before_anything_is_loaded(words, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert sentence in refused("serve", "model", *words)


def connection(peer: str, *, busy: bool = False) -> Any:
    """A connection as uvicorn has them."""
    done: list[str] = []
    transport = SimpleNamespace(
        abort=lambda: done.append("abort"), close=lambda: done.append("close"), write=done.append
    )
    cycle = SimpleNamespace(response_complete=False) if busy else None
    return _Connection(peer, cycle, transport, done)


class _Connection:
    def __init__(self, peer: str, cycle: Any, transport: Any, done: list[str]) -> None:
        self.peer, self.cycle, self.transport, self.done = peer, cycle, transport, done


def test_idle_connections_make_room_and_other_clients_are_served(monkeypatch):
    monkeypatch.setattr(server, "_MOST", 8)
    monkeypatch.setattr(server, "_OF_ONE", 4)
    open_ones = server._Connections(seconds=3)
    busy = connection("evil", busy=True)
    crowd = [busy, *(connection("evil") for _ in range(10))]
    friend = connection("good")
    for one in (*crowd, friend):
        open_ones.add(one)
        open_ones.close_idle()
    assert [one for one in open_ones.waited if one.peer == "evil"] == [busy, *crowd[-3:]]
    assert friend in open_ones.waited
    assert busy.done == friend.done == []
    for one in crowd[1:-3]:
        assert one.done == ["abort"]
    for one in crowd[-3:]:
        open_ones.waited[one] = 1, None
    for _ in range(2):  # of other clients, until all are taken
        open_ones.add(connection("other"))
    assert crowd[-3] in open_ones.waited
    open_ones.add(connection("another"))
    assert crowd[-3] not in open_ones.waited


def test_a_burst_of_one_client_is_answered_and_cuts_nobody_off(monkeypatch):
    """As of a proxy, from which all requests come: a connection whose request was not read yet is not idle."""
    assert server._OF_ONE >= 1024
    monkeypatch.setattr(server, "_OF_ONE", 4)
    open_ones = server._Connections(seconds=3)
    burst = [connection("proxy") for _ in range(6)]
    for one in burst:
        open_ones.add(one)
    assert [one.done for one in burst] == [[]] * 4 + [[server._FULL, "close"]] * 2


@pytest.mark.parametrize(("hard", "allowed"), [(-1, 2048), (4096, 2048), (1500, 1500), (1024, None)])
def test_files_are_allowed_for_all_connections_as_far_as_the_system_lets(monkeypatch, hard, allowed):
    resource = pytest.importorskip("resource", reason="Unix")
    limits: list[Any] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limit: limits.append(limit))
    server._allow_files(2048)
    assert limits == ([] if allowed is None else [(allowed, hard)])


def test_a_client_whose_requests_take_its_share_of_connections_gets_no_more(monkeypatch):
    monkeypatch.setattr(server, "_OF_ONE", 2)
    open_ones = server._Connections(seconds=3)
    many = [connection("evil", busy=True) for _ in range(3)]
    for one in many:
        open_ones.add(one)
    assert many[-1].done == [server._FULL, "close"]
    assert list(open_ones.waited) == many[:2]


def test_the_head_of_a_request_must_come_in_time():
    open_ones = server._Connections(seconds=3)
    idle, busy, between = connection("one"), connection("one", busy=True), connection("one")
    for one in (idle, busy, between):
        open_ones.add(one)
    for _ in range(3):
        open_ones.close_idle()
        between.cycle = SimpleNamespace(response_complete=True)  # a request that came and was answered
    assert idle.done == []
    open_ones.close_idle()
    assert (idle.done, busy.done, between.done) == (["close"], [], [])
    for _ in range(4):
        open_ones.close_idle()
    assert between.done == ["close"]


@pytest.mark.parametrize(
    ("address", "names", "known", "unknown"),
    [
        ("127.0.0.1", [], ["localhost", "127.0.0.1", "::1"], ["evil.example"]),
        ("127.9.9.9", [], ["127.9.9.9", "localhost"], ["evil.example"]),
        ("localhost", ["Rank.Example"], ["rank.example", "localhost"], ["evil.example"]),
        (EVERYWHERE, ["rank.example"], ["rank.example", "127.0.0.1"], ["evil.example"]),
    ],
)
def test_names_of_the_service(address, names, known, unknown):
    hosts = server.hosts(address, names)
    assert hosts.issuperset(known)
    assert hosts.isdisjoint(unknown)
    assert server.hosts(EVERYWHERE, []) == frozenset()
