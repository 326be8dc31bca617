"""Groups of documents: read from any form, kept wherever documents go, and no feature."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.rankers.training.checkpoints import fingerprint
from tests.cli.running import run


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    plain = rw.synthetic(n_queries=20, n_docs=6, seed=1)
    groups = np.random.default_rng(0).choice(["north", "south", "west"], plain.n_docs)
    return plain.with_(groups=groups, query_ids=np.arange(plain.n_queries) + 100)


def same(one: rw.RankingDataset, other: rw.RankingDataset) -> None:
    assert one.groups is not None
    np.testing.assert_array_equal(one.groups, other.groups)
    np.testing.assert_array_equal(one.features, other.features)


def test_groups_go_where_the_documents_go(data: rw.RankingDataset):
    part = data.take([3, 1])
    rows = np.concatenate([np.flatnonzero(data.qids() == query) for query in (103, 101)])
    np.testing.assert_array_equal(part.groups, data.groups[rows])  # type: ignore[index]
    same(rw.concatenate([data.take([3]), data.take([1])]), part)
    with pytest.raises(ValueError, match="some of the data sets to be joined have groups and some do not"):
        rw.concatenate([data.take([3]), data.take([1]).with_(groups=None)])
    for piece in (*rw.split(data, (0.6, 0.2, 0.2), seed=1), *next(iter(rw.folds(data, 4, seed=1)))):
        np.testing.assert_array_equal(piece.groups, data.groups[np.isin(data.qids(), piece.qids())])  # type: ignore[index]
    wide = data.with_(features=sparse.csr_array(data.features))
    np.testing.assert_array_equal(wide.take([3, 1]).groups, part.groups)
    noisy = rw.add_negatives(data, 0.5, seed=2)
    which = {tuple(row): group for row, group in zip(data.features.tolist(), data.groups.tolist(), strict=True)}  # type: ignore[union-attr]
    assert [which[tuple(row)] for row in noisy.features.tolist()] == noisy.groups.tolist()  # type: ignore[union-attr]
    log = rw.simulate_clicks(data, seed=3)
    assert [which[tuple(row)] for row in log.features.tolist()] == log.groups.tolist()  # type: ignore[union-attr]


def test_files_keep_groups(data: rw.RankingDataset, tmp_path: Path):
    path = rw.write_parquet(data, tmp_path / "data.parquet")
    same(rw.read_parquet(path), data)
    same(rw.open_data(path), data)
    same(rw.open_data(path), data)  # from the copy on disk
    same(
        rw.read_parquet(rw.write_parquet(rw.open_data(path).take([4, 2]), tmp_path / "part.parquet")), data.take([4, 2])
    )
    with pytest.raises(ValueError, match="cannot hold groups"):
        rw.write_letor(data, tmp_path / "data.txt")
    rw.write_letor(data, tmp_path / "data.txt", lossy=True)
    assert rw.read_letor(tmp_path / "data.txt").groups is None


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


def test_errors_say_what_where_and_what_to_do(data: rw.RankingDataset):
    with pytest.raises(ValueError, match=r"groups must be one integer or string per document: got shape \(2,\)"):
        data.with_(groups=["a", "b"])
    with pytest.raises(ValueError, match="groups must be one integer or string per document: got .*float64"):
        data.with_(groups=np.zeros(data.n_docs))
    unknown: list[Any] = ["a"] * data.n_docs
    unknown[5] = None
    with pytest.raises(
        ValueError, match=r"groups must be known for every document: got None at row 5. Hint: .*unknown"
    ):
        data.with_(groups=unknown)
    assert data.with_(groups=np.arange(data.n_docs) % 2 == 0).groups.tolist()[:2] == [1, 0]  # type: ignore[union-attr]
    frame = pl.DataFrame({"qid": [1, 1], "label": [0, 1], "x": [0.0, 1.0], "side": ["a", None]})
    with pytest.raises(ValueError, match="the groups must be known for every document: got null at row 1"):
        rw.RankingDataset.from_frame(frame, groups="side")
    with pytest.raises(
        ValueError, match=r"no such column for the groups: got 'sid'. Hint: did you mean 'side'; set groups="
    ):
        rw.RankingDataset.from_frame(frame, groups="sid")


def test_a_checkpoint_knows_the_groups(data: rw.RankingDataset):
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
