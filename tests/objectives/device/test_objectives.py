"""Device kernels, pinned to the definition on the CPU: value, gradient and Hessian of every objective and wrapper."""

from typing import Any

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.objectives.table import OBJECTIVES
from tests import tiers
from tests.objectives import test_objectives as contract_suite
from tests.objectives.device.devices import (
    CPU_ONLY,
    DEVICE,
    TOLERANCE,
    Lists,
    assert_same,
    brief,
    has_kernel,
    on_device,
)

from rankwise.objectives.pairwise.triton import pairwise  # isort: skip
from rankwise.objectives.device import DeviceLists  # isort: skip
from rankwise.objectives.ragged import RaggedLists as CPULists  # isort: skip
from rankwise.objectives.prepared import NoDeviceKernelError  # isort: skip


def contract(sizes) -> Lists:
    """Lists of one document, with equal labels, and without relevant documents among them."""
    lists = Lists(sizes)
    lists.labels[lists.offsets[2] : lists.offsets[3]] = 2.0
    lists.labels[lists.offsets[4] : lists.offsets[5]] = 0.0
    return lists


INTERPRETED = DEVICE.type == "cpu"
PLAIN, WRAPPED = (
    [text for text in texts if has_kernel(rw.objective(text))]
    for texts in (contract_suite.PLAIN, contract_suite.WRAPPED)
)
# A kernel of every kind, and every wrapper: what the interpreter, which is slow, has time for where a GPU takes all.
KINDS = [
    *("softmax_ce", "xendcg", "approx_ndcg", "smooth_ap", "smooth_rbp", "approx_ndcg(kernel=laplace)", "lambdarank"),
    *("lambdarank(metric=map)", "listmle", "yeti", "plrank", "calibrated", "0.7*xendcg + 0.3*approx_ndcg"),
    *("stochastic(softmax_ce, samples=3)", "weighted(softmax_ce, by=ideal_dcg, power=-0.5)", "clickwise(softmax_ce)"),
    "bounded(approx_ndcg)",
]


SMALL = contract([1, 2, 3, 8, 4, 1, 5])
LONGER = contract([34, 2, 3, 1, 4])  # of more than a tile


def expected(text, lists, scores=None) -> rw.objectives.Derivatives:
    """What the definition says."""
    return brief(text)(lists.scores if scores is None else scores, lists.labels, lists.offsets, lists.stream)


@pytest.mark.parametrize("text", PLAIN + WRAPPED[:: 1 if not INTERPRETED else 3 if tiers.ALL else 9])
def test_the_numbers_are_those_of_the_cpu(text):
    actual, reference = on_device(brief(text), SMALL), expected(text, SMALL)
    if "method=distribution" in text:
        # The sigmoids of a distribution see the last digits of single precision: their slope and bend are as far off.
        assert_same(actual, reference, 1e-3)
        actual = actual._replace(hessian=actual.hessian[:0])
    assert_same(actual, reference, TOLERANCE[torch.float32])


@pytest.mark.slow
@pytest.mark.parametrize("text", KINDS if INTERPRETED else PLAIN)
def test_without_a_hessian(text):
    actual, again = (on_device(brief(text), LONGER, torch.float64, hessian=hessian) for hessian in (True, False))
    assert_same(actual, expected(text, LONGER), TOLERANCE[torch.float64])
    assert again.hessian.numel() == 0
    assert again.numerator is again.gradient
    assert_same(again._replace(numerator=again.hessian), expected(text, LONGER), TOLERANCE[torch.float64])


@pytest.mark.skipif(INTERPRETED, reason="the interpreter runs one program after the other: needs a GPU")
@pytest.mark.parametrize("text", PLAIN)
def test_results_repeat_bit_for_bit(text):
    for once, again in zip(on_device(brief(text), SMALL), on_device(brief(text), SMALL), strict=True):
        assert torch.equal(once, again)


@pytest.mark.parametrize("text", [text for text in PLAIN if text in KINDS or not INTERPRETED])
def test_extreme_scores(text):
    # ±4000, far beyond where an exponential of single precision overflows, and all equal
    n_docs = SMALL.scores.size
    spread = (np.random.default_rng(1).permutation(n_docs) * (8000.0 / n_docs) - 4000.0).astype(np.float32)
    for scores in (spread.astype(float), np.zeros(n_docs)):
        reference = expected(text, SMALL, scores)
        # A floor is relative to what may underflow in single precision; a difference of exponents is rounded at 1e-12.
        floored = getattr(rw.objective(text), "curvature", "") == "floored"
        least = 2e-6 if floored else 1e-10 if "listmle" in text else 0.0
        reference = (
            reference._replace(hessian=np.where(reference.hessian < least, 0.0, reference.hessian))
            if least
            else reference
        )
        assert_same(on_device(brief(text), SMALL, scores=scores), reference, TOLERANCE[torch.float32])


@pytest.mark.parametrize("text", KINDS if INTERPRETED else PLAIN + WRAPPED)
def test_selected_queries(text):
    # In another order, one of them twice: as a net with several members takes them.
    queries = np.array([3, 0, 4, 3])
    rows = np.concatenate([np.arange(SMALL.offsets[q], SMALL.offsets[q + 1]) for q in queries])
    prepared = brief(text).prepare(SMALL.labels, SMALL.offsets)
    stream = SMALL.stream.take(queries, SMALL.n_queries)
    reference = prepared.take(queries)(SMALL.scores[rows], stream)
    moved = prepared.to(DEVICE, torch.float64).take(queries.tolist())
    actual = moved(torch.tensor(SMALL.scores[rows], device=DEVICE), stream)
    assert_same(actual, reference, TOLERANCE[torch.float64])


