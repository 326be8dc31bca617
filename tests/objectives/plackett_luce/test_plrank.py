"""PL-Rank: the draws are exactly Plackett-Luce, the estimates unbiased, and neither minds how steep the scores are."""

import itertools
from collections.abc import Iterable
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.objectives.plackett_luce.cpu import draws as plackett_luce
from rankwise.objectives.plackett_luce.cpu.draws import (
    DRAWS,
    PLACE,
    SAMPLERS,
    STRATUM,
    STRIDE,
    UNIFORM,
    sample_batch,
    tabulate,
    working_memory,
)
from rankwise.objectives.ragged import draw_streams
from tests import shared
from tests.refusals import refusal, refuses

LOG = 1.0 / np.log2(np.arange(2.0, 12.0))
SCORES = {
    "mild": [0.1, -1.0, 2.0, 0.0, 0.5],
    "equal": [0.0, 0.0, 0.0, 0.0],
    "peaked": [0.0, 30.0, 31.0, 60.0, 61.0],
    "extreme": [4000.0, 0.0, 0.5, -4000.0, -4001.0],
}


def keys(stream):
    return np.array([each.key for each in draw_streams(stream)], np.uint64)


def chances(scores, cutoff):
    """The probability of every ranking, by definition."""
    actual = {}
    for ranked in itertools.permutations(range(len(scores)), min(cutoff, len(scores))):
        left, log = list(range(len(scores))), 0.0
        for d in ranked:
            rest = np.array([scores[i] for i in left])
            log += scores[d] - rest.max() - np.log(np.exp(rest - rest.max()).sum())
            left.remove(d)
        actual[ranked] = np.exp(log)
    return actual


def exact(scores, rewards, discount_weights):
    """Minus E[R] and its derivatives by listing: E[R·∂log π] and E[R·((∂log π)² + ∂²log π)], not by the paper."""
    value, gradient, hessian = 0.0, np.zeros(len(scores)), np.zeros(len(scores))
    for ranked, chance in chances(scores, len(discount_weights)).items():
        slope, bend, left = np.zeros(len(scores)), np.zeros(len(scores)), np.ones(len(scores), bool)
        for d in ranked:
            p = np.where(left, np.exp(scores - np.max(np.array(scores)[left])), 0.0)
            p /= p.sum()
            slope -= p
            slope[d] += 1.0
            bend -= p * (1.0 - p)
            left[d] = False
        reward = sum(discount_weights[k] * rewards[d] for k, d in enumerate(ranked))
        value -= chance * reward
        gradient -= chance * reward * slope
        hessian -= chance * reward * (slope**2 + bend)
    return value, gradient, hessian


def rankings(sampler, scores, cutoff, n_queries, samples=1, draws="independent", which=0):
    """Sample number ``which`` of many queries with the same scores."""
    scores = np.array(scores)
    floats, integers, batch, at = working_memory(scores.size)
    head = min(cutoff, scores.size)
    key = keys(rw.Stream(seed=5))
    out = np.empty((n_queries, head), np.int64)
    for q in range(n_queries):
        steep = tabulate(scores, scores, head, floats, integers)
        settings = (samples, DRAWS.index(draws), scores.size, head, floats, integers, batch, at)
        sample_batch(sampler == "race" or steep, key, np.uint64(q), 0, samples, *settings)
        out[q] = integers[PLACE, at[which * head : (which + 1) * head]]
    return out


