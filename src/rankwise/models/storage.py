"""A model on disk: a folder with the library's own file and ``rankwise.json``. No pickle.

``rankwise.json`` names the other files with their lengths and SHA-256, and carries a checksum of itself: a folder is
read only if every byte is what was written. The card, ``README.md``, is for people: it is not read, and may be edited;
an edited one is kept when the model is replaced. Writing never damages what is there. A new folder is filled beside its
place and renamed. In a folder that is replaced, new files get names that nobody else chooses, and the new
``rankwise.json``, put in the place of the old by one rename, is what makes them the model; then the files that the old
one listed go, and no others: whatever else lies there is the user's. A process that is killed anywhere in between
leaves either the old model or the new one. Of several that save at once the last one wins, and whoever loads meanwhile
reads one of their models.

Files that other programs know by their names, also in subfolders, are the ``contents`` of ``rankwise.json``, and their
folder is replaced as a whole. The old one is moved aside, to ``NAME.old-…``, and comes back if the new one cannot take
its place. Then its listed files are deleted, and all others move into the new folder; those that cannot, or all of them
where the list is damaged, stay aside.
"""

import contextlib
import hashlib
import io
import json
import os
import platform
import re
import secrets
import shutil
import warnings
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise._version import __version__
from rankwise.base import files
from rankwise.base.arrays import Column, Json

DESCRIPTION, CARD = "rankwise.json", "README.md"
FORMAT = 1
_QUERIES = "training_queries.bin"
_SEAL = b"\n<!-- written by rankwise, sha256 "
_PLAIN = str | int | float | bool | None
_ATTEMPTS = 100  # to read a model, since another one may take its place meanwhile


def check_model_target(path: str | Path, *, force: bool = False) -> Path:
    """Check, before the work begins, that a model can be written to the folder ``path``; gives where it will lie."""
    path = files.resolve_link(Path(path))
    check.free_path(path, force=force)
    if not path.exists():
        return files.check_writable(path)
    if not (path / DESCRIPTION).is_file():
        what = f"{path} is not a model of rankwise and is kept"
        raise FileExistsError(check.Message(what, hint="choose another name"))
    return files.check_writable_folder(path)


def write(
    path: str | Path,
    description: Json,
    contents: Mapping[str, bytes],
    *,
    fill: Callable[[Path], None] | None = None,
    card: str = "",
    force: bool = False,
) -> Path:
    """Write a model and its ``card`` to the folder ``path``; with ``force`` in the place of the model that is there.

    ``fill`` writes files that keep their names, of any size, into a folder.
    """
    path, readme = check_model_target(path, force=force), _sealed(card.encode()) if card else b""
    with files.rename_errors(path):
        if fill is None and path.exists():
            _replace(path, description, contents, readme)
            return path
        files.clear(path.parent)
        new = files.part_in(path.parent)
        new.mkdir()
        try:
            if fill is not None:
                fill(new)
                paths = sorted(file for file in new.rglob("*") if file.is_file())
                listed = {file.relative_to(new).as_posix(): _entry(file, sync=True) for file in paths}
                description = {**description, "contents": listed}
            for name, content in {**contents, **({CARD: readme} if readme else {})}.items():
                _put(new / name, content)
            _put(new / DESCRIPTION, text(description, contents, {role: role for role in contents}))
            files.sync_folder(new)
            if path.exists() or not _renamed(new, path):
                check_model_target(path, force=force)
                _replace(path, description, contents, readme) if fill is None else _exchange(path, new)
        finally:
            shutil.rmtree(new, ignore_errors=True)
    return path


