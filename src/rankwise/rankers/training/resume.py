"""Resuming long work: is this the same work, and which parts of it are there already.

Work is identified by plain data: settings, digests of data (:func:`fingerprint`) and of users' code. Checkpoints of
rankers and rerankers, folders of finished models (blends, cross-validations, searches) and studies compare it here.
"""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from rankwise import check, files
from rankwise.arrays import Json
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import mapped as disk
from rankwise.models import storage
from rankwise.rankers import table
from rankwise.rankers.training.loop import State
from rankwise.sparse import buffers

# What may change between a run and its continuation without making it another run.
FREE = ("rounds", "epochs", "patience", "progress", "checkpoint", "threads", "device", "processes", "dask")

_ALWAYS_HASHED = ("weights", "query_ids", "document_weights", "propensities", "positions")
"""Columns that have a place in every digest. Other columns count only where there are some, since names are not in the
digest: data without them keep the digest that their checkpoints and trials have."""


def check_same(before: Mapping[str, Any], now: Mapping[str, Any], what: str, *, where: Path | None, hint: str) -> None:
    """Raise an error that names the first part in which the identities of kept work and of this work differ.

    ``what`` is its sentence, such as "the folder holds another search".
    """
    parts: list[str] = []
    old: Any = before
    new: Any = now
    while new and isinstance(new, Mapping) and isinstance(old, Mapping | None):
        old = old or {}
        differing = next((key for key in {**old, **new} if old.get(key) != new.get(key)), None)
        if differing is None:
            return
        parts.append(differing)
        old, new = old.get(differing), new.get(differing)
    large = any(isinstance(value, list | dict) for value in (old, new))
    got = None if large else f"{new!r}, and {old!r} in what is kept"
    sentence = f"{what} ({': '.join(parts)} differs)"
    raise check.error(sentence, got=got, where="" if where is None else str(where), hint=hint)


def refuse_existing(path: Path, *, resume: bool, hint: str) -> None:
    """Raise an error about kept work that is not to be resumed."""
    if path.exists() and not resume:
        raise FileExistsError(check.Sentence(f"{path} exists already and is kept.", hint))


def checkpoint_folder(checkpoint: object, *, resume: bool) -> Path | None:
    """Return the folder that a setting ``checkpoint`` names; None without one."""
    if checkpoint is None:
        if resume:
            raise check.error("resume needs a checkpoint", hint="`set checkpoint=…`, the folder where it is")
        return None
    if not isinstance(checkpoint, str | Path):
        raise check.error("checkpoint must be the name of a folder", got=repr(checkpoint))
    return Path(checkpoint)


