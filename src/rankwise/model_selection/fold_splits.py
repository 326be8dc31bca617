"""The training, validation and test part of each fold of a cross-validation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from rankwise import check
from rankwise.data.dataset import RankingDataset
from rankwise.data.splits import fold_of_query, split

Parts = tuple[RankingDataset, RankingDataset | None, RankingDataset]
"""Training, validation and test part."""


@dataclass(frozen=True)
class Fold:
    """One fold; its parts are made when they are asked for, so that one fold at a time is in memory."""

    parts: Callable[[], Parts]
    queries: NDArray[np.int64] | None
    """The numbers of the tested queries in the data; None for a fold that was prepared."""


def fold_list(data: RankingDataset | None, folds: object, *, valid: float, seed: int) -> list[Fold]:
    """Return the folds, all checked: so many, by numbers of queries, or prepared data sets.

    ``valid`` is the share of the training queries of a fold that is held out, where the fold has no validation part; 0
    holds out none.
    """
    listed, prepared = _listed(data, folds, seed)
    if not prepared and not isinstance(data, RankingDataset):
        hint = "pass a RankingDataset, or folds that are data sets: folds=[(train, valid, test), …]"
        raise check.error("cross-validation needs data", got=type(data).__name__, hint=hint)
    if prepared and data is not None:
        hint = "leave the data out, or give numbers of queries as folds"
        raise check.error("folds that are data sets need no data beside them", hint=hint)
    checked: list[Fold] = []
    tested_before: set[Any] = set()
    for number, (train, *between, test) in enumerate(listed):
        held_out, where = between[0] if between else None, f"fold {number + 1}"
        trained, tested = _queries(train, data, where), _queries(test, data, where)
        stopped = [] if held_out is None else _queries(held_out, data, where)
        for queries, excluded, how in (
            ([*trained, *stopped], set(tested), "both trained or stopped on and tested"),
            ([] if prepared else stopped, set(trained), "both trained and stopped on"),
            (tested, tested_before, "tested in an earlier fold, too"),
        ):
            for query in queries:
                if query in excluded:
                    named = query if data is None or data.query_ids is None else data.query_ids[query].item()
                    hint = "every query belongs to one part of a fold, and is tested once"
                    raise check.error(f"a query is {how}", got=repr(named), where=where, hint=hint)
        tested_before.update(tested)

        def parts(number: int = number, train: Any = train, held_out: Any = held_out, test: Any = test) -> Parts:
            if data is not None:
                train, test = data.take(train), data.take(test)
                held_out = None if held_out is None else data.take(held_out)
            if held_out is None and valid:
                train, held_out = split(train, (1.0 - valid, valid), seed=seed, trial=number + 1)
            return train, held_out, test

        checked.append(Fold(parts, None if prepared else np.array(tested, np.int64)))
    return checked


def _listed(data: RankingDataset | None, folds: object, seed: int) -> tuple[list[Any], bool]:
    """Return the parts of each fold, and whether they are data sets."""
    if isinstance(folds, int | np.integer) and not isinstance(folds, bool):
        if not isinstance(data, RankingDataset):
            return [], False
        fold = fold_of_query(data, int(folds), seed=seed)
        return [(fold != number, fold == number) for number in range(int(folds))], False
    is_list = isinstance(folds, Sequence | Iterator) and not isinstance(folds, str | RankingDataset)
    listed: list[Any] = list(cast("Sequence[Any]", folds)) if is_list else [folds]
    for parts in listed:
        if not isinstance(parts, tuple | list) or len(parts) not in (2, 3):
            raise check.error(
                "folds must be a number, or a list of (train, test) or (train, valid, test)",
                got=type(parts).__name__ + (f" of {len(parts)}" if isinstance(parts, tuple | list) else ""),
                hint="the parts are numbers of queries, or data sets",
            )
    if len(listed) < 2:
        raise check.error("cross-validation needs at least two folds", got=len(listed))
    return listed, all(isinstance(parts[0], RankingDataset) for parts in listed)


def _queries(part: Any, data: RankingDataset | None, where: str) -> list[Any]:
    """Return the queries of a part: their numbers in the data, or the ids of a data set."""
    if data is not None:
        numbers: list[Any] = [] if part is None else data.query_numbers(part).tolist()
        if not numbers:
            raise check.error("every part of a fold needs at least one query", where=where)
        return numbers
    if not isinstance(part, RankingDataset) or part.query_ids is None:
        got = "a RankingDataset without query ids" if isinstance(part, RankingDataset) else type(part).__name__
        hint = "queries are told apart by query_ids="
        raise check.error("prepared folds must be data sets with query ids", got=got, where=where, hint=hint)
    ids: list[Any] = part.query_ids.tolist()
    return ids
