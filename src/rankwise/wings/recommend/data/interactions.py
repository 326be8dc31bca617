"""Ratings of items by users, and ranking data from them: one list of items per user."""

from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rankwise import RankingDataset, Stream, check
from rankwise.base.arrays import Ids, Keywords, offsets_of, read_only, rows_of
from rankwise.wings.recommend.data import holdout
from rankwise.wings.recommend.data.holdout import Flags, Part, Share, Times
from rankwise.wings.recommend.data.negatives import EVERY, Rated, UserLists, draw_lists

if TYPE_CHECKING:
    import polars as pl

    from rankwise.data.io import Table, TextTable


@dataclass(frozen=True, eq=False, repr=False)
class Interactions:
    """Ratings in flat arrays; user ``u`` owns rows ``offsets[u]`` to ``offsets[u + 1]``, in the order of the catalogue.

    Made by :meth:`from_frame` and :meth:`read`. A rating of ``relevant`` or more makes an item relevant for a user; all
    other items of the catalogue, rated lower or not at all, are not relevant. :meth:`folds` and :meth:`split` divide
    the items of every user, and :meth:`dataset` gives lists to train and to test on.

    >>> import polars as pl
    >>> rows = {"user": ["ann"] * 3 + ["bob"] * 2, "item": [10, 20, 30, 20, 40], "rating": [5.0, 4, 1, 4, 2]}
    >>> ratings = Interactions.from_frame(pl.DataFrame(rows))
    >>> ratings
    Interactions(2 users, 4 items, 5 ratings, 3 relevant (rated 4 or more))
    >>> lists = ratings.dataset(negatives=1, seed=1)
    >>> lists
    RankingDataset(2 queries, 6 documents, 0 features, labels 0 to 1)
    >>> lists.take([0]).document_ids, lists.take([0]).labels
    (array([10, 20, 30, 40]), array([1., 1., 0., 0.]))
    """

    users: Ids
    """(n_users,) ids, integers or strings. Randomness is keyed by them."""
    items: NDArray[np.int32]
    """(n_ratings,) the rated items: numbers in the catalogue, ascending for each user."""
    ratings: NDArray[np.float64]
    """(n_ratings,)"""
    offsets: NDArray[np.int64]
    """(n_users + 1,)"""
    catalogue: Ids
    """(n_items,) the ids of all items, ascending."""
    _: KW_ONLY
    times: Times | None = None
    """(n_ratings,) times: numbers in any unit; dates and date-times are seconds since 1970."""
    relevant: float = 4.0
    counted: bool = False
    """Whether ratings are counts of events: every item that occurs is relevant."""
    part: Part | None = None
    left_out: str = ""
    """Users that were left out, in words."""

    def __post_init__(self) -> None:
        check.number("relevant", self.relevant)
        for name in ("users", "items", "ratings", "offsets", "catalogue", "times"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, read_only(getattr(self, name)))

    @classmethod
    def from_frame(
        cls,
        frame: "Table | TextTable",
        *,
        user: str = "user",
        item: str = "item",
        rating: str | None = "rating",
        time: str | None = None,
        relevant: float = 4.0,
        least_relevant: int = 0,
        catalogue: ArrayLike | None = None,
    ) -> Self:
        """Build from a polars or pandas frame or an Arrow table with one row per rating, in any order.

        Args:
            frame: A polars, pandas or Arrow table with one row per rating.
            user: The column of user ids, integers or strings.
            item: The column of item ids, likewise.
            rating: The column of ratings; None where there are only events (clicks, purchases): each row then makes an
                item relevant, rows of the same user and item are counted, and of their times the last is kept.
            time: A column of numbers, dates or date-times, or of these as ISO 8601 writes them, for splits by time.
                Times without a zone are in UTC.
            relevant: From which rating on an item is relevant.
            least_relevant: Users with fewer relevant items are left out; their items stay in the catalogue.
            catalogue: The ids of all items; by default those that occur. Name it where several tables must agree.
        """
        from rankwise.wings.recommend.data.ratings import arranged

        roles = {"user": user, "item": item, "rating": rating, "time": time}
        counted = rating is None
        arrays = arranged(frame, roles, catalogue)
        interactions = cls(**arrays, relevant=1.0 if counted else relevant, counted=counted)
        return interactions.active(least_relevant) if least_relevant else interactions

    @classmethod
    def read(cls, path: str | Path, **columns: Any) -> Self:
        """Read ratings from CSV or other text (also .gz and .zst) or Parquet; ``columns`` as in :meth:`from_frame`.

        MovieLens' own files are read as they are, or found in their folder, and so is anything with the columns user,
        item and rating, or userId, movieId and rating. Without a column of ratings, rows are events: see ``rating``.
        """
        from rankwise.wings.recommend.data.ratings import read_ratings

        named = [name for name in map(columns.get, ("user", "item", "rating", "time")) if name]
        table = read_ratings(path, named, ids=(columns.get("user"), columns.get("item")))
        if "time" in table.columns:
            columns = {"time": "time", **columns}
        if "rating" not in table.columns:
            columns = {"rating": None, **columns}
        with check.naming(path):
            return cls.from_frame(table, **columns)

    @property
    def n_users(self) -> int:
        """Number of users."""
        return int(self.users.size)

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return int(self.catalogue.size)

    @property
    def n_ratings(self) -> int:
        """Number of ratings in this part."""
        return int(self.items.size if self.part is None else self.part.own.sum())

    @property
    def n_relevant(self) -> int:
        """Number of relevant ratings in this part."""
        return int(self._is_relevant.sum())

    def active(self, least_relevant: int = 25) -> Self:
        """Return the data without users who have fewer relevant items; the catalogue stays whole.

        >>> import polars as pl
        >>> rows = {"user": [1, 1, 2], "item": ["a", "b", "a"], "rating": [5, 4, 5]}
        >>> Interactions.from_frame(pl.DataFrame(rows)).active(2)
        Interactions(1 user, 2 items, 2 ratings, 2 relevant (rated 4 or more); left out: 1 user with fewer than 2)
        """
        least = check.integer("least_relevant", least_relevant, least=0)
        counts = holdout.count_flags(self._is_relevant, self.offsets)
        active = self.take(counts >= least)
        if not active.n_users:
            got = f"at most {counts.max(initial=0)} relevant items for any of {self.n_users} users"
            hint = "lower `least_relevant`, or the rating from which on items are relevant"
            raise check.error(f"no user has {least} relevant items", got=got, hint=hint)
        dropped = self.n_users - active.n_users
        text = f"{dropped:,} {'user' if dropped == 1 else 'users'} with fewer than {least}"
        return replace(active, left_out=text)

    def take(self, users: slice | Sequence[int] | NDArray[np.int64] | Flags) -> Self:
        """Return the data of these users: a slice, a mask or numbers. The catalogue stays whole."""
        numbers = np.arange(self.n_users)[users]
        rows, offsets = rows_of(numbers, self.offsets)
        changes: Keywords = {name: getattr(self, name)[rows] for name in ("items", "ratings")}
        changes["times"] = None if self.times is None else self.times[rows]
        if self.part is not None:
            changes["part"] = replace(self.part, own=self.part.own[rows], known=self.part.known[rows])
        return replace(self, users=self.users[numbers], offsets=offsets, **changes)

    def folds(self, n: int = 5, *, seed: int = 0, spare_held_out: bool = True) -> Iterator[tuple[Self, Self]]:
        """Iterate over ``n`` pairs (train, test): every user's relevant items are spread evenly over the tests.

        A user with r relevant items has r/n of them in each test, rounded down or up. What is not relevant is divided
        too, so that the lists of train and test never share an item.

        With ``spare_held_out`` training never draws a negative that is relevant for the user in the test: then neither
        the relevant nor the other items of a test list were seen in training. For evaluation on the full catalogue,
        where the other items *were* seen, set it to False: training then knows nothing of the held-out items, and may
        draw them as it draws any item that the user has not rated.
        """
        n = check.integer("n, the number of folds,", n, least=2)
        numbers, key = self._divide(np.arange(1, n + 1) / n, seed, by_time=False)
        for fold in range(n):
            test, low, high = numbers == fold, fold / n, (fold + 1) / n
            every = np.ones(self.items.size, np.bool_)
            yield (
                self._part(~test, every if spare_held_out else ~test, Share(key, low, high, False)),
                self._part(test, every, Share(key, low, high, True)),
            )

    def split(
        self,
        fractions: Sequence[float] = (0.8, 0.2),
        *,
        by: str = "random",
        seed: int = 0,
        spare_held_out: bool = True,
    ) -> tuple[Self, ...]:
        """Divide relevant items in these proportions: ``"random"``, ``by="time"`` or ``by="global_time"``.

        ``"random"`` and ``"time"`` divide the items of every user, at random or the earliest first: what is the future
        of one user may then be the past of another. ``"global_time"`` makes one cut in time for all users, so that
        everything in a part was rated after what is in the parts before it; a warning says how many users of a part
        are new in it, whom nothing but popular items can be recommended to. Equal times stay together.

        A part may be split again, to take validation data off training data. ``spare_held_out`` as in :meth:`folds`;
        with False a part knows the relevant items of the parts before it.

        >>> import polars as pl
        >>> rows = {"user": [1] * 10, "item": range(10), "rating": [5] * 10, "when": range(10)}
        >>> ratings = Interactions.from_frame(pl.DataFrame(rows), time="when")
        >>> [part.to_frame()["item"].to_list() for part in ratings.split((0.7, 0.3), by="time")]
        [[0, 1, 2, 3, 4, 5, 6], [7, 8, 9]]
        """
        check.choice("way to split", by, ("random", "time", "global_time"))
        if by != "random" and self.times is None:
            raise check.error("a split by time needs times", hint="name their column: from_frame(…, time='timestamp')")
        cuts = np.cumsum(check.fractions(fractions)).round(12)
        numbers, key = self._divide(cuts, seed, by_time=by == "time")
        if by == "global_time" and self.times is not None:
            numbers = holdout.divide_at_once(self.times, self._is_relevant, cuts, numbers)
            holdout.warn_of_new_users(self._is_relevant, numbers, self.offsets)
        every = np.ones(self.items.size, np.bool_)
        return tuple(
            self._part(numbers == k, every if spare_held_out else numbers <= k, Share(key, low, high, True))
            for k, (low, high) in enumerate(zip((0.0, *cuts[:-1]), cuts, strict=True))
        )

    def dataset(
        self, negatives: int | str = 1, *, seed: int = 0, round: int = 0, graded: bool = False
    ) -> RankingDataset:
        """Return one list per user: the relevant items of this part, and ``negatives`` others for each of them.

        The others are drawn without repetition from what is not relevant for the user (rated lower or not at all),
        with equal probability; ``"all"`` takes every one. A part of a split has a share of these items alone (a test
        of a fifth a fifth of them): metrics of its lists are higher than those of the full catalogue, which
        :func:`rankwise.recommend.evaluate_interactions` ranks. A user who has fewer than asked for gets all of them,
        and one without relevant items in this part has no list. Query ids are users, document ids items, labels 1 and
        0, or with ``graded`` the ratings of relevant items; there are no features. Another ``round`` draws anew.
        """
        lists = self.lists(negatives, seed=seed, round=round, graded=graded)
        return RankingDataset(
            np.empty((lists.items.size, 0), np.float32),
            lists.labels,
            lists.offsets,
            query_ids=self.users[lists.users],
            document_ids=self.catalogue[lists.items],
        )

    def lists(self, negatives: int | str = 1, *, seed: int = 0, round: int = 0, graded: bool = False) -> UserLists:
        """Return the lists of :meth:`dataset` in numbers of users and items."""
        ratio = EVERY if negatives == "all" else check.integer("negatives (or 'all')", negatives, least=0)
        stream = self._stream(seed).at(check.integer("round", round, least=0)).child("negatives")
        never_drawn = self._rated_relevant if self.part is None else self._rated_relevant & self.part.known
        rated = Rated(self.offsets, self.items, self._is_relevant, never_drawn, self.n_items)
        lists = draw_lists(rated, () if self.part is None else self.part.shares, ratio, stream)
        if graded:
            lists.labels[lists.labels > 0] = self.ratings[self._is_relevant]
        return lists

    def to_frame(self) -> "pl.DataFrame":
        """Return one row per rating of this part: user, item, rating, and time where there is one."""
        import polars as pl

        columns = {
            "user": np.repeat(self.users, np.diff(self.offsets)),
            "item": self.catalogue[self.items],
            "rating": self.ratings,
        }
        if self.times is not None:
            columns["time"] = self.times
        frame = pl.DataFrame(columns)
        return frame if self.part is None else frame.filter(pl.Series(self.part.own))

    def relevant_items(self) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float64]]:
        """Return the relevant items of each user in this part: offsets by user, numbers of items, and ratings."""
        is_relevant = self._is_relevant
        counts = holdout.count_flags(is_relevant, self.offsets)
        return offsets_of(counts), self.items[is_relevant], self.ratings[is_relevant]

    def seen(self) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
        """Return every item that each user has rated in this part: offsets by user, and numbers of items."""
        if self.part is None:
            return self.offsets, self.items
        in_part = self.part.own
        return offsets_of(holdout.count_flags(in_part, self.offsets)), self.items[in_part]

    def __len__(self) -> int:
        return self.n_users

    def __repr__(self) -> str:
        counts = [(self.n_users, "user"), (self.n_items, "item")]
        counts.append((self.n_ratings, "interaction" if self.counted else "rating"))
        texts = [f"{number:,} {word}{'' if number == 1 else 's'}" for number, word in counts]
        if not self.counted:
            texts.append(f"{self.n_relevant:,} relevant (rated {self.relevant:g} or more)")
        return f"Interactions({', '.join(texts)}{'; left out: ' * bool(self.left_out)}{self.left_out})"

    @cached_property
    def _rated_relevant(self) -> Flags:
        return read_only(self.ratings >= self.relevant)

    @property
    def _is_relevant(self) -> Flags:
        return self._rated_relevant if self.part is None else read_only(self._rated_relevant & self.part.own)

    def _stream(self, seed: int) -> Stream:
        return Stream(check.integer("seed", seed, least=0), query_ids=self.users)

    def _divide(self, cuts: NDArray[np.float64], seed: int, *, by_time: bool) -> tuple[NDArray[np.int8], np.uint64]:
        """Return the part of each rating (−1 for ratings of other parts), and the key that divides other items."""
        # A part of a part must be divided by other random numbers than the whole was.
        stream = self._stream(seed).child("parts", 0 if self.part is None else len(self.part.shares))
        times = self.times if by_time else None
        numbers, key = holdout.divide(self.offsets, self.items, self._is_relevant, times, cuts, stream)
        if self.part is not None:
            numbers[~self.part.own] = -1
        return numbers, key

    def _part(self, in_part: Flags, never_drawn: Flags, share: Share) -> Self:
        if self.part is None:
            return replace(self, part=Part(in_part, never_drawn, (share,)))
        part = Part(in_part & self.part.own, never_drawn & self.part.known, (*self.part.shares, share))
        return replace(self, part=part)
