"""LightGBM's rankers: every objective learns, continues, stops and explains; nothing fails in silence."""

import errno
import os
import signal
from typing import Any

import lightgbm as lgb
import numpy as np
import pandas as pd
import polars as pl
import pytest

import rankwise as rw
from rankwise.objectives.ragged import Derivatives
from rankwise.rankers.training.loop import State
from rankwise.rankers.training.run import ProgressBar
from rankwise.rankers.training.stopping import Stopping
from rankwise.rankers.trees.newton import newton
from tests.rankers.test_contract import same
from tests.refusals import refusal, refuses

SMALL = {"leaves": 7, "min_documents": 5, "threads": 1}


def ranker(objective="xendcg", **changes):
    return rw.LightGBMRanker(objective, **SMALL | {"rounds": 12, "learning_rate": 0.1} | changes)


def distance(one, other, data):
    return 1 - np.corrcoef(one.predict(data), other.predict(data))[0, 1]


class Counting:
    """An objective that counts its calls, and may do something at one of them."""

    exact_hessian, estimator = True, False

    def __init__(self, inner="xendcg", at=None, then=None):
        self.inner, self.rounds, self._at, self._then = rw.objective(inner), [], at, then

    def __call__(self, scores, labels, offsets, stream=None, **documents):
        self.rounds.append(stream.round)
        if stream.round == self._at:
            self._then()
        return self.inner(scores, labels, offsets, stream, **documents)

    def __repr__(self):
        return f"Counting({self.inner!r})"


# LightGBM's own objectives.


@pytest.mark.parametrize("builtin", ["lambdarank", "rank_xendcg"])
def test_native_objectives_are_lightgbms_own(builtin, data):
    model = ranker(f"native:{builtin}").fit(data)
    params: dict = {"objective": builtin, "learning_rate": 0.1, "num_leaves": 7, "min_data_in_leaf": 5, "seed": 0}
    params |= {"num_threads": 1, "verbosity": -1, "force_col_wise": True}
    theirs = lgb.train(params, lgb.Dataset(data.features, data.labels, group=data.sizes), num_boost_round=12)
    assert np.array_equal(model.predict(data), theirs.predict(data.features))
    assert "loss" not in model.history_


def test_our_lambdarank_is_near_the_native_one(data):
    ours, native, other = (ranker(text).fit(data) for text in ("lambdarank", "native:lambdarank", "xendcg"))
    assert 10 * distance(ours, native, data) < distance(other, native, data)


def test_the_case_in_which_rank_xendcg_is_lost_trains(data):
    """A score gap of 37 within a query makes LightGBM's own version silent; ours goes on learning."""
    steep = ranker("native:lambdarank", rounds=3, learning_rate=20.0).fit(data)
    gaps = np.maximum.reduceat(steep.predict(data), data.offsets[:-1]) - np.minimum.reduceat(
        steep.predict(data), data.offsets[:-1]
    )
    assert gaps.max() > 40
    with refusal(what="the model learned nothing from 40 queries"):
        ranker("native:rank_xendcg").fit(data, init_model=steep)
    model = ranker("xendcg", rounds=30).fit(data, init_model=steep)
    assert model.history_["loss"][-1] < 0.7 * model.history_["loss"][0]


# Early stopping, history, metrics.


def test_early_stopping_weighs_validation_queries(data, valid):
    weights = np.where(np.arange(valid.n_queries) < 3, 50.0, 1.0)
    model = ranker(rounds=5).fit(data, valid.with_(weights=weights))
    values = rw.metric("ndcg@10")(model.predict(valid), valid.labels, valid.offsets)
    scored = ~np.isnan(values)
    expected = (values[scored] * weights[scored]).sum() / weights[scored].sum()
    assert model.history_["ndcg@10"][model.best_round_ - 1] == pytest.approx(expected)


def test_patience_none_trains_every_round_and_keeps_the_best(data, valid):
    model = ranker("lambdarank", rounds=30, patience=None, learning_rate=0.5).fit(data, valid)
    assert (model.stopped_, len(model.history_["ndcg@10"])) == ("rounds", 30)
    assert model.model_.n_trees == np.argmax(model.history_["ndcg@10"]) + 1 < 30


