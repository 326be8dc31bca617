"""The file of judgements: what is kept, what stands, what a crash leaves, and who reads it."""

import os
import sys
from pathlib import Path

import pytest

import rankwise as rw
from rankwise.wings.judging.evaluation import table_of
from rankwise.wings.judging.judgements import JudgementFile, given, read_rows
from tests.refusals import refusal, refuses

HEADER = "query,document,grade,judge,time\n"


def written(path: Path, *rows: tuple[str, str, float | None, str]) -> Path:
    file = JudgementFile(path)
    for query, document, grade, judge in rows:
        file.append({"query": query, "document": document, "grade": grade, "judge": judge})
    file.close()
    return path


def test_what_stands_is_the_last_grade_of_each_judge_that_was_not_taken_back(tmp_path):
    rows = [
        ("q", "a", 1, "ann"),
        ("q", "a", 3, "bob"),
        ("q", "b", 2, "ann"),
        ("q", "a", 4, "ann"),
        ("q", "c", None, "bob"),
    ]
    rows += [("q", "b", None, "ann"), ("q", "b", 0, "ann"), ("q", "d", 1, "ann"), ("q", "d", None, "ann")]
    path = written(tmp_path / "judged.csv", *rows)
    assert read_rows(path).select("query", "document", "grade", "judge").rows() == rows
    repeats = given(read_rows(path)).select("document", "grade", "judge").rows()
    assert repeats == [("a", 1, "ann"), ("a", 3, "bob"), ("a", 4, "ann"), ("b", 0, "ann")]
    assert set(rw.judging.read(path).select("document", "grade", "judge").rows()) == set(repeats[1:])


def test_ids_of_any_script_and_marks_come_back(tmp_path):
    names = ["=1+2", '"quoted", with comma', "قطط", "貓", "-7", "'", "007", "NA"]
    path = written(tmp_path / "judged.csv", *((one, one, 1, f"@{one}") for one in names))
    assert rw.judging.read(path)["query"].to_list() == rw.judging.read(path)["document"].to_list() == names
    assert "\n'=1+2,'=1+2,1,@=1+2,2" in path.read_text(encoding="utf-8").replace("'@", "@")


def test_what_reads_qrels_reads_judgements(tmp_path):
    path = written(tmp_path / "judged.csv", ("q", "a", 2, "ann"), ("q", "b", 1, "ann"), ("q", "b", None, "ann"))
    assert table_of(path).select("document", "grade").rows() == [("a", 2.0)]
    run = {"q": {"a": 1.0, "b": 2.0}}
    for qrels in (path, rw.judging.read(path)):
        assert rw.evaluate(run, qrels, "rr")["rr"] == 0.5
    assert rw.judging.agreement(path, {"q": {"a": 1}}).confusion.tolist() == [[0, 0], [1, 0]]
    plain = tmp_path / "qrels.csv"
    plain.write_text("query,document,grade\nq,b,1\nq,c,\n")
    assert rw.trec.read_qrels(plain).rows() == [("q", "b", 1)]


@pytest.mark.parametrize(
    ("content", "what"),
    [
        ("", "there is nothing in the file"),
        ("query,document,label\nq,b,1\n", "there is no column grade"),
        ("query,document,grade\nq,b,1,2\n", "a line must have as many columns as the first one, 3"),
        ("query,document,grade\nq,b,x\n", "every grade must be a number, or empty"),
        ("query,document,grade,judge\rq,b,1,ann\r", "there is no column judge"),
    ],
)
def test_what_is_no_qrels_is_refused_by_its_line(tmp_path, content, what):
    path, run = tmp_path / "qrels.csv", {"q": {"a": 1.0, "b": 2.0}}
    path.write_text(content)
    for read in (
        lambda: rw.evaluate(run, path),
        lambda: rw.judging.plan({"x": run, "y": run}, previous=path),
        lambda: rw.judging.judge_agreement({"ann": path}),
    ):
        refuses(read, what=what)


