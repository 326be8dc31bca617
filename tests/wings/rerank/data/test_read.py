"""Lists of texts from files and data sets: every form gives the same lists, and errors name the line."""

import gzip
import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

Lists: Any = rw.rerank.Lists
read: Any = rw.rerank.read

LISTS: list[dict[str, Any]] = [
    {
        "query_id": "a",
        "query": "red shoe",
        "documents": ["a red shoe", "a shoe, not red"],
        "labels": [2, 0.5],
        "document_ids": ["d1", "d2"],
        "teacher_scores": [3.5, -1],
        "document_weights": [1, 2],
        "propensities": [1, 0.5],
        "weight": 2,
    },
    {
        "query_id": "b",
        "query": "1984",
        "documents": ['a "hat"'],
        "labels": [1],
        "document_ids": ["d1"],
        "teacher_scores": [0.0],
        "document_weights": [1],
        "propensities": [1],
        "weight": 1,
    },
]
SINGULAR = {
    "documents": "document",
    "labels": "label",
    "document_ids": "document_id",
    "teacher_scores": "teacher_score",
    "document_weights": "document_weight",
    "propensities": "propensity",
}
PAIRS = [
    {SINGULAR.get(name, name): value[place] if name in SINGULAR else value for name, value in one.items()}
    for one in LISTS
    for place in range(len(one["documents"]))
]


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def is_expected(lists):
    assert lists.queries == ("red shoe", "1984")
    assert lists.documents == ("a red shoe", "a shoe, not red", 'a "hat"')
    assert lists.labels.tolist() == [2, 0.5, 1]
    assert lists.offsets.tolist() == [0, 2, 3]
    assert lists.query_ids.tolist() == ["a", "b"]
    assert lists.document_ids.tolist() == ["d1", "d2", "d1"]
    assert {name: values.tolist() for name, values in lists.columns.items()} == {
        "teacher_scores": [3.5, -1, 0],
        "document_weights": [1, 2, 1],
        "propensities": [1, 0.5, 1],
    }
    assert lists.weights.tolist() == [2, 1]


@pytest.mark.parametrize("rows", [LISTS, PAIRS, [PAIRS[0], PAIRS[2], PAIRS[1]]], ids=["lists", "pairs", "apart"])
def test_json_lines_hold_lists_or_pairs(tmp_path, rows):
    is_expected(read(lines(tmp_path / "rows.jsonl", rows)))


def test_blank_lines_and_compression_do_not_matter(tmp_path):
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress(b"\xef\xbb\xbf" + "\n\n".join(json.dumps(row) for row in LISTS).encode()))
    is_expected(read(path))


def test_tables_hold_lists_or_pairs(tmp_path):
    pl.DataFrame(LISTS, strict=False).write_parquet(tmp_path / "lists.parquet")
    pl.DataFrame(PAIRS, strict=False).write_parquet(tmp_path / "pairs.parquet")
    pl.DataFrame(PAIRS, strict=False).write_csv(tmp_path / "pairs.csv")
    pl.DataFrame(PAIRS, strict=False).write_csv(tmp_path / "pairs.tsv", separator="\t")
    for name in ("lists.parquet", "pairs.parquet", "pairs.csv", "pairs.tsv"):
        is_expected(read(tmp_path / name))


def test_hugging_face_datasets_are_read_and_written(tmp_path):
    datasets = pytest.importorskip("datasets")
    is_expected(Lists.from_dataset(datasets.Dataset.from_list(LISTS)))
    is_expected(Lists.from_dataset(datasets.Dataset.from_list(PAIRS)))
    is_expected(Lists.from_dataset(datasets.Dataset.from_list(PAIRS).to_iterable_dataset()))
    lists = read(lines(tmp_path / "rows.jsonl", LISTS))
    again = Lists.from_dataset(lists.to_dataset())
    assert (again.queries, again.documents, again.labels.tolist()) == (
        lists.queries,
        lists.documents,
        lists.labels.tolist(),
    )
    assert again.columns.keys() == lists.columns.keys()
    with refusal(what="a Dataset with one part is needed", got="parts train", hint="choose one…"):
        Lists.from_dataset(datasets.DatasetDict({"train": lists.to_dataset()}))


def test_rows_may_be_any_mappings():
    is_expected(Lists.from_dataset(LISTS))
    is_expected(Lists.from_dataset(iter(PAIRS)))


