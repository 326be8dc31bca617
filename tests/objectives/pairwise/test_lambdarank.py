import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rankwise as rw
from rankwise.metrics.gains import discounts
from rankwise.objectives.pairwise.objectives import LambdaRank, Pairwise
from tests.objectives.pairwise.pairs_by_hand import frozen
from tests.refusals import refusal, refuses

VARIANTS = [
    LambdaRank(norm=norm, truncation=truncation, metric=metric, weights=weights, sigma=sigma)
    for norm in (True, False)
    for truncation, sigma in ((30, 1.0), (3, 0.7), (None, 2.0))
    for metric, weights in (
        ("ndcg", "lambda"),
        ("map", "lambda"),
        ("mrr", "lambda"),
        ("ndcg", "ndcg2"),
        ("ndcg", "ndcg2++"),
    )
]


def random_lists(seed=0, sizes=(1, 2, 3, 9, 17, 40), quantised=False):
    rng = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    scores = rng.normal(size=offsets[-1])
    labels = rng.choice(5, offsets[-1], p=[0.5, 0.2, 0.15, 0.1, 0.05])
    return (scores.round(1) if quantised else scores), labels, offsets


def test_two_documents_by_pencil():
    # Wrong order, gap 1: Δ = (3 − 0)(1 − 1/log2 3)/3; p = 1/(1 + e^−1) is the chance of the wrong order.
    delta, p = 1 - 1 / np.log2(3), 1 / (1 + np.exp(-1))
    d = LambdaRank(norm=False)([1.0, 0.0], [0, 2], [0, 2])
    np.testing.assert_allclose(d.value, [delta * np.log1p(np.exp(1))], rtol=1e-14)
    np.testing.assert_allclose(d.gradient, [delta * p, -delta * p], rtol=1e-14)
    np.testing.assert_allclose(d.hessian, [delta * p * (1 - p)] * 2, rtol=1e-14)
    assert d.numerator is d.gradient
    # With norm: Δ/1.01, and both ends' pulls S = 2Δp/1.01 give the factor log2(1 + S)/S.
    pull = 2 * delta * p / 1.01
    d = LambdaRank()([1.0, 0.0], [0, 2], [0, 2])
    np.testing.assert_allclose(d.gradient[0], np.log2(1 + pull) / 2, rtol=1e-14)
    np.testing.assert_allclose(d.value, delta * np.log1p(np.exp(1)) / 1.01 * np.log2(1 + pull) / pull, rtol=1e-14)


