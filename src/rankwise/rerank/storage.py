"""A reranker on disk: a Hugging Face folder whose ``rankwise.json`` lists the files of the model.

The folder is filled under another name beside its place and then renamed. A folder that is replaced is first moved
aside, to ``NAME.old-…``, and comes back if the new one cannot take its place. Then the files that its ``rankwise.json``
lists are deleted, and all others move into the new folder. Files that cannot move, or all of them where that list is
damaged, stay aside.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path

from rankwise import check, files
from rankwise.arrays import Json
from rankwise.models import storage

NAME = "reranker"
"""Kind of the model in ``rankwise.json``."""


def write(path: str | Path, description: Json, fill: Callable[[Path], None], *, force: bool = False) -> Path:
    """Write a model to the folder ``path``; ``fill`` writes its files into a folder."""
    path = storage.ready(path, force=force)
    with files.rename_errors(path):
        files.clear(path.parent)
        new = files.part_in(path.parent)
        new.mkdir()
        try:
            fill(new)
            paths = sorted(file for file in new.rglob("*") if file.is_file())
            contents = {file.relative_to(new).as_posix(): _checksum(file) for file in paths}
            text = storage.text({"ranker": NAME, **description, "contents": contents}, {}, {})
            (new / storage.DESCRIPTION).write_bytes(text)
            files.sync_folder(new)
            if path.exists():
                _replace(path, new)
            else:
                new.rename(path)
                files.sync_folder(path.parent)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return path


def read(path: str | Path) -> Json:
    """Read a model's description, and verify every byte of its files."""
    path = Path(path)
    description, _ = storage.read(path)
    if description.get("ranker") != NAME:
        raise check.error(
            "the folder holds a model of another kind",
            got=repr(description.get("ranker")),
            where=str(path),
            hint="open it with rw.load",
        )
    if "checkpoint" in description:
        hint = "resume it: fit(…, resume=True)"
        raise check.error("a checkpoint holds a training that has not ended", where=str(path), hint=hint)
    with storage.making_sense(path):
        for name, expected in description["contents"].items():
            file = path / name
            inside = file.resolve().is_relative_to(path.resolve())
            if not inside or not file.is_file() or _checksum(file) != expected:
                raise check.error(
                    "the model is damaged",
                    got=f"{name} is missing, or has other contents than were written",
                    where=str(path),
                    hint="get the folder again, train anew, or open what is there: rw.rerank.Reranker(folder)",
                )
    return description


def _replace(path: Path, new: Path) -> None:
    """Rename a complete folder into the place of another, and keep all files there that are not of a model."""
    old = path.with_name(f"{path.name}.old-{secrets.token_hex(8)}")  # not a name that is ever cleared away
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    files.sync_folder(path.parent)
    listed = _listed(old)
    entries = [] if listed is None else [*sorted(old.rglob("*"), reverse=True), old]  # contents before their folder
    for entry in entries:
        name = entry.relative_to(old).as_posix()
        with contextlib.suppress(OSError):
            if entry.is_dir() and not entry.is_symlink():
                entry.rmdir()
            elif name in (listed or ()):
                entry.unlink()
            elif not os.path.lexists(path / name):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                entry.rename(path / name)
    if old.exists():
        reason = "its rankwise.json is damaged" if listed is None else "they could not be moved into the new one"
        warnings.warn(
            f"files of the folder that was replaced are kept in {old}: {reason}", RuntimeWarning, stacklevel=4
        )


def _listed(folder: Path) -> set[str] | None:
    """Return the files that a model's description lists; None where it is damaged."""
    try:
        with storage.making_sense(folder):
            description, _ = storage.read(folder)
            names = {file["name"] for file in description["files"].values()}
            return {storage.DESCRIPTION, *names, *description.get("contents", {}).keys()}
    except (OSError, ValueError):
        return None


def _checksum(path: Path) -> Json:
    with path.open("rb") as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
