"""Damaged LETOR text is read, or refused with file and line; skipping broken lines never fails for another reason."""

import gzip
import warnings
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from rankwise.data.io.file_formats import zstandard
from tests.robustness import fuzzing

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*document ids are left out:UserWarning")]
TEXT = b"""# two queries
2 qid:10 1:0.5 3:-7e-2 #docid = GX008-86-4444840 inc = 1 prob = 0.086622
+1\tqid:10\t2:nan  3:+.5\t # GX2\tand more
0.25 qid:10 3:1E3 2:-inf 1:5. #GX3

0 qid:7 # docid=GX4\r
0 qid:7 1:Infinity 2:00012.50 3:16777217.00000000000000001 #docid = GX5
"""
SPARSE = b"".join(b"%d qid:q%d %d:%d %d:0.25\n" % (row % 3, row // 4, 1 + row, row, 40 + row) for row in range(16))
WORDS = (b"qid:", b"qid:1", b"#", b":", b"0:1 ", b"1:1 ", b"9999999:1 ", b"99999999999999999999:1 ", b"1 qid:3 1:2\n")


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard().compress], ids=["plain", "gzip", "zstd"])
def test_damaged_letor_text(tmp_path, pack):
    samples = [pack(TEXT), pack(SPARSE)]
    fuzzing.holds(rw.read_letor, samples, tmp_path / "damaged.txt", words=WORDS, usual=800)


def test_damaged_letor_text_with_broken_lines_left_out(tmp_path):
    def read(path: Path) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            rw.read_letor(path, errors="skip")

    fuzzing.holds(read, [TEXT, SPARSE], tmp_path / "damaged.txt", words=WORDS, usual=800)


def test_damaged_letor_text_opened_from_disk(tmp_path):
    """It is read, or refused, as reading into memory does, also where blocks are smaller than a line."""

    def read(path: Path) -> None:
        expected: object = ""
        try:
            expected = rw.read_letor(path)
        except ValueError as error:
            expected = str(error)
        try:
            data = rw.open_data(path, folder=tmp_path / "copies", block=64)
        except ValueError as error:
            assert str(error) == expected  # noqa: PT017 (both are refused)
            raise
        assert isinstance(expected, rw.RankingDataset)
        np.testing.assert_array_equal(data.features, expected.features)
        np.testing.assert_array_equal(data.labels, expected.labels)
        np.testing.assert_array_equal(data.offsets, expected.offsets)

    fuzzing.holds(read, [TEXT, SPARSE], tmp_path / "damaged.txt", words=WORDS, usual=150)


def test_damaged_file_of_query_sizes(tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_bytes(b"1 1:2\n0 1:3\n2 1:4\n")
    fuzzing.holds(
        lambda path: rw.read_letor(rows, sizes=path), [b"1\n2\n", b"3"], tmp_path / "damaged.query", usual=300
    )
