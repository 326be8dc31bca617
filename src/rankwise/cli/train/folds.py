"""``train --folds``: cross-validation, and results of it that ``evaluate`` and ``compare`` read."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from rankwise import check, files
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading

SCORES = "scores.npy"


def check_options(beside: Mapping[str, object], output: Path, *, force: bool) -> None:
    """Refuse what does not go with ``--folds``, and a folder that is something else, before the work begins."""
    for option, value in beside.items():
        if value is not None:
            hint = f"leave {option} out: every fold has a test part, and a validation part if the ranker stops early"
            raise check.error(f"--folds and {option} do not go together", hint=hint)
    from rankwise.evaluation.evaluation_files import FILE

    check.free_path(output, force=force)
    if output.exists() and not (output / FILE).is_file():
        what = f"{output} holds no results of folds and is kept"
        raise FileExistsError(check.Message(what, hint="choose another name"))
    files.check_writable_folder(output)


def train_folds(
    model: Any,
    data: str,
    folds: int,
    output: Path,
    *,
    reading: Reading,
    metrics: list[str] | None,
    seed: int,
    checkpoint: Path | None,
    resume: bool,
    progress: bool | None,
    force: bool,
    json: bool,
) -> None:
    """Cross-validate, write what was found to the folder, and show it."""
    from rankwise.data.reading import is_set
    from rankwise.evaluation.evaluation_files import FILE

    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        prepared: Any = _own_folds(data, folds, reading) if is_set(data) else None
        pooled = None if prepared is not None else reading.data(data, bar=bar)
    outputs.features_of(prepared[0].train if pooled is None else pooled)
    result = rw.cross_validate(
        model,
        pooled,
        folds=folds if prepared is None else prepared,
        metrics=inputs.items(",".join(metrics or options.DEFAULT_METRICS)),
        seed=seed,
        checkpoint=checkpoint,
        resume=resume,
        progress=progress,
    )
    output.mkdir(parents=True, exist_ok=True)
    for number, one in enumerate(result.models, 1):
        one.save(output / f"fold-{number}", force=force)
    rw.results.write_evaluation(result, output / FILE, force=force)
    with files.replacing(output / SCORES, force=force) as new, new.open("wb") as out:
        np.save(out, result.scores if pooled is None else pooled.unsorted(result.scores), allow_pickle=False)
    means = {name: column.tolist() for name, column in result.fold_means.items()}
    from rankwise.rankers.expressions import objective_of

    details = {"output": output, "ranker": model.name, "objective": objective_of(model)}
    document = {**details, "folds": len(result.models), **result.to_dict(), "fold_means": means}
    outputs.show(document, ("", result.table()), json=json, wrote=(output,))


def _own_folds(name: str, folds: int, reading: Reading) -> Any:
    """The folds that a set of the catalog, or a .toml file, has itself."""
    from rankwise.data.catalog import load
    from rankwise.data.reading import set_options

    available = load.set_entry(name).folds
    if available != folds:
        what = f"{name} has {available} folds of its own" if available else f"{name} has one fixed split and no folds"
        hint = f"set --folds {available}" if available else "give a plain file, or one part of it"
        raise check.error(what, got=f"--folds {folds}", hint=hint)
    return [load.load_dataset(name, number, **set_options(name, reading.options)) for number in range(1, folds + 1)]
