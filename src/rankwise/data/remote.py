"""Data at a URL: downloaded once, resumed after a break, and read from the copy.

``https`` needs nothing more; ``s3``, ``gs`` and what else fsspec knows need the extra ``remote``, and the package of
that store. Copies are in the library's cache folder under the version that the store names (an ETag, or size and time),
so that a file that has changed is downloaded again. Workers of a cluster keep no copy: polars reads just the columns
and rows that a worker needs from the URL.
"""

import contextlib
import functools
import hashlib
import http
import posixpath
import re
import shutil
import urllib.error
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, TypeVar, cast

from rankwise import caches, check, files

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://.")
_SECRETS = re.compile(r"(?<=://)[^/\s]*@|\?[^\s'\"]+")  # names with passwords, and queries, which may hold signatures
_HINT = "try again, which resumes where it stopped"
_DENIED = (http.HTTPStatus.UNAUTHORIZED, http.HTTPStatus.FORBIDDEN)
_Reader = TypeVar("_Reader", bound=Callable[..., Any])


class RemoteFile(NamedTuple):
    """One file of a store."""

    name: str
    version: str
    """Empty if the store names none."""
    size: int | None
    open_at: Callable[[int], contextlib.AbstractContextManager[tuple[IO[bytes], int, int | None]]]
    """From a position to the bytes from there on, the position where they begin, and the size of the file."""


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
        with check.renaming(str(copy), shown(str(path))):
            return read(copy, *arguments, **options)

    return cast("_Reader", reader)


def shown(text: str) -> str:
    """Return a URL, or a message about one, without what may be secret in it.

    >>> shown("https://me:password@host/train.parquet?signature=x"), shown("train.parquet")
    ('https://host/train.parquet', 'train.parquet')
    """
    return _SECRETS.sub("", text)


def parquet_urls(url: str) -> list[str]:
    """Return the URL of a Parquet file, or those of all in a folder in the order of their names, for polars to read."""
    if url.startswith(("http://", "https://")):
        return [url]
    store, path = _store(url)
    with errors(url):
        return [str(store.unstrip_protocol(name)) for name in _in_folder(store, path, url)] or [url]


def fetch(url: str) -> Path:
    """Download a file, or the Parquet files of a folder, unless there is a copy of this version; return its path."""
    remote_files, is_folder = _remote_files(url)
    versions = {file.name: file.version for file in remote_files}
    folder = _cache() / _key(url) / _key(*versions, *versions.values())
    target = folder / posixpath.basename(url.rstrip("/")) if is_folder else folder
    with caches.file_lock(folder.parent / f".{folder.name}.lock"):
        target.mkdir(parents=True, exist_ok=True)
        downloaded = [_download(file, target / file.name, url) for file in remote_files]
        if any(downloaded) and {file.name: file.version for file in _remote_files(url)[0]} != versions:
            shutil.rmtree(folder, ignore_errors=True)
            raise check.error("the data changed while they were downloaded", where=shown(url), hint="read them again")
        for other in folder.parent.iterdir():  # older versions; whoever has mapped one keeps it
            if other.is_dir() and other != folder and files.is_old(other):
                shutil.rmtree(other, ignore_errors=True)
    return target if is_folder else target / remote_files[0].name


def _download(file: RemoteFile, target: Path, url: str) -> bool:
    """Download a file unless it is there, after a break again from there, as long as something arrives."""
    from rankwise.data.catalog.download import transfer

    part = target.with_name(f".{target.name}.part")
    if not file.version:  # nothing tells whether it is the same file
        part.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
    if target.exists():
        return False
    while not target.exists():
        arrived = _size(part)
        try:
            with errors(url):
                transfer(shown(url), part, file.open_at, size=file.size, title=file.name, hint=_HINT)
            files.move(part, target, force=True)
        except ConnectionError:
            if _size(part) <= arrived:
                raise
    return True


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _remote_files(url: str) -> tuple[list[RemoteFile], bool]:
    """Return the files of a URL, and whether it is a folder of them."""
    if url.startswith(("http://", "https://")):
        from rankwise.data.catalog.download import open_http

        with errors(url), open_http(url, 0) as (response, _, size):
            headers: Any = response.headers  # type: ignore[attr-defined]
        version = headers.get("ETag") or headers.get("Last-Modified") or ""
        name = posixpath.basename(shown(url).rstrip("/")) or "data"
        return [RemoteFile(name, version and f"{version} {size}", size, functools.partial(open_http, url))], False
    store, path = _store(url)
    with errors(url):
        names = _in_folder(store, path, url)
        return [_of_store(store, name) for name in names or [path]], bool(names)


def _of_store(store: Any, path: str) -> RemoteFile:
    size = store.info(path)["size"]

    @contextlib.contextmanager
    def open_at(start: int) -> Iterator[tuple[IO[bytes], int, int | None]]:
        with store.open(path, "rb") as file:
            file.seek(start)
            yield file, start, size

    return RemoteFile(posixpath.basename(path), store.ukey(path), size, open_at)


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
        raise check.error("nothing reads this kind of URL", got=shown(url), hint=hint) from None
    store.invalidate_cache()  # what it has listed before may have changed
    return store, path


def _in_folder(store: Any, path: str, url: str) -> list[str]:
    """Return the Parquet files of a folder; nothing if it is a file."""
    is_folder = store.isdir(path)
    names = sorted(store.glob(f"{path.rstrip('/')}/*.parquet")) if is_folder else []
    if is_folder and not names:
        what = "there are no .parquet files in the folder"
        raise check.error(what, got=shown(url), hint="name a file, or a folder of Parquet files")
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
    """Replace errors of stores and of polars about a URL, of types of their own and with signatures, by those of files.

    Errors about a path are left as they are.
    """
    try:
        yield
    except Exception as failed:
        name, text, code = shown(str(url)), shown(str(failed)), getattr(failed, "code", None)
        if not is_url(url) or (isinstance(failed, ConnectionError | ValueError) and text == str(failed)):
            raise
        if isinstance(failed, ValueError):
            raise ValueError(text) from None
        if isinstance(failed, urllib.error.HTTPError):
            failed.close()  # it is the answer, too, and holds the connection
        if isinstance(failed, FileNotFoundError) or code == http.HTTPStatus.NOT_FOUND:
            raise FileNotFoundError(f"there is no file {name}.") from None
        if isinstance(failed, PermissionError) or code in _DENIED or "Credentials" in type(failed).__name__:
            hint = "set the credentials that the store asks for"
            raise PermissionError(f"{name} may not be read: {text}. Hint: {hint}.") from None
        raise ConnectionError(f"cannot download {name}: {text}. Hint: {_HINT}.") from None
