"""TREC runs and qrels: the text files of trec_eval, in and out, and the join of the two that metrics work on.

A run holds lines ``query Q0 document rank score tag``, a qrels file lines ``query 0 document grade``. Both are read
into polars frames, which is also what :func:`join` takes, besides nested dictionaries.
"""

import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check
from rankwise.base import hooks, tables, threads
from rankwise.base.arrays import Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.data.io import file_formats as files
from rankwise.data.io.tables.polars import as_polars, checked_ids, without_nulls
from rankwise.evaluation.systems import IrDataset, Run
from rankwise.models.schema import is_frame

# Blanks are those of C's isspace, as in trec_eval; naming them is also twice as fast as Unicode's.
_BLANK, _WORD = r"[ \t\r\v\f]", r"[^ \t\r\v\f]+"
_RUN, _QRELS = "query Q0 document rank score tag", "query 0 document grade"
_STRATA, _PRELS = "query 0 document stratum grade", "query document grade method probability"
_ASPECTS = "query aspect document grade"
_NAMED = ("query", "document", "score", "tag", "grade", "stratum", "probability", "aspect")
_OF_QRELS = ("stratum", "probability", "aspect")
_KEYS = ("query", "aspect", "document")
_SHOWN = 80
_NEVER_IN_TEXT = (*range(1, 9), *range(14, 32))


def read_run(path: str | Path, *, errors: str = "raise") -> pl.DataFrame:
    """Read a run: one row per retrieved document, with columns query, document, score and tag, in the file's order.

    As in trec_eval the rank is not looked at, words after the tag are ignored, and the lines of a query need not lie
    together. ``.gz`` and ``.zst`` are unpacked; a pipe will do, and ``"-"`` is standard input. A broken line is an
    error that names file, line and text; ``errors="skip"`` leaves such lines out and warns with their number instead.
    """
    return parse_run(files.read_bytes(path), path, errors=errors)


def parse_run(content: bytes, path: str | Path, *, errors: str = "raise") -> pl.DataFrame:
    """Read a run from the content of a file; ``path`` is what errors name."""
    return _read(content, files.shown(path), _RUN, "score", errors)


def read_qrels(path: str | Path, *, errors: str = "raise", aspects: bool = False) -> pl.DataFrame:
    """Read qrels: one row per judged document, with columns query, document and grade, in the file's order.

    Grades are whole numbers; negative ones are kept here and count as not relevant in :func:`join`. Lines of five
    words are those of NIST's sample_eval, ``query 0 document stratum grade``, or prels of the Million Query tracks,
    ``query document grade method probability``: they have a column stratum, or probability (of being drawn). With
    ``aspects`` the second word is a subtopic, as in the diversity tasks of the Web tracks, and a column of that name.
    A .csv file has columns of these names; of a file of judgements, those that stand count.
    """
    if files.ending(Path(path)) == ".csv":
        table: pl.DataFrame = hooks.find("qrels", "csv")(path)
        return table.drop_nulls("grade")
    content = files.read_bytes(path)
    words = content.lstrip().split(b"\n", 1)[0].split()
    form = _ASPECTS if aspects else _QRELS if len(words) != 5 else _STRATA if words[1] in (b"0", b"Q0") else _PRELS
    return _read(content, files.shown(path), form, "grade", errors)


def write_run(
    scores: ArrayLike, data: RankingDataset, path: str | Path, *, tag: str = "rankwise", force: bool = False
) -> Path:
    """Write the ranking of every query as a run; documents with score −inf were not retrieved and are left out.

    Documents without ids are called ``query.0``, ``query.1``, … in the order of their rows, here and in qrels.
    """
    values = check.scores(scores, data.offsets, data.query_ids)
    _printable("tag", [tag])
    frame = _identified(data).with_columns(score=pl.Series(values)).filter(pl.col("score") > -np.inf)
    frame = ranked(frame, "number")  # the ranks written say what trec_eval makes of the scores
    rank = pl.int_range(pl.len()).over("number") + 1
    columns = "query", pl.lit("Q0").alias("q0"), "document", rank.alias("rank"), "score", pl.lit(tag).alias("tag")
    return _write(frame.select(columns), path, force)