@pytest.mark.parametrize("host_offsets", [True, False], ids=["host", "device"])
@pytest.mark.parametrize("text", [text for text in PLAIN if text in KINDS or not INTERPRETED])
def test_labels_on_a_device_are_prepared_there(text, host_offsets):
    """``host_offsets``: whether the host has the offsets; if not, nothing is copied to it."""
    objective, reference = brief(text), expected(text, LONGER)
    assert objective.prepares_on_device
    offsets = torch.tensor(LONGER.offsets, dtype=torch.int32, device=DEVICE)
    lists = LONGER.on_device() if host_offsets else DeviceLists(offsets, LONGER.scores.size, None, torch.float64)
    prepared = objective.prepare(torch.tensor(LONGER.labels, device=DEVICE), lists)  # type: ignore[arg-type]
    actual = prepared(torch.tensor(LONGER.scores, device=DEVICE), LONGER.stream)
    assert_same(actual, reference, TOLERANCE[torch.float64])


@pytest.mark.parametrize("gain", ["exponential", "linear", (0.0, 5.0, 5.0, 1.0, 2.0)])
@pytest.mark.parametrize("cutoff", [None, 3])
@pytest.mark.parametrize("integer", [True, False])
def test_ideal_dcg_on_a_device(gain, cutoff, integer):
    labels = LONGER.labels if integer else LONGER.labels + 0.25
    if not integer and not isinstance(gain, str):
        return  # a table has gains of integer labels alone
    reference = CPULists(LONGER.offsets).gains_and_ideal(labels, gain, cutoff)
    actual: tuple[Any, ...] = LONGER.on_device().gains_and_ideal(torch.tensor(labels, device=DEVICE), gain, cutoff)
    for one, other in zip(actual, reference, strict=True):
        np.testing.assert_allclose(one.cpu(), other, rtol=1e-12)


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
@pytest.mark.parametrize("text", ["softmax_ce", "lambdarank", "approx_ndcg"])
def test_invalid_labels_give_nan(text, bad, monkeypatch):
    monkeypatch.setattr("rankwise.objectives.prepared.KERNEL_DEVICES", {DEVICE.type})
    labels = torch.tensor(SMALL.labels, device=DEVICE)
    labels[5] = bad
    value = rw.torch_loss(text, "none")(torch.tensor(SMALL.scores, device=DEVICE), labels, SMALL.offsets)
    assert value.isnan().tolist() == [False, False, True, False, False, False, False]


@pytest.mark.parametrize("treatment", ["absolute", "floored", "ones", "gradient"])
def test_curvature(treatment):
    text = f"approx_ndcg(curvature={treatment})"
    assert_same(on_device(brief(text), LONGER, torch.float64), expected(text, LONGER), TOLERANCE[torch.float64])


@pytest.mark.parametrize("text", ["softmax_ce", "xendcg", "lambdarank", "lambdarank(metric=map)", "clickwise(ranknet)"])
def test_document_weights(text):
    weights = np.random.default_rng(2).random(SMALL.scores.size) + 0.5
    reference = rw.objective(text)(SMALL.scores, SMALL.labels, SMALL.offsets, SMALL.stream, document_weights=weights)
    assert_same(on_device(text, SMALL, document_weights=weights), reference, TOLERANCE[torch.float32])


@pytest.mark.parametrize("text", ["lambdarank", "lambdarank(truncation=2)", "lambdarank(metric=mrr)", "ranknet"])
def test_pairs_with_one_program_per_list(text, monkeypatch):
    monkeypatch.setattr(pairwise, "MANY", 0)
    assert_same(on_device(text, LONGER, torch.float64), expected(text, LONGER), TOLERANCE[torch.float64])
    assert_same(on_device(text, SMALL), expected(text, SMALL), TOLERANCE[torch.float32])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["xendcg(epsilon=0.5)", "approx_ndcg", "lambdarank", "smooth_ap"])
def test_long_lists(text):
    sizes = [3000, 1] if text == "xendcg(epsilon=0.5)" else [1, 1000, 300]
    if INTERPRETED:  # more than a block of 256 documents, and many tiles of pairs
        sizes = [600, 1] if text == "xendcg(epsilon=0.5)" else [1, 300, 130]
    lists = Lists(sizes, gap=0.002)
    assert_same(on_device(text, lists), expected(text, lists), TOLERANCE[torch.float32])


def test_every_objective_has_a_kernel_or_is_named_as_one_without():
    columns = {"teacher_scores": SMALL.scores}
    without = set()
    for name, cls in OBJECTIVES.items():
        read = {column: columns[column] for column in cls().reads}
        try:
            cls().prepare(SMALL.labels, SMALL.offsets, **read).to(DEVICE)
        except NoDeviceKernelError:
            without.add(name)
    assert without == CPU_ONLY, "give it a device_kernel, or name it in CPU_ONLY of tests/objectives/device/devices.py"


def test_a_function_is_left_to_the_cpu():
    prepared = rw.objective(lambda scores, labels, offsets: (scores, scores)).prepare(SMALL.labels, SMALL.offsets)
    with pytest.raises(NoDeviceKernelError):
        prepared.to(DEVICE)
