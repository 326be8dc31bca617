"""The commands ``train`` and ``predict``."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import rankwise as rw
from rankwise import check
from rankwise.arrays import Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.data_options import Reading
from rankwise.cli.train import folds as cross_validation
from rankwise.cli.train import summary

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset
    from rankwise.rankers.trees.ranker import TreeRanker


def train(
    *,
    data: options.Train,
    output: Path,
    valid: str | None = None,
    objective: str | None = None,
    teacher: Path | None = None,
    teacher_weight: float | None = None,
    unlabelled: str | None = None,
    ranker: str | None = None,
    params: Path | None = None,
    rounds: int | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    leaves: int | None = None,
    min_documents: int | None = None,
    set_: list[str] | None = None,
    metrics: list[str] | None = None,
    patience: int | None = None,
    constraint: list[str] | None = None,
    folds: int | None = None,
    bag: int | None = None,
    blend: list[str] | None = None,
    processes: int | None = None,
    checkpoint: Path | None = None,
    checkpoint_every: int | None = None,
    resume: bool = False,
    plot: Path | None = None,
    seed: int | None = None,
    threads: int | None = None,
    dask: str | None = None,
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train a ranker and write it to a folder.

    The folder holds the model file of the tree library or the weights of the net, and how it was trained. Ctrl-C
    interrupts the training and keeps the best model so far.

    [cyan]rankwise train train.txt --valid valid.txt -o model[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --objective "stochastic(lambdarank, scale=0.25)" -o model[/cyan]
    [cyan]rankwise train mq2008 --fold 2 --ranker xgboost --objective xendcg --set max_depth=6 -o model[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --ranker "bagged(neural(listnet), folds=5)" -o model[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --params best.toml -o model[/cyan]
    [cyan]rankwise train all.txt --folds 5 -o results[/cyan]
    [cyan]rankwise train train.txt --teacher large --unlabelled log.txt --rounds 50 -o small[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --bag 5 --set smoothing=5 -o model[/cyan]
    [cyan]rankwise train train.txt --ranker "blended(lightgbm(xendcg), neural, column('bm25'))" -o model[/cyan]
    [cyan]rankwise train --dask tcp://scheduler:8786 train.parquet/ --valid valid.parquet -o model[/cyan]

    --output -o DIR: The folder that the model, or what --folds finds, goes to.
    --params FILE: Parameters from 'rankwise tune', .toml or .json; options override them.
    --learning-rate X: The learning rate. [default: 0.05; 0.001 for a net]
    --leaves N>=2: Leaves of a tree at most. [default: by the number of documents]
    --min-documents N>=1: Documents in a leaf at least. [default: as --leaves]
    --metrics -m LIST: Metrics between commas, measured after every round; the first decides when to stop. [default:
        ndcg@10]
    --constraint METRIC=GOAL: A goal that the lower bound of a metric must reach on the validation data:
        'ndcg(label=purchase)@10=0.62'; may be repeated.
    --folds N>=2: Cross-validate: N models, each tested on the part of the queries it has not seen.
    --bag N>=2: Train a bag of N rankers, each on all queries of TRAIN and --valid but one part, stopped together and
        averaged; with --dask on the workers of the cluster.
    --blend RANKER: Train a blend of this ranker, written as in experiments, 'lightgbm(xendcg, leaves=15)', or of the
        feature column:NAME, or column:N from 1, and others: repeat it. Each is trained as a bag of --bag N, and weights
        are chosen out of fold.
    --plot FILE: Draw the learning curve: .png, .svg or .pdf.

    Running:
    --processes N>=1: With --bag or --blend: how many processes train side by side. [default: 1]
    --checkpoint-every N>=1: Rounds between checkpoints. [default: 50; 10 for a net]
    --seed N>=0: The same seed gives the same model. [default: 0]
    """
    if folds is not None:
        beside = {"--valid": valid, "--fold": reading.fold, "--dask": dask, "--plot": plot, "--teacher": teacher}
        cross_validation.check_options(beside, output, force=force)
    else:
        force = outputs.free_model(output, force=force, resume=resume)
    outputs.free(plot, outputs.PICTURES, force=force)
    from rankwise.cli.train import rankers
    from rankwise.data.reading import is_set
    from rankwise.rankers.training.resume import check_checkpoint_target

    settings = {
        "objective": objective,
        "rounds": rounds,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "leaves": leaves,
        "min_documents": min_documents,
        "metrics": None if metrics is None else tuple(inputs.items(",".join(metrics))),
        "patience": patience,
        "constraints": None if constraint is None else inputs.goals(constraint),
        "seed": seed,
        "threads": threads,
        "progress": progress,
        "checkpoint": checkpoint if folds is None else None,
        "checkpoint_every": checkpoint_every,
    }
    around: Keywords = {"blend": blend or [], "bag": bag, "teacher": None if teacher is None else rw.load(teacher)}
    running = {name: value for name, value in {"processes": processes, "dask": dask}.items() if value is not None}
    model = rankers.build(ranker, params, settings, inputs.settings(set_ or []), **around, running=running)
    if checkpoint is not None and folds is None and not model.weighs:
        check_checkpoint_target(checkpoint, resume=resume)
    if model.pools:
        dask = None
    if plot is not None and model.weighs:
        raise check.error("a blend has no learning curve", got=f"--plot {plot}", hint="leave --plot out")
    if plot is not None and valid is None and not model.pools and not is_set(data):
        raise check.error("a learning curve needs validation data", hint="add --valid DATA")
    for word, value in {"--teacher-weight": teacher_weight, "--unlabelled": unlabelled}.items():
        if value is not None and not hasattr(model, "teacher"):
            raise check.error(f"{word} needs a teacher", got=f"{word} {value}", hint="add --teacher MODEL")
    inputs.readable(objective, inputs.items(",".join(metrics or [])))
    if folds is not None:
        cross_validation.train_folds(
            model, data, folds, output, reading=reading, metrics=metrics, seed=seed or 0, progress=progress,
            checkpoint=checkpoint, resume=resume, force=force, json=json,
        )  # fmt: skip
        return
    with console.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid) if dask is None else _held_out(data, valid, reading)
    if parts[0] is not None:
        outputs.features_of(parts[0])
        if parts[1] is None:
            _suggest_bag(model)
    if hasattr(model, "teacher"):
        model.weight = model.weight if teacher_weight is None else teacher_weight
        more = None if unlabelled is None else replace(reading, fold=None).data(unlabelled, tables={"to_score": True})
        model.unlabelled = model.unlabelled if more is None else more
    from rankwise.rankers.ensembles.calibrated import became
    from rankwise.rankers.expressions import objective_of

    with console.notes_after() as notes:
        if dask is None:
            model.fit(*parts, resume=resume)
        else:
            _fit_on_cluster(model, dask, data, parts[1], reading, resume=resume)
    model = became(model)  # a student is what is kept
    model.save(output, force=force)
    if plot is not None:
        from rankwise.statistics.figures.curves import plot_curves

        metric, column = next(iter(summary.curves(model).items()))
        plot_curves({objective_of(model) or model.name: column}, plot, metric=metric, force=force)
    document, table = summary.described(model, output), summary.table(model, parts)
    outputs.show(document, ("", table), json=json, notes=notes, wrote=(output, plot), stopped=model.stopped_)


