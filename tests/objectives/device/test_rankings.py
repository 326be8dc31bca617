"""Device kernels that draw or sort rankings: PL-Rank, YetiLoss, ListMLE, Laplace's smooth ranks; and teachers."""

import numpy as np
import pytest
import torch

import rankwise as rw
from tests.objectives.device.devices import DEVICE, TOLERANCE, Lists, assert_same, on_device

from rankwise.base.device import order  # isort: skip
from rankwise.objectives.plackett_luce.triton import draws, listmle  # isort: skip
from rankwise.objectives.softmax.triton import cross_entropy  # isort: skip

TINY = Lists([1, 2, 5])


def both(objective, lists, scores=None, **documents) -> None:
    """Hold a device in double precision to the CPU, without changing what is drawn."""
    scores = lists.scores if scores is None else scores
    prepared = objective.prepare(lists.labels, lists.offsets, **documents)
    actual = prepared.to(DEVICE, torch.float64)(torch.tensor(scores, device=DEVICE), lists.stream)
    assert_same(actual, prepared(scores, lists.stream), TOLERANCE[torch.float64])


@pytest.mark.parametrize("draws", ["independent", "antithetic", "latin"])
@pytest.mark.parametrize("sampler", ["sequence", "race"])
def test_plrank_draws_the_rankings_of_the_cpu(sampler, draws):
    # An odd number of samples, of which two share the generator's blocks; strides of 6 strata are 1 and 5.
    samples = 6 if draws == "latin" else 3
    settings = {"sampler": sampler, "baseline": draws != "antithetic", "curvature": "estimated"}
    both(rw.objectives.PLRank(draws=draws, samples=samples, cutoff=2, **settings), TINY)


@pytest.mark.parametrize("batch", [1, 40])
def test_plrank_in_batches_of_samples(batch, monkeypatch):
    monkeypatch.setattr(draws, "_SCRATCH", batch)
    both(rw.objectives.PLRank(sampler="race", samples=4, cutoff=7, metric="rbp"), TINY)


def test_plrank_takes_rewards_below_zero():
    rewards = np.random.default_rng(0).normal(size=TINY.scores.size)
    both(rw.objectives.PLRank(sampler="race", samples=2, metric="dcg"), TINY, document_rewards=rewards)


@pytest.mark.slow
def test_plrank_draws_again_if_a_document_is_placed_already():
    lists = Lists([60, 3], gap=0.1)  # so peaked that the first documents are drawn several times
    both(rw.objectives.PLRank(samples=2, cutoff=35, metric="dcg", curvature="estimated"), lists)


def test_plrank_leaves_lists_too_steep_for_a_table_to_the_race():
    scores = TINY.scores.copy()
    scores[3:] = [0.0, 700.0, 1500.0, 0.5, 800.0]
    both(rw.objectives.PLRank(samples=2, cutoff=3, metric="dcg"), TINY, scores)


@pytest.mark.parametrize(("noise", "metric"), [("logistic", "ndcg"), ("gumbel", "map"), ("gaussian", "mrr")])
def test_yeti_finds_the_same_neighbours(noise, metric):
    both(rw.objectives.Yeti(noise=noise, metric=metric, permutations=3, sigma=0.7, scale=0.5), TINY)


def test_yeti_across_tiles_and_beyond_the_cutoff():
    lists = Lists([140, 1])
    both(rw.objectives.Yeti(permutations=1), lists)
    both(rw.objectives.Yeti(permutations=1, cutoff=3, metric="map"), lists)


@pytest.mark.parametrize("ties", ["apart", "row"])
def test_listmle_across_blocks(ties):
    lists = Lists([300, 2, 1, 5])
    lists.labels[-5:] = 3.0  # all equal
    both(rw.objectives.ListMLE(ties=ties), lists)


@pytest.mark.parametrize("ties", ["apart", "row"])
def test_listmle_of_lists_that_several_programs_share(ties, monkeypatch):
    monkeypatch.setattr(listmle, "_TILE", 16)
    both(rw.objectives.ListMLE(ties=ties), Lists([40, 3, 17, 1]))


@pytest.mark.parametrize("text", ["xendcg", "softmax_ce(epsilon=0.5)", "xendcg(gamma=tight)"])
def test_softmax_of_lists_that_several_programs_share(text, monkeypatch):
    monkeypatch.setattr(cross_entropy, "LONG", 16)
    lists = Lists([40, 3, 17, 1])
    lists.labels[40:43] = 0.0  # nothing to learn for softmax_ce
    lists.scores[3] += 30.0
    actual = on_device(text, lists)
    expected = rw.objective(text)(lists.scores, lists.labels, lists.offsets, lists.stream)
    assert_same(actual, expected, TOLERANCE[torch.float32])


@pytest.mark.parametrize("text", ["distil", "distil(temperature=2.5)", "margin_mse", "0.5*distil + 0.5*margin_mse"])
def test_teachers(text):
    teacher = np.random.default_rng(1).normal(size=TINY.scores.size)
    expected = rw.objective(text)(TINY.scores, TINY.labels, TINY.offsets, teacher_scores=teacher)
    assert_same(on_device(text, TINY, teacher_scores=teacher), expected, TOLERANCE[torch.float32])
    both(rw.objective(text), TINY, teacher_scores=teacher)
    selected = np.array([2, 0])
    prepared = rw.objective(text).prepare(TINY.labels, TINY.offsets, teacher_scores=teacher)
    rows = np.concatenate((np.arange(TINY.offsets[2], TINY.offsets[3]), [0]))
    actual = prepared.to(DEVICE, torch.float64).take(selected)(torch.tensor(TINY.scores[rows], device=DEVICE))
    assert_same(actual, prepared.take(selected)(TINY.scores[rows]), TOLERANCE[torch.float64])


@pytest.mark.parametrize("name", ["approx_ndcg", "smooth_ap", "smooth_rbp"])
def test_laplace_with_equal_scores(name):
    lists = Lists([1, 7, 2])
    lists.labels[:8] = [1, 0, 2, 0, 1, 0, 0, 3]
    both(rw.objective(f"{name}(kernel=laplace, curvature=exact)"), lists, np.array([0, 1, 1, 1, 0, 0, 2, 5, 3, 3.0]))


def test_laplace_across_blocks():
    lists = Lists([260], gap=0.002)
    lists.scores[:40] = lists.scores[40:80]
    both(rw.objectives.ApproxNDCG(kernel="laplace", curvature="exact"), lists)


def test_long_lists_are_sorted_as_short_ones_are_counted(monkeypatch):
    lists = Lists([5, 1, 9])
    keys = torch.tensor(np.stack((lists.scores, np.round(lists.scores, 1))), device=DEVICE)
    counted = order.ordered(lists.on_device(), keys)
    monkeypatch.setattr(order, "COUNTED", 0)
    for one, other in zip(counted, order.ordered(lists.on_device(), keys), strict=True):
        assert torch.equal(one, other)
    assert counted[1][0, :5].tolist() == np.argsort(-lists.scores[:5], kind="stable").tolist()
