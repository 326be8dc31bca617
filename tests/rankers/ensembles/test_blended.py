"""A blend of rankers: weights from out-of-fold scores, one forest where that can be, and a ranker like any other."""

import json
import pickle
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.data.splits import fold_of_query
from rankwise.models import storage
from rankwise.rankers.ensembles.blend_weights import choose_weights, score_deviation
from rankwise.rankers.ensembles.feature import FeatureRanker
from rankwise.rankers.table import ranker_class
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 8, "leaves": 5, "min_documents": 3, "threads": 1, "learning_rate": 0.2}
NET: dict[str, Any] = {"hidden": (6,), "epochs": 12, "threads": 1, "device": "cpu", "learning_rate": 0.02}
ROUNDING = {"lightgbm": 1e-12, "catboost": 1e-12, "xgboost": 1e-5}


def ranker(library="lightgbm", objective="xendcg", **changes):
    return ranker_class(library)(objective, **(NET if library == "neural" else SMALL) | changes)


@pytest.fixture(scope="module")
def parts():
    data = rw.synthetic(n_queries=36, n_docs=8, n_features=6, seed=3)
    named = data.with_(feature_names=tuple("abcdef"))
    return rw.split(named, (0.7, 0.3), seed=1)


@pytest.fixture(scope="module")
def mixed(parts):
    """Trees, a bag of them, a net and two features."""
    rankers = [ranker(), rw.bagged(ranker(objective="lambdarank"), folds=3), ranker("neural", "softmax_ce"), "b", 2]
    return rw.blended(rankers, folds=3).fit(*parts)


def same(one, other, data):
    return np.array_equal(one.predict(data), other.predict(data)) and one.weights_ == other.weights_


def test_blend_is_the_weighted_sum_of_bags_with_the_same_folds(mixed, parts):
    train, valid = parts
    data = rw.concatenate([train, valid])
    alone = rw.bagged(ranker(), folds=3).fit(data)
    first, second, net, *features = mixed.members_
    assert np.array_equal(first.oof_scores_, alone.oof_scores_)
    assert (second.seed_of_folds, second.folds, net.folds) == (0, 3, 3)
    weights, oof = choose_weights(
        [member.oof_scores_ for member in mixed.members_],
        data.labels,
        data.offsets,
        names=mixed.weights_.names,
        fold=fold_of_query(data, 3),
    )
    assert (mixed.weights_.values, mixed.weights_.spreads) == (weights.values, weights.spreads)
    reported = [one.out_of_fold_.mean["ndcg@10"] for one in (first, second, net)]
    assert mixed.weights_.alone == pytest.approx([*reported, *weights.alone[3:]])  # features have no rounds to choose
    assert np.array_equal(mixed.oof_scores_, oof)
    expected = sum(factor * one.predict(valid) for factor, one in zip(weights.factors, mixed.members_, strict=True))
    np.testing.assert_allclose(mixed.predict(valid), expected, rtol=1e-12)
    assert mixed.history_ == {"ndcg@10": [mixed.out_of_fold_.mean["ndcg@10"]]}
    assert mixed.weights_.names == ("lightgbm(xendcg)", "lightgbm(lambdarank)", "neural(softmax_ce)", "b", "column 2")
    assert len(features) == 2
    lone = valid.features[:1]  # no query is needed to score, and a document alone scores as it does beside others
    assert mixed.predict(lone)[0] == pytest.approx(mixed.predict(valid)[0], rel=1e-6)


def test_blend_scores_explains_and_is_saved_bit_for_bit(mixed, parts, tmp_path):
    _, valid = parts
    np.testing.assert_array_equal(mixed.scorer()(valid.features), mixed.predict(valid))
    np.testing.assert_allclose(mixed.explain(valid).sum(axis=1), mixed.predict(valid), atol=1e-5)
    loaded: Any = rw.load(mixed.save(tmp_path / "blend"))
    assert same(loaded, mixed, valid)
    assert repr(loaded) == repr(mixed)
    assert np.array_equal(loaded.oof_scores_, mixed.oof_scores_)
    assert loaded.out_of_fold_.interval == mixed.out_of_fold_.interval
    assert same(rw.load(loaded.save(tmp_path / "again")), mixed, valid)
    assert not any(path.suffix in (".pkl", ".pickle") for path in (tmp_path / "blend").iterdir())
    with refusal(AttributeError, what="a net tells no importances of features, nor does a blend with one"):
        _ = mixed.feature_importances_
    with refusal(what="…all its members are trees of one library", got="blended(lightgbm…", hint="…distilled…"):
        rw.export(mixed, tmp_path / "blend.onnx", "onnx")


