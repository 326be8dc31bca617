"""The commands ``rerank train``, ``rerank score`` and ``rerank evaluate``."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rankwise.arrays import Json
from rankwise.cli import console, inputs, options, outputs
from rankwise.cli.command import Group, register
from rankwise.cli.evaluate.evaluate import summary
from rankwise.cli.options import DEFAULT_METRICS
from rankwise.cli.rerank import text_options
from rankwise.cli.rerank.train import Device, train

if TYPE_CHECKING:
    from rankwise.rerank.reranker import Reranker

app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    rich_markup_mode="rich",
    help="Train cross-encoders that rank texts, score with them, and measure them.",
)
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="The folder that 'rankwise rerank train' wrote, or any cross-encoder.")
]


def score(
    *,
    model: Model,
    data: text_options.Data,
    output: options.ScoresFile = None,
    tag: options.Tag = "rankwise",
    run: text_options.Run = None,
    depth: text_options.Depth = None,
    read: text_options.Read = None,
    device: Device = "auto",
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Score documents with a reranker.

    [cyan]rankwise rerank score reranker test.jsonl > scores.txt[/cyan]
    [cyan]rankwise rerank score reranker scifact:test --run bm25.run --depth 100 -o reranked.run[/cyan]
    """
    text_options.installed()
    outputs.free(output, force=force)
    if output is not None:
        outputs.scores_format(output)
    with console.progress(3, progress) as bar:
        bar.step(f"Reading {data}")
        lists = text_options.Reading(run=run, depth=depth, read=read).lists(data, split="test", to_score=True)
        bar.step(f"Loading {model}")
        reranker = _loaded(model, device)
        bar.step("Scoring")
        scores = lists.data.unsorted(reranker.predict(lists.with_(rows=None)))
    if output is not None:
        outputs.save_scores(output, scores, lists.data, tag=tag, force=force)
    if json:
        about = {"model": model, "data": data, "queries": lists.n_queries, "documents": lists.n_docs}
        console.document({**about, **({"scores": scores} if output is None else {"output": output})})
    elif output is None:
        typer.echo("\n".join(map(repr, scores.tolist())))
    else:
        outputs.said(output)


def evaluate(
    *,
    data: text_options.Data,
    models: Annotated[
        list[str],
        typer.Argument(metavar="MODEL…", help="Rerankers, folders or names of the Hub, also as name=MODEL."),
    ],
    metrics: options.Metrics = DEFAULT_METRICS,
    run: text_options.Run = None,
    depth: text_options.Depth = None,
    read: text_options.Read = None,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write the summary: .json, .csv, .md, .tex, .txt."),
    ] = None,
    per_query: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the value of every query: .csv or .parquet.")
    ] = None,
    device: Device = "auto",
    progress: options.Progress = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Measure how rerankers rank lists of texts: means with intervals, and of several models every pair tested.

    [cyan]rankwise rerank evaluate test.jsonl reranker[/cyan]
    [cyan]rankwise rerank evaluate test.jsonl before=./base after=reranker --metrics ndcg@10,rr[/cyan]
    [cyan]rankwise rerank evaluate scifact:test reranker --run bm25.run --depth 100[/cyan]
    """
    text_options.installed()
    outputs.free(output, outputs.TABLES, force=force)
    outputs.free(per_query, outputs.FRAMES, force=force, beside=output)
    asked = inputs.items(",".join(metrics))
    inputs.readable(None, asked)
    named = inputs.named(models)
    import rankwise as rw

    with console.progress(len(named) + 1, progress) as bar:
        bar.step(f"Reading {data}")
        lists = text_options.Reading(run=run, depth=depth, read=read).lists(data, split="test")
        found = {}
        for name, model in named.items():
            bar.step(f"Scoring with {name}")
            found[name] = _loaded(str(model), device).evaluate(lists, asked)
    tables = [summary({name: one.table() for name, one in found.items()})]
    document: Json = {"rankings": {name: one.to_dict() for name, one in found.items()}}
    if len(found) > 1:
        compared = rw.compare(found)
        tables.append(compared.pairs_table())
        document["comparison"] = compared.to_dict()
    if output is not None:
        frame = outputs.together({name: one.summary() for name, one in found.items()}, "ranking")
        outputs.save(output, document=document, tables=tables, frame=frame, force=force)
    if per_query is not None:
        frame = outputs.together({name: one.to_frame() for name, one in found.items()}, "ranking")
        outputs.save_frame(per_query, frame, force=force)
    if json:
        console.document(document)
    else:
        for table, title in zip(tables, ("", "Every pair"), strict=False):
            console.table(table, title=title)
        outputs.said(output, per_query)


def _loaded(model: str, device: str) -> "Reranker":
    """Open what 'rerank train' wrote, or any cross-encoder."""
    from rankwise.rankers import storage
    from rankwise.rerank.reranker import Reranker

    if (Path(model) / storage.DESCRIPTION).is_file():
        return Reranker.load(model, device=device)
    return Reranker(model, device=device)


_commands: dict[str, Callable[..., None]] = {"train": train, "score": score, "evaluate": evaluate}
for _name, _command in _commands.items():
    register(app, _name, _command)
