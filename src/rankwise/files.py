"""Files that are written: their place is checked before the work begins, and they are there whole or not at all.

A file is written under another name beside its place and then renamed. What was there before stays until the new file
is complete: on a full disk, after a crash, and for whoever reads it meanwhile.
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

_PART = re.compile(r"\.rankwise-[0-9a-f]{16}\.part")
_OLD = 86_400.0
"""After so many seconds without a change, an unfinished file is no longer being written."""
_LOOKED_AT = 10_000


def part_in(folder: Path) -> Path:
    """Give a free name in a folder for what is not complete yet; no other program makes such names."""
    return folder / f".rankwise-{secrets.token_hex(8)}.part"


def is_part(path: Path) -> bool:
    """Tell what is not complete yet, or was left so by a process that was killed."""
    return _PART.fullmatch(path.name) is not None


def ready(path: str | Path, *, force: bool = False) -> Path:
    """Check that a file can be written to ``path``, by trying to; gives where it will lie, behind symbolic links.

    Permissions alone say too little: whoever is root has them all, also on a file system that cannot be written.

    >>> ready("nowhere/scores.txt")
    Traceback (most recent call last):
    FileNotFoundError: there is no folder nowhere to write scores.txt into. Hint: create it first: mkdir -p nowhere.
    """
    path = Path(path)
    if is_device(path):
        return path
    path = check.free_path(behind_links(path), force=force)
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, where a file is to be written. Hint: name a file inside it.")
    _try_writing(path.parent, path.name)
    return path


def ready_folder(path: str | Path) -> Path:
    """Check that files can be written into the folder ``path``, which is made later, with its parents, if need be."""
    path = Path(path)
    there = next(one for one in (path, *path.parents) if one.exists() or one == one.parent)
    _try_writing(there, path.name)
    return path


def is_device(path: Path) -> bool:
    """Tell devices, pipes and sockets, such as /dev/stdout, which are written to and never replaced."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def behind_links(path: Path) -> Path:
    """Where a symbolic link leads: the link itself is the user's and stays."""
    return Path(os.path.realpath(path)) if path.is_symlink() else path


@contextlib.contextmanager
def replacing(path: str | Path, *, force: bool = False) -> Iterator[Path]:
    """Give the name of a new file that takes the place of ``path`` only once it has been written in full."""
    path = ready(path, force=force)
    with telling(path):
        if is_device(path):
            with _copied_to(path) as new:
                yield new
        else:
            with _renamed_to(path, force=force) as new:
                yield new


@contextlib.contextmanager
def _renamed_to(path: Path, *, force: bool) -> Iterator[Path]:
    """Give the name of a file that is renamed when it is complete."""
    clear(path.parent)
    new = part_in(path.parent)
    try:
        yield new
        _settle_file(new)
        if path.exists():
            with contextlib.suppress(OSError):
                shutil.copymode(path, new)
        put(new, path, force=force)
    finally:
        new.unlink(missing_ok=True)


@contextlib.contextmanager
def telling(path: Path) -> Iterator[None]:
    """Name the file that could not be written, whichever library says so, and in whichever kind of error."""
    try:
        yield
    except Exception as failed:
        rust = re.search(r"\(os error (\d+)\)", str(failed))  # how libraries written in Rust end their errors
        number = int(rust[1]) if rust else getattr(failed, "errno", None)
        name = getattr(failed, "filename", None)
        if number is None or not (name is None or is_part(Path(os.fsdecode(name)))):
            raise
        raise OSError(number, os.strerror(number), str(path)) from failed


def put(new: Path, path: Path, *, force: bool) -> None:
    """Rename a complete file into its place; unless ``force``, not onto one that has appeared meanwhile."""
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
    settle(path.parent)


def settle(folder: Path) -> None:
    """Make the names in a folder outlive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def clear(folder: Path) -> None:
    """Remove what processes that were killed have left unfinished in a folder, a day ago or earlier."""
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for entry in itertools.islice(entries, _LOOKED_AT):
            if is_part(Path(entry.path)):
                with contextlib.suppress(OSError):
                    if not is_old(Path(entry.path)):
                        continue
                    if entry.is_dir(follow_symlinks=False):
                        shutil.rmtree(entry.path, ignore_errors=True)
                    else:
                        Path(entry.path).unlink()


def is_old(path: Path) -> bool:
    """Whether nobody has changed a file for a day."""
    return path.lstat().st_mtime < time.time() - _OLD


def _try_writing(folder: Path, name: str) -> None:
    if not folder.is_dir():
        if folder.exists():
            raise NotADirectoryError(f"{folder} is no folder, and {name} cannot be written into it.")
        raise FileNotFoundError(
            f"there is no folder {folder} to write {name} into. Hint: create it first: mkdir -p {folder}."
        )
    trial = part_in(folder)
    try:
        with contextlib.suppress(FileNotFoundError):
            (folder / name).lstat()  # from Python 3.14 on exists() is silent about a name that is too long
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as failed:
        why = (failed.strerror or str(failed)).lower()
        raise type(failed)(
            f"{name} cannot be written into the folder {folder}: {why}. Hint: choose another folder."
        ) from None


def _settle_file(path: Path) -> None:
    """Bring a file to the disk: some systems tell only then that there is no space for it."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


@contextlib.contextmanager
def _copied_to(device: Path) -> Iterator[Path]:
    """Give the name of a file whose content goes to a device when it is complete."""
    with tempfile.TemporaryDirectory() as folder:
        new = part_in(Path(folder))
        yield new
        with new.open("rb") as source, device.open("wb") as out:
            shutil.copyfileobj(source, out)
