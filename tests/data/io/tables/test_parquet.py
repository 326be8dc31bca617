"""Parquet files: damage, older versions, folders, and errors that name the file."""

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

ONE = rw.RankingDataset([[1.0, 2.0], [3.0, 4.0]], [1, 0], [0, 2])
TWO = rw.RankingDataset([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], [1, 0, 2], [0, 1, 3], query_ids=["a", "b"])


def test_missing_bytes_at_the_end_are_noticed(tmp_path):
    path = rw.data.write_parquet(TWO, tmp_path / "a.parquet")
    content = path.read_bytes()
    for at in range(0, len(content), 20):
        path.write_bytes(content[:at])
        refuses(lambda: rw.read_parquet(path), where="…a.parquet")


def test_large_metadata(tmp_path):
    names = [f"feature {'x' * 100} {number}" for number in range(2000)]
    wide = rw.RankingDataset(np.zeros((2, 2000)), [1, 0], [0, 2], feature_names=names)
    path = rw.data.write_parquet(wide, tmp_path / "wide.parquet")
    assert rw.read_parquet(path).feature_names == tuple(names)


@pytest.mark.parametrize("older", [{}, {"rankwise.checksum": "rankwise-crc32=12345678"}])
def test_files_of_older_versions_with_and_without_a_checksum_are_read(tmp_path, older):
    path = rw.data.write_parquet(TWO, tmp_path / "a.parquet")
    known = pl.read_parquet_metadata(path)["rankwise"]
    rw.data.to_frame(TWO).write_parquet(tmp_path / "old.parquet", metadata={"rankwise": known} | older)
    for read in (rw.read_parquet, rw.open_data):
        np.testing.assert_array_equal(read(tmp_path / "old.parquet").qids(), TWO.qids())


@pytest.mark.parametrize("read", [rw.read_parquet, rw.open_data, rw.read_data])
def test_files_of_queries_without_ids_are_not_merged(tmp_path, read):
    for number in range(3):
        rw.data.write_parquet(ONE, tmp_path / f"{number}.parquet")
    message = r"without query ids cannot be told apart: got 3 files .* Hint: write them with query_ids"
    with pytest.raises(ValueError, match=message):
        read(tmp_path)
    with pytest.raises(ValueError, match=message):
        read(tmp_path, features=["f1"])
    (tmp_path / "1.parquet").unlink()
    (tmp_path / "2.parquet").unlink()
    assert read(tmp_path).n_queries == 1


@pytest.mark.parametrize("read", [rw.read_parquet, rw.open_data])
def test_files_that_describe_themselves_differently_are_not_put_together(tmp_path, read):
    rw.data.write_parquet(ONE.with_(query_ids=[7]), tmp_path / "0.parquet")
    rw.data.write_parquet(ONE, tmp_path / "1.parquet")
    with refusal(what="the files of a folder must say the same about their columns", got="0.parquet and 1.parquet…"):
        read(tmp_path)


@pytest.mark.parametrize("read", [rw.read_parquet, rw.open_data])
def test_errors_name_the_file_and_the_row(tmp_path, read):
    path = tmp_path / "rows.parquet"
    pl.DataFrame({"qid": [1, 1], "label": [1.0, float("inf")], "a": [1, 2]}).write_parquet(path)
    refuses(lambda: read(path), about="…rows.parquet", what="labels must be finite", got="inf", where="row 1 (query 1)")
    with refusal(about="…rows.parquet", what="the table has no such column for the query", got="'q'"):
        read(path, query="q")


def test_a_damaged_file_of_a_folder_is_named(tmp_path):
    for number in range(3):
        pl.DataFrame({"qid": [number] * 500, "label": [1.0] * 500, "a": range(500)}).write_parquet(
            tmp_path / f"{number}.parquet"
        )
    content = bytearray((tmp_path / "1.parquet").read_bytes())
    start = content.rindex(b"\x28\xb5\x2f\xfd")  # the last compressed page
    content[start + 8 : start + 40] = bytes(32)
    (tmp_path / "1.parquet").write_bytes(content)
    with refusal(what="cannot read Parquet", where="…1.parquet", hint="get the file again, or write it anew"):
        rw.read_parquet(tmp_path)
