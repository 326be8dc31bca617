"""The folder of an experiment: one Parquet file per trial, which appears when it is complete.

A trial's values per query are the file that counts. Its curves and, for the first trial, its documents lie beside it
and are written before it. Files are renamed into place, so a process that is killed leaves either the whole trial or
none of it, and two runs in one folder at worst compute the same trial twice.
"""

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import polars as pl

from rankwise import check
from rankwise.arrays import Json
from rankwise.data.tables import checksum as sealed
from rankwise.files import replacing

TRIALS = "trials"
_ABOUT = "rankwise"  # the key of Parquet's metadata
_BESIDE = ("curves", "documents", "features", "contributions")


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What one trial of one method brings."""

    queries: pl.DataFrame
    curves: pl.DataFrame
    documents: pl.DataFrame | None = None
    features: pl.DataFrame | None = None
    contributions: pl.DataFrame | None = None
    about: Json
    """Seed, versions, machine, seconds, best round, …: plain data."""


@dataclass(eq=False)
class Kept:
    """What lies in a folder."""

    queries: list[pl.DataFrame] = field(default_factory=list)
    curves: list[pl.DataFrame] = field(default_factory=list)
    documents: list[pl.DataFrame] = field(default_factory=list)
    features: list[pl.DataFrame] = field(default_factory=list)
    contributions: list[pl.DataFrame] = field(default_factory=list)
    feature_names: list[str] | None = None
    about: Json = field(default_factory=dict)


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
            frame: pl.DataFrame | None = getattr(outcome, kind)
            if frame is not None and frame.height:
                self._write(self._path(name, kind), frame, {})
        self._write(self._path(name), outcome.queries, {_ABOUT: json.dumps(outcome.about)})

    def describe(self, text: str, file: str) -> None:
        """Write a file beside the trials, in the place of the old one."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with replacing(self.folder / file, force=True) as new:
            new.write_text(text, encoding="utf-8")

    def read(self, names: Iterable[str]) -> Kept:
        """Read the trials among ``names`` that are there."""
        stored = Kept()
        seconds: dict[str, list[float]] = {}
        versions: dict[str, list[str]] = {}
        searches: Json = {}
        for name in names:
            if not self.has(name):
                continue
            queries = self.queries(name)
            stored.queries.append(queries)
            for kind in _BESIDE:
                if self._path(name, kind).is_file():
                    with self._reading(name, kind) as path:
                        getattr(stored, kind).append(pl.read_parquet(path))
            facts = self.about(name)
            seconds.setdefault(queries["method"][0], []).append(facts["seconds"])
            stored.feature_names = stored.feature_names or facts.get("feature_names")
            if "search" in facts:  # that of the first trial stands for those of the others
                searches.setdefault(f"{queries['method'][0]} on {queries['data'][0]}", facts["search"])
            for library, version in facts["versions"].items():
                if version not in versions.setdefault(library, []):
                    versions[library].append(version)
        stored.about = {"seconds": seconds, "versions": {name: " and ".join(all_) for name, all_ in versions.items()}}
        if searches:
            stored.about["searches"] = searches
        return stored

    def _path(self, name: str, kind: str = "") -> Path:
        return self.folder / TRIALS / f"{name}{'.' + kind if kind else ''}.parquet"

    def _write(self, path: Path, frame: pl.DataFrame, metadata: dict[str, str]) -> None:
        with replacing(path, force=True) as new:
            frame.write_parquet(new, metadata=metadata | sealed.METADATA)
            sealed.seal(new)

    @contextmanager
    def _reading(self, name: str, kind: str = "") -> Iterator[Path]:
        """Name the file in errors that are raised within the context."""
        path = self._path(name, kind)
        hint = f"delete {self._path(name).name} and run the experiment again: only that trial is computed"
        sealed.verify(path, hint=hint)
        with check.library("a file of results", path, hint=hint):
            yield path


def slug(text: str) -> str:
    """Make a piece of a file name.

    >>> slug("E[λMART], tuned")
    'e-λmart-tuned'
    """
    return re.sub(r"\W+", "-", text.lower()).strip("-")[:40] or "x"
