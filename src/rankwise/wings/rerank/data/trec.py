"""Lists of texts from TREC-style files and BEIR folders: qrels, runs, queries and a corpus."""

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import polars as pl

from rankwise import RankingDataset, Stream, check
from rankwise.base.arrays import Keywords, offsets_of
from rankwise.base.tables import count
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.data.io import TextSource, file_formats, read_table, read_texts
from rankwise.evaluation import IrDataset, Run, qrels_frame, ranked, run_frame
from rankwise.wings.rerank.data.lists import Lists
from rankwise.wings.rerank.data.read import read as read_file

_SUFFIXES = ("", ".gz", ".zst")
_COLUMNS = ("query-id", "corpus-id", "score")


def read_trec(
    qrels: Run | None,
    queries: TextSource,
    corpus: TextSource,
    *,
    run: Run | None = None,
    negatives: int | None = None,
    depth: int | None = None,
    skip: int = 0,
    add_judged: bool = True,
    teacher: Run | None = None,
    seed: int = 0,
    errors: str = "raise",
) -> Lists:
    """Build lists of texts from judgments, a run, queries and a corpus.

    Labels are the grades of the qrels, 0 for negative ones and for unjudged documents; ``lists.data.judged`` tells
    these apart. Lists are those of the queries in the qrels; documents are in the order of their ids, independent of
    their relevance. Of a corpus only the texts on a list are kept in memory.

    Args:
        qrels: A file ``query 0 document grade``, a frame, or nested dictionaries; None if all of the run is to be
            scored, with labels 0.
        queries: Texts by id: a dictionary, a file of JSON lines (``_id``, ``text``) or of ``id<TAB>text``, or a
            function that returns the dictionary for a set of ids.
        corpus: The texts of the documents, likewise; a title goes before the text.
        run: Documents retrieved by a first stage: a file, a frame, or nested dictionaries. Without one, lists hold the
            judged documents.
        negatives: Number of unjudged documents of the run that are drawn for each query: hard negatives. By default
            all of them are on the list.
        depth: The last rank of the run that is used.
        skip: Number of first ranks that are not used, since unjudged documents there are often relevant.
        add_judged: With False, lists hold the retrieved documents alone, as when a run is ranked again. Metrics of such
            lists do not count relevant documents that the run missed: for these, write a run of the scores and
            :func:`rankwise.trec.join` it.
        teacher: A run with a score for every document on a list, to learn from.
        seed: Seed of the draws; each query has random numbers of its own.
        errors: ``"skip"`` leaves out queries and documents that have no text, with a warning; ``"raise"`` refuses.

    >>> queries, corpus = {"q": "hat"}, {"d1": "a hat", "d2": "a shoe", "d3": "a cap"}
    >>> lists = read_trec({"q": {"d1": 2}}, queries, corpus, run={"q": {"d2": 3.0, "d3": 2.0}}, negatives=1, depth=1)
    >>> lists.documents, lists.labels
    (('a hat', 'a shoe'), array([2., 0.]))
    """
    check.choice("way to treat missing texts (errors)", errors, ["raise", "skip"])
    candidates = CandidateChoice(depth=depth, skip=skip, negatives=negatives, add_judged=add_judged, seed=seed)
    if run is None and (qrels is None or candidates != CandidateChoice(seed=seed)):
        raise check.error("a run is needed for this", got="run=None", hint="`set run=` to what a first stage retrieved")
    retrieved = None if run is None else run_frame(run)
    judged = None if qrels is None else qrels_frame(qrels)
    rows = candidates.join(judged, retrieved)
    if rows.is_empty():
        raise check.error(
            "there is no document on any list", got=f"depth={depth} and skip={skip}", hint="set skip lower"
        )
    query_texts = read_texts(queries, set(rows["query"].unique()))
    rows = _with_texts(rows, "query", query_texts, queries, errors)
    texts = read_texts(corpus, set(rows["document"].unique()))
    rows = _with_texts(rows, "document", texts, corpus, errors)
    heads = rows.group_by("query", maintain_order=True).len()
    columns: Keywords = {"query_ids": np.array(heads["query"].to_list(), np.str_)}
    columns["document_ids"] = np.array(rows["document"].to_list(), np.str_)
    columns["judged"] = rows["judged"].to_numpy().astype(np.int8)
    if teacher is not None:
        columns["teacher_scores"] = _teacher_scores(rows, run_frame(teacher))
    no_features = np.empty((rows.height, 0), np.float32)
    data = RankingDataset(no_features, rows["label"].to_numpy(), offsets_of(heads["len"].to_numpy()), **columns)
    documents = (texts[document] for document in rows["document"])
    origin = candidates.origin(with_run=run is not None)
    return Lists.of((query_texts[query] for query in heads["query"]), documents, data, origin=origin)


