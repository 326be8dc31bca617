"""The contract that every objective and every wrapper keeps, made from the one table of them."""

import dataclasses

import numpy as np
import pytest

import rankwise as rw
from rankwise.base import threads
from rankwise.objectives.base import Objective
from rankwise.objectives.pairwise.objectives import LambdaRank, Pairwise
from rankwise.objectives.ragged import Derivatives
from rankwise.objectives.table import OBJECTIVES, WRAPPERS
from rankwise.wings.lab.objective_checks import differences
from tests.objectives.pairwise import yeti_by_hand
from tests.objectives.pairwise.pairs_by_hand import frozen
from tests.refusals import refusal, refuses

# Those that learn from labels; the tests of the others give them the columns that they read.
OF_LABELS = [name for name, cls in OBJECTIVES.items() if not cls().reads]
# Every such objective with its defaults, and the settings that take another path through its kernel.
PLAIN = [
    *OF_LABELS,
    "listnet(newton=diagonal)",
    "xendcg(gamma=tight)",
    "xendcg(gamma=zero, newton=diagonal)",
    "xendcg(gamma=one)",
    "lambdarank(norm=False)",
    "lambdarank(norm=False, truncation=3, sigma=2.0)",
    "lambdarank(norm=False, weights='ndcg2++')",
    "lambdarank(metric=map, norm=False)",
    "lambdarank(metric=mrr, norm=False)",
    *(f"pairwise(loss={loss}, weight=ndcg)" for loss in ("logistic", "hinge", "squared_hinge", "exponential")),
    "pairwise(loss=squared_hinge, weight=precision, cutoff=2)",
    "pairwise(loss=logistic, weight=recall, cutoff=2, sigma=0.5)",
    "pairwise(loss=exponential, weight=mrr, norm=True)",
    "pairwise(loss=hinge, weight=arp, cutoff=2)",
    "pairwise(loss=logistic, weight=lambdagap_s, cutoff=2)",
    "pairwise(loss=squared_hinge, weight=lambdagap_x, cutoff=3)",
    "yeti(metric=map, noise=gumbel, permutations=3)",
    "yeti(metric=mrr, noise=gaussian, sigma=0.5)",
    "yeti(metric=classic, decay=0.7)",
    "yeti(cutoff=2, gain=linear)",
    "approx_ndcg(curvature=exact, eta=1.0)",
    "smooth_ap(curvature=exact)",
    "smooth_rbp(curvature=exact)",
    "approx_ndcg(kernel=laplace, curvature=exact, eta=2.0)",
    "smooth_ap(kernel=laplace, curvature=exact)",
    "smooth_rbp(kernel=laplace, curvature=exact, eta=0.5)",
    "plrank(curvature=estimated, samples=50)",
    "calibrated(curvature=exact)",
    "calibrated(alpha=1.0, max_label=3.0, curvature=exact)",
]
BOUNDED = [
    f"bounded({metric}(curvature=exact), method={method})"
    for metric in ("approx_ndcg", "smooth_ap", "smooth_rbp")
    for method in ("min_max", "expectation", "expectation_max", "distribution")
]
WRAPPED = [
    *(f"stochastic({name}, samples=3, scale=0.5)" for name in OF_LABELS),
    *(f"weighted({name}, by=ideal_dcg, power=-0.5)" for name in OF_LABELS),
    *(f"clickwise({name})" for name in OF_LABELS),
    "stochastic(stochastic(xendcg, samples=2), samples=2, noise=gaussian)",
    "weighted(stochastic(lambdarank(norm=False), samples=2, noise=logistic), by=relevant)",
    "0.7*xendcg + 0.3*approx_ndcg",
    "stochastic(xendcg - 0.5*softmax_ce, samples=2)",
    "stochastic(lambdarank, samples=2, scale=0.5, temperature=0.4)",
    "bounded(stochastic(approx_ndcg(curvature=exact), samples=2), method=min_max)",
    "stochastic(bounded(smooth_ap(curvature=exact)), samples=2)",
    "bounded(weighted(smooth_rbp(curvature=exact), by=size), method=expectation)",
    "bounded(stochastic(smooth_ap(kernel=laplace, curvature=exact), samples=2), method=min_max)",
    *BOUNDED,
    "bounded(plrank(samples=50, curvature=estimated), method=expectation)",
    "bounded(stochastic(plrank(metric=rbp, samples=20), samples=2), method=distribution)",
]
ALL = PLAIN + WRAPPED
# Objectives that read columns of documents beside labels.
DISTILLED = [
    "distil",
    "distil(temperature=3.0)",
    "distil(temperature=0.2, newton=diagonal)",
    "margin_mse",
    "0.5*distil + 0.5*softmax_ce",
    "0.3*margin_mse + 0.7*xendcg(gamma=one)",
    "stochastic(distil(temperature=2.0), samples=3, scale=0.5)",
    "weighted(margin_mse, by=size, power=-0.5)",
]
FAIR = [
    "fair(plrank(samples=20))",
    "fair(xendcg, weight=3.0, merit=proportional)",
    "fair(fair(lambdarank), merit=proportional)",
]
SAFE = [
    "safe(plrank(samples=20))",
    "safe(plrank(samples=20, metric=rbp, draws=antithetic), clip=1.2, floor=0.8)",
    "safe(plrank(samples=20, sampler=race), clip=1.05, floor=None)",
    "safe(softmax_ce, floor=0.8)",
]
GOALS = [
    *("on(purchase, softmax_ce)", "on(purchase, xendcg)", "on(purchase, lambdarank(norm=False))"),
    "stochastic(on(purchase, plrank(samples=20)), samples=2)",
    "on(purchase, stochastic(approx_ndcg(curvature=exact), samples=2))",
    "weighted(on(purchase, ranknet), by=ideal_dcg, power=-0.5)",
    "bounded(weighted(on(purchase, smooth_ap(curvature=exact)), by=size))",
    "fair(on(purchase, plrank(samples=20)))",
]
EVERY = ALL + DISTILLED + FAIR + SAFE + GOALS
# A parameter that all queries share: those tests are not for these that look at queries one by one.
POSITIONED = [
    "positioned(softmax_ce, tolerance=1e-9, steps=100)",
    "positioned(xendcg, ridge=0.1, tolerance=1e-9, steps=100)",
    "positioned(approx_ndcg(curvature=exact, eta=1.0), tolerance=1e-9, steps=100)",
    "0.5*positioned(ranknet, tolerance=1e-9, steps=100) + listnet",
    "positioned(lambdarank)",
    "positioned(plrank(samples=20))",
]
SCALED = [
    "clickwise(softmax_ce) + 0.5*on(purchase, clickwise(softmax_ce))",
    "xendcg + 0.3*on(purchase, xendcg)",
    "on(purchase, softmax_ce) - 0.5*approx_ndcg(curvature=exact)",
    "stochastic(ranknet + 2.0*on(purchase, on(sale, plrank(samples=20))), samples=2) + listnet",
]
"""Sums of several goals, whose scales all queries share."""
COUPLED = EVERY + POSITIONED + SCALED
SHIFT_INVARIANT = [text for text in COUPLED if rw.objective(text).shift_invariant]


