"""Two towers: the bias is the minimiser, the gradient that of the profile, and clicks tell relevance from position."""

from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.wings.lab.objective_checks import differences
from tests.refusals import refusal, refuses

THETA = 1.0 / np.arange(1, 7)


def lists(n_queries: int = 40, seed: int = 0) -> tuple[Any, ...]:
    rng = np.random.default_rng(seed)
    sizes = rng.integers(1, 7, n_queries)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    positions = np.concatenate([rng.permutation(6)[:size] + 1 for size in sizes])
    return rng.normal(size=offsets[-1]), rng.integers(0, 3, offsets[-1]).astype(float), offsets, positions


def by_position(values: Any, positions: Any) -> Any:
    return np.bincount(positions, values)[1:]


@pytest.mark.parametrize("inner", ["softmax_ce", "ranknet", "xendcg", "listmle", "stochastic(listnet, samples=2)"])
def test_the_bias_is_the_minimiser(inner: str):
    scores, labels, offsets, positions = lists()
    objective: Any = rw.objective(f"positioned({inner}, ridge=0.3, tolerance=1e-9, steps=200)")
    stream = rw.Stream(1)
    bias = objective.position_bias(scores, labels, offsets, positions, stream)
    assert bias[0] == 0.0
    inside = rw.objective(inner)(scores + bias[positions - 1], labels, offsets, stream.child("positioned"))
    slopes = by_position(inside.gradient, positions) + 0.3 * bias
    np.testing.assert_allclose(slopes[1:], 0.0, atol=1e-6)
    assert np.abs(by_position(inside.gradient, positions)).max() > 0.01
    actual = objective(scores, labels, offsets, stream, positions=positions)
    np.testing.assert_allclose(actual.gradient, inside.gradient, atol=1e-8)
    np.testing.assert_allclose(actual.hessian, inside.hessian, atol=1e-8)
    assert actual.value.sum() == pytest.approx(inside.value.sum() + 0.15 * bias @ bias)


@pytest.mark.parametrize("inner", ["softmax_ce", "ranknet"])
def test_the_gradient_is_the_total_derivative(inner: str):
    scores, labels, offsets, positions = lists(12)
    objective = rw.objective(f"positioned({inner}, ridge=0.5, tolerance=1e-10, steps=200)")
    prepared = objective.prepare(labels, offsets, positions=positions)
    total = differences(lambda at: prepared(at).value.sum(), scores)
    np.testing.assert_allclose(prepared(scores).gradient, total, atol=1e-7)
    # What the bias is worth: with b held at 0 the derivative is another one.
    assert np.abs(rw.objective(inner)(scores, labels, offsets).gradient - total).max() > 0.01


def test_expected_clicks_return_the_curve_that_made_them():
    rng = np.random.default_rng(2)
    offsets = np.arange(0, 601, 6)
    scores, positions = rng.normal(size=600), np.concatenate([rng.permutation(6) + 1 for _ in range(100)])
    chances = np.exp(scores) * THETA[positions - 1]
    clicks = chances / np.repeat(np.add.reduceat(chances, offsets[:-1]), 6)
    objective = rw.objectives.positioned(rw.objectives.SoftmaxCE(), ridge=1e-9, tolerance=1e-9, steps=200)
    np.testing.assert_allclose(np.exp(objective.position_bias(scores, clicks, offsets, positions)), THETA, rtol=1e-6)
    actual = objective(scores, clicks, offsets, positions=positions)
    np.testing.assert_allclose(actual.gradient, 0.0, atol=1e-7)
    assert np.abs(rw.objectives.SoftmaxCE()(scores, clicks, offsets).gradient).max() > 0.1


def test_one_position_is_the_inner_objective():
    scores, labels, offsets, positions = lists()
    same = rw.objectives.positioned(rw.objectives.XENDCG())(
        scores, labels, offsets, rw.Stream(3), positions=np.full_like(positions, 4)
    )
    plain = rw.objectives.XENDCG()(scores, labels, offsets, rw.Stream(3).child("positioned"))
    for one, other in zip(same, plain, strict=True):
        np.testing.assert_array_equal(one, other)
    bias = rw.objectives.positioned(rw.objectives.SoftmaxCE()).position_bias(
        scores, labels, offsets, np.where(positions > 1, 4, positions)
    )
    assert np.isnan(bias).tolist() == [False, True, True, False]


def test_some_queries_have_the_bias_of_these():
    scores, labels, offsets, positions = lists()
    objective = rw.objective("positioned(lambdarank)")
    queries = np.array([5, 3, 30])
    rows = np.concatenate([np.arange(offsets[q], offsets[q + 1]) for q in queries])
    starts = np.concatenate(([0], np.cumsum(np.diff(offsets)[queries])))
    part = objective.prepare(labels, offsets, positions=positions).take(queries)(scores[rows])
    alone = objective(scores[rows], labels[rows], starts, positions=positions[rows])
    np.testing.assert_allclose(part.gradient, alone.gradient, atol=1e-12)


