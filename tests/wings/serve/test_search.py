"""A search in service: its answers are those of Python, its page shows them, and models serve beside it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

import rankwise as rw
from rankwise.evaluation import ranked
from tests.cli.running import refused, run
from tests.wings.serve.running import Running

pytest.importorskip("starlette", reason="needs the extra serve")

EVIL = "</script><img src=x onerror=\"document.title='taken'\"> median & <b>mean</b>"
FIELDS = ("title", "text")
ROWS = [
    {"id": f"{one}-{n}", "title": f"{one} {n}", "text": f"{one} " * n + f"of an {other} array"}
    for one in ("mean", "median", "sum")
    for other, n in (("sorted", 1), ("empty", 2), ("median", 3), ("mean", 4))
]
ROWS.append({"id": EVIL, "title": EVIL, "text": f"{EVIL} {EVIL}"})
QUERIES = {"q1": "median array", "q2": "mean of an array", "q3": "sum sorted", "q4": "empty median"}
QRELS = {query: {row["id"]: n % 3 for n, row in enumerate(ROWS)} for query in QUERIES}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with a search and with all that the command line makes it of."""
    folder: Path = tmp_path_factory.mktemp("search")
    (folder / "docs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    (folder / "queries.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in QUERIES.items()))
    lines = (f"{query} 0 {row['id'].replace(' ', '')} {n % 3}\n" for query in QUERIES for n, row in enumerate(ROWS))
    (folder / "qrels.txt").write_text("".join(lines))
    run("text", "features", folder / "docs.jsonl", folder / "queries.tsv", "--qrels", folder / "qrels.txt", "-o",
        folder / "data.parquet")  # fmt: skip
    words = ("--rounds", 8, "--leaves", 4, "--min-documents", 1, "--threads", 1)
    run("train", folder / "data.parquet", *words, "-o", folder / "model")
    run("text", "save", folder / "model", folder / "docs.jsonl", "-o", folder / "search")
    return folder


@pytest.fixture(scope="module")
def search(folder) -> rw.text.Search:
    return rw.text.Search.load(folder / "search")


@pytest.fixture(scope="module")
def server(folder) -> Iterator[Running]:
    running = Running(folder / "search", folder / "model")
    yield running
    assert running.stop() == 0


def test_answers_are_those_of_python(server, search):
    status, answer = server.ask("/search", {"query": QUERIES["q1"], "k": 3})
    assert status == 200
    assert answer["model"] == "search"
    expected = json.loads(search(QUERIES["q1"], 3).to_json())
    assert {name: answer[name] for name in expected} == expected
    first, second = (one["document"] for one in answer["documents"][:2])
    status, why = server.ask("/models/search/why", {"query": QUERIES["q1"], "document": second, "other": first})
    expected = search(QUERIES["q1"]).explain(first, second).to_dict()
    assert (status, why["sentence"], why["above"]) == (200, expected["sentence"], first)
    assert why["reasons"] == json.loads(json.dumps(expected["reasons"]))
    assert server.ask("/search", {"query": "zzz"})[1]["documents"] == []


def test_its_model_scores_features_too(server, search):
    found = search(QUERIES["q2"])
    rows = [[None if x != x else x for x in row] for row in found.matrix.tolist()]
    for name in ("search", "model"):
        status, answer = server.ask(f"/models/{name}/score", {"features": list(search.features), "rows": rows})
        assert (status, answer["scores"]) == (200, found.scores.tolist())


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/search", {"quer": "x"}, 422),
        ("/search", {"query": 7}, 422),
        ("/search", {"query": "median \ud800"}, 400),
        ("/why", {"query": "\ud800", "document": "median-1", "other": "median-2"}, 400),
        ("/search", {"query": "x", "k": 0}, 422),
        ("/search", {"query": "x", "k": "many"}, 422),
        ("/search", ["x"], 422),
        ("/search", b"{", 400),
        ("/why", {"query": "median", "document": "median-1", "other": "nowhere"}, 422),
        ("/why", {"query": "median", "document": "median-1", "other": "median-1"}, 422),
        ("/why", {"query": "zzz", "document": "median-1", "other": "median-2"}, 422),
        ("/models/model/search", {"query": "x"}, 404),
        ("/models/model/why", {"query": "x"}, 404),
    ],
)
def test_bad_requests_are_sentences(server, path, body, status):
    found, answer = server.ask(path, body)
    assert found == status
    assert answer["error"]["what"]


def test_the_service_describes_itself(server):
    paths = server.ask("/openapi.json")[1]["paths"]
    assert paths["/why"]["post"]["requestBody"]["content"]["application/json"]["schema"]["required"] == [
        "query", "document", "other"
    ]  # fmt: skip
    listed = {one["name"]: one for one in server.ask("/models")[1]["models"]}
    assert listed["search"]["search"] == {"documents": 13, "fields": list(FIELDS), "runs": ["bm25"], "depth": 100}
    assert listed["search"]["version"] != listed["model"]["version"]
    assert "search" not in listed["model"]


