"""The command ``auto``."""

import math
from pathlib import Path

import rankwise as rw
from rankwise import check
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading


def auto(
    *,
    data: options.Train,
    output: Path,
    minutes: float = 10.0,
    metric: str = "ndcg@10",
    valid: str | None = None,
    test: str | None = None,
    report: Path | None = None,
    prefer: str = "best",
    max_recipes: int | None = None,
    monotone: list[str] | None = None,
    constraint: list[str] | None = None,
    bag: int = 5,
    study: Path | None = None,
    processes: int = 1,
    dask: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train recipes until the time is over, and write their average.

    Each recipe, the default ranker first, is trained as a bag, on TRAIN and --valid together, and judged on queries
    that its members have not seen; those that are surely worse than the best are left out of the average. Ctrl-C ends
    the search and keeps the best so far.

    [cyan]rankwise auto train.txt --minutes 10 -o model[/cyan]
    [cyan]rankwise auto mq2008 --fold 1 --minutes 30 --study search -o model --test mq2008[/cyan]
    [cyan]rankwise auto train.txt --prefer fast -o model[/cyan]
    [cyan]rankwise auto train.txt --minutes inf --max-recipes 3 --report page.html -o model[/cyan]

    --output -o DIR: The folder that the ranker that is taken goes to.
    --minutes X: How long the search may take, over all runs with the same --study; inf: until all recipes are tried.
    --metric METRIC: What is maximised on queries that members have not seen.
    --valid DATA: More queries to learn from and to choose by; of a set, its part.
    --test DATA: Data to evaluate the ranker on once it is taken; nothing is chosen by them.
    --report FILE: Write the leaderboard as a page for a browser: .html.
    --prefer KIND: best: the average of all kinds; fast: one forest, which is fast to score and can be exported.
    --max-recipes N>=1: Try the first N recipes only; with --minutes inf the result repeats.
    --monotone NAME=SIGN: A feature with which scores only rise (NAME=1) or only fall (NAME=-1); may be repeated. Nets,
        which cannot be told, are left out.
    --constraint METRIC=GOAL: A goal that the lower bound of a metric must reach on queries that members have not seen:
        'ndcg(label=purchase)@10=0.62'; may be repeated.
    --bag N>=2: Members of the bag that each recipe is trained as, and folds.

    Running:
    --study DIR: A folder that keeps trained recipes; the same command resumes the search in it.
    --processes N>=1: How many processes train members side by side.
    --dask ADDRESS: Train members on the workers of the Dask cluster whose scheduler has this address.
    """
    force = outputs.free_model(output, force=force, resume=study is not None and study.exists())
    outputs.free(report, (".html",), force=force)
    if study is not None:
        from rankwise.model_selection.auto.store import workspace

        workspace(study, {}).check_target(resume=True)
        if study.resolve() == output.resolve():
            raise check.error("the search needs a folder of its own", got=str(study), hint="name another --study")
    inputs.readable(None, [metric])
    from rankwise.data import leakage
    from rankwise.rankers import fit_arguments as rankers

    model = rw.AutoRanker(
        None if minutes == math.inf else minutes,
        metric,
        prefer=prefer,
        max_recipes=max_recipes,
        constraints=None if constraint is None else inputs.goals(constraint),
        monotone_constraints=inputs.settings(monotone) if monotone else None,  # type: ignore[arg-type]
        folds=bag,
        seed=seed,
        threads=threads,
        processes=processes,
        dask=dask,
        checkpoint=study,
        progress=False if json and progress is None else progress,
    )
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
        held_back = None if test is None else reading.data(test)
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
    document = {"model": output, **model.leaderboard_.to_dict()}
    tables = [("", model.leaderboard_.table())]
    if tested is not None:
        document["test"] = tested.to_dict()
        tables.append((f"On {check.shown(str(test))}", tested.table()))
    outputs.show(
        document, *tables, json=json, narrow=model.leaderboard_.brief(), notes=notes, wrote=(output, report),
        stopped=model.stopped_,
    )  # fmt: skip
