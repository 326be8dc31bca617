"""Objectives as losses of torch: the same numbers, the manners of torch, padded batches, other devices."""

import copy
import itertools
import subprocess
import sys
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import rankwise as rw
from rankwise.objectives import devices
from rankwise.objectives.base import Derivatives
from tests.test_objectives import ALL, DIFFERENTIABLE, OFFSETS, SIZES, example, held, stream

WEIGHTS = np.array([1.0, 0.5, 2.0, 0.0, 3.0, 1.0, 0.25, 1.5])
FEW = ["softmax_ce", "approx_ndcg", "stochastic(plrank(samples=20), samples=2)", "0.7*xendcg + 0.3*ranknet"]


def given(dtype=torch.float64) -> tuple[Any, Any, Any]:
    scores, labels = example()
    return torch.tensor(scores, dtype=dtype, requires_grad=True), torch.tensor(labels), torch.tensor(OFFSETS)


def pad(values: Any, filler: float) -> Any:
    """One row per query, written as a loop."""
    flat = torch.as_tensor(values).detach()
    rows = torch.full((len(SIZES), max(SIZES)), filler, dtype=flat.dtype)
    for q, size in enumerate(SIZES):
        rows[q, :size] = flat[OFFSETS[q] : OFFSETS[q] + size]
    return rows


MASK = torch.arange(max(SIZES)) < torch.tensor(SIZES)[:, None]


# The same numbers


@pytest.mark.parametrize("text", ALL)
def test_value_and_gradient_are_the_objectives_own(text):
    scores, labels, offsets = given()
    expected = rw.objective(text)(scores.detach().numpy(), labels.numpy(), OFFSETS, stream())
    value = rw.torch_loss(text, "none")(scores, labels, offsets, stream=stream())
    assert value.dtype == torch.float64
    assert value.shape == (len(SIZES),)
    value.sum().backward()
    np.testing.assert_array_equal(value.detach(), expected.value)
    np.testing.assert_array_equal(scores.grad, expected.gradient)


@pytest.mark.parametrize("text", DIFFERENTIABLE)
def test_gradcheck(text):
    # By numbers, through the scores and through the weights at once.
    scores, labels, offsets = given()
    loss = rw.torch_loss(held(rw.objective(text)))
    weights: Any = torch.tensor(WEIGHTS + 0.1, requires_grad=True)
    assert torch.autograd.gradcheck(
        lambda s, w: loss(s, labels, offsets, w, stream()), (scores, weights), eps=1e-5, atol=1e-5
    )


def plain_approx_ndcg(scores, labels, eta=10.0):
    above = torch.sigmoid(eta * (scores[None, :] - scores[:, None]))
    ranks = 1.0 + above.sum(1) - above.diagonal()
    gains = 2.0**labels - 1.0
    ideal = (gains.sort(descending=True).values / torch.log2(torch.arange(2.0, labels.numel() + 2.0))).sum()
    return -(gains / torch.log2(1.0 + ranks)).sum() / ideal if ideal > 0 and labels.numel() > 1 else 0.0 * scores.sum()


def plain_listnet(scores, labels):
    return -(torch.softmax(labels, 0) * torch.log_softmax(scores, 0)).sum()


def plain_softmax_ce(scores, labels):
    share = labels / labels.sum() if labels.sum() > 0 else labels
    return torch.nn.functional.cross_entropy(scores[None], share[None]) if scores.numel() > 1 else 0.0 * scores.sum()


def plain_ranknet(scores, labels):
    wins = labels[:, None] > labels[None, :]
    return torch.nn.functional.softplus(-(scores[:, None] - scores[None, :])[wins]).sum()


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("approx_ndcg", plain_approx_ndcg),
        ("listnet", plain_listnet),
        ("softmax_ce", plain_softmax_ce),
        ("ranknet", plain_ranknet),
    ],
)
def test_the_formula_written_in_torch(text, plain):
    scores, labels, offsets = given()
    ours = rw.torch_loss(text, "none")(scores, labels, offsets)
    theirs = torch.stack([plain(scores[a:b], labels[a:b]) for a, b in itertools.pairwise(OFFSETS)])
    np.testing.assert_allclose(ours.detach(), theirs.detach(), atol=1e-12)
    weights = torch.tensor(WEIGHTS)
    (ours_by_score,) = torch.autograd.grad((ours * weights).sum(), scores)
    (theirs_by_score,) = torch.autograd.grad((theirs * weights).sum(), scores)
    np.testing.assert_allclose(ours_by_score, theirs_by_score, atol=1e-12)


