"""Simulated users: the right documents in the right places, clicked as often as the model says."""

import itertools
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.base import threads
from tests.refusals import refusal

CHANCES = (0.05, 0.3, 0.5, 0.7, 0.95)


def make(sizes, labels, ids=None, **columns):
    """Documents whose only feature is their row."""
    return rw.RankingDataset.from_sizes(
        np.arange(len(labels), dtype=float)[:, None], labels, sizes, query_ids=ids, **columns
    )


def simulate(*arguments: Any, **options: Any) -> Any:
    return rw.clicks.simulate_clicks(*arguments, **options)


def impressions(log):
    """What each impression shows and which of it was clicked, by its id."""
    bounds = zip(log.offsets[:-1].tolist(), log.offsets[1:].tolist(), strict=True)
    return {
        name: (log.features[a:b, 0].astype(int).tolist(), log.labels[a:b].tolist(), log.positions[a:b].tolist())
        for name, (a, b) in zip(log.query_ids.tolist(), bounds, strict=True)
    }


def test_a_cascade_ends_at_the_first_click_and_is_drawn_as_by_listing_every_order():
    labels, times = [0, 2, 4, 1], 40_000
    log = simulate(make([4], labels, ["Q"]), impressions=times, seed=1)
    seen: Counter[tuple[int, ...]] = Counter()
    for shown, clicks, positions in impressions(log).values():
        assert clicks == [0.0] * (len(shown) - 1) + [1.0]
        assert positions == list(range(1, len(shown) + 1))
        seen[tuple(shown)] += 1
    # Every order is equally likely; the list up to and including the r-th ends there with these chances.
    expected: dict[tuple[int, ...], float] = defaultdict(float)
    for order in itertools.permutations(range(4)):
        alive = 1 / 24
        for r, document in enumerate(order):
            chance = CHANCES[labels[document]]
            expected[order[: r + 1]] += alive * chance
            alive *= 1 - chance
    dropped = 0.95 * 0.5 * 0.05 * 0.7
    assert abs(log.dropped - times * dropped) < 5 * np.sqrt(times * dropped)
    assert log.dropped + log.n_queries == times
    keys = list(expected)
    counts = np.array([seen[key] for key in keys] + [log.dropped])
    chances = np.array([expected[key] for key in keys] + [dropped])
    assert set(seen) <= set(keys)
    assert stats.chisquare(counts, times * chances).pvalue > 1e-3


def test_impressions_of_a_query_and_of_neighbouring_queries_are_independent():
    log = simulate(make([2] * 5000, [4, 4] * 5000), impressions=2, probabilities=(0, 0, 0, 0, 1.0), seed=3)
    first = (log.features[:, 0] % 2).reshape(5000, 2)  # which of the two documents was shown (and clicked) first
    table = np.zeros((2, 2))
    np.add.at(table, tuple(first.astype(int).T), 1)
    assert stats.chisquare(table.ravel()).pvalue > 1e-3
    assert abs(np.corrcoef(first[1:, 0], first[:-1, 0])[0, 1]) < 4 / np.sqrt(5000)


def test_the_position_model_clicks_what_is_examined_and_attractive():
    labels, times, eta = [4, 0, 3, 1], 20_000, 0.7
    data = make([4], labels)
    scores = np.array([1.0, 4.0, 2.0, 3.0])  # shown in the order 1, 3, 2, 0
    log = simulate(data, model="position", ranker=scores, eta=eta, impressions=times, keep_empty=True, seed=2)
    assert log.dropped == 0
    assert (log.sizes == 4).all()
    assert (log.features[:, 0].reshape(-1, 4) == [1, 3, 2, 0]).all()
    ranks = np.arange(1, 5)
    assert (log.positions.reshape(-1, 4) == ranks).all()
    np.testing.assert_allclose(log.propensities.reshape(-1, 4), np.tile(1 / ranks**eta, (times, 1)), rtol=1e-12)
    clicks = log.labels.reshape(-1, 4)
    expected = np.array([0.05, 0.3, 0.7, 0.95]) / ranks**eta
    assert (abs(clicks.mean(0) - expected) < 4.5 * np.sqrt(expected * (1 - expected) / times)).all()
    assert abs(np.asarray(np.corrcoef(clicks.T))[np.triu_indices(4, 1)]).max() < 4.5 / np.sqrt(times)
    # Dividing clicks by the propensities gives back the attractiveness.
    np.testing.assert_allclose((clicks / log.propensities.reshape(-1, 4)).mean(0), [0.05, 0.3, 0.7, 0.95], atol=0.03)
    # Without keep_empty, exactly the impressions with a click remain, under their own numbers.
    kept = simulate(data, model="position", ranker=scores, eta=eta, impressions=times, seed=2)
    assert kept.dropped == (clicks.sum(1) == 0).sum() > 0
    everything = impressions(log)
    assert impressions(kept) == {name: shown for name, shown in everything.items() if any(shown[1])}


def test_a_ranker_decides_the_order_and_ties_are_broken_at_random():
    data = make([4, 2], [0, 0, 0, 4, 0, 4], ["a", "b"], document_ids=np.array(list("uvwxyz")), weights=[2.0, 3.0])
    scores = [1.0, 3.0, 3.0, 0.0, 0.0, 5.0]

    class Model:
        def predict(self, dataset):
            assert dataset is data
            return scores

    certain = {"probabilities": (0, 0, 0, 0, 1), "impressions": 400}
    log = simulate(data, ranker=Model(), **certain)
    assert impressions(log) == impressions(simulate(data, ranker=scores, **certain))
    orders = Counter(tuple(shown) for shown, _, _ in impressions(log).values())
    assert set(orders) == {(1, 2, 0, 3), (2, 1, 0, 3), (5,)}
    assert abs(orders[(1, 2, 0, 3)] - 200) < 50
    assert log.document_ids[log.offsets[400]] == "z"
    np.testing.assert_array_equal(log.weights, [2.0] * 400 + [3.0] * 400)
    assert log.query_ids[[0, 2, 400, 799]].tolist() == ["a#1", "a#3", "b#1", "b#400"]
    assert log.propensities is None


