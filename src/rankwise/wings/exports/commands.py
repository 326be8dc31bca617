"""The command ``export``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from rankwise import check
from rankwise.check.parameters import Option, Unset
from rankwise.cli.wing import TRAIN, Only, Running, arguments, console, register

if TYPE_CHECKING:
    from typer import Typer


def export(
    model: arguments.Model,
    *,
    output: Annotated[Path, "The file to write.", Option(short="-o", metavar="FILE")],
    format_: Annotated[
        str, "The format: onnx, treelite, elasticsearch, elastic-ltr, vespa, solr or sql.",
        Option(short="-f", metavar="NAME")
    ],
    names: Annotated[
        Path | None, "The names of the features there, one per line in the order of training.",
        Unset("those of the training data")
    ] = None,
    target: Annotated[
        str | None, "The engine and its version, as opensearch-2.19; what it scores otherwise is an error.",
        Option(metavar="ENGINE")
    ] = None,
    running: Annotated[Running, Only("force", "json")],
) -> None:  # fmt: skip
    """Write a model for the system that serves it, where documents get the scores that they get here.

    Elasticsearch, Solr and Vespa find features by their names: those of a feature set or store, or rank features.

    rankwise export model -o model.onnx --format onnx
    rankwise export model -o model.json --format elasticsearch --names features.txt
    rankwise export model -o model.json --format vespa
    """
    running.check_target(output)
    from rankwise.wings.exports.export import write

    words = None
    if names is not None:
        with check.naming(names):
            words = check.readable(names, pipe=True).read_text(encoding="utf-8").splitlines()
    with console.notes_after() as notes:
        path, load = write(model, output, format_, names=words, target=target, force=running.force)
    document = {"model": model, "output": path, "format": format_, "bytes": path.stat().st_size, "load": load}
    running.say(document, load, wrote=(path,))
    for note in notes:
        console.note(note)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, TRAIN, export)
