"""Lists of texts by name: files, and BEIR folders with the documents of a run."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.wings.rerank.data.lists import Lists
from rankwise.wings.rerank.data.read import read as read_file
from rankwise.wings.rerank.data.trec import read_beir

_FOR_TRAINING = ("negatives", "skip")
"""Arguments of ``read_beir`` that choose what is learned from, and have no say in what is measured."""


def read_lists(
    name: str,
    split: str = "test",
    *,
    run: Annotated[
        Path | None, "Of a BEIR folder: a TREC run whose documents are on the lists beside those that were judged."
    ] = None,
    negatives: Annotated[
        int | None, AtLeast(1),
        "With ``run``: documents of each query that nobody judged to draw as hard negatives for training; validation "
        "and test data are ranked whole.",
        Unset("all of the run"),
    ] = None,
    depth: Annotated[int | None, AtLeast(1), "With ``run``: the last rank that is looked at."] = None,
    read: Annotated[
        Mapping[str, object] | None,
        "Another argument of rw.rerank.read (query=COLUMN, document=COLUMN, label=COLUMN, …) or, of a BEIR folder, of "
        "rw.rerank.read_beir (skip=10, teacher=FILE, errors=skip); may be repeated.", Option(metavar="NAME=VALUE"),
    ] = None,
    seed: int = 0,
    to_score: bool = False,
    measured: bool = False,
) -> Lists:  # fmt: skip
    """Read lists; ``split`` is the one of a BEIR folder whose name has none behind a colon.

    Documents that are only to be scored need no labels, and of a run they are those that it retrieved. Lists that
    are ``measured`` are whole: drawn negatives and skipped ranks are for training, and would flatter the model.
    """
    arguments: Keywords = dict(read or {})
    chosen = {"run": run, "negatives": negatives, "depth": depth}
    chosen = {word: value for word, value in chosen.items() if value is not None}
    folder, named = _folder(name)
    if folder is None:
        for word in chosen:
            hint = "make lists with rw.rerank.read_trec, and rw.rerank.write them"
            raise check.error(f"{word} belongs to a BEIR folder", got=name, hint=hint)
        return read_file(name, **arguments | {"to_score": to_score})
    arguments |= chosen
    if measured:
        arguments = {name: value for name, value in arguments.items() if name not in _FOR_TRAINING}
    if to_score and run is not None:
        arguments = {"add_judged": False, **arguments}
    return read_beir(folder, named or split, **{"seed": seed, **arguments})


def _folder(name: str) -> tuple[Path | None, str]:
    """Return a BEIR folder and the split that is named behind a colon, or None for a file."""
    for path, split in ((name, ""), name.rpartition(":")[::2]):
        if path and (Path(path) / "qrels").is_dir():
            return Path(path), split
    return None, ""
