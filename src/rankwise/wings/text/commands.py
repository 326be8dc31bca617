"""The command ``text features``."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import rankwise as rw
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli.wing import DATA, Only, Running, of, register_group
from rankwise.evaluation import ranking_names

if TYPE_CHECKING:
    from typer import Typer


def features(
    documents: Annotated[Path, "Documents: .jsonl, .csv, .tsv, .parquet.", Option(metavar="DOCUMENTS")],
    queries: Annotated[
        Path, "Queries: JSON lines with id and text, lines id<TAB>text, or a table.", Option(metavar="QUERIES")
    ],
    *,
    qrels: Annotated[Path | None, "Judgements: TREC qrels, also .csv.", Unset("nothing is judged")] = None,
    output: Annotated[Path, "The file to write: .parquet.", Option(short="-o", metavar="FILE")],
    field: Annotated[list[str], "A column of text; several by repeating.", Option(metavar="NAME")] = ["title", "text"],  # noqa: B006
    column: Annotated[list[str], "A column of numbers; several by repeating.", Option(metavar="NAME")] = [],  # noqa: B006
    run: Annotated[
        list[str], "Candidates of a retriever; several by repeating.", Unset("BM25"), Option(metavar="name=RUN")
    ] = [],  # noqa: B006
    id_: Annotated[str | None, "The column of ids.", Unset("_id, id, docid …"), Option(metavar="NAME")] = None,
    depth: Annotated[int, AtLeast(1), "Candidates of each run."] = 100,
    complete: Annotated[bool, "Documents without a judgement are not relevant, instead of unjudged."] = False,
    settings: Annotated[Keywords, of("rankwise.text:Analyzer")],
    running: Annotated[Running, Only("force", "json", "progress", "threads")],
) -> None:
    """Make ranking data of documents, queries and judgements: features of every query with its candidates.

    Candidates come from the runs of --run, or else from BM25 over all fields.

    rankwise text features docs.jsonl queries.jsonl --qrels qrels.txt -o data.parquet
    rankwise train data.parquet -o model
    """
    running.check_target(output, (".parquet",))
    pages = rw.text.Documents(
        documents, id=id_, fields=field, columns=column, analyzer=rw.text.Analyzer(**settings),
        progress=running.progress,
    )  # fmt: skip
    runs = {name: rw.trec.read_run(path) for name, path in ranking_names.named(run).items()} if run else {}
    data = rw.text.dataset(
        pages, queries, runs or {"bm25": pages.search(queries, depth)}, qrels, depth=depth,
        unjudged="irrelevant" if complete else "marked",
    )  # fmt: skip
    rw.write_data(data, output, force=running.force)
    document = {"queries": data.n_queries, "documents": data.n_docs, "features": data.n_features, "output": output}
    running.say(document, repr(data), wrote=(output,))


def add(app: "Typer") -> None:
    """Add the commands of the wing."""
    register_group(app, DATA, "text", "From texts to a ranking.", features)
