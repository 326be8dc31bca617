"""Data that stay on disk are the data that reading gives, whatever the file and however small the blocks."""

import dataclasses
import gzip
import tempfile
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import rankwise as rw
from tests.refusals import refuses


def outcome(read: Any, path: Path, **options: Any) -> Any:
    """What reading gives: columns and warnings, or the words of the error."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            data = read(path, **options)
        except ValueError as wrong:
            return str(wrong)
    columns = {field.name: getattr(data, field.name) for field in dataclasses.fields(rw.RankingDataset)}
    arrays = {name: (a.dtype, a.shape, a.tolist()) for name, a in columns.items() if isinstance(a, np.ndarray)}
    return columns | arrays, [str(one.message) for one in said]


def alike(text: str, block: int, **options: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "rows.txt")
        path.write_text(text)
        np.testing.assert_equal(
            outcome(rw.open_data, path, block=block, **options), outcome(rw.read_letor, path, **options)
        )


VALUES = st.sampled_from(["0", "5", "-1.5", "3e-2", "nan", "inf", "0.1000000014901161193847656250001", "x", "1:2"])
FEATURES = st.dictionaries(st.integers(0, 12), VALUES, max_size=5).map(lambda found: list(found.items()))
OTHERS = st.sampled_from(["", "   ", "# a comment", "nonsense 9:9", "-1 qid:1 1:1", "1 qid:", "2 qid:7 40:1 1:x"])
ENDS = st.sampled_from(["", " #docid = D1", " # word", "\r"])


@st.composite
def letor(draw: Any) -> str:
    """Lines of a few queries, sparse and in any order of indexes, between comments and nonsense."""
    lines = []
    first = draw(st.sampled_from([0, 1, 1, 1]))
    with_queries = draw(st.booleans()) or draw(st.booleans())
    for query in range(draw(st.integers(1, 3))):
        for _ in range(draw(st.integers(1, 4))):
            if draw(st.integers(0, 5)) == 0:
                lines.append(draw(OTHERS))
            words = " ".join(f"{index}:{value}" for index, value in draw(FEATURES) if index >= first)
            name = f" qid:q{query}" if with_queries else ""
            lines.append(f"{draw(st.integers(0, 4))}{name} {words}{draw(ENDS)}")
    return "\n".join([*lines, *draw(st.sampled_from([[], [""]]))])


@given(
    letor(),
    st.sampled_from([1, 16, 40, 100, 1 << 22]),
    st.sampled_from(["raise", "skip", "skip"]),
    st.sampled_from([None, None, 13, 5]),
    st.sampled_from(["auto", "auto", 0, 1]),
    st.sampled_from([None, None, None, [1], [2, 1], [3, 3]]),
)
@example("1 qid:1 1:5 2:6\n0 qid:1 2:7\n", 1, "raise", None, "auto", None)  # an index that the second line leaves out
@example("# c\n1 qid:1 1:5 2:6\n", 1, "raise", None, "auto", None)  # a first block without documents
@example("# c\n# c\n1 qid:1\n0 qid:1", 1, "raise", None, "auto", None)  # no features at all
@example("1 qid:1 1:1\n0 qid:2 7:1\n2 qid:2 3:1\n", 1, "raise", None, "auto", None)  # the second line is wider
@example("1 qid:1 1:1 2:2\n2 qid:1 0:5 1:6\n", 1, "raise", None, "auto", None)  # the second shows an index 0
@example("1 qid:1 1:1\n0 qid:1 8:1 2:x\n0 qid:1 2:4\n", 1, "skip", None, "auto", None)  # the widest is left out
def test_letor_opened_is_letor_read(
    text: str, block: int, errors: str, n_features: int | None, first_index: Any, sizes: Any
):
    alike(text, block, errors=errors, n_features=n_features, first_index=first_index, sizes=sizes)


def test_no_value_of_a_block_before_is_kept(tmp_path: Path):
    """Sparse lines, far more than fit into one block of the usual size."""
    draws = np.random.default_rng(5)
    lines = []
    for row in range(12_000):
        chosen = np.flatnonzero(draws.random(60) < 0.3) + 1
        lines.append(f"{row % 3} qid:{row // 10} " + " ".join(f"{index}:{row + index}" for index in chosen))
    path = tmp_path / "rows.txt"
    path.write_text("\n".join(lines))
    read = rw.read_letor(path)
    np.testing.assert_array_equal(rw.open_data(path, block=1 << 18).features, read.features)


def test_wide_and_sparse_lines_are_in_memory_a_block_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A thousand bytes of text may stand for a megabyte of features."""
    from rankwise.data.io.letor import buffers

    path = tmp_path / "rows.txt"
    path.write_text("".join(f"0 qid:1 {1 + row % 5000}:{row}\n" for row in range(2000)) + "1 qid:1 5000:1\n")
    sizes = []
    resize = buffers.Growing._resize

    def watched(self: buffers.Growing, size: int) -> None:
        resize(self, size)
        sizes.append(self.flat.nbytes)

    monkeypatch.setattr(buffers.Growing, "_resize", watched)
    opened = rw.open_data(path, block=1 << 18)
    assert max(sizes) < 1 << 20
    monkeypatch.undo()
    np.testing.assert_array_equal(opened.features, rw.read_letor(path).features)


