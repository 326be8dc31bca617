"""A bag of rankers: one curve stops all members, none scores a query that it saw, and the bag is a ranker."""

import io
import json
import multiprocessing
import pickle
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base.arrays import rows_of
from rankwise.data.splits import fold_of_query
from rankwise.models import storage
from rankwise.rankers.ensembles.out_of_fold import HeldOut
from rankwise.rankers.table import ranker_class
from tests import tiers
from tests.refusals import refusal, refuses

SMALL: dict[str, Any] = {"rounds": 15, "leaves": 5, "min_documents": 3, "threads": 1, "learning_rate": 0.2}
NET: dict[str, Any] = {"hidden": (6,), "epochs": 6, "threads": 1, "device": "cpu", "learning_rate": 0.02}
LIBRARIES = ("lightgbm", "xgboost", "catboost")
ROUNDING = {"lightgbm": 1e-12, "catboost": 1e-12, "xgboost": 1e-6, "neural": 0.0}
"""How far one forest may be from the mean of members: XGBoost adds in float32."""


def ranker(library="lightgbm", objective="xendcg", **changes):
    return ranker_class(library)(objective, **(NET if library == "neural" else SMALL) | changes)


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=36, n_docs=8, n_features=6, seed=3)


@pytest.fixture(scope="module")
def parts(data):
    return rw.split(data, (0.7, 0.3), seed=1)


def same(one, other, data):
    return np.array_equal(one.predict(data), other.predict(data)) and one.history_ == other.history_


def by_hand(bag, data, rounds):
    """Scores of every query, after ``rounds`` rounds, by rankers trained apart on what the folds leave."""
    found = np.empty((bag.repeats, data.n_docs))
    for number, member in enumerate(bag.members_):
        repeat, fold = divmod(number, bag.folds)
        of_query = fold_of_query(data, bag.folds, seed=bag.ranker.seed, trial=repeat)
        alone = type(bag.ranker)(**bag.ranker.get_params() | {"seed": member.seed, bag.unit: rounds})
        alone.fit(data.take(of_query != fold))
        held_out = np.flatnonzero(of_query == fold)
        found[repeat, rows_of(held_out, data.offsets)[0]] = alone.predict(data.take(held_out))
    return found


@pytest.mark.parametrize(("library", "repeats"), [("lightgbm", 2), ("neural", 1)])
def test_pooled_curve_and_common_round_are_those_of_an_independent_computation(library, repeats, data):
    bag = rw.bagged(ranker(library, smoothing=3, patience=3), folds=3, repeats=repeats).fit(data)
    curve = bag.history_["ndcg@10"]
    metric = rw.metric("ndcg@10")
    for rounds in {1, bag.best_round_, len(curve)}:
        scores = by_hand(bag, data, rounds)
        values = [metric(row, data.labels, data.offsets) for row in scores]
        assert curve[rounds - 1] == pytest.approx(np.nanmean(values), rel=1e-9)
        if rounds == bag.best_round_:
            np.testing.assert_allclose(bag.oof_scores_, scores.mean(axis=0), rtol=1e-6, atol=1e-6)
    means = np.convolve(curve, np.ones(3) / 3, mode="valid")
    assert bag.best_round_ == int(np.argmax(means)) + 3
    if bag.stopped_ == "patience":
        assert len(curve) == bag.best_round_ + 3
    assert {member.best_round_ for member in bag.members_} == {bag.best_round_}
    assert len(bag.members_) == 3 * repeats
    assert len({member.seed for member in bag.members_}) == 3 * repeats


def test_no_member_learns_from_the_queries_that_it_scores(data):
    """What a query's labels are changes no out-of-fold score of its own."""
    settings = ranker(patience=None)
    bag = rw.bagged(settings, folds=3).fit(data)
    fold = fold_of_query(data, 3)
    rows = rows_of(np.flatnonzero(fold == 0), data.offsets)[0]
    labels = data.labels.copy()
    labels[rows] = labels[rows][::-1]
    other = rw.bagged(settings, folds=3).fit(data.with_(labels=labels))
    assert other.members_[0].history_ == bag.members_[0].history_
    assert all(other.members_[number].history_ != bag.members_[number].history_ for number in (1, 2))


