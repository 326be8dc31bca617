"""The command ``rerank train``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.options import option
from rankwise.cli.rerank import text_options

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists
    from rankwise.rerank.reranker import Reranker
    from rankwise.statistics.tables import Table

Device = Annotated[str, option("Where it computes: auto, cpu, cuda, cuda:1 ….", "NAME", panel=options.RUNNING)]


def train(
    *,
    data: Annotated[str, typer.Argument(metavar="TRAIN", help=f"Training data: {text_options.FORMS}")],
    model: Annotated[
        str, option("What training begins from: a model of the Hugging Face Hub, or a folder.", "NAME|DIR")
    ],
    output: Annotated[Path, option("The folder that the reranker goes to.", "DIR", "--output", "-o")],
    valid: Annotated[str | None, option("Validation data, by which the best part of training is kept.", "DATA")] = None,
    test: Annotated[str | None, option("Test data: measured at the end, for the model card.", "DATA")] = None,
    objective: Annotated[
        str | None,
        option(
            "What is optimised: a name from 'rankwise objectives', with arguments and wrappers.",
            "EXPRESSION",
            default="softmax_ce",
        ),
    ] = None,
    epochs: Annotated[int | None, option("How many times through the lists.", "N", default="1", min=1)] = None,
    learning_rate: Annotated[float | None, option("The highest learning rate.", "X", default="2e-05")] = None,
    batch_queries: Annotated[
        int | None, option("Lists in a step, each of them whole.", "N", default="16", min=1)
    ] = None,
    token_budget: Annotated[
        int | None, option("Tokens in a mini-batch: memory and speed, and nothing else.", "N", default="16384", min=1)
    ] = None,
    max_length: Annotated[
        int | None, option("Tokens of a pair; longer ones are cut.", "N", default="the model's", min=1)
    ] = None,
    metrics: Annotated[
        list[str] | None,
        option("Metrics between commas; the first decides.", "LIST", "--metrics", "-m", default="ndcg@10"),
    ] = None,
    parts: Annotated[
        int | None, option("How often in an epoch validation data are measured.", "N", default="4", min=1)
    ] = None,
    patience: Annotated[
        int | None, option("Stop after so many parts without a better metric; 0: never.", "N", default="0", min=0)
    ] = None,
    set_: Annotated[
        list[str] | None, option("Another setting of rw.rerank.Reranker; may be repeated.", "NAME=VALUE", "--set")
    ] = None,
    run: text_options.Run = None,
    negatives: text_options.Negatives = None,
    depth: text_options.Depth = None,
    read: text_options.Read = None,
    checkpoint: options.Checkpoint = None,
    resume: options.Resume = False,
    seed: Annotated[int, option("The same seed gives the same model.", "N", panel=options.RUNNING, min=0)] = 0,
    threads: options.Threads = None,
    device: Device = "auto",
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Train a reranker on lists of texts and write it to a folder, which sentence-transformers opens too.

    Its model card has the metrics on validation and test data, with intervals. Ctrl-C interrupts the training and keeps
    the best part so far.

    [cyan]rankwise rerank train train.jsonl --valid valid.jsonl --model ./base -o reranker[/cyan]
    [cyan]rankwise rerank train train.jsonl --model ./base --objective lambdarank --epochs 2 -o reranker[/cyan]
    [cyan]rankwise rerank train scifact:train --run bm25.run --negatives 15 --model ./base -o reranker[/cyan]
    """
    text_options.installed()
    force = outputs.free_model(output, force=force, resume=resume)
    if checkpoint is not None:
        from rankwise.rankers.training.resume import ready

        ready(checkpoint, resume=resume)
    inputs.readable(objective, inputs.items(",".join(metrics or [])))
    reading = text_options.TextReading(run=run, negatives=negatives, depth=depth, read=read, seed=seed)
    arguments: Keywords = {
        "objective": objective,
        "epochs": epochs,
        "learning_rate": learning_rate,
        "batch_queries": batch_queries,
        "token_budget": token_budget,
        "max_length": max_length,
        "metrics": None if metrics is None else tuple(inputs.items(",".join(metrics))),
        "parts": parts,
        "patience": patience or None,
        "checkpoint": checkpoint,
        "threads": threads,
        "progress": progress,
    }
    reranker = _reranker(
        model, {name: value for name, value in arguments.items() if value is not None}, set_, seed, device
    )
    with console.progress(3, progress) as bar:
        lists: dict[str, Lists] = {}
        for part, (name, split) in {"train": (data, "train"), "valid": (valid, "dev"), "test": (test, "test")}.items():
            if name is not None:
                bar.step(f"Reading {name}")
                lists[part] = reading.lists(name, split=split, whole=part != "train")
    if "test" in lists:
        lists["test"].compare_with(lists["train"], "test")
    with console.notes_after() as notes:
        reranker.fit(lists["train"], lists.get("valid"), resume=resume)
    tested = {"test": reranker.evaluate(lists["test"])} if "test" in lists else {}
    reranker.save(output, evaluations=tested, force=force)
    evaluations = reranker.evaluations_ | {name: one.to_dict() for name, one in tested.items()}
    if json:
        console.document(_described(reranker, output, evaluations))
    else:
        console.table(_summary(reranker, evaluations))
    for one in notes:
        console.note(one)
    if not json:
        outputs.said(output)
    if reranker.stopped_ == "interrupted":
        raise typer.Exit(130)


