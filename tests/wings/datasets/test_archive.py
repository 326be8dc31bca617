"""Downloads: resumed, verified, and unpacked whole or not at all."""

import dataclasses
import email.message
import hashlib
import io
import os
import tarfile
import threading
import urllib.error
import urllib.request
import zipfile
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise import check
from rankwise.base import caches
from rankwise.wings.datasets import sets
from rankwise.wings.datasets.archive import Archive, fetch_archive
from tests.data.serving import serving
from tests.data.small_files import isolate, put, rows
from tests.refusals import refusal


@pytest.fixture(autouse=True)
def isolated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    isolate(tmp_path, monkeypatch)


def zipped(members: dict[str, str]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, text in members.items():
            archive.writestr(name, text)
    return out.getvalue()


def tarred(members: dict[str, str], mode: Any = "w:gz") -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, text in members.items():
            member = tarfile.TarInfo(name)
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))
    return out.getvalue()


FOLDS = {f"Fold1/{word}.txt": rows(1, number) for number, word in enumerate(("train", "vali", "test"))}


def archive_of(content: bytes, url: str, **changes: Any) -> Archive:
    facts: dict[str, Any] = {"url": url, "sha256": hashlib.sha256(content).hexdigest(), "folder": "SET"}
    return Archive(**(facts | changes))


PACKED = [
    zipped(FOLDS),
    zipped({f"SET/{name}": text for name, text in FOLDS.items()}),
    tarred(FOLDS),
    tarred({f"SET/{name}": text for name, text in FOLDS.items()}, "w:bz2"),
]


@pytest.mark.parametrize("content", PACKED)
@pytest.mark.parametrize("way", ["http", "file"])
def test_a_download_is_there_whole(tmp_path: Path, content: bytes, way: str):
    (tmp_path / "origin").write_bytes(content)
    with serving(content) as server:
        url = server.url if way == "http" else (tmp_path / "origin").as_uri()
        target = fetch_archive(archive_of(content, url), tmp_path / "data")
    assert target == tmp_path / "data/SET"
    assert {str(path.relative_to(target)): path.read_text() for path in target.rglob("*.txt")} == FOLDS
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_load_dataset_downloads_what_is_missing_and_only_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = zipped(FOLDS)
    with serving(content) as server:
        known = sets.entry("mslr-web10k")
        here = dataclasses.replace(known, archive=archive_of(content, server.url, folder="MSLR-WEB10K"))
        monkeypatch.setitem(sets._BY_NAME, "mslrweb10k", here)
        for _ in range(2):
            parts = rw.load_dataset("mslr-web10k", folder=tmp_path, download=True)
            assert parts.train.n_features == 136
        assert server.asked == [None]
        with refusal(
            FileExistsError, what="…MSLR-WEB10K exists already and is kept, though files of the set are missing…"
        ):
            rw.load_dataset("mslr-web10k", fold=2, folder=tmp_path, download=True)
        assert server.asked == [None]


