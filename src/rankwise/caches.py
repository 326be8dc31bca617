"""Where things are kept between runs, and how the library does without.

A cache only saves time: whatever is missing, damaged or cannot be written is made again. Nothing here needs a home
folder or one that can be written, and that nothing can be kept is said once in a process.
"""

import atexit
import contextlib
import fcntl
import functools
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path

_said: list[str] = []


def folder() -> Path | None:
    """The library's cache folder: ``$RANKWISE_CACHE``, else ``$XDG_CACHE_HOME/rankwise``, else ``~/.cache/rankwise``.

    None for a user who has no home. The folder need not exist, nor be one that can be written.
    """
    chosen = os.environ.get("RANKWISE_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))  # noqa: PTH111 (Path's own raises where there is no home)
    shared = _shared()
    return shared / "rankwise" if shared else None


def _shared() -> Path | None:
    """Where programs keep their caches for this user."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if named.is_absolute():  # its standard says to ignore any other
        return named
    try:
        return Path.home() / ".cache"
    except (RuntimeError, KeyError):  # a number without a name, as in many containers
        return None


@functools.cache
def scratch() -> Path:
    """Make a folder for what must lie on a disk and has no better place; it goes when the process ends."""
    try:
        place = Path(tempfile.mkdtemp(prefix="rankwise-"))
    except FileNotFoundError:  # read-only systems have memory that looks like a disk
        place = Path(tempfile.mkdtemp(prefix="rankwise-", dir="/dev/shm"))
    atexit.register(_remove, place, os.getpid())
    return place


def _remove(place: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a process that was forked from it
        shutil.rmtree(place, ignore_errors=True)


def missing(why: str) -> None:
    """Warn, once in a process, that something could not be kept."""
    if not _said:
        _said.append(why)
        warnings.warn(
            f"rankwise works without a cache, and slower: {why}. "
            "Hint: set the environment variable RANKWISE_CACHE to a folder that can be written.",
            stacklevel=2,
        )


@contextlib.contextmanager
def turn(*locks: Path) -> Iterator[None]:
    """Let one thread of one process at a time do what the others then find done.

    The first of ``locks`` that can be made is a file that exists meanwhile. Where files cannot be made or locked, all
    do it at once, which must be right too and only costs more.
    """
    for lock in locks:
        try:
            lock.parent.mkdir(parents=True, exist_ok=True)
            file = lock.open("ab")
        except OSError:
            continue
        with file:
            with contextlib.suppress(OSError):
                fcntl.flock(file, fcntl.LOCK_EX)
            try:
                yield
            finally:
                with contextlib.suppress(OSError):
                    lock.unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    fcntl.flock(file, fcntl.LOCK_UN)  # closing alone would leave it to a process forked meanwhile
        return
    yield


def place_for_kernels() -> Path | None:
    """Where Numba is to keep what it compiles; None where it finds a place itself, or there is none.

    It knows ``$NUMBA_CACHE_DIR``, the folder of the source and the user's cache, and takes the home of a user without
    one for a folder called ``~``.
    """
    named, shared, own = os.environ.get("NUMBA_CACHE_DIR"), _shared(), folder()
    if (named and _writable(Path(named))) or (shared and _writable(shared / "numba")):
        return None
    package = Path(__file__).parent
    sources = [package, *(Path(at, name) for at, names, _ in os.walk(package) for name in names)]
    if all(_writable(source / "__pycache__") for source in sources if source.name != "__pycache__"):
        return None
    if own and _writable(own):
        return own / "numba"
    missing(f"neither {package} nor a cache folder can be written, and kernels are compiled in every process")
    try:
        return scratch() / "numba"
    except OSError:
        return None


def _writable(path: Path) -> bool:
    """Whether files can be made in a folder, which may be made first."""
    there = next(one for one in (path, *path.parents) if os.path.lexists(one) or one == one.parent)
    return os.path.isdir(there) and os.access(there, os.W_OK | os.X_OK)  # noqa: PTH112 (nor may it be looked into)
