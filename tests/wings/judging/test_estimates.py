"""Human labels and a judge: PPI++ beside its authors' package, and sampled documents by listing all samples."""

import itertools

import numpy as np
import pytest
from ppi_py import ppi_mean_ci, ppi_mean_pointestimate

from rankwise.metrics import metric
from rankwise.statistics.significance import t_test
from rankwise.wings.judging import sampled
from rankwise.wings.judging.plan import inclusion, systematic
from rankwise.wings.judging.prediction_powered import prediction_powered
from rankwise.wings.judging.sampled import discounted, judge_errors, sampled_difference
from tests.refusals import refusal


def correlated(seed: int, slope: float, noise: float, n: int = 25, rest: int = 80):
    rng = np.random.default_rng(seed)
    truth = rng.gamma(2.0, 1.0, n + rest)
    judge = slope * truth + noise * rng.normal(size=n + rest) + 0.4
    return truth[:n], judge[:n], judge[n:]


@pytest.mark.parametrize("slope", [-1.0, 0.0, 0.3, 0.5, 1.0])  # from a judge that is clipped at 0 to one clipped at 1
@pytest.mark.parametrize("noise", [0.05, 1.0])
@pytest.mark.parametrize("rest", [3, 80])
def test_point_estimates_are_those_of_ppi_py(slope, noise, rest):
    for seed in range(5):
        columns = correlated(seed, slope, noise, rest=rest)
        assert abs(prediction_powered(*columns).value - ppi_mean_pointestimate(*columns).item()) < 1e-9


def test_intervals_are_a_little_wider_than_normal_ones():
    columns = correlated(3, 0.7, 0.5, n=200, rest=900)
    low, high = (end.item() for end in ppi_mean_ci(*columns, alpha=0.05))
    width = np.subtract(*prediction_powered(*columns).test().interval(0.95)[::-1])
    assert 1.0 < width / (high - low) < 1.02  # t with 199 degrees of freedom, n − 2 in place of n


def test_a_judge_that_says_the_same_of_all_queries_leaves_the_t_test():
    human = correlated(0, 1.0, 1.0)[0]
    estimate, plain = prediction_powered(human, np.ones(25), np.ones(80)), t_test(human)
    assert estimate.test() == pytest.approx(plain)
    assert (estimate.judge, estimate.labels) == (1.0, 25)
    assert estimate.worth == pytest.approx(25)
    assert estimate.fixed_error == pytest.approx(plain.error * np.sqrt(80 / 105))  # 80 of 105 queries are not labelled


def test_a_perfect_judge_is_worth_labels_everywhere():
    truth = np.random.default_rng(0).normal(size=2000)
    estimate = prediction_powered(truth[:1000], truth[:1000], truth[1000:])
    assert estimate.worth == pytest.approx(2000, rel=0.05)
    assert estimate.value == pytest.approx(truth.mean(), abs=0.001)
    assert estimate.fixed_error < 0.05 * estimate.error


QUERIES = np.array([0, 5, 9, 12])
"""The offsets of three queries with twelve documents."""


def documents(seed: int = 0):
    rng = np.random.default_rng(seed)
    grades = rng.integers(0, 3, 12).astype(float)
    human = np.where(rng.random(12) < 0.8, rng.integers(0, 3, 12), grades).astype(float)
    return rng.normal(size=12), 2.0**human - 1.0, 2.0**grades - 1.0, grades


def estimated(weights, human, judge, grades, probabilities) -> float:
    return sampled_difference(weights, human, judge, grades, probabilities, QUERIES).value


def test_unbiased_over_all_samples_of_equal_probability():
    weights, human, judge, grades = documents()
    values = []
    for sample in itertools.combinations(range(12), 3):
        probabilities = np.full(12, np.nan)
        probabilities[list(sample)] = 3 / 12
        values.append(estimated(weights, human, judge, grades, probabilities))
    assert len(values) == 220
    assert np.mean(values) == pytest.approx(weights @ human / 3, rel=1e-12)
    assert np.std(values) > 0.1


def all_samples(chances: np.ndarray):
    """Every systematic sample, and its probability: samples change only where a sum of probabilities is passed."""
    ends = np.unique(np.round(np.append(np.cumsum(chances) % 1.0, [0.0, 1.0]), 12))
    for low, high in itertools.pairwise(ends):
        yield systematic(chances, (low + high) / 2), high - low


def test_unbiased_over_all_samples_of_a_plan_and_its_second_batch():
    weights, human, judge, grades = documents(1)
    pilot = inclusion(np.abs(weights), 3)
    mean = total = 0.0
    means = set()
    for first, chance in all_samples(pilot):
        known = np.isin(np.arange(12), first)
        _, places, _, spreads = judge_errors(grades, human - judge, known)
        rest = np.flatnonzero(~known)
        chances = inclusion(np.abs(weights[rest]) * spreads[places[rest]], 4)
        for second, conditional in all_samples(chances):
            probabilities = np.where(known, 1.0, np.nan)
            probabilities[rest[second]] = chances[second]
            value = estimated(weights, human, judge, grades, probabilities)
            mean, total = mean + chance * conditional * value, total + chance * conditional
            means.add(round(value, 9))
    assert total == pytest.approx(1.0)
    assert len(means) > 20
    assert mean == pytest.approx(weights @ human / 3, rel=1e-9)


