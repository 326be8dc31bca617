"""Damaged archives, whose checksums are right all the same: unpacked, or refused with nothing left behind."""

import hashlib
import io
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from rankwise.wings.datasets.archive import Archive, fetch_archive
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
FILES = {f"SET/Fold{fold}/{name}.txt": b"1 qid:1 1:0.5\n" * 5 for fold in (1, 2) for name in ("train", "test")}


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in FILES.items():
            archive.writestr(name, content)
    return file.getvalue()


def tarred(mode: str) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode=mode) as archive:  # type: ignore[call-overload]
        for name, content in FILES.items():
            member = tarfile.TarInfo(name)
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    return bytes(file.getvalue())


@pytest.mark.parametrize(
    "content", [zipped(), *(tarred(f"w:{kind}") for kind in ("", "gz", "bz2", "xz"))], ids=range(5)
)
def test_damaged_archives(tmp_path, content):
    into = tmp_path / "data"
    into.mkdir()

    def unpack(path: Path) -> None:
        checksum = hashlib.sha256(path.read_bytes()).hexdigest()
        try:
            shutil.rmtree(fetch_archive(Archive(url=path.as_uri(), sha256=checksum, folder="SET"), into))
        finally:
            left = [path.name for path in into.iterdir()]
            assert left in ([], [".rankwise-download.lock"])

    fuzzing.holds(unpack, [content], tmp_path / "damaged.archive", usual=200)
