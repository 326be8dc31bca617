"""Ids are what they print as: text stays text, whatever reads it, and 12 and "12" are one id wherever they meet."""

import json
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.base.arrays import index_of
from rankwise.data.io.tables.polars import ids_from_text
from tests.cli.running import run
from tests.refusals import refusal, refuses

TEXT = [["0012", "12"], ["007", "7"], ["+5", "5"], ["1.0", "1"], ["-0", "0"], ["1e3", "1000"], [str(2**63), "1"]]
NUMBERS = [["12", "-7", "0"], [str(2**63 - 1), str(-(2**63))]]


read_csv: Any = rw.read_csv
read_letor: Any = rw.read_letor


def rows(path, ids, head="q,label,x"):
    path.write_text("\n".join([head, *(f"{one},{number % 2},{number}" for number, one in enumerate(ids))]) + "\n")
    return path


@pytest.mark.parametrize("quoted", [False, True])
@pytest.mark.parametrize("written", TEXT + NUMBERS)
def test_ids_of_csv_are_numbers_only_where_all_print_as_they_are_written(tmp_path, written, quoted):
    path = rows(tmp_path / "rows.csv", [f'"{one}"' if quoted else one for one in written])
    ids = read_csv(path, query="q").query_ids
    assert list(map(str, ids.tolist())) == written
    assert (ids.dtype == np.int64) == (written in NUMBERS)


