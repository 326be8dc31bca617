"""The command ``cross-validate``."""

from pathlib import Path
from typing import Annotated, Any

import numpy as np

import rankwise as rw
from rankwise import check
from rankwise.base import files
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option
from rankwise.cli import arguments, inputs, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.options import But, Of, Only
from rankwise.cli.running import Running
from rankwise.cli.segments import segment_of
from rankwise.cli.train import rankers
from rankwise.cli.train.train import Parameters

SCORES = "scores.npy"


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
    running: Annotated[Running, Only("progress", "force", "json")],
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
