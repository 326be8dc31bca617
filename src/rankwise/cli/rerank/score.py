"""The commands ``rerank train``, ``rerank score`` and ``rerank evaluate``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import rankwise as rw
from rankwise.arrays import Json
from rankwise.cli import console, inputs, outputs
from rankwise.cli.command import grouped
from rankwise.cli.evaluate.evaluate import summary
from rankwise.cli.options import DEFAULT_METRICS
from rankwise.cli.rerank import text_options
from rankwise.cli.rerank.train import train
from rankwise.models import storage

if TYPE_CHECKING:
    from rankwise.rerank.reranker import Reranker

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder that 'rankwise rerank train' wrote, or any cross-encoder.")
]


def score(
    *,
    model: Model,
    data: text_options.Data,
    output: Path | None = None,
    tag: str = "rankwise",
    run: Path | None = None,
    depth: int | None = None,
    read: list[str] | None = None,
    device: str = "auto",
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Score documents with a reranker.

    rankwise rerank score reranker test.jsonl > scores.txt
    rankwise rerank score reranker scifact:test --run bm25.run --depth 100 -o reranked.run

    --output -o FILE: The file to write: .csv, .tsv or .parquet, query, document and score; .run or .trec, a TREC run;
        .npy or .txt, one score per document. Text may end in .gz or .zst, too.
        [default: standard output, one score per line]
    """
    text_options.installed()
    outputs.free(output, force=force)
    if output is not None:
        outputs.scores_format(output)
    with console.progress(3, progress) as bar:
        bar.step(f"Reading {data}")
        lists = text_options.TextReading(run=run, depth=depth, read=read).lists(data, split="test", to_score=True)
        bar.step(f"Loading {model}")
        reranker = _loaded(model, device)
        bar.step("Scoring")
        scores = lists.data.unsorted(reranker.predict(lists.with_(rows=None)))
    outputs.deliver_scores(scores, lists.data, output, {"model": model, "data": data}, tag=tag, force=force, json=json)


def evaluate(
    *,
    data: text_options.Data,
    models: Annotated[
        list[str], typer.Argument(metavar="MODEL…", help="Rerankers, folders or names of the Hub, also as name=MODEL.")
    ],
    metrics: list[str] = DEFAULT_METRICS,
    run: Path | None = None,
    depth: int | None = None,
    read: list[str] | None = None,
    output: Path | None = None,
    per_query: Path | None = None,
    device: str = "auto",
    progress: bool | None = None,
    force: bool = False,
    json: bool = False,
) -> None:
    """Measure how rerankers rank lists of texts: means with intervals, and of several models every pair tested.

    rankwise rerank evaluate test.jsonl reranker
    rankwise rerank evaluate test.jsonl before=./base after=reranker --metrics ndcg@10,rr
    rankwise rerank evaluate scifact:test reranker --run bm25.run --depth 100

    --output -o FILE: Write the summary: .json, .csv, .md, .tex, .txt.
    """
    text_options.installed()
    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(per_query, outputs.FRAMES, force=force, beside=output)
    expressions = inputs.items(",".join(metrics))
    inputs.readable(None, expressions)
    named = inputs.named(models)
    with console.progress(len(named) + 1, progress) as bar:
        bar.step(f"Reading {data}")
        lists = text_options.TextReading(run=run, depth=depth, read=read).lists(data, split="test")
        evaluations = {}
        for name, model in named.items():
            bar.step(f"Scoring with {name}")
            evaluations[name] = _loaded(str(model), device).evaluate(lists, expressions)
    tables = [summary({name: one.table() for name, one in evaluations.items()})]
    document: Json = {"rankings": {name: one.to_dict() for name, one in evaluations.items()}}
    if len(evaluations) > 1:
        compared = rw.compare(evaluations)
        tables.append(compared.pairs_table())
        document["comparison"] = compared.to_dict()
    outputs.save_evaluations(evaluations, document, tables, output, per_query, force=force)
    titled = zip(("", "Every pair"), tables, strict=False)
    outputs.show(document, *titled, json=json, wrote=(output, per_query))


def _loaded(model: str, device: str) -> "Reranker":
    """Open what 'rerank train' wrote, or any cross-encoder."""
    from rankwise.rerank.reranker import Reranker

    if (Path(model) / storage.DESCRIPTION).is_file():
        return Reranker.load(model, device=device)
    return Reranker(model, device=device)


_commands = {"train": train, "score": score, "evaluate": evaluate}
_TITLE = "Train cross-encoders that rank texts, score with them, and measure them."
app = grouped(_TITLE, _commands, text_options.OPTIONS)
