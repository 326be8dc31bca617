"""The metric of rewards: by hand, over all orders of ties, and wherever data have the column."""

import itertools
import math

import numpy as np
import pytest

import rankwise as rw
from rankwise.metrics import NDCG, Reward
from rankwise.rankers.ensembles.feature import FeatureRanker
from tests.refusals import refusal, refuses

REWARDS = np.array([0.5, -0.25, 1.0, 0.0, 2.0, -1.0])
OFFSETS = np.array([0, 4, 6])


def data() -> rw.RankingDataset:
    features = np.arange(6.0)[:, None]
    return rw.RankingDataset(features, np.zeros(6), OFFSETS, query_ids=["a", "b"], document_rewards=REWARDS)


def test_by_hand():
    scores = [4.0, 3.0, 2.0, 1.0, 0.0, 1.0]
    values = rw.metric("reward@3")(scores, np.zeros(6), OFFSETS, document_rewards=REWARDS)
    first = 0.5 - 0.25 / math.log2(3) + 1.0 / 2
    np.testing.assert_allclose(values, [first, -1.0 + 2.0 / math.log2(3)], rtol=1e-15)
    scores = [1.0, *[-np.inf] * 5]  # nothing of the second query was retrieved
    np.testing.assert_array_equal(rw.metric("reward")(scores, np.zeros(6), OFFSETS, None, REWARDS), [0.5, 0.0])


@pytest.mark.parametrize("cutoff", [1, 2, 4])
def test_ties_over_all_orders(cutoff: int):
    values = [
        sum(REWARDS[row] / math.log2(2 + place) for place, row in enumerate((0, *order)[:cutoff]))
        for order in itertools.permutations((1, 2, 3))
    ]
    expected = {"average": np.mean(values), "worst": min(values), "best": max(values), "row": values[0]}
    for ties, value in expected.items():
        metric = Reward(cutoff=cutoff, ties=ties)
        result = metric([2.0, 1.0, 1.0, 1.0], np.zeros(4), [0, 4], document_rewards=REWARDS[:4])
        assert result[0] == pytest.approx(value, abs=1e-12), ties


def test_it_is_dcg_where_rewards_are_labels():
    lists = rw.synthetic(n_queries=30, n_docs=12, seed=1)
    scores = lists.features[:, 0].astype(float)
    mine = rw.metric("reward@5")(scores, lists.labels, lists.offsets, document_rewards=lists.labels)
    np.testing.assert_array_equal(mine, rw.metric("dcg(gain=linear, empty=0)@5")(scores, lists.labels, lists.offsets))


def test_without_the_column_it_says_what_is_missing():
    with refusal(what="reward@10 reads document_rewards", got="data without document_rewards", hint="…targets…"):
        rw.metric("reward@10")([1.0, 2.0], [0, 1], [0, 2])
    plain = rw.synthetic(n_queries=5, n_docs=5, seed=1)
    refuses(lambda: rw.evaluate(plain.features[:, 0], plain, "reward@10"), got="data without document_rewards")
    with refusal(what="document rewards must be finite", got="nan", where="row 1…"):
        rw.metric("reward")([1.0, 2.0], [0, 1], [0, 2], document_rewards=[0.0, np.nan])


def test_it_is_the_default_on_data_with_rewards_alone():
    lists = data()
    scores = lists.features[:, 0].astype(float)
    assert list(rw.evaluate(scores, lists).values) == ["reward@10"]
    assert list(rw.evaluate(scores, lists, ["num_q"]).values) == ["num_q"]
    assert list(rw.evaluate(scores, lists.with_(labels=[1, 0] * 3, document_rewards=None)).values) == ["ndcg@10"]
    assert rw.compare({"one": scores, "other": -scores}, lists).metrics == ("reward@10",)
    drawn = rw.evaluate(4000.0 * scores, lists, policy="plackett_luce", samples=4)
    np.testing.assert_allclose(drawn["reward@10"], rw.evaluate(scores, lists)["reward@10"], rtol=1e-12)
    with refusal(what="ndcg@10 scores no query", hint="…reward@10"):
        FeatureRanker(0, metrics=(NDCG(cutoff=10),)).fit(lists)
