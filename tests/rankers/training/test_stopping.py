"""Which round is kept, and when training ends: every number here can be checked with a pencil."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rankwise as rw
from rankwise.rankers.training.stopping import Stopping
from tests.refusals import refuses

#          round      1    2    3    4    5    6    7    8
CURVE = {"ndcg": [0.50, 0.90, 0.40, 0.60, 0.70, 0.80, 0.50, 0.60], "ap": [0.1, 0.1, 0.8, 0.2, 0.2, 0.2, 0.2, 0.2]}
# means of two            0.70 0.65 0.50 0.65 0.75 0.65 0.55
# means of three               0.60 0.63 0.57 0.70 0.67 0.63


def stopping(**changes):
    rule: dict[str, Any] = {"rounds": 100, "metrics": ("ndcg", "ap")} | changes
    return Stopping(**rule)


def best_round(rule: Stopping, history: dict[str, list[float]], done: int) -> int:
    """The best of the first rounds, as the loop finds it."""
    best = 0
    for number in range(1, done + 1):
        best = number if rule.improved(history, number, best) else best
    return best


@pytest.mark.parametrize(
    ("smoothing", "best"),
    [
        (1, [1, 2, 2, 2, 2, 2, 2, 2]),
        (2, [1, 2, 2, 2, 2, 6, 6, 6]),
        (3, [1, 2, 3, 4, 4, 6, 6, 6]),
        (8, [1, 2, 3, 4, 5, 6, 7, 8]),
        (9, [1, 2, 3, 4, 5, 6, 7, 8]),
    ],
)
def test_the_best_round_of_a_moving_mean(smoothing, best):
    rule = stopping(smoothing=smoothing)
    assert [best_round(rule, CURVE, done) for done in range(1, 9)] == best


def test_the_mean_of_all_metrics_decides_if_it_is_told_to():
    rule = stopping(stop_on="mean")  # 0.30 0.50 0.60 0.40 0.45 0.50 0.35 0.40
    assert [best_round(rule, CURVE, done) for done in (1, 2, 3, 8)] == [1, 2, 3, 3]
    smooth = stopping(stop_on="mean", smoothing=2)  # of two: 0.40 0.55 0.50 0.425 0.475 0.425 0.375
    assert [best_round(smooth, CURVE, done) for done in (1, 2, 3, 8)] == [1, 2, 3, 3]


def test_patience_counts_from_the_round_that_would_be_kept():
    for smoothing, end in ((1, 5), (2, 5), (3, 9)):
        rule, best = stopping(patience=3, smoothing=smoothing), 0
        for done in range(1, 9):
            best = done if rule.improved(CURVE, done, best) else best
            if rule.finished(done, best):
                break
        else:
            done = 9
        assert done == end, smoothing
    assert stopping(rounds=4).finished(4, 1) == "rounds"
    assert stopping(rounds=4, unit="epochs").finished(4, 1) == "epochs"
    assert not stopping(rounds=4).finished(3, 1)


def test_without_validation_data_the_last_round_is_the_best():
    rule = Stopping(rounds=9, patience=1, smoothing=3)
    assert best_round(rule, {"loss": [3.0, 1.0, 2.0]}, 3) == 3
    assert not rule.finished(3, 3)


@given(st.lists(st.sampled_from([0.25, 0.5, 0.75]), min_size=1, max_size=12), st.integers(1, 12))
def test_of_equal_means_the_first_is_kept(values, smoothing):
    """Sums are exact, so other values of the same sum are the same mean."""
    best = best_round(stopping(smoothing=smoothing), {"ndcg": values}, len(values))
    if len(values) < smoothing:
        assert best == len(values)
    else:
        quarters = (4 * np.array(values)).astype(int)
        assert best == smoothing + int(np.argmax(np.convolve(quarters, np.ones(smoothing, int), "valid")))


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({"smoothing": 0}, {"what": "smoothing must be a whole number of at least 1", "got": "0"}),
        ({"stop_on": "last"}, {"what": "unknown way to stop (stop_on)", "got": "'last'", "hint": "…first, mean"}),
        ({"patience": 0}, {"what": "patience must be a whole number of at least 1", "got": "0"}),
    ],
)
@pytest.mark.parametrize("make", [rw.LightGBMRanker, rw.NeuralRanker])
def test_wrong_settings_are_named(make, settings, fields, data, valid):
    refuses(lambda: make(**settings).fit(data, valid), **fields)


@pytest.mark.parametrize("library", ["lightgbm", "neural", "factorization"])
def test_rankers_keep_the_round_that_the_smoothed_rule_names(library, data, valid):
    model: Any
    same: Any
    settings: dict[str, Any] = {
        "threads": 1,
        "smoothing": 3,
        "metrics": ("ndcg@5", "ap"),
        "stop_on": "mean",
        "patience": None,
    }
    if library == "lightgbm":
        model = rw.LightGBMRanker("lambdarank", rounds=15, leaves=7, min_documents=5, **settings)
        same = rw.LightGBMRanker("lambdarank", leaves=7, min_documents=5, threads=1)
    elif library == "neural":
        nets: dict[str, Any] = {"hidden": (8,), "learning_rate": 0.05, "device": "cpu"}
        model = rw.NeuralRanker("softmax_ce", epochs=15, **nets, **settings)
        same = rw.NeuralRanker("softmax_ce", threads=1, **nets)
    else:
        data = valid = rw.recommend.synthetic_ratings(30, 40, n_ratings=12, seed=1)
        model = rw.recommend.FactorizationRanker(factors=3, epochs=15, device="cpu", **settings)
        same = rw.recommend.FactorizationRanker(factors=3, threads=1, device="cpu")
    model.fit(data, valid)
    means = np.convolve(np.mean([model.history_[str(m)] for m in ("ndcg@5", "ap")], axis=0), np.ones(3) / 3, "valid")
    assert means[model.best_round_ - 3] == pytest.approx(means.max())
    same.set_params(**{model.unit: model.best_round_}).fit(data)
    scored = valid if library != "factorization" else valid.dataset(1, seed=0)
    assert np.array_equal(model.predict(scored), same.predict(scored))


def test_patience_stops_nothing_before_the_least_number_of_rounds():
    rule: dict[str, Any] = {"rounds": 9, "metrics": ("ndcg",), "patience": 2}
    assert [bool(Stopping(**rule, min_rounds=least).finished(3, 1)) for least in (0, 3, 4)] == [True, True, False]
    assert Stopping(**rule, min_rounds=99).finished(9, 1) == "rounds"


@pytest.mark.parametrize("make", [lambda ranker: ranker, lambda ranker: rw.bagged(ranker, folds=2)], ids=["one", "bag"])
def test_rounds_before_the_least_number_are_the_same(make, data, valid):
    settings: dict[str, Any] = {"rounds": 40, "patience": 2, "smoothing": 1, "learning_rate": 0.5, "threads": 1}
    short = make(rw.LightGBMRanker("xendcg", leaves=8, **settings)).fit(data, valid)
    long = make(rw.LightGBMRanker("xendcg", leaves=8, **settings, min_rounds=20)).fit(data, valid)
    name, *_ = (key for key in short.history_ if key.startswith("ndcg"))
    done = len(short.history_[name])
    assert done < 20 <= len(long.history_[name])
    assert long.history_[name][:done] == short.history_[name]
    assert long.history_[name][long.best_round_ - 1] == max(long.history_[name])
