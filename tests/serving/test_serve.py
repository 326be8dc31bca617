"""``rankwise serve``: a real server on loopback, its answers, its errors, its limits and its end."""

import asyncio
import http.client
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.cli.running import refused
from tests.processes import HANG, environment, wait_until

pytest.importorskip("starlette", reason="needs the extra serve")
from rankwise.serving.http import RequestLimits, Service

EVIL = "</script><img src=x onerror=\"document.title='taken'\">"
COLOURS = ("red", "green", "blue")
SETTINGS: Any = {"rounds": 10, "leaves": 7, "min_documents": 1, "threads": 1}


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    """Three features, the last of them a colour, with missing values."""
    data = rw.synthetic(n_queries=30, n_docs=12, n_features=3, seed=1)
    features = data.features.copy()
    features[:, 2] = np.arange(data.n_docs) % 3
    features[::7, 0] = features[::5, 2] = np.nan
    names = ["clicks", EVIL, "colour"]
    return rw.RankingDataset(
        features, data.labels, data.offsets, feature_names=names, categorical=[2], categories={2: COLOURS}
    )


@pytest.fixture(scope="module")
def models(data) -> dict[str, rw.Ranker]:
    """One of all features, one of two, and one that knows no names."""
    plain = data.with_(
        features=data.features[:, :2], feature_names=data.feature_names[:2], categorical=(), categories={}
    )
    return {
        "first": rw.LightGBMRanker("xendcg", **SETTINGS).fit(data),
        "two": rw.LightGBMRanker("lambdarank", **SETTINGS).fit(plain),
        "numbered": rw.LightGBMRanker("xendcg", **SETTINGS).fit(plain.with_(feature_names=None)),
    }


@pytest.fixture(scope="module")
def folders(models, tmp_path_factory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    return {name: model.save(folder / name) for name, model in models.items()}


class Running:
    """``rankwise serve`` in another process."""

    def __init__(self, *words: object) -> None:
        command = [sys.executable, "-m", "rankwise", "serve", *map(str, words), "--port", "0"]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(NO_COLOR="1")
        )
        assert self.process.stdout is not None
        self.line = self.process.stdout.readline()
        assert "serving" in self.line, self.process.communicate()[1]
        self.port = int(self.line.strip().rpartition(":")[2])

    def ask(self, path: str, body: object = None, *, method: str = "") -> tuple[int, Any]:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=HANG)
        content = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        connection.request(method or ("GET" if body is None else "POST"), path, content)
        response = connection.getresponse()
        text = response.read()
        connection.close()
        is_json = response.getheader("content-type") == "application/json"
        return response.status, json.loads(text) if is_json else text.decode()

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=HANG)
        return self.process.returncode


@pytest.fixture(scope="module")
def server(folders, data, tmp_path_factory) -> Iterator[Running]:
    examples = rw.write_parquet(data, tmp_path_factory.mktemp("examples") / "data.parquet")
    words = [f"{name}={folder}" for name, folder in folders.items()]
    limits = ("--max-documents", 30, "--max-megabytes", 0.05)
    running = Running(*words, "--production", "two", "--examples", examples, *limits)
    yield running
    running.stop()


def documents(data: rw.RankingDataset, query: int) -> list[dict[str, Any]]:
    """A query's documents as JSON has them, in an order of columns that is not that of training."""
    rows = []
    for row in data.features[data.offsets[query] : data.offsets[query + 1]].tolist():
        values = [None if np.isnan(x) else x for x in row]
        colour = None if values[2] is None else COLOURS[int(values[2])]
        rows.append({"colour": colour, "clicks": values[0], EVIL: values[1]})
    return rows


def of_two(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{name: value for name, value in row.items() if name != "colour"} for row in rows]


def test_the_start_is_one_line_that_names_models_and_address(server):
    assert re.fullmatch(r"serving first, two \(production\), numbered at http://127.0.0.1:\d+\n", server.line)