def test_several_processes_serve_it_and_log_its_features(folder, search, tmp_path):
    logged = tmp_path / "served.jsonl"
    with Running(folder / "search", "--workers", 2, "--log-features", logged, "--sample", 1) as running:
        answer = running.ask("/search", {"query": QUERIES["q1"]})[1]
        assert [one["rank"] for one in answer["documents"]] == list(range(1, len(answer["documents"]) + 1))
        assert running.stop() == 0
    found = search(QUERIES["q1"])
    log = rw.data.read_feature_log(logged)
    assert log.feature_names == search.features
    assert log.features.tobytes() == found.matrix.tobytes()


def test_the_command_line_searches(folder, search, tmp_path):
    shown = run("text", "search", folder / "search", "median array", "-k", 2, "--explain").stdout
    assert shown.count("median-") >= 2
    assert str(search("median array").explain(*search("median array").rivals)) in shown
    answer = json.loads(run("text", "search", folder / "search", "median array", "--json", "--explain").stdout)
    assert answer["documents"] == json.loads(search("median array").to_json())["documents"]
    assert answer["why"]["reasons"]
    assert "No document has these words." in run("text", "search", folder / "search", "zzz", "--explain").stdout
    assert "the folder holds no search" in refused("text", "search", folder / "model", "median")
    again = ("text", "save", folder / "model", folder / "docs.jsonl", "-o", folder / "search")
    assert "--force" in refused(*again)
    assert "the search cannot compute" in refused(*again[:-1], tmp_path / "new", "--field", "text")
    assert not (tmp_path / "new").exists()


@pytest.mark.slow
def test_the_page_shows_both_rankings_and_why_in_a_browser(server, search):
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

        def ids(side: str) -> list[str]:
            rows = page.locator(f"#{side} li").all()
            return [row.get_attribute("data-document") for row in rows]

        # The box has the focus: words and Enter
        page.keyboard.type("median array")
        page.keyboard.press("Enter")
        page.wait_for_selector("#learned li")
        found = search("median array")
        assert ids("learned") == found.documents[:10].tolist()
        assert ids("before") == ranked(search.pages.search(["median array"]))["document"][:10].to_list()
        there = page.locator("#learned .moved .quiet").all_inner_texts()
        assert there == [f"rank {rank} in BM25" for rank in found.run_ranks["bm25"][:10]]
        assert page.locator("#learned mark").first.inner_text() == "median"
        # The keyboard: arrows move, Enter asks why, a second choice compares, Escape closes
        page.locator("#learned button").first.focus()
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        page.wait_for_selector("#why:not([hidden])")
        documents = found.documents.tolist()
        assert page.inner_text("#why h3") == f"Why is {documents[1]} above {documents[2]}?"
        assert page.locator("#learned li.held").get_attribute("data-document") == documents[1]
        page.click("#learned li:nth-child(5)")
        page.wait_for_selector(f"#why h3 >> text={documents[4]}")
        why = found.explain(documents[1], documents[4])
        assert page.inner_text("#why h3") == f"Why is {documents[1]} above {documents[4]}?"
        assert why.sentence in page.inner_text("#why p")
        assert page.locator("#why tr").count() == len(why.reasons) + 1
        shown = page.inner_text("#why table")
        assert all(one.text in shown for one in why.reasons)
        page.keyboard.press("Escape")
        assert page.is_hidden("#why")
        # What comes from documents is text
        address = page.evaluate("location.href")
        page.fill("#query", "onerror")
        page.keyboard.press("Enter")
        page.wait_for_selector("#learned .id >> text=onerror")
        assert ids("learned") == [EVIL]
        assert page.locator("#columns img, #columns b").count() == 0
        page.click("#learned li")
        # A search has an address, and nothing found is said
        page.locator("#learned button").focus()
        page.keyboard.press("/")
        page.keyboard.type("zzz")
        page.keyboard.press("Enter")
        page.wait_for_selector("#found >> text=No document has these words.")
        page.goto("about:blank")
        page.goto(address)
        page.wait_for_selector("#learned li")
        assert page.input_value("#query") == "median array"
        assert ids("learned") == found.documents[:10].tolist()
        # Narrow: one column, the learned ranking first, and nothing beside the screen
        page.set_viewport_size({"width": 400, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") == 400
        tops = [page.locator(f"#{side}").bounding_box()["y"] for side in ("learned", "before")]
        assert tops[0] < tops[1]
        assert "taken" not in page.title()
        assert errors == []
