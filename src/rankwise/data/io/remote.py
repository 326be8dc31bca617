"""Data at a URL: downloaded once, resumed after a break, and read from the copy.

``https`` needs nothing more; ``s3``, ``gs`` and what else fsspec knows need the extra ``remote``, and the package of
that store. Copies are in the library's cache folder under the version that the store names (an ETag, or size and time),
so that a file that has changed is downloaded again. Only parts of one version are joined: where nothing names it beyond
doubt, a transfer that breaks off begins anew. Workers of a cluster keep no copy: polars reads just the columns and rows
that a worker needs from the URL.
"""

import base64
import binascii
import contextlib
import email.utils
import functools
import gzip
import hashlib
import http.client
import posixpath
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from email.message import Message
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

from rankwise import check
from rankwise.base import caches, files
from rankwise.base.progress import bar
from rankwise.check import address, shown

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://.", re.IGNORECASE)
_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_DIGEST = re.compile(r"\bsha-(256|512)=:?([A-Za-z0-9+/=]+)", re.IGNORECASE)
_VERSION = re.compile("etag|time|date|modif|creat|md5|sha|crc|hash|checksum|generation|version", re.IGNORECASE)
_RESUMES, _ANEW = "try again, which resumes where it stopped", "try again, which begins anew"
_MALFORMED = "write other characters as their codes: a blank as %20, and / ? # @ in a password as %2F %3F %23 %40"
_DENIED = (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN)
_CHUNK = 1 << 20
_BLOCKS = 8 << 20, 1 << 12  # bytes that a store is asked for at once, at first and at least
_PATIENCE = 60.0
_SETTLED = 60.0  # seconds after which a time names one version: servers count whole seconds
_ATTEMPTS = 3  # at a file that changes
_Reader = TypeVar("_Reader", bound=Callable[..., Any])


class Opened(NamedTuple):
    """A file from some position on."""

    read: Callable[[int], bytes]
    """Returns up to so many bytes; none at the end."""
    start: int
    size: int | None
    """Of the whole file; None if it shows only at the end."""
    headers: Mapping[str, str] = {}


class RemoteFile(NamedTuple):
    """One file of a store."""

    name: str
    size: int | None
    open_at: Callable[[int], contextlib.AbstractContextManager[Opened]]
    """From a position to the bytes from there on, or to all of them."""
    version: str = ""
    """Empty if the store names none."""
    resumable: bool = True
    """Whether parts are of one version, or something else tells whether they are."""
    headers: Mapping[str, str] = {}


class _ChangedError(Exception):
    """The file is another one than it was."""


def is_url(path: object) -> bool:
    """Whether a path is a URL.

    >>> is_url("s3://bucket/train.parquet"), is_url("data/train.parquet"), is_url("C:/train.parquet")
    (True, False, False)
    """
    return isinstance(path, str) and _URL.match(path) is not None


def accepts_urls(read: _Reader) -> _Reader:
    """Decorate a reader of files: it reads the copy of a URL, and its errors name the URL."""

    @functools.wraps(read)
    def reader(path: str | Path, *arguments: Any, **options: Any) -> Any:
        if not is_url(path):
            return read(path, *arguments, **options)
        copy = fetch(str(path))
        with check.renaming(str(copy), address(str(path))):
            return read(copy, *arguments, **options)

    return cast("_Reader", reader)


def parquet_urls(url: str) -> list[str]:
    """Return the URL of a Parquet file, or those of all in a folder in the order of their names, for polars to read."""
    if _is_web(url):
        return [url]
    with errors(url):
        store, path = _store(url)
        return [str(store.unstrip_protocol(name)) for name in _in_folder(store, path, url)] or [url]


def scanned(source: str) -> str:
    """Return what polars reads: a path, or a URL; of one with a password, which polars does not send, the copy."""
    with_user = _is_web(source) and "@" in urllib.parse.urlsplit(source).netloc
    return str(fetch(source)) if with_user else source


def versions(sources: Sequence[object]) -> list[str]:
    """Return the versions of those that are URLs, to compare after reading; of one without, it is empty."""
    return [file.version for source in sources if is_url(source) for file in _remote_files(str(source))[0]]


