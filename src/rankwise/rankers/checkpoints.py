"""Checkpoints: training that was cut short goes on, and ends where it would have ended."""

import hashlib
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.rankers import storage
from rankwise.rankers.trees import Plan, State

# What may change between a run and its continuation without making it another run.
_FREE = ("rounds", "patience", "progress", "checkpoint", "threads")


class Checkpoints:
    """The checkpoint of one training: a saved model with the state of the training beside it.

    ``rw.load`` takes it for a model, cut to its best round; :meth:`start` takes all trees.
    """

    def __init__(self, path: Path, ranker: Any, plan: Plan, older: bytes | None) -> None:
        self.path, self.ranker, self.plan = path, ranker, plan
        self.data = {
            "train": fingerprint(plan.train),
            "valid": None if plan.valid is None else fingerprint(plan.valid),
            "init_model": None if older is None else hashlib.blake2b(older, digest_size=16).hexdigest(),
        }

    def write(self, state: State) -> None:
        """Replace the checkpoint; a disk that is full does not end the training."""
        best = self.plan.best(state)
        description = {
            **self._identity(),
            "features": {
                "count": self.plan.train.n_features,
                "names": self.plan.train.feature_names and list(self.plan.train.feature_names),
            },
            "best_round": best,
            "stopped": "checkpoint",
            "history": state.history,
            "trees": state.before + best,
            "versions": {self.plan.library.name: self.plan.library.version()},
            "checkpoint": {"before": state.before, "done": state.done},
        }
        try:
            storage.write(self.path, description, {self.plan.library.file: state.content or b""}, force=True)
        except OSError as failed:
            warnings.warn(
                f"the checkpoint of round {state.done} could not be written to {self.path} ({failed}); "
                "training goes on, and the checkpoint before it is kept",
                RuntimeWarning,
                stacklevel=2,
            )

    def start(self, state: State, *, resume: bool) -> State:
        """Give the state to train from: that of the checkpoint if training is to be resumed and there is one."""
        if not self.path.parent.is_dir():
            raise FileNotFoundError(f"there is no folder {self.path.parent} for the checkpoint. Cure: create it first.")
        if not self.path.exists():
            return state
        if not resume:
            raise FileExistsError(
                f"{self.path} exists already and is kept. "
                "Cure: go on from the checkpoint there with fit(…, resume=True), or remove it."
            )
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
        progress = description["checkpoint"]
        return State(
            before=int(progress["before"]),
            done=int(progress["done"]),
            content=files[self.plan.library.file],
            history={name: list(column) for name, column in description["history"].items()},
        )

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


def fingerprint(data: RankingDataset) -> str:
    """A digest of what training sees of a data set."""
    digest = hashlib.blake2b(digest_size=16)
    parts = (data.features, data.labels, data.offsets, data.weights, data.query_ids)
    for part in (*parts, np.array(data.categorical, np.int64)):
        digest.update(b"none" if part is None else f"{part.dtype}{part.shape}".encode())
        if part is not None:
            digest.update(np.ascontiguousarray(part).view(np.uint8).data)
    return digest.hexdigest()
