"""Simulated logs: users and rankings as by listing every case, and the same log whatever the order and the threads."""

import itertools
from collections import Counter
from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy import stats

import rankwise as rw
from rankwise.base import threads
from rankwise.wings.clicks.logs.log import Log
from tests.refusals import refusal

CURVE = [1.0, 0.68, 0.44, 0.32]
TRUST = ([0.98, 0.9, 0.8, 0.75], [0.3, 0.2, 0.1, 0.05])


def make(sizes, labels, ids=None, **columns):
    return rw.RankingDataset.from_sizes(
        np.arange(len(labels), dtype=float)[:, None], labels, sizes, query_ids=ids, **columns
    )


def simulate(*arguments: Any, **options: Any) -> Any:
    return rw.clicks.simulate(*arguments, **options)


def simulate_lists(*arguments: Any, **options: Any) -> Any:
    return rw.clicks.simulate_clicks(*arguments, **options)


def patterns(log):
    """Number of impressions by documents and clicks."""
    lists, size = log.sessions, log.n_positions
    documents = log.document_ids[lists.pairs].reshape(-1, size)
    pairs = zip(documents.tolist(), lists.clicked.reshape(-1, size).tolist(), strict=True)
    return Counter((tuple(shown), tuple(clicks)) for shown, clicks in pairs)


def fits(counts, expected):
    """Whether counts agree with a distribution over the same keys; rare ones are added up."""
    assert set(counts) <= {key for key, chance in expected.items() if chance > 0}
    times = sum(counts.values())
    pairs = sorted((times * chance, counts.get(key, 0)) for key, chance in expected.items() if chance)
    rare = [pair for pair in pairs if pair[0] < 8]
    pairs = [pair for pair in pairs if pair[0] >= 8] + ([tuple(np.sum(rare, 0))] if rare else [])
    np.testing.assert_allclose(sum(pair[0] for pair in pairs), times, rtol=1e-9)
    return stats.chisquare([pair[1] for pair in pairs], [pair[0] for pair in pairs]).pvalue > 1e-4


def chance_of(clicks, rewards, users, satisfied=(), continuation=1.0):
    """The probability of one click pattern, by the story of each model."""
    if users["model"] == "position":
        plus, minus = np.array(users.get("trust", ([1] * 4, [0] * 4)))
        curve = np.array(users["curve"])
        chances = curve * (plus * rewards + minus * (1 - np.asarray(rewards)))
        return float(np.prod(np.where(clicks, chances, 1 - chances)))
    if not clicks:
        return 1.0
    here = rewards[0] if clicks[0] else 1 - rewards[0]
    stays = continuation * (1 - satisfied[0]) if clicks[0] else continuation
    rest = chance_of(clicks[1:], rewards[1:], users, satisfied[1:], continuation)
    return here * (stays * rest + (1 - stays) * (not any(clicks[1:])))


@pytest.mark.parametrize(
    "users",
    [
        {"model": "position", "curve": CURVE},
        {"model": "position", "curve": CURVE, "trust": TRUST},
        {"model": "cascade"},
        {"model": "dbn"},
        {"model": "dbn", "satisfaction": (0.1, 0.2, 0.3, 0.4, 1.0), "continuation": 0.5},
    ],
)
def test_click_patterns_and_expected_clicks_are_those_of_the_model(users):
    labels = [4, 0, 2, 3]
    data, scores = make([4], labels), [1.0, 3.0, 4.0, 2.0]  # shown in the order 2, 1, 3, 0
    rewards = np.array([0.5, 0.05, 0.7, 0.95])
    leaving = {"cascade": (1,) * 5, "dbn": users.get("satisfaction", (0.2, 0.3, 0.5, 0.7, 0.9))}
    satisfied = [leaving.get(users["model"], (0,) * 5)[labels[row]] for row in (2, 1, 3, 0)]
    continuation = users.get("continuation", 0.9 if users["model"] == "dbn" else 1.0)
    expected = {
        ((2, 1, 3, 0), clicks): chance_of(clicks, rewards, users, satisfied, continuation)
        for clicks in itertools.product((False, True), repeat=4)
    }
    assert sum(expected.values()) == pytest.approx(1.0, abs=1e-12)
    log = simulate(data, ranker=scores, impressions=30_000, seed=1, **users)
    assert fits(patterns(log), expected)
    mean = sum(sum(clicks) * chance for (_, clicks), chance in expected.items())
    truth = rw.clicks.Users(**users)
    np.testing.assert_allclose(truth.expected_clicks(data, scores), [mean], rtol=1e-12)
    np.testing.assert_array_equal(truth.rewards(data), [0.95, 0.05, 0.5, 0.7])
    shorter = truth.expected_clicks(data, [1.0, 3.0, -np.inf, 2.0], cutoff=2)
    np.testing.assert_allclose(shorter, truth.expected_clicks(make([2], [0, 3]), [2.0, 1.0]), rtol=1e-12)
    if users["model"] == "position":
        alpha, beta = truth.bias(4)
        np.testing.assert_allclose((alpha * rewards + beta).sum(), mean, rtol=1e-12)


