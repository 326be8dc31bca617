"""What torch expects of a loss: precision, graphs, memory, compilers, modules."""

import copy
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.objectives.ragged import Derivatives
from tests.objectives.test_objectives import OFFSETS, SIZES, stream
from tests.objectives.test_torch_loss import FEW, WEIGHTS, example_tensors
from tests.refusals import refusal


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("text", FEW)
def test_lower_precision(text, dtype):
    scores, labels, offsets = example_tensors(dtype)
    exact = rw.objective(text)(scores.detach().double().numpy(), labels.numpy(), OFFSETS, stream())
    loss = rw.torch_loss(text)(scores, labels, offsets, stream=stream())
    loss.backward()
    assert loss.dtype == torch.float32
    assert scores.grad.dtype == dtype
    assert loss.item() == pytest.approx(exact.value.mean(), rel=1e-6)
    # Rounded once, at the end: half a unit in the last place.
    expected = exact.gradient / len(SIZES)
    np.testing.assert_allclose(scores.grad.double(), expected, rtol=0.51 * torch.finfo(dtype).eps + 1e-7, atol=1e-7)


@pytest.mark.parametrize("kind", [torch.int8, torch.int32, torch.int64, torch.float16, torch.bfloat16, torch.float32])
def test_labels_and_offsets_of_any_kind(kind):
    scores, labels, _ = example_tensors()
    expected = rw.torch_loss("ranknet")(scores, labels.numpy().tolist(), OFFSETS.tolist())
    actual = rw.torch_loss("ranknet")(scores, labels.to(kind), torch.tensor(OFFSETS, dtype=torch.int32))
    assert actual.item() == expected.item()


def test_two_forwards_before_one_backward():
    # The gradient of each forward pass is its own array, until its backward pass.
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("approx_ndcg", "sum")
    first = loss(scores, labels, offsets)
    for spread in range(2, 12):
        loss(scores.detach() * spread, labels, offsets)
    second = loss(2.0 * scores, labels, offsets)
    (first + second).backward()
    own = scores.detach().numpy()
    one, two = (rw.objectives.ApproxNDCG()(own * k, labels.numpy(), OFFSETS).gradient for k in (1.0, 2.0))
    np.testing.assert_allclose(scores.grad, one + 2.0 * two, atol=1e-14)


def test_the_same_loss_twice_and_backward_twice():
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("ranknet")(scores, labels, offsets)
    (once,) = torch.autograd.grad(loss, scores, retain_graph=True)
    (twice,) = torch.autograd.grad(loss + loss, scores, retain_graph=True)
    np.testing.assert_array_equal(twice, 2.0 * once)
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_array_equal(scores.grad, twice)


def test_labels_and_weights_are_read_at_once():
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    actual = loss(scores, labels, offsets)
    labels.zero_()
    offsets.zero_()
    actual.backward()
    np.testing.assert_array_equal(scores.grad, expected)


def test_without_gradients():
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("ranknet")
    expected = loss(scores, labels, offsets)
    assert expected.requires_grad
    with torch.no_grad():
        actual = [loss(scores, labels, offsets)]
    with torch.inference_mode():
        actual.append(loss(scores * 1.0, labels, offsets))
    actual += [loss(scores.detach(), labels, offsets), loss(scores.detach().numpy(), labels, offsets)]
    for one in actual:
        assert one == expected
        assert not one.requires_grad


def test_functional_gradients():
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    grades = labels.numpy()
    actual = torch.func.grad(lambda s: loss(s, grades, OFFSETS))(scores.detach())
    np.testing.assert_array_equal(actual, expected)


