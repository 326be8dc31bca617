"""The commands ``train`` and ``predict``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.cli import blending, inputs, options, outputs, screen, teaching
from rankwise.cli import folds as cross_validation
from rankwise.cli.reading import Reading, reads_data

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset
    from rankwise.rankers.ensembles.bagged import bagged
    from rankwise.rankers.training.ranker import Trained
    from rankwise.rankers.trees.ranker import TreeRanker
    from rankwise.statistics.tables import Table


@reads_data
def train(
    *,
    data: options.Train,
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", metavar="DIR", help="The folder that the model, or what --folds finds, goes to."
        ),
    ],
    valid: options.Valid = None,
    objective: options.Objective = None,
    teacher: options.Teacher = None,
    teacher_weight: options.TeacherWeight = None,
    unlabelled: options.Unlabelled = None,
    ranker: options.Ranker = None,
    params: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Parameters from 'rankwise tune', .toml or .json; options override them."),
    ] = None,
    rounds: options.Rounds = None,
    epochs: options.Epochs = None,
    learning_rate: Annotated[
        float | None, typer.Option(metavar="X", help="The learning rate.", show_default="0.05; 0.001 for a net")
    ] = None,
    leaves: Annotated[
        int | None,
        typer.Option(min=2, metavar="N", help="Leaves of a tree at most.", show_default="by the number of documents"),
    ] = None,
    min_documents: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Documents in a leaf at least.", show_default="as --leaves")
    ] = None,
    set_: options.Set = None,
    metrics: Annotated[
        list[str] | None,
        typer.Option(
            "--metrics",
            "-m",
            metavar="LIST",
            help="Metrics between commas, measured after every round; the first decides when to stop.",
            show_default="ndcg@10",
        ),
    ] = None,
    patience: options.Patience = None,
    fold: options.Fold = None,
    folds: Annotated[
        int | None,
        typer.Option(
            min=2, metavar="N", help="Cross-validate: N models, each tested on the part of the queries it has not seen."
        ),
    ] = None,
    bag: Annotated[
        int | None,
        typer.Option(
            min=2,
            metavar="N",
            help="Train a bag of N rankers, each on all queries of TRAIN and --valid but one part, stopped together "
            "and averaged; with --dask on the workers of the cluster.",
        ),
    ] = None,
    blend: Annotated[
        list[str] | None,
        typer.Option(
            metavar="RANKER",
            help="Train a blend of this ranker, written as in experiments, 'lightgbm(xendcg, leaves=15)', or of the "
            "feature column:NAME, or column:N from 1, and others: repeat it. Each is trained as a bag of --bag N, and "
            "weights are chosen out of fold.",
        ),
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="With --bag or --blend: how many processes train side by side.",
            show_default="1",
            rich_help_panel=options.RUNNING,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A folder to keep the state of the training in.", rich_help_panel=options.RUNNING
        ),
    ] = None,
    checkpoint_every: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Rounds between checkpoints.",
            show_default="50; 10 for a net",
            rich_help_panel=options.RUNNING,
        ),
    ] = None,
    resume: Annotated[
        bool,
        typer.Option("--resume", help="Resume from the checkpoint, if there is one.", rich_help_panel=options.RUNNING),
    ] = False,
    plot: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Draw the learning curve: .png, .svg or .pdf.")
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="N",
            help="The same seed gives the same model.",
            show_default="0",
            rich_help_panel=options.RUNNING,
        ),
    ] = None,
    threads: options.Threads = None,
    dask: options.Dask = None,
    reading: Reading,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train a ranker and write it to a folder.

    The folder holds the model file of the tree library or the weights of the net, and how it was trained. Ctrl-C
    interrupts the training and keeps the best model so far.

    [cyan]rankwise train train.txt --valid valid.txt -o model[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --objective "stochastic(lambdarank, scale=0.25)" -o model[/cyan]
    [cyan]rankwise train mq2008 --fold 2 --ranker xgboost --objective xendcg --set max_depth=6 -o model[/cyan]
    [cyan]rankwise train mq2008 --fold 2 --ranker neural --set preset=2020-tuned -o model[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --params best.toml -o model[/cyan]
    [cyan]rankwise train all.txt --folds 5 -o results[/cyan]
    [cyan]rankwise train train.txt --teacher large --unlabelled log.txt --rounds 50 -o small[/cyan]
    [cyan]rankwise train train.txt --valid valid.txt --bag 5 --set smoothing=5 -o model[/cyan]
    [cyan]rankwise train train.txt --blend "lightgbm(xendcg)" --blend neural --blend column:bm25 -o model[/cyan]
    [cyan]rankwise train --dask tcp://scheduler:8786 train.parquet/ --valid valid.parquet -o model[/cyan]
    """
    if folds is not None:
        beside = {"--valid": valid, "--fold": fold, "--dask": dask, "--plot": plot}
        cross_validation.check_options(beside, output, force=force)
    else:
        force = outputs.free_model(output, force=force, resume=resume)
    if checkpoint is not None and folds is None and not blend:
        from rankwise.rankers.training.resume import ready

        ready(checkpoint, resume=resume)
    outputs.free(plot, outputs.PICTURES, force=force)
    beside_teacher = {"--teacher-weight": teacher_weight, "--unlabelled": unlabelled}
    taught_by = teaching.load_teacher(
        teacher, beside_teacher, without={"--folds": folds, "--bag": bag, "--blend": blend, "--dask": dask}
    )
    from rankwise.data.reading import is_set

    if processes is not None and bag is None and not blend:
        raise check.error("processes train the members of a bag", got=f"--processes {processes}", hint="add --bag N")
    if plot is not None and valid is None and bag is None and not is_set(data):
        raise check.error("a learning curve needs validation data", hint="add --valid DATA")
    given = {
        "objective": objective,
        "rounds": rounds,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "leaves": leaves,
        "min_documents": min_documents,
        "metrics": None if metrics is None else tuple(inputs.items(",".join(metrics))),
        "patience": patience,
        "seed": seed,
        "threads": threads,
        "progress": progress,
        "checkpoint": checkpoint if folds is None else None,
        "checkpoint_every": checkpoint_every,
    }
    model: Any
    if blend:
        without = {"--ranker": ranker, "--objective": objective, "--params": params, "--set": set_, "--plot": plot}
        model = blending.blend(blend, given, without, folds=bag, processes=processes, dask=dask)
        dask = None
    else:
        model, general = _ranker(ranker, params, given, inputs.settings(set_ or []), in_bag=bag is not None)
        if bag is not None:
            model, dask = _bag(model, bag, processes or 1, dask), None
        model = model._configure(**general) if general else model
    inputs.readable(objective, inputs.items(",".join(metrics or [])))
    if folds is not None:
        kept: Keywords = {"checkpoint": checkpoint, "resume": resume, "force": force, "json": json}
        cross_validation.train_folds(
            model, data, folds, output, reading=reading, metrics=metrics, seed=seed or 0, progress=progress, **kept
        )
        return
    with screen.progress(2, progress) as bar:
        bar.step(f"Reading {data}")
        parts = reading.parts(data, valid, fold) if dask is None else _held_out(data, valid, fold, reading)
    if parts[0] is not None:
        outputs.features_of(parts[0])
    with screen.notes_after() as notes:
        if taught_by is not None:
            model = teaching.distil(model, taught_by, teacher_weight, unlabelled, parts, reading, resume=resume)
        elif dask is None:
            model.fit(*parts, resume=resume)
        else:
            _fit_on_cluster(cast("TreeRanker", model), dask, data, parts[1], reading, resume=resume)
    model.save(output, force=force)
    interrupted = model.stopped_ == "interrupted"
    if plot is not None:
        from rankwise.statistics.figures.curves import plot_curves

        metric, column = next(iter(_curve(model).items()))
        plot_curves({model._objective_expression() or model.name: column}, plot, metric=metric, force=force)
    if json:
        screen.document(blending.described(model, output) if blend else _described(model, output))
    else:
        screen.table(
            blending.summary(model, _size(model, parts), _measured(model, parts)) if blend else _summary(model, parts)
        )
    for one in notes:
        screen.note(one)
    if not json:
        outputs.said(output, plot)
    if interrupted:
        raise typer.Exit(130)