@pytest.mark.parametrize("library", [*LIBRARIES, "neural"])
def test_bag_scores_as_the_mean_of_its_members(library, parts, tmp_path):
    train, valid = parts
    bag: Any = rw.bagged(ranker(library), folds=3).fit(train, valid)
    mean = np.mean([member.predict(valid) for member in bag.members_], axis=0)
    np.testing.assert_allclose(bag.predict(valid), mean, rtol=ROUNDING[library], atol=ROUNDING[library])
    assert np.array_equal(bag.scorer()(valid.features), bag.predict(valid))
    np.testing.assert_allclose(bag.explain(valid).sum(axis=1), bag.predict(valid), atol=1e-5)
    assert bag.n_features_in_ == train.n_features
    assert bag.rank(valid, cutoff=2)["rank"].max() == 2
    if library != "neural":
        assert bag.ranker_.model_.n_trees == sum(member.model_.n_trees for member in bag.members_)
        assert bag.feature_importances_.sum() == pytest.approx(1.0)
        counts = sum(member.importances("split") for member in bag.members_)
        assert np.array_equal(bag.importances("split"), counts)


@pytest.mark.parametrize("library", tiers.some(["lightgbm", "neural"]))
def test_bag_is_the_same_whatever_the_number_of_processes(library, parts):
    """Slow: processes import the libraries."""
    train, valid = parts
    one, two = (
        rw.bagged(ranker(library, "stochastic(softmax_ce)"), folds=3, processes=count).fit(
            train, valid, eval_sets={"again": valid}
        )
        for count in (1, 2)
    )
    assert same(one, two, valid)
    assert np.array_equal(one.oof_scores_, two.oof_scores_)
    assert one.history_["again ndcg@10"][one.best_round_ - 1] == pytest.approx(one.score(valid))


def test_bag_is_the_same_on_a_cluster(parts, tmp_path):
    distributed = pytest.importorskip("distributed")
    train, valid = parts
    settings = ranker(objective="stochastic(softmax_ce)", rounds=4)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
    ) as cluster:
        bag = rw.bagged(settings, folds=3, dask=cluster.scheduler_address).fit(train, valid)
    assert same(bag, rw.bagged(settings, folds=3).fit(train, valid), valid)


class Killed(Exception):
    pass


def test_killed_process_is_an_error_from_which_training_resumes(parts, tmp_path):
    """Slow: processes import the libraries."""
    train, valid = parts
    settings = {"rounds": 6, "patience": None, "checkpoint": tmp_path / "kept", "checkpoint_every": 2}
    before = set(multiprocessing.active_children())

    def kill(done, _):
        if done == 4:
            (set(multiprocessing.active_children()) - before).pop().kill()

    with pytest.raises(ChildProcessError, match=r"trains members of a bag has ended.*resume=True"):
        rw.bagged(ranker(**settings), folds=2, processes=2).fit(train, valid, callback=kill)
    resumed = rw.bagged(ranker(**settings), folds=2).fit(train, valid, resume=True)
    assert same(resumed, rw.bagged(ranker(rounds=6, patience=None), folds=2).fit(train, valid), valid)


