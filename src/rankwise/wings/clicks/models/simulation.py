"""Simulate a click log: many impressions of the queries of a data set, without copies of its features."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Unpack

import numpy as np
import polars as pl
from numpy.typing import ArrayLike

from rankwise import RankingDataset, check, moved
from rankwise.base import threads
from rankwise.base.arrays import Column, Keywords, offsets_of, read_only
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.models.users import Shown, UserOptions, named_rankers, show
from rankwise.wings.clicks.models.users import Users as Users


@moved.renamed("rw.clicks.simulate")
def simulate(
    data: RankingDataset,
    *,
    model: str = "position",
    impressions: int | ArrayLike = 10,
    ranker: Shown = None,
    rankers: Mapping[str, Shown] | None = None,
    temperature: float | None = None,
    cutoff: int | None = None,
    sessions: bool = True,
    seed: int = 0,
    **options: Unpack[UserOptions],
) -> Log:
    """Show each list ``impressions`` times (or so many times for each query) and return the log.

    Users and rankings are those of :func:`rankwise.clicks.simulate_clicks`, by the same arguments and random numbers;
    but every impression is kept, and a list that was shown is in the log to its end, since a log does not know where a
    user stopped to read. The truth about these users is in :class:`Users`. Where rankings are random (``temperature``,
    or a ranker that is None), ``log.probabilities`` are those of the document at its position, given the documents
    above it and the ranker. ``sessions=False`` leaves out the impressions one by one.

    Queries and documents without ids are numbered from 0, documents over the whole data set.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=100, n_docs=20, seed=1)
    >>> rankers = {"old": data.features[:, 0], "new": data.features[:, 1]}
    >>> log = simulate(data, rankers=rankers, curve=[1.0, 0.6, 0.4, 0.3, 0.2], impressions=1000, seed=1)
    >>> log
    Log(100,000 impressions, 100 queries, 751 pairs, 2 rankers, positions 1 to 5, 0.1296 clicks a document)
    """
    threads.check_tables()
    users = Users(model=model, **options)
    by_name = named_rankers(ranker, rankers)
    counts = np.asarray(impressions)
    if counts.ndim == 0:
        counts = np.full(data.n_queries, check.integer("impressions", impressions, least=1))
    if counts.shape != (data.n_queries,) or counts.dtype.kind not in "iu" or counts.min() < 0 or not counts.any():
        what = "impressions must be a whole number, or one of at least 0 for each query"
        raise check.error(what, got=f"shape {counts.shape} of {counts.dtype} for {data.n_queries} queries")

    # A log is sorted by the ids of queries and documents.
    query_ids = np.arange(data.n_queries) if data.query_ids is None else np.asarray(data.query_ids)
    document_ids = np.arange(data.n_docs) if data.document_ids is None else np.asarray(data.document_ids)
    query_order = np.argsort(query_ids, kind="stable")
    query_of_row = np.repeat(np.argsort(query_order), data.sizes)
    row_order = np.lexsort((document_ids, query_of_row))
    place = np.argsort(row_order)
    query_of_row, document_ids = query_of_row[row_order], document_ids[row_order]
    repeated = (query_of_row[1:] == query_of_row[:-1]) & (document_ids[1:] == document_ids[:-1])
    if repeated.any():
        n = int(np.argmax(repeated))
        where = check.query_of_row(int(row_order[n + 1]), data.offsets, data.query_ids)
        what, hint = "a document may be in a list once", "leave out one, or give them different ids"
        raise check.error(what, got=f"document {document_ids[n].item()!r} twice", where=where, hint=hint)

    order: Keywords = {"counts": counts.astype(np.int64), "order": query_order}
    lists = show(data, users, by_name, cutoff=cutoff, temperature=temperature, seed=seed, **order)
    shown = np.bincount(place[lists.pairs], minlength=data.n_docs) > 0
    sizes = np.bincount(query_of_row[shown])
    keys: dict[str, Column] = {
        "pair": (np.cumsum(shown, dtype=np.int32) - 1)[place][lists.pairs],
        "position": lists.positions,
        "ranker": np.repeat(lists.rankers, np.diff(lists.offsets)),
    }
    sums = {
        "impressions": pl.len().cast(pl.Float64),
        "clicks": pl.col("clicked").sum().cast(pl.Float64),
        "probability": pl.col("probability").cast(pl.Float64).mean(),
    }
    rows = pl.DataFrame(keys | {"clicked": lists.clicked, "probability": lists.probabilities}).lazy()
    cells = rows.group_by(*keys).agg(**sums).sort(*keys).collect().cast(dict.fromkeys(keys, pl.Int64))
    cell = {name: read_only(cells[name].to_numpy()) for name in cells.columns}
    random = temperature is not None or any(one is None for one in by_name.values())
    chances = lists.probabilities if random else None
    return Log(
        query_ids=read_only(query_ids[query_order][: sizes.size][sizes > 0]),
        offsets=read_only(offsets_of(sizes[sizes > 0])),
        document_ids=read_only(document_ids[shown]),
        pairs=cell["pair"],
        positions=cell["position"],
        rankers=cell["ranker"],
        segments=read_only(np.zeros(len(cells), np.int64)),
        impressions=cell["impressions"],
        clicks=cell["clicks"],
        probabilities=cell["probability"] if random else None,
        ranker_names=tuple(sorted(by_name)),
        sessions=replace(lists, pairs=read_only(keys["pair"]), probabilities=chances) if sessions else None,
    )