def test_the_loss_of_a_round_is_that_before_its_tree(data):
    model = ranker("lambdarank", rounds=3).fit(data)
    value = rw.objective("lambdarank")(np.zeros(data.n_docs), data.labels, data.offsets).value
    assert model.history_["loss"][0] == pytest.approx(value.mean())


# Data in every form.


def test_all_ways_to_pass_the_same_data_give_the_same_model(data, valid):
    expected = ranker("lambdarank").fit(data, valid)
    names = list(data.feature_names)
    table = pl.DataFrame(data.features, schema=names)
    whole = rw.data.to_frame(data)
    arrays = (data.features, data.labels)
    held_out = (valid.features, valid.labels, valid.qids())
    fits = [
        ranker("lambdarank").fit(*arrays, qid=data.qids(), valid=held_out),
        ranker("lambdarank").fit(*arrays, group=data.sizes, valid=valid.with_(feature_names=None)),
        ranker("lambdarank").fit(table, pl.Series(data.labels), qid=pl.Series(data.qids()), valid=valid),
        ranker("lambdarank").fit(table.to_pandas(), pd.Series(data.labels), qid=data.qids().astype(str), valid=valid),
        ranker("lambdarank").fit(whole, valid=rw.data.to_frame(valid)),
    ]
    for model in fits:
        assert same(model, expected, valid)
    assert np.array_equal(fits[2].predict(table.select(names[::-1])), expected.predict(data))
    assert np.array_equal(expected.predict(whole), expected.predict(data))
    assert np.array_equal(expected.predict(data.with_(feature_names=None)), expected.predict(data))
    turned = data.with_(features=data.features[:, ::-1], feature_names=names[::-1])
    assert np.array_equal(expected.predict(turned), expected.predict(data))


def test_names_that_lightgbm_cannot_hold_are_kept_by_us(data):
    names = [f"a {{{number}}}" for number in range(12)]
    model = ranker(rounds=3).fit(data.with_(feature_names=names))
    assert list(model.feature_names_in_) == names


# Newton's step.


def derivatives(numerator, hessian):
    numerator = np.array(numerator, float)
    return Derivatives(np.zeros(1), numerator, np.array(hessian, float), numerator)


def test_a_hessian_that_newton_can_use_is_left_alone():
    numerator, hessian = newton(derivatives([1.0, -1.0], [0.25, 0.5]), np.array([0, 2]), weights=np.array([4.0]))
    assert numerator.tolist() == [4.0, -4.0]
    assert hessian.tolist() == [1.0, 2.0]
    assert numerator.dtype == hessian.dtype == np.float32


def test_without_a_floor_a_hessian_is_what_the_objective_says(data):
    given = derivatives([0.1, -0.1, 0.0], [4.0, -4.0, 0.0])
    _, hessian = newton(given, np.array([0, 3]), weights=np.array([0.5]), floor_hessian=False)
    assert hessian.tolist() == [2.0, -2.0, 0.0]
    # At equal scores the Hessians of a query sum to 0 in expectation: as they are, no tree grows from them.
    text = "plrank(metric=dcg, cutoff=10, curvature=estimated)"
    settings: dict[str, Any] = {"rounds": 2, "reg_lambda": 1.0, "threads": 1}
    assert rw.XGBoostRanker(text, **settings).fit(data).model_.n_trees == 2
    with refusal(what="the model learned nothing from 40 queries"):
        rw.XGBoostRanker(text, floor_hessian=False, **settings).fit(data)
    with refusal(got="…weights of documents, which CatBoost wants to be positive"):
        rw.CatBoostRanker(text, floor_hessian=False).fit(data)


def test_a_hessian_that_newton_cannot_use_is_replaced_relative_to_its_query():
    _, hessian = newton(derivatives([0.1, 0.1, 0.1, 0.0], [4.0, -4.0, 1e-9, 0.0]), np.array([0, 4]))
    assert hessian == pytest.approx([4.0, 2.0, 2e-3, 1e-16], rel=1e-6, abs=0)
    _, hessian = newton(derivatives([1.0, -1.0], [1e-12, 1e-12]), np.array([0, 2]))
    assert hessian == pytest.approx([0.01, 0.01])  # probabilities of 0 and 1: steps of 100
    _, hessian = newton(derivatives([0.5, -0.5], [0.0, 0.0]), np.array([0, 2]))
    assert hessian.tolist() == [0.5, 0.5]


