"""Which items a user's list holds: the relevant ones of a part, and others drawn from the rest of the catalogue.

Everything is drawn for one user at a time, from numbers that depend on the user's id, the item's place in the catalogue
and the seed: the order of users, threads and the way users are divided among machines never change a list.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import threads
from rankwise.arrays import offsets_of, read_only
from rankwise.compiling import kernel
from rankwise.data.interactions.parts import Flags, Share
from rankwise.stream import Stream, uniform

# From this many expected items on, a pool that should be twice as large as what is drawn from it always is
# (a chance of e^−50 against it), and need not be listed.
_SURE = 400
EVERY = -1


class Rated(NamedTuple):
    """What lists are made from: users' rated items, ascending, and flags of them."""

    offsets: NDArray[np.int64]
    items: NDArray[np.int32]
    own: Flags
    """Relevant, and of this part: these are on the lists."""
    known: Flags
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
    """Make the lists of a part: own items with label 1, drawn ones with 0.

    ``ratio`` is the number of items drawn for each own one, or EVERY; where there are not enough, all are taken.
    """
    offsets, items, n_items = rated.offsets, read_only(rated.items), rated.n_items
    own, known = read_only(rated.own), read_only(rated.known)
    queries = read_only(stream.queries(offsets.size - 1))
    columns = tuple(
        read_only(np.array([share[k] for share in shares], kind))
        for k, kind in enumerate((np.uint64, np.float64, np.float64, np.bool_))
    )
    sizes = np.empty(offsets.size - 1, np.int64)
    work = 20.0 * np.diff(offsets) + (20.0 * n_items if ratio == EVERY else 0.0)
    threads.over_queries(_count_lists, offsets, items, known, own, n_items, ratio, queries, columns, sizes, work=work)
    users = read_only(np.flatnonzero(sizes))
    starts = offsets_of(sizes[users])
    codes = np.empty(int(starts[-1]), np.int64)
    threads.over_queries(
        *(
            _fill_lists,
            starts,
            read_only(users),
            offsets,
            items,
            known,
            own,
            n_items,
            stream.key,
            queries,
            columns,
            codes,
        ),
        work=work[users] + 40.0 * sizes[users],
    )
    codes.sort()
    return UserLists(users, ((codes >> 1) % n_items).astype(np.int32), (codes & 1).astype(np.float64), starts)


@kernel
def _number(key, query, index, draw):  # type: ignore[no-untyped-def]
    """Give a uniform; as a call of its own, since every copy of the generator's code takes a second to compile."""
    return uniform(key, query, index, draw)


@kernel
def _count_lists(  # type: ignore[no-untyped-def]
    first, last, offsets, items, known, own, n_items, ratio, queries, shares, sizes
):
    """Find how many items each user's list will have: 0 for a user without relevant items in this part."""
    pool = np.empty(n_items, np.int32)
    for q in range(first, last):
        relevant = np.int64(0)
        for row in range(offsets[q], offsets[q + 1]):
            relevant += own[row]
        if relevant == 0:
            sizes[q] = 0
            continue
        rest, expected = _rest(offsets, known, n_items, shares, q)
        wanted = rest if ratio == EVERY else ratio * relevant
        if not _plenty(wanted, expected):
            held = rest
            if shares[0].size:
                rows = slice(offsets[q], offsets[q + 1])
                held = _list_pool(items[rows], known[rows], n_items, queries[q], shares, pool)
            wanted = min(wanted, held)
        sizes[q] = relevant + wanted


@kernel
def _fill_lists(  # type: ignore[no-untyped-def]
    first, last, lists, users, offsets, items, known, own, n_items, key, queries, shares, out
):
    """Write the lists, relevant items first: (number of the list · n_items + number of the item) · 2 + relevant."""
    pool = np.empty(n_items, np.int32)
    for at in range(first, last):
        q = users[at]
        mine, given = items[offsets[q] : offsets[q + 1]], known[offsets[q] : offsets[q + 1]]
        place = lists[at]
        for row in range(offsets[q], offsets[q + 1]):
            if own[row]:
                out[place] = (at * n_items + items[row]) * 2 + 1
                place += 1
        wanted = lists[at + 1] - place
        if not wanted:
            continue
        if _plenty(wanted, _rest(offsets, known, n_items, shares, q)[1]):
            _draw(mine, given, n_items, key, queries[q], shares, pool[:wanted])
        else:
            size = _list_pool(mine, given, n_items, queries[q], shares, pool)
            for i in range(wanted):  # the beginning of a shuffle
                other = i + np.int64(_number(key, queries[q], i, 0) * (size - i))
                pool[i], pool[other] = pool[other], pool[i]
        for i in range(wanted):
            out[place + i] = (at * n_items + pool[i]) * 2


@kernel
def _rest(offsets, known, n_items, shares, q):  # type: ignore[no-untyped-def]
    """How many items are not known to be relevant, and how many of them this part owns on average."""
    rest = n_items
    for row in range(offsets[q], offsets[q + 1]):
        rest -= known[row]
    share = 1.0
    for s in range(shares[0].size):
        width = shares[2][s] - shares[1][s]
        share *= width if shares[3][s] else 1.0 - width
    return rest, share * rest


@kernel(inline=True)
def _plenty(wanted, expected):  # type: ignore[no-untyped-def]
    return expected >= _SURE and 2 * wanted <= expected


@kernel
def _owned(item, query, shares):  # type: ignore[no-untyped-def]
    """Whether this part owns an item that is not relevant."""
    for s in range(shares[0].size):
        place = _number(shares[0][s], query, item, 0)
        if (shares[1][s] <= place < shares[2][s]) != shares[3][s]:
            return False
    return True


@kernel
def _list_pool(mine, given, n_items, query, shares, pool):  # type: ignore[no-untyped-def]
    """List every item that may be drawn, and say how many there are."""
    count, row = 0, 0
    for item in range(n_items):
        while row < mine.size and mine[row] < item:
            row += 1
        if row < mine.size and mine[row] == item and given[row]:
            continue
        if _owned(item, query, shares):
            pool[count] = item
            count += 1
    return count


@kernel
def _draw(mine, given, n_items, key, query, shares, out):  # type: ignore[no-untyped-def]
    """Draw different items, each as likely as another, passing over those that may not be drawn."""
    bits = 3
    while 2**bits < 2 * out.size:
        bits += 1
    mask = 2**bits - 1
    taken = np.full(mask + 1, -1, np.int32)
    count, number = 0, 0
    while count < out.size:
        item = np.int32(_number(key, query, number >> 1, number & 1) * n_items)
        number += 1
        row = np.searchsorted(mine, item)
        if (row < mine.size and mine[row] == item and given[row]) or not _owned(item, query, shares):
            continue
        place = np.int64(item) & mask
        while taken[place] != -1 and taken[place] != item:
            place = (place + 1) & mask
        if taken[place] == -1:
            taken[place] = item
            out[count] = item
            count += 1
