"""The order of the documents of one query: all of them, or the top with the ties that the cutoff would cut.

Sorting is most of the work of a ranking metric, so it takes linear time for typical scores: documents are distributed
into about as many buckets as there are documents, by where their score lies between the lowest and the highest, which
leaves one or two per bucket. Crowded buckets are merge-sorted, so no distribution of scores is slow. For a small cutoff
only the documents of the first buckets are sorted.

Scores must not be NaN or +inf here: callers check first. Equal scores keep the order of their rows.
"""

import numpy as np

from rankwise.base.compiling import REORDERED, kernel

AVERAGE, ROW, WORST, BEST = 0, 1, 2, 3
TIES = {"average": AVERAGE, "row": ROW, "worst": WORST, "best": BEST}

_CROWD = 24  # documents up to which sorting by insertion beats the rest


@kernel
def longest_of(first, last, offsets):
    """Return the number of documents of the longest of these queries: how large a kernel's buffers must be."""
    longest = 0
    for q in range(first, last):
        longest = max(longest, offsets[q + 1] - offsets[q])
    return longest


@kernel
def scratch_for(longest):
    """Return the scratch arrays for ordering up to ``longest`` documents."""
    return np.empty(longest), np.empty(longest, np.int32), np.empty(longest + 1, np.int32)


@kernel
def order_in(scores, out, scratch):
    """Fill ``out`` with the positions of ``scores`` from highest to lowest; equal scores stay in row order.

    ``scratch`` is from :func:`scratch_for`; many queries share it.
    """
    n = scores.size
    keys, buckets, ends = scratch
    high, scale = _span(scores, n)
    if scale == 0.0:
        for i in range(n):
            keys[i], out[i] = scores[i], i
        sort_down(keys, out, 0, n)
        return
    _distribute(scores, high, scale, buckets, ends)
    crowd = np.int32(0)
    for bucket in range(np.uint32(n)):
        crowd = max(crowd, ends[bucket + np.uint32(1)])
        ends[bucket + np.uint32(1)] += ends[bucket]
    for i in range(np.uint32(n)):
        place = np.uint32(buckets[i])
        at = np.uint32(ends[place])
        ends[place] += np.int32(1)
        keys[at], out[at] = scores[i], i
    if crowd <= _CROWD:
        _insert(keys, out, 0, n)  # never crosses buckets, and one loop is faster than a loop over buckets
        return
    start = np.int64(0)
    for bucket in range(n):
        stop = np.int64(ends[bucket])
        if stop - start > 1:
            sort_down(keys, out, start, stop)
        start = stop


@kernel
def ranking(scores, gains, cutoff, ties, out, scratch):
    """Fill ``out`` with the ranking of one query and return how many documents it holds.

    Documents with a score of −inf were not retrieved and are left out. The ranking may end at the cutoff, but includes
    every document tied with the last, because averaged, worst and best ties need the whole group. With ``ties`` WORST
    or BEST, tied documents are in ascending or descending order of ``gains``. ``scratch`` is from :func:`scratch_for`.
    """
    if 2 * cutoff < scores.size:
        count = _top(scores, cutoff, out, scratch)
    else:
        order_in(scores, out, scratch)
        count = scores.size
    while count > 0 and scores[out[count - 1]] == -np.inf:
        count -= 1
    if count > cutoff:
        last = scores[out[cutoff - 1]]
        while scores[out[count - 1]] < last:
            count -= 1
    if ties in (WORST, BEST):
        keys, start = scratch[0], 0
        while start < count:
            stop = group_end(scores, out, start, count, AVERAGE)
            if stop - start > 1:
                for at in range(start, stop):
                    keys[at] = gains[out[at]] if ties == BEST else -gains[out[at]]
                sort_down(keys, out, start, stop)
            start = stop
    return count


