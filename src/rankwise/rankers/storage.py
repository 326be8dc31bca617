"""A model on disk: a folder with the library's own file and ``rankwise.json``. No pickle.

``rankwise.json`` names the other files with their lengths and SHA-256, and carries a checksum of itself: a folder is
read only if every byte is what was written. Writing never damages what is there. A new folder is filled beside its
place and renamed. In a folder that is replaced, new files get names that are free, and the new ``rankwise.json``, put
in the place of the old by one rename, is what makes them the model; then the old files go. A process that is killed
anywhere in between leaves either the old model or the new one.
"""

import contextlib
import hashlib
import json
import os
import platform
import secrets
import shutil
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import check
from rankwise._version import __version__

DESCRIPTION = "rankwise.json"
FORMAT = 1
_PLAIN = str | int | float | bool | None


def write(path: str | Path, description: dict[str, Any], files: dict[str, bytes], *, force: bool = False) -> Path:
    """Write a model to the folder ``path``; with ``force`` in the place of the model that is there."""
    path = check.free_path(path, force=force)
    if not path.parent.is_dir():
        raise FileNotFoundError(f"there is no folder {path.parent} to write {path.name} into. Cure: create it first.")
    if path.exists():
        if not (path / DESCRIPTION).is_file():
            raise FileExistsError(f"{path} is not a model of rankwise and is kept. Cure: choose another name.")
        _replace(path, description, files)
    else:
        _create(path, description, files)
    return path


def read(path: str | Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Read a model's description and files, and verify every byte."""
    path = Path(path)
    if path.name == DESCRIPTION:
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(f"there is no model {path}.")
    if not (path / DESCRIPTION).is_file():
        raise check.error(
            "not a model of rankwise",
            got=f"a {'folder without ' + DESCRIPTION if path.is_dir() else 'single file'}",
            where=str(path),
            cure="pass the folder that save() wrote; a library's own model file opens in that library",
        )
    description = _parse(path / DESCRIPTION)
    files = {}
    for role, about in description["files"].items():
        file = path / str(about["name"])
        if file.parent != path or not file.is_file():
            raise _damaged(path, f"{about['name']} is missing")
        content = file.read_bytes()
        if len(content) != about["bytes"]:
            raise _damaged(path, f"{file.name} has {len(content):,} bytes and had {about['bytes']:,}")
        if _digest(content) != about["sha256"]:
            raise _damaged(path, f"{file.name} has other contents than were written")
        files[role] = content
    return description, files


def plain(value: Any) -> Any:
    """Turn a parameter into what JSON can hold; anything unusual becomes its text."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    return value if isinstance(value, _PLAIN) else str(value)


def versions() -> dict[str, str]:
    """The versions that a model was made with."""
    return {"rankwise": __version__, "python": platform.python_version(), "numpy": np.__version__}


def _create(path: Path, description: dict[str, Any], files: dict[str, bytes]) -> None:
    new = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    new.mkdir()
    try:
        names = {role: role for role in files}
        for role, content in files.items():
            _put(new / names[role], content)
        _put(new / DESCRIPTION, _text(description, files, names))
        _settle(new)
        new.rename(path)
        _settle(path.parent)
    except BaseException:
        shutil.rmtree(new, ignore_errors=True)
        raise


def _replace(path: Path, description: dict[str, Any], files: dict[str, bytes]) -> None:
    there = {entry.name for entry in path.iterdir()}
    names = {role: _free_name(role, there) for role in files}
    part = path / f".{DESCRIPTION}.{secrets.token_hex(4)}.part"
    try:
        for role, content in files.items():
            _put(path / names[role], content)
        _put(part, _text(description, files, names))
        _settle(path)
        part.replace(path / DESCRIPTION)
        _settle(path)
    except BaseException:
        for name in (*names.values(), part.name):
            with contextlib.suppress(OSError):
                (path / name).unlink(missing_ok=True)
        raise
    # The old model's files, and what an earlier process may have left when it was killed.
    for name in there - {DESCRIPTION}:
        if any(_stem(name) == _stem(role) for role in files) or name.endswith(".part"):
            with contextlib.suppress(OSError):
                (path / name).unlink()


def _free_name(name: str, taken: set[str]) -> str:
    stem, suffix = Path(name).stem, Path(name).suffix
    tries = (name, *(f"{stem}-{number}{suffix}" for number in range(2, len(taken) + 3)))
    return next(one for one in tries if one not in taken)


def _stem(name: str) -> tuple[str, str]:
    return Path(name).stem.split("-")[0], Path(name).suffix


def _put(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _settle(folder: Path) -> None:
    """Make the names in a folder outlive a power cut, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _text(description: dict[str, Any], files: dict[str, bytes], names: dict[str, str]) -> bytes:
    about = {
        role: {"name": names[role], "bytes": len(content), "sha256": _digest(content)}
        for role, content in files.items()
    }
    whole = {"format": FORMAT, **description, "versions": versions() | description.get("versions", {}), "files": about}
    return (json.dumps({**whole, "checksum": _checksum(whole)}, indent=1, ensure_ascii=False) + "\n").encode()


def _parse(path: Path) -> dict[str, Any]:
    try:
        description = json.loads(path.read_bytes())
        checksum = description.pop("checksum")
        number = int(description["format"])
    except (ValueError, KeyError, TypeError, AttributeError):
        raise _damaged(path.parent, f"{DESCRIPTION} cannot be read") from None
    if number > FORMAT:
        raise check.error(
            f"the model was written by a later rankwise ({description.get('versions', {}).get('rankwise', 'unknown')})",
            got=f"format {number}, where this one reads up to {FORMAT}",
            where=str(path.parent),
            cure="update rankwise",
        )
    if _checksum(description) != checksum:
        raise _damaged(path.parent, f"{DESCRIPTION} has other contents than were written")
    return dict(description)


def _checksum(description: dict[str, Any]) -> str:
    return _digest(json.dumps(description, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: Path, how: str) -> ValueError:
    return check.error("the model is damaged", got=how, where=str(path), cure="get the folder again, or train anew")