def test_variance_is_right_on_average_over_all_independent_draws(monkeypatch):
    monkeypatch.setattr(sampled, "_require_same_documents", lambda *_: None)
    monkeypatch.setattr(sampled, "_unseen", lambda *_: 0.0)
    columns = documents(2)
    chances = inclusion(np.abs(columns[0]), 5) * 0.9
    values, errors, likely = [], [], []
    for drawn in itertools.product([False, True], repeat=12):
        probabilities = np.where(drawn, chances, np.nan)
        weights, human, judge, grades = columns
        estimate = sampled_difference(weights, human, judge, grades, probabilities, QUERIES)
        values.append(estimate.value)
        errors.append(estimate.fixed_error**2)
        likely.append(np.prod(np.where(drawn, chances, 1.0 - chances)))
    mean = np.dot(likely, values)
    assert mean == pytest.approx(columns[0] @ columns[1] / 3)
    assert np.dot(likely, errors) == pytest.approx(np.dot(likely, (np.array(values) - mean) ** 2))


def test_samples_have_the_size_and_the_probabilities_that_were_asked_for():
    chances = inclusion(np.random.default_rng(0).gamma(0.3, 1.0, 40), 11)
    assert chances.sum() == pytest.approx(11)
    assert (chances <= 1.0).all()
    assert (chances == 1.0).any()
    drawn = np.zeros(40)
    for sample, chance in all_samples(chances):
        assert sample.size == 11
        drawn[sample] += chance
    np.testing.assert_allclose(drawn, chances, atol=1e-9)
    assert inclusion(np.ones(3), 5).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    "name", ["dcg@3", "dcg(gain=linear)", "precision@3", "rbp(p=0.9)", "dcg(ties=row)@2", "ndcg@3"]
)
def test_sums_over_documents_are_the_metric(name):
    rng = np.random.default_rng(5)
    scores, labels = rng.integers(0, 3, (2, 12)).astype(float), rng.integers(0, 4, 12).astype(float)
    scores[0, 4], labels[4] = -np.inf, 3.0
    sums = discounted(metric(name), scores, labels, labels, QUERIES)
    for row, discounts in zip(scores, sums.discounts, strict=True):
        values = np.add.reduceat(discounts * sums.human, QUERIES[:-1])
        np.testing.assert_allclose(values, metric(name)(row, labels, QUERIES), atol=1e-12)
    assert sums.title == (name if name != "ndcg@3" else "ndcg@3 over the judge's ideal")


@pytest.mark.parametrize("name", ["ap", "rr", "err@5", "recall@5", "bpref", "dcg(ties=worst)@10", "rprec"])
def test_metrics_that_are_no_sums_are_refused(name):
    with pytest.raises(ValueError, match="not a sum over documents|depend on labels"):
        discounted(metric(name), np.ones((1, 12)), np.ones(12), np.ones(12), QUERIES)


def test_documents_that_are_no_sample_of_these_are_refused():
    weights, offsets = np.ones(1000), np.arange(0, 1001, 10)
    probabilities = np.where(np.arange(1000) < 50, 0.5, np.nan)  # fifty documents that stand for a hundred
    with refusal(got="…stand for 10% of them"):
        sampled_difference(weights, weights, weights, weights, probabilities, offsets)
    with refusal(what="…no sample…"):  # nothing was left to chance, and half is missing
        sampled_difference(weights, weights, weights, weights, np.where(probabilities > 0, 1.0, np.nan), offsets)


def test_a_pilot_takes_away_what_the_judge_is_off_by_on_average():
    weights, grades, offsets = np.ones(400), np.tile([0.0, 2.0], 200), np.arange(0, 401, 4)
    human, judge = np.zeros(400), 2.0**grades - 1.0  # the judge's grade 2 is never relevant
    probabilities = np.where(np.arange(400) < 80, 1.0, np.where(np.arange(400) % 4 < 2, 0.5, np.nan))
    estimate = sampled_difference(weights, human, judge, grades, probabilities, offsets)
    assert estimate.value == pytest.approx(0.0, abs=1e-9)
    assert estimate.judge == pytest.approx(6.0)
    assert estimate.fixed_error < 0.05  # without the pilot's shift of 3 it were .38


@pytest.mark.parametrize("value", [0.0, 0.5])
def test_labels_without_an_error_do_not_prove_that_there_is_none(value):
    """Twenty labels that agree: one in 20 may yet be off by the spread of all, or by 1 where all are 0."""
    rng = np.random.default_rng(0)
    judge = rng.random(500)
    estimate = prediction_powered(judge[:20], judge[:20], judge[20:])
    spread = max(judge.std(ddof=1), judge[:20].std(ddof=1))
    assert estimate.fixed_error == pytest.approx(spread / 20 * np.sqrt(480 / 500))
    constant = prediction_powered(np.full(20, value), np.full(20, value), np.full(480, value))
    assert constant.error == pytest.approx((value or 1.0) / 20)
    gains, offsets = rng.integers(0, 4, 500).astype(float), np.arange(0, 501, 5)
    drawn = np.where(np.arange(500) % 10 == 0, 0.1, np.nan)
    sampled = sampled_difference(np.ones(500), gains, gains, gains, drawn, offsets)
    assert sampled.fixed_error == pytest.approx(gains.std() * np.sqrt(0.9) / 0.1 / 100)  # one error of 50 documents
    assert sampled.error >= sampled.fixed_error


def test_all_queries_that_differ_may_be_labelled():
    human = correlated(0, 1.0, 1.0)[0]
    estimate, plain = prediction_powered(human, human + 1.0, np.empty(0)), t_test(human)
    assert estimate.test() == pytest.approx(plain)
    assert estimate.fixed_error == 0.0
