"""Simulate users who click, on lists shown at random or by a ranker: ranking data with a query for each list."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, check, moved
from rankwise.base.arrays import offsets_of
from rankwise.check.docstrings import plain_signature
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.data import columns
from rankwise.data.arguments import NamedColumns
from rankwise.wings.clicks.models.users import Shown, UserOptions, Users, named_rankers, show


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
