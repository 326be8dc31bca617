"""Limits on exposure: rewards within them, exposures against listing, and what clip and floor do and do not bound."""

import itertools
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base.arrays import read_only
from rankwise.metrics.gains import discounts
from rankwise.objectives.prepared import NoDeviceKernelError
from rankwise.rankers.training.settings import TrainingData, TrainingSettings
from rankwise.wings.clicks.objectives.safe import PreparedSafe, safe
from tests.refusals import refusal, refuses

SIZE, TOP = 5, 3
RANKINGS = np.array(list(itertools.permutations(range(SIZE), TOP)))


def exposures(scores: Any) -> Any:
    """The exposure of each document of lists of 5, top 3, by listing every ranking."""
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    left, chances = weights.sum(axis=1, keepdims=True), np.ones((len(scores), len(RANKINGS)))
    for rank in range(TOP):
        placed = weights[:, RANKINGS[:, rank]]
        chances, left = chances * placed / left, left - placed
    seen = np.zeros_like(scores)
    for rank, discount in enumerate(discounts(TOP)):
        for document in range(SIZE):
            seen[:, document] += discount * chances[:, RANKINGS[:, rank] == document].sum(axis=1)
    return seen


def production(n_lists: int = 12, seed: int = 0) -> tuple[Any, Any]:
    """Relevance between 0 and 1, and the scores of a ranker that knows it well."""
    rng = np.random.default_rng(seed)
    relevance = rng.uniform(size=(n_lists, SIZE))
    return relevance, 3.0 * (relevance - 0.5) + 0.7 * rng.normal(size=relevance.shape)


def prepared(start: Any, rewards: Any, samples: int = 100, **limits: Any) -> Any:
    inner = rw.objectives.PLRank(metric="dcg", cutoff=TOP, samples=samples)
    offsets = np.arange(0, start.size + 1, SIZE)
    columns = {} if limits == {"clip": None, "floor": None} else {"init_scores": start.ravel()}
    columns["document_rewards"] = rewards.ravel()
    return safe(inner, **limits).prepare(np.zeros(start.size), offsets, **columns)


def learned(start: Any, rewards: Any, steps: int = 250, pace: float = 0.5, **limits: Any) -> Any:
    """Descend from production's scores, one score for each document; the pace falls to a tenth."""
    objective, scores = prepared(start, rewards, **limits), start.ravel().copy()
    for step in range(steps):
        scores -= pace / (1.0 + 9.0 * step / steps) * objective(scores, rw.Stream(1, step), hessian=False).gradient
    return scores.reshape(start.shape)


@pytest.mark.parametrize("sampler", ["sequence", "race"])
def test_exposures_are_unbiased_against_listing(sampler: str):
    repeats = 4000
    start = np.array([[1.0, 0.0, -1.0, 2.0, -4.0]])
    inner = rw.objectives.PLRank(metric="dcg", cutoff=TOP, samples=4, sampler=sampler)
    tiled = np.tile(start, (repeats, 1))
    offsets = np.arange(0, tiled.size + 1, SIZE)
    columns = {"init_scores": tiled.ravel(), "document_rewards": np.ones(tiled.size)}
    objective: Any = safe(inner, clip=1.0, floor=None).prepare(np.zeros(tiled.size), offsets, **columns)
    assert isinstance(objective, PreparedSafe)
    # At production's scores every gate is closed, and what is beyond them is the exposure itself.
    scores = read_only(tiled.ravel())
    limits = objective._limits(scores, rw.Stream(3))
    assert not limits.gated.any()
    np.testing.assert_allclose(-limits.beyond, discounts(TOP).sum(), rtol=1e-12)
    for document in range(SIZE):
        rewards = np.zeros_like(tiled)
        rewards[:, document] = 1.0
        columns["document_rewards"] = rewards.ravel()
        objective = safe(inner, clip=1.0, floor=None).prepare(np.zeros(tiled.size), offsets, **columns)
        estimates = -objective._limits(scores, rw.Stream(3)).beyond
        error = estimates.std() / np.sqrt(repeats)
        assert abs(estimates.mean() - exposures(start)[0, document]) < 4.0 * error + 1e-12


def test_without_limits_it_is_the_inner_objective_bit_for_bit():
    relevance, start = production()
    offsets, labels = np.arange(0, start.size + 1, SIZE), np.round(3.0 * relevance).ravel()
    for inner in (rw.objectives.PLRank(), rw.objectives.XENDCG()):
        plain = inner(start.ravel(), labels, offsets, rw.Stream(2))
        actual = safe(inner, clip=None, floor=None)(start.ravel(), labels, offsets, rw.Stream(2))
        for one, other in zip(actual, plain, strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("clip", "floor"), [(1e9, None), (None, 1e-9), (1e9, 1e-9)])
