"""People judge in a browser: what they are shown, what is kept through kills and quarrels, and who is kept out."""

import csv
import http.client
import json
import shutil
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise.wings.judging.judgements import given, read_rows
from rankwise.wings.judging.server import Server
from rankwise.wings.judging.task import JudgingTask
from tests.cli.running import refused
from tests.refusals import refusal
from tests.wings.judging.judging_page import JudgeServe, ask, write_task

ENTRY = "secret"
EVIL = "<script>window.broken = 1</script><img src=x onerror='window.broken = 1'> solar & <b>power</b>"
DOCUMENTS: dict[str, Any] = {
    "a": {"title": "Solar power", "text": "Panels turn light into power."},
    "b": EVIL,
    "c": {"title": "الطاقة", "contents": "الألواح الشمسية تحول الضوء إلى كهرباء"},
    "d": "word " * 200_000,
    "e": {"title": "Only a title"},
}
QUERIES = {"q1": "solar power of a house", "q2": EVIL}
PAIRS = [(query, document) for query in ("q1", "q2", "q3") for document in ("a", "b", "c", "d", "e", "gone")]
ROWS = "query,document,grade,importance\n" + "".join(f"{query},{document},,1.5\n" for query, document in PAIRS)
SAMPLE = "query,document,grade,probability\nq1,a,,0.5\nq1,b,,0.25\nq2,c,3,1.0\nq2,d,,1.0\n"


@pytest.fixture
def plan(tmp_path) -> Path:
    return write_task(tmp_path, DOCUMENTS, QUERIES, ROWS)


def task_of(plan: Path, **words: Any) -> JudgingTask:
    texts = plan.with_name("docs.jsonl"), plan.with_name("queries.jsonl")
    return JudgingTask(plan, *texts, plan.with_name("judged.csv"), **words)


@pytest.fixture
def task(plan):
    task = task_of(plan)
    yield task
    task.file.close()


@pytest.fixture
def port(task):
    with Server(task, token=ENTRY) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server.server_port
        server.shutdown()


def judge_all(task: JudgingTask, name: str, grade: int = 1) -> list[tuple[str, str]]:
    """Judge all that is left; return it in the order in which it was shown."""
    shown, state = [], task.state(name)
    while state["document"] is not None:
        shown.append((state["document"]["query"], state["document"]["id"]))
        state = task.answer(name, *shown[-1], grade)
    return shown


def kept(task: JudgingTask) -> list[tuple[str, str, str]]:
    """Judge, document and grade of each line of the file, as any reader of CSV sees them."""
    with task.file.path.open(encoding="utf-8", newline="") as file:
        return [(row["judge"], row["document"], row["grade"]) for row in csv.DictReader(file)]


def test_each_judge_has_an_order_of_documents_that_repeats(plan, task):
    orders = {name: judge_all(task, name) for name in ("ann", "bob", "قطة")}
    for order in orders.values():
        assert sorted(order) == sorted(PAIRS)
        assert [query for query, _ in order] == [query for query, _ in PAIRS]  # a query at a time, as in the plan
    assert len({tuple(order) for order in orders.values()}) == 3
    assert len({tuple(document for query, document in orders["ann"] if query == one) for one in ("q1", "q2", "q3")}) > 1
    task.file.close()
    task.file.path.unlink()
    lines = ROWS.splitlines()  # the order of documents in the plan, which importance gave it, is not seen
    plan.write_text("\n".join([lines[0], *(line for n in (1, 7, 13) for line in reversed(lines[n : n + 6]))]))
    for seed in (0, 1):
        other = task_of(plan, seed=seed)
        assert (judge_all(other, "ann") == orders["ann"]) == (seed == 0)
        other.file.close()
        other.file.path.unlink()


def test_nothing_that_is_shown_tells_systems_importance_or_probability(tmp_path):
    plan = write_task(tmp_path, DOCUMENTS, QUERIES, SAMPLE)
    task = task_of(plan)
    state = task.state("ann")
    assert set(state) == {"judged", "skipped", "documents", "most", "undo", "document"}
    assert set(state["document"]) == {"query", "asked", "id", "title", "text", "number", "of"}
    task.file.close()


