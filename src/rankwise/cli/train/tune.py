"""The command ``tune``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Unset
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import RUNNING, But, Of, Only
from rankwise.cli.running import Running
from rankwise.cli.train import rankers


def tune(
    data: arguments.Train,
    *,
    output: Annotated[Path, "The file of the best parameters: .toml or .json.", Option(short="-o", metavar="FILE")],
    valid: arguments.Valid = None,
    ranker: arguments.Ranker = None,
    objective: arguments.Objective = None,
    search: Annotated[Keywords, Of(lambda: {"Searching": [rw.tune]})],
    fixed: Annotated[rankers.Settings, Only("rounds", "epochs", "patience")],
    set_: arguments.Set = inputs.NONE,
    checkpoint: Annotated[
        Path | None, "The file that keeps every trial.", Unset("the output's name, ending in .db"),
        Option(metavar="FILE", group=RUNNING)
    ] = None,
    resume: arguments.Resume = False,
    plot: arguments.Plot = None,
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:  # fmt: skip
    """Search for the parameters of a ranker and its objective that rank the validation data best.

    Trials and minutes count over all runs with the same --checkpoint: an interrupted search, run again with --resume,
    does the rest. Do not search on test data.

    rankwise tune train.txt --valid valid.txt --objective xendcg -o best.toml --plot search.png
    rankwise tune mq2008 --fold 1 --minutes 30 -o best.toml --resume
    rankwise tune train.txt --folds 5 --set smoothing=5 -o best.toml
    rankwise tune train.txt --valid valid.txt --search "leaves=whole(7, 63)" -o best.toml
    """
    from rankwise.model_selection.result import ENDINGS
    from rankwise.model_selection.study import check_study_target

    running = replace(running, force=running.force or resume)
    running.free(output, ENDINGS)
    running.free(plot, outputs.PICTURES)
    checkpoint = checkpoint or output.with_suffix(".db")
    if checkpoint in (output, plot):
        hint = "name another with --checkpoint"
        raise check.error("the study needs a file of its own", got=str(checkpoint), hint=hint)
    check_study_target(checkpoint, resume=resume)
    inputs.readable(objective, [search.get("metric", "ndcg@10")])
    with running.steps(2) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
    if parts[1] is None and "folds" not in search:
        raise check.error("a search needs validation data", hint="add --valid DATA, or --folds 5")
    outputs.features_of(parts[0])
    result = rw.tune(
        *parts,
        objective,
        ranker=ranker or "lightgbm",
        fixed=set_ | fixed,
        checkpoint=checkpoint,
        resume=resume,
        **search,
    )
    result.save(output, force=running.force)
    if plot is not None:
        result.plot(plot, force=running.force)
    running.show(result.to_dict(), ("", result.table()), wrote=(output, result.checkpoint, plot))
    if result.stopped == "interrupted":
        console.note("interrupted: these are the best parameters so far; --resume continues the search")
        raise typer.Exit(130)
