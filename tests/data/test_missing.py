"""What is not there is missing, in whatever way a table, a file or a request says so."""

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

NAN = float("nan")


@pytest.fixture(scope="module")
def trained():
    """A ranker of two numbers and a category, and scores of (1, 3, b) and (2, missing, missing)."""
    data = rw.synthetic(n_queries=20, n_docs=20, n_features=2, seed=1)
    shops = np.array(["a", "b", "c"])[data.labels.astype(int) % 3]
    frame = pl.DataFrame({"qid": data.qids(), "label": data.labels, "x": data.features[:, 0], "y": data.features[:, 1]})
    table = frame.with_columns(shop=pl.Series(shops))
    ranker = rw.LightGBMRanker("xendcg", rounds=20, leaves=8, min_documents=2, threads=1).fit(
        rw.RankingDataset.from_frame(table, categorical=["shop"])
    )
    scores = ranker.predict(np.array([[1, 3, 1], [2, NAN, NAN], [2, 3, 1]], np.float32))
    assert len(set(scores)) == 3
    return ranker, scores[:2]


TABLES = [
    {"x": [1.0, 2.0], "y": [3.0, None], "shop": ["b", None]},
    {"x": [1, 2], "y": [3, None], "shop": pl.Series(["b", "new"])},
    {"x": [1, 2], "y": [3.0, NAN], "shop": pl.Series(["b", None], dtype=pl.Categorical)},
    {"x": [1, 2], "y": pl.Series([3, None], dtype=pl.Decimal(8, 2)), "shop": ["b", None]},
]


@pytest.mark.parametrize("columns", TABLES)
def test_a_missing_number_or_category_is_missing_to_a_model(trained, columns):
    ranker, scores = trained
    table = pl.DataFrame(columns)
    for documents in (table, table.lazy(), table.to_arrow()):
        np.testing.assert_array_equal(ranker.predict(documents), scores)
        np.testing.assert_array_equal(ranker.scorer()(documents), scores)


def test_a_missing_number_or_category_of_pandas_is_missing_to_a_model(trained):
    pandas = pytest.importorskip("pandas")
    ranker, scores = trained
    for y in ([3.0, None], pandas.array([3, None], dtype="Int64"), pandas.Series([3, pandas.NA], dtype=object)):
        for shop in (["b", None], pandas.array(["b", None], dtype="string"), pandas.Categorical(["b", None])):
            table = pandas.DataFrame({"x": [1, 2], "y": y, "shop": shop})
            np.testing.assert_array_equal(ranker.predict(table), scores)
            np.testing.assert_array_equal(ranker.scorer()(table), scores)


NOTHING = [pl.Null, pl.String, pl.Float64, pl.Int64, pl.Boolean, pl.Categorical, pl.Enum(["z"])]


@pytest.mark.parametrize("of_number", NOTHING[:5])
@pytest.mark.parametrize("of_category", NOTHING)
def test_a_request_of_one_document_may_know_nothing_of_a_column(trained, of_number, of_category):
    ranker, scores = trained
    kinds = {"x": pl.Int64, "y": of_number, "shop": of_category}
    request = pl.DataFrame({"x": [2], "y": [None], "shop": [None]}, schema=kinds)
    np.testing.assert_array_equal(ranker.predict(request), scores[1:])
    np.testing.assert_array_equal(ranker.scorer()(request), scores[1:])


def test_a_request_of_pandas_may_know_nothing_of_a_column(trained):
    pandas = pytest.importorskip("pandas")
    ranker, scores = trained
    for nothing in ([None], [NAN], [pandas.NaT], pandas.array([None], dtype="string"), pandas.Categorical([None])):
        request = pandas.DataFrame({"x": [2], "y": [None], "shop": nothing})
        np.testing.assert_array_equal(ranker.predict(request), scores[1:])


def test_lists_and_arrays_of_objects_may_hold_none(trained):
    ranker, scores = trained
    for matrix in ([[1, 3, 1], [2, None, None]], np.array([[1.0, 3, 1], [2, None, None]], object)):
        np.testing.assert_array_equal(ranker.predict(matrix), scores)
        np.testing.assert_array_equal(ranker.scorer()(matrix), scores)
    pandas = pytest.importorskip("pandas")
    matrix = np.array([[1, 3, 1], [2, pandas.NA, pandas.NaT]], object)
    np.testing.assert_array_equal(ranker.predict(matrix), scores)
    refuses(lambda: ranker.predict([[1, "3", None]]), what="features must be a matrix of numbers, one row per document")


