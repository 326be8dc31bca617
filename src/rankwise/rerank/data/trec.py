"""Lists of texts from TREC-style files and BEIR folders: qrels, runs, queries and a corpus."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict, Unpack

import numpy as np

from rankwise import check
from rankwise.arrays import offsets_of
from rankwise.data import compressed
from rankwise.data.dataset import RankingDataset
from rankwise.plain import Keywords
from rankwise.rerank.data.lists import Lists
from rankwise.rerank.data.texts import Texts, read_texts

if TYPE_CHECKING:
    import polars as pl

    from rankwise.evaluation.trec import Run as Source

_SUFFIXES = ("", ".gz", ".zst")
_COLUMNS = ("query-id", "corpus-id", "score")


class Choice(TypedDict, total=False):
    """Which documents are on the lists; see :func:`read_trec`."""

    run: "Source | None"
    negatives: int | None
    depth: int | None
    skip: int
    add_judged: bool
    teacher: "Source | None"
    seed: int
    errors: str


def read_trec(
    qrels: "Source | None",
    queries: Texts,
    corpus: Texts,
    *,
    run: "Source | None" = None,
    negatives: int | None = None,
    depth: int | None = None,
    skip: int = 0,
    add_judged: bool = True,
    teacher: "Source | None" = None,
    seed: int = 0,
    errors: str = "raise",
) -> Lists:
    """Make lists of texts from judgments, a run, queries and a corpus.

    Labels are the grades of the qrels, 0 for negative ones and for documents that nobody judged; ``lists.data.judged``
    tells these apart. Lists are those of the queries in the qrels; documents lie in the order of their ids, which says
    nothing about what is relevant. Of a corpus only the texts that are on a list are kept in memory.

    Args:
        qrels: A file ``query 0 document grade``, a frame, or nested dictionaries; None if all of the run is to be
            scored, with labels 0.
        queries: Texts by id: a dictionary, or a file of JSON lines (``_id``, ``text``) or of ``id<TAB>text``.
        corpus: The texts of the documents, likewise; a title goes before the text.
        run: What a first stage retrieved: a file, a frame, or nested dictionaries. Without one, lists hold what was
            judged.
        negatives: How many documents of the run, not among the judged, are drawn for each query: hard negatives. By
            default all of them are on the list.
        depth: The last rank of the run that is looked at.
        skip: How many of the first ranks are not, since unjudged documents there are often relevant.
        add_judged: With False, lists hold what was retrieved and nothing else, as it is when a run is ranked again.
            Metrics of such lists do not know of relevant documents that the run missed: for these, write a run of the
            scores and :func:`rankwise.judge` it.
        teacher: A run with a score for every document that is on a list, to learn from.
        seed: For the drawing; each query has random numbers of its own.
        errors: ``"skip"`` leaves out queries and documents that have no text, with a warning; ``"raise"`` refuses.

    >>> queries, corpus = {"q": "hat"}, {"d1": "a hat", "d2": "a shoe", "d3": "a cap"}
    >>> lists = read_trec({"q": {"d1": 2}}, queries, corpus, run={"q": {"d2": 3.0, "d3": 2.0}}, negatives=1, depth=1)
    >>> lists.documents, lists.labels
    (('a hat', 'a shoe'), array([2., 0.]))
    """
    from rankwise.evaluation.trec import qrels_frame, run_frame  # bring polars, which takes long to load
    from rankwise.rerank.data.candidates import Candidates

    check.choice("way to treat missing texts (errors)", errors, ["raise", "skip"])
    plan = Candidates(depth=depth, skip=skip, negatives=negatives, add_judged=add_judged, seed=seed)
    if run is None and (qrels is None or plan != Candidates(seed=seed)):
        raise check.error("a run is needed for this", got="run=None", hint="set run= to what a first stage retrieved")
    retrieved = None if run is None else run_frame(run)
    judged = None if qrels is None else qrels_frame(qrels)
    rows = plan.join(judged, retrieved)
    if rows.is_empty():
        raise check.error(
            "there is no document on any list", got=f"depth={depth} and skip={skip}", hint="set skip lower"
        )
    asked = read_texts(queries, set(rows["query"].unique()))
    rows = _with_texts(rows, "query", asked, queries, errors)
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
    origin = plan.origin(with_run=run is not None)
    return Lists.of((asked[query] for query in heads["query"]), documents, data, origin=origin)


def read_beir(folder: str | Path, split: str = "test", **choice: Unpack[Choice]) -> Lists:
    """Make lists of texts from a BEIR folder: ``corpus.jsonl``, ``queries.jsonl`` and ``qrels/SPLIT.tsv``.

    ``choice`` are the arguments of :func:`read_trec`: ``run``, ``negatives``, ``depth``, ``teacher`` …. Where only
    relevant documents were judged, a run is needed to have others beside them.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise FileNotFoundError(f"there is no folder {folder}.")
    qrels = read_judgments(_file(folder / "qrels", f"{split}.tsv", "set split= to one of these"))
    corpus, queries = (_file(folder, f"{name}.jsonl", "a BEIR folder has both") for name in ("corpus", "queries"))
    return read_trec(qrels, queries, corpus, **choice)


