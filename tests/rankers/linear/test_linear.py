"""Linear rankers: their optimum beside SciPy's and scikit-learn's, penalties, signs, transforms and SHAP values."""

import itertools
import math
import warnings
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.sparse import csr_array
from sklearn.linear_model import LogisticRegression

import rankwise as rw
from rankwise.data.splits import fold_of_query
from rankwise.models import storage
from rankwise.models.linear import LinearModel, LinearTransform
from rankwise.rankers.linear.learner import L2
from rankwise.rankers.training.run import InterruptedWarning
from rankwise.rankers.training.stopping import NothingLearnedError
from tests.refusals import refusal


def linear(objective: Any = "softmax_ce", **settings: Any) -> rw.LinearRanker:
    return rw.LinearRanker(objective, **{"threads": 1, **settings})


def holes(data: rw.RankingDataset) -> rw.RankingDataset:
    """The data with missing values, a constant column and one that is missing everywhere."""
    features = np.where(data.features > 1.5, np.nan, data.features)
    features[:, 3], features[:, 4] = 5.0, np.nan
    return data.with_(features=features)


def penalised(text: str, data: rw.RankingDataset, rows: np.ndarray, l2: float):
    """The function that is minimised, from an objective alone."""
    objective, stream = rw.objective(text), data.stream(0)
    shares = np.full(data.n_queries, 1.0 / data.n_queries)

    def function(weights):
        out = objective(rows @ weights, data.labels, data.offsets, stream)
        gradient = rows.T @ (out.gradient * np.repeat(shares, data.sizes))
        return shares @ out.value + 0.5 * l2 * weights @ weights, gradient + l2 * weights

    return function


# The optimum.


@pytest.mark.parametrize("text", ["softmax_ce", "listnet", "ranknet", "xendcg", "stochastic(softmax_ce, samples=2)"])
def test_convex_losses_are_at_the_least_value_that_scipy_finds(text, data):
    model = linear(text, transform="standard", l2=0.01).fit(data).model_
    rows = (data.features.astype(float) - model.transform.center) / model.transform.scale
    function = penalised(text, data, rows.astype(np.float32).astype(float), 0.01)
    options: Any = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 5000, "maxcor": 30}
    theirs = minimize(function, np.zeros(rows.shape[1]), jac=True, method="L-BFGS-B", options=options)
    ours, slope = function(np.asarray(model.weights))
    assert ours == pytest.approx(theirs.fun, rel=1e-8)
    assert np.abs(slope).max() < 1e-5  # rows here are rounded otherwise
    np.testing.assert_allclose(model.weights, theirs.x, atol=1e-5)


def test_saturated_pairs_of_a_raw_feature_with_a_tail_do_not_end_the_search_early():
    data = rw.synthetic(n_queries=150, n_docs=20, n_features=8, seed=5)
    features = data.features.astype(float)
    features[:, 3], features[::7, 1], features[::5, 2] = 7.0, 0.0, 0.0
    features[:, 5] = np.exp(3.0 * features[:, 5])
    data = data.with_(features=features, labels=(data.labels > 1).astype(float))
    for text in (
        "ranknet",
        "pairwise",
    ):  # one loss by two names, and the curvature where it starts is not that of its end
        model = linear(text, transform=None, l2=1e-4).fit(data).model_
        rows = (data.features / model.transform.scale).astype(np.float32).astype(float)
        function = penalised("ranknet", data, rows, 1e-4)
        options: Any = {"gtol": 1e-10, "ftol": 1e-16, "maxiter": 5000, "maxcor": 30}
        theirs = minimize(function, np.asarray(model.weights), jac=True, method="L-BFGS-B", options=options)
        assert function(np.asarray(model.weights))[0] == pytest.approx(theirs.fun, rel=1e-8)


def test_pointwise_it_is_logistic_regression(data):
    data = data.with_(labels=(data.labels > 1).astype(float))
    model = linear("calibrated(alpha=0)", transform="standard", l2=0.05).fit(data).model_
    rows = (data.features.astype(float) - model.transform.center) / model.transform.scale
    # The loss of a query is the sum over documents, and theirs is C times the sum over all.
    peer = LogisticRegression(C=1.0 / (0.05 * data.n_queries), tol=1e-10, max_iter=1000).fit(rows, data.labels)
    np.testing.assert_allclose(model.weights, peer.coef_[0], atol=1e-4)
    assert model.intercept == pytest.approx(peer.intercept_[0], abs=1e-4)


