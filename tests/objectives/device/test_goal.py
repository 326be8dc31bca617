"""Several goals on a device: labels by name as tensors or arrays, and the scale of the whole data."""

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.objectives import prepared
from tests.objectives.device.devices import DEVICE, TOLERANCE, Lists, assert_same, on_device

LISTS = Lists([1, 3, 4])
GOALS = {"purchase": np.random.default_rng(3).integers(0, 3, LISTS.scores.size).astype(float)}
TEXTS = [
    "on(purchase, softmax_ce)",
    "softmax_ce + 0.3*on(purchase, softmax_ce)",
    "stochastic(on(purchase, xendcg), samples=2)",
]


@pytest.mark.parametrize("text", TEXTS)
def test_the_numbers_are_those_of_the_cpu(text):
    reference = rw.objective(text)(LISTS.scores, LISTS.labels, LISTS.offsets, LISTS.stream, more_labels=GOALS)
    assert_same(on_device(text, LISTS, torch.float64, more_labels=GOALS), reference, TOLERANCE[torch.float64])


def gradient(text, labels, goals):
    scores = torch.tensor(LISTS.scores, device=DEVICE).requires_grad_(True)
    loss = rw.torch_loss(text, "none")(
        scores, torch.tensor(labels, device=DEVICE), LISTS.offsets, None, LISTS.stream, **goals
    )
    loss.sum().backward()
    assert scores.grad is not None
    return loss.detach().cpu(), scores.grad.cpu()


def test_labels_are_prepared_on_the_device(monkeypatch):
    monkeypatch.setattr(prepared, "KERNEL_DEVICES", {DEVICE.type})
    column = torch.tensor(GOALS["purchase"], device=DEVICE)
    for values in (column, GOALS["purchase"]):  # an array is copied there
        actual = gradient(TEXTS[0], LISTS.labels, {"more_labels": {"purchase": values}})
        assert all(map(torch.equal, actual, gradient("softmax_ce", GOALS["purchase"], {})))
    reference = rw.objective(TEXTS[1])(LISTS.scores, LISTS.labels, LISTS.offsets, more_labels=GOALS)
    _, actual = gradient(TEXTS[1], LISTS.labels, {"more_labels": {"purchase": column}})
    np.testing.assert_allclose(actual, reference.gradient, atol=1e-11)
    column[4] = -1.0  # of the last list
    value, _ = gradient(TEXTS[1], LISTS.labels, {"more_labels": {"purchase": column}})
    assert value.isnan().tolist() == [False, False, True]