def _file(folder: Path, name: str, hint: str) -> Path:
    for suffix in _SUFFIXES:
        if (path := folder / (name + suffix)).exists():
            return path
    there = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
    listed = f" There are {', '.join(there[:20])}. Hint: {hint}." if there else ""
    raise FileNotFoundError(check.printable(f"there is no file {folder / name}.{listed}"))


def read_judgments(path: Path) -> "pl.DataFrame":
    """Read the judgments of a BEIR folder: a line that names three columns, then query, document and grade."""
    import polars as pl

    from rankwise.data.tables.csv import read_table

    table = read_table(path, separator="\t", words=None)
    if tuple(table.columns) != _COLUMNS:
        hint = f"name the columns {', '.join(_COLUMNS)}, or read qrels of TREC's form with rw.rerank.read_trec"
        got = ", ".join(map(repr, table.columns[:10]))
        raise check.error("the first line must name three columns", got=got, where=f"line 1 of {path}", hint=hint)
    frame = table.frame.rename(dict(zip(_COLUMNS, ("query", "document", "grade"), strict=True)))
    frame = frame.with_columns(pl.col("grade").str.strip_chars().cast(pl.Float64, strict=False))
    wrong = frame.select(pl.any_horizontal(pl.all().is_null()) | ~pl.col("grade").is_finite()).to_series()
    again = ~frame.select(pl.struct("query", "document").is_first_distinct()).to_series()
    for broken, what in (
        (wrong, "a line must have a query, a document and a finite grade"),
        (again, "a document may stand only once under a query"),
    ):
        if broken.any():
            row = int(np.argmax(broken.to_numpy()))
            got = "\t".join("" if value is None else str(value) for value in table.frame.row(row))
            raise check.error(what, got=repr(got), where=f"{table.place(row)} of {path}")
    return frame


def _with_texts(rows: "pl.DataFrame", column: str, texts: dict[str, str], source: Texts, errors: str) -> "pl.DataFrame":
    """Give the rows whose texts are known."""
    import polars as pl

    known = rows[column].is_in(list(texts))
    if known.all():
        return rows
    first = rows.row(int(np.argmin(known.to_numpy())), named=True)
    place = compressed.shown(source) if isinstance(source, str | Path) else "the dictionary"
    lost = rows.filter(~known)[column].n_unique()
    what = f"{lost:,} {column if lost == 1 else {'query': 'queries'}.get(column, 'documents')} of the lists"
    shown = f"{first['document']!r} of query {first['query']!r}" if column == "document" else repr(first["query"])
    if errors == "raise":
        hint = "check that all belong to the same collection, or leave them out with errors='skip'"
        raise check.error(f"there is no text of {what}", got=shown, where=place, hint=hint)
    warnings.warn(f"left out {what}, which have no text in {place}; the first is {shown}", stacklevel=3)
    kept = rows.filter(pl.Series(known))
    if kept.is_empty():
        raise check.error("no list has texts", where=place, hint="check that all belong to the same collection")
    return kept


def _teacher_scores(rows: "pl.DataFrame", teacher: "pl.DataFrame") -> "pl.Series":
    scores = rows.join(teacher, on=["query", "document"], how="left", maintain_order="left")["score"]
    if scores.null_count():
        row = rows.row(int(np.argmax(scores.is_null().to_numpy())), named=True)
        raise check.error(
            "the teacher must score every document that is on a list",
            got=f"none for {scores.null_count():,} of {rows.height:,}",
            where=f"document {row['document']!r} of query {row['query']!r}",
            hint="let it score the lists first, or leave teacher= out",
        )
    return scores
