"""Damaged Parquet, of ours and of others: read, or refused with one error that names the file."""

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
DATA = rw.RankingDataset(
    np.arange(24, dtype=np.float32).reshape(8, 3) / 7,
    [0, 2, 1, 0, 0, 1, 4, 0],
    [0, 3, 8],
    query_ids=["a", "b"],
    document_ids=[f"d{number}" for number in range(8)],
    weights=[1.0, 0.5],
    feature_names=("bm25", "age", "kind"),
    categorical=(),
)
ROLES: Any = {"document": "document", "weight": "weight"}
WORDS = (b"PAR1", b"rankwise", b"qid", b"bm25", b'"roles"', b"[]", b"{}")


def of_others(**options: Any) -> bytes:
    file = io.BytesIO()
    rw.data.to_frame(DATA).write_parquet(file, **options)
    return file.getvalue()


def of_ours() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        return rw.data.write_parquet(DATA, Path(folder, "a.parquet")).read_bytes()


FILES = {
    "ours": of_ours(),
    "others'": of_others(),
    "uncompressed": of_others(compression="uncompressed"),
    "pyarrow's": of_others(use_pyarrow=True),
}


@pytest.mark.parametrize("content", FILES.values(), ids=list(FILES))
def test_damaged_files(tmp_path, content):
    """Where a damaged file claims to need more memory than there is, polars ends the process: about 1 in 10,000."""
    path = tmp_path / "damaged.parquet"
    fuzzing.holds_apart(read, [content], path, words=WORDS, usual=400)
    fuzzing.holds_apart(open_data, [content], path, usual=100)


def read(path: Path) -> None:
    rw.read_parquet(path, **ROLES)


def open_data(path: Path) -> None:
    rw.open_data(path, folder=path.parent, **ROLES)


def read_folder(path: Path) -> None:
    rw.read_parquet(path.parent, sort=True, **ROLES)


def test_damaged_descriptions_of_columns(tmp_path):
    """The metadata of our files, as another program may write them."""
    path = rw.data.write_parquet(DATA, tmp_path / "damaged.parquet")
    text = pl.read_parquet_metadata(path)["rankwise"].encode()
    for case, chance in fuzzing.cases(300):
        damaged = fuzzing.damaged(text, chance, (b'"query"', b'"qid"', b"null", b"[", b"{", b'["age"]')).decode(
            errors="replace"
        )
        rw.data.to_frame(DATA).write_parquet(path, metadata={"rankwise": damaged})
        wrong = fuzzing.complaint(rw.read_parquet, path)
        assert wrong is None, f"{wrong}\n{case}: {damaged!r}"


def test_damaged_folders(tmp_path):
    """One of three files is damaged; the error names it, or the folder where the data of all are wrong together."""
    folder = tmp_path / "damaged.parquet"
    folder.mkdir()
    for name in ("a", "damaged", "z"):
        (folder / f"{name}.parquet").write_bytes(of_others())
    path = folder / "damaged.parquet"
    fuzzing.holds_apart(read_folder, [of_others()], path, usual=200)
