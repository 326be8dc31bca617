"""The last part of the demonstration: a ranker that is found without choosing anything, within a few seconds."""

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rankwise.arrays import Json, Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.demo.result import HEADLINE, METRICS
from rankwise.statistics import tables

if TYPE_CHECKING:
    from rankwise.model_selection.auto.leaderboard import Leaderboard
    from rankwise.model_selection.auto.ranker import AutoRanker
    from rankwise.statistics.evaluation import Evaluation

SETTINGS: Keywords = {"minutes": 0.2, "metric": HEADLINE, "folds": 3, "threads": 1, "progress": False}
_QUICK: Keywords = {
    "rounds": 150,
    "patience": 20,
    "learning_rate": 0.2,
    "leaves": 15,
    "min_documents": 50,
    "smoothing": 5,
}
RECIPES = (
    ("lightgbm", "lambdarank", _QUICK),
    ("lightgbm", "xendcg", _QUICK),
    ("xgboost", "lambdarank", _QUICK),
    ("lightgbm", "ranknet", _QUICK),
    ("lightgbm", "listnet", _QUICK),
    ("neural", "softmax_ce", {"epochs": 15, "smoothing": 3}),
    ("catboost", "xendcg", _QUICK),
)
"""Quicker ones than those of the portfolio, and of fewer folds, so that several are tried in a few seconds."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Search:
    """What was tried and taken, and what it is worth on queries that took no part in that."""

    leaderboard: "Leaderboard"
    tested: "Evaluation"

    def introduction(self) -> str:
        """Say what was done."""
        minutes = SETTINGS["minutes"]
        return (
            f"And with nothing chosen by hand: rw.AutoRanker(minutes={minutes:g}) tries recipes of what is installed "
            f"for {tables.duration(60.0 * minutes)}, on the training and validation queries."
        )

    def conclusion(self, best: str, its_mean: float) -> str:
        """Say how good it is beside the best of those before; how far it came the clock decided, so without a test."""
        mean, (low, high) = self.tested.mean[HEADLINE], self.tested.interval[HEADLINE]
        return (
            f"On the test queries what it took has {HEADLINE} {tables.number(mean)} {tables.interval(low, high)}; "
            f"{best}, the best above, has {tables.number(its_mean)}. More minutes try more recipes."
        )

    def to_dict(self) -> Json:
        """Give everything as plain data that JSON can hold."""
        return {**self.leaderboard.to_dict(), "test": self.tested.to_dict()}


def searched(parts: dict[str, RankingDataset]) -> tuple["AutoRanker", Search]:
    """Search on the training and validation parts; gives the ranker and what was found."""
    from rankwise.evaluation.evaluate import evaluate
    from rankwise.model_selection.auto.portfolio import installed_ones
    from rankwise.model_selection.auto.ranker import AutoRanker

    recipes, notes = installed_ones(RECIPES)
    model = AutoRanker(recipes=recipes, **SETTINGS).fit(parts["train"], parts["valid"])
    board = replace(model.leaderboard_, notes=(*model.leaderboard_.notes, *notes))
    return model, Search(leaderboard=board, tested=evaluate(model, parts["test"], METRICS))
