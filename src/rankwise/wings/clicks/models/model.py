"""Click models: how attractive each document is, and how users read, from the clicks of a log."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import xlog1py, xlogy

from rankwise import check
from rankwise.base import threads
from rankwise.base.arrays import Array, Column, Offsets
from rankwise.base.compiling import kernel
from rankwise.base.tables import Table, count, number, spans
from rankwise.statistics import Result
from rankwise.wings.clicks.logs.log import Log, Sessions, named_pairs

NAMES = {
    "pbm": "position-based model",
    "ubm": "user browsing model",
    "dbn": "dynamic Bayesian network",
    "sdbn": "simplified dynamic Bayesian network",
    "dcm": "dependent click model",
}


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClickModel(Result):
    """The parameters of a click model; NaN where the log has nothing to estimate them from."""

    model: str
    query_ids: Column
    offsets: Offsets
    """Where the pairs of each query begin, as in the log."""
    document_ids: Column
    impressions: Array
    """Of each pair."""
    attractiveness: Array
    """Of each pair: the probability of a click on the document once it is examined."""
    satisfaction: Array | None = None
    """DBN and SDBN: the probability that the user leaves after a click, of each pair."""
    examination: Array | None = None
    """PBM and UBM: by position, UBM also by the position of the last click above (0: none). The first one is 1."""
    continuation: Array | None = None
    """By position: the probability to go on, DBN and SDBN for users who are not satisfied, DCM after a click."""
    notes: tuple[str, ...] = ()

    def table(self) -> Table:
        """Return how users read, by position; the parameters of pairs are in :meth:`to_frame`."""
        if self.examination is None:
            columns = {"continuation": self.continuation}
        elif self.model == "pbm":
            columns = {"examination": self.examination}
        else:
            columns = {f"after {k}" if k else "no click": column for k, column in enumerate(self.examination.T)}
        cells = zip(*columns.values(), strict=True)
        rows = tuple((str(k), *map(number, row)) for k, row in enumerate(cells, 1))
        align = "r" * (1 + len(columns))
        return Table(header=("position", *columns), rows=rows, align=align, notes=self.notes, title=self.sentence)

    @property
    def sentence(self) -> str:
        """The model, its number of pairs and their mean attractiveness."""
        pairs, mean = count(self.attractiveness.size, "pair"), _mean(self.attractiveness, self.impressions)
        return f"{NAMES[self.model]}: {pairs}, attractiveness {number(mean)} on average"

    def to_frame(self) -> pl.DataFrame:
        """Return one row per pair: query, document, attractiveness, satisfaction if the model has it, impressions."""
        satisfaction = {} if self.satisfaction is None else {"satisfaction": self.satisfaction}
        return pl.DataFrame(
            {
                "query": np.repeat(self.query_ids, np.diff(self.offsets)),
                "document": self.document_ids,
                "attractiveness": self.attractiveness,
                **satisfaction,
                "impressions": self.impressions,
            }
        )

    def log_likelihood(self, log: Log) -> float:
        """Return the log-likelihood of all clicks of a log, which for a PBM needs no sessions.

        Pairs that the model has not seen have the mean attractiveness. It is −∞ where a document is clicked that is
        never clicked in the log of the model: use a ``prior``.
        """
        if self.model != "pbm":
            return float(sessions_of(log, self.model).weights @ self.session_log_likelihoods(log))
        chances = self._by_position(self.examination, log)[log.positions - 1] * self._of_pairs(log)[0][log.pairs]
        terms = xlogy(log.clicks, chances) + xlog1py(log.impressions - log.clicks, -chances)  # 0 · log 0 = 0
        return float(terms.sum())

    def session_log_likelihoods(self, log: Log) -> Array:
        """Return the logarithm of the probability of each impression's clicks."""
        lists = sessions_of(log, self.model)
        attractiveness, satisfaction = self._of_pairs(log)
        if self.examination is None:
            continuation = self._by_position(self.continuation, log)
            continuation = np.where(np.isnan(continuation), np.nanmean(continuation), continuation)
            rows = lists.pairs, lists.positions, lists.clicked
            chances = np.empty(lists.pairs.size)
            users = attractiveness, satisfaction, continuation, self.model == "dcm"
            threads.over_queries(_read_from_the_top, lists.offsets, *rows, *users, chances)
        else:
            table = self._by_position(self.examination, log)
            if self.model == "pbm":
                examined = table[lists.positions - 1]
            else:  # contexts that were not seen are as without a click above, else as the others of their position
                known = ~np.isnan(table)
                means = np.where(known, table, 0.0).sum(1) / np.maximum(known.sum(1), 1)
                table = np.where(known, table, np.where(known[:, 0], table[:, 0], means)[:, None])
                examined = table.ravel()[contexts_of(lists, len(table))]
            chances = examined * attractiveness[lists.pairs]
        terms = xlogy(lists.clicked, chances) + xlog1py(~lists.clicked, -chances)
        return np.add.reduceat(terms, lists.offsets[:-1])

    def _of_pairs(self, log: Log) -> tuple[Array, Array]:
        """Return attractiveness and satisfaction of the pairs of a log; the mean where there is no estimate."""
        pairs, estimated = (
            named_pairs(part.query_ids, part.offsets, part.document_ids).with_row_index("pair") for part in (log, self)
        )
        joined = pairs.join(estimated, on=["query", "document"], how="left", maintain_order="left")
        places = joined["pair_right"].cast(pl.Int64).fill_null(-1).to_numpy()

        def values_of(estimates: Array | None) -> Array:
            if estimates is None:
                return np.zeros(log.n_pairs)
            values = np.append(estimates, np.nan)[places]
            return np.where(np.isnan(values), _mean(estimates, self.impressions), values)

        return values_of(self.attractiveness), values_of(self.satisfaction)

    def _by_position(self, values: Array | None, log: Log) -> Array:
        if values is None or len(values) < log.n_positions:
            what = f"the click model knows positions 1 to {0 if values is None else len(values)}"
            raise check.error(what, got=f"position {log.n_positions}", hint="leave the positions below out")
        shown = np.unique(log.positions) - 1
        unknown = shown[np.isnan(values[shown].reshape(shown.size, -1)).all(1)]
        if unknown.size and values is self.examination:  # continuation is that of other positions
            what = "the click model was estimated without some positions of this log"
            raise check.error(
                what, got=f"position {spans(unknown + 1)}", hint="leave them out with log.only(positions=…)"
            )
        return values


