"""How a command reads lists of texts: files, BEIR folders, and which documents of a run are on the lists."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli.options import RUNNING

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists

FORMS = (
    "lists of texts, .jsonl (query, documents, labels on each line), .csv, .tsv or .parquet (also .gz and .zst), - for "
    "standard input, or a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), FOLDER:SPLIT for one of its qrels."
)
Data = Annotated[str, FORMS[0].upper() + FORMS[1:], Option(metavar="DATA")]
Device = Annotated[str, "Where it computes: auto, cpu, cuda, cuda:1 ….", Option(metavar="DEVICE", group=RUNNING)]
_FOR_TRAINING = ("negatives", "skip")
"""Arguments of rw.rerank.read_beir that choose what is learned from, and have no say in what is measured."""
_GROUP = "Reading texts"


def installed() -> None:
    """Raise if an extra is missing, before any work begins."""
    for module in ("torch", "sentence_transformers"):
        check.installed(module, "rerank")


@dataclass(frozen=True, kw_only=True)
class TextReading:
    """How to read lists of texts, as the command line says."""

    run: Annotated[
        Path | None,
        "Of a BEIR folder: a TREC run whose documents are on the lists beside those that were judged.",
        Option(metavar="FILE", group=_GROUP),
    ] = None
    negatives: Annotated[
        int | None,
        AtLeast(1),
        "With --run: documents of each query that nobody judged to draw as hard negatives for training. Validation and "
        "test data are ranked whole.",
        Unset("all of the run"),
        Option(group=_GROUP),
    ] = None
    depth: Annotated[int | None, AtLeast(1), "With --run: the last rank that is looked at.", Option(group=_GROUP)] = (
        None
    )
    read: Annotated[
        Mapping[str, object] | None,
        "Another argument of rw.rerank.read (query=COLUMN, document=COLUMN, label=COLUMN, …) or, of a BEIR folder, of "
        "rw.rerank.read_beir (skip=10, teacher=FILE, errors=skip); may be repeated.",
        Option(metavar="NAME=VALUE", group=_GROUP)
    ] = None  # fmt: skip

    def lists(self, name: str, *, split: str, seed: int = 0, to_score: bool = False, measured: bool = False) -> "Lists":
        """Read the lists of DATA; ``split`` is the one of a BEIR folder where the user names none.

        Documents that are only to be scored need no labels, and of a run they are those that it retrieved. Lists that
        are ``measured`` are whole: drawn negatives and skipped ranks are for training, and would flatter the model.
        """
        arguments: Keywords = dict(self.read or {})
        chosen = {"run": self.run, "negatives": self.negatives, "depth": self.depth}
        folder, named = _folder(name)
        if folder is None:
            for word, value in chosen.items():
                if value is not None:
                    what = f"--{word} belongs to a BEIR folder"
                    raise check.error(
                        what, got=name, hint="make lists with rw.rerank.read_trec, and rw.rerank.write them"
                    )
            return rw.rerank.read(name, **arguments | {"to_score": to_score})
        arguments |= {word: value for word, value in chosen.items() if value is not None}
        if measured:
            arguments = {name: value for name, value in arguments.items() if name not in _FOR_TRAINING}
        if to_score and self.run is not None:
            arguments = {"add_judged": False, **arguments}
        return rw.rerank.read_beir(folder, named or split, **{"seed": seed, **arguments})


def _folder(name: str) -> tuple[Path | None, str]:
    """Return a BEIR folder and the split that is named behind a colon, or None for a file."""
    for path, split in ((name, ""), name.rpartition(":")[::2]):
        if path and (Path(path) / "qrels").is_dir():
            return Path(path), split
    return None, ""
