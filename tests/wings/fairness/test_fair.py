"""Fair exposure: unbiased against listing every ranking, and what groups, weights and streams do to it."""

import itertools
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base import threads
from rankwise.metrics.gains import discounts
from rankwise.wings.fairness.exposure import group_shares
from tests.refusals import refusal

GROUPS: list[Any] = [["a", "b", "a", "b"], ["a", "b", "c", "b"], [-1, 7, -1, -1]]
LABELS = np.array([0.0, 2.0, 1.0, 1.0])
SCORES = np.array([0.9, -0.7, 1.1, -0.6])


def rankings(scores):
    """Every ranking of a list, with its probability under Plackett and Luce."""
    for order in itertools.permutations(range(len(scores))):
        left, chance = np.exp(scores - np.max(scores)), 1.0
        for document in order:
            chance *= left[document] / left.sum()
            left[document] = 0.0
        yield order, chance


def exposure(scores, cutoff):
    discount_weights = np.where(np.arange(len(scores)) < cutoff, discounts(len(scores)), 0.0)
    actual = np.zeros(len(scores))
    for order, chance in rankings(scores):
        actual[list(order)] += chance * discount_weights
    return actual


def disparity(scores, labels, groups, merit, cutoff):
    """The definition, group by group."""
    seen, groups = exposure(scores, cutoff), np.asarray(groups)
    worth = np.ones(len(scores)) if merit == "equal" else 2.0 ** np.asarray(labels) - 1.0
    members = [groups == group for group in np.unique(groups) if worth[groups == group].sum() > 0.0]
    if len(members) < 2:
        return 0.0
    share = [worth[mine].sum() / worth.sum() for mine in members]
    ratio = [seen[mine].sum() / seen.sum() / part for mine, part in zip(members, share, strict=True)]
    mean = sum(part * one for part, one in zip(share, ratio, strict=True))
    return sum(part * (one - mean) ** 2 for part, one in zip(share, ratio, strict=True))


def gradient_of(function, scores, step=1e-4):
    units = step * np.eye(len(scores))
    return np.array([(function(scores + unit) - function(scores - unit)) / (2.0 * step) for unit in units])


@pytest.mark.parametrize("cutoff", [2, 4])
@pytest.mark.parametrize("merit", ["equal", "proportional"])
@pytest.mark.parametrize("groups", GROUPS, ids=str)
def test_value_and_gradient_are_unbiased_against_listing_all_rankings(groups, merit, cutoff):
    repeats, weight = 20_000, 1.7
    inner = rw.objectives.PLRank(cutoff=cutoff, samples=12)
    offsets = np.arange(0, 4 * repeats + 1, 4)
    lists = np.tile(SCORES, repeats), np.tile(LABELS, repeats), offsets, rw.Stream(seed=3)
    actual = rw.objectives.fair(inner, weight=weight, merit=merit)(*lists, groups=np.tile(groups, repeats))
    plain = inner(*lists)  # draws the same
    value = actual.value - plain.value
    gradient = (actual.gradient - plain.gradient).reshape(repeats, 4)
    expected = weight * disparity(SCORES, LABELS, groups, merit, cutoff)
    disparity_gradient = weight * gradient_of(lambda s: disparity(s, LABELS, groups, merit, cutoff), SCORES)
    for got, exact in ((value[:, None], np.array([expected])), (gradient, disparity_gradient)):
        error = got.std(axis=0) / np.sqrt(repeats)
        assert np.linalg.norm(error) < 0.02 * np.linalg.norm(exact)
        assert (np.abs(got.mean(axis=0) - exact) < 4.0 * error + 1e-12).all()


def test_prices_from_the_rankings_that_are_priced_would_be_biased():
    # What independence buys: the mean of the square of an estimate is not the square of its mean.
    repeats = 4000
    offsets = np.arange(0, 4 * repeats + 1, 4)
    shares = group_shares(np.tile(GROUPS[0], repeats), np.tile(LABELS, repeats), offsets)
    drawn = rw.objectives.sample_rankings(np.tile(SCORES, repeats), offsets, rw.Stream(seed=1), samples=1)[0]
    seen = np.zeros(4 * repeats)
    seen[drawn + np.repeat(offsets[:-1], 4)] = np.tile(discounts(4), repeats)
    exact = disparity(SCORES, LABELS, GROUPS[0], "equal", 4)
    assert shares.disparity(shares.deviations(seen) ** 2).mean() > 1.5 * exact
    np.testing.assert_allclose(
        shares.disparity(shares.deviations(np.tile(exposure(SCORES, 4), repeats)) ** 2), exact, rtol=1e-12
    )


def lists(n_queries=30, seed=0):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 40, n_queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.integers(0, 3, offsets[-1]).astype(float)
    return rng.normal(size=offsets[-1]), labels, offsets, rng.choice(["a", "b", "c"], offsets[-1])


