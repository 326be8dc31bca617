"""Ratings and events by name: a table, a folder of MovieLens, or a set of the catalog."""

from dataclasses import replace
from typing import Annotated

from rankwise import check, load_dataset
from rankwise.base.arrays import Keywords
from rankwise.check.parameters import Option
from rankwise.data.io import is_set
from rankwise.wings.recommend.data.interactions import Interactions

_COLUMN = Option(metavar="COLUMN")


def read_interactions(
    name: str,
    *,
    user: Annotated[str | None, "The column of users.", _COLUMN] = None,
    item: Annotated[str | None, "The column of items.", _COLUMN] = None,
    rating: Annotated[str | None, "The column of ratings; without one, rows are events, and are counted.", _COLUMN] = (
        None
    ),
    time: Annotated[
        str | None, "The column of times, for ``split``: numbers, or dates and times as ISO 8601 has them.",
        Option("timestamp", metavar="COLUMN"),
    ] = None,
    implicit: Annotated[bool, "Every row makes an item relevant, whatever its rating."] = False,
    relevant: Annotated[float, "From which rating on an item is relevant."] = 4.0,
) -> Interactions:  # fmt: skip
    """Read ratings or events; columns, of a table, are those of :meth:`rankwise.recommend.Interactions.read`."""
    columns = {"user": user, "item": item, "rating": rating, "time": time}
    named: Keywords = {role: column for role, column in columns.items() if column is not None}
    if not is_set(name):
        return Interactions.read(name, relevant=relevant, **named | ({"rating": None} if implicit else {}))
    ratings: object = load_dataset(name)
    if not isinstance(ratings, Interactions):
        hint = "name a table of ratings or one of MovieLens"
        raise check.error("recommending needs ratings of users", got=f"the ranking data {name}", hint=hint)
    if named:
        raise check.error("columns of a set of the catalog are known", got=", ".join(named), hint="leave them out")
    if implicit:
        return Interactions.from_frame(ratings.to_frame(), rating=None, time=None if ratings.times is None else "time")
    return replace(ratings, relevant=relevant)
