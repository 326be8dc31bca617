"""Simulate a click log: many impressions of the queries of a data set, without copies of its features."""

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import check, threads
from rankwise.arrays import Array, Column, Ids, offsets_of, read_only
from rankwise.clicks.log import Log, Sessions
from rankwise.data.dataset import RankingDataset
from rankwise.data.users import CLICK_PROBABILITIES, Impressions, Shown, Trust, named_rankers, show
from rankwise.data.users import Users as Users


def simulate(
    data: RankingDataset,
    *,
    model: str = "position",
    probabilities: Sequence[float] = CLICK_PROBABILITIES,
    impressions: int | ArrayLike = 10,
    ranker: Shown = None,
    rankers: Mapping[str, Shown] | None = None,
    drawn: float | None = None,
    cutoff: int | None = None,
    eta: float = 1.0,
    curve: Sequence[float] | Array | None = None,
    trust: Trust | None = None,
    satisfaction: Sequence[float] | None = None,
    continuation: float | None = None,
    sessions: bool = True,
    seed: int = 0,
) -> Log:
    """Show each list ``impressions`` times (or so many times for each query) and return the log.

    Users and rankings are those of :func:`rankwise.simulate_clicks`, by the same arguments and random numbers; but
    every impression is kept, and a list that was shown is in the log to its end, since a log does not know where a
    user stopped to read. The truth about these users is in :class:`Users`. Where rankings are random (``drawn``, or a
    ranker that is None), ``log.probabilities`` are those of the document at its position, given the documents above it
    and the ranker. ``sessions=False`` leaves out the impressions one by one.

    Queries and documents without ids are numbered from 0, documents over the whole data set.

    >>> import rankwise as rw
    >>> data = rw.synthetic(n_queries=100, n_docs=20, seed=1)
    >>> rankers = {"old": data.features[:, 0], "new": data.features[:, 1]}
    >>> log = simulate(data, rankers=rankers, curve=[1.0, 0.6, 0.4, 0.3, 0.2], impressions=1000, seed=1)
    >>> log
    Log(100,000 impressions, 100 queries, 751 pairs, 2 rankers, positions 1 to 5, 0.1296 clicks a document)
    """
    users = Users(
        model=model,
        probabilities=probabilities,
        eta=eta,
        curve=curve,
        trust=trust,
        satisfaction=satisfaction,
        continuation=continuation,
    )
    by_name = named_rankers(ranker, rankers)
    random = drawn is not None or any(one is None for one in by_name.values())
    query_order, pair_of_row, query_ids, document_ids = _sorted(data)
    counts = _counts(impressions, data.n_queries)
    first = np.empty(data.n_queries, np.int64)
    first[query_order] = offsets_of(counts[query_order])[:-1]
    lists = show(
        data,
        users,
        list(by_name.values()),
        counts=counts,
        cutoff=cutoff,
        drawn=drawn,
        seed=seed,
        first=first,
        probabilities=random,
    )
    offsets = offsets_of(data.sizes[query_order])
    return _log(lists, offsets, pair_of_row, query_ids, document_ids, tuple(by_name), sessions=sessions)


def _counts(impressions: int | ArrayLike, n_queries: int) -> NDArray[np.int64]:
    if np.ndim(impressions) == 0:
        return np.full(n_queries, check.integer("impressions", impressions, least=1))
    counts = np.asarray(impressions)
    if counts.shape != (n_queries,) or counts.dtype.kind not in "iu" or counts.min(initial=0) < 0 or not counts.any():
        what = "impressions must be a whole number, or one of at least 0 for each query"
        raise check.error(what, got=f"shape {counts.shape} of {counts.dtype} for {n_queries} queries")
    return counts.astype(np.int64)


