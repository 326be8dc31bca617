"""Joining data sets, and interactions; categories are matched by value, and users and items by id."""

import itertools
from collections.abc import Sequence
from typing import cast, overload

import numpy as np

from rankwise import check
from rankwise.arrays import Ids, Keywords, offsets_of
from rankwise.data import columns
from rankwise.data.categories import Values, join
from rankwise.data.dataset import RankingDataset
from rankwise.data.disk.mapped import recode
from rankwise.data.interactions.interactions import Interactions
from rankwise.sparse import stacked

_RATED = ("error", "first", "last", "max")


@overload
def concatenate(parts: Sequence[RankingDataset]) -> RankingDataset: ...
@overload
def concatenate(parts: Sequence[Interactions], *, duplicates: str | None = None) -> Interactions: ...
def concatenate(
    parts: Sequence[RankingDataset] | Sequence[Interactions], *, duplicates: str | None = None
) -> RankingDataset | Interactions:
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
    if all(isinstance(part, Interactions) for part in parts):
        return _joined_interactions(cast("Sequence[Interactions]", parts), duplicates)
    if duplicates is not None or not all(isinstance(part, RankingDataset) for part in parts):
        got = ", ".join(sorted({type(part).__name__ for part in parts}))
        hint = "duplicates= belongs to interactions" if duplicates is not None else "join data of one kind"
        raise check.error("concatenate joins ranking data, or interactions", got=got, hint=hint)
    return _joined_sets([part.without_rows() for part in cast("Sequence[RankingDataset]", parts)])


def _joined_sets(parts: Sequence[RankingDataset]) -> RankingDataset:
    first = parts[0]
    for name in ("feature_names", "categorical"):
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            raise check.error(f"data sets to be joined must agree in their {name}")
    changes: Keywords = {"categories": _joined_categories(parts)}
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


def _joined_interactions(parts: Sequence[Interactions], duplicates: str | None = None) -> Interactions:
    """Join interactions of any users and items; a part of a split has its own ratings alone."""
    first = parts[0]
    counted = first.counted
    for name in ("counted", "relevant"):
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            got = ", ".join(sorted({str(getattr(part, name)) for part in parts}))
            hint = "make them with the same `rating=` and `relevant=`"
            raise check.error(f"interactions to be joined must agree in {name}", got=got, hint=hint)
    if counted and duplicates not in (None, "sum"):
        raise check.error("events that were counted add up", got=f"duplicates={duplicates!r}", hint="leave it out")
    policy = "sum" if counted else check.choice("way to treat duplicates", duplicates or "error", _RATED)
    if len({part.times is None for part in parts}) > 1:
        hint = "name the column of times of all of them, or of none: from_frame(…, time=…)"
        raise check.error("some of the interactions to be joined have times and some do not", hint=hint)
    import polars as pl

    users = _union("users", [part.users for part in parts])
    catalogue = _union("items", [part.catalogue for part in parts])
    owners = np.concatenate([np.repeat(part.users, np.diff(part.seen()[0])) for part in parts])
    items = np.concatenate([part.catalogue[part.seen()[1]] for part in parts])
    rows = pl.concat([part.to_frame().drop("user", "item") for part in parts], how="vertical_relaxed").with_columns(
        user=np.searchsorted(users, owners), item=np.searchsorted(catalogue, items)
    )
    times = [name for name in rows.columns if name == "time"]
    # A stable sort: equal times stay in the order of the parts.
    rows = rows.sort("user", "item", *times, maintain_order=True)
    which = pl.first if policy == "first" else pl.last
    rating = {"sum": pl.sum("rating"), "max": pl.max("rating")}.get(policy, which("rating"))
    joined = rows.group_by("user", "item", maintain_order=True).agg(rating, *map(which, times))
    if policy == "error" and len(joined) < len(rows):
        user, item = rows.filter(~pl.struct("user", "item").is_first_distinct()).select("user", "item").row(0)
        raise check.error(
            "a user may rate an item once",
            got=f"user {users[user].item()!r} and item {catalogue[item].item()!r} twice",
            hint="say which rating stays: duplicates='last', 'first' or 'max'",
        )
    return Interactions(
        users,
        joined["item"].to_numpy().astype(np.int32),
        joined["rating"].to_numpy(),
        offsets_of(np.bincount(joined["user"].to_numpy(), minlength=users.size)),
        catalogue,
        times=joined["time"].to_numpy() if times else None,
        relevant=first.relevant,
        counted=counted,
        left_out=", ".join(dict.fromkeys(part.left_out for part in parts if part.left_out)),
    )


def _union(what: str, ids: Sequence[Ids]) -> Ids:
    if len({one.dtype.kind in "iu" for one in ids}) > 1:
        hint = "make them integers in all, or text in all"
        raise check.error(f"ids of {what} must be of one kind", got="integers and text", hint=hint)
    return np.unique(np.concatenate(ids))
