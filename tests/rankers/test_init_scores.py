"""Training that starts from ``init_scores``: every ranker that learns in rounds learns what to add to them."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal

SETTINGS: dict[str, dict[str, Any]] = {
    "LightGBMRanker": {"rounds": 15, "leaves": 6, "learning_rate": 0.2},
    "XGBoostRanker": {"rounds": 15, "leaves": 6, "learning_rate": 0.2},
    "CatBoostRanker": {"rounds": 10, "leaves": 8, "learning_rate": 0.2},
    "NeuralRanker": {"epochs": 6, "hidden": (8,), "learning_rate": 0.02, "device": "cpu", "members": 2},
}
EVERY = pytest.mark.parametrize("name", SETTINGS)


def ranker(name: str, objective: str = "softmax_ce", **settings: Any) -> Any:
    return getattr(rw, name)(objective, threads=1, **SETTINGS[name] | settings)


@pytest.fixture(scope="module")
def parts() -> tuple[rw.RankingDataset, rw.RankingDataset]:
    """Documents whose production score ranks half of what matters, and features of the other half."""
    rng = np.random.default_rng(3)
    seen, hidden = rng.normal(size=(2, 900))
    labels = np.clip(np.round(seen + hidden), 0, 3)
    features = np.column_stack((seen, rng.normal(size=900)))
    data = rw.RankingDataset.from_sizes(features, labels, [15] * 60, init_scores=hidden, query_ids=np.arange(60))
    return data.take(slice(0, 40)), data.take(slice(40, 60))


@EVERY
def test_the_model_learns_what_to_add(name: str, parts: Any, tmp_path: Path):
    train, valid = parts
    model = ranker(name).fit(train, valid, eval_sets={"train": train})
    scores = model.predict(valid)
    alone = rw.evaluate(valid.init_scores, valid).mean["ndcg@10"]
    without = ranker(name).fit(*(part.with_(init_scores=None) for part in parts))
    assert rw.evaluate(scores, valid).mean["ndcg@10"] > alone + 0.02
    assert rw.evaluate(scores, valid).mean["ndcg@10"] > rw.evaluate(without, valid).mean["ndcg@10"] + 0.02
    # Stopping went by the sums, and so did the training data that were measured.
    best = max(model.history_["ndcg@10"])
    assert model.score(valid) == pytest.approx(best, abs=1e-12)
    assert model.history_["train ndcg@10"][model.best_round_ - 1] == pytest.approx(model.score(train), abs=1e-12)
    # The model adds the column: other ones move scores by the difference.
    moved = model.predict(valid.with_(init_scores=valid.init_scores + 7.0 * valid.labels))
    np.testing.assert_allclose(moved - scores, 7.0 * valid.labels, atol=1e-9)
    np.testing.assert_array_equal(rw.load(model.save(tmp_path / "model")).predict(valid), scores)


@EVERY
def test_zeros_are_where_training_starts_anyway(name: str, parts: Any):
    plain = [part.with_(init_scores=None) for part in parts]
    zeros = [part.with_(init_scores=np.zeros(part.n_docs)) for part in parts]
    np.testing.assert_array_equal(
        ranker(name).fit(*zeros).predict(zeros[1]), ranker(name).fit(*plain).predict(plain[1])
    )


@EVERY
def test_the_first_loss_is_that_of_the_start(name: str, parts: Any):
    train, _ = parts
    settings: dict[str, Any] = {"epochs": 1, "learning_rate": 1e-9, "dropout": 0.0, "members": 1}
    settings = settings if name == "NeuralRanker" else {}
    model = ranker(name, **settings).fit(train)
    own = model.predict(train) - train.init_scores if settings else 0.0  # a net does not start at 0
    expected = rw.objectives.SoftmaxCE()(train.init_scores + own, train.labels, train.offsets).value.mean()
    assert model.history_["loss"][0] == pytest.approx(expected, rel=1e-3 if settings else 1e-9)


@pytest.mark.parametrize("name", ["LightGBMRanker", "NeuralRanker"])
def test_an_interrupted_training_resumes_bit_for_bit(name: str, parts: Any, tmp_path: Path):
    train, valid = parts
    unit = "epochs" if name == "NeuralRanker" else "rounds"
    more: dict[str, Any] = {"checkpoint": tmp_path / "checkpoint", "checkpoint_every": 2}
    ranker(name, **more | {unit: 4}).fit(train, valid)
    resumed = ranker(name, **more).fit(train, valid, resume=True)
    np.testing.assert_array_equal(resumed.predict(valid), ranker(name).fit(train, valid).predict(valid))
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        ranker(name, **more).fit(train.with_(init_scores=train.init_scores[::-1]), valid, resume=True)


@pytest.mark.parametrize("name", ["LightGBMRanker", "NeuralRanker"])
def test_a_bag_starts_there_too(name: str, parts: Any, tmp_path: Path):
    train, valid = parts
    bag = rw.bagged(ranker(name), folds=2).fit(train)
    members = [member.predict(valid) for member in bag.members_]
    np.testing.assert_allclose(bag.predict(valid), np.mean(members, axis=0), atol=1e-9)
    worth = rw.evaluate(bag.oof_scores_, train).mean["ndcg@10"]
    assert worth > rw.evaluate(train.init_scores, train).mean["ndcg@10"] + 0.02
    np.testing.assert_array_equal(rw.load(bag.save(tmp_path / "bag")).predict(valid), bag.predict(valid))


def test_an_older_model_is_continued_where_it_had_them_too(parts: Any):
    train, valid = parts
    older = ranker("LightGBMRanker").fit(train)
    more = ranker("LightGBMRanker").fit(train, init_model=older)
    both = ranker("LightGBMRanker", rounds=30).fit(train)
    np.testing.assert_allclose(more.predict(valid), both.predict(valid), atol=1e-6)
    plain = train.with_(init_scores=None)
    with refusal(what="the model was trained from init_scores, and adds those of the documents that it scores"):
        ranker("LightGBMRanker").fit(plain, init_model=older)
    with refusal(what="training starts from init_scores or from init_model", got="both"):
        ranker("LightGBMRanker").fit(train, init_model=ranker("LightGBMRanker").fit(plain))


def test_what_lacks_the_column_or_cannot_add_it_is_rejected(parts: Any, tmp_path: Path):
    train, valid = parts
    plain, missing = valid.with_(init_scores=None), "trained from init_scores.*got documents without init_scores"
    with pytest.raises(ValueError, match=missing):
        ranker("LightGBMRanker").fit(train, plain)
    with pytest.raises(ValueError, match=missing):
        ranker("LightGBMRanker").fit(train, valid, eval_sets={"other": plain})
    model = ranker("LightGBMRanker").fit(train)
    for data in (plain, plain.features, pl.DataFrame(plain.features)):
        with pytest.raises(ValueError, match=missing):
            model.predict(data)
    for use in (model.scorer, lambda: model.explain(valid), lambda: rw.export(model, tmp_path / "m.json", "vespa")):
        with refusal(what="…know features alone", got="a model that adds init_scores"):
            use()
    with refusal(what="objectives of lightgbm itself do not start from init_scores"):
        ranker("LightGBMRanker", "native:lambdarank").fit(train)
    for other in (rw.blended([ranker("LightGBMRanker")], folds=2), rw.AutoRanker(max_recipes=1)):
        with refusal(what="…cannot start from init_scores"):
            other.fit(train)


def test_validation_data_may_have_scores_that_training_does_not_use(parts: Any):
    train, valid = parts
    plain = train.with_(init_scores=None)
    model = ranker("LightGBMRanker").fit(plain, valid)
    assert model.history_ == ranker("LightGBMRanker").fit(plain, valid.with_(init_scores=None)).history_
