"""Lists from qrels, runs, queries and a corpus: who is on them, with which label, and what is said when texts lack."""

import json
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests import shared
from tests.refusals import refusal, refuses

read_trec: Any = rw.rerank.read_trec

QUERIES = {"q1": "hat", "q2": "shoe", "q3": "coat"}
CORPUS = {f"d{number}": f"text of {number}" for number in range(10)}
QRELS = {"q1": {"d0": 2, "d1": 0, "d2": -1}, "q2": {"d3": 1}, "q3": {"d9": 1}}
RUN = {"q1": {f"d{number}": 10.0 - number for number in range(8)}, "q2": {"d5": 2.0, "d3": 1.0, "d6": 0.5}}


def ids(lists):
    return dict(zip(lists.query_ids.tolist(), lists.nested(lists.document_ids), strict=True))


def test_without_a_run_lists_hold_the_judged_documents():
    lists = read_trec(QRELS, QUERIES, CORPUS)
    assert ids(lists) == {"q1": ["d0", "d1", "d2"], "q2": ["d3"], "q3": ["d9"]}
    assert lists.queries == ("hat", "shoe", "coat")
    assert lists.documents[0] == "text of 0"
    assert lists.labels.tolist() == [2, 0, 0, 1, 1]
    assert lists.data.judged.tolist() == [1, 1, -1, 1, 1]


