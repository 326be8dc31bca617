"""Trees that are grown on a device: derivatives never leave it. Triton's interpreter stands for the device here."""

from typing import Any

import numpy as np
import pytest
import torch
import xgboost as xgb

import rankwise as rw
from rankwise.objectives import prepared
from rankwise.objectives.ragged import Derivatives
from rankwise.rankers.trees.newton import newton, newton_on_device
from rankwise.rankers.trees.protocol import Settings
from rankwise.rankers.trees.xgboost.ranker import XGBoost

pytest.importorskip("triton", reason="device kernels are written in Triton, which is made for Linux alone")

from rankwise.rankers.trees.device_newton import DeviceNewton
from tests.refusals import refusal, refuses

DEVICE = "cuda:0" if torch.cuda.is_available() else "cpu"
LABELS, OFFSETS = np.array([2.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0, 3.0, 0.0]), np.array([0, 4, 6, 9])


@pytest.fixture(autouse=True)
def device(monkeypatch):
    monkeypatch.setattr(prepared, "KERNEL_DEVICES", {torch.device(DEVICE).type})
    with np.errstate(all="ignore"):
        yield


def there(objective="lambdarank", *, weights=None, floor=True) -> DeviceNewton:
    found = newton_on_device(
        rw.objective(objective).prepare(LABELS, OFFSETS), DEVICE, weights=weights, floor_hessian=floor
    )
    assert found is not None
    return found


@pytest.mark.parametrize("floor", [True, False])
@pytest.mark.parametrize("weights", [None, np.array([2.0, 0.0, 0.5])])
def test_the_rules_are_those_of_the_cpu(floor, weights):
    gradient = np.array([1.0, -2.0, 0.0, 1e-12, 3.0, -3.0, 0.0, 0.0, 0.0])
    hessian = np.array([0.5, -0.25, -1.0, 1e-9, 0.0, 0.0, 0.0, 0.0, 2.0])
    expected = newton(
        Derivatives(np.zeros(3), gradient, hessian, gradient), OFFSETS, None, weights, floor_hessian=floor
    )
    slopes, curves = (torch.tensor(part, dtype=torch.float32, device=DEVICE) for part in (gradient, hessian))
    found = there(weights=weights, floor=floor)._newton(Derivatives(slopes, slopes, curves, slopes))
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=1e-6)


def test_objectives_give_what_they_give_on_the_cpu():
    weights, scores = np.array([2.0, 1.0, 0.5]), np.linspace(-1.0, 1.0, 9)[[3, 1, 8, 0, 2, 7, 5, 4, 6]]
    for objective in ("lambdarank", "approx_ndcg", "xendcg", "softmax_ce(newton=diagonal)", "0.5*ranknet + smooth_ap"):
        stream = rw.Stream(3, 1)
        value, numerator, hessian = there(objective, weights=weights)(scores, stream)
        derivatives = rw.objective(objective)(scores, LABELS, OFFSETS, stream)
        expected = newton(derivatives, OFFSETS, None, weights)
        np.testing.assert_allclose(value, derivatives.value, rtol=1e-5, atol=1e-6)
        for one, other in zip((numerator, hessian), expected, strict=True):
            np.testing.assert_allclose(one.cpu().numpy(), other, rtol=2e-4, atol=2e-5 * np.abs(other).max())


@pytest.mark.parametrize("objective", ["listnet", "softmax_ce", "softmax_ce(epsilon=0.5)", "xendcg(gamma=tight)"])
@pytest.mark.parametrize("ahead", [0.0, 30.0, 4000.0])
def test_the_three_terms_of_the_softmax_family_are_those_of_the_cpu(objective, ahead):
    labels, offsets = np.append(LABELS, 1.0), np.append(OFFSETS, 10)  # and a list of one document
    scores = np.linspace(-1.0, 1.0, 10)[[3, 1, 8, 0, 2, 7, 5, 4, 6, 9]]
    scores[[2, 8]] += ahead
    whole = rw.objective(objective).prepare(labels, offsets)
    found = newton_on_device(whole, DEVICE)
    assert found is not None
    expected = newton(whole(scores, rw.Stream(0)), offsets)
    for one, other in zip(found(scores, rw.Stream(0))[1:], expected, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=2e-4, atol=2e-5 * np.abs(other).max())


