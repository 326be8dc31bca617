"""YetiLoss: neighbours of drawn rankings, weighed by brute-force swaps, and unbiased over the draws."""

import itertools

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.pairwise.yeti_by_hand import derivatives, drawn, pairs
from tests.objectives.plackett_luce.test_plrank import chances
from tests.refusals import refusal, refuses

LABELS = np.array([0.0, 2.0, 1.0, 0.0, 2.0])
SCORES = np.array([0.4, -0.5, 0.9, 0.0, -1.2])
VARIANTS = [
    rw.objectives.Yeti(),
    rw.objectives.Yeti(gain="linear", sigma=2.0, noise="gaussian"),
    rw.objectives.Yeti(cutoff=2),
    rw.objectives.Yeti(metric="map"),
    rw.objectives.Yeti(metric="map", cutoff=3, relevant=2.0, noise="gumbel", scale=0.5),
    rw.objectives.Yeti(metric="mrr"),
    rw.objectives.Yeti(metric="mrr", cutoff=1, noise="gumbel"),
    rw.objectives.Yeti(metric="classic"),
    rw.objectives.Yeti(metric="classic", decay=0.5, permutations=3),
]


def lists(seed: int, sizes=(1, 2, 3, 30, 5, 4, 40)):
    draw = np.random.default_rng(seed)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = draw.integers(0, 4, offsets[-1]).astype(float)
    labels[offsets[4] : offsets[5]] = 0.0  # nothing relevant
    labels[offsets[5] : offsets[6]] = 3.0  # all equal
    return draw.normal(size=offsets[-1]).round(1), labels, offsets  # rounded: some scores are equal


@pytest.mark.parametrize("objective", VARIANTS, ids=repr)
def test_every_number_is_that_of_swapping_neighbours_by_hand(objective):
    stream = rw.Stream(seed=3)
    scores, labels, offsets = lists(0)
    actual = objective(scores, labels, offsets, stream)
    parts = drawn(objective, scores, labels, offsets, stream)
    values = np.array([derivatives(objective, scores, one)[0] for one in parts])
    np.testing.assert_allclose(actual.value, values, atol=1e-13)
    _, gradient, hessian = derivatives(objective, scores, itertools.chain(*parts))
    np.testing.assert_allclose(actual.gradient, gradient, atol=1e-13)
    np.testing.assert_allclose(actual.hessian, hessian, atol=1e-13)
    assert np.abs(gradient).max() > 0.01


def expected(objective, scores, labels, probabilities):
    """Value, gradient and Hessian by listing every ranking with its probability."""
    total = [0.0, np.zeros(scores.size), np.zeros(scores.size)]
    for ranked, chance in probabilities.items():
        parts = derivatives(objective, scores, pairs(objective, ranked, labels))
        total = [sum_ + chance * part for sum_, part in zip(total, parts, strict=True)]
    return total


def by_quantiles(scores, quantile, scale, steps=100):
    """The probability of every ranking of three documents under noise with this quantile function, on a grid."""
    noise = scale * quantile((np.arange(steps) + 0.5) / steps)
    grid = np.array(np.meshgrid(noise, noise, noise)).reshape(3, -1).T + scores
    rows, counts = np.unique(np.argsort(-grid, axis=1), axis=0, return_counts=True)
    return {tuple(row): count / len(grid) for row, count in zip(rows.tolist(), counts.tolist(), strict=True)}


def assert_unbiased(objective, scores, labels, probabilities, slack=0.0):
    """Draw for many queries with the same list: the mean is that of listing, with a standard error under 2%."""
    n, repeats = scores.size, 4_000
    offsets = np.arange(0, n * repeats + 1, n)
    actual = objective(np.tile(scores, repeats), np.tile(labels, repeats), offsets, rw.Stream(seed=8))
    shapes = ((repeats, 1), (repeats, n), (repeats, n))
    for part, shape, right in zip(actual[:3], shapes, expected(objective, scores, labels, probabilities), strict=True):
        values = part.reshape(shape)
        error, size = values.std(axis=0, ddof=1) / np.sqrt(repeats), np.linalg.norm(right)
        assert np.linalg.norm(error) < 0.02 * size
        assert (np.abs(values.mean(axis=0) - right) < 5.0 * error + (1e-12 + slack) * size).all()


@pytest.mark.parametrize("scale", [1.0, 0.4])
@pytest.mark.parametrize("metric", ["ndcg", "map", "mrr", "classic"])
def test_the_mean_over_gumbel_draws_is_that_of_listing_plackett_luce_rankings(metric, scale):
    objective = rw.objectives.Yeti(metric=metric, noise="gumbel", scale=scale)
    assert_unbiased(objective, SCORES, LABELS, chances(SCORES / scale, SCORES.size))


def test_the_mean_over_logistic_draws_is_that_of_listing():
    scores, labels = np.array([0.8, 0.0, -0.7]), np.array([0.0, 1.0, 2.0])
    probabilities = by_quantiles(scores, lambda u: np.log(u / (1.0 - u)), 1.0)
    assert_unbiased(rw.objectives.Yeti(), scores, labels, probabilities, slack=0.003)  # the grid's own error
    gumbel = chances(scores, 3)
    assert max(abs(gumbel[ranked] - chance) for ranked, chance in probabilities.items()) > 0.02  # they do differ


