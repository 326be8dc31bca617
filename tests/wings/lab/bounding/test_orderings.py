"""Least, mean, largest value and distribution of metrics, against going through every ordering."""

import itertools

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.base.threads import use_threads
from rankwise.wings.lab.bounding.distributions import distribution, quantiles
from rankwise.wings.lab.bounding.orderings import AP, DISCORDANCE, LINEAR, Orderings, ndcg_orderings
from rankwise.wings.lab.bounding.random_orderings import (
    counted,
    discordant_pairs,
    draw_favouring,
    inverted,
    sample_orderings,
)
from tests.refusals import refusal


def every_ordering(labels):
    """The metric values of all N! orderings, by our own metrics in row order, which other tests hold to peers."""
    labels = np.asarray(labels, float)
    return np.array(sorted(set(itertools.permutations(labels)))), labels.size


def ranked_values(name, orderings):
    n = orderings.shape[1]
    offsets = np.arange(0, orderings.size + 1, n)
    scores = np.tile(np.arange(n, 0, -1.0), orderings.shape[0])
    return rw.metric(name)(scores, orderings.ravel(), offsets)


def discordance(orderings):
    """Pairs in which a non-relevant document stands before a relevant one."""
    before = np.cumsum(orderings == 0, axis=1)
    return (before * (orderings == 1)).sum(axis=1).astype(float)


CASES = [(n, p) for n in range(1, 9) for p in range(n + 1)]


@pytest.mark.parametrize(("n", "p"), CASES)
def test_extremes_and_distribution_of_binary_lists(n, p):
    labels = np.array([1.0] * p + [0.0] * (n - p))
    orderings, _ = every_ordering(labels)
    offsets = np.array([0, n])
    none = np.empty(0)
    seen = {
        AP: (ranked_values("ap(empty=0)", orderings), Orderings(AP, offsets, labels, none)),
        DISCORDANCE: (discordance(orderings), Orderings(DISCORDANCE, offsets, labels, none)),
        LINEAR: (ranked_values("ndcg(empty=0)", orderings), ndcg_orderings(labels, offsets)),
    }
    for kind, (values, found) in seen.items():
        extremes = found.extremes()
        expected = values.min(), values.mean(), values.max()
        np.testing.assert_allclose([part[0] for part in extremes], expected, atol=1e-12, err_msg=kind)
        whole = distribution(kind, found.gains, found.discounts)
        assert whole.exact
        levels, counts = np.unique(values.round(12), return_counts=True)
        np.testing.assert_allclose(whole.values, levels, atol=1e-11)
        np.testing.assert_allclose(whole.chances, counts / counts.sum(), atol=1e-12)


@pytest.mark.parametrize("cutoff", [None, 1, 3])
@pytest.mark.parametrize("labels", [[0, 1, 2], [2, 2, 1, 0], [3, 0, 0, 1, 2, 1], [1, 1, 1], [4, 0, 0, 0, 0, 2]])
def test_graded_lists_with_cutoffs(labels, cutoff):
    labels = np.array(labels, float)
    orderings, n = every_ordering(labels)
    values = ranked_values(f"ndcg@{cutoff}" if cutoff else "ndcg", orderings)
    found = ndcg_orderings(labels, np.array([0, n]), cutoff=cutoff)
    extremes = found.extremes()
    np.testing.assert_allclose([part[0] for part in extremes], [values.min(), values.mean(), values.max()], atol=1e-12)
    whole = distribution(LINEAR, found.gains, found.discounts)
    np.testing.assert_allclose((whole.values * whole.chances).sum(), values.mean(), atol=1e-12)
    np.testing.assert_allclose(whole.values[[0, -1]], [values.min(), values.max()], atol=1e-11)


def test_the_thesis_example():
    # 29/36, Table 3.3 of the thesis.
    found = Orderings(AP, np.array([0, 3]), np.array([1.0, 1.0, 0.0]), np.empty(0)).extremes()
    np.testing.assert_allclose(found.mean, 29 / 36)


