"""Damaged TREC runs and qrels, and damaged files of scores, are read, or refused with file and line."""

import io

import numpy as np
import pytest

import rankwise as rw
from rankwise.evaluation.score_files import read_ranking, read_scores
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
RUN = b"q1 Q0 d3 1 9.0 a\nq1 Q0 d1 2 8.5e0 a\n\nq1\tQ0 d2 3 -7 a more words\r\nq2 Q0 d1 1 5.0 a\nq2 Q0 d4 2 4.0 a\n"
QRELS = b"q1 0 d1 1\nq1 0 d2 -1\nq1 0 d3 2\n\nq2\t0 d1 1\r\nq2 0 d4 0"
SCORES = b"1\n-2.5\n9e3\n5\r\n+.75\n"
WORDS = (b"q1", b"d1", b"Q0", b"q1 Q0 d9 9 1.0 a\n", b"q1 0 d9 3\n", b"\x01", b"1e999")


def test_damaged_runs(tmp_path):
    fuzzing.holds(rw.trec.read_run, [RUN], tmp_path / "damaged.run", words=WORDS)


def test_damaged_qrels(tmp_path):
    fuzzing.holds(rw.trec.read_qrels, [QRELS], tmp_path / "damaged.qrels", words=WORDS)


def test_damaged_runs_that_are_judged(tmp_path):
    qrels = tmp_path / "qrels.txt"
    qrels.write_bytes(QRELS)
    known = rw.trec.read_qrels(qrels)
    fuzzing.holds(lambda path: read_ranking(path, known, all_topics=False), [RUN], tmp_path / "damaged.run", usual=200)


@pytest.mark.parametrize("kind", ["<f8", ">f4", "<i4"])
def test_damaged_arrays_of_scores(tmp_path, kind):
    file = io.BytesIO()
    np.save(file, np.array([1, -2, 9000, 5, 1], kind))
    fuzzing.holds(read_scores, [file.getvalue()], tmp_path / "damaged.npy", words=(b"|O", b"<c8", b"(5,)", b"(-5,)"))


def test_damaged_lines_of_scores(tmp_path):
    data = rw.RankingDataset(np.zeros((5, 1)), [1, 0, 2, 0, 1], [0, 2, 5], document_ids=[*"abcde"])
    fuzzing.holds(read_scores, [SCORES], tmp_path / "damaged.txt", words=(b"1_0",))
    fuzzing.holds(lambda path: read_ranking(path, data, all_topics=False), [SCORES, RUN], tmp_path / "damaged.txt")
