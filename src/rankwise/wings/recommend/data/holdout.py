"""Parts of interactions: the items of each user that are trained on, and those that are held out."""

import warnings
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import Stream, check
from rankwise.base import threads
from rankwise.base.arrays import offsets_of, read_only, rows_of
from rankwise.base.compiling import kernel
from rankwise.base.stream import uniform

Flags = NDArray[np.bool_]
Times = NDArray[np.int64] | NDArray[np.float64]


class Share(NamedTuple):
    """The items that are not relevant and belong to a part: those with a random place inside an interval, or outside.

    Every item has a place of its own in (0, 1) for every user, which depends on the user's id, the item's number in
    the catalogue and the key. So the lists of two parts have no item in common, however often negatives are drawn.
    """

    key: np.uint64
    low: float
    high: float
    inside: bool


@dataclass(frozen=True, eq=False)
class Part:
    """One part of a split, as flags of all ratings."""

    own: Flags
    """(n_ratings,) the ratings of this part."""
    known: Flags
    """(n_ratings,) ratings that the part knows: their relevant items are never drawn as negatives."""
    shares: tuple[Share, ...]


def divide(
    offsets: NDArray[np.int64],
    items: NDArray[np.int32],
    relevant: Flags,
    times: Times | None,
    cuts: NDArray[np.float64],
    stream: Stream,
) -> tuple[NDArray[np.int8], np.uint64]:
    """Return the part of every rating, and the key of the places by which other items are divided.

    A user's relevant items are put in a random order, or in that of ``times``, and part p takes those between its
    ``cuts`` of that order, shifted by one random number: as many as its share, rounded down or up.
    """
    n_users = offsets.size - 1
    key, queries = stream.child("places").key, read_only(stream.queries(n_users))
    # The order of relevant items has nothing to do with the places: held-out items must be as likely as any others to
    # lie where training draws its negatives.
    places, draws = np.empty((2, items.size))
    for one, out in ((key, places), (stream.child("draws").key, draws)):
        threads.over_queries(_fill_places, offsets, items, one, queries, out)
    numbers = np.searchsorted(cuts[:-1], places, side="right").astype(np.int8)
    rows, counts = np.flatnonzero(relevant), count_flags(relevant, offsets)
    users = np.repeat(np.arange(n_users), counts)
    order = np.lexsort((draws[rows], *(() if times is None else (times[rows],)), users))
    ranks = np.arange(rows.size) - np.repeat(offsets_of(counts)[:-1], counts)
    shift = stream.child("shift").per_query(n_users)[:, 0]
    numbers[rows[order]] = np.searchsorted(cuts[:-1], (ranks + shift[users]) / counts[users], side="right")
    return numbers, key


def divide_at_once(
    times: Times, relevant: Flags, cuts: NDArray[np.float64], numbers: NDArray[np.int8]
) -> NDArray[np.int8]:
    """Return the part of every rating by one cut in time for all users; −1 stays where ``numbers`` has it.

    A part ends with the time up to which there is its share of the relevant ratings.

    >>> times, every = np.array([3, 1, 2, 2, 4]), np.ones(5, bool)
    >>> divide_at_once(times, every, np.array([0.6, 1.0]), np.zeros(5, np.int8))
    array([1, 0, 0, 0, 1], dtype=int8)
    """
    moments = np.sort(times[relevant])
    ends = moments[np.ceil(cuts[:-1] * moments.size).astype(np.int64).clip(1) - 1]
    places = np.searchsorted(ends, times, side="left")
    shares = np.bincount(places[relevant], minlength=cuts.size)
    if not shares[np.diff(cuts, prepend=0.0) > 0].all():
        got = f"parts of {', '.join(f'{share:,}' for share in shares)} relevant ratings"
        hint = "choose other fractions, or finer times: equal ones stay together"
        raise check.error("one cut in time leaves a part empty", got=got, hint=hint)
    return np.where(numbers < 0, numbers, places).astype(np.int8)


def warn_of_new_users(relevant: Flags, numbers: NDArray[np.int8], offsets: NDArray[np.int64]) -> None:
    """Warn of users who have relevant items in a part and none in those before it."""
    seen = np.zeros(offsets.size - 1, np.bool_)
    for number in range(int(numbers.max(initial=0)) + 1):
        in_part = count_flags(relevant & (numbers == number), offsets) > 0
        new = int((in_part & ~seen).sum())
        if number and new:
            of = f"{new:,} of the {int(in_part.sum()):,} users of part {number + 1}"
            why = "nothing is known of them but what is popular"
            warnings.warn(f"{of} have no relevant item before it in time: {why}", stacklevel=3)
        seen |= in_part


def count_flags(flags: Flags, offsets: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of flagged ratings of each user."""
    return np.diff(offsets_of(flags)[offsets])


def ratings_of(users: NDArray[np.int64], offsets: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the rows of the ratings of some users, one user after another, and the user of each: 0 for the first.

    >>> ratings_of(np.array([2, 0]), np.array([0, 2, 3, 5]))
    (array([3, 4, 0, 1]), array([0, 0, 1, 1]))
    """
    rows, starts = rows_of(users, offsets)
    if isinstance(rows, slice):
        rows = np.arange(rows.start, rows.stop)
    return rows, np.repeat(np.arange(users.size), np.diff(starts))


@kernel
def _fill_places(first, last, offsets, items, key, queries, out):  # type: ignore[no-untyped-def]
    for q in range(first, last):
        for row in range(offsets[q], offsets[q + 1]):
            out[row] = uniform(key, queries[q], items[row], 0)