@pytest.mark.parametrize("library", ["lightgbm", "xgboost", "catboost"])
def test_trees_of_one_library_become_one_forest(library, parts, tmp_path):
    train, valid = parts
    rankers = [ranker(library, "xendcg"), ranker(library, "softmax_ce", leaves=4)]
    blend: Any = rw.blended(rankers, folds=2, seed=5).fit(train, valid)
    expected = sum(f * one.predict(valid) for f, one in zip(blend.weights_.factors, blend.members_, strict=True))
    np.testing.assert_allclose(blend.predict(valid), expected, atol=ROUNDING[library])
    assert blend.ranker_.model_.n_trees == sum(one.ranker_.model_.n_trees for one in blend.members_)
    assert np.array_equal(blend.scorer()(valid.features), blend.predict(valid))
    loaded: Any = rw.load(blend.save(tmp_path / "blend"))
    assert same(loaded, blend, valid)
    assert blend.feature_importances_.sum() == pytest.approx(1.0)
    assert np.array_equal(loaded.feature_importances_, blend.feature_importances_)
    np.testing.assert_allclose(blend.explain(valid).sum(axis=1), blend.predict(valid), atol=1e-5)
    body = json.loads(rw.export(loaded, tmp_path / "blend.json", "elasticsearch").read_text())
    assert len(json.loads(body["model"]["model"]["definition"])) == blend.ranker_.model_.n_trees


def test_net_that_looks_at_whole_lists_is_told_of_them(parts):
    train, valid = parts
    blend = rw.blended([ranker("neural", "softmax_ce", attention=2), "a"], folds=2).fit(train, valid)
    assert blend.needs_lists
    expected = sum(f * one.predict(valid) for f, one in zip(blend.weights_.factors, blend.members_, strict=True))
    np.testing.assert_allclose(blend.predict(valid), expected, rtol=1e-12)
    with refusal(what="a NeuralRanker looks at whole lists, and must know which documents belong together"):
        blend.predict(valid.features)


def test_blend_of_one_ranks_as_it_does(parts):
    train, valid = parts
    blend: Any = rw.blended([ranker()], folds=2).fit(train, valid)
    bag = rw.bagged(ranker(), folds=2).fit(train, valid)
    assert blend.weights_.values == (1.0,)
    assert blend.rank(valid)["row"].to_list() == bag.rank(valid)["row"].to_list()
    assert blend.out_of_fold_.mean == bag.out_of_fold_.mean


def test_what_a_blend_reports_is_of_rounds_and_weights_that_other_folds_chose(parts):
    data = rw.concatenate(list(parts))
    bags = [rw.bagged(ranker(objective=name), folds=2).fit(data) for name in ("xendcg", "softmax_ce")]
    blend = rw.blended.of_fitted(bags, data)
    fold, metric = fold_of_query(data, 2), rw.metric("ndcg@10")
    expected = np.empty(data.n_queries)
    for number in range(2):
        own, others = data.take(fold == number), fold != number
        rows = np.repeat(fold == number, data.sizes)
        # Weights were selected on the other fold alone.
        scores = [bag.oof_scores_ / score_deviation(bag.oof_scores_, data.offsets) for bag in bags]
        weights = _selected(scores, data, others)
        parts_of = [bag.held_out_.cross_fitted[rows] for bag in bags]
        blended = sum(w * one / score_deviation(one, own.offsets) for w, one in zip(weights, parts_of, strict=True))
        expected[fold == number] = metric(blended, own.labels, own.offsets)
    np.testing.assert_allclose(blend.out_of_fold_["ndcg@10"], expected, rtol=1e-9)


def _selected(members, data, queries):
    """Greedy selection in sixteen picks by the mean of the metric over some queries."""
    metric, counts, total = rw.metric("ndcg@10"), np.zeros(len(members)), np.zeros(data.n_docs)
    for _ in range(16):
        means = [np.nanmean(metric(total + one, data.labels, data.offsets)[queries]) for one in members]
        best = np.isclose(means, max(means), rtol=0.0, atol=1e-15)
        counts[best] += 1 / best.sum()
        total += np.mean([one for one, chosen in zip(members, best, strict=True) if chosen], axis=0)
    return counts / 16


