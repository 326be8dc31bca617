"""The command ``rerank train``."""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rankwise import check
from rankwise.arrays import Json, Keywords
from rankwise.cli import console, inputs, outputs
from rankwise.cli.rerank import text_options
from rankwise.statistics import tables
from rankwise.statistics.tables import Table

if TYPE_CHECKING:
    from rankwise.rerank.data.lists import Lists
    from rankwise.rerank.reranker import Reranker


def train(
    *,
    data: Annotated[str, typer.Argument(metavar="TRAIN", help=f"Training data: {text_options.FORMS}")],
    model: str,
    output: Path,
    valid: str | None = None,
    test: str | None = None,
    objective: str | None = None,
    epochs: int | None = None,
    learning_rate: float | None = None,
    batch_queries: int | None = None,
    token_budget: int | None = None,
    max_length: int | None = None,
    metrics: list[str] | None = None,
    parts: int | None = None,
    patience: int | None = None,
    set_: list[str] | None = None,
    run: Path | None = None,
    negatives: int | None = None,
    depth: int | None = None,
    read: list[str] | None = None,
    checkpoint: Path | None = None,
    resume: bool = False,
    seed: int = 0,
    threads: int | None = None,
    device: str = "auto",
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Train a reranker on lists of texts and write it to a folder, which sentence-transformers opens too.

    Its model card has the metrics on validation and test data, with intervals. Ctrl-C interrupts the training and keeps
    the best part so far.

    [cyan]rankwise rerank train train.jsonl --valid valid.jsonl --model ./base -o reranker[/cyan]
    [cyan]rankwise rerank train train.jsonl --model ./base --objective lambdarank --epochs 2 -o reranker[/cyan]
    [cyan]rankwise rerank train scifact:train --run bm25.run --negatives 15 --model ./base -o reranker[/cyan]

    --model NAME|DIR: What training begins from: a model of the Hugging Face Hub, or a folder.
    --output -o DIR: The folder that the reranker goes to.
    --valid DATA: Validation data, by which the best part of training is kept.
    --test DATA: Test data: measured at the end, for the model card.
    --objective EXPRESSION: What is optimised: a name from 'rankwise objectives', with arguments and wrappers. [default:
        softmax_ce]
    --epochs N>=1: How many times through the lists. [default: 1]
    --learning-rate X: The highest learning rate. [default: 2e-05]
    --batch-queries N>=1: Lists in a step, each of them whole. [default: 16]
    --token-budget N>=1: Tokens in a mini-batch: memory and speed, and nothing else. [default: 16384]
    --max-length N>=1: Tokens of a pair; longer ones are cut. [default: the model's]
    --metrics -m LIST: Metrics between commas; the first decides. [default: ndcg@10]
    --parts N>=1: How often in an epoch validation data are measured. [default: 4]
    --patience N>=0: Stop after so many parts without a better metric; 0: never. [default: 0]
    --set NAME=VALUE: Another setting of rw.rerank.Reranker; may be repeated.

    Running:
    --seed N>=0: The same seed gives the same model.
    """
    text_options.installed()
    force = outputs.free_model(output, force=force, resume=resume)
    if checkpoint is not None:
        from rankwise.rankers.training.resume import check_checkpoint_target

        check_checkpoint_target(checkpoint, resume=resume)
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
                lists[part] = reading.lists(name, split=split, measured=part != "train")
    if "test" in lists:
        lists["test"].compare_with(lists["train"], "test")
    with console.notes_after() as notes:
        reranker.fit(lists["train"], lists.get("valid"), resume=resume)
    tested = {"test": reranker.evaluate(lists["test"])} if "test" in lists else {}
    reranker.save(output, evaluations=tested, force=force)
    evaluations = reranker.evaluations_ | {name: one.to_dict() for name, one in tested.items()}
    document, table = _described(reranker, output, evaluations), _summary(reranker, evaluations)
    outputs.show(document, ("", table), json=json, notes=notes, wrote=(output,), stopped=reranker.stopped_)


def _reranker(model: str, arguments: Keywords, set_: list[str] | None, seed: int, device: str) -> "Reranker":
    """Make the reranker, and complain of a model or settings that will not do before the work begins."""
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


def _summary(reranker: "Reranker", evaluations: Json) -> Table:
    """Return what was trained and how good it is."""
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
