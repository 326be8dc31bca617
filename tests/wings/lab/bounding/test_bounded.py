"""Bounding: the thesis's equations list by list, what it leaves alone, and its distributions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise.objectives.prepared import checked_lists
from rankwise.wings.lab.bounding import bounds
from rankwise.wings.lab.bounding.bounded import metric_orderings
from rankwise.wings.lab.bounding.bounds import sigmoid_gain
from rankwise.wings.lab.bounding.distributions import distribution
from tests.refusals import refusal, refuses

METRICS = ["approx_ndcg", "smooth_ap", "smooth_rbp"]
METHODS = ["min_max", "expectation", "expectation_max", "distribution"]


def clear_caches():
    """Clear the caches of distributions, as in a new process."""
    bounds._reduced.cache_clear()
    bounds._full.cache_clear()


def sharp(text):
    """A smooth metric so steep that it is the metric itself."""
    return rw.objective(text.replace(")", ", eta=500.0)") if "(" in text else f"{text}(eta=500.0)")


@pytest.mark.parametrize("metric", METRICS)
def test_best_worst_and_mean_are_mapped_as_in_the_equations(metric):
    labels = np.array([1.0, 1.0, 0.0, 0.0, 0.0])
    best, worst = np.arange(5.0, 0, -1), np.arange(5.0)
    sign = 1.0 if metric == "smooth_rbp" else -1.0
    bound = {m: rw.objectives.bounded(sharp(metric), method=m) for m in METHODS}
    value = {m: [o(s, labels, [0, 5]).value[0] for s in (best, worst)] for m, o in bound.items()}
    # Eq. 3.1: the best metric is 1 and the worst 0; the best loss is 0 and the worst 1.
    np.testing.assert_allclose(value["min_max"], [-1, 0] if sign < 0 else [0, 1], atol=1e-9)
    plain = np.array([sharp(metric)(s, labels, [0, 5]).value[0] for s in (best, worst)])
    mean = {"approx_ndcg": None, "smooth_ap": None, "smooth_rbp": 2 * 3 / 2}[metric]
    if mean is None:
        name = "ndcg" if metric == "approx_ndcg" else "ap"
        mean = rw.metric(name)(np.zeros(5), labels, [0, 5])[0]  # averaged ties are the mean over all orderings
    np.testing.assert_allclose(value["expectation"], plain / mean, atol=1e-9)
    most = max(sign * plain)
    np.testing.assert_allclose(value["expectation_max"], sign * (sign * plain - mean) / (most - mean), atol=1e-9)
    shares = np.abs(value["distribution"])
    assert sorted(shares) == list(shares if sign > 0 else shares[::-1])
    assert shares.min() >= 0
    assert shares.max() <= 1


@given(
    st.sampled_from(METRICS),
    st.sampled_from(METHODS),
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 3)), min_size=2, max_size=7),
)
def test_a_bounded_gradient_is_a_positive_multiple_of_the_inner_one(metric, method, documents):
    scores, labels = np.array([s for s, _ in documents]), np.array([y for _, y in documents], float)
    offsets = [0, len(documents)]
    inner = rw.objective(metric)
    plain, actual = inner(scores, labels, offsets), rw.objectives.bounded(inner, method=method)(scores, labels, offsets)
    some = np.abs(plain.gradient) > 1e-12
    seen = metric_orderings(inner, labels, np.array(offsets)).extremes()
    if seen.most[0] - seen.least[0] <= 1e-12:
        for part in actual:
            np.testing.assert_array_equal(part, 0.0)
    elif some.any():
        ratios = actual.gradient[some] / plain.gradient[some]
        assert ratios.min() > 0
        np.testing.assert_allclose(ratios, ratios[0], rtol=1e-6)


def test_expectation_doubles_min_max_for_rbp():
    rng = np.random.default_rng(0)
    scores, labels, offsets = rng.normal(size=20), rng.integers(0, 2, 20), [0, 6, 20]
    one, two, three = (
        rw.objectives.bounded(rw.objectives.SmoothRBP(), method=m)(scores, labels, offsets).gradient
        for m in METHODS[:3]
    )
    np.testing.assert_array_equal(two, 2 * one)
    np.testing.assert_array_equal(three, 2 * one)


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("labels", [[0, 0, 0], [1, 1, 1], [1]])
def test_lists_of_equal_gains_give_zeros(metric, method, labels):
    actual = rw.objectives.bounded(rw.objective(metric), method=method)(
        np.arange(len(labels)), labels, [0, len(labels)]
    )
    for part in actual:
        np.testing.assert_array_equal(part, 0.0)


def test_weights_inside_only_scale():
    rng = np.random.default_rng(1)
    scores, labels, offsets = rng.normal(size=12), rng.integers(0, 3, 12), [0, 5, 12]
    for method in METHODS:
        plain = rw.objectives.bounded(rw.objectives.ApproxNDCG(), method=method)(scores, labels, offsets)
        scaled = rw.objectives.bounded(rw.objectives.weighted(rw.objectives.ApproxNDCG(), by="size"), method=method)(
            scores, labels, offsets
        )
        np.testing.assert_allclose(scaled.value, plain.value, atol=1e-12)  # a bounded list has lost its scale
        np.testing.assert_allclose(scaled.gradient, plain.gradient, atol=1e-12)


def test_the_capped_gain_keeps_a_slope_up_to_the_ideal_and_the_thesis_gain_does_not():
    # 75 documents, 25 relevant: no sample of orderings comes near the ideal one.
    n, p = 75, 25
    labels = np.array([1.0] * p + [0.0] * (n - p))
    inner = rw.objectives.ApproxNDCG(eta=50.0, curvature="exact")
    actual = {
        gain: rw.objectives.bounded(inner, method="distribution", gain=gain, orderings=20_000)
        for gain in ("capped", "thesis")
    }
    scores = np.linspace(3, -3, n)
    scores[[p - 1, p]] = scores[[p, p - 1]]  # one swap away from ideal: NDCG about .99
    plain = np.abs(inner(scores, labels, [0, n]).gradient).max()
    capped, thesis = (np.abs(o(scores, labels, [0, n]).gradient).max() for o in actual.values())
    assert capped > 1e-3 * plain
    assert thesis < 1e-12 * plain
    assert actual["capped"].exact_hessian
    assert not actual["thesis"].exact_hessian


def test_equation_3_13():
    full = distribution("discordance", np.array([1.0, 0.0, 0.0]), np.empty(0))  # 0, 1, 2
    assert sigmoid_gain(full, 0.0, 2.0, "thesis") == 3 / 2
    # Numbers of discordant pairs lie 1 apart, however long the list.
    many = distribution("discordance", np.repeat([1.0, 0.0], 3_000), np.empty(0))
    assert sigmoid_gain(many, 0.0, 9e6, "thesis") == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("gain", ["capped", "thesis"])
def test_distributions_are_made_once_for_each_kind_of_list(monkeypatch, gain):
    lists: list[str] = []

    def counted(kind, *arguments, **named):
        lists.append(kind)
        return distribution(kind, *arguments, **named)

    monkeypatch.setattr(bounds, "distribution", counted)
    clear_caches()
    objective = rw.objectives.bounded(rw.objectives.SmoothAP(), method="distribution", gain=gain)
    kinds = np.array([1.0, 0, 0, 1]), np.array([0.0, 1, 0])
    for batch in ((0, 1), (1, 0), (0, 0, 1), (1,)):
        labels = np.concatenate([kinds[one] for one in batch])
        sizes = [kinds[one].size for one in batch]
        prepared = objective.prepare(labels, np.concatenate(([0], np.cumsum(sizes))))
        for shift in (0.0, 1.0):
            assert (prepared(np.arange(labels.size) % 7 / 10 + shift).value < 0).all()
    assert len(lists) == 2


def every_share(values, chances, gain, x):
    """Algorithm 2 in a line, and its derivative."""
    s = 1.0 / (1.0 + np.exp(-np.clip(gain * (x[:, None] - values), -700, 700)))
    return s @ chances, gain * (s * (1 - s)) @ chances


@pytest.mark.parametrize("favour", [1.0, 3.0])
@pytest.mark.parametrize("metric", ["approx_ndcg", "smooth_ap"])
def test_the_thesis_gain_smooths_every_value_that_was_drawn(metric, favour):
    # 20,000 sigmoids, each so narrow that a fifth of them, spread evenly, would be a staircase.
    labels, draws = np.repeat([1.0, 0.0], [20, 40]), 20_000
    inner = rw.objective(metric)
    seen = metric_orderings(inner, labels, np.array([0, 60]))
    discounts = seen.discounts if seen.kind == "linear" else np.empty(0)
    full = distribution(seen.kind, seen.gains, discounts, orderings=draws, favour=favour)
    gain = full.different / (full.values[-1] - full.values[0])
    x = np.linspace(full.values[0], full.values[-1], 301)
    share, slope = every_share(full.values, full.chances, gain, x)
    wrapper = rw.objectives.bounded(inner, method="distribution", gain="thesis", orderings=draws, favour=favour)
    lists = np.tile(labels, x.size), np.arange(x.size + 1) * labels.size
    np.testing.assert_allclose(-wrapper.mapped(-x, *lists), share, atol=1e-9)
    actual = wrapper._bounds(*checked_lists(*lists)).apply(-x)[1]
    np.testing.assert_allclose(actual, slope, rtol=1e-6, atol=1e-9 * slope.max())


def test_fewer_orderings_bound_the_same_under_the_capped_gain():
    labels = np.repeat([1.0, 0.0], [25, 50])
    x = -np.linspace(0.5, 1.0, 50)
    lists = np.tile(labels, x.size), np.arange(x.size + 1) * labels.size
    few, many = (
        rw.objectives.bounded(rw.objectives.ApproxNDCG(), method="distribution", orderings=n).mapped(x, *lists)
        for n in (5_000, 50_000)
    )
    np.testing.assert_allclose(few, many, atol=0.02)


def test_favoured_orderings_lower_the_share_of_a_good_one():
    labels, scores = [1, 0, 1, 0, 0], [5.0, 4.0, 3.0, 2.0, 1.0]
    for metric in METRICS:
        values = [
            -rw.objectives.bounded(sharp(metric), method="distribution", favour=favour)(scores, labels, [0, 5]).value[0]
            for favour in (1.0, 3.0, 9.0)
        ]
        assert values[0] > values[1] > values[2]
    with refusal(what="favour must be a number in (0, inf)", got="0"):
        rw.objective("bounded(smooth_ap, method=distribution, favour=0)")


def test_bounding_writes_nothing(tmp_path, monkeypatch):
    for name in ("HOME", "XDG_CACHE_HOME", "RANKWISE_CACHE"):
        monkeypatch.setenv(name, str(tmp_path))
    clear_caches()
    rw.objectives.bounded(rw.objectives.SmoothRBP(), method="distribution")([0.0, 1.0, 2.0], [1, 0, 0], [0, 3])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("inner", ["xendcg", "lambdarank", "stochastic(listnet)", "smooth_ap + smooth_rbp"])
def test_only_metrics_can_be_bounded(inner):
    with refusal(what="only a metric can be bounded", hint="use approx_ndcg, smooth_ap…"):
        rw.objective(f"bounded({inner})")


def test_bad_settings():
    with refusal(what="unknown method of bounding", got="'minmax'", hint="did you mean 'min_max'"):
        rw.objective("bounded(smooth_ap, method=minmax)")
    refuses(lambda: rw.objectives.bounded(3), what="bounded goes around an objective", got="3")  # type: ignore[arg-type]


@pytest.mark.parametrize("method", METHODS[:3])
@pytest.mark.parametrize("metric", ["ndcg", "dcg", "precision", "rbp"])
def test_plrank_is_bounded_by_the_values_of_single_orderings(metric, method):
    # Scores so far apart that one order is certain: the expected reward is that order's, whatever is drawn.
    labels = np.array([2.0, 0.0, 1.0, 0.0])
    inner = rw.objectives.PLRank(metric=metric, cutoff=3)
    best, worst = np.array([300.0, 0.0, 200.0, 100.0]), np.array([0.0, 300.0, 100.0, 200.0])
    plain = np.array([-inner(s, labels, [0, 4], rw.Stream(0)).value[0] for s in (best, worst)])
    actual = np.array(
        [-rw.objectives.bounded(inner, method=method)(s, labels, [0, 4], rw.Stream(0)).value[0] for s in (best, worst)]
    )
    if method == "min_max":
        np.testing.assert_allclose(actual, [1.0, 0.0], atol=1e-9)
    elif method == "expectation":
        np.testing.assert_allclose(actual[0] / actual[1], plain[0] / plain[1])
    else:
        np.testing.assert_allclose(actual[0], 1.0)


def test_rank_weights_in_any_order():
    labels, inner = np.array([1.0, 0.0]), rw.objectives.PLRank(metric="precision", discounts=(0.2, 1.0, 0.5))
    seen = metric_orderings(inner, labels, np.array([0, 2])).extremes()
    np.testing.assert_allclose([part[0] for part in seen], [0.2, 0.6, 1.0])


def test_rewards_of_documents_have_no_bounds():
    with refusal(what="bounded(plrank) cannot bound document_rewards"):
        rw.objectives.bounded(rw.objectives.PLRank())(
            [0.0, 1.0], [0, 1], [0, 2], rw.Stream(0), document_rewards=[1.0, 2.0]
        )