@pytest.mark.parametrize(
    ("numerator", "hessian", "name"),
    [([0.0, np.nan], [1, 1], "numerator"), ([0, 0], [1, np.nan], "hessian"), ([0, 1e39], [1, 1], "numerator")],
)
def test_what_is_not_finite_is_named_with_its_query(numerator, hessian, name):
    with pytest.raises(ValueError, match=rf"the {name} of an objective must be finite in float32.*row 1 \(query 'b'\)"):
        newton(derivatives(numerator, hessian), np.array([0, 1, 2]), np.array(["a", "b"]))


def test_derivatives_of_another_length_are_refused():
    with refusal(what="the numerator of an objective must be one number per document", got="shape…"):
        newton(derivatives([0.0], [1.0]), np.array([0, 2]))


def test_an_objective_that_goes_nan_ends_training_with_the_query(data):
    def broken(scores, labels, offsets, stream=None):
        found = rw.objective("listnet")(scores, labels, offsets)
        found.hessian[25] = np.nan
        return found

    with refusal(what="the hessian of an objective must be finite in float32", where="row 25 (query 2)"):
        ranker(broken).fit(data)


# Nothing fails in silence.


def test_nothing_to_learn_is_an_error_that_says_why(data):
    with refusal(what="the model learned nothing from 40 queries", got="no split of …min_documents=100000…"):
        ranker(min_documents=100_000).fit(data)
    with refusal(what="the model learned nothing from 40 queries", got="no split of …min_documents=100000…"):
        ranker("native:lambdarank", min_documents=100_000).fit(data)
    with refusal(what="…learned nothing…", got="a gradient of 0 for every document from smooth_ap…"):
        ranker("smooth_ap(relevant=9)").fit(data)


def test_a_validation_set_with_nothing_relevant_is_an_error(data, valid):
    refuses(lambda: ranker().fit(data, valid.with_(labels=np.zeros(valid.n_docs))), what="ndcg@10 scores no query")


def test_training_that_cannot_go_on_ends_with_what_was_learned():
    lists = rw.RankingDataset.from_sizes([[0.0], [1.0]] * 10, [0, 1] * 10, [2] * 10)
    hinge = rw.LightGBMRanker(Hinge(), rounds=50, learning_rate=0.9, leaves=2, min_documents=1, threads=1).fit(lists)
    assert hinge.stopped_ == "converged"
    assert 0 < hinge.best_round_ < 50
    assert hinge.model_.n_trees == hinge.best_round_


class Hinge:
    """Flat once the second document leads by 1."""

    exact_hessian, estimator = False, False

    def __call__(self, scores, labels, offsets, stream=None, **documents):
        gap = scores[1::2] - scores[::2]
        pull = np.repeat((gap < 1.0).astype(float), 2) * np.tile([1.0, -1.0], gap.size)
        return Derivatives(np.maximum(1.0 - gap, 0.0), pull, np.ones(scores.size), pull)


def test_unknown_parameters_are_errors_with_a_suggestion():
    with refusal(what="LightGBMRanker has no such parameter", got="'roundz'", hint="did you mean 'rounds'"):
        rw.LightGBMRanker().set_params(roundz=1)
    with refusal(what="LightGBMRanker has no such parameter", got="'qqqqqq'", hint="see the parameters of lightgbm…"):
        rw.LightGBMRanker(qqqqqq=1)
    for theirs, ours in {"nthread": "threads", "first_metric_only": "stop_on"}.items():
        with pytest.raises(ValueError, match=f"'{theirs}' of lightgbm has another name here. Hint: set {ours}"):
            ranker(**{theirs: 5})


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ({"rounds": 0}, {"what": "rounds must be a whole number of at least 1"}),
        ({"learning_rate": 0.0}, {"what": "learning_rate must be a number in (0, inf)"}),
        ({"leaves": 1}, {"what": "leaves must be a whole number of at least 2"}),
        ({"min_documents": 0}, {"what": "min_documents must be a whole number of at least 1"}),
        ({"patience": 0}, {"what": "patience must be a whole number of at least 1"}),
        ({"checkpoint_every": 0}, {"what": "checkpoint_every must be a whole number of at least 1"}),
        ({"threads": 0}, {"what": "threads must be a whole number of at least 1"}),
        ({"seed": -1}, {"what": "seed must be a whole number of at least 0"}),
        ({"objective": "native:yetirank"}, {"what": "unknown objective of lightgbm itself", "got": "'yetirank'"}),
        ({"objective": "xendgc"}, {"what": "unknown objective", "got": "'xendgc'"}),
        ({"metrics": "ndgc"}, {"what": "unknown metric"}),
        (
            {"boosting": "rf"},
            {"what": "…cannot be trained so", "got": "boosting=rf averages…", "hint": "leave that parameter out"},
        ),
        ({"boosting": "dart"}, {"got": "boosting=dart changes earlier trees…", "hint": "train without valid"}),
        ({"bagging_by_query": True}, {"got": "with bagging_by_query, LightGBM…", "hint": "leave that parameter out"}),
    ],
)
def test_bad_settings_say_so(changes, fields, data, valid):
    refuses(lambda: ranker(**{"objective": "xendcg"} | changes).fit(data, valid), **fields)