def assert_plackett_luce(ranked, scores, cutoff):
    expected = chances(scores, cutoff)
    n = len(ranked)
    rows, counts = np.unique(ranked, axis=0, return_counts=True)
    seen = {tuple(row): count for row, count in zip(rows.tolist(), counts.tolist(), strict=True)}
    common = [key for key, p in expected.items() if n * p > 5]
    rare = n * sum(p for key, p in expected.items() if n * p <= 5)
    square = sum((seen.get(key, 0) - n * expected[key]) ** 2 / (n * expected[key]) for key in common)
    assert sum(count for key, count in seen.items() if key not in common) <= rare + 5 * np.sqrt(rare) + 3
    if len(common) > 1:
        assert stats.chi2.sf(square, len(common) - 1) > 1e-4


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("cutoff", [1, 3, 10])
def test_rankings_are_drawn_with_their_probability(name, cutoff):
    scores = SCORES[name]
    drawn = rw.objectives.sample_rankings(scores, [0, len(scores)], rw.Stream(seed=3), 40_000, cutoff)
    assert_plackett_luce(drawn, scores, cutoff)


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("name", ["mild", "peaked", "extreme"])
def test_every_single_sample_is_plackett_luce(sampler, draws, name):
    """Samples of a query may hang together, but each on its own has the right distribution."""
    ranked = rankings(sampler, SCORES[name], 3, 8_000, samples=4, draws=draws, which=3)
    assert_plackett_luce(ranked, SCORES[name], 3)


def test_long_rankings_are_drawn_with_their_probability():
    """Beyond 32 ranks the head is sorted and searched in another way: the last rank of a full ranking tells."""
    scores = np.linspace(0.0, 2.0, 50)
    ranked = rw.objectives.sample_rankings(scores, [0, 50], rw.Stream(seed=0), 4_000)
    assert (np.sort(ranked, axis=1) == np.arange(50)).all()
    first = np.bincount(ranked[:, 0], minlength=50)
    p = np.exp(scores) / np.exp(scores).sum()
    assert stats.chisquare(first, 4_000 * p).pvalue > 1e-4
    # Of two documents the higher comes first with the odds of these two alone, wherever the others are.
    place = np.argsort(ranked, axis=1)
    for low, high in ((0, 49), (10, 30), (24, 25)):
        ahead = (place[:, high] < place[:, low]).sum()
        odds = 1.0 / (1.0 + np.exp(scores[low] - scores[high]))
        assert stats.binomtest(int(ahead), 4_000, odds).pvalue > 1e-4
    race = rankings("race", scores, 50, 1_000)
    assert stats.binomtest(int((np.argsort(race, axis=1)[:, 49] < np.argsort(race, axis=1)[:, 0]).sum()), 1_000,
                           1.0 / (1.0 + np.exp(-2.0))).pvalue > 1e-4  # fmt: skip


CASES = [
    ([0.3, -0.8, 1.0, 0.0, 0.5], [1.0, 0.0, 0.3, -0.7, 0.2], LOG[:3]),
    ([0.0, 3.0, -2.0, 5.0], [0.0, 1.0, 2.0, 0.5], LOG[:2]),
    ([1.0, 0.0, -1.0, 0.5], [0.0, 0.0, 0.0, 1.0], LOG[:6]),
]


@pytest.mark.parametrize("baseline", [False, True])
@pytest.mark.parametrize("draws", DRAWS)
@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("case", range(len(CASES)))
def test_value_gradient_and_hessian_are_unbiased(case, sampler, draws, baseline):
    scores, rewards, discount_weights = (np.array(part) for part in CASES[case])
    n, repeats = scores.size, 6_000
    plrank = rw.objectives.PLRank(
        discounts=tuple(discount_weights),
        samples=60,
        sampler=sampler,
        draws=draws,
        baseline=baseline,
        curvature="estimated",
    )
    d = plrank(
        np.tile(scores, repeats),
        np.zeros(n * repeats),
        np.arange(0, n * repeats + 1, n),
        rw.Stream(seed=1),
        document_rewards=np.tile(rewards, repeats),
    )
    actual = d.value[:, None], d.gradient.reshape(repeats, n), d.hessian.reshape(repeats, n)
    for got, expected in zip(actual, exact(scores, rewards, discount_weights), strict=True):
        error = got.std(axis=0) / np.sqrt(repeats)
        assert np.linalg.norm(error) < 0.02 * np.linalg.norm(expected)
        assert (np.abs(got.mean(axis=0) - expected) < 4.0 * error + 1e-12).all()


def total(terms: Iterable[Decimal]) -> Decimal:
    return sum(terms, Decimal(0))