def fetch(url: str) -> Path:
    """Download a file, or the Parquet files of a folder, unless there is a copy of this version; return its path."""
    for _ in range(_ATTEMPTS):
        with contextlib.suppress(_ChangedError):
            return _fetch(url)
    raise check.error("the data changed while they were downloaded", where=address(url), hint="read them again")


def _fetch(url: str) -> Path:
    remote_files, is_folder = _remote_files(url)
    versions = {file.name: file.version for file in remote_files}
    folder = _cache() / _key(url) / _key(*versions, *versions.values())
    target = folder / posixpath.basename(address(url).rstrip("/")) if is_folder else folder
    with caches.file_lock(folder.parent / f".{folder.name}.lock"):
        target.mkdir(parents=True, exist_ok=True)
        try:
            downloaded = [_download(file, target / file.name, url) for file in remote_files]
            if any(downloaded) and {file.name: file.version for file in _remote_files(url)[0]} != versions:
                raise _ChangedError
        except _ChangedError:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        for other in folder.parent.iterdir():  # older versions; whoever has mapped one keeps it
            if other.is_dir() and other != folder and files.is_old(other):
                shutil.rmtree(other, ignore_errors=True)
    return target if is_folder else target / remote_files[0].name


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
                transfer(address(url), part, file, title=file.name)
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
    """Put a complete file into its place, unpacked if the server has packed it for the transfer."""
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


def transfer(url: str, part: Path, file: RemoteFile, *, title: str, hint: str = "") -> None:
    """Download into ``part``, from where it ends; what arrived before a break is kept, and is a ConnectionError."""
    have = _size(part)
    if have and have == file.size:
        return
    hint = hint or (_RESUMES if file.resumable else _ANEW)
    try:
        with file.open_at(have) as opened:
            have, total = opened.start, file.size if opened.size is None else opened.size
            shown = bar(None, total, title, completed=have, columns=("text", "bar", "bytes", "left"), transient=True)
            with part.open("ab" if have else "wb") as out, shown as update:
                while chunk := opened.read(_CHUNK):
                    have += out.write(chunk)
                    if update is not None:
                        update(have, title)
    except urllib.error.HTTPError as refused:
        refused.close()  # it is the answer, too, and holds the connection
        if refused.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and have:
            part.unlink()  # longer than the file: not a beginning of it
            transfer(url, part, file, title=title, hint=hint)
            return
        raise _broken(url, f"the server answered {refused.code} {refused.reason}", hint) from None
    except http.client.InvalidURL:
        raise
    except (OSError, http.client.HTTPException) as lost:
        raise _broken(url, f"{lost}", hint) from None
    if total is not None and have > total:
        part.unlink()
        raise _broken(url, f"got {have:,} bytes instead of {total:,}, which were thrown away", hint)
    if total is not None and have < total:
        kept = ", which are kept" if file.resumable else ""
        raise _broken(url, f"it broke off after {have:,} of {total:,} bytes{kept}", hint)


def _broken(url: str, why: str, hint: str) -> ConnectionError:
    return ConnectionError(check.Message(f"cannot download {url}: {why}", hint=hint))


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def _remote_files(url: str) -> tuple[list[RemoteFile], bool]:
    """Return the files of a URL, and whether it is a folder of them."""
    with errors(url):
        if _is_web(url):
            return [_of_server(url)], False
        store, path = _store(url)
        names = _in_folder(store, path, url)
        return [_of_store(store, name) for name in names or [path]], bool(names)


def _of_server(url: str) -> RemoteFile:
    """Ask a server for the version of a file; a weak ETag and a time just past may name two."""
    with open_http(url) as first:
        headers, size = first.headers, first.size
    etag, changed = headers.get("ETag", ""), headers.get("Last-Modified", "")
    if not _is_settled(changed, headers.get("Date", "")):
        changed = ""
    strong = etag if etag.startswith('"') else "" if etag else changed

    @contextlib.contextmanager
    def open_at(start: int) -> Iterator[Opened]:
        with open_http(url, start, strong) as opened:
            named = {name: opened.headers.get(name) for name in ("ETag", "Last-Modified", "Content-Encoding")}
            if any(value is not None and value != headers.get(name) for name, value in named.items()):
                raise _ChangedError
            if opened.size not in (size, None) and size is not None:
                raise _ChangedError
            yield opened

    name = posixpath.basename(address(url).rstrip("/")) or "data"
    version = f"{etag} {changed} {size}" if etag or changed else ""
    return RemoteFile(name, size, open_at, version, bool(strong), headers)