def write_qrels(data: RankingDataset, path: str | Path, *, force: bool = False) -> Path:
    """Write the labels as qrels; they must be whole numbers, since that is what the format holds."""
    broken = data.labels != np.floor(data.labels)
    if broken.any():
        row = int(np.argmax(broken))
        where = check.query_of_row(row, data.offsets, data.query_ids)
        hint = "round the labels, or map them to grades first"
        raise check.error("qrels hold whole grades", got=f"label {data.labels[row]:g}", where=where, hint=hint)
    frame = _identified(data).with_columns(grade=pl.Series(data.labels.astype(np.int64)))
    return _write(frame.select("query", pl.lit("0").alias("iteration"), "document", "grade"), path, force)


def join(run: Run, qrels: Run, *, all_topics: bool = False) -> tuple[NDArray[np.float64], RankingDataset]:
    """Join a run with qrels into scores and data, which metrics then read as trec_eval would.

    Every retrieved and every judged document is there. Judged documents that the run missed have score −inf: they
    never enter the ranking but count among the relevant. Documents without a judgment, or with a negative one, have
    label 0; ``data.judged`` tells them apart, for metrics such as ``bpref``. Rows are in trec_eval's order: score (in
    single precision) descending, ties by document id descending, so that ``ties=row`` repeats its numbers. Queries are
    those of the qrels that the run has; with ``all_topics`` (its option -c) the others too, with nothing retrieved.
    Columns stratum and probability of the qrels become strata and inclusion probabilities. With a column aspect, the
    grades of each aspect are labels by name (``aspect_1`` for 1), and the highest of a document is its label.
    ``run`` and ``qrels`` may be paths, frames, dictionaries, or data sets of ir_datasets.

    >>> scores, data = join({"q1": {"d1": 0.5, "d2": 0.4}}, {"q1": {"d2": 1, "d3": 2}})
    >>> data.document_ids.tolist(), scores.round(1).tolist(), data.labels.tolist()
    (['d1', 'd2', 'd3'], [0.5, 0.4, -inf], [0.0, 1.0, 2.0])
    """
    run, qrels = run_frame(run), qrels_frame(qrels)
    topics = qrels.select("query").unique(maintain_order=True)
    shared = topics.join(run, on="query", how="semi", maintain_order="left")
    if shared.is_empty():
        got = f"{_few(run)} in the run, {_few(qrels)} in the qrels"
        hint = "check that both files belong to the same topics and spell their ids alike"
        raise check.error("run and qrels have no query in common", got=got, hint=hint)
    topics = (topics if all_topics else shared).with_row_index("topic")
    retrieved = run.join(topics, on="query").select("topic", "document", "score")
    judged = qrels.join(topics, on="query").drop("query")
    by_aspect = judged if "aspect" in judged.columns else None
    if by_aspect is not None:
        first = pl.exclude("topic", "document", "aspect", "grade").first()
        judged = by_aspect.group_by("topic", "document", maintain_order=True).agg(pl.col("grade").max(), first)
    largest = float(np.finfo(np.float32).max)
    rows = ranked(
        retrieved.with_columns(pl.col("score").clip(-largest, largest).cast(pl.Float32))
        .join(judged, on=["topic", "document"], how="full", coalesce=True)
        .with_columns(
            pl.col("score").fill_null(-np.inf),
            pl.col("grade").fill_null(0).clip(0),
            judged=pl.when(pl.col("grade").is_null()).then(0).when(pl.col("grade") < 0).then(-1).otherwise(1),
        ),
        "topic",
    )
    samples: Keywords = {}
    if "stratum" in rows.columns:
        samples["strata"] = rows["stratum"].cast(pl.String).fill_null("").to_numpy().astype(np.str_)
    if "probability" in rows.columns:
        samples["inclusion_probabilities"] = rows["probability"].cast(pl.Float64).fill_null(0.0).to_numpy()
    if by_aspect is not None:
        samples["more_labels"] = _labels_by_aspect(rows.select("topic", "document"), by_aspect)
    sizes = rows["topic"].rle().struct.field("len").to_numpy()
    data = RankingDataset.from_sizes(
        np.empty((rows.height, 0), np.float32),
        rows["grade"].to_numpy(),
        sizes,
        query_ids=np.array(topics["query"].to_list(), np.str_),
        document_ids=np.array(rows["document"].to_list(), np.str_),
        judged=rows["judged"].to_numpy(),
        **samples,
    )
    return rows["score"].to_numpy().astype(np.float64), data