def test_only_the_retrieved_and_the_first_documents_are_shown():
    data = make([4], [1, 1, 1, 1])
    never = {"probabilities": (0, 0), "keep_empty": True, "impressions": 1}
    hidden = simulate(data, ranker=[1.0, -np.inf, 3.0, 2.0], **never)
    assert impressions(hidden) == {"0#1": ([2, 3, 0], [0, 0, 0], [1, 2, 3])}
    top = simulate(data, ranker=[1.0, 4.0, 3.0, 2.0], cutoff=2, model="position", **never)
    assert impressions(top) == {"0#1": ([1, 2], [0, 0], [1, 2])}
    assert simulate(data, cutoff=9, **never).n_docs == 4


def test_fewer_grades_use_the_first_probabilities():
    data = make([3] * 50, [0, 1, 1] * 50)
    short = simulate(data, probabilities=(0.05, 0.3), seed=5)
    assert impressions(short) == impressions(simulate(data, seed=5))


def test_columns_of_the_data_are_kept_and_the_log_is_a_data_set():
    data = make([2, 2], [4, 0, 0, 4], feature_names=["f"], categorical=(0,))
    log = simulate(data, seed=1)
    assert (log.feature_names, log.categorical) == (("f",), (0,))
    part = log.take([1, 0])
    assert list(impressions(part)) == [log.query_ids[1], log.query_ids[0]]
    assert repr(log).startswith(f"ClickLog({log.n_queries} queries, ")
    assert repr(log.with_(dropped=1)).endswith("labels 0 to 1, 1 impression dropped)")
    assert repr(log.with_(dropped=2000)).endswith("labels 0 to 1, 2,000 impressions dropped)")
    assert isinstance(log, rw.RankingDataset)
    assert isinstance(part, rw.clicks.ClickLog)


@pytest.mark.parametrize("model", ["cascade", "position"])
@pytest.mark.parametrize("ranked", [False, True])
def test_order_of_queries_and_threads_change_nothing(model, ranked, monkeypatch):
    rng = np.random.default_rng(7)
    sizes = rng.integers(1, 25, 60)
    ids = np.array([f"q{number}" for number in range(60)])
    data = make(sizes, rng.integers(0, 5, sizes.sum()), ids)

    def clicks(dataset):
        scores = dataset.features[:, 0] % 3 if ranked else None
        return simulate(dataset, model=model, ranker=scores, seed=4)

    log = clicks(data)
    turned = data.take(rng.permutation(60))
    assert impressions(clicks(turned)) == impressions(log)
    assert clicks(turned).query_ids.tolist() != log.query_ids.tolist()
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    for count in (1, 2, 3):
        with rw.use_threads(count):
            assert impressions(clicks(data)) == impressions(log)
            assert impressions(clicks(turned)) == impressions(log)
    assert clicks(data).dropped == log.dropped == 600 - log.n_queries
    half = impressions(clicks(data.take(slice(0, 30))))
    assert half == {name: shown for name, shown in impressions(log).items() if int(name[1:].split("#")[0]) < 30}


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"model": "cascad"}, "unknown click model: got 'cascad'. Hint: did you mean 'cascade'."),
        ({"impressions": 0}, "impressions must be a whole number of at least 1: got 0."),
        ({"cutoff": 0}, "cutoff must be a whole number of at least 1: got 0."),
        ({"eta": -1}, "eta must be a number in [0, 10]: got -1."),
        (
            {"probabilities": (0.1, 1.1, 1)},
            "each of the click probabilities must be a number in [0, 1]: got 1.1.",
        ),
        ({"probabilities": ()}, "there must be at least one of the click probabilities: got ()."),
        (
            {"probabilities": (0.1, 0.9)},
            "labels must be the grades 0 to 1, as there are 2 click probabilities: got 2 at row 1 (query 'a'). "
            "Hint: give one probability for each grade; make real-valued labels grades first, or use binarize.",
        ),
        (
            {"probabilities": (0, 0, 0)},
            "no impression got a click: got 20 impressions. "
            "Hint: raise the click probabilities or the number of impressions, or keep_empty=True.",
        ),
        (
            {"ranker": [0.0, 1.0, np.nan]},
            "scores must be finite: got nan at row 2 (query 'b'). "
            "Hint: look at the model's output there; -inf is allowed and means 'not retrieved'.",
        ),
        (
            {"ranker": [0.0, 1.0, -np.inf]},
            "a list needs a document that can be shown: got only scores of -inf at row 2 (query 'b'). "
            "Hint: leave the query out.",
        ),
        ({"ranker": [0.0]}, "scores must be one number per document: got shape (1,) of float64 for 3 documents."),
    ],
)
def test_errors(arguments, sentence):
    with pytest.raises(ValueError) as caught:
        simulate(make([2, 1], [0, 2, 1], ["a", "b"]), **arguments)
    assert str(caught.value) == sentence


def test_real_valued_labels_are_rejected():
    with refusal(what="labels must be the grades 0 to 4,…", got="0.5", where="row 1 (query number 0)"):
        simulate(make([2], [0, 0.5]))
