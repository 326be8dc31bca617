"""The kernel of pairwise losses Σ w·ℓ(σ(s_better − s_worse)): any loss of a pair with any weight of a pair.

Documents are ranked once, and e^σs is computed once per document, not per pair. The documents of a list are laid out by
gain: the first ranks, which are paired with all others, from the largest gain to the least, then the rest, from the
least to the largest. For one of the first ranks, all documents of smaller gain then form one range, and those of the
rest with larger gain another, at the end. So each pair is visited once, pairs of equal gain never, and the better of
the two is known without a comparison. Ranges begin and end at vector boundaries: see ``tiles.py``.
"""

import numpy as np

from rankwise.base.compiling import kernel
from rankwise.metrics.sorting import longest_of, order_in, scratch_for
from rankwise.objectives.fastmath import exp
from rankwise.objectives.pairwise.cpu.tiles import (
    LANES,
    LOGISTIC,
    NORM_BIAS,
    SHIFT,
    SPAN,
    TILE,
    WIDEST,
    by_margin,
    fill_powers,
    logistic,
)
from rankwise.objectives.pairwise.cpu.weights import DISCOUNTED, RECIPROCAL_RANK, fill_swaps, first_relevant, weigh

_BEYOND = 1e300  # the gain of places outside of a range: pairs have no weight there


@kernel
def pairwise(
    first, last, offsets, scores, rows, gains, document_weights, discounts, distances, settings, value, gradient,
    hessian,
):  # fmt: skip
    """Fill the derivatives of queries ``first`` to ``last``; ``rows`` are sorted by gain."""
    n = longest_of(first, last, offsets)
    tiles = np.empty((2, ((n + LANES) >> SHIFT) + 1), TILE)
    ranked, ranks, sorting = np.empty(n, np.int64), np.empty(n, np.int64), scratch_for(n)
    upper, lower = np.empty(n), np.empty(n)
    for q in range(first, last):
        mine = slice(offsets[q], offsets[q + 1])
        n = offsets[q + 1] - offsets[q]
        gain, row = gains[mine], rows[mine]
        if gain[row[0]] == gain[row[n - 1]]:
            value[q], gradient[mine] = 0.0, 0.0
            if hessian.size:
                hessian[mine] = 0.0
            continue
        score, weights = scores[mine], document_weights[mine] if document_weights.size else document_weights
        order_in(score, ranked[:n], sorting)
        spread = settings.sigma * (score[ranked[0]] - score[ranked[n - 1]])
        start = LANES - n % LANES  # so that the last document ends a vector
        reach = min(settings.truncation, n)
        for k in range(n):
            ranks[np.uint64(ranked[k])] = k
        if settings.weight == RECIPROCAL_RANK:
            reach = min(reach, first_relevant(gain, ranks) + 1)
        top, stop = start + reach, start + n
        _lay_out(start, reach, settings.sigma, score[ranked[0]], score, row, gain, ranks, tiles)
        plain = settings.weight == DISCOUNTED and settings.distance_share == 0.0 and weights.size == 0
        _fill_tiles(start, top, stop, plain, discounts, tiles)
        if not plain:
            fill_swaps(settings.weight, start, stop, weights, discounts, tiles, upper, lower)
        # The norm's division is left out where all scores are equal, as in LightGBM.
        bias, slope = (NORM_BIAS, 1.0 / settings.sigma) if settings.norm and spread > 0.0 else (1.0, 0.0)
        wide = spread > WIDEST
        total, magnitude = _pair_up(
            start, top, stop, bias, slope, wide, plain, weights.size > 0, distances, settings, tiles
        )
        factor = 1.0
        if settings.norm and magnitude > 0.0:
            magnitude *= 2.0 * settings.sigma
            factor = np.log1p(magnitude) / (magnitude * np.log(2.0))
        value[q] = factor * total
        diagonal = hessian[mine] if hessian.size else hessian
        _scatter(start, stop, settings.sigma * factor, settings.sigma, tiles, gradient[mine], diagonal)


@kernel
def _lay_out(start, reach, sigma, highest, scores, rows, gains, ranks, tiles):
    """Fill the tiles with documents: the first ranks by falling gain, then the others by rising gain."""
    n, one = np.uint64(rows.size), np.uint64(1)
    front, back = np.uint64(start), np.uint64(start) + n - one
    for k in range(n):
        row = np.uint64(rows[k])
        rank = ranks[row]
        among_first = np.uint64(rank < reach)  # a number, as a branch would be guessed wrongly
        place = back + among_first * (front - back)
        front += among_first
        back -= one - among_first
        tile, j = tiles[0, np.uint64(place >> np.uint64(SHIFT))], place & np.uint64(SPAN - 1)
        tile.row[j], tile.rank[j] = row, rank
        tile.score[j], tile.value[j] = sigma * (scores[row] - highest), gains[row]


