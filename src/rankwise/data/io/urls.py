"""Data at a URL: whether a path is one, and what reads it, which the wing ``remote`` brings."""

import contextlib
import functools
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from rankwise import check
from rankwise.base import hooks

_URL = re.compile(r"([a-z][a-z0-9+.-]+)://.", re.IGNORECASE)
_Reader = TypeVar("_Reader", bound=Callable[..., Any])


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
        copy = hooks.find("url", "fetch")(str(path))
        with check.renaming(str(copy), check.address(str(path))):
            return read(copy, *arguments, **options)

    return cast("_Reader", reader)


def errors(source: object) -> contextlib.AbstractContextManager[None]:
    """Return a context in which errors about a URL become those of files, without secrets; a path's stay."""
    found: Any = hooks.find("url", "errors")(source) if is_url(source) else contextlib.nullcontext()
    return cast("contextlib.AbstractContextManager[None]", found)


def scanned(source: str) -> str:
    """Return what polars reads: a path, or a URL; of one with a password, which polars does not send, the copy."""
    return str(hooks.find("url", "scanned")(source)) if is_url(source) else source


def versions(sources: Sequence[object]) -> list[str]:
    """Return the versions of those that are URLs, to compare after reading; of one without, it is empty."""
    return [file.version for source in sources if is_url(source) for file in hooks.find("url", "files")(source)[0]]


def parquet_urls(url: str) -> list[str]:
    """Return the URL of a Parquet file, or those of all in a folder in the order of their names, for polars to read."""
    found: list[str] = hooks.find("url", "parquet")(url)
    return found


def resume(url: str, part: Path, name: str, size: int | None, otherwise: str) -> None:
    """Download a URL of a web server into ``part``, from where it ends; ``otherwise`` is what else to do at a break."""
    hooks.find("url", "resume")(url, part, name, size, otherwise)