def _is_settled(changed: str, now: str) -> bool:
    try:
        apart = email.utils.parsedate_to_datetime(now) - email.utils.parsedate_to_datetime(changed)
    except (ValueError, TypeError):
        return False
    return apart.total_seconds() >= _SETTLED


@contextlib.contextmanager
def open_http(url: str, start: int = 0, version: str = "") -> Iterator[Opened]:
    """Open a URL at a position if the file is of this version, else at its beginning."""
    request, send = _request(url)
    if start:
        request.add_header("Range", f"bytes={start}-")
    if start and version:
        request.add_header("If-Range", version)
    with send(request, timeout=_PATIENCE) as response:
        status, headers = response.status, response.headers
        length, part = headers.get("Content-Length"), headers.get("Content-Range")
        if status not in (None, http.HTTPStatus.OK, http.HTTPStatus.PARTIAL_CONTENT):  # None of file://
            raise http.client.HTTPException(f"the server answered {status} {response.reason} instead of a file")
        if length is not None and not (length.isascii() and length.isdecimal() and len(length) < 18):
            raise http.client.HTTPException(f"the server says that it has {length!r} bytes")
        if length is None and not getattr(response, "chunked", False):
            why = "the server does not say how long it is, so that a break would not show; fetch it by hand"
            raise http.client.HTTPException(why)
        size = None if length is None else int(length)
        if part is None and status != http.HTTPStatus.PARTIAL_CONTENT:
            start = 0  # the server sends the whole
        else:
            start, size = _bounds(part or "", start, size)
        yield Opened(response.read1, start, size, dict(_first(headers)))


def _first(headers: Message) -> Iterator[tuple[str, str]]:
    for name in ("ETag", "Last-Modified", "Date", "Content-Encoding", "Repr-Digest", "Digest"):
        if name in headers:
            yield name, str(headers[name])


def _bounds(part: str, start: int, length: int | None) -> tuple[int, int]:
    """Return where a part begins, which must be there where it was asked for, and the size of the whole."""
    found = _RANGE.fullmatch(part.strip())
    first, last, size = map(int, found.groups()) if found else (-1, -1, 0)
    if first != start or not first <= last < size or length not in (None, last + 1 - first):
        told = part or "no Content-Range"
        told += "" if length is None else f" with {length:,} bytes"
        raise http.client.HTTPException(f"the server sent another part: got {told} instead of bytes {start}-")
    return start, size


def _request(url: str) -> tuple[urllib.request.Request, Callable[..., Any]]:
    """Return a request, and what sends it; urllib would take a name and a password for a part of the host."""
    parts = urllib.parse.urlsplit(url)
    user, at, host = parts.netloc.rpartition("@")
    plain = urllib.parse.urlunsplit(parts._replace(netloc=host)) if at else url
    request = urllib.request.Request(plain, headers={"User-Agent": "rankwise"})  # noqa: S310
    if not at:
        return request, urllib.request.urlopen
    words = b":".join(urllib.parse.unquote_to_bytes(word) for word in user.partition(":")[::2])
    request.add_unredirected_header("Authorization", f"Basic {base64.b64encode(words).decode()}")
    return request, urllib.request.build_opener(_Redirects).open


class _Redirects(urllib.request.HTTPRedirectHandler):
    """Send name and password on to the same server, and to no other."""

    def redirect_request(self, req: Any, *answer: Any) -> Any:
        new, words = super().redirect_request(req, *answer), req.get_header("Authorization")
        if new is None or words is None:
            return new
        old, to = (urllib.parse.urlsplit(one.full_url) for one in (req, new))  # their .host may be a proxy's
        if (old.scheme, old.netloc) == (to.scheme, to.netloc):
            new.add_unredirected_header("Authorization", words)
        return new


