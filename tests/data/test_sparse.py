"""Sparse matrices of scipy as features: what is not stored is zero, and nothing makes them dense."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.data.summary import summary
from tests.refusals import refusal, refuses

QIDS = np.repeat([1, 2, 3], 4)
LABELS = np.arange(12) % 3


def matrix(**more: Any) -> Any:
    found = sparse.random(12, 6, 0.4, format="csr", random_state=0, dtype=np.float32, **more)
    found.data[3] = np.nan
    return found


def both() -> tuple[rw.RankingDataset, rw.RankingDataset]:
    """The same data, sparse and dense."""
    found = matrix()
    return tuple(rw.RankingDataset.from_qids(one, LABELS, QIDS) for one in (found, found.toarray()))  # type: ignore[return-value]


def same(found: rw.RankingDataset, expected: rw.RankingDataset) -> None:
    assert found.is_sparse
    assert not expected.is_sparse
    np.testing.assert_array_equal(found.features.toarray(), expected.features)  # type: ignore[attr-defined]
    for name in ("labels", "offsets", "query_ids"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


@pytest.mark.parametrize("kind", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
@pytest.mark.parametrize("container", ["matrix", "array"])
def test_every_format_becomes_compressed_rows_of_the_same_numbers(kind: str, container: str):
    given = getattr(sparse, f"{kind}_{container}")(np.nan_to_num(matrix().toarray()))
    data = rw.RankingDataset(given, LABELS, [0, 4, 12])
    assert isinstance(data.features, sparse.csr_array)
    assert data.features.dtype == np.float32
    np.testing.assert_array_equal(data.features.toarray(), given.toarray())


def test_memory_is_shared_read_only_and_the_given_matrix_stays_as_it_is():
    given = matrix()
    data = rw.RankingDataset(given, LABELS, [0, 12])
    assert np.shares_memory(data.features.data, given.data)
    with pytest.raises(ValueError, match="read-only"):
        data.features.data[0] = 1.0  # type: ignore[call-overload]
    given.data[0] = 1.0
    doubled = sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(12, 2))
    assert rw.RankingDataset(doubled, LABELS, [0, 12]).features[0, 1] == 3.0
    assert doubled.nnz == 2


def test_the_constructors_and_parts_of_data():
    found, expected = both()
    same(found, expected)
    given = matrix()
    same(
        rw.RankingDataset.from_sizes(given, LABELS, [4, 4, 4], query_ids=[1, 2, 3]),
        rw.RankingDataset.from_sizes(given.toarray(), LABELS, [4, 4, 4], query_ids=[1, 2, 3]),
    )
    for queries in ([2, 0], slice(1, 3), np.array([True, False, True]), []):
        same(found.take(queries), expected.take(queries))
    for one, other in zip(rw.split(found, (0.5, 0.5)), rw.split(expected, (0.5, 0.5)), strict=True):
        same(one, other)
    for folds in zip(rw.folds(found, 3), rw.folds(expected, 3), strict=True):
        for one, other in zip(*folds, strict=True):
            same(one, other)
    same(rw.concatenate([found.take([2]), found.take([0])]), rw.concatenate([expected.take([2]), expected.take([0])]))
    assert rw.concatenate([found.take([2]), expected.take([0])]).is_sparse
    assert repr(found) == "RankingDataset(3 queries, 12 documents, 6 features, sparse: 29 numbers, labels 0 to 2)"


def test_noise_and_clicks():
    found, expected = both()
    same(rw.data.add_negatives(found, 0.5, seed=1), rw.data.add_negatives(expected, 0.5, seed=1))
    same(rw.data.thin(found, queries=0.5, negatives=1), rw.data.thin(expected, queries=0.5, negatives=1))
    same(rw.data.flip_labels(found, 0.5, seed=1), rw.data.flip_labels(expected, 0.5, seed=1))
    clicked = [rw.clicks.simulate_clicks(one, impressions=3, seed=1) for one in (found, expected)]
    same(*clicked)


def test_summaries_are_those_of_the_dense_matrix():
    found, expected = both()
    assert summary(found) == summary(expected)
    columns = np.array([[0, 1, np.nan, 2, 0], [0, 1, np.nan, np.nan, 3], [0, 1, np.nan, 2, 0]], np.float32)
    dense = rw.RankingDataset(columns, [0, 1, 0], [0, 3])
    assert summary(dense)["constant_features"] == ["1", "2", "3"]
    assert summary(dense.with_(features=sparse.csr_array(columns))) == summary(dense)


def test_impossible_combinations_are_rejected():
    with refusal(what="a sparse matrix of features has no categorical columns"):
        rw.RankingDataset(matrix(), LABELS, [0, 12], categorical=[1])
    refuses(lambda: rw.RankingDataset(matrix().astype(np.complex128), LABELS, [0, 12]), got="…sparse matrix of shape…")
    broken = matrix()
    broken.indices = broken.indices + 4
    refuses(lambda: rw.RankingDataset(broken, LABELS, [0, 12]), what="the sparse matrix of features is broken")
    with refusal(what="a table with a column for every feature needs a dense matrix of features"):
        rw.data.to_frame(both()[0])
    refuses(lambda: rw.RankingDataset.from_frame(matrix()), hint="…from_qids with arrays")


def test_letor_text_holds_what_is_stored_and_comes_back_sparse(tmp_path: Path):
    found, expected = both()
    path = rw.data.write_letor(found, tmp_path / "data.txt")
    assert path.read_text().splitlines()[0] == "0 qid:1 " + " ".join(
        f"{column + 1}:{expected.features[0, column]!s}" for column in np.flatnonzero(expected.features[0])
    )
    same(rw.read_letor(path, sparse=True, n_features=6), expected)
    np.testing.assert_array_equal(rw.read_letor(path, n_features=6).features, expected.features)
    dense = rw.data.write_letor(expected, tmp_path / "dense.txt")
    read = rw.read_letor(dense, sparse=True)
    same(read, expected)
    assert read.features.nnz == found.features.nnz  # type: ignore[attr-defined]  # zeros in the text are not stored


@pytest.mark.parametrize(
    "lines",
    [
        "1 qid:1 3:2 1:0.1234567890123456789\n0 qid:1\n2 qid:2 2:nan 4:-1.5e-3 1:0 #docid = x\n",
        "1 qid:1 3:2 1:1\n0 qid:1 2:5 0:7\n",
        "1 qid:1 1:1\n0 qid:1 12:5\n1 qid:2 3:0.30000000000000004 2:1e-46\n",
        "1 qid:1 1:1 1:2\n0 qid:1 2:x\n1 qid:1 2:3 1:4\n",
    ],
)
@pytest.mark.parametrize("first_index", ["auto", 0])
def test_sparse_reading_agrees_with_dense_reading(tmp_path: Path, lines: str, first_index: Any):
    path = tmp_path / "data.txt"
    path.write_text(lines)
    options: Any = {"first_index": first_index, "errors": "skip"}
    if ":x" in lines:
        with pytest.warns(UserWarning, match="left out 2 of 3 lines"):
            found = rw.read_letor(path, sparse=True, **options)
        with pytest.warns(UserWarning, match="left out 2 of 3 lines"):
            expected = rw.read_letor(path, **options)
    else:
        found, expected = rw.read_letor(path, sparse=True, **options), rw.read_letor(path, **options)
    same(found, expected)


def test_a_file_of_a_million_features_is_read(tmp_path: Path):
    path = tmp_path / "wide.txt"
    path.write_text("".join(f"{i % 2} qid:{i // 4} {i + 1}:1 {1_000_000 - i}:{i + 1}\n" for i in range(3000)))
    data = rw.read_letor(path, sparse=True)
    assert data.features.shape == (3000, 1_000_000)
    assert data.features.nnz == 6000  # type: ignore[attr-defined]
    assert data.features[7, 999_992] == 8.0
    refuses(lambda: rw.read_letor(path), hint="…sparse=True…")
    path.write_text("1 qid:1 9999999:1\n")
    refuses(lambda: rw.read_letor(path, sparse=True), what="a feature's index is beyond max_features")
    assert rw.read_letor(path, sparse=True, max_features=10_000_000).n_features == 9_999_999
