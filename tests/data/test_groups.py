"""Groups of documents: columns of several types in tables, errors, digests and the command line."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.rankers.training.resume import fingerprint
from tests.cli.running import run
from tests.refusals import refusal


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    plain = rw.synthetic(n_queries=20, n_docs=6, seed=1)
    groups = np.random.default_rng(0).choice(["north", "south", "west"], plain.n_docs)
    return plain.with_(groups=groups, query_ids=np.arange(plain.n_queries) + 100)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pl.Series(["m", "f", "m"]), ["m", "f", "m"]),
        (pl.Series(["m", "f", "m"], dtype=pl.Categorical), ["m", "f", "m"]),
        (pl.Series(["m", "f", "m"], dtype=pl.Enum(["f", "m"])), ["m", "f", "m"]),
        (pl.Series([2, 7, 2]), [2, 7, 2]),
        (pl.Series([True, False, True]), [1, 0, 1]),
    ],
    ids=lambda column: str(getattr(column, "dtype", "")),
)
def test_a_column_of_a_table_names_groups_and_is_no_feature(column: pl.Series, expected: list[Any]):
    frame = pl.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "x": [0.0, 1.0, 2.0], "side": column})
    found = rw.RankingDataset.from_frame(frame, groups="side")
    assert found.groups is not None
    assert found.groups.tolist() == expected
    assert found.feature_names == ("x",)
    if column.dtype == pl.Int64:
        assert rw.RankingDataset.from_frame(frame, groups="side", features=["x", "side"]).n_features == 2
    assert found.take([1]).groups.tolist() == expected[2:]  # type: ignore[union-attr]


def test_errors_name_place_and_hint(data: rw.RankingDataset):
    with refusal(what="groups must be one integer or string per document", got="shape (2,)…"):
        data.with_(groups=["a", "b"])
    with refusal(what="groups must be one integer or string per document", got="…float64…"):
        data.with_(groups=np.zeros(data.n_docs))
    unknown: list[Any] = ["a"] * data.n_docs
    unknown[5] = None
    with refusal(what="groups must be known for every document", got="None", where="row 5", hint="…unknown…"):
        data.with_(groups=unknown)
    assert data.with_(groups=np.arange(data.n_docs) % 2 == 0).groups.tolist()[:2] == [1, 0]  # type: ignore[union-attr]
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [0.0, 1.0], "side": ["a", None]})
    with refusal(what="the groups must be known for every document", got="null", where="row 1…"):
        rw.RankingDataset.from_frame(frame, groups="side")
    with refusal(what="…no such column for the groups", got="'sid'", hint="did you mean 'side'; set groups=…"):
        rw.RankingDataset.from_frame(frame, groups="sid")


def test_digests_depend_on_groups(data: rw.RankingDataset):
    assert fingerprint(data) != fingerprint(data.with_(groups=None))
    assert fingerprint(data) != fingerprint(data.with_(groups=data.groups[::-1]))  # type: ignore[index]


def test_data_without_groups_keep_the_digest_of_their_checkpoints_and_trials():
    features = np.arange(12, dtype=np.float32).reshape(6, 2)
    plain = rw.RankingDataset(features, [0, 1, 2, 0, 0, 1], [0, 3, 6], query_ids=["a", "b"], weights=[1.0, 2.0])
    assert fingerprint(plain) == "f7ce506027df01c26d4d59080cf47e25"


def test_commands_read_a_column_of_groups(tmp_path: Path):
    rows = "qid,label,x,side\n1,0,0.5,a\n1,1,0.25,b\n2,1,0.5,a\n"
    Path(tmp_path, "rows.csv").write_text(rows)
    run("data", "convert", tmp_path / "rows.csv", "-o", tmp_path / "rows.parquet", "--groups", "side")
    read = rw.read_parquet(tmp_path / "rows.parquet")
    assert read.groups.tolist() == ["a", "b", "a"]  # type: ignore[union-attr]
    assert read.feature_names == ("x",)
    assert "a: 2, b: 1" in run("data", "info", tmp_path / "rows.parquet").stdout
    run("data", "convert", tmp_path / "rows.parquet", "-o", tmp_path / "rows.txt", "--lossy")
    assert rw.read_letor(tmp_path / "rows.txt").groups is None
