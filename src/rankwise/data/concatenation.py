"""Joining data sets, and interactions; categories are matched by value, and users and items by id."""

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, cast, overload

import numpy as np

from rankwise import check
from rankwise.base import hooks
from rankwise.base.arrays import Keywords, offsets_of
from rankwise.base.sparse import stacked
from rankwise.data import columns
from rankwise.data.categories import Values, join
from rankwise.data.dataset import RankingDataset
from rankwise.data.io.disk.mapped import recode

if TYPE_CHECKING:
    from rankwise.wings.recommend.data.interactions import Interactions


@overload
def concatenate(parts: Sequence[RankingDataset]) -> RankingDataset: ...
@overload
def concatenate(parts: "Sequence[Interactions]", *, duplicates: str | None = None) -> "Interactions": ...
def concatenate(
    parts: "Sequence[RankingDataset] | Sequence[Interactions]", *, duplicates: str | None = None
) -> "RankingDataset | Interactions":
    """Join data sets of different queries that have the same columns; categories are matched by value.

    The rows of the tables that they came from are left out: they are not those of one table.

    Or join interactions, whose users and items are the same where their ids are. ``duplicates`` then decides about an
    item that a user has rated in several: ``"error"`` (the default), the ``"first"`` or ``"last"`` rating, by
    time where times are known and else by the order of the parts, or their ``"max"``. Counts of events add up.

    >>> one = RankingDataset([[1.0]], [0], [0, 1], query_ids=["a"])
    >>> two = RankingDataset([[2.0]], [1], [0, 1], query_ids=["b"])
    >>> concatenate([one, two])
    RankingDataset(2 queries, 2 documents, 1 feature, labels 0 to 1)
    """
    if not parts:
        raise check.error("concatenate needs at least one data set")
    kinds = {type(part).__name__ for part in parts}
    if len(kinds) == 1 and kinds <= hooks.places("join").keys():
        joined: Interactions = hooks.find("join", *kinds)(parts, duplicates)
        return joined
    if duplicates is not None or not all(isinstance(part, RankingDataset) for part in parts):
        got = ", ".join(sorted(kinds))
        hint = "duplicates= belongs to interactions" if duplicates is not None else "join data of one kind"
        raise check.error("concatenate joins ranking data, or interactions", got=got, hint=hint)
    return _joined_sets([part.without_rows() for part in cast("Sequence[RankingDataset]", parts)])


def _joined_sets(parts: Sequence[RankingDataset]) -> RankingDataset:
    first = parts[0]
    for name in ("feature_names", "categorical"):
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            raise check.error(f"data sets to be joined must agree in their {name}")
    origins = {part.feature_origin for part in parts}
    if len(origins - {None}) > 1:
        what, hint = "data sets to be joined must be of features that were made alike", "see data.feature_origin"
        raise check.error(what, got=f"{len(origins - {None})} origins", hint=hint)
    changes: Keywords = {
        "categories": _joined_categories(parts),
        "feature_origin": None if None in origins else first.feature_origin,
    }
    parts = [recode(part, changes["categories"]) for part in parts]
    changes["features"] = stacked([part.features for part in parts])
    arrays = [columns.arrays(part) for part in parts]
    joined = {}
    for name in dict.fromkeys(itertools.chain(*arrays)):
        if not all(name in of_part for of_part in arrays):
            without = next(number for number, of_part in enumerate(arrays, 1) if name not in of_part)
            raise check.error(
                f"of data sets to be joined, all or none must have {name}",
                got=f"number {without} of {len(parts)} without",
                hint=f"give it {name}, or leave them out of the others, with data.with_({name.partition('.')[0]}=None)",
            )
        joined[name] = np.concatenate([of_part[name] for of_part in arrays])
    changes |= columns.nested(joined)
    changes["offsets"] = offsets_of(np.concatenate([part.sizes for part in parts]))
    return first.with_(**changes)


def _joined_categories(parts: Sequence[RankingDataset]) -> dict[int, Values]:
    """Return the categories of each column: those of the first set, then the new ones of later sets."""
    joined = {}
    for column in parts[0].categorical:
        listed = [part.categories.get(column) for part in parts]
        present = [one for one in listed if one is not None]
        where = parts[0].column_name(column)
        if 0 < len(present) < len(listed):
            hint = "give all of them the list of its categories, or none"
            raise check.error("data sets to be joined must all know their categories, or none", where=where, hint=hint)
        if present:
            joined[column] = join(present, where)
    return joined
