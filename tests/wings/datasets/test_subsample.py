"""Thinned data: samples of the right size, every one equally likely, and sums with their weights unbiased."""

from collections import Counter
from itertools import combinations
from math import comb

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.base import threads
from tests.refusals import refusal, refuses

LABELS = [1, 0, 0, 2, 0, 0, 0, 0, 0, 0, 1, 1]
SIZES = [6, 3, 2, 1]


def make(**columns):
    """Documents whose feature is their row; the last two queries have no negatives."""
    ids = ["a", "b", "c", "d"]
    return rw.RankingDataset.from_sizes(np.arange(12.0)[:, None], LABELS, SIZES, query_ids=ids, **columns)


def rows(data):
    return data.features[:, 0].astype(int).tolist()


def test_every_sample_of_negatives_is_equally_likely():
    labels = [0, 1, 0, 0, 0, 2, 0]
    data = rw.RankingDataset.from_sizes(np.arange(7.0)[:, None], labels, [7])
    draws = 1500
    counts = Counter(tuple(rows(rw.data.thin(data, negatives=2, seed=seed))) for seed in range(draws))
    listed = {tuple(sorted({1, 5, *pair})) for pair in combinations([0, 2, 3, 4, 6], 2)}
    assert set(counts) == listed
    assert len(listed) == comb(5, 2)
    assert stats.chisquare([counts[sample] for sample in listed]).pvalue > 1e-4


def test_every_sample_of_queries_is_equally_likely():
    data = rw.synthetic(n_queries=5, n_features=2, n_docs=3, seed=1)
    counts = Counter(
        tuple(np.asarray(rw.data.thin(data, queries=2, seed=seed).query_ids).tolist()) for seed in range(2000)
    )
    assert set(counts) == set(combinations(range(5), 2))
    assert stats.chisquare(list(counts.values())).pvalue > 1e-4


def test_weighted_sums_over_documents_and_queries_are_unbiased():
    data = make(weights=[1.0, 2.0, 3.0, 4.0], document_weights=np.arange(1.0, 13.0))
    value = np.sin(np.arange(12.0))
    truth = (np.repeat(data.weights, SIZES) * data.document_weights * value).sum()
    sums = []
    for seed in range(1500):
        part = rw.data.thin(data, queries=2, negatives=0.4, seed=seed)
        sums.append((np.repeat(part.weights, part.sizes) * part.document_weights * value[rows(part)]).sum())
    assert abs(np.mean(sums) - truth) < 4.0 * np.std(sums) / np.sqrt(len(sums))
    assert np.std(sums) > 1.0  # so that weights left out would show


def test_the_weights_of_a_query_add_up_to_its_documents():
    data = rw.synthetic(n_queries=40, n_docs=25, seed=1)
    for amount in (0.2, 5):
        part = rw.data.thin(data, negatives=amount, seed=2)
        np.testing.assert_array_equal(part.query_ids, data.query_ids)
        sums = np.add.reduceat(np.asarray(part.document_weights), part.offsets[:-1])
        np.testing.assert_allclose(sums, data.sizes, rtol=1e-12)
        assert (part.labels > 0).sum() == (data.labels > 0).sum()
        assert part.weights is None
    assert np.asarray(rw.data.thin(data, queries=0.25).weights).sum() == data.n_queries
    assert rw.data.thin(data, queries=0.25).document_weights is None


def test_shares_and_numbers():
    data = make()
    assert rows(rw.data.thin(data, negatives=100)) == list(range(12))
    assert np.diff(rw.data.thin(data, negatives=1).offsets).tolist() == [3, 1, 2, 1]
    assert rw.data.thin(data, negatives=0.5).sizes.tolist() == [4, 2, 2, 1]
    assert rw.data.thin(data, negatives=0.001).sizes.tolist() == [3, 1, 2, 1]  # at least one
    assert rw.data.thin(data, queries=1.0).weights.tolist() == [1.0] * 4
    assert rw.data.thin(data, queries=3).n_queries == 3
    assert rw.data.thin(data, queries=9).weights.tolist() == [1.0] * 4