def test_lines_that_become_wider_and_wider_are_not_written_again_and_again(tmp_path: Path, monkeypatch: Any):
    from rankwise.data.io.disk import open_data

    path = tmp_path / "rows.txt"
    path.write_text("".join(f"0 qid:1 {1 + row}:{row}\n" for row in range(300)))
    widths = []
    resize = open_data._Matrix.resize
    monkeypatch.setattr(open_data._Matrix, "resize", lambda *to: widths.append(to[1]) or resize(*to))  # type: ignore[func-returns-value]
    opened = rw.open_data(path, block=64)
    assert 5 < len(widths) < 15
    assert widths[-1] == 300
    np.testing.assert_array_equal(opened.features, rw.read_letor(path).features)


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_parquet_opened_is_parquet_read(tmp_path: Path, block: int):
    path = tmp_path / "rows.parquet"
    columns: dict[str, Any] = {
        "qid": ["a", "a", "b", "c", "c"],
        "label": [0, 1, 2, 0, 1],
        "x": [0.5, None, 2.5, 1e300, -1.0],
        "kind": pl.Series(["u", "v", None, "u", "v"], dtype=pl.Enum(["v", "u"])),
        "yes": [True, None, False, True, True],
    }
    frame = pl.DataFrame(columns)
    for rows in (frame, frame.head(0), frame.select("qid", "label")):
        rows.write_parquet(path)
        found, expected = outcome(rw.open_data, path, block=block), outcome(rw.read_parquet, path)
        np.testing.assert_equal(found, expected)


def test_compressed_text_in_small_blocks(tmp_path: Path):
    path = tmp_path / "rows.txt.gz"
    path.write_bytes(gzip.compress(b"# c\n1 qid:1 1:5 2:6\n0 qid:1 2:7\n2 qid:2 3:1\n"))
    np.testing.assert_array_equal(rw.open_data(path, block=8).features, [[5, 6, 0], [0, 7, 0], [0, 0, 1]])


def test_the_block_is_a_number():
    refuses(lambda: rw.open_data(__file__, block=0), what="block must be a whole number of at least 1", got="0")


@pytest.mark.parametrize("block", [1, 100, 1 << 22])
def test_rows_are_sorted_on_disk(tmp_path: Path, block: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("rankwise.data.io.disk.open_data._PIECE", 1)  # several runs of few rows
    draws, path = np.random.default_rng(3), tmp_path / "rows.parquet"
    frame = pl.DataFrame({"qid": draws.integers(0, 30, 200).astype(str), "label": draws.integers(0, 3, 200)})
    frame = frame.with_columns(x=pl.Series(draws.random(200)), kind=pl.Series(draws.choice(["u", "v"], 200)))
    frame.with_columns(day=pl.lit("2024-05-03").str.to_date()).write_parquet(path)
    options: dict[str, Any] = {"sort": True, "categorical": ["kind"], "dates": "days"}
    steps: list[tuple[int, int]] = []
    found = outcome(rw.open_data, path, block=block, progress=lambda *step: steps.append(step), **options)
    np.testing.assert_equal(found, outcome(rw.read_parquet, path, **options))
    assert steps[-1][0] == steps[-1][1] >= 2
    assert steps == sorted(steps)
    assert not [*tmp_path.rglob("runs")]


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("rows.parquet", {}, r"rows of a query must lie together: got query 1 again .* at row 2. Hint: pass sort=True"),
        ("rows.parquet", {"drop_duplicates": True}, r"data that stay on disk keep all rows.*--drop-duplicates"),
        ("rows.txt", {"sort": True}, r"LETOR text is read in the order of its lines: got sort=True at .*rows.txt"),
    ],
)
def test_what_data_on_disk_are_not(tmp_path: Path, name: str, options: Any, message: str):
    pl.DataFrame({"qid": [1, 2, 1], "label": [0, 1, 1], "x": [1.0, 2.0, 3.0]}).write_parquet(tmp_path / "rows.parquet")
    (tmp_path / "rows.txt").write_text("0 qid:1 1:1\n")
    with pytest.raises(ValueError, match=message):
        rw.open_data(tmp_path / name, **options)


def test_text_shows_progress(tmp_path: Path):
    (tmp_path / "rows.txt").write_text("0 qid:1 1:1\n" * 50)
    steps: list[tuple[int, int]] = []
    rw.open_data(tmp_path / "rows.txt", block=64, progress=lambda *step: steps.append(step))
    assert steps[-1] == (600, 600)
