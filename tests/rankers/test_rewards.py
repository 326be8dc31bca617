"""Training on rewards of documents: plrank alone and in wrappers, the metric to stop by, and what others say."""

from pathlib import Path
from typing import Any

import lightgbm as lgb
import numpy as np
import pytest

import rankwise as rw
from rankwise.data.frames import to_frame
from rankwise.rankers.training.resume import fingerprint
from tests.refusals import refusal

TREES: dict[str, Any] = {"rounds": 4, "leaves": 4, "min_documents": 3, "threads": 1, "learning_rate": 0.3}


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, rw.RankingDataset]:
    plain = rw.synthetic(n_queries=24, n_docs=8, seed=1)
    rewards = np.random.default_rng(0).normal(size=plain.n_docs) + plain.labels
    train, valid = rw.split(plain.with_(document_rewards=rewards), (0.75, 0.25))
    return train, valid


def test_a_ranker_learns_from_the_column_what_plrank_is_passed(parts):
    train, _ = parts
    ranker = rw.LightGBMRanker("plrank", extra_trees=False, **TREES).fit(train)
    objective = rw.objectives.lightgbm_objective(
        "plrank", query_ids=train.query_ids, document_rewards=train.document_rewards
    )
    sizes = {"num_leaves": 4, "min_data_in_leaf": 3, "learning_rate": 0.3, "num_threads": 1}
    parameters = {"objective": objective, "verbosity": -1, "force_col_wise": True, **sizes}
    booster = lgb.train(parameters, lgb.Dataset(train.features, train.labels, group=train.sizes), num_boost_round=4)
    np.testing.assert_array_equal(ranker.predict(train), booster.predict(train.features))
    other = rw.LightGBMRanker("plrank", **TREES).fit(train.with_(document_rewards=None))
    assert (ranker.predict(train) != other.predict(train)).any()


def test_the_first_gradient_is_that_of_the_rewards(parts):
    train, _ = parts
    scores = np.zeros(train.n_docs)
    passed = rw.objectives.PLRank()(
        scores, train.labels, train.offsets, train.stream(0), document_rewards=train.document_rewards
    )
    negated = train.with_(document_rewards=-train.document_rewards)
    learned = [rw.LightGBMRanker("plrank", **TREES | {"rounds": 1}).fit(one).predict(one) for one in (train, negated)]
    assert np.corrcoef(learned[0], -passed.gradient)[0, 1] > 0.3
    assert np.corrcoef(learned[1], passed.gradient)[0, 1] > 0.3


@pytest.mark.parametrize(
    "objective", ["stochastic(plrank, samples=2)", "plrank + 0.5*plrank(cutoff=3)", "weighted(plrank)"]
)
def test_wrappers_and_sums_of_plrank_learn_from_rewards(parts, objective):
    train, valid = parts
    ranker = rw.LightGBMRanker(objective, **TREES).fit(train, valid)
    plain = rw.LightGBMRanker(objective, **TREES).fit(train.with_(document_rewards=None))
    assert (ranker.predict(train) != plain.predict(train)).any()


def test_a_sum_with_a_loss_of_labels_passes_rewards_to_plrank_alone(parts):
    train, _ = parts
    mixed, stream, scores = rw.objective("plrank + 0.5*xendcg"), rw.Stream(0), np.arange(train.n_docs) % 5 / 5.0
    found = mixed(scores, train.labels, train.offsets, stream, document_rewards=train.document_rewards)
    rewarded = rw.objectives.PLRank()(
        scores, train.labels, train.offsets, stream.child("term", 0), document_rewards=train.document_rewards
    )
    labelled = rw.objectives.XENDCG()(scores, train.labels, train.offsets, stream.child("term", 1))
    np.testing.assert_allclose(found.gradient, rewarded.gradient + 0.5 * labelled.gradient, atol=1e-14)


def test_a_function_of_ones_own_may_read_rewards(parts):
    train, _ = parts

    def squares(scores, labels, offsets, *, document_rewards):
        return scores - document_rewards, np.ones_like(scores)

    rw.LightGBMRanker(squares, **TREES).fit(train)


@pytest.mark.parametrize(
    "objective", ["lambdarank", "xendcg", "clickwise(plrank)", "bounded(plrank)", "native:lambdarank"]
)
def test_objectives_that_learn_from_labels_say_what_to_do(parts, objective):
    train, valid = parts
    with refusal(what="…does not learn from document_rewards…", hint="train plrank…labels='regression'…"):
        rw.LightGBMRanker(objective, **TREES).fit(train, valid)


def test_reward_is_the_metric_to_stop_by(parts):
    train, valid = parts
    ranker = rw.LightGBMRanker("plrank", **TREES).fit(train, valid, eval_sets={"train": train})
    assert list(ranker.history_) == ["loss", "reward@10", "train reward@10"]
    scores = ranker.predict(valid)
    values = rw.metric("reward@10")(scores, valid.labels, valid.offsets, document_rewards=valid.document_rewards)
    assert ranker.history_["reward@10"][ranker.best_round_ - 1] == pytest.approx(values.mean(), rel=1e-12)
    assert ranker.score(valid) == pytest.approx(values.mean(), rel=1e-12)
    judged = rw.LightGBMRanker("plrank", **TREES).fit(train, valid.with_(document_rewards=None))
    assert "ndcg@10" in judged.history_
    named = rw.LightGBMRanker("plrank", metrics=["ndcg@5", "reward@5"], **TREES).fit(train, valid)
    assert list(named.history_) == ["loss", "ndcg@5", "reward@5"]


def test_bags_blends_and_cross_validation_measure_rewards(parts):
    train, valid = parts
    member = rw.LightGBMRanker("plrank", **TREES)
    bag = rw.bagged(member, folds=2).fit(train, valid)
    assert list(bag.out_of_fold_.values) == ["reward@10"]
    whole = rw.concatenate([train, valid])
    expected = rw.metric("reward@10").of(bag.held_out_.cross_fitted, whole)
    np.testing.assert_array_equal(bag.out_of_fold_["reward@10"], expected)
    blend = rw.blended([rw.LightGBMRanker("plrank", **TREES), 0], folds=2).fit(train, valid)
    assert list(blend.out_of_fold_.values) == ["reward@10"]
    assert list(rw.cross_validate(member, train, folds=3).values) == ["reward@10"]


def test_a_student_learns_from_a_teacher_of_rewards(parts):
    train, valid = parts
    teacher, student = rw.LightGBMRanker("plrank", **TREES), rw.LightGBMRanker("plrank", **TREES)
    for weight in (1.0, 0.5):
        ranker = rw.distilled(student, teacher, weight=weight).fit(train, valid)
        assert "reward@10" in ranker.history_


def test_the_column_is_read_written_and_identified(parts, tmp_path: Path):
    train, _ = parts
    assert "document_reward" in to_frame(train).columns
    to_frame(train).write_csv(tmp_path / "train.csv")
    read = rw.read_csv(tmp_path / "train.csv", document_reward="document_reward")
    np.testing.assert_array_equal(read.document_rewards, train.document_rewards)
    assert read.n_features == train.n_features
    again = rw.read_parquet(rw.data.write_parquet(train, tmp_path / "train.parquet"))
    np.testing.assert_array_equal(again.document_rewards, train.document_rewards)
    turned = train.with_(document_rewards=-train.document_rewards)
    assert len({fingerprint(one) for one in (train, turned, train.with_(document_rewards=None))}) == 3
    with refusal(what="document rewards must be finite", got="inf", where="row 1 (query 0)"):
        train.with_(document_rewards=np.r_[0.0, np.inf, np.zeros(train.n_docs - 2)])