def differentiable(texts: list[str]) -> list[str]:
    # An estimator is not differentiable draw by draw: its own tests list every permutation.
    return [text for text in texts if not rw.objective(text).estimator]


DIFFERENTIABLE = differentiable(ALL)
EXACT = [text for text in differentiable(EVERY) if rw.objective(text).exact_hessian]
SIZES = [1, 2, 3, 5, 8, 1, 6, 7]
OFFSETS = np.concatenate(([0], np.cumsum(SIZES)))
IDS = np.array([f"query {k}" for k in range(len(SIZES))])


def example(seed: int = 0, spread: float = 1.0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    scores = rng.normal(scale=spread, size=OFFSETS[-1])
    labels = rng.integers(0, 4, OFFSETS[-1]).astype(float)
    labels[OFFSETS[6] : OFFSETS[7]] = 0.0  # nothing relevant
    labels[OFFSETS[2] : OFFSETS[3]] = 2.0  # all equal
    return scores, labels


@dataclasses.dataclass(frozen=True, repr=False)
class WithColumns(Objective):
    """An objective with the columns that it reads, which follow from labels: for the contract, which has none."""

    inner: Objective

    @property
    def children(self):
        return (self.inner,)

    def prepare(self, labels, offsets, **columns):
        columns |= {"groups": np.mod(labels, 2.0) >= 1.0, "teacher_scores": 2.0 * np.mod(labels, 3.0) - 1.0}
        columns |= {"positions": 1.0 + np.mod(labels, 4.0), "init_scores": 1.5 - np.mod(labels, 3.0)}
        columns |= {"more_labels.purchase": np.mod(labels, 3.0), "more_labels.sale": np.mod(labels, 2.0)}
        return self.inner.prepare(labels, offsets, **{name: columns[name] for name in self.inner.reads})


def objective_of(text: str) -> Objective:
    objective = rw.objective(text)
    return WithColumns(objective) if objective.reads else objective


def stream(round: int = 0) -> rw.Stream:
    return rw.Stream(5, round, IDS)


class FixedWeights:
    """A pairwise loss whose pair weights are those at the first scores of each stream."""

    estimator = False

    def __init__(self, inner) -> None:
        self.inner, self.exact_hessian = inner, inner.exact_hessian
        self.losses: dict = {}

    def __call__(self, scores, labels, offsets, stream=None, **documents) -> Derivatives:
        key = int(stream.key)
        if key not in self.losses:
            drawn = isinstance(self.inner, rw.objectives.Yeti)
            hold, draws = (yeti_by_hand.frozen, (stream,)) if drawn else (frozen, ())
            self.losses[key] = hold(self.inner, scores, labels, offsets, *draws)
        actual: Derivatives = self.inner(scores, labels, offsets, stream)
        return actual._replace(value=self.losses[key](scores))


def with_fixed_weights(objective):
    """Replace every LambdaRank, Pairwise and Yeti inside an expression by one with fixed weights."""
    if isinstance(objective, LambdaRank | Pairwise | rw.objectives.Yeti):
        return FixedWeights(objective)
    if hasattr(objective, "terms"):
        return dataclasses.replace(objective, terms=tuple((c, with_fixed_weights(o)) for c, o in objective.terms))
    if hasattr(objective, "inner"):
        return dataclasses.replace(objective, inner=with_fixed_weights(objective.inner))
    return objective


@pytest.mark.parametrize(
    "text", differentiable(EVERY + POSITIONED[:4] + SCALED)
)  # LambdaRank has no value to be minimised
def test_gradient_is_the_difference_of_the_value(text):
    objective = with_fixed_weights(objective_of(text))
    scores, labels = example()
    actual = objective(scores, labels, OFFSETS, stream())
    expected = differences(lambda s: objective(s, labels, OFFSETS, stream()).value.sum(), scores)
    np.testing.assert_allclose(actual.gradient, expected, atol=2e-7 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("text", EXACT)
def test_hessian_is_the_difference_of_the_gradient(text):
    objective = objective_of(text)
    scores, labels = example()
    actual = objective(scores, labels, OFFSETS, stream())
    expected = np.diag(differences(lambda s: objective(s, labels, OFFSETS, stream()).gradient, scores))
    np.testing.assert_allclose(actual.hessian, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


@pytest.mark.parametrize("text", EVERY)
def test_queries_are_independent_of_each_other_and_of_their_order(text):
    objective = objective_of(text)
    scores, labels = example()
    full = objective(scores, labels, OFFSETS, stream())
    turned = np.array([3, 7, 0, 2, 6, 4, 1, 5])
    rows = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in turned])
    offsets = np.concatenate(([0], np.cumsum(np.array(SIZES)[turned])))
    other = objective(scores[rows], labels[rows], offsets, rw.Stream(5, 0, IDS[turned]))
    np.testing.assert_array_equal(other.value, full.value[turned])
    for name in ("gradient", "hessian", "numerator"):
        np.testing.assert_array_equal(getattr(other, name), getattr(full, name)[rows])
    for q in range(len(SIZES)):
        part = slice(OFFSETS[q], OFFSETS[q + 1])
        alone = objective(scores[part], labels[part], [0, SIZES[q]], rw.Stream(5, 0, IDS[q : q + 1]))
        np.testing.assert_array_equal(alone.value[0], full.value[q])
        np.testing.assert_array_equal(alone.gradient, full.gradient[part])


@pytest.mark.parametrize("text", EVERY)
def test_a_list_is_the_same_to_the_last_bit_beside_lists_of_any_length(text):
    # Compiled loops have several paths that round differently; which one is taken must not depend on the neighbours.
    objective = objective_of(text)
    rng = np.random.default_rng(11)
    for size in (3, 7, 9, 21, 40):
        sizes = [size, 150]
        scores, labels = rng.normal(size=sum(sizes)), rng.integers(0, 3, sum(sizes)).astype(float)
        labels[0], labels[size] = 2.0, 2.0
        both = objective(scores, labels, [0, size, sum(sizes)], rw.Stream(1, 0, [7, 8]))
        alone = objective(scores[:size], labels[:size], [0, size], rw.Stream(1, 0, [7]))
        for one, other in zip(alone, both, strict=True):
            np.testing.assert_array_equal(one, other[: one.size])


@pytest.mark.parametrize("text", COUPLED)
def test_threads_change_nothing(text, monkeypatch):
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)
    objective = objective_of(text)
    scores, labels = example(3)
    results = []
    for count in (1, 2):
        with threads.use_threads(count):
            results.append(objective(scores, labels, OFFSETS, stream()))
    for one, two in zip(*results, strict=True):
        np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("text", SHIFT_INVARIANT)