class FinishedModels:
    """A folder of models that are trained one after the other: finished ones are read instead of trained again."""

    def __init__(
        self, folder: Path, file: str, identity: Mapping[str, Any], *, what: str, same: str, resume: bool
    ) -> None:
        """Open a folder, which must belong to this work: ``file`` in it identifies the work.

        ``what`` names the work in errors, and ``same`` the things that must not change between runs.
        """
        self.folder = folder
        place = folder / file
        if folder.exists() and not all(map(files.is_part, folder.iterdir())):  # a kill may leave an incomplete file
            refuse_existing(folder, resume=resume, hint="resume it with `resume=True`, or choose another folder")
            with check.library(f"a {what}", place, hint="choose another folder"):
                before = {**json.loads(place.read_text(encoding="utf-8"))}
            hint = f"use the same {same}, or another folder"
            check_same(before, identity, f"the folder holds another {what}", where=folder, hint=hint)
            return
        folder.mkdir(parents=True, exist_ok=True)
        with files.replacing(place) as new:
            new.write_text(json.dumps(identity, indent=2), encoding="utf-8")

    def __getitem__(self, name: str) -> Any:
        """Return a finished model; None where it is not finished."""
        return table.load(self.folder / name) if (self.folder / name).exists() else None


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The checkpoint of one training: a saved model with the state of the training beside it.

    ``rw.load`` reads it as a model, as it was after its best round; training resumes after the last.
    """

    path: Path
    every: int
    """Rounds between checkpoints."""
    identity: Mapping[str, object]
    """Facts that tell this training from others."""
    describe: Callable[[State], Mapping[str, object]]
    """Returns the other entries of a model's description."""
    unit: str

    @classmethod
    def of_settings(
        cls, folder: str | Path | None, every: int, *, resume: bool, identity: Callable[[], Json], **about: Any
    ) -> Self | None:
        """Return the checkpoint for settings ``checkpoint`` and ``checkpoint_every``; None where there is no folder."""
        every = check.integer("checkpoint_every", every, least=1)
        path = checkpoint_folder(folder, resume=resume)
        return None if path is None else cls(path=path, every=every, identity=identity(), **about)

    def write(self, state: State, files: dict[str, bytes]) -> None:
        """Replace the checkpoint; a disk that is full does not end the training."""
        description = {
            **self.identity,
            **self.describe(state),
            "best_round": state.best,
            "stopped": "checkpoint",
            "history": state.history,
            "checkpoint": {"before": state.before, "done": state.done},
        }
        try:
            storage.write(self.path, description, files, force=True)
        except OSError as failed:
            warnings.warn(
                f"the checkpoint of {self.unit[:-1]} {state.done} could not be written to {self.path} ({failed}); "
                "training continues, and the checkpoint before it is kept",
                RuntimeWarning,
                stacklevel=2,
            )

    def read(self, *, resume: bool) -> tuple[State, dict[str, bytes]] | None:
        """Return the state of the checkpoint and its files, if training is resumed and there is one."""
        ready(self.path, resume=resume)
        if not self.path.exists():
            return None
        description, files = storage.read(self.path)
        if "checkpoint" not in description:
            raise check.error(
                "a finished model is no checkpoint",
                where=str(self.path),
                hint="name another folder for checkpoints; in Python, fit(…, init_model=…) continues a finished model",
            )
        with storage.making_sense(self.path):
            before = {key: description.get(key) for key in self.identity}
            hint = "train with the same settings and data, or remove the checkpoint"
            check_same(before, self.identity, "the checkpoint belongs to another training", where=self.path, hint=hint)
            earlier, done = (int(description["checkpoint"][name]) for name in ("before", "done"))
            history = {name: list(column) for name, column in description["history"].items()}
            return State(before=earlier, done=done, best=int(description["best_round"]), history=history), files


def ready(path: Path, *, resume: bool) -> None:
    """Check, before the work begins, that a checkpoint can be written to ``path``."""
    refuse_existing(path, resume=resume, hint="resume from the checkpoint there with `resume=True`, or remove it")
    storage.ready(path, force=True)


_fingerprints: "WeakKeyDictionary[RankingDataset, str]" = WeakKeyDictionary()


def fingerprint(data: RankingDataset) -> str:
    """Return a digest of what training sees of a data set; computed once for each, whose arrays are read-only."""
    if data not in _fingerprints:
        _fingerprints[data] = _digest(data)
    return _fingerprints[data]


def _digest(data: RankingDataset) -> str:
    digest = hashlib.blake2b(digest_size=16)
    parts = (*buffers(data.features), data.labels, data.offsets, *(getattr(data, name) for name in _ALWAYS_HASHED))
    newer = [
        column.name for column in columns.COLUMNS if column.trains and column.name not in ("labels", *_ALWAYS_HASHED)
    ]
    later = []
    for name, values in columns.arrays(data).items():
        column, _, key = name.partition(".")
        if column in newer:
            later += [np.frombuffer(key.encode(), np.uint8), values] if key else [values]
    lists = np.frombuffer(json.dumps(sorted(data.categories.items())).encode(), np.uint8)
    for part in (*parts, np.array(data.categorical, np.int64), lists, *later):
        digest.update(b"none" if part is None else f"{part.dtype}{part.shape}".encode())
        for block in () if part is None else disk.blocks(part):
            digest.update(np.ascontiguousarray(block).view(np.uint8).data)
    return digest.hexdigest()