def test_a_run_adds_its_documents():
    lists = read_trec(QRELS, QUERIES, CORPUS, run=RUN)
    assert ids(lists) == {"q1": [f"d{number}" for number in range(8)], "q2": ["d3", "d5", "d6"], "q3": ["d9"]}
    assert lists.labels.tolist() == [2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    assert lists.data.judged.tolist() == [1, 1, -1, 0, 0, 0, 0, 0, 1, 0, 0, 1]
    lists = read_trec(QRELS, QUERIES, CORPUS, run=RUN, depth=5, skip=3)
    assert ids(lists) == {"q1": ["d0", "d1", "d2", "d3", "d4"], "q2": ["d3"], "q3": ["d9"]}


def test_a_run_may_be_all_there_is_to_rank_again():
    lists = read_trec(QRELS, QUERIES, CORPUS, run=RUN, depth=2, add_judged=False)
    assert ids(lists) == {"q1": ["d0", "d1"], "q2": ["d3", "d5"]}
    assert lists.labels.tolist() == [2, 0, 1, 0]
    lists = read_trec(None, QUERIES, CORPUS, run=RUN, depth=2)
    assert ids(lists) == {"q1": ["d0", "d1"], "q2": ["d3", "d5"]}
    assert lists.labels.tolist() == [0, 0, 0, 0]


def test_hard_negatives_are_drawn_from_unjudged_documents():
    wanted = {"d4", "d5", "d6"}
    seen = set()
    for seed in range(30):
        lists = read_trec(QRELS, QUERIES, CORPUS, run=RUN, negatives=2, depth=7, skip=4, seed=seed)
        drawn = set(ids(lists)["q1"]) - {"d0", "d1", "d2"}
        assert len(drawn) == 2
        assert drawn <= wanted
        seen.add(tuple(sorted(drawn)))
        again = read_trec(QRELS, QUERIES, CORPUS, run=RUN, negatives=2, depth=7, skip=4, seed=seed)
        assert ids(again) == ids(lists)
        alone = {"q1": QRELS["q1"]}
        assert (
            ids(read_trec(alone, QUERIES, CORPUS, run=RUN, negatives=2, depth=7, skip=4, seed=seed))["q1"]
            == ids(lists)["q1"]
        )
    assert len(seen) == 3
    few = read_trec(QRELS, QUERIES, CORPUS, run=RUN, negatives=5)
    assert ids(few)["q2"] == ["d3", "d5", "d6"]


def test_every_document_of_the_run_is_as_likely_to_be_drawn():
    run = {f"q{query}": {f"d{number}": float(-number) for number in range(10)} for query in range(2_000)}
    qrels = {query: {"d0": 1} for query in run}
    lists = read_trec(qrels, dict.fromkeys(run, "query"), CORPUS, run=run, negatives=3)
    names, counts = np.unique(lists.document_ids, return_counts=True)
    assert names.tolist() == [f"d{number}" for number in range(10)]
    assert counts[0] == 2_000
    assert counts[1:].sum() == 6_000
    # Each of the nine others with probability 1/3: 2000 draws, standard deviation 21.
    assert np.abs(counts[1:] - 2_000 / 3).max() < 5 * 21


def test_a_teacher_scores_every_document():
    teacher = {query: {document: float(place) for place, document in enumerate(CORPUS)} for query in QUERIES}
    lists = read_trec(QRELS, QUERIES, CORPUS, teacher=teacher)
    assert lists.columns["teacher_scores"].tolist() == [0, 1, 2, 3, 9]
    del teacher["q2"]["d3"]
    with refusal(what="…teacher must score…", got="none for 1 of 5", where="document 'd3' of query 'q2'"):
        read_trec(QRELS, QUERIES, CORPUS, teacher=teacher)


def test_missing_texts_are_named_or_skipped():
    corpus = {name: text for name, text in CORPUS.items() if name not in ("d1", "d3")}
    with refusal(what="there is no text of 2 documents of the lists", got="'d1' of query 'q1'", hint="…errors='skip'"):
        read_trec(QRELS, QUERIES, corpus)
    with pytest.warns(UserWarning, match="left out 2 documents of the lists"):
        lists = read_trec(QRELS, QUERIES, corpus, errors="skip")
    assert ids(lists) == {"q1": ["d0", "d2"], "q3": ["d9"]}
    with refusal(what="there is no text of 1 query of the lists", got="'q3'"):
        read_trec(QRELS, {"q1": "hat", "q2": "shoe"}, CORPUS)


@pytest.mark.parametrize(
    ("choice", "fields"),
    [
        ({"negatives": 2}, {"what": "a run is needed for this"}),
        ({"depth": 2}, {"what": "a run is needed for this"}),
        ({"run": RUN, "depth": 2, "skip": 2}, {"what": "depth must be larger than skip"}),
        ({"run": RUN, "negatives": 2, "add_judged": False}, {"what": "negatives are drawn beside judged documents"}),
        ({"run": RUN, "negatives": 0}, {"what": "negatives must be a whole number of at least 1"}),
        (
            {"run": {"x": {"d1": 1.0}}},
            {"what": "run and qrels have no query in common", "got": "'x' in the run, 'q1', 'q2', 'q3' in the qrels"},
        ),
        ({"errors": "ignore"}, {"what": "unknown way to treat missing texts (errors)"}),
    ],
)
def test_options_that_contradict_each_other_are_rejected(choice, fields):
    refuses(lambda: read_trec(QRELS, QUERIES, CORPUS, **choice), **fields)


def beir(folder):
    (folder / "qrels").mkdir()
    corpus = [{"_id": name, "title": "Title", "text": text} for name, text in CORPUS.items()]
    (folder / "corpus.jsonl").write_text("\n".join(map(json.dumps, corpus)), encoding="utf-8")
    queries = [{"_id": name, "text": text} for name, text in QUERIES.items()]
    (folder / "queries.jsonl").write_text("\n".join(map(json.dumps, queries)), encoding="utf-8")
    rows = [f"{query}\t{document}\t{grade}" for query, row in QRELS.items() for document, grade in row.items()]
    (folder / "qrels" / "test.tsv").write_text("\n".join(["query-id\tcorpus-id\tscore", *rows]), encoding="utf-8")
    return folder


def test_beir_folders_are_read(tmp_path):
    lists = rw.rerank.read_beir(beir(tmp_path), run=RUN, depth=3)
    assert ids(lists) == {"q1": ["d0", "d1", "d2"], "q2": ["d3", "d5", "d6"], "q3": ["d9"]}
    assert lists.documents[0] == "Title text of 0"
    assert lists.labels.tolist() == [2, 0, 0, 1, 0, 0, 1]
    with refusal(FileNotFoundError, what="…no file …dev.tsv. There are test.tsv", hint="set split=…"):
        rw.rerank.read_beir(tmp_path, "dev")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        rw.rerank.read_beir(tmp_path / "nothing")
    refuses(lambda: rw.rerank.read(tmp_path), hint="…read_beir…")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        ("q1\td0\thigh", {"what": "…a finite grade", "got": r"'q1\td0\thigh'", "where": "line 2 of …test.tsv"}),
        ("q1\td0\t", {"what": "a line must have a query, a document and a finite grade", "where": "line 2 of…"}),
        ("q1\td0", {"what": "…as many columns as the first one, 3", "got": "2", "where": "…test.tsv, line 2"}),
        ("q9\td0\t1\nq9\td0\t1", {"what": "a document may stand only once under a query", "where": "line 3 of…"}),
    ],
)
def test_lines_of_judgments_are_named(tmp_path, line, fields):
    path = beir(tmp_path) / "qrels" / "test.tsv"
    path.write_text(f"query-id\tcorpus-id\tscore\n{line}\n", encoding="utf-8")
    refuses(lambda: rw.rerank.read_beir(tmp_path), **fields)
    path.write_text("q1 0 d0 1\n", encoding="utf-8")
    refuses(lambda: rw.rerank.read_beir(tmp_path), what="the first line must name three columns", hint="…read_trec")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        (
            '{"_id": "new", "title": "x"}',
            {"what": "there is no text", "got": "the object of id 'new'", "where": "line 11 of…"},
        ),
        ('{"text": "x"}', {"what": "a text must have an id", "got": "None", "where": "line 11 of…"}),
        (
            '{"_id": "d0", "text": "x"}',
            {"what": "an id may stand only once in a file of texts", "got": "'d0'", "where": "line 11 of…"},
        ),
        ("d0\tx", {"what": "a line cannot be read as JSON", "where": "line 11 of…"}),
    ],
)
def test_lines_of_a_corpus_are_named(tmp_path, line, fields):
    with (beir(tmp_path) / "corpus.jsonl").open("a", encoding="utf-8") as file:
        file.write(f"\n{line}\n")
    refuses(lambda: rw.rerank.read_beir(tmp_path, run={"q1": {"new": 1.0}}), **fields)


