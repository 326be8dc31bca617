"""Judgements of several judges, and of one at several times: in order, and merged into a grade per document."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import polars as pl

import rankwise as rw
from rankwise import check
from rankwise.base import tables
from rankwise.base.arrays import Json, offsets_of
from rankwise.data.io import Table, as_polars, without_nulls
from rankwise.evaluation import Run, trec
from rankwise.models import is_frame
from rankwise.statistics import Result
from rankwise.wings.judging import judgements as files
from rankwise.wings.judging.evaluation import table_of

Judgements = Table | str | Path | Mapping[str, Run | Table]
"""A file or a table with a column judge; or, by the name of each judge, files, tables or dictionaries of grades."""
OTHERS = "*"
_KEYS = ["query", "document"]
_PAST = ("version", "prompt", "time")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Merged(Result):
    """One judgement of each document, of the judge who takes precedence; made by :func:`merge`."""

    judgements: pl.DataFrame
    """The rows of :meth:`to_frame`."""
    judges: pl.DataFrame
    """By judge: judgements, documents, how often they are kept, and how often overruled by another grade."""
    shared: int
    """Documents of more than one judge."""
    conflicts: int
    """Documents to which judges gave different grades."""

    def to_frame(self) -> pl.DataFrame:
        """One row per document: query, document, grade, judge, version, prompt, time; of the judgement that counts."""
        return self.judgements

    @property
    def sentence(self) -> str:
        """How many documents there are, and how many of them judges disagree on."""
        several = tables.count(self.shared, "has several judges", "have several judges")
        documents = tables.count(self.judgements.height, "document")
        return f"{documents}, of which {several}; {self.conflicts:,} with different grades."

    def table(self) -> tables.Table:
        """Return a row for each judge, in the order of precedence."""
        rows = tuple((name, *(f"{one:,}" for one in counts)) for name, *counts in self.judges.iter_rows())
        header = ("judge", "judgements", "documents", "kept", "overruled by another grade")
        return tables.Table(header=header, rows=rows, align="lrrrr", notes=(self.sentence,))

    def to_dict(self) -> Json:
        """Return the judgements, and the counts by judge, as plain data."""
        counts = {"shared": self.shared, "conflicts": self.conflicts, "judges": self.judges.to_dicts()}
        return super().to_dict() | counts

    def write(self, path: str | Path, *, force: bool = False) -> Path:
        """Write the judgements: with judge and time to .csv, or else as qrels of TREC."""
        return write_grades(self.judgements, path, force=force)


def write_grades(grades: pl.DataFrame, path: str | Path, *, force: bool = False) -> Path:
    """Write a table of grades: all columns to .csv, or query, document and whole grades as qrels of TREC."""
    if Path(path).suffix.lower() == ".csv":
        from rankwise.statistics import write_frame

        write_frame(grades, Path(path), force=force)
        return Path(path)
    rows = grades.sort(pl.col("query").rank("dense"), maintain_order=True)
    sizes, ids = rows["query"].rle(), {name: rows[name].to_numpy() for name in _KEYS}
    starts = offsets_of(sizes.struct.field("len").to_numpy())[:-1]
    empty = np.empty((rows.height, 0), np.float32)
    data = rw.RankingDataset.from_sizes(
        empty, rows["grade"].to_numpy(), sizes.struct.field("len").to_numpy(),
        query_ids=ids["query"][starts], document_ids=ids["document"],
    )  # fmt: skip
    return trec.write_qrels(data, path, force=force)


def collect(judgements: Judgements) -> pl.DataFrame:
    """Return every grade that was not taken back, of each judge by time: repeats are rows of their own.

    Columns are query, document, grade, judge, version, prompt and time. Without a time rows keep the order of the file.
    """
    sources = judgements if isinstance(judgements, Mapping) else {"": judgements}
    rows = [_rows(name, source) for name, source in sources.items()]
    if not rows:
        raise check.error("there are no judgements", hint="pass a file with a column judge, or files by judge")
    found = pl.concat(rows)
    if found.is_empty():
        raise check.error("there are no judgements", got="no row with a grade")
    moment = pl.col("time").str.to_datetime(time_zone="UTC", time_unit="ms", strict=False)
    return found.sort(moment, nulls_last=False, maintain_order=True)


def _rows(name: str, source: object) -> pl.DataFrame:
    if isinstance(source, str | Path) and files.has_judges(source):
        rows = files.read_rows(source)
    else:
        rows = as_polars(source)[0].collect() if is_frame(source) else table_of(cast("Run", source))
    if "judge" not in rows.columns:
        if not name:
            hint = "add one, or pass sources by name: {'ann': …, 'llm': …}"
            raise check.error("judgements need a column judge", got=", ".join(rows.columns), hint=hint)
        rows = trec.qrels_frame(rows.drop_nulls("grade")).with_columns(judge=pl.lit(name)).filter(pl.col("grade") >= 0)
    rows = rows.with_columns(pl.lit(None, pl.String).alias(one) for one in _PAST if one not in rows.columns)
    if missing := [one for one in files.COLUMNS if one not in rows.columns]:
        raise check.error("judgements need columns query, document, grade and judge", got=f"no {', '.join(missing)}")
    for one in files.KEY:
        without_nulls(rows[one], f"the {one} must be known in every row of the judgements", check.Row)
    grade = rows["grade"].cast(pl.Float64, strict=False)
    if (wrong := rows["grade"].is_not_null() & ~grade.is_finite().fill_null(False)).any():
        raise check.error("every grade must be a finite number", got=repr(rows["grade"].filter(wrong)[0]))
    return files.given(rows.select(pl.col(*_KEYS).cast(pl.String), grade, pl.col("judge", *_PAST).cast(pl.String)))


def merge(judgements: Judgements, *, precedence: Sequence[str]) -> Merged:
    """Merge the judgements of several judges: of each document, the one of the first judge in ``precedence`` counts.

    ``judgements`` is a file, as people's judging in a browser writes, or a table with columns query, document, grade,
    judge and perhaps version, prompt and time; or grades by the name of each judge, in any form of qrels.
    ``precedence`` names judges, people before models; ``"*"`` stands for all who are not named. Of the judgements of
    one judge, and of judges of equal precedence, the later one counts.

    >>> people, model = {"q": {"a": 2, "b": 0}}, {"q": {"a": 1, "b": 0, "c": 1}}
    >>> merged = merge({"people": people, "llm": model}, precedence=["people", "llm"])
    >>> merged.to_frame().select("document", "grade", "judge").rows()
    [('a', 2.0, 'people'), ('b', 0.0, 'people'), ('c', 1.0, 'llm')]
    >>> merged
    judge   judgements  documents  kept  overruled by another grade
    people           2          2     2                           0
    llm              3          3     1                           1
    <BLANKLINE>
    3 documents, of which 2 have several judges; 1 with different grades.
    """
    names = [precedence] if isinstance(precedence, str) else list(precedence)
    rows = collect(judgements)
    judges = rows["judge"].unique(maintain_order=True).to_list()
    for what, got in (
        (
            "precedence names a judge of whom there is no judgement",
            [one for one in names if one not in (*judges, OTHERS)],
        ),
        ("precedence must name every judge", [] if OTHERS in names else [one for one in judges if one not in names]),
        ("precedence must name a judge once", [one for one in names if names.count(one) > 1]),
    ):
        if got:
            hint = f"judges are {', '.join(judges)}; '*' stands for all that are not named"
            raise check.error(what, got=repr(got[0]), hint=hint)
    rank = pl.col("judge").replace_strict(
        {name: place for place, name in enumerate(names) if name != OTHERS},
        default=names.index(OTHERS) if OTHERS in names else None, return_dtype=pl.Int64,
    )  # fmt: skip
    rows = rows.with_row_index("row").with_columns(rank=rank, first=pl.col("row").min().over(_KEYS))
    standing = rows.unique(files.KEY, keep="last", maintain_order=True)
    chosen = standing.sort("rank", pl.col("row"), descending=[False, True]).unique(_KEYS, keep="first")
    chosen = chosen.sort(pl.col("first").min().over("query"), "first")
    final = standing.join(chosen.select(*_KEYS, kept="row", final="grade"), on=_KEYS)
    grades = final.group_by(_KEYS).agg(pl.len(), pl.col("grade").n_unique())
    kept, other = pl.col("row") == pl.col("kept"), pl.col("grade") != pl.col("final")
    by_judge = final.group_by("judge").agg(
        pl.col("rank").first(), pl.len().alias("documents"), kept.sum().alias("kept"), other.sum().alias("overruled")
    )
    counts = rows.group_by("judge").agg(pl.len().alias("judgements"))
    by_judge = by_judge.join(counts, on="judge").sort("rank", "judge")
    return Merged(
        judgements=chosen.select(*_KEYS, "grade", "judge", *_PAST),
        judges=by_judge.select("judge", "judgements", "documents", "kept", "overruled"),
        shared=int((grades["len"] > 1).sum()),
        conflicts=int((grades["grade"] > 1).sum()),
    )