def ranking_terms(scores, rewards, discount_weights, ranked):
    """Gradient and Hessian of the reward from one ranking: the paper's sums in long decimals, in both forms."""
    with localcontext() as context:
        context.prec, context.Emin = 60, -(10**9)
        s = [Decimal(float(x)) for x in scores]
        e, rho = [(x - max(s)).exp() for x in s], [Decimal(float(r)) for r in rewards]
        t = [Decimal(float(x)) for x in discount_weights][: len(ranked)]
        z = [total(e[d] for d in range(len(s)) if d not in ranked[:k]) for k in range(len(ranked))]
        pr = [total(t[x] * rho[ranked[x]] for x in range(k, len(ranked))) for k in range(len(ranked) + 1)]
        gradient, simple, printed = [], [], []
        for d in range(len(s)):
            placed = d in ranked
            r = ranked.index(d) if placed else len(ranked) - 1
            ks = range(r + 1)
            after = pr[r + 1] if placed else Decimal(0)
            dr, ri, dn = total(t[k] / z[k] for k in ks), total(pr[k] / z[k] for k in ks), total(1 / z[k] for k in ks)
            rs, ds = total(pr[k] / z[k] ** 2 for k in ks), total(t[k] / z[k] ** 2 for k in ks)
            dns = [total(1 / z[x] for x in range(k + 1)) for k in ks]
            a, b = total(t[k] * dns[k] / z[k] for k in ks), total(pr[k] * dns[k] / z[k] for k in ks)
            big = rho[d] * dr - ri
            gradient.append(after + e[d] * big)
            simple.append(after * (1 - 2 * e[d] * dn) + e[d] * big + 2 * e[d] ** 2 * (b - rho[d] * a))
            x1 = (1 + int(placed)) * big - dn * after
            printed.append(after + e[d] * x1 + e[d] ** 2 * ((rs - rho[d] * ds) - dn * big))
        return tuple(np.array([float(x) for x in part]) for part in (gradient, simple, printed))


def test_the_papers_hessian_and_the_shorter_form_have_the_same_mean():
    for scores, rewards, discount_weights in CASES[:2]:
        sums = np.zeros((3, len(scores)))
        for ranked, chance in chances(scores, len(discount_weights)).items():
            sums += chance * np.array(ranking_terms(scores, rewards, discount_weights, ranked))
        _, gradient, hessian = exact(scores, rewards, discount_weights)
        np.testing.assert_allclose(sums, [-gradient, -hessian, -hessian], atol=1e-12)


STEEP = [
    [0.3, -0.8, 1.0, 0.0, 0.5, -0.2],
    [0.0, 40.0, 80.0, 81.0, 120.0, -40.0],
    [0.0, 200.0, 399.0, 400.0, 598.0, -100.0],
    [4000.0, 0.0, 0.5, -4000.0, -3999.0, 1.0],
    [-4000.0, 4000.0, -4000.0, -4000.0, -4000.0, -4000.0],
]


@pytest.mark.parametrize("scores", STEEP)
def test_sums_keep_their_digits_however_steep_the_scores_are(scores):
    """The same rankings as ``sample`` draws, their terms computed in 60 digits."""
    rewards, stream = np.array([1.0, -2.0, 0.5, 3.0, 0.25, 0.0]), rw.Stream(seed=11)
    ranked = rw.objectives.sample_rankings(scores, [0, 6], stream, 60, 4)
    plrank = rw.objectives.PLRank(
        metric="dcg", cutoff=4, samples=60, draws="independent", baseline=False, curvature="estimated"
    )
    d = plrank(scores, np.zeros(6), [0, 6], stream, document_rewards=rewards)
    terms = [ranking_terms(scores, rewards, LOG[:4], tuple(row)) for row in ranked.tolist()]
    np.testing.assert_allclose(-d.gradient, np.mean([t[0] for t in terms], axis=0), atol=1e-11)
    np.testing.assert_allclose(-d.hessian, np.mean([t[1] for t in terms], axis=0), atol=1e-11)