def test_scores_are_those_of_predict_to_the_last_bit_in_every_form(server, models, data):
    query = data.take([4])
    expected = models["first"].predict(query)
    rows = documents(data, 4)
    names = list(rows[0])
    compact = {"features": names, "rows": [[row[name] for name in names] for row in rows]}
    for body in ({"documents": rows}, compact, {"documents": rows, "ids": list(range(len(rows)))}):
        status, answer = server.ask("/models/first/score", body)
        assert status == 200
        assert answer["scores"] == expected.tolist()
        best_first = np.argsort(-expected, kind="stable")
        assert [answer["ranks"][row] for row in best_first] == list(range(1, len(rows) + 1))
        assert answer.get("ids") == body.get("ids")


def test_production_answers_requests_that_name_no_model(server, models, data):
    rows = of_two(documents(data, 2))
    answer = server.ask("/score", {"documents": rows})[1]
    assert (answer["model"], answer["scores"]) == ("two", models["two"].predict(data.take([2])).tolist())


def test_a_batch_of_queries_is_scored_query_by_query(server, models, data):
    batch = {"queries": [{"documents": of_two(documents(data, query))} for query in (0, 1)] + [{"documents": []}]}
    parts = server.ask("/models/two/score", batch)[1]["queries"]
    for part, query in zip(parts, (0, 1), strict=False):
        assert part["scores"] == models["two"].predict(data.take([query])).tolist()
    assert parts[2] == {"scores": [], "ranks": []}


def test_a_model_without_names_takes_rows_by_number(server, models, data):
    features = data.features[:5, :2]
    rows = [[None if np.isnan(x) else x for x in row] for row in features.tolist()]
    assert (
        server.ask("/models/numbered/score", {"rows": rows})[1]["scores"]
        == models["numbered"].predict(features).tolist()
    )


def test_a_category_that_training_did_not_see_is_missing(server, models, data):
    rows = [documents(data, 1)[0] | {"colour": colour} for colour in ("pink", None)]
    scores = server.ask("/models/first/score", {"documents": rows})[1]["scores"]
    assert scores[0] == scores[1]


