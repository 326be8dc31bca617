"""Weights of a blend: they find what is good, drop what is noise, and do not overfit few queries."""

from itertools import pairwise
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.ensembles.blend_weights import AVERAGE, Weights, average_weights, choose, choose_weights
from tests.refusals import refusal, refuses

NDCG = rw.metric("ndcg@10")
DOCS = 20


def sample(rng, n_queries, qualities, docs=DOCS):
    """Members' scores: labels times a quality, and noise of which half is common to all."""
    labels = rng.choice(5, p=[0.5, 0.25, 0.15, 0.07, 0.03], size=n_queries * docs).astype(float)
    common = rng.normal(size=labels.size)
    noise = [(common + rng.normal(size=labels.size)) / np.sqrt(2) for _ in qualities]
    scores = np.stack([quality * labels + own for quality, own in zip(qualities, noise, strict=True)])
    return scores, labels, np.arange(0, labels.size + 1, docs)


def mean(scores, labels, offsets):
    return float(np.nanmean(NDCG(scores, labels, offsets)))


def test_known_best_mixture_is_found():
    """The sum of two independent signals is ideal with weights 2 : 1, whatever unit each is given in."""
    rng = np.random.default_rng(1)
    one, other = 2.0 * rng.normal(size=20_000), rng.normal(size=20_000)
    offsets = np.arange(0, 20_001, DOCS)
    labels = np.clip(np.floor(one + other), 0, 4)
    weights, blended = choose_weights(np.stack([100.0 * one, 0.01 * other]), labels, offsets)
    assert weights.values == pytest.approx((2 / 3, 1 / 3), abs=0.03)
    np.testing.assert_allclose(
        np.array(weights.factors) * (100.0, 0.01), np.full(2, weights.factors[0] * 100), rtol=0.1
    )
    assert mean(blended, labels, offsets) > 0.99
    assert sum(weights.values) == pytest.approx(1.0)


def test_noise_gets_next_to_nothing_and_a_constant_nothing():
    rng = np.random.default_rng(2)
    scores, labels, offsets = sample(rng, 300, (0.6, 0.6))
    noise, constant = rng.normal(size=labels.size), np.repeat(rng.normal(size=300), DOCS)
    weights, _ = choose_weights(np.stack([*scores, noise, constant]), labels, offsets)
    assert weights.values[2] < 0.12  # of scores in units of their spread: little more than a hundredth of the variance
    assert weights.values[:2] == pytest.approx((0.45, 0.45), abs=0.08)
    assert weights.values[3] == weights.factors[3] == weights.spreads[3] == 0.0


def test_members_that_are_the_same_have_equal_weights():
    scores, labels, offsets = sample(np.random.default_rng(3), 40, (0.6,))
    weights, blended = choose_weights(np.repeat(scores, 4, axis=0), labels, offsets)
    assert weights.values == (0.25,) * 4
    assert np.array_equal(NDCG(blended, labels, offsets), NDCG(scores[0], labels, offsets), equal_nan=True)


@pytest.mark.parametrize("qualities", [(0.6, 0.6, 0.6), (0.6, 0.55, 0.3, 0.0), (0.7, *[0.1] * 5)])
def test_few_queries_are_not_overfitted(qualities):
    """On fresh queries, on average over samples, a blend is no worse than its best member in the sample, up to little.

    Members that are as good as each other have nearly equal weights.
    """
    rng = np.random.default_rng(4)
    found = []
    for _ in range(16):
        weights, _ = choose_weights(*sample(rng, 15, qualities))
        scores, labels, offsets = sample(rng, 100, qualities)
        units = scores / np.array(weights.spreads)[:, None]
        best = scores[int(np.argmax(weights.alone))]
        rows = (np.array(weights) @ units, units.mean(axis=0), best)
        found.append([mean(row, labels, offsets) for row in rows])
    blended, equal, best = np.mean(found, axis=0)
    assert blended > best - 0.02
    assert blended > equal - 0.01
    if len(set(qualities)) == 1:
        assert blended > best + 0.03
    if 0.0 in qualities:
        assert blended > equal + 0.02


