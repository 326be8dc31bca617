"""The command ``explain``."""

from pathlib import Path
from typing import TYPE_CHECKING

import rankwise as rw
from rankwise import check
from rankwise.cli import console, options, outputs
from rankwise.cli.data_options import Reading

if TYPE_CHECKING:
    from rankwise.evaluation.breakdown import Breakdown
    from rankwise.evaluation.explanation import Explanation


def explain(
    *,
    model: options.Model,
    data: options.Data,
    query: str | None = None,
    document: list[str] | None = None,
    above: str | None = None,
    below: str | None = None,
    top: int = 10,
    plot: Path | None = None,
    output: Path | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Explain the ranking of a query: what each feature adds to the scores of its documents.

    Contributions are SHAP values for trees and integrated gradients for nets. They add up to the scores, and the
    difference of two documents' contributions to the difference of their scores; of a calibrated model these are the
    scores before calibration. In a table of yours the columns of ids are named with --read query=COLUMN and --read
    document=COLUMN.

    [cyan]rankwise explain model test.txt --query 15928[/cyan]
    [cyan]rankwise explain model test.txt --query 15928 --document GX010-40 --top 5[/cyan]
    [cyan]rankwise explain model test.txt --query 15928 --above GX010-40 --below GX016-32 --plot why.png[/cyan]
    [cyan]rankwise explain model mq2008 --fold 2 --query 15928 -o why.csv[/cyan]

    --query -q ID: The query to explain: its id, or its number from 0 where there are no ids.
    --document -d ID: A document of the query: its id, or its number from 0 in the data; may be repeated. [default: the
        first three of the ranking]
    --above ID: With --below: say why this document ranks above the other.
    --below ID: With --above: the other document.
    --top N>=1: Features that are shown by themselves; the others are one row.
    --plot FILE: Draw it: .png, .svg or .pdf.
    --output -o FILE: Write it: every feature as .csv or .json, the table as .md, .tex or .txt.
    """
    from rankwise.rankers.ensembles.calibrated import CalibratedRanker

    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(plot, outputs.PICTURES, force=force, beside=output)
    if (above is None) != (below is None):
        hint = "name two documents, --above A --below B"
        raise check.error("--above and --below belong together", got="one of them", hint=hint)
    if above is not None and document:
        raise check.error("one thing is shown at a time", got="--document beside --above", hint="leave one of them out")
    with console.progress(3, progress) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        if isinstance(ranker, CalibratedRanker):  # contributions do not add up to probabilities
            console.note("explains the scores before calibration, which rank the documents of a query alike")
            ranker = ranker.ranker_
        bar.step(f"Reading {data}")
        lists = reading.data(data, bar=bar, tables=ranker.columns_to_score())
        bar.step("Explaining")
        with check.naming(data):
            why = rw.explain(ranker, lists, query)
            shown = _shown(why, document, above, below)
    table = shown.table(top)
    if output is not None:
        outputs.save(output, document=shown.to_dict(), tables=[table], frame=shown.to_frame(), force=force)
    if plot is not None:
        shown.plot(plot, top=top, force=force)
    document_ = {"model": model, "data": check.shown(data), **shown.to_dict()}
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