def read(path: str | Path) -> tuple[Json, dict[str, bytes]]:
    """Read a model's description and files, and verify every byte."""
    path = Path(path)
    if path.name == DESCRIPTION:
        path = path.parent
    if not path.exists():
        raise FileNotFoundError(f"there is no model {check.printable(check.address(str(path)))}.")
    if not (path / DESCRIPTION).is_file():
        raise check.error(
            "not a model of rankwise",
            got=f"a {'folder without ' + DESCRIPTION if path.is_dir() else 'single file'}",
            where=str(path),
            hint="pass the folder that save() or 'rankwise train' wrote; in Python, rw.wrap takes models of libraries",
        )
    for _ in range(_ATTEMPTS):
        content = (path / DESCRIPTION).read_bytes()
        try:
            description = _parse(path, content)
            return description, _contents(path, description)
        except ValueError as damaged:
            broken = damaged
            if (path / DESCRIPTION).read_bytes() == content:
                break  # nobody has replaced it meanwhile
    raise broken


def is_interrupted(path: str | Path) -> bool:
    """Whether a folder holds a model whose training was interrupted."""
    try:
        description, _ = read(path)
    except (OSError, ValueError):
        return False
    return description.get("stopped") == "interrupted"


def verify(
    path: str | Path,
    description: Json,
    hint: str = "get the folder again, train anew, or open what is there: rw.rerank.Reranker(folder)",
) -> None:
    """Verify every byte of the files that keep their names, which :func:`read` does not read."""
    path = Path(path)
    with malformed_as_error(path):
        for name, entry in description["contents"].items():
            file = path / name
            if not _is_inside(file, path) or not file.is_file() or _entry(file) != entry:
                got = f"{name} is missing, or has other contents than were written"
                raise _damaged(path, got, hint)


@contextlib.contextmanager
def malformed_as_error(path: str | Path) -> Iterator[None]:
    """Name the model in errors, and report a malformed description."""
    try:
        with check.naming(path):
            yield
    except (AttributeError, IndexError, KeyError, OverflowError, RuntimeError, TypeError) as wrong:
        raise _damaged(path, f"{DESCRIPTION} is malformed ({type(wrong).__name__}: {wrong})") from None


def npz(arrays: Mapping[str, ArrayLike]) -> bytes:
    """Return arrays as an ``.npz`` file."""
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)  # type: ignore[arg-type]  # names are not among its options
    return buffer.getvalue()


def training_queries(hashes: NDArray[np.uint64] | None) -> dict[str, bytes]:
    """Return the file of the sorted hashes of training queries: 8 bytes each, the least first; none if unknown."""
    return {} if hashes is None else {_QUERIES: hashes.astype("<u8").tobytes()}


