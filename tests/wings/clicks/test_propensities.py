"""Randomized traffic, curves by segment, and arguments that do not go together."""

import numpy as np
import pytest

from rankwise.clicks import propensities
from rankwise.wings.clicks.positions.allpairs import PositionSwaps
from tests.refusals import refusal, refuses
from tests.wings.clicks.logs import CURVE, exact_log, rankings


def shuffled_rows(n_queries=12, lengths=(6,)):
    """Return every document of every query at every position of its list, as often at each."""
    return [
        (query, document, position)
        for query in range(n_queries)
        for document in range(lengths[query % len(lengths)])
        for position in range(1, lengths[query % len(lengths)] + 1)
    ]


def test_shuffled_traffic_is_a_ratio_of_click_rates():
    log = exact_log(shuffled_rows())
    bias = propensities(log, "randomized")
    clicks = np.bincount(log.positions, log.clicks)[1:]
    np.testing.assert_allclose(bias.alpha, clicks / clicks[0], rtol=1e-6)
    np.testing.assert_allclose(bias.alpha, CURVE, rtol=1e-6)


def test_few_shuffles_are_compared_by_query():
    random = np.random.default_rng(1)
    rows = [(q, int(d), k + 1) for q in range(60) for _ in range(4) for k, d in enumerate(random.permutation(6))]
    log = exact_log(rows, impressions=[1] * len(rows), draw=random)
    clicks = np.bincount(log.positions, log.clicks)[1:]
    np.testing.assert_allclose(propensities(log, "randomized").alpha, clicks / clicks[0], rtol=1e-6)


def test_lists_of_different_lengths_do_not_confound_shuffled_traffic():
    relevance = np.random.default_rng(0).uniform(0.2, 0.8, (12, 6)) * np.where(np.arange(12) % 2, 0.2, 1.0)[:, None]
    log = exact_log(shuffled_rows(lengths=(3, 6)), relevance=relevance)
    np.testing.assert_allclose(propensities(log, "randomized").alpha, CURVE, rtol=1e-6)


def test_traffic_that_was_not_shuffled_is_refused_and_the_shuffled_part_can_be_named():
    fixed = [(query, document, document + 1) for query in range(12) for document in range(6)]
    rows = fixed + shuffled_rows()
    log = exact_log(
        rows,
        rankers=[0] * len(fixed) + [1] * (len(rows) - len(fixed)),
        impressions=[9e3] * len(fixed) + [100] * (len(rows) - len(fixed)),
    )
    with refusal(what="…shuffled by chance", got="chances of a document that differ…"):
        propensities(log, "randomized")
    np.testing.assert_allclose(propensities(log, "randomized", ranker="ranker 1").alpha, CURVE, rtol=1e-6)
    refuses(lambda: propensities(log, "randomized", ranker="ranker 9"), what="the ranker must be in the log")


def in_orders(orders, n_queries=60, times=400):
    """Return a log whose traffic is shared by fixed orders, the best document first in the first of them."""
    relevance = np.sort(np.random.default_rng(3).uniform(0.05, 0.9, (n_queries, 6)))[:, ::-1]
    rows = [(query, document, k + 1) for query in range(n_queries) for one in orders for k, document in enumerate(one)]
    return exact_log(rows, relevance=relevance, impressions=[times] * len(rows))


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (in_orders([range(6), range(5, -1, -1)]), "positions 1, 6 and 2, 5 and 3 to 4 that never exchange a document"),
        (in_orders([range(6), range(5, -1, -1), np.roll(range(6), 1)]), "chances of a document that differ"),
        (in_orders([range(6)]), "documents at one position each"),
        (in_orders([np.roll(range(6), k) for k in range(2)], times=1, n_queries=2), "too seldom"),
    ],
)
def test_a_few_fixed_orders_are_not_shuffled(log, message):
    with pytest.raises(ValueError, match=f"shuffled by chance: got .*{message}"):
        propensities(log, "randomized")


