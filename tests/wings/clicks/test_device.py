"""Two towers on a device: the bias and the derivatives of the CPU."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.device.devices import DEVICE, TOLERANCE, Lists, assert_same, on_device

LISTS = Lists([1, 2, 5, 12, 3])
POSITIONS = np.concatenate([np.arange(size, 0, -1) for size in (1, 2, 5, 12, 3)])


@pytest.mark.parametrize(
    ("text", "dtype", "tolerance"),
    [
        ("positioned(softmax_ce)", torch.float64, TOLERANCE[torch.float64]),
        ("positioned(xendcg, ridge=0.1)", torch.float64, TOLERANCE[torch.float64]),
        ("positioned(softmax_ce)", torch.float32, 1e-3),  # the search for b ends a step earlier or later
    ],
)
def test_the_numbers_are_those_of_the_cpu(text, dtype, tolerance):
    reference = rw.objective(text)(LISTS.scores, LISTS.labels, LISTS.offsets, LISTS.stream, positions=POSITIONS)
    assert_same(on_device(text, LISTS, dtype, positions=POSITIONS), reference, tolerance)


def test_selected_queries():
    queries = np.array([3, 1, 3])
    rows = np.concatenate([np.arange(LISTS.offsets[q], LISTS.offsets[q + 1]) for q in queries])
    prepared = rw.objective("positioned(softmax_ce)").prepare(LISTS.labels, LISTS.offsets, positions=POSITIONS)
    reference = prepared.take(queries)(LISTS.scores[rows])
    actual = prepared.to(DEVICE, torch.float64).take(queries)(torch.tensor(LISTS.scores[rows], device=DEVICE))
    assert_same(actual, reference, TOLERANCE[torch.float64])
