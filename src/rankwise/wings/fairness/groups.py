"""How exposure is shared among groups of documents, and how far that is from what they deserve."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from rankwise import Evaluation, RankingDataset
from rankwise.base import tables
from rankwise.base.arrays import Array, Json
from rankwise.statistics import Result
from rankwise.wings.fairness.exposure import MERITS, GroupShares, group_shares

if TYPE_CHECKING:
    import polars as pl

_TITLES = {"equal": "equal exposure", "proportional": "exposure in proportion to merit"}


@dataclass(frozen=True, eq=False, repr=False)
class GroupExposure(Result):
    """The shares of each group, and the disparity between groups; ``exposure.py`` has the definitions.

    Intervals resample queries, as those of metrics do.
    """

    names: tuple[str, ...]
    shares: Evaluation
    """``"documents of a"``, ``"exposure of a"`` and ``"merit of a"``: the group's share in each list, 0 where it has
    no documents. Lists without relevant documents have no merit."""
    disparity: Evaluation | None
    """``"equal"`` and ``"proportional"``: the disparity of each list, where two groups have merit in some list.

    Draws make no bias in it, so that the disparity of a list that is fair may come out a little below 0."""

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per query: its id, its weight, and each group's share in documents, exposure and merit."""
        return self.shares.to_frame()

    def to_dict(self) -> Json:
        """Return the tables as JSON-serializable data."""
        means = self.shares.to_dict()["metrics"]
        measures = ("documents", "exposure", "merit")
        shares = {
            name: {one: means[f"{one} of {name}"] for one in measures if f"{one} of {name}" in means}
            for name in self.names
        }
        return {"groups": shares, "disparity": {} if self.disparity is None else self.disparity.to_dict()["metrics"]}

    def tables(self) -> list[tables.Table]:
        """Return tables of the shares of groups, and of the disparity between them."""
        mean = self.shares.mean
        rows = []
        for name in self.names:
            documents, exposure = (tables.number(mean[f"{what} of {name}"]) for what in ("documents", "exposure"))
            interval = tables.interval(*self.shares.interval[f"exposure of {name}"])
            rows.append((name, documents, exposure, interval, tables.number(mean.get(f"merit of {name}", np.nan))))
        header = ("group", "documents", "exposure", f"{100 * self.shares.level:g}% interval", "merit")
        notes = "Shares of a list's documents, exposure and merit (its gains), means over queries."
        shares = tables.Table(header=header, rows=tuple(rows), align="lrrlr", notes=(notes,))
        if self.disparity is None:
            return [shares]
        note = "Variance between groups of exposure over merit, which is 1 on average: 0 is fair."
        table = self.disparity.table(titles=[_TITLES[name] for name in self.disparity.metrics])
        return [shares, replace(table, header=("disparity", *table.header[1:]), notes=(note,))]


class Moments:
    """Mean and standard error of numbers that come one draw at a time.

    Sums are of differences from the first draw: what is the same in every draw has an error of exactly 0.
    """

    def __init__(self, size: int) -> None:
        self.count, self.first = 0, np.zeros(size)
        self.sum, self.squares = np.zeros(size), np.zeros(size)

    def add(self, values: Array) -> None:
        """Add the numbers of one more draw."""
        if not self.count:
            self.first = values
        self.count += 1
        difference = values - self.first
        self.sum += difference
        self.squares += difference**2

    def mean(self) -> Array:
        """The mean over draws."""
        return self.first + self.sum / self.count

    def error(self) -> Array:
        """The standard error of the mean."""
        spread = np.maximum(self.squares - self.sum**2 / self.count, 0.0) / (self.count - 1)
        return np.sqrt(spread / self.count)


class GroupMoments:
    """What draws of rankings say about the groups of data that have them."""

    def __init__(self, data: RankingDataset) -> None:
        self.data = data
        self.shares: dict[str, GroupShares] = {}
        if data.groups is not None:
            self.shares = {merit: group_shares(data.groups, data.labels, data.offsets, merit) for merit in MERITS}
        self.moments = {merit: Moments(shares.queries.size) for merit, shares in self.shares.items()}

    def add(self, exposure: Array) -> None:
        """Add the exposure of every document in one more ranking."""
        for merit, shares in self.shares.items():
            self.moments[merit].add(shares.deviations(exposure))

    def finish(self, exposure: Array, settings: Json) -> GroupExposure | None:
        """Return shares and disparity at the expected exposure of every document; None for data without groups."""
        if not self.shares:
            return None
        ids = np.arange(self.data.n_queries) if self.data.query_ids is None else self.data.query_ids
        equal = self.shares["equal"]
        names = tuple(map(str, equal.names.tolist()))
        columns: dict[str, Array] = {}
        of_cells = {"documents": equal.merit, "exposure": equal.share(exposure)}
        of_cells["merit"] = self.shares["proportional"].merit
        for what, values in of_cells.items():
            matrix = np.zeros((self.data.n_queries, len(names)))
            matrix[equal.queries, equal.groups] = values
            if what == "merit":
                matrix[~(matrix.sum(1) > 0.0)] = np.nan  # nothing there is relevant
            columns |= {f"{what} of {name}": matrix[:, place] for place, name in enumerate(names)}
        disparity = {
            # The square of an estimate is too large by its variance, on average.
            merit: self.shares[merit].disparity(moments.mean() ** 2 - moments.error() ** 2)
            for merit, moments in self.moments.items()
        }

        def evaluation(values: dict[str, Array]) -> Evaluation | None:
            counts = np.ones(ids.size) if self.data.weights is None else self.data.weights
            scored = {name: column for name, column in values.items() if not np.isnan(column[counts > 0.0]).all()}
            return Evaluation(scored, ids, self.data.weights, **settings) if scored else None

        shared = evaluation(columns)
        return None if shared is None else GroupExposure(names, shared, evaluation(disparity))