@reads_data
def predict(
    *,
    model: options.Model,
    data: Annotated[str, typer.Argument(metavar="DATA", help=options.FORMS)],
    output: options.ScoresFile = None,
    tag: options.Tag = "rankwise",
    part: options.Part = None,
    fold: options.Fold = None,
    reading: Reading,
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Score documents with a model.

    [cyan]rankwise predict model test.txt > scores.txt[/cyan]
    [cyan]rankwise predict model test.csv --query session -o scores.csv[/cyan]
    [cyan]rankwise predict model test.parquet -o scores.parquet[/cyan]
    [cyan]rankwise predict model mq2008 --fold 2 -o model.run --tag mine[/cyan]
    """
    outputs.free(output, force=force)
    if output is not None:
        outputs.scores_format(output)
    import rankwise as rw

    with screen.progress(3, progress) as bar:
        bar.step(f"Loading {model}")
        ranker = rw.load(model)
        bar.step(f"Reading {data}")
        documents = reading.data(data, part=part, fold=fold, bar=bar, tables=ranker.columns_to_score())
        bar.step("Scoring")
        scores = documents.unsorted(ranker.predict(documents.without_rows()))
    if output is not None:
        outputs.save_scores(output, scores, documents, tag=tag, force=force)
    if json:
        about = {"model": model, "data": data, "queries": documents.n_queries, "documents": documents.n_docs}
        screen.document({**about, **({"scores": scores} if output is None else {"output": output})})
    elif output is None:
        typer.echo("\n".join(map(repr, scores.tolist())))
    else:
        outputs.said(output)


def _ranker(
    name: str | None, params: Path | None, given: Keywords, native: Keywords, *, in_bag: bool
) -> tuple[Any, Keywords]:
    """Make the ranker: what the command line says goes before what the file says.

    With it come settings that it has no parameters for, and that are those of its training, or of the bag it is in.
    """
    from rankwise.rankers.at_once import OF_ANY
    from rankwise.rankers.table import RANKERS, built, ranker_class

    kept: Keywords = {}
    if params is not None:
        from rankwise.model_selection.result import read_parameters

        of, kept = read_parameters(params)
        if name is not None and of is not None and name != of:
            hint = "leave --ranker out, or tune that ranker"
            raise check.error(f"the parameters are of {of}", got=f"--ranker {name}", where=str(params), hint=hint)
        name = name or of
        if "metrics" in kept:
            kept["metrics"] = tuple(kept["metrics"])
    said = {name: value for name, value in given.items() if value is not None}
    if said.get("patience") == 0:
        said["patience"] = None
    name = name or "lightgbm"
    passed_on: Keywords = {}
    if name not in RANKERS:
        parameters = ranker_class(name).own_parameters()
        general = {"metrics", "threads", "progress"} | (
            {*OF_ANY, "checkpoint", "checkpoint_every"} if in_bag else set()
        )
        passed_on = {word: value for word, value in said.items() if word in general and word not in parameters}
        said = {word: value for word, value in said.items() if word not in passed_on}
    if params is None:
        return built(name, {**said, **native}), passed_on
    with check.naming(params):
        built(name, kept)
    return built(name, {**kept, **said, **native}), passed_on


def _bag(ranker: "Trained", folds: int, processes: int, dask: str | None) -> "Trained":
    from rankwise.rankers.ensembles.bagged import bagged

    return bagged(ranker, folds, processes=processes, dask=dask)


def _curve(model: "Trained") -> dict[str, list[float]]:
    """The history of every metric on the validation data."""
    return {name: column for name, column in model.history_.items() if name != "loss"}


def _values(model: "Trained") -> dict[str, float]:
    """Every metric after the best round; of a bag what it reports, after rounds that were chosen without the query."""
    reported = cast("bagged", model).out_of_fold_.mean if model.name == "bagged" else {}
    return {name: reported.get(name, column[model.best_round_ - 1]) for name, column in _curve(model).items()}


def _described(model: "Trained", output: Path) -> Json:
    best, parameters = model.best_round_, model.get_params(deep=False)
    if "ranker" in parameters:  # of a bag, whose name alone says what it is
        parameters = parameters["ranker"].get_params() | parameters | {"ranker": parameters["ranker"].name}
    return {
        "model": output,
        "ranker": model.name,
        "objective": model._objective_expression(),
        "rounds": max(map(len, model.history_.values()), default=best),
        "best_round": best,
        "stopped": model.stopped_,
        "metrics": _values(model),
        "history": model.history_,
        "parameters": {k: v for k, v in parameters.items() if k not in ("objective", "progress", "checkpoint")},
    }


def _held_out(data: str, valid: str | None, fold: int | None, reading: Reading) -> "tuple[None, RankingDataset | None]":
    """Read only the validation data; the training data are read by the workers."""
    from rankwise.data.reading import is_parquet, is_set, read_valid

    if is_set(data) or not is_parquet(Path(data)):
        raise check.error("the workers of a cluster read Parquet", got=data, hint="convert it: rankwise data convert")
    return None, None if valid is None else read_valid(valid, fold, **reading.options)


def _fit_on_cluster(
    model: "TreeRanker", address: str, data: str, valid: "RankingDataset | None", reading: Reading, *, resume: bool
) -> None:
    import rankwise as rw

    distributed: Any = check.extra("distributed", "dask")  # noqa: S610 (not a query of Django)
    with distributed.Client(address, timeout=30, set_as_default=False) as client:
        columns = {name: value for name, value in reading.options.items() if name != "format"}
        rw.dask.fit(model, data, client=client, valid=valid, resume=resume, **columns)


def _summary(model: "Trained", parts: "tuple[RankingDataset | None, RankingDataset | None]") -> "Table":
    """Say what was trained and how good it is."""
    from rankwise.rankers.at_once import trains_at_once
    from rankwise.statistics import tables

    why = {
        model.unit: f"all {model.unit} done",
        "patience": f"no better {model.unit[:-1]} for {getattr(model, 'patience', None)} {model.unit}",
        "no split": "no split improves the loss any more",
        "converged": "the gradient is zero",
        "interrupted": "interrupted",
    }
    history, best = model.history_, model.best_round_
    measured = _measured(model, parts)
    trained = max(map(len, history.values()), default=best)
    rows = [("training data", _size(model, parts))]
    if objective := model._objective_expression():
        rows.insert(0, ("objective", objective))
    if not trains_at_once(model):
        rows.append((model.unit, f"{best} kept of {trained} trained ({why.get(model.stopped_, model.stopped_)})"))
    if "loss" in history and model.loss_compares:
        rows.append(("loss", f"{tables.number(history['loss'][0])} to {tables.number(history['loss'][-1])}"))
    for name, value in _values(model).items():
        first = f" ({tables.number(history[name][0])} after the first {model.unit[:-1]})" if best > 1 else ""
        rows.append((f"{name}, {measured}", tables.number(value) + first))
    return tables.Table(header=("", model.name), rows=tuple(rows), align="ll")


def _measured(model: "Trained", parts: "tuple[RankingDataset | None, RankingDataset | None]") -> str:
    """The queries that metrics are means over, and whether these means are weighted."""
    from rankwise.statistics.evaluation import varies

    pooled = model.name in ("bagged", "blended")
    weighted = any(varies(part.weights) for part in (parts if pooled else parts[1:]) if part is not None)
    return ("out of fold" if pooled else "validation") + (", weighted" if weighted else "")


def _size(model: "Trained", parts: "tuple[RankingDataset | None, RankingDataset | None]") -> str:
    train, valid = parts
    if train is None:
        return str(cast("TreeRanker", model).partitions_)
    pooled = [train, valid] if valid is not None and model.name in ("bagged", "blended") else [train]
    return f"{sum(one.n_queries for one in pooled):,} queries, {sum(one.n_docs for one in pooled):,} documents"
