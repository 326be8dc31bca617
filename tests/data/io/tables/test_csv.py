"""CSV as ranking data: columns by name, categories, missing values, separators, and what is wrong with a file."""

import gzip
import io
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.io.file_formats import zstandard
from tests.refusals import refusal, refuses

ROWS = "session,clicked,price,bm25,shop\na,1,10,7.5,north\na,0,12,,south\nb,2,9,3,north\n"
NAMES: dict[str, Any] = {"query": "session", "label": "clicked", "categorical": ["shop"]}


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    return path


def test_columns_play_the_roles_that_are_named(rows: Path):
    data = rw.read_csv(rows, **NAMES)
    assert data.feature_names == ("price", "bm25", "shop")
    assert data.query_ids is not None
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.labels.tolist() == [1, 0, 2]
    assert data.categories == {2: ("north", "south")}
    np.testing.assert_array_equal(data.features, [[10, 7.5, 0], [12, np.nan, 1], [9, 3, 0]])


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv.gz", gzip.compress(ROWS.encode(), mtime=0)),
        ("rows.csv.zst", zstandard().compress(ROWS.encode())),
        ("rows.tsv", ROWS.replace(",", "\t").encode()),
        ("semicolons.csv", ROWS.replace(",", ";").encode()),
        ("windows.csv", b"\xef\xbb\xbf" + ROWS.replace("\n", "\r\n").encode()),
        ("blank.csv", ROWS.replace("b,", "\nb,").encode()),
        ("no_ending", ROWS.encode()),
        ("quoted.csv", ROWS.replace("north", '"north"').encode()),
    ],
    ids=lambda part: part if isinstance(part, str) else "",
)
def test_every_form_of_csv_has_the_same_data(rows: Path, name: str, content: bytes):
    path = rows.with_name(name)
    path.write_bytes(content)
    data, expected = rw.read_data(path, **NAMES), rw.read_csv(rows, **NAMES)
    assert data.feature_names == expected.feature_names
    assert data.categories == expected.categories
    np.testing.assert_array_equal(data.features, expected.features)
    np.testing.assert_array_equal(data.labels, expected.labels)


def test_words_for_missing_numbers(rows: Path):
    rows.write_text("qid,label,x,y\n1,0,NA,1\n1,1,2,NA\n2,0,0.5,N/A\n")
    np.testing.assert_array_equal(rw.read_csv(rows).features, [[np.nan, 1], [2, np.nan], [0.5, np.nan]])


def test_categories_that_look_like_numbers_stay_text_as_in_training(rows: Path):
    rows.write_text("qid,label,size\n1,0,010\n1,1,12\n")
    data = rw.read_csv(rows, categorical=["size"], categories={"size": ["12", "XL", "010"]})
    assert data.features[:, 0].tolist() == [2, 0]


def test_features_by_pattern(rows: Path):
    names: Any = {"query": "session", "label": "clicked"}
    assert rw.read_csv(rows, **names, features=["p*", "bm25"]).feature_names == ("price", "bm25")
    assert rw.read_csv(rows, **names, features=["!shop"]).feature_names == ("price", "bm25")
    assert rw.read_csv(rows, **names, features=["*", "!s*", "!price"]).feature_names == ("bm25",)
    frame = pl.read_csv(rows)
    assert rw.RankingDataset.from_frame(frame, **names, features=["?m*"]).feature_names == ("bm25",)


def test_documents_without_labels_can_be_read(rows: Path):
    data = rw.read_csv(rows, query="session", to_score=True, features=["price"])
    assert data.labels.tolist() == [0, 0, 0]
    assert rw.read_csv(rows, **NAMES, to_score=True).labels.tolist() == [1, 0, 2]
    with refusal(what="the table has no such column for the label", got="'grade'"):
        rw.read_csv(rows, query="session", label="grade", to_score=True, features=["price"])


@pytest.mark.parametrize(
    ("content", "columns", "message"),
    [
        ("1,2,3\n4,5,6\n", {}, r"the first line of a CSV file must name the columns: got 3 numbers at .*rows\.csv"),
        ("qid,label,x\n1,0\n1,0,1,2\n", {}, r"as many columns as the first one, 3: .*rows\.csv, line 2"),
        ("qid,label,x\n1,0,1\n1,0,1,2\n", {}, r"as many columns as the first one, 3: .*rows\.csv, line 3"),
        ("qid,label,x\n1,0,1\n1,0\n1,1,2\n", {}, r"as the first one, 3: got 2 at .*rows\.csv, line 3"),
        ("qid,label,x\r\n1,0,1\r\n\r\n1,0\r\n", {}, r"as the first one, 3: got 2 at .*rows\.csv, line 4"),
        ("qid,label,x\n1,0,1\n1,0", {}, r"as the first one, 3: got 2 at .*rows\.csv, line 3"),
        ('qid,t,label,x\n1,"a\nb,""c""",0,1\n1,"a,b",0\n', {}, r"first one, 4: got 3 at .*rows\.csv, line 4"),
        ("\n\nqid,label,x\n1,-1,2\n", {}, r"labels must be at least 0: got -1 at line 4"),
        (f"qid,label,x\n1,0,{'9' * 50}\n1,-1,2\n", {}, r"labels must be at least 0: got -1 at line 3"),
        ('qid,label,x\n1,0,1\n1,a"b,2\n1,0,3\n', {}, r"cannot be read as columns of a table: .*, line 3"),
        ('qid,label,x\n1,0,1\n1,0,"2\n1,0,3\n', {}, r"cannot be read as columns of a table: .*, line 3"),
        (ROWS, {}, r"no such column for the query: got 'qid'\. Hint: set query=…, one of session, clicked, price"),
        (ROWS, {**NAMES, "label": "click"}, r"for the label: got 'click'\. Hint: did you mean 'clicked'; set label="),
        (ROWS, {**NAMES, "features": ["prize"]}, r"for a feature: got 'prize'\. Hint: did you mean 'price'"),
        (ROWS, {**NAMES, "features": ["f_*"]}, r"for a feature: got 'f_\*'\. Hint: choose one of session"),
        (ROWS, {"query": "session", "label": "clicked"}, r"column of numbers: got String in column 'shop'"),
        ("qid,label,x\n1,0,1\n2,0,1\n1,1,1\n", {}, r"rows\.csv: the rows of a query must lie together"),
        ("qid,label,x\n\n1,0,1\n1,-1,2\n", {}, r"rows\.csv: labels must be at least 0: got -1 at line 4 \(query 1\)"),
        ("qid,label,x\n1,0,1\n1,,2\n", {}, r"the label must be known .* got null at line 3 of column 'label'"),
        ("", {}, r"there is nothing in the file: .*rows\.csv"),
    ],
)
def test_what_is_wrong_with_a_file(rows: Path, content: str, columns: dict, message: str):
    rows.write_text(content)
    with pytest.raises(ValueError, match=message):
        rw.read_csv(rows, **columns)