def test_texts_are_found_and_missing_ones_are_said(task):
    shown = {}
    state = task.state("ann")
    while state["document"] is not None:
        one = state["document"]
        shown[one["query"], one["id"]] = one
        state = task.answer("ann", one["query"], one["id"], None)
    assert (shown["q1", "a"]["title"], shown["q1", "a"]["text"]) == ("Solar power", "Panels turn light into power.")
    assert shown["q1", "c"]["text"] == DOCUMENTS["c"]["contents"]
    assert (shown["q1", "e"]["title"], shown["q1", "e"]["text"]) == ("", "Only a title")
    assert len(shown["q1", "d"]["text"]) == 1_000_000
    assert (shown["q1", "gone"]["text"], shown["q3", "a"]["asked"]) == (None, None)
    assert shown["q2", "b"]["asked"] == shown["q2", "b"]["text"] == EVIL
    assert task.lost() == (1, 1)
    assert state["skipped"] == 18
    assert task.again("ann")["document"]["query"] == "q1"


def test_undo_takes_back_one_answer_after_another_and_resumes_where_it_stood(plan, task):
    shown = []
    for grade in (2, None, 4):
        shown.append(task.state("ann")["document"]["id"])
        task.answer("ann", "q1", shown[-1], grade)
    first, second, third = shown
    state = task.undo("ann")
    assert (state["document"]["id"], state["document"]["grade"], state["judged"]) == (third, 4, 1)
    state = task.undo("ann")
    assert (state["document"]["id"], state["document"]["grade"], state["skipped"]) == (second, None, 0)
    assert task.answer("ann", "q1", second, 0)["document"]["id"] == third
    task.file.close()
    resumed = task_of(plan)
    assert resumed.state("ann") == task.state("ann")
    assert [row[1:] for row in kept(resumed)] == [
        (first, "2"), (second, ""), (third, "4"), (third, ""), (second, "0")
    ]  # fmt: skip
    for _ in range(3):
        state = resumed.undo("ann")
    assert (state["judged"], state["undo"], state["document"]["id"]) == (0, False, first)
    assert rw.judging.read(task.file.path).is_empty()
    resumed.file.close()


def test_an_answer_that_is_sent_again_is_no_repeat_and_another_one_takes_it_back(task):
    one = task.state("ann")["document"]["id"]
    for grade in (3, 3, 1):
        task.answer("ann", "q1", one, grade)
    assert [grade for *_, grade in kept(task)] == ["3", "", "1"]


def test_a_sample_keeps_its_probabilities_and_what_was_judged_before(tmp_path):
    plan = write_task(tmp_path, DOCUMENTS, QUERIES, SAMPLE)
    task = task_of(plan)
    assert len(judge_all(task, "ann", 2)) == 3
    task.file.close()
    rows = rw.judging.read(task.file.path).select("document", "grade", "probability").rows()
    assert sorted(rows) == [("a", 2, 0.5), ("b", 2, 0.25), ("c", 3, 1), ("d", 2, 1)]
    again = task_of(plan)  # which copies nothing twice
    assert again.state("ann")["document"] is None
    assert len(kept(again)) == 7
    again.file.close()
    plan.write_text(SAMPLE.replace("0.25", "0.75"))
    with refusal(what=f"the file of answers belongs to another plan than {plan}", got="document 'b' of query 'q1'"):
        task_of(plan)


@pytest.mark.parametrize(
    ("rows", "what", "line"),
    [
        ("query,document\nq1,a\nq1,\n", "every line must have a document, without tabs and line ends", 3),
        ("query,document\nq1,a\nq1,a\n", "a document may stand only once under a query", 3),
        ('query,document\nq1,"a\nb"\nq1,c\n', "every line must have a document, without tabs and line ends", 2),
        ("query,document,grade\nq1,a,\nq1,b,good\n", "every grade must be a number, or empty", 3),
        ("query,document,probability\nq1,a,x\n", "every probability must be a number, or empty", 2),
        ("query,document\nq1,a\nq1,b,c\n", "a line must have as many columns as the first one, 2", 3),
    ],
)
def test_bad_lines_of_a_plan_are_named(tmp_path, rows, what, line):
    plan = write_task(tmp_path, DOCUMENTS, QUERIES, rows)
    with refusal(what=what, where=f"{plan}, line {line}"):
        task_of(plan)
    assert not plan.with_name("judged.csv").exists()


