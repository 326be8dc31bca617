"""Paired tests against scipy, against listing every way to flip signs, and against their own promise under the null."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from rankwise.base.stream import Stream
from rankwise.base.threads import use_threads
from rankwise.statistics import significance
from tests.refusals import refuses

SOME = np.array([0.02, 0.03, -0.01, 0.04, 0.02, 0.0, -0.03, 0.05])
# Multiples of 0.2, as precision@5 has them: sums that are equal on paper differ in their last bits.
quantised = st.lists(st.integers(-5, 5).map(lambda i: i * 0.2), min_size=2, max_size=8)


def sampled(n: int, *, mean: float = 0.0, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(mean, 0.3, n)


def enumerated(differences: np.ndarray) -> float:
    """Fisher's p-value by listing every sign assignment, with sums in exact arithmetic."""
    seen = abs(math.fsum(differences))
    ways = [
        abs(math.fsum(np.array(s) * differences)) >= seen - 1e-12
        for s in itertools.product((1, -1), repeat=len(differences))
    ]
    return float(np.mean(ways))


def test_t_test_is_scipys():
    ours, theirs = significance.t_test(SOME), stats.ttest_1samp(SOME, 0.0)
    assert ours.statistic == pytest.approx(theirs.statistic, rel=1e-12)
    assert ours.p == pytest.approx(theirs.pvalue, rel=1e-12)
    assert ours.interval(0.9) == pytest.approx(tuple(theirs.confidence_interval(0.9)), rel=1e-12)


def test_interval_leaves_out_zero_exactly_where_the_test_rejects():
    for mean in np.linspace(0.0, 0.2, 21):
        test = significance.t_test(sampled(30, mean=mean))
        low, high = test.interval(0.95)
        assert (low > 0 or high < 0) == (test.p < 0.05)


def test_nadeau_bengio_by_pencil():
    # differences 1, 2, 3: mean 2, variance 1; 1/n + test/train = 1/3 + 1/3, so t = 2 / sqrt(2/3) = sqrt(6), 2 degrees.
    test = significance.t_test([1.0, 2.0, 3.0], overlap=0.2 / 0.6)
    assert test.statistic == pytest.approx(math.sqrt(6.0))
    assert test.p == pytest.approx(2 * stats.t.sf(math.sqrt(6.0), 2))
    assert significance.t_test([1.0, 2.0, 3.0]).statistic == pytest.approx(2.0 / math.sqrt(1 / 3))


def test_weighted_t_test_is_the_weighted_mean_and_its_linearised_variance():
    weights = np.array([1.0, 2.0, 0.0, 4.0, 1.0, 1.0, 3.0, 0.5])
    test = significance.t_test(SOME, weights)
    mean = np.average(SOME, weights=weights)
    variance = np.sum(weights**2 * (SOME - mean) ** 2) / weights.sum() ** 2 * 7 / 6  # one of eight has no weight
    assert test.mean == pytest.approx(mean)
    assert test.error == pytest.approx(math.sqrt(variance))
    assert test.freedom == 6
    kept = weights > 0
    assert significance.t_test(SOME[kept], weights[kept]) == pytest.approx(test)


@pytest.mark.parametrize("scale", [1.0, 7.0])
def test_equal_weights_change_nothing(scale):
    weights = np.full(SOME.size, scale)
    assert significance.t_test(SOME, weights) == pytest.approx(significance.t_test(SOME))
    assert significance.effect_size(SOME, weights) == pytest.approx(significance.effect_size(SOME))
    assert significance.randomization_test(SOME, weights) == significance.randomization_test(SOME)
    assert significance.wilcoxon_test(SOME, weights) == pytest.approx(significance.wilcoxon_test(SOME))


@given(quantised)
@settings(max_examples=60, deadline=None)
def test_few_pairs_are_enumerated_exactly(differences):
    assert significance.randomization_test(differences) == pytest.approx(enumerated(np.array(differences)), abs=1e-12)


def test_zeros_do_not_stop_enumeration():
    padded = np.concatenate((SOME, np.zeros(100)))
    assert significance.randomization_test(padded) == pytest.approx(enumerated(SOME[SOME != 0]))


def test_sampled_flips_agree_with_enumeration():
    differences = sampled(14, mean=0.1)
    exact = enumerated(differences)
    flips = 16_000  # fewer than the 2^14 ways, so they are drawn
    drawn = significance.randomization_test(differences, flips=flips)
    assert abs(drawn - exact) < 4 * math.sqrt(exact * (1 - exact) / flips)


def test_sampled_flips_agree_with_scipy():
    differences = sampled(200, mean=0.04, seed=3)
    theirs = stats.permutation_test(
        (differences, np.zeros(200)), lambda x, y, axis: (x - y).mean(axis), permutation_type="samples",
        n_resamples=20_000, vectorized=True, rng=np.random.default_rng(0),
    ).pvalue  # fmt: skip
    assert significance.randomization_test(differences) == pytest.approx(theirs, abs=0.01)


