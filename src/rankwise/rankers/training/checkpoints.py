"""Checkpoints: training that was interrupted resumes, and ends where it would have ended."""

import hashlib
import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self

import numpy as np

from rankwise import check
from rankwise.data import columns
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import mapped as disk
from rankwise.rankers import storage
from rankwise.rankers.training.loop import State
from rankwise.sparse import buffers

# What may change between a run and its continuation without making it another run.
FREE = ("rounds", "epochs", "patience", "progress", "checkpoint", "threads", "device", "processes", "dask")

_ALWAYS_HASHED = ("weights", "query_ids", "document_weights", "propensities", "positions")
"""Columns that have a place in every digest. Other columns count only where there are some, since names are not in the
digest: data without them keep the digest that their checkpoints and trials have."""


class Checkpoint:
    """The checkpoint of one training: a saved model with the state of the training beside it.

    ``rw.load`` reads it as a model, as it was after its best round; training resumes after the last.
    """

    def __init__(
        self,
        path: Path,
        every: int,
        *,
        identity: Mapping[str, object],
        describe: Callable[[State], Mapping[str, object]],
        unit: str = "rounds",
    ) -> None:
        """Keep a training in the folder ``path``, every so many rounds.

        ``identity`` tells it from other trainings; ``describe`` returns the other entries of a model's description.
        """
        self.path, self.every, self.unit = path, every, unit
        self.identity, self.describe = identity, describe

    @classmethod
    def of_settings(
        cls,
        folder: str | Path | None,
        every: int,
        *,
        resume: bool,
        identity: Callable[[], Mapping[str, object]],
        describe: Callable[[State], Mapping[str, object]],
        unit: str,
    ) -> Self | None:
        """Return the checkpoint that the settings ``checkpoint`` and ``checkpoint_every`` ask for; None without one."""
        every = check.integer("checkpoint_every", every, least=1)
        if folder is None:
            if resume:
                raise check.error("resume needs a checkpoint", hint="set checkpoint=…, the folder where it is")
            return None
        if not isinstance(folder, str | Path):
            raise check.error("checkpoint must be the name of a folder", got=repr(folder))
        return cls(Path(folder), every, identity=identity(), describe=describe, unit=unit)

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
            for what, now in self.identity.items():
                if description.get(what) != now:
                    raise self._changed(what, description.get(what), now)
            before, done = (int(description["checkpoint"][name]) for name in ("before", "done"))
            history = {name: list(column) for name, column in description["history"].items()}
            return State(before=before, done=done, best=int(description["best_round"]), history=history), files

    def _changed(self, what: str, was: object, now: object) -> ValueError:
        if isinstance(now, dict) and isinstance(was, dict | None):
            was = was or {}
            key = next(key for key in (was | now) if was.get(key) != now.get(key))
            what, was, now = f"{what}: {key}", was.get(key), now.get(key)
        return check.error(
            f"the checkpoint belongs to another training ({what} differs)",
            got=f"{now!r}, and {was!r} in the checkpoint",
            where=str(self.path),
            hint="train with the same settings and data, or remove the checkpoint",
        )


def ready(path: Path, *, resume: bool) -> None:
    """Check, before the work begins, that a checkpoint can be written to ``path``."""
    if path.exists() and not resume:
        raise FileExistsError(
            f"{path} exists already and is kept. Hint: resume from the checkpoint there with resume=True, or remove it."
        )
    storage.ready(path, force=True)


def fingerprint(data: RankingDataset) -> str:
    """A digest of what training sees of a data set."""
    digest = hashlib.blake2b(digest_size=16)
    parts = (*buffers(data.features), data.labels, data.offsets, *(getattr(data, name) for name in _ALWAYS_HASHED))
    newer = (
        column.name for column in columns.COLUMNS if column.trains and column.name not in ("labels", *_ALWAYS_HASHED)
    )
    later = [values for name in newer if (values := getattr(data, name)) is not None]
    lists = np.frombuffer(json.dumps(sorted(data.categories.items())).encode(), np.uint8)
    for part in (*parts, np.array(data.categorical, np.int64), lists, *later):
        digest.update(b"none" if part is None else f"{part.dtype}{part.shape}".encode())
        for block in () if part is None else disk.blocks(part):
            digest.update(np.ascontiguousarray(block).view(np.uint8).data)
    return digest.hexdigest()
