"""The commands ``export`` and ``objectives``."""

import warnings
from dataclasses import asdict
from pathlib import Path

from rankwise import check
from rankwise.cli import console, options, outputs
from rankwise.statistics.tables import Table


def export(
    model: options.Model,
    output: Path,
    format_: str,
    names: Path | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Write a model for the system that serves it, where documents get the scores that they get here.

    Elasticsearch, Solr and Vespa find features by their names: those of a feature set or store, or rank features.

    [cyan]rankwise export model -o model.onnx --format onnx[/cyan]
    [cyan]rankwise export model -o model.json --format elasticsearch --names features.txt[/cyan]
    [cyan]rankwise export model -o model.json --format vespa[/cyan]

    --output -o FILE: The file to write.
    --format -f NAME: The format: onnx, treelite, elasticsearch, ranklib, vespa or solr.
    --names FILE: The names of the features there, one per line in the order of training. [default: those of the
        training data]
    """
    outputs.free(output, force=force)
    from rankwise.serving.export import FORMATS, write

    check.choice("format", format_, FORMATS)
    words = None
    if names is not None:
        with check.naming(names):
            words = check.readable(names, pipe=True).read_text(encoding="utf-8").splitlines()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RuntimeWarning)
        path, load = write(model, output, format_, names=words, force=force)
    if json:
        document = {"model": model, "output": path, "format": format_, "bytes": path.stat().st_size, "load": load}
        console.document(document)
    else:
        outputs.said(path)
        console.say(load, wrap=False)
    for one in caught:
        console.note(str(one.message))


def objectives(json: bool = False) -> None:
    """List every objective and wrapper: its paper, its arguments with their defaults, whether its Hessian is exact.

    An objective is written as in Python: a name, with arguments where they differ from their defaults. A wrapper goes
    around one, and objectives can be added up.

    [cyan]rankwise objectives[/cyan]
    [cyan]rankwise objectives --json[/cyan]
    """
    from rankwise.objectives.catalogue import entries, registered

    every = [*entries(), *registered()]
    rows = tuple((e.name, e.description, e.paper, e.hessian(), e.defaults()) for e in every)
    header = ("name", "what it is", "paper", "Hessian", "arguments")
    notes = (
        "Wrappers go around any objective, bounded around metrics: stochastic(xendcg, samples=8, scale=0.25).",
        "Sums: 0.7*xendcg + 0.3*approx_ndcg.",
    )
    table = Table(header=header, rows=rows, align="lllll", notes=notes)
    outputs.show([asdict(entry) for entry in every], ("", table), json=json)