def _suggest_bag(model: Any) -> None:
    """Say how a ranker can be measured without validation data, where none of its rounds would be."""
    from rankwise.models.model_card import command
    from rankwise.rankers.training.settings import trains_at_once

    if model.single and not trains_at_once(model):
        typed = command().get("command", "rankwise train")
        console.note(
            f"without --valid none of the {getattr(model, model.unit)} {model.unit} is measured, and all are kept; a "
            f"bag measures them on queries that its members have not seen: {typed} --bag 5"
        )


def predict(
    *,
    model: options.Model,
    data: options.Data,
    output: Path | None = None,
    tag: str = "rankwise",
    reading: Reading,
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Score documents with a model.

    [cyan]rankwise predict model test.txt > scores.txt[/cyan]
    [cyan]rankwise predict model test.csv --query session -o scores.csv[/cyan]
    [cyan]rankwise predict model test.parquet -o scores.parquet[/cyan]
    [cyan]rankwise predict model mq2008 --fold 2 -o model.run --tag mine[/cyan]

    --output -o FILE: The file to write: .csv, .tsv or .parquet, query, document and score; .run or .trec, a TREC run;
        .npy or .txt, one score per document. Text may end in .gz or .zst, too.
        [default: standard output, one score per line]
    """
    outputs.free(output, force=force)
    if output is not None:
        outputs.scores_format(output)
    with console.progress(3, progress) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        bar.step(f"Reading {data}")
        documents = reading.data(data, bar=bar, tables=ranker.columns_to_score())
        bar.step("Scoring")
        scores = documents.unsorted(ranker.predict(documents.without_rows()))
    outputs.deliver_scores(scores, documents, output, {"model": model, "data": data}, tag=tag, force=force, json=json)


def _held_out(data: str, valid: str | None, reading: Reading) -> "tuple[None, RankingDataset | None]":
    """Read only the validation data; the training data are read by the workers."""
    from rankwise.data.reading import is_parquet, is_set, read_valid
    from rankwise.data.remote import is_url

    is_folder = is_url(data) and data.endswith("/")
    if is_set(data) or not (is_folder or is_parquet(Path(check.address(data)))):
        raise check.error(
            "the workers of a cluster read Parquet", got=check.address(data), hint="convert it: rankwise data convert"
        )
    return None, None if valid is None else read_valid(valid, reading.fold, **reading.options)


def _fit_on_cluster(
    model: "TreeRanker", address: str, data: str, valid: "RankingDataset | None", reading: Reading, *, resume: bool
) -> None:
    distributed: Any = check.optional("distributed", "dask")
    with distributed.Client(address, timeout=30, set_as_default=False) as client:
        columns = {name: value for name, value in reading.options.items() if name != "format"}
        rw.cluster.dask.fit(model, data, client=client, valid=valid, resume=resume, **columns)
