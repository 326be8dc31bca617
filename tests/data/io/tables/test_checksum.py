"""Sealed files: every damage is found, also where no reader of Parquet would find it."""

import random
from pathlib import Path

import polars as pl
import pytest

from rankwise.data.io.tables import checksum as sealed
from tests.refusals import refusal, refuses

FRAME = pl.DataFrame({"query": [f"q{k}" for k in range(50)], "value": [k / 7 for k in range(50)]})


def written(path: Path) -> bytes:
    FRAME.write_parquet(path, metadata={"about": "a trial", **sealed.METADATA})
    sealed.seal(path)
    return path.read_bytes()


def test_a_sealed_file_is_a_parquet_file(tmp_path: Path):
    path = tmp_path / "a.parquet"
    written(path)
    sealed.verify(path, hint="")
    assert pl.read_parquet(path).equals(FRAME)
    assert pl.read_parquet_metadata(path)["about"] == "a trial"


@pytest.mark.parametrize("block", [1, 7, 2**24])
def test_every_damage_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int):
    monkeypatch.setattr(sealed, "_BLOCK", block)
    path = tmp_path / "a.parquet"
    whole = written(path)
    chance = random.Random(0)  # noqa: S311
    damages = [whole + b"\0", b"\0" + whole, whole[: len(whole) // 3] + whole[len(whole) // 3 + 1 :]]
    for _ in range(60):
        at = chance.randrange(len(whole))
        damages.append(whole[:at] + bytes([whole[at] ^ 1 << chance.randrange(8)]) + whole[at + 1 :])
    for damaged in damages:
        path.write_bytes(damaged)
        with refusal(what="the file is damaged", where="…a.parquet", hint="make it anew"):
            sealed.verify(path, hint="make it anew")


def test_other_files_have_no_checksum(tmp_path: Path):
    path = tmp_path / "a.parquet"
    FRAME.write_parquet(path)
    sealed.verify(path, hint="")
    refuses(lambda: sealed.seal(path), what="a Parquet file without a place for a checksum cannot be sealed")
