"""Which items a user's list holds: the relevant ones of a part, and others drawn from the rest of the catalogue.

Everything is drawn for one user at a time, from numbers that depend on the user's id, the item's place in the catalogue
and the seed: the order of users, threads and the way users are divided among machines never change a list.

An item that is not relevant has a place of its own in [0, 1) for every user; parts of a split own intervals of it. So
the lists of two parts have no item in common, however often negatives are drawn anew.
"""

import numba
import numpy as np

from rankwise.stream import uniform

# From this many expected items on, a pool that should be twice as large as what is drawn from it always is
# (a chance of e^−50 against it), and need not be listed.
_SURE = 400
EVERY = -1


@numba.njit(cache=True, nogil=True)
def _number(key, query, index, draw):  # type: ignore[no-untyped-def]
    """Give a uniform; as a call of its own, since every copy of the generator's code takes a second to compile."""
    return uniform(key, query, index, draw)


@numba.njit(cache=True, nogil=True)
def stable_order(codes, count, rows, out):  # type: ignore[no-untyped-def]
    """Sort ``rows`` by their codes below ``count``, in linear time; equal codes stay in the order of ``rows``."""
    starts = np.zeros(count + 1, np.int64)
    for code in codes:
        starts[code + 1] += 1
    for code in range(count):
        starts[code + 1] += starts[code]
    for row in rows:
        out[starts[codes[row]]] = row
        starts[codes[row]] += 1


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_places(first, last, offsets, items, key, queries, out):  # type: ignore[no-untyped-def]
    """Write the random place in (0, 1) of every rated item."""
    for q in range(first, last):
        for row in range(offsets[q], offsets[q + 1]):
            out[row] = _number(key, queries[q], items[row], 0)


@numba.njit(cache=True, nogil=True, error_model="numpy")
def count_lists(  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
def fill_lists(  # type: ignore[no-untyped-def]
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def _plenty(wanted, expected):  # type: ignore[no-untyped-def]
    return expected >= _SURE and 2 * wanted <= expected


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _owned(item, query, shares):  # type: ignore[no-untyped-def]
    """Whether this part owns an item that is not relevant."""
    for s in range(shares[0].size):
        place = _number(shares[0][s], query, item, 0)
        if (shares[1][s] <= place < shares[2][s]) != shares[3][s]:
            return False
    return True


@numba.njit(cache=True, nogil=True, error_model="numpy")
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


@numba.njit(cache=True, nogil=True, error_model="numpy")
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
