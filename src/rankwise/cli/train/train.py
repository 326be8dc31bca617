"""The commands ``train``, ``predict`` and ``objectives``."""

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import rankwise as rw
from rankwise import check
from rankwise.check.parameters import Option
from rankwise.cli import arguments, console, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Only
from rankwise.cli.running import Running
from rankwise.cli.train import rankers

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset
    from rankwise.rankers.trees.ranker import TreeRanker

Parameters = Annotated[Path | None, "Parameters that 'rankwise tune' found."]


def train(
    data: arguments.Train,
    *,
    output: arguments.Folder,
    valid: arguments.Valid = None,
    ranker: arguments.Ranker = None,
    objective: arguments.Objective = None,
    params: Parameters = None,
    settings: rankers.Settings,
    set_: arguments.Set = inputs.NONE,
    unlabelled: Annotated[
        str | None, "More queries, for the teacher of a distilled ranker.", Option(metavar="DATA")
    ] = None,
    plot: Annotated[Path | None, "Draw the learning curve: .png, .svg or .pdf."] = None,
    resume: arguments.Resume = False,
    members: rankers.Members,
    reading: Annotated[Reading, But("part")],
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Train a ranker and write it to a folder; Ctrl-C keeps the best round so far.

    rankwise train train.txt --valid valid.txt --objective xendcg -o model
    rankwise train mq2008 --fold 2 --ranker xgboost --set max_depth=6 -o model
    rankwise train all.txt --ranker "bagged(neural(listnet), folds=5)" -o model
    rankwise train all.txt --ranker "distilled('large', lightgbm)" -o small
    """
    running = running.check_model_target(output, resume=resume)
    running.check_target(plot, outputs.PICTURES)
    from rankwise.data.io.reading import is_set
    from rankwise.rankers.training.resume import check_checkpoint_target

    model = rankers.build(ranker, objective, settings, set_, params, members)
    if "checkpoint" in settings and not model.weighs:
        check_checkpoint_target(settings["checkpoint"], resume=resume)
    dask = None if model.pools else members.get("dask")
    if plot is not None and model.weighs:
        raise check.error("a blend has no learning curve", got=f"--plot {plot}", hint="leave --plot out")
    if plot is not None and valid is None and not model.pools and not is_set(data):
        raise check.error("a learning curve needs validation data", hint="add --valid DATA")
    if unlabelled is not None and not hasattr(model, "teacher"):
        hint = "add --ranker \"distilled('TEACHER', lightgbm)\""
        raise check.error("--unlabelled needs a teacher", got=f"--unlabelled {unlabelled}", hint=hint)
    inputs.readable(objective, settings.get("metrics", ()))
    parts: Any = _held_out(data, valid, reading) if dask else running.training_data(reading, data, valid)
    if parts[0] is not None and parts[1] is None:
        _suggest_bag(model, ranker)
    if unlabelled is not None:
        model.unlabelled = replace(reading, fold=None).data(unlabelled, tables={"to_score": True})
    from rankwise.rankers import summary
    from rankwise.rankers.ensembles.calibrated import became
    from rankwise.rankers.expressions import objective_of

    with console.notes_after() as notes:
        if dask is None:
            model.fit(*parts, resume=resume)
        else:
            _fit_on_cluster(model, dask, data, parts[1], reading, resume=resume)
    model = became(model)  # a student is what is kept
    model.save(output, force=running.force)
    if plot is not None:
        from rankwise.statistics.figures.curves import plot_curves

        metric, column = next(iter(summary.curves(model).items()))
        plot_curves({objective_of(model) or model.name: column}, plot, metric=metric, force=running.force)
    document, table = summary.described(model, output), summary.table(model, parts)
    running.show(document, ("", table), notes=notes, wrote=(output, plot), stopped=model.stopped_)


def _suggest_bag(model: Any, ranker: str | None) -> None:
    """Suggest how a ranker can be measured without validation data, where none of its rounds would be."""
    from rankwise.rankers.training.settings import trains_at_once

    if model.single and not model.folds_choose and not trains_at_once(model):
        console.note(
            f"without --valid none of the {getattr(model, model.unit)} {model.unit} is measured, and all are kept; a "
            "bag measures them on queries that its members have not seen: "
            f'--ranker "bagged({ranker or "lightgbm"}, folds=5)"'
        )


def predict(
    model: arguments.Model,
    data: arguments.Data,
    *,
    output: arguments.Scores = None,
    tag: arguments.Tag = "rankwise",
    reading: Reading,
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Score documents with a model.

    rankwise predict model test.txt > scores.txt
    rankwise predict model test.csv --query session -o scores.csv
    rankwise predict model mq2008 --fold 2 -o model.run --tag mine
    """
    running.check_target(output)
    if output is not None:
        outputs.format_of_scores(output)
    with running.steps(3) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        bar.step(f"Reading {data}")
        documents = reading.data(data, bar, ranker.columns_to_score())
        bar.step("Scoring")
        scores = documents.unsorted(ranker.predict(documents.without_rows()))
    running.deliver_scores(scores, documents, output, {"model": model, "data": data}, tag)


def _held_out(data: str, valid: str | None, reading: Reading) -> "tuple[None, RankingDataset | None]":
    """Read only the validation data; the training data are read by the workers."""
    from rankwise.data.io.reading import is_parquet, is_set, read_valid
    from rankwise.data.io.urls import is_url

    is_folder = is_url(data) and data.endswith("/")
    if is_set(data) or not (is_folder or is_parquet(Path(check.address(data)))):
        raise check.error(
            "the workers of a cluster read Parquet", got=check.address(data), hint="convert it: rankwise data convert"
        )
    return None, None if valid is None else read_valid(valid, reading.fold, **reading.arguments)


def _fit_on_cluster(
    model: "TreeRanker", address: str, data: str, valid: "RankingDataset | None", reading: Reading, *, resume: bool
) -> None:
    distributed: Any = check.optional("distributed", "dask")
    with distributed.Client(address, timeout=30, set_as_default=False) as client:
        columns = {name: value for name, value in reading.arguments.items() if name != "format"}
        rw.cluster.dask.fit(model, data, client=client, valid=valid, resume=resume, **columns)


def objectives(*, running: Annotated[Running, Only("json")]) -> None:
    """List every objective and wrapper: its paper, its arguments with their defaults, whether its Hessian is exact.

    An objective is written as in Python: a name, with arguments where they differ from their defaults. A wrapper goes
    around one, and objectives can be added up.

    rankwise objectives
    rankwise objectives --json
    """
    from rankwise.objectives.catalogue import every, table

    running.show([asdict(entry) for entry in every()], ("", table()))