def test_documents_and_groups_keep_their_text_too(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("q,d,g,label,x\n1,007,01,1,2\n1,7,1,0,3\n")
    data = read_csv(path, query="q", document="d", groups="g")
    assert data.document_ids.tolist() == ["007", "7"]
    assert data.groups.tolist() == ["01", "1"]
    assert data.query_ids.tolist() == [1]


def test_categories_that_look_like_other_numbers_stay_apart(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("qid,label,zip,code\n1,1,01234,3\n1,0,1234,5\n")
    data = read_csv(path, categorical=["zip", "code"])
    assert data.categories == {0: ("01234", "1234")}
    assert data.features.tolist() == [[0.0, 3.0], [1.0, 5.0]]
    path.write_text("qid,label,flag\n1,1,true\n1,0,False\n")
    assert read_csv(path, categorical=["flag"]).features.tolist() == [[1.0], [0.0]]


@pytest.mark.parametrize("word", ["", "NA", "null"])
def test_a_missing_id_among_numbers_is_no_id(tmp_path, word):
    with refusal(what="the query must be known for every document", got="null", where="line 3 of column 'q'"):
        read_csv(rows(tmp_path / "rows.csv", ["12", word]), query="q")


def test_letor_and_trec_files_keep_their_text(tmp_path):
    (tmp_path / "a.txt").write_text("1 qid:0012 1:1 # 007\n0 qid:12 1:2 # 7\n")
    data = read_letor(tmp_path / "a.txt")
    assert data.query_ids.tolist() == ["0012", "12"]
    assert data.document_ids.tolist() == ["007", "7"]
    (tmp_path / "q.txt").write_text("0012 0 007 1\n12 0 7 2\n")
    assert rw.trec.read_qrels(tmp_path / "q.txt")["document"].to_list() == ["007", "7"]


@pytest.mark.parametrize(
    ("text", "columns"),
    [
        ("userId,movieId,rating\n0012,7,5\n12,007,4\n012,7,4\n", {}),
        ("\ufeffuserId,movieId,rating\n0012,7,5\n12,007,4\n012,7,4\n", {}),
        ("customer,sku,rating\n0012,7,5\n12,007,4\n012,7,4\n", {"user": "customer", "item": "sku"}),
        ("0012\t7\t5\n12\t007\t4\n012\t7\t4\n", {}),
        ("0012::7::5\n12::007::4\n012::7::4\n", {}),
    ],
)
def test_interactions_keep_users_and_items_apart(tmp_path, text, columns):
    (tmp_path / "ratings.csv").write_text(text)
    found = rw.recommend.Interactions.read(tmp_path / "ratings.csv", **columns)
    assert found.users.tolist() == ["0012", "012", "12"]
    assert found.catalogue.tolist() == ["007", "7"]


def test_interactions_of_plain_numbers_have_numbers(tmp_path):
    (tmp_path / "ratings.csv").write_text("user,item,rating,time\n12,7,5,100\n3,8,4,200\n")
    found = rw.recommend.Interactions.read(tmp_path / "ratings.csv")
    assert found.users.dtype == found.catalogue.dtype == np.int64
    again = rw.recommend.Interactions.read(tmp_path / "ratings.csv", catalogue=["7", "8", "9"])
    assert again.catalogue.tolist() == ["7", "8", "9"]


def test_a_described_set_keeps_its_ids_also_in_its_copy(tmp_path):
    rows(tmp_path / "rows.csv", ["0012", "12"], head="qid,label,x")
    (tmp_path / "mine.toml").write_text('train = "rows.csv"\ntest = "rows.csv"\n')
    for _ in range(2):
        found: Any = rw.load_dataset(tmp_path / "mine.toml", part="test")
        assert found.query_ids.tolist() == ["0012", "12"]


def test_the_command_line_scores_the_document_that_the_file_names(tmp_path):
    data = rw.synthetic(n_queries=10, n_docs=20, n_features=1, seed=1).with_(feature_names=["x"])
    model = rw.LightGBMRanker(rounds=3, threads=1).fit(data).save(tmp_path / "model")
    (tmp_path / "rows.csv").write_text("q,d,x\n0012,007,1\n12,7,2\n")
    run("predict", model, tmp_path / "rows.csv", "--query", "q", "--document", "d", "-o", tmp_path / "s.run")
    lines = [line.split() for line in (tmp_path / "s.run").read_text().splitlines()]
    assert [(line[0], line[2]) for line in lines] == [("0012", "007"), ("12", "7")]
    (tmp_path / "qrels.txt").write_text("0012 0 007 1\n12 0 7 0\n12 0 007 1\n")
    words = ("--qrels", tmp_path / "qrels.txt", "--metrics", "rr", "--json")
    found = json.loads(run("evaluate", tmp_path / "s.run", *words).stdout)
    (metric,) = found["rankings"]["s"]["metrics"].values()
    assert metric["mean"] == 0.5


def test_ids_of_two_kinds_meet_by_their_text():
    assert index_of(np.array([12, 5]), np.array(["5", "0012", "12"])).tolist() == [2, 0]
    assert index_of(np.array(["012", "12"]), np.array([12])).tolist() == [-1, 0]
    assert index_of(np.array([1]), np.array([], np.int64)).tolist() == [-1]
    largest = np.array([2**63 + 1, 2**63 + 3], np.uint64)  # as doubles they are the same
    assert index_of(np.array([5]), largest).tolist() == [-1]
    assert index_of(largest[::-1], largest).tolist() == [1, 0]


def test_evaluations_of_numbers_and_of_text_are_paired_by_the_text():
    labels, offsets = [1, 0, 0, 1, 1, 0], [0, 2, 4, 6]
    data = rw.RankingDataset(np.zeros((6, 1)), labels, offsets, query_ids=[12, 5, 7])
    other = rw.RankingDataset(np.zeros((6, 1)), [0, 1, 1, 0, 1, 0], offsets, query_ids=["5", "12", "7"])
    one, two = (rw.evaluate(np.arange(6.0), part, "rr") for part in (data, other))
    paired = rw.compare({"one": one, "two": two}).paired.values["rr"]
    assert paired.tolist() == [[0.5, 1.0, 0.5], [0.5, 1.0, 0.5]]
    third = rw.evaluate(np.arange(6.0), other.with_(query_ids=["05", "12", "7"]), "rr")
    refuses(lambda: rw.compare({"three": third, "one": one}), got="query '05' in 'three' but not in 'one'")


def test_folds_whose_ids_are_of_two_kinds_are_pooled_as_text():
    data = rw.synthetic(n_queries=8, n_docs=30, n_features=2, seed=1)
    words = data.with_(query_ids=[f"q{number}" for number in range(8)])
    ranker = rw.LightGBMRanker(rounds=2, patience=None, threads=1)
    parts = [(data.take([0, 1, 2]), data.take([3])), (words.take([4, 5, 6]), words.take([7]))]
    assert rw.cross_validate(ranker, folds=parts).query_ids.tolist() == ["3", "q7"]


def test_recommenders_know_a_user_by_the_text_of_the_id():
    rows: Any = {"user": [1, 1, 2, 2, 12], "item": [3, 4, 3, 5, 5], "rating": [5.0, 4, 5, 4, 5]}
    train = rw.recommend.Interactions.from_frame(pl.DataFrame(rows))
    model = rw.recommend.Popularity().fit(train)
    mine, same = model.recommend([12], 2), model.recommend(["12"], 2)
    assert mine["item"].to_list() == same["item"].to_list()
    words = {name: list(map(str, rows[name])) for name in ("user", "item")}
    text = rw.recommend.Interactions.from_frame(pl.DataFrame({**words, "rating": rows["rating"]}))
    with refusal(got="item 3 of user 1 in test and in exclude"):
        rw.recommend.evaluate_interactions(model, train, exclude=text)


def test_parquet_files_of_a_folder_are_joined_by_the_text_of_ids(tmp_path):
    for name, ids in {"a": [12, 12], "b": ["0012", "7"]}.items():
        pl.DataFrame({"qid": ids, "label": [1, 0], "x": [1, 2]}).write_parquet(tmp_path / f"{name}.parquet")
    data: Any = rw.read_parquet(tmp_path)
    assert data.query_ids.tolist() == ["12", "0012", "7"]


def test_columns_of_ids_that_are_read_from_text_may_be_words():
    assert ids_from_text(pl.Series(["a", None])).to_list() == ["a", None]
    assert ids_from_text(pl.Series(["NA", "a"])).to_list() == ["NA", "a"]
    assert ids_from_text(pl.Series([1, 2])).to_list() == [1, 2]


# A name stands for one column.


TWICE = "a table must name each of its columns once: got '{}' again"


def test_a_column_name_twice_is_rejected_in_text(tmp_path):
    path = tmp_path / "rows.csv"
    for text in ("qid,label,x,label\n1,0,2,1\n1,1,3,0\n", '\nqid,"x",label,x\n1,0,2,1\n'):
        path.write_text(text)
        with pytest.raises(ValueError, match=TWICE.format("label" if text[0] == "q" else "x")):
            read_csv(path)
    path.write_text("user,item,rating,item\n1,2,3,4\n")
    with pytest.raises(ValueError, match=TWICE.format("item") + f" at {path}, line 1"):
        rw.recommend.Interactions.read(path)
    path.write_text("query,document,label,label\nhat,a hat,1,0\n")
    with pytest.raises(ValueError, match=TWICE.format("label")):
        rw.rerank.read(path)
    lines = tmp_path / "rows.jsonl"
    lines.write_text('{"query": "hat", "documents": ["a hat"], "labels": [1], "labels": [0]}\n')
    with pytest.raises(ValueError, match=TWICE.format("labels")):
        rw.rerank.read(lines)


def test_a_column_name_twice_is_rejected_in_frames_and_parquet(tmp_path):
    pandas, arrow = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    from pyarrow import parquet

    frame = pandas.DataFrame([[1, 0, 2, 1]], columns=["qid", "label", "x", "label"])
    table = arrow.table([[1], [0], [2], [1]], names=["qid", "label", "x", "label"])
    model = rw.LightGBMRanker(rounds=2, threads=1).fit(rw.synthetic(n_queries=8, n_docs=20, n_features=4, seed=1))
    for twice in (frame, table):
        for take in (rw.RankingDataset.from_frame, model.predict, rw.recommend.Interactions.from_frame):
            with pytest.raises(ValueError, match=TWICE.format("label")):
                take(twice)
    with pytest.raises(ValueError, match=TWICE.format("1")):
        model.predict(frame.set_axis([1, "1", "a", "b"], axis=1))
    parquet.write_table(table, tmp_path / "rows.parquet")
    for read in (rw.read_parquet, rw.open_data, rw.rerank.read, rw.recommend.Interactions.read):
        with refusal(what="a table must name each of its columns once", got="…label…", hint="rename…"):
            read(tmp_path / "rows.parquet")
