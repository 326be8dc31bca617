"""Scores of a teacher: read from any form, kept wherever documents go, and no feature."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.frames import to_frame
from rankwise.rankers.training.checkpoints import fingerprint
from tests.cli.running import refused, run


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    plain = rw.synthetic(n_queries=20, n_docs=6, seed=1)
    scores = np.random.default_rng(0).normal(size=plain.n_docs)
    return plain.with_(teacher_scores=scores, query_ids=np.arange(plain.n_queries) + 100)


def same(one: rw.RankingDataset, other: rw.RankingDataset) -> None:
    assert one.teacher_scores is not None
    np.testing.assert_array_equal(one.teacher_scores, other.teacher_scores)
    np.testing.assert_array_equal(one.features, other.features)


def test_scores_go_where_the_documents_go(data: rw.RankingDataset):
    assert data.teacher_scores is not None
    part = data.take([3, 1])
    rows = np.concatenate([np.flatnonzero(data.qids() == query) for query in (103, 101)])
    np.testing.assert_array_equal(part.teacher_scores, data.teacher_scores[rows])
    same(rw.concatenate([data.take([3]), data.take([1])]), part)
    with pytest.raises(ValueError, match="some of the data sets to be joined have teacher_scores and some do not"):
        rw.concatenate([data.take([3]), data.take([1]).with_(teacher_scores=None)])
    for piece in (*rw.split(data, (0.6, 0.2, 0.2), seed=1), *next(iter(rw.folds(data, 4, seed=1)))):
        np.testing.assert_array_equal(piece.teacher_scores, data.teacher_scores[np.isin(data.qids(), piece.qids())])
    which = {tuple(row): one for row, one in zip(data.features.tolist(), data.teacher_scores.tolist(), strict=True)}
    for changed in (
        rw.add_negatives(data, 0.5, seed=2),
        rw.flip_labels(data, 0.5, seed=2),
        rw.simulate_clicks(data, seed=3),
    ):
        assert changed.teacher_scores is not None
        assert [which[tuple(row)] for row in changed.features.tolist()] == changed.teacher_scores.tolist()


def test_files_keep_scores(data: rw.RankingDataset, tmp_path: Path):
    path = rw.write_parquet(data, tmp_path / "data.parquet")
    same(rw.read_parquet(path), data)
    same(rw.open_data(path), data)
    same(rw.open_data(path), data)  # from the copy on disk
    with pytest.raises(ValueError, match="cannot hold teacher_scores"):
        rw.write_letor(data, tmp_path / "data.txt")
    rw.write_letor(data, tmp_path / "data.txt", lossy=True)
    assert rw.read_letor(tmp_path / "data.txt").teacher_scores is None


def test_a_column_of_a_table_is_no_feature():
    frame = pl.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "x": [0.0, 1.0, 2.0], "ensemble": [0.5, -2.0, 7.0]})
    found = rw.RankingDataset.from_frame(frame, teacher_score="ensemble")
    assert found.teacher_scores is not None
    assert found.teacher_scores.tolist() == [0.5, -2.0, 7.0]
    assert found.feature_names == ("x",)
    with pytest.raises(ValueError, match=r"no such column for the teacher_score: got 'ensembl'.*set teacher_score="):
        rw.RankingDataset.from_frame(frame, teacher_score="ensembl")


def test_errors_name_the_document(data: rw.RankingDataset):
    with pytest.raises(ValueError, match="teacher scores must be one number per document"):
        data.with_(teacher_scores=[1.0, 2.0])
    unknown = np.zeros(data.n_docs)
    unknown[7] = np.nan
    with pytest.raises(ValueError, match="teacher scores must be finite: got nan at row 7 .query 102."):
        data.with_(teacher_scores=unknown)


def test_a_checkpoint_knows_the_scores(data: rw.RankingDataset):
    reversed_scores = data.teacher_scores[::-1]  # type: ignore[index]
    found = [fingerprint(data.with_(teacher_scores=scores)) for scores in (data.teacher_scores, reversed_scores, None)]
    assert len(set(found)) == 3


def test_the_command_line_trains_on_a_column_of_scores(data: rw.RankingDataset, tmp_path: Path):
    to_frame(data).write_csv(tmp_path / "train.csv")
    words = ("--objective", "0.5*distil + 0.5*lambdarank", "--rounds", 3, "-o", tmp_path / "model")
    run("train", tmp_path / "train.csv", *words, "--teacher-score", "teacher_score")
    assert rw.load(tmp_path / "model").n_features_in_ == data.n_features
    message = refused("train", tmp_path / "train.csv", *words[:4], "-o", tmp_path / "other")
    assert "distil needs the teacher's score of every document" in message
    assert "--teacher-score" in message
