"""The items of each user's list: the relevant ones of a part, and others drawn from the rest of the catalogue.

Items are drawn for one user at a time, by random numbers that depend on the user's id, the item's place in the
catalogue and the seed: the order of users, threads, and the division of users among machines never change a list.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import Stream
from rankwise.base import threads
from rankwise.base.arrays import offsets_of, read_only
from rankwise.base.compiling import kernel
from rankwise.base.stream import empty_set, insert, uniform
from rankwise.wings.recommend.data.holdout import Flags, Share

# From this many expected items on, a pool that should be twice as large as what is drawn from it always is
# (a chance of e^−50 against it), and need not be listed.
_SURE = 400
EVERY = -1


class Rated(NamedTuple):
    """The rated items of each user, ascending, with flags: the input of lists."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    relevant: Flags
    """Relevant, and of this part: these are on the lists."""
    never_drawn: Flags
    """Relevant, and never to be drawn."""
    n_items: int


class UserLists(NamedTuple):
    """One list per user who has relevant items in this part, in numbers of users and items."""

    users: NDArray[np.int64]
    items: NDArray[np.int32]
    """In the order of the catalogue, which says nothing about what is relevant."""
    labels: NDArray[np.float64]
    offsets: NDArray[np.int64]


def draw_lists(rated: Rated, shares: Sequence[Share], ratio: int, stream: Stream) -> UserLists:
    """Return the lists of a part: its relevant items with label 1, drawn ones with 0.

    ``ratio`` is the number of items drawn for each relevant one, or EVERY; where there are not enough, all are taken.
    """
    offsets, n_items = rated.offsets, rated.n_items
    rows = offsets, read_only(rated.items), read_only(rated.never_drawn), read_only(rated.relevant), n_items
    queries = read_only(stream.queries(offsets.size - 1))
    columns = tuple(
        read_only(np.array([share[k] for share in shares], kind))
        for k, kind in enumerate((np.uint64, np.float64, np.float64, np.bool_))
    )
    sizes = np.empty(offsets.size - 1, np.int64)
    work = 20.0 * np.diff(offsets) + (20.0 * n_items if ratio == EVERY else 0.0)
    threads.over_queries(_count_lists, *rows, ratio, queries, columns, sizes, work=work)
    users = read_only(np.flatnonzero(sizes))
    starts = offsets_of(sizes[users])
    codes = np.empty(int(starts[-1]), np.int64)
    work = work[users] + 40.0 * sizes[users]
    threads.over_queries(_fill_lists, starts, users, *rows, stream.key, queries, columns, codes, work=work)
    codes.sort()
    return UserLists(users, ((codes >> 1) % n_items).astype(np.int32), (codes & 1).astype(np.float64), starts)


@kernel
def _number(key, query, index, draw):  # type: ignore[no-untyped-def]
    """Return a uniform number; a separate call, since every inlined copy of the generator takes a second to compile."""
    return uniform(key, query, index, draw)


@kernel
def _count_lists(  # type: ignore[no-untyped-def]
    first, last, offsets, items, never_drawn, relevant, n_items, ratio, queries, shares, sizes
):
    """Fill in the length of each user's list: 0 for a user without relevant items in this part."""
    pool = np.empty(n_items, np.int32)
    for q in range(first, last):
        n_relevant = np.int64(0)
        for row in range(offsets[q], offsets[q + 1]):
            n_relevant += relevant[row]
        if n_relevant == 0:
            sizes[q] = 0
            continue
        rest, expected = _rest(offsets, never_drawn, n_items, shares, q)
        n_drawn = rest if ratio == EVERY else ratio * n_relevant
        if not _plenty(n_drawn, expected):
            held = rest
            if shares[0].size:
                rows = slice(offsets[q], offsets[q + 1])
                held = _list_pool(items[rows], never_drawn[rows], n_items, queries[q], shares, pool)
            n_drawn = min(n_drawn, held)
        sizes[q] = n_relevant + n_drawn


@kernel
def _fill_lists(  # type: ignore[no-untyped-def]
    first, last, lists, users, offsets, items, never_drawn, relevant, n_items, key, queries, shares, out
):
    """Write the lists, relevant items first: (number of the list · n_items + number of the item) · 2 + relevant."""
    pool = np.empty(n_items, np.int32)
    for at in range(first, last):
        q = users[at]
        rated, excluded = items[offsets[q] : offsets[q + 1]], never_drawn[offsets[q] : offsets[q + 1]]
        place = lists[at]
        for row in range(offsets[q], offsets[q + 1]):
            if relevant[row]:
                out[place] = (at * n_items + items[row]) * 2 + 1
                place += 1
        n_drawn = lists[at + 1] - place
        if not n_drawn:
            continue
        if _plenty(n_drawn, _rest(offsets, never_drawn, n_items, shares, q)[1]):
            _draw(rated, excluded, n_items, key, queries[q], shares, pool[:n_drawn])
        else:
            size = _list_pool(rated, excluded, n_items, queries[q], shares, pool)
            for i in range(n_drawn):  # the beginning of a shuffle
                other = i + np.int64(_number(key, queries[q], i, 0) * (size - i))
                pool[i], pool[other] = pool[other], pool[i]
        for i in range(n_drawn):
            out[place + i] = (at * n_items + pool[i]) * 2


@kernel
def _rest(offsets, never_drawn, n_items, shares, q):  # type: ignore[no-untyped-def]
    """Return how many items are not known to be relevant, and how many of them this part owns on average."""
    rest = n_items
    for row in range(offsets[q], offsets[q + 1]):
        rest -= never_drawn[row]
    share = 1.0
    for s in range(shares[0].size):
        width = shares[2][s] - shares[1][s]
        share *= width if shares[3][s] else 1.0 - width
    return rest, share * rest


@kernel(inline=True)
def _plenty(n_drawn, expected):  # type: ignore[no-untyped-def]
    return expected >= _SURE and 2 * n_drawn <= expected


@kernel
def _owned(item, query, shares):  # type: ignore[no-untyped-def]
    """Whether this part owns an item that is not relevant."""
    for s in range(shares[0].size):
        place = _number(shares[0][s], query, item, 0)
        if (shares[1][s] <= place < shares[2][s]) != shares[3][s]:
            return False
    return True


@kernel
def _list_pool(rated, excluded, n_items, query, shares, pool):  # type: ignore[no-untyped-def]
    """List every item that may be drawn, and return their number."""
    count, row = 0, 0
    for item in range(n_items):
        while row < rated.size and rated[row] < item:
            row += 1
        if row < rated.size and rated[row] == item and excluded[row]:
            continue
        if _owned(item, query, shares):
            pool[count] = item
            count += 1
    return count


@kernel
def _draw(rated, excluded, n_items, key, query, shares, out):  # type: ignore[no-untyped-def]
    """Draw distinct items with equal probability, skipping those that may not be drawn."""
    drawn = empty_set(out.size)
    count, number = 0, 0
    while count < out.size:
        item = np.int32(_number(key, query, number >> 1, number & 1) * n_items)
        number += 1
        row = np.searchsorted(rated, item)
        if (row < rated.size and rated[row] == item and excluded[row]) or not _owned(item, query, shares):
            continue
        if insert(drawn, np.int64(item)):
            out[count] = item
            count += 1