def test_empty_cells_at_the_end_of_a_line_are_no_short_line(rows: Path):
    rows.write_text('qid,t,label,x\n1,"a,b",0,\n,,,\n1,"c\nd",1,""\n1,e,0,5\n')
    data = rw.read_csv(rows, features=["x"])
    np.testing.assert_array_equal(data.features[:, 0], [np.nan, np.nan, 5])


def test_numbers_of_any_length_are_numbers(rows: Path):
    rows.write_text(f"qid,label,x\n1,0,{'1' + '0' * 45}\n1,1,2\n")
    data = rw.read_csv(rows)
    assert data.features[:, 0].tolist() == [float(np.finfo(np.float32).max), 2.0]


@pytest.mark.parametrize(
    ("encoding", "name"), [("latin-1", "Latin-1 or Windows-1252"), ("cp1252", "Latin-1"), ("utf-16", "UTF-16")]
)
def test_text_in_another_encoding_is_rejected_with_its_line_and_probable_encoding(rows: Path, encoding, name):
    for text, line in (("qid,label,größe\n1,0,1\n", 1), ("qid,label,x\n1,0,ü\n", 2)):
        line = 1 if encoding == "utf-16" else line
        rows.write_bytes(text.encode(encoding))
        message = rf"text must be UTF-8: got what looks like {name}.* line {line}\. Hint: save it as UTF-8.* iconv -f "
        with pytest.raises(ValueError, match=message):
            rw.read_csv(rows)


def test_ids_in_another_encoding_are_not_mistaken_for_each_other(tmp_path: Path):
    path = tmp_path / "rows.txt"
    path.write_bytes("1 qid:a 1:2 # d\n\n0 qid:ä 1:3 # d\n0 qid:ö 1:3 # d\n".encode("latin-1"))
    with refusal(what="text must be UTF-8", got="what looks like Latin-1…", where="…rows.txt, line 3"):
        rw.read_letor(path)
    path.write_bytes("1 qid:a 1:2 # dä\n0 qid:b 1:3 # dö\n".encode("latin-1"))
    with pytest.warns(UserWarning, match=r"rows\.txt, line 1: document ids are left out: the comment is not UTF-8"):
        assert rw.read_letor(path).document_ids is None
    path.write_bytes("a 0 d 1\na 0 dä 1\na 0 dö 0\n".encode("latin-1"))
    with refusal(what="text must be UTF-8, so that ids are not mistaken for each other", where="line 2 of …rows.txt"):
        rw.trec.read_qrels(path)
    path.write_text("1 qid:ä� 1:2\n", encoding="utf-8")
    data: Any = rw.read_letor(path)
    assert data.query_ids.tolist() == ["ä�"]


@pytest.mark.parametrize("form", ["letor", "csv", "parquet"])
@pytest.mark.parametrize("named", [True, False])
def test_standard_input(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, form: str, named: bool):
    data = rw.RankingDataset([[0.5], [2.0], [1.0]], [1, 0, 2], [0, 2, 3], query_ids=["a", "b"])
    path = tmp_path / "rows"
    if form == "letor":
        rw.data.write_letor(data, path)
    elif form == "csv":
        rw.data.to_frame(data).write_csv(path)
    else:
        rw.data.write_parquet(data, path)
    content = gzip.compress(path.read_bytes()) if form != "parquet" else path.read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    found = rw.read_data("-", format=form if named else None)
    np.testing.assert_array_equal(found.features, data.features)
    np.testing.assert_array_equal(found.labels, data.labels)


def test_what_is_wrong_with_standard_input_names_it(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"1 qid:1 1:0\nx qid:1 1:0\n")))
    refuses(lambda: rw.read_data("-"), where="standard input, line 2, near 'x qid:1 1:0'")


def test_options_go_with_formats(rows: Path, tmp_path: Path):
    with refusal(what="n_features belongs to the reading of LETOR text", got="…which is read as csv"):
        rw.read_data(rows, n_features=3)
    text = tmp_path / "rows.txt"
    text.write_text("1 qid:1 1:0\n")
    with refusal(what="label belongs to the reading of a table", got="…read as LETOR text", hint="…set format…"):
        rw.read_data(text, label="rel")
    with refusal(what="unknown format of data", got="'cvs'", hint="did you mean 'csv'"):
        rw.read_data(rows, format="cvs")
    refuses(lambda: rw.open_data(rows), what="data that stay on disk are Parquet or LETOR text", got="…CSV")
