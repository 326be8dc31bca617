"""The command ``explain``."""

from typing import TYPE_CHECKING, Annotated, Any

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli.wing import EVALUATE, Only, Reading, Running, arguments, console, outputs, register

if TYPE_CHECKING:
    from typer import Typer

_DOCUMENT = Option(metavar="ID")


def explain(
    model: arguments.Model,
    data: arguments.Data,
    *,
    id_: Annotated[
        str | None, "The query to explain: its id, or its number from 0 where there are no ids.",
        Option(short="-q", metavar="ID")
    ] = None,
    show: Annotated[
        list[str] | None,
        "A document of the query: its id, or its number from 0 in the data; may be repeated.",
        Unset("the first three of the ranking"),
        Option(short="-d", metavar="ID")
    ] = None,
    above: Annotated[str | None, "With --below: say why this document ranks above the other.", _DOCUMENT] = None,
    below: Annotated[str | None, "With --above: the other document.", _DOCUMENT] = None,
    top: Annotated[int, AtLeast(1), "Features that are shown by themselves; the others are one row."] = 10,
    plot: arguments.Plot = None,
    output: arguments.Summary = None,
    reading: Reading,
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:  # fmt: skip
    """Explain the ranking of a query: what each feature adds to the scores of its documents.

    Contributions are SHAP values for trees and integrated gradients for nets. They add up to the scores, and the
    difference of two documents' contributions to the difference of their scores; of a calibrated model these are the
    scores before calibration.

    rankwise explain model test.txt --id 15928
    rankwise explain model test.txt --id 15928 --show GX010-40 --top 5
    rankwise explain model test.txt --id 15928 --above GX010-40 --below GX016-32 --plot why.png
    rankwise explain model mq2008 --fold 2 --id 15928 -o why.csv
    """
    running.check_target(output, outputs.TABLES)
    running.check_target(plot, outputs.PICTURES, beside=output)
    if (above is None) != (below is None):
        hint = "name two documents, --above A --below B"
        raise check.error("--above and --below belong together", got="one of them", hint=hint)
    if above is not None and show:
        raise check.error("one thing is shown at a time", got="--show beside --above", hint="leave one of them out")
    with running.steps(3) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        if isinstance(ranker, rw.CalibratedRanker):  # contributions do not add up to probabilities
            console.note("explains the scores before calibration, which rank the documents of a query alike")
            ranker = ranker.ranker_
        bar.step(f"Reading {data}")
        lists = _read(data, reading, bar, ranker.columns_to_score())
        bar.step("Explaining")
        with check.naming(data):
            why = rw.explain(ranker, lists, id_)
            shown = _shown(why, show, above, below)
    about = {"model": model, "data": check.shown(data)}
    running.deliver(shown, output, plot, titles=(shown.title,), about=about, top=top)


def _read(data: str, reading: Reading, bar: Any, tables: Keywords) -> "rw.RankingDataset":
    """Read the data; --query and --document once named ids here, and name columns as everywhere."""
    try:
        return reading.data(data, bar, tables)
    except check.InputError as raised:
        for option, instead in (("query", "--id"), ("document", "--show")):
            value = reading.arguments.get(option)
            if value is not None and (raised.got == repr(value) or raised.what.startswith(f"{option} belongs to")):
                what, hint = f"--{option} names the column of ids", f"for an id type {instead} {value}"
                raise check.error(what, got=f"--{option} {value}", where=check.shown(data), hint=hint) from None
        raise


def _shown(
    why: "rw.results.Explanation", documents: list[str] | None, above: str | None, below: str | None
) -> "rw.results.Explanation | rw.results.Breakdown":
    """Two documents against each other, one, some, or all."""
    if above is not None:
        return why.versus(above, below)
    if not documents:
        return why
    return why.document(documents[0]) if len(documents) == 1 else why.take(documents)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register(app, EVALUATE, explain)
