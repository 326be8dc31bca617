"""Checks of what lies outside: files and optional packages."""

import difflib
import importlib
import importlib.util
import stat
import sys
from pathlib import Path
from types import ModuleType

from rankwise.check.errors import error


class MissingExtraError(ImportError):
    """An optional dependency is not installed; the message says which extra brings it."""


def extra(module: str, extra_name: str) -> ModuleType:
    """Import an optional dependency, or say which extra brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as missing:
        raise _not_installed(module, extra_name) from missing


def installed(module: str, extra_name: str) -> None:
    """Say which extra brings an optional dependency that is not there, without the time of importing it."""
    if module in sys.modules:
        there = sys.modules[module] is not None  # None is Python's mark for what must not be imported
    else:
        try:
            there = importlib.util.find_spec(module) is not None
        except ImportError:
            there = False
    if not there:
        raise _not_installed(module, extra_name)


def _not_installed(module: str, extra_name: str) -> MissingExtraError:
    text = f"{module} is not installed. Install it with: pip install 'rankwise[{extra_name}]'"
    return MissingExtraError(text)


def free_path(path: str | Path, *, force: bool = False) -> Path:
    """Return ``path`` if nothing lies there, or if the user allowed to replace what does."""
    path = Path(path)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists already and is kept. Hint: choose another name, or allow it with force.")
    return path


def readable(path: str | Path, *, pipe: bool = False) -> Path:
    """Return ``path`` if it is a file that exists; or a ``pipe``, which can be read but once and not searched."""
    path = Path(path)
    kind = stat.S_IFMT(path.stat().st_mode) if path.exists() else None
    if kind == stat.S_IFREG or (pipe and kind in (stat.S_IFIFO, stat.S_IFCHR)):
        return path
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(f"{path} is a folder, and a file is needed here.")
    if kind is not None:
        raise error("a file that can be read again is needed", got=str(path), hint="write what it gives to a file")
    beside = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
    near = difflib.get_close_matches(path.name, beside, n=1)
    raise FileNotFoundError(f"there is no file {path}." + (f" Did you mean {path.parent / near[0]}?" if near else ""))