def test_differentiating_twice_is_an_error():
    scores, labels, offsets = example_tensors()
    weights: Any = torch.tensor(WEIGHTS, requires_grad=True)
    loss = rw.torch_loss("ranknet")(scores, labels, offsets, weights)
    (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
    for source in (scores, weights):
        with refusal(what="the loss of an objective can be differentiated once", hint="…create_graph…"):
            torch.autograd.grad(gradient.square().sum(), source, retain_graph=True)


def test_a_data_sets_own_columns():
    # They cannot be written, which torch would warn of.
    data = rw.synthetic(n_queries=3, n_docs=4, seed=0)
    data = rw.RankingDataset(data.features, data.labels, data.offsets, weights=[1.0, 2.0, 3.0])
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    assert not data.labels.flags.writeable
    actual = rw.torch_loss("ranknet", "none")(scores, data.labels, data.offsets, data.weights)
    expected = rw.objectives.RankNet()(scores, data.labels, data.offsets).value * [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(actual, expected)


def test_strided_scores():
    # A column of a matrix lies in steps.
    scores, labels, offsets = example_tensors()
    matrix = torch.stack([scores.detach(), scores.detach()], 1).requires_grad_(True)
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    loss(matrix[:, 0], labels, offsets).backward()
    np.testing.assert_array_equal(matrix.grad, torch.stack([expected, torch.zeros_like(expected)], 1))


def test_nested_tensors_bring_their_offsets():
    scores, labels, _ = example_tensors()
    nested: Any = torch.nested.nested_tensor_from_jagged(scores, torch.tensor(OFFSETS))
    loss = rw.torch_loss("ranknet")
    assert loss(nested.values(), labels, nested.offsets()) == loss(scores, labels, OFFSETS)


def test_memory_is_shared():
    seen: dict[str, Any] = {}

    def objective(scores, labels, offsets, stream=None):
        seen.update(scores=scores, labels=labels)
        return Derivatives(np.zeros(1), gradient, gradient, gradient)

    gradient = np.arange(3.0)
    scores: Any = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    labels = torch.tensor([1.0, 0.0, 0.0])
    loss = rw.torch_loss(objective, "sum")(scores, labels, [0, 3])
    assert seen["scores"].ctypes.data == scores.data_ptr()
    assert not seen["scores"].flags.writeable  # a careless objective cannot change a model's output
    gradient *= 2.0  # nor what it changes later the gradient
    loss.backward()
    np.testing.assert_array_equal(scores.grad, [0.0, 1.0, 2.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models(backend):
    torch.manual_seed(0)
    data = rw.synthetic(n_queries=5, n_features=4, n_docs=6, seed=0)
    features, labels = torch.tensor(data.features), torch.tensor(data.labels)
    net = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.Tanh(), torch.nn.Linear(3, 1))
    loss = rw.torch_loss("approx_ndcg")

    def step(net):
        scores = net(features).squeeze(-1)
        ragged = loss(2.0 * scores, labels, data.offsets, weights=torch.ones(5))
        return ragged + loss.padded(scores[None], labels[None], torch.ones(1, scores.numel(), dtype=torch.bool))

    def gradients(step):
        own = copy.deepcopy(net)
        step(own).backward()
        return [p.grad for p in own.parameters()]

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the compiler's own
        full = gradients(torch.compile(step, backend=backend))
        part = gradients(lambda own: step(torch.compile(own, backend=backend)))
        torch._dynamo.reset()
    for ours, compiled, around in zip(gradients(step), full, part, strict=True):
        np.testing.assert_allclose(compiled, ours, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(around, ours, rtol=1e-4, atol=1e-6)


def test_it_is_a_module():
    loss = rw.torch_loss("stochastic(xendcg, samples=4)", "sum")
    assert repr(loss) == "TorchLoss(stochastic(xendcg, samples=4), reduction='sum')"
    assert isinstance(loss, torch.nn.Module)
    assert list(loss.state_dict()) == ["_extra_state"]  # seed and step, and no weights
    assert copy.deepcopy(loss).objective == loss.objective


def test_a_net_learns():
    data = rw.synthetic(n_queries=30, n_features=8, n_docs=10, seed=1)
    torch.manual_seed(0)
    features = torch.nn.functional.layer_norm(torch.tensor(data.features).abs().log1p(), (8,))
    net = torch.nn.Linear(8, 1)
    loss, optimizer = rw.torch_loss("stochastic(approx_ndcg)"), torch.optim.Adam(net.parameters(), lr=0.05)
    history = []
    for epoch in range(30):
        optimizer.zero_grad()
        actual = loss(net(features).squeeze(-1), data.labels, data.offsets, stream=data.stream(seed=0).at(epoch))
        actual.backward()
        optimizer.step()
        history.append(actual.item())
    assert history[-1] < history[0] - 0.05
