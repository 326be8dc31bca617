"""The commands ``cross-validate``, ``tune``, ``auto``, ``frontier`` and ``features``."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import rankwise as rw
from rankwise import check
from rankwise.base import files, hooks
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import RUNNING, But, Of, Only
from rankwise.cli.running import Running
from rankwise.cli.segments import segment_of
from rankwise.cli.train import rankers
from rankwise.cli.train.train import Parameters

SCORES = "scores.npy"
_Reading = Annotated[Reading, But("part")]
_Running = Annotated[Running, Only("progress", "force", "json")]


def cross_validate(
    data: arguments.Data,
    *,
    output: Annotated[Path, "The folder that models and results go to.", Option(short="-o", metavar="DIR")],
    folds: Annotated[int, AtLeast(2), "Number of parts of the queries, and of models."] = 5,
    ranker: arguments.Ranker = None,
    objective: arguments.Objective = None,
    params: Parameters = None,
    metrics: arguments.Metrics = arguments.DEFAULT_METRICS,
    settings: Annotated[rankers.Settings, But("checkpoint", "checkpoint_every")],
    set_: arguments.Set = inputs.NONE,
    members: rankers.Members,
    segment: arguments.Segment = (),
    validation: Annotated[
        Keywords, Of(lambda: {"": [rw.cross_validate]}), Only("seed", "checkpoint", "resume", "progress")
    ],
    reading: Annotated[Reading, But("part", "fold")],
    running: _Running,
) -> None:
    """Train a model for each part of the queries, on the others, and measure it on that part.

    The folder holds results.parquet, the value of every query, which 'rankwise evaluate' and 'rankwise compare' read,
    the scores of all documents in their order, and the models. A set that has folds itself is taken as it is.

    rankwise cross-validate all.txt --objective xendcg -o results
    rankwise cross-validate mq2008 --folds 5 --ranker neural -o results
    """
    from rankwise.data.io.reading import is_set, load_folds
    from rankwise.evaluation.evaluation_files import FILE
    from rankwise.rankers.expressions import objective_of

    check.free_path(output, force=running.force)
    if output.exists() and not (output / FILE).is_file():
        raise FileExistsError(f"{output} holds no results of folds and is kept. Hint: choose another name.")
    files.check_writable_folder(output)
    model = rankers.build(ranker, objective, settings, set_, params, members)
    inputs.readable(objective, metrics)
    with running.steps(2) as bar:
        bar.step(f"Reading {data}")
        prepared: Any = load_folds(data, folds, **reading.arguments) if is_set(data) else None
        pooled = None if prepared is not None else reading.data(data, bar)
    outputs.features_of(prepared[0].train if pooled is None else pooled)
    result = rw.cross_validate(
        model, pooled, prepared or folds, metrics=metrics, segment=segment_of(segment), **validation
    )
    output.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(result.models, 1):
        one.save(output / f"fold-{number}", force=running.force)
    rw.results.write_evaluation(result, output / FILE, force=running.force)
    with files.replacing(output / SCORES, force=running.force) as new, new.open("wb") as out:
        np.save(out, result.scores if pooled is None else pooled.unsorted(result.scores), allow_pickle=False)
    means = {name: column.tolist() for name, column in result.fold_means.items()}
    details = {"output": output, "ranker": model.name, "objective": objective_of(model)}
    document = {**details, "folds": len(result.models), **result.to_dict(), "fold_means": means}
    running.show(document, *zip(("", "By segment"), result.tables(), strict=False), wrote=(output,))


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
    reading: _Reading,
    running: _Running,
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
    running.check_target(output, ENDINGS)
    running.check_target(plot, outputs.PICTURES)
    checkpoint = checkpoint or output.with_suffix(".db")
    if checkpoint in (output, plot):
        hint = "name another with --checkpoint"
        raise check.error("the study needs a file of its own", got=str(checkpoint), hint=hint)
    check_study_target(checkpoint, resume=resume)
    inputs.readable(objective, [search.get("metric", "ndcg@10")])
    parts = running.training_data(reading, data, valid)
    if parts[1] is None and "folds" not in search:
        raise check.error("a search needs validation data", hint="add --valid DATA, or --folds 5")
    result = rw.tune(
        *parts, objective, ranker=ranker or "lightgbm", fixed=set_ | fixed, checkpoint=checkpoint, resume=resume,
        **search,
    )  # fmt: skip
    result.save(output, force=running.force)
    if plot is not None:
        result.plot(plot, force=running.force)
    so_far = "interrupted: these are the best parameters so far; --resume continues the search"
    notes = [so_far] if result.stopped == "interrupted" else []
    wrote = (output, result.checkpoint, plot)
    running.show(result.to_dict(), ("", result.table()), notes=notes, wrote=wrote, stopped=result.stopped)


def auto(
    data: arguments.Train,
    *,
    output: arguments.Folder,
    valid: Annotated[
        str | None, "More queries to learn from and to choose by; of a set, its part.", Option(metavar="DATA")
    ] = None,
    test: Annotated[
        str | None, "Data to evaluate the ranker on; nothing is chosen by them.", Option(metavar="DATA")
    ] = None,
    report: arguments.Page = None,
    settings: Annotated[Keywords, Of(lambda: {"Search": [rw.AutoRanker]}), But("recipes")],
    reading: _Reading,
    running: _Running,
) -> None:
    """Train recipes until the time is over, and write their average.

    Each recipe, the default ranker first, is trained as a bag, on TRAIN and --valid together, and judged on queries
    that its members have not seen; those that are surely worse than the best are left out. Ctrl-C ends
    the search and keeps the best so far.

    rankwise auto train.txt --minutes 10 -o model
    rankwise auto mq2008 --fold 1 --minutes 30 --checkpoint search -o model --test mq2008
    rankwise auto train.txt --prefer fast -o model
    rankwise auto train.txt --minutes inf --max-recipes 3 --report page.html -o model
    """
    study = settings.get("study", settings.get("checkpoint"))
    running = running.check_model_target(output, resume=study is not None and study.exists())
    running.check_target(report, (".html",))
    if study is not None:
        from rankwise.model_selection.auto.store import workspace

        workspace(study, {}).check_target(resume=True)
        if study.resolve() == output.resolve():
            raise check.error("the search needs a folder of its own", got=str(study), hint="name another --checkpoint")
    if running.json:
        settings.setdefault("progress", False)
    model = rw.AutoRanker(**settings)
    inputs.readable(None, [str(model.metric)])
    parts = running.training_data(reading, data, valid)
    held_back = None if test is None else reading.data(test)
    if held_back is not None:
        from rankwise.quality.parts import warn_shared
        from rankwise.rankers import fit_arguments

        warn_shared(train=parts[0], valid=parts[1], test=fit_arguments.aligned(held_back, parts[0]))
    with console.notes_after() as notes:
        model.fit(*parts)
    model.save(output, force=running.force)
    tested = None if held_back is None else rw.evaluate(model, held_back, [model.metric])
    board = model.leaderboard_
    if report is not None:
        hooks.find("report", "Leaderboard")(board, report, tested=tested, force=running.force)
    document = {"model": output, **board.to_dict()} | ({} if tested is None else {"test": tested.to_dict()})
    tables = [("", board.table())]
    if tested is not None:
        tables.append((f"On {check.shown(str(test))}", tested.table()))
    running.show(document, *tables, narrow=board.brief(), notes=notes, wrote=(output, report), stopped=model.stopped_)


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
    segment: arguments.Segment = (),
    plot: arguments.Plot = None,
    output: arguments.Summary = None,
    reading: _Reading,
    running: _Running,
) -> None:  # fmt: skip
    """Train bags with different weights of two or three goals, and show what each goal costs the others.

    Every point of the frontier is a bag on the same folds of TRAIN, and measured on --valid, or else out of fold.

    rankwise frontier train.csv --label buy=purchase --objective xendcg --objective "on(buy, xendcg)"
    """
    running.check_target(plot, outputs.PICTURES)
    running.check_target(output, outputs.TABLES, beside=plot)
    if metrics and len(metrics) != len(objective):
        got = f"{len(metrics)} metrics and {len(objective)} objectives"
        raise check.error("every objective has one metric", got=got, hint="repeat --objective, or leave --metrics out")
    model = rankers.build(ranker, None, settings, set_)
    parts = running.training_data(reading, data, valid)
    goals = dict(zip(metrics, objective, strict=True)) if metrics else objective
    result = rw.frontier(model, *parts, goals, segment=segment_of(segment), **curve)
    running.deliver(result, output, plot, titles=("", "By segment"))


def features(
    data: arguments.Train,
    *,
    cost: Annotated[
        list[str] | None,
        "What a feature costs, or several that one computation makes, their names between commas; may be repeated.",
        Unset("1 for each feature"),
        Option(metavar="FEATURE=COST"),
    ] = None,
    ranker: arguments.Ranker = None,
    objective: arguments.Objective = None,
    selection: Annotated[Keywords, Of(lambda: {"": [rw.select_features]})],
    settings: Annotated[rankers.Settings, Only("rounds", "epochs", "patience", "threads")],
    set_: arguments.Set = inputs.NONE,
    plot: arguments.Plot = None,
    output: arguments.Summary = None,
    reading: _Reading,
    running: Annotated[Running, Only("force", "json")],
) -> None:
    """Select features by what they cost and what they add, and measure what is lost without the others.

    The loss is measured on queries that had no say in which features stay.

    rankwise features train.csv --budget 20 --plot curve.png
    rankwise features train.csv --cost bm25=2 --cost first,second=30 --ranker "lightgbm(xendcg, rounds=50)"
    """
    running.check_target(plot, outputs.PICTURES)
    running.check_target(output, outputs.TABLES, beside=plot)
    model, costs = rankers.build(ranker, objective, settings, set_), inputs.costs(cost or ())
    inputs.readable(objective, [selection.get("metric", "ndcg@10")])
    train, _ = running.training_data(reading, data, None)
    result = rw.select_features(model, train, costs=costs, **selection)
    running.deliver(result, output, plot, titles=("", ""), stopped=result.stopped)
