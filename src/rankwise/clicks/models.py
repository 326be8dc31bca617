"""Click models: how attractive each document is, and how users read, from the clicks of a log."""

from dataclasses import dataclass

import numpy as np
import polars as pl
from scipy.special import xlog1py, xlogy

from rankwise import check, threads
from rankwise.arrays import Array, Column, Offsets, read_only
from rankwise.clicks import models_cpu
from rankwise.clicks.log import Log, Sessions
from rankwise.statistics.tables import Table, count, number

NAMES = {
    "pbm": "position-based model",
    "ubm": "user browsing model",
    "dbn": "dynamic Bayesian network",
    "sdbn": "simplified dynamic Bayesian network",
    "dcm": "dependent click model",
}
_COLUMNS = 10  # of a printed table


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClickModel:
    """The parameters of a click model; NaN where the log has nothing to estimate them from."""

    model: str
    query_ids: Column
    offsets: Offsets
    """Where the pairs of each query begin, as in the log."""
    document_ids: Column
    attractiveness: Array
    """Of each pair: the probability of a click on the document once it is examined."""
    impressions: Array
    """Of each pair."""
    examination: Array | None = None
    """PBM: by position. UBM: by position and by the position of the last click above (0: none). The first one is 1."""
    satisfaction: Array | None = None
    """DBN and SDBN: the probability that the user leaves after a click, of each pair."""
    continuation: Array | None = None
    """DBN and SDBN: the probability to go on, for users who are not satisfied. DCM: to go on after a click, by
    position."""
    mean: tuple[float, float] = (0.0, 0.0)
    """Attractiveness and satisfaction over all pairs, for those that the model has not seen."""
    iterations: int = 0
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        """Write the parameters of reading as a table; those of pairs are in :meth:`to_frame`."""
        lines = [f"{NAMES[self.model]}: {count(self.attractiveness.size, 'pair')}, attractiveness {self._mean(0)}"]
        if self.satisfaction is not None:
            lines[0] += f", satisfaction {self._mean(1)}"
        if self.iterations:
            lines[0] += f", {count(self.iterations, 'iteration')}"
        columns: dict[str, Array] = {}
        if self.model == "pbm":
            columns = {"examination": self.examination}  # type: ignore[dict-item]
        elif self.model == "ubm":
            table = self.examination[:, :_COLUMNS]  # type: ignore[index]
            columns = {f"after {k}" if k else "no click": column for k, column in enumerate(table.T)}
        elif self.model == "dcm":
            columns = {"continuation": self.continuation}  # type: ignore[dict-item]
        else:
            lines.append(f"continuation {self.continuation[0]:.4f}")  # type: ignore[index]
        if columns:
            cells = zip(*columns.values(), strict=True)
            rows = tuple((str(k), *map(number, row)) for k, row in enumerate(cells, 1))
            table_of_positions = Table(header=("position", *columns), rows=rows, align="r" * (1 + len(columns)))
            lines.append(table_of_positions.text())
        return "\n".join((*lines, *self.notes))

    def _mean(self, which: int) -> str:
        return f"{number(self.mean[which])} on average"

    def to_frame(self) -> pl.DataFrame:
        """One row per pair: query, document, attractiveness, satisfaction where the model has it, impressions."""
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

    def click_probabilities(self, log: Log, *, given_clicks: bool = False) -> Array:
        """Return the probability of a click on each row of ``log.sessions``, given the clicks above it or not.

        Pairs that the model has not seen have the mean attractiveness.
        """
        sessions = sessions_of(log, self.model)
        attractiveness, satisfaction = self._of_pairs(log)
        rows = sessions.pairs, sessions.positions, sessions.clicked, given_clicks, attractiveness
        chances = np.empty(sessions.pairs.size)
        if self.examination is not None:
            table = self._table(log.n_positions)
            threads.over_queries(models_cpu.predict_by_context, sessions.offsets, *rows, table, chances)
        else:
            onward, continuation = self._onward(log.n_positions)
            chain = satisfaction, onward, continuation, chances
            threads.over_queries(models_cpu.predict_by_chain, sessions.offsets, *rows, *chain)
        return chances

    def session_log_likelihoods(self, log: Log) -> Array:
        """Return the logarithm of the probability of each impression's clicks."""
        chances = self.click_probabilities(log, given_clicks=True)
        sessions = sessions_of(log, self.model)
        values = np.empty(sessions.n_impressions)
        threads.over_queries(models_cpu.log_likelihoods, sessions.offsets, sessions.clicked, chances, values)
        return values

    def log_likelihood(self, log: Log) -> float:
        """Return the log-likelihood of all clicks of a log, which for a PBM needs no sessions.

        It is −∞ where a document is clicked that is never clicked in the log of the model: use a ``prior``.
        """
        if self.model != "pbm":
            return float(sessions_of(log, self.model).weights @ self.session_log_likelihoods(log))
        chances = self._table(log.n_positions)[log.positions - 1, 0] * self._of_pairs(log)[0][log.pairs]
        terms = xlogy(log.clicks, chances) + xlog1py(log.impressions - log.clicks, -chances)  # 0 · log 0 = 0
        return float(terms.sum())

    def _of_pairs(self, log: Log) -> tuple[Array, Array]:
        """Return attractiveness and satisfaction of the pairs of a log."""
        both = (
            self.attractiveness,
            self.satisfaction if self.satisfaction is not None else np.zeros(self.impressions.size),
        )
        if log.document_ids is not self.document_ids or log.query_ids is not self.query_ids:
            pairs = [
                pl.DataFrame(
                    {
                        "query": np.repeat(part.query_ids.astype(str), np.diff(part.offsets)),
                        "document": part.document_ids.astype(str),
                    }
                ).with_row_index("pair")
                for part in (self, log)
            ]
            joined = pairs[1].join(pairs[0], on=["query", "document"], how="left", maintain_order="left")["pair_right"]
            places = joined.fill_null(self.impressions.size).to_numpy()
            both = np.append(both[0], np.nan)[places], np.append(both[1], np.nan)[places]
        means = self.mean if self.satisfaction is not None else (self.mean[0], 0.0)
        return tuple(read_only(np.where(np.isnan(a), mean, a)) for a, mean in zip(both, means, strict=True))  # type: ignore[return-value]

    def _table(self, depth: int) -> Array:
        """Return examination by position and last click; contexts that were not seen are as without a click above."""
        table: Array = self.examination  # type: ignore[assignment]
        self._reaches(depth, table.shape[0])
        if table.ndim == 1:
            return np.repeat(table[:, None], table.size, axis=1)
        return np.where(np.isnan(table), table[:, :1], table)

    def _onward(self, depth: int) -> tuple[Array, float]:
        """Return the probabilities to go on after a click by position, and after none."""
        rates: Array = self.continuation  # type: ignore[assignment]
        if self.model != "dcm":
            return np.full(depth, rates[0]), float(rates[0])
        self._reaches(depth, rates.size)
        return np.where(np.isnan(rates), 1.0 - self.mean[1], rates), 1.0

    @staticmethod
    def _reaches(depth: int, last: int) -> None:
        if depth > last:
            what = f"the click model knows positions 1 to {last}"
            raise check.error(what, got=f"position {depth}", hint="keep its positions only, with log.only(positions=…)")


def sessions_of(log: Log, model: str) -> Sessions:
    """Return the impressions one by one; raise if the log has none."""
    if log.sessions is None:
        raise check.error(
            f"a {NAMES[model]} needs the impressions one by one",
            got="a log without sessions",
            hint='read or simulate the log with sessions=True, or use model="pbm"',
        )
    return log.sessions
