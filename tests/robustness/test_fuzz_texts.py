"""Damaged lists of texts, corpora and judgments are read, or refused with file and line."""

import json

import pytest

import rankwise as rw
from rankwise.wings.rerank.data.trec import read_judgments
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
LISTS = b"".join(
    json.dumps(row).encode() + b"\n"
    for row in (
        {
            "query_id": "a",
            "query": "hat",
            "documents": ["a", "b"],
            "labels": [1, 0],
            "teacher_scores": [2, 1],
            "weight": 1,
        },
        {"query_id": "b", "query": "coat", "documents": ["c"], "labels": [0.5], "teacher_scores": [-3e2], "weight": 2},
    )
)
PAIRS = b"".join(
    json.dumps({"query": query, "document": text, "label": label, "document_id": number}).encode() + b"\n"
    for query, text, label, number in (("hat", "a", 1, 1), ("coat", "c", 0, 1), ("hat", "b", 2, 2))
)
TABLE = b'query,document,label,propensity\nhat,"a, b",1,0.5\nhat,"c ""d""",0,1\ncoat,e,2,0.25\n'
CORPUS = b'{"_id": "d1", "title": "T", "text": "a"}\n{"_id": "d2", "text": "b"}\n{"_id": 3, "text": "c"}\n'
COLUMNS = b"d1\ta\nd2\tb\tmore\r\n3\tc\n"
QRELS = b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\nq2\t3\t2\n"
WORDS = (
    b"null",
    b"[]",
    b"{}",
    b"[[1]]",
    b"true",
    b'"query"',
    b'"labels"',
    b"NaN",
    b"Infinity",
    b"[" * 2_000,
    b"\\ud800",
)


@pytest.mark.parametrize("sample", [LISTS, PAIRS], ids=["lists", "pairs"])
def test_damaged_json_lines(tmp_path, sample):
    fuzzing.holds(rw.rerank.read, [sample], tmp_path / "damaged.jsonl", words=WORDS)


def test_damaged_tables(tmp_path):
    fuzzing.holds(rw.rerank.read, [TABLE], tmp_path / "damaged.csv", words=WORDS)


def test_damaged_corpora(tmp_path):
    qrels = {"q1": {"d1": 1, "d2": 0}, "q2": {"3": 2}}
    fuzzing.holds(
        lambda path: rw.rerank.read_trec(qrels, {"q1": "hat", "q2": "coat"}, path),
        [CORPUS, COLUMNS],
        tmp_path / "damaged.jsonl",
        words=WORDS,
    )


def test_damaged_judgments(tmp_path):
    fuzzing.holds(read_judgments, [QRELS], tmp_path / "damaged.tsv", words=WORDS)