def test_the_order_of_queries_and_threads_change_nothing(monkeypatch: pytest.MonkeyPatch):
    data = rw.synthetic(n_queries=60, n_docs=30, seed=1)
    data = data.with_(features=np.arange(float(data.n_docs))[:, None], feature_names=None)
    data = data.with_(query_ids=[f"q{number}" for number in range(60)])
    part = rw.data.thin(data, queries=0.5, negatives=4, seed=3)
    turned = rw.data.thin(data.take(np.random.default_rng(0).permutation(60)), queries=0.5, negatives=4, seed=3)
    order = np.array(
        [np.asarray(turned.query_ids).tolist().index(name) for name in np.asarray(part.query_ids).tolist()]
    )
    assert rows(turned.take(order)) == rows(part)
    np.testing.assert_array_equal(turned.take(order).document_weights, part.document_weights)
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0.0)
    monkeypatch.setattr(threads, "thread_count", lambda: 3)
    assert rows(rw.data.thin(data, queries=0.5, negatives=4, seed=3)) == rows(part)
    assert rows(rw.data.thin(data, queries=0.5, negatives=4, seed=4)) != rows(part)


def test_every_column_follows_its_document():
    data = make(
        document_ids=np.arange(100, 112), groups=list("xyxyxyxyxyxy"), positions=[*range(1, 7), 1, 2, 3, 1, 2, 1]
    )
    part = rw.data.thin(data, queries=3, negatives=1, seed=1)
    at = rows(part)
    np.testing.assert_array_equal(part.document_ids, np.asarray(data.document_ids)[at])
    np.testing.assert_array_equal(part.groups, np.asarray(data.groups)[at])
    np.testing.assert_array_equal(part.positions, data.positions[at])
    np.testing.assert_array_equal(part.labels, data.labels[at])
    assert rw.data.thin(make().with_(query_ids=None), queries=2, seed=1).query_ids is not None


def test_only_the_sample_of_data_on_disk_is_read(tmp_path):
    data = rw.synthetic(n_queries=40, n_docs=20, seed=1)
    on_disk = rw.open_data(rw.data.write_parquet(data, tmp_path / "rows.parquet"))
    part, same = (rw.data.thin(one, queries=0.25, negatives=3, seed=1) for one in (on_disk, data))
    np.testing.assert_array_equal(part.features, same.features)
    np.testing.assert_array_equal(part.document_weights, same.document_weights)
    assert "on disk" not in repr(part)
    assert "on disk" in repr(on_disk)


def test_objectives_of_rankwise_read_no_weight_of_a_negative():
    data = rw.synthetic(n_queries=30, n_docs=30, seed=1)
    part = rw.data.thin(data, negatives=5)
    assert np.asarray(part.document_weights).max() > 1.0
    scores = np.random.default_rng(0).normal(size=part.n_docs)
    for name in ("lambdarank", "softmax_ce", "xendcg(gamma=zero)", "pairwise"):
        loss = rw.objective(name)
        weighted = loss(scores, part.labels, part.offsets, document_weights=np.asarray(part.document_weights))
        np.testing.assert_array_equal(weighted.gradient, loss(scores, part.labels, part.offsets).gradient)
    with refusal(what="ranknet takes no document_weights"):
        rw.LightGBMRanker("ranknet", rounds=2, threads=1).fit(part)


@pytest.mark.parametrize(
    ("settings", "fields"),
    [
        ({}, {"what": "there is nothing to thin"}),
        ({"queries": 0.0}, {"what": "queries, a share, must be a number in [1e-09, 1]"}),
        ({"queries": 0}, {"what": "…a whole number of at least 1"}),
        ({"negatives": 0}, {"what": "…a whole number of at least 1"}),
        ({"negatives": 1.5}, {"what": "negatives, a share, must be a number in [1e-09, 1]"}),
        ({"queries": True}, {"what": "queries must be a whole number of at least 1"}),
    ],
)
def test_wrong_amounts_are_refused(settings, fields):
    refuses(lambda: rw.data.thin(make(), **settings), **fields)