def test_a_constant_added_to_a_query_changes_nothing(text):
    objective = objective_of(text)
    scores, labels = example(1)
    shift = np.repeat(2.0 ** np.arange(len(SIZES)), SIZES)  # powers of two: differences stay what they are, nearly
    shift[OFFSETS[4] :] = -4096.0
    one, two = (objective(s, labels, OFFSETS, stream()) for s in (scores, scores + shift))
    for name in ("value", "gradient", "hessian", "numerator"):
        before, after = getattr(one, name), getattr(two, name)
        np.testing.assert_allclose(after, before, atol=1e-9 * max(1.0, np.abs(before).max()))


@pytest.mark.parametrize("text", SHIFT_INVARIANT)
def test_gradients_of_a_list_add_up_to_zero(text):
    # The same invariance, seen from the derivative; true for estimators draw by draw too.
    objective = objective_of(text)
    scores, labels = example(2)
    actual = objective(scores, labels, OFFSETS, stream())
    sums = np.add.reduceat(actual.gradient, OFFSETS[:-1])
    np.testing.assert_allclose(sums, 0.0, atol=1e-9 * max(1.0, np.abs(actual.gradient).max()))


@pytest.mark.parametrize("order", ["right", "wrong", "random"])
@pytest.mark.parametrize("gap", [37.0, 4000.0])
@pytest.mark.parametrize("text", COUPLED)
def test_extreme_scores_stay_finite(text, gap, order):
    labels = np.array([3.0, 2, 1, 0, 0, 1, 0, 2, 0, 0])
    right = np.argsort(np.argsort(-labels, kind="stable"))
    rank = {"right": right, "wrong": 9 - right, "random": np.random.default_rng(0).permutation(10)}[order]
    for middle in (0.0, -gap):
        scores = gap * (4.5 - rank) / 4.5 + middle
        actual = objective_of(text)(scores, labels, [0, 4, 10], rw.Stream(1))
        for part in actual:
            assert np.isfinite(part).all()