def scores_of_run(run: Run, data: RankingDataset) -> NDArray[np.float64]:
    """Return the score that a run has for each document of the data, found by ids; −inf where it did not retrieve it.

    >>> data = RankingDataset([[0.0], [0.0]], [1, 0], [0, 2], query_ids=["q1"], document_ids=["d1", "d2"])
    >>> scores_of_run({"q1": {"d2": 0.5}}, data)
    array([-inf,  0.5])
    """
    if data.query_ids is None or data.document_ids is None:
        got = "data without " + ("query_ids" if data.query_ids is None else "document_ids")
        hint = "give the data ids, or pass one score for each document"
        raise check.error("a run is joined with data by the ids of queries and documents", got=got, hint=hint)
    rows = ids_of(data)
    scores = rows.join(run_frame(run), on=["query", "document"], how="left", maintain_order="left")["score"]
    if scores.null_count() == len(scores):
        got = f"{_few(run_frame(run))} in the run, {_few(rows)} in the data"
        hint = "check that both belong to the same queries and spell their ids alike"
        raise check.error("run and data have no document in common", got=got, hint=hint)
    return scores.fill_null(-np.inf).to_numpy()


def run_frame(run: Run) -> pl.DataFrame:
    """Read and check a run in any form: a frame with columns query, document (both text) and score."""
    return _frame(run, read_run, "run", "score")


def qrels_frame(qrels: Run) -> pl.DataFrame:
    """Read and check qrels in any form: a frame with columns query, document (both text) and grade."""
    return _frame(qrels, read_qrels, "qrels", "grade")


def is_qrels(data: object) -> bool:
    """Whether it is qrels: a file, nested dictionaries, a table with a column of grades, a data set of ir_datasets."""
    if isinstance(data, str | Path | Mapping | IrDataset):
        return True
    return is_frame(data) and "grade" in as_polars(data)[0].collect_schema()


def ids_of(data: RankingDataset) -> pl.DataFrame:
    """Return the ids of each document as text: columns query and document."""
    return pl.DataFrame({"query": data.qids(), "document": data.document_ids}).with_columns(pl.all().cast(pl.String))


def ranked(run: pl.DataFrame, query: str = "query") -> pl.DataFrame:
    """Sort the rows of a run as trec_eval does: score descending, ties by document id descending."""
    return run.sort([query, "score", "document"], descending=[False, True, True])


def _pattern(form: str) -> str:
    """Return the pattern of a line; what tells two forms apart must hold in every line."""
    checked = {"0": "Q?0", "method": "[0-9]+"} if form in (_STRATA, _PRELS) else {}
    words = (f"(?<{word}>{_WORD})" if word in _NAMED else checked.get(word, _WORD) for word in form.split())
    return f"^{_BLANK}*" + f"{_BLANK}+".join(words) + ("" if form == _RUN else f"{_BLANK}*$")


