"""Learning from clicks: unbiased by listing every pattern of clicks, and what the other estimators are biased by."""

import itertools

import numpy as np
import pytest

import rankwise as rw
from tests.refusals import refusal

SEEN = np.array([1.0, 0.5, 0.3, 0.2])  # how likely each place is looked at
SCORES = np.array([0.2, 1.1, -0.4, 0.5])
ANY = ["softmax_ce", "xendcg(gamma=one)", "listnet", "lambdarank", "lambdarank(norm=False)", "ranknet", "listmle",
       "approx_ndcg", "smooth_ap", "smooth_rbp", "pairwise(loss=squared_hinge, weight=recall)"]  # fmt: skip


def patterns(relevance):
    """Every set of clicks, with its probability."""
    chances = SEEN * relevance
    for clicks in itertools.product((0.0, 1.0), repeat=4):
        yield np.array(clicks), float(np.prod(np.where(clicks, chances, 1.0 - chances)))


def mean(objective, relevance, weights):
    """The mean over all patterns of value, gradient and Hessian."""
    total = [0.0, np.zeros(4), np.zeros(4)]
    for clicks, chance in patterns(relevance):
        actual = rw.objective(objective)(SCORES, clicks, [0, 4], document_weights=weights)
        total = [one + chance * part for one, part in zip(total, actual[:3], strict=True)]
    return total


def full(objective, relevance):
    """What one would have with every document judged: each in a list where it alone is relevant."""
    total = [0.0, np.zeros(4), np.zeros(4)]
    for i, share in enumerate(relevance):
        actual = rw.objective(objective)(SCORES, np.eye(4)[i], [0, 4])
        total = [one + share * part for one, part in zip(total, actual[:3], strict=True)]
    return total


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


@pytest.mark.parametrize("relevance", [np.array([1.0, 0.0, 1.0, 1.0]), np.array([0.1, 0.9, 0.5, 0.3])], ids=str)
@pytest.mark.parametrize("inner", ANY)
def test_the_mean_over_all_click_patterns_is_the_full_information(inner, relevance):
    actual = mean(f"clickwise({inner})", relevance, 1.0 / SEEN)
    for one, expected in zip(actual, full(inner, relevance), strict=True):
        np.testing.assert_allclose(one, expected, rtol=1e-12, atol=1e-14)


def test_the_weights_matter():
    relevance = np.array([1.0, 0.0, 1.0, 1.0])
    biased = mean("clickwise(softmax_ce)", relevance, np.ones(4))[1]
    assert cosine(biased, full("softmax_ce", relevance)[1]) < 0.95


def test_softmax_cross_entropy_is_the_plain_loss_where_everything_is_seen():
    # Σ over relevant documents of −log ρ is P times the cross entropy with y/Σy.
    labels = np.array([1.0, 0.0, 1.0, 1.0])
    ours, plain = (rw.objective(o)(SCORES, labels, [0, 4]) for o in ("clickwise(softmax_ce)", "softmax_ce"))
    np.testing.assert_allclose(ours.value, 3 * plain.value)
    np.testing.assert_allclose(ours.gradient, 3 * plain.gradient)
    np.testing.assert_allclose(ours.hessian, 3 * plain.hessian)


@pytest.mark.parametrize("objective", ["softmax_ce", "xendcg(gamma=one)", "lambdarank(norm=False)"])
def test_weights_inside_an_objective_are_biased_with_several_relevant_documents_and_not_with_one(objective):
    # With one click in an impression SoftmaxCE's weight cancels against its own sum.
    alone = np.array([0.0, 0.0, 1.0, 0.0])
    assert cosine(mean(objective, alone, 1.0 / SEEN)[1], full(objective, alone)[1]) > 1 - 1e-9
    several = np.array([1.0, 1.0, 1.0, 0.0])
    assert cosine(mean(objective, several, 1.0 / SEEN)[1], full(objective, several)[1]) < 0.97


def test_clipping_bounds_the_weights():
    weights = np.array([1.0, 2.0, 8.0, 4.0])
    labels = np.array([0.0, 1.0, 1.0, 1.0])
    clipped = rw.objectives.clickwise(rw.objectives.RankNet(), clip=3.0)(
        SCORES, labels, [0, 4], document_weights=weights
    )
    expected = rw.objectives.clickwise(rw.objectives.RankNet())(
        SCORES, labels, [0, 4], document_weights=np.minimum(weights, 3.0)
    )
    for one, other in zip(clipped, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_label_counts_clicks_and_lists_without_clicks_give_zeros():
    offsets = [0, 4, 8]
    both = rw.objectives.clickwise(rw.objectives.LambdaRank())(np.tile(SCORES, 2), [0, 3, 0, 0, 0, 0, 0, 0], offsets)
    once = rw.objectives.clickwise(rw.objectives.LambdaRank())(SCORES, [0, 1, 0, 0], [0, 4])
    np.testing.assert_allclose(both.gradient, np.concatenate((3 * once.gradient, np.zeros(4))))
    assert both.value[1] == 0.0


def test_two_clicks_of_a_list_draw_different_numbers_and_batches_do_not_matter():
    data = rw.synthetic(n_queries=6, n_docs=5, seed=3)
    scores, clicks = data.features[:, 0].astype(float), (data.labels > 0).astype(float)
    objective = rw.objectives.clickwise(rw.objectives.XENDCG())
    stream = rw.Stream(1, query_ids=[f"q{n}" for n in range(6)])
    complete = objective(scores, clicks, data.offsets, stream)
    queries = np.array([4, 1])
    part = objective.prepare(clicks, data.offsets).take(queries)
    rows = np.concatenate([np.arange(data.offsets[q], data.offsets[q + 1]) for q in queries])
    actual = part(scores[rows], stream.take(queries, 6))
    np.testing.assert_array_equal(actual.value, complete.value[queries])
    np.testing.assert_array_equal(actual.gradient, complete.gradient[rows])
    # With one noise for both, the chances of the two documents of a list to come first would add up to 1.
    noisy = rw.objectives.clickwise(rw.objectives.stochastic(rw.objectives.SoftmaxCE(), samples=1, scale=1.0))
    first, second = (noisy(np.zeros(2), labels, [0, 2], rw.Stream(5)).value[0] for labels in ([1, 0], [0, 1]))
    assert abs(np.exp(-first) + np.exp(-second) - 1.0) > 1e-6


def test_errors():
    with refusal(what="a label is too large for a number of clicks", got="1e…"):
        rw.objectives.clickwise(rw.objectives.SoftmaxCE())(SCORES, [0, 1e12, 0, 0], [0, 4])
    with refusal(what="clip must be a number in (0, inf)"):
        rw.objectives.clickwise(rw.objectives.SoftmaxCE(), clip=0.0)
    with refusal(what="clickwise(plrank) takes no document_rewards"):
        rw.objectives.clickwise(rw.objectives.PLRank())(SCORES, [0, 1, 0, 0], [0, 4], document_rewards=SCORES)
