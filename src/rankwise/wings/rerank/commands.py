"""The commands ``rerank train``, ``rerank score`` and ``rerank evaluate``."""

from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise import check
from rankwise.base.arrays import Json, Keywords
from rankwise.check.parameters import Option, Unset, declared
from rankwise.cli.wing import (
    RUNNING,
    TRAIN,
    But,
    Only,
    Running,
    arguments,
    console,
    inputs,
    of,
    outputs,
    register_group,
)
from rankwise.evaluation import ranking_names
from rankwise.statistics import stacked

if TYPE_CHECKING:
    from typer import Typer

    from rankwise.wings.rerank.data.lists import Lists

_FORMS = (
    "lists of texts, .jsonl (query, documents, labels on each line), .csv, .tsv or .parquet (also .gz and .zst), - for "
    "standard input, or a BEIR folder (corpus.jsonl, queries.jsonl, qrels/), FOLDER:SPLIT for one of its qrels."
)
_LISTS, _READING = "rankwise.wings.rerank.data.trec:read_lists", "Reading texts"
Data = Annotated[str, _FORMS[0].upper() + _FORMS[1:], Option(metavar="DATA")]
Device = Annotated[str, "Where it computes: auto, cpu, cuda, cuda:1 ….", Option(metavar="DEVICE", group=RUNNING)]


def _installed() -> None:
    """Raise if an extra is missing, before any work begins."""
    for module in ("torch", "sentence_transformers"):
        check.installed(module, "rerank")


def train(
    data: Annotated[str, f"Training data: {_FORMS}", Option(metavar="TRAIN")],
    *,
    model: Annotated[
        str, "What training begins from: a model of the Hugging Face Hub, or a folder.", Option(metavar="MODEL")
    ],
    output: arguments.Folder,
    valid: arguments.Valid = None,
    test: Annotated[str | None, "Test data: measured at the end, for the model card.", Option(metavar="DATA")] = None,
    objective: Annotated[arguments.Objective, Unset("softmax_ce")] = None,
    settings: Annotated[Keywords, of("rankwise.wings.rerank.reranker:Reranker", "Training", _installed), But("model")],
    set_: Annotated[
        Keywords, "Another setting of rw.rerank.Reranker; may be repeated.", Option(metavar="NAME=VALUE")
    ] = inputs.NONE,
    texts: Annotated[Keywords, of(_LISTS, _READING)],
    resume: arguments.Resume = False,
    running: Annotated[Running, Only("seed", "progress", "force", "json")],
) -> None:
    """Train a reranker on lists of texts and write it to a folder, which sentence-transformers opens too.

    Its model card has the metrics on validation and test data, with intervals. Ctrl-C interrupts the training and keeps
    the best part so far.

    rankwise rerank train train.jsonl --valid valid.jsonl --model ./base -o reranker
    rankwise rerank train train.jsonl --model ./base --objective lambdarank --epochs 2 -o reranker
    rankwise rerank train scifact:train --run bm25.run --negatives 15 --model ./base -o reranker
    """
    _installed()
    running = running.check_model_target(output, resume=resume)
    if "checkpoint" in settings:
        from rankwise.rankers.training import check_checkpoint_target

        check_checkpoint_target(settings["checkpoint"], resume=resume)
    inputs.readable(objective, settings.get("metrics", ()))
    from rankwise.wings.rerank import encoders, model_card
    from rankwise.wings.rerank.data.trec import read_lists
    from rankwise.wings.rerank.reranker import Reranker

    encoders.verify(encoders.folder_of(model))
    for word in set_.keys() - declared(Reranker).keys():
        hint = check.suggestion(word, declared(Reranker), arguments=True)
        raise check.error("unknown setting of a reranker", got=repr(word), hint=hint)
    reranker = Reranker(model, **settings | ({} if objective is None else {"objective": objective}) | set_)
    with running.steps(3) as bar:
        lists: dict[str, Lists] = {}
        for part, (name, split) in {"train": (data, "train"), "valid": (valid, "dev"), "test": (test, "test")}.items():
            if name is not None:
                bar.step(f"Reading {name}")
                lists[part] = read_lists(name, split, seed=running.seed, measured=part != "train", **texts)
    if "test" in lists:
        lists["test"].compare_with(lists["train"], "test")
    with console.notes_after() as notes:
        reranker.fit(lists["train"], lists.get("valid"), resume=resume)
    tested = {"test": reranker.evaluate(lists["test"])} if "test" in lists else {}
    reranker.save(output, evaluations=tested, force=running.force)
    evaluations = reranker.evaluations_ | {name: one.to_dict() for name, one in tested.items()}
    document, table = model_card.described(reranker, output, evaluations), model_card.table(reranker, evaluations)
    running.show(document, ("", table), notes=notes, wrote=(output,), stopped=reranker.stopped_)