@pytest.mark.parametrize("metric", ["ndcg", "dcg", "precision", "rbp"])
def test_the_value_is_minus_the_mean_metric_of_the_rankings_drawn(metric):
    rng, sizes = np.random.default_rng(0), [7, 3, 12]
    offsets, stream = np.concatenate(([0], np.cumsum(sizes))), rw.Stream(seed=2)
    scores, labels = rng.normal(size=22), rng.integers(0, 4, 22).astype(float)
    drawn = rw.objectives.sample_rankings(scores, offsets, stream, 50, 5)
    rows = drawn + np.repeat(offsets[:-1], np.minimum(sizes, 5))
    ranks = np.concatenate([np.arange(min(size, 5)) for size in sizes])
    text = "rbp(p=0.7)@5" if metric == "rbp" else f"{metric}@5"
    seen = np.zeros(3)
    for row in rows:
        place = np.full(22, -np.inf)  # not retrieved
        place[row] = -ranks
        seen += rw.metric(text)(place, labels, offsets) / 50
    plrank = rw.objectives.PLRank(metric=metric, cutoff=5, p=0.7, samples=50, draws="independent", baseline=False)
    np.testing.assert_allclose(plrank(scores, labels, offsets, stream).value, -seen, rtol=1e-12)


def test_one_rank_is_a_softmax():
    """At K = 1 and with the baseline nothing is left to chance: value −Σpρ, gradient −p(ρ − Σpρ)."""
    scores, rewards = np.array([0.2, -0.5, 1.0]), np.array([1.0, 0.0, -2.0])
    p = np.exp(scores) / np.exp(scores).sum()
    d = rw.objectives.PLRank(discounts=(1.0,), samples=3, curvature="estimated")(
        scores, np.zeros(3), [0, 3], rw.Stream(seed=0), document_rewards=rewards
    )
    mean = p @ rewards
    np.testing.assert_allclose(d.value, [-mean])
    np.testing.assert_allclose(d.gradient, -p * (rewards - mean))
    np.testing.assert_allclose(d.hessian, -p * (1 - 2 * p) * (rewards - mean))


def test_every_stratum_is_used_once_per_rank():
    _, integers, batch, _ = working_memory(30)
    for samples in (1, 7, 64):
        key = keys(rw.Stream(seed=0))
        plackett_luce._lay_strata(key[2], np.uint64(4), 5, samples, integers[STRATUM], integers[STRIDE])
        plackett_luce._fill_uniforms(
            key, np.uint64(4), 0, samples, samples, DRAWS.index("latin"), 5, integers, batch[UNIFORM]
        )
        uniforms = batch[UNIFORM, : 5 * samples].reshape(5, samples)
        assert (np.sort(np.floor(uniforms * samples), axis=1) == np.arange(samples)).all()