def segmented(curves, swaps=(True, True), n_queries=60, draw=None):
    rows, segments = [], []
    for segment, several in enumerate(swaps):
        for query in range(n_queries):
            part = [
                (query, d, (d + query * shift) % 4 + 1) for d in range(4) for shift in ((0, 1) if several else (0,))
            ]
            part = list(dict.fromkeys(part))
            rows += part
            segments += [segment] * len(part)
    return exact_log(rows, alpha=np.array(curves), segments=segments, impressions=[2000] * len(rows), draw=draw)


def test_segments_have_their_own_curves_where_they_differ():
    curves = [[1.0, 0.7, 0.5, 0.4], [1.0, 0.4, 0.2, 0.1]]
    bias = propensities(segmented(curves), segments=True, resamples=2)
    assert bias.by_segment is not None
    np.testing.assert_allclose(bias.by_segment, curves, rtol=0.02)
    assert bias.segment_names == ("segment 0", "segment 1")
    np.testing.assert_array_equal(bias.of(np.array([2]), np.array([1]))[0], bias.by_segment[1, 1])
    assert any("the width that predicts other queries best" in text for text in bias.assumptions)


def test_segments_that_are_alike_share_the_curve():
    curves = [[1.0, 0.6, 0.4, 0.3]] * 2
    bias = propensities(segmented(curves, draw=np.random.default_rng(0)), segments=True, resamples=2)
    assert bias.by_segment is not None
    apart = np.abs(bias.by_segment / bias.alpha - 1).max()
    assert apart < 0.02


def test_the_ridge_pulls_to_the_common_curve():
    log = segmented([[1.0, 0.7, 0.5, 0.4], [1.0, 0.4, 0.2, 0.1]])
    swaps = PositionSwaps.of(log, log.pairs, by_segment=True)
    center, sums = np.log([1.0, 0.5, 0.3, 0.2]), swaps.sums[1].sum(0)
    curves = [swaps.fit(sums, center, ridge) for ridge in (0.0, 1e3, 1e5, 1e12)]
    np.testing.assert_allclose(np.exp(curves[0]), [1.0, 0.4, 0.2, 0.1], rtol=1e-6)
    np.testing.assert_allclose(curves[-1], center, atol=1e-5)
    gaps = [np.abs(curve - center).max() for curve in curves]
    assert gaps == sorted(gaps, reverse=True)


def test_a_segment_without_swaps_has_the_common_curve_and_it_is_said():
    bias = propensities(segmented([[1.0, 0.6, 0.4, 0.3]] * 2, swaps=(True, False)), segments=True, resamples=2)
    assert bias.by_segment is not None
    np.testing.assert_allclose(bias.by_segment[1], bias.alpha)
    assert any("segment 'segment 1' has the common curve at positions 1 to 4" in text for text in bias.assumptions)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"method": "harvesting"}, {"what": "unknown method"}),
        ({"features": object()}, {"what": "features= belongs to method='em'"}),
        ({"method": "em", "features": object(), "trust": True}, {"what": "trust=True works without features"}),
        ({"resamples": 1}, {"what": "resamples must be a whole number of at least 2"}),
        ({"level": 1.0}, {"what": "level must be a number in (0, 1)"}),
        ({"method": "em", "segments": True}, {"what": "segments=True works with…"}),
        ({"trust": True, "segments": True}, {"what": "segments=True works with…"}),
    ],
)
def test_arguments_that_do_not_go_together(arguments, fields):
    rows, rankers = rankings(12, 4, 3)
    refuses(lambda: propensities(exact_log(rows, rankers=rankers), **arguments), **fields)


def test_a_position_that_was_never_shown_is_named():
    with refusal(what="position bias needs impressions at every position", got="none at 2"):
        propensities(exact_log([(0, 0, 1), (0, 0, 3)]))