def test_at_the_optimum_of_l1_slopes_are_the_penalty_or_within_it(data):
    l1 = 0.03
    model = linear(transform="standard", l1=l1).fit(data).model_
    rows = (data.features.astype(float) - model.transform.center) / model.transform.scale
    _, slope = penalised("softmax_ce", data, rows, 0.0)(np.asarray(model.weights))
    nothing = model.weights == 0
    assert 0 < nothing.sum() < 12
    np.testing.assert_allclose(slope[~nothing], -l1 * np.sign(model.weights[~nothing]), atol=1e-4)
    assert (np.abs(slope[nothing]) <= l1 + 1e-4).all()
    assert model.penalty == (l1, 0.0)


def test_signs_hold_and_what_is_free_is_at_its_optimum(data):
    free = linear(transform="standard", l2=0.01).fit(data).model_
    down, up = int(np.argmax(free.weights)), int(np.argmin(free.weights))
    signs = {data.feature_names[down]: -1, data.feature_names[up]: 1}
    model = linear(transform="standard", l2=0.01, monotone_constraints=signs).fit(data).model_
    assert free.weights[down] > 0.05
    assert free.weights[up] < -0.05
    assert model.weights[down] == model.weights[up] == 0.0
    rows = (data.features.astype(float) - model.transform.center) / model.transform.scale
    _, slope = penalised("softmax_ce", data, rows, 0.01)(np.asarray(model.weights))
    assert slope[down] < 0 < slope[up]  # the loss would fall beyond the bound
    assert np.abs(np.delete(slope, [down, up])).max() < 1e-4
    positive = linear(nonnegative=True, l2=0.01).fit(data).model_
    assert (positive.weights >= 0).all()
    assert np.count_nonzero(positive.weights) > 3


def test_lambdarank_ranks_as_well_as_a_convex_loss(data, valid):
    scores = [linear(text, l2=0.1).fit(data).score(valid) for text in ("lambdarank", "softmax_ce")]
    assert scores[0] > scores[1] - 0.02


# The strength of the penalty.


def test_validation_data_choose_a_strength_and_folds_choose_one_without(data, valid):
    model = linear().fit(data, valid)
    column = model.history_["ndcg@10"]
    assert len(column) == len(L2)
    assert model.best_round_ == np.argmax(column) + 1
    assert model.model_.penalty == (0.0, L2[model.best_round_ - 1])
    assert model.score(valid) == max(column)
    alone = linear().fit(data)
    assert alone.stopped_ == "converged"
    assert alone.model_.penalty[1] in L2
    given = linear(l2=alone.model_.penalty[1]).fit(data)
    np.testing.assert_allclose(given.predict(valid), alone.predict(valid), atol=1e-6)


def test_the_strength_that_folds_choose_is_the_one_with_the_least_loss_on_them(data):
    model = linear(transform="standard").fit(data).model_
    rows = model.transform.rows(data.features)
    fold = fold_of_query(data, 5)
    losses = dict.fromkeys(L2, 0.0)
    for number, l2 in itertools.product(range(5), L2):
        seen, held = data.take(fold != number), data.take(fold == number)
        parts = [rows[np.repeat(fold == number, data.sizes) == one].astype(float) for one in (False, True)]
        options: Any = {"gtol": 1e-8, "ftol": 1e-14, "maxiter": 2000}
        at = minimize(
            penalised("softmax_ce", seen, parts[0], l2), np.zeros(12), jac=True, method="L-BFGS-B", options=options
        )
        losses[l2] += rw.objective("softmax_ce")(parts[1] @ at.x, held.labels, held.offsets).value.sum()
    assert model.penalty == (0.0, min(losses, key=losses.__getitem__))
    assert len({round(loss, 3) for loss in losses.values()}) > 5