def test_queries_and_corpora_may_be_columns_of_text(tmp_path):
    (tmp_path / "queries.tsv").write_text("q1\thäte\nq2\tshoe\nq3\tcoat\n", encoding="utf-8")
    (tmp_path / "corpus.tsv").write_text("".join(f"{name}\t{text}\n" for name, text in CORPUS.items()), "utf-8")
    (tmp_path / "qrels.txt").write_text("q1 0 d0 2\nq2 0 d3 1\n", encoding="utf-8")
    lists = read_trec(tmp_path / "qrels.txt", tmp_path / "queries.tsv", tmp_path / "corpus.tsv")
    assert list(lists.pairs()) == [("häte", "text of 0"), ("shoe", "text of 3")]
    (tmp_path / "corpus.tsv").write_text("d0 text\n", encoding="utf-8")
    with refusal(what="there is no tab in the line", got="'d0 text'", where="line 1 of …corpus.tsv"):
        read_trec(tmp_path / "qrels.txt", tmp_path / "queries.tsv", tmp_path / "corpus.tsv")


def test_real_qrels_and_runs_agree_with_the_join_of_trec_eval():
    qrels, run = shared.data("trec-eval-test/qrels.rel_level.gz"), shared.data("trec-eval-test/results.test.gz")
    data: Any = rw.trec.join(run, qrels)[1]
    texts = dict.fromkeys(data.document_ids.tolist(), "text")
    lists = read_trec(qrels, dict.fromkeys(data.query_ids.tolist(), "query"), texts, run=run)
    order = np.lexsort((data.document_ids, np.repeat(np.arange(data.n_queries), data.sizes)))
    assert lists.document_ids.tolist() == data.document_ids[order].tolist()
    assert lists.labels.tolist() == data.labels[order].tolist()
    assert lists.data.judged.tolist() == data.judged[order].tolist()


# Data sets of ir_datasets; tests/integrations has real ones.


class Dataset:
    """What ``ir_datasets.load`` returns, as far as it is used."""

    def __init__(self, qrels, run):
        self.qrels, self.run = qrels, run

    def has_qrels(self):
        return bool(self.qrels)

    def has_scoreddocs(self):
        return bool(self.run)

    def qrels_iter(self):
        return (
            SimpleNamespace(query_id=q, doc_id=d, relevance=n) for q, row in self.qrels.items() for d, n in row.items()
        )

    def scoreddocs_iter(self):
        return (SimpleNamespace(query_id=q, doc_id=d, score=n) for q, row in self.run.items() for d, n in row.items())

    def queries_iter(self):
        return (SimpleNamespace(query_id=one, default_text=lambda text=text: text) for one, text in QUERIES.items())

    def docs_store(self):
        def get_many(ids):
            return {one: SimpleNamespace(default_text=lambda one=one: CORPUS[one]) for one in ids if one in CORPUS}

        return SimpleNamespace(get_many=get_many)


@pytest.mark.parametrize("parts", [(QRELS, RUN), (QRELS, {}), ({}, RUN)], ids=["both", "qrels", "run"])
def test_a_data_set_of_ir_datasets_is_read_as_files_are(parts):
    qrels, run = parts
    lists, same = (
        rw.rerank.read_ir_dataset(Dataset(qrels, run)),
        read_trec(qrels or None, QUERIES, CORPUS, run=run or None),
    )
    assert ids(lists) == ids(same)
    assert (lists.queries, lists.documents) == (same.queries, same.documents)
    assert lists.labels.tolist() == same.labels.tolist()


def test_what_a_data_set_of_ir_datasets_does_not_have_is_named():
    with refusal(what="…with queries and documents is needed", got="'vaswani'", hint="pass ir_datasets.load…"):
        rw.rerank.read_ir_dataset("vaswani")  # type: ignore[arg-type]
    with refusal(what="…has no qrels", hint="load one that has qrels, or pass the qrels as a file…"):
        rw.evaluate(RUN, Dataset({}, RUN))
    refuses(lambda: rw.trec.join(Dataset(QRELS, {}), QRELS), what="the data set of ir_datasets has no scoreddocs")
    unknown = Dataset({"q1": {"nowhere": 1}}, {})
    with refusal(what="there is no text of 1 document of the lists", got="'nowhere' of query 'q1'"):
        rw.rerank.read_ir_dataset(unknown)
