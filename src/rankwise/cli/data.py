"""The commands of ``data``: ``info``, ``check``, ``convert``, ``split``; wings add theirs."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.base import files
from rankwise.check.parameters import Option
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.command import grouped
from rankwise.cli.data_options import Reading
from rankwise.cli.options import RUNNING, But, Only
from rankwise.cli.running import Running, Seed
from rankwise.cli.segments import segment_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from rankwise.data.dataset import RankingDataset

_FORMS = "The file to write: .parquet, or LETOR text as .txt, .svm, .txt.gz, .txt.zst."
_FILES = "The files to write, between commas."
Json_ = Annotated[Running, Only("json")]


@dataclass(frozen=True, kw_only=True)
class Writing:
    """How ranking data are written."""

    lossy: Annotated[bool, "Write LETOR text although it cannot hold weights, groups, positions or propensities."] = (
        False
    )
    force: Annotated[bool, "Replace files that exist already.", Option(group=RUNNING)] = False

    def check_target(self, target: Path) -> None:
        """Raise at once if a file could not be written at the end, or its name does not say its format."""
        from rankwise.data.io.reading import format_to_write

        format_to_write(target)
        files.check_writable(target, force=self.force)

    def write(self, data: "RankingDataset", target: Path) -> None:
        """Write data, and print what was written."""
        with console.progress(1) as bar:
            bar.step(f"Writing {target}")
            rw.write_data(data, target, force=self.force, lossy=self.lossy)
        console.note(f"wrote {target}: {data!r}")


@dataclass(frozen=True, kw_only=True)
class Target(Writing):
    """The file that a command writes."""

    output: Annotated[Path, _FORMS, Option(short="-o", metavar="FILE")]

    def changed(self, source: str, reading: Reading, change: "Callable[[RankingDataset], RankingDataset]") -> None:
        """Read data, change them and write them."""
        self.check_target(self.output)
        self.write(change(read(source, reading)), self.output)


def info(source: arguments.Data, *, reading: Reading, running: Json_) -> None:
    """Describe a data set: how many queries and documents, which features and labels, what is missing.

    rankwise data info train.txt.gz
    rankwise data info mq2008 --part train --fold 3 --json
    """
    data = read(source, reading)
    from rankwise.data.summary import in_words, summary

    facts = summary(data)
    running.show(facts, ("", in_words(facts)))


def check_(
    source: arguments.Data,
    *,
    valid: arguments.Valid = None,
    test: Annotated[str | None, "Test data; of a set, its own part.", Option(metavar="DATA")] = None,
    curve: Annotated[bool, "Also train on parts of the queries, and forecast what twice as many are worth."] = False,
    segment: arguments.Segment = (),
    strict: Annotated[bool, "End with exit code 3 on warnings, too."] = False,
    plot: arguments.Plot = None,
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Examine data before anything is trained on them: what is wrong, and what they can show.

    Errors, and with --strict warnings, end with exit code 3. The figure shows NDCG@10 of orders without learning.

    rankwise data check train.txt --valid valid.txt --test test.txt --plot check.png
    rankwise data check mq2008 --fold 3 --strict
    """
    running.check_target(plot, outputs.PICTURES)
    from rankwise.data.io.reading import is_set

    train, held_out = reading.parts(source, valid)
    test = source if test is None and is_set(source) else test
    part = {"part": "test"} if test is not None and is_set(test) else {"fold": None}
    tested = None if test is None else replace(reading, **part).data(test)
    page = rw.examine(train, held_out, tested, curve=curve, segment=segment_of(segment))
    failed = page.failed(strict=strict)
    running.say({"failed": failed, "findings": page.to_frame().to_dicts()}, page, plot=plot)
    if failed:
        raise typer.Exit(3)


def convert(source: arguments.Data, *, target: Target, reading: Reading) -> None:
    """Convert LETOR text, CSV or Parquet to LETOR text or Parquet, compressed or not.

    rankwise data convert train.txt.gz -o train.parquet
    rankwise data convert rows.csv --query session --label clicked -o rows.parquet
    rankwise data convert mq2008 -o test.parquet --part test
    """
    target.changed(source, reading, lambda data: data)


def split(
    source: arguments.Data,
    *,
    output: Annotated[str, _FILES, Option(short="-o", metavar="FILES")],
    proportions: Annotated[tuple[float, ...], "The share of the queries that each file gets, between commas."] = (
        0.6, 0.2, 0.2,
    ),
    seed: Seed = 0,
    writing: Writing,
    reading: Reading,
) -> None:  # fmt: skip
    """Split a data set by query: all documents of a query go into the same file.

    Where a query goes depends on its id and the seed, not on the order of the queries.

    rankwise data split all.txt -o train.txt,valid.txt,test.txt --proportions .6,.2,.2 --seed 1
    """
    targets = [Path(name) for name in inputs.items(output)]
    if len(targets) != len(proportions) or len(set(targets)) < len(targets):
        got = f"{len(set(targets))} different files for {len(proportions)} proportions"
        raise check.error("a split needs one file for each proportion", got=got)
    for target in targets:
        writing.check_target(target)
    for target, piece in zip(targets, rw.split(read(source, reading), proportions, seed=seed), strict=True):
        writing.write(piece, target)


def read(source: str, reading: Reading) -> "RankingDataset":
    """Read data; of a set the training part, which is the one to look at, split and perturb: test data stay unseen."""
    from rankwise.data.io.reading import is_set

    if reading.part is None and is_set(source):
        reading = replace(reading, part="train")
        console.note(f"reading the training part of {source}; --part names another")
    with console.progress(1) as bar:
        bar.step(f"Reading {source}")
        return reading.data(source, bar)


app = grouped(
    "Look at data, convert it, split it, perturb it, simulate clicks on it.",
    info, check_, convert, split,
)  # fmt: skip