@pytest.mark.parametrize(
    "objective",
    ["2*xendcg", "stochastic(softmax_ce, samples=2)", "weighted(listnet)", "0.5*softmax_ce + ranknet", "distil"],
)
def test_the_three_terms_come_through_sums_and_wrappers(objective):
    scores, columns = np.linspace(-1.0, 1.0, 9)[[3, 1, 8, 0, 2, 7, 5, 4, 6]], {}
    if objective == "distil":
        columns["teacher_scores"] = scores[::-1]
    whole = rw.objective(objective).prepare(LABELS, OFFSETS, **columns)
    derivatives = whole(scores, rw.Stream(0))
    assert derivatives.numerator is not derivatives.gradient
    found = newton_on_device(whole, DEVICE)
    assert found is not None
    expected = newton(derivatives, OFFSETS)
    for one, other in zip(found(scores, rw.Stream(0))[1:], expected, strict=True):
        np.testing.assert_allclose(one.cpu().numpy(), other, rtol=2e-4, atol=2e-5 * np.abs(other).max())


def test_a_function_stays_on_the_cpu():
    def own(scores, labels, offsets):
        return scores - labels, np.ones_like(scores)

    assert newton_on_device(rw.objective(own).prepare(LABELS, OFFSETS), DEVICE) is None


def test_what_is_not_finite_is_refused_with_its_query():
    step = there()
    refuses(lambda: step(np.where(np.arange(9) == 5, np.nan, 0.0), rw.Stream(0)), what="scores must be finite")
    weights = np.array([1.0, 1e39, 1.0])  # too much for float32
    with refusal(what="the numerator of an objective must be finite in float32", where="row 4 (query number 1)"):
        there("ranknet", weights=weights)(np.zeros(9), rw.Stream(0))


def test_xgboost_is_handed_tensors_of_the_device(monkeypatch):
    """An XGBoost without CUDA reads arrays alone: they take the place of tensors in the last moment."""
    handed: list[tuple[Any, Any]] = []
    boost, cuda = xgb.Booster.boost, DEVICE != "cpu" and xgb.build_info()["USE_CUDA"]

    def reading(self, data, iteration, grad, hess):
        handed.append((grad, hess))
        parts = [part.cpu().numpy() if torch.is_tensor(part) and not cuda else part for part in (grad, hess)]
        return boost(self, data, iteration, grad=parts[0], hess=parts[1])

    monkeypatch.setattr(xgb.Booster, "boost", reading)
    data = rw.synthetic(n_queries=8, n_features=5, n_docs=12, seed=0)
    data = rw.RankingDataset(data.features, data.labels, data.offsets, weights=np.linspace(0.5, 1.5, data.n_queries))
    settings: dict[str, Any] = {
        "rounds": 4,
        "leaves": 4,
        "min_documents": 5,
        "threads": 1,
        "progress": False,
        "seed": 1,
    }
    settings |= {"device": DEVICE if cuda else "cpu"}  # by which a ranker may have one
    monkeypatch.setattr(XGBoost, "device", lambda self, settings: None)
    here = rw.XGBoostRanker("lambdarank", **settings).fit(data)
    assert all(isinstance(part, np.ndarray) for pair in handed for part in pair)
    monkeypatch.setattr(XGBoost, "device", lambda self, settings: DEVICE)
    handed.clear()
    found = rw.XGBoostRanker("lambdarank", **settings).fit(data)
    assert len(handed) == 4
    assert all(part.device == torch.device(DEVICE) and part.dtype == torch.float32 for pair in handed for part in pair)
    np.testing.assert_allclose(found.history_["loss"], here.history_["loss"], rtol=1e-4)
    np.testing.assert_allclose(found.predict(data), here.predict(data), atol=1e-4)


def test_an_objective_for_ones_own_loop_gives_tensors():
    data = rw.synthetic(n_queries=6, n_features=3, n_docs=9, seed=0)
    scores = np.linspace(-1.0, 1.0, data.n_docs)[np.random.default_rng(0).permutation(data.n_docs)].astype(np.float32)
    for weights in (None, np.linspace(0.5, 1.5, data.n_queries)):
        own = xgb.DMatrix(data.features, data.labels, group=data.sizes, weight=weights, nthread=1)
        for relative in (True, False):
            there = rw.objectives.xgboost_objective("lambdarank", relative=relative, device=DEVICE)(scores, own)
            here = rw.objectives.xgboost_objective("lambdarank", relative=relative)(scores, own)
            for one, other in zip(there, here, strict=True):
                assert one.dtype == torch.float32
                np.testing.assert_allclose(one.cpu().numpy(), other, rtol=2e-4, atol=2e-5 * np.abs(other).max())


def test_a_device_is_asked_for_by_name_and_by_an_xgboost_that_has_one(monkeypatch):
    def named(**native):
        return XGBoost().device(Settings(None, 0.1, 7, 5, 1, native))

    monkeypatch.setattr(xgb, "build_info", lambda: {"USE_CUDA": True})
    assert [named(), named(device="cpu"), named(device="cuda"), named(device="gpu:1")] == [None, None, "cuda", "cuda:1"]
    monkeypatch.setattr(xgb, "build_info", lambda: {"USE_CUDA": False})
    assert named(device="cuda") is None
