"""Tables in and out: polars, pandas, Arrow and Parquet, and what is said of columns that do not fit."""

import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.io.tables.polars import as_polars
from tests.refusals import refusal, refuses

# Columns that a table has are there: no need to ask whether they are None.
from_frame: Any = rw.RankingDataset.from_frame
read_parquet: Any = rw.read_parquet

ROWS = {
    "qid": [3, 3, 1],
    "label": [2.0, 0.0, 1.0],
    "a": [1, 2, 3],
    "b": [0.5, None, 2.5],
    "c": [True, False, True],
}
MATRIX = [[1, 0.5, 1], [2, np.nan, 0], [3, 2.5, 1]]


def polars_frame():
    return pl.DataFrame(ROWS)


def pandas_frame():
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame(ROWS)


def pandas_nullable_frame():
    return pandas_frame().convert_dtypes()


def pyarrow_table():
    return pytest.importorskip("pyarrow").table(ROWS)


class Capsule:
    """A table of a library that nobody knows, which speaks Arrow."""

    def __arrow_c_stream__(self, requested_schema=None):
        return pl.DataFrame(ROWS).__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize(
    "make", [polars_frame, lambda: polars_frame().lazy(), pandas_frame, pandas_nullable_frame, pyarrow_table, Capsule]
)
def test_every_kind_of_table(make):
    data = from_frame(make())
    np.testing.assert_array_equal(data.features, np.array(MATRIX, np.float32))
    assert data.features.flags.c_contiguous
    assert data.labels.tolist() == [2, 0, 1]
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.query_ids.tolist() == [3, 1]
    assert data.feature_names == ("a", "b", "c")
    assert data.categorical == ()


def test_columns_play_the_roles_that_they_are_given():
    frame = pl.DataFrame(
        {
            "user": ["x", "x", "y"],
            "grade": [1, 0, 2],
            "w": [2.0, 2.0, 0.5],
            "item": ["i", "j", "k"],
            "p": [0.5, 0.25, 1.0],
            "rank": [1, 2, 1],
            "genre": [4, 5, 4],
            "price": [9.5, 8.5, 7.5],
            "title": ["t", "u", "v"],
        }
    )
    roles = {
        "query": "user",
        "label": "grade",
        "weight": "w",
        "document": "item",
        "propensity": "p",
        "position": "rank",
    }
    data = from_frame(frame, **roles, features=["price", "genre"], categorical=["genre"])
    assert data.features.tolist() == [[9.5, 4], [8.5, 5], [7.5, 4]]
    assert data.query_ids.tolist() == ["x", "y"]
    assert data.weights.tolist() == [2, 0.5]
    assert data.document_ids.tolist() == ["i", "j", "k"]
    assert data.propensities.tolist() == [0.5, 0.25, 1]
    assert data.positions.tolist() == [1, 2, 1]
    assert data.categorical == (1,)


def test_a_subclass_stays_one():
    class Mine(rw.RankingDataset):
        pass

    assert type(Mine.from_frame(polars_frame())) is Mine


def test_categories_become_codes_in_the_order_of_their_list():
    kind = pl.Enum(["low", "mid", "high"])
    base = {"qid": [1, 1, 1], "label": [0, 0, 0]}
    data = from_frame(pl.DataFrame(base | {"x": pl.Series(["high", None, "low"], dtype=kind)}))
    np.testing.assert_array_equal(data.features[:, 0], [2, np.nan, 0])
    assert data.categorical == (0,)
    pandas = pytest.importorskip("pandas")
    column = pandas.Categorical(["high", None, "low"], categories=["low", "mid", "high"])
    data = from_frame(pandas.DataFrame(base | {"x": column}))
    np.testing.assert_array_equal(data.features[:, 0], [2, np.nan, 0])
    assert data.categorical == (0,)


def test_sorting_keeps_the_order_within_queries():
    frame = pl.DataFrame({"qid": ["b", "a", "b", "a"], "label": [1, 2, 3, 4], "x": [1.0, 2.0, 3.0, 4.0]})
    with refusal(
        what="the rows of a query must lie together", got="query 'b' again…", where="row 2", hint="pass sort=True…"
    ):
        from_frame(frame)
    data = from_frame(frame, sort=True)
    assert data.query_ids.tolist() == ["a", "b"]
    assert data.labels.tolist() == [2, 4, 1, 3]
    assert data.features[:, 0].tolist() == [2, 4, 1, 3]