def test_out_of_fold_scores_do_not_see_their_own_query():
    """Whatever the labels of a fold are, its documents are blended alike."""
    scores, labels, offsets = sample(np.random.default_rng(5), 60, (0.5, 0.1))
    fold = np.where(np.arange(60) < 40, 0, np.arange(60) % 4 + 1)  # most queries: they would decide, if they were seen
    rows = np.repeat(fold == 0, DOCS)
    other = labels.copy()
    other[rows] = labels.max() - labels[rows]
    (one, blend), (two, changed) = (choose_weights(scores, each, offsets, fold=fold) for each in (labels, other))
    assert np.array_equal(blend[rows], changed[rows])
    assert abs(one[0] - two[0]) > 0.1
    assert not np.allclose(blend[~rows], changed[~rows])


def test_weights_of_queries_count():
    """A query of weight 0 might as well not be there, and one of weight 2 is two."""
    rng = np.random.default_rng(6)
    scores, labels, offsets = sample(rng, 40, (0.5, 0.4))
    some = np.arange(40) < 20
    fold = np.arange(40) % 4
    weighed, _ = choose_weights(scores, labels, offsets, fold=fold, query_weights=some.astype(float))
    rows = np.repeat(some, DOCS)
    alone, _ = choose_weights(scores[:, rows], labels[rows], offsets[:21], fold=fold[:20])
    assert weighed.alone == pytest.approx(alone.alone)
    assert weighed.values == pytest.approx(alone.values, abs=0.05)  # spreads are of all documents
    double, _ = choose_weights(scores, labels, offsets, fold=fold, query_weights=np.full(40, 2.0))
    plain, _ = choose_weights(scores, labels, offsets, fold=fold)
    assert double.values == pytest.approx(plain.values)


def test_order_of_queries_does_not_matter():
    scores, labels, offsets = sample(np.random.default_rng(7), 50, (0.5, 0.4, 0.2))
    fold, order = np.arange(50) % 5, np.random.default_rng(0).permutation(50)
    rows = (order[:, None] * DOCS + np.arange(DOCS)).ravel()
    one, _ = choose_weights(scores, labels, offsets, fold=fold)
    two, _ = choose_weights(scores[:, rows], labels[rows], offsets, fold=fold[order])
    assert one.values == pytest.approx(two.values, rel=1e-9)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_handful_of_queries_have_equal_weights(count):
    scores, labels, offsets = sample(np.random.default_rng(8), count, (0.6, 0.5))
    labels[0] = 1.0
    weights, blended = choose_weights(scores, labels, offsets, fold=np.arange(count) % 5)
    assert sum(weights.values) == pytest.approx(1.0)
    if count == 1:
        assert weights.values == (0.5, 0.5)
    assert np.isfinite(blended).all()


def test_any_metric_and_a_member_alone():
    def first(scores, labels, offsets):
        tops = [np.argmax(scores[a:b]) + a for a, b in pairwise(offsets)]
        return labels[tops]

    scores, labels, offsets = sample(np.random.default_rng(9), 40, (0.6, 0.3))
    assert choose_weights(scores, labels, offsets, first)[0].metric == "first"
    weights, blended = choose_weights(scores[:1], labels, offsets, "rr")
    assert weights.values == (1.0,)
    assert np.array_equal(np.argsort(blended[:DOCS]), np.argsort(scores[0, :DOCS]))


def test_weights_print_as_a_table_and_are_read_back():
    scores, labels, offsets = sample(np.random.default_rng(9), 40, (0.6, 0.3))
    weights, _ = choose_weights(scores, labels, offsets, names=["trees", "net"])
    lines = repr(weights).splitlines()
    assert lines[0].split() == ["member", "weight", "ndcg@10", "alone"]
    assert [line.split()[0] for line in lines[1:]] == ["trees", "net"]
    assert Weights.read(weights.to_dict()) == weights
    assert (len(weights), weights[0]) == (2, weights.values[0])


