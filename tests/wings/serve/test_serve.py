"""``rankwise serve``: a real server on loopback, its answers, its errors, its limits and its end."""

import asyncio
import http.client
import json
import logging
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.cli.running import refused, run
from tests.processes import HANG, wait_until
from tests.refusals import refusal
from tests.wings.serve.running import Running

pytest.importorskip("starlette", reason="needs the extra serve")
import orjson

from rankwise import explain
from rankwise.models.schema import Schema
from rankwise.wings.serve import openapi
from rankwise.wings.serve.feature_log_writer import FeatureLog
from rankwise.wings.serve.http import Service
from rankwise.wings.serve.request_parsing import RequestError, RequestLimits

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


@pytest.fixture(scope="module")
def server(folders, data, tmp_path_factory) -> Iterator[Running]:
    examples = rw.data.write_parquet(data, tmp_path_factory.mktemp("examples") / "data.parquet")
    words = [f"{name}={folder}" for name, folder in folders.items()]
    limits = ("--max-documents", 30, "--max-megabytes", 0.05)
    logged = ("--log-level", "info", "--log-features", tmp_path_factory.mktemp("log") / "served.jsonl", "--sample", 1)
    running = Running(*words, "--production", "two", "--examples", examples, *limits, *logged)
    yield running
    assert running.stop() == 0


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
    ("numbered", {"rows": [[1, 2]] * 20 + [[1, "word"]]}, 422, {"got": "'word'", "where": "rows[20], column 1"}),
    ("numbered", {"rows": [[1, "NaN"]]}, 422, {"got": "'NaN'", "hint": "null where a value is missing"}),
    ("numbered", b'{"rows": [[1, NaN]]}', 400, {"what": "not JSON", "hint": "null where a value is missing"}),
    ("numbered", b'{"rows": [[1, ' + b"9" * 5_000 + b"]]}", 400, {"what": "not JSON", "got": "infinity"}),
    ("numbered", b'{"rows": [], "id": ' + b"[" * 500 + b"]" * 500 + b"}", 400, {"what": "an id must", "hint": '"q1"'}),
    ("numbered", {"queries": [{"rows": [], "id": {}}]}, 400, {"got": "a JSON object", "where": "queries[0].id"}),
    ("numbered", {"rows": [], "id": None}, 400, {"got": "None", "where": "id"}),
    ("numbered", b'{"rows": [[1, 2]], "rows": [[3, 4]]}', 400, {"what": "the same key twice", "got": "'rows'"}),
    ("two", b'{"documents": [{"clicks": 1, "clicks": 2}]}', 400, {"what": "the same key twice", "got": "'clicks'"}),
    ("two", b'{"id": "a:b", "documents": [{"x:y": 1, "x\\u003ay": 2}]}', 400, {"got": "'x:y'"}),
    ("two", b'{"queries":[' * 400 + b'{"a":1,"a":1}' + b"]}" * 400, 400, {"what": "the same key twice"}),
    ("two", {"features": ["c" * 20_000, EVIL], "rows": [[1, 2]]}, 422, {"what": "no such feature", "got": "'ccc"}),
    ("two", b" " * 60_000, 413, {"what": "larger than 0.05 MB"}),
    ("second", {"rows": []}, 404, {"what": "no such model", "hint": "choose one of"}),
    ("s" * 9_000, {"rows": []}, 404, {"what": "no such model", "got": "sss…"}),
]  # fmt: skip


@pytest.mark.parametrize(("model", "body", "status", "parts"), BAD)
def test_errors_say_what_got_where_and_a_hint(server, model, body, status, parts):
    answered, answer = server.ask(f"/models/{model}/score", body)
    assert answered == status
    for name, text in parts.items():
        assert text in answer["error"][name]
    assert answer["error"]["what"] in answer["error"]["message"]


PATHS = [
    ("/nothing", {}, 404, {"what": "not found"}),
    ("/score", {}, 405, {"what": "method not allowed"}),
    ("/examples/30", {}, 404, {"what": "no such example", "got": "30"}),
    ("/examples/" + "9" * 5_000, {}, 400, {"what": "1 to 9 digits", "got": "999…", "hint": "0 to 29"}),
    ("/examples/x", {}, 400, {"got": "'x'"}),
    ("/health", {"Host": "evil.example"}, 400, {"got": "'evil.example'", "where": "Host", "hint": "--host-name"}),
    ("/health", {"Host": "localhost.evil.example:80"}, 400, {"got": "localhost.evil"}),
    ("/metrics", {"Host": "10.1.2.3"}, 400, {"got": "'10.1.2.3'"}),
    ("/metrics", {"Host": ""}, 400, {"got": "''"}),
]  # fmt: skip


@pytest.mark.parametrize(("path", "headers", "status", "parts"), PATHS)
def test_errors_of_paths_and_hosts(server, path, headers, status, parts):
    answered, answer = server.ask(path, headers=headers)
    assert answered == status
    for name, text in parts.items():
        assert text in answer["error"][name]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST.:80", "127.0.0.1:1", "[::1]:8000"])
