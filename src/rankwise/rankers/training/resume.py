"""Resuming trainings: the checkpoints of rankers and rerankers, and digests of the data that they are trained on."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from weakref import WeakKeyDictionary

import numpy as np

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.sparse import buffers
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk import mapped as disk
from rankwise.language.workspace import Workspace, refuse_existing
from rankwise.models import storage
from rankwise.rankers.training.loop import State

_ALWAYS_HASHED = ("weights", "query_ids", "document_weights", "propensities", "positions")
"""Columns that have a place in every digest. Other columns count only where there are some, since names are not in the
digest: data without them keep the digest that their checkpoints and trials have."""


def checkpoint_folder(checkpoint: object, *, resume: bool) -> Path | None:
    """Return the folder that a setting ``checkpoint`` names; None without one."""
    if checkpoint is None:
        if resume:
            raise check.error("resume needs a checkpoint", hint="`set checkpoint=…`, the folder where it is")
        return None
    if not isinstance(checkpoint, str | Path):
        raise check.error("checkpoint must be the name of a folder", got=repr(checkpoint))
    return Path(checkpoint)


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The checkpoint of one training: a saved model with the state of the training beside it.

    ``rw.load`` reads it as a model, as it was after its best round; training resumes after the last.
    """

    work: Workspace
    every: int
    """Rounds between checkpoints."""
    describe: Callable[[State], Mapping[str, object]]
    """Returns the other entries of a model's description."""
    unit: str

    @classmethod
    def of_settings(
        cls, folder: str | Path | None, every: int, *, resume: bool, identity: Callable[[], Json], **about: Any
    ) -> Self | None:
        """Return the checkpoint for settings ``checkpoint`` and ``checkpoint_every``; None where there is no folder."""
        if (path := checkpoint_folder(folder, resume=resume)) is None:
            return None
        work = Workspace(path, identity(), what="training", kind="checkpoint", holds="belongs to")
        return cls(work=work, every=every, **about)

    def write(self, state: State, files: dict[str, bytes]) -> None:
        """Replace the checkpoint; a disk that is full does not end the training."""
        description = {
            **self.work.identity,
            **self.describe(state),
            "best_round": state.best,
            "stopped": "checkpoint",
            "history": state.history,
            "checkpoint": {"before": state.before, "done": state.done, "work": self.work.record},
        }
        try:
            storage.write(self.work.path, description, files, force=True)
        except OSError as failed:
            warnings.warn(
                f"the checkpoint of {self.unit[:-1]} {state.done} could not be written to {self.work.path} ({failed}); "
                "training continues, and the checkpoint before it is kept",
                RuntimeWarning,
                stacklevel=2,
            )

    def read(self, *, resume: bool) -> tuple[State, dict[str, bytes]] | None:
        """Return the state of the checkpoint and its files, if training is resumed and there is one."""
        path = self.work.path
        check_checkpoint_target(path, resume=resume)
        if not path.exists():
            return None
        description, files = storage.read(path)
        if "checkpoint" not in description:
            raise check.error(
                "a finished model is no checkpoint",
                where=str(path),
                hint="name another folder for checkpoints; in Python, fit(…, init_model=…) continues a finished model",
            )
        with storage.malformed_as_error(path):
            checkpoint = description["checkpoint"]
            self.work.check(checkpoint.get("work"))
            earlier, done = (int(checkpoint[name]) for name in ("before", "done"))
            history = {name: list(column) for name, column in description["history"].items()}
            return State(before=earlier, done=done, best=int(description["best_round"]), history=history), files


def check_checkpoint_target(path: Path, *, resume: bool) -> None:
    """Check, before the work begins, that a checkpoint can be written to ``path``."""
    refuse_existing(path, "checkpoint", resume=resume)
    storage.check_model_target(path, force=True)


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