@pytest.mark.parametrize(("few", "many"), [(1, 1), (3, 5), (7, 7), (10, 40)])
def test_mann_whitney_matches_scipy(few, many):
    chances = counted(few, many)
    assert chances.size == few * many + 1
    np.testing.assert_array_equal(chances, chances[::-1])
    # scipy's exact p-value of a statistic is the chance of it or a smaller one.
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=few), rng.normal(size=many)
    test = stats.mannwhitneyu(x, y, alternative="less", method="exact")
    np.testing.assert_allclose(chances[: int(test.statistic) + 1].sum(), test.pvalue, atol=1e-12)


def test_mann_whitney_of_long_lists():
    chances = counted(300, 700)
    steps = np.arange(chances.size)
    mean, variance = 300 * 700 / 2, 300 * 700 * 1001 / 12
    np.testing.assert_allclose((chances * steps).sum(), mean)
    np.testing.assert_allclose((chances * (steps - mean) ** 2).sum(), variance, rtol=1e-6)
    assert chances.min() > 0  # even 1 in 10^263 is not lost


@pytest.mark.parametrize(
    ("few", "many"), [(8, 2_000), (8, 17_000), (30, 1_111), (100, 100), (97, 150), (216, 216), (64, 1000)]
)
def test_inversion_matches_the_recurrence(few, many):
    exact = np.cumsum(counted(few, many))
    numbers, chances = inverted(few, many)
    width = int(numbers[1] - numbers[0])
    ends = (numbers + (width - 1) / 2).astype(np.int64)  # the largest number in each cell
    np.testing.assert_allclose(np.cumsum(chances), exact[np.minimum(ends, few * many)], rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(("relevant", "others"), [(2_000, 2_000), (40_000, 30_000), (9, 200_000), (3_000, 17)])
def test_discordance_of_very_long_lists(relevant, others):
    numbers, chances = discordant_pairs(relevant, others)
    assert numbers.size < 2**18
    pairs = relevant * others
    mean, variance = pairs / 2, pairs * (relevant + others + 1) / 12
    deviations = (numbers - mean) / np.sqrt(variance)
    np.testing.assert_allclose((chances * deviations).sum(), 0.0, atol=1e-9)
    np.testing.assert_allclose((chances * deviations**2).sum(), 1.0, rtol=1e-6)
    fourth = -(relevant**2 + others**2 + pairs + relevant + others) * 6 / (5 * pairs * (relevant + others + 1))
    np.testing.assert_allclose((chances * deviations**4).sum() - 3.0, fourth, rtol=1e-3, atol=1e-6)
    # And by the normal limit, whose error is that of the fourth cumulant: at most .55·|κ₄|/24.
    np.testing.assert_allclose(
        np.cumsum(chances) - 0.5 * chances, stats.norm.cdf(deviations), atol=0.6 * abs(fourth) / 24 + 1e-5
    )


def test_drawn_distributions_have_the_right_moments_and_repeat():
    labels = np.array([1.0] * 8 + [0.0] * 40)
    for kind, metric in ((LINEAR, "ndcg"), (AP, "ap")):
        found = ndcg_orderings(labels, np.array([0, 48]))
        if kind == AP:
            found = Orderings(AP, found.offsets, labels, np.empty(0))
        drawn = distribution(kind, found.gains, found.discounts, orderings=20_000)
        assert not drawn.exact
        error = np.sqrt((drawn.chances * drawn.values**2).sum() - (drawn.chances * drawn.values).sum() ** 2) / np.sqrt(
            20_000
        )
        np.testing.assert_allclose((drawn.values * drawn.chances).sum(), found.extremes().mean[0], atol=4 * error)
        again = distribution(kind, found.gains, found.discounts, orderings=20_000)
        np.testing.assert_array_equal(drawn.values, again.values)
        # The same orderings through the metric itself.
        rng = np.random.default_rng(1)
        orderings = np.array([rng.permutation(labels) for _ in range(20_000)])
        assert stats.ks_2samp(np.repeat(drawn.values, np.round(drawn.chances * 20_000).astype(int)),
                              ranked_values(metric, orderings)).pvalue > 1e-3  # fmt: skip


def by_hand(ordering, favour):
    """The chance of an ordering in Plackett and Luce's model; documents of one worth are not told apart."""
    weights = favour ** (ordering / max(ordering.max(), 1e-300))
    chance = 1.0
    for r in range(ordering.size):
        chance *= weights[r:][ordering[r:] == ordering[r]].sum() / weights[r:].sum()
    return chance


@pytest.mark.parametrize("favour", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("labels", [[1, 0, 0, 0], [1, 1, 0, 0, 0], [1, 1, 1], [0, 0], [2, 1, 1, 0, 0]])
def test_favoured_orderings_match_enumeration(labels, favour):
    labels = np.array(labels, float)
    orderings, n = every_ordering(labels)
    found = ndcg_orderings(labels, np.array([0, n]))
    kinds = {LINEAR: ranked_values("ndcg(empty=0)", orderings)}
    gains_of = dict.fromkeys(kinds, found.gains)
    gains = 2.0**orderings - 1.0
    if labels.max() <= 1:
        kinds |= {AP: ranked_values("ap(empty=0)", orderings), DISCORDANCE: discordance(orderings)}
        gains_of |= dict.fromkeys((AP, DISCORDANCE), labels)
    chances = np.array([by_hand(one, favour) for one in gains])
    np.testing.assert_allclose(chances.sum(), 1.0)
    for kind, values in kinds.items():
        whole = distribution(kind, gains_of[kind], found.discounts if kind == LINEAR else np.empty(0), favour=favour)
        levels, which = np.unique(values.round(12), return_inverse=True)
        assert whole.exact
        np.testing.assert_allclose(whole.values, levels, atol=1e-11)
        np.testing.assert_allclose(whole.chances, np.bincount(which, chances), atol=1e-12)


@pytest.mark.parametrize("favour", [1.0, 5.0])
def test_drawn_frequencies_match_enumeration_for_any_number_of_threads(favour):
    labels = np.array([2.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    found = ndcg_orderings(labels, np.array([0, 7]))
    relevant = (labels > 0).astype(float)
    for kind, gains in ((LINEAR, found.gains), (AP, relevant), (DISCORDANCE, relevant)):
        discounts = found.discounts if kind == LINEAR else np.empty(0)
        whole = distribution(kind, gains, discounts, favour=favour)
        few = 34 if kind != LINEAR else 104  # one less than there are
        assert whole.exact
        if kind == DISCORDANCE and favour == 1.0:
            continue
        assert not distribution(kind, gains, discounts, favour=favour, orderings=few).exact
        made = [np.unique(_made(kind, gains, found.discounts, favour, n).round(12), return_counts=True) for n in (1, 3)]
        np.testing.assert_array_equal(made[0][1], made[1][1])
        np.testing.assert_allclose(made[0][0], whole.values, atol=1e-11)
        assert stats.chisquare(made[0][1], whole.chances * 40_000).pvalue > 1e-4


def _made(kind, gains, discounts, favour, threads):
    levels, counts = np.unique(gains, return_counts=True)
    discounts = np.arange(float(gains.size)) if kind == DISCORDANCE else discounts
    about = {"is_ap": kind == AP, "orderings": 40_000, "seed": 1}
    with use_threads(threads):
        if favour == 1.0:
            return sample_orderings(gains, discounts, **about)
        values = draw_favouring(levels, counts, favour ** (levels / levels[-1]), discounts, **about)
    return values - (3 if kind == DISCORDANCE else 0)


def test_quantiles_keep_mean_and_order():
    found = ndcg_orderings(np.array([1.0] * 8 + [0.0] * 40), np.array([0, 48]))
    drawn = distribution(LINEAR, found.gains, found.discounts, orderings=50_000)
    short = quantiles(drawn, 100)
    assert short.values.size <= 100
    assert short.different == drawn.different
    assert (np.diff(short.values) > 0).all()
    np.testing.assert_allclose((short.values * short.chances).sum(), (drawn.values * drawn.chances).sum())
    assert quantiles(short, 100) is short


def test_an_unknown_kind_is_rejected():
    with refusal(what="unknown kind of metric", got="'linaer'", hint="did you mean 'linear'"):
        distribution("linaer", np.ones(2), np.ones(2))
