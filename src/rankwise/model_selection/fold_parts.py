"""The training, validation and test part of each fold of a cross-validation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

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
    if isinstance(folds, int | np.integer) and not isinstance(folds, bool):
        data = _checked(data)
        tested = fold_of_query(data, int(folds), seed=seed)
        return _numbered(data, [(tested != one, tested == one) for one in range(int(folds))], valid, seed)
    if isinstance(folds, str | RankingDataset) or not isinstance(folds, Sequence | Iterator):
        raise _unknown(type(folds).__name__)
    listed = list(folds)
    for fold in listed:
        if not isinstance(fold, tuple | list) or len(fold) not in (2, 3):
            raise _unknown(type(fold).__name__ + (f" of {len(fold)}" if isinstance(fold, tuple | list) else ""))
    if len(listed) < 2:
        raise check.error("cross-validation needs at least two folds", got=len(listed))
    if not all(isinstance(fold[0], RankingDataset) for fold in listed):
        return _numbered(_checked(data), listed, valid, seed)
    if data is not None:
        hint = "leave the data out, or give numbers of queries as folds"
        raise check.error("folds that are data sets need no data beside them", hint=hint)
    return _prepared(listed, valid, seed)


def _numbered(data: RankingDataset, folds: Sequence[Any], valid: float, seed: int) -> list[Fold]:
    """Return folds by numbers of queries."""
    numbered, seen = [], np.zeros(data.n_queries, np.bool_)
    for number, fold in enumerate(folds):
        train, *between, test = [None if part is None else data.query_numbers(part) for part in fold]
        held_out = between[0] if between else None
        if any(part is not None and not part.size for part in (train, held_out, test)) or train is None or test is None:
            raise check.error("every part of a fold needs at least one query", where=f"fold {number + 1}")
        for part in (train, held_out):
            if part is not None:
                _apart(part[np.isin(part, test)], data, "both trained or stopped on and tested", number)
        if held_out is not None:
            _apart(held_out[np.isin(held_out, train)], data, "both trained and stopped on", number)
        _apart(test[seen[test]], data, "tested in an earlier fold, too", number)
        seen[test] = True

        def parts(
            number: int = number, train: Any = train, held_out: Any = held_out, test: NDArray[np.int64] = test
        ) -> Parts:
            stopped = None if held_out is None else data.take(held_out)
            return *_held_out(data.take(train), stopped, valid, seed, number), data.take(test)

        numbered.append(Fold(parts, test))
    return numbered


def _prepared(folds: Sequence[Any], valid: float, seed: int) -> list[Fold]:
    """Return folds that are data sets; queries are told apart by their ids."""
    prepared: list[Fold] = []
    seen: set[Any] = set()
    for number, (train, *between, test) in enumerate(folds):
        held_out = between[0] if between else None
        for part in (train, held_out, test):
            if part is not held_out or part is not None:
                _check_prepared(part, number)
        tested = set(test.query_ids.tolist())
        for part in (train, held_out):
            for query in () if part is None else part.query_ids.tolist():
                if query in tested:
                    raise _twice(query, "both trained or stopped on and tested", number)
        for query in tested & seen:
            raise _twice(query, "tested in an earlier fold, too", number)
        seen |= tested

        def parts(number: int = number, train: Any = train, held_out: Any = held_out, test: Any = test) -> Parts:
            return *_held_out(train, held_out, valid, seed, number), test

        prepared.append(Fold(parts, None))
    return prepared


def _held_out(
    train: RankingDataset, held_out: RankingDataset | None, valid: float, seed: int, number: int
) -> tuple[RankingDataset, RankingDataset | None]:
    """Split the validation part off the training part, where the fold has none."""
    if held_out is not None or not valid:
        return train, held_out
    rest, stopped = split(train, (1.0 - valid, valid), seed=seed, trial=number + 1)
    return rest, stopped


def _check_prepared(part: object, number: int) -> None:
    if not isinstance(part, RankingDataset) or part.query_ids is None:
        got = "a RankingDataset without query ids" if isinstance(part, RankingDataset) else type(part).__name__
        hint = "queries are told apart by query_ids="
        what = "prepared folds must be data sets with query ids"
        raise check.error(what, got=got, where=f"fold {number + 1}", hint=hint)


def _checked(data: object) -> RankingDataset:
    if isinstance(data, RankingDataset):
        return data
    hint = "pass a RankingDataset, or folds that are data sets: folds=[(train, valid, test), …]"
    raise check.error("cross-validation needs data", got=type(data).__name__, hint=hint)


def _apart(queries: NDArray[np.int64], data: RankingDataset, how: str, number: int) -> None:
    if queries.size:
        query = int(queries[0])
        raise _twice(query if data.query_ids is None else data.query_ids[query].item(), how, number)


def _twice(query: object, how: str, number: int) -> ValueError:
    hint = "every query belongs to one part of a fold, and is tested once"
    return check.error(f"a query is {how}", got=repr(query), where=f"fold {number + 1}", hint=hint)


def _unknown(got: str) -> ValueError:
    return check.error(
        "folds must be a number, or a list of (train, test) or (train, valid, test)",
        got=got,
        hint="the parts are numbers of queries, or data sets",
    )
