"""The folder of an experiment: one Parquet file per trial, which appears when it is complete.

A trial's values per query are the file that counts. Its curves and, for the first trial, its documents lie beside it
and are written before it. Files are renamed into place, so a process that is killed leaves either the whole trial or
none of it, and two runs in one folder at worst compute the same trial twice.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import replacing
from rankwise.wings.lab.experiments.schema import FRAMES

TRIALS = "trials"
_ABOUT = "rankwise"  # the key of Parquet's metadata
_BESIDE = [name for name in FRAMES if name != "queries"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What one trial of one method brings."""

    frames: dict[str, pl.DataFrame]
    """Some of ``schema.FRAMES``: queries in every trial."""
    about: Json
    """Seed, versions, machine, seconds, best round, …: plain data."""


class Store:
    """Trials on disk, by the names of their files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def has(self, name: str) -> bool:
        """Whether a trial is there, complete."""
        return self._path(name).is_file()

    def about(self, name: str) -> Json:
        """Read what is known about a trial beside its values."""
        with self._reading(name) as path:
            facts: Json = json.loads(pl.read_parquet_metadata(path)[_ABOUT])
            _ = float(facts["seconds"]), {**facts["versions"]}  # there must be these
            return facts

    def queries(self, name: str) -> pl.DataFrame:
        """Read a trial's values per query."""
        with self._reading(name) as path:
            frame = pl.read_parquet(path)
            frame.select("data", "method").row(0)  # there must be these, and a row
            return frame

    def write(self, name: str, outcome: Outcome) -> None:
        """Keep a trial."""
        (self.folder / TRIALS).mkdir(parents=True, exist_ok=True)
        for kind in _BESIDE:
            if kind in outcome.frames and outcome.frames[kind].height:
                self._write(self._path(name, kind), outcome.frames[kind], {})
        self._write(self._path(name), outcome.frames["queries"], {_ABOUT: json.dumps(outcome.about)})

    def read(self, names: Iterable[str]) -> tuple[list[dict[str, pl.DataFrame]], Json]:
        """Read the trials among ``names`` that are there: their frames, and what is known about all of them."""
        trials = []
        seconds: dict[str, list[float]] = {}
        versions: dict[str, list[str]] = {}
        searches: Json = {}
        feature_names = None
        for name in filter(self.has, names):
            queries = self.queries(name)
            frames = {"queries": queries}
            for kind in _BESIDE:
                if self._path(name, kind).is_file():
                    with self._reading(name, kind) as path:
                        frames[kind] = pl.read_parquet(path)
            trials.append(frames)
            facts = self.about(name)
            seconds.setdefault(queries["method"][0], []).append(facts["seconds"])
            feature_names = feature_names or facts.get("feature_names")
            if "search" in facts:  # that of the first trial stands for those of the others
                searches.setdefault(f"{queries['method'][0]} on {queries['data'][0]}", facts["search"])
            for library, version in facts["versions"].items():
                if version not in versions.setdefault(library, []):
                    versions[library].append(version)
        together = {name: " and ".join(all_) for name, all_ in versions.items()}
        about: Json = {"seconds": seconds, "versions": together} | ({"searches": searches} if searches else {})
        return trials, about | {"feature_names": feature_names}

    def _path(self, name: str, kind: str = "") -> Path:
        return self.folder / TRIALS / f"{name}{'.' + kind if kind else ''}.parquet"

    def _write(self, path: Path, frame: pl.DataFrame, metadata: dict[str, str]) -> None:
        with replacing(path, force=True) as new:
            frame.write_parquet(new, metadata=metadata)

    @contextmanager
    def _reading(self, name: str, kind: str = "") -> Iterator[Path]:
        """Name the file in errors that are raised within the context."""
        path = self._path(name, kind)
        hint = f"delete {self._path(name).name} and run the experiment again: only that trial is computed"
        with check.library("a file of results", path, hint=hint):
            yield path


def slug(text: str) -> str:
    """Make a piece of a file name.

    >>> slug("E[λMART], tuned")
    'e-λmart-tuned'
    """
    return re.sub(r"\W+", "-", text.lower()).strip("-")[:40] or "x"