@pytest.mark.parametrize("text", COUPLED)
def test_scores_and_labels_of_any_size_give_finite_numbers_or_an_error(text):
    objective, largest = objective_of(text), np.finfo(np.float64).max
    labels = np.array([2.0, 0, 1, 0])
    for size in (1e100, 1e308, largest):
        for signs in ([1, -1, 0, 1], [-1, 1, 1, 0], [1, 1, 1, 1], [-1, -1, 1, 1], [1, 0, 0, 0]):
            for part in objective(size * np.array(signs), labels, [0, 4], rw.Stream(1)):
                assert np.isfinite(part).all()
                assert np.isfinite(part.astype(np.float32)).all()  # as trees and nets see it
    for graded in np.array([[largest, 0, 0, 1], [largest] * 4, [1e-320, 0, 0, 0]]):
        try:
            actual = objective([1.0, 2.0, 3.0, 4.0], graded, [0, 4], rw.Stream(1))
        except ValueError as wrong:
            if "a label is too large" not in str(wrong):
                raise
        else:
            for part in actual:
                assert np.isfinite(part).all()


@pytest.mark.parametrize("text", SHIFT_INVARIANT)
def test_lists_without_information(text):
    actual = objective_of(text)([1.0], [2.0], [0, 1], rw.Stream(1))
    assert actual.gradient == actual.hessian == actual.numerator == 0.0
    learns_anyway = any(name in text for name in ("listnet", "xendcg", "distil", "margin_mse", "safe"))
    actual = objective_of(text)([1.0, 0.5, 2.0], [0.0, 0.0, 0.0], [0, 3], rw.Stream(1))
    if not learns_anyway:
        for part in actual[1:]:
            np.testing.assert_array_equal(part, 0.0)


