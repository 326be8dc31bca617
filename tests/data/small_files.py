"""Small files of LETOR text, in a home of their own."""

import dataclasses
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base import caches
from rankwise.data.io.file_formats import zstandard

SEEN: list[Path] = []


def isolate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the cache and the data of this machine out of a test, and record in SEEN which files are parsed."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "user-cache"))
    monkeypatch.setattr(caches, "_warned", [])
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("no_proxy", "*")
    SEEN.clear()
    read = rw.read_letor

    def recorded(path: Path, **options: Any) -> rw.RankingDataset:
        SEEN.append(Path(path))
        return read(path, **options)

    monkeypatch.setattr(rw, "read_letor", recorded)


def rows(label: int, qid: int) -> str:
    """Return the lines of two documents of one query, by which a file is recognised."""
    return f"{label} qid:{qid} 1:0.5 2:{qid} #docid = D{qid}\n0 qid:{qid} 1:0.25 #docid = E{qid}\n"


def put(path: Path, text: str) -> Path:
    """Write text, compressed by the ending of the name."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = text.encode()
    if path.suffix == ".gz":
        data = gzip.compress(data)
    elif path.suffix == ".zst":
        data = zstandard().compress(data)
    path.write_bytes(data)
    return path


def same(one: rw.RankingDataset, other: rw.RankingDataset) -> None:
    """Assert that two data sets are equal in all columns."""
    for field in dataclasses.fields(one):
        left, right = getattr(one, field.name), getattr(other, field.name)
        if isinstance(left, np.ndarray):
            assert left.dtype == right.dtype, field.name
            np.testing.assert_array_equal(left, right, field.name)
        else:
            assert left == right, field.name
