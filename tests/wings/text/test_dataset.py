"""Data sets of texts: labels, what was judged, ids, queries that are left out, and training on them."""

import json
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from tests import shared
from tests.cli.running import refused, run
from tests.refusals import refuses

dataset: Any = rw.text.dataset
PAGES = rw.text.Documents({1: "mean of an array", 2: "median of an array", 3: "sum"}, fields=("text",))
QUERIES = {7: "median array", 8: "sum", 9: "nothing of it"}
QRELS = {"7": {"2": 2, "1": -1}, "8": {"3": 1, "missing": 3}, "10": {"1": 1}}


def test_labels_and_what_was_judged():
    data = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)}, QRELS)
    assert data.query_ids.tolist() == ["7", "8"]
    assert data.document_ids.tolist() == ["1", "2", "3"]
    assert data.labels.tolist() == [0.0, 2.0, 1.0]
    assert data.judged.tolist() == [-1, 1, 1]
    partial = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)}, {7: {2: 1}})
    assert partial.judged.tolist() == [0, 1]
    complete = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)}, {7: {2: 1}}, unjudged="irrelevant")
    assert complete.judged is None
    assert complete.labels.tolist() == [0.0, 1.0]


def test_without_qrels_nothing_is_judged():
    data = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)})
    assert data.query_ids.tolist() == ["7", "8", "9"]
    assert not data.judged.any()


def test_qrels_runs_and_queries_come_in_files_and_frames(tmp_path):
    expected = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)}, QRELS)
    (tmp_path / "q.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in QUERIES.items()))
    (tmp_path / "qrels.txt").write_text("7 0 2 2\n7 0 1 -1\n8 0 3 1\n8 0 missing 3\n10 0 1 1\n")
    rows = PAGES.search(QUERIES).iter_rows()
    lines = (f"{query} Q0 {document} {rank} {score!r} x\n" for rank, (query, document, score) in enumerate(rows))
    (tmp_path / "bm25.run").write_text("".join(lines))
    found = dataset(PAGES, tmp_path / "q.tsv", {"bm25": tmp_path / "bm25.run"}, tmp_path / "qrels.txt")
    frame = pl.DataFrame({"query": ["7", "7", "8"], "document": ["2", "1", "3"], "grade": [2, -1, 1]})
    of_frame = dataset(PAGES, QUERIES, {"bm25": PAGES.search(QUERIES)}, frame)
    for other in (found, of_frame):
        assert other.features.tobytes() == expected.features.tobytes()
        assert other.labels.tolist() == expected.labels.tolist()


def test_candidates_are_the_first_of_every_run():
    runs = {"one": {"7": {"1": 3.0, "2": 2.0, "3": 1.0}}, "two": {"7": {"3": 9.0, "2": 8.0}}}
    assert dataset(PAGES, QUERIES, runs, depth=1).document_ids.tolist() == ["1", "3"]
    assert dataset(PAGES, QUERIES, runs).document_ids.tolist() == ["1", "2", "3"]


def test_what_is_refused():
    run = PAGES.search(QUERIES)
    refuses(lambda: dataset(PAGES, QUERIES, run, QRELS), what="candidates come from runs by name", got="DataFrame")
    refuses(lambda: dataset(PAGES, QUERIES, {}, QRELS), what="candidates come from runs by name")
    refuses(lambda: dataset(PAGES, QUERIES, {"bm25": run}, unjudged="no"), got="'no'")
    refuses(
        lambda: dataset(PAGES, {"x": "sum"}, {"bm25": run}, QRELS), got="1 queries, 3 in the runs, 2 of these…",
        what="queries, runs and qrels have no query in common",
    )  # fmt: skip
    refuses(lambda: dataset(PAGES, QUERIES, {"r": {"7": {"x": 1.0}}}), got="'x'", hint="…spelt alike…")


def test_the_command(tmp_path):
    rows = [{"_id": i, "text": text, "price": i} for i, text in enumerate(QUERIES.values())]
    asked = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    for name, lines in (("docs.jsonl", rows), ("queries.jsonl", asked)):
        (tmp_path / name).write_text("".join(json.dumps(line) + "\n" for line in lines))
    (tmp_path / "qrels.txt").write_text("7 0 0 1\n8 0 1 1\n")
    words = ["text", "features", tmp_path / "docs.jsonl", tmp_path / "queries.jsonl", "--qrels", tmp_path / "qrels.txt"]
    words += ["-o", tmp_path / "data.parquet", "--column", "price", "--stop", "of"]
    run(*words)
    data = rw.read_data(tmp_path / "data.parquet")
    assert np.asarray(data.query_ids).tolist() == ["7", "8"]
    pages = rw.text.Documents(tmp_path / "docs.jsonl", columns=("price",), analyzer=rw.text.Analyzer(stop=["of"]))
    queries = tmp_path / "queries.jsonl"
    expected = dataset(pages, queries, {"bm25": pages.search(queries)}, tmp_path / "qrels.txt")
    assert data.feature_names == expected.feature_names
    assert data.features.tobytes() == expected.features.tobytes()
    assert "absent.run" in refused(*words, "--force", "--run", "bm25=absent.run")


def test_cranfield_from_its_files():
    folder = shared.data("cranfield")
    pages = rw.text.Documents(folder / "documents.jsonl.gz")
    run = pages.search(folder / "queries.jsonl.gz")
    found = rw.evaluate(run, folder / "qrels.txt.gz", ["ndcg@10"]).mean["ndcg@10"]
    # Lucene has .376 with stems and stop words, which this analyzer does without.
    assert 0.32 < found < 0.40
    data = dataset(pages, folder / "queries.jsonl.gz", {"bm25": run}, folder / "qrels.txt.gz")
    assert data.n_queries == 225