def _reranker(model: str, arguments: Keywords, set_: list[str] | None, seed: int, device: str) -> "Reranker":
    """Make the reranker, and complain of a model or settings that will not do before the work begins."""
    from dataclasses import fields

    from rankwise.rerank import encoders
    from rankwise.rerank.reranker import Reranker

    encoders.verify(encoders.folder_of(model))
    further: Keywords = inputs.settings(set_ or [])
    names = [one.name for one in fields(Reranker) if one.name != "model"]
    for name in further:
        if name not in names:
            hint = check.suggestion(name, names, arguments=True).rstrip("?")
            raise check.error("unknown setting of a reranker", got=repr(name), hint=hint)
    settings: Any = {**arguments, "seed": seed, "device": device, **further}
    return Reranker(model, **settings)


def _described(reranker: "Reranker", output: Path, evaluations: Json) -> Json:
    return {
        "model": output,
        "objective": str(reranker.objective),
        "parts": len(reranker.history_["loss"]),
        "best_part": reranker.best_round_,
        "epochs": reranker.epochs_,
        "stopped": reranker.stopped_,
        "evaluations": evaluations,
        "history": reranker.history_,
        "parameters": {name: value for name, value in reranker.settings().items() if name != "objective"},
    }


def _summary(reranker: "Reranker", evaluations: Json) -> "Table":
    """Return what was trained and how good it is."""
    from rankwise.statistics import tables

    why = {
        "parts": "all epochs done",
        "patience": f"no better part for {reranker.patience} parts",
        "converged": "the gradient is zero",
    }
    losses = reranker.history_["loss"]
    rows = [
        ("objective", str(reranker.objective)),
        *((f"{part} data", size) for part, size in reranker.trained_on_.items()),
        (
            "parts",
            f"{reranker.best_round_} kept of {len(losses)} trained ({why.get(reranker.stopped_, reranker.stopped_)})",
        ),
        ("epochs in the model", f"{reranker.epochs_:g}"),
        ("loss", f"{tables.number(losses[0])} to {tables.number(losses[-1])}"),
    ]
    for name, lists in evaluations.items():
        rows.append((f"candidates, {name}", lists["candidates"]))
        for metric, one in lists["metrics"].items():
            rows.append(
                (f"{metric}, {name}", f"{tables.number(one['mean'])} {tables.interval(one['low'], one['high'])}")
            )
    return tables.Table(header=("", "reranker"), rows=tuple(rows), align="ll")
