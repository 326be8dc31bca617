"""The commands ``tune``, ``auto``, ``frontier`` and ``features``."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option, Unset
from rankwise.cli.wing import (
    RUNNING,
    TRAIN,
    But,
    Of,
    Only,
    Reading,
    Running,
    arguments,
    console,
    inputs,
    outputs,
    rankers,
    register,
    segment_of,
)

if TYPE_CHECKING:
    from typer import Typer

_Reading = Annotated[Reading, But("part")]
_Running = Annotated[Running, Only("progress", "force", "json")]


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
    from rankwise.wings.tuning.result import ENDINGS
    from rankwise.wings.tuning.study import check_study_target

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
    study = settings.get("checkpoint")
    running = running.check_model_target(output, resume=study is not None and study.exists())
    running.check_target(report, (".html",))
    if study is not None:
        from rankwise.wings.tuning.auto.store import workspace

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
        from rankwise.quality import warn_shared
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
    model, costs = rankers.build(ranker, objective, settings, set_), _costs(cost or ())
    inputs.readable(objective, [selection.get("metric", "ndcg@10")])
    train, _ = running.training_data(reading, data, None)
    result = rw.select_features(model, train, costs=costs, **selection)
    running.deliver(result, output, plot, titles=("", ""), stopped=result.stopped)


def _costs(words: Sequence[str]) -> dict[str | tuple[str, ...], float]:
    """Read ``FEATURE=COST`` pairs; features between commas have one cost together.

    >>> _costs(["bm25=2", "first, second=30"])
    {'bm25': 2.0, ('first', 'second'): 30.0}
    """
    collected: dict[str | tuple[str, ...], float] = {}
    for word in words:
        names, _, text = word.rpartition("=")
        features = tuple(inputs.items(names))
        try:
            collected[features if len(features) > 1 else features[0]] = float(text)
        except (IndexError, ValueError):
            hint = "write --cost bm25=2, or --cost first,second=30 where one computation makes both"
            raise check.error("costs are written FEATURE=COST", got=repr(word), hint=hint) from None
    return collected


def add(app: "Typer") -> None:
    """Add the commands."""
    register(app, TRAIN, tune, auto, frontier, features)
