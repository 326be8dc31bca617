"""Fair exposure on a device: the same prices and the same derivatives, from the same rankings."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.device.devices import DEVICE, TOLERANCE, Lists, assert_same, on_device

# Triton's interpreter computes masked lanes too, of memory that nobody wrote; what is compared would show a NaN.
pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")

LISTS = Lists([1, 2, 5, 12, 3])
GROUPS = np.random.default_rng(3).integers(0, 3, LISTS.scores.size)
GROUPS[LISTS.offsets[2] : LISTS.offsets[3]] = 1  # one group alone
TEXTS = [
    "fair(plrank(samples=5, cutoff=3), weight=2.0)",
    "fair(plrank(sampler=race, samples=4, cutoff=20, draws=independent), merit=proportional)",
    "fair(softmax_ce + 0.5*plrank(sampler=race, samples=6, draws=antithetic))",
    "fair(softmax_ce, weight=0.0)",
]


@pytest.mark.parametrize(
    ("text", "dtype"),
    [*((text, torch.float64) for text in TEXTS), (TEXTS[2], torch.float32), (TEXTS[3], torch.float32)],
)
def test_the_numbers_are_those_of_the_cpu(text, dtype):
    reference = rw.objective(text)(LISTS.scores, LISTS.labels, LISTS.offsets, LISTS.stream, groups=GROUPS)
    assert_same(on_device(text, LISTS, dtype, groups=GROUPS), reference, TOLERANCE[dtype])


def test_selected_queries():
    queries = np.array([3, 1, 3])
    rows = np.concatenate([np.arange(LISTS.offsets[q], LISTS.offsets[q + 1]) for q in queries])
    prepared = rw.objective(TEXTS[0]).prepare(LISTS.labels, LISTS.offsets, groups=GROUPS)
    stream = LISTS.stream.take(queries, LISTS.n_queries)
    reference = prepared.take(queries)(LISTS.scores[rows], stream)
    moved = prepared.to(DEVICE, torch.float64).take(queries)
    actual = moved(torch.tensor(LISTS.scores[rows], device=DEVICE), stream)
    assert_same(actual, reference, TOLERANCE[torch.float64])
