"""The folder of an experiment: one Parquet file per trial, which appears when it is complete.

A trial's values per query are the file that counts. Its curves and, for the first trial, its documents lie beside it
and are written before it. Files are renamed into place, so a process that is killed leaves either the whole trial or
none of it, and two runs in one folder at worst compute the same trial twice.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import polars as pl

from rankwise import check
from rankwise.files import replacing

TRIALS = "trials"
_ABOUT = "rankwise"  # the key of Parquet's metadata


@dataclass(frozen=True, kw_only=True, eq=False)
class Outcome:
    """What one trial of one method brings."""

    queries: pl.DataFrame
    curves: pl.DataFrame
    documents: pl.DataFrame | None = None
    features: pl.DataFrame | None = None
    about: dict[str, Any]
    """Seed, versions, machine, seconds, best round, …: plain data."""


@dataclass(eq=False)
class Kept:
    """What lies in a folder."""

    queries: list[pl.DataFrame] = field(default_factory=list)
    curves: list[pl.DataFrame] = field(default_factory=list)
    documents: list[pl.DataFrame] = field(default_factory=list)
    features: list[pl.DataFrame] = field(default_factory=list)
    feature_names: list[str] | None = None
    about: dict[str, Any] = field(default_factory=dict)


class Store:
    """Trials on disk, by the names of their files."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)

    def has(self, name: str) -> bool:
        """Whether a trial is there, complete."""
        return self._path(name).is_file()

    def about(self, name: str) -> dict[str, Any]:
        """Read what is known about a trial beside its values."""
        found: dict[str, Any] = json.loads(_readable(self._path(name), pl.read_parquet_metadata)[_ABOUT])
        return found

    def queries(self, name: str) -> pl.DataFrame:
        """Read a trial's values per query."""
        frame: pl.DataFrame = _readable(self._path(name), pl.read_parquet)
        return frame

    def write(self, name: str, outcome: Outcome) -> None:
        """Keep a trial."""
        (self.folder / TRIALS).mkdir(parents=True, exist_ok=True)
        beside = {"curves": outcome.curves, "documents": outcome.documents, "features": outcome.features}
        for kind, frame in beside.items():
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
        kept = Kept()
        seconds: dict[str, list[float]] = {}
        versions: dict[str, list[str]] = {}
        searches: dict[str, Any] = {}
        for name in names:
            if not self.has(name):
                continue
            queries = self.queries(name)
            kept.queries.append(queries)
            for kind in ("curves", "documents", "features"):
                path = self._path(name, kind)
                if path.is_file():
                    getattr(kept, kind).append(_readable(path, pl.read_parquet))
            about = self.about(name)
            seconds.setdefault(queries["method"][0], []).append(about["seconds"])
            kept.feature_names = kept.feature_names or about["feature_names"]
            if "search" in about:  # that of the first trial stands for those of the others
                searches.setdefault(f"{queries['method'][0]} on {queries['data'][0]}", about["search"])
            for library, version in about["versions"].items():
                if version not in versions.setdefault(library, []):
                    versions[library].append(version)
        kept.about = {"seconds": seconds, "versions": {name: " and ".join(all_) for name, all_ in versions.items()}}
        if searches:
            kept.about["searches"] = searches
        return kept

    def _path(self, name: str, kind: str = "") -> Path:
        return self.folder / TRIALS / f"{name}{'.' + kind if kind else ''}.parquet"

    def _write(self, path: Path, frame: pl.DataFrame, metadata: dict[str, str]) -> None:
        with replacing(path, force=True) as new:
            frame.write_parquet(new, metadata=metadata)


def slug(text: str) -> str:
    """Make a piece of a file name.

    >>> slug("E[λMART], tuned")
    'e-λmart-tuned'
    """
    return re.sub(r"\W+", "-", text.lower()).strip("-")[:40] or "x"


def _readable(path: Path, read: Any) -> Any:
    try:
        return read(path)
    except (pl.exceptions.PolarsError, OSError, KeyError, ValueError) as broken:
        raise check.error(
            "a file of results is damaged",
            got=str(broken).partition("\n")[0],
            where=str(path),
            cure="delete it and run the experiment again: only that trial is computed",
        ) from None
