"""Summary of the training of a reranker: a table, or a document for JSON."""

from pathlib import Path
from typing import TYPE_CHECKING

from rankwise.base import tables
from rankwise.base.arrays import Json
from rankwise.base.tables import Table

if TYPE_CHECKING:
    from rankwise.wings.rerank.reranker import Reranker


def described(reranker: "Reranker", output: Path, evaluations: Json) -> Json:
    """Return the summary as a document; ``output`` is the folder of the model."""
    return {
        "model": output,
        "objective": str(reranker.objective),
        "parts": len(reranker.history_["loss"]),
        "best_part": reranker.best_round_,
        "epochs": reranker.epochs_,
        "stopped": reranker.stopped_,
        "evaluations": evaluations,
        "history": reranker.history_,
        "parameters": {name: value for name, value in reranker.settings().items() if name != "objective"},
    }


def table(reranker: "Reranker", evaluations: Json) -> Table:
    """Return what was trained and how good it is."""
    why = {
        "parts": "all epochs done",
        "patience": f"no better part for {reranker.patience} parts",
        "converged": "the gradient is zero",
    }
    losses = reranker.history_["loss"]
    rows = [
        ("objective", str(reranker.objective)),
        *((f"{part} data", size) for part, size in reranker.trained_on_.items()),
        (
            "parts",
            f"{reranker.best_round_} kept of {len(losses)} trained ({why.get(reranker.stopped_, reranker.stopped_)})",
        ),
        ("epochs in the model", f"{reranker.epochs_:g}"),
        ("loss", f"{tables.number(losses[0])} to {tables.number(losses[-1])}"),
    ]
    for name, lists in evaluations.items():
        rows.append((f"candidates, {name}", lists["candidates"]))
        for metric, one in lists["metrics"].items():
            rows.append(
                (f"{metric}, {name}", f"{tables.number(one['mean'])} {tables.interval(one['low'], one['high'])}")
            )
    return tables.Table(header=("", "reranker"), rows=tuple(rows), align="ll")
