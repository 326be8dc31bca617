"""Lists of texts: flat documents beside ranking data, taken apart and put together without a change."""

import copy
import pickle
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.check import MissingExtraError
from tests.refusals import refusal, refuses

Lists = rw.rerank.Lists

QUERIES = ["red shoe", "hat", "warm coat"]
DOCUMENTS = [["a red shoe", "a shoe"], ["a hat"], ["a coat", "a warm coat", "a red coat"]]
LABELS = [[2, 1], [1], [1, 3, 0]]


def make(**columns):
    return Lists.from_lists(QUERIES, DOCUMENTS, LABELS, query_ids=["a", "b", "c"], **columns)


def test_texts_and_columns_of_a_part_stay_together():
    lists = make(
        document_ids=[["d1", "d2"], ["d3"], ["d4", "d5", "d6"]],
        teacher_scores=[[0.5, 0.4], [0.3], [0.2, 0.1, 0.0]],
        weights=[1.0, 2.0, 3.0],
    )
    part = lists.take([2, 0])
    assert part.queries == ("warm coat", "red shoe")
    assert part.documents == ("a coat", "a warm coat", "a red coat", "a red shoe", "a shoe")
    assert part.labels.tolist() == [1, 3, 0, 2, 1]
    assert part.offsets.tolist() == [0, 3, 5]
    assert part.query_ids.tolist() == ["c", "a"]
    assert part.document_ids.tolist() == ["d4", "d5", "d6", "d1", "d2"]
    assert part.weights.tolist() == [3.0, 1.0]
    assert part.columns.keys() == {"teacher_scores"}
    assert part.columns["teacher_scores"].tolist() == [0.2, 0.1, 0.0, 0.5, 0.4]
    assert lists.take(slice(1, 3)).documents == ("a hat", "a coat", "a warm coat", "a red coat")
    assert lists.take([False, True, False]).queries == ("hat",)


def test_pairs_and_nested_columns_follow_the_offsets():
    lists = make()
    assert len(lists) == lists.n_queries == 3
    assert list(lists.pairs())[:3] == [("red shoe", "a red shoe"), ("red shoe", "a shoe"), ("hat", "a hat")]
    assert lists.nested(lists.documents) == DOCUMENTS
    assert lists.nested(lists.labels) == LABELS
    assert lists.sizes.tolist() == [2, 1, 3]


def test_splits_and_folds_are_those_of_the_ranking_data():
    n = 30
    lists = Lists.from_lists([f"query {i}" for i in range(n)], [[f"document {i}"] for i in range(n)], [[1]] * n)
    for parts, alike in (
        (rw.split(lists, seed=3), rw.split(lists.data, seed=3)),
        (next(rw.folds(lists, seed=4)), next(rw.folds(lists.data, seed=4))),
    ):
        for part, data in zip(parts, alike, strict=True):
            numbers = data.qids()
            assert part.data.qids().tolist() == numbers.tolist()
            assert part.queries == tuple(f"query {number}" for number in numbers)
            assert part.documents == tuple(f"document {number}" for number in numbers)


def test_evaluation_accepts_the_data_without_texts():
    lists = make()
    assert rw.evaluate(lists.labels, lists.data, ["ndcg@10"])["ndcg@10"].tolist() == [1, 1, 1]


def test_lists_may_have_features():
    data = rw.RankingDataset([[1.0], [2.0], [3.0]], [0, 1, 1], [0, 2, 3])
    lists = Lists.of(["one", "two"], ["a", "b", "c"], data)
    assert repr(lists) == "Lists(2 queries, 3 documents, 1 feature, labels 0 to 1)"
    assert lists.take([1]).data.features.tolist() == [[3.0]]
    assert Lists(["one"], ["a"], [1], [0, 1], features=[[5.0]]).data.features.tolist() == [[5.0]]


def test_lists_are_immutable_and_with_returns_others():
    lists = make()
    with pytest.raises(AttributeError):
        lists.queries = ()
    with pytest.raises(ValueError, match="read-only"):
        lists.labels[0] = 5
    other = lists.with_(labels=np.zeros(6), queries=["x", "y", "z"])
    assert (other.queries, other.labels.max(), other.documents) == (("x", "y", "z"), 0, lists.documents)


def test_lists_are_pickled_and_copied():
    lists = make(teacher_scores=[[0.5, 0.4], [0.3], [0.2, 0.1, 0.0]])
    pickled = pickle.loads(pickle.dumps(lists))  # noqa: S301 (made here)
    for other in (pickled, copy.deepcopy(lists)):
        assert (other.queries, other.documents) == (lists.queries, lists.documents)
        assert other.columns["teacher_scores"].tolist() == lists.columns["teacher_scores"].tolist()