GOOD: Any = {"colour": "red", "clicks": 1, EVIL: 2}
BAD: list[tuple[str, Any, int, dict[str, str]]] = [
    ("first", {"documents": [{"clicks": 1, EVIL: 2}]}, 422, {"what": "trained on a feature", "got": "no 'colour'"}),
    ("first", {"documents": [GOOD | {"click": 1}]}, 422, {"what": "no such feature", "hint": "did you mean 'clicks'"}),
    ("first", {"documents": [GOOD, {"clicks": 1}]}, 422, {"what": "the same features", "where": "documents[1]"}),
    ("first", {"documents": [GOOD | {"clicks": "1"}]}, 422, {"got": "'1'", "where": "documents[0], column 'clicks'"}),
    ("first", {"documents": [GOOD | {"clicks": [1, 2]}]}, 422, {"got": "a JSON array", "where": "column 'clicks'"}),
    ("first", {"documents": [GOOD | {"colour": 3}]}, 422, {"what": "categories must be text", "where": "documents[0]"}),
    ("first", {"queries": [{"documents": [GOOD, GOOD | {"clicks": {}}]}]}, 422, {"where": "queries[0].documents[1]"}),
    ("first", {"rows": [[1, 2, "red"]]}, 422, {"what": "by their names", "hint": "in features"}),
    ("numbered", {"features": ["a", "b"], "rows": [[1, 2]]}, 422, {"what": "numbers alone"}),
    ("numbered", {"rows": [[1, 2], [1]]}, 422, {"what": "each of 2 features", "got": "1", "where": "rows[1]"}),
    ("numbered", {"rows": [[1, 2]] * 31}, 422, {"what": "too many documents", "got": "31 of 30"}),
    ("numbered", {"queries": [{"rows": []}] * 31}, 422, {"what": "too many queries", "got": "31 of 30"}),
    ("numbered", {"rows": [[1, 2]], "ids": ["a", "b"]}, 422, {"what": "ids must be a list"}),
    ("numbered", {"rows": [[1, 2]], "tops": 3}, 422, {"what": "unknown key", "got": "'tops'"}),
    ("first", {"rows": [], "t" * 9_000: 3}, 422, {"got": "'" + "t" * 39 + "…"}),
    ("two", {"documents": [GOOD], "features": ["clicks"]}, 422, {"what": "name their features themselves"}),
    ("two", {"features": [*map(str, range(999)), "0"], "rows": [[]]}, 422, {"what": "2 features", "got": "1000 names"}),
    ("numbered", {"rows": [[1, 2]], "documents": []}, 422, {"what": "either documents or rows"}),
    ("two", {"features": ["clicks", "clicks", EVIL], "rows": [[1, 1, 2]]}, 422, {"got": "'clicks' again"}),
    ("two", [1], 422, {"what": "must be one query", "hint": '{"documents"'}),
    ("two", b'{"documents": [', 400, {"what": "not JSON"}),
    ("two", b"[" * 40_000, 400, {"what": "not JSON"}),
    ("two", b'{"queries":[' * 400 + b"]}" * 400, 422, {"what": "either documents or rows", "where": "queries[0]"}),
    ("numbered", b'{"rows":[[1,' + b"[" * 900 + b"]" * 900 + b"]]}", 422, {"got": "a JSON array", "where": "rows[0]"}),
    ("two", b" " * 60_000, 413, {"what": "larger than 0.05 MB"}),
    ("second", {"rows": []}, 404, {"what": "no such model", "hint": "choose one of"}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "body", "status", "parts"), BAD)
def test_errors_say_what_got_where_and_a_hint(server, model, body, status, parts):
    answered, answer = server.ask(f"/models/{model}/score", body)
    assert answered == status
    for name, text in parts.items():
        assert text in answer["error"][name]
    assert answer["error"]["what"] in answer["error"]["message"]


def test_paths_and_methods_that_do_not_exist_are_json_errors(server):
    assert server.ask("/nothing")[0] == 404
    status, answer = server.ask("/score")
    assert (status, answer["error"]["what"]) == (405, "method not allowed")


def test_models_are_listed_with_their_features(server, models):
    answer = server.ask("/models")[1]
    assert answer["production"] == server.ask("/health")[1]["production"] == "two"
    first, _, numbered = answer["models"]
    assert first["features"] == ["clicks", EVIL, "colour"]
    assert first["categories"] == {"colour": list(COLOURS)}
    assert first["ranker"] == repr(models["first"])
    assert "## Versions" in first["card"]
    assert numbered["features"] is None
    assert len({one["version"] for one in answer["models"]}) == 3


def test_metrics_count_requests_errors_documents_and_times(server):
    def value(text: str, name: str) -> float:
        lines = [line for line in text.splitlines() if line.startswith(name + " ")]
        return float(lines[0].rpartition(" ")[2]) if lines else 0.0

    names = {
        'rankwise_requests_total{method="score",model="numbered",status="200"}': 2,
        'rankwise_requests_total{method="score",model="numbered",status="422"}': 1,
        'rankwise_documents_total{method="score",model="numbered"}': 6,
        'rankwise_request_seconds_count{method="score",model="numbered"}': 3,
        'rankwise_request_seconds_bucket{le="+Inf",method="score",model="numbered"}': 3,
    }
    before = server.ask("/metrics")[1]
    for rows in ([[1, 2]] * 2, [[1, 2]] * 4, [[1]]):
        server.ask("/models/numbered/score", {"rows": rows})
    after = server.ask("/metrics")[1]
    for name, added in names.items():
        assert value(after, name) - value(before, name) == added, name
    version = server.ask("/models")[1]["models"][1]["version"]
    assert value(after, f'rankwise_model_info{{model="two",production="true",version="{version}"}}') == 1