def test_bad_data_say_so(data, valid):
    refuses(lambda: ranker().fit(data, qid=data.qids()), what="a RankingDataset says itself what qid is")
    refuses(lambda: ranker().fit(data, valid, valid=valid), what="validation data were passed twice")
    refuses(lambda: ranker().fit(data.features, qid=data.qids()), what="labels are needed beside the features")
    with refusal(what="either qid or group must say which documents belong together", got="neither"):
        ranker().fit(data.features, data.labels)
    with refusal(what="either qid or group must say which documents belong together", got="both"):
        ranker().fit(data.features, data.labels, qid=data.qids(), group=data.sizes)
    refuses(lambda: ranker().fit(data.features, data.labels, qid=[1, 2]), what="qid must be one id per document")
    with refusal(what="y must be one label per document"):
        ranker().fit(data.features[:-1], data.labels, qid=data.qids())
    with refusal(what="valid must be a RankingDataset or (X, y, qid)"):
        ranker().fit(data, valid=(valid.features, valid.labels))
    with refusal(what="listnet takes no document_weights"):
        ranker("listnet").fit(data.features, data.labels, qid=data.qids(), sample_weight=np.arange(data.n_docs))
    with refusal(what="native:lambdarank needs whole labels", got="0.5", where="row 0 (query 0)"):
        ranker("native:lambdarank").fit(data.with_(labels=np.full(data.n_docs, 0.5)))


def test_features_must_be_those_of_training(data):
    model = ranker(rounds=2).fit(data)
    with refusal(what="…do not have", got="no 'body_tfidf' among 3 columns"):
        model.predict(data.with_(features=data.features[:, :3], feature_names=["a", "b", "c"]))
    refuses(lambda: model.predict(data.features[:, :3]), what="the model was trained on 12 features", got="3")
    renamed = ["body_tfidff", *data.feature_names[1:]]
    with refusal(what="…do not have", got="no 'body_tfidf' among 12 columns", hint="rename 'body_tfidff'…"):
        model.predict(data.with_(feature_names=renamed))
    refuses(lambda: ranker().predict(data), what="this LightGBMRanker is not trained yet")


# Rankings and explanations.


def test_rank_orders_documents_within_queries(data):
    model = ranker(rounds=3).fit(data)
    lists = data.with_(document_ids=[f"d{row}" for row in range(data.n_docs)])
    table, scores = model.rank(lists), model.predict(data)
    expected = [
        row
        for first, last in zip(data.offsets[:-1], data.offsets[1:], strict=True)
        for row in sorted(range(first, last), key=lambda row: -scores[row])  # a stable sort: ties keep the rows' order
    ]
    assert table["row"].to_list() == expected
    assert table["document"].to_list() == [f"d{row}" for row in expected]
    assert table["rank"].to_list() == [rank for size in data.sizes for rank in range(1, size + 1)]
    assert table["score"].to_list() == [scores[row] for row in expected]
    top = model.rank(data.features, qid=data.qids(), cutoff=2)
    assert top.height == 2 * data.n_queries
    assert top["row"].to_list() == table.filter(pl.col("rank") <= 2)["row"].to_list()
    numbers = np.array(top["row"]) - np.repeat(data.offsets[:-1], 2)
    assert top["document"].to_list() == numbers.tolist()


