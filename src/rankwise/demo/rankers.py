"""The rankers that the demonstration trains: the same trees, each time with another objective."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rankwise.arrays import Keywords
from rankwise.data.dataset import RankingDataset
from rankwise.demo.result import HEADLINE

if TYPE_CHECKING:
    from rankwise.rankers.trees.lightgbm import LightGBMRanker

OURS = {
    "ListNet": "listnet",
    "LambdaRank": "lambdarank",
    "XE-NDCG": "xendcg",
    "E[LambdaRank]": "stochastic(lambdarank, samples=8, scale=0.25)",
    "PL-Rank": "plrank",
}
BUILT_IN = {"LightGBM lambdarank": "native:lambdarank", "LightGBM rank_xendcg": "native:rank_xendcg"}
OBJECTIVES = OURS | BUILT_IN
SETTINGS: Keywords = {
    "rounds": 200,
    "patience": 25,
    "learning_rate": 0.15,
    "leaves": 15,
    "min_documents": 50,
    "metrics": (HEADLINE,),
    "threads": 1,  # so small a set gains little from threads, and one thread repeats exactly everywhere
    "progress": False,
}


def trained(
    train: RankingDataset, valid: RankingDataset, progress: Callable[[str], object]
) -> Iterator[tuple[str, "LightGBMRanker"]]:
    """Train every ranker, stopped early by the validation part; gives names and rankers one by one."""
    from rankwise.rankers.trees.lightgbm import LightGBMRanker

    for name, objective in OBJECTIVES.items():
        progress(f"Training {name}")
        yield name, LightGBMRanker(objective, **SETTINGS).fit(train, valid)