@pytest.mark.parametrize(
    "inner", ["plrank", "xendcg", "0.5*plrank + listnet", "stochastic(plrank(samples=5), samples=2)"]
)
def test_a_weight_of_0_is_the_inner_objective_bit_for_bit(inner):
    scores, labels, offsets, groups = lists()
    plain = rw.objective(inner)(scores, labels, offsets, rw.Stream(2))
    actual = rw.objectives.fair(rw.objective(inner), weight=0)(scores, labels, offsets, rw.Stream(2), groups=groups)
    for one, other in zip(actual, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_lists_of_one_group_or_one_with_merit_have_no_disparity():
    scores = np.array([0.1, 0.5, -0.3, 2.0, 1.0, 0.3])
    cases = {
        "equal": (np.ones(6), ["a", "a", "a", "b", "b", "b"]),
        "proportional": (np.array([1.0, 0.0, 0.0, 0.0, 2.0, 0.0]), ["a", "b", "b", "a", "b", "a"]),
    }
    for merit, (labels, groups) in cases.items():
        plain = rw.objectives.PLRank()(scores, labels, [0, 3, 6], rw.Stream(1))
        actual = rw.objectives.fair(rw.objectives.PLRank(), weight=9.0, merit=merit)(
            scores, labels, [0, 3, 6], rw.Stream(1), groups=groups
        )
        for one, other in zip(actual, plain, strict=True):
            np.testing.assert_array_equal(one, other)


def test_the_curvature_of_the_disparity_is_the_size_of_its_gradient():
    scores, labels, offsets, groups = lists()
    plain = rw.objectives.ListNet(newton="diagonal")(scores, labels, offsets)
    actual = rw.objectives.fair(rw.objectives.ListNet(newton="diagonal"), weight=3.0)(
        scores, labels, offsets, rw.Stream(1), groups=groups
    )
    np.testing.assert_allclose(actual.hessian - plain.hessian, np.abs(actual.gradient - plain.gradient), atol=1e-12)
    assert (actual.hessian >= 0.0).all()
    assert (actual.gradient != plain.gradient).any()


def test_cutoff_and_samples_are_those_of_the_plrank_inside_unless_set():
    inner = rw.objectives.PLRank(cutoff=3, samples=7, sampler="race", draws="antithetic")
    for around in (inner, rw.objectives.stochastic(inner), 0.5 * rw.objectives.XENDCG() + 2.0 * inner):
        exposing = rw.objectives.fair(around).exposing
        assert (exposing.cutoff, exposing.samples, exposing.sampler, exposing.draws) == (3, 7, "race", "antithetic")
    exposing = rw.objectives.fair(inner, cutoff=9, samples=30).exposing
    assert (exposing.cutoff, exposing.samples) == (9, 30)
    assert rw.objectives.fair(rw.objectives.XENDCG()).exposing.cutoff == 10


@pytest.mark.parametrize("text", ["fair(plrank(samples=20))", "2.0*fair(xendcg, merit=proportional) + listnet"])
def test_results_depend_on_ids_alone(text, monkeypatch):
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    scores, labels, offsets, groups = lists()
    ids = np.array([f"q{k}" for k in range(30)])
    objective = rw.objective(text)
    with rw.use_threads(1):
        full = objective(scores, labels, offsets, rw.Stream(4, query_ids=ids), groups=groups)
    with rw.use_threads(2):
        again = objective(scores, labels, offsets, rw.Stream(4, query_ids=ids), groups=groups)
    for one, other in zip(full, again, strict=True):
        np.testing.assert_array_equal(one, other)
    order = np.random.default_rng(1).permutation(30)[:17]
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in order])
    cuts = np.concatenate(([0], np.cumsum(np.diff(offsets)[order])))
    stream = rw.Stream(4, query_ids=ids[order])
    parts = (
        objective(scores[rows], labels[rows], cuts, stream, groups=groups[rows]),
        objective.prepare(labels, offsets, groups=groups).take(order)(scores[rows], stream),
    )
    for part in parts:
        np.testing.assert_array_equal(part.value, full.value[order])
        np.testing.assert_array_equal(part.gradient, full.gradient[rows])
        np.testing.assert_array_equal(part.hessian, full.hessian[rows])


def test_a_loss_of_torch_takes_groups():
    torch = pytest.importorskip("torch")
    scores, labels, offsets, groups = lists(4)
    expected = rw.objectives.fair(rw.objectives.PLRank())(scores, labels, offsets, rw.Stream(3), groups=groups)
    for column in (groups, torch.tensor(np.unique(groups, return_inverse=True)[1])):
        example = torch.tensor(scores, requires_grad=True)
        loss = rw.torch_loss(rw.objectives.fair(rw.objectives.PLRank()), "sum")
        loss(example, torch.tensor(labels), torch.tensor(offsets), stream=rw.Stream(3), groups=column).backward()
        np.testing.assert_array_equal(example.grad.numpy(), expected.gradient)


def test_errors_say_what_is_missing():
    with refusal(what="fair needs the group of every document", got="data without groups", hint="set groups=…"):
        rw.objectives.fair(rw.objectives.PLRank())([0.0, 1.0], [0, 1], [0, 2], rw.Stream(0))
    with refusal(what="listnet takes no groups", hint="…groups go to fair…"):
        rw.objectives.ListNet()([0.0, 1.0], [0, 1], [0, 2], groups=["a", "b"])
    with refusal(what="listnet takes no groups"):
        (rw.objectives.ListNet() + rw.objectives.SoftmaxCE())([0.0, 1.0], [0, 1], [0, 2], groups=["a", "b"])
    with refusal(what="groups must be one integer or string per document"):
        rw.objectives.fair(rw.objectives.PLRank())([0.0, 1.0], [0, 1], [0, 2], rw.Stream(0), groups=["a"])
    with refusal(what="unknown merit", got="'proportionl'", hint="did you mean 'proportional'"):
        rw.objective("fair(plrank, merit=proportionl)")
    with refusal(what="fair(listnet) draws random numbers and needs a stream"):
        rw.objectives.fair(rw.objectives.ListNet())([0.0, 1.0], [0, 1], [0, 2], groups=["a", "b"])