def test_sampled_rankings_follow_the_scores(data):
    model = ranker(rounds=8, learning_rate=1.0).fit(data)
    drawn = model.sample_rankings(data, 4000, seed=5, cutoff=1)
    assert drawn.shape == (4000, data.n_queries)
    start, end = data.offsets[:2]
    scores = model.predict(data)[start:end]
    expected = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
    seen = np.bincount(drawn[:, 0], minlength=end - start) / 4000
    assert np.abs(seen - expected).max() < 4 * np.sqrt(0.25 / 4000)
    assert np.array_equal(drawn, model.sample_rankings(data, 4000, seed=5, cutoff=1))
    assert not np.array_equal(drawn, model.sample_rankings(data, 4000, seed=6, cutoff=1))


def test_importances_are_shares_of_gain(data):
    model = ranker().fit(data)
    booster = model.model_.booster
    gain = booster.feature_importance("gain")
    assert np.allclose(model.feature_importances_, gain / gain.sum())
    assert np.array_equal(model.importances("split"), booster.feature_importance("split"))
    refuses(lambda: model.importances("weight"), what="unknown kind of importance")


# Continuing, resuming, interrupting.


def test_checkpoints_change_nothing_where_nothing_is_drawn(data, tmp_path):
    assert same(ranker(checkpoint=tmp_path / "c", checkpoint_every=2).fit(data), ranker().fit(data), data)


def test_every_block_draws_anew(data, tmp_path):
    """With one feature for each tree and one tree for each block, the same seed would give the same feature."""
    model = ranker(feature_fraction=0.08, checkpoint_every=1, checkpoint=tmp_path / "c").fit(data)
    assert np.count_nonzero(model.importances("split")) > 3


def test_sampling_depends_on_the_seed(data):
    sampled = {"bagging_fraction": 0.5, "bagging_freq": 1}
    one, two = (ranker("lambdarank", seed=seed, **sampled).fit(data) for seed in (1, 2))
    assert not same(one, two, data)
    assert same(one, ranker("lambdarank", seed=1, **sampled).fit(data), data)


def test_a_finished_run_resumes_to_itself_and_can_be_made_longer(data, valid, tmp_path):
    settings = {"checkpoint_every": 4, "checkpoint": tmp_path / "c"}
    done = ranker(rounds=8, **settings).fit(data, valid)
    again = Counting()
    model = ranker(rounds=8, **settings).set_params(objective="xendcg").fit(data, valid, resume=True)
    assert same(model, done, valid)
    longer = ranker(rounds=12, **settings).fit(data, valid, resume=True)
    assert len(longer.history_["loss"]) == 12
    assert same(longer, ranker(rounds=12).fit(data, valid), valid)
    assert not again.rounds


def test_resume_starts_anew_without_a_checkpoint_and_refuses_another_training(data, valid, tmp_path):
    place = {"checkpoint": tmp_path / "c", "checkpoint_every": 3}
    ranker(**place).fit(data, valid, resume=True)
    with refusal(FileExistsError, what="…exists already and is kept", hint="resume …resume=True…"):
        ranker(**place).fit(data, valid)
    with refusal(what="…another training (objective differs)", got="'listnet', and 'xendcg' in…"):
        ranker("listnet", **place).fit(data, valid, resume=True)
    with refusal(what="…another training (parameters: learning_rate differs)", got="0.2, and 0.1…"):
        ranker(learning_rate=0.2, **place).fit(data, valid, resume=True)
    with refusal(what="the checkpoint belongs to another training (parameters: lambda_l2 differs)", got="1, and None…"):
        ranker(lambda_l2=1, **place).fit(data, valid, resume=True)
    with refusal(what="the checkpoint belongs to another training (data: train differs)"):
        ranker(**place).fit(data.with_(labels=data.labels[::-1]), valid, resume=True)
    with refusal(what="the checkpoint belongs to another training (data: valid differs)"):
        ranker(**place).fit(data, resume=True)
    with refusal(what="the checkpoint belongs to another training (data: init_model differs)"):
        ranker(**place).fit(data, valid, resume=True, init_model=ranker(rounds=2).fit(data))
    refuses(lambda: ranker().fit(data, resume=True), what="resume needs a checkpoint")
    model = ranker(rounds=2).fit(data)
    model.save(tmp_path / "model")
    with refusal(what="a finished model is no checkpoint"):
        ranker(checkpoint=tmp_path / "model").fit(data, resume=True)


