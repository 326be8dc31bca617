"""The table of columns: a row of it is all that a column needs to be carried everywhere."""

import copy
import inspect
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise import check
from rankwise.data import columns
from rankwise.data.columns import COLUMNS, DataColumn
from rankwise.data.dataset import RankingDataset
from rankwise.rankers.training.resume import fingerprint
from rankwise.wings.cluster.row_plan import facts_of
from rankwise.wings.datasets.load import load_dataset
from tests.generate import ROOT, generated
from tests.refusals import refusal, refuses

FRESHNESS = DataColumn(
    name="freshness",
    text="days since the document was written, for ``recency``",
    dtype="int32",
    per="document",
    kind="number",
    check=lambda values, data: check.document_values("freshness", values, data.offsets, data.query_ids),
    role="age",
    objectives="nothing yet",
    trains=True,
)
REGION = DataColumn(
    name="regions",
    text="where the query was asked",
    per="query",
    kind="id",
    check=lambda values, data: check.identifiers("regions", values, data.n_queries, "query"),
    role="region",
)
ROLES = {"age": "age", "region": "region"}


@pytest.fixture
def data(monkeypatch: pytest.MonkeyPatch) -> RankingDataset:
    """A data set with two columns that only the table knows, added while the test runs."""
    monkeypatch.setattr(columns, "COLUMNS", (*COLUMNS, FRESHNESS, REGION))
    plain = rw.synthetic(n_queries=12, n_docs=5, n_features=1, seed=1)
    plain = plain.with_(features=np.arange(plain.n_docs)[:, None])
    more = {"freshness": np.arange(plain.n_docs) / 8, "regions": [f"r{query}" for query in range(12)]}
    return plain.with_(query_ids=np.arange(12) + 100, **more)  # type: ignore[arg-type]


def same(part: RankingDataset, whole: RankingDataset) -> None:
    """Assert that documents and queries of a part have the values that they have in the whole."""
    assert part.query_ids is not None
    numbers = np.asarray(part.query_ids - 100)
    expected = whole.take(numbers)
    assert vars(part)["regions"].tolist() == [f"r{query}" for query in numbers]
    np.testing.assert_array_equal(vars(part)["freshness"], vars(expected)["freshness"])
    np.testing.assert_array_equal(part.labels, expected.labels)


def test_take_split_and_concatenate_keep_a_new_column(data: RankingDataset):
    part = data.take([3, 1])
    rows = np.concatenate([np.flatnonzero(data.qids() == query) for query in (103, 101)])
    np.testing.assert_array_equal(vars(part)["freshness"], rows / 8)
    for piece in (*rw.split(data, (0.6, 0.2, 0.2)), *next(iter(rw.folds(data, 4)))):
        same(piece, data)
    same(rw.concatenate([data.take([3]), data.take([1])]), data)
    assert not vars(part)["freshness"].flags.writeable


def test_perturbed_and_clicked_data_keep_a_new_column(data: RankingDataset):
    values = dict(zip(data.features[:, 0].tolist(), vars(data)["freshness"].tolist(), strict=True))
    for changed in (rw.data.add_negatives(data, 0.5), rw.clicks.simulate_clicks(data), rw.data.flip_labels(data, 0.5)):
        assert [values[first] for first in changed.features[:, 0].tolist()] == vars(changed)["freshness"].tolist()
        assert len(vars(changed)["regions"]) == changed.n_queries


def test_frames_and_files_keep_a_new_column(data: RankingDataset, tmp_path: Path):
    frame = rw.data.to_frame(data)
    same(RankingDataset.from_frame(frame, **ROLES), data)  # type: ignore[arg-type]
    path = rw.data.write_parquet(data, tmp_path / "rows.parquet")
    same(rw.read_parquet(path), data)
    same(rw.open_data(path), data)
    same(rw.open_data(path), data)  # from the copy on disk
    frame.write_csv(tmp_path / "rows.csv")
    same(rw.read_data(tmp_path / "rows.csv", age="age", region="region"), data)
    refuses(lambda: rw.data.write_letor(data, tmp_path / "rows.txt"), what="LETOR text cannot hold freshness, regions")