def test_a_sample_tells_what_nobody_has_judged(tmp_path):
    path = tmp_path / "judged.csv"
    path.write_text("query,document,grade,judge,probability\nq,a,,plan,.5\nq,b,,plan,.5\nq,a,3,ann,.5\nq,b,,ann,.5\n")
    assert rw.judging.read(path).select("document", "grade", "probability").rows() == [("a", 3, 0.5), ("b", None, 0.5)]
    runs = {"x": {"q": {"a": 1.0, "b": 0.0}}, "y": {"q": {"a": 0.0, "b": 1.0}}}
    with refusal(what="every document of a sample must be judged", got="1 of 2 without a grade"):
        rw.compare(runs, path, "dcg@5", judge={"q": {"a": 1, "b": 1}}, sampled="probability")


def test_a_line_that_was_torn_at_any_byte_is_removed_and_no_other(tmp_path):
    path = written(tmp_path / "judged.csv", ("q", "a", 1, "ann"), ("=q,", "b", 2, "قطط"))
    whole = path.read_bytes()
    first = whole[: whole.index(b"\n", len(HEADER)) + 1]
    for cut in range(len(first), len(whole) - 1):
        path.write_bytes(whole[:cut])
        assert read_rows(path).height == 1
        file = JudgementFile(path)
        assert (file.torn, file.rows.height) == (cut - len(first), 1)
        file.append({"query": "q", "document": "c", "grade": 3, "judge": "ann"})
        file.close()
        assert path.read_bytes().startswith(first + b"q,c,3,ann,2")
    path.write_bytes(whole[:-1])  # as an editor leaves it: nothing is missing but the end of the line
    written(path, ("q", "c", 3, "ann"))
    assert read_rows(path)["document"].to_list() == ["a", "b", "c"]


def test_two_processes_do_not_write_into_one_file(tmp_path):
    if sys.platform == "win32":
        pytest.skip("needs locks of files")
    file = JudgementFile(tmp_path / "judged.csv")
    with refusal(what="another process is writing into the judgements"):
        JudgementFile(tmp_path / "judged.csv")
    file.close()
    JudgementFile(tmp_path / "judged.csv").close()


def test_a_full_disk_leaves_whole_lines(tmp_path, monkeypatch):
    path = written(tmp_path / "judged.csv", ("q", "a", 1, "ann"))
    before, file, write = path.read_bytes(), JudgementFile(path), os.write
    calls = iter(
        [lambda handle, content: write(handle, content[:9]), lambda *_: (_ for _ in ()).throw(OSError(28, "full"))]
    )
    monkeypatch.setattr(os, "write", lambda handle, content: next(calls)(handle, content))
    with pytest.raises(OSError, match="full"):
        file.append({"query": "q", "document": "b", "grade": 1, "judge": "ann"})
    monkeypatch.undo()
    assert path.read_bytes() == before
    file.close()


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("q,b,good,ann,", "every grade must be a number, or empty"),
        ("q,b,inf,ann,", "every grade must be a number, or empty"),
        ("q,,1,ann,", "every line must have a document, without tabs and line ends"),
        ("q,b,1,,", "every line must have a judge, without tabs and line ends"),
        ("q,b,1,an\tn,", "every line must have a judge, without tabs and line ends"),
        ("q,b,1", "a line must have as many columns as the first one, 5"),
    ],
)
def test_bad_lines_are_named(tmp_path, line, what):
    path = tmp_path / "judged.csv"
    path.write_text(f"{HEADER}q,a,1,ann,\n{line}\nq,c,1,ann,\n")
    with refusal(what=what, where=f"{path}, line 3"):
        rw.judging.read(path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "a.csv").write_text("query,document,grade\nq,a,1\n")
    with refusal(what="there is no column judge", got="query, document, grade"):
        JudgementFile(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == "query,document,grade\nq,a,1\n"
    with refusal(what="judgements are a .csv file"):
        JudgementFile(tmp_path / "a.txt")