def _sorted(data: RankingDataset) -> tuple[NDArray[np.int64], NDArray[np.int32], Ids, Ids]:
    """Return the queries in order of their ids, the place of each row in such an order, and the ids in that order."""
    query_ids = np.arange(data.n_queries) if data.query_ids is None else np.asarray(data.query_ids)
    document_ids = np.arange(data.n_docs) if data.document_ids is None else np.asarray(data.document_ids)
    query_order: NDArray[np.int64] = np.argsort(query_ids, kind="stable")
    rank = np.empty(data.n_queries, np.int64)
    rank[query_order] = np.arange(data.n_queries)
    query_of_row = np.repeat(rank, data.sizes)
    rows = np.lexsort((document_ids, query_of_row))
    query_of_row, document_ids = query_of_row[rows], document_ids[rows]
    repeated = (query_of_row[1:] == query_of_row[:-1]) & (document_ids[1:] == document_ids[:-1])
    if repeated.any():
        row = int(rows[1:][repeated][0])
        where = check.query_of_row(row, data.offsets, data.query_ids)
        what, hint = "a document may be in a list once", "leave out one, or give them different ids"
        raise check.error(
            what, got=f"document {document_ids[1:][repeated].tolist()[0]!r} twice", where=where, hint=hint
        )
    pair_of_row = np.empty(data.n_docs, np.int32)
    pair_of_row[rows] = np.arange(data.n_docs)
    return query_order, pair_of_row, query_ids[query_order], document_ids


def _log(
    lists: Impressions,
    offsets: NDArray[np.int64],
    pair_of_row: NDArray[np.int32],
    query_ids: Ids,
    document_ids: Ids,
    names: tuple[str, ...],
    *,
    sessions: bool,
) -> Log:
    """Return the log of impressions whose queries are sorted; pairs that were never shown are left out."""
    threads.check_tables()
    shown = np.zeros(pair_of_row.size, np.bool_)
    shown[pair_of_row[lists.rows]] = True
    sizes = np.add.reduceat(shown, offsets[:-1], dtype=np.int64)
    starts = offsets_of(lists.lengths)
    rows: dict[str, Column] = {
        "pair": (np.cumsum(shown, dtype=np.int32) - 1)[pair_of_row][lists.rows],
        "position": (np.arange(1, starts[-1] + 1) - np.repeat(starts[:-1], lists.lengths)).astype(np.int16),
        "ranker": np.repeat(lists.rankers, lists.lengths),
    }
    sums = {"impressions": pl.len().cast(pl.Float64), "clicks": pl.col("clicked").sum().cast(pl.Float64)}
    values: dict[str, Column] = {"clicked": lists.clicked}
    if drawn := lists.probabilities.size > 0:
        values["probability"] = lists.probabilities
        sums["probability"] = pl.col("probability").cast(pl.Float64).mean()
    cells = pl.DataFrame(rows | values).lazy().group_by(*rows).agg(**sums).sort(*rows).collect()
    codes = {name: cells[name].cast(pl.Int64).to_numpy() for name in rows}
    return Log(
        query_ids=read_only(query_ids[sizes > 0]),
        offsets=read_only(offsets_of(sizes[sizes > 0])),
        document_ids=read_only(document_ids[shown]),
        pairs=read_only(codes["pair"]),
        positions=read_only(codes["position"]),
        rankers=read_only(codes["ranker"]),
        segments=read_only(np.zeros(len(cells), np.int64)),
        impressions=read_only(cells["impressions"].to_numpy()),
        clicks=read_only(cells["clicks"].to_numpy()),
        probabilities=read_only(cells["probability"].to_numpy()) if drawn else None,
        ranker_names=names,
        sessions=Sessions(
            offsets=read_only(starts),
            pairs=read_only(rows["pair"]),
            positions=read_only(rows["position"]),
            clicked=read_only(lists.clicked),
            rankers=read_only(lists.rankers),
            segments=read_only(np.zeros(lists.lengths.size, np.int16)),
            weights=read_only(np.ones(lists.lengths.size)),
            probabilities=read_only(lists.probabilities) if drawn else None,
        )
        if sessions
        else None,
    )