# Reductions and weights


def test_reductions_by_hand():
    scores: Any = torch.zeros(5, dtype=torch.float64, requires_grad=True)
    two, three = np.log(2.0), np.log(3.0)  # the cross entropy of one relevant document among equals

    def loss(reduction, weights=None):
        return rw.torch_loss("softmax_ce", reduction)(scores, [1, 0, 0, 0, 1], [0, 2, 5], weights)

    np.testing.assert_allclose(loss("none").detach(), [two, three])
    np.testing.assert_allclose(loss("none", [3.0, 1.0]).detach(), [3 * two, three])
    assert loss("sum").item() == pytest.approx(two + three)
    assert loss("sum", [3.0, 1.0]).item() == pytest.approx(3 * two + three)
    assert loss("mean").item() == pytest.approx((two + three) / 2)
    assert rw.torch_loss("softmax_ce").reduction == "mean"
    mean = loss("mean", torch.tensor([3, 1]))
    assert mean.item() == pytest.approx((3 * two + three) / 4)
    mean.backward()
    expected = [-3 / 8, 3 / 8, 1 / 12, 1 / 12, -1 / 6]  # 3/4 of ±1/2, and 1/4 of 1/3, 1/3, 1/3 − 1
    np.testing.assert_allclose(scores.grad, expected)


def test_gradients_flow_through_weights():
    scores, labels, offsets = given()
    weights: Any = torch.tensor(WEIGHTS, requires_grad=True)
    value = rw.torch_loss("ranknet", "none")(scores.detach(), labels, offsets).numpy()
    rw.torch_loss("ranknet")(scores.detach(), labels, offsets, weights).backward()
    mean = (WEIGHTS * value).sum() / WEIGHTS.sum()
    np.testing.assert_allclose(weights.grad, (value - mean) / WEIGHTS.sum(), atol=1e-14)


def test_weights_all_zero_and_no_queries_give_nothing():
    scores: Any = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = rw.torch_loss("ranknet")(scores, [1, 0], [0, 2], weights=[0.0])
    loss.backward()
    assert loss.item() == 0.0
    np.testing.assert_array_equal(scores.grad, [0.0, 0.0])


@pytest.mark.parametrize("text", ALL)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_an_empty_batch(text, reduction):
    scores: Any = torch.zeros(0, requires_grad=True)
    loss = rw.torch_loss(text, reduction)(scores, [], [0], stream=rw.Stream(0))
    loss.sum().backward()
    assert loss.shape == ((0,) if reduction == "none" else ())
    assert loss.sum() == 0.0
    assert scores.grad.shape == (0,)


def test_queries_of_one_document():
    scores: Any = torch.tensor([3.0, -2.0], requires_grad=True)
    rw.torch_loss("approx_ndcg")(scores, [1, 2], [0, 1, 2]).backward()
    np.testing.assert_array_equal(scores.grad, [0.0, 0.0])


# Padded batches


@pytest.mark.parametrize("text", FEW)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_padded_is_ragged(text, reduction):
    scores, labels, offsets = given()
    loss = rw.torch_loss(text, reduction)
    ragged = loss(scores, labels, offsets, WEIGHTS, stream())
    ragged.sum().backward()
    padded = pad(scores, np.nan).requires_grad_(True)  # what is padding is never looked at
    found = loss.padded(padded, pad(labels, -1.0), MASK, WEIGHTS, stream())
    found.sum().backward()
    np.testing.assert_array_equal(found.detach(), ragged.detach())
    np.testing.assert_array_equal(padded.grad, pad(scores.grad, 0.0))


def test_padding_anywhere_in_a_row():
    scores: Any = torch.tensor([[7.0, 0.0, 1.0], [2.0, 7.0, 3.0]], requires_grad=True)
    mask = np.array([[False, True, True], [True, False, True]])
    flat: Any = torch.tensor([0.0, 1.0, 2.0, 3.0], requires_grad=True)
    loss = rw.torch_loss("softmax_ce")
    loss(flat, [1, 0, 1, 0], [0, 2, 4]).backward()
    loss.padded(scores, [[0, 1, 0], [1, 0, 0]], mask).backward()
    np.testing.assert_array_equal(scores.grad[torch.tensor(mask)], flat.grad)
    assert scores.grad[0, 0] == scores.grad[1, 1] == 0.0