def lists(n_queries=40, seed=0, spread=1.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 90, n_queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    return spread * rng.normal(size=offsets[-1]), rng.integers(0, 5, offsets[-1]).astype(float), offsets


def test_strata_and_baseline_lower_the_noise():
    example = lists(spread=2.0)
    best = rw.objectives.PLRank(samples=20_000, curvature="estimated")(*example, rw.Stream(seed=9))

    def noise(**options):
        parts = [
            rw.objectives.PLRank(curvature="estimated", **options)(*example, rw.Stream(seed=seed)) for seed in range(5)
        ]
        return [np.mean([((getattr(part, name) - getattr(best, name)) ** 2).sum() for part in parts])
                for name in ("gradient", "hessian")]  # fmt: skip

    plain = noise(draws="independent", baseline=False)
    for options, share in (({"draws": "independent"}, 0.6), ({"draws": "latin", "baseline": False}, 0.8), ({}, 0.5)):
        assert all(ours < share * theirs for ours, theirs in zip(noise(**options), plain, strict=True)), options


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("draws", DRAWS)
def test_results_depend_on_ids_alone(sampler, draws):
    scores, labels, offsets = lists()
    ids = np.array([f"q{k}" for k in range(40)])
    plrank = rw.objectives.PLRank(sampler=sampler, draws=draws, samples=70, cutoff=7)
    with rw.use_threads(1):
        full = plrank(scores, labels, offsets, rw.Stream(seed=4, query_ids=ids))
    with rw.use_threads(2):
        for one, other in zip(full, plrank(scores, labels, offsets, rw.Stream(seed=4, query_ids=ids)), strict=True):
            assert (one == other).all()
    order = np.random.default_rng(1).permutation(40)[:25]
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in order])
    cuts = np.concatenate(([0], np.cumsum(np.diff(offsets)[order])))
    part = plrank(scores[rows], labels[rows], cuts, rw.Stream(seed=4, query_ids=ids[order]))
    assert (part.value == full.value[order]).all()
    assert (part.gradient == full.gradient[rows]).all()
    assert (part.hessian == full.hessian[rows]).all()
    assert (plrank(scores, labels, offsets, rw.Stream(seed=5, query_ids=ids)).gradient != full.gradient).any()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_lists_without_information_give_zeros(sampler):
    d = rw.objectives.PLRank(sampler=sampler)(
        [1.0, 2.0, 0.5, 3.0, 4.0], [0, 0, 0, 2, 1], [0, 3, 4, 5], rw.Stream(seed=0)
    )
    np.testing.assert_array_equal(d.value, [0.0, -1.0, -1.0])  # a single relevant document is an ideal ranking
    assert not d.gradient.any()
    assert not d.hessian.any()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_a_hundred_thousand_documents(sampler):
    rng = np.random.default_rng(0)
    for spread, extremes in ((1.0, ()), (1.0, (4000.0, -4000.0)), (2000.0, ())):
        scores = spread * rng.normal(size=100_000)
        scores[: len(extremes)] = extremes
        labels = rng.integers(0, 5, 100_000).astype(float)
        d = rw.objectives.PLRank(samples=4, sampler=sampler, curvature="estimated")(
            scores, labels, [0, 100_000], rw.Stream(seed=0)
        )
        assert all(np.isfinite(part).all() for part in d)
        assert abs(d.gradient.sum()) < 1e-9  # adding a constant to all scores changes nothing
        assert -1.0 <= d.value[0] < 0.0


def test_rewards_of_documents_may_be_negative_and_stand_for_labels():
    scores, labels, offsets = lists()
    stream = rw.Stream(seed=0)
    plrank = rw.objectives.PLRank(metric="dcg", curvature="estimated")
    graded = plrank(scores, labels, offsets, stream)
    example = plrank(scores, np.zeros_like(labels), offsets, stream, document_rewards=2.0**labels - 1.0)
    np.testing.assert_array_equal(graded.gradient, example.gradient)
    turned = plrank(scores, labels, offsets, stream, document_rewards=1.0 - 2.0**labels)
    np.testing.assert_allclose(turned.gradient, -graded.gradient)
    np.testing.assert_allclose(turned.hessian, -graded.hessian)
    # A price on exposure moves that document down, through wrappers too.
    price = rw.objective("weighted(plrank(metric=dcg), by=size)")
    d = price([0.0, 0.0, 0.0], [0, 0, 0], [0, 3], stream, document_rewards=[0.0, -1.0, 0.0])
    assert d.gradient[1] > 0.0 > d.gradient[0]


def test_curvature_treats_the_estimated_hessian():
    example, stream = lists(), rw.Stream(seed=0)
    raw = rw.objectives.PLRank(curvature="estimated")(*example, stream)
    assert (raw.hessian < 0).any()
    assert rw.objectives.PLRank(curvature="estimated").exact_hessian
    assert not rw.objectives.PLRank().exact_hessian
    assert rw.objectives.PLRank.estimator
    np.testing.assert_array_equal(
        rw.objectives.PLRank(curvature="absolute")(*example, stream).hessian, abs(raw.hessian)
    )
    np.testing.assert_array_equal(
        rw.objectives.PLRank(curvature="gradient")(*example, stream).hessian, abs(raw.gradient)
    )
    for name in ("floored", "ones"):
        d = rw.objectives.PLRank(curvature=name)(*example, stream)
        np.testing.assert_array_equal(d.gradient, raw.gradient)
        assert (d.hessian >= 0).all()


