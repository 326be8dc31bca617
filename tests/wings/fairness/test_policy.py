"""Expected metrics and exposure under random rankings, against listing every ranking."""

import itertools
import math

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.fairness.policy import PolicyEvaluation
from tests.refusals import refusal, refuses

SCORES = np.array([1.0, -0.5, 0.3, 2.0, 2.0, -1.0, 0.0])
LABELS = [0, 2, 1, 1, 0, 0, 3]
METRICS = ["ndcg@2", "ap", "err@3"]


@pytest.fixture
def data() -> rw.RankingDataset:
    """One query of three documents and one of four."""
    return rw.RankingDataset(np.zeros((7, 1)), LABELS, [0, 3, 7], query_ids=["a", "b"], document_ids=list("ABCDEFG"))


def listed(scores: np.ndarray, labels: np.ndarray, metric: str) -> tuple[float, np.ndarray]:
    """The expectation of a metric and each document's exposure, over every permutation with its probability."""
    value, exposure = 0.0, np.zeros(scores.size)
    for order in itertools.permutations(range(scores.size)):
        chance = math.prod(
            math.exp(scores[order[k]]) / sum(math.exp(scores[j]) for j in order[k:]) for k in range(len(order))
        )
        ranks = np.empty(scores.size)
        ranks[list(order)] = np.arange(1, scores.size + 1)
        value += chance * rw.metric(metric)(-ranks, labels, [0, scores.size])[0]
        exposure += chance / np.log2(1 + ranks)
    return value, exposure


def test_agrees_with_every_permutation(data: rw.RankingDataset):
    found = rw.evaluate(SCORES, data, METRICS, policy="plackett_luce", samples=4000, seed=1)
    assert isinstance(found, PolicyEvaluation)
    for metric in METRICS:
        for query, part in enumerate((slice(0, 3), slice(3, 7))):
            value, exposure = listed(SCORES[part], data.labels[part], metric)
            error = found.errors[metric][query]
            assert 0 < error < 0.02 * value
            assert abs(found[metric][query] - value) < 4 * error
            np.testing.assert_array_less(found.exposure_error[part], 0.02 * exposure)
            np.testing.assert_array_less(abs(found.exposure[part] - exposure), 4 * found.exposure_error[part])


def test_standard_errors_are_the_spread_over_seeds(data: rw.RankingDataset):
    runs = [rw.evaluate(SCORES, data, "ap", policy="plackett_luce", samples=50, seed=seed) for seed in range(200)]
    for values, errors in (
        (np.array([one["ap"] for one in runs]), np.array([one.errors["ap"] for one in runs])),
        (np.array([one.exposure for one in runs]), np.array([one.exposure_error for one in runs])),
    ):
        np.testing.assert_allclose(values.std(axis=0, ddof=1), errors.mean(axis=0), rtol=0.25)
    low, high = zip(*(one.exposure_interval for one in runs), strict=True)
    truth = np.concatenate([listed(SCORES[part], data.labels[part], "ap")[1] for part in (slice(0, 3), slice(3, 7))])
    covered = (np.array(low) <= truth) & (truth <= np.array(high))
    assert 0.91 < covered.mean() < 0.98


def test_exposures_of_a_query_add_up_to_its_discounts(data: rw.RankingDataset):
    found = rw.evaluate(SCORES, data, policy="plackett_luce", samples=33)
    sums = np.add.reduceat(found.exposure, [0, 3])
    np.testing.assert_allclose(sums, [sum(1 / math.log2(1 + r) for r in range(1, n + 1)) for n in (3, 4)])


def test_far_apart_scores_are_the_fixed_ranking(data: rw.RankingDataset):
    found = rw.evaluate(4000 * SCORES + np.arange(7) * 400, data, METRICS, policy="plackett_luce", samples=40)
    fixed = rw.evaluate(4000 * SCORES + np.arange(7) * 400, data, METRICS)
    for metric in METRICS:
        np.testing.assert_allclose(found[metric], fixed[metric], rtol=1e-12)
        assert (found.errors[metric] == 0).all()
    assert found.exposure[:3].tolist() == pytest.approx([1.0, 0.5, 1 / math.log2(3)])
    assert (found.exposure_error == 0).all()


