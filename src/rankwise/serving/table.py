"""The one table of formats, and the way into each."""

import importlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rankwise import check
from rankwise.files import check_writable, replacing
from rankwise.serving.source import ExportSource, Written


class Format(NamedTuple):
    """A system that serves models."""

    module: str
    about: str


FORMATS: dict[str, Format] = {
    "onnx": Format("rankwise.serving.onnx", "ONNX Runtime and everything that carries it"),
    "treelite": Format("rankwise.serving.treelite", "treelite, its compiler to C, and servers that read it"),
    "elasticsearch": Format(
        "rankwise.serving.elasticsearch", "Elasticsearch's and OpenSearch's learning-to-rank plugin"
    ),
    "ranklib": Format("rankwise.serving.ranklib", "RankLib, and RankLib models of that plugin"),
    "vespa": Format("rankwise.serving.vespa", "the models of a Vespa application"),
}
"""Name -> the module that writes it, imported when it is asked for, and what reads it."""


def write(
    model: object, path: str | Path, name: str, *, names: Sequence[str] | None = None, force: bool = False
) -> tuple[Path, str]:
    """Write a model in the format of this name; gives the file, and how it is loaded there."""
    module = FORMATS[check.choice("format", name, FORMATS)].module
    path = check_writable(path, force=force)
    written: Written = importlib.import_module(module).write(ExportSource.of(model, names, path))
    with replacing(path, force=force) as new:
        new.write_bytes(written.content)
    return path, written.load