def test_sampled_p_is_never_zero():
    assert significance.randomization_test(np.full(100, 1.0), flips=999) == 1 / 1000


def test_flips_belong_to_queries_not_to_places_or_threads():
    differences, ids = sampled(3000, mean=0.005), np.array([f"q{i}" for i in range(3000)])
    turn = np.random.default_rng(1).permutation(3000)
    with use_threads(1):
        alone = significance.randomization_test(differences, stream=Stream(5, query_ids=ids), flips=5000)
    with use_threads(4):
        turned = significance.randomization_test(differences[turn], stream=Stream(5, query_ids=ids[turn]), flips=5000)
    assert alone == turned
    assert alone != significance.randomization_test(differences, stream=Stream(6, query_ids=ids), flips=5000)


def test_flips_need_not_fill_the_last_block():
    differences = sampled(40, mean=0.05)
    for flips in (1, 127, 128, 129):
        p = significance.randomization_test(differences, flips=flips)
        assert p * (flips + 1) == pytest.approx(round(p * (flips + 1)))
        assert 1 <= round(p * (flips + 1)) <= flips + 1


@pytest.mark.parametrize("n", [5, 30, 200])
def test_wilcoxon_is_scipys(n):
    differences = sampled(n, mean=0.1, seed=n)
    assert significance.wilcoxon_test(differences) == pytest.approx(stats.wilcoxon(differences).pvalue, rel=1e-9)


def test_wilcoxon_ranks_equal_differences_alike_although_their_last_bits_differ():
    clean = np.array([1, 3, -3, 2, -1, 3, 5, 0, 4, 3, -2, 3] * 3, float)
    noisy = np.array([0.3 if value == 3 else value * 0.1 for value in clean])
    assert -noisy[2] > noisy[1]  # 3 * 0.1 is not 0.3
    assert significance.wilcoxon_test(noisy) == significance.wilcoxon_test(clean)


def test_holm_by_pencil_and_against_its_definition():
    assert significance.holm([0.01, 0.02, 0.024, 0.5]).tolist() == pytest.approx([0.04, 0.06, 0.06, 0.5])
    values = np.random.default_rng(0).uniform(size=20) ** 3
    adjusted = significance.holm(values)
    for alpha in (0.01, 0.05, 0.2):
        rejected = set()
        for step, i in enumerate(np.argsort(values)):  # the step-down procedure itself
            if values[i] >= alpha / (values.size - step):
                break
            rejected.add(int(i))
        assert set(np.flatnonzero(adjusted < alpha).tolist()) == rejected


def test_effect_size_is_mean_over_standard_deviation():
    assert significance.effect_size(SOME) == pytest.approx(SOME.mean() / SOME.std(ddof=1))
    assert significance.effect_size([0.1, 0.3], weights=[1.0, 3.0]) == pytest.approx(0.25 / math.sqrt(0.0075 * 2))


def test_wins_ties_losses():
    assert significance.wins_ties_losses([0.2, -0.2, 1e-12, 0.0, 0.1]) == (2, 2, 1)
    assert significance.wins_ties_losses([0.2, -0.2, 0.05], tolerance=0.1) == (1, 1, 1)


def test_no_differences_at_all():
    same = np.zeros(5)
    assert significance.t_test(same).p == 1.0
    assert significance.t_test(same).interval() == (0.0, 0.0)
    assert significance.randomization_test(same) == 1.0
    assert significance.wilcoxon_test(same) == 1.0
    assert significance.effect_size(same) == 0.0


def test_the_same_difference_everywhere_is_as_sure_as_its_signs():
    same = np.full(4, -0.5)
    assert significance.t_test(same).statistic == -math.inf
    assert significance.t_test(same).p == significance.randomization_test(same) == 0.125
    assert significance.t_test(np.array([0.3, 0.4, 0.5]) - [0.2, 0.3, 0.4]).p == 0.25  # equal but for their last bits
    assert significance.effect_size(same) == -math.inf


@pytest.mark.parametrize("hits", [0, 1, 5, 8])
def test_values_of_0_and_1_have_the_interval_of_clopper_and_pearson(hits: int) -> None:
    values = [1.0] * hits + [0.0] * (8 - hits)
    theirs = tuple(stats.binomtest(hits, 8).proportion_ci(0.9, method="exact"))
    assert significance.interval_of_share(values, level=0.9) == pytest.approx(theirs)
    assert significance.interval_of_share(values, [2.0] * 8, level=0.9) == pytest.approx(theirs)
    if hits in (0, 8):  # where all are the same the two agree
        assert significance.interval_of_same(values, bounds=(0.0, 1.0), level=0.9) == pytest.approx(theirs)
    low, high = significance.interval_of_share(values, [5.0] + [1.0] * 7, level=0.9) or (0.0, 0.0)
    assert high - low > theirs[1] - theirs[0]  # a query that counts most leaves less to go by
    assert significance.interval_of_share([*values, 0.5]) is None