def test_explanations_add_up_to_the_scores(server, models, data):
    body: Any = {"documents": documents(data, 3), "ids": [f"d{n}" for n in range(12)], "labels": [None, *range(11)]}
    body = {name: value[: len(body["documents"])] for name, value in body.items()}
    status, answer = server.ask("/models/first/explain", body)
    assert status == 200
    scores = dict(zip(body["ids"], models["first"].predict(data.take([3])).tolist(), strict=True))
    for one in answer["documents"]:
        added = answer["start"] + sum(part["contribution"] for part in one["contributions"])
        assert added == pytest.approx(scores[one["document"]], abs=1e-9)
        assert one["label"] == body["labels"][body["ids"].index(one["document"])]


def test_examples_are_requests(server, models, data):
    assert len(server.ask("/examples")[1]["queries"]) == 30
    query = server.ask("/examples/5")[1]
    assert server.ask("/models/first/score", query)[1]["scores"] == models["first"].predict(data.take([5])).tolist()
    assert query["labels"] == data.take([5]).labels.tolist()
    assert server.ask("/examples/30")[0] == 404


def test_many_threads_get_the_scores_of_their_own_documents(server, models, data):
    wrong: list[int] = []

    def ask(first: int) -> None:
        for query in range(first, first + 20):
            rows = of_two(documents(data, query % 30))
            scores = server.ask("/score", {"documents": rows})[1]["scores"]
            if scores != models["two"].predict(data.take([query % 30])).tolist():
                wrong.append(query)

    threads = [threading.Thread(target=ask, args=(first,)) for first in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_the_page_is_one_file_with_a_policy(server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=HANG)
    connection.request("GET", "/")
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    policy = response.getheader("content-security-policy") or ""
    assert "default-src 'none'" in policy
    assert "script-src 'sha256-" in policy
    assert not re.search(r"(?:src|href)=\"(?!data:)", text)
    assert "innerHTML" not in text


def test_a_request_in_flight_is_answered_after_sigterm(folders):
    """The body comes in two halves, with the signal in between."""
    running = Running(folders["numbered"])
    body = json.dumps({"rows": [[1, 2]]}).encode()
    with socket.create_connection(("127.0.0.1", running.port), timeout=HANG) as connection:
        head = f"POST /score HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body[:5])
        assert running.ask("/health")[0] == 200  # the half request has arrived
        running.process.send_signal(signal.SIGTERM)
        wait_until_refused(running.port)
        connection.sendall(body[5:])
        answer = connection.recv(65536)
    assert b" 200 OK" in answer
    running.process.communicate(timeout=HANG)
    assert running.process.returncode in (0, -signal.SIGTERM)


def wait_until_refused(port: int) -> None:
    def is_refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=HANG).close()
        except OSError:
            return True
        return False

    wait_until(is_refused)


