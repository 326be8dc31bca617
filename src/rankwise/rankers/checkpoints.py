"""Checkpoints: training that was cut short goes on, and ends where it would have ended."""

import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk import mapped as disk
from rankwise.rankers import storage
from rankwise.rankers.course import Course, State
from rankwise.rankers.schema import Schema

# What may change between a run and its continuation without making it another run.
_FREE = ("rounds", "epochs", "patience", "progress", "checkpoint", "threads", "device")


class Checkpoints:
    """The checkpoint of one training: a saved model with the state of the training beside it.

    ``rw.load`` takes it for a model, as it was after its best round; training goes on from the last.
    """

    def __init__(self, path: Path, ranker: Any, plan: Course, older: bytes | None) -> None:
        self.path, self.ranker, self.plan = path, ranker, plan
        self.data = {
            "train": plan.digest or fingerprint(plan.train),
            "valid": None if plan.valid is None else fingerprint(plan.valid),
            "init_model": None if older is None else hashlib.blake2b(older, digest_size=16).hexdigest(),
        }

    def write(self, state: State, made_of: dict[str, Any], files: dict[str, bytes]) -> None:
        """Replace the checkpoint; a disk that is full does not end the training."""
        description = {
            **self._identity(),
            "features": Schema.of(self.plan.train).written(),
            "best_round": self.plan.best(state),
            "stopped": "checkpoint",
            "history": state.history,
            **made_of,
            "checkpoint": {"before": state.before, "done": state.done},
        }
        try:
            storage.write(self.path, description, files, force=True)
        except OSError as failed:
            warnings.warn(
                f"the checkpoint of {self.plan.unit[:-1]} {state.done} could not be written to {self.path} ({failed}); "
                "training goes on, and the checkpoint before it is kept",
                RuntimeWarning,
                stacklevel=2,
            )

    def start(self, state: State, *, resume: bool) -> dict[str, bytes] | None:
        """Set the state to that of the checkpoint and give its files, if training is resumed and there is one."""
        ready(self.path, resume=resume)
        if not self.path.exists():
            return None
        description, files = storage.read(self.path)
        if "checkpoint" not in description:
            raise check.error(
                "a finished model is no checkpoint",
                where=str(self.path),
                cure="continue it with fit(…, init_model=…), or name another folder for checkpoints",
            )
        was, now = description, self._identity()
        for what in ("ranker", "objective", "data", "parameters"):
            if was[what] != now[what]:
                raise self._changed(what, was[what], now[what])
        state.before, state.done = (int(description["checkpoint"][name]) for name in ("before", "done"))
        state.history = {name: list(column) for name, column in description["history"].items()}
        return files

    def _identity(self) -> dict[str, Any]:
        parameters = {
            name: storage.plain(value)
            for name, value in self.ranker.get_params().items()
            if name != "objective" and name not in _FREE
        }
        objective = self.ranker._text_of_objective()
        return {"ranker": self.ranker.name, "objective": objective, "parameters": parameters, "data": self.data}

    def _changed(self, what: str, was: Any, now: Any) -> ValueError:
        if isinstance(was, dict) and isinstance(now, dict):
            key = next(key for key in (was | now) if was.get(key) != now.get(key))
            what, was, now = f"{what}: {key}", was.get(key), now.get(key)
        return check.error(
            f"the checkpoint belongs to another training ({what} differs)",
            got=f"{now!r}, and {was!r} in the checkpoint",
            where=str(self.path),
            cure="train with the same settings and data, or remove the checkpoint",
        )


def ready(path: Path, *, resume: bool) -> None:
    """Check, before the work begins, that a checkpoint can be written to ``path``."""
    if path.exists() and not resume:
        raise FileExistsError(
            f"{path} exists already and is kept. "
            "Cure: go on from the checkpoint there with fit(…, resume=True), or remove it."
        )
    storage.ready(path, force=True)


def fingerprint(data: RankingDataset) -> str:
    """A digest of what training sees of a data set."""
    digest = hashlib.blake2b(digest_size=16)
    parts = (data.features, data.labels, data.offsets, data.weights, data.query_ids, data.propensities, data.positions)
    lists = np.frombuffer(json.dumps(sorted(data.categories.items())).encode(), np.uint8)
    for part in (*parts, np.array(data.categorical, np.int64), lists):
        digest.update(b"none" if part is None else f"{part.dtype}{part.shape}".encode())
        for block in () if part is None else disk.blocks(part):
            digest.update(np.ascontiguousarray(block).view(np.uint8).data)
    return digest.hexdigest()