def test_errors_say_what_is_wrong():
    scores, labels, offsets = sample(np.random.default_rng(9), 10, (0.6, 0.3))
    with refusal(what="a blend needs scores of at least one member", got="an array of shape (200,)"):
        choose_weights(scores[0], labels, offsets)
    with refusal(what="there must be a name for each member and a fold for each query", got="1 names and 10 folds…"):
        choose_weights(scores, labels, offsets, names=["one"])
    with refusal(what="every member gives all documents of a query the same score"):
        choose_weights(np.ones_like(scores), labels, offsets)
    refuses(lambda: choose_weights(scores, np.zeros_like(labels), offsets), what="ndcg@10 scores no query")
    broken = scores.copy()
    broken[1, 3] = np.nan
    refuses(lambda: choose_weights(broken, labels, offsets), got="nan")


def test_the_average_leaves_out_what_is_surely_worse_and_nothing_else():
    rng = np.random.default_rng(5)
    best = rng.uniform(0.3, 0.7, 200)
    noise = rng.normal(size=200)
    noise = (noise - noise.mean()) / noise.std(ddof=1)  # so that the standard error is known: 1 / sqrt(200)
    error = 0.1 / np.sqrt(200)
    level, worse = best - 1.99 * error + 0.1 * noise, best - 2.01 * error + 0.1 * noise
    np.testing.assert_array_equal(average_weights(np.stack([best, level]), [0, 1]), [0.5, 0.5])
    np.testing.assert_array_equal(average_weights(np.stack([best, worse]), [0, 1]), [1.0, 0.0])
    skipped = np.where(np.arange(200) % 2 == 0, np.nan, best)
    np.testing.assert_array_equal(average_weights(np.stack([skipped, skipped]), [0, 1]), [0.5, 0.5])


def test_members_of_one_group_share_a_weight():
    values = np.random.default_rng(6).uniform(size=(5, 30))
    weights = average_weights(values * 1e-3, [0, 0, 1, 2, 0])
    np.testing.assert_allclose(weights, np.array([1 / 3, 1 / 3, 1.0, 1.0, 1 / 3]) / 3.0)


def test_a_member_that_is_surely_worse_than_the_best_of_its_group_has_no_share():
    """As a bag of few rounds beside a complete one of the same recipe: the mean of both may be level with others."""
    best, noise = np.random.default_rng(5).normal(size=(2, 200))
    noise = 0.1 * (noise - noise.mean()) / noise.std(ddof=1)  # so that the standard error is known
    error = 0.1 / np.sqrt(200)
    cut, level = best - 2.01 * error + noise, best - 1.99 * error + noise
    np.testing.assert_array_equal(average_weights(np.stack([best, best, cut]), [0, 1, 1]), [0.5, 0.5, 0.0])
    np.testing.assert_array_equal(average_weights(np.stack([best, best, level]), [0, 1, 1]), [0.5, 0.25, 0.25])


def test_queries_that_count_nothing_have_no_say():
    values = np.random.default_rng(7).uniform(size=(2, 40))
    values[1, :20] -= 1.0
    weights = np.repeat([0.0, 1.0], 20)
    np.testing.assert_array_equal(average_weights(values, [0, 1], weights), average_weights(values[:, 20:], [0, 1]))
    np.testing.assert_array_equal(average_weights(values, [0, 1]), [1.0, 0.0])


def test_the_average_of_each_part_is_decided_on_the_others():
    """A member that is worse on one part alone is left out of the other parts' averages, and stays in that part's."""
    rng = np.random.default_rng(8)
    labels, offsets, fold = rng.integers(0, 3, 600).astype(float), np.arange(0, 601, 6), np.repeat(np.arange(5), 20)
    good = labels + 0.1 * rng.normal(size=600)
    bad = np.where(np.repeat(fold, 6) == 2, -labels, good)  # turned round in part 2
    how: dict[str, Any] = {"names": None, "fold": fold, "query_weights": None, "rule": AVERAGE}
    data = rw.RankingDataset(np.empty((600, 0)), labels, offsets)
    chosen = choose(np.stack([good, bad]), np.stack([good, bad]), data, rw.metric("ndcg@5"), **how)
    assert chosen.weights.values == (1.0, 0.0)
    part = np.repeat(fold, 6) == 2
    correlation = np.corrcoef(chosen.scores[~part], good[~part])[0, 1]
    assert correlation > 1 - 1e-12  # of the good one alone
    assert np.corrcoef(chosen.scores[part], good[part])[0, 1] < 0.9  # of both: its own part had no say
