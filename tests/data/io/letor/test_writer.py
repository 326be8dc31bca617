"""Writing LETOR text: every float32 survives, in as few digits as possible."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rankwise as rw
from tests.refusals import refusal

read: Any = rw.read_letor  # columns that a file has are there: no need to ask whether they are None


def round_trip(data: rw.RankingDataset, path: Path) -> Any:
    rw.data.write_letor(data, path, force=True)
    return read(path)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=200))
@example([0, 1, 0x007FFFFF, 0x00800000, 0x7F7FFFFF, 0x80000000, 0xFF7FFFFF, 0x3DCCCCCD, 0x4B800001])
def test_every_float32_survives_the_round_trip(tmp_path_factory, bits):
    values = np.array(bits, np.uint32).view(np.float32)
    data = rw.RankingDataset(values[:, None], np.zeros(values.size), [0, values.size])
    back = round_trip(data, tmp_path_factory.getbasetemp() / "bits.txt").features[:, 0]
    same = back.view(np.uint32) == values.view(np.uint32)
    assert (same | (np.isnan(values) & np.isnan(back))).all()


def test_a_sweep_of_float32_survives_and_is_as_short_as_numpys(tmp_path):
    random = np.random.default_rng(8)
    bits = np.concatenate(
        [
            random.integers(0, 2**32, 100_000, dtype=np.uint32),
            np.arange(255, dtype=np.uint32) << 23,  # powers of two, where the steps change
            (np.arange(1, 255, dtype=np.uint32) << 23) - 1,
            np.arange(2000, dtype=np.uint32),
            (random.random(20_000) * 100).round(3).astype(np.float32).view(np.uint32),
        ]
    )
    values = bits.view(np.float32)
    values = values[np.isfinite(values)]
    path = tmp_path / "sweep.txt"
    back = round_trip(rw.RankingDataset(values[:, None], np.zeros(values.size), [0, values.size]), path)
    np.testing.assert_array_equal(back.features[:, 0].view(np.uint32), values.view(np.uint32))
    texts = [line.rsplit(":", 1)[1] for line in path.read_text().splitlines()]
    assert max(map(len, texts)) <= 16
    for text, value in list(zip(texts, values, strict=True))[::7]:
        # Between these a shorter text may lie exactly in the middle of two float32, which is left alone.
        if not 2**24 <= abs(value) < 2**34:
            assert significant(text) <= significant(np.format_float_scientific(value)), (text, value)


def significant(text: str) -> int:
    return len(text.lower().lstrip("-").split("e")[0].replace(".", "").strip("0"))


# Writing.


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
@pytest.mark.parametrize("ids", [None, [5, -2], ["a", "Q#3"]])
@pytest.mark.parametrize("documents", [None, [3, 1, 2], ["x", "docid=1", "ü"]])
def test_data_survive_the_round_trip(tmp_path, suffix, ids, documents):
    features = np.array([[0.1, -0.0, np.nan], [1e-40, np.inf, 3e38], [-1.5, 123456.78, 7]], np.float32)
    data = rw.RankingDataset(features, [0.1, 3, 1e300], [0, 2, 3], query_ids=ids, document_ids=documents)
    path = tmp_path / f"data.txt{suffix}"
    assert rw.data.write_letor(data, path) == path
    back = read(path)
    np.testing.assert_array_equal(back.features, data.features)
    np.testing.assert_array_equal(np.signbit(back.features[0]), np.signbit(data.features[0]))
    assert back.labels.tolist() == [0.1, 3, 1e300]
    assert back.offsets.tolist() == [0, 2, 3]
    assert back.query_ids.tolist() == ([0, 1] if ids is None else ids)
    assert (None if documents is None else back.document_ids.tolist()) == documents
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]


def test_the_text_is_that_of_other_programs(tmp_path):
    data = rw.RankingDataset([[0.5, 2], [0, 1e-7]], [2, 0.5], [0, 2], query_ids=[12], document_ids=["d1", "d2"])
    rw.data.write_letor(data, tmp_path / "a.txt")
    expected = "2 qid:12 1:0.5 2:2 #docid = d1\n0.5 qid:12 1:0 2:1e-7 #docid = d2\n"
    assert (tmp_path / "a.txt").read_text() == expected


def test_the_same_data_have_the_same_compressed_file(tmp_path):
    data = rw.synthetic(20, 5, seed=1)
    for suffix in ("gz", "zst"):
        files = [rw.data.write_letor(data, tmp_path / f"{name}.txt.{suffix}").read_bytes() for name in "ab"]
        assert files[0] == files[1]


def test_data_that_cannot_be_written_are_rejected(tmp_path):
    data = rw.RankingDataset([[1.0]], [1], [0, 1], query_ids=["a b"])
    path = tmp_path / "a.txt"
    with refusal(what="query ids must be single words …LETOR text", got="'a b'", hint="rename them…"):
        rw.data.write_letor(data, path)
    with refusal(what="document ids must be single words of at most 1024 bytes to be written as LETOR text"):
        rw.data.write_letor(data.with_(query_ids=["a"], document_ids=[""]), path)
    weighted = data.with_(query_ids=["a"], weights=[2.0], positions=[1])
    with refusal(what="LETOR text cannot hold weights, positions", hint="write Parquet…lossy=True…"):
        rw.data.write_letor(weighted, path)
    assert not list(tmp_path.iterdir())
    rw.data.write_letor(weighted, path, lossy=True)
    before = path.read_text()
    with refusal(FileExistsError, what="…a.txt exists already and is kept"):
        rw.data.write_letor(data.with_(query_ids=["b"]), path)
    assert path.read_text() == before
    rw.data.write_letor(data.with_(query_ids=["b"]), path, force=True)
    assert path.read_text() == "1 qid:b 1:1\n"
    with refusal(FileNotFoundError, what="there is no folder …nowhere to write a.txt into"):
        rw.data.write_letor(data.with_(query_ids=["b"]), tmp_path / "nowhere" / "a.txt")


def test_an_interrupted_writing_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.txt"
    path.write_text("old")

    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("rankwise.data.io.letor.writer._lines", stop)
    with pytest.raises(KeyboardInterrupt):
        rw.data.write_letor(rw.synthetic(5, 3, seed=0), path, force=True)
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["a.txt"]


def test_probabilities_are_written_after_the_id(tmp_path):
    data = rw.RankingDataset([[0.5], [1.0]], [2, 0], [0, 2], query_ids=[1], inclusion_probabilities=[1 / 3, 1])
    with refusal(what="LETOR text cannot hold inclusion_probabilities"):
        rw.data.write_letor(data, tmp_path / "a.txt")
    data = data.with_(document_ids=["a", "b"], relevance_probabilities=[0, 0.25])
    expected = (
        "2 qid:1 1:0.5 #docid = a inc = 0.3333333333333333 prob = 0.0\n0 qid:1 1:1 #docid = b inc = 1.0 prob = 0.25\n"
    )
    assert rw.data.write_letor(data, tmp_path / "a.txt").read_text() == expected
    assert (
        rw.data.write_letor(data.with_(inclusion_probabilities=None), tmp_path / "b.txt").read_text().count("inc") == 0
    )


@pytest.mark.parametrize(("value", "what"), [(1.5, "at most 1"), (-0.5, "at least 0"), (np.nan, "finite")])
def test_probabilities_are_from_0_to_1(value, what):
    with pytest.raises(ValueError, match=f"relevance probabilities must be {what}"):
        rw.RankingDataset([[0.5]], [2], [0, 1], relevance_probabilities=[value])