def test_columns_of_documents():
    scores, labels, offsets = given()
    chances = np.random.default_rng(1).random(OFFSETS[-1])
    expected = rw.SoftmaxCE()(scores.detach().numpy(), labels.numpy(), OFFSETS, document_weights=chances)
    loss = rw.torch_loss(rw.SoftmaxCE(), "none")
    ragged = loss(scores, labels, offsets, document_weights=torch.tensor(chances))
    padded = loss.padded(pad(scores, 0.0), pad(labels, 0.0), MASK, document_weights=pad(chances, -5.0))
    np.testing.assert_array_equal(ragged.detach(), expected.value)
    np.testing.assert_array_equal(padded, expected.value)
    rewards = torch.rand(scores.numel(), dtype=torch.bfloat16)
    found = rw.torch_loss("plrank", "none")(scores, labels, offsets, stream=stream(), document_rewards=rewards)
    own = rw.PLRank()(
        scores.detach().numpy(), labels.numpy(), OFFSETS, stream(), document_rewards=rewards.double().numpy()
    )
    np.testing.assert_array_equal(found.detach(), own.value)


# The manners of torch


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("text", FEW)
def test_lower_precision(text, dtype):
    scores, labels, offsets = given(dtype)
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
    scores, labels, _ = given()
    expected = rw.torch_loss("ranknet")(scores, labels.numpy().tolist(), OFFSETS.tolist())
    found = rw.torch_loss("ranknet")(scores, labels.to(kind), torch.tensor(OFFSETS, dtype=torch.int32))
    assert found.item() == expected.item()


def test_two_forwards_before_one_backward():
    # Objectives use their arrays again once nobody holds them: what waits for a backward pass is held.
    scores, labels, offsets = given()
    loss = rw.torch_loss("approx_ndcg", "sum")
    first = loss(scores, labels, offsets)
    for spread in range(2, 12):
        loss(scores.detach() * spread, labels, offsets)
    second = loss(2.0 * scores, labels, offsets)
    (first + second).backward()
    own = scores.detach().numpy()
    one, two = (rw.ApproxNDCG()(own * k, labels.numpy(), OFFSETS).gradient for k in (1.0, 2.0))
    np.testing.assert_allclose(scores.grad, one + 2.0 * two, atol=1e-14)


def test_the_same_loss_twice_and_backward_twice():
    scores, labels, offsets = given()
    loss = rw.torch_loss("ranknet")(scores, labels, offsets)
    (once,) = torch.autograd.grad(loss, scores, retain_graph=True)
    (twice,) = torch.autograd.grad(loss + loss, scores, retain_graph=True)
    np.testing.assert_array_equal(twice, 2.0 * once)
    loss.backward(retain_graph=True)
    loss.backward()
    np.testing.assert_array_equal(scores.grad, twice)


def test_labels_and_weights_are_read_at_once():
    scores, labels, offsets = given()
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    found = loss(scores, labels, offsets)
    labels.zero_()
    offsets.zero_()
    found.backward()
    np.testing.assert_array_equal(scores.grad, expected)


def test_without_gradients():
    scores, labels, offsets = given()
    loss = rw.torch_loss("ranknet")
    expected = loss(scores, labels, offsets)
    assert expected.requires_grad
    with torch.no_grad():
        found = [loss(scores, labels, offsets)]
    with torch.inference_mode():
        found.append(loss(scores * 1.0, labels, offsets))
    found += [loss(scores.detach(), labels, offsets), loss(scores.detach().numpy(), labels, offsets)]
    for one in found:
        assert one == expected
        assert not one.requires_grad


def test_functional_gradients():
    scores, labels, offsets = given()
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    grades = labels.numpy()
    found = torch.func.grad(lambda s: loss(s, grades, OFFSETS))(scores.detach())
    np.testing.assert_array_equal(found, expected)


