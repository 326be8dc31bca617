"""The command ``explain``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwise import check
from rankwise.cli import console, options, outputs
from rankwise.cli.data_options import Reading, reads_data
from rankwise.cli.options import option

if TYPE_CHECKING:
    from rankwise.evaluation.breakdown import Breakdown
    from rankwise.evaluation.explanation import Explanation


@reads_data
def explain(
    *,
    model: options.Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help=options.FORMS)],
    query: Annotated[
        str | None,
        option("The query to explain: its id, or its number from 0 where there are no ids.", "ID", "--query", "-q"),
    ] = None,
    document: Annotated[
        list[str] | None,
        option(
            "A document of the query: its id, or its number from 0 in the data; may be repeated.",
            "ID",
            "--document",
            "-d",
            default="the first five of the ranking",
        ),
    ] = None,
    above: Annotated[str | None, option("With --below: say why this document ranks above the other.", "ID")] = None,
    below: Annotated[str | None, option("With --above: the other document.", "ID")] = None,
    top: Annotated[int, option("Features that are shown by themselves; the others are one row.", "N", min=1)] = 10,
    plot: Annotated[Path | None, option("Draw it: .png, .svg or .pdf.", "FILE", default=False)] = None,
    output: Annotated[
        Path | None,
        option("Write it: every feature as .csv or .json, the table as .md, .tex or .txt.", "FILE", "--output", "-o"),
    ] = None,
    part: options.Part = None,
    fold: options.Fold = None,
    reading: Reading,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Explain the ranking of a query: what each feature adds to the scores of its documents.

    Contributions are SHAP values for trees and integrated gradients for nets. They add up to the scores, and the
    difference of two documents' contributions to the difference of their scores. In a table of yours the columns of ids
    are named with --read query=COLUMN and --read document=COLUMN.

    [cyan]rankwise explain model test.txt --query 15928[/cyan]
    [cyan]rankwise explain model test.txt --query 15928 --document GX010-40 --top 5[/cyan]
    [cyan]rankwise explain model test.txt --query 15928 --above GX010-40 --below GX016-32 --plot why.png[/cyan]
    [cyan]rankwise explain model mq2008 --fold 2 --query 15928 -o why.csv[/cyan]
    """
    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(plot, outputs.PICTURES, force=force, beside=output)
    if (above is None) != (below is None):
        hint = "name two documents, --above A --below B"
        raise check.error("--above and --below belong together", got="one of them", hint=hint)
    if above is not None and document:
        raise check.error("one thing is shown at a time", got="--document beside --above", hint="leave one of them out")
    import rankwise as rw

    with console.progress(3, progress) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        bar.step(f"Reading {data}")
        lists = reading.data(data, part=part, fold=fold, bar=bar, tables=ranker.columns_to_score())
        bar.step("Explaining")
        with check.naming(data):
            why = rw.explain(ranker, lists, query)
            shown = _shown(why, document, above, below)
    table = shown.table(top)
    if output is not None:
        outputs.save(output, document=shown.to_dict(), tables=[table], frame=shown.to_frame(), force=force)
    if plot is not None:
        shown.plot(plot, top=top, force=force)
    document_ = {"model": model, "data": data, **shown.to_dict()}
    outputs.show(document_, (shown.title, table), json=json, wrote=(output, plot))


def _shown(
    why: "Explanation", documents: list[str] | None, above: str | None, below: str | None
) -> "Explanation | Breakdown":
    """Two documents against each other, one, some, or all."""
    if above is not None:
        return why.versus(above, below)
    if not documents:
        return why
    return why.document(documents[0]) if len(documents) == 1 else why.take(documents)
