"""Joining interactions: users and items are the same where their ids are."""

from collections.abc import Sequence

import numpy as np

from rankwise import check
from rankwise.arrays import Ids, offsets_of
from rankwise.data.interactions.lists import Interactions

_RATED = ("error", "first", "last", "max")


def joined(parts: Sequence[Interactions], duplicates: str | None = None) -> Interactions:
    """Join interactions of any users and items; a part of a split has its own ratings alone.

    ``duplicates`` says what becomes of an item that a user has rated in several: ``"error"``, the ``"first"`` or
    ``"last"`` rating, by time where times are known and else by the order of the parts, or the ``"max"`` of them.
    Events are counted, and counts add up. See :func:`rankwise.concatenate`.
    """
    first = parts[0]
    counted = first.counted
    for name in ("counted", "relevant"):
        if any(getattr(part, name) != getattr(first, name) for part in parts):
            got = ", ".join(sorted({str(getattr(part, name)) for part in parts}))
            hint = "make them with the same rating= and relevant="
            raise check.error(f"interactions to be joined must agree in {name}", got=got, hint=hint)
    if counted and duplicates not in (None, "sum"):
        raise check.error("events that were counted add up", got=f"duplicates={duplicates!r}", hint="leave it out")
    policy = "sum" if counted else check.choice("way to treat duplicates", duplicates or "error", _RATED)
    if len({part.times is None for part in parts}) > 1:
        hint = "name the column of times of all of them, or of none: from_frame(…, time=…)"
        raise check.error("some of the interactions to be joined have times and some do not", hint=hint)
    users = _union("users", [part.users for part in parts])
    catalogue = _union("items", [part.catalogue for part in parts])
    frames = [part.to_frame() for part in parts]

    def column(name: str) -> np.ndarray[tuple[int], np.dtype[np.generic]]:
        return np.concatenate([frame[name].to_numpy() for frame in frames])

    owners = np.searchsorted(users, np.concatenate([_owners(part) for part in parts]))
    items = np.searchsorted(catalogue, np.concatenate([part.catalogue[part.seen()[1]] for part in parts]))
    ratings, times = column("rating").astype(np.float64), None if first.times is None else column("time")
    # A stable sort: equal times stay in the order of the parts.
    order = np.lexsort((*(() if times is None else (times,)), items, owners))
    owners, items, ratings = owners[order], items[order], ratings[order]
    times = None if times is None else times[order]
    starts = np.append(True, (owners[1:] != owners[:-1]) | (items[1:] != items[:-1]))
    heads = np.flatnonzero(starts)
    if policy == "error" and not starts.all():
        row = int(np.argmin(starts))
        raise check.error(
            "a user may rate an item once",
            got=f"user {users[owners[row]].item()!r} and item {catalogue[items[row]].item()!r} twice",
            hint="say which rating stays: duplicates='last', 'first' or 'max'",
        )
    ends = np.append(heads[1:], owners.size) - 1
    kept = heads if policy == "first" else ends
    if policy in ("sum", "max") and heads.size:
        ratings = (np.add if policy == "sum" else np.maximum).reduceat(ratings, heads)
    else:
        ratings = ratings[kept]
    return Interactions(
        users,
        items[kept].astype(np.int32),
        ratings,
        offsets_of(np.bincount(owners[kept], minlength=users.size)),
        catalogue,
        times=None if times is None else times[kept],  # type: ignore[arg-type]
        relevant=first.relevant,
        counted=counted,
        left_out=", ".join(dict.fromkeys(part.left_out for part in parts if part.left_out)),
    )


def _owners(part: Interactions) -> Ids:
    return np.repeat(part.users, np.diff(part.seen()[0]))


def _union(what: str, ids: Sequence[Ids]) -> Ids:
    """All different ids, ascending."""
    if len({one.dtype.kind in "iu" for one in ids}) > 1:
        hint = "make them integers in all, or text in all"
        raise check.error(f"ids of {what} must be of one kind", got="integers and text", hint=hint)
    return np.unique(np.concatenate(ids))
