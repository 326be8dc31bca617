"""Writing files: their path is checked before the work begins, and a file is replaced as a whole or not at all.

A file is written under another name in the same folder and then renamed. The old file stays until the new one is
complete: on a full disk, after a crash, and for other processes that read it.
"""

import contextlib
import itertools
import os
import re
import secrets
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rankwise import check

_PART = re.compile(r"\.rankwise-[0-9a-f]{16}\.part(-journal|-wal|-shm|\.wal)?")  # what databases write beside it, too
_OLD = 86_400.0
"""Seconds without a change after which an unfinished file is no longer being written."""
_MOST_ENTRIES = 10_000


def part_in(folder: Path) -> Path:
    """Return an unused path in a folder for an unfinished file; no other program creates such names."""
    return folder / f".rankwise-{secrets.token_hex(8)}.part"


def is_part(path: Path) -> bool:
    """Whether a path is that of an unfinished file, which a killed process may have left."""
    return _PART.fullmatch(path.name) is not None


def check_writable(path: str | Path, *, force: bool = False) -> Path:
    """Check that a file can be written to ``path``, by creating one, and return its path behind symbolic links.

    Permissions are not enough: root has them all, even on a read-only file system.

    >>> check_writable("nowhere/scores.txt")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder nowhere to write scores.txt into. Hint: create it first: mkdir -p nowhere.
    """
    path = Path(path)
    if is_device(path):
        return path
    path = check.free_path(resolve_link(path), force=force)
    if path.is_dir():
        what = f"{path} is a folder, where a file is to be written"
        raise IsADirectoryError(check.Message(what, hint="name a file inside it"))
    _try_writing(path.parent, path.name)
    return path


def check_writable_folder(path: str | Path) -> Path:
    """Check that files can be written into the folder ``path``, which may be created later, with its parents."""
    path = Path(path)
    existing = next(folder for folder in (path, *path.parents) if folder.exists() or folder == folder.parent)
    _try_writing(existing, path.name)
    return path


def is_device(path: Path) -> bool:
    """Whether a path is a device, pipe or socket, such as /dev/stdout, which is written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def resolve_link(path: Path) -> Path:
    """Return the target of a symbolic link, so that the link itself is kept."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def replacing(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Yield the path of a new file that replaces ``path`` once it has been written in full."""
    path = check_writable(path, force=force)
    with rename_errors(path), _copied_to(path) if is_device(path) else _renamed_to(path, force=force) as new:
        yield new


@contextlib.contextmanager
def _renamed_to(path: Path, *, force: bool) -> Iterator[Path]:
    """Yield the path of a file that is renamed to ``path`` when it is complete."""
    clear(path.parent)
    new = part_in(path.parent)
    try:
        yield new
        with new.open("rb") as file:
            os.fsync(file.fileno())  # some systems report only then that there is no space
        if path.exists():
            with contextlib.suppress(OSError):
                shutil.copymode(path, new)
        move(new, path, force=force)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def rename_errors(path: Path) -> Iterator[None]:
    """Name ``path`` instead of an unfinished file in errors of a ``with`` block, whichever library raises them."""
    try:
        yield
    except Exception as failed:
        rust = re.search(r"\(os error (\d+)\)", str(failed))  # how libraries written in Rust end their errors
        number = int(rust[1]) if rust else getattr(failed, "errno", None)
        name = getattr(failed, "filename", None)
        if number is None or not (name is None or is_part(Path(os.fsdecode(name)))):
            raise
        raise OSError(number, os.strerror(number), str(path)) from failed


def move(new: Path, path: Path, *, force: bool) -> None:
    """Rename a complete file to ``path``; unless ``force``, not onto a file that has appeared meanwhile."""
    if force:
        new.replace(path)
    else:
        try:
            path.hardlink_to(new)
        except FileExistsError:
            check.free_path(path)
            raise
        except OSError:  # a file system without links
            new.replace(check.free_path(path))
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Write the entries of a folder to the disk, where the system can, so that they survive a power cut."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear(folder: Path) -> None:
    """Remove unfinished files that killed processes left in a folder a day ago or earlier."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _MOST_ENTRIES):
            if is_part(Path(entry.path)):
                with contextlib.suppress(OSError):
                    if not is_old(Path(entry.path)):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        Path(entry.path).unlink()


def is_old(path: Path) -> bool:
    """Whether a file has not been changed for a day."""
    return path.lstat().st_mtime < time.time() - _OLD


def _try_writing(folder: Path, name: str) -> None:
    if not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(f"{folder} is no folder, and {name} cannot be written into it.")
        what = f"there is no folder {folder} to write {name} into"
        raise FileNotFoundError(check.Message(what, hint=f"create it first: mkdir -p {folder}"))
    trial = part_in(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).lstat()  # from Python 3.14 on exists() is silent about a name that is too long
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as failed:
        why = (failed.strerror or str(failed)).lower()
        what = f"{name} cannot be written into the folder {folder}: {why}"
        raise type(failed)(check.Message(what, hint="choose another folder")) from None


@contextlib.contextmanager
def _copied_to(device: Path) -> Iterator[Path]:
    """Yield the path of a file that is copied to a device when it is complete."""
    with tempfile.TemporaryDirectory() as folder:
        new = part_in(Path(folder))
        yield new
        with new.open("rb") as source, device.open("wb") as out:
            shutil.copyfileobj(source, out)
