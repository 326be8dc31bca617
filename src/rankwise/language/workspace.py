"""Kept work: which work it is, whether it is the work at hand, and which parts of it are there already.

Work is identified by plain data: settings, digests of data and of users' code. A folder says in ``workspace.json`` of
which work it is, a checkpoint in the description of its model, a study among the attributes of its file.
"""

import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import Any, Self

from rankwise import check
from rankwise.base import files
from rankwise.base.arrays import Json
from rankwise.language import settings_files

FILE = "workspace.json"
FORMAT = 4
_OLDER = ("auto.json", "blend.json", "cross_validation.json", "frontier.json")  # of earlier versions, instead of FILE
_MOST = 2**26  # bytes


def refuse_existing(path: Path, kind: str, *, resume: bool) -> None:
    """Raise an error about kept work that is not to be resumed."""
    if path.exists() and not resume:
        hint = f"resume from the {kind} there with `resume=True`, or name another"
        raise FileExistsError(check.Message(f"{path} exists already and is kept", hint=hint))


@dataclass(frozen=True)
class Workspace:
    """Where work is kept, and what tells it from other work."""

    path: Path
    identity: Mapping[str, Any] = field(default_factory=dict)
    _: KW_ONLY
    what: str
    """The name of such work, as in "the folder holds another search", which ``kind`` and ``holds`` begin."""
    kind: str = "folder"
    holds: str = "holds"
    same: str = "settings and data"
    """What must not change between runs."""

    @property
    def record(self) -> Json:
        """What is written down of the work, by which it is recognised."""
        record: Json = json.loads(json.dumps({"format": FORMAT, "work": self.what, "identity": self.identity}))
        return record

    def check(self, record: object) -> None:
        """Raise an error that names the first part in which this work differs from that of a record, if one does.

        A record that is missing or of another format is that of another version.
        """
        before = record if isinstance(record, Mapping) else {}
        if before.get("format") != FORMAT or not isinstance(before.get("identity"), Mapping):
            raise self._other_version(before.get("format"))
        old: Any = {"work": before.get("work"), **before["identity"]}
        new: Any = {"work": self.what, **self.record["identity"]}
        parts: list[str] = []
        while new and isinstance(new, Mapping) and isinstance(old, Mapping | None):
            old = old or {}
            differing = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
            if differing is None:
                return
            parts.append(differing)
            old, new = old.get(differing), new.get(differing)
        large = any(isinstance(value, list | dict) for value in (old, new))
        raise check.error(
            f"the {self.kind} {self.holds} another {self.what} ({': '.join(parts)} differs)",
            got=None if large else f"{new!r}, and {old!r} in what is kept",
            where=str(self.path),
            hint=f"use the same {self.same}, or another {self.kind}",
        )

    def is_empty(self, *ours: str) -> bool:
        """Whether a folder is new, or holds nothing but ``ours`` and what a kill has left."""
        return not self.path.is_dir() or all(one.name in ours or files.is_part(one) for one in self.path.iterdir())

    def check_target(self, *, resume: bool) -> None:
        """Raise, before the work begins, unless the folder is new, empty, or of work that is to be resumed."""
        if self.path.exists() and not self.path.is_dir():
            what = f"{self.path} is a file, where a {self.what} is to be kept"
            raise NotADirectoryError(check.Message(what, hint="name a folder"))
        if not self.is_empty():
            refuse_existing(self.path, self.kind, resume=resume)
            if not self.part(FILE).is_file():
                if any(self.part(name).is_file() for name in _OLDER):
                    raise self._other_version()
                what = f"{self.path} is not the folder of a {self.what}, and is kept"
                raise FileExistsError(check.Message(what, hint="name a new folder"))
        files.check_writable_folder(self.path)

    def open(self, *, resume: bool) -> Self:
        """Begin the work in its folder, or resume it."""
        self.check_target(resume=resume)
        if self.part(FILE).is_file():
            self.check(self.state)
        else:
            self.keep({})
        return self

    @property
    def state(self) -> Json:
        """What was kept last."""
        return settings_files.load(self.part(FILE), f"the file of a {self.what}", as_json=True, most=_MOST).keys

    def keep(self, state: Json) -> None:
        """Replace the state."""
        self.write(FILE, json.dumps(self.record | state, indent=1) + "\n")

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder, in the place of the old one."""
        self.path.mkdir(parents=True, exist_ok=True)
        with files.replacing(self.part(name), force=True) as new:
            new.write_text(text, encoding="utf-8")

    def part(self, name: str) -> Path:
        """Return the place of a part of the work; what exists there is complete."""
        return self.path / name

    def _other_version(self, number: object = None) -> ValueError:
        what = f"the {self.kind} {self.holds} a {self.what} of another version of rankwise"
        got = None if number is None else f"format {number}, where this version has {FORMAT}"
        hint = f"remove it, name another {self.kind}, or use the version that wrote it"
        return check.error(what, got=got, where=str(self.path), hint=hint)
