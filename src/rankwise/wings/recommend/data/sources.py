"""Ratings and events by name, as a table, a folder of MovieLens or a set of the catalog; and synthetic ratings."""

from dataclasses import replace
from typing import Annotated

import numpy as np

from rankwise import Stream, check, load_dataset
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


_TASTES = 4  # hidden traits of items, and weights of users for them
_STEPS = (0.35, 0.5, 0.65, 0.9, 1.0)  # of the items that were rated, how many got at most 2, 3, 3.5, 4.5 and 5 stars
_STARS = (2.0, 3.0, 3.5, 4.5, 5.0)


def synthetic_ratings(
    n_users: int = 120, n_items: int = 400, *, n_ratings: float = 90.0, seed: int = 0
) -> Interactions:
    """Return ratings from 2 to 5 stars: users rate popular items more often, and items to their taste higher.

    Every user rates ``n_ratings`` items on average, some of them a third and some three times as many. A third of the
    ratings are 4 stars or more.

    >>> synthetic_ratings(n_users=50, n_items=300, seed=1)
    Interactions(50 users, 300 items, 4,210 ratings, 1,474 relevant (rated 4 or more))
    """
    n_users = check.integer("n_users", n_users, least=1)
    n_items = check.integer("n_items", n_items, least=2)
    mean_ratings = check.number("n_ratings", n_ratings, least=1.0, most=float(n_items))
    check.affordable("synthetic ratings", n_users * n_items, hint="set n_users= or n_items= lower")
    users = Stream(seed, query_ids=np.arange(n_users)).child("users")
    items = Stream(seed, query_ids=np.arange(n_items)).child("items")
    likes, traits = (2.0 * one.per_query(n, _TASTES) - 1.0 for one, n in ((users, n_users), (items, n_items)))
    popularity = items.child("known").per_query(n_items)[:, 0]
    activity = 3.0 ** (2.0 * users.child("activity").per_query(n_users)[:, 0] - 1.0)

    chance = popularity**2 / np.mean(popularity**2) * activity[:, None] / np.mean(activity) * mean_ratings / n_items
    rated = users.child("rated").per_query(n_users, n_items) < chance
    noise = users.child("noise").per_query(n_users, n_items) - 0.5
    utility = likes @ traits.T + 0.5 * popularity + noise
    places = np.searchsorted(np.quantile(utility[rated], _STEPS[:-1]), utility, side="right")
    owners, rated_items = np.nonzero(rated)
    return Interactions(
        np.arange(n_users),
        rated_items.astype(np.int32),
        np.array(_STARS)[places[rated]],
        np.searchsorted(owners, np.arange(n_users + 1)).astype(np.int64),
        np.arange(n_items),
    )
