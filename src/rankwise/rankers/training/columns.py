"""What an objective is told about single documents while it trains."""

from rankwise import check
from rankwise.arrays import Column
from rankwise.data.dataset import RankingDataset
from rankwise.objectives.base import Objective


def of_documents(data: RankingDataset, objective: Objective, *, debias: bool) -> dict[str, Column]:
    """Give the columns of the data that it reads, and weights, which ``debias`` divides by propensities."""
    found: dict[str, Column] = {name: column for name in objective.reads if (column := getattr(data, name)) is not None}
    weights = data.document_weights
    if debias:
        if data.propensities is None:
            raise no_propensities("data without propensities")
        weights = (1.0 if weights is None else weights) / data.propensities
    return found if weights is None else {"document_weights": weights, **found}


def no_propensities(got: object) -> ValueError:
    """Say what weighing by propensities needs."""
    hint = "use click data that has them, as 'rankwise data clicks --model position' makes (rw.simulate_clicks)"
    return check.error("debias needs propensities and an objective that weighs documents", got=got, hint=hint)
