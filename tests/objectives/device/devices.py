"""What tests of device kernels share: the device that they run on, and the comparison with the CPU."""

import dataclasses

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.base.arrays import offsets_of
from rankwise.objectives.base import Objective, Sum

pytest.importorskip("triton", reason="device kernels are written in Triton, which is made for Linux alone")

from rankwise.objectives.device import DeviceLists

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-11}
CPU_ONLY: set[str] = set()
"""Names of objectives without a device kernel: the CPU computes them, wherever the tensors are."""


class Lists:
    """Lists of these sizes, with labels from 0 to 4, and scores with gaps of ``gap`` and more in a random order."""

    def __init__(self, sizes, seed=0, gap=0.01) -> None:
        rng = np.random.default_rng(seed)
        self.offsets = offsets_of(np.array(sizes))
        self.n_queries, n_docs = len(sizes), int(self.offsets[-1])
        self.labels = rng.integers(0, 5, n_docs).astype(float)
        self.scores = ((rng.permutation(n_docs) - n_docs / 2) * gap).astype(np.float32).astype(float)
        self.stream = rw.Stream(5, 2, np.arange(self.n_queries) + 2**40)

    def on_device(self) -> DeviceLists:
        return DeviceLists.at(self.offsets, int(self.offsets[-1]), DEVICE, torch.float64)


def brief(text) -> Objective:
    """An objective that draws little: the interpreter is slow."""
    objective = rw.objective(text)
    if isinstance(objective, Sum):
        return Sum(tuple((factor, brief(term)) for factor, term in objective.terms))
    if isinstance(objective, rw.objectives.PLRank):
        return dataclasses.replace(objective, samples=2, cutoff=3)
    if isinstance(objective, rw.objectives.Yeti):
        return dataclasses.replace(objective, permutations=2)
    if isinstance(objective, rw.objectives.stochastic):
        return dataclasses.replace(objective, inner=brief(objective.inner), samples=2)
    inside = {"inner": brief(objective.inner)} if hasattr(objective, "inner") else {}
    return dataclasses.replace(objective, **inside) if inside else objective


def has_kernel(objective: Objective) -> bool:
    """Whether an objective, and all that is inside it, should have a device kernel."""
    return objective.name not in CPU_ONLY and all(map(has_kernel, objective.children))


def on_device(text, lists, dtype=torch.float32, scores=None, hessian=True, **columns) -> rw.objectives.Derivatives:
    """Derivatives by a device kernel, of an objective that was prepared on the CPU."""
    scores = lists.scores if scores is None else scores
    moved = rw.objective(text).prepare(lists.labels, lists.offsets, **columns).to(DEVICE, dtype)
    return moved(torch.tensor(scores, dtype=dtype, device=DEVICE), lists.stream, hessian=hessian)


def assert_same(actual: rw.objectives.Derivatives, expected: rw.objectives.Derivatives, tolerance: float) -> None:
    """Every number within ``tolerance`` of the largest of its kind."""
    for name, numbers, reference in zip(actual._fields, actual, expected, strict=True):
        if len(numbers):
            limit = tolerance * np.abs(reference).max(initial=1e-30)
            np.testing.assert_allclose(numbers.cpu().double(), reference, rtol=0.0, atol=limit, err_msg=name)