def test_numbers_beyond_float32_become_the_largest():
    frame = pl.DataFrame({"qid": [1, 1, 1, 1], "label": [0.0] * 4, "x": [1e300, -1e300, float("inf"), None]})
    largest = float(np.finfo(np.float32).max)
    expected = [largest, -largest, np.inf, np.nan]
    np.testing.assert_array_equal(from_frame(frame).features[:, 0], expected)


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({}, {"query": "qdi"}, r"no such column for the query: got 'qdi'. Hint: did you mean 'qid'"),
        (
            {},
            {"label": "grade"},
            r"for the label: got 'grade'. Hint: set label=….*; or label=None where documents have no",
        ),
        ({}, {"features": ["z"]}, r"no such column for a feature: got 'z'. Hint: choose one of qid, label, a, b, c"),
        (
            {"label": [1, None, 2]},
            {},
            r"the label must be known for every document: got null at row 1 of column 'label'",
        ),
        (
            {"label": ["x", "y", "z"]},
            {},
            r"the label column must hold numbers: got String in column 'label', such as 'x'. Hint: write",
        ),
        ({"label": [1, -1, 2]}, {}, r"labels must be at least 0: got -1 at row 1 \(query 3\)"),
        (
            {"qid": [1.5, 1.5, 2.5]},
            {},
            r"the query must hold integers or strings: got 1.5, Float64 at row 0 of column 'qid'",
        ),
        ({"qid": [1, None, 2]}, {}, r"the query must be known for every document: got null at row 1 of column 'qid'"),
        (
            {"t": ["x", "y", "z"]},
            {},
            r"must be a column of numbers: got String in column 't'. Hint: name it in categorical=",
        ),
        (
            {"t": [[1], [2], [3]]},
            {},
            r"got List\(Int64\) in column 't'. Hint: encode it as numbers, or leave it out with features=\['!t'\]",
        ),
        ({"w": [1.0, 2.0, 1.0]}, {"weight": "w"}, r"weight changes within a query: got 2 at row 1 \(query 3\)"),
        ({}, {"categorical": ["z"]}, r"a categorical column must be one of the features: got 'z'"),
    ],
)
def test_columns_that_do_not_fit_are_named(change, options, message):
    with pytest.raises(ValueError, match=message):
        from_frame(pl.DataFrame(ROWS | change), **options)


def test_values_that_are_no_table_are_rejected():
    refuses(lambda: from_frame(ROWS), what="a frame must be a polars, pandas or Arrow table", got="builtins.dict")


def test_pandas_without_pyarrow_is_enough():
    pytest.importorskip("pandas")
    program = """
import sys
sys.modules["pyarrow"] = None
import pandas, rankwise as rw
frame = pandas.DataFrame({"qid": ["a", "a", "b"], "label": [1, 0, 2], "x": [1.5, None, 2.5], "y": [1, 2, 3]})
print(rw.RankingDataset.from_frame(frame).features.tolist())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[[1.5, 1.0], [nan, 2.0], [2.5, 3.0]]"


def test_reading_tables_imports_neither_pandas_nor_pyarrow(tmp_path):
    program = f"""
