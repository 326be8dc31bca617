"""What all click models share: how attractive each document is, and how users read, from the clicks of a log."""

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
import polars as pl
from scipy.special import xlog1py, xlogy

from rankwise import check
from rankwise.base.arrays import Array, Column, Keywords, Offsets
from rankwise.base.tables import Table, count, number, spans
from rankwise.statistics import Result
from rankwise.wings.clicks.logs.log import Log, named_pairs
from rankwise.wings.clicks.logs.sessions import Sessions


class Estimation(NamedTuple):
    """How to estimate a click model."""

    added: tuple[Array, Array]
    """The clicks and the skips that the prior adds to each pair."""
    means: bool
    """Whether the prior has a mean for each pair, which tells positions apart where the log does not."""
    iterations: int
    tolerance: float


Estimate = tuple[Keywords, float, tuple[str, ...]]
"""Fields of a click model, their change in the last iteration, and notes."""


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ClickModel(Result):
    """The parameters of a click model; NaN where the log has nothing to estimate them from."""

    model: ClassVar[str]
    title: ClassVar[str]
    curve: ClassVar[str] = "examination"

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

    def __setstate__(self, state: Keywords) -> None:
        """Restore what was pickled; older versions had one class, with the name of the model in ``model``."""
        from rankwise.wings.clicks.models.click_models import MODELS

        if "model" in state:
            object.__setattr__(self, "__class__", MODELS[state["model"]])
        vars(self).update({name: value for name, value in state.items() if name != "model"})

    @classmethod
    @abstractmethod
    def estimate(cls, log: Log, how: Estimation) -> Estimate:
        """Return the parameters by name, their last change, and notes."""

    @abstractmethod
    def _chances(self, log: Log, lists: Sessions | Log) -> Array:
        """Return the probability of a click on each row, given the clicks above it."""

    @classmethod
    def _sessions_of(cls, log: Log) -> Sessions:
        return log.one_by_one(f"a {cls.title} needs the", "keep the sessions of the log, or estimate a PBM")

    def _columns(self) -> dict[str, Array]:
        return {self.curve: getattr(self, self.curve)}

    def table(self) -> Table:
        """Return how users read, by position; the parameters of pairs are in :meth:`to_frame`."""
        columns = self._columns()
        cells = zip(*columns.values(), strict=True)
        rows = tuple((str(k), *map(number, row)) for k, row in enumerate(cells, 1))
        align = "r" * (1 + len(columns))
        return Table(header=("position", *columns), rows=rows, align=align, notes=self.notes, title=self.sentence)

    @property
    def sentence(self) -> str:
        """The model, its number of pairs and their mean attractiveness."""
        pairs, mean = count(self.attractiveness.size, "pair"), _mean(self.attractiveness, self.impressions)
        return f"{self.title}: {pairs}, attractiveness {number(mean)} on average"

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
        return float(self._sessions_of(log).weights @ self.session_log_likelihoods(log))

    def session_log_likelihoods(self, log: Log) -> Array:
        """Return the logarithm of the probability of each impression's clicks."""
        lists = self._sessions_of(log)
        chances = self._chances(log, lists)
        terms = xlogy(lists.clicked, chances) + xlog1py(~lists.clicked, -chances)  # 0 · log 0 = 0
        return np.add.reduceat(terms, lists.offsets[:-1])

    def _of_pairs(self, log: Log, estimates: Array) -> Array:
        """Return attractiveness or satisfaction of the pairs of a log; the mean where there is no estimate."""
        pairs, estimated = (
            named_pairs(part.query_ids, part.offsets, part.document_ids).with_row_index("pair") for part in (log, self)
        )
        joined = pairs.join(estimated, on=["query", "document"], how="left", maintain_order="left")
        values = np.append(estimates, np.nan)[joined["pair_right"].cast(pl.Int64).fill_null(-1).to_numpy()]
        return np.where(np.isnan(values), _mean(estimates, self.impressions), values)

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
