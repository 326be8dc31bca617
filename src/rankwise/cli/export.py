"""The command ``export``."""

import warnings
from pathlib import Path
from typing import Annotated

import typer

from rankwise import check
from rankwise.cli import options, outputs, screen


def export(
    model: options.Model,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The file to write.")],
    format_: Annotated[
        str,
        typer.Option(
            "--format", "-f", metavar="NAME", help="The format: onnx, treelite, elasticsearch, ranklib or vespa."
        ),
    ],
    names: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The names of the features there, one per line in the order of training.",
            show_default="those of the training data",
        ),
    ] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Write a model for the system that serves it, where documents get the scores that they get here.

    Elasticsearch and Vespa find features by their names: those of a feature set, or rank features.

    [cyan]rankwise export model -o model.onnx --format onnx[/cyan]
    [cyan]rankwise export model -o model.json --format elasticsearch --names features.txt[/cyan]
    [cyan]rankwise export model -o model.json --format vespa[/cyan]
    """
    outputs.free(output, force=force)
    from rankwise.serving.table import FORMATS, write

    check.choice("format", format_, FORMATS)
    words = None
    if names is not None:
        with check.naming(names):
            words = check.readable(names, pipe=True).read_text(encoding="utf-8").splitlines()
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", RuntimeWarning)
        path, load = write(model, output, format_, names=words, force=force)
    if json:
        about = {"model": model, "output": path, "format": format_, "bytes": path.stat().st_size, "load": load}
        screen.document(about)
    else:
        outputs.said(path)
        screen.say(load, wrap=False)
    for one in said:
        screen.note(str(one.message))
