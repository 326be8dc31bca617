"""Opening files: pipes, damage to compressed files, archives, and what is no file at all."""

import gzip
import lzma
import os
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.data.io import file_formats as files
from tests.refusals import refusal, refuses

TEXT = b"1 qid:a 1:0.5 #docid = A1\n0 qid:a 1:2 #docid = A2\n2 qid:b 1:9 #docid = B1\n0 qid:b 1:5 #docid = B2\n"
PACKERS = {"plain": bytes, "gzip": gzip.compress, "zstd": files.zstandard().compress}


@pytest.fixture
def pipe() -> Iterator[Any]:
    """Give ``/dev/fd/N`` of a pipe that someone writes to, as a shell does for ``<(command)``."""
    writers, ends = [], []

    def pour(content: bytes, *, step: int = 1 << 16) -> Path:
        here, there = os.pipe()

        def write() -> None:
            with open(there, "wb", buffering=0) as out:  # noqa: PTH123 (a number, no path)
                out.writelines(content[start : start + step] for start in range(0, len(content), step))

        writers.append(threading.Thread(target=write))
        writers[-1].start()
        ends.append(here)
        return Path(f"/dev/fd/{here}")

    yield pour
    for end in ends:
        os.close(end)
    for writer in writers:
        writer.join()


needs_pipes = pytest.mark.skipif(not Path("/dev/fd").is_dir(), reason="needs /dev/fd")


@needs_pipes
@pytest.mark.parametrize("pack", PACKERS.values(), ids=PACKERS)
@pytest.mark.parametrize("step", [1, 1 << 16])
def test_what_is_read_once_may_be_a_pipe(pipe, pack, step):
    seen: list[object] = []
    data = rw.read_letor(pipe(pack(TEXT), step=step), progress=lambda *counts: seen.append(counts))
    assert (data.n_docs, data.features[:, 0].tolist()) == (4, [0.5, 2, 9, 5])
    assert seen == []  # nobody knows how long a pipe is
    assert rw.read_data(pipe(pack(TEXT), step=step)).n_docs == 4
    run = rw.trec.read_run(pipe(pack(b"q1 Q0 d1 1 2.5 t\n"), step=step))
    assert run.rows() == [("q1", "d1", 2.5, "t")]
    assert rw.trec.read_qrels(pipe(pack(b"q1 0 d1 2\n"), step=step)).rows() == [("q1", "d1", 2)]
    ratings = rw.recommend.Interactions.read(pipe(pack(b"user,item,rating\n1,10,5\n1,20,3\n"), step=step))
    assert ratings.n_ratings == 2
    sized = rw.read_letor(pipe(pack(b"1 1:2\n0 1:3\n"), step=step), sizes=pipe(pack(b"2\n"), step=step))
    assert sized.sizes.tolist() == [2]