def test_weights_that_go_with_the_values_leave_less_to_go_by() -> None:
    values, weights = np.array([1.0] * 2 + [0.0] * 900), np.array([50.0] * 2 + [1.0] * 900)  # the few hits are heavy
    low, high = significance.interval_of_share(values, weights) or (0.0, 0.0)
    error = math.sqrt(math.fsum((weights / weights.sum() * (values - 0.1)) ** 2))
    assert 0.1 - low > error
    assert high - 0.1 > 1.96 * error


def test_values_that_are_all_the_same() -> None:
    share = 1.0 - 0.025 ** (1.0 / 20)  # of queries with other values: 20 without one have a probability of 2.5%
    got = significance.interval_of_same([0.25] * 20, bounds=(0.0, 1.0))
    assert got == pytest.approx((0.25 - 0.25 * share, 0.25 + 0.75 * share))
    assert np.isnan(significance.interval_of_same([0.25] * 20, bounds=(0.0, math.inf)) or ()).tolist() == [True, True]
    assert significance.interval_of_same([0.25] * 20 + [0.5], bounds=(0.0, 1.0)) is None
    assert significance.interval_of_same([0.25, 0.25, 0.5], [1.0, 1.0, 0.0], bounds=(0.0, 1.0)) is not None


TESTS = {
    "t": lambda values: significance.t_test(values).p,
    "fisher": lambda values: significance.randomization_test(values, flips=2000),
    "wilcoxon": significance.wilcoxon_test,
}


@pytest.mark.parametrize("name", TESTS)
def test_p_values_are_uniform_when_nothing_differs(name):
    rng = np.random.default_rng(7)
    found = np.array([TESTS[name](rng.laplace(0.0, 0.2, 30)) for _ in range(400)])
    assert stats.kstest(found, "uniform").pvalue > 0.01
    assert 0.02 < (found < 0.05).mean() < 0.09


@pytest.mark.parametrize("name", TESTS)
def test_p_values_are_small_when_something_differs(name):
    rng = np.random.default_rng(8)
    found = np.array([TESTS[name](rng.normal(0.2, 0.3, 30)) for _ in range(100)])
    assert (found < 0.05).mean() > 0.85  # the power of the t-test here is 0.94


def test_the_correction_for_shared_data_holds_its_level_where_the_plain_test_does_not():
    # Trials whose means share a common error, as overlapping training sets make them: correlation test/(test + train).
    rng, ratio, trials = np.random.default_rng(9), 1 / 3, 10
    share = ratio / (1 + ratio)
    plain, corrected = [], []
    for _ in range(1000):
        values = math.sqrt(share) * rng.normal() + math.sqrt(1 - share) * rng.normal(size=trials)
        plain.append(significance.t_test(values).p < 0.05)
        corrected.append(significance.t_test(values, overlap=ratio).p < 0.05)
    assert np.mean(plain) > 0.2
    assert 0.03 < np.mean(corrected) < 0.075


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (
            lambda: significance.t_test([0.1]),
            {"what": "a paired test needs at least two pairs that count", "got": "1", "hint": "compare on…"},
        ),
        (lambda: significance.t_test([0.1, 0.2], [0.0, 1.0]), {"what": "…at least two pairs that count", "got": "1"}),
        (lambda: significance.wilcoxon_test([0.1, np.nan]), {"what": "differences must be a list of finite numbers"}),
        (lambda: significance.t_test([0.1, 0.2], overlap=-1.0), {"what": "overlap must be a number in [0, inf)"}),
        (
            lambda: significance.randomization_test([0.1, 0.2], flips=0),
            {"what": "flips must be a whole number of at least 1", "got": "0"},
        ),
        (lambda: significance.holm([0.1, 1.2]), {"what": "p-values must be a list of numbers from 0 to 1"}),
        (lambda: significance.holm([0.1, np.nan]), {"what": "p-values must be a list of numbers from 0 to 1"}),
    ],
)
def test_refusals(call, fields):
    refuses(lambda: call(), **fields)


@pytest.mark.parametrize("confidence", [0.9, 0.95])
@pytest.mark.parametrize("power", [0.5, 0.8])
def test_times_as_many_reaches_the_power(power: float, confidence: float) -> None:
    difference, error = 0.013, 0.011
    quantile = stats.norm.ppf(0.5 + confidence / 2.0)
    times = significance.times_as_many(difference, quantile * error, level=confidence, power=power)
    # The probability that the interval lies above 0 with that many queries, of a true difference as large as this one.
    assert stats.norm.sf(quantile - difference / (error / math.sqrt(times))) == pytest.approx(power)
    assert significance.times_as_many(0.0, error) == math.inf