def test_a_plan_without_anything_to_judge_and_other_mistakes_are_sentences(tmp_path):
    plan = write_task(tmp_path, DOCUMENTS, QUERIES, "query,document,grade\nq1,a,1\n")
    files = ("--documents", tmp_path / "docs.jsonl", "--queries", tmp_path / "queries.jsonl")
    assert "every document of the plan has a grade" in refused("judge", "serve", plan, *files)
    plan.write_text("query,title\nq,x\n")
    assert "there is no column document" in refused("judge", "serve", plan, *files)
    plan.write_text("query,document\nq1,a\n")
    (tmp_path / "docs.jsonl").write_text('{"_id": "a", "text": "x"}\n{"_id": "a" "text"}\n')
    assert "line 2" in refused("judge", "serve", plan, *files)
    (tmp_path / "docs.jsonl").write_text('{"_id": "a", "text": "x"}\n')
    assert "end its name in .csv" in refused("judge", "serve", plan, *files, "-o", tmp_path / "out.txt")
    task = JudgingTask(plan, files[1], files[3], tmp_path / "judged.csv")
    with Server(task) as server:
        taken = refused("judge", "serve", plan, *files, "--port", server.server_port)
    assert "cannot listen on 127.0.0.1" in taken
    task.file.close()


def test_only_who_has_the_token_may_ask(port, task):
    state = "/state?judge=ann"
    assert ask(port, "secret", state)[0] == 200
    for token in ("", "secre", "secret2", "ü"):
        status, answer = ask(port, token, state, Authorization=f"Bearer {token}".encode().decode("latin-1"))
        assert (status, "token" in answer["error"]) == (403, True)
    assert ask(port, "", "/")[0] == 403
    assert ask(port, "", "/?token=wrong")[0] == 403
    status, (headers, _) = ask(port, "", "/?token=secret", Authorization=None)
    assert (status, headers["Location"]) == (303, "/")
    cookie = headers["Set-Cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=Strict" in cookie
    status, (headers, page) = ask(port, "", "/", Authorization=None, Cookie=cookie.split(";")[0])
    assert status == 200
    assert "secret" not in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


def test_pages_of_other_sites_cannot_ask(port, task):
    body = {"judge": "ann", "query": "q1", "document": "a", "grade": 1}
    assert ask(port, "secret", "/answer", body, Host="evil.example")[0] == 421  # whose name leads to this machine
    assert ask(port, "secret", "/state?judge=ann", Host=f"evil.example:{port}")[0] == 421
    assert ask(port, "secret", "/answer", body, Origin="http://evil.example")[0] == 403
    assert ask(port, "secret", "/answer", body, Content_Type="text/plain")[0] == 415
    assert kept(task) == []
    assert ask(port, "secret", "/answer", body, Host=f"localhost:{port}", Origin=f"http://localhost:{port}")[0] == 200


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[1]", 400),
        (b"\xff", 400),
        (b"[" * 60_000, 400),
        (b"x" * 70_000, 413),
        ({"judge": "ann", "query": "q1", "document": "a", "grade": 5}, 422),
        ({"judge": "ann", "query": "q1", "document": "a", "grade": True}, 422),
        ({"judge": "ann", "query": "q1", "document": "a", "grade": "1"}, 422),
        ({"judge": "ann", "query": "q1", "document": "a", "grade": float("nan")}, 422),
        ({"judge": "ann", "query": "q1", "document": "z", "grade": 1}, 422),
        ({"judge": "ann", "query": ["q1"], "document": "a", "grade": 1}, 422),
        ({"judge": "an\nn", "query": "q1", "document": "a", "grade": 1}, 422),
        ({"judge": "\ud800", "query": "q1", "document": "a", "grade": 1}, 422),
        ({"judge": "plan", "query": "q1", "document": "a", "grade": 1}, 422),
        ({"judge": "x" * 101, "query": "q1", "document": "a", "grade": 1}, 422),
        ({"judge": "", "query": "q1", "document": "a", "grade": 1}, 422),
    ],
)
def test_answers_that_are_none_are_refused_and_nothing_is_kept(port, task, body, status):
    found, answer = ask(port, "secret", "/answer", body)
    assert found == status, answer
    assert answer["error"]
    assert kept(task) == []
    assert ask(port, "secret", "/state?judge=ann")[0] == 200