def test_member_that_has_nothing_more_to_learn_waits_for_the_others(tmp_path):
    data = rw.synthetic(n_queries=12, n_docs=6, n_features=2, seed=5)
    settings = {"leaves": 3, "rounds": 40, "learning_rate": 0.3, "smoothing": 40, "min_gain_to_split": 0.2}

    def bag(**changes):
        return rw.bagged(ranker(objective="softmax_ce", **settings, **changes), folds=2)

    plain: Any = bag().fit(data)
    grown = sorted(member.model_.n_trees for member in plain.members_)
    assert (grown, plain.best_round_, plain.stopped_) == ([4, 5], 5, "no split")
    assert plain.ranker_.model_.n_trees == 9

    def stop(done, _):
        if done == 5:
            raise Killed

    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 1}
    with pytest.raises(Killed):
        bag(**kept).fit(data, callback=stop)
    resumed = bag(**kept).fit(data, resume=True)
    assert same(resumed, plain, data)
    assert np.array_equal(resumed.oof_scores_, plain.oof_scores_)


def test_what_is_reported_is_of_rounds_that_the_other_folds_chose(data):
    bag = rw.bagged(ranker(rounds=8, smoothing=1, patience=None), folds=3, repeats=2).fit(data)
    metric, fold = rw.metric("ndcg@10"), fold_of_query(data, 3, seed=0)
    by_round = [by_hand(bag, data, rounds) for rounds in range(1, 9)]
    values = np.array([[metric(row, data.labels, data.offsets) for row in scores] for scores in by_round]).mean(axis=1)
    expected, rounds = np.empty(data.n_queries), set()
    for number in range(3):
        best = int(np.argmax(np.nanmean(values[:, fold != number], axis=1)))
        rounds.add(best)
        scores = by_round[best].mean(axis=0)
        expected[fold == number] = metric(scores, data.labels, data.offsets)[fold == number]
    assert len(rounds) > 1  # or the test would show nothing
    np.testing.assert_allclose(bag.out_of_fold_["ndcg@10"], expected, rtol=1e-9)
    assert bag.best_round_ == 1 + int(np.argmax(np.nanmean(values, axis=1)))  # the model is that of all queries


def test_a_model_without_cross_fitted_scores_still_loads(data):
    held_out = rw.bagged(ranker(rounds=2), folds=2).fit(data).held_out_
    with np.load(io.BytesIO(held_out.files()["out_of_fold.npz"])) as kept:
        older = {name: kept[name] for name in kept.files if name != "cross_fitted"}
    buffer = io.BytesIO()
    np.savez(buffer, **older)
    again = HeldOut.read({"out_of_fold.npz": buffer.getvalue()})
    assert again is not None
    assert again.evaluation().mean == held_out.evaluation().mean
    forged = io.BytesIO()
    np.savez(forged, **older, cross_fitted=np.zeros(3))
    with refusal(what="cannot read out-of-fold scores", got="3 cross-fitted scores…"):
        HeldOut.read({"out_of_fold.npz": forged.getvalue()})


@pytest.mark.parametrize("library", LIBRARIES)
def test_categories_names_weights_and_groups_go_along(library, tmp_path):
    whole = rw.synthetic(n_queries=40, n_docs=10, n_features=3, seed=1)
    codes = np.random.default_rng(0).integers(0, 3, whole.n_docs)
    features = np.column_stack([whole.features, codes + np.where(whole.labels > 0, 1, 0) % 4]).astype(np.float32)
    data = rw.RankingDataset(
        features,
        whole.labels,
        whole.offsets,
        query_ids=[f"q{n}" for n in range(40)],
        weights=np.linspace(0.5, 2.0, 40),
        groups=codes,
        feature_names=["a", "b", "c", "shop"],
        categorical=[3],
        categories={3: ["w", "x", "y", "z"]},
    )
    train, valid = rw.split(data, (0.7, 0.3), seed=1)
    settings = {"catboost": {"one_hot_max_size": 255}, "lightgbm": {"min_data_per_group": 3}, "xgboost": {}}[library]
    bag = rw.bagged(ranker(library, **settings), folds=2).fit(train, valid)
    mean = np.mean([member.predict(valid) for member in bag.members_], axis=0)
    np.testing.assert_allclose(bag.predict(valid), mean, atol=ROUNDING[library])
    bag.save(tmp_path / "bag")
    again = rw.load(tmp_path / "bag")
    assert again.categories_ == {"shop": ("w", "x", "y", "z")} == bag.categories_
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "shop"]
    assert same(again, bag, valid)
    pooled = rw.concatenate([train, valid])
    expected = rw.evaluate(bag.oof_scores_, pooled)
    assert bag.history_["ndcg@10"][bag.best_round_ - 1] == pytest.approx(expected.mean["ndcg@10"])
    assert np.array_equal(bag.out_of_fold_.query_ids, expected.query_ids)
    fair = rw.bagged(ranker(library, "fair(softmax_ce, weight=0.5)", **settings), folds=2)
    assert fair.fit(train, valid).best_round_ >= 1


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 no archive", b"\x93NUMPY\x01\x00"])
def test_forged_scores_of_a_bag_are_one_error(content, parts, tmp_path):
    train, _ = parts
    path = rw.bagged(ranker(rounds=2), folds=2).fit(train).save(tmp_path / "bag")
    description, files = storage.read(path)
    storage.write(path, description, files | {"out_of_fold.npz": content}, force=True)
    refuses(lambda: rw.load(path), what="cannot read out-of-fold scores", where="out_of_fold.npz")