import sys, polars as pl, rankwise as rw
data = rw.RankingDataset.from_frame(pl.DataFrame({{"qid": [1], "label": [1], "x": [1.5]}}))
rw.data.write_parquet(data, {str(tmp_path / "a.parquet")!r})
rw.read_parquet({str(tmp_path / "a.parquet")!r})
print(sorted({{"pandas", "pyarrow"}} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


# Out, and Parquet.


def everything() -> rw.RankingDataset:
    return rw.RankingDataset(
        np.array([[0.1, 1], [np.nan, 0], [-np.inf, 2]], np.float32),
        [0.1, 2, 1 / 3],
        [0, 2, 3],
        query_ids=["b", "a"],
        weights=[0.1, 7],
        document_ids=[5, -1, 5],
        feature_names=["label", "b c"],
        categorical=[1],
        propensities=[0.3, 0.7, 1],
        judged=[1, 1, 1],
        positions=[2, 1, 1],
    )


def assert_same(one: rw.RankingDataset, two: rw.RankingDataset) -> None:
    for item in fields(one):
        first, second = getattr(one, item.name), getattr(two, item.name)
        if isinstance(first, np.ndarray):
            np.testing.assert_array_equal(first, second, strict=True)
        else:
            assert first == second, item.name


PLAIN = rw.RankingDataset([[1.0, 2.0], [3.0, 4.0]], [1, 0], [0, 1, 2])


@pytest.mark.parametrize(
    "data",
    [
        everything(),
        PLAIN,
        PLAIN.with_(query_ids=np.array([2**63 + 1, 5], np.uint64)),
        PLAIN.with_(query_ids=np.array([7, -7], np.int32), document_ids=["ü", "検索"]),
        PLAIN.with_(features=np.empty((2, 0), np.float32)),
        PLAIN.with_(feature_names=["qid", "qid_"]),
        rw.RankingDataset(np.empty((0, 2), np.float32), [], [0]),
    ],
    ids=["everything", "plain", "large ids", "small ids", "no features", "names taken", "no documents"],
)
def test_parquet_reads_exactly_what_was_written(tmp_path, data):
    path = tmp_path / "data.parquet"
    assert rw.data.write_parquet(data, path) == path
    assert_same(read_parquet(path), data)
    assert [entry.name for entry in tmp_path.iterdir()] == ["data.parquet"]


@pytest.mark.filterwarnings("ignore:features whose names suggest")
def test_a_frame_shows_one_row_per_document():
    frame = rw.data.to_frame(everything())
    assert frame.columns == ["qid", "label_", "weight", "document", "propensity", "position", "judged", "label", "b c"]
    assert frame["qid"].to_list() == ["b", "b", "a"]
    assert frame["label_"].to_list() == [0.1, 2, 1 / 3]
    assert frame["weight"].to_list() == [0.1, 0.1, 7]
    assert frame["b c"].to_list() == [1, 0, 2]
    roles = {name: name for name in ("weight", "document", "propensity", "position", "judged")}
    back = from_frame(frame, label="label_", categorical=["b c"], **roles)
    assert_same(back, everything())


def test_other_tools_parquet_is_read_by_naming_its_columns(tmp_path):
    frame = pl.DataFrame({"user": [1, 1, 2], "grade": [1, 0, 1], "x": [1.0, 2.0, 3.0], "y": [1, 2, 3]})
    frame.write_parquet(tmp_path / "a.parquet")
    data = read_parquet(tmp_path / "a.parquet", query="user", label="grade", features=["y"])
    assert data.features.tolist() == [[1], [2], [3]]
    with refusal(what="the table has no such column for the query", got="'qid'"):
        read_parquet(tmp_path / "a.parquet")
    rw.data.write_parquet(data.with_(weights=[1, 2]), tmp_path / "b.parquet")
    again = read_parquet(tmp_path / "b.parquet", categorical=["y"])
    assert again.weights.tolist() == [1, 2]
    assert again.categorical == (0,)


def test_a_folder_of_parquet_files_is_one_data_set(tmp_path):
    data = rw.synthetic(30, 20, seed=3)
    for number in (2, 0, 1):
        rw.data.write_parquet(data.take(np.arange(10 * number, 10 * number + 10)), tmp_path / f"part{number}.parquet")
    back = rw.read_data(tmp_path)
    np.testing.assert_array_equal(back.features, data.features)
    np.testing.assert_array_equal(back.offsets, data.offsets)


def test_parquet_files_are_guarded(tmp_path):
    path = tmp_path / "a.parquet"
    rw.data.write_parquet(PLAIN, path)
    with refusal(FileExistsError, what="…a.parquet exists already and is kept"):
        rw.data.write_parquet(everything(), path)
    rw.data.write_parquet(everything(), path, force=True)
    assert_same(read_parquet(path), everything())
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"there are no .parquet files in the folder"):
        read_parquet(tmp_path / "empty")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*b.parquet. Did you mean .*a.parquet"):
        read_parquet(tmp_path / "b.parquet")
    (tmp_path / "c.parquet").write_text("1 qid:1 1:2\n")
    refuses(lambda: read_parquet(tmp_path / "c.parquet"), what="cannot read Parquet", where="…c.parquet")


def test_letor_and_parquet_agree(tmp_path: Path):
    data = rw.synthetic(25, 7, seed=9)
    rw.data.write_letor(data, tmp_path / "a.txt.zst", lossy=True)
    rw.data.write_parquet(rw.read_letor(tmp_path / "a.txt.zst"), tmp_path / "a.parquet")
    back = read_parquet(tmp_path / "a.parquet")
    np.testing.assert_array_equal(back.features, data.features)
    np.testing.assert_array_equal(back.labels, data.labels)


def test_pandas_strings_and_gaps_become_polars_ones():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(
        {"s": ["x", None, "z"], "i": pandas.array([1, None, 3], dtype="Int64"), "f": [1.0, np.nan, 3]}
    )
    table, lists = as_polars(frame)
    assert lists == {}
    assert table.collect().rows() == [("x", 1, 1.0), (None, None, None), ("z", 3, 3.0)]


def test_numbers_of_128_bits_are_ids_where_they_fit():
    frame = pl.DataFrame({"qid": pl.Series([1, 1, 2], dtype=pl.Int128), "label": [1, 0, 1], "a": [1, 2, 3]})
    assert from_frame(frame).query_ids.tolist() == [1, 2]
    frame = frame.with_columns(qid=pl.Series([1, 1, 2**70], dtype=pl.Int128))
    with pytest.raises(ValueError, match=rf"as query must fit into 64 bits: got {2**70} at row 2 of column 'qid'"):
        from_frame(frame)


def test_a_single_name_is_one_column():
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "s": [1.0, 2.0], "shop": ["a", "b"]})
    data = from_frame(frame, features="shop", categorical="shop")
    assert (data.feature_names, data.categories) == (("shop",), {0: ("a", "b")})
    assert from_frame(frame, features="!shop").feature_names == ("s",)


