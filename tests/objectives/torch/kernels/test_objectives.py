"""Device kernels, pinned to the definition on the CPU: value, gradient and Hessian of every objective and wrapper."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.test_objectives import ALL, PLAIN
from tests.objectives.torch.kernels.devices import DEVICE, TOLERANCE, Lists, assert_same, on_device

from rankwise.objectives.torch.kernels.placed import NoDeviceKernelError  # isort: skip
from rankwise.objectives.torch.kernels.table import place  # isort: skip

SIZES = [1, 2, 3, 5, 40, 1, 6, 70]


@pytest.fixture(scope="module")
def lists():
    made = Lists(SIZES)
    made.labels[made.offsets[3] : made.offsets[4]] = 2.0  # all equal
    made.labels[made.offsets[6] : made.offsets[7]] = 0.0  # nothing relevant
    return made


@pytest.mark.parametrize("text", ALL)
def test_the_numbers_are_those_of_the_cpu(lists, text):
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets, lists.stream)
    found = on_device(text, lists)
    assert_same(found, expected, TOLERANCE[torch.float32])
    without = on_device(text, lists, hessian=False)
    assert without.hessian is None
    assert torch.equal(without.value, found.value)
    assert torch.equal(without.gradient, found.gradient)  # also: results repeat bit for bit


@pytest.mark.parametrize("text", PLAIN)
def test_double_precision(lists, text):
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets, lists.stream)
    assert_same(on_device(text, lists, torch.float64), expected, TOLERANCE[torch.float64])


@pytest.mark.parametrize("text", PLAIN)
def test_extreme_scores(lists, text):
    # ±4000, far beyond where an exponential of single precision overflows
    rng = np.random.default_rng(1)
    for scores in (
        rng.permutation(lists.scores.size) * 8000.0 / lists.scores.size - 4000.0,
        np.zeros_like(lists.scores),
    ):
        scores = scores.astype(np.float32).astype(float)
        expected = rw.objective(text)(scores, lists.labels, lists.offsets, lists.stream)
        assert_same(on_device(text, lists, scores=scores), expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize("text", ALL)
def test_taken_lists(lists, text):
    # In another order, one of them twice: as a net with several members takes them.
    queries = np.array([4, 0, 6, 4, 3])
    rows = np.concatenate([np.arange(lists.offsets[q], lists.offsets[q + 1]) for q in queries])
    prepared = rw.objective(text).prepare(lists.labels, lists.offsets)
    stream = lists.stream.take(queries, lists.n_queries)
    expected = prepared.take(queries)(lists.scores[rows], stream)
    whole = lists.on_device()
    taken = place(prepared, whole, torch.float64).take(whole.take(queries))
    found = taken(torch.tensor(lists.scores[rows], device=DEVICE), stream, hessian=True)
    assert_same(found, expected, TOLERANCE[torch.float64])


@pytest.mark.parametrize("treatment", ["absolute", "floored", "ones", "gradient"])
def test_curvature(lists, treatment):
    text = f"approx_ndcg(curvature={treatment})"
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets)
    assert_same(on_device(text, lists, torch.float64), expected, TOLERANCE[torch.float64])


@pytest.mark.parametrize("text", ["softmax_ce", "xendcg", "lambdarank", "lambdarank(metric=map)", "clickwise(ranknet)"])
def test_document_weights(lists, text):
    weights = np.random.default_rng(2).random(lists.scores.size) + 0.5
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets, lists.stream, document_weights=weights)
    assert_same(on_device(text, lists, document_weights=weights), expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize("text", ["xendcg(epsilon=0.5)", "approx_ndcg", "lambdarank", "smooth_ap"])
def test_long_lists(text):
    lists = Lists([1, 1000, 300] if text != "xendcg(epsilon=0.5)" else [3000, 1], gap=0.002)
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets, lists.stream)
    assert_same(on_device(text, lists), expected, TOLERANCE[torch.float32])


def test_a_function_is_left_to_the_cpu(lists):
    prepared = rw.objective(lambda scores, labels, offsets: (scores, scores)).prepare(lists.labels, lists.offsets)
    with pytest.raises(NoDeviceKernelError):
        place(prepared, lists.on_device(), torch.float32)