def read_training_queries(files: Mapping[str, bytes]) -> NDArray[np.uint64] | None:
    """Return the hashes of training queries from the files of a model; None for models of older versions."""
    if _QUERIES not in files:
        return None
    content = files[_QUERIES]
    hashes = np.frombuffer(content[: len(content) // 8 * 8], "<u8").astype(np.uint64)
    if len(content) % 8 or (hashes[1:] <= hashes[:-1]).any():
        raise _damaged(_QUERIES, "hashes of training queries that are not sorted")
    return hashes


class InvalidModelError(Exception):
    """Content that no saved model has: what, and where."""

    def __init__(self, got: str, where: str = "") -> None:
        super().__init__(got, where)
        self.got, self.where = got, where


@contextlib.contextmanager
def rejecting() -> Iterator[None]:
    """Raise an :class:`InvalidModelError` within the context as the error that users see."""
    try:
        yield
    except InvalidModelError as invalid:
        raise check.error(
            "the model file is damaged or forged",
            got=invalid.got,
            where=invalid.where,
            hint="obtain the model from a trusted source, or train anew",
        ) from None


@contextlib.contextmanager
def inside(where: str) -> Iterator[None]:
    """Name the part of a file that an :class:`InvalidModelError` within the context is about."""
    try:
        yield
    except InvalidModelError as invalid:
        raise InvalidModelError(invalid.got, where) from None


def arrays(content: bytes) -> dict[str, Column]:
    """Read what :func:`npz` returned; a compressed file is rejected, since a small one could fill the memory."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(part.file_size for part in archive.infolist())
    if unpacked > len(content):
        raise check.error("arrays must be stored as they are", got=f"{unpacked:,} bytes in a file of {len(content):,}")
    with np.load(io.BytesIO(content), allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def plain(value: object) -> Any:
    """Turn a parameter into what JSON can hold; anything unusual becomes its text, a function its name."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, dict):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | np.ndarray):
        return [plain(inner) for inner in value]
    if isinstance(value, _PLAIN):
        return value
    if " at 0x" not in str(value):
        return str(value)
    return str(getattr(value, "name", getattr(value, "__name__", type(value).__name__)))  # not an address


def _contents(path: Path, description: Json) -> dict[str, bytes]:
    """Read the files that a description lists."""
    contents = {}
    with contextlib.ExitStack() as stack:
        opened = {}
        for role, entry in description["files"].items():  # all are opened first: then they may be replaced
            try:
                opened[role] = stack.enter_context((path / entry["name"]).open("rb"))
            except (FileNotFoundError, IsADirectoryError):
                raise _damaged(path, f"{entry['name']} is missing") from None
        for role, file in opened.items():
            entry = description["files"][role]
            size = os.fstat(file.fileno()).st_size
            if size != entry["bytes"]:
                raise _damaged(path, f"{entry['name']} has {size:,} bytes and had {entry['bytes']:,}")
            contents[role] = file.read()
            if _digest(contents[role]) != entry["sha256"]:
                raise _damaged(path, f"{entry['name']} has other contents than were written")
    return contents


def _renamed(new: Path, path: Path) -> bool:
    """Whether a new folder could be moved to its place; False if another one has appeared there."""
    try:
        new.rename(path)
    except OSError:
        if not path.exists():
            raise
        return False
    files.sync_folder(path.parent)
    return True


def _exchange(path: Path, new: Path) -> None:
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
            elif name == DESCRIPTION or name in (listed or ()):
                entry.unlink()
            elif not os.path.lexists(path / name):
                (path / name).parent.mkdir(parents=True, exist_ok=True)
                entry.rename(path / name)
    if old.exists():
        reason = f"its {DESCRIPTION} is damaged" if listed is None else "they could not be moved into the new one"
        warnings.warn(
            f"files of the folder that was replaced are kept in {old}: {reason}", RuntimeWarning, stacklevel=4
        )


def _replace(path: Path, description: Json, contents: Mapping[str, bytes], readme: bytes) -> None:
    """Replace the model in a folder."""
    files.clear(path)
    token = secrets.token_hex(8)
    names = {role: f"{Path(role).stem}-{token}{Path(role).suffix}" for role in contents}
    part, card, complete = files.part_in(path), files.part_in(path), False
    try:
        for role, content in contents.items():
            _put(path / names[role], content)
        if readme:
            _put(card, readme)
        _put(part, text(description, contents, names))
        complete = True
        files.sync_folder(path)
        older = (_listed(path) or set()) - {CARD}
        part.replace(path / DESCRIPTION)
        files.sync_folder(path)
        if not (edited := _edited(path / CARD)):
            card.replace(path / CARD) if readme else _remove(path, {CARD})
    except BaseException:
        if not complete or part.exists():  # else the new model is in place, and an interruption came after
            _remove(path, {*names.values(), part.name})
        raise
    finally:
        _remove(path, {card.name})
    # Files of ours, told by their names, that a process wrote and was killed before they became a model, a day ago.
    shapes = (rf"{re.escape(Path(role).stem)}-[0-9a-f]{{16}}{re.escape(Path(role).suffix)}" for role in contents)
    ours = re.compile("|".join(shapes))
    with contextlib.suppress(OSError):
        abandoned = {one.name for one in path.iterdir() if ours.fullmatch(one.name) and files.is_old(one)}
        _remove(path, (older | abandoned) - (_listed(path) or set()))
    if edited:
        warnings.warn(f"{path / CARD} was edited and is kept: is it still true?", UserWarning, stacklevel=5)


def _sealed(card: bytes) -> bytes:
    """Return a card with its checksum, in a comment at its end, by which an edited one is recognised."""
    return card + _SEAL + f"{_digest(card)} -->\n".encode()


def _edited(card: Path) -> bool:
    """Whether there is a card that is not as it was written."""
    try:
        content = card.read_bytes()
    except FileNotFoundError:
        return False
    except OSError:
        return True
    return content != _sealed(content.rpartition(_SEAL)[0])


def _listed(path: Path) -> set[str] | None:
    """The files of the model in a folder; None if its description is damaged."""
    try:
        with malformed_as_error(path):
            description = _parse(path, (path / DESCRIPTION).read_bytes())
            names = (entry["name"] for entry in description["files"].values())
            return {*names, *description.get("contents", {}).keys()}
    except (OSError, ValueError):
        return None


def _remove(path: Path, names: set[str]) -> None:
    for name in names:
        with contextlib.suppress(OSError, ValueError):  # a forged name may be none of a file
            if _is_inside((path / name).parent, path):
                (path / name).unlink()


def _is_inside(file: Path, folder: Path) -> bool:
    return file.resolve().is_relative_to(folder.resolve())


def _entry(path: Path, *, sync: bool = False) -> Json:
    """Return the length and digest of a file of any size; with ``sync``, once it has reached the disk."""
    with path.open("rb") as file:
        if sync:
            os.fsync(file.fileno())
        return {"bytes": os.fstat(file.fileno()).st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _put(path: Path, content: bytes) -> None:
    with path.open("xb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def versions() -> dict[str, str]:
    """Return the versions that a model is made with."""
    return {"rankwise": __version__, "python": platform.python_version(), "numpy": np.__version__}


def text(description: Json, files: Mapping[str, bytes], names: Mapping[str, str]) -> bytes:
    """Return the content of ``rankwise.json`` for these files under these names."""
    listed = {
        role: {"name": names[role], "bytes": len(content), "sha256": _digest(content)}
        for role, content in files.items()
    }
    made_with = versions() | description.get("versions", {})
    complete = {"format": FORMAT, **description, "versions": made_with, "files": listed}
    return (json.dumps({**complete, "checksum": _checksum(complete)}, indent=1, ensure_ascii=False) + "\n").encode()


def _parse(path: Path, content: bytes) -> Json:
    """Read a description and verify it."""
    try:
        description = json.loads(content)
        checksum = description.pop("checksum")
        number = check.integer("format", description["format"], least=1)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise _damaged(path, f"{DESCRIPTION} cannot be read") from None
    if number > FORMAT:
        made_with = description.get("versions")
        version = made_with.get("rankwise", "unknown") if isinstance(made_with, dict) else "unknown"
        raise check.error(
            f"the model was written by a later rankwise ({version})",
            got=f"format {number}, where this one reads up to {FORMAT}",
            where=str(path),
            hint="update rankwise",
        )
    if _checksum(description) != checksum:
        raise _damaged(path, f"{DESCRIPTION} has other contents than were written")
    listed = description.get("files")
    if not isinstance(listed, dict) or not all(map(_is_file, listed.values())):
        raise _damaged(path, f"{DESCRIPTION} does not say which files there are")
    return dict(description)


def _is_file(entry: object) -> bool:
    """Whether a description names a file, and one inside its own folder."""
    kinds = {"name": str, "bytes": int, "sha256": str}
    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), kind) for key, kind in kinds.items()):
        return False
    name = entry["name"]
    return name not in ("", ".", "..", DESCRIPTION) and not set(name) & set("/\\\0")


def _checksum(description: Json) -> str:
    return _digest(json.dumps(description, sort_keys=True).encode())


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _damaged(path: str | Path, how: str, hint: str = "get the folder again, or train anew") -> ValueError:
    return check.error("the model is damaged", got=how, where=str(path), hint=hint)
