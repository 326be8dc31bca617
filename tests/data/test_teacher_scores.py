"""Scores of a teacher: a column of a table that is no feature, errors, digests and the command line."""

from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.data.frames import to_frame
from rankwise.rankers.training.resume import fingerprint
from tests.cli.running import refused, run
from tests.refusals import refusal, refuses


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    plain = rw.synthetic(n_queries=20, n_docs=6, seed=1)
    scores = np.random.default_rng(0).normal(size=plain.n_docs)
    return plain.with_(teacher_scores=scores, query_ids=np.arange(plain.n_queries) + 100)


def test_a_column_of_a_table_is_no_feature():
    frame = pl.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "x": [0.0, 1.0, 2.0], "ensemble": [0.5, -2.0, 7.0]})
    found = rw.RankingDataset.from_frame(frame, teacher_score="ensemble")
    assert found.teacher_scores is not None
    assert found.teacher_scores.tolist() == [0.5, -2.0, 7.0]
    assert found.feature_names == ("x",)
    with refusal(what="…no such column for the teacher_score", got="'ensembl'", hint="…set teacher_score=…"):
        rw.RankingDataset.from_frame(frame, teacher_score="ensembl")


def test_errors_name_the_document(data: rw.RankingDataset):
    refuses(lambda: data.with_(teacher_scores=[1.0, 2.0]), what="teacher scores must be one number per document")
    unknown = np.zeros(data.n_docs)
    unknown[7] = np.nan
    with refusal(what="teacher scores must be finite", got="nan", where="row 7 (query 102)"):
        data.with_(teacher_scores=unknown)


def test_digests_depend_on_the_scores(data: rw.RankingDataset):
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
