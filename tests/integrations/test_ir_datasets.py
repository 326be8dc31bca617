"""Data sets of ir_datasets, over local files: nothing is downloaded."""

from typing import Any

import pytest

import rankwise as rw
from tests.integrations.pages import run_section

pytestmark = pytest.mark.integration("ir_datasets")

DOCUMENTS = {"d1": "a red shoe", "d2": "a blue shoe", "d3": "a hat", "d4": "hats and shoes", "d5": "a coat"}
QUERIES = {"q1": "shoe", "q2": "hat"}
QRELS = {"q1": {"d1": 2, "d2": 1}, "q2": {"d3": 1, "d4": -1}}
RUN = {"q1": {"d2": 3.0, "d1": 2.0, "d4": 1.0}, "q2": {"d4": 2.0, "d3": 1.5, "d5": 1.0}}


@pytest.fixture
def dataset(tmp_path):
    import ir_datasets
    from ir_datasets.formats import TrecQrels, TrecScoredDocs, TsvDocs, TsvQueries
    from ir_datasets.util import LocalDownload

    def file(name, lines):
        path = tmp_path / name
        path.write_text("".join(f"{line}\n" for line in lines))
        return LocalDownload(path)

    judged = [f"{query} 0 {document} {grade}" for query, row in QRELS.items() for document, grade in row.items()]
    retrieved = [f"{query} Q0 {one} 0 {score} bm25" for query, row in RUN.items() for one, score in row.items()]
    return ir_datasets.Dataset(
        TsvDocs(file("docs.tsv", ("\t".join(pair) for pair in DOCUMENTS.items()))),
        TsvQueries(file("queries.tsv", ("\t".join(pair) for pair in QUERIES.items()))),
        TrecQrels(file("qrels", judged), {}),
        TrecScoredDocs(file("run", retrieved)),
    )


def test_lists_of_texts_are_those_of_files(dataset):
    lists: Any = rw.rerank.read_ir_dataset(dataset, depth=2)
    same: Any = rw.rerank.read_trec(QRELS, QUERIES, DOCUMENTS, run=RUN, depth=2)
    assert (lists.queries, lists.documents) == (same.queries, same.documents)
    assert (lists.labels.tolist(), lists.judged.tolist()) == (same.labels.tolist(), same.judged.tolist())
    assert lists.document_ids.tolist() == ["d1", "d2", "d3", "d4"]


def test_only_documents_on_a_list_are_looked_up(dataset, monkeypatch):
    from ir_datasets.indices import PickleLz4FullStore

    asked: list[str] = []
    get_many = PickleLz4FullStore.get_many

    def recorded(self, ids, *options):
        asked.extend(ids)
        return get_many(self, ids, *options)

    monkeypatch.setattr(PickleLz4FullStore, "get_many", recorded)
    rw.rerank.read_ir_dataset(dataset, depth=1)
    assert asked == ["d1", "d2", "d3", "d4"]


def test_runs_are_judged_by_it(dataset):
    expected = rw.evaluate(RUN, QRELS, ["ndcg", "bpref"])
    assert rw.evaluate(RUN, dataset, ["ndcg", "bpref"]).mean == expected.mean
    assert rw.evaluate(dataset, dataset, ["ndcg", "bpref"]).mean == expected.mean
    _, data = rw.trec.join(RUN, dataset)
    assert data.labels.tolist() == [1, 2, 0, 0, 1, 0]


def test_documents_to_judge_are_chosen_by_it(dataset):
    other = {query: {document: -score for document, score in row.items()} for query, row in RUN.items()}
    systems = {"bm25": dataset, "other": other}
    plan = rw.judging.plan(systems, judge=dataset, judgements=2, metric="dcg@2")
    expected = rw.judging.plan({"bm25": RUN, "other": other}, judge=QRELS, judgements=2, metric="dcg@2")
    assert plan.documents.equals(expected.documents)


def test_the_page_runs(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names = run_section("ir_datasets")
    assert names["lists"].documents == ("a red shoe", "a blue shoe", "a hat", "a hat")
    assert "ndcg" in capsys.readouterr().out