@needs_pipes
def test_a_pipe_longer_than_any_buffer(pipe):
    text = b"".join(b"%d qid:%d 1:%d\n" % (row % 3, row // 7, row) for row in range(400_000))
    data = rw.read_letor(pipe(text))
    assert data.n_docs == 400_000
    np.testing.assert_array_equal(data.features[:, 0], np.arange(400_000, dtype=np.float32))


@needs_pipes
def test_commands_take_pipes(pipe, tmp_path):
    def run(*words: object) -> str:
        result = CliRunner().invoke(app, list(map(str, words)))
        assert result.exit_code == 0, result.output
        return result.stdout

    data, scores, qrels = tmp_path / "data.txt", tmp_path / "scores.txt", tmp_path / "qrels.txt"
    data.write_bytes(TEXT)
    scores.write_bytes(b"1\n2\n3\n4\n")
    qrels.write_bytes(b"a 0 A1 1\na 0 A2 0\n")
    lines = b"a Q0 A1 1 3.0 t\na Q0 A2 2 2.0 t\n"
    runs = tmp_path / "a.run", tmp_path / "b.run.zst"
    runs[0].write_bytes(lines)
    runs[1].write_bytes(files.zstandard().compress(lines))
    by_score = run("evaluate", data, scores, "-m", "rr", "--json")
    piped = f"scores={pipe(gzip.compress(scores.read_bytes()))}"
    assert run("evaluate", data, piped, "-m", "rr", "--json") == by_score
    by_run = run("evaluate", data, f"it={runs[0]}", "-m", "rr", "--json")
    assert run("evaluate", data, f"it={runs[1]}", "-m", "rr", "--json") == by_run
    assert run("evaluate", pipe(TEXT), f"it={pipe(lines)}", "-m", "rr", "--json") == by_run
    both = run("evaluate", "--qrels", qrels, f"a={runs[0]}", f"b={runs[1]}", "-m", "rr", "--json")
    words = ("--qrels", pipe(qrels.read_bytes()), f"a={pipe(lines)}", f"b={pipe(lines)}")
    assert run("evaluate", *words, "-m", "rr", "--json") == both


@needs_pipes
def test_what_must_be_read_again_cannot_be_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "rows.parquet")
    with refusal(what="a file that can be read again is needed", got="…rows.parquet", hint="write…"):
        rw.read_parquet(tmp_path / "rows.parquet")


@pytest.mark.parametrize("ending", ["gz", "zst"])
def test_no_flipped_bit_reads_as_other_data(tmp_path, ending):
    """Every bit of a small file is flipped, one at a time."""
    path = tmp_path / f"a.txt.{ending}"
    with files.create_bytes(path) as out:
        out.write(TEXT)
    content, errors, others = path.read_bytes(), [], []
    for bit in range(8 * len(content)):
        flipped = bytearray(content)
        flipped[bit // 8] ^= 1 << bit % 8
        path.write_bytes(flipped)
        try:
            if files.read_bytes(path) != TEXT:
                others.append(rw.read_letor(path))  # no longer known as compressed: it must be no LETOR text either
        except ValueError as error:
            errors.append(str(error))
    assert not others
    assert all(str(path) in error for error in errors)
    assert len(errors) > 6 * len(content)  # the others are bits without meaning, such as the time in gzip's header


def test_archives_are_rejected_with_a_hint(tmp_path):
    path = tmp_path / "MSLR-WEB10K.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train.txt", TEXT)
    with refusal(what="cannot read this kind of file", got="a zip archive", where="….zip", hint="unpack…"):
        rw.read_letor(path)
    path.write_bytes(lzma.compress(TEXT))
    refuses(lambda: rw.trec.read_run(path), got="an xz file")
    rw.data.write_parquet(rw.synthetic(n_queries=2, n_features=2, seed=1), tmp_path / "a.parquet")
    with refusal(got="a Parquet file", hint="…rw.read_parquet"):
        rw.read_letor((tmp_path / "a.parquet").rename(tmp_path / "a.txt"))


def test_a_folder_is_no_file(tmp_path):
    with pytest.raises(IsADirectoryError, match="is a folder, and a file is needed here"):
        rw.read_letor(tmp_path)


def test_frames_of_other_programs(tmp_path):
    """Frames follow each other, say no size of their content, or are to be skipped."""
    zstd = files.zstandard()
    unsized = zstd.compress(TEXT, options={zstd.CompressionParameter.content_size_flag: 0})
    skipped = b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
    path = tmp_path / "a.txt.zst"
    for frames, copies in ((unsized, 1), (unsized * 3, 3), (zstd.compress(TEXT) + skipped + unsized, 2)):
        path.write_bytes(frames)
        assert files.read_bytes(path) == TEXT * copies
    for end in (-1, -len(unsized) + 3):
        path.write_bytes((unsized * 2)[:end])
        refuses(lambda: files.read_bytes(path), what="cannot unpack a compressed file", where=str(path))
    path.write_bytes(unsized + b"more")
    refuses(lambda: files.read_bytes(path), what="cannot unpack a compressed file", where=str(path))


def test_everything_is_read_at_once_too(tmp_path):
    for name, packed in {"plain": TEXT, "gzip": gzip.compress(TEXT), "zstd": files.zstandard().compress(TEXT)}.items():
        path = tmp_path / name
        path.write_bytes(packed)
        assert files.read_bytes(path) == TEXT