@pytest.mark.parametrize("name", ["a.jsonl", "a.csv", "a.tsv", "a.parquet", "a.json.gz", "a.csv.zst", "a.tsv.gz"])
def test_every_format_is_read_back_whatever_the_texts(name, tmp_path):
    is_expected(read(rw.rerank.write(Lists.from_dataset(LISTS), tmp_path / f"plain {name}")))
    documents = [
        "",
        "a\nb",
        "a\r\nb",
        'say "hi"',
        "a,b\tc;d|e",
        " around ",
        "NA",
        "1.0",
        "ü\u2028",
        '"',
        "\0",
        '{"a": 1}',
    ]
    queries = ["again", "again", "007"]  # the first two are different lists
    lists = Lists.from_lists(queries, [documents, documents[::-1], ["x"]], weights=[1, 0.3, 1e-20])
    for ids in ({}, {"query_ids": ["0012", "12", "a b"], "document_ids": [f"{k:03}" for k in range(lists.n_docs)]}):
        expected = lists.with_(**ids)
        found = read(rw.rerank.write(expected, tmp_path / name, force=True), to_score=True)
        assert (found.queries, found.documents) == (expected.queries, expected.documents)
        for column in ("offsets", "weights", "labels", *ids):
            np.testing.assert_array_equal(getattr(found, column), getattr(expected, column))


@pytest.mark.parametrize("name", ["a.txt", "a", "a.xlsx", "a.parquet.gz"])
def test_names_without_a_known_ending_are_rejected_and_not_written(name, tmp_path):
    with refusal(what="cannot tell the format…", hint="end its name in .jsonl, .csv or .tsv…"):
        rw.rerank.write(Lists.from_dataset(LISTS), tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_ids_that_differ_by_their_type_alone_are_rejected():
    rows: list[dict[str, Any]] = [{"query": "q", "documents": ["a", "b"], "labels": [1, 0], "document_ids": [1, "1"]}]
    refuses(lambda: Lists.from_dataset(rows), what="document ids must not differ by their type alone", got="1 and '1'")
    rows = [{"query_id": 7, **PAIRS[0]}, {**PAIRS[1], "query_id": "7"}]
    with refusal(what="query ids must not differ by their type alone"):
        Lists.from_dataset([rows[0] | {"query_id": 7}, rows[1]])
    with refusal(what="ids of texts must not differ by their type alone"):
        rw.rerank.read_trec({"q": {"1": 1}}, {"q": "a"}, {1: "x", "1": "y"})  # type: ignore[dict-item]
    mixed = Lists.from_dataset([{"query": "q", "documents": ["a", "b"], "labels": [1, 0], "document_ids": [1, "b"]}])
    assert mixed.document_ids.tolist() == ["1", "b"]


def test_written_lists_are_read_back(tmp_path):
    lists = Lists.from_dataset(LISTS)
    for name in ("lists.jsonl", "lists.jsonl.zst"):
        is_expected(read(rw.rerank.write(lists, tmp_path / name)))
    refuses(lambda: rw.rerank.write(lists, tmp_path / "lists.jsonl"), FileExistsError, what="…is kept")
    plain = Lists.from_lists(["ü"], [["a", "b"]], [[1, 0]])
    again = read(rw.rerank.write(plain, tmp_path / "plain.jsonl"))
    assert (again.query_ids, again.document_ids, again.weights, again.columns) == (None, None, None, {})
    assert again.queries == ("ü",)


def test_columns_may_have_any_name_and_relevant_documents_columns_of_their_own(tmp_path):
    rows = [{"q": "hat", "pos": ["a hat"], "neg": ["a shoe", {"title": "Caps", "text": "of all kinds"}]}]
    lists = read(lines(tmp_path / "rows.jsonl", rows), query="q", positive="pos", negative="neg")
    assert lists.documents == ("a hat", "a shoe", "Caps of all kinds")
    assert lists.labels.tolist() == [1, 0, 0]
    triples = [{"query": "hat", "positive": "a hat", "negative_1": "a shoe", "negative_2": "a cap"}]
    lists = Lists.from_dataset(triples, positive="positive", negative=["negative_1", "negative_2"])
    assert lists.labels.tolist() == [1, 0, 0]


def test_labels_are_optional_for_scoring_and_with_a_teacher(tmp_path):
    rows = [{"query": "hat", "documents": ["a hat", "a shoe"]}]
    path = lines(tmp_path / "rows.jsonl", rows)
    refuses(lambda: read(path), what="no column is called 'label'", hint="…to_score=True…")
    assert read(path, to_score=True).labels.tolist() == [0, 0]
    taught = Lists.from_dataset([{**rows[0], "teacher_scores": [2.0, 1.0]}])
    assert taught.labels.tolist() == [0, 0]
    assert taught.columns["teacher_scores"].tolist() == [2, 1]


def test_ids_are_integers_where_all_are():
    assert Lists.from_dataset([{**LISTS[0], "query_id": 7}]).query_ids.tolist() == [7]
    rows = [{**LISTS[0], "query_id": 7}, {**LISTS[1], "query_id": "b"}]
    assert Lists.from_dataset(rows).query_ids.tolist() == ["7", "b"]


GOOD = json.dumps(LISTS[0])


def broken(**changes):
    return json.dumps({**LISTS[1], **changes})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"query": ', r"cannot be read as JSON: got expecting value at column 11 at line 3 of .*rows\.jsonl"),
        ("[1, 2]", r"must hold a JSON object: got '\[1, 2\]' at line 3 of"),
        ("[" * 100_000, "cannot be read as JSON"),
        (broken(query=None), "the query must be text: got None at line 3 of"),
        (broken(documents=[5]), "the document must be text: got 5 at line 3 of"),
        (broken(documents=["\ud800"]), r"the document must be text: got '\\ud800' at line 3 of"),
        (broken(documents=[]), "at least one document: line 3 of"),
        (broken(documents="a hat"), "either every row has one document.* at line 3 of"),
        (broken(labels=[1, 0]), "one label for each of 1 documents: got 2 at line 3 of"),
        (broken(labels=1), "one label for each of 1 documents: got 1 at line 3 of"),
        (broken(labels=["high"]), "a label must be a number: got 'high' at line 3 of"),
        (broken(labels=[None]), "a label must be a number: got None at line 3 of"),
        (broken(labels=[-1]), r"labels must be at least 0: got -1 at line 3 of .*rows\.jsonl \(query 'b'\)"),
        (broken(labels=[float("nan")]), r"labels must be finite: got nan at line 3 of"),
        (broken(propensities=[0]), "propensities must be greater than 0: got 0 at line 3 of"),
        (broken(teacher_scores=[float("inf")]), "teacher scores must be finite: got inf at line 3 of"),
        (broken(weight=-1), "weights must be finite and not negative: got -1 at line 3 of"),
        (broken(query_id="a"), "query ids must all be different: got 'a' again at line 3 of"),
        (broken(query_id=None), "id of a query must be an integer or text: got None at line 3 of"),
        (
            broken(documents=["x", "y"], labels=[1, 1], document_ids=["d", "d"]),
            "one document_weight for each of 2 documents: got 1",
        ),
        (json.dumps({"query": "hat"}), "there is no 'documents': line 3 of"),
    ],
)
def test_a_broken_line_is_named(tmp_path, line, message):
    path = tmp_path / "rows.jsonl"
    path.write_text(f"{GOOD}\n\n{line}\n", encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        read(path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"query": "blue shoe"}, "same text in all rows: got 'blue shoe', and 'red shoe' at line 1 of .* at line 2 of"),
        ({"weight": 3}, "same weight in all rows: got 3, and 2 at line 1 of .* at line 2 of"),
        ({"document_id": "d1"}, "only once under a query: got 'd1' again at line 2 of"),
        ({"document": ["x"]}, "either every row has one document, or every row has a list of them"),
    ],
)
def test_rows_of_a_query_agree(tmp_path, changes, message):
    with pytest.raises(ValueError, match=message):
        read(lines(tmp_path / "rows.jsonl", [PAIRS[0], {**PAIRS[1], **changes}]))


