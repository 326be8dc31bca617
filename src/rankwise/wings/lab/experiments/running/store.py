"""Trials on disk: the folder of an experiment, and results packed into one small file.

In the folder each trial is one Parquet file, which appears when it is complete. A trial's values per query are the file
that counts. Its curves and, for the first trial, its documents lie beside it and are written before it. Files are
renamed into place, so a process that is killed leaves either the whole trial or none of it, and two runs in one folder
at worst compute the same trial twice.

A pack, of what tables and figures are made of without the features of documents, is a zip archive of
``experiment.json``, the description with seconds and versions, and of one Parquet file for each frame. Its bytes follow
from the results alone, so that the same results make the same file. Every part has a checksum in the archive, which is
compared before the part is read; nothing in there is ever run.
"""

import io
import json
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import replacing
from rankwise.wings.lab.experiments.schema import CURVES, DOCUMENTS, FRAMES, QUERIES, stack_frames

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


PACKED = {"queries": QUERIES, "curves": CURVES, "documents": DOCUMENTS}
"""The frames that a file may hold, with the columns that each has at least."""
_DESCRIPTION = "experiment.json"
_DRAWN = pl.Schema(
    {**CURVES, "value": pl.Float32()}
)  # curves are drawn and never tested, so that seven digits are enough
_NOT_PACKED = "id"  # of documents: figures show their scores
_PACK_DATE = (1980, 1, 1, 0, 0, 0)  # a date that is always the same
_LARGEST_PACK = 2**30  # bytes of all parts together
_PACK_HINT = "get the file again, or pack the results again"


def write_pack(path: str | Path, description: Json, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write a description, and those of its frames that are given and not empty, in the place of an old file."""
    if not frames["queries"].height:
        hint = "run the experiment first: its folder lists the trials, and none of them is there"
        raise check.error("there are no trials to pack", got=description["spec"]["name"], hint=hint)
    parts = {_DESCRIPTION: (json.dumps(description, indent=1, ensure_ascii=False) + "\n").encode()}
    for name, full in frames.items():
        frame = full.drop(_NOT_PACKED, strict=False)
        if frame.height:
            parts[f"{name}.parquet"] = _parquet(frame.cast(_DRAWN) if name == "curves" else frame)
    with replacing(path, force=True) as new, zipfile.ZipFile(new, "w") as archive:
        for name, content in parts.items():
            part = zipfile.ZipInfo(name, _PACK_DATE)
            part.create_system = 3  # as on Linux, wherever it is written
            part.external_attr = 0o644 << 16
            part.compress_type = zipfile.ZIP_DEFLATED if name == _DESCRIPTION else zipfile.ZIP_STORED
            archive.writestr(part, content)


def read_pack(path: str | Path) -> tuple[Json, dict[str, pl.DataFrame]]:
    """Read the description and the frames of a file; whatever is wrong in there, the error names the file."""
    with check.library("a file of results", path, hint=_PACK_HINT), zipfile.ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > _LARGEST_PACK:
            raise ValueError(f"more than {_LARGEST_PACK} bytes")
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
        description: Json = json.loads(parts[_DESCRIPTION])
        complete = isinstance(description["spec"], dict) and isinstance(description["spec"]["name"], str)
        if not complete or not isinstance(description["about"], dict):
            raise ValueError(f"{_DESCRIPTION} is no description of an experiment")
        frames = {name: _frame(parts.get(f"{name}.parquet"), schema) for name, schema in PACKED.items()}
        if not frames["queries"].height:
            raise ValueError("no values of queries")
    return description, frames


def _parquet(frame: pl.DataFrame) -> bytes:
    file = io.BytesIO()
    frame.write_parquet(file, compression="zstd", compression_level=19, statistics=False)
    return file.getvalue()


def _frame(content: bytes | None, schema: pl.Schema) -> pl.DataFrame:
    if content is None:
        return stack_frames([], schema)
    frame = pl.read_parquet(io.BytesIO(content))
    if missing := set(schema).difference(frame.columns, {_NOT_PACKED}):
        raise ValueError(f"no column {min(missing)}")
    kinds = {name: schema.get(name, pl.Float64()) for name in frame.columns}  # others are metrics
    return stack_frames([frame.cast(pl.Schema(kinds))], schema)
