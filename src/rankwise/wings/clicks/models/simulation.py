"""Simulated click logs: added up (:func:`simulate`), or as ranking data with a query for each impression.

Both show the same lists to the same users, with the same random numbers.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Annotated, Unpack

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check, moved
from rankwise.base import threads
from rankwise.base.arrays import Column, Keywords, offsets_of, read_only
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.data import columns
from rankwise.data.arguments import NamedColumns
from rankwise.wings.clicks.logs.log import Log
from rankwise.wings.clicks.models.users import Shown, UserOptions, Users, named_rankers, show


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


@dataclass(frozen=True, eq=False, repr=False, init=False)
class ClickLog(RankingDataset):
    """Impressions as ranking data, and the number of impressions without a click that were left out.

    Query "Q" shown for the third time is the query "Q#3". Its documents are in the order of display, their
    labels are 1 where clicked and else 0, and ``positions`` counts from 1.
    """

    dropped: int = field(default=0, kw_only=True)
    """Impressions that ended without a click and were dropped when the log was made."""

    def __init__(
        self,
        features: ArrayLike,
        labels: ArrayLike,
        offsets: ArrayLike,
        *,
        dropped: int = 0,
        **optional: Unpack[NamedColumns],
    ) -> None:
        super().__init__(features, labels, offsets, **optional)
        self._set("dropped", dropped)

    def __repr__(self) -> str:
        dropped = f"{self.dropped:,} impression{'' if self.dropped == 1 else 's'} dropped"
        return f"ClickLog{super().__repr__().removeprefix('RankingDataset')[:-1]}, {dropped})"


@moved.renamed("rw.clicks.simulate_clicks")
@plain_signature
def simulate_clicks(
    data: RankingDataset,
    *,
    model: Annotated[
        str,
        "cascade reads down to the first click; position sees rank r with probability 1/r^eta.",
        Option("click-model", metavar="cascade|position"),
    ] = "cascade",
    impressions: Annotated[int, AtLeast(1), "How often each list is shown."] = 10,
    ranker: Shown = None,
    rankers: Mapping[str, Shown] | None = None,
    temperature: float | None = None,
    cutoff: Annotated[
        int | None, AtLeast(1), "Number of documents of a list that are shown.", Unset("all"), Option(metavar="K")
    ] = None,
    keep_empty: Annotated[bool, "Whether impressions without a click are kept."] = False,
    seed: Annotated[int, AtLeast(0), "Seed of every draw.", Option(group="Running")] = 0,
    **options: Unpack[UserOptions],
) -> ClickLog:
    """Show each list ``impressions`` times and return what was seen and clicked, each impression as a query of its own.

    ``model="cascade"`` is the persistent user of Bruch (2021, section 5.5): reads from the top, clicks a document of
    grade g with ``probabilities[g]``, and stops at the first click; the impression is the list up to it.
    ``model="position"`` examines rank r with probability (1/r)^eta, or ``curve[r − 1]``, whatever else happens, and
    clicks what is examined and attractive; the impression is the whole list, no longer than the curve, and the
    examination probabilities are its ``propensities``. With ``trust=(ε⁺, ε⁻)``, numbers or one for each rank, an
    examined document is clicked with probability ε⁺ where it is attractive and ε⁻ where it is not.
    ``model="dbn"`` (Chapelle & Zhang 2009) reads from the top, is satisfied by a clicked document of grade g with
    ``satisfaction[g]`` and leaves, and otherwise goes on with probability ``continuation``; the impression is the whole
    list. Defaults are .2, .3, .5, .7, .9 and .9.

    ``ranker`` decides the order: None shuffles every time; scores, or a model with ``predict(data)`` (one of another
    library through :func:`wrap`), sort it, equal scores in random order, documents with score −inf not shown.
    ``rankers``, by name, share the traffic evenly and at random. With a ``temperature`` every ranking is drawn from the
    Plackett-Luce distribution of the scores divided by it. Only the first ``cutoff`` documents are shown. An impression
    without a click teaches nothing to most losses and is dropped, and counted in ``.dropped``, unless ``keep_empty``.
    Data with fewer grades uses the first probabilities. Weights and document ids are carried over.

    For a log that adds up impressions of the same query, and for many of them, see ``rw.clicks.simulate``.

    >>> data = RankingDataset([[1.0], [2.0], [3.0]], [0, 4, 0], [0, 3], query_ids=["Q"])
    >>> log = simulate_clicks(data, probabilities=(0, 0, 0, 0, 1), ranker=[3.0, 2.0, 1.0], impressions=2)
    >>> log.query_ids, log.labels, log.positions
    (array(['Q#1', 'Q#2'], dtype='<U3'), array([0., 1., 0., 1.]), array([1, 2, 1, 2]))
    >>> simulate_clicks(data, probabilities=(0, 0, 0, 0, 0.5), seed=2)
    ClickLog(4 queries, 6 documents, 1 feature, labels 0 to 1, 6 impressions dropped)
    """
    users = Users(model=model, **options)
    counts = np.full(data.n_queries, check.integer("impressions", impressions, least=1))
    lists = show(
        data, users, named_rankers(ranker, rankers), counts=counts, cutoff=cutoff, temperature=temperature, seed=seed
    )
    if not (keep_empty or lists.clicked.any()):
        raise check.error(
            "no impression got a click",
            got=f"{lists.n_impressions} impressions",
            hint="raise the click probabilities or the number of impressions, or `keep_empty=True`",
        )
    clicks = np.add.reduceat(lists.clicked, lists.offsets[:-1], dtype=np.int64)
    remaining = (clicks > 0) | keep_empty
    in_log = np.repeat(remaining, np.diff(lists.offsets))
    if model == "cascade":
        above: NDArray[np.int64] = np.cumsum(lists.clicked) - lists.clicked  # those of lists before included
        in_log &= above == np.repeat(offsets_of(clicks)[:-1], np.diff(lists.offsets))
    rows, positions = lists.pairs[in_log].astype(np.int64), lists.positions[in_log].astype(np.int64)
    query = np.repeat(np.arange(data.n_queries), counts)[remaining]
    number = np.tile(np.arange(1, impressions + 1), data.n_queries)[remaining]
    names = np.arange(data.n_queries) if data.query_ids is None else data.query_ids
    shown = zip(names[query].tolist(), number.tolist(), strict=True)
    made_here = ("labels", "query_ids", "propensities", "positions", "judged", "rows")
    return ClickLog(
        data.features[rows],
        lists.clicked[in_log].astype(np.float64),
        offsets_of(np.add.reduceat(in_log, lists.offsets[:-1], dtype=np.int64)[remaining]),
        query_ids=np.array([f"{name}#{count}" for name, count in shown]),
        feature_names=data.feature_names,
        categorical=data.categorical,
        categories=data.categories,
        propensities=users.examination(int(positions.max()))[positions - 1] if model == "position" else None,
        positions=positions,
        dropped=int(clicks.size - remaining.sum()),
        **columns.take(data, rows, query, leave_out=made_here),
    )
