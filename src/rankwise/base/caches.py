"""Folders for what is kept between runs, a lock between processes, and messages about what is not kept.

A cache only saves time: what is missing, damaged or cannot be written is computed again. No home folder and no
writable folder are needed; without them a warning is issued once per process. Numba is not imported here, so that the
command line's help stays quick.
"""

import atexit
import contextlib
import functools
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from rankwise.base.progress import is_shown

_warned: list[str] = []
_announced: list[bool] = []
_progress: list[bool | None] = []  # of the whole process, as kernels are compiled in any thread


def folder() -> Path | None:
    """Return the library's cache folder: ``$RANKWISE_CACHE``, else the system's, such as ``~/.cache/rankwise``.

    On Linux ``$XDG_CACHE_HOME`` replaces ``~/.cache``. None for a user without a home. The folder need not exist, nor
    be writable.
    """
    chosen = os.environ.get("RANKWISE_CACHE")
    if chosen:
        return Path(os.path.expanduser(chosen))  # noqa: PTH111 (Path's own raises where there is no home)
    return _user_cache("rankwise")


def _user_cache(program: str) -> Path | None:
    """Return the folder where a program caches files of this user; None for a user without a home."""
    import platformdirs

    try:
        path = Path(platformdirs.user_cache_dir(program, appauthor=False))
    except (RuntimeError, KeyError):  # a user id without a name, as in many containers
        return None
    return path if path.is_absolute() else None


@functools.cache
def scratch() -> Path:
    """Create a temporary folder, which is removed when the process ends."""
    try:
        path = Path(tempfile.mkdtemp(prefix="rankwise-"))
    except FileNotFoundError:  # on a read-only system, a file system in memory may be left
        path = Path(tempfile.mkdtemp(prefix="rankwise-", dir="/dev/shm"))
    atexit.register(_remove, path, os.getpid())
    return path


def _remove(path: Path, owner: int) -> None:
    if os.getpid() == owner:  # not a process that was forked from it
        shutil.rmtree(path, ignore_errors=True)


def warn_no_cache(why: str) -> None:
    """Warn, once in a process, that something cannot be kept."""
    if not _warned:
        _warned.append(why)
        from rankwise import check

        hint = "set the environment variable RANKWISE_CACHE to a folder that can be written"
        what = f"rankwise works without a cache, and slower: {why}"
        check.warn(what, hint=hint, stacklevel=2)


def is_kept() -> bool:
    """Whether nothing has shown so far that files cannot be kept."""
    return not _warned


@contextlib.contextmanager
def file_lock(*paths: Path) -> Iterator[None]:
    """Lock between threads and processes, so that one does the work and the others find it done.

    The lock is the first of ``paths`` where a file can be created; the file is removed afterwards. Where none can be
    created or locked, everyone does the work, which must be correct too and only takes longer.
    """
    import filelock

    for path in paths:
        lock = filelock.FileLock(path)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            lock.acquire()
        except (OSError, NotImplementedError):  # the latter from a file system without locks
            if not os.path.lexists(path):
                continue
        try:
            yield
        finally:
            with contextlib.suppress(OSError):  # Windows removes it with the release
                path.unlink(missing_ok=True)
            lock.release()
        return
    yield


def kernel_folder() -> Path | None:
    """Return the folder for compiled kernels, which no upgrade removes; None where even a temporary one is missing.

    It is inside ``$NUMBA_CACHE_DIR``, else the library's cache folder, else beside the source. One that cannot be
    written counts if there are kernels in it, as in an image of a container.
    """
    named, ours, package = os.environ.get("NUMBA_CACHE_DIR"), folder(), Path(__file__).parents[1]
    for path in (named and Path(named), ours and ours / "numba", package / "__pycache__"):
        if path and (_writable(path) or os.path.isdir(path / "rankwise")):  # noqa: PTH112 (which never raises)
            return path / "rankwise"
    warn_no_cache(f"neither {package} nor a cache folder can be written, and kernels are compiled in every process")
    try:
        return scratch() / "numba" / "rankwise"
    except OSError:
        return None


def has_user_cache(program: str) -> bool:
    """Whether a program can cache files of this user. For one without a home, Numba would create a folder ``~``."""
    path = _user_cache(program)
    return path is not None and _writable(path)


def _writable(path: Path) -> bool:
    """Whether files can be created in a folder, which may have to be created first."""
    existing = next(folder for folder in (path, *path.parents) if os.path.lexists(folder) or folder == folder.parent)
    return os.path.isdir(existing) and os.access(existing, os.W_OK | os.X_OK)  # noqa: PTH112 (without reading it)


@contextlib.contextmanager
def announce_compiling(progress: bool | None) -> Iterator[None]:
    """Print a note when a kernel is compiled inside a ``with`` block, so that a pause of seconds is explained.

    None means on a terminal. The outermost block decides, and the note is printed once.
    """
    _progress.append(progress)
    try:
        yield
    finally:
        _progress.pop()


def note_compiling() -> None:
    """Print the note about compiling, unless it was printed before or progress is not shown."""
    progress = _progress[0] if _progress else None
    if _announced or sys.stderr is None or not is_shown(progress):
        return
    _announced.append(True)
    print("rankwise: compiling kernels for their first use (seconds each; kept for later runs)", file=sys.stderr)
