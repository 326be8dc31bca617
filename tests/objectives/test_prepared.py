"""What is prepared once: it may be called again and again, in parts, without Hessian, and from several threads."""

import ast
import concurrent.futures
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import rankwise as rw
from tests.objectives.test_objectives import ALL, IDS, OFFSETS, SIZES, example, stream
from tests.refusals import refusal, refuses


@pytest.mark.parametrize("text", ALL)
def test_calls_do_not_depend_on_earlier_calls(text):
    objective = rw.objective(text)
    _, labels = example()
    prepared = objective.prepare(labels, OFFSETS)
    # Scores that move a little, a lot, and that turn the order round, with ties.
    first = example(0)[0]
    for round, scores in enumerate([first, first + 0.01, example(1)[0], -first, np.round(first), np.zeros_like(first)]):
        again, fresh = prepared(scores, stream(round)), objective(scores, labels, OFFSETS, stream(round))
        for one, other in zip(again, fresh, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("text", ALL)
def test_a_mini_batch_equals_an_objective_prepared_for_it(text):
    objective = rw.objective(text)
    scores, labels = example(4)
    prepared = objective.prepare(labels, OFFSETS)
    full = prepared(scores, stream())
    for queries in (np.array([5, 2, 7, 0]), np.arange(2, 6), np.array([3])):
        rows = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in queries])
        actual = prepared.take(queries)(scores[rows], rw.Stream(5, 0, IDS[queries]))
        np.testing.assert_array_equal(actual.value, full.value[queries])
        for name in ("gradient", "hessian", "numerator"):
            np.testing.assert_array_equal(getattr(actual, name), getattr(full, name)[rows])
    twice = prepared.take(np.array([5, 2, 7, 0])).take(np.array([2, 1]))
    rows = np.concatenate([np.arange(OFFSETS[q], OFFSETS[q + 1]) for q in (7, 2)])
    np.testing.assert_array_equal(twice(scores[rows], rw.Stream(5, 0, IDS[[7, 2]])).gradient, full.gradient[rows])


@pytest.mark.parametrize("text", ALL)
def test_the_hessian_can_be_left_out(text):
    objective = rw.objective(text)
    scores, labels = example(5)
    prepared = objective.prepare(labels, OFFSETS)
    full, part = prepared(scores, stream()), prepared(scores, stream(), hessian=False)
    assert part.hessian.size == 0
    assert part.numerator is part.gradient
    for name in ("value", "gradient"):
        one, other = getattr(part, name), getattr(full, name)
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-13 * max(1.0, np.abs(other).max()))


