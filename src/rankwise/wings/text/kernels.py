"""Kernels over an index: inverting it, searching it, and the features of a query with a document.

A field of a document is a segment of ``tokens``, numbers of words: segment ``document · n_fields + field`` begins at
``bounds[segment]``. A posting list belongs to a field and a word: list ``field · n_words + word`` begins at
``lists[list]`` in ``post_documents`` and ``post_counts``.
"""

import heapq
import math

import numpy as np

from rankwise.base.compiling import kernel

PER_FIELD = ("bm25", "lm", "tfidf", "found", "found_idf", "window", "phrase", "first", "length")
"""Features of a field, in the order of :func:`features`."""


@kernel
def count_postings(tokens, bounds, n_fields, n_words, counts, totals):
    """Fill the length of each posting list, and how often its word occurs."""
    last = np.full(n_fields * n_words, -1, np.int64)
    for segment in range(bounds.size - 1):
        document, base = segment // n_fields, segment % n_fields * n_words
        for place in range(bounds[segment], bounds[segment + 1]):
            one = base + tokens[place]
            totals[one] += 1
            if last[one] != document:
                last[one] = document
                counts[one] += 1


@kernel
def fill_postings(tokens, bounds, n_fields, n_words, lists, begin, end, post_documents, post_counts):
    """Fill the posting lists ``begin`` to ``end``, each in the order of documents."""
    ends = lists[begin:end].copy()
    for segment in range(bounds.size - 1):
        document, base = segment // n_fields, segment % n_fields * n_words
        for place in range(bounds[segment], bounds[segment + 1]):
            one = base + tokens[place]
            if one < begin or one >= end:
                continue
            last = ends[one - begin]
            if last > lists[one] and post_documents[last - 1] == document:
                post_counts[last - 1] += 1
            else:
                post_documents[last], post_counts[last] = document, 1
                ends[one - begin] = last + 1


@kernel
def fill_norms(lists, post_documents, post_counts, idf, n_fields, n_words, norms):
    """Fill the Euclidean norm of each segment's weights (1 + ln count)·idf."""
    for field in range(n_fields):
        for word in range(n_words):
            one = field * n_words + word
            for place in range(lists[one], lists[one + 1]):
                weight = (1.0 + math.log(post_counts[place])) * idf[one]
                norms[post_documents[place] * n_fields + field] += weight * weight
    for segment in range(norms.size):
        norms[segment] = math.sqrt(norms[segment])


@kernel
def search(
    first, last, offsets, words, weights, field_weights, lists, post_documents, post_counts, bounds, idf, means, k1, b,
    k, documents, scores,
):  # fmt: skip
    """Fill the ``k`` documents with the highest BM25 for each query, the best first; −1 where there are fewer.

    The score of a document is the weighted sum over fields; of equal scores the first document is taken.
    """
    n_fields = means.size
    n_words = (lists.size - 1) // n_fields
    n_documents = (bounds.size - 1) // n_fields
    total = np.zeros(n_documents)
    is_met = np.zeros(n_documents, np.bool_)
    met = np.empty(n_documents, np.int64)
    for q in range(first, last):
        n_met = 0
        for place in range(offsets[q], offsets[q + 1]):
            for field in range(n_fields):
                one = field * n_words + words[place]
                scale = field_weights[field] * weights[place] * idf[one] * (k1 + 1.0)
                if scale == 0.0:
                    continue
                for post in range(lists[one], lists[one + 1]):
                    document, count = post_documents[post], post_counts[post]
                    segment = document * n_fields + field
                    length = bounds[segment + 1] - bounds[segment]
                    total[document] += scale * count / (count + k1 * (1.0 - b + b * length / means[field]))
                    if not is_met[document]:
                        is_met[document] = True
                        met[n_met] = document
                        n_met += 1
        fill_best(total, met[:n_met], documents[q * k : (q + 1) * k], scores[q * k : (q + 1) * k])
        for place in range(n_met):
            total[met[place]] = 0.0
            is_met[met[place]] = False


@kernel
def best_of_all(first, last, offsets, totals, everything, documents, scores):
    """Fill the documents with the highest of ``totals``, a row for each query, as :func:`search` does."""
    k = offsets[1]
    for q in range(first, last):
        fill_best(totals[q], everything, documents[q * k : (q + 1) * k], scores[q * k : (q + 1) * k])


@kernel
def fill_best(total, met, documents, scores):
    """Fill the best of the documents that were met, by a heap of those that are kept; of equal scores the first."""
    k = documents.size
    documents[:] = -1
    heap = [(total[document], -document) for document in met[:k]]
    heapq.heapify(heap)
    for document in met[k:]:
        if total[document] >= heap[0][0]:
            heapq.heappushpop(heap, (total[document], -document))
    for place in range(len(heap) - 1, -1, -1):
        scores[place], document = heapq.heappop(heap)
        documents[place] = -document