def test_differentiating_twice_is_an_error():
    scores, labels, offsets = given()
    weights: Any = torch.tensor(WEIGHTS, requires_grad=True)
    loss = rw.torch_loss("ranknet")(scores, labels, offsets, weights)
    (gradient,) = torch.autograd.grad(loss, scores, create_graph=True)
    for source in (scores, weights):
        with pytest.raises(ValueError, match="the loss of an objective can be differentiated once.*create_graph"):
            torch.autograd.grad(gradient.square().sum(), source, retain_graph=True)


def test_a_data_sets_own_columns():
    # They cannot be written, which torch would warn of.
    data = rw.synthetic(n_queries=3, documents=4, seed=0)
    data = rw.RankingDataset(data.features, data.labels, data.offsets, weights=[1.0, 2.0, 3.0])
    scores = np.random.default_rng(0).normal(size=data.n_docs)
    assert not data.labels.flags.writeable
    found = rw.torch_loss("ranknet", "none")(scores, data.labels, data.offsets, data.weights)
    expected = rw.RankNet()(scores, data.labels, data.offsets).value * [1.0, 2.0, 3.0]
    np.testing.assert_array_equal(found, expected)


def test_strided_scores():
    # A column of a matrix lies in steps.
    scores, labels, offsets = given()
    matrix = torch.stack([scores.detach(), scores.detach()], 1).requires_grad_(True)
    loss = rw.torch_loss("ranknet")
    (expected,) = torch.autograd.grad(loss(scores, labels, offsets), scores)
    loss(matrix[:, 0], labels, offsets).backward()
    np.testing.assert_array_equal(matrix.grad, torch.stack([expected, torch.zeros_like(expected)], 1))


def test_nested_tensors_bring_their_offsets():
    scores, labels, _ = given()
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
    assert seen["labels"].ctypes.data == labels.data_ptr()
    assert not seen["scores"].flags.writeable  # a careless objective cannot change a model's output
    gradient *= 2.0
    loss.backward()
    np.testing.assert_array_equal(scores.grad, [0.0, 2.0, 4.0])


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_models(backend):
    torch.manual_seed(0)
    data = rw.synthetic(n_queries=5, n_features=4, documents=6, seed=0)
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
        whole = gradients(torch.compile(step, backend=backend))
        part = gradients(lambda own: step(torch.compile(own, backend=backend)))
        torch._dynamo.reset()
    for ours, compiled, around in zip(gradients(step), whole, part, strict=True):
        np.testing.assert_allclose(compiled, ours, rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(around, ours, rtol=1e-4, atol=1e-6)


def test_it_is_a_module():
    loss = rw.torch_loss("stochastic(xendcg, samples=4)", "sum")
    assert repr(loss) == "TorchLoss(stochastic(xendcg, samples=4), reduction='sum')"
    assert isinstance(loss, torch.nn.Module)
    assert not loss.state_dict()
    assert copy.deepcopy(loss).objective == loss.objective


def test_a_net_learns():
    data = rw.synthetic(n_queries=30, n_features=8, documents=10, seed=1)
    torch.manual_seed(0)
    features = torch.nn.functional.layer_norm(torch.tensor(data.features).abs().log1p(), (8,))
    net = torch.nn.Linear(8, 1)
    loss, optimizer = rw.torch_loss("stochastic(approx_ndcg)"), torch.optim.Adam(net.parameters(), lr=0.05)
    history = []
    for epoch in range(30):
        optimizer.zero_grad()
        found = loss(net(features).squeeze(-1), data.labels, data.offsets, stream=data.stream(seed=0).at(epoch))
        found.backward()
        optimizer.step()
        history.append(found.item())
    assert history[-1] < history[0] - 0.05


# Other devices


class Elsewhere(torch.Tensor):
    """A tensor of a device that is not there: its numbers lie on the processor, but only a copy brings them back.

    It calls itself ``meta``, the one foreign device that torch has everywhere. As on a real device, tensors of the
    processor cannot be mixed in, and arrays cannot share its memory.
    """

    def __new__(cls, inside):
        return torch.Tensor._make_wrapper_subclass(cls, inside.shape, dtype=inside.dtype, device=torch.device("meta"))

    def __init__(self, inside):
        self.inside = inside

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):  # type: ignore[override]
        kwargs = dict(kwargs or {})
        target = kwargs.get("device")
        tensors = [a for a in tree_leaves(args) if isinstance(a, torch.Tensor)]
        away = any(isinstance(a, cls) for a in tensors) if target is None else target.type == "meta"
        if target is not None:
            kwargs["device"] = torch.device("cpu")
        if away and function is not torch.ops.aten._to_copy.default:
            assert all(isinstance(a, cls) or a.ndim == 0 for a in tensors), f"{function} mixes devices"
        found = function(*tree_map(cls.bare, args), **tree_map(cls.bare, kwargs))
        return tree_map(lambda a: cls(a) if away and isinstance(a, torch.Tensor) else a, found)

    @classmethod
    def bare(cls, value):
        return value.inside if isinstance(value, cls) else value