def read_beir(folder: str | Path, split: str = "test", **options: Any) -> Lists:
    """Build lists of texts from a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.

    ``options`` are the arguments of :func:`read_trec`: ``run``, ``negatives``, ``depth``, ``teacher`` …. Where only
    relevant documents were judged, a run is needed for documents that are not.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}.")
    qrels = read_judgments(_file(folder / "qrels", f"{split}.tsv", "`set split=` to one of these"))
    corpus, queries = (_file(folder, f"{name}.jsonl", "a BEIR folder has both") for name in ("corpus", "queries"))
    return read_trec(qrels, queries, corpus, **options)


def read_ir_dataset(dataset: IrDataset, *, run: Run | None = None, **options: Any) -> Lists:
    """Build lists of texts from a data set of ir_datasets, with the judgements, queries and documents that it has.

    ``dataset`` is what ``ir_datasets.load`` returns, and ``run`` by default its scored documents, if it has any.
    ``options`` are further arguments of :func:`read_trec`: ``negatives``, ``depth``, ``teacher`` …. Only documents
    on a list are looked up. Texts are ir_datasets' ``default_text``, such as title and body.
    """
    queries_iter, docs_store = (getattr(dataset, name, None) for name in ("queries_iter", "docs_store"))
    if queries_iter is None or docs_store is None:
        what, hint = "a data set of ir_datasets with queries and documents is needed", 'pass ir_datasets.load("…")'
        raise check.error(what, got=repr(dataset), hint=hint)
    queries = {query.query_id: query.default_text() for query in queries_iter()}

    def corpus(ids: Collection[str]) -> dict[str, str]:
        documents = docs_store().get_many(sorted(ids))
        return {str(key): document.default_text() for key, document in documents.items()}

    if run is None and dataset.has_scoreddocs():
        run = dataset
    return read_trec(dataset if dataset.has_qrels() else None, queries, corpus, run=run, **options)


def _file(folder: Path, name: str, hint: str) -> Path:
    for suffix in _SUFFIXES:
        if (path := folder / (name + suffix)).exists():
            return path
    names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    listed = f" There are {', '.join(names[:20])}." if names else ""
    text = check.printable(f"there is no file {folder / name}.{listed}").removesuffix(".")
    raise FileNotFoundError(check.Message(text, hint=hint if names else ""))


def read_judgments(path: Path) -> pl.DataFrame:
    """Read the judgments of a BEIR folder: a line that names three columns, then query, document and grade."""
    table = read_table(path, separator="\t")
    if tuple(table.columns) != _COLUMNS:
        hint = f"name the columns {', '.join(_COLUMNS)}, or read qrels of TREC's form with rw.rerank.read_trec"
        got = ", ".join(map(repr, table.columns[:10]))
        raise check.error("the first line must name three columns", got=got, where=f"line 1 of {path}", hint=hint)
    frame = table.frame.rename(dict(zip(_COLUMNS, ("query", "document", "grade"), strict=True)))
    frame = frame.with_columns(pl.col("grade").str.strip_chars().cast(pl.Float64, strict=False))
    malformed = frame.select(pl.any_horizontal(pl.all().is_null()) | ~pl.col("grade").is_finite()).to_series()
    repeated = ~frame.select(pl.struct("query", "document").is_first_distinct()).to_series()
    for rejected, what in (
        (malformed, "a line must have a query, a document and a finite grade"),
        (repeated, "a document may stand only once under a query"),
    ):
        if rejected.any():
            row = int(np.argmax(rejected.to_numpy()))
            got = "\t".join("" if value is None else str(value) for value in table.frame.row(row))
            raise check.error(what, got=repr(got), where=f"{table.place(row)} of {path}")
    return frame


def _with_texts(
    rows: pl.DataFrame, column: str, texts: dict[str, str], source: TextSource, errors: str
) -> pl.DataFrame:
    """Return the rows that have texts."""
    has_text = rows[column].is_in(list(texts))
    if has_text.all():
        return rows
    first = rows.row(int(np.argmin(has_text.to_numpy())), named=True)
    where = file_formats.shown(source) if isinstance(source, str | Path) else "the texts"
    lost = rows.filter(~has_text)[column].n_unique()
    what = f"{count(lost, column, 'queries' if column == 'query' else None)} of the lists"
    shown = f"{first['document']!r} of query {first['query']!r}" if column == "document" else repr(first["query"])
    if errors == "raise":
        hint = "check that all belong to the same collection, or leave them out with `errors='skip'`"
        raise check.error(f"there is no text of {what}", got=shown, where=where, hint=hint)
    warnings.warn(f"left out {what}, which have no text in {where}; the first is {shown}", stacklevel=3)
    remaining = rows.filter(has_text)
    if remaining.is_empty():
        raise check.error("no list has texts", where=where, hint="check that all belong to the same collection")
    return remaining


def _teacher_scores(rows: pl.DataFrame, teacher: pl.DataFrame) -> pl.Series:
    scores = rows.join(teacher, on=["query", "document"], how="left", maintain_order="left")["score"]
    if scores.null_count():
        row = rows.row(int(np.argmax(scores.is_null().to_numpy())), named=True)
        raise check.error(
            "the teacher must score every document that is on a list",
            got=f"none for {scores.null_count():,} of {rows.height:,}",
            where=f"document {row['document']!r} of query {row['query']!r}",
            hint="let it score the lists first, or leave `teacher=` out",
        )
    return scores


@dataclass(frozen=True, kw_only=True)
class CandidateChoice:
    """Documents on the lists, by the arguments of :func:`read_trec`."""

    depth: int | None = None
    skip: int = 0
    negatives: int | None = None
    add_judged: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        skip = check.integer("skip", self.skip, least=0)
        if self.depth is not None and check.integer("depth", self.depth, least=1) <= skip:
            raise check.error("depth must be larger than skip", got=f"depth={self.depth} and skip={skip}")
        if self.negatives is not None:
            check.integer("negatives", self.negatives, least=1)
            if not self.add_judged:
                hint = "leave `add_judged=False` out, or take all of the run with `negatives=None`"
                raise check.error("negatives are drawn beside judged documents", got="add_judged=False", hint=hint)

    def origin(self, *, with_run: bool) -> str:
        """Return a description of the documents on the lists.

        >>> CandidateChoice(negatives=8, depth=100, skip=5).origin(with_run=True)
        'judged documents and 8 drawn from ranks 6 to 100 of the run'
        """
        if not with_run:
            return "judged documents"
        ranks = f"ranks {self.skip + 1} to {self.depth} of " if self.depth is not None else ""
        if self.skip and self.depth is None:
            ranks = f"what follows rank {self.skip} of "
        drawn = "those of" if self.negatives is None else f"{self.negatives} drawn from"
        return f"judged documents and {drawn} {ranks}the run" if self.add_judged else f"those of {ranks}the run"

    def join(self, judged: pl.DataFrame | None, run: pl.DataFrame | None) -> pl.DataFrame:
        """Return query, document, label and judged (see ``RankingDataset``) of each list, documents sorted by id.

        That order is independent of relevance, unlike the order of a run or of qrels.
        """
        if judged is None:
            judged = pl.DataFrame(schema={"query": pl.String, "document": pl.String, "grade": pl.Float64})
        queries = (judged if judged.height or run is None else run).select("query").unique(maintain_order=True)
        queries = queries.with_row_index("number")
        sign = pl.when(pl.col("grade") < 0.0).then(-1).otherwise(1)
        rows = judged.select("query", "document", pl.col("grade").clip(0.0).alias("label"), judged=sign)
        if run is not None:
            common = run.join(queries, on="query", how="semi")
            if common.is_empty():
                few = [", ".join(map(repr, frame["query"].unique(maintain_order=True)[:3])) for frame in (run, judged)]
                hint = "check that both belong to the same queries and spell their ids alike"
                got = f"{few[0]} in the run, {few[1]} in the qrels"
                raise check.error("run and qrels have no query in common", got=got, hint=hint)
            retrieved = self._retrieved(common, rows)
            keys = ["query", "document"]
            rows = retrieved.join(rows, on=keys, how="full" if self.add_judged else "left", coalesce=True)
            rows = rows.with_columns(pl.col("label").fill_null(0.0), pl.col("judged").fill_null(0))
        return rows.join(queries, on="query").sort("number", "document")

    def _retrieved(self, run: pl.DataFrame, judged: pl.DataFrame) -> pl.DataFrame:
        rank = pl.int_range(1, pl.len() + 1).over("query")
        last = np.iinfo(np.int64).max if self.depth is None else self.depth
        rows = ranked(run).filter(rank.is_between(self.skip + 1, last)).select("query", "document")
        if self.negatives is None:
            return rows
        rows = rows.join(judged, on=["query", "document"], how="anti", maintain_order="left")
        sizes = rows.group_by("query", maintain_order=True).len()
        # Each query has random numbers of its own, so that a list does not depend on the other queries.
        stream = Stream(self.seed, query_ids=sizes["query"].to_list()).child("negatives")
        draws = stream.documents(offsets_of(sizes["len"].to_numpy()))
        return (
            rows.with_columns(draw=pl.Series(draws))
            .filter(pl.col("draw").rank("ordinal").over("query") <= self.negatives)
            .drop("draw")
        )


_FOR_TRAINING = ("negatives", "skip")
"""Arguments of ``read_beir`` that choose what is learned from, and have no say in what is measured."""


def read_lists(
    name: str,
    split: str = "test",
    *,
    run: Annotated[
        Path | None, "Of a BEIR folder: a TREC run whose documents are on the lists beside those that were judged."
    ] = None,
    negatives: Annotated[
        int | None, AtLeast(1),
        "With ``run``: documents of each query that nobody judged to draw as hard negatives for training; validation "
        "and test data are ranked whole.",
        Unset("all of the run"),
    ] = None,
    depth: Annotated[int | None, AtLeast(1), "With ``run``: the last rank that is looked at."] = None,
    read: Annotated[
        Mapping[str, object] | None,
        "Another argument of rw.rerank.read (query=COLUMN, document=COLUMN, label=COLUMN, …) or, of a BEIR folder, of "
        "rw.rerank.read_beir (skip=10, teacher=FILE, errors=skip); may be repeated.", Option(metavar="NAME=VALUE"),
    ] = None,
    seed: int = 0,
    to_score: bool = False,
    measured: bool = False,
) -> Lists:  # fmt: skip
    """Read lists; ``split`` is the one of a BEIR folder whose name has none behind a colon.

    Documents that are only to be scored need no labels, and of a run they are those that it retrieved. Lists that
    are ``measured`` are whole: drawn negatives and skipped ranks are for training, and would flatter the model.
    """
    arguments: Keywords = dict(read or {})
    chosen = {"run": run, "negatives": negatives, "depth": depth}
    chosen = {word: value for word, value in chosen.items() if value is not None}
    folder, named = _folder(name)
    if folder is None:
        for word in chosen:
            hint = "make lists with rw.rerank.read_trec, and rw.rerank.write them"
            raise check.error(f"{word} belongs to a BEIR folder", got=name, hint=hint)
        return read_file(name, **arguments | {"to_score": to_score})
    arguments |= chosen
    if measured:
        arguments = {name: value for name, value in arguments.items() if name not in _FOR_TRAINING}
    if to_score and run is not None:
        arguments = {"add_judged": False, **arguments}
    return read_beir(folder, named or split, **{"seed": seed, **arguments})


def _folder(name: str) -> tuple[Path | None, str]:
    """Return a BEIR folder and the split that is named behind a colon, or None for a file."""
    for path, split in ((name, ""), name.rpartition(":")[::2]):
        if path and (Path(path) / "qrels").is_dir():
            return Path(path), split
    return None, ""
