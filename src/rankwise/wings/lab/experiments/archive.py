"""Results in one small file: what tables and figures are made of, without the features of documents.

The file is a zip archive of ``experiment.json``, the description with seconds and versions, and of one Parquet file for
each frame. Its bytes follow from the results alone, so that the same results make the same file. Every part has a
checksum in the archive, which is compared before the part is read; nothing in there is ever run.
"""

import io
import json
import zipfile
from collections.abc import Mapping
from pathlib import Path

import polars as pl

from rankwise import check
from rankwise.base.arrays import Json
from rankwise.base.files import replacing
from rankwise.wings.lab.experiments.schema import CURVES, DOCUMENTS, QUERIES, stack_frames

FRAMES = {"queries": QUERIES, "curves": CURVES, "documents": DOCUMENTS}
"""The frames that a file may hold, with the columns that each has at least."""
_DESCRIPTION = "experiment.json"
_DRAWN = pl.Schema(
    {**CURVES, "value": pl.Float32()}
)  # curves are drawn and never tested, so that seven digits are enough
_LEFT_OUT = "id"  # of documents: figures show their scores
_WHEN = (1980, 1, 1, 0, 0, 0)  # a date that is always the same
_LARGEST = 2**30  # bytes of all parts together
_HINT = "get the file again, or pack the results again"


def write(path: str | Path, description: Json, frames: Mapping[str, pl.DataFrame]) -> None:
    """Write a description, and those of its frames that are given and not empty, in the place of an old file."""
    if not frames["queries"].height:
        hint = "run the experiment first: its folder lists the trials, and none of them is there"
        raise check.error("there are no trials to pack", got=description["spec"]["name"], hint=hint)
    parts = {_DESCRIPTION: (json.dumps(description, indent=1, ensure_ascii=False) + "\n").encode()}
    for name, full in frames.items():
        frame = full.drop(_LEFT_OUT, strict=False)
        if frame.height:
            parts[f"{name}.parquet"] = _parquet(frame.cast(_DRAWN) if name == "curves" else frame)
    with replacing(path, force=True) as new, zipfile.ZipFile(new, "w") as archive:
        for name, content in parts.items():
            part = zipfile.ZipInfo(name, _WHEN)
            part.create_system = 3  # as on Linux, wherever it is written
            part.external_attr = 0o644 << 16
            part.compress_type = zipfile.ZIP_DEFLATED if name == _DESCRIPTION else zipfile.ZIP_STORED
            archive.writestr(part, content)


def read(path: str | Path) -> tuple[Json, dict[str, pl.DataFrame]]:
    """Read the description and the frames of a file; whatever is wrong in there, the error names the file."""
    with check.library("a file of results", path, hint=_HINT), zipfile.ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        parts = {part.filename: archive.read(part) for part in archive.infolist()}
        description: Json = json.loads(parts[_DESCRIPTION])
        complete = isinstance(description["spec"], dict) and isinstance(description["spec"]["name"], str)
        if not complete or not isinstance(description["about"], dict):
            raise ValueError(f"{_DESCRIPTION} is no description of an experiment")
        frames = {name: _frame(parts.get(f"{name}.parquet"), schema) for name, schema in FRAMES.items()}
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
    if missing := set(schema).difference(frame.columns, {_LEFT_OUT}):
        raise ValueError(f"no column {min(missing)}")
    kinds = {name: schema.get(name, pl.Float64()) for name in frame.columns}  # others are metrics
    return stack_frames([frame.cast(pl.Schema(kinds))], schema)
