"""Interactions by whatever names them: a table, a folder of MovieLens, or a set of the catalog."""

from dataclasses import replace
from typing import Any

from rankwise import check
from rankwise.data.catalog.load import load_dataset
from rankwise.data.interactions.lists import Interactions
from rankwise.data.sources import is_set


def read_interactions(name: str, *, relevant: float = 4.0, **columns: Any) -> Interactions:
    """Read ratings or events; ``columns`` as in :meth:`Interactions.read`, for tables."""
    if not is_set(name):
        return Interactions.read(name, relevant=relevant, **columns)
    whole: object = load_dataset(name)
    if not isinstance(whole, Interactions):
        hint = "name a table of ratings or one of MovieLens"
        raise check.error("recommending needs ratings of users", got=f"the ranking data {name}", hint=hint)
    if named := {role: column for role, column in columns.items() if column is not None}:
        raise check.error("columns of a set of the catalog are known", got=", ".join(named), hint="leave them out")
    if "rating" in columns:  # None: every row counts
        return Interactions.from_frame(whole.to_frame(), rating=None, time=None if whole.times is None else "time")
    return replace(whole, relevant=relevant)