def test_categories_that_only_validation_data_have_are_learned():
    def lists(start, values):
        codes = np.tile([0.0, 1.0], 10)
        ids = [f"{start}{n}" for n in range(10)]
        return rw.RankingDataset(
            codes[:, None], codes, np.arange(0, 21, 2), query_ids=ids, categorical=[0], categories={0: values}
        )

    bag = rw.bagged(ranker(min_data_per_group=1, cat_smooth=0.0, rounds=3), folds=2)
    bag.fit(lists("t", ["a", "b"]), lists("v", ["c", "d"]))
    assert bag.categories_ == {0: ("a", "b", "c", "d")}


def test_catboost_with_statistics_of_categories_averages_its_members(tmp_path):
    whole = rw.synthetic(n_queries=30, n_docs=10, n_features=2, seed=1)
    codes = (np.random.default_rng(0).integers(0, 40, whole.n_docs) + 3 * whole.labels) % 40
    data = rw.RankingDataset(
        np.column_stack([whole.features, codes]).astype(np.float32), whole.labels, whole.offsets, categorical=[2]
    )
    bag = rw.bagged(ranker("catboost", one_hot_max_size=2, max_ctr_complexity=1), folds=2).fit(data)
    mean = np.mean([member.predict(data) for member in bag.members_], axis=0)
    assert len(bag.averaged) == 2
    np.testing.assert_allclose(bag.predict(data), mean, atol=1e-12)
    bag.save(tmp_path / "bag")
    assert same(rw.load(tmp_path / "bag"), bag, data)


def test_bag_is_a_ranker_everywhere(parts, tmp_path):
    from sklearn.base import clone

    train, valid = parts
    inner = ranker(rounds=4)
    bag = rw.bagged(inner, folds=2)
    copy = clone(bag)
    assert repr(copy) == repr(bag)
    assert copy.ranker is not inner
    copy.set_params(ranker__leaves=3, folds=3, rounds=5)
    assert (copy.get_params()["ranker__leaves"], copy.leaves, copy.folds, copy.rounds) == (3, 3, 3, 5)
    assert (inner.leaves, inner.rounds) == (5, 4)
    fitted = bag.fit(train, valid)
    assert not inner.__sklearn_is_fitted__()
    evaluation = rw.evaluate(fitted, valid)
    assert rw.compare({"bag": fitted, "one": ranker(rounds=4).fit(train)}, valid).paired.unit == "query"
    assert fitted.score(valid) == pytest.approx(evaluation.mean["ndcg@10"])
    crossed = rw.cross_validate(rw.bagged(ranker(rounds=4), folds=2), train, folds=2)
    assert len(crossed.models) == 2
    qid = valid.qids()
    in_style = rw.bagged(ranker(rounds=4), folds=2).fit(valid.features, valid.labels, qid=qid)
    assert in_style.predict(valid.features).shape == (valid.n_docs,)
    assert np.array_equal(pickle.loads(pickle.dumps(fitted)).predict(valid), fitted.predict(valid))  # noqa: S301