def test_copies_in_the_cache_keep_a_new_column(data: RankingDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("rankwise.wings.datasets.description.KEYS", ("train", "test"))
    rw.data.write_parquet(data, tmp_path / "rows.parquet")
    (tmp_path / "mine.toml").write_text('train = "rows.parquet"\ntest = "rows.parquet"\n')
    for _ in range(2):
        same(load_dataset(str(tmp_path / "mine.toml"), part="train"), data)


def test_digests_include_a_column_that_trains(data: RankingDataset):
    other = data.with_(freshness=vars(data)["freshness"] + 1)  # type: ignore[call-arg]
    for digest in (fingerprint, lambda part: facts_of(part).digest):
        assert digest(data) != digest(other)
        assert digest(data) == digest(data.with_(regions=None))  # type: ignore[call-arg]


def test_values_that_change_within_a_query_are_rejected(data: RankingDataset):
    frame = rw.data.to_frame(data).with_columns(pl.int_range(pl.len()).alias("region"))
    refuses(lambda: RankingDataset.from_frame(frame, **ROLES), what="the region changes within a query")  # type: ignore[arg-type]


def values_of(column: DataColumn, data: RankingDataset) -> Any:
    """Return different values of a column, as far as its check allows."""
    numbers = np.arange(data.n_docs if column.per == "document" else data.n_queries)
    if column.name == "judged":
        return np.where(data.labels > 0, 1, numbers % 2)
    if column.name == "rows":
        return numbers[::-1]
    if column.several:
        return {"purchase": numbers + 1, "margin": numbers[::-1] / 8}
    if column.name.endswith("probabilities"):
        return (numbers + 1) / numbers.size
    return numbers + 1 if column.kind == "number" else [f"value {number}" for number in numbers]


@pytest.mark.parametrize("column", [column for column in COLUMNS if column.name != "labels"], ids=lambda it: it.name)
def test_every_column_is_kept(column: DataColumn, tmp_path: Path):
    data = rw.synthetic(n_queries=12, n_docs=5, n_features=1, seed=1)
    data = data.with_(features=np.arange(data.n_docs)[:, None])
    data = data.with_(**{column.name: values_of(column, data)})

    def arrays(part: RankingDataset) -> list[Any]:
        values = getattr(part, column.name)
        assert not column.several or list(values) == ["margin", "purchase"]
        return list(values.values()) if column.several else [values]

    def expected(rows: Any, queries: Any) -> list[Any]:
        chosen = rows if column.per == "document" else queries
        return list(zip(*(whole[chosen].tolist() for whole in arrays(data)), strict=True))

    def kept(part: RankingDataset) -> list[Any]:
        assert not any(array.flags.writeable for array in arrays(part))
        return list(zip(*(array.tolist() for array in arrays(part)), strict=True))

    rows = np.concatenate([np.arange(data.offsets[query], data.offsets[query + 1]) for query in (3, 1)])
    assert kept(data.take([3, 1])) == expected(rows, [3, 1])
    for piece in (*rw.split(data), *next(iter(rw.folds(data, 4)))):
        places = piece.features[:, 0].astype(int)
        queries = np.unique(np.searchsorted(data.offsets, places, side="right") - 1)
        assert kept(piece) == expected(places, queries)
    if column.name != "rows":  # those of several tables have no meaning together
        assert kept(rw.concatenate([data.take([3]), data.take([1])])) == expected(rows, [3, 1])
        if column.name != "query_ids":  # which a part always has
            with pytest.raises(ValueError, match=f"all or none must have {column.name}.*: got number"):
                rw.concatenate([data.take([3]), data.take([1]).with_(**{column.name: None})])  # type: ignore[arg-type]
    if column.name not in ("rows", "positions", "propensities", "query_ids"):  # which lists of negatives cannot have
        longer = rw.data.add_negatives(data, 0.5)
        # Negatives were not judged, and have no labels.
        per_document = column.per == "document" and column.name not in ("judged", "more_labels")
        assert kept(longer)[:3] == expected(longer.features[:3, 0].astype(int), slice(3))
        assert not per_document or kept(longer) == expected(longer.features[:, 0].astype(int), ...)
    if column.role:
        path = rw.data.write_parquet(data, tmp_path / "rows.parquet")
        for part in (rw.read_parquet(path), rw.open_data(path), rw.open_data(path)):  # the last is a copy on disk
            assert kept(part) == expected(slice(None), slice(None))
    if not column.in_letor:
        with pytest.raises(ValueError, match=f"LETOR text cannot hold {column.name}"):
            rw.data.write_letor(data, tmp_path / "rows.txt")
        rw.data.write_letor(data, tmp_path / "rows.txt", lossy=True)
        assert getattr(rw.read_letor(tmp_path / "rows.txt"), column.name) is None


TEXTS = ["a hat", "", 'a "red", round\nhat', "Hüte 帽"] * 16


@pytest.fixture
def texts() -> RankingDataset:
    plain = rw.synthetic(n_queries=6, n_docs=5, n_features=1, seed=1)
    documents = TEXTS[: plain.n_docs]
    return plain.with_(query_texts=["red", "", "Hüte", "red", "x", "y"], document_texts=documents)


def same_texts(part: RankingDataset, whole: RankingDataset) -> None:
    for name in ("query_texts", "document_texts"):
        values = vars(part)[name]
        assert values.dtype == object
        assert not values.flags.writeable
        assert values.tolist() == vars(whole)[name].tolist()


def test_texts_are_columns(texts: RankingDataset, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    assert texts.document_texts is not None
    rows = np.concatenate([np.flatnonzero(texts.qids() == query) for query in (3, 1)])
    assert texts.take([3, 1]).document_texts.tolist() == [texts.document_texts[row] for row in rows]  # type: ignore[union-attr]
    same_texts(rw.concatenate([texts.take([3]), texts.take([1])]), texts.take([3, 1]))
    same_texts(
        RankingDataset.from_frame(rw.data.to_frame(texts), query_text="query_text", document_text="document_text"),
        texts,
    )
    path = rw.data.write_parquet(texts, tmp_path / "rows.parquet")
    monkeypatch.setenv("RANKWISE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "mine.toml").write_text('train = "rows.parquet"\ntest = "rows.parquet"\n')
    for data in (rw.read_parquet(path), rw.open_data(path), rw.open_data(path)):
        same_texts(data, texts)
    for _ in range(2):
        same_texts(load_dataset(str(tmp_path / "mine.toml"), part="train"), texts)
    rw.data.to_frame(texts).write_csv(tmp_path / "rows.csv")
    same_texts(rw.read_csv(tmp_path / "rows.csv", query_text="query_text", document_text="document_text"), texts)
    assert fingerprint(texts) == fingerprint(texts.with_(query_texts=None))


def test_texts_that_are_none_are_rejected(texts: RankingDataset):
    refuses(lambda: texts.with_(query_texts=["red"]), what="there must be one text for each query", got="1 texts for 6")
    with refusal(what="the text of a query must be a str that UTF-8 can hold", got="3", where="query number 5"):
        texts.with_(query_texts=["a", "b", "c", "d", "e", 3])  # type: ignore[arg-type]
    frame = rw.data.to_frame(texts)
    with refusal(what="the document_text column must hold text", got="Float64 in column 'label'"):
        RankingDataset.from_frame(frame.drop("query_text"), document_text="label")
    with refusal(what="the query_text changes within a query"):
        RankingDataset.from_frame(frame, query_text="document_text")


def test_unknown_columns_are_rejected():
    with refusal(TypeError, what="RankingDataset has no argument 'weight'", hint="did you mean 'weights'"):
        RankingDataset([[1.0]], [0], [0, 1], weight=[1.0])  # type: ignore[call-arg]
    frame = pl.DataFrame({"qid": [1], "label": [1], "x": [0.5]})
    with refusal(TypeError, what="RankingDataset.from_frame has no argument 'weights'", hint="did you mean 'weight'"):
        RankingDataset.from_frame(frame, weights="x")  # type: ignore[call-arg]


@pytest.mark.usefixtures("data")
def test_a_new_column_is_in_signatures_and_documentation():
    files = {str(path.relative_to(ROOT)): text for path, text in generated().items()}
    _, arguments, named, roles = files["src/rankwise/data/arguments.py"].split("class ", 3)
    assert "    freshness: ArrayLike | None\n    regions: ArrayLike | None\n" in arguments
    assert "    age: str | None\n    region: str | None\n" in roles
    assert "freshness" not in named
    fields = """    freshness: NDArray[np.int32] | None = None
    \"""(n_docs,) days since the document was written, for ``recency``.\"""
    regions: Ids | None = None
    \"""(n_queries,) where the query was asked.\"""
"""
    assert fields in files["src/rankwise/data/dataset.py"]
    read = """            - ``age``: days since the document was written, for ``recency``.
            - ``region``: where the query was asked. All rows of a query have the same.
"""
    assert read in files["src/rankwise/data/frames.py"]
    row = "| `freshness` | `age=` | document | days since the document was written, for `recency` |\n"
    assert row in files["docs/data.md"]


def test_help_shows_the_columns_as_arguments():
    parameters = inspect.signature(rw.RankingDataset).parameters
    assert list(parameters)[:3] == ["features", "labels", "offsets"]
    assert set(columns.names()) | {"feature_names", "categorical", "categories"} <= set(parameters)


LABELS = {"purchase": [1, 0, 1], "margin": [0.5, 0.0, 2.0]}


def labelled(**columns: Any) -> RankingDataset:
    features, labels = [[1.0], [2.0], [3.0]], [0, 1, 2]
    return RankingDataset(features, labels, [0, 2, 3], **{"query_ids": ["a", "b"], "more_labels": LABELS, **columns})


def test_labels_by_name():
    data = labelled()
    np.testing.assert_array_equal(data.labels_of("margin"), LABELS["margin"])
    assert data.labels_of() is data.labels
    assert (
        repr(data) == "RankingDataset(2 queries, 3 documents, 1 feature, labels 0 to 2, more labels: margin, purchase)"
    )
    assert labelled(more_labels={}).more_labels is None
    unchecked: Any = data.more_labels
    with pytest.raises(TypeError, match="item assignment"):
        unchecked["purchase"] = LABELS["margin"]
    np.testing.assert_array_equal(copy.deepcopy(data).labels_of("margin"), LABELS["margin"])
    with refusal(what="…no labels called 'purchas'", got="more_labels: 'margin', 'purchase'", hint="…'purchase'"):
        data.labels_of("purchas")
    with refusal(what="the data have no labels called 'sale'", got="more_labels: none", hint="…--label sale=COLUMN"):
        labelled(more_labels=None).labels_of("sale")


@pytest.mark.parametrize(
    ("labels", "fields"),
    [
        ([1, 0, 1], {"what": "more_labels must be arrays by name", "got": "list"}),
        (
            {"net sales": [1, 0, 1]},
            {"what": "…must be an identifier…", "got": "'net sales'", "hint": "rename it to 'net_sales'"},
        ),
        ({"None": [1, 0, 1]}, {"what": "…must be an identifier…", "got": "'None'"}),
        ({3: [1, 0, 1]}, {"what": "a name in more_labels must be an identifier, of letters, digits and _", "got": "3"}),
        ({"sales": [1, 0]}, {"about": "more_labels['sales']", "what": "labels must be one number per document"}),
        (
            {"sales": [1, 0, -1]},
            {
                "about": "more_labels['sales']",
                "what": "labels must be at least 0",
                "got": "-1",
                "where": "row 2 (query 'b')",
            },
        ),
    ],
)
def test_labels_that_are_none_are_rejected(labels: Any, fields: dict[str, str]):
    refuses(lambda: labelled(more_labels=labels), **fields)


def test_digests_include_the_names_of_labels():
    swapped = labelled(more_labels={"purchase": LABELS["margin"], "margin": LABELS["purchase"]})
    for digest in (fingerprint, lambda part: facts_of(part).digest):
        assert digest(labelled()) == digest(labelled(more_labels=dict(reversed(LABELS.items()))))
        assert len({digest(labelled()), digest(swapped), digest(labelled(more_labels=None))}) == 3


def test_names_of_labels_that_other_columns_have(tmp_path: Path):
    labels = {"label": [1, 0, 1], "x": [0, 0, 3], "x_offsets": [1, 1, 1]}
    data = labelled(more_labels=labels, feature_names=("x",), weights=[1, 2])
    assert rw.data.to_frame(data).columns == ["qid", "label", "weight", "label_", "x_", "x_offsets", "x"]
    path = rw.data.write_parquet(data, tmp_path / "rows.parquet")
    for part in (rw.read_parquet(path), rw.open_data(path), rw.open_data(path)):  # the last is a copy on disk
        assert {name: values.tolist() for name, values in (part.more_labels or {}).items()} == labels
    named = rw.read_parquet(path, more_labels={"more": "x"})  # those that the file describes stay
    assert list(named.more_labels or ()) == ["label", "more", "x", "x_offsets"]
    assert named.n_features == 0
    for bare in (rw.read_parquet(path, more_labels=None), rw.read_parquet(path, weight=None)):
        assert bare.feature_names == ("x",)  # a column without a role any more is no feature


def test_labels_by_name_in_tables_and_descriptions(tmp_path: Path):
    frame = rw.data.to_frame(labelled())
    frame.write_csv(tmp_path / "rows.csv")
    text = 'train = "rows.csv"\ntest = "rows.csv"\nmore_labels = {sale = "purchase", margin = "margin"}\n'
    (tmp_path / "mine.toml").write_text(text)
    roles = {"sale": "purchase", "margin": "margin"}
    for data in (
        RankingDataset.from_frame(frame, more_labels=roles),
        rw.read_csv(tmp_path / "rows.csv", more_labels=roles),
        rw.read_data(tmp_path / "rows.csv", more_labels=roles),
        load_dataset(str(tmp_path / "mine.toml"), part="train"),
    ):
        assert data.feature_names == ("f1",)
        assert data.labels_of("sale").tolist() == LABELS["purchase"]
    with refusal(what="the table has no such column for the more_labels.sale", got="'purchse'", hint="…'purchase'…"):
        RankingDataset.from_frame(frame, more_labels={"sale": "purchse"})
    (tmp_path / "mine.toml").write_text(text.replace('"purchase"', "3"))
    with refusal(what="more_labels must be a table of strings", where="line 3…"):
        load_dataset(str(tmp_path / "mine.toml"), part="train")


def test_documents_with_any_label_are_not_thinned():
    data = RankingDataset([[0.0]] * 8, [0] * 7 + [1], [0, 8], more_labels={"purchase": [1, 0, 0, 0, 0, 0, 1, 0]})
    fewer = rw.data.thin(data, negatives=1)
    assert fewer.labels_of("purchase").sum() == 2
    assert fewer.n_docs == 4
