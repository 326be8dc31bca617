"""Columns of documents that an objective reads while it trains."""

from rankwise import check
from rankwise.arrays import Column
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective


def of_documents(data: RankingDataset, objective: Objective, *, debias: bool) -> dict[str, Column]:
    """Return the columns that the objective reads, and weights, which ``debias`` divides by propensities."""
    columns: dict[str, Column] = {
        name: column for name in objective.reads if (column := getattr(data, name)) is not None
    }
    weights = data.document_weights
    if debias:
        if data.propensities is None:
            raise no_propensities("data without propensities")
        weights = (1.0 if weights is None else weights) / data.propensities
    return columns if weights is None else {"document_weights": weights, **columns}


def no_propensities(got: object) -> ValueError:
    """Return the error of ``debias`` without propensities."""
    hint = "use click data that has them, as 'rankwise data clicks --model position' makes (rw.simulate_clicks)"
    return check.error("debias needs propensities and an objective that weighs documents", got=got, hint=hint)