@pytest.mark.parametrize("text", ["lambdarank", "xendcg", "stochastic(ranknet, samples=2)", "plrank(samples=5)"])
def test_threads_may_share_it(text):
    data = rw.synthetic(n_queries=60, n_features=2, n_docs=40, seed=1)
    prepared = rw.objective(text).prepare(data.labels, data.offsets)
    scores = [np.random.default_rng(k).normal(size=data.n_docs) for k in range(24)]
    alone = [prepared(one, rw.Stream(0)).gradient.copy() for one in scores]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        actual = list(pool.map(lambda one: prepared(one, rw.Stream(0)).gradient.copy(), scores))
    for one, other in zip(actual, alone, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_number_of_scores_is_checked():
    prepared = rw.objectives.ListNet().prepare([1, 0, 1], [0, 2, 3])
    with refusal(what="scores must be one number per document", got="shape (2,) of float64 for 3 documents"):
        prepared([1.0, 2.0])


def test_calls_do_not_start_threads_of_blas():
    # They go on spinning for a while after a product of long arrays, on a core that a tree learner needs.
    source = Path(rw.__file__).parent
    for path in [*(source / "objectives").glob("*.py"), *source.glob("*.py")]:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        assert not any(isinstance(node, ast.MatMult) for node in ast.walk(tree)), path
        products = {"np.dot", "np.vdot", "np.inner", "np.einsum", "np.matmul"}
        assert not {ast.unparse(node) for node in ast.walk(tree) if isinstance(node, ast.Attribute)} & products, path


# Streams are told apart by names.


def test_streams_of_all_purposes_differ():
    source = Path(rw.__file__).parent
    purposes = set()
    for path in source.rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        purposes |= {(path.name, name) for name in re.findall(r'\.child\("(\w+)"', text)}
        assert not re.search(r"\.child\((?!\"|purpose)", text), f"{path} has a stream without a name"
    names = {name for _, name in purposes}
    assert {"order", "noise", "sample", "term", "dropout", "initial"} <= names
    steps = list(itertools.product(sorted(names), range(4)))
    streams = [rw.Stream(3), *(rw.Stream(3).child(*step) for step in steps)]
    streams += [one.child(*step) for one in streams[1:8] for step in steps[:40]]
    draws = np.array([one.per_query(1)[0, 0] for one in streams])
    assert np.unique(draws).size == draws.size


def test_terms_and_samples_have_streams_of_their_own():
    seen = []

    def watch(scores, labels, offsets, stream):
        seen.append(int(stream.key))
        return np.zeros(len(offsets) - 1), np.zeros_like(scores), np.ones_like(scores)

    objective = rw.objectives.stochastic(
        rw.objective(watch) + 2.0 * rw.objectives.weighted(rw.objective(watch)), samples=3
    ) + recording_sum(watch)
    scores, labels = example()
    objective(scores, labels, OFFSETS, stream())
    assert len(seen) == len(set(seen)) == 3 * 2 + 5
    seen.append(int(stream().child("order").key))  # of the batches
    assert len(seen) == len(set(seen))


def recording_sum(function):
    return sum((rw.objective(function) * k for k in range(2, 6)), start=rw.objective(function) * 1.5)


# Functions.


def squares(scores, labels, offsets):
    return scores - labels, np.ones_like(scores)


def squares_with_values(scores, labels, offsets):
    gradient = scores - labels
    return np.add.reduceat(0.5 * gradient**2, offsets[:-1]), gradient, np.ones_like(scores)


@pytest.mark.parametrize("function", [squares, squares_with_values])
def test_functions_are_objectives(function):
    scores, labels = example()
    actual = (0.5 * rw.objective(function) + 0.5 * rw.objective(function))(scores, labels, OFFSETS)
    np.testing.assert_allclose(actual.gradient, scores - labels)
    np.testing.assert_array_equal(actual.hessian, 1.0)
    assert np.isnan(actual.value).all() == (function is squares)
    mixed = 0.5 * rw.objective(function) + rw.objectives.ListNet()
    assert repr(mixed) == f"0.5*{function.__name__} + listnet"
    part = rw.objective(function).prepare(labels, OFFSETS).take(np.array([4, 2]))
    rows = np.r_[OFFSETS[4] : OFFSETS[5], OFFSETS[2] : OFFSETS[3]]
    np.testing.assert_array_equal(part(scores[rows]).gradient, (scores - labels)[rows])


@pytest.mark.parametrize("returned", [None, 3.0, ([1.0],), np.zeros(2), ([1.0, 2.0], [1.0]), (["a", "b"], ["c", "d"])])
def test_wrong_results_of_a_function_are_errors(returned):
    with refusal(what="the objective <lambda> did not return derivatives", hint="…(gradient, hessian)…"):
        rw.objective(lambda scores, labels, offsets: returned)([0.0, 1.0], [0, 1], [0, 2])


@pytest.mark.parametrize("thing", [5, None, rw.objectives.ListNet, [squares]])
def test_only_objectives_are_objectives(thing):
    refuses(lambda: rw.objective(thing), what="an objective is an object, an expression or a function")


def test_a_function_without_a_value_is_no_loss_of_torch():
    torch = pytest.importorskip("torch")
    with refusal(what="squares returns no value, which a loss needs", hint="…(value, gradient, hessian)"):
        rw.torch_loss(squares)(torch.zeros(3), [0, 1, 1], [0, 2, 3])


def test_unknown_columns_of_a_function_are_rejected():
    with refusal(what="squares takes no document_weights"):
        rw.objective(squares)([0.0, 1.0], [0, 1], [0, 2], document_weights=[1.0, 2.0])

    def weighing(scores, labels, offsets, stream=None, document_weights=None):
        return document_weights * (scores - labels), document_weights

    actual = rw.objectives.stochastic(rw.objective(weighing), scale=0.0)(
        [0.0, 1.0], [0, 3], [0, 2], rw.Stream(0), document_weights=[1.0, 2.0]
    )
    np.testing.assert_array_equal(actual.gradient, [0.0, -4.0])
    assert len(SIZES) == len(IDS)