def test_an_id_of_text_that_comes_again_is_written_as_text():
    frame = pl.DataFrame({"qid": ["a", "b", "a"], "label": [0, 1, 0], "x": [1.0, 2.0, 3.0]})
    refuses(lambda: from_frame(frame), got="query 'a' again after another query")


def test_data_without_labels_are_not_labelled():
    frame = pl.DataFrame({"qid": [1, 1, 2], "x": [0.5, 1.0, 2.0]})
    data = rw.RankingDataset.from_frame(frame, to_score=True)
    assert not data.is_labelled
    assert repr(data) == "RankingDataset(2 queries, 3 documents, 1 feature, no labels)"
    assert repr(data.take([1])) == "RankingDataset(1 query, 1 document, 1 feature, no labels)"
    with refusal(
        what="rankings are evaluated by labels",
        got="…no labels…",
        hint="name the column of labels where the data are read: label=…",
    ):
        rw.evaluate(data.features[:, 0], data, "ndcg@10")
    assert data.with_(labels=[0, 2, 1]).is_labelled
    assert rw.RankingDataset.from_frame(frame.with_columns(label=pl.lit(0)), to_score=True).is_labelled


def test_all_columns_that_are_no_numbers_are_named_at_once():
    columns: dict[str, Any] = {"qid": [1, 1], "label": [0, 1], "a": [[1], [2]], "b": [b"x", b"y"], "c": ["u", "v"]}
    frame = pl.DataFrame(columns | {"d": pl.Series(["2024-05-03", "2024-05-04"]).str.to_date(), "e": [[1], [2]]})
    message = r"got String in column 'c'; List\(Int64\) in columns 'a', 'e'; Binary in column 'b'; Date in column 'd'. "
    with pytest.raises(
        ValueError, match=message + r"Hint: set dates='days' to read dates as numbers, name it in categ"
    ):
        from_frame(frame)
    assert from_frame(frame, features=["d"], dates="days").features[:, 0].tolist() == [19846, 19847]


def test_times_as_days():
    times = pl.Series(["1970-01-02 12:00", "1970-01-01 06:00"]).str.to_datetime(time_zone="Europe/Paris")
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": times, "y": times.dt.replace_time_zone(None)})
    frame = frame.with_columns(z=pl.col("y") - pl.col("y").min(), t=pl.col("y").dt.time())
    data = from_frame(frame, dates="days")
    np.testing.assert_allclose(data.features, [[1.5 - 1 / 24, 1.5, 1.25, 0.5], [0.25 - 1 / 24, 0.25, 0, 0.25]], 1e-6)


DOUBLED: dict[str, Any] = {
    "qid": [1, 2, 1, 1],
    "doc": ["a", "a", "b", "a"],
    "label": [1, 0, 2, 1],
    "x": [5.0, 6.0, 7.0, 5.0],
}


@pytest.mark.parametrize(("sort", "labels"), [(True, [1, 2, 0]), (False, [1, 2])])
def test_doubled_rows_go_on_request(sort: bool, labels: list[int]):
    frame = pl.DataFrame(DOUBLED)
    frame = frame if sort else frame.filter(pl.col("qid") == 1)
    data = from_frame(frame, document="doc", sort=sort, drop_duplicates=True)
    assert data.labels.tolist() == labels
    assert from_frame(frame, document="doc", sort=True).n_docs == len(labels) + 1


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"label": [1, 0, 2, 2]}, {}, r"one label: got 2 in column 'label' after another, document 'a' at row 3"),
        ({"sold": [1, 0, 2, 0]}, {"more_labels": {"sold": "sold"}}, r"one label: got 0 in column 'sold' after another"),
        ({}, {"to_score": True}, r"duplicates are rows of judged documents.*rows to score. Hint: leave drop_dup"),
    ],
)
def test_doubled_rows_that_are_refused(change: dict[str, Any], options: Any, message: str):
    with pytest.raises(ValueError, match=message):
        from_frame(pl.DataFrame(DOUBLED | change), document="doc", sort=True, drop_duplicates=True, **options)


def test_doubled_rows_with_other_features_are_counted():
    with pytest.warns(UserWarning, match="1 dropped rows differ from the kept one"):
        from_frame(pl.DataFrame(DOUBLED | {"x": [5, 6, 7, 8]}), document="doc", sort=True, drop_duplicates=True)
