"""Tensors of other devices: they are copied to the CPU and back, unless there are kernels."""

import dataclasses
import runpy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

import rankwise as rw
from rankwise.objectives import autograd, prepared
from tests.objectives.test_objectives import ALL, stream
from tests.objectives.test_torch_loss import MASK, WEIGHTS, example_tensors, pad


class FakeDeviceTensor(torch.Tensor):
    """A tensor of a device that does not exist: its numbers are on the CPU, but only a copy brings them back.

    It calls itself ``meta``, the one foreign device that torch has everywhere. As on a real device, tensors of the
    CPU cannot be mixed in, and arrays cannot share its memory.
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
        actual = function(*tree_map(cls.bare, args), **tree_map(cls.bare, kwargs))
        return tree_map(lambda a: cls(a) if away and isinstance(a, torch.Tensor) else a, actual)

    @classmethod
    def bare(cls, value):
        return value.inside if isinstance(value, cls) else value


class FakeDeviceMode(TorchDispatchMode):
    """A mode in which ``.to("meta")`` copies to the device that does not exist."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return FakeDeviceTensor.__torch_dispatch__(function, types, args, kwargs)


@pytest.fixture
def device(monkeypatch):
    monkeypatch.setattr(autograd, "_warned", set())
    with FakeDeviceMode():
        yield "meta"


COPIES = "softmax_ce has no kernel for the device 'meta': scores are copied to the CPU and gradients back"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_gradients_come_back_to_the_device_of_the_scores(device, dtype):
    cpu_scores, labels, offsets = example_tensors(dtype)
    loss = rw.torch_loss("softmax_ce")
    expected = loss(cpu_scores, labels, offsets, WEIGHTS)
    expected.backward()
    for columns in ([labels, offsets], [labels.to(device), offsets.to(device)]):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            device_scores = cpu_scores.detach().to(device).requires_grad_(True)
            actual = loss(device_scores, *columns, torch.tensor(WEIGHTS).to(device))
        actual.backward()
        assert actual.device.type == device_scores.grad.device.type == "meta"
        assert actual.dtype == expected.dtype
        assert device_scores.grad.dtype == dtype
        np.testing.assert_array_equal(device_scores.grad.inside.double(), cpu_scores.grad.double())
        assert actual.inside == expected
        padded = loss.padded(*(pad(x, 0.0).to(device) for x in (cpu_scores, labels)), MASK.to(device), WEIGHTS)
        assert padded.inside == expected


def test_copies_are_warned_of_once(device):
    scores, labels, offsets = example_tensors()
    with pytest.warns(UserWarning, match=COPIES):
        rw.torch_loss("softmax_ce")(scores.detach().to(device), labels, offsets)
    rw.torch_loss("softmax_ce")(scores.detach().to(device), labels, offsets)
    rw.torch_loss("ranknet")(scores.detach().to(device), labels, offsets)


def test_without_triton_the_warning_names_it(device, monkeypatch):
    monkeypatch.setattr(prepared, "KERNEL_DEVICES", {"meta"})
    monkeypatch.setattr(prepared, "_has_triton", lambda: False)
    monkeypatch.setattr(autograd, "KERNEL_DEVICES", {"meta"})
    monkeypatch.setattr(autograd, "find_spec", lambda name: None)
    scores, labels, offsets = example_tensors()
    with pytest.warns(UserWarning, match=f"{COPIES}.*Install triton"):
        rw.torch_loss("softmax_ce")(scores.detach().to(device), labels, offsets)


def squared_error(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]), 2.0 * gap, np.full_like(gap, 2.0)


HINGE: Any = runpy.run_path(str(Path(__file__).parents[2] / "examples" / "squared_hinge.py"))["SquaredHinge"]


class WithoutKernel(HINGE):
    """A user's objective without a device kernel."""

    prepares_on_device = False

    def prepare(self, labels, offsets, **columns):
        return dataclasses.replace(super().prepare(labels, offsets, **columns), device_kernel="")


WITHOUT_KERNEL = WithoutKernel()


@pytest.mark.parametrize("inner", [WITHOUT_KERNEL, rw.objective(squared_error)])
@pytest.mark.parametrize(
    "around", [lambda inner: inner, lambda inner: 0.5 * inner + rw.objectives.SoftmaxCE(), rw.objectives.weighted]
)
def test_an_objective_without_a_kernel_is_computed_by_the_cpu_with_one_warning(device, monkeypatch, inner, around):
    pytest.importorskip("triton")
    monkeypatch.setattr(prepared, "KERNEL_DEVICES", {"meta"})
    scores, labels, offsets = example_tensors()
    loss = rw.torch_loss(around(inner))
    device_scores = scores.detach().to(device).requires_grad_(True)
    with pytest.warns(prepared.NoKernelWarning, match=r"for the device .meta.*The numbers are the same") as warned:
        actual = loss(device_scores, labels, offsets)
    loss(device_scores, labels, offsets)  # a second warning would be an error
    actual.backward()
    expected = loss(scores, labels, offsets)
    expected.backward()
    assert len(warned) == 1
    assert actual.inside == expected
    np.testing.assert_array_equal(device_scores.grad.inside, scores.grad)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU of NVIDIA")
@pytest.mark.parametrize("objective", [*ALL, WITHOUT_KERNEL, rw.objective(squared_error)], ids=str)
def test_cuda(objective):
    cpu_scores, labels, offsets = example_tensors(torch.float32)
    scores = cpu_scores.detach().cuda().requires_grad_(True)
    weights: Any = torch.tensor(WEIGHTS, device="cuda", requires_grad=True)
    loss = rw.torch_loss(objective)
    expected = loss(cpu_scores, labels, offsets, WEIGHTS, stream())
    expected.backward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        actual = loss(scores, labels.cuda(), offsets.cuda(), weights, stream())
        padded = loss.padded(*(pad(x, 0.0).cuda() for x in (cpu_scores, labels)), MASK.cuda(), WEIGHTS, stream())
    actual.backward()
    assert actual.is_cuda
    assert weights.grad is not None
    np.testing.assert_allclose(scores.grad.cpu(), cpu_scores.grad, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose([actual.item(), padded.item()], expected.item(), rtol=1e-5)
