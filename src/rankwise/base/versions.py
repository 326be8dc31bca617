"""What a report of a bug needs: versions of rankwise and of what it uses, caches, devices, and what is missing."""

import functools
import importlib.metadata
import importlib.util
import os
import platform
import re

from rankwise._version import __version__
from rankwise.base import caches
from rankwise.base.arrays import Json
from rankwise.base.tables import Table
from rankwise.base.threads import thread_count

_NEED = re.compile(r"^([A-Za-z0-9._-]+)[^;]*(?:;.*extra == ['\"](\w+)['\"])?")
_AS_WELL = {"xgboost": ("xgboost-cpu",)}
"""Distributions that hold the same modules under another name."""


def show_versions() -> None:
    """Print what a report of a bug needs: versions, caches, devices, and which extras are not installed.

    Nothing in it is secret: it holds no names of files but that of the cache folder, and no environment variables.
    """
    print(table().text())


def versions() -> Json:
    """Return what :func:`show_versions` prints, by name."""
    needed = _needed()
    return {
        "rankwise": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "processor": f"{platform.machine()}, {os.cpu_count()} cores, {thread_count()} threads",
        "libraries": {name: _version(name) for name in sorted({name for names in needed.values() for name in names})},
        "extras": {extra: all(map(_version, names)) for extra, names in sorted(needed.items()) if extra},
        "cache": _cache(),
        "device": _device(),
    }


def table(found: Json | None = None) -> Table:
    """Return the table that is printed."""
    found = versions() if found is None else found
    plain = [(name, found[name]) for name in ("rankwise", "python", "platform", "processor", "cache", "device")]
    libraries = [(name, version) for name, version in found["libraries"].items() if version]
    missing = [extra for extra, installed in found["extras"].items() if not installed]
    rows = [*plain, *libraries, ("extras missing", ", ".join(missing) or "none")]
    return Table(header=("", ""), rows=tuple(rows), align="ll")


@functools.cache
def _needed() -> dict[str, tuple[str, ...]]:
    """Return the distributions that the core, called "", and each extra for users require."""
    distributions: dict[str, tuple[str, ...]] = {}
    try:
        lines = importlib.metadata.requires("rankwise") or []
    except importlib.metadata.PackageNotFoundError:  # a checkout on the path
        lines = []
    for line in lines:
        need = _NEED.match(line)
        if need is not None and need[1] != "rankwise" and need[2] not in ("all", "dev"):
            distributions[need[2] or ""] = (*distributions.get(need[2] or "", ()), need[1])
    return distributions


def _version(name: str) -> str | None:
    for one in (name, *_AS_WELL.get(name, ())):
        try:
            version = importlib.metadata.version(one)
        except importlib.metadata.PackageNotFoundError:
            continue
        return version if one == name else f"{version} ({one})"
    return None


def _cache() -> str:
    folder = caches.folder()
    if folder is None:
        return "none: this user has no home folder"
    try:
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) if folder.is_dir() else 0
        existing = next(path for path in (folder, *folder.parents) if path.exists())
    except OSError:  # another user's home folder, as in containers
        return f"{folder}, cannot be read"
    return f"{folder}, {size / 1e6:.0f} MB" + ("" if os.access(existing, os.W_OK) else ", cannot be written")


def _device() -> str:
    if importlib.util.find_spec("torch") is None:
        return "CPU; torch is not installed"
    try:
        import torch
    except Exception as broken:  # a library of CUDA that is missing, for one: the very thing to report
        return f"CPU; torch cannot be imported: {broken}"
    if torch.cuda.is_available():
        return f"{torch.cuda.get_device_name()}, CUDA {torch.version.cuda}"
    return "CPU; torch sees no GPU"
