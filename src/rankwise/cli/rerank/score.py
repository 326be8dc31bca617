"""The commands ``rerank train``, ``rerank score`` and ``rerank evaluate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise.arrays import Json
from rankwise.check.parameters import Option
from rankwise.cli import arguments, inputs, outputs
from rankwise.cli.command import grouped
from rankwise.cli.evaluate.evaluate import summary
from rankwise.cli.options import But, Only
from rankwise.cli.rerank import text_options
from rankwise.cli.rerank.train import train
from rankwise.cli.running import Running
from rankwise.evaluation import written_scores
from rankwise.models import storage

if TYPE_CHECKING:
    from rankwise.rerank.reranker import Reranker

Texts = Annotated[text_options.TextReading, But("negatives")]


def score(
    model: Annotated[
        str, "The folder that 'rankwise rerank train' wrote, or any cross-encoder.", Option(metavar="MODEL")
    ],
    data: text_options.Data,
    *,
    output: arguments.Scores = None,
    tag: arguments.Tag = "rankwise",
    texts: Texts,
    device: text_options.Device = "auto",
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Score documents with a reranker.

    rankwise rerank score reranker test.jsonl > scores.txt
    rankwise rerank score reranker scifact:test --run bm25.run --depth 100 -o reranked.run
    """
    text_options.installed()
    running.free(output)
    if output is not None:
        written_scores.format_of(output)
    with running.steps(3) as bar:
        bar.step(f"Reading {data}")
        lists = texts.lists(data, split="test", to_score=True)
        bar.step(f"Loading {model}")
        reranker = _loaded(model, device)
        bar.step("Scoring")
        scores = lists.data.unsorted(reranker.predict(lists.with_(rows=None)))
    running.deliver_scores(scores, lists.data, output, {"model": model, "data": data}, tag)


def evaluate(
    data: text_options.Data,
    models: Annotated[
        list[str], "Rerankers, folders or names of the Hub, also as name=MODEL.", Option(metavar="MODEL…")
    ],
    *,
    metrics: arguments.Metrics = arguments.DEFAULT_METRICS,
    output: arguments.Summary = None,
    per_query: arguments.PerQuery = None,
    texts: Texts,
    device: text_options.Device = "auto",
    running: Annotated[Running, Only("progress", "force", "json")],
) -> None:
    """Measure how rerankers rank lists of texts: means with intervals, and of several models every pair tested.

    rankwise rerank evaluate test.jsonl reranker
    rankwise rerank evaluate test.jsonl before=./base after=reranker --metrics ndcg@10,rr
    rankwise rerank evaluate scifact:test reranker --run bm25.run --depth 100
    """
    text_options.installed()
    running.free(output, outputs.TABLES)
    running.free(per_query, outputs.FRAMES, beside=output)
    inputs.readable(None, metrics)
    named = inputs.named(models)
    with running.steps(len(named) + 1) as bar:
        bar.step(f"Reading {data}")
        lists = texts.lists(data, split="test")
        evaluations = {}
        for name, model in named.items():
            bar.step(f"Scoring with {name}")
            evaluations[name] = _loaded(str(model), device).evaluate(lists, metrics)
    tables = [summary({name: one.table() for name, one in evaluations.items()})]
    document: Json = {"rankings": {name: one.to_dict() for name, one in evaluations.items()}}
    if len(evaluations) > 1:
        compared = rw.compare(evaluations)
        tables.append(compared.pairs_table())
        document["comparison"] = compared.to_dict()
    outputs.save_evaluations(evaluations, document, tables, output, per_query, force=running.force)
    running.show(document, *zip(("", "Every pair"), tables, strict=False), wrote=(output, per_query))


def _loaded(model: str, device: str) -> "Reranker":
    """Open what 'rerank train' wrote, or any cross-encoder."""
    from rankwise.rerank.reranker import Reranker

    if (Path(model) / storage.DESCRIPTION).is_file():
        return Reranker.load(model, device=device)
    return Reranker(model, device=device)


_commands = {"train": train, "score": score, "evaluate": evaluate}
app = grouped("Train cross-encoders that rank texts, score with them, and measure them.", _commands)
