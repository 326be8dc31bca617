"""The command ``tune``."""

from pathlib import Path
from typing import Annotated

import typer

from rankwise import check
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading, reads_data


@reads_data
def tune(
    *,
    data: options.Train,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="The file of the best parameters: .toml or .json.")
    ],
    valid: options.Valid = None,
    objective: options.Objective = None,
    ranker: options.Ranker = None,
    bag: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Search for a bag of N rankers, judged by queries of TRAIN and --valid that members have not seen.",
        ),
    ] = None,
    trials: Annotated[int | None, typer.Option(min=1, metavar="N", help="How many trials.", show_default="50")] = None,
    minutes: Annotated[float | None, typer.Option(metavar="X", help="How many minutes of training.")] = None,
    space: Annotated[
        str, typer.Option(metavar="default|kang2024|none", help="The ranges that are searched.")
    ] = "default",
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=RANGE",
            help="A range to search: 'leaves=whole(7, 63)', 'stochastic.scale=log(0.05, 1)'; may be repeated.",
        ),
    ] = None,
    set_: options.Set = None,
    rounds: options.Rounds = None,
    epochs: options.Epochs = None,
    patience: options.Patience = None,
    metric: Annotated[
        str, typer.Option(metavar="METRIC", help="What is maximised on the validation data.")
    ] = "ndcg@10",
    fold: options.Fold = None,
    study: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="The file that keeps every trial.", show_default="the output's name, ending in .db"
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume the search in that file, if there is one.")] = False,
    prune: Annotated[bool, typer.Option("--prune/--no-prune", help="End trials early that fall behind.")] = True,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Draw the search: .png, .svg or .pdf.")] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    reading: Reading,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Search for the parameters of a ranker and its objective that rank the validation data best.

    Trials and minutes count over all runs of a study: an interrupted search, run again with --resume, does the rest.
    Do not search on test data.

    [cyan]rankwise tune train.txt --valid valid.txt --objective xendcg -o best.toml --plot search.png[/cyan]
    [cyan]rankwise tune mq2008 --fold 1 --minutes 30 -o best.toml --resume[/cyan]
    [cyan]rankwise tune train.txt --bag 5 --set smoothing=5 -o best.toml[/cyan]
    [cyan]rankwise tune train.txt --valid valid.txt --space none --search "leaves=whole(7, 63)" -o best.toml[/cyan]
    """
    from rankwise.model_selection.result import ENDINGS
    from rankwise.model_selection.study import ready

    outputs.free(output, ENDINGS, force=force or resume)
    outputs.free(plot, outputs.PICTURES, force=force or resume)
    study = study or output.with_suffix(".db")
    if study in (output, plot):
        raise check.error("the study needs a file of its own", got=str(study), hint="name another with --study")
    ready(study, resume=resume)
    import rankwise as rw

    fixed = inputs.settings(set_ or [])
    fixed |= {name: count for name, count in {"rounds": rounds, "epochs": epochs}.items() if count is not None}
    if patience is not None:
        fixed["patience"] = patience or None
    ranges = inputs.pairs(search or [], "NAME=RANGE")
    inputs.readable(objective, [metric])
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid, fold)
    if parts[1] is None and bag is None:
        raise check.error("a search needs validation data", hint="add --valid DATA, or --bag 5")
    outputs.features_of(parts[0])
    result = rw.tune(
        parts[0],
        parts[1],
        objective or "lambdarank",
        ranker=ranker or "lightgbm",
        bag=bag,
        metric=metric,
        trials=trials,
        minutes=minutes,
        space=space,
        search=ranges,
        fixed=fixed,
        study=study,
        resume=resume,
        prune=prune,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    result.save(output, force=force or resume)
    if plot is not None:
        result.plot(plot, force=force or resume)
    outputs.show(result.to_dict(), ("", result.table()), json=json, wrote=(output, result.study, plot))
    if result.stopped == "interrupted":
        console.note("interrupted: these are the best parameters so far; --resume continues the search")
        raise typer.Exit(130)
