"""The commands ``text features``, ``text save``, ``text search`` and ``fuse``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, OneOf, Option, Unset, Within
from rankwise.cli.wing import (
    DATA,
    EVALUATE,
    Only,
    Running,
    arguments,
    console,
    inputs,
    of,
    outputs,
    register,
    register_group,
)
from rankwise.evaluation import ranking_names
from rankwise.wings.text import METHODS, SCALES

if TYPE_CHECKING:
    from typer import Typer


_Documents = Annotated[Path, "Documents: .jsonl, .csv, .tsv, .parquet.", Option(metavar="DOCUMENTS")]
_Fields = Annotated[list[str], "A column of text; several by repeating.", Option(metavar="NAME")]
_Columns = Annotated[list[str], "A column of numbers; several by repeating.", Option(metavar="NAME")]
_Id = Annotated[str | None, "The column of ids.", Unset("_id, id, docid …"), Option(metavar="NAME")]
_Depth = Annotated[int, AtLeast(1), "Candidates of each run."]
_Analyzer = Annotated[Keywords, of("rankwise.text:Analyzer")]


def features(
    documents: _Documents,
    queries: Annotated[
        Path, "Queries: JSON lines with id and text, lines id<TAB>text, or a table.", Option(metavar="QUERIES")
    ],
    *,
    qrels: Annotated[Path | None, "Judgements: TREC qrels, also .csv.", Unset("nothing is judged")] = None,
    output: Annotated[Path, "The file to write: .parquet.", Option(short="-o", metavar="FILE")],
    field: _Fields = ["title", "text"],  # noqa: B006
    column: _Columns = [],  # noqa: B006
    run: Annotated[
        list[str], "Candidates of a retriever; several by repeating.", Unset("BM25"), Option(metavar="name=RUN")
    ] = [],  # noqa: B006
    id_: _Id = None,
    depth: _Depth = 100,
    complete: Annotated[bool, "Documents without a judgement are not relevant, instead of unjudged."] = False,
    settings: _Analyzer,
    running: Annotated[Running, Only("force", "json", "progress", "threads")],
) -> None:
    """Make ranking data of documents, queries and judgements: features of every query with its candidates.

    Candidates come from the runs of --run, or else from BM25 over all fields.

    rankwise text features docs.jsonl queries.jsonl --qrels qrels.txt -o data.parquet
    rankwise train data.parquet -o model
    """
    running.check_target(output, (".parquet",))
    pages = _indexed(documents, id_, field, column, settings, running)
    runs = {name: rw.trec.read_run(path) for name, path in ranking_names.named(run).items()} if run else {}
    data = rw.text.dataset(
        pages, queries, runs or {"bm25": pages.search(queries, depth)}, qrels, depth=depth,
        unjudged="irrelevant" if complete else "marked",
    )  # fmt: skip
    rw.write_data(data, output, force=running.force)
    document = {"queries": data.n_queries, "documents": data.n_docs, "features": data.n_features, "output": output}
    running.say(document, repr(data), wrote=(output,))


def save(
    model: Annotated[Path, "The folder of a model trained on the data of text features.", Option(metavar="MODEL")],
    documents: _Documents,
    *,
    output: Annotated[Path, "The folder to write.", Option(short="-o", metavar="DIR")],
    field: _Fields = ["title", "text"],  # noqa: B006
    column: _Columns = [],  # noqa: B006
    id_: _Id = None,
    depth: _Depth = 100,
    settings: _Analyzer,
    running: Annotated[Running, Only("force", "json", "progress", "threads")],
) -> None:
    """Save documents and a model as a search by BM25: one folder.

    Options are those of text features, which made the training data.

    rankwise text save model docs.jsonl -o search
    rankwise serve search
    """
    running = running.check_model_target(output)
    pages = _indexed(documents, id_, field, column, settings, running)
    found = rw.text.Search(pages, rw.load(model), depth=depth)
    found.save(output, force=running.force)
    running.say({"documents": len(pages), "depth": depth, "output": output}, repr(found), wrote=(output,))


def search(
    saved: Annotated[Path, "The folder of a search, as text save writes it.", Option(metavar="FOLDER")],
    query: Annotated[str, "The words to search.", Option(metavar="QUERY")],
    *,
    k: Annotated[int, AtLeast(1), "How many documents are shown.", Option(short="-k")] = 10,
    explain: Annotated[bool, "Say why the first is above the one that BM25 has first, or else the second."] = False,
    running: Annotated[Running, Only("json", "threads")],
) -> None:
    """Search documents by words, ranked by a model.

    rankwise text search search "median of an array" --explain
    """
    found = rw.text.Search.load(saved)(query, k)
    why = found.explain(*found.rivals) if explain and len(found.documents) > 1 else None
    document = found.to_dict() | ({} if why is None else {"why": why.to_dict()})
    running.say(document, found, *([] if why is None else [f"\n{why}"]))


def _indexed(
    documents: Path, id_: str | None, fields: list[str], columns: list[str], settings: Keywords, running: Running
) -> "rw.text.Documents":
    names: Keywords = {"id": id_, "fields": fields, "columns": columns}
    return rw.text.Documents(documents, **names, analyzer=rw.text.Analyzer(**settings), progress=running.progress)


def fuse(
    runs: Annotated[list[str], "TREC runs, two or more.", Option(metavar="name=RUN…")],
    *,
    method: Annotated[str, OneOf(METHODS), "How runs are fused."] = "rrf",
    share: Annotated[
        Keywords, "The weight of a run; may be repeated, and is given for each.", Option(metavar="NAME=VALUE")
    ] = inputs.NONE,
    constant: Annotated[float, Within(0), "The constant of rrf."] = 60.0,
    scale: Annotated[str, OneOf(SCALES), "How convex and combmnz scale scores within a query."] = "min-max",
    minimum: Annotated[
        Keywords, "The least score that a run can have, for the scale minimum; 0 if not given.",
        Option(metavar="NAME=VALUE"),
    ] = inputs.NONE,
    depth: Annotated[int | None, AtLeast(1), "Documents of each run that count.", Unset("all")] = None,
    qrels: Annotated[
        Path | None, "Judgements that choose the weights of a convex combination.", Unset("weights are given")
    ] = None,
    output: arguments.Scores = None,
    tag: arguments.Tag = "fused",
    running: Annotated[Running, Only("seed", "force", "json", "progress", "threads")],
) -> None:  # fmt: skip
    """Fuse TREC runs into one.

    rankwise fuse bm25.run vectors.run -o fused.run
    rankwise fuse bm25.run vectors.run --method convex --share bm25=0.3 --share vectors=0.7 -o fused.run
    rankwise fuse bm25.run vectors.run --qrels qrels.txt -o fused.run
    """
    running.check_target(output)
    if output is not None:
        outputs.format_of_scores(output)
    found = {name: rw.trec.read_run(path) for name, path in ranking_names.named(runs).items()}
    settings: Keywords = {"scale": scale, "minimum": minimum, "depth": depth}
    about = {"method": method, "runs": ", ".join(found)}
    if qrels is not None:
        tuned = rw.text.tune_fusion(found, qrels, seed=running.seed, progress=running.progress, **settings)
        fused, about = tuned.fuse(found), {"method": "convex", "runs": about["runs"], "weights": tuned.sentence}
        console.note(str(tuned))
    else:
        fused = rw.fuse(found, method, weights=share or None, k=constant, **settings)
    from rankwise.wings.text.fusion import as_data  # with kernels, which help does without

    running.deliver_scores(*as_data(fused), output, about, tag)


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register_group(app, DATA, "text", "From texts to a ranking.", features, save, search)
    register(app, EVALUATE, fuse)
