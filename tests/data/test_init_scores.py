"""Scores that training starts from: a column of a table that is no feature, its check and its place in digests."""

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
    return plain.with_(init_scores=scores, query_ids=np.arange(plain.n_queries) + 100)


def test_a_column_of_a_table_is_no_feature():
    frame = pl.DataFrame({"qid": [1, 1, 2], "label": [0, 1, 1], "x": [0.0, 1.0, 2.0], "live": [0.5, -2.0, 7.0]})
    data = rw.RankingDataset.from_frame(frame, init_score="live")
    assert data.init_scores is not None
    assert data.init_scores.tolist() == [0.5, -2.0, 7.0]
    assert data.feature_names == ("x",)


def test_errors_name_the_document(data: rw.RankingDataset):
    refuses(lambda: data.with_(init_scores=[1.0, 2.0]), what="init scores must be one number per document")
    unknown = np.zeros(data.n_docs)
    unknown[7] = np.nan
    with refusal(what="init scores must be finite", got="nan", where="row 7 (query 102)"):
        data.with_(init_scores=unknown)


def test_digests_depend_on_the_scores(data: rw.RankingDataset):
    reversed_scores = data.init_scores[::-1]  # type: ignore[index]
    digests = [fingerprint(data.with_(init_scores=scores)) for scores in (data.init_scores, reversed_scores, None)]
    assert len(set(digests)) == 3


def test_the_command_line_starts_from_a_column_and_asks_for_it_to_predict(data: rw.RankingDataset, tmp_path: Path):
    to_frame(data).write_csv(tmp_path / "train.csv")
    run("train", tmp_path / "train.csv", "--rounds", 3, "-o", tmp_path / "model", "--init-score", "init_score")
    run("predict", tmp_path / "model", tmp_path / "train.csv", "-o", tmp_path / "scores.txt")
    scores = np.loadtxt(tmp_path / "scores.txt")
    np.testing.assert_allclose(scores, rw.load(tmp_path / "model").predict(data), rtol=1e-6)
    to_frame(data.with_(init_scores=None)).write_csv(tmp_path / "plain.csv")
    assert "init_score" in refused("predict", tmp_path / "model", tmp_path / "plain.csv")
