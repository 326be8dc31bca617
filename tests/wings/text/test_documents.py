"""Documents: what they are made of, folders that are whole or not there, and what is refused."""

import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import rankwise as rw
from rankwise.models import storage
from rankwise.wings.text import index
from tests.refusals import refuses

ROWS: list[dict[str, Any]] = [
    {"id": "a", "title": "Mean", "text": "the mean of an array", "price": 1.5},
    {"id": "b", "title": "Median", "text": "a line\nand\ta tab", "price": 2.0},
    {"id": "c", "title": "", "text": None, "price": None},
]


def same(one: rw.text.Documents, other: rw.text.Documents) -> bool:
    arrays = {**one.arrays, **one.columns}
    return (
        one.ids.tolist() == other.ids.tolist()
        and list(one.words) == list(other.words)
        and one.analyzer == other.analyzer
        and arrays.keys() == {**other.arrays, **other.columns}.keys()
        and all(arrays[name].tobytes() == {**other.arrays, **other.columns}[name].tobytes() for name in arrays)
    )


@pytest.fixture(scope="module")
def pages() -> rw.text.Documents:
    return rw.text.Documents(ROWS, columns=("price",))


# --- sources ---------------------------------------------------------------------------------------------------------


def test_every_source_gives_the_same_documents(pages, tmp_path):
    frame = pl.DataFrame(ROWS)
    frame.write_parquet(tmp_path / "rows.parquet")
    frame.write_csv(tmp_path / "rows.csv")
    frame.write_csv(tmp_path / "rows.tsv", separator="\t")
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    (tmp_path / "rows.jsonl").write_text(lines)
    (tmp_path / "rows.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    by_id = {row["id"]: {name: value for name, value in row.items() if name != "id"} for row in ROWS}
    sources: list[Any] = [frame, frame.lazy(), pa.Table.from_pylist(ROWS), by_id, iter(ROWS)]
    sources += [pd.DataFrame(ROWS), *sorted(tmp_path.iterdir()), str(tmp_path / "rows.jsonl")]
    for source in sources:
        assert same(rw.text.Documents(source, columns=("price",)), pages), source
    assert pages.columns["price"].tolist()[:2] == [1.5, 2.0]
    assert np.isnan(pages.columns["price"][2])
    assert pages.text("b") == {"title": "Median", "text": "a line\nand\ta tab"}
    assert pages.text("c") == {}


def test_lines_of_id_and_text_and_ids_of_other_names(tmp_path):
    (tmp_path / "collection.tsv").write_text("7\tthe mean\n8\tthe median\n")
    pages = rw.text.Documents(tmp_path / "collection.tsv", fields=("text",))
    assert pages.ids.tolist() == ["7", "8"]
    assert pages.text("8") == {"text": "the median"}
    assert rw.text.Documents([{"_id": 5, "text": "x"}]).ids.tolist() == ["5"]
    assert rw.text.Documents([{"sku": "x", "id": "y", "text": "x"}], id="sku").ids.tolist() == ["x"]


def test_a_large_table_is_read_in_pieces(monkeypatch, tmp_path):
    monkeypatch.setattr("rankwise.wings.text.source._ROWS", 7)
    frame = pl.DataFrame(
        {"id": [f"d{i}" for i in range(40)], "text": [f"w{i % 3}" for i in range(40)], "other": range(40)}
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    assert rw.text.Documents(tmp_path / "rows.parquet").ids.tolist() == frame["id"].to_list()


@pytest.mark.parametrize(
    ("source", "fields"),
    [
        ([{"id": "a", "text": "x"}] * 2, {"what": "two documents have the same id", "got": "'a'", "where": "item 1"}),
        ([{"text": "x"}], {"what": "a text must have an id", "got": "None", "where": "item 0", "hint": "…'_id'…"}),
        ([{"id": "", "text": "x"}], {"what": "a text must have an id", "got": "''"}),
        ([{"id": 1.5, "text": "x"}], {"what": "a text must have an id", "got": "1.5"}),
        ([{"id": "a\0", "text": "x"}], {"what": "an id must be a text that files can hold", "where": "item 0"}),
        ({"\ud800": "x"}, {"what": "an id must be a text that files can hold", "got": "'\\ud800'"}),
        ({"": "x"}, {"what": "an id must be a text that files can hold", "got": "''"}),
        ([{"id": "a", "text": 7}], {"what": "the field text must be text", "got": "int", "where": "item 0"}),
        (["x"], {"what": "an item must be a dictionary", "got": "str"}),
        ({1: "x", "1": "y"}, {"what": "ids must not differ by their type alone"}),
        ([], {"what": "no document has one of the fields", "got": "no documents"}),
        ([{"id": "a", "body": "x"}], {"what": "no document has one of the fields", "got": "fields title, text"}),
        (pl.DataFrame({"name": ["a"]}), {"what": "the table has no column of ids", "got": "the columns name"}),
    ],
)  # fmt: skip
def test_sources_that_are_refused(source, fields):
    refuses(lambda: rw.text.Documents(source), **fields)


def test_a_bad_line_names_file_and_line(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": \n')
    refuses(lambda: rw.text.Documents(path), what="a line cannot be read as JSON", where=f"line 2 of {path}")
    path.write_text('{"id": "a", "text": "x"}\n{"id": "b", "text": ["x"]}\n')
    refuses(lambda: rw.text.Documents(path), what="the field text must be text", where=f"line 2 of {path}")
    path.write_text('{"id": "a", "text": "x", "price": "dear"}\n')
    refuses(
        lambda: rw.text.Documents(path, columns=("price",)), what="the column price must be a number", got="'dear'",
        where=f"line 1 of {path}",
    )  # fmt: skip
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no")
    refuses(
        lambda: rw.text.Documents(tmp_path / "bad.parquet"),
        what="cannot read the table",
        where=str(tmp_path / "bad.parquet"),
    )
    refuses(lambda: rw.text.Documents(tmp_path / "absent.jsonl"), FileNotFoundError)


def test_arguments_that_are_refused(monkeypatch):
    refuses(lambda: rw.text.Documents(ROWS, fields="text"), what="fields must be several names", hint="write ('text',)")
    refuses(lambda: rw.text.Documents(ROWS, columns=("text",)), what="fields, columns and id must be different names")
    refuses(lambda: rw.text.Bm25(b=1.5), what="b must be…", got="1.5")
    refuses(lambda: rw.text.Bm25(k1=-1.0), got="-1.0")
    monkeypatch.setattr(index, "_MOST_TOKENS", 6)
    refuses(lambda: rw.text.Documents(ROWS), what="the documents have too many words for one index", got="over 6")


def test_nan_is_missing_and_true_is_a_number():
    rows = [{"id": "a", "text": float("nan"), "stock": True}, {"id": "b", "text": "x", "stock": float("nan")}]
    pages = rw.text.Documents(rows, fields=("text",), columns=("stock",))
    assert pages.text("a") == {}
    np.testing.assert_array_equal(pages.columns["stock"], [1.0, np.nan])


def test_a_run_without_documents_is_a_run():
    pages = rw.text.Documents({"a": "one two"}, fields=("text",))
    found = [pages.search(queries) for queries in (["zzz"], [], ["one"])]
    assert pl.concat(found).columns == ["query", "document", "score"]
    assert rw.fuse({"none": found[0], "some": found[2]})["document"].to_list() == ["a"]


def test_documents_without_words():
    pages = rw.text.Documents({"a": "", "b": "...", "c": "one"}, fields=("text",))
    assert pages.search(["one two", "", "zzz"])["document"].to_list() == ["c"]
    assert rw.text.Documents({"a": ""}, fields=("text",)).search(["one"]).is_empty()
    data: Any = rw.text.dataset(pages, ["one"], {"run": {"0": {"a": 1.0, "c": 2.0}}})
    assert np.isfinite(data.features[1, : data.feature_names.index("query_words")]).all()


# --- queries ---------------------------------------------------------------------------------------------------------


def test_queries_in_every_form(pages, tmp_path):
    frame = pl.DataFrame({"query_id": [1, 2], "query": ["mean", "median"]})
    frame.write_csv(tmp_path / "q.csv")
    (tmp_path / "q.tsv").write_text("1\tmean\n2\tmedian\n")
    (tmp_path / "q.jsonl").write_text('{"_id": "1", "text": "mean"}\n{"_id": "2", "text": "median"}\n')
    expected = pages.search({"1": "mean", "2": "median"})
    assert expected["document"].to_list() == ["a", "b"]
    for queries in (frame, frame.to_pandas(), {1: "mean", 2: "median"}, *tmp_path.iterdir(), str(tmp_path / "q.tsv")):
        assert pages.search(queries).equals(expected), queries
    assert pages.search(["mean", "median"])["query"].to_list() == ["0", "1"]


def test_queries_that_are_refused(pages):
    refuses(lambda: pages.search("the mean"), what="queries must be several texts", got="'the mean'", hint="…list…")
    refuses(lambda: pages.search([1]), what="a query must be a text", got="1", where="id '0'")
    refuses(
        lambda: pages.search(pl.DataFrame({"id": ["a", "a"], "text": ["x", "y"]})), what="two queries have the same id"
    )
    refuses(lambda: pages.search(pl.DataFrame({"id": ["a"], "words": ["x"]})), what="a query must be a text")
    refuses(lambda: pages.search(["x"], k=0), what="k must be a whole number of at least 1")
    refuses(lambda: pages.search(["x"], weights={"name": 1.0}), got="'name'")
    refuses(lambda: pages.search(["x"], weights={"title": float("nan")}), what="a weight must be…", got="nan")
    refuses(lambda: pages.text("z"), what="a document is not among those indexed", got="'z'")


# --- folders ---------------------------------------------------------------------------------------------------------


def test_a_saved_index_is_the_same_and_mapped(pages, tmp_path):
    pages = rw.text.Documents(ROWS, columns=("price",), analyzer=rw.text.Analyzer(stop="english", ngrams=2))
    assert pages.save(tmp_path / "index") == tmp_path / "index"
    for loaded in (
        rw.text.Documents.load(tmp_path / "index"),
        rw.text.Documents.load(tmp_path / "index", verify=False),
    ):
        assert same(loaded, pages)
        assert loaded.search(["mean array"]).equals(pages.search(["mean array"]))
        assert loaded.text("b") == pages.text("b")
    tokens = loaded.arrays["tokens"]
    assert isinstance(tokens.base, np.memmap)
    assert not tokens.flags.writeable
    refuses(lambda: pages.save(tmp_path / "index"), FileExistsError, what="…exists already…")
    rw.text.Documents({"z": "new"}, fields=("text",)).save(tmp_path / "index", force=True)
    assert rw.text.Documents.load(tmp_path / "index").ids.tolist() == ["z"]


def test_an_index_larger_than_memory_is_made_in_files(monkeypatch, tmp_path):
    rows = [{"id": f"d{i}", "text": " ".join(f"w{i * j % 31}" for j in range(i % 9)), "price": i} for i in range(300)]
    expected = rw.text.Documents(rows, columns=("price",))
    monkeypatch.setattr(index, "_FLUSHED", 16)  # values that wait in memory
    monkeypatch.setattr(index, "_AT_ONCE", 11)  # entries of posting lists
    pages = rw.text.Documents(rows, columns=("price",), folder=tmp_path / "index")
    assert same(pages, expected)
    assert isinstance(pages.arrays["post_documents"].base, np.memmap)
    assert same(rw.text.Documents.load(tmp_path / "index"), expected)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_an_interrupted_index_leaves_nothing(tmp_path):
    def interrupted():
        yield from ROWS
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        rw.text.Documents(interrupted(), folder=tmp_path / "index")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_index_is_not_there_and_is_cleared_later(tmp_path):
    code = (
        "import os, rankwise as rw\n"
        "def rows():\n    yield {'id': 'a', 'text': 'x'}\n    os.kill(os.getpid(), 9)\n"
        f"rw.text.Documents(rows(), folder={str(tmp_path / 'index')!r})"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    (left,) = tmp_path.iterdir()
    assert left.suffix == ".part"
    os.utime(left, (0, 0))  # as if it had been left a day ago: until then another process may be writing it
    rw.text.Documents(ROWS, folder=tmp_path / "index")
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_every_damaged_file_is_refused(pages, tmp_path):
    pages.save(tmp_path / "index")
    for path in sorted((tmp_path / "index").iterdir()):
        shutil.copytree(tmp_path / "index", tmp_path / "copy")
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        (tmp_path / "copy" / path.name).write_bytes(content)
        refuses(lambda: rw.text.Documents.load(tmp_path / "copy"), what="the model is damaged")
        (tmp_path / "copy" / path.name).unlink()
        refuses(lambda: rw.text.Documents.load(tmp_path / "copy"))
        shutil.rmtree(tmp_path / "copy")


def forge(folder: Path, **arrays: np.ndarray) -> None:
    """Replace arrays of a folder, with checksums that are right."""
    description, _ = storage.read(folder)
    content = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != storage.DESCRIPTION}
    content |= {f"{name}.bin": array.tobytes() for name, array in arrays.items()}

    def fill(new: Path) -> None:
        for name, one in content.items():
            (new / name).write_bytes(one)

    storage.write(folder, {name: description[name] for name in ("kind", "opened_by")}, {}, fill=fill, force=True)


@pytest.mark.parametrize("name", ["tokens", "bounds", "lists", "post_documents", "text_bounds"])
def test_forged_arrays_are_refused(name, pages, tmp_path):
    pages.save(tmp_path / "index")
    forge(tmp_path / "index")
    rw.text.Documents.load(tmp_path / "index")
    forged = pages.arrays[name].copy()
    forged[-2] = 1_000_000
    forge(tmp_path / "index", **{name: forged})
    refuses(lambda: rw.text.Documents.load(tmp_path / "index"), what="the index does not fit together")


def test_folders_of_others_are_refused(pages, tmp_path):
    model = rw.LightGBMRanker(rounds=2, progress=False).fit(rw.synthetic(n_queries=20, seed=0))
    model.save(tmp_path / "model")
    refuses(lambda: rw.text.Documents.load(tmp_path / "model"), what="the folder holds no documents")
    pages.save(tmp_path / "index")
    refuses(
        lambda: rw.load(tmp_path / "index"),
        what="the folder holds no ranker",
        hint="open it with rw.text.Documents.load",
    )
    (tmp_path / "empty").mkdir()
    refuses(lambda: rw.text.Documents.load(tmp_path / "empty"), what="not a model of rankwise")
    refuses(lambda: rw.text.Documents.load(tmp_path / "absent"), FileNotFoundError)


# --- vectors ---------------------------------------------------------------------------------------------------------


def test_nearest_is_the_cosine_of_all(monkeypatch, tmp_path):
    draws = np.random.default_rng(0)
    table = {f"w{i}": draws.normal(size=8) for i in range(400)}
    pages = rw.text.Documents({name: {"title": name, "text": ""} for name in table})

    def encode(texts: list[str]) -> list[np.ndarray]:
        assert len(texts) <= 256
        return [table.get(text, np.zeros(8)) for text in texts]

    vectors = np.array(list(table.values()))
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    monkeypatch.setattr("rankwise.wings.text.documents._SCORES_AT_ONCE", 900)  # two queries at a time
    run = pages.nearest([f"w{i}" for i in range(5)], encode, k=10)
    for query in range(5):
        cosine = unit @ unit[query]
        found = run.filter(pl.col("query") == str(query))
        assert found["document"].to_list() == [f"w{i}" for i in np.argsort(-cosine)[:10]]
        np.testing.assert_allclose(found["score"], np.sort(cosine)[::-1][:10], atol=1e-6)
    kept = pages.encoded(encode)
    again, first = pages.nearest(["w3"], encode, k=10, vectors=kept), pages.nearest(["w3"], encode, k=10)
    assert again["document"].equals(first["document"])
    np.testing.assert_allclose(again["score"], first["score"], atol=1e-6)
    assert pages.nearest(["unknown"], encode, k=2)["document"].to_list() == ["w0", "w1"]  # cosine 0, in their order
    refuses(lambda: pages.nearest(["w3"], encode, vectors=kept[:3]), what="vectors must give…", got="shape (3, 8)")
    refuses(lambda: pages.nearest(["w3"], lambda texts: np.full((len(texts), 2), np.nan)), got="NaN or infinity")
    refuses(
        lambda: pages.nearest(["w3"], lambda texts: np.ones((len(texts), 2)), vectors=kept), got="2 of queries and 8…"
    )
