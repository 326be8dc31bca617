"""Files at a URL, of a web server or a store: their version, and their bytes from any position on.

``https`` needs nothing more; ``s3``, ``gs`` and what else fsspec knows need the extra ``remote``, and the package of
that store.
"""

import base64
import contextlib
import email.utils
import http.client
import posixpath
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from rankwise import check
from rankwise.check import address, shown
from rankwise.data.io.urls import is_url

_RANGE = re.compile(r"bytes (\d{1,18})-(\d{1,18})/(\d{1,18})", re.ASCII)
_VERSION = re.compile("etag|time|date|modif|creat|md5|sha|crc|hash|checksum|generation|version", re.IGNORECASE)
_HEADERS = ("ETag", "Last-Modified", "Date", "Content-Encoding", "Repr-Digest", "Digest")
_MALFORMED = "write other characters as their codes: a blank as %20, and / ? # @ in a password as %2F %3F %23 %40"
_DENIED = (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN)
_BLOCKS = 8 << 20, 1 << 12  # bytes that a store is asked for at once, at first and at least
_PATIENCE = 60.0
_SETTLED = 60.0  # seconds after which a time names one version: servers count whole seconds


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


class ChangedError(Exception):
    """The file is another one than it was."""


def _is_web(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def files_at(url: str) -> tuple[list[RemoteFile], bool]:
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
            other = any(value is not None and value != headers.get(name) for name, value in named.items())
            if other or (size is not None and opened.size not in (size, None)):
                raise ChangedError
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
        yield Opened(response.read1, start, size, {name: headers[name] for name in _HEADERS if name in headers})


def _bounds(part: str, start: int, length: int | None) -> tuple[int, int]:
    """Return where a part begins, which must be there where it was asked for, and the size of the whole."""
    bounds = _RANGE.fullmatch(part.strip())
    first, last, size = map(int, bounds.groups()) if bounds else (-1, -1, 0)
    if first != start or not first <= last < size or length not in (None, last + 1 - first):
        answer = part or "no Content-Range"
        answer += "" if length is None else f" with {length:,} bytes"
        raise http.client.HTTPException(f"the server sent another part: got {answer} instead of bytes {start}-")
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
    overridden = getattr(store.cat_file, "__func__", None) is not inherited
    options = {} if overridden else {"block_size": _BLOCKS[1]}  # it would read ahead, up to 50 MB

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


def parquet_urls(url: str) -> list[str]:
    """Return the URL of a Parquet file, or those of all in a folder in the order of their names, for polars to read."""
    if _is_web(url):
        return [url]
    with errors(url):
        store, path = _store(url)
        return [str(store.unstrip_protocol(name)) for name in _in_folder(store, path, url)] or [url]


@contextlib.contextmanager
def errors(url: object) -> Iterator[None]:
    """Replace errors about a URL, of types of their own, without its name or with secrets, by those of files.

    Errors about a path are left as they are.
    """
    try:
        yield
        return
    except ChangedError:
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
    return broken(name, text or type(failed).__name__, "try again")


def broken(url: str, why: str, hint: str) -> ConnectionError:
    """Return the error of a download that did not arrive."""
    return ConnectionError(check.Message(f"cannot download {url}: {why}", hint=hint))
