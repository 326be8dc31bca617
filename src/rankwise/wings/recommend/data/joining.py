"""Joining interactions: users and items are matched by their ids."""

from collections.abc import Sequence

import numpy as np

from rankwise import check
from rankwise.base.arrays import Ids, offsets_of
from rankwise.wings.recommend.data.interactions import Interactions

_RATED = ("error", "first", "last", "max")


def join(parts: Sequence[Interactions], duplicates: str | None = None) -> Interactions:
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