def test_a_bag_chooses_one_strength_for_all_members(data, valid):
    bag = rw.bagged(linear(), folds=3).fit(data)
    assert len({member.model_.penalty for member in bag.members_}) == 1
    assert bag.needs_lists
    scores = np.mean([member.predict(valid) for member in bag.members_], axis=0)
    np.testing.assert_allclose(bag.predict(valid), scores)


# Transforms.


@pytest.mark.parametrize("kind", ["quantile+query", "quantile", "standard"])
def test_transforms_are_those_of_nets(kind, data):
    torch = pytest.importorskip("torch")
    from rankwise.wings.nets.transforms import Transform

    data = holes(data)
    transform, varied = LinearTransform.fit(kind, data.features)
    theirs = Transform(12, kind.replace("standard", "standardize"))
    assert theirs.fit(data.features)
    assert varied
    expected = theirs(torch.tensor(data.features), torch.from_numpy(np.array(data.offsets))).numpy()
    np.testing.assert_allclose(transform.all(data.features, data.offsets), expected, atol=1e-5)


def test_without_a_transform_a_missing_value_is_zero_and_scales_change_nothing(data):
    model = linear(transform=None, l2=0.1).fit(data)
    wide = data.with_(features=data.features * np.float32(1024.0))
    np.testing.assert_allclose(linear(transform=None, l2=0.1).fit(wide).predict(wide), model.predict(data), atol=1e-5)
    row = np.full((1, 12), np.nan)
    assert model.predict(row) == model.predict(np.zeros((1, 12))) == 0.0


@pytest.mark.parametrize("kind", ["quantile+query", "standard", None])
def test_sparse_features_are_the_same(kind, data, valid):
    sparse = data.with_(features=np.where(np.abs(data.features) < 0.5, 0.0, data.features))
    model = linear(transform=kind, l2=0.1).fit(sparse)
    compressed = [part.with_(features=csr_array(part.features)) for part in (sparse, valid)]
    again = linear(transform=kind, l2=0.1).fit(compressed[0])
    assert np.array_equal(again.predict(compressed[1]), model.predict(valid))


def test_columns_without_news_have_no_weight(data):
    model = linear(l2=0.01).fit(holes(data)).model_
    weights = model.weights.reshape(2, 12)
    assert not weights[:, 3:5].any()
    assert np.count_nonzero(weights[0]) > 6


@pytest.mark.parametrize("kind", ["standard", None])
def test_what_all_documents_have_in_common_gets_no_weight_by_rounding(kind, data):
    features = np.column_stack([data.features[:, :8], np.full(data.n_docs, 0.1), data.features[:, 8]])
    assert (np.ptp(features[: data.sizes[0], 8:], axis=0) == 0).all()  # the last is a feature of the query
    model = linear(transform=kind, l2=0.0).fit(data.with_(features=features, feature_names=None)).model_
    assert not model.weights[8:].any()
    assert model.weights[:8].all()


# What it gives.


def test_contributions_are_shapley_values_by_enumeration(data):
    data = holes(data).with_(features=holes(data).features[:, 2:6], feature_names=None)
    model = linear(transform="quantile", l2=0.01).fit(data)
    rows = model.model_.transform.rows(data.features).astype(float)
    mean, row, weights = rows.mean(axis=0), rows[17], np.asarray(model.model_.weights)

    def value(known: tuple[int, ...]) -> float:  # of the mean over all documents, with the known features of this one
        return float(np.where(np.isin(range(4), known), row, mean) @ weights)

    others = [[j for j in range(4) if j != i] for i in range(4)]
    expected = [
        sum(
            math.factorial(len(some)) * math.factorial(3 - len(some)) / 24 * (value((*some, i)) - value(some))
            for size in range(4)
            for some in itertools.combinations(others[i], size)
        )
        for i in range(4)
    ]
    found = model.contributions(data)
    np.testing.assert_allclose(found.parts[17, :4], expected, atol=1e-9)
    np.testing.assert_allclose(found.parts.sum(axis=1), model.predict(data), atol=1e-9)
    assert not found.left.any()


def test_values_within_the_query_count_for_their_feature(data, valid):
    model = linear(l2=0.01).fit(data)
    found = model.contributions(valid)
    assert found.parts.shape == (valid.n_docs, 13)
    np.testing.assert_allclose(found.parts.sum(axis=1), model.predict(valid), atol=1e-9)
    assert np.ptp(found.parts[:, -1]) == 0.0
    twice = model.explain(rw.concatenate([valid, valid.with_(query_ids=valid.query_ids + 1000)]))
    np.testing.assert_array_equal(twice, np.vstack([found.parts] * 2))


