"""A reranker on disk: a Hugging Face folder, with ``rankwise.json`` beside the model that says what every file holds.

The folder is filled under another name beside its place and then renamed. One that is replaced is moved aside first, as
``NAME.old-…``, and comes back if the new one cannot take its place; a process that is killed between the two leaves it
there. What others put into it moves into the new one.
"""

import contextlib
import hashlib
import os
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path

from rankwise import check, files
from rankwise.plain import Json
from rankwise.rankers import storage

NAME = "reranker"
"""What ``rankwise.json`` calls the model."""


def write(path: str | Path, description: Json, fill: Callable[[Path], None], *, force: bool = False) -> Path:
    """Write a model to the folder ``path``, by a function that fills a folder."""
    path = storage.ready(path, force=force)
    with files.rename_errors(path):
        files.clear(path.parent)
        new = files.part_in(path.parent)
        new.mkdir()
        try:
            fill(new)
            contents = {_name(new, one): _about(one) for one in sorted(new.rglob("*")) if one.is_file()}
            whole = {"ranker": NAME, **description, "contents": contents}
            (new / storage.DESCRIPTION).write_bytes(storage.text(whole))
            _put(new, path)
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
        for name, about in description["contents"].items():
            place = path / name
            if not place.resolve().is_relative_to(path.resolve()) or not place.is_file() or _about(place) != about:
                raise check.error(
                    "the model is damaged",
                    got=f"{name} is missing, or has other contents than were written",
                    where=str(path),
                    hint="get the folder again, train anew, or open what is there: rw.rerank.Reranker(folder)",
                )
    return description


def _put(new: Path, path: Path) -> None:
    """Put a folder that is complete into its place."""
    files.sync_folder(new)
    if not path.exists():
        new.rename(path)
        files.sync_folder(path.parent)
        return
    old = path.with_name(f"{path.name}.old-{secrets.token_hex(8)}")  # no name of those that are cleared away
    path.rename(old)
    try:
        new.rename(path)
    except BaseException:
        old.rename(path)
        raise
    with contextlib.suppress(OSError):
        for one in _of_others(old):
            (path / one).parent.mkdir(parents=True, exist_ok=True)
            (old / one).rename(path / one)
    files.sync_folder(path.parent)
    shutil.rmtree(old, ignore_errors=True)


def _of_others(folder: Path) -> list[str]:
    """The files in a model's folder that are not the model's."""
    try:
        description, _ = storage.read(folder)
    except (OSError, ValueError):
        return []
    ours = {storage.DESCRIPTION, *description.get("contents", {})}
    ours |= {about["name"] for about in description["files"].values()}
    return [_name(folder, one) for one in folder.rglob("*") if one.is_file() and _name(folder, one) not in ours]


def _name(folder: Path, one: Path) -> str:
    return one.relative_to(folder).as_posix()


def _about(one: Path) -> Json:
    with one.open("rb") as file:
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}
