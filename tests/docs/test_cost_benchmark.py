"""The cost model of benchmarks/speed/cost.py, on costs that are known."""

import importlib
import itertools

import numpy as np
import pytest


@pytest.fixture
def cost():
    return importlib.import_module("benchmarks.speed.cost")


def test_the_model_finds_the_costs_that_points_were_made_of(cost, monkeypatch):
    monkeypatch.setattr(cost, "DRAWS", 20)
    points = [
        {"documents": n, "features": f, "leaves": leaves, "round": 1e-9 * n * f * np.sqrt(leaves) + 2e-8 * n}
        for n, f, leaves in itertools.product((1e4, 1e5, 1e6), (30, 100), (15, 255))
    ]
    model = cost.Model(cost.of_round, points, "round")
    np.testing.assert_allclose(model.best, [0.0, 1e-9, 2e-8, 0.0], atol=1e-13)
    assert model.at(1e9, 50, 16) == pytest.approx(1e-9 * 1e9 * 50 * 4 + 20.0)
    np.testing.assert_allclose(model.draws(1e9, 50, 16), 220.0, rtol=1e-6)


def test_a_gpu_is_as_quick_as_it_was_until_its_memory_is_full(cost):
    facts = {
        "documents": 10**7,
        "trainings": {
            "on disk": {"round": 0.1, "device_bytes": 10**7 * (cost.FEATURES + 64)},
            "on disk, bins in host memory": {"round": 1.1},
        },
    }
    on_device = np.median(cost.gpu(facts, 10**8))
    assert on_device == pytest.approx(1.0, rel=0.1)  # ten times the documents
    beyond = 10**9 * (cost.FEATURES + 64) - cost.DEVICE
    bus = (cost.LEAVES - 1) * 10**7 * cost.FEATURES / 1.0
    travel = cost.gpu(facts, 10**9) - 10.0
    assert (travel > 0.9 * cost.DEPTH * beyond / bus - 2.5).all()
    assert np.isnan(cost.gpu(facts, 10**10)).all()


def test_memory_is_that_of_the_stage_that_needs_more(cost, monkeypatch):
    monkeypatch.setattr(cost, "DRAWS", 5)
    points = []
    for n, f, leaves in itertools.product((2e4, 2e5, 1e6), (30, 100), (15, 255)):
        sample = float(cost.sample(np.array(n)))
        most = max(17.0 * sample * f, n * f + 100.0 * n + 2500.0 * f * leaves)
        points.append({"documents": n, "features": f, "leaves": leaves, "bytes": most})
    model = cost.Model(cost.of_memory, points, "bytes")
    np.testing.assert_allclose(model.best, [17.0, 100.0, 2500.0], rtol=1e-6)
    assert model.at(1e9, 136, 31) == pytest.approx(1e9 * 236 + 2500.0 * 136 * 31)