def test_trained_bags_are_blended_without_training(parts):
    train, valid = parts
    rankers = [ranker(), ranker(objective="softmax_ce", seed=3)]
    whole = rw.blended([*rankers, "a"], folds=2).fit(train, valid)
    bags = [rw.bagged(one, folds=2, fold_seed=0).fit(train, valid) for one in rankers]
    blend = rw.blended.of_fitted([*bags, "a"], train, valid)
    assert blend.members_[0] is bags[0]
    assert same(blend, whole, valid)
    fresh: Any = blend.rankers[0]
    assert not fresh.__sklearn_is_fitted__()
    again = blend.__sklearn_clone__().fit(train, valid)
    assert same(again, whole, valid)
    with refusal(what="a bag was trained on other data", hint="…validation data that the bags…"):
        rw.blended.of_fitted(bags, train)
    other = rw.bagged(ranker(), folds=2, fold_seed=3).fit(train, valid)
    divided: Any = rw.blended.of_fitted([bags[0], other], train, valid)
    assert np.array_equal(divided.members_[1].oof_scores_, other.oof_scores_)
    assert not np.array_equal(divided.members_[0].oof_scores_, other.oof_scores_)
    assert same(divided.__sklearn_clone__().fit(train, valid), divided, valid)  # each with its own division
    fewer = rw.bagged(ranker(), folds=3).fit(train, valid)
    with refusal(what="…must have as many folds", got="folds=3, repeats=1 and folds=2, repeats=1"):
        rw.blended.of_fitted([bags[0], fewer], train, valid)
    with refusal(what="this bagged is not trained yet"):
        rw.blended.of_fitted([rw.bagged(ranker(), folds=2)], train, valid)
    with refusal(what="only trained bags are blended without training", got="LightGBMRanker"):
        rw.blended.of_fitted([bags[0], ranker()], train, valid)


class Killed(Exception):
    pass


def test_resumed_blend_is_the_one_that_was_never_interrupted(parts, tmp_path):
    train, valid = parts

    def blend(folder, **changes):
        settings: dict[str, Any] = {"objective": "stochastic(xendcg)", "checkpoint_every": 2, "feature_fraction": 0.5}
        rankers = [ranker(**settings, **changes), ranker(**settings, seed=1), ranker("neural", "softmax_ce")]
        return rw.blended([*rankers, 0], folds=2, checkpoint=tmp_path / folder)

    calls: list[int] = []

    def kill(done, _):
        calls.append(done)
        if calls.count(1) == 2 and done == 5:  # in the second member
            raise Killed

    with pytest.raises(Killed):
        blend("kept").fit(train, valid, callback=kill)
    refuses(lambda: blend("kept").fit(train, valid), FileExistsError, hint="…resume=True…")
    with refusal(what="the folder holds another blend (members differs)"):
        blend("kept", leaves=3).fit(train, valid, resume=True)
    seen: list[int] = []
    resumed = blend("kept").fit(train, valid, resume=True, callback=lambda done, _: seen.append(done))
    assert seen[0] == 5  # neither the first member nor the first rounds of the second were trained again
    whole = blend("whole").fit(train, valid)
    assert same(resumed, whole, valid)
    assert np.array_equal(resumed.oof_scores_, whole.oof_scores_)
    refuses(lambda: rw.blended([ranker()], folds=2).fit(train, resume=True), what="resume needs a checkpoint")


def test_interruption_ends_the_blend(parts):
    train, valid = parts

    def interrupt(done, _):
        if done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt, match=r"interrupted in member 1 of 2, lightgbm\(xendcg\)"):
        rw.blended([ranker(), "a"], folds=2).fit(train, valid, callback=interrupt)


def test_processes_do_not_change_it(parts):
    """Slow: processes import the libraries."""
    train, valid = parts
    rankers = [ranker(objective="stochastic(softmax_ce)", rounds=4), "a"]
    one, two = (rw.blended(rankers, folds=3, processes=count).fit(train, valid) for count in (1, 2))
    assert same(one, two, valid)


def test_a_cluster_does_not_change_it(parts):
    distributed = pytest.importorskip("distributed")
    train, valid = parts
    rankers = [ranker(objective="stochastic(softmax_ce)", rounds=4), ranker("neural", "softmax_ce", epochs=2), "a"]
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
    ) as cluster:
        blend = rw.blended(rankers, folds=3, dask=cluster.scheduler_address).fit(train, valid)
    assert same(blend, rw.blended(rankers, folds=3).fit(train, valid), valid)