@pytest.mark.parametrize("text", COUPLED)
def test_expressions_read_back(text):
    objective = rw.objective(text)
    assert rw.objective(repr(objective)) == objective
    assert repr(rw.objective(repr(objective))) == repr(objective)
    assert isinstance(objective, Objective)
    assert rw.objective(objective) is objective
    assert hash(objective) == hash(rw.objective(text))


@pytest.mark.parametrize("text", COUPLED)
def test_bad_input_names_the_query(text):
    objective = objective_of(text)
    with refusal(what="scores must be finite", got="nan", where="row 2 (query number 1)"):
        objective([0.0, 1.0, np.nan], [0, 1, 0], [0, 2, 3], rw.Stream(0))
    with refusal(what="labels must be at least 0", got="-1", where="row 1 (query number 0)"):
        objective([0.0, 1.0, 1.0], [0, -1, 0], [0, 2, 3], rw.Stream(0))


@pytest.mark.parametrize("text", ["xendcg", "plrank", "yeti", "stochastic(listnet)", "xendcg + listnet"])
def test_drawing_needs_a_stream(text):
    with refusal(what="…draws random numbers and needs a stream", hint="…rw.Stream…"):
        objective_of(text)([0.0, 1.0], [0, 1], [0, 2])


@pytest.mark.parametrize("text", ["xendcg", "plrank", "yeti", "stochastic(listnet)"])
def test_rounds_and_seeds_draw_anew(text):
    scores, labels = example()
    objective = objective_of(text)
    one = objective(scores, labels, OFFSETS, stream(0)).gradient
    assert not np.array_equal(one, objective(scores, labels, OFFSETS, stream(1)).gradient)
    assert not np.array_equal(one, objective(scores, labels, OFFSETS, rw.Stream(6, 0, IDS)).gradient)


def test_unknown_words_get_a_suggestion():
    refuses(lambda: rw.objective("xendgc"), what="unknown objective", got="'xendgc'", hint="did you mean 'xendcg'")
    with refusal(what="unknown argument of xendcg", got="'gama'", hint="did you mean 'gamma'"):
        rw.objective("stochastic(xendcg(gama=zero))")
    refuses(lambda: rw.objective("xendcg(gamma=zreo)"), what="unknown gamma", got="'zreo'", hint="did you mean 'zero'")