def _of_store(store: Any, path: str) -> RemoteFile:
    info = store.info(path)
    size, block = info["size"], _BLOCKS[0]
    inherited = check.optional("fsspec.spec", "remote").AbstractFileSystem.cat_file
    own = getattr(store.cat_file, "__func__", None) is not inherited
    options = {} if own else {"block_size": _BLOCKS[1]}  # it would read ahead, up to 50 MB

    @contextlib.contextmanager
    def open_at(start: int) -> Iterator[Opened]:
        position = start

        def read(_: int) -> bytes:
            """Read a block by a request of its own, so that those before a break are kept; one that fails is halved."""
            nonlocal block, position
            while True:
                stop = min(position + block, size)
                try:
                    content: bytes = store.cat_file(path, position, stop, **options) if position < stop else b""
                    break
                except (FileNotFoundError, PermissionError):
                    raise
                except Exception:
                    if block <= _BLOCKS[1]:
                        raise
                    block //= 2
            if len(content) > stop - position:
                raise http.client.HTTPException(f"the store sent {len(content):,} bytes of {stop - position:,}")
            position, block = position + len(content), min(2 * block, _BLOCKS[0])
            return content

        yield Opened(read, start, size)

    version = store.ukey(path) if any(map(_VERSION.search, info)) else ""
    return RemoteFile(posixpath.basename(path), size, open_at, version, bool(version))


def _store(url: str) -> tuple[Any, str]:
    """Return fsspec's file system of a URL, and the path there."""
    core = check.optional("fsspec.core", "remote")
    try:
        store, path = core.url_to_fs(url)
    except ImportError as missing:
        package = {"s3": "s3fs", "gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs"}.get(url.split(":")[0])
        text = f"pip install {package}" if package else str(missing)
        raise check.MissingExtraError(f"{url.split(':')[0]}:// needs a package that is not installed: {text}") from None
    except ValueError:
        hint = "use s3://, gs://, https://, or another protocol of fsspec"
        raise check.error("nothing reads this kind of URL", got=address(url), hint=hint) from None
    store.invalidate_cache()  # what it has listed before may have changed
    return store, path


def _in_folder(store: Any, path: str, url: str) -> list[str]:
    """Return the Parquet files of a folder; nothing if it is a file."""
    is_folder = store.isdir(path)
    names = sorted(store.glob(f"{path.rstrip('/')}/*.parquet")) if is_folder else []
    if is_folder and not names:
        what = "there are no .parquet files in the folder"
        raise check.error(what, got=address(url), hint="name a file, or a folder of Parquet files")
    return names


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


@contextlib.contextmanager
def errors(url: object) -> Iterator[None]:
    """Replace errors about a URL, of types of their own, without its name or with secrets, by those of files.

    Errors about a path are left as they are.
    """
    try:
        yield
        return
    except _ChangedError:
        raise
    except Exception as failed:
        if not is_url(url):
            raise
        error = _named(str(url), failed)
    try:
        raise error
    finally:
        error.__cause__ = error.__context__ = None  # they may hold secrets


def _named(url: str, failed: Exception) -> Exception:
    name, text, code = address(url), shown(str(failed), url), getattr(failed, "code", None)
    if isinstance(failed, urllib.error.HTTPError):
        failed.close()  # it is the answer, too, and holds the connection
    if isinstance(failed, ConnectionError | ValueError) and name in text and text == str(failed):
        return failed
    if isinstance(failed, check.InputError):
        wrong = check.InputError(failed.message.changed(lambda part: shown(part, url)))
        return wrong if name in text else check.prefixed(name, wrong)
    if isinstance(failed, check.MissingExtraError):
        return check.MissingExtraError(f"cannot read {name}: {text}")
    if isinstance(failed, http.client.InvalidURL | UnicodeError):  # their texts quote parts of it
        return check.error("this is not a URL", got=name, hint=_MALFORMED)
    if isinstance(failed, ValueError):
        return check.error("this URL cannot be read", got=text, where=name)
    if isinstance(failed, FileNotFoundError) or code == http.HTTPStatus.NOT_FOUND:
        return FileNotFoundError(f"there is no file {name}.")
    if isinstance(failed, PermissionError) or code in _DENIED or "Credentials" in type(failed).__name__:
        hint = "set the credentials that the store asks for"
        return PermissionError(check.Message(f"{name} may not be read: {text}", hint=hint))
    return _broken(name, text or type(failed).__name__, "try again")
