"""The command ``auto``."""

from typing import Annotated

import rankwise as rw
from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running


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
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Train recipes until the time is over, and write their average.

    Each recipe, the default ranker first, is trained as a bag, on TRAIN and --valid together, and judged on queries
    that its members have not seen; those that are surely worse than the best are left out of the average. Ctrl-C ends
    the search and keeps the best so far.

    rankwise auto train.txt --minutes 10 -o model
    rankwise auto mq2008 --fold 1 --minutes 30 --checkpoint search -o model --test mq2008
    rankwise auto train.txt --prefer fast -o model
    rankwise auto train.txt --minutes inf --max-recipes 3 --report page.html -o model
    """
    study = settings.get("study", settings.get("checkpoint"))
    running = running.free_model(output, resume=study is not None and study.exists())
    running.free(report, (".html",))
    if study is not None:
        from rankwise.model_selection.auto.store import workspace

        workspace(study, {}).check_target(resume=True)
        if study.resolve() == output.resolve():
            raise check.error("the search needs a folder of its own", got=str(study), hint="name another --checkpoint")
    from rankwise.quality import leakage
    from rankwise.rankers import fit_arguments as aligning

    if running.json:
        settings.setdefault("progress", False)
    model = rw.AutoRanker(**settings)
    inputs.readable(None, [str(model.metric)])
    with running.steps(2) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid)
        held_back = None if test is None else reading.data(test)
    outputs.features_of(parts[0])
    if held_back is not None:
        leakage.compare_parts(parts, aligning.aligned(held_back, parts[0]), "test")
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