def test_the_scorer_of_a_query_is_predict_bit_for_bit(data, valid, tmp_path):
    model = linear().fit(data)
    scorer = rw.load(model.save(tmp_path / "model")).scorer()
    queries = [valid.features[a:b] for a, b in itertools.pairwise(valid.offsets)]
    assert np.array_equal(np.concatenate([scorer(one) for one in queries]), model.predict(valid))
    assert np.array_equal(scorer(valid), model.predict(valid))
    with refusal(what="a LinearRanker looks at whole lists, and must know which documents belong together"):
        model.predict(valid.features)


def test_threads_change_nothing(data, valid):
    many = rw.concatenate([data.with_(query_ids=data.query_ids + 100 * number) for number in range(12)])
    one, two = (linear(threads=count).fit(many) for count in (1, 2))
    assert np.array_equal(one.model_.weights, two.model_.weights)


def test_weights_are_written_beside_intervals_that_hold(valid):
    kind = {"transform": "standard", "l2": 0.05}
    samples = [rw.synthetic(n_queries=80, n_features=4, n_docs=15, seed=seed, noise=1.0) for seed in range(24)]
    fitted = [linear(**kind).fit(data) for data in samples]
    spread = np.std([ranker.model_.weights for ranker in fitted], axis=0, ddof=1)
    found = fitted[0].weights(samples[0], samples=100)
    assert np.median((found.high - found.low)[0] / (3.92 * spread)) == pytest.approx(1.0, abs=0.5)
    assert (found.low < found.values).all()
    assert (found.values < found.high).all()
    assert found.to_frame().columns == ["feature", "within_query", "weight", "low", "high"]
    largest = int(np.argmax(np.abs(fitted[0].model_.weights)))
    assert found.table().rows[0][0] == samples[0].feature_names[largest]  # type: ignore[index]
    again = fitted[0].weights(samples[0], samples=100)
    assert np.array_equal(found.low, again.low)
    plain = fitted[0].weights()
    assert plain.table().header == ("feature", "weight")
    figure = found.plot()
    assert [text.get_text() for text in figure.axes[0].get_yticklabels()][-1] == samples[0].feature_names[largest]  # type: ignore[index]


def test_rounding_says_what_it_loses(data, valid):
    model = linear().fit(data)
    plain, loss, (low, high) = model.round(1, valid)
    assert all(float(f"{weight:.1g}") == weight for weight in plain.model_.weights)
    assert loss == pytest.approx(model.score(valid) - plain.score(valid))
    assert low <= loss <= high
    assert loss != 0.0
    assert model.round(17, valid).loss == 0.0
    with refusal(what="digits must be a whole number of at least 1"):
        model.round(0, valid)


# Edges.


def test_one_query_is_enough(data):
    one = data.take([0])
    assert linear().fit(one).score(one) > rw.evaluate(np.zeros(one.n_docs), one).mean["ndcg@10"]


def test_labels_told_apart_are_finite_with_a_ridge_and_said_without(data):
    clear = data.with_(features=np.column_stack([data.labels, data.features[:, 0]]), feature_names=None)
    assert np.abs(linear("ranknet", l2=0.01).fit(clear).model_.weights).max() < 50
    with pytest.warns(UserWarning, match=r"without a penalty these weights have no end.*set l2=0\.03"):
        model = linear("ranknet", l2=0.0, transform="standard").fit(clear)
    assert np.isfinite(model.model_.weights).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linear("ranknet", l2=0.0, transform="standard").fit(data)


def test_ctrl_c_keeps_the_best_strength_so_far(data, valid):
    def stop(done: int, _: object) -> None:
        if done == 3:
            raise KeyboardInterrupt

    model = linear()
    with pytest.warns(InterruptedWarning, match="interrupted after strength 3"):
        model.fit(data, valid, callback=stop)
    assert model.stopped_ == "interrupted"
    assert model.score(valid) == max(model.history_["ndcg@10"])


