"""Interleaved lists of two rankings, rebuilt from the key of the impression alone."""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankwise import Stream, check, moved
from rankwise.base.compiling import kernel
from rankwise.base.stream import philox_word

METHODS: Final = ("team_draft", "balanced")
A, B, NEITHER = 0, 1, -1  # teams in kernels


class TwoLists(NamedTuple):
    """Two rankings for each query, flat; documents of a query are numbered in the order of a, then of b."""

    b: NDArray[np.int64]
    offsets: NDArray[np.int64]
    """Where the documents of each query begin, and below those of a and those of b."""
    a_offsets: NDArray[np.int64]
    b_offsets: NDArray[np.int64]


class Interleaved(NamedTuple):
    """An interleaved list; made by :func:`interleave`."""

    ranking: list[Any]
    """The documents, as they are shown."""
    teams: list[str | None]
    """The ranking that each document is from, "a" or "b"; None where a click says nothing about either."""


@moved.renamed("rw.judging.interleave")
def interleave(
    a: Sequence[Any], b: Sequence[Any], *, cutoff: int = 10, key: str | int, seed: int = 0, method: str = "team_draft"
) -> Interleaved:
    """Return a list of ``cutoff`` documents from two rankings, to be shown to a user.

    ``key`` is the id of the impression, as text (7 and "7" are the same). Key and seed alone decide the coins, on any
    machine: a log needs neither lists nor teams, :func:`rankwise.judging.interleaving` rebuilds them. In a *team draft*
    (Radlinski et al. 2008) each ranking in turn chooses its first document that is not in the list yet; a coin decides
    who begins whenever both have chosen equally often. *Balanced* (Joachims 2002) merges by rank, with one coin. A
    click counts for neither where both rankings begin alike, and after one of them has run out of documents.

    >>> shown = interleave(["d3", "d1", "d2"], ["d1", "d4", "d3"], key="search-8171", seed=7)
    >>> shown.ranking, shown.teams
    (['d1', 'd3', 'd4', 'd2'], ['b', 'a', 'b', 'a'])
    """
    check.choice("method", method, METHODS)
    for ranking in (a, b):
        if isinstance(ranking, str) or len(set(ranking)) < len(ranking):
            what = "a ranking must be a list of different documents, the best first"
            raise check.error(what, got=repr(ranking)[:80])
    first, second = (list(ranking)[: check.integer("cutoff", cutoff, least=1)] for ranking in (a, b))
    documents = list(dict.fromkeys([*first, *second]))
    codes = {document: code for code, document in enumerate(documents)}
    offsets = (np.array([0, len(part)]) for part in (documents, first, second))
    lists = TwoLists(np.array([codes[one] for one in second], np.int64), *offsets)
    shown, teams = np.empty(cutoff, np.int64), np.empty(cutoff, np.int64)
    size = merge(lists, 0, cutoff, draw_coins([str(key)], seed)[0], method == "team_draft", shown, teams)
    return Interleaved(
        [documents[code] for code in shown[:size]], [{A: "a", B: "b"}.get(team) for team in teams[:size].tolist()]
    )


def draw_coins(keys: Sequence[str], seed: int) -> NDArray[np.uint64]:
    """Return 64 coins, the bits of a word, for each key."""
    stream = Stream(seed, query_ids=np.asarray(keys, np.str_)).child("interleave")
    words = stream.queries(len(keys)).copy()
    _replace_by_coins(stream.key, words)
    return words


@kernel
def _replace_by_coins(key, words):  # type: ignore[no-untyped-def]
    for i in range(words.size):
        words[i] = philox_word(key, words[i])


@kernel
def merge(lists, q, k, coins, team_draft, documents, teams):  # type: ignore[no-untyped-def]
    """Fill the interleaved list of a query and its teams, and return its length; a has documents 0, 1, … n_a − 1."""
    n_a = lists.a_offsets[q + 1] - lists.a_offsets[q]
    b = lists.b[lists.b_offsets[q] : lists.b_offsets[q + 1]]
    used = np.zeros(lists.offsets[q + 1] - lists.offsets[q], np.bool_)
    size = 0
    while size < min(k, n_a, b.size) and b[size] == size:
        documents[size], teams[size], used[size] = size, NEITHER, True
        size += 1
    i = j = prefix = size
    coin, alone = bool(coins & np.uint64(1)), False
    from_b = coin
    while size < min(k, used.size):
        while i < n_a and used[i]:
            i += 1
        while j < b.size and used[b[j]]:
            j += 1
        if not team_draft:
            alone = i == n_a or j == b.size
            from_b = j < i or (i == j and coin)
        elif alone or (size - prefix) % 2 == 1:
            from_b = not from_b
        else:
            # A round counts if both can choose whatever the coin: else a coin would leave one with more documents.
            last = i < n_a and j < b.size and i == b[j] and (used[i + 1 : n_a].all() or used[b[j + 1 :]].all())
            alone = bool(i == n_a or j == b.size or last)
            from_b = bool(coins >> np.uint64((size - prefix) // 2 % 64) & np.uint64(1))
        document = i if j == b.size or (i < n_a and (alone or not from_b)) else b[j]
        documents[size], teams[size], used[document] = document, NEITHER if alone else int(from_b), True
        size += 1
    return size