def test_lists_are_a_data_set_with_texts():
    lists = make(teacher_scores=[[0.5, 0.4], [0.3], [0.2, 0.1, 0.0]])
    assert issubclass(type(lists), rw.RankingDataset)
    assert lists.query_texts.tolist() == QUERIES
    assert lists.document_texts.tolist() == [text for texts in DOCUMENTS for text in texts]
    assert type(lists.data) is rw.RankingDataset
    assert lists.data.document_texts is None
    np.testing.assert_array_equal(lists.data.teacher_scores, lists.teacher_scores)
    frame = rw.data.to_frame(lists)
    columns: Any = {"query_text": "query_text", "document_text": "document_text", "features": []}
    again: Any = Lists.from_frame(frame, teacher_score="teacher_score", **columns)
    assert (type(again), again.documents) == (Lists, lists.documents)
    both: Any = rw.concatenate([lists.take([0]), lists.take([2])])
    assert type(both) is Lists
    assert both.queries == ("red shoe", "warm coat")


def test_lists_without_texts_are_rejected():
    with refusal(what="lists need the texts of queries and documents", got="no document_texts"):
        Lists(["q"], labels=[1], offsets=[0, 1])


def test_documents_to_be_scored_need_no_labels():
    assert Lists.from_lists(["q"], [["a", "b"]]).labels.tolist() == [0, 0]


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ((["q"], ["a", "b"], [0, 1, 1], [0, 2]), {"what": "labels must be one number per document"}),
        ((["q", "r"], ["a", "b"], [0, 1], [0, 2]), {"what": "…one text for each query", "got": "2 texts for 1"}),
        (
            (["q"], ["a", None], [0, 1], [0, 2]),
            {
                "what": "…text of a document must be a str that UTF-8 can hold",
                "got": "None",
                "where": "document number 1",
            },
        ),
        ((["q"], ["a", "b"], [0, -1], [0, 2]), {"what": "labels must be at least 0"}),
    ],
)
def test_columns_of_wrong_lengths_or_types_are_rejected(arguments, fields):
    refuses(lambda: Lists(*arguments), **fields)


def test_nested_columns_of_wrong_lengths_are_rejected():
    with refusal(what="labels must be as many…", got="1 for 2 documents", where="query number 0"):
        Lists.from_lists(["q"], [["a", "b"]], [[1]])
    with refusal(what="labels must be one list for each query", got="2 lists for 1 queries"):
        Lists.from_lists(["q"], [["a", "b"]], [[1, 0], [1]])
    with refusal(what="documents must be one list for each query", got="the text 'a'"):
        Lists.from_lists(["q"], ["a"], [[1]])


def test_a_hugging_face_dataset_has_the_columns_in_the_order_of_sentence_transformers():
    pytest.importorskip("datasets")
    lists = make(teacher_scores=[[0.5, 0.4], [0.3], [0.2, 0.1, 0.0]], weights=[1.0, 2.0, 3.0])
    dataset = lists.to_dataset()
    assert dataset.column_names == ["query", "documents", "teacher_scores", "weight", "labels"]
    assert dataset[2]["documents"] == DOCUMENTS[2]
    assert dataset[2]["labels"] == LABELS[2]
    assert dataset["weight"][:] == [1.0, 2.0, 3.0]


def test_a_missing_package_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'rankwise\[rerank\]'"):
        make().to_dataset()


def test_lists_need_no_heavy_library():
    code = (
        "import sys, rankwise as rw\n"
        "lists = rw.rerank.Lists.from_lists(['q'], [['a', 'b']], [[1, 0]]).take([0])\n"
        "heavy = {'torch', 'transformers', 'sentence_transformers', 'datasets', 'numba'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_shared_queries_are_found_by_id_and_by_text():
    train = make()
    test = Lists.from_lists(["hat", "red shoe", "scarf"], [["a"], ["b"], ["c"]], query_ids=["b", "x", "y"])
    with pytest.warns(UserWarning, match="of training queries") as said:
        test.compare_with(train, "test")
    (line,) = (str(one.message) for one in said)
    assert line.startswith(
        "2 of 3 queries of test have the text of training queries, 1 of these with other ids. "
        "1 of 3 queries of test have ids of training queries, 1 of these with the same text. Hint: "
    )
    Lists.from_lists(["scarf"], [["c"]], query_ids=["y"]).compare_with(train, "test")
    twice = Lists.from_lists(["hat", "hat"], [["a"], ["b"]], query_ids=["x", "y"])
    twice.compare_with(train, "test")  # a text that several queries have tells none of them