def test_three_documents_with_a_pencil():
    # Without noise the ranking is by score: labels 0, 1, 1. Only the first two may be swapped to any effect.
    d = rw.objectives.Yeti(metric="mrr", scale=0.0)([2.0, 1.0, 0.0], [0, 1, 1], [0, 3], rw.Stream(0))
    wrong = 1.0 / (1.0 + np.exp(-1.0))
    np.testing.assert_allclose(d.value, 0.5 * np.log1p(np.exp(1.0)))  # 1 − 1/2
    np.testing.assert_allclose(d.gradient, [0.5 * wrong, -0.5 * wrong, 0.0])
    # Average precision: (1/2 + 2/3)/2, and (1 + 2/3)/2 after the swap.
    d = rw.objectives.Yeti(metric="map", scale=0.0)([2.0, 1.0, 0.0], [0, 1, 1], [0, 3], rw.Stream(0))
    np.testing.assert_allclose(d.value, 0.25 * np.log1p(np.exp(1.0)))
    # Classic: 0.15 at the first rank, 0.15 · 0.85 at the second, times the differences of labels.
    d = rw.objectives.Yeti(metric="classic", scale=0.0)([2.0, 1.0, 0.0], [0, 2, 1], [0, 3], rw.Stream(0))
    np.testing.assert_allclose(d.value, 0.3 * np.log1p(np.exp(1.0)) + 0.1275 * np.log1p(np.exp(-1.0)))


@pytest.mark.parametrize("metric", ["ndcg", "map", "mrr"])
def test_two_documents_are_those_of_lambdarank(metric):
    # They have one pair, which every ranking holds.
    example, settings = ([0.3, -0.4], [1, 3], [0, 2]), {"metric": metric, "sigma": 1.5, "relevant": 2.0}
    ours, theirs = (
        rw.objectives.Yeti(**settings)(*example, rw.Stream(1)),
        rw.objectives.LambdaRank(norm=False, **settings)(*example),
    )
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


def test_more_permutations_are_less_noise():
    scores, labels, offsets = lists(2, sizes=(30,) * 7)
    lists_of = scores, labels, offsets
    gradients = {
        n: [rw.objectives.Yeti(permutations=n)(*lists_of, rw.Stream(s)).gradient for s in range(20)] for n in (2, 50)
    }
    few, many = (np.std(gradients[n], axis=0).mean() for n in (2, 50))
    assert 3.0 < few / many < 8.0  # √25


@pytest.mark.parametrize("objective", VARIANTS, ids=repr)
def test_rankings_without_noise_do_not_depend_on_the_seed(objective):
    # Scores so far apart that noise cannot reorder them: every draw is the ranking by score, right or wrong.
    labels = np.array([3.0, 2.0, 1.0, 0.0])
    for scores in (np.array([4000.0, 2000.0, -2000.0, -4000.0]), np.array([-4000.0, -2000.0, 2000.0, 4000.0])):
        actual = objective(scores, labels, [0, 4], rw.Stream(0))
        right = derivatives(objective, scores, list(pairs(objective, np.argsort(-scores).tolist(), labels)))
        for part, one in zip(actual[:3], right, strict=True):
            np.testing.assert_allclose(part, np.atleast_1d(one), atol=1e-12)


def test_a_descent_along_the_gradient_raises_the_metric():
    data = rw.synthetic(n_queries=40, n_features=5, seed=1)
    scores, prepared = np.zeros(data.n_docs), rw.objectives.Yeti().prepare(data.labels, data.offsets)
    before = rw.evaluate(scores, data, ["ndcg"]).mean["ndcg"]
    for round in range(60):
        scores = scores - 2.0 * prepared(scores, data.stream(0, round), hessian=False).gradient
    assert rw.evaluate(scores, data, ["ndcg"]).mean["ndcg"] > before + 0.2


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"metric": "err"}, {"what": "unknown metric to weigh pairs by", "got": "'err'"}),
        ({"permutations": 0}, {"what": "permutations must be a whole number of at least 1"}),
        ({"noise": "gauss"}, {"what": "unknown noise", "got": "'gauss'"}),
        ({"scale": -1.0}, {"what": "scale must be a number in [0, inf)"}),
        ({"sigma": 0.0}, {"what": "sigma must be a number in (0, inf)"}),
        ({"cutoff": 0}, {"what": "cutoff must be a whole number of at least 1"}),
        ({"metric": "classic", "cutoff": 5}, {"what": "the classic weights have no cutoff", "got": "cutoff=5"}),
        ({"decay": 1.0}, {"what": "decay must be a number in (0, 1)"}),
        ({"relevant": 0.0}, {"what": "relevant must be a number in (0, inf)"}),
        ({"gain": "square"}, {"what": "unknown gain"}),
    ],
)
def test_wrong_settings_are_errors(options, fields):
    refuses(lambda: rw.objectives.Yeti(**options), **fields)


def test_it_needs_a_stream_and_takes_no_columns():
    with refusal(what="yeti draws random numbers and needs a stream"):
        rw.objectives.Yeti()([0.0, 1.0], [0, 1], [0, 2])
    with refusal(what="yeti takes no document_weights"):
        rw.objectives.Yeti()([0.0, 1.0], [0, 1], [0, 2], rw.Stream(0), document_weights=[1.0, 1.0])