class Pretend(TorchDispatchMode):
    """Inside this, ``.to("meta")`` brings numbers to the device that is not there."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return Elsewhere.__torch_dispatch__(function, types, args, kwargs)


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(devices, "_warned", set())
    with Pretend():
        yield "meta"


TRAVEL = "softmax_ce has no kernel for the device 'meta': scores travel to the CPU and gradients back"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_tensors_travel_and_come_back(device, dtype):
    here, labels, offsets = given(dtype)
    loss = rw.torch_loss("softmax_ce")
    expected = loss(here, labels, offsets, WEIGHTS)
    expected.backward()
    for columns in ([labels, offsets], [labels.to(device), offsets.to(device)]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            there = here.detach().to(device).requires_grad_(True)
            found = loss(there, *columns, torch.tensor(WEIGHTS).to(device))
        found.backward()
        assert found.device.type == there.grad.device.type == "meta"
        assert found.dtype == expected.dtype
        assert there.grad.dtype == dtype
        np.testing.assert_array_equal(there.grad.inside.double(), here.grad.double())
        assert found.inside == expected
        padded = loss.padded(*(pad(x, 0.0).to(device) for x in (here, labels)), MASK.to(device), WEIGHTS)
        assert padded.inside == expected


def test_the_travel_is_said_once(device):
    scores, labels, offsets = given()
    with pytest.warns(UserWarning, match=TRAVEL):
        rw.torch_loss("softmax_ce")(scores.detach().to(device), labels, offsets)
    rw.torch_loss("softmax_ce")(scores.detach().to(device), labels, offsets)
    rw.torch_loss("ranknet")(scores.detach().to(device), labels, offsets)


def test_a_twin_takes_over(device, monkeypatch):
    # Squares stand for a kernel: their gradient, 2s, tells that the twin was asked and nothing travelled.
    calls = []

    def twin(objective, scores, labels, offsets, stream, *, document_weights=None):
        columns = [scores, labels, offsets] + ([] if document_weights is None else [document_weights])
        assert all(isinstance(column, Elsewhere) for column in columns)
        calls.append((objective, scores.dtype, len(columns)))
        if objective.epsilon > 0.0:
            return None
        rows = [scores[a:b].square().sum() for a, b in itertools.pairwise(OFFSETS)]
        return torch.stack(rows), 2.0 * scores

    monkeypatch.setitem(devices.TWINS, (rw.SoftmaxCE, "meta"), twin)
    here, labels, offsets = given(torch.bfloat16)
    scores = here.detach().to(device).requires_grad_(True)
    loss = rw.torch_loss("softmax_ce", "sum")(scores, labels, offsets, document_weights=np.ones(scores.numel()))
    loss.backward()
    assert calls == [(rw.SoftmaxCE(), torch.float32, 4)]
    np.testing.assert_array_equal(scores.grad.inside.double(), 2.0 * here.detach().double())
    with pytest.warns(UserWarning, match="epsilon=0.5.*has no kernel for the device 'meta'"):
        found = rw.torch_loss("softmax_ce(epsilon=0.5)", "sum")(scores, labels, offsets)  # the twin gives it back
    assert len(calls) == 2
    assert found.inside == rw.torch_loss("softmax_ce(epsilon=0.5)", "sum")(here, labels, offsets)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA")
@pytest.mark.parametrize("text", ALL)
def test_cuda(text):
    here, labels, offsets = given(torch.float32)
    scores = here.detach().cuda().requires_grad_(True)
    weights: Any = torch.tensor(WEIGHTS, device="cuda", requires_grad=True)
    loss = rw.torch_loss(text)
    expected = loss(here, labels, offsets, WEIGHTS, stream())
    expected.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = loss(scores, labels.cuda(), offsets.cuda(), weights, stream())
        padded = loss.padded(*(pad(x, 0.0).cuda() for x in (here, labels)), MASK.cuda(), WEIGHTS, stream())
    found.backward()
    assert found.is_cuda
    assert weights.grad is not None
    np.testing.assert_allclose(scores.grad.cpu(), here.grad, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([found.item(), padded.item()], expected.item(), rtol=1e-5)


# Errors say what to do


def test_errors():
    scores, labels, offsets = given()
    loss = rw.torch_loss("ranknet")
    with pytest.raises(ValueError, match=r"scores must be flat.*got shape \(33, 1\).*squeeze\(-1\).*padded"):
        loss(scores[:, None], labels, offsets)
    with pytest.raises(ValueError, match="offsets must cover every row.*got 0 to 32 for 33 rows"):
        loss(scores, labels, torch.tensor([0, 32]))
    with pytest.raises(ValueError, match=r"scores must be finite: got nan at row 3 \(query number 2\)"):
        loss(scores + torch.tensor([0.0] * 3 + [np.nan] + [0.0] * 29), labels, offsets)
    with pytest.raises(ValueError, match=r"weights must be one number per query: got shape \(33,\) for 8 queries"):
        loss(scores, labels, offsets, torch.ones(33))
    with pytest.raises(ValueError, match=r"weights must be finite and not negative: got -1\.0 at query number 1"):
        loss(scores, labels, offsets, [1.0, -1.0, *[1.0] * 6])
    with pytest.raises(ValueError, match=r"unknown reduction: got 'average'. Cure: choose one of mean, sum, none"):
        rw.torch_loss("ranknet", "average")
    with pytest.raises(ValueError, match="unknown objective: got 'ranknett'.*did you mean 'ranknet'"):
        rw.torch_loss("ranknett")
    with pytest.raises(ValueError, match=r"xendcg draws random numbers and needs a stream.*rw\.Stream"):
        rw.torch_loss("xendcg")(scores, labels, offsets)
    with pytest.raises(ValueError, match="ranknet takes no document_weights"):
        loss(scores, labels, offsets, document_weights=labels)


def test_errors_of_padded_batches():
    loss = rw.torch_loss("ranknet")
    square, yes = torch.zeros(2, 3), torch.ones(2, 3, dtype=torch.bool)
    with pytest.raises(
        ValueError, match=r"labels and mask of one shape.*labels of shape \(2, 4\), mask of shape \(2, 3\)"
    ):
        loss.padded(square, torch.zeros(2, 4), yes)
    with pytest.raises(ValueError, match=r"a mask of True and False.*torch\.float32.*True where there is a document"):
        loss.padded(square, square, square)
    with pytest.raises(ValueError, match=r"every query needs at least one document: got 0 documents at query number 1"):
        loss.padded(square, square, torch.tensor([[True, True, True], [False, False, False]]))


def test_an_objective_of_ones_own_must_keep_the_shape():
    def careless(scores, labels, offsets, stream=None):
        return Derivatives(scores, scores, scores, scores)

    with pytest.raises(ValueError, match=r"an objective's value must be one number per query: got shape \(3,\) for 2"):
        rw.torch_loss(careless)(torch.zeros(3), [0, 1, 1], [0, 2, 3])

    def read_only(scores, labels, offsets, stream=None):
        value = np.broadcast_to(scores.sum(), 2)
        return Derivatives(value, np.broadcast_to(1, scores.size), scores, scores)

    scores: Any = torch.ones(3, requires_grad=True)
    loss = rw.torch_loss(read_only, "sum")(scores, [0, 1, 1], [0, 2, 3])
    loss.backward()
    assert loss == 6.0
    np.testing.assert_array_equal(scores.grad, [1.0, 1.0, 1.0])


def test_torch_is_imported_on_use_and_missed_by_name():
    code = (
        "import sys, rankwise as rw; rw.torch_loss; assert 'torch' not in sys.modules; sys.modules['torch'] = None\n"
        "try: rw.torch_loss('ranknet')\n"
        "except ImportError as missing: print(missing)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "torch is not installed. Install it with: pip install 'rankwise[torch]'"
