"""Cascades: the choice holds in simulated data, losses are those of rankings by hand, costs and refusals."""

import math
from itertools import pairwise

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal

DOCS = 20


def simulated(rng: np.random.Generator, n_queries: int, tail: float) -> tuple[rw.RankingDataset, np.ndarray]:
    """One relevant document a query, which the second phase finds; the first has it at 12 or below in ``tail``."""
    ranks = np.where(rng.random(n_queries) < tail, rng.integers(12, DOCS, n_queries), rng.integers(0, 12, n_queries))
    labels = np.zeros((n_queries, DOCS))
    labels[np.arange(n_queries), ranks] = 1.0
    features = np.tile(-np.arange(DOCS, dtype=np.float64), n_queries)[:, None]
    offsets = np.arange(0, n_queries * DOCS + 1, DOCS)
    data = rw.RankingDataset(features, labels.ravel(), offsets, feature_names=["bm25"])
    return data, labels.ravel()


def test_the_choice_is_wrong_in_one_of_twenty_data_sets_at_most():
    """The true loss with 20 candidates is just above the margin, which is the hardest case."""
    rng, margin, tail = np.random.default_rng(7), 0.02, 0.0205
    wrong = naive = 0
    for _ in range(300):
        data, second = simulated(rng, 600, tail)
        found = rw.text.cascade("bm25", second, data, margin=margin, depths=[19, 17, 15, 12])
        wrong += found.keep <= 12
        naive += found.depths[-1].loss < margin
    assert wrong <= 300 * 0.05 + 2.3 * math.sqrt(300 * 0.05 * 0.95)
    assert naive > 75  # who takes the mean itself is often wrong


def test_it_finds_what_is_safe():
    data, second = simulated(np.random.default_rng(1), 2000, 0.001)
    found = rw.text.cascade("bm25", second, data, depths=[15, 12, 5])
    assert (found.keep, found.verdict) == (12, "keeps fewer")
    assert [one.verdict for one in found.depths] == ["passes", "passes", "passes", "fails"]
    stopped = rw.text.cascade("bm25", second, data, depths=[15, 5, 4])
    assert [one.verdict for one in stopped.depths] == ["passes", "passes", "fails", "not tested"]


def test_losses_are_those_of_rankings_by_hand():
    rng = np.random.default_rng(3)
    sizes = rng.integers(2, 30, 50)
    offsets = np.append(0, np.cumsum(sizes))
    labels, first, second = rng.integers(0, 4, offsets[-1]), rng.normal(size=offsets[-1]), rng.normal(size=offsets[-1])
    data = rw.RankingDataset(first[:, None], labels, offsets)
    found = rw.text.cascade(first, second, data, depths=[15, 5])
    for one in found.depths:
        by_hand = np.zeros(offsets[-1])
        for start, end in pairwise(offsets):
            order = np.argsort(-first[start:end])
            kept, rest = order[: one.keep], order[one.keep :]
            ranking = [*kept[np.argsort(-second[start:end][kept])], *rest]
            by_hand[start:end][ranking] = -np.arange(end - start)
        expected = rw.evaluate(by_hand, data, "ndcg@10").mean["ndcg@10"]
        assert one.value == pytest.approx(expected, abs=1e-12)
        assert one.loss == pytest.approx(rw.evaluate(second, data, "ndcg@10").mean["ndcg@10"] - expected, abs=1e-12)
        assert one.documents == pytest.approx(np.minimum(sizes, one.keep).mean())


def test_equal_scores_of_the_first_phase_are_not_broken_by_the_order_of_rows():
    labels = np.tile([1.0, *[0.0] * 19], 400)
    data = rw.RankingDataset(np.zeros((8000, 1)), labels, np.arange(0, 8001, 20), feature_names=["same"])
    found = rw.text.cascade("same", labels, data, depths=[10], seconds=(0.0, 0.0))
    assert 0.4 < found.depths[1].loss < 0.6
    assert rw.text.cascade("same", labels, data, depths=[10], seconds=(0.0, 0.0)).depths == found.depths


def lists() -> tuple[rw.RankingDataset, rw.RankingDataset]:
    """Lists of 30 documents, to train on and to test."""
    rng = np.random.default_rng(2)
    features = rng.normal(size=(3600, 4))
    labels = np.clip(features.sum(axis=1) + rng.normal(size=3600), 0, 4).round()
    data = rw.RankingDataset(features, labels, np.arange(0, 3601, 30), feature_names=["a", "b", "c", "d"])
    return data.take(slice(0, 60)), data.take(slice(60, 120))


def test_a_model_of_whole_lists_scores_the_candidates_alone():
    train, test = lists()
    second = rw.LinearRanker(transform="quantile+query", threads=1).fit(train)
    found = rw.text.cascade("a", second, test, depths=[10])
    kept = np.concatenate([q + np.sort(np.argsort(-test.features[q : q + 30, 0])[:10]) for q in test.offsets[:-1]])
    part = rw.RankingDataset(test.features[kept], test.labels[kept], np.arange(0, kept.size + 1, 10))
    scores = np.full(test.n_docs, -1e9)
    scores[kept] = second.predict(part)
    alone = rw.evaluate(scores, test, "ndcg@10").mean["ndcg@10"]
    assert found.depths[1].value == pytest.approx(alone, abs=1e-9)


def test_costs_are_measured_or_given_and_tables_say_so(tmp_path):
    train, test = lists()
    second = rw.LightGBMRanker(rounds=3, threads=1).fit(train)
    first = rw.LinearRanker(transform=None, threads=1).fit(train)
    found = rw.text.cascade(first, second, test, depths=[20, 10])
    assert found.first_seconds > 0.0
    assert found.second_seconds > 0.0
    given = rw.text.cascade(first, second, test, depths=[20, 10], seconds=(0.5, 0.01))
    assert [round(one.seconds, 9) for one in given.depths] == [0.8, 0.7, 0.6]
    assert given.verdict == "keeps all"
    assert "do not show that 20 candidates lose less than 0.01 ndcg@10" in repr(given)
    unknown = rw.text.cascade("a", second, test, depths=[20])
    assert math.isnan(unknown.first_seconds)
    assert "–" in repr(unknown)
    assert unknown.to_frame()["keep"].to_list() == [30, 20]
    assert isinstance(given.to_frame(), pl.DataFrame)
    assert given.plot(tmp_path / "cascade.svg").exists()
    assert given.to_dict()["sentence"] == given.sentence


def test_what_cannot_be_measured_is_refused():
    data, _ = lists()
    second = rw.LightGBMRanker(rounds=2, threads=1).fit(data)
    with refusal(what="a second phase is judged on other queries", got="60 of 60 queries that it was trained on"):
        rw.text.cascade("a", second, data)
    with refusal(what="a first phase is judged on other queries"):
        rw.text.cascade(second, data.features[:, 1], data)
    scores = data.features[:, 1]
    with refusal(what="unknown first", got="'bm25'"):
        rw.text.cascade("bm25", scores, data)
    with refusal(what="a cascade tries fewer candidates than there are", got="30, and lists of 30 documents at most"):
        rw.text.cascade("a", scores, data, depths=[30, 50])
    with refusal(what="margin must be a number in (0, inf)", got="0"):
        rw.text.cascade("a", scores, data, margin=0)
    with refusal(what="the features of these data have no names"):
        rw.text.cascade("a", scores, data.with_(feature_names=None))
    with refusal(what="a cascade is measured on a RankingDataset", got="list"):
        rw.text.cascade("a", scores, [1])  # type: ignore[arg-type]