def test_lines_of_tables_are_named(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text('query,document,label\nhat,"a\nhat",1\nhat,a shoe,none\n', encoding="utf-8")
    refuses(lambda: read(path), what="a label must be a number", got="'none'", where="line 4 of …rows.csv")
    path.write_text("query,document,label\nhat,a hat,1\nhat,,0\n", encoding="utf-8")
    refuses(lambda: read(path), what="the document must be text", got="None", where="line 3 of…")
    pl.DataFrame({"query": ["hat"], "document": ["a hat"], "label": [-1]}).write_parquet(tmp_path / "rows.parquet")
    with refusal(what="labels must be at least 0", got="-1", where="row 0 of …rows.parquet…"):
        read(tmp_path / "rows.parquet")


def test_wrong_arguments_are_rejected_with_a_hint(tmp_path):
    path = lines(tmp_path / "rows.jsonl", LISTS)
    with refusal(what="there is no column for the role label", got="'lable'", hint="did you mean 'labels'"):
        read(path, label="lable")
    with refusal(TypeError, what="reading lists of texts has no argument 'labels'", hint="did you mean 'label'"):
        read(path, labels="labels")
    refuses(lambda: read(tmp_path / "rows.bin"), what="cannot tell the format of lists of texts from the name")
    refuses(lambda: read(path, format="jason"), what="unknown format of lists of texts")
    refuses(lambda: read(path, separator=","), what="separator belongs to CSV")
    with pytest.raises(FileNotFoundError, match=r"Did you mean .*rows\.jsonl"):
        read(tmp_path / "row.jsonl")
    (tmp_path / "empty.jsonl").touch()
    refuses(lambda: read(tmp_path / "empty.jsonl"), what="there is nothing in the file")
    with refusal(what="no column is called 'document'", hint="…positive=…"):
        Lists.from_dataset([{"query": "hat", "text": "a hat"}])


def test_long_files_keep_the_numbers_of_their_lines(tmp_path):
    rows = [{"query": f"query {number}", "documents": ["x" * 3_000], "labels": [1]} for number in range(1_000)]
    rows[900]["labels"] = ["?"]
    refuses(lambda: read(lines(tmp_path / "rows.jsonl", rows)), where="line 901 of…")
    rows[900]["labels"] = [1]
    lists = read(lines(tmp_path / "rows.jsonl", rows))
    assert lists.queries == tuple(f"query {number}" for number in range(1_000))
    assert np.array_equal(lists.sizes, np.ones(1_000))
