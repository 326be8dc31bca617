"""Losses of torch by device kernels: nothing travels, whatever is taken, and what has no kernel still works."""

import warnings

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.objectives import prepared
from rankwise.objectives import ragged as cpu_lists
from tests.objectives.device.devices import DEVICE, Lists

FEW = ["softmax_ce", "approx_ndcg", "stochastic(lambdarank, samples=2)", "0.7*xendcg + 0.3*ranknet"]


@pytest.fixture(autouse=True)
def by_kernels(monkeypatch):
    """In the interpreter the CPU is the device."""
    monkeypatch.setattr(prepared, "KERNEL_DEVICES", {DEVICE.type})


@pytest.fixture(scope="module")
def lists():
    return Lists([1, 4, 9, 30, 2])


@pytest.fixture
def no_copies(monkeypatch):
    """The CPU prepares, and is asked nothing more."""

    def refuse(*_: object) -> None:
        raise AssertionError("the CPU was asked")

    monkeypatch.setattr(cpu_lists.RaggedLists, "checked_scores", refuse)


def tensor(values, dtype=torch.float32):
    return torch.tensor(values, dtype=dtype, device=DEVICE).requires_grad_(True)


def expected(text, lists, queries=None):
    """Value and gradient of the definition."""
    queries = np.arange(lists.n_queries) if queries is None else queries
    rows = np.concatenate([np.arange(lists.offsets[q], lists.offsets[q + 1]) for q in queries])
    part = rw.objective(text).prepare(lists.labels, lists.offsets).take(queries)
    return rows, part(lists.scores[rows], lists.stream.take(queries, lists.n_queries))


@pytest.mark.parametrize("text", FEW)
def test_value_and_gradient(lists, text, request):
    _, reference = expected(text, lists)
    request.getfixturevalue("no_copies")
    weights = np.array([1.0, 0.5, 2.0, 0.0, 3.0])
    scores = tensor(lists.scores)
    value = rw.torch_loss(text, "none")(scores, lists.labels, lists.offsets, weights, lists.stream)
    value.sum().backward()
    assert value.device == scores.device
    np.testing.assert_allclose(value.detach().cpu(), weights * reference.value, rtol=1e-5, atol=1e-6)
    wanted_gradient = np.repeat(weights, np.diff(lists.offsets)) * reference.gradient
    np.testing.assert_allclose(scores.grad.cpu(), wanted_gradient, rtol=0.0, atol=1e-5 * np.abs(wanted_gradient).max())


@pytest.mark.parametrize("text", FEW)
def test_batches(lists, text, request):
    first, second = np.array([3, 1, 2]), np.array([1, 0])
    rows, reference = expected(text, lists, first[second])
    request.getfixturevalue("no_copies")
    part = rw.torch_loss(text, "none").prepare(lists.labels, lists.offsets).take(first).take(second)
    stream = lists.stream.take(first[second], lists.n_queries)
    for dtype, tolerance in ((torch.float32, 1e-5), (torch.float64, 1e-11), (torch.float32, 1e-5)):
        scores = tensor(lists.scores[rows], dtype)
        value = part(scores, stream=stream)
        value.sum().backward()
        assert value.dtype == scores.grad.dtype == dtype
        np.testing.assert_allclose(value.detach().cpu(), reference.value, rtol=tolerance)
        limit = tolerance * np.abs(reference.gradient).max()
        np.testing.assert_allclose(scores.grad.cpu(), reference.gradient, rtol=0.0, atol=limit)


def test_half_precision_is_widened(lists, no_copies):
    scores = tensor(lists.scores, torch.bfloat16)
    value = rw.torch_loss("softmax_ce")(scores, lists.labels, lists.offsets)
    value.backward()
    assert value.dtype == torch.float32
    assert scores.grad.dtype == torch.bfloat16


def test_scores_in_strides(lists, no_copies):
    wide = torch.tensor(np.stack((lists.scores, lists.labels), 1), dtype=torch.float32, device=DEVICE)
    loss = rw.torch_loss("softmax_ce").prepare(lists.labels, lists.offsets)
    assert loss(wide[:, 0]) == loss(wide[:, 0].contiguous())


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("text", ["softmax_ce", "lambdarank"])
def test_scores_that_are_not_finite_give_nan(lists, text, bad, no_copies):
    scores = tensor(np.where(np.arange(lists.scores.size) == 7, bad, lists.scores))
    assert rw.torch_loss(text)(scores, lists.labels, lists.offsets).isnan()


def test_scores_beyond_the_largest_count_as_the_largest_as_on_the_cpu(lists):
    scores = np.where(np.arange(lists.scores.size) % 2, 1e30, -1e30)
    expected = rw.objective("ranknet")(scores, lists.labels, lists.offsets).value.mean()
    assert expected > 1e14
    value = rw.torch_loss("ranknet")(tensor(scores), lists.labels, lists.offsets)
    assert value.item() == pytest.approx(expected, rel=1e-5)


def test_a_loss_is_copied_to_a_device_once(lists, monkeypatch):
    calls, to = [], prepared.Prepared.to

    def counted(self, device, dtype):
        calls.append((device, dtype))
        return to(self, device, dtype)

    monkeypatch.setattr(prepared.Prepared, "to", counted)
    full = rw.torch_loss("softmax_ce").prepare(lists.labels, lists.offsets)
    full(torch.zeros(lists.labels.size, device=DEVICE))
    for batch in (np.array([0, 1]), np.array([2]), np.array([4, 3])):
        sizes = np.diff(lists.offsets)[batch]
        full.take(batch)(torch.zeros(int(sizes.sum()), device=DEVICE))
    assert calls == [(DEVICE, torch.float32)]


def squares(scores, labels, offsets):
    value = np.add.reduceat(np.square(scores - labels), offsets[:-1])
    return value, 2.0 * (scores - labels), np.full(scores.size, 2.0)


@pytest.mark.parametrize("objective", [squares, 0.5 * rw.objective(squares) + rw.objectives.SoftmaxCE()])
def test_a_function_goes_through_the_cpu(lists, objective):
    scores = tensor(lists.scores)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # on a device that is not the CPU it is said once
        value = rw.torch_loss(objective, "sum")(scores, lists.labels, lists.offsets)
    value.backward()
    reference = rw.objective(objective)(lists.scores, lists.labels, lists.offsets)
    np.testing.assert_allclose(value.item(), reference.value.sum(), rtol=1e-5)
    np.testing.assert_allclose(scores.grad.cpu(), reference.gradient, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "text", [*FEW, "plrank(samples=2)", "yeti", "clickwise(xendcg)", "approx_ndcg(kernel=laplace)"]
)
def test_no_lists_at_all(lists, text):
    nothing = rw.torch_loss(text).prepare(lists.labels, lists.offsets).take(np.array([], int))
    scores = tensor([])
    value = nothing(scores)
    value.backward()
    assert value.item() == 0.0
    assert scores.grad.shape == (0,)
