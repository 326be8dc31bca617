"""The command ``tune``."""

from pathlib import Path
from typing import Annotated

import typer

from rankwise import check
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading, reads_data
from rankwise.cli.options import flag, option


@reads_data
def tune(
    *,
    data: options.Train,
    output: Annotated[Path, option("The file of the best parameters: .toml or .json.", "FILE", "--output", "-o")],
    valid: options.Valid = None,
    objective: options.Objective = None,
    ranker: options.Ranker = None,
    bag: Annotated[
        int | None,
        option(
            "Search for a bag of N rankers, judged by queries of TRAIN and --valid that members have not seen.",
            "N",
            min=2,
        ),
    ] = None,
    trials: Annotated[int | None, option("How many trials.", "N", default="50", min=1)] = None,
    minutes: Annotated[float | None, option("How many minutes of training.", "X")] = None,
    space: Annotated[str, option("The ranges that are searched.", "default|kang2024|none")] = "default",
    search: Annotated[
        list[str] | None,
        option(
            "A range to search: 'leaves=whole(7, 63)', 'stochastic.scale=log(0.05, 1)'; may be repeated.", "NAME=RANGE"
        ),
    ] = None,
    set_: options.Set = None,
    rounds: options.Rounds = None,
    epochs: options.Epochs = None,
    patience: options.Patience = None,
    metric: Annotated[str, option("What is maximised on the validation data.", "METRIC")] = "ndcg@10",
    fold: options.Fold = None,
    study: Annotated[
        Path | None, option("The file that keeps every trial.", "FILE", default="the output's name, ending in .db")
    ] = None,
    resume: Annotated[bool, flag("Resume the search in that file, if there is one.", "--resume")] = False,
    prune: Annotated[bool, flag("End trials early that fall behind.", "--prune/--no-prune")] = True,
    plot: Annotated[Path | None, option("Draw the search: .png, .svg or .pdf.", "FILE")] = None,
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