def _mean(values: Array, weights: Array) -> float:
    present = ~np.isnan(values)
    return float(np.average(values[present], weights=weights[present])) if present.any() else 0.0


def sessions_of(log: Log, model: str) -> Sessions:
    """Return the impressions one by one; raise if the log has none."""
    return log.one_by_one(f"a {NAMES[model]} needs the", "keep the sessions of the log, or estimate a PBM")


def contexts_of(lists: Sessions, depth: int) -> Column:
    """Return the context of each row, (position − 1) · depth + position of the last click above it (0 without one)."""
    contexts = np.empty(lists.pairs.size, np.int64)
    threads.over_queries(_contexts, lists.offsets, lists.positions, lists.clicked, depth, contexts)
    return contexts


@kernel
def _contexts(first, last, offsets, positions, clicked, depth, out):  # type: ignore[no-untyped-def]
    for n in range(first, last):
        above = 0
        for row in range(offsets[n], offsets[n + 1]):
            out[row] = (positions[row] - 1) * depth + above
            if clicked[row]:
                above = positions[row]


@kernel
def _read_from_the_top(  # type: ignore[no-untyped-def]
    first, last, offsets, pairs, positions, clicked, attractiveness, satisfaction, continuation, dependent, out
):
    """Fill the probability of a click on each row, given the clicks above; a dependent click model ends at clicks."""
    for n in range(first, last):
        present = 1.0
        for row in range(offsets[n], offsets[n + 1]):
            attractive, onward = attractiveness[pairs[row]], continuation[positions[row] - 1]
            out[row] = present * attractive
            if clicked[row]:
                present = onward * (1.0 - satisfaction[pairs[row]])
            elif out[row] < 1.0:
                present *= (1.0 - attractive) / (1.0 - out[row])
                if not dependent:
                    present *= onward