def test_drawn_rankings_are_plackett_luce_and_their_probabilities_are_conditional():
    data, scores, temperature = make([4], [0, 1, 2, 3]), np.array([0.0, 1.0, 0.3, -1.0]), 0.7
    log = simulate(data, ranker=scores, temperature=temperature, cutoff=3, impressions=30_000, seed=2)
    weights = np.exp(scores / temperature)
    counts: Counter[tuple[int, ...]] = Counter()
    for (shown, _), times in patterns(log).items():
        counts[shown] += times
    steps = {
        order: [weights[order[i]] / (weights.sum() - weights[list(order[:i])].sum()) for i in range(3)]
        for order in itertools.permutations(range(4), 3)
    }
    assert fits(counts, {order: np.prod(chances) for order, chances in steps.items()})
    shown = log.document_ids[log.sessions.pairs].reshape(-1, 3)
    expected = np.array([steps[tuple(order)] for order in shown.tolist()])
    np.testing.assert_allclose(log.sessions.probabilities.reshape(-1, 3), expected, rtol=1e-6)


def test_probabilities_of_peaked_and_of_shuffled_rankings():
    data, scores = make([5], [0] * 5), np.array([-100.5, 0.0, -100.0, -2000.0, -np.inf])
    log = simulate(data, ranker=scores, temperature=1.0, impressions=2000, seed=3)
    documents = log.document_ids[log.sessions.pairs].reshape(-1, 4)
    chances = log.sessions.probabilities.reshape(-1, 4)
    assert (documents[:, [0, 3]] == [1, 3]).all()
    second = 1 / (1 + np.exp(-0.5))
    np.testing.assert_allclose(chances[:, 1], np.where(documents[:, 1] == 2, second, 1 - second), rtol=1e-6)
    np.testing.assert_array_equal(chances[:, [0, 2, 3]], 1.0)
    assert abs((documents[:, 1] == 2).mean() - second) < 0.05
    shuffled = simulate(data, impressions=50, cutoff=3, seed=1)
    np.testing.assert_allclose(shuffled.sessions.probabilities.reshape(-1, 3), np.tile([1 / 5, 1 / 4, 1 / 3], (50, 1)))
    assert simulate(data, ranker=scores, impressions=3).probabilities is None


def random_data(seed=7, n_queries=40):
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 15, n_queries)
    ids = np.array([f"q{number}" for number in rng.permutation(n_queries)])
    documents = np.concatenate([rng.permutation(100)[:size] for size in sizes])
    return make(sizes, rng.integers(0, 5, sizes.sum()), ids, document_ids=documents)


def rankers_of(data):
    return {"b": np.sin(data.features[:, 0]), "a": np.round(np.cos(data.features[:, 0])), "shuffled": None}


def assert_same(log, other):
    for name in ("query_ids", "offsets", "document_ids", "pairs", "positions", "rankers", "segments"):
        np.testing.assert_array_equal(getattr(log, name), getattr(other, name), err_msg=name)
    for name in ("impressions", "clicks", "probabilities"):
        np.testing.assert_allclose(getattr(log, name), getattr(other, name), rtol=1e-6, err_msg=name)
    assert log.ranker_names == other.ranker_names
    for name in ("offsets", "pairs", "positions", "clicked", "rankers", "segments", "weights", "probabilities"):
        one, two = getattr(log.sessions, name), getattr(other.sessions, name)
        np.testing.assert_array_equal(one, two, err_msg=name)
        assert one.dtype == two.dtype


def test_the_log_is_what_reading_its_rows_would_make():
    data = random_data()
    counts = np.random.default_rng(1).integers(0, 30, data.n_queries)
    log = simulate(data, rankers=rankers_of(data), temperature=0.5, impressions=counts, cutoff=5, eta=0.7, seed=4)
    lists = log.sessions
    impression = np.repeat(np.arange(lists.n_impressions), np.diff(lists.offsets))
    query_of_pair = np.repeat(np.arange(log.n_queries), np.diff(log.offsets))
    rows = pl.LazyFrame(
        {
            "query": log.query_ids[query_of_pair[lists.pairs]],
            "document": log.document_ids[lists.pairs],
            "impression": impression,
            "position": lists.positions,
            "clicked": lists.clicked,
            "ranker": np.array(log.ranker_names)[lists.rankers[impression]],
            "probability": lists.probabilities,
        }
    )
    assert_same(log, Log.from_rows(rows))
    assert log.n_impressions == counts.sum()
    assert set(log.query_ids) == set(data.query_ids[counts > 0])
    assert log.rows_in(data).size == log.n_pairs
    assert simulate(data, sessions=False).sessions is None


