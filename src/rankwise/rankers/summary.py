"""Summary of a training: a table, or a document for JSON."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.base.tables import Table

if TYPE_CHECKING:
    from rankwise.data.dataset import RankingDataset

Parts = tuple["RankingDataset | None", "RankingDataset | None"]
"""Training data, which are None where workers of a cluster read them, and validation data."""


def described(model: Any, output: Path) -> Json:
    """Return the summary as a document; ``output`` is the folder of the model."""
    from rankwise.rankers.expressions import objective_of

    document = {"model": output, "ranker": model.name, "objective": objective_of(model)}
    if model.weighs:
        weights = model.weights_
        columns = zip(weights.names, weights.values, weights.alone, strict=True)
        return document | {
            "metrics": _values(model),
            "members": [{"member": name, "weight": weight, weights.metric: alone} for name, weight, alone in columns],
            "parameters": {"folds": model.folds, "repeats": model.repeats, "seed": model.seed},
        }
    parameters = model.get_params(deep=False)
    if "ranker" in parameters:  # of a bag, whose name alone says what it is
        parameters = parameters["ranker"].get_params() | parameters | {"ranker": parameters["ranker"].name}
    return document | {
        "rounds": max(map(len, model.history_.values()), default=model.best_round_),
        "best_round": model.best_round_,
        "stopped": model.stopped_,
        "metrics": _values(model),
        "history": model.history_,
        **({"scales": dict(model.scales_)} if model.scales_ else {}),
        "parameters": {k: v for k, v in parameters.items() if k not in ("objective", "progress", "checkpoint")},
    }


def table(model: Any, parts: Parts) -> Table:
    """Return what was trained, on how much, and how good it is."""
    from rankwise.rankers.expressions import objective_of
    from rankwise.rankers.training.settings import trains_at_once

    history, best, values = model.history_, model.best_round_, _values(model)
    rows = [("training data", _size(model, parts))]
    if model.weighs:
        weights = model.weights_
        for name, weight, alone in zip(weights.names, weights.values, weights.alone, strict=True):
            rows.append((name, f"weight {weight:.3f} ({weights.metric} alone {tables.number(alone)})"))
    elif objective := objective_of(model):
        rows.insert(0, ("objective", objective))
        if model.scales_:
            scales = ", ".join(f"{term} × {scale:.4g}" for term, scale in model.scales_.items())
            rows.insert(1, ("scales of its terms", scales))
    if not model.weighs and not trains_at_once(model):
        trained = max(map(len, history.values()), default=best)
        rows.append((model.unit, f"{best} kept of {trained} trained ({_why(model)})"))
    if "loss" in history and model.loss_compares:
        rows.append(("loss", f"{tables.number(history['loss'][0])} to {tables.number(history['loss'][-1])}"))
    for name, value in values.items():
        first = f" ({tables.number(history[name][0])} after the first {model.unit[:-1]})" if best > 1 else ""
        rows.append((f"{name}, {_measured(model, parts)}", tables.number(value) + first))
    if not values:
        rows.append(
            ("validation", "none: nothing was measured; --valid DATA or a bag measures, and keeps the best round")
        )
    return tables.Table(header=("", model.name), rows=tuple(rows), align="ll")


def curves(model: Any) -> dict[str, list[float]]:
    """Return the history of every metric on queries that are not learned from."""
    return {name: column for name, column in model.history_.items() if name != "loss"}


def _values(model: Any) -> dict[str, float]:
    """Return every metric after the best round; of a bag, after rounds that were chosen without the query."""
    reported = model.out_of_fold_.mean if model.pools else {}
    return {name: reported.get(name, column[model.best_round_ - 1]) for name, column in curves(model).items()}


def _why(model: Any) -> str:
    """Return the reason why training ended."""
    patience = getattr(model if hasattr(model, "patience") else getattr(model, "ranker", model), "patience", None)
    reasons = {
        model.unit: f"all {model.unit} done",
        "patience": f"no better {model.unit[:-1]} for {patience} {model.unit}",
        "no split": "no split improves the loss any more",
        "converged": "the gradient is zero",
    }
    return str(reasons.get(model.stopped_, model.stopped_))


def _measured(model: Any, parts: Parts) -> str:
    """Return the queries that metrics are means over, and whether these means are weighted."""
    from rankwise.statistics.evaluation import varies

    weighted = any(varies(part.weights) for part in (parts if model.pools else parts[1:]) if part is not None)
    return ("out of fold" if model.pools else "validation") + (", weighted" if weighted else "")


def _size(model: Any, parts: Parts) -> str:
    train, valid = parts
    if train is None:
        return str(model.partitions_)
    pooled = [train, valid] if valid is not None and model.pools else [train]
    return f"{sum(one.n_queries for one in pooled):,} queries, {sum(one.n_docs for one in pooled):,} documents"
