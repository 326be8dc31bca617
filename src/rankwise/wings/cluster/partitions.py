"""Rows of a Parquet folder or a frame of the cluster as whole queries on workers: one part, a RankingDataset, on each.

The ids of all queries are looked at first. Queries, in the order in which they begin, are cut into as many runs as
there are workers, with about equal numbers of documents. Then every worker gets the rows of its queries: from a Parquet
folder it reads just these itself; of a frame they are sent. The documents of a query keep their order, whichever
partitions they came from.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from rankwise import RankingDataset, check
from rankwise.base.arrays import Ids, Keywords
from rankwise.base.tables import count
from rankwise.data.io import parquet, urls
from rankwise.models import Schema
from rankwise.wings.cluster.backend import ClusterBackend
from rankwise.wings.cluster.row_plan import RowPlan, Runs, common_lists, facts_of, find_runs, join_rows, take_rows

_READING = "reading the data"


@dataclass(frozen=True)
class Partitions:
    """The partitions of the data of a training on a cluster, and how much was moved between them."""

    workers: int
    queries: int
    documents: int
    partitions: int
    """Files of a folder, or partitions of a frame."""
    moved_queries: int
    """Queries with documents in more than one partition, which were joined."""
    moved_documents: int
    """Their documents outside the partition where the query begins."""

    def __str__(self) -> str:
        text = f"{self.queries:,} queries with {self.documents:,} documents from {self.partitions:,} partitions "
        text += f"on {count(self.workers, 'worker')}"
        if self.moved_queries:
            text += f"; {self.moved_queries:,} queries lay in more than one partition and were put together, by moving "
            text += f"{self.moved_documents:,} documents"
        return text


class WorkerParts(NamedTuple):
    """The data on the workers."""

    backend: ClusterBackend
    futures: list[Any]
    """A RankingDataset on each worker."""
    partitions: Partitions
    sample: RankingDataset
    """The first query, which has the columns of all."""
    digest: str
    """Of all data, whatever their order and partition."""
    query_ids: Ids
    """Of all queries, sorted."""


def distribute(backend: ClusterBackend, data: object, columns: Keywords, older: Schema | None = None) -> WorkerParts:
    """Load the data on the workers, queries undivided, and all with one list of categories for each column.

    The lists begin with those of the ``older`` model that is continued.
    """
    sources, columns, unnamed, versions = _sources(backend, data, columns)
    doing = "looking at the queries"
    run_futures = backend.submit(doing, find_runs, sources, [columns] * len(sources), anywhere=True)
    runs: list[Runs] = backend.results(doing, run_futures)
    plan = RowPlan(runs, len(backend.names))
    columns = {**columns, "categories": common_lists(runs, older)}
    backend = backend.first(plan.parts)
    pieces: list[list[object]] = []
    for part in range(plan.parts):
        tables, rows = [sources[partition] for partition, _ in plan.rows(part)], [rows for _, rows in plan.rows(part)]
        if isinstance(sources[0], str):
            pieces.append(list(zip(tables, rows, strict=True)))
        else:
            pieces.append(backend.submit(_READING, take_rows, tables, rows, anywhere=True))
    scattered = [plan.scattered(part) for part in range(plan.parts)]
    futures = backend.submit(_READING, join_rows, pieces, [columns] * plan.parts, scattered, [unnamed] * plan.parts)
    backend.wait(_READING, futures)
    facts = backend.all(_READING, facts_of, futures)
    partitions = Partitions(len(backend.names), plan.n_queries, plan.n_docs, len(runs), *plan.moved)
    sample = facts[0].sample
    for other in facts[1:]:
        if (other.sample.feature_names, other.sample.categorical) != (sample.feature_names, sample.categorical):
            raise check.error("the partitions differ in their features", hint="give all the same columns")
    read = sum(fact.queries for fact in facts), sum(fact.documents for fact in facts)
    if versions != urls.versions(sources):
        what = "the data changed while they were read"
        raise check.error(what, where=check.address(str(data)), hint="train again, once they are written")
    if read != (plan.n_queries, plan.n_docs):
        raise check.error(
            "the data changed while they were read",
            got=f"{read[0]} queries with {read[1]} documents, of {plan.n_queries} with {plan.n_docs}",
            hint="persist the frame, or wait until the files are written",
        )
    digest = sum(fact.digest for fact in facts) % 2**64
    ids = np.unique(np.concatenate([run.ids for run in runs if run.ids.size]))
    return WorkerParts(backend, futures, partitions, sample, f"{digest:016x}", ids)


def _sources(
    backend: ClusterBackend, data: object, columns: Keywords
) -> tuple[list[Any], Keywords, tuple[str, ...], list[str]]:
    """Return the partitions, Parquet files or futures of tables; their columns; and the versions of those at URLs."""
    if isinstance(data, str | Path):
        paths: Any = urls.parquet_urls(str(data)) if urls.is_url(data) else parquet.parquet_files(data)
        versions = urls.versions(paths)
        if not all(versions):
            what = f"a change of {check.address(str(data))} while it is read would not be noticed"
            why = "its server names no version (ETag, or a time that is a minute old)"
            check.warn(f"{what}: {why}", hint="do not write to it meanwhile", stacklevel=2)
        with urls.errors(data):
            local = [urls.scanned(path) for path in paths] if urls.is_url(data) else paths
            described, absent = parquet.arguments_for_frame(local, columns)
        unnamed = tuple(name for name in absent if name != "query_ids")  # numbers are as good, and randomness needs ids
        sources = [path if isinstance(path, str) else str(path.resolve()) for path in paths]
        return sources, described, unnamed, versions
    tables = backend.tables(data)
    if tables is None:
        raise check.error(
            f"data for a cluster must be a Parquet file or folder, or a {backend.frame}",
            got=type(data).__name__,
            hint=f"write Parquet with rw.data.write_parquet, or make a frame with {backend.frame_hint}",
        )
    if not tables:
        raise check.error("the data have no documents")
    return tables, columns, (), []
