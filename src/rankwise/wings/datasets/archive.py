"""Archives of data sets: downloaded until they have their checksum, and unpacked whole or not at all."""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
import stat
import tarfile
import urllib.parse
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO

from rankwise import check
from rankwise.base import caches, files
from rankwise.data.io import urls

_CHUNK = 1 << 20
_BY_HAND = "fetch the archive by hand, look at it and unpack it into the data folder"


@dataclass(frozen=True, kw_only=True)
class Archive:
    """A zip or tar file at ``url``, which is unpacked as ``folder``."""

    url: str
    sha256: str
    folder: str
    size: int | None = None


def fetch_archive(archive: Archive, into: Path) -> Path:
    """Download ``archive``, check it and unpack it to ``into / archive.folder``, which must not exist yet.

    A transfer that breaks off leaves a ``.part`` file in ``into/.rankwise-download``, and the next call resumes from
    there. Any other failure leaves nothing. A wrong checksum means that nothing was opened. Of several callers at once
    one downloads, and the others wait for it.
    """
    target, staging = into / archive.folder, into / ".rankwise-download"
    absent = not target.exists()
    with caches.file_lock(into / ".rankwise-download.lock"):
        if absent and target.exists():
            return target
        if not absent:
            what = f"{target} exists already and is kept, though files of the set are missing in it"
            raise FileExistsError(check.Message(what, hint="move it away, or complete it by hand"))
        staging.mkdir(parents=True, exist_ok=True)
        try:
            part = _fetch_part(archive, staging)
            try:
                unpack(part, archive, target)
            finally:
                part.unlink()
        finally:
            with contextlib.suppress(OSError):  # not empty
                staging.rmdir()
    return target


def _fetch_part(archive: Archive, staging: Path) -> Path:
    """Download an archive into a file of this folder until it has its checksum."""
    url, part = check.address(archive.url), staging / f"{archive.sha256[:16]}.part"
    if urllib.parse.urlsplit(archive.url).scheme not in ("http", "https", "file"):
        raise check.error("a download needs an http, https or file address", got=repr(url))
    by_hand = f"unpack it as {archive.folder} in the data folder"
    while True:
        begun = part.exists()
        otherwise = f"or fetch the archive by hand and {by_hand}"
        urls.resume(archive.url, part, archive.folder, archive.size, otherwise)
        with part.open("rb") as content:
            digest = hashlib.file_digest(content, "sha256").hexdigest()
        if digest == archive.sha256:
            return part
        part.unlink()
        if not begun:  # else what was there was no beginning of it
            raise check.error(
                f"the download of {url} does not have the checksum that it should have and was thrown away",
                got=f"sha256 {digest} instead of {archive.sha256}",
                hint="try again; if it stays so, the distributor has changed the archive: "
                f"fetch it by hand, look at it and {by_hand}",
            )


def unpack(path: Path, archive: Archive, target: Path) -> None:
    """Unpack an archive beside ``path``, and rename its folder to ``target`` when it is complete."""
    url, unpacked = check.address(archive.url), path.parent / f"unpacking-{secrets.token_hex(4)}"
    for left in path.parent.glob("unpacking-*"):  # by a process that was killed
        if files.is_old(left):
            shutil.rmtree(left, ignore_errors=True)
    try:
        with check.library("the archive", url, also=True, hint=_BY_HAND), check.naming(url):
            _unpack(path, unpacked)
        top = unpacked / archive.folder  # some archives bring their own folder, some only what lies in it
        (top if top.is_dir() else unpacked).rename(target)
    finally:
        shutil.rmtree(unpacked, ignore_errors=True)


def _unpack(path: Path, into: Path) -> None:
    """Unpack files and folders, and nothing else, below ``into``."""
    into.mkdir()
    for name, file in _members(path):
        parts = PurePosixPath(name.replace("\\", "/")).parts
        if not parts or parts[0] == "/" or ".." in parts or ":" in parts[0] or file is None:
            raise check.error(
                "the archive holds a member that would leave its folder, or is no plain file; nothing was kept",
                got=repr(name),
                hint="do not trust this archive",
            )
        with file, _created(into.joinpath(*parts), name) as out:
            shutil.copyfileobj(file, out, _CHUNK)
            os.fsync(out.fileno())


def _created(target: Path, name: str) -> IO[bytes]:
    """Open the file of a member for writing; no two may have one name, nor be file and folder at once."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("xb")
    except OSError as failed:
        names = ("EEXIST", "ENOTDIR", "EISDIR", "ENAMETOOLONG", "EINVAL", "EILSEQ")
        if errno.errorcode.get(failed.errno or 0) not in names:
            raise
        what = "the archive holds a member that cannot be written beside the others; nothing was kept"
        raise check.error(what, got=repr(name), where=str(failed.strerror), hint=_BY_HAND) from None


def _members(path: Path) -> Iterator[tuple[str, IO[bytes] | None]]:
    """Go through the files of a zip or tar archive; a link or a device comes as None, a folder not at all."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as packed:
            for member in packed.infolist():
                mode = member.external_attr >> 16
                plain = stat.S_IFMT(mode) in (0, stat.S_IFREG)
                if not member.is_dir():
                    yield member.filename, packed.open(member) if plain else None
    elif tarfile.is_tarfile(path):
        with tarfile.open(path) as rolled:
            for entry in rolled:
                if not entry.isdir():
                    yield entry.name, rolled.extractfile(entry) if entry.isreg() else None
    else:
        raise check.error("the archive is neither zip nor tar", got=path.name, hint="unpack it by hand")