def answers(service: Service, *requests: tuple[str, bytes], host: bytes = b"x") -> list[tuple[int, Any]]:
    """Return status and content of requests that come at once; a body that is not complete JSON never ends."""

    async def ask(path: str, body: bytes) -> tuple[int, Any]:
        sent: list[Any] = []
        parts = iter([{"type": "http.request", "body": body, "more_body": not body.endswith(b"}")}])

        async def receive() -> Any:
            return next(parts, None) or await asyncio.Future()

        async def send(message: Any) -> None:
            sent.append(message)

        head = {"type": "http", "method": "POST", "headers": [(b"host", host)], "query_string": b"", "path": path}
        await application(head, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def all_at_once() -> list[tuple[int, Any]]:
        return await asyncio.gather(*(ask(*request) for request in requests))

    application = service.application()
    return asyncio.run(all_at_once())


ROW = b'{"rows": [[1, 2]]}'


def test_the_name_of_a_model_may_have_slashes_and_the_host_has_no_say(models):
    service = Service({"a/b": models["numbered"]})
    ((status, content),) = answers(service, ("/models/a/b/score", ROW), host=b"x/explain?")
    assert (status, content["ranks"]) == (200, [1])


def test_a_request_that_takes_too_long_ends_with_504(models):
    """A client that sends half of its body, and then nothing."""
    ((status, content),) = answers(Service(models, limits=RequestLimits(seconds=0.05)), ("/score", b"{"))
    assert status == 504
    assert content["error"]["what"] == "the request took longer than 0.05 s"


def test_explanations_that_take_long_do_not_keep_scores_waiting(models, monkeypatch):
    done = threading.Event()
    monkeypatch.setattr("rankwise.serving.http.explain", lambda *_: done.wait(HANG))
    service = Service({"numbered": models["numbered"]}, limits=RequestLimits(seconds=1.0))
    service.models["numbered"].quick = False  # scored by threads, as nets are
    *slow, score = answers(service, *[("/explain", ROW)] * 8, ("/score", ROW))
    done.set()
    assert {status for status, _ in slow} == {504}
    assert score[0] == 200


@pytest.mark.slow
def test_several_workers_count_together(folders):
    running = Running(folders["numbered"], "--workers", 2)
    for _ in range(6):
        assert running.ask("/score", {"rows": [[1, 2]]})[0] == 200
    text = running.ask("/metrics")[1]
    assert 'rankwise_requests_total{method="score",model="numbered",status="200"} 6.0' in text
    assert running.stop() in (0, -signal.SIGTERM)


def test_a_port_that_is_taken_and_other_mistakes_are_sentences(folders, server):
    assert "cannot listen on 127.0.0.1" in refused("serve", folders["two"], "--port", server.port)
    assert "--port" in refused("serve", folders["two"], "--port", server.port)
    assert "did you mean 'two'" in refused("serve", folders["two"], "--production", "tow")
    assert "the same name" in refused("serve", folders["two"], folders["two"])
    assert "there is no model" in refused("serve", "nowhere")


def test_the_service_is_an_application_for_other_servers(models):
    service = Service(models, limits=RequestLimits(documents=5))
    assert service.production == "first"
    assert {route.path for route in service.application().routes} >= {"/score", "/models/{name:path}/score", "/health"}  # type: ignore[attr-defined]


@pytest.mark.slow
def test_the_page_shows_two_rankings_and_why_in_a_browser(server, models, data):
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("needs Chromium, which is not installed")
    with driver.sync_playwright() as playwright:
        page = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"]).new_page()
        errors: list[str] = []
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
        page.goto(f"http://127.0.0.1:{server.port}/")
        page.wait_for_selector("html[data-page=ready]")
        query: Any = {"documents": documents(data, 0), "ids": [EVIL, *(f"d{n}" for n in range(1, data.sizes[0]))]}
        page.fill("#query", json.dumps(query))
        page.click("button")
        page.wait_for_selector("#ranking-b td.document >> text=onerror")
        for side, name in (("a", "two"), ("b", "first")):  # production first; each has its own features
            best_first = np.argsort(-models[name].predict(data.take([0])), kind="stable")
            shown = page.locator(f"#ranking-{side} td.document").all_inner_texts()
            assert shown == [query["ids"][row] for row in best_first]
        page.hover("#ranking-a tr:has-text('onerror')")
        why = page.inner_text("#why")
        assert EVIL in why.split("\n")[0]
        assert "colour" in why
        assert page.locator("#result img").count() == 0
        page.fill("#query", '{"documents": [{"clicks": "many"}]}')
        page.click("button")
        page.wait_for_selector("#problem >> text=Hint")
        assert page.title() == "Two rankings of a query"
        assert [error for error in errors if "422" not in error] == []