def test_loopback_names_are_the_service(server, host):
    assert server.ask("/health", headers={"Host": host})[0] == 200


def test_a_word_among_numbers_takes_no_more_memory_than_the_body(models):
    """NumPy would make an array of texts: here of 160 GB."""
    body = orjson.dumps({"rows": [[1.5, 2.5]] * 20_000 + [[1.5, "x" * 1_000_000]]})
    with refusal(RequestError, what="a value must be a number, or null where it is missing") as wrong:
        Service({"numbered": models["numbered"]}).models["numbered"].read(body, 30_000)
    assert wrong.value.where == "rows[20000], column 1"


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


def value(text: str, name: str) -> float:
    """A value of the metrics."""
    lines = [line for line in text.splitlines() if line.startswith(name + " ")]
    return float(lines[0].rpartition(" ")[2]) if lines else 0.0


def test_metrics_count_missing_values_and_unknown_categories_by_feature(server):
    names = {
        'rankwise_missing_values_total{feature="colour",model="first"}': 1,
        'rankwise_missing_values_total{feature="clicks",model="first"}': 3,
        'rankwise_unknown_categories_total{feature="colour",model="first"}': 2,
        'rankwise_unknown_categories_total{feature="clicks",model="first"}': 0,
    }
    before = server.ask("/metrics")[1]
    rows = [[None, 1, colour] for colour in ("pink", None, "mauve")] + [[1, 1, "red"]]
    query = {"features": ["clicks", EVIL, "colour"], "rows": rows}
    assert server.ask("/models/first/score", {"queries": [query, {"documents": []}]})[0] == 200
    after = server.ask("/metrics")[1]
    for name, added in names.items():
        assert value(after, name) - value(before, name) == added, name


def test_each_request_is_a_line_of_json_with_its_id(server, data):
    asked = {"documents": of_two(documents(data, 2))}
    assert server.ask("/score", asked, headers={"X-Request-ID": "request-1"})[0] == 200
    assert server.ask("/score", {"rows": [[]]}, headers={"X-Request-ID": "request-2"})[0] == 422
    assert server.answered["x-request-id"] == "request-2"
    assert server.ask("/health", headers={"X-Request-ID": "no id\t{}"})[0] == 200
    assert re.fullmatch("[0-9a-f]{16}", server.answered["x-request-id"])
    ids = '"request-1"', '"request-2"', server.answered["x-request-id"]
    wait_until(lambda: all(one in server.log() for one in ids))  # written once the client has its answer
    lines = {line["id"]: line for line in server.logged() if line["message"] == "request"}
    one = lines["request-1"]
    version = server.ask("/models")[1]["models"][1]["version"]
    assert (one["model"], one["version"], one["status"], one["documents"]) == (
        "two",
        version,
        200,
        len(asked["documents"]),
    )
    assert one["milliseconds"] >= 0
    assert lines["request-2"]["status"] == 422


def test_logged_features_are_read_as_data_and_compared(server, models, data, tmp_path):
    for query in range(12, 16):
        asked = {"id": f"q{query}", "documents": documents(data, query)}
        assert server.ask("/models/first/score", asked)[0] == 200
    path = server.words[server.words.index("--log-features") + 1]

    def lines() -> list[str]:
        return [line for line in Path(path).read_text().splitlines() if re.search('"query_id":"q1[2-5]"', line)]

    wait_until(lambda: len(lines()) == 4)
    log = tmp_path / "served.jsonl"
    log.write_text("\n".join(lines()))
    logged = rw.data.read_feature_log(log)
    expected = data.take([int(query[1:]) for query in np.asarray(logged.query_ids)])  # they may be logged in any order
    assert logged.feature_names == data.feature_names
    assert models["first"].predict(logged).tolist() == models["first"].predict(expected).tolist()
    train = rw.data.write_parquet(data, tmp_path / "train.parquet")
    assert "colour" in run("data", "skew", train, log).stdout


def test_ready_and_openapi_describe_the_service(server, models):
    versions = {one["name"]: one["version"] for one in server.ask("/models")[1]["models"]}
    assert server.ask("/ready") == (200, {"status": "ready", "models": versions})
    page = server.ask("/openapi.json")[1]
    assert page["openapi"].startswith("3.1")
    assert {"/score", "/models/{name}/explain", "/ready"} <= page["paths"].keys()
    parts = page["components"]["schemas"]
    assert parts["first.document"]["required"] == ["clicks", EVIL, "colour"]
    assert parts["first.document"]["properties"]["colour"]["type"] == ["string", "null"]
    references = re.findall(r'"\$ref": "#/components/schemas/(.*?)"', json.dumps(page))
    assert set(references) <= parts.keys()