@pytest.mark.parametrize("kind", [pl.Null, pl.String, pl.Float64])
def test_a_feature_without_a_value_is_one_of_missing_numbers(kind, tmp_path):
    kinds = {"qid": pl.Int64, "label": pl.Int64, "x": kind, "y": pl.Float64}
    table = pl.DataFrame({"qid": [1, 1], "label": [1, 0], "x": [None, None], "y": [1.0, 2.0]}, schema=kinds)
    table.write_parquet(tmp_path / "rows.parquet")
    for data in (
        rw.RankingDataset.from_frame(table),
        rw.read_parquet(tmp_path / "rows.parquet"),
        rw.open_data(tmp_path / "rows.parquet"),
    ):
        np.testing.assert_array_equal(data.features, [[NAN, 1], [NAN, 2]])
        assert data.feature_names == ("x", "y")


@pytest.mark.parametrize("cells", [("", ""), ("NA", "NA"), ("", "NA"), ('""', ""), ("null", "None"), (" ", "#N/A")])
def test_an_empty_column_of_csv_is_missing(tmp_path, cells):
    path = tmp_path / "rows.csv"
    path.write_text(f"qid,label,x,y\n1,1,{cells[0]},1\n1,0,{cells[1]},2\n")
    np.testing.assert_array_equal(rw.read_csv(path).features, [[NAN, 1], [NAN, 2]])


def test_a_csv_file_to_score_may_have_empty_columns_of_any_kind(trained, tmp_path):
    ranker, scores = trained
    path = tmp_path / "rows.csv"
    path.write_text("qid,x,y,shop\n1,2,,\n")
    data = rw.read_csv(path, **ranker.columns_to_score())
    np.testing.assert_array_equal(ranker.predict(data), scores[1:])


def test_data_whose_category_is_missing_everywhere_fit_a_model_that_has_it(trained, tmp_path):
    ranker, scores = trained
    table = pl.DataFrame({"qid": [1], "label": [0], "x": [2], "y": [None], "shop": [None]})
    np.testing.assert_array_equal(ranker.predict(rw.RankingDataset.from_frame(table)), scores[1:])
    coded = rw.RankingDataset.from_frame(table, categorical=["shop", "y"])
    np.testing.assert_array_equal(ranker.predict(coded), scores[1:])
    with refusal(what="training went by the values of categories, and these data have plain numbers"):
        ranker.predict(rw.RankingDataset.from_frame(table.with_columns(shop=pl.lit(1))))


FILES = [
    ([1.0, 2.0], [None, None], [1, 2, NAN, NAN]),
    ([None, None], [1.0, 2.0], [NAN, NAN, 1, 2]),
    ([1, 2], [1.5, None], [1, 2, 1.5, NAN]),
    ([True, False], [1.0, None], [1, 0, 1, NAN]),
    (pl.Series([None, None], dtype=pl.String), [1, 2], [NAN, NAN, 1, 2]),
    (pl.Series([1, 2], dtype=pl.Int32), [1, 2], [1, 2, 1, 2]),
]


@pytest.mark.parametrize(("first", "second", "expected"), FILES)
def test_a_column_may_be_empty_in_some_files_of_a_folder(tmp_path, first, second, expected):
    for number, column in enumerate((first, second)):
        table = pl.DataFrame({"qid": [number] * 2, "label": [1, 0], "x": column})
        table.write_parquet(tmp_path / f"{number}.parquet")
    np.testing.assert_array_equal(rw.read_parquet(tmp_path).features[:, 0], expected)
    np.testing.assert_array_equal(rw.open_data(tmp_path).features[:, 0], expected)


def test_text_among_numbers_is_still_rejected(trained):
    ranker, _ = trained
    with refusal(what="a feature must be a column of numbers", got="String in column 'y'"):
        ranker.predict(pl.DataFrame({"x": [1, 2], "y": ["high", None], "shop": ["a", "b"]}))