@kernel
def _fill_tiles(start, top, stop, plain, discounts, tiles):
    for number in range(((stop - 1) >> SHIFT) + 1):
        at = number << SHIFT
        n = np.uint64(min(stop - at, SPAN))
        worse, better = tiles[0, number], tiles[1, number]
        for j in range(max(start - at, 0)):
            worse.score[j], worse.value[j], worse.rank[j] = 0.0, 0.0, 0
        for j in range(n):
            worse.power[j] = exp(worse.score[j])
            better.power[j] = 1.0 / worse.power[j]
            better.score[j] = -worse.score[j]
            worse.own_gradient[j] = worse.own_hessian[j] = 0.0
            worse.gradient[j] = better.gradient[j] = worse.hessian[j] = better.hessian[j] = 0.0
        if plain:
            for j in range(n):
                worse.gain[j], better.gain[j] = worse.value[j], -worse.value[j]
                worse.discount[j] = better.discount[j] = discounts[np.uint64(worse.rank[j])]
            for j in range(max(start - at, 0)):  # in front of the first document
                worse.gain[j] = _BEYOND
            for j in range(min(max(top - at, 0), SPAN)):  # better ones are those of the rest
                better.gain[j] = _BEYOND
        else:
            for j in range(n):
                worse.gain[j] = better.gain[j] = 0.0


@kernel
def _pair_up(start, top, stop, bias, slope, wide, plain, weighted, distances, settings, tiles):
    """Pair each of the first documents with all of smaller gain, and with those of the rest of larger gain."""
    total, magnitudes = 0.0, 0.0
    begin, end, after = start, start, stop
    while begin < top:  # documents of equal gain, from the largest to the least
        gain = _value(tiles, begin)
        while end < top and _value(tiles, end) == gain:
            end += 1
        while after > top and _value(tiles, after - 1) > gain:
            after -= 1
        before = after
        while before > top and _value(tiles, before - 1) == gain:
            before -= 1
        for side in range(2):
            first, last = (end, before) if side == 0 else (after, stop)
            if first < last:
                loss, magnitude = _pair_range(
                    begin, end, side, first, last, bias, slope, wide, plain, weighted, distances, settings, tiles
                )
                total += loss
                magnitudes += magnitude
        begin = end
    return total, magnitudes


@kernel
def _value(tiles, place):
    return tiles[0, np.uint64(place >> SHIFT)].value[np.uint64(place & (SPAN - 1))]


@kernel
def _pair_range(begin, end, side, first, last, bias, slope, wide, plain, weighted, distances, settings, tiles):
    """Pair documents of equal gain with a range of partners."""
    sign = 1.0 - 2.0 * side
    gain = sign * _value(tiles, begin) if plain else 1.0
    total, magnitude = 0.0, 0.0
    for number in range(first >> SHIFT, ((last - 1) >> SHIFT) + 1):
        at = number << SHIFT
        begins, ends = max(first - at, 0), min(last - at, SPAN)
        a, b = begins & -LANES, (ends + LANES - 1) & -LANES
        partners, tile = tiles[0, number], tiles[side, number]
        if not plain:
            for j in range(a, begins):
                tile.discount[j] = 0.0
            for j in range(ends, b):
                tile.discount[j] = 0.0
        for place in range(begin, end):
            document_tile, i = tiles[0, place >> SHIFT], place & (SPAN - 1)
            score, discount, power = sign * document_tile.score[i], 0.0, 1.0
            if plain:
                discount = document_tile.discount[i]
            else:
                weigh(side, settings, weighted, distances, document_tile, i, partners, begins, ends, tile.discount)
            if wide:
                fill_powers(a, b, score, tile)
            else:
                power = tiles[1 - side, place >> SHIFT].power[i]
            if settings.loss == LOGISTIC:
                loss, gradient, hessian = logistic(a, b, score, gain, power, discount, 2.0 * bias, 2.0 * slope, tile)
            else:
                loss, gradient, hessian = by_margin(settings.loss, a, b, score, gain, discount, bias, slope, tile)
            total += loss
            magnitude += gradient
            document_tile.own_gradient[i] -= sign * gradient
            document_tile.own_hessian[i] += hessian
    return total, magnitude


@kernel
def _scatter(start, stop, scale, sigma, tiles, gradient, hessian):
    """Fill the derivatives of each document, in its row."""
    for number in range(((stop - 1) >> SHIFT) + 1):
        at = number << SHIFT
        worse, better = tiles[0, number], tiles[1, number]
        for j in range(np.uint64(max(start - at, 0)), np.uint64(min(stop - at, SPAN))):
            row = np.uint64(worse.row[j])
            gradient[row] = scale * (worse.own_gradient[j] + worse.gradient[j] - better.gradient[j])
            if hessian.size:
                hessian[row] = scale * sigma * (worse.own_hessian[j] + worse.hessian[j] + better.hessian[j])