def test_documents_that_were_not_retrieved_are_never_shown(data: rw.RankingDataset):
    scores = SCORES.copy()
    scores[[1, 3, 4, 5, 6]] = -np.inf  # of the first query two documents are left, of the second none
    found = rw.evaluate(scores, data, ["ndcg", "recall@1"], policy="plackett_luce", samples=2000)
    value = 1 / (1 + math.exp(SCORES[0] - SCORES[2]))  # C, of gain 1, comes before A
    ideal = 3 + 1 / math.log2(3)
    expected = (value + (1 - value) / math.log2(3)) / ideal
    assert found["ndcg"].tolist() == pytest.approx([expected, 0.0], abs=4 * found.errors["ndcg"][0])
    assert found["recall@1"][0] == pytest.approx(value / 2, abs=4 * found.errors["recall@1"][0])
    assert found.exposure[[1, 3, 4, 5, 6]].tolist() == [0.0] * 5
    assert (rw.evaluate(np.full(7, -np.inf), data, policy="plackett_luce", samples=2).exposure == 0).all()


def test_a_part_and_another_order_draw_the_same(data: rw.RankingDataset):
    whole = rw.evaluate(SCORES, data, policy="plackett_luce", samples=40, seed=3)
    turned = data.take([1, 0])
    there = rw.evaluate(np.r_[SCORES[3:], SCORES[:3]], turned, policy="plackett_luce", samples=40, seed=3)
    assert there["ndcg@10"].tolist() == whole["ndcg@10"][::-1].tolist()
    np.testing.assert_array_equal(np.r_[there.exposure[4:], there.exposure[:4]], whole.exposure)
    part = rw.evaluate(SCORES[3:], data.take([1]), policy="plackett_luce", samples=40, seed=3)
    np.testing.assert_array_equal(part.exposure, whole.exposure[3:])
    other = rw.evaluate(SCORES, data, policy="plackett_luce", samples=40, seed=4)
    assert (other.exposure != whole.exposure).any()


def test_is_an_evaluation_like_others(data: rw.RankingDataset):
    found = rw.evaluate(SCORES, data, METRICS, policy="plackett_luce", level=0.5)
    assert np.isnan(found.interval["ap"]).all()  # of two queries
    assert (found.samples, found.to_dict()["policy"], found.to_dict()["confidence"]) == (256, "plackett_luce", 0.5)
    assert rw.compare({"drawn": found, "fixed": rw.evaluate(SCORES, data, METRICS)}).systems == ("drawn", "fixed")
    frame = found.exposure_frame()
    assert frame["document"].to_list() == list("ABCDEFG")
    assert frame["query"].to_list() == ["a"] * 3 + ["b"] * 4
    assert (frame["low"] <= frame["exposure"]).all()
    assert (frame["exposure"] <= frame["high"]).all()
    plain = rw.evaluate(SCORES, data.with_(document_ids=None), policy="plackett_luce").exposure_frame()
    assert plain["document"].to_list() == [0, 1, 2, 0, 1, 2, 3]


def test_skipped_queries_stay_skipped(data: rw.RankingDataset):
    nothing = data.with_(labels=np.array([0.0, 0, 0, 1, 0, 0, 3]))
    found = rw.evaluate(SCORES, nothing, policy="plackett_luce")
    assert np.isnan(found["ndcg@10"]).tolist() == [True, False]
    assert found.scored == {"ndcg@10": 1}


def test_refusals(data: rw.RankingDataset):
    with refusal(what="unknown policy", got="'plackett_lucy'", hint="did you mean 'plackett_luce'"):
        rw.evaluate(SCORES, data, policy="plackett_lucy")
    with refusal(what="samples must be a whole number of at least 2", got="1"):
        rw.evaluate(SCORES, data, policy="plackett_luce", samples=1)
    with refusal(what="samples belong to a policy", got="samples=9", hint="set policy='plackett_luce'"):
        rw.evaluate(SCORES, data, samples=9)  # type: ignore[call-overload]
    refuses(lambda: rw.evaluate(SCORES * np.nan, data, policy="plackett_luce"), what="scores must be finite", got="nan")