@kernel
def features(
    first, last, offsets, words, weights, pairs, documents, spoken, texts, tokens, bounds, idf, share, norms, means, k1,
    b, mu, out,
):  # fmt: skip
    """Fill the features of each query with each of its documents: for every field those of :data:`PER_FIELD`.

    Distinct words of query q are ``words[offsets[q]:offsets[q + 1]]`` with their ``weights``, how often it says them;
    ``texts[spoken[q]:spoken[q + 1]]`` is all that it says, −1 for words that no document has; its documents are
    ``documents[pairs[q]:pairs[q + 1]]``. Words have numbers below ``idf.size / n_fields``.
    """
    n_fields = means.size
    n_words = idf.size // n_fields
    slot = np.full(n_words, -1, np.int64)
    most, longest = 1, 1
    for q in range(first, last):
        most = max(most, offsets[q + 1] - offsets[q])
        for pair in range(pairs[q], pairs[q + 1]):
            for field in range(n_fields):
                segment = documents[pair] * n_fields + field
                longest = max(longest, bounds[segment + 1] - bounds[segment])
    counts = np.zeros(most, np.int64)
    places, slots = np.empty(longest, np.int64), np.empty(longest, np.int64)
    for q in range(first, last):
        asked, times = words[offsets[q] : offsets[q + 1]], weights[offsets[q] : offsets[q + 1]]
        said = texts[spoken[q] : spoken[q + 1]]
        for number in range(asked.size):
            slot[asked[number]] = number
        for pair in range(pairs[q], pairs[q + 1]):
            for field in range(n_fields):
                segment = documents[pair] * n_fields + field
                start, stop = bounds[segment], bounds[segment + 1]
                n_hits = 0
                for place in range(start, stop):
                    number = slot[tokens[place]]
                    if number >= 0:
                        counts[number] += 1
                        places[n_hits], slots[n_hits] = place - start, number
                        n_hits += 1
                row = out[pair, field * 9 : field * 9 + 9]
                base = field * n_words
                length = stop - start
                bm25, lm, product, query_norm, found, found_idf, asked_idf = 0.0, 0.0, 0.0, 0.0, 0, 0.0, 0.0
                for number in range(asked.size):
                    one, count, time = base + asked[number], counts[number], times[number]
                    weight = (1.0 + math.log(time)) * idf[one]
                    query_norm += weight * weight
                    asked_idf += idf[one]
                    if share[one] > 0.0:
                        lm += time * (math.log(1.0 + count / (mu * share[one])) + math.log(mu / (length + mu)))
                    if count:
                        bm25 += (
                            time * idf[one] * count * (k1 + 1.0) / (count + k1 * (1.0 - b + b * length / means[field]))
                        )
                        product += weight * (1.0 + math.log(count)) * idf[one]
                        found += 1
                        found_idf += idf[one]
                row[0], row[1] = bm25, lm
                row[2] = product / (norms[segment] * math.sqrt(query_norm)) if product > 0.0 else 0.0
                row[3] = found / asked.size if asked.size else 0.0
                row[4] = found_idf / asked_idf if asked_idf > 0.0 else 0.0
                for hit in range(n_hits):
                    counts[slots[hit]] = 0
                row[5] = _window(places, slots, n_hits, found, counts)
                row[6] = _has_phrase(said, tokens[start:stop], places, n_hits)
                row[7] = places[0] if n_hits else np.nan
                row[8] = length
        for number in range(asked.size):
            slot[asked[number]] = -1


@kernel
def _window(places, slots, n_hits, found, counts):
    """Return the words of the smallest window with all that were found; NaN if none was. ``counts`` are zeros again."""
    if not found:
        return np.nan
    smallest, inside, begin = np.inf, 0, 0
    for end in range(n_hits):
        counts[slots[end]] += 1
        inside += counts[slots[end]] == 1
        while inside == found:
            smallest = min(smallest, places[end] - places[begin] + 1)
            counts[slots[begin]] -= 1
            inside -= counts[slots[begin]] == 0
            begin += 1
    while begin < n_hits:
        counts[slots[begin]] = 0
        begin += 1
    return smallest


@kernel
def _has_phrase(said, segment, places, n_hits):
    """Return 1 where a segment says word by word what the query says."""
    if said.size == 0:
        return 0.0
    for hit in range(n_hits):
        start = places[hit]
        if start + said.size <= segment.size:
            same = 0
            while same < said.size and segment[start + same] == said[same]:
                same += 1
            if same == said.size:
                return 1.0
    return 0.0