def _read(content: bytes, path: str | Path, form: str, value: str, errors: str) -> pl.DataFrame:
    check.choice("way to treat broken lines (errors)", errors, ["raise", "skip"])
    threads.check_tables()
    absent = next((chr(byte) for byte in _NEVER_IN_TEXT if byte not in content), None)
    if absent is None:
        raise check.error("the file holds no text", where=str(path), hint="check that it is a run or qrels")
    lines = pl.read_csv(
        content,
        has_header=False,
        separator=absent,  # no separator and no quotes: each line is one piece of text
        quote_char=None,
        schema={"line": pl.String},
        encoding="utf8-lossy",
        row_index_name="number",
        row_index_offset=1,
        raise_if_empty=False,
    ).filter(pl.col("line").str.contains(_WORD))
    kind, lossy = pl.Float64 if value == "score" else pl.Int64, content.decode(errors="ignore").encode() != content
    frame = lines.with_columns(pl.col("line").str.extract_groups(_pattern(form)).alias("parts")).unnest("parts")
    frame = frame.with_columns(pl.col(value).cast(kind, strict=False))
    good = pl.col(value).is_not_null() & (pl.col(value).is_finite() if value == "score" else True)
    if form == _PRELS:
        frame = frame.with_columns(pl.col("probability").cast(pl.Float64, strict=False))
        good &= pl.col("probability").is_between(0.0, 1.0).fill_null(False)
    frame = frame.with_columns(
        reason=pl.when(~good)
        .then(pl.lit(f"a line must read '{form}' with a {'finite' if value == 'score' else 'whole'} {value}"))
        .when(pl.lit(lossy) & pl.any_horizontal(pl.col("query", "document").str.contains("\ufffd", literal=True)))
        .then(pl.lit("text must be UTF-8, so that ids are not mistaken for each other"))
        .when(~pl.struct(pl.col(key) for key in _KEYS if key in frame.columns).is_first_distinct())
        .then(pl.lit("a document may stand only once under a query"))
    )
    broken = frame.filter(pl.col("reason").is_not_null())
    if broken.height:
        first = broken.row(0, named=True)
        where = f"line {first['number']} of {path}"
        text = repr(first["line"][:_SHOWN] + ("…" if len(first["line"]) > _SHOWN else ""))
        if errors == "raise":
            hint = "mend the line, or leave broken lines out with `errors='skip'`"
            hint += "; subtopics of diversity qrels are read with `aspects=True`" if form == _QRELS else ""
            raise check.error(first["reason"], got=text, where=where, hint=hint)
        left_out = tables.count(broken.height, "broken line")
        warnings.warn(f"left out {left_out}; the first is {where}: {text} ({first['reason']})", stacklevel=3)
        frame = frame.filter(pl.col("reason").is_null())
    if frame.is_empty():
        raise check.error("the file has no lines that can be read", where=str(path), hint=f"each must read '{form}'")
    return frame.drop("number", "line", "reason")


def _frame(source: object, read: Callable[[str | Path], pl.DataFrame], name: str, value: str) -> pl.DataFrame:
    """Turn a path, a table or nested dictionaries into a frame with string ids: query, document and ``value``."""
    if isinstance(source, str | Path):
        source = read(source)
    elif isinstance(source, IrDataset):
        source = _of_ir_dataset(source, name, value)
    elif isinstance(source, Mapping) and all(isinstance(row, Mapping) for row in source.values()):
        check.different_as_text(f"query ids of the {name}", list(source))
        triples = [(str(query), str(document), one) for query, row in source.items() for document, one in row.items()]
        source = pl.DataFrame(triples, schema={"query": pl.String, "document": pl.String, value: None}, orient="row")
    table = as_polars(source)[0] if is_frame(source) else pl.LazyFrame()
    names = table.collect_schema().names()
    if not {"query", "document", value} <= set(names):
        what = f"{name} must be a path, a table with columns query, document, {value}, or nested dictionaries"
        raise check.error(what, got=f"columns {', '.join(names)}" if names else type(source).__name__)
    more = [column for column in _OF_QRELS if value == "grade" and column in names]
    frame = table.select("query", "document", value, *more).collect()
    for column in (key for key in _KEYS if key in frame.columns):
        what = f"the {column} must be known in every row of the {name}"
        ids = without_nulls(frame[column], what, check.Row)
        frame = frame.with_columns(checked_ids(ids, column, check.Row).cast(pl.String))
    frame = frame.with_columns(pl.col(value).cast(pl.Float64, strict=False))
    bad = frame.filter(pl.col(value).is_null() | ~pl.col(value).is_finite())
    if bad.height:
        query, document, number = bad.row(0)[:3]
        got, where = "no number" if number is None else number, f"document {document!r} of query {query!r}"
        raise check.error(f"every {value} must be finite", got=got, where=where)
    twice = frame.filter(~pl.struct(key for key in _KEYS if key in frame.columns).is_first_distinct())
    if twice.height:
        query, document = twice.row(0)[:2]
        what = f"a document may stand only once under a query of the {name}"
        raise check.error(what, got=f"document {document!r} again", where=f"query {query!r}")
    return frame


