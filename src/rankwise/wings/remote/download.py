"""Downloads: a file at a URL is downloaded once, resumed after a break, and read from the copy.

Copies are in the library's cache folder under the version that the store names (an ETag, or size and time), so that a
file that has changed is downloaded again. Only parts of one version are joined: where nothing names it beyond doubt, a
transfer that breaks off begins anew. Workers of a cluster keep no copy: polars reads just the columns and rows that a
worker needs from the URL.
"""

import base64
import binascii
import contextlib
import functools
import gzip
import hashlib
import http.client
import posixpath
import re
import shutil
import urllib.error
import urllib.parse
import zlib
from pathlib import Path

from rankwise import check
from rankwise.base import caches, files
from rankwise.base.progress import bar
from rankwise.check import address
from rankwise.wings.remote.remote_files import ChangedError, RemoteFile, broken, errors, files_at, open_http

_DIGEST = re.compile(r"\bsha-(256|512)=:?([A-Za-z0-9+/=]+)", re.IGNORECASE)
_RESUMES, _ANEW = "try again, which resumes where it stopped", "try again, which begins anew"
_CHUNK = 1 << 20
_ATTEMPTS = 3  # at a file that changes


def scanned(source: str) -> str:
    """Return what polars reads: a path, or a URL; of one with a password, which polars does not send, the copy."""
    parts = urllib.parse.urlsplit(source)
    return str(fetch(source)) if parts.scheme in ("http", "https") and "@" in parts.netloc else source


def fetch(url: str) -> Path:
    """Download a file, or the Parquet files of a folder, unless there is a copy of this version; return its path."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(ChangedError):
            return _fetch(url)
    raise check.error("the data changed while they were downloaded", where=address(url), hint="read them again")


def _fetch(url: str) -> Path:
    found, is_folder = files_at(url)
    versions = {file.name: file.version for file in found}
    folder = _cache() / _key(url) / _key(*versions, *versions.values())
    target = folder / posixpath.basename(address(url).rstrip("/")) if is_folder else folder
    with caches.file_lock(folder.parent / f".{folder.name}.lock"):
        target.mkdir(parents=True, exist_ok=True)
        try:
            downloaded = [_download(file, target / file.name, url) for file in found]
            if any(downloaded) and {file.name: file.version for file in files_at(url)[0]} != versions:
                raise ChangedError
        except ChangedError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for other in folder.parent.iterdir():  # older versions; whoever has mapped one keeps it
            if other.is_dir() and other != folder and files.is_old(other):
                shutil.rmtree(other, ignore_errors=True)
    return target if is_folder else target / found[0].name


def _download(file: RemoteFile, target: Path, url: str) -> bool:
    """Download a file unless it is there, after a break again from there, as long as something arrives."""
    part = target.with_name(f".{target.name}.part")
    if not file.version:  # nothing tells whether it is the same file
        target.unlink(missing_ok=True)
    if target.exists():
        return False
    if not file.resumable:
        part.unlink(missing_ok=True)
    attempts = _ATTEMPTS
    while True:
        arrived = _size(part)
        try:
            with errors(url):
                _transfer(address(url), part, file)
            break
        except ConnectionError:
            in_vain = _size(part) <= arrived
            if not file.resumable:
                part.unlink(missing_ok=True)
                attempts -= 1
            if in_vain or not attempts:
                raise
    with errors(url):
        _verify(file, part)
        _move(file, part, target)
    return True


def _verify(file: RemoteFile, part: Path) -> None:
    """Compare a file with the digest that the server names, if it does."""
    named = _DIGEST.search(f"{file.headers.get('Repr-Digest', '')},{file.headers.get('Digest', '')}")
    if named is None:
        return
    with part.open("rb") as content:
        digest = hashlib.file_digest(content, f"sha{named[1]}").digest()
    try:
        right = digest == base64.b64decode(named[2])
    except binascii.Error:
        right = False
    if not right:
        part.unlink()
        got = f"{base64.b64encode(digest).decode()} instead of {named[2]}"
        raise http.client.HTTPException(f"it does not have the digest that the server names: got sha-{named[1]} {got}")


def _move(file: RemoteFile, part: Path, target: Path) -> None:
    """Move a complete file into its place, unpacked if the server has packed it for the transfer."""
    encoding = file.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding in ("gzip", "x-gzip") and target.suffix != ".gz":  # of .gz files, servers say so of the file itself
        unpacked = part.with_suffix(".unpacked")
        try:
            with gzip.open(part) as packed, unpacked.open("wb") as out:
                shutil.copyfileobj(packed, out, _CHUNK)
        except (OSError, EOFError, zlib.error) as damaged:
            unpacked.unlink(missing_ok=True)
            raise http.client.HTTPException(
                f"its Content-Encoding is not gzip as the server says ({damaged})"
            ) from None
        finally:
            part.unlink()
        part = unpacked
    elif encoding not in ("identity", "", "gzip", "x-gzip"):
        part.unlink()
        raise http.client.HTTPException(f"the server sends it with the Content-Encoding {encoding!r}, though not asked")
    files.move(part, target, force=True)


def _transfer(url: str, part: Path, file: RemoteFile, hint: str = "") -> None:
    """Download into ``part``, from where it ends; what arrived before a break is kept, and is a ConnectionError."""
    have = _size(part)
    if have and have == file.size:
        return
    hint = hint or (_RESUMES if file.resumable else _ANEW)
    try:
        with file.open_at(have) as opened:
            have, total = opened.start, file.size if opened.size is None else opened.size
            columns = ("text", "bar", "bytes", "left")
            shown = bar(None, total, file.name, completed=have, columns=columns, transient=True)
            with part.open("ab" if have else "wb") as out, shown as update:
                while chunk := opened.read(_CHUNK):
                    have += out.write(chunk)
                    if update is not None:
                        update(have, file.name)
    except urllib.error.HTTPError as refused:
        refused.close()  # it is the answer, too, and holds the connection
        if refused.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            part.unlink()  # longer than the file: not a beginning of it
            _transfer(url, part, file, hint)
            return
        raise broken(url, f"the server answered {refused.code} {refused.reason}", hint) from None
    except http.client.InvalidURL:
        raise
    except (OSError, http.client.HTTPException) as lost:
        raise broken(url, f"{lost}", hint) from None
    if total is not None and have > total:
        part.unlink()
        raise broken(url, f"got {have:,} bytes instead of {total:,}, which were thrown away", hint)
    if total is not None and have < total:
        remark = ", which are kept" if file.resumable else ""
        raise broken(url, f"it broke off after {have:,} of {total:,} bytes{remark}", hint)


def resume(url: str, part: Path, name: str, size: int | None, otherwise: str) -> None:
    """Download a file of a web server into ``part``, from where it ends, until it has arrived."""
    file = RemoteFile(name, size, functools.partial(open_http, url))
    with errors(url):
        _transfer(address(url), part, file, hint=f"{_RESUMES}, {otherwise}")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _cache() -> Path:
    """Return the folder of copies, or one that lasts as long as the process."""
    home = caches.folder()
    try:
        folder = files.check_writable_folder((home or caches.scratch()) / "remote")
    except OSError as failed:
        caches.warn_no_cache(f"no copy of a URL can be kept ({failed})")
        folder = caches.scratch() / "remote"
    return folder


def _key(*words: str) -> str:
    return hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]
