"""The command ``tune``."""

from pathlib import Path

import typer

import rankwise as rw
from rankwise import check
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading


def tune(
    *,
    data: options.Train,
    output: Path,
    valid: str | None = None,
    objective: str | None = None,
    ranker: str | None = None,
    bag: int | None = None,
    trials: int | None = None,
    minutes: float | None = None,
    space: str = "default",
    search: list[str] | None = None,
    set_: list[str] | None = None,
    rounds: int | None = None,
    epochs: int | None = None,
    patience: int | None = None,
    metric: str = "ndcg@10",
    study: Path | None = None,
    resume: bool = False,
    prune: bool = True,
    plot: Path | None = None,
    seed: int = 0,
    threads: int | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Search for the parameters of a ranker and its objective that rank the validation data best.

    Trials and minutes count over all runs of a study: an interrupted search, run again with --resume, does the rest.
    Do not search on test data.

    [cyan]rankwise tune train.txt --valid valid.txt --objective xendcg -o best.toml --plot search.png[/cyan]
    [cyan]rankwise tune mq2008 --fold 1 --minutes 30 -o best.toml --resume[/cyan]
    [cyan]rankwise tune train.txt --bag 5 --set smoothing=5 -o best.toml[/cyan]
    [cyan]rankwise tune train.txt --valid valid.txt --space none --search "leaves=whole(7, 63)" -o best.toml[/cyan]

    --output -o FILE: The file of the best parameters: .toml or .json.
    --bag N>=2: Search for a bag of N rankers, judged by queries of TRAIN and --valid that members have not seen.
    --trials N>=1: How many trials. [default: 50]
    --minutes X: How many minutes of training.
    --space default|kang2024|none: The ranges that are searched.
    --search NAME=RANGE: A range to search: 'leaves=whole(7, 63)', 'stochastic.scale=log(0.05, 1)'; may be repeated.
    --metric METRIC: What is maximised on the validation data.
    --study FILE: The file that keeps every trial. [default: the output's name, ending in .db]
    --resume: Resume the search in that file, if there is one.
    --prune/--no-prune: End trials early that fall behind.
    --plot FILE: Draw the search: .png, .svg or .pdf.
    """
    from rankwise.model_selection.result import ENDINGS
    from rankwise.model_selection.study import check_study_target

    outputs.free(output, ENDINGS, force=force or resume)
    outputs.free(plot, outputs.PICTURES, force=force or resume)
    study = study or output.with_suffix(".db")
    if study in (output, plot):
        raise check.error("the study needs a file of its own", got=str(study), hint="name another with --study")
    check_study_target(study, resume=resume)
    fixed = inputs.settings(set_ or [])
    fixed |= {name: count for name, count in {"rounds": rounds, "epochs": epochs}.items() if count is not None}
    if patience is not None:
        fixed["patience"] = patience or None
    ranges = inputs.pairs(search or [], "NAME=RANGE")
    inputs.readable(objective, [metric])
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
    if parts[1] is None and bag is None:
        raise check.error("a search needs validation data", hint="add --valid DATA, or --bag 5")
    outputs.features_of(parts[0])
    result = rw.tune(
        parts[0],
        parts[1],
        objective,
        ranker=ranker or "lightgbm",
        folds=bag,
        metric=metric,
        trials=trials,
        minutes=minutes,
        space=space,
        search=ranges,
        fixed=fixed,
        checkpoint=study,
        resume=resume,
        prune=prune,
        seed=seed,
        threads=threads,
        progress=progress,
    )
    result.save(output, force=force or resume)
    if plot is not None:
        result.plot(plot, force=force or resume)
    outputs.show(result.to_dict(), ("", result.table()), json=json, wrote=(output, result.checkpoint, plot))
    if result.stopped == "interrupted":
        console.note("interrupted: these are the best parameters so far; --resume continues the search")
        raise typer.Exit(130)