def test_blend_is_a_ranker_everywhere(parts):
    from sklearn.base import clone

    train, valid = parts
    inner = ranker(rounds=3)
    blend = rw.blended([inner, "a"], folds=2)
    copy = clone(blend)
    assert repr(copy) == repr(blend)
    copy.set_params(ranker_1__leaves=3, folds=3)
    assert (copy.get_params()["ranker_1__leaves"], copy.folds, inner.leaves) == (3, 3, 5)
    blend.fit(train, eval_sets={"other": valid})
    assert not inner.__sklearn_is_fitted__()
    assert blend.history_["other ndcg@10"] == [pytest.approx(blend.score(valid))]
    assert len(rw.cross_validate(rw.blended([inner, "a"], folds=2), train, folds=2).models) == 2
    plain = train.with_(feature_names=None)
    in_style = rw.blended([inner, 0], folds=2).fit(plain.features, plain.labels, qid=plain.qids())
    assert np.array_equal(in_style.predict(valid.features), blend.predict(valid.features))
    assert np.array_equal(pickle.loads(pickle.dumps(blend)).predict(valid), blend.predict(valid))  # noqa: S301
    student = rw.distilled(blend, ranker(rounds=3)).fit(train, valid)
    assert isinstance(student.ranker_, rw.LightGBMRanker)


def test_direction_of_a_feature_is_learned_without_its_own_fold(parts):
    train, _ = parts
    up = train.with_(features=np.column_stack([train.labels, -train.labels]).astype(np.float32), feature_names=None)
    down = FeatureRanker(1).fit(up)
    assert (FeatureRanker(0).fit(up).model_.sign, down.model_.sign) == (1.0, -1.0)
    assert down.history_["ndcg@10"] == [1.0]
    fold = np.arange(up.n_queries) % 2
    half = up.with_(labels=np.where(np.repeat(fold, up.sizes) == 0, up.labels, up.labels.max() - up.labels))
    crossed = FeatureRanker(0).cross_fit(half, fold)
    rows = np.repeat(fold, up.sizes) == 0
    assert np.array_equal(crossed.oof_scores_[rows], -up.features[rows, 0])  # as the other fold says, and wrong here
    refuses(lambda: FeatureRanker("a").fit(up), what="the features of these data have no names")
    refuses(lambda: FeatureRanker(2).fit(up), what="a column in feature must be smaller than the number of features")
    refuses(lambda: FeatureRanker(0).fit(up.with_(categorical=(0,))), what="documents cannot be ranked by a category")


def test_forged_weights_are_one_error(parts, tmp_path):
    path = rw.blended([ranker(rounds=2), "a"], folds=2).fit(parts[0]).save(tmp_path / "blend")
    description, files = storage.read(path)
    for forged in ({"values": ["x", 1]}, {"spreads": [1.0]}, {"values": [float("nan"), 1.0]}, {"values": [0.0, 0.0]}):
        weights = description["weights"] | forged
        storage.write(path, description | {"weights": weights}, files, force=True)
        with pytest.raises(ValueError, match=str(path)):
            rw.load(path)


def test_errors_say_what_to_do(parts):
    train, valid = parts
    refuses(lambda: rw.blended([]), what="a blend is made of a list of rankers")
    refuses(lambda: rw.blended(ranker()), what="a blend is made of a list of rankers")
    with refusal(what="…bags of them, and features", got="the class LightGBMRanker", hint="…not trained yet…"):
        rw.blended([rw.LightGBMRanker])  # type: ignore[list-item]
    with refusal(what="bags of a blend must have its folds", got="folds=3 and folds=2"):
        rw.blended([rw.bagged(ranker(), folds=3)], folds=2).fit(train)
    with refusal(what="…trained already", got="LightGBMRanker", hint="…of_fitted"):
        rw.blended([ranker(rounds=1).fit(train)], folds=2).fit(train)
    refuses(lambda: rw.blended([ranker(), "aa"], folds=2).fit(train), what="unknown feature", got="'aa'")
    with refusal(what="unknown ranker inside blended", got="'ranker_3'"):
        rw.blended([ranker(), "a"]).set_params(ranker_3__leaves=3)
    refuses(lambda: rw.blended([ranker()]).predict(valid), what="this blended is not trained yet")
    refuses(lambda: rw.blended([ranker()]).rank(valid), what="this blended is not trained yet")
    with refusal(got="…debias…"):
        rw.blended([ranker(debias=True), "a"], folds=2).fit(train.with_(propensities=np.ones(train.n_docs)))