def test_export_of_a_bag_is_that_of_its_forest(parts, tmp_path):
    train, _ = parts
    bag = rw.bagged(ranker(rounds=3, patience=None), folds=2).fit(train)
    bag.save(tmp_path / "bag")
    names = [f"f{n}" for n in range(train.n_features)]
    body = json.loads(rw.export(tmp_path / "bag", tmp_path / "bag.json", "elasticsearch", names=names).read_text())
    assert len(json.loads(body["model"]["model"]["definition"])) == bag.ranker_.model_.n_trees
    net = rw.bagged(ranker("neural"), folds=2).fit(train)
    with refusal(what="a bag can be exported where its members make one forest: trees, without CatBoost's categories"):
        rw.export(net, tmp_path / "net.onnx", "onnx")


def test_bag_teaches_a_student_and_is_none(parts):
    train, valid = parts
    student = rw.distilled(rw.bagged(ranker(rounds=4), folds=2), ranker(rounds=4)).fit(train, valid)
    assert student.teacher_.members_
    assert isinstance(student.ranker_, rw.LightGBMRanker)
    with refusal(what="…student must be a ranker of trees or nets,…", got="bagged"):
        rw.distilled(student, rw.bagged(ranker()))


def objective_here(scores, labels, offsets):
    return scores - labels, np.ones_like(scores)


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_errors_say_what_to_do(data):
    with refusal(what="…at least as many queries as folds", got="3 queries and folds=5", hint="…fewer folds"):
        rw.bagged(ranker()).fit(data.take([0, 1, 2]))
    with refusal(what="…trained already", got="LightGBMRanker", hint="…clone…"):
        rw.bagged(ranker(rounds=1).fit(data), folds=2).fit(data)
    with refusal(
        what="a bag is made of rankers of trees or nets, or of one's own",
        got="the class LightGBMRanker",
        hint="…not trained yet…",
    ):
        rw.bagged(rw.LightGBMRanker)  # type: ignore[arg-type]
    with refusal(what="a bag is made of rankers of trees or nets, or of one's own", got="bagged"):
        rw.bagged(rw.bagged(ranker()))
    with refusal(what="…ids in common", got="4 in both", hint="…ids of their own"):
        rw.bagged(ranker(), folds=2).fit(data.take(slice(0, 6)), data.take(slice(4, 9)))
    refuses(lambda: rw.bagged(ranker(), folds=1).fit(data), what="folds must be a whole number of at least 2")
    refuses(lambda: rw.bagged(ranker(), repeats=0).fit(data), what="repeats must be a whole number of at least 1")
    refuses(lambda: rw.bagged(ranker()).fit(data, init_model=ranker()), what="a bag is trained from nothing")
    refuses(lambda: rw.bagged(ranker()).predict(data), what="this bagged is not trained yet")
    refuses(lambda: rw.bagged(ranker()).set_params(leafs=3), got="'leafs'")
    with refusal(what="the ranker cannot be sent to other processes", hint="…processes=1"):
        rw.bagged(ranker(objective=lambda *three: objective_here(*three)), folds=2, processes=2).fit(data)
    with refusal(what="only LightGBM and XGBoost train on a cluster", got="bagged"):
        rw.cluster.dask.fit(rw.bagged(ranker()), data)  # type: ignore[type-var]
    flat = data.with_(labels=np.zeros(data.n_docs))
    refuses(lambda: rw.bagged(ranker(), folds=2).fit(flat), what="ndcg@10 scores no query")