def score(
    model: Annotated[
        str, "The folder that 'rankwise rerank train' wrote, or any cross-encoder.", Option(metavar="MODEL")
    ],
    data: Data,
    *,
    output: arguments.Scores = None,
    tag: arguments.Tag = "rankwise",
    texts: Annotated[Keywords, of(_LISTS, _READING), But("negatives")],
    device: Device = "auto",
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Score documents with a reranker.

    rankwise rerank score reranker test.jsonl > scores.txt
    rankwise rerank score reranker scifact:test --run bm25.run --depth 100 -o reranked.run
    """
    _installed()
    from rankwise.wings.rerank.data.trec import read_lists
    from rankwise.wings.rerank.reranker import Reranker

    running.check_target(output)
    if output is not None:
        outputs.format_of_scores(output)
    with running.steps(3) as bar:
        bar.step(f"Reading {data}")
        lists = read_lists(data, to_score=True, **texts)
        bar.step(f"Loading {model}")
        reranker = Reranker.opened(model, device=device)
        bar.step("Scoring")
        scores = lists.data.unsorted(reranker.predict(lists.with_(rows=None)))
    running.deliver_scores(scores, lists.data, output, {"model": model, "data": data}, tag)


def evaluate(
    data: Data,
    models: Annotated[
        list[str], "Rerankers, folders or names of the Hub, also as name=MODEL.", Option(metavar="MODEL…")
    ],
    *,
    metrics: arguments.Metrics = arguments.DEFAULT_METRICS,
    output: arguments.Summary = None,
    per_query: arguments.PerQuery = None,
    texts: Annotated[Keywords, of(_LISTS, _READING), But("negatives")],
    device: Device = "auto",
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Measure how rerankers rank lists of texts: means with intervals, and of several models every pair tested.

    rankwise rerank evaluate test.jsonl reranker
    rankwise rerank evaluate test.jsonl before=./base after=reranker --metrics ndcg@10,rr
    rankwise rerank evaluate scifact:test reranker --run bm25.run --depth 100
    """
    _installed()
    from rankwise.wings.rerank.data.trec import read_lists
    from rankwise.wings.rerank.reranker import Reranker

    running.check_target(output, outputs.TABLES)
    running.check_target(per_query, outputs.FRAMES, beside=output)
    inputs.readable(None, metrics)
    named = ranking_names.named(models)
    with running.steps(len(named) + 1) as bar:
        bar.step(f"Reading {data}")
        lists = read_lists(data, **texts)
        evaluations = {}
        for name, model in named.items():
            bar.step(f"Scoring with {name}")
            evaluations[name] = Reranker.opened(model, device=device).evaluate(lists, metrics)
    tables = [stacked({name: one.table() for name, one in evaluations.items()})]
    document: Json = {"rankings": {name: one.to_dict() for name, one in evaluations.items()}}
    if len(evaluations) > 1:
        compared = rw.compare(evaluations)
        tables.append(compared.pairs_table())
        document["comparison"] = compared.to_dict()
    outputs.save_evaluations(evaluations, document, tables, output, per_query, force=running.force)
    running.show(document, *zip(("", "Every pair"), tables, strict=False), wrote=(output, per_query))


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    title = "Train cross-encoders that rank texts, score with them, and measure them."
    register_group(app, TRAIN, "rerank", title, train, score, evaluate)