def _labels_by_aspect(rows: pl.DataFrame, judged: pl.DataFrame) -> dict[str, NDArray[np.float64]]:
    """Return the grades of each aspect for these documents, 0 where there is none, by names that are identifiers."""
    labels = {}
    for (aspect,), part in judged.partition_by("aspect", as_dict=True).items():
        name = re.sub(r"\W", "_", aspect, flags=re.ASCII)
        name = name if name.isidentifier() else f"aspect_{name}"
        if name in labels:
            raise check.error("two aspects have one name as labels", got=f"{aspect!r} for {name}", hint="rename one")
        grades = rows.join(part, on=["topic", "document"], how="left", maintain_order="left")["grade"]
        labels[name] = grades.fill_null(0).clip(0).to_numpy().astype(np.float64)
    return labels


def _of_ir_dataset(dataset: Any, name: str, value: str) -> pl.DataFrame:
    """Read the judgements, or the scored documents, of a data set of ir_datasets."""
    kind, field = {"grade": ("qrels", "relevance"), "score": ("scoreddocs", "score")}[value]
    if not getattr(dataset, f"has_{kind}")():
        hint = f"load one that has {kind}, or pass the {name} as a file, a table or dictionaries"
        raise check.error(f"the data set of ir_datasets has no {kind}", got=repr(dataset), hint=hint)
    rows = [(one.query_id, one.doc_id, float(getattr(one, field))) for one in getattr(dataset, f"{kind}_iter")()]
    schema = {"query": pl.String, "document": pl.String, value: pl.Float64}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _few(frame: pl.DataFrame) -> str:
    ids = frame["query"].unique(maintain_order=True).to_list()
    return ", ".join(map(repr, ids[:3])) + (", …" if len(ids) > 3 else "")


def _identified(data: RankingDataset) -> pl.DataFrame:
    """One row per document: the number of its query, and query and document ids as text without blanks."""
    number = np.repeat(np.arange(data.n_queries), data.sizes)
    query = pl.Series(data.qids()).cast(pl.String)
    if data.document_ids is None:
        index = np.arange(data.n_docs) - data.offsets[number]
        document = query + "." + pl.Series(index).cast(pl.String)
    else:
        document = pl.Series(data.document_ids).cast(pl.String)
    frame = pl.DataFrame({"number": number, "query": query, "document": document})
    _printable("query id", frame["query"])
    _printable("document id", frame["document"])
    twice = frame.filter(~pl.struct("number", "document").is_first_distinct())
    if twice.height:
        _, query_id, again = twice.row(0)
        what, hint = "a document may stand only once under a query", "give every document of a query its own id"
        raise check.error(what, got=repr(again), where=f"query {query_id!r}", hint=hint)
    return frame


def _printable(what: str, values: Iterable[object]) -> None:
    column = pl.Series(values, dtype=pl.String)
    bad = column.filter(~column.str.contains(r"^\S+$"))
    if bad.len():
        raise check.error(f"a {what} in TREC files must be text without blanks", got=repr(bad[0]))


def _write(frame: pl.DataFrame, path: str | Path, force: bool) -> Path:
    with files.create_bytes(path, force=force) as out:
        out.write(frame.write_csv(separator=" ", include_header=False, quote_style="never").encode())
    return Path(path)