def test_a_wrong_checksum_leaves_nothing(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        sentence = f"does not have the checksum.*got sha256 {hashlib.sha256(content).hexdigest()} instead of 0000"
        with pytest.raises(ValueError, match=sentence):
            fetch_archive(archive_of(content, server.url, sha256="0" * 64), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


def test_a_broken_transfer_resumes_where_it_stopped(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        archive = archive_of(content, server.url)
        server.stop_after = 100
        with pytest.raises(
            ConnectionError, match=f"broke off after 100 of {len(content)} bytes, which are kept. Hint: try a"
        ):
            fetch_archive(archive, tmp_path / "data")
        assert not (tmp_path / "data/SET").exists()
        server.stop_after = None
        fetch_archive(archive, tmp_path / "data")
        assert server.asked == [None, "bytes=100-"]
    assert (tmp_path / "data/SET/Fold1/test.txt").read_text() == FOLDS["Fold1/test.txt"]
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


@pytest.mark.parametrize("left", [b"x" * 100, b"x" * 10_000])
def test_what_is_left_of_another_transfer_does_no_harm(tmp_path: Path, left: bytes):
    """A server without ranges sends all again; a part longer than the archive is thrown away."""
    content = zipped(FOLDS)
    with serving(content) as server:
        server.ranges = len(left) > len(content)
        archive = archive_of(content, server.url)
        part = tmp_path / "data/.rankwise-download" / f"{archive.sha256[:16]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(left)
        fetch_archive(archive, tmp_path / "data")
    assert (tmp_path / "data/SET/Fold1/train.txt").is_file()


def test_a_part_that_is_no_beginning_of_the_archive_is_fetched_again(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        archive = archive_of(content, server.url)
        part = tmp_path / "data/.rankwise-download" / f"{archive.sha256[:16]}.part"
        part.parent.mkdir(parents=True)
        part.write_bytes(b"x" * 100)
        left = part.with_name("unpacking-dead")
        left.mkdir()
        os.utime(left, (0, 0))
        fetch_archive(archive, tmp_path / "data")
        assert server.asked == ["bytes=100-", None]
    assert (tmp_path / "data/SET/Fold1/train.txt").is_file()
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_one_of_several_callers_downloads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    content = zipped(FOLDS)
    found: list[Path] = []
    start, turn = threading.Barrier(3), caches.file_lock

    def together(*locks: Path) -> Any:
        start.wait(60)  # all have seen that the set is not there
        return turn(*locks)

    monkeypatch.setattr(caches, "file_lock", together)
    with serving(content) as server:
        archive = archive_of(content, server.url)

        def work() -> None:
            found.append(fetch_archive(archive, tmp_path / "data"))

        threads = [threading.Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert server.asked == [None]
    assert found == [tmp_path / "data/SET"] * 3
    assert [path.name for path in (tmp_path / "data").iterdir()] == ["SET"]


def test_a_transfer_that_was_complete_is_not_repeated(tmp_path: Path):
    content = zipped(FOLDS)
    archive = archive_of(content, "http://127.0.0.1:9/nobody", size=len(content))
    part = tmp_path / ".rankwise-download" / f"{archive.sha256[:16]}.part"
    part.parent.mkdir(parents=True)
    part.write_bytes(content)
    assert fetch_archive(archive, tmp_path).is_dir()


def test_a_server_that_refuses_or_is_not_there(tmp_path: Path):
    content = zipped(FOLDS)
    with serving(content) as server:
        server.status = 403
        with refusal(
            ConnectionError, what="cannot download http…: the server answered 403 Forbidden", hint="…by hand…"
        ):
            fetch_archive(archive_of(content, server.url), tmp_path / "data")
    with refusal(ConnectionError, what="cannot download http…", hint="…unpack it as SET in the data folder"):
        fetch_archive(archive_of(content, server.url), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())
    with refusal(what="a download needs an http, https or file address", got="'ftp://x/y'"):
        fetch_archive(archive_of(content, "ftp://x/y"), tmp_path / "data")


def test_an_answer_that_refuses_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    body = io.BytesIO(b"no")
    answer = urllib.error.HTTPError("http://x/y", 403, "Forbidden", email.message.Message(), body)

    def refuse(*_: Any, **__: Any) -> None:
        raise answer

    monkeypatch.setattr(urllib.request, "urlopen", refuse)
    with refusal(ConnectionError, what="cannot download http://x/y: the server answered 403 Forbidden"):
        fetch_archive(archive_of(zipped(FOLDS), "http://x/y"), tmp_path / "data")
    assert body.closed


def link(kind: bytes) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        member = tarfile.TarInfo("SET/link")
        member.type = kind
        member.linkname = "/etc/passwd"
        archive.addfile(member)
    return out.getvalue()


def zip_link() -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        member = zipfile.ZipInfo("SET/link")
        member.external_attr = 0o120777 << 16
        archive.writestr(member, "/etc/passwd")
    return out.getvalue()


EVIL = [
    zipped({"good.txt": "x", "../evil.txt": "x"}),
    zipped({"/tmp/evil.txt": "x"}),  # noqa: S108
    zipped({"a/../../evil.txt": "x"}),
    zipped({"C:/evil.txt": "x"}),
    tarred({"good.txt": "x", "../evil.txt": "x"}),
    tarred({"/evil.txt": "x"}),
    link(tarfile.SYMTYPE),
    link(tarfile.LNKTYPE),
    link(tarfile.FIFOTYPE),
    zip_link(),
]


@pytest.mark.parametrize("content", EVIL)
def test_an_archive_that_would_leave_its_folder_is_rejected(tmp_path: Path, content: bytes):
    (tmp_path / "origin").write_bytes(content)
    sentence = "member that would leave its folder, or is no plain file; nothing was kept: got '.*(evil|link)"
    with pytest.raises(ValueError, match=sentence):
        fetch_archive(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "deep/data")
    assert not list((tmp_path / "deep/data").iterdir())
    assert not list(tmp_path.rglob("evil.txt"))


def test_a_file_that_is_no_archive_is_rejected(tmp_path: Path):
    (tmp_path / "origin").write_bytes(b"<html>please log in</html>")
    with refusal(what="the archive is neither zip nor tar"):
        fetch_archive(archive_of(b"<html>please log in</html>", (tmp_path / "origin").as_uri()), tmp_path / "data")
    assert not list((tmp_path / "data").iterdir())


@pytest.mark.parametrize("kind", ["", "gz", "bz2", "xz", "zip"])
def test_a_damaged_archive_is_rejected_whole(tmp_path: Path, kind: str):
    whole = zipped(FOLDS) if kind == "zip" else tarred(FOLDS, f"w:{kind}")
    wrong = [whole[:700] if kind == "" else whole[: len(whole) // 2]]
    if kind == "zip":  # tar has no checksum of what it holds
        at = whole.index(b"train.txt") + 20
        wrong.append(whole[:at] + bytes([whole[at] ^ 7]) + whole[at + 1 :])
    for content in wrong:
        (tmp_path / "origin").write_bytes(content)
        with refusal(hint="…by hand…") as caught:
            fetch_archive(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "data")
        assert isinstance(caught.value, check.InputError)
        assert not [path for path in (tmp_path / "data").iterdir() if path.suffix != ".lock"]


def test_data_that_are_there_are_not_overwritten(tmp_path: Path):
    content = zipped(FOLDS)
    (tmp_path / "origin").write_bytes(content)
    mine = put(tmp_path / "data/SET/notes.txt", "mine")
    with refusal(FileExistsError, what="…SET exists already and is kept…", hint="move it away, or complete it by hand"):
        fetch_archive(archive_of(content, (tmp_path / "origin").as_uri()), tmp_path / "data")
    assert mine.read_text() == "mine"