@kernel(inline=True)
def group_end(scores, ranked, start, count, ties):
    """Return where the tie group that begins at ``start`` ends: the next place unless ties are averaged."""
    stop = start + 1
    if ties == AVERAGE:
        score = scores[ranked[start]]
        while stop < count and scores[ranked[stop]] == score:
            stop += 1
    return stop


@kernel
def _top(scores, cutoff, out, scratch):
    """Fill ``out`` with the best ``cutoff`` documents or more, ties with the last of them included."""
    n = scores.size
    keys, buckets, counts = scratch
    high, scale = _span(scores, n)
    count = 0
    if scale == 0.0:
        for i in range(n):
            out[i] = i
        count = n
    else:
        _distribute(scores, high, scale, buckets, counts)
        bar, enough = 0, counts[1]
        while enough < cutoff:
            bar += 1
            enough += counts[bar + 1]
        for i in range(n):
            out[count] = i
            count += buckets[i] <= bar
    for at in range(count):
        keys[at] = scores[out[at]]
    sort_down(keys, out, 0, count)
    return count


@kernel(fastmath=REORDERED)
def _span(scores, n):
    """Return the highest score, and the factor from distances to it to n buckets (0: buckets would not help)."""
    low, high = np.inf, -np.inf
    for score in scores:
        high = max(high, score)
        low = min(low, score if score > -np.inf else np.inf)
    scale = (n - 1) / (high - low)
    return high, scale if n > _CROWD and 0.0 < scale < np.inf and high - low < np.inf else 0.0


@kernel
def _distribute(scores, high, scale, buckets, counts):
    """Distribute documents into buckets, highest scores first; ``counts[b + 1]`` counts those in bucket b."""
    last = scores.size - 1.0
    counts[: scores.size + 1] = 0
    for i in range(scores.size):
        # Subtraction and multiplication round monotonically: a higher score never lands in a later bucket.
        buckets[i] = np.int32(min((high - scores[i]) * scale, last))
    for i in range(scores.size):
        counts[np.uint32(buckets[i]) + np.uint32(1)] += 1


@kernel
def sort_down(keys, rows, start, stop):
    """Sort keys ``start`` to ``stop`` from high to low, and the rows with them; stable."""
    if stop - start <= _CROWD:
        _insert(keys, rows, start, stop)
        return
    at = start + 1
    while at < stop and keys[at - 1] >= keys[at]:
        at += 1
    if at == stop:
        return
    for run in range(start, stop, _CROWD):
        _insert(keys, rows, run, min(run + _CROWD, stop))
    left_keys, left_rows = np.empty(stop - start), np.empty(stop - start, rows.dtype)
    width = _CROWD
    while width < stop - start:
        for left in range(start, stop - width, 2 * width):
            _merge(keys, rows, left_keys, left_rows, left, left + width, min(left + 2 * width, stop))
        width *= 2


@kernel
def _insert(keys, rows, start, stop):
    one = np.uint32(1)
    for i in range(np.uint32(start) + one, np.uint32(stop)):
        key = keys[i]
        if keys[i - one] < key:
            row, at = rows[i], np.uint32(i)
            while True:
                keys[at], rows[at] = keys[at - one], rows[at - one]
                at -= one
                if at == start or keys[at - one] >= key:
                    break
            keys[at], rows[at] = key, row


@kernel
def _merge(keys, rows, left_keys, left_rows, left, middle, stop):
    """Merge two adjacent sorted ranges in place; the left one is copied first."""
    size = middle - left
    for i in range(size):
        left_keys[i], left_rows[i] = keys[left + i], rows[left + i]
    i_left, right, at = 0, middle, left
    while i_left < size and right < stop:
        if keys[right] > left_keys[i_left]:
            keys[at], rows[at] = keys[right], rows[right]
            right += 1
        else:
            keys[at], rows[at] = left_keys[i_left], left_rows[i_left]
            i_left += 1
        at += 1
    while i_left < size:
        keys[at], rows[at] = left_keys[i_left], left_rows[i_left]
        i_left += 1
        at += 1