def test_a_function_is_an_objective():
    def squares(scores, labels, offsets, stream=None):
        gradient = np.asarray(scores) - labels
        value = np.add.reduceat(0.5 * gradient**2, np.asarray(offsets)[:-1])
        return Derivatives(value, gradient, np.ones_like(gradient), gradient)

    scores, labels = example()
    plain = squares(scores, labels, OFFSETS)
    own = rw.objective(squares)
    doubled = rw.objectives.weighted(own, by="size", power=0.0)(scores, labels, OFFSETS)
    np.testing.assert_allclose(doubled.value, plain.value)
    noisy = rw.objectives.stochastic(own, samples=2000, scale=1.0, noise="gaussian")(scores, labels, OFFSETS, stream())
    # E ½(s + z − y)² = ½(s − y)² + ½ for each document
    np.testing.assert_allclose(noisy.value, plain.value + np.array(SIZES) / 2, rtol=0.15)
    np.testing.assert_allclose(noisy.gradient, plain.gradient, atol=0.12)


@pytest.mark.parametrize(
    ("inner", "scale"),
    [
        ("lambdarank", 0.5),
        ("lambdarank(sigma=2.0)", 0.25),  # what the 2020 paper took
        ("approx_ndcg", 0.05),
        ("softmax_ce", 0.5),
        ("bounded(smooth_ap(eta=4.0))", 0.125),
        ("0.5*xendcg + 0.5*weighted(ranknet(sigma=5.0))", 0.1),  # the most sensitive term counts
    ],
)
def test_the_default_noise_is_half_the_score_scale(inner, scale):
    scores, labels = example()
    default, same = rw.objective(f"stochastic({inner})"), rw.objective(f"stochastic({inner}, scale={scale})")
    assert repr(default) == f"stochastic({rw.objective(inner)!r})"
    for actual, expected in zip(*(o(scores, labels, OFFSETS, stream()) for o in (default, same)), strict=True):
        np.testing.assert_array_equal(actual, expected)


def test_sums_add_up():
    scores, labels = example()
    a, b = rw.objectives.SoftmaxCE(newton="diagonal"), rw.objectives.ApproxNDCG()
    parts = [o(scores, labels, OFFSETS) for o in (a, b)]
    actual = (0.7 * a - 0.3 * b)(scores, labels, OFFSETS)
    for k in range(3):
        np.testing.assert_allclose(actual[k], 0.7 * parts[0][k] - 0.3 * parts[1][k], atol=1e-15)
    assert repr(0.7 * a - 0.3 * b) == "0.7*softmax_ce(newton=diagonal) - 0.3*approx_ndcg"
    assert (a + b) + a == rw.objective("softmax_ce(newton=diagonal) + approx_ndcg + softmax_ce(newton=diagonal)")


@pytest.mark.parametrize("name", sorted(OBJECTIVES))
def test_long_lists(name):
    long = 5_000 if name in ("approx_ndcg", "smooth_ap", "smooth_rbp", "ranknet", "pairwise", "bpr") else 100_000
    rng = np.random.default_rng(0)
    labels = (rng.random(long) < 0.01) * rng.integers(1, 5, long).astype(float)
    actual = objective_of(name)(rng.normal(size=long), labels, [0, long], rw.Stream(0))
    for part in actual:
        assert np.isfinite(part).all()
    assert np.abs(actual.gradient).max() > 0


def test_the_table_knows_every_wrapper():
    assert set(WRAPPERS) == {"stochastic", "bounded", "weighted", "on", "clickwise", "fair", "positioned", "safe"}


def test_results_are_new_arrays_or_those_that_the_caller_brings():
    scores, labels = example()
    prepared = rw.objectives.SoftmaxCE().prepare(labels, OFFSETS)
    first = prepared(scores)
    before = [part.copy() for part in first]
    prepared(2.0 * scores)
    for part, expected in zip(first, before, strict=True):
        np.testing.assert_array_equal(part, expected)
    out = prepared.empty()
    assert prepared(3.0 * scores, out=out) is out
    for part, expected in zip(out, prepared(3.0 * scores), strict=True):
        np.testing.assert_array_equal(part, expected)


def test_an_objective_without_prepare_cannot_be_constructed():
    class Idle(Objective):
        name = "idle"

    with pytest.raises(TypeError, match=r"abstract .*prepare"):
        Idle()  # type: ignore[abstract]