def test_expressions_read_back():
    plrank = rw.objectives.PLRank(
        metric="rbp", p=0.8, discounts=(1.0, 0.5), draws="antithetic", gain=(0, 1, 5), baseline=False
    )
    assert rw.objective(repr(plrank)) == plrank
    assert repr(rw.objectives.PLRank()) == "plrank"


@pytest.mark.parametrize(
    ("options", "fields"),
    [
        ({"metric": "ndgc"}, {"what": "unknown metric to expect", "got": "'ndgc'", "hint": "did you mean 'ndcg'"}),
        ({"cutoff": 0}, {"what": "cutoff must be a whole number of at least 1", "got": "0"}),
        ({"samples": 0}, {"what": "samples must be a whole number of at least 1", "got": "0"}),
        ({"p": 1.0}, {"what": "p must be a number in (0, 1)", "got": "1.0"}),
        ({"discounts": ()}, {"what": "discounts must be the weights of the ranks"}),
        ({"discounts": (1.0, -0.5)}, {"what": "a rank's weight must be a number in [0, 1e+300]", "got": "-0.5"}),
        ({"sampler": "rice"}, {"what": "unknown sampler", "got": "'rice'", "hint": "did you mean 'race'"}),
        ({"draws": "latinn"}, {"what": "unknown way to draw", "got": "'latinn'", "hint": "did you mean 'latin'"}),
        ({"baseline": "yes"}, {"what": "baseline must be True or False", "got": "'yes'"}),
        ({"curvature": "exact"}, {"what": "unknown curvature", "got": "'exact'"}),
    ],
)
def test_wrong_settings_are_errors(options, fields):
    refuses(lambda: rw.objectives.PLRank(**options), **fields)


def test_wrong_input_is_an_error():
    plrank, stream = rw.objectives.PLRank(), rw.Stream(seed=0)
    refuses(lambda: plrank([0.0, 1.0], [0, 1], [0, 2]), what="plrank draws random numbers and needs a stream")
    with refusal(what="document rewards must be finite", got="nan", where="row 1 (query number 0)"):
        plrank([0.0, 1.0], [0, 1], [0, 2], stream, document_rewards=[0.0, np.nan])
    with refusal(what="plrank takes no document_weights"):
        plrank([0.0, 1.0], [0, 1], [0, 2], stream, document_weights=[1.0, 1.0])
    with refusal(what="a label is beyond the gain table, which ends at 1", got="2", where="row 1…"):
        rw.objectives.PLRank(gain=(0, 1))([0.0, 1.0], [0, 2], [0, 2], stream)
    with refusal(what="samples must be a whole number of at least 1", got="0"):
        rw.objectives.sample_rankings([0.0], [0, 1], stream, 0)


@pytest.mark.slow
def test_boosting_with_it_raises_the_expected_metric():
    import lightgbm

    from rankwise.data.io.letor.reader import read_letor

    data = read_letor(shared.data("mq2008/Fold1/train.txt.gz"))
    plrank, stream = rw.objectives.PLRank(samples=20), data.stream(0)
    rounds = iter(range(1000))

    def derive(scores, _):
        d = plrank(scores, data.labels, data.offsets, stream.at(next(rounds)))
        return d.numerator, np.maximum(d.hessian, 1e-6)

    settings = {"objective": derive, "learning_rate": 0.1, "num_leaves": 15, "verbosity": -1, "num_threads": 1}
    settings["min_sum_hessian_in_leaf"] = 0.0
    model = lightgbm.train(settings, lightgbm.Dataset(data.features, data.labels), 40)
    before, after = (plrank(s, data.labels, data.offsets, stream).value.sum()
                     for s in (np.zeros(data.n_docs), model.predict(data.features)))  # fmt: skip
    assert after < 1.15 * before