def test_limits_that_nothing_reaches_change_nothing(clip: Any, floor: Any):
    relevance, start = production()
    moved = start.ravel() + 0.3 * np.random.default_rng(1).normal(size=start.size)
    plain = prepared(start, relevance, clip=None, floor=None)(moved, rw.Stream(2))
    for one, other in zip(prepared(start, relevance, clip=clip, floor=floor)(moved, rw.Stream(2)), plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_clip_and_a_floor_of_1_keep_productions_exposures():
    relevance, start = production()
    for rewards in (relevance, 1.0 - relevance, -relevance):
        # Where both are estimated from the same draws, nothing moves at all; pushed away, it comes back.
        np.testing.assert_array_equal(learned(start, rewards, clip=1.0, floor=1.0, steps=20), start)
        pushed = prepared(start, rewards, clip=1.0, floor=1.0)
        scores = start.ravel() + 0.5 * np.random.default_rng(2).normal(size=start.size)
        for step in range(300):
            scores -= 0.1 * pushed(scores, rw.Stream(1, step)).gradient
        assert np.abs(exposures(scores.reshape(start.shape)) - exposures(start)).max() < 0.03


def test_rewards_are_gated_by_the_exposure_that_was_reached():
    # Two documents, one rank: exposures are the chances p and 1 − p, the same in every draw.
    def gradient(p: float, rewards: Any, **limits: Any) -> float:
        objective = safe(rw.objectives.PLRank(metric="dcg", cutoff=1, samples=3), **limits)
        columns = {"init_scores": [0.0, 0.0], "document_rewards": rewards}
        actual = objective([np.log(p / (1.0 - p)), 0.0], [0, 0], [0, 2], rw.Stream(0), **columns)
        return float(actual.gradient[0] / (p * (1.0 - p)))  # minus the price of the first document's exposure

    clip: dict[str, Any] = {"clip": 1.2, "floor": None}
    assert gradient(0.59, [1.0, 0.0], **clip) == pytest.approx(-1.0)
    assert gradient(0.61, [1.0, 0.0], **clip) == 0.0
    assert gradient(0.43, [-1.0, 0.0], **clip) == pytest.approx(1.0)
    assert gradient(0.41, [-1.0, 0.0], **clip) == 0.0
    floor: dict[str, Any] = {"clip": None, "floor": 0.8, "weight": 3.0}
    assert gradient(0.41, [-1.0, 1.0], **floor) == pytest.approx(2.0)
    assert gradient(0.39, [-1.0, 1.0], **floor) == pytest.approx(2.0 - 3.0 * 2.0)  # three times the range of rewards
    assert gradient(0.61, [-1.0, 1.0], **floor) == pytest.approx(2.0 + 3.0 * 2.0)  # the other one is below its floor


def test_the_value_is_what_is_earned_within_the_limits():
    def value(p: float, **limits: Any) -> float:
        objective = safe(rw.objectives.PLRank(metric="dcg", cutoff=1, samples=3), **limits)
        columns = {"init_scores": [0.0, 0.0], "document_rewards": [1.0, 0.0]}
        return float(objective([np.log(p / (1.0 - p)), 0.0], [0, 0], [0, 2], rw.Stream(0), **columns).value[0])

    assert value(0.5, clip=1.2, floor=None) == pytest.approx(-0.5)
    assert value(0.7, clip=1.2, floor=None) == pytest.approx(-0.6)
    assert value(0.7, clip=None, floor=0.8) == pytest.approx(-0.7 + 2.0 * (0.4 - 0.3))


# What is bounded: descent from production's scores, with rewards that are honest or the opposite of the truth.


def outcome(rewards: str, **limits: Any) -> tuple[float, float, float]:
    """Mean and worst utility over production's, and the smallest exposure over production's."""
    relevance, start = production()
    signs = {"honest": relevance, "reversed": 1.0 - relevance, "negative": -relevance}
    before, after = exposures(start), exposures(learned(start, signs[rewards], **limits))
    utility = (after * relevance).sum(axis=1) / (before * relevance).sum(axis=1)
    return float(utility.mean()), float(utility.min()), float((after / before).min())


def test_honest_rewards_improve_production():
    values = [outcome("honest", clip=clip, floor=None)[0] for clip in (1.05, 1.2, 2.0, None)]
    assert 1.0 < values[0] < values[1] < values[2]
    assert outcome("honest", clip=None, floor=0.8)[0] > 1.02


@pytest.mark.parametrize("rewards", ["reversed", "negative"])
def test_a_clip_alone_bounds_no_losses_and_a_floor_does(rewards: str):
    clipped = [outcome(rewards, clip=clip, floor=None) for clip in (1.05, 1.2, 2.0, None)]
    means, worst, ratios = (list(column) for column in zip(*clipped, strict=True))
    assert means == sorted(means, reverse=True)
    assert worst == sorted(worst, reverse=True)
    assert worst[2] < 0.7
    assert min(ratios[:2]) < 0.8  # documents with little exposure lose it to the gains of others
    for floor, clip in ((0.9, None), (0.8, None), (0.9, 1.2)):
        _, lowest, ratio = outcome(rewards, clip=clip, floor=floor)
        assert ratio > floor - 0.05
        assert lowest > floor - 0.02
    assert outcome(rewards, clip=None, floor=0.8)[0] < 0.97  # it lets go of what it may


def test_other_losses_have_a_floor():
    relevance, start = production()
    offsets, labels = np.arange(0, start.size + 1, SIZE), np.round(3.0 * (1.0 - relevance)).ravel()
    smallest = []
    for floor in (None, 0.8):
        columns = {} if floor is None else {"init_scores": start.ravel()}
        objective = safe(rw.objectives.SoftmaxCE(), floor=floor, weight=5.0).prepare(labels, offsets, **columns)
        scores = start.ravel().copy()
        for step in range(300):
            scores -= 0.05 * objective(scores, rw.Stream(1, step)).gradient
        # The model of exposure is DCG@10: here, all five ranks.
        drawn = (
            rw.objectives.sample_rankings(one[:SIZE], [0, SIZE], rw.Stream(5), 4000) for one in (scores, start.ravel())
        )
        after, before = (discounts(SIZE)[rankings.argsort(axis=1)].mean(axis=0) for rankings in drawn)
        smallest.append((after / before).min())
    assert smallest[0] < 0.7
    assert smallest[1] > 0.75


def test_errors_say_what_is_missing():
    with refusal(what="safe needs production's score of every document", hint="…init_model=production"):
        rw.objective("safe(plrank)")([0.0, 1.0], [0, 1], [0, 2], rw.Stream(0))
    refuses(lambda: rw.objective("safe(xendcg, clip=1.2)"), what="clip limits the rewards of plrank", got="xendcg")
    for text in ("clip=0.9", "floor=1.1", "weight=0.5"):
        with pytest.raises(ValueError, match=text.partition("=")[0]):
            rw.objective(f"safe(plrank, {text})")
    with refusal(what="safe(xendcg) draws random numbers and needs a stream"):
        rw.objectives.safe(rw.objectives.XENDCG())([0.0, 1.0], [0, 1], [0, 2], init_scores=[0.0, 1.0])


def test_devices_leave_it_to_the_cpu():
    pytest.importorskip("triton")
    relevance, start = production()
    with pytest.raises(NoDeviceKernelError):
        prepared(start, relevance, clip=1.2, floor=0.9).to("cpu")


# Rankers start at production: at its scores, or at its model.


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    """Labels that are the opposite of what production ranks by."""
    rng = np.random.default_rng(0)
    features = np.round(rng.normal(size=(400, 2)), 1)
    labels = np.clip(np.round(1.0 - features[:, 0]), 0, 3)
    return rw.RankingDataset.from_sizes(features, labels, [10] * 40, query_ids=np.arange(40))


def exposure_ratios(scores: Any, start: Any, data: rw.RankingDataset) -> Any:
    seen = [rw.evaluate(one, data, policy="plackett_luce", samples=1000).exposure for one in (scores, start)]
    return seen[0] / seen[1]


@pytest.mark.parametrize("name", ["LightGBMRanker", "NeuralRanker"])
def test_rankers_stay_near_production(name: str, data: rw.RankingDataset):
    settings: dict[str, Any] = {"rounds": 120, "leaves": 15, "min_documents": 2, "learning_rate": 0.05}
    if name == "NeuralRanker":
        settings = {"epochs": 60, "hidden": (16,), "device": "cpu", "dropout": 0.0, "averaging": 0.0}
        settings["learning_rate"] = 0.01
    start = 1.0 * data.features[:, 0].astype(float)
    started = data.with_(init_scores=start)
    make = getattr(rw, name)
    free, held = (
        make(f"safe(plrank(samples=50), floor={floor})", threads=1, **settings).fit(started).predict(started)
        for floor in (None, 0.9)
    )
    lost, kept = (np.quantile(exposure_ratios(scores, start, data), 0.02) for scores in (free, held))
    assert lost < 0.65
    assert kept > 0.8  # documents share trees and layers, which floors do not


def test_a_continued_model_is_production(data: rw.RankingDataset):
    good = data.with_(labels=3.0 - data.labels)
    old = rw.LightGBMRanker("lambdarank", rounds=20, leaves=8, threads=1).fit(good)
    settings: dict[str, Any] = {"rounds": 40, "leaves": 8, "threads": 1}
    by_model = rw.LightGBMRanker("safe(plrank(samples=50), floor=0.9)", **settings).fit(data, init_model=old)
    start = old.predict(data)
    assert np.quantile(exposure_ratios(by_model.predict(data), start, data), 0.02) > 0.75
    started = data.with_(init_scores=start)
    by_scores = rw.LightGBMRanker("safe(plrank(samples=50), floor=0.9)", **settings).fit(started)
    assert np.quantile(exposure_ratios(by_scores.predict(started), start, data), 0.02) > 0.75
    read = TrainingSettings.of(by_model).columns(TrainingData(train=data, older=old))
    np.testing.assert_array_equal(read["init_scores"], start)
    refuses(lambda: rw.LightGBMRanker("safe(plrank)").fit(data), what="safe needs production's score of every document")