@pytest.mark.parametrize(
    ("native", "fields"),
    [
        ({"boosting": "dart"}, {"got": "boosting=dart changes earlier trees…", "hint": "train without a checkpoint"}),
        ({"data_sample_strategy": "goss"}, {"got": "GOSS does not sample in its first rounds…"}),
        ({"cegb_tradeoff": 0.5}, {"got": "the cegb_ penalties remember…"}),
    ],
)
def test_modes_that_cannot_be_continued_are_refused_with_a_reason(native, fields, data, tmp_path):
    refuses(lambda: ranker(checkpoint=tmp_path / "c", **native).fit(data), **fields)
    ranker(rounds=2, **native).fit(data)  # and are fine without checkpoints
    assert not (tmp_path / "c").exists()


def test_init_model_is_continued_on_new_data(data, valid, tmp_path):
    first = ranker(rounds=4).fit(data)
    counting = Counting()
    longer = ranker(counting, rounds=5).fit(data, init_model=first)
    assert counting.rounds == [4, 5, 6, 7, 8]
    assert (longer.model_.n_trees, longer.best_round_) == (9, 5)
    assert same(longer, ranker(rounds=9).fit(data), data)
    first.save(tmp_path / "first")
    other = ranker(rounds=5).fit(valid, init_model=tmp_path / "first")
    assert other.model_.n_trees == 9
    assert same(rw.LightGBMRanker.from_description(*_cut(other, 4)), first, data)  # the older trees are untouched
    with refusal(what="init_model must be a trained LightGBMRanker, or its folder", got="int"):
        ranker().fit(data, init_model=3)
    with refusal(what="the model was trained on 12 features", got="5"):
        ranker().fit(data.with_(features=data.features[:, :5], feature_names=None), init_model=first)


def _cut(model, n_trees):
    description, files = model.saved()
    return description | {"trees": n_trees}, files


