"""Kendall's τ and Spearman's ρ of scores and graded labels, against SciPy."""

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.metrics import Kendall
from tests.refusals import refusal

PEERS = {"kendall": stats.kendalltau, "spearman": stats.spearmanr}


@pytest.mark.parametrize("name", PEERS)
@pytest.mark.filterwarnings("ignore::scipy.stats.ConstantInputWarning")
def test_scipy_query_by_query(name):
    rng = np.random.default_rng(0)
    offsets = np.r_[0, np.cumsum(rng.integers(1, 60, 300))]
    scores, labels = np.round(rng.normal(size=offsets[-1]), 1), rng.integers(0, 4, offsets[-1]).astype(float)
    scores[rng.random(scores.size) < 0.1] = -np.inf  # all of them the last, as one tie
    for q in range(0, 300, 9):
        labels[offsets[q] : offsets[q + 1]] = 2.0
    finite = np.maximum(scores, -100.0)
    found = rw.metric(name)(scores, labels, offsets)
    for q, value in enumerate(found):
        mine = slice(offsets[q], offsets[q + 1])
        if np.ptp(labels[mine]) == 0:
            assert np.isnan(value)
        elif np.ptp(finite[mine]) == 0:
            assert value == 0
        else:
            assert value == pytest.approx(PEERS[name](finite[mine], labels[mine]).statistic, abs=1e-12)


def test_equal_labels_are_skipped_and_equal_scores_are_worth_nothing():
    assert np.isnan(Kendall()([2.0, 1.0], [1, 1], [0, 2]))
    assert rw.metric("spearman(empty=1)")([2.0, 1.0], [1, 1], [0, 2]) == 1.0
    assert rw.metric("spearman")([1.0, 1.0], [1, 0], [0, 2]) == 0.0


def test_options_without_a_meaning_are_refused():
    with refusal(what="kendall has no cutoff", got="@10", hint="leave it out"):
        rw.metric("kendall@10")
    with refusal(what="spearman has no ties", got="ties=row", hint="leave it out"):
        rw.metric("spearman(ties=row)")
    assert str(rw.metric("kendall", conventions="lightgbm")) == "kendall(empty=1)"


def test_early_stopping_goes_by_it():
    data = rw.synthetic(n_queries=60, n_docs=12, seed=3)
    train, valid = rw.split(data, (0.7, 0.3), seed=0)
    ranker = rw.LightGBMRanker(
        rounds=30, patience=3, leaves=4, min_documents=5, metrics="kendall", threads=1, progress=False
    ).fit(train, valid)
    history = ranker.history_["kendall"]
    assert ranker.best_round_ == int(np.argmax(history)) + 1
    assert history[ranker.best_round_ - 1] == pytest.approx(rw.evaluate(ranker, valid, "kendall").mean["kendall"])