@pytest.mark.parametrize("penalty", ["l2", "l1"])
def test_a_path_resumes(penalty, data, valid, tmp_path):
    def cut(done: int, _: object) -> None:
        if done == 4:
            raise RuntimeError

    whole = linear(penalty=penalty, checkpoint=tmp_path / "whole").fit(data, valid)
    with pytest.raises(RuntimeError):
        linear(penalty=penalty, checkpoint=tmp_path / "cut").fit(data, valid, callback=cut)
    assert rw.load(tmp_path / "cut").score(valid) == max(whole.history_["ndcg@10"][:4])
    seen: list[int] = []
    resumed = linear(penalty=penalty, checkpoint=tmp_path / "cut")
    resumed.fit(data, valid, resume=True, callback=lambda at, _: seen.append(at))
    assert seen == [5, 6, 7, 8, 9]
    assert resumed.history_ == whole.history_
    assert np.array_equal(resumed.predict(valid), whole.predict(valid))


def test_scores_to_start_from_are_added_to(data, valid):
    start = data.features[:, 0].astype(float)
    model = linear(l2=0.01, transform="standard").fit(data.with_(init_scores=start))
    plain = linear(l2=0.01, transform="standard").fit(data)
    assert model.model_.weights[0] < plain.model_.weights[0] - 0.3  # the rest of them is given
    shown = valid.with_(init_scores=np.ones(valid.n_docs))
    assert np.array_equal(model.predict(shown), model.model_.scores(valid.features) + 1.0)


def test_what_cannot_be_learned_is_refused(data):
    with refusal(NothingLearnedError, got="no query with documents of different labels"):
        linear().fit(data.with_(labels=np.ones(data.n_docs)))
    with refusal(NothingLearnedError, got="features that are the same for every document"):
        linear().fit(data.with_(features=np.ones((data.n_docs, 12))))
    with refusal(what="LinearRanker takes numbers, and no categories", got="1 categorical columns, the first number 2"):
        linear().fit(data.with_(features=np.abs(np.round(data.features)), categorical=[2]))
    with refusal(what="a linear model needs features that are finite, or NaN where they are missing", got="inf"):
        linear().fit(data.with_(features=np.where(data.features > 1, np.inf, data.features)))
    with refusal(what="a LinearRanker is trained from nothing", got="init_model"):
        linear().fit(data, init_model=linear(l2=1.0).fit(data))
    with refusal(what="l2 must be a number in [0, inf)", got="-1.0"):
        linear(l2=-1.0).fit(data)
    with refusal(what="unknown transform", got="'log'"):
        linear(transform="log").fit(data)


def test_a_forged_file_is_refused(data):
    model = linear(transform="quantile", l2=0.1).fit(data).model_
    arrays = storage.arrays(model.files()["linear.npz"])
    for name, value, got in (
        ("weights", arrays["weights"][:3], "no weights of the shape (12,)"),
        ("scale", 0.0 * arrays["scale"], "scales that are not positive, or knots that are not in order"),
        ("knots", arrays["knots"][:, ::-1], "scales that are not positive, or knots that are not in order"),
        ("fill", arrays["fill"] * np.nan, "fill that are not finite"),
    ):
        forged = {"linear.npz": storage.npz(arrays | {name: value})}
        with refusal(what="the model file is damaged or forged", got=got):
            LinearModel.from_files(model.description(), forged, model.schema)


def test_expressions_say_it(data, valid):
    ranker: Any = rw.ranker("linear(softmax_ce, l2=0.03, transform=standard)")
    assert repr(ranker) == "linear(softmax_ce, transform=standard, l2=0.03)"
    assert rw.ranker("linear(xendcg, transform=none)").transform is None
    assert repr(rw.ranker("bagged(linear, folds=3)")) == "bagged(linear(softmax_ce), folds=3)"
    blend = rw.blended([ranker, rw.LightGBMRanker(rounds=3, threads=1)], folds=2).fit(data)
    assert np.isfinite(blend.predict(valid)).all()
    calibrated = rw.calibrate(linear(l2=0.1).fit(data), valid, "platt")
    assert ((calibrated.predict(valid) > 0) & (calibrated.predict(valid) < 1)).all()
