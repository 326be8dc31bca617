"""Constraints: bounds by Student, multipliers by pencil, sums bit for bit in every trainer, resumed and refused."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.rankers.training.constraints import RATE, Constraints, UnmetConstraintWarning, lower_bound
from rankwise.rankers.training.stopping import Stopping, StopTraining
from rankwise.rankers.training.validation import DeviceScores, Validation
from tests.refusals import refusal, refuses

BUY = "ndcg(label=buy)@10"
BOUND, MULTIPLIER = f"bound {BUY}", f"multiplier {BUY}"
HALVES = "0.5*xendcg + 0.5*on(buy, xendcg)"
TREES: dict[str, Any] = {"rounds": 12, "leaves": 4, "min_documents": 5, "threads": 1, "smoothing": 1, "patience": None}
NET: dict[str, Any] = {"epochs": 6, "hidden": (8,), "threads": 1, "device": "cpu", "patience": None}
TRAINERS: dict[str, tuple[Any, dict[str, Any]]] = {
    "lightgbm": (rw.LightGBMRanker, TREES),
    "xgboost": (rw.XGBoostRanker, TREES),
    "catboost": (rw.CatBoostRanker, TREES),
    "neural": (rw.NeuralRanker, NET),
}


@pytest.fixture(scope="module")
def parts():
    data = rw.synthetic(n_queries=120, n_docs=10, n_features=10, goals={"buy": 90}, seed=1)
    return rw.split(data, (0.5, 0.5), seed=1)


def test_bound_is_student_s_one_sided_one():
    rng = np.random.default_rng(1)
    values = rng.random(40)
    expected = values.mean() - stats.t.ppf(0.95, 39) * values.std(ddof=1) / np.sqrt(40)
    assert lower_bound(BOUND, values, None) == pytest.approx(expected, rel=1e-12)
    missing = np.insert(values, 3, np.nan)
    assert lower_bound(BOUND, missing, np.full(41, 2.5)) == pytest.approx(expected, rel=1e-12)
    held = [lower_bound(BOUND, rng.normal(0.3, 0.2, 30), None) <= 0.3 for _ in range(2000)]
    assert abs(np.mean(held) - 0.95) < 4 * np.sqrt(0.95 * 0.05 / 2000)
    with refusal(what="the bound ndcg(label=buy)@10 needs at least two validation queries that it scores", got="1"):
        lower_bound(BOUND, np.array([np.nan, 0.3]), None)


def test_multipliers_rise_with_the_shortfall_and_never_below_zero():
    constraints = Constraints.of_setting({"ndcg@5": 0.5, "dcg@5": 4.0})
    assert constraints.weights({}) == (1.0, 0.0, 0.0)
    first = constraints.multipliers({}, {"bound ndcg@5": 0.4, "bound dcg@5": 5.0})
    assert first == {"multiplier ndcg@5": pytest.approx(RATE * 0.1), "multiplier dcg@5": 0.0}
    history = {name: [value] for name, value in first.items()}
    total = 1.0 + RATE * 0.1
    assert constraints.weights(history) == pytest.approx((1.0 / total, RATE * 0.1 / total, 0.0))
    second = constraints.multipliers(history, {"bound ndcg@5": 0.45, "bound dcg@5": 2.0})
    assert second["multiplier ndcg@5"] == pytest.approx(RATE * (0.1 + 0.05 / np.sqrt(2)))
    assert second["multiplier dcg@5"] == pytest.approx(RATE * 0.5 / np.sqrt(2))  # goals above 1 count as shares
    later = {name: [*history[name], value] for name, value in second.items()}
    total = 1.0 + sum(second.values())
    assert constraints.weights(later) == pytest.approx((1.0 / total, *(value / total for value in second.values())))
    assert Constraints.of_setting(None).weights({}) == ()


def test_best_round_is_that_among_feasible_ones():
    stopping = Stopping(rounds=9, metrics=("ndcg@5",), patience=2, constraints=Constraints.of_setting({"rr": 0.5}))
    history = {"ndcg@5": [0.9, 0.8, 0.6, 0.7, 0.65, 0.95], "bound rr": [0.1, 0.3, 0.5, 0.6, 0.9, 0.49]}
    best, kept = 0, []
    for done in range(1, 7):
        best = done if stopping.improved(history, done, best) else best
        kept.append(best)
    assert kept == [1, 2, 3, 4, 4, 4]  # nearer, nearer, feasible, better; worse; better but not feasible
    assert stopping.finished(6, 4) == "patience"
    unmet = stopping.constraints.unmet({"bound rr": [0.1, 0.3]}, 2, "rounds")
    assert "no round met the constraints: the nearest, round 2, is kept, with rr at least 0.3000 of 0.5" in unmet
    assert not stopping.constraints.unmet(history, 4, "rounds")


def test_feasible_round_is_kept_before_smoothing_begins():
    stopping = Stopping(rounds=9, metrics=("ndcg@5",), smoothing=3, constraints=Constraints.of_setting({"rr": 0.5}))
    history = {"ndcg@5": [0.6, 0.4, 0.9, 0.9, 0.3, 0.9], "bound rr": [0.1, 0.6, 0.2, 0.3, 0.7, 0.5]}
    best, kept = 0, []
    for done in range(1, 7):
        best = done if stopping.improved(history, done, best) else best
        kept.append(best)
    assert kept == [1, 2, 2, 2, 5, 5]  # means of the feasible: 0.5 of two rounds, 0.7, and 0.7 again
    plain = Stopping(rounds=9, constraints=stopping.constraints)  # without metrics, the last of the feasible
    assert [plain.improved(history, done, 2) for done in (3, 5)] == [False, True]


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.9, 0.1)])
def test_derivatives_are_those_of_the_weighted_sum(parts, weights):
    data = parts[0]
    rng = np.random.default_rng(2)
    scores, stream = rng.normal(size=data.n_docs), data.stream(3)
    lists = {"labels": data.labels, "offsets": data.offsets, "more_labels": data.more_labels}
    prepared: Any = Constraints.of_setting({BUY: 0.6}).objective(rw.objective("xendcg")).prepare(**lists)
    trained = prepared.weighed(weights)
    plain = rw.objective(f"{weights[0]}*xendcg + {weights[1]}*on(buy, xendcg)").prepare(**lists)
    for ours, theirs in zip(trained(scores, stream), plain(scores, stream), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", TRAINERS)
def test_every_trainer_weighs_as_told(parts, name, monkeypatch):
    """With weights that stay the same, the model is that of the sum, bit for bit."""
    make, settings = TRAINERS[name]
    monkeypatch.setattr(Constraints, "weights", lambda *_: (0.5, 0.5))
    constrained = make("xendcg", constraints={BUY: 0.0}, **settings).fit(*parts)
    plain = make(HALVES, **settings).fit(*parts)
    np.testing.assert_array_equal(constrained.predict(parts[1]), plain.predict(parts[1]))
    assert constrained.history_["ndcg@10"] == plain.history_["ndcg@10"]
    assert constrained.scales_ == plain.scales_


def test_bags_weigh_as_told(parts, monkeypatch):
    monkeypatch.setattr(Constraints, "weights", lambda *_: (0.5, 0.5))
    bags = [
        rw.bagged(rw.LightGBMRanker(objective, constraints=constraints, **TREES), folds=2).fit(*parts)
        for objective, constraints in (("xendcg", {BUY: 0.0}), (HALVES, None))
    ]
    np.testing.assert_array_equal(bags[0].predict(parts[1]), bags[1].predict(parts[1]))
    assert bags[0].out_of_fold_.mean[BUY] > 0.0


@pytest.mark.parametrize("name", ["lightgbm", "neural", "bagged"])
def test_goal_is_reached_where_it_was_not(parts, name):
    make, settings = TRAINERS["lightgbm" if name == "bagged" else name]
    longer = settings | ({"epochs": 30, "learning_rate": 0.01} if name == "neural" else {"rounds": 60})
    metrics = ("ndcg@10", BUY)
    plain, model = (make("xendcg", metrics=metrics, constraints=one, **longer) for one in (None, {BUY: 0.6}))
    if name == "bagged":
        plain, model = rw.bagged(plain, folds=2), rw.bagged(model, folds=2)
    plain.fit(*parts)
    model.fit(*parts)
    history, best = model.history_, model.best_round_ - 1
    assert plain.history_[BUY][plain.best_round_ - 1] < 0.6 <= history[BOUND][best]
    feasible = [value for value, bound in zip(history["ndcg@10"], history[BOUND], strict=True) if bound >= 0.6]
    assert history["ndcg@10"][best] == max(feasible)
    assert len(history[MULTIPLIER]) == len(history[BOUND])
    assert max(history[MULTIPLIER]) > 0.0


def metric(scores, data):
    return float(np.nanmean(rw.metric(BUY).of(scores, data)))


@pytest.mark.parametrize("name", ["lightgbm", "neural", "bagged"])
def test_training_resumes_bit_for_bit(parts, tmp_path, name):
    make, settings = TRAINERS["lightgbm" if name == "bagged" else name]
    unit, rounds = ("epochs", 6) if name == "neural" else ("rounds", 12)

    def ranker(**changes):
        changed = {**settings, "constraints": {BUY: 0.65, "ndcg@5": 0.1}, "checkpoint_every": 3, **changes}
        return rw.bagged(make("xendcg", **changed), folds=2) if name == "bagged" else make("xendcg", **changed)

    def stop(round, history):
        if round == 4:
            raise StopTraining("enough")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UnmetConstraintWarning)
        whole = ranker().fit(*parts)
        ranker(checkpoint=tmp_path / "kept").fit(*parts, callback=stop)
        seen = []
        resumed = ranker(checkpoint=tmp_path / "kept")
        resumed.fit(*parts, resume=True, callback=lambda round, _: seen.append(round))
    assert seen == list(range(4, rounds + 1)), unit
    assert resumed.history_ == whole.history_
    assert resumed.best_round_ == whole.best_round_
    np.testing.assert_array_equal(resumed.predict(parts[1]), whole.predict(parts[1]))


def test_nearest_round_is_kept_with_a_warning(parts):
    with pytest.warns(UnmetConstraintWarning, match=r"no round met.*at least 0\.\d{4} of 0.99 .*[Ll]ower the goals"):
        model = rw.LightGBMRanker("xendcg", constraints={BUY: 0.99}, **TREES).fit(*parts)
    assert model.best_round_ == int(np.argmax(model.history_[BOUND])) + 1


def test_constraint_is_written_read_and_saved(parts, tmp_path):
    model = rw.LightGBMRanker("xendcg", constraints={BUY: 0.5}, **TREES)
    assert rw.ranker(repr(model)).constraints == {BUY: 0.5}
    model.fit(*parts)
    assert repr(model).startswith("lightgbm(xendcg,")
    loaded = rw.load(model.save(tmp_path / "model"))
    assert loaded.constraints == {BUY: 0.5}
    assert loaded.history_[MULTIPLIER] == model.history_[MULTIPLIER]


def test_constraint_on_the_labels_themselves_chooses_among_rounds(parts):
    free = rw.LightGBMRanker("on(buy, xendcg)", metrics=(BUY,), **TREES).fit(*parts)
    model = rw.LightGBMRanker("on(buy, xendcg)", metrics=(BUY,), constraints={"ndcg@10": 0.55}, **TREES).fit(*parts)
    assert model.history_["bound ndcg@10"][model.best_round_ - 1] >= 0.55
    assert metric(model.predict(parts[1]), parts[1]) < metric(free.predict(parts[1]), parts[1])


@pytest.mark.parametrize(
    ("objective", "trained"),
    [
        ("on(buy, xendcg)", ["xendcg", "on(sale, xendcg)"]),
        ("fair(on(buy, plrank), weight=0.5)", ["fair(plrank, weight=0.5)", "fair(on(sale, plrank), weight=0.5)"]),
        ("fair(plrank)", ["fair(plrank)", "on(sale, fair(plrank))"]),
        ("weighted(stochastic(on(buy, xendcg)))", 2 * ["weighted(stochastic({}))"]),
    ],
)
def test_the_labels_of_a_constraint_replace_those_of_on_in_whatever_wrappers(objective, trained):
    inside = ("xendcg", "on(sale, xendcg)")
    expected = [rw.objective(text.format(inner)) for text, inner in zip(trained, inside, strict=True)]
    summed: Any = Constraints.of_setting({"ndcg@10": 0.5, "ap(label=sale)": 0.1}).objective(rw.objective(objective))
    assert [term for _, term in summed.terms] == [rw.objective(objective), *expected]


def test_what_cannot_be_kept_is_refused(parts):
    constraints = {BUY: 0.5}
    with refusal(what="constraints need validation data"):
        rw.LightGBMRanker("xendcg", constraints=constraints, **TREES).fit(parts[0])
    with refusal(what="objectives of lightgbm itself take no constraints", hint="train one of ours…"):
        rw.LightGBMRanker("native:rank_xendcg", constraints=constraints, **TREES).fit(*parts)
    with refusal(what="constraints and sums with on(…) do not go together"):
        rw.LightGBMRanker(HALVES, constraints=constraints, **TREES).fit(*parts)
    with refusal(what="constraints must be goals by metric"):
        rw.LightGBMRanker("xendcg", constraints=0.5, **TREES).fit(*parts)  # type: ignore[arg-type]
    with refusal(what="the goal of ndcg(label=buy)@10 must be a number in (-inf, inf)"):
        rw.LightGBMRanker("xendcg", constraints={BUY: "high"}, **TREES).fit(*parts)  # type: ignore[dict-item]
    with refusal(what="the data have no labels called 'sale'"):
        rw.LightGBMRanker("xendcg", constraints={"ndcg(label=sale)@10": 0.5}, **TREES).fit(*parts)
    ranker = rw.LightGBMRanker("xendcg", constraints=constraints)
    refuses(lambda: rw.blended([ranker, 0]), what="a blend may break the constraints of its members")
    refuses(lambda: rw.distilled("folder", ranker), what="a student learns from its teacher, and not from other labels")
    with refusal(what="a search compares trials by one metric"):
        rw.tune(parts[0], parts[1], "xendcg", fixed={"constraints": constraints}, trials=1)


def test_bounds_of_scores_on_a_device_are_computed_from_a_copy(parts):
    class Scores(DeviceScores):
        def measurer(self, metric, data):
            return lambda scores: 0.25  # stands for a kernel's mean

        def array(self):
            return np.linspace(0.0, 1.0, parts[1].n_docs)

    validation = Validation(parts[1], [rw.metric("rr")], debias=False, constrained=[rw.metric(BUY)])
    measures = validation.on_device(Scores())
    assert list(measures) == ["rr", BOUND]
    assert measures[BOUND] == lower_bound(BOUND, rw.metric(BUY).of(Scores().array(), parts[1]), None)
