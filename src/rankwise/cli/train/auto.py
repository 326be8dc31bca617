"""The command ``auto``."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwise import check
from rankwise.arrays import Json
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading, reads_data
from rankwise.cli.options import option

if TYPE_CHECKING:
    from rankwise.statistics.evaluation import Evaluation


@reads_data
def auto(
    *,
    data: options.Train,
    output: Annotated[Path, option("The folder that the ranker that is taken goes to.", "DIR", "--output", "-o")],
    minutes: Annotated[
        float,
        option(
            "How long the search may take, over all runs with the same --study; inf: until all recipes are tried.", "X"
        ),
    ] = 10.0,
    metric: Annotated[str, option("What is maximised on queries that members have not seen.", "METRIC")] = "ndcg@10",
    valid: Annotated[
        str | None, option("More queries to learn from and to choose by; of a set, its part.", "DATA")
    ] = None,
    test: Annotated[
        str | None, option("Data to evaluate the ranker on once it is taken; nothing is chosen by them.", "DATA")
    ] = None,
    report: Annotated[Path | None, option("Write the leaderboard as a page for a browser: .html.", "FILE")] = None,
    prefer: Annotated[
        str,
        option("best: the average of all kinds; fast: one forest, which is fast to score and can be exported.", "KIND"),
    ] = "best",
    max_recipes: Annotated[
        int | None, option("Try the first N recipes only; with --minutes inf the result repeats.", "N", min=1)
    ] = None,
    monotone: Annotated[
        list[str] | None,
        option(
            "A feature with which scores only rise (NAME=1) or only fall (NAME=-1); may be repeated. Nets, "
            "which cannot be told, are left out.",
            "NAME=SIGN",
        ),
    ] = None,
    bag: Annotated[int, option("Members of the bag that each recipe is trained as, and folds.", "N", min=2)] = 5,
    fold: options.Fold = None,
    study: Annotated[
        Path | None,
        option(
            "A folder that keeps trained recipes; the same command resumes the search in it.",
            "DIR",
            panel=options.RUNNING,
        ),
    ] = None,
    processes: Annotated[
        int, option("How many processes train members side by side.", "N", panel=options.RUNNING, min=1)
    ] = 1,
    dask: Annotated[
        str | None,
        option(
            "Train members on the workers of the Dask cluster whose scheduler has this address.",
            "ADDRESS",
            panel=options.RUNNING,
        ),
    ] = None,
    seed: options.Seed = 0,
    threads: options.Threads = None,
    reading: Reading,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train recipes until the time is over, and write their average.

    Each recipe, the default ranker first, is trained as a bag, on TRAIN and --valid together, and judged on queries
    that its members have not seen; those that are surely worse than the best are left out of the average. Ctrl-C ends
    the search and keeps the best so far.

    [cyan]rankwise auto train.txt --minutes 10 -o model[/cyan]
    [cyan]rankwise auto mq2008 --fold 1 --minutes 30 --study search -o model --test mq2008[/cyan]
    [cyan]rankwise auto train.txt --prefer fast -o model[/cyan]
    [cyan]rankwise auto train.txt --minutes inf --max-recipes 3 --report page.html -o model[/cyan]
    """
    force = outputs.free_model(output, force=force, resume=study is not None and study.exists())
    outputs.free(report, (".html",), force=force)
    if study is not None:
        from rankwise.model_selection.auto.store import ready

        ready(study)
        if study.resolve() == output.resolve():
            raise check.error("the search needs a folder of its own", got=str(study), hint="name another --study")
    inputs.readable(None, [metric])
    import rankwise as rw
    from rankwise.data import leakage
    from rankwise.rankers import inputs as rankers

    model = rw.AutoRanker(
        None if minutes == math.inf else minutes,
        metric,
        prefer=prefer,
        max_recipes=max_recipes,
        monotone_constraints=inputs.settings(monotone) if monotone else None,  # type: ignore[arg-type]
        folds=bag,
        seed=seed,
        threads=threads,
        processes=processes,
        dask=dask,
        study=study,
        progress=False if json and progress is None else progress,
    )
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid, fold)
        held_back = None if test is None else reading.data(test, fold=fold)
    outputs.features_of(parts[0])
    if held_back is not None:
        leakage.compare_parts(parts, rankers.aligned(held_back, parts[0]), "test")
    with console.notes_after() as notes:
        model.fit(*parts)
    model.save(output, force=force)
    tested = None if held_back is None else rw.evaluate(model, held_back, [metric])
    if report is not None:
        from rankwise.report.leaderboard import write_leaderboard

        write_leaderboard(model.leaderboard_, report, tested=tested, force=force)
    if json:
        console.document(_described(model.leaderboard_.to_dict(), output, tested))
    else:
        console.table(model.leaderboard_.table(), narrow=model.leaderboard_.brief())
        if tested is not None:
            console.table(tested.table(), title=f"On {test}")
    for one in notes:
        console.note(one)
    if not json:
        outputs.said(output, report)
    if model.stopped_ == "interrupted":
        raise typer.Exit(130)


def _described(leaderboard: Json, output: Path, tested: "Evaluation | None") -> Json:
    document: Json = {"model": output, **leaderboard}
    return document if tested is None else document | {"test": tested.to_dict()}