def test_two_judges_at_once_lose_nothing(port, task, monkeypatch):
    append = task.file.append

    def slow(*rows: Any) -> None:
        append(*rows)
        time.sleep(0.002)  # in which others come

    monkeypatch.setattr(task.file, "append", slow)

    def judge(name: str) -> int:
        state, count = ask(port, "secret", f"/state?judge={name}")[1], 0
        while (one := state["document"]) is not None:
            body = {"judge": name, "query": one["query"], "document": one["id"], "grade": count % 5}
            status, state = ask(port, "secret", "/answer", body)
            assert status == 200
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = list(pool.map(judge, ["ann", "bob", "cid", "cid"]))  # cid has two browsers
    assert counts[:2] == [18, 18]
    rows = rw.judging.read(task.file.path)
    assert rows.group_by("judge").len().sort("judge").rows() == [("ann", 18), ("bob", 18), ("cid", 18)]
    assert given(read_rows(task.file.path)).height == rows.height  # no grade was given twice


def test_an_answer_that_the_disk_does_not_take_is_not_acknowledged(port, task, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(task.file, "append", full)
    body = {"judge": "ann", "query": "q1", "document": "a", "grade": 1}
    status, answer = ask(port, "secret", "/answer", body)
    assert (status, "No space left" in answer["error"]) == (507, True)
    assert ask(port, "secret", "/state?judge=ann")[1]["judged"] == 0


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_while_judging_nothing_that_was_acknowledged_is_lost(tmp_path):
    documents = {f"d{n}": f"text {n}" for n in range(3000)}
    rows = "query,document\n" + "".join(f"q1,{document}\n" for document in documents)
    plan = write_task(tmp_path, documents, QUERIES, rows)
    acknowledged: dict[str, dict[str, int]] = {"ann": {}, "bob": {}}

    def judge(name: str, serving: JudgeServe) -> None:
        try:
            state = serving.ask(f"/state?judge={name}")[1]
            while True:
                body = {
                    "judge": name,
                    "query": "q1",
                    "document": state["document"]["id"],
                    "grade": len(acknowledged[name]) % 5,
                }
                status, state = serving.ask("/answer", body)
                assert status == 200
                acknowledged[name][body["document"]] = body["grade"]
        except (OSError, http.client.HTTPException):
            return  # it was killed

    with JudgeServe(plan) as serving:
        threads = [threading.Thread(target=judge, args=(name, serving)) for name in acknowledged]
        for thread in threads:
            thread.start()
        while min(map(len, acknowledged.values())) < 50:
            threading.Event().wait(0.002)
        serving.process.send_signal(signal.SIGKILL)
        for thread in threads:
            thread.join()
    path = tmp_path / "plan-judged.csv"
    with path.open("ab") as file:
        file.write(b"q1,d1,2,ann,20")  # as a power cut leaves it
    with JudgeServe(plan) as serving:
        for name, grades in acknowledged.items():
            state = serving.ask(f"/state?judge={name}")[1]
            assert (
                len(grades) <= state["judged"] <= len(grades) + 2
            )  # one more may be kept than was acknowledged, per kill
            assert state["document"]["id"] not in grades
        assert "torn by a crash" in serving.stop()
    found = {(judge, document): grade for _, document, grade, judge, *_ in rw.judging.read(path).iter_rows()}
    for name, grades in acknowledged.items():
        for document, grade in grades.items():
            assert found[name, document] == grade


DONE = "document.getElementById('document').hidden"


@pytest.mark.slow
def test_the_page_in_a_browser(tmp_path):
    driver = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("needs Chromium, which is not installed")
    plan = write_task(tmp_path, DOCUMENTS, QUERIES, ROWS)
    with JudgeServe(plan) as serving, driver.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        errors: list[str] = []

        def opened(name: str) -> Any:
            page = browser.new_context().new_page()
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
            page.goto(serving.address)
            page.wait_for_selector("html[data-page=ready]")
            page.fill("#name", name)
            page.keyboard.press("Enter")
            page.wait_for_selector("#document:not([hidden])")
            return page

        def press(page: Any, key: str, saved: str) -> None:
            before = page.inner_text("#which")
            page.keyboard.press(key)
            page.wait_for_function(f"get => document.getElementById('saved').textContent === '✓ {saved}'")
            page.wait_for_function(
                f"before => {DONE} || document.getElementById('which').innerText !== before", arg=before
            )

        ann, bob = opened("ann"), opened("<b>bob</b>")
        assert "token" not in ann.url
        assert serving.token not in ann.content()
        assert bob.inner_text("#judge") == "<b>bob</b>"
        answers: dict[tuple[str, str], str] = {}
        for number in range(18):
            query, document = ann.inner_text("#query"), ann.inner_text("#which").split(" · ")[1]
            text = ann.inner_text("#text")
            if document == "b":
                assert text == EVIL
                assert ann.locator("#text img, #text script, #text b").count() == 0
            if document == "d" and "solar" not in query:
                assert (len(text.strip()), ann.is_visible("#more")) == (19_999, True)
                ann.keyboard.press("m")
                ann.wait_for_function("() => document.getElementById('text').textContent.length === 1000000")
            if document == "gone":
                assert "missing" in text
            if (query, document) == (QUERIES["q1"], "a"):
                assert ann.locator("mark").all_inner_texts() == ["Solar", "power", "power"]
            if document == "c":
                title = ann.locator("#title")
                assert title.evaluate("one => getComputedStyle(one).direction") == "rtl"
            key = "s" if document == "gone" else str(number % 5)
            press(ann, key, "skipped" if key == "s" else f"saved {key}")
            if number == 4:
                press(ann, "u", "taken back")
                assert "your grade was" in ann.inner_text("#which") or key == "s"
                press(ann, key, "skipped" if key == "s" else f"saved {key}")
            answers[query, document] = key
        assert "15 of 18" in ann.inner_text(".status")
        assert ann.is_visible("#again")
        assert ann.evaluate("window.broken") is None
        nothing = {"query": "q", "asked": "a", "id": "x", "title": "", "text": " ", "number": 1, "of": 1}
        counts = {"judged": 0, "skipped": 0, "documents": 1, "most": 4, "undo": False}
        ann.route("**/state?*", lambda route: route.fulfill(json=counts | {"document": nothing}))
        ann.reload()
        ann.wait_for_selector("#text >> text=The text of this document is empty: skip it.")
        press(bob, "3", "saved 3")
        bob.click("[data-grade='2']")
        bob.wait_for_function("get => document.getElementById('saved').textContent === '✓ saved 2'")
        bob.reload()
        bob.wait_for_selector("#document:not([hidden])")
        assert "2 of 18" in bob.inner_text(".status")
        assert errors == []
        serving.process.kill()
        bob.keyboard.press("1")
        bob.wait_for_selector("#problem >> text=Not saved")
        assert "2 of 18" in bob.inner_text(".status")
        browser.close()
    rows = rw.judging.read(tmp_path / "plan-judged.csv")
    asked = {**QUERIES, "q3": "Query q3 (its text is missing)"}
    mine = {
        (asked[query], document): f"{grade:g}"
        for query, document, grade, judge in rows.select("query", "document", "grade", "judge").iter_rows()
        if judge == "ann"
    }
    assert mine == {pair: key for pair, key in answers.items() if key != "s"}
    assert json.dumps(sorted(rows["judge"].unique())) == '["<b>bob</b>", "ann"]'