@pytest.fixture
def interruptible():
    """SIGINT interrupts, also where tests were started with it ignored, as in the background of a shell."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_interrupting_keeps_the_best_model_so_far(data, valid):
    press = Counting(at=6, then=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.warns(RuntimeWarning, match="interrupted after round 6: the best model so far, of [1-6] rounds"):
        model = ranker(press).fit(data, valid)
    assert model.stopped_ == "interrupted"
    assert len(model.history_["loss"]) == len(model.history_["ndcg@10"]) == 6
    assert same(model, ranker(rounds=6).fit(data, valid), valid)


@pytest.mark.usefixtures("interruptible")
def test_interrupting_before_the_first_round_is_an_interruption(data):
    press = Counting(at=0, then=lambda: os.kill(os.getpid(), signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        ranker(press).fit(data)


def test_a_checkpoint_that_cannot_be_written_does_not_end_training(data, tmp_path, monkeypatch):
    def full(handle):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def fill_the_disk():
        monkeypatch.setattr(os, "fsync", full)

    place = tmp_path / "c"
    with pytest.warns(RuntimeWarning, match="the checkpoint of round 6 could not be written.*No space left"):
        model = ranker(Counting(at=5, then=fill_the_disk), rounds=8, checkpoint_every=3, checkpoint=place).fit(data)
    assert same(model, ranker(rounds=8).fit(data), data)
    kept: Any = rw.load(place)
    assert kept.model_.n_trees == 3  # the one before is kept
    with refusal(FileNotFoundError, what="there is no folder …missing to write…"):
        ranker(checkpoint=tmp_path / "missing" / "c").fit(data)


# Callables for lgb.train.


def test_callables_for_a_loop_of_ones_own(data, valid):
    params: dict = {"learning_rate": 0.1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
    params |= {"force_col_wise": True, "metric": "None"}
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, free_raw_data=False)
    held_out = lgb.Dataset(valid.features, valid.labels, group=valid.sizes, reference=own)
    seen: dict = {}
    booster = lgb.train(
        params | {"objective": rw.objectives.lightgbm_objective("xendcg", seed=4, query_ids=data.query_ids)},
        own,
        num_boost_round=12,
        valid_sets=[held_out],
        feval=rw.metrics.lightgbm_metric("ndcg@10"),
        callbacks=[lgb.record_evaluation(seen)],
    )
    model = ranker(seed=4, patience=None).fit(data, valid)
    expected = ranker(seed=4).fit(data)
    assert np.array_equal(booster.predict(data.features), expected.predict(data))
    assert seen["valid_0"]["ndcg@10"] == pytest.approx(model.history_["ndcg@10"])
    first = lgb.train(
        params | {"objective": rw.objectives.lightgbm_objective("xendcg", seed=4)}, own, num_boost_round=5
    )
    rest = rw.objectives.lightgbm_objective("xendcg", seed=4, start_round=5)
    whole = lgb.train(params | {"objective": rest}, own, num_boost_round=7, init_model=first)
    assert np.array_equal(whole.predict(data.features), expected.predict(data))


def test_callables_honour_weights_of_rows_that_agree_within_a_query(data):
    weights = 1.0 + np.arange(data.n_queries) % 3
    rows = np.repeat(weights, data.sizes)
    params: dict = {"learning_rate": 0.1, "num_leaves": 7, "min_data_in_leaf": 5, "num_threads": 1, "verbosity": -1}
    params |= {"force_col_wise": True, "objective": rw.objectives.lightgbm_objective("lambdarank")}
    own = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=rows)
    booster = lgb.train(params, own, num_boost_round=12)
    assert np.array_equal(
        booster.predict(data.features), ranker("lambdarank").fit(data.with_(weights=weights)).predict(data)
    )
    uneven = lgb.Dataset(data.features, data.labels, group=data.sizes, weight=np.arange(1.0, data.n_docs + 1))
    refuses(lambda: lgb.train(params, uneven, num_boost_round=1), what="the weight changes within a query")
    with refusal(what="the data set has no groups"):
        lgb.train(params, lgb.Dataset(data.features, data.labels), num_boost_round=1)


# The progress bar.


def test_the_bar_shows_the_metric_on_the_error_output_only_if_wanted(data, valid, capsys):
    ranker(rounds=3).fit(data, valid)
    assert capsys.readouterr() == ("", "")
    ranker(rounds=3, progress=True).fit(data, valid)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "3/3" in shown.err
    assert "ndcg@10 0." in shown.err
    ProgressBar(Stopping(rounds=3)).report(State())


def test_a_loss_is_shown_only_where_rounds_compare(data, capsys):
    for objective, compares in (("xendcg", True), ("lambdarank", False), ("stochastic(lambdarank)", False)):
        model = ranker(objective, rounds=3, progress=True).fit(data)
        assert model.loss_compares is compares, objective
        assert ("loss " in capsys.readouterr().err) is compares, objective
    assert "loss" not in ranker("native:lambdarank", rounds=3).fit(data).history_


def test_clicks_are_debiased_by_propensities():
    data = rw.synthetic(n_queries=60, n_features=10, seed=4)
    clicks = rw.clicks.simulate_clicks(data, model="position", impressions=3, seed=1)
    settings: Any = {"rounds": 3, "threads": 1, "leaves": 5}
    plain, fair = (rw.LightGBMRanker("softmax_ce", debias=d, **settings).fit(clicks) for d in (False, True))
    assert not np.array_equal(plain.predict(data), fair.predict(data))
    # The same as labels that carry the weight, which is what softmax_ce makes of it.
    weighted = clicks.with_(labels=clicks.labels / np.asarray(clicks.propensities))
    by_hand = rw.LightGBMRanker("softmax_ce", **settings).fit(weighted)
    np.testing.assert_array_equal(fair.predict(data), by_hand.predict(data))
    with refusal(what="debias needs propensities…", got="data without propensities"):
        rw.LightGBMRanker("softmax_ce", debias=True).fit(data)
    refuses(lambda: rw.LightGBMRanker("listnet", debias=True).fit(clicks), what="listnet takes no document_weights")


def test_a_watch_sees_every_round_and_may_end_training(data, valid):
    seen = []

    def watch(round: int, history: dict[str, list[float]]) -> None:
        seen.append((round, len(history["ndcg@10"])))
        if round == 3:
            raise TimeoutError("enough")

    with pytest.raises(TimeoutError, match="enough"):
        ranker().fit(data, valid, callback=watch)
    assert seen == [(1, 1), (2, 2), (3, 3)]