def test_a_loss_of_torch_takes_positions():
    torch = pytest.importorskip("torch")
    scores, labels, offsets, positions = lists()
    example = torch.tensor(scores, requires_grad=True)
    loss = rw.torch_loss("positioned(softmax_ce)", "sum")
    loss(example, torch.tensor(labels), torch.tensor(offsets), positions=torch.tensor(positions)).backward()
    expected = rw.objectives.positioned(rw.objectives.SoftmaxCE())(scores, labels, offsets, positions=positions)
    np.testing.assert_array_equal(example.grad.numpy(), expected.gradient)


def test_errors_say_what_is_missing():
    with refusal(what="positioned needs the position at which every document was shown", hint="…position=…"):
        rw.objectives.positioned(rw.objectives.SoftmaxCE())([0.0, 1.0], [0, 1], [0, 2])
    with refusal(what="positions must be at least 1", got="0", where="row 1…"):
        rw.objectives.positioned(rw.objectives.SoftmaxCE())([0.0, 1.0], [0, 1], [0, 2], positions=[1, 0])
    with refusal(what="listnet takes no positions", hint="…positions go to positioned…"):
        rw.objectives.ListNet()([0.0, 1.0], [0, 1], [0, 2], positions=[1, 2])
    refuses(lambda: rw.objective("positioned(softmax_ce, ridge=0.0)"), about="…ridge…")


# Training: production sorts by a feature that has nothing to do with relevance, and users look at the top.


@pytest.fixture(scope="module")
def clicks() -> tuple[rw.RankingDataset, rw.RankingDataset]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(3600, 3))
    labels = np.clip(np.round(features[:, 0] + 0.5), 0, 3)  # the second feature is production's, and the third is noise
    data = rw.RankingDataset.from_sizes(features, labels, [12] * 300, query_ids=np.arange(300))
    shown, test = data.take(slice(0, 200)), data.take(slice(200, 300))
    logs = [
        rw.clicks.simulate_clicks(
            shown.with_(query_ids=np.arange(200) + 1000 * number),
            model="position",
            ranker=shown.features[:, 1] + 0.5 * rng.normal(size=shown.n_docs),
            impressions=5,
            cutoff=8,
            seed=number,
        )
        for number in range(2)
    ]
    return rw.concatenate(logs), test


RANKERS: dict[str, dict[str, Any]] = {
    "LightGBMRanker": {"rounds": 40, "leaves": 6, "learning_rate": 0.1},
    "XGBoostRanker": {"rounds": 30, "leaves": 6, "learning_rate": 0.1},
    "CatBoostRanker": {"rounds": 20, "leaves": 8, "learning_rate": 0.2},
    "NeuralRanker": {"epochs": 4, "hidden": (8,), "device": "cpu", "batch_queries": 128, "learning_rate": 0.01},
}


def worth(name: str, objective: str, clicks: Any, **more: Any) -> float:
    log, test = clicks
    model = getattr(rw, name)(objective, threads=1, **RANKERS[name], **more).fit(log)
    return float(rw.evaluate(model, test).mean["ndcg@10"])


@pytest.mark.parametrize("objective", ["lambdarank", "softmax_ce"])
@pytest.mark.parametrize("name", RANKERS)
def test_relevance_is_recovered_better_than_without(name: str, objective: str, clicks: Any):
    assert worth(name, f"positioned({objective})", clicks) > worth(name, objective, clicks) + 0.01


def test_it_is_as_good_as_what_lightgbm_does_for_its_lambdarank(clicks: Any):
    theirs = worth("LightGBMRanker", "native:lambdarank", clicks, lambdarank_position_bias_regularization=0.0)
    plain = worth("LightGBMRanker", "native:lambdarank", clicks)
    ours = worth("LightGBMRanker", "positioned(lambdarank)", clicks)
    assert ours - plain > 0.5 * (theirs - plain) > 0.0


def test_the_curve_is_read_after_training(clicks: Any):
    log, _ = clicks
    model = rw.LightGBMRanker("positioned(softmax_ce)", threads=1, **RANKERS["LightGBMRanker"]).fit(log)
    bias = rw.objectives.positioned(rw.objectives.SoftmaxCE()).position_bias(
        model.predict(log), log.labels, log.offsets, log.positions
    )
    truth = -np.log(np.arange(1, 9))
    assert np.abs(bias - truth).max() < 0.5
    assert np.corrcoef(bias, truth)[0, 1] > 0.98


@pytest.mark.parametrize("name", ["LightGBMRanker", "NeuralRanker"])
def test_an_interrupted_training_resumes_bit_for_bit(name: str, clicks: Any, tmp_path: Any):
    log, test = clicks
    unit = "epochs" if name == "NeuralRanker" else "rounds"
    kept = {"checkpoint": tmp_path / "kept", "checkpoint_every": 2, "threads": 1}
    short = {**RANKERS[name], unit: 2}
    full = {**short, unit: 4}
    make = getattr(rw, name)
    make("positioned(softmax_ce)", **short, **kept).fit(log)
    resumed = make("positioned(softmax_ce)", **full, **kept).fit(log, resume=True)
    plain = make("positioned(softmax_ce)", **full, threads=1).fit(log)
    np.testing.assert_array_equal(resumed.predict(test), plain.predict(test))