def test_openapi_names_schemas_as_the_format_allows_whatever_models_are_called():
    names = ["a model", "ein/é", "a", "-3", "x~y%"]
    page = openapi.document([(name, Schema(1, ("size",))) for name in names], RequestLimits())
    parts = page["components"]["schemas"]
    assert all(re.fullmatch(r"[a-zA-Z0-9._-]+", name) for name in parts)
    assert len(parts) == 2 + 2 * len(names)
    assert parts["a.document"]["properties"]["size"]["type"] == ["number", "boolean", "null"]  # all that is read
    assert set(re.findall(r'"\$ref": "#/components/schemas/(.*?)"', json.dumps(page))) == parts.keys()


def test_metrics_count_requests_errors_documents_and_times(server):
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


@pytest.mark.parametrize(
    ("body", "inside"), [(ROW, True), (b'{"queries": [%s]}' % b",".join([b'{"rows": []}'] * 2000), False)]
)
def test_many_queries_are_scored_in_a_thread_even_if_they_are_empty(models, body, inside):
    service, threads = Service({"numbered": models["numbered"]}), set()
    scorer = service.models["numbered"].scorer

    def noted(*arguments: Any) -> Any:
        threads.add(threading.current_thread() is threading.main_thread())
        return scorer(*arguments)

    service.models["numbered"].scorer = noted  # type: ignore[assignment]
    assert answers(service, ("/score", body))[0][0] == 200
    assert threads == {inside}


def test_a_request_whose_features_cannot_be_logged_is_answered_and_the_log_says_so(models, tmp_path, caplog):
    service = Service(models, feature_log=FeatureLog(tmp_path / "gone" / "served.jsonl"))
    ((status, _),) = answers(service, ("/models/numbered/score", ROW))
    assert status == 200
    assert [record.getMessage() for record in caplog.records] == ["features were not logged: No such file or directory"]


def test_the_name_of_a_model_may_have_slashes_and_the_host_has_no_say(models):
    service = Service({"a/b": models["numbered"]})
    ((status, content),) = answers(service, ("/models/a/b/score", ROW), host=b"x/explain?")
    assert (status, content["ranks"]) == (200, [1])


def test_a_request_that_takes_too_long_ends_with_504(models):
    """A client that sends half of its body, and then nothing."""
    ((status, content),) = answers(Service(models, limits=RequestLimits(seconds=0.05)), ("/score", b"{"))
    assert status == 504
    assert content["error"]["what"] == "the request took longer than 0.05 s"


def test_parts_of_an_explanation_are_that_of_the_whole(models, monkeypatch):
    rows = [[number % 7, number % 3] for number in range(50)]  # with ties
    body = json.dumps({"rows": rows, "ids": [f"d{number}" for number in range(50)]}).encode()
    service = Service({"numbered": models["numbered"]})
    ((_, whole),) = answers(service, ("/explain", body))
    monkeypatch.setattr("rankwise.wings.serve.served._PART", 7)
    ((status, parts),) = answers(service, ("/explain", body))
    assert status == 200
    assert [one["document"] for one in parts["documents"]] == [one["document"] for one in whole["documents"]]
    assert parts == whole


def test_an_explanation_that_took_too_long_ends_and_the_next_one_is_answered(models, monkeypatch):
    monkeypatch.setattr("rankwise.wings.serve.served._PART", 1)
    released, calls = threading.Event(), []

    def wait_and_explain(*words: Any) -> Any:
        calls.append(words)
        assert released.wait(HANG)
        return explain(*words)

    monkeypatch.setattr("rankwise.wings.serve.served.explain", wait_and_explain)
    service = Service({"numbered": models["numbered"]}, limits=RequestLimits(seconds=0.05))
    ((status, _),) = answers(service, ("/explain", b'{"rows": [[1, 2], [3, 4], [5, 6]]}'))
    assert status == 504
    released.set()
    service.limits = RequestLimits(seconds=HANG)
    ((status, _),) = answers(service, ("/explain", ROW))
    assert status == 200
    assert len(calls) == 2  # one document of three, and the one of the next


def test_what_fails_inside_is_logged_and_answered_without_its_text(models, monkeypatch, caplog):
    def fail(*_: object) -> None:
        raise ZeroDivisionError("secret")

    service = Service({"numbered": models["numbered"]})
    monkeypatch.setattr(service.models["numbered"], "score", fail)
    monkeypatch.setattr(logging.getLogger("rankwise.serve"), "propagate", True)
    with caplog.at_level("ERROR", logger="rankwise.serve"):
        ((status, content),) = answers(service, ("/score", ROW))
    assert (status, content["error"]["what"]) == (500, "internal error")
    assert "secret" not in json.dumps(content)
    assert "secret" in caplog.text


def test_explanations_that_take_long_do_not_keep_scores_waiting(models, monkeypatch):
    done = threading.Event()
    monkeypatch.setattr("rankwise.wings.serve.served.explain", lambda *_: done.wait(HANG))
    service = Service({"numbered": models["numbered"]}, limits=RequestLimits(seconds=1.0))
    service.models["numbered"].quick = False  # scored by threads, as nets are
    *slow, score = answers(service, *[("/explain", ROW)] * 8, ("/score", ROW))
    done.set()
    assert {status for status, _ in slow} == {504}
    assert score[0] == 200


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
