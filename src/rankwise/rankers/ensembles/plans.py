"""Which members a bag has: what each is trained as, and the queries that it never sees."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query
from rankwise.stream import Stream


@dataclass(frozen=True)
class Plan:
    """One member: what it is, and the queries that it never sees."""

    ranker: Any
    """Not trained, with a seed of its own where it has one."""
    seed: int
    held_out: NDArray[np.int64]


def plans(ranker: Any, data: RankingDataset, *, folds: int, repeats: int, seed: int, fold_seed: int) -> list[Plan]:
    """Give all members: folds of the first repeat, then of the next."""
    if data.n_queries < folds:
        what = "a bag needs at least as many queries as folds"
        raise check.error(what, got=f"{data.n_queries} queries and folds={folds}", hint="set fewer folds")
    found: list[Plan] = []
    for repeat in range(repeats):
        fold = fold_of_query(data, folds, seed=fold_seed, trial=repeat)
        for number in range(folds):
            # Metrics are measured by the bag, and not where members are.
            own = seed_of_member(seed, len(found))
            member = ranker.__sklearn_clone__()._configure(seed=own, metrics=())
            found.append(Plan(member, own, np.flatnonzero(fold == number)))
    return found


def seed_of_member(seed: int, number: int) -> int:
    """Draw the seed of a member, numbered from 0, from that of the ranker."""
    return int(Stream(seed).child("member", number).key >> np.uint64(33))
