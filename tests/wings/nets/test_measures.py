"""Metrics on a device are those of the CPU, to the last bit, and no score travels."""

import numpy as np
import pytest
import torch

import rankwise as rw
from rankwise.metrics import metrics as find_metrics
from rankwise.rankers.training.validation import EvalMetrics, EvalSet, Validation
from rankwise.wings.nets.inputs import NetScores
from tests.refusals import refusal

pytest.importorskip("triton", reason="device kernels are written in Triton, which is made for Linux alone")

DEVICE = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
ON_DEVICE = (
    "ndcg@10", "ndcg", "ndcg@1", "ndcg(gain=linear)@3", "ndcg(ties=row)@5", "ndcg(empty=0)@10", "ndcg(empty=1)",
    "dcg@5", "dcg(ties=row)", "rbp(p=0.9)", "nrbp@7", "precision@5", "precision", "precision(divide=retrieved)@50",
    "recall@10", "recall(relevant=3)@2", "rprec",
)  # fmt: skip
ON_CPU = ("ap@10", "rr", "hit@3", "ndcg(ties=worst)@10", "ndcg(ties=best)@10", "err@10")


@pytest.fixture(autouse=True)
def masked_lanes():
    with np.errstate(all="ignore"):
        yield


@pytest.fixture(scope="module")
def lists() -> rw.RankingDataset:
    """Lists of 1 to 15 documents, some with nothing relevant, that weigh differently; a program takes 32 of them."""
    rng = np.random.default_rng(0)
    sizes = [*rng.integers(1, 9, 32), 15, 1]
    labels = rng.integers(0, 5, sum(sizes)) * (rng.random(sum(sizes)) < 0.4)
    labels[: sizes[0]] = 0
    return rw.RankingDataset.from_sizes(np.zeros((sum(sizes), 1)), labels, sizes, weights=rng.random(34) * 3)


def scores(lists, levels):
    """Scores in single precision, with ties where there are few levels."""
    drawn = np.random.default_rng(1).normal(size=lists.n_docs)
    return (np.round(drawn * levels) / levels if levels else drawn).astype(np.float32)


class OnlyValues(NetScores):
    def array(self):
        raise AssertionError("scores left the device")


@pytest.mark.parametrize(("levels", "weighted"), [(0, False), (1, True), (4, True)])
def test_means_are_those_of_the_cpu_to_the_last_bit(lists, levels, weighted):
    lists = lists if weighted else lists.with_(weights=None)
    measure = Validation(lists, find_metrics(ON_DEVICE), debias=False)
    given = scores(lists, levels)
    assert measure.on_device(OnlyValues(torch.tensor(given, device=DEVICE))) == measure(given.astype(float))


def test_lists_that_are_sorted_rather_than_counted(monkeypatch, lists):
    from rankwise.base.device import order

    monkeypatch.setattr(order, "COUNTED", 0)
    measure = Validation(lists, find_metrics("ndcg@10"), debias=False)
    given = scores(lists, 3)
    assert measure.on_device(OnlyValues(torch.tensor(given, device=DEVICE))) == measure(given.astype(float))


def test_other_metrics_are_those_of_the_cpu_in_the_order_that_was_asked_for(lists):
    def first_label(scores, labels, offsets):
        return labels[offsets[:-1]] + scores[offsets[:-1]]

    measure = Validation(lists, find_metrics([ON_CPU[0], "ndcg@10", *ON_CPU[1:], first_label]), debias=False)
    given = scores(lists, 2)
    found = measure.on_device(NetScores(torch.tensor(given, device=DEVICE)))
    assert found == measure(given.astype(float))
    assert list(found)[:2] == ["ap@10", "ndcg@10"]
    large = lists.with_(labels=lists.labels * 200.0)  # gains of 2^800, whose sum the device would not hold
    measure = Validation(large, find_metrics("dcg@10"), debias=False)
    assert measure.on_device(NetScores(torch.tensor(given, device=DEVICE))) == measure(given.astype(float))


def test_clicks_and_functions_are_measured_by_the_cpu(lists):
    given = scores(lists, 0)
    clicks = lists.with_(labels=np.minimum(lists.labels, 1), propensities=np.full(lists.n_docs, 0.5))
    measure = Validation(clicks, find_metrics("ndcg@10"), debias=True)
    there = NetScores(torch.tensor(given, device=DEVICE))
    assert measure.on_device(there) == measure(given.astype(float))
    highest = EvalMetrics(EvalSet(lists, lambda scores: {"highest": scores.max()}))
    assert highest(there) == [given.max()]


def test_scores_that_are_not_finite_are_an_error_there_too(lists):
    measure = Validation(lists, find_metrics("ndcg@10"), debias=False)
    for broken in (np.nan, np.inf):
        given = scores(lists, 0)
        given[7] = broken
        with refusal(what="scores must be finite"):
            measure.on_device(NetScores(torch.tensor(given, device=DEVICE)))
