"""Judgements of several judges, merged by precedence and time."""

from pathlib import Path

import polars as pl
import pytest

import rankwise as rw
from rankwise.judging import merge
from tests.refusals import refuses

COLUMNS = ["query", "document", "grade", "judge", "time"]
ROWS = [
    ("q", "007", 2, "ann", "2026-01-02T10:00:00.000Z"),
    ("q", "a", 1, "ann", "2026-01-02T10:00:00.000Z"),
    ("q", "007", 0, "ann", "2026-01-01T10:00:00.000Z"),  # earlier, though below
    ("q", "a", 2, "bob", "2026-01-03T10:00:00.000Z"),
    ("q", "b", 2, "bob", "2026-01-03T10:00:00.000Z"),
    ("q", "a", 0, "llm", None),
    ("q", "b", 2, "llm", None),
    ("p", "c", 1, "llm", None),
    ("p", "d", 1, "llm", None),
    ("p", "d", None, "llm", None),  # taken back
]
TABLE = pl.DataFrame(ROWS, schema=COLUMNS, orient="row")


def grades(precedence: list[str]) -> dict[str, tuple[float, str]]:
    rows = merge(TABLE, precedence=precedence).to_frame().select("document", "grade", "judge").rows()
    return {document: (grade, judge) for document, grade, judge in rows}


def test_the_first_judge_counts_and_of_one_judge_the_last_grade():
    people = {"007": (2.0, "ann"), "a": (1.0, "ann"), "b": (2.0, "bob"), "c": (1.0, "llm")}
    assert grades(["ann", "bob", "llm"]) == people
    assert grades(["ann", "*"]) == people  # bob judged later than the model
    assert grades(["*", "llm"]) == people | {"a": (2.0, "bob")}  # ann and bob are equal, and bob judged later
    assert grades(["llm", "*"])["a"] == (0.0, "llm")


def test_conflicts_are_counted():
    merged = merge(TABLE, precedence=["ann", "bob", "llm"])
    assert (merged.shared, merged.conflicts) == (2, 1)  # a and b have several judges, a different grades
    assert merged.judges.rows() == [("ann", 3, 2, 2, 0), ("bob", 2, 2, 1, 1), ("llm", 3, 3, 1, 1)]
    assert merged.sentence == "4 documents, of which 2 have several judges; 1 with different grades."
    assert merged.to_dict()["conflicts"] == 1


@pytest.mark.parametrize("name", ["merged.csv", "merged.txt"])
def test_files_are_read_wherever_qrels_are(tmp_path: Path, name: str):
    TABLE.write_csv(tmp_path / "judged.csv")
    people = {"q": {"b": 1}}
    merged = merge({"any": tmp_path / "judged.csv", "zoe": people}, precedence=["zoe", "*"])
    path = merged.write(tmp_path / name)
    run = {"q": {"007": 3.0, "a": 2.0, "b": 1.0}, "p": {"c": 1.0}}
    expected = {"q": {"007": 2, "a": 2, "b": 1}, "p": {"c": 1}}
    read = path if name.endswith("txt") else rw.judging.read(path)
    assert rw.evaluate(run, read).mean == rw.evaluate(run, expected).mean
    refuses(lambda: merged.write(path), FileExistsError)


def test_a_file_of_several_judges_is_no_qrels(tmp_path: Path):
    TABLE.write_csv(tmp_path / "judged.csv")
    what, run = "several judges graded the same document", {"q": {"a": 1.0}}
    refuses(lambda: rw.evaluate(run, tmp_path / "judged.csv"), what=what, got="ann, bob, llm", hint="merge them first…")


def test_bad_judgements_are_refused(tmp_path: Path):
    refuses(lambda: merge(TABLE, precedence=["ann", "bob"]), what="precedence must name every judge", got="'llm'")
    refuses(
        lambda: merge(TABLE, precedence=["eve", "*"]), what="precedence names a judge of whom there is…", got="'eve'"
    )
    refuses(lambda: merge(TABLE, precedence=["ann", "ann", "*"]), what="precedence must name a judge once", got="'ann'")
    refuses(lambda: merge(TABLE.drop("judge"), precedence=["*"]), what="judgements need a column judge")
    refuses(lambda: merge(TABLE.drop("grade"), precedence=["*"]), what="judgements need columns…", got="no grade")
    refuses(lambda: merge(TABLE.clear(), precedence=["*"]), what="there are no judgements")
    refuses(lambda: merge({}, precedence=["*"]), what="there are no judgements")
    unknown = TABLE.with_columns(judge=pl.lit(None, pl.String))
    refuses(lambda: merge(unknown, precedence=["*"]), what="the judge must be known…")
    infinite = TABLE.with_columns(grade=pl.lit(float("inf")))
    refuses(lambda: merge(infinite, precedence=["*"]), what="every grade must be a finite number")
    text = TABLE.with_columns(grade=pl.lit("good"))
    refuses(lambda: merge(text, precedence=["*"]), what="every grade must be a finite number", got="'good'")
    real = merge({"x": {"q": {"a": 0.5}}}, precedence=["x"])
    refuses(lambda: real.write(tmp_path / "real.txt"), what="qrels hold whole grades")


def test_a_line_that_a_crash_tore_is_left_out(tmp_path: Path):
    path = tmp_path / "judged.csv"
    path.write_text("query,document,grade,judge\nq,a,1,ann\nq,b")
    assert merge(path, precedence=["ann"]).to_frame()["document"].to_list() == ["a"]
