"""The command ``frontier``."""

from typing import Annotated

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli import arguments, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running
from rankwise.cli.train import rankers


def frontier(
    data: arguments.Train,
    *,
    valid: Annotated[
        str | None, "Data that every point is measured on, instead of out of fold; of a set, its part.",
        Option(metavar="DATA")
    ] = None,
    objective: Annotated[
        list[str], "The objective of a goal; given two or three times.", Option(metavar="EXPRESSION")
    ],
    metrics: Annotated[arguments.Metrics, "One for each objective."] = (),
    ranker: arguments.Ranker = None,
    curve: Annotated[Keywords, Of(lambda: {"": [rw.frontier]})],
    settings: Annotated[rankers.Settings, Only("rounds", "epochs", "seed", "threads")],
    set_: arguments.Set = inputs.NONE,
    plot: arguments.Plot = None,
    output: arguments.Summary = None,
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:  # fmt: skip
    """Train bags with different weights of two or three goals, and show what each goal costs the others.

    Every point of the frontier is a bag on the same folds of TRAIN, and measured on --valid, or else out of fold.

    rankwise frontier train.csv --label buy=purchase --objective xendcg --objective "on(buy, xendcg)"
    """
    running.free(plot, outputs.PICTURES)
    running.free(output, outputs.TABLES, beside=plot)
    if metrics and len(metrics) != len(objective):
        got = f"{len(metrics)} metrics and {len(objective)} objectives"
        raise check.error("every objective has one metric", got=got, hint="repeat --objective, or leave --metrics out")
    model = rankers.build(ranker, None, settings, set_)
    with running.steps(2) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
    outputs.features_of(parts[0])
    goals = dict(zip(metrics, objective, strict=True)) if metrics else objective
    running.deliver(rw.frontier(model, *parts, goals, **curve), output, plot)