@pytest.mark.parametrize("objective", VARIANTS, ids=repr)
def test_values_and_derivatives_are_those_of_the_loss_with_frozen_weights(objective):
    scores, labels, offsets = random_lists(quantised=True)
    weights = np.random.default_rng(1).uniform(0.5, 3.0, scores.size)
    for documents in ({}, {"document_weights": weights}):
        d = objective(scores, labels, offsets, **documents)
        loss = frozen(objective, scores, labels, offsets, **documents)
        np.testing.assert_allclose(d.value, loss(scores), rtol=1e-12, atol=1e-15)
        step = 1e-3
        gradient, hessian = np.empty(scores.size), np.empty(scores.size)
        for i in range(scores.size):
            moved = [scores + k * step * (np.arange(scores.size) == i) for k in (-2, -1, 0, 1, 2)]
            a, b, c, e, f = (loss(m).sum() for m in moved)
            gradient[i] = (a - 8 * b + 8 * e - f) / (12 * step)
            hessian[i] = (-a + 16 * b - 30 * c + 16 * e - f) / (12 * step**2)
        np.testing.assert_allclose(d.gradient, gradient, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(d.hessian, hessian, rtol=1e-5, atol=1e-7)
    assert objective.exact_hessian is not objective.norm


@pytest.mark.parametrize("name", ["ndcg", "map", "mrr"])
def test_the_weight_of_a_pair_is_the_change_of_the_metric_by_the_swap(name):
    metric = rw.metric({"ndcg": "ndcg", "map": "ap", "mrr": "rr"}[name])
    rng = np.random.default_rng(3)
    for _ in range(20):
        labels = rng.integers(0, 3, 7)
        if labels.max() == labels.min() or (name != "ndcg" and (labels.min() > 0 or labels.max() == 0)):
            continue
        scores = -np.arange(7.0)
        before = metric(scores, labels, [0, 7])[0]
        expected = 0.0
        for i, j in itertools.combinations(range(7), 2):
            if (labels[i] == labels[j]) if name == "ndcg" else (labels[i] > 0) == (labels[j] > 0):
                continue
            swapped = scores.copy()
            swapped[[i, j]] = scores[[j, i]]
            margin = (j - i) * (1 if labels[i] > labels[j] else -1)
            expected += abs(metric(swapped, labels, [0, 7])[0] - before) * np.log1p(np.exp(-margin))
        d = LambdaRank(metric=name, norm=False)(scores, labels, [0, 7])
        np.testing.assert_allclose(d.value, [expected], rtol=1e-12)


def test_lambdaloss_weights_by_pencil():
    # Documents at ranks 1, 2, 3 with gains 0, 1, 0: two pairs, each one rank apart, so D_1 − D_2 = 1 − 1/log2 3.
    drop, second = 1 - 1 / np.log2(3), 1 / np.log2(3)
    scores, labels = [0.0, 0.0, 0.0], [0, 1, 0]
    value = LambdaRank(norm=False, weights="ndcg2")(scores, labels, [0, 3]).value
    np.testing.assert_allclose(value, [2 * drop * np.log(2)], rtol=1e-14)
    value = LambdaRank(norm=False, weights="ndcg2++")(scores, labels, [0, 3]).value
    np.testing.assert_allclose(value, [(1 - second + second - 0.5 + 20 * drop) * np.log(2)], rtol=1e-14)


def test_the_weight_of_the_better_document_multiplies_its_pairs():
    scores, labels = [0.3, -0.2, 0.1], [0, 1, 0]
    plain = LambdaRank(norm=False)(scores, labels, [0, 3])
    twice = LambdaRank(norm=False)(scores, labels, [0, 3], document_weights=[5.0, 2.0, 7.0])
    for a, b in zip(plain, twice, strict=True):
        np.testing.assert_allclose(b, 2 * a, rtol=1e-14)


def lightgbm_derivatives(documents, scores, labels, offsets, **parameters):
    """LightGBM's own gradient and Hessian of some documents, with those of the last two added.

    A tree of two leaves splits one document off the others, whose leaf then says −G/(H + λ); two λ tell G and H apart.
    Such a split always gains something because the gradients of all documents add up to zero. The last two documents,
    a query of their own, go along as ballast: LightGBM guesses a leaf's size from its Hessian and refuses light ones.
    """
    import lightgbm as lgb

    n = scores.size
    settings = {
        "objective": "lambdarank",
        "num_leaves": 2,
        "min_data_in_bin": 1,
        "min_data_in_leaf": 1,
        "min_sum_hessian_in_leaf": 0.0,
        "learning_rate": 1.0,
        "feature_pre_filter": False,
        "verbose": -1,
        "num_threads": 1,
        **parameters,
    }
    sums = []
    for i in documents:
        apart = np.isin(np.arange(n), (i, n - 2, n - 1)).astype(float)[:, None]
        data = lgb.Dataset(
            apart, labels, group=np.diff(offsets), init_score=scores, params=settings, free_raw_data=False
        )
        one, two = (lgb.train({**settings, "lambda_l2": x}, data, 1).get_leaf_output(0, 1) for x in (0.01, 0.1))
        hessian = (0.1 * two - 0.01 * one) / (one - two)
        sums.append((-one * (hessian + 0.01), hessian))
    return np.array(sums).T


@pytest.mark.parametrize("norm", [True, False])
@pytest.mark.parametrize("truncation", [30, 4])
def test_lightgbm_computes_the_same(norm, truncation):
    scores, labels, offsets = random_lists(seed=5, sizes=(36, 14, 6, 2))
    scores[36:50] = scores[36:50].round()  # ties
    scores[50:] = 0.0
    labels[50:] = 2, 0, 1, 0, 3, 0, 0, 4
    ours = LambdaRank(norm=norm, truncation=truncation)(scores, labels, offsets)
    np.testing.assert_allclose(ours.gradient[-2:].sum(), 0.0, atol=1e-15)
    documents = np.flatnonzero(np.abs(ours.gradient[:-2]) > 1e-3)[::3]
    assert documents.size > 10
    parameters = {"lambdarank_norm": norm, "lambdarank_truncation_level": truncation}
    gradient, hessian = lightgbm_derivatives(documents, scores, labels, offsets, **parameters)
    np.testing.assert_allclose(ours.gradient[documents], gradient, atol=1e-5, rtol=1e-4)
    np.testing.assert_allclose(ours.hessian[documents] + ours.hessian[-2:].sum(), hessian, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("objective", VARIANTS, ids=repr)
@pytest.mark.parametrize("spread", [300.0, 4000.0])
def test_far_scores_in_any_order(objective, spread):
    labels = np.tile([0, 1, 2, 0, 3], 8)
    rng = np.random.default_rng(0)
    for scores in (np.argsort(np.argsort(labels)), -np.argsort(np.argsort(labels)), rng.permutation(40)):
        at = (scores - scores.mean()) * spread / 20
        d = objective(at, labels, [0, 40])
        assert all(np.isfinite(part).all() for part in d)
        assert (d.hessian >= 0).all()
        np.testing.assert_allclose(d.value, frozen(objective, at, labels, [0, 40])(at), rtol=1e-11, atol=1e-200)
        np.testing.assert_allclose(d.gradient.sum(), 0.0, atol=1e-11)


def test_narrow_and_wide_lists_give_the_same_numbers():
    # One far document switches to ratios taken pair by pair; the others must not notice, but for their ranks.
    scores, labels, _ = random_lists(seed=2, sizes=(30,))
    near = LambdaRank(norm=False, truncation=None)(np.append(scores, -500.0), np.append(labels, 0), [0, 31])
    far = LambdaRank(norm=False, truncation=None)(np.append(scores, -5000.0), np.append(labels, 0), [0, 31])
    np.testing.assert_allclose(near.gradient, far.gradient, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(near.hessian, far.hessian, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("metric", ["ndcg", "map", "mrr"])
def test_lists_without_information_give_zeros(metric):
    scores, labels, offsets = [1.0, 2.0, 0.0, 1.0, 3.0, 3.0], [4, 0, 0, 2, 2, 2], [0, 1, 3, 6]
    d = LambdaRank(metric=metric)(scores, labels, offsets)
    assert all((part == 0).all() for part in d)


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_properties(data):
    n = data.draw(st.integers(2, 12))
    scores = np.array(data.draw(st.lists(st.integers(-20, 20), min_size=n, max_size=n))) / 4
    labels = np.array(data.draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    sigma = data.draw(st.sampled_from([0.5, 1.0, 3.0]))
    objective = LambdaRank(
        sigma=sigma, norm=data.draw(st.booleans()), truncation=data.draw(st.sampled_from([None, 2, 30]))
    )
    d = objective(scores, labels, [0, n])
    shifted = objective(scores + 8.0, labels, [0, n])
    np.testing.assert_array_equal(d.gradient, shifted.gradient)
    assert abs(d.gradient.sum()) < 1e-12
    if not objective.norm:
        assert np.abs(d.gradient).sum() <= sigma * n**2
        assert (d.hessian <= sigma**2 * n / 4).all()


def dense(objective, scores, labels, document_weights):
    """One list by NumPy, all pairs at once: value, gradient and Hessian without norm."""
    pairs = objective if isinstance(objective, Pairwise) else objective.pairs()
    rank = np.argsort(np.argsort(-scores, kind="stable"), kind="stable")
    discount = discounts(scores.size + 1)
    better = labels[:, None] > labels[None, :]
    reach = scores.size if pairs.truncation is None else pairs.truncation
    counted = better & (np.minimum(rank[:, None], rank[None, :]) < reach)
    if pairs.weight == "none":
        weight = counted.astype(np.float64)
    else:
        gain = (2.0**labels - 1.0) / (np.sort(2.0**labels - 1.0)[::-1][:reach] @ discount[: min(reach, scores.size)])
        share, distance_share = {"ndcg": (1.0, 0.0), "ndcg2++": (1.0, 10.0)}[pairs.weight]
        apart = np.abs(rank[:, None] - rank[None, :])
        drop = np.where(apart > 0, discount[apart - 1] - discount[apart], 0.0)
        swap = np.abs(discount[rank][:, None] - discount[rank][None, :])
        weight = counted * (gain[:, None] - gain[None, :]) * (share * swap + distance_share * drop)
    weight *= document_weights[:, None]
    margin = pairs.sigma * (scores[:, None] - scores[None, :])
    wrong = 1.0 / (1.0 + np.exp(margin))
    pull, bend = weight * wrong, weight * wrong * (1.0 - wrong)
    gradient = pairs.sigma * (pull.sum(0) - pull.sum(1))
    return (weight * np.logaddexp(0.0, -margin)).sum(), gradient, pairs.sigma**2 * (bend.sum(0) + bend.sum(1))


@pytest.mark.parametrize(
    "text",
    [
        "lambdarank(norm=False)",
        "lambdarank(norm=False, truncation=None, sigma=2.0)",
        "lambdarank(norm=False, truncation=600)",
        "lambdarank(norm=False, weights='ndcg2++')",
        "pairwise(truncation=40)",
        "ranknet",
    ],
)
def test_lists_of_lengths_around_those_that_kernels_work_in(text):
    objective = rw.objective(text)
    sizes = (1, 2, 7, 8, 9, 15, 16, 17, 503, 504, 505, 511, 512, 513, 1030)
    scores, labels, offsets = random_lists(seed=9, sizes=sizes)
    weights = np.random.default_rng(10).uniform(0.5, 3.0, scores.size)
    columns = [{}] if text == "ranknet" else [{}, {"document_weights": weights}]
    for documents in columns:
        actual = objective(scores, labels, offsets, **documents)
        for q, (start, stop) in enumerate(itertools.pairwise(offsets.tolist())):
            if np.ptp(labels[start:stop]) == 0:
                continue
            document_weights = weights[start:stop] if documents else np.ones(stop - start)
            value, gradient, hessian = dense(
                objective, scores[start:stop], labels[start:stop].astype(float), document_weights
            )
            np.testing.assert_allclose(actual.value[q], value, rtol=1e-12)
            np.testing.assert_allclose(
                actual.gradient[start:stop], gradient, rtol=1e-10, atol=1e-12 * abs(gradient).max()
            )
            np.testing.assert_allclose(actual.hessian[start:stop], hessian, rtol=1e-10, atol=1e-12 * hessian.max())


def test_gain_tables_and_relevance():
    scores, labels, offsets = random_lists(seed=7)
    by_table = LambdaRank(gain=(0, 1, 3, 7, 15))(scores, labels, offsets)
    np.testing.assert_allclose(by_table.gradient, LambdaRank()(scores, labels, offsets).gradient, rtol=1e-14)
    graded = LambdaRank(metric="map", relevant=2)(scores, labels, offsets)
    binary = LambdaRank(metric="map")(scores, labels >= 2, offsets)
    np.testing.assert_array_equal(graded.gradient, binary.gradient)


def test_five_thousand_documents_and_more_without_truncation():
    scores, labels, offsets = random_lists(seed=8, sizes=(5000,))
    d = LambdaRank(truncation=None)(scores, labels, offsets)
    assert np.isfinite(d.value).all()
    np.testing.assert_allclose(d.gradient.sum(), 0.0, atol=1e-9)
    many = random_lists(seed=8, sizes=(100_000,))
    assert np.isfinite(LambdaRank()(*many).gradient).all()


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"sigma": 0}, {"what": "sigma must be a number in (0, inf)", "got": "0"}),
        ({"truncation": 0}, {"what": "truncation must be a whole number of at least 1", "got": "0"}),
        (
            {"metric": "ncdg"},
            {"what": "unknown metric to weigh pairs by", "got": "'ncdg'", "hint": "did you mean 'ndcg'"},
        ),
        ({"weights": "ndcg3"}, {"what": "unknown weights", "got": "'ndcg3'", "hint": "did you mean 'ndcg2'"}),
        (
            {"weights": "ndcg2", "metric": "map"},
            {"what": "the weights ndcg2 are made for NDCG", "got": "metric=map", "hint": "write…"},
        ),
        ({"relevant": 0}, {"what": "relevant must be a number in (0, inf)", "got": "0"}),
        ({"norm": "no"}, {"what": "norm must be True or False", "got": "'no'"}),
        ({"gain": "square"}, {"what": "unknown gain", "got": "'square'"}),
    ],
)
def test_arguments_are_checked(arguments, fields):
    refuses(lambda: LambdaRank(**arguments), **fields)


def test_labels_without_a_gain_are_named():
    with refusal(what="a label is beyond the gain table, which ends at 1", got="2", where="row 3 (query number 1)"):
        LambdaRank(gain=(0, 1))([0.0] * 4, [0, 1, 1, 2], [0, 2, 4])
    refuses(lambda: LambdaRank()([0.0] * 2, [0, 2000], [0, 2]), what="a label is too large for the gain exponential")
