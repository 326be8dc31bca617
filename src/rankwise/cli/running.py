"""How a command runs: the options about seeds, threads, progress and output, and what they decide."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise import check
from rankwise.base import files
from rankwise.base.arrays import Keywords
from rankwise.base.tables import Table
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli import console, inputs, outputs
from rankwise.cli.options import RUNNING
from rankwise.models import storage

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from rankwise.base.arrays import Array
    from rankwise.base.steps import Steps
    from rankwise.cli.data_options import Reading
    from rankwise.data.dataset import RankingDataset

_GROUP = Option(group=RUNNING)
Seed = Annotated[
    int, AtLeast(0), "The same seed gives the same result, on any machine.", Option(group=RUNNING, metavar="N")
]


@dataclass(frozen=True, kw_only=True)
class Running:
    """Options that most commands have."""

    seed: Seed = 0
    threads: Annotated[int | None, AtLeast(1), "Number of threads.", Unset("one for each core"), _GROUP] = None
    progress: Annotated[bool | None, "Show progress on standard error.", Unset("on a terminal"), _GROUP] = None
    force: Annotated[bool, "Replace files that exist already.", _GROUP] = False
    json: Annotated[bool, "Print one JSON document and nothing else.", _GROUP] = False

    def check_target(self, path: Path | None, endings: tuple[str, ...] = (), *, beside: Path | None = None) -> None:
        """Raise at once if a file could not be written at the end, or another output would replace it."""
        if path is None:
            return
        if endings and path.suffix.lower() not in endings:
            hint = f"end it with {', '.join(endings)}"
            raise check.error("a file's ending says its format", got=str(path), hint=hint)
        files.check_writable(path, force=self.force)
        if beside is not None and path.resolve() == beside.resolve() and not files.is_device(path):
            hint = "name another for one of them"
            raise check.error("two outputs cannot go to the same file", got=str(path), hint=hint)

    def check_model_target(self, path: Path, *, resume: bool = False) -> "Running":
        """Check that a model can be written to ``path`` at the end, and return how to run then.

        A training that is resumed replaces the model that it left there when it was interrupted.
        """
        force = self.force or (resume and storage.is_interrupted(path))
        storage.check_model_target(path, force=force)
        return replace(self, force=force)

    def steps(self, total: int | None) -> "AbstractContextManager[Steps]":
        """Show a bar of ``total`` steps."""
        return console.progress(total, self.progress)

    def training_data(
        self, reading: "Reading", data: str, valid: str | None
    ) -> "tuple[RankingDataset, RankingDataset | None]":
        """Read training and validation data, and print the features that a ranker is trained on."""
        with self.steps(1) as bar:
            bar.step(f"Reading {data}")
            parts = reading.parts(data, valid)
        outputs.features_of(parts[0])
        return parts

    def show(
        self,
        document: object,
        *tables: tuple[str, Table],
        narrow: Table | None = None,
        notes: Sequence[str] = (),
        wrote: Sequence[Path | None] = (),
        stopped: str = "",
    ) -> None:
        """Print a result, as JSON or as tables with titles, notes, and which files were written.

        ``narrow`` is the first table for a small terminal; a training that ``stopped`` by an interruption ends with
        130.
        """
        if self.json:
            console.document(document)
        for title, table in () if self.json else tables:
            console.table(table, title=title, narrow=narrow if table is tables[0][1] else None)
        for note in notes:
            console.note(note)
        self.wrote(*wrote)
        if stopped == "interrupted":
            raise typer.Exit(130)

    def say(self, document: object, *pages: Any, plot: Path | None = None, wrote: Sequence[Path | None] = ()) -> None:
        """Print a result, as JSON or as it prints itself; ``plot`` is the file for the figure of the first page."""
        if plot is not None:
            pages[0].plot(plot, force=self.force)
        if self.json:
            console.document(document)
        for page in () if self.json else pages:
            console.say(str(page), wrap=False)
        self.wrote(*wrote, plot)

    def wrote(self, *paths: Path | None) -> None:
        """Print which files were written."""
        for path in paths:
            if path is not None and not self.json:
                console.note(f"wrote {path}")

    def deliver(
        self, result: Any, output: Path | None = None, plot: Path | None = None, *, titles: Sequence[str] = ("",),
        about: Keywords = inputs.NONE, stopped: str = "", **options: Any,
    ) -> None:  # fmt: skip
        """Write a result, draw it and print its tables; JSON has ``about`` too.

        ``options`` are of its table and figure; with several ``titles`` these are those of its tables.
        """
        document = result.to_dict()
        tables = result.tables() if len(titles) > 1 else [result.table(**options)]
        if output is not None:
            outputs.save(output, document, tables, result.to_frame(), force=self.force)
        if plot is not None:
            result.plot(plot, force=self.force, **options)
        titled = zip(titles, tables, strict=False)
        self.show({**about, **document}, *titled, wrote=(output, plot), stopped=stopped)

    def deliver_scores(
        self, scores: "Array", data: "RankingDataset", output: Path | None, details: Mapping[str, object], tag: str
    ) -> None:
        """Write scores to a file or print them; JSON has ``details`` beside them."""
        if output is not None:
            outputs.write_scores(output, scores, data, tag=tag, force=self.force)
        if self.json:
            counts = {"queries": data.n_queries, "documents": data.n_docs}
            details = {name: check.shown(str(value)) for name, value in details.items()}
            console.document({**details, **counts, **({"scores": scores} if output is None else {"output": output})})
        elif output is None:
            typer.echo("\n".join(map(repr, scores.tolist())))
        self.wrote(output)