def test_the_same_clicks_as_impressions_that_are_queries():
    data = random_data()
    settings = {"model": "position", "rankers": rankers_of(data), "trust": (0.9, 0.2), "cutoff": 6, "seed": 5}
    log = simulate(data, impressions=20, **settings)
    lists = simulate_lists(data, impressions=20, keep_empty=True, **settings)
    name, number = np.array([one.split("#") for one in lists.query_ids.tolist()]).T
    order = lists.take(np.lexsort((number.astype(int), name)))
    np.testing.assert_array_equal(order.labels, log.sessions.clicked)
    np.testing.assert_array_equal(order.positions, log.sessions.positions)
    np.testing.assert_array_equal(order.document_ids, log.document_ids[log.sessions.pairs])
    np.testing.assert_allclose(order.propensities, 1 / order.positions)


@pytest.mark.parametrize("drawn", [None, 0.5])
@pytest.mark.parametrize("model", ["position", "dbn"])
def test_order_of_queries_rankers_and_threads_change_nothing(model, drawn, monkeypatch):
    data = random_data()

    def simulated(dataset, turned=False):
        rankers = rankers_of(dataset)
        if turned:
            rankers = dict(reversed(rankers.items()))
        return simulate(dataset, model=model, rankers=rankers, temperature=drawn, impressions=30, seed=6)

    log = simulated(data)
    assert log.ranker_names == ("a", "b", "shuffled")
    share = np.bincount(log.sessions.rankers, minlength=3) / log.n_impressions
    assert (abs(share - 1 / 3) < 0.06).all()
    turned = data.take(np.random.default_rng(2).permutation(data.n_queries))
    assert_same(log, simulated(turned, turned=True))
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    with rw.use_threads(3):
        assert_same(log, simulated(turned))


def test_a_curve_ends_the_list_and_data_without_ids_are_numbered():
    data = make([3, 2], [0, 1, 2, 3, 4])
    log = simulate(data, curve=[1.0, 0.5], ranker=[3.0, 2.0, 1.0, 1.0, 2.0], impressions=4)
    assert (log.n_positions, log.query_ids.tolist(), log.document_ids.tolist()) == (2, [0, 1], [0, 1, 3, 4])
    assert log.impressions.tolist() == [4.0] * 4


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            {"model": "dbn", "curve": [1.0]},
            "users of the model 'dbn' have no curve: got curve=[1.0]. Hint: set model=\"position\".",
        ),
        (
            {"model": "cascade", "continuation": 0.5},
            "users of the model 'cascade' have no continuation: got continuation=0.5. Hint: set model=\"dbn\".",
        ),
        ({"model": "dbn", "continuation": 2}, "continuation must be a number in [0, 1]: got 2."),
        (
            {"curve": [1.0, 1.5]},
            "each of the examination probabilities must be a number in [0, 1]: got 1.5.",
        ),
        (
            {"curve": [1.0], "eta": 0.5},
            "examination is either a curve or (1/r)^eta: got a curve and eta=0.5. Hint: leave one of them out.",
        ),
        (
            {"trust": (0.1, [0.05, 0.3])},
            "a click on a relevant document must be at least as likely as on another: "
            "got trust 0.1 below 0.3 at position 2.",
        ),
        (
            {"trust": ([1.0] * 3, [0.0, 0.0]), "cutoff": 3},
            "trust is a number, or one for each position: got 2 for 3 positions. Hint: set a cutoff, or one number.",
        ),
        ({"temperature": 0}, "temperature must be a number in [1e-06, 1e+06]: got 0."),
        ({"impressions": 0}, "impressions must be a whole number of at least 1: got 0."),
        (
            {"impressions": [1]},
            "impressions must be a whole number, or one of at least 0 for each query: "
            "got shape (1,) of int64 for 2 queries.",
        ),
        (
            {"ranker": [1.0] * 4, "rankers": {"a": None}},
            "lists are shown by one ranker, or by rankers, a dictionary with a name for each: got both.",
        ),
    ],
)
def test_errors(arguments, sentence):
    labels = [0, 2, 3] if "cutoff" in arguments else [0, 2]
    with pytest.raises(ValueError) as caught:
        simulate(make([len(labels), 2], [*labels, 1, 0], ["a", "b"]), **arguments)
    assert str(caught.value) == sentence


def test_a_document_twice_and_bias_of_a_cascade_are_rejected():
    with refusal(what="a document may be in a list once", got="document 7 twice", where="row 1 (query 'a')"):
        simulate(make([2], [0, 1], ["a"], document_ids=np.array([7, 7])))
    with refusal(what="clicks of the model 'cascade' depend on what stands above, not on the position alone"):
        rw.clicks.Users(model="cascade").bias(3)
