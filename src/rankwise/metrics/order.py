"""Put the documents of one query in order: the whole list, or the top of it with the ties that the cutoff cuts.

Sorting is most of what a ranking metric does, so it is done in linear time for the scores that rankers give: documents
are dealt into as many buckets as there are documents by where their score lies between the lowest and the highest,
which leaves one or two per bucket. Crowded buckets are merge-sorted, so no scores are slow. For a small cutoff one
pass that keeps the best few is faster still.

Scores must not be NaN or +inf here: callers check first. Equal scores keep the order of their rows.
"""

import numba
import numpy as np

AVERAGE, ROW, WORST, BEST = 0, 1, 2, 3
TIES = {"average": AVERAGE, "row": ROW, "worst": WORST, "best": BEST}

_CROWD = 24  # documents up to which insertion beats merging
_SELECT_UP_TO = 40


@numba.njit(cache=True, nogil=True, error_model="numpy")
def order(scores, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the positions of ``scores`` from highest to lowest; equal scores stay in row order."""
    n = scores.size
    keys = np.empty(n, scores.dtype)
    low, high = np.inf, -np.inf
    for score in scores:
        high = max(high, score)
        low = min(low, score if score > -np.inf else np.inf)
    scale = (n - 1) / (high - low)
    if n <= _CROWD or not 0.0 < scale < np.inf or not high - low < np.inf:
        for i in range(n):
            keys[i], out[i] = scores[i], i
        _settle(keys, out, 0, n)
        return
    buckets = np.empty(n, np.int32)
    ends = np.zeros(n + 1, np.int32)
    for i in range(n):
        # Subtraction and multiplication round monotonically: a higher score never lands in a later bucket.
        bucket = np.int32(min((high - scores[i]) * scale, n - 1.0))
        buckets[i] = bucket
        ends[bucket + 1] += 1
    for bucket in range(n):
        ends[bucket + 1] += ends[bucket]
    for i in range(n):
        at = ends[buckets[i]]
        keys[at], out[at] = scores[i], i
        ends[buckets[i]] = at + 1
    start = 0
    for bucket in range(n):
        stop = ends[bucket]
        if stop - start > 1:
            _settle(keys, out, start, stop)
        start = stop


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _settle(keys, rows, start, stop):  # type: ignore[no-untyped-def]
    """Sort one stretch of keys, and the rows with them, keeping equal keys as they are."""
    if stop - start > _CROWD:
        at = start + 1
        while at < stop and keys[at - 1] >= keys[at]:
            at += 1
        if at < stop:
            turn = np.argsort(-keys[start:stop], kind="mergesort")
            keys[start:stop] = keys[start:stop][turn]
            rows[start:stop] = rows[start:stop][turn]
        return
    for i in range(start + 1, stop):
        key, row = keys[i], rows[i]
        at = i
        while at > start and keys[at - 1] < key:
            keys[at], rows[at] = keys[at - 1], rows[at - 1]
            at -= 1
        keys[at], rows[at] = key, row


@numba.njit(cache=True, nogil=True, error_model="numpy")
def ranking(scores, worths, cutoff, ties, out):  # type: ignore[no-untyped-def]
    """Fill ``out`` with the ranking of one query and return how many documents it holds.

    Documents with a score of −inf were not retrieved and never enter. The ranking may end at the cutoff, but a tie
    group that the cutoff cuts is always given whole, because averaged, worst and best ties need all of it. With
    ``ties`` WORST or BEST tied documents stand in ascending or descending order of ``worths``.
    """
    n = scores.size
    if cutoff <= _SELECT_UP_TO and 2 * cutoff < n:
        count = _select(scores, cutoff, out)
    else:
        order(scores, out)
        count = n
        while count > 0 and scores[out[count - 1]] == -np.inf:
            count -= 1
        if count > cutoff:
            keep = cutoff
            while keep < count and scores[out[keep]] == scores[out[keep - 1]]:
                keep += 1
            count = keep
    if ties == WORST or ties == BEST:
        start = 0
        while start < count:
            stop = group_end(scores, out, start, count, AVERAGE)
            if stop - start > 1:
                turn = np.empty(stop - start, np.int64)
                group = worths[out[start:stop]]
                order(group if ties == BEST else -group, turn)
                out[start:stop] = out[start:stop][turn]
            start = stop
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy")
def _select(scores, cutoff, out):  # type: ignore[no-untyped-def]
    """Keep the best ``cutoff`` documents in one pass, then add those that tie with the last of them."""
    best = np.empty(cutoff, scores.dtype)
    count = 0
    bar = -np.inf
    for i in range(scores.size):
        score = scores[i]
        if score > bar:
            at = count if count < cutoff else cutoff - 1
            while at > 0 and best[at - 1] < score:
                best[at], out[at] = best[at - 1], out[at - 1]
                at -= 1
            best[at], out[at] = score, i
            if count < cutoff:
                count += 1
            if count == cutoff:
                bar = best[cutoff - 1]
    if count == cutoff:
        for i in range(out[count - 1] + 1, scores.size):
            if scores[i] == bar:
                out[count] = i
                count += 1
    return count


@numba.njit(cache=True, nogil=True, error_model="numpy", inline="always")
def group_end(scores, ranked, start, count, ties):  # type: ignore[no-untyped-def]
    """Where the group of documents ends that share the rank ``start``: the next place unless ties are averaged."""
    stop = start + 1
    if ties == AVERAGE:
        score = scores[ranked[start]]
        while stop < count and scores[ranked[stop]] == score:
            stop += 1
    return stop
