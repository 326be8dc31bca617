"""Feature selection: noise goes, one of duplicates stays, and queries that measure the loss have no say in it."""

import time
from typing import Any

import numpy as np
import pytest
from scipy import sparse

import rankwise as rw
from rankwise.model_selection.fold_splits import fold_list
from rankwise.statistics.significance import t_test
from rankwise.wings.tuning import feature_steps
from rankwise.wings.tuning.feature_selection import FeatureSelection, _selected
from rankwise.wings.tuning.feature_steps import FeatureSteps, Step, Units, with_columns
from tests.refusals import refuses

NAMES = ["weak", "strong", "copy of strong", "near", *(f"noise {number}" for number in range(6))]
COSTS = {"strong": 3.0, "near": 2.0}
SEEN: list[list[int]] = []


class Least(rw.Ranker):
    """Least squares on labels less the mean of their query."""

    def __init__(self, marker: int = 0) -> None:
        self.marker = marker

    def _fit(self, train: rw.RankingDataset, valid: rw.RankingDataset | None) -> None:
        SEEN.append(np.asarray(train.query_ids).tolist())
        means = np.add.reduceat(train.labels, train.offsets[:-1]) / train.sizes
        features = np.asarray(train.features, float)
        gram = features.T @ features + 1e-3 * train.n_docs * np.eye(train.n_features)
        self.weights_ = np.linalg.solve(gram, features.T @ (train.labels - np.repeat(means, train.sizes)))

    def _predict(self, features: Any, offsets: Any) -> Any:
        return np.asarray(features, float) @ self.weights_


def planted(n_queries: int = 60, seed: int = 0) -> rw.RankingDataset:
    rng = np.random.default_rng(seed)
    strong, weak = rng.normal(size=(2, n_queries * 12))
    near = 2.0 * strong + 0.05 * rng.normal(size=strong.size)
    score = strong + 0.6 * weak + 0.5 * rng.normal(size=strong.size)
    features = np.column_stack([weak, strong, strong, near, rng.normal(size=(strong.size, 6))])
    labels = np.digitize(score, [0.5, 1.2, 1.8])
    offsets = np.arange(0, strong.size + 1, 12)
    return rw.RankingDataset(features, labels, offsets, feature_names=NAMES, query_ids=np.arange(n_queries) + 100)


@pytest.fixture(scope="module")
def selected() -> FeatureSelection:
    SEEN.clear()
    return rw.select_features(Least(), planted(), costs=COSTS, folds=3)


def test_noise_goes_and_the_cheapest_of_duplicates_stays(selected: FeatureSelection):
    assert selected.features == ("weak", "copy of strong")
    assert set(selected.dropped) == set(NAMES) - {"weak", "copy of strong"}
    assert selected.cost == 2.0
    rows = {row.feature: row for row in selected.rows}
    assert len({rows[name].group for name in ("strong", "copy of strong", "near")}) == 1
    assert len({row.group for row in selected.rows}) == 8
    assert rows["copy of strong"].worth > rows["weak"].worth > 0.02 > rows["near"].worth
    assert rows["copy of strong"].folds == 3
    assert selected.interval[0] < selected.loss < selected.interval[1] < 0.03
    assert selected.take(planted()).feature_names == selected.features
    last = selected.curve[-1]
    assert last.features == 1.0
    assert last.low > 0.02  # the weak one is missed


def test_each_step_is_measured_on_queries_that_no_model_before_it_has_seen(selected: FeatureSelection):
    data, folds = planted(), [set(np.asarray(test.query_ids)) for *_, test in rw.folds(planted(), 3, seed=0)]
    everyone = set(np.asarray(data.query_ids).tolist())
    of_folds = [[seen for seen in SEEN if not set(seen) & fold] for fold in folds]
    whole = [seen for seen in SEEN if all(set(seen) & fold for fold in folds)]
    assert all(of_folds)
    assert len(whole) + sum(map(len, of_folds)) == len(SEEN)
    assert all(set(seen) < everyone for seen in whole)  # the steps of all queries are measured by folds of their own
    assert selected.n_scored <= data.n_queries


def test_the_first_point_is_cross_validation_and_losses_are_paired(selected: FeatureSelection):
    data = planted()
    every = rw.cross_validate(Least(), data, 3)["ndcg@10"]
    assert selected.curve[0].value == pytest.approx(np.nanmean(every), rel=1e-12)
    assert selected.curve[0].loss == 0.0
    for point in selected.curve[1:]:
        assert point.value + point.loss == pytest.approx(selected.curve[0].value, abs=1e-12)
    two = data.with_(features=data.features[:, [0, 2]], feature_names=None)
    chosen = rw.cross_validate(Least(), two, 3)["ndcg@10"]
    (same,) = (one for one in selected.curve if one.features == 2.0)
    assert same.loss == pytest.approx(np.nanmean(every - chosen), abs=1e-12)


def test_a_computation_is_kept_or_dropped_as_one():
    costs = {("strong", "noise 0"): 4.0, ("copy of strong", "near", "noise 1"): 5.0, 0: 0.0}
    chosen = rw.select_features(Least(), planted(), 4.0, costs=costs, folds=2)
    assert chosen.features == ("weak", "strong", "noise 0")
    assert chosen.cost == 4.0
    assert all(point.budget >= 0.05 * chosen.curve[0].cost for point in chosen.curve)
    cheap = rw.select_features(Least(), planted(), 0.5, costs={"weak": 0.5}, folds=2)
    assert cheap.features == ("weak",)


def test_what_is_worth_nothing_goes_and_then_what_is_worth_least_for_its_cost():
    units = Units.of(with_columns(planted(), np.arange(5)), {"weak": 4.0, "near": 0.0})
    worth, every = np.array([0.4, 0.2, 0.0, 0.1, -0.1]), np.arange(5)
    kept = {most: units.fewer(every, worth, most).tolist() for most in (9.0, 5.0, 4.0, 1.0, 0.5)}
    assert kept == {9.0: [0, 1, 3], 5.0: [0, 1, 3], 4.0: [1, 3], 1.0: [1, 3], 0.5: [3]}
    assert units.fewer(every[:3], -worth[:3], 9.0).tolist() == [2]
    assert units.fewer(every[:3], -worth[:3] - 1.0, 1.0).tolist() == [2]  # the best of those that it can pay for


def test_what_loses_nothing_goes_before_what_may_lose_something():
    data = planted(40, seed=8)
    faint = data.features[:, [0]] + 3.0 * np.random.default_rng(5).normal(size=(data.n_docs, 1))
    data = data.with_(features=np.hstack([data.features, faint]), feature_names=None)
    steps = FeatureSteps(Least(), data, Units.of(data, None), rw.metric("ndcg@10"), 0)
    every, average, sure = steps.walk(data, None, [11.0] * 3)
    assert {*sure.chosen} < {*average.chosen} < {*every.chosen}
    assert 10 in set(average.chosen) - set(sure.chosen)
    assert (average.average > 0).all()
    assert (average.worth <= 0).any()
    assert (sure.worth > 0).all()


def test_losses_of_steps_are_accepted_by_tolerance():
    strict, lax = (rw.select_features(Least(), planted(), folds=2, tolerance=one) for one in (0.0, 0.5))
    assert len(lax.features) == 1 < len(strict.features)
    assert lax.loss == lax.curve[lax.point].loss > 0.02


def test_ranks_overlap_as_they_do_within_queries():
    data = planted()
    of_query = np.repeat(np.random.default_rng(1).normal(size=data.n_queries), data.sizes)
    features = np.column_stack(
        [data.features[:, [0, 1]], np.exp(data.features[:, 1]) + of_query, of_query, of_query**3]
    )
    features = np.column_stack([features, np.ones(data.n_docs)])
    data = data.with_(features=features, feature_names=None)
    overlap = Units.of(data, None).explained(data)
    assert overlap[1, 2] > 0.999  # of any increasing function, beside what a query has
    assert overlap[3, 4] == 1.0
    assert (overlap[:3, 3:] < 1e-9).all()
    assert (overlap[5] == 0.0).all()
    units = Units.of(data, {(0, 1): 1.0})
    assert units.explained(data)[0, 1] == pytest.approx(overlap[1, 2])
    assert units.explained(data)[1, 0] == pytest.approx((overlap[2, 0] + overlap[2, 1]) / 2.0)


def test_documents_stay_in_their_query_and_features_of_queries_change_it():
    data = planted(20)
    within, across = feature_steps._orders(data, seed=3, repeat=0)
    queries = np.repeat(np.arange(20), data.sizes)
    assert (queries[within] == queries).all()
    assert (np.sort(within) == np.arange(data.n_docs)).all()
    assert (within != feature_steps._orders(data, seed=3, repeat=1)[0]).any()
    assert sorted(queries[across[data.offsets[:-1]]]) == list(range(20))
    assert (np.diff(across.reshape(20, -1)) == 0).all()
    mask = np.isin(np.arange(data.n_features), [1, 2])
    dense = feature_steps._permuted(data.features, within, mask)
    assert (dense[:, ~mask] == data.features[:, ~mask]).all()
    assert (dense[:, mask] == data.features[within][:, mask]).all()
    other = feature_steps._permuted(sparse.csr_array(data.features), within, mask)
    assert (other.toarray() == dense).all()


def test_a_feature_of_queries_that_only_interacts_is_worth_something():
    data, rng = planted(150), np.random.default_rng(5)
    sign = np.repeat(rng.choice([-1.0, 1.0], 150), data.sizes)
    features = np.column_stack([data.features[:, 1] * sign, sign, rng.normal(size=data.n_docs)])
    data = data.with_(features=features, feature_names=["turned", "sign", "noise"])
    ranker = rw.LightGBMRanker(rounds=8, leaves=4, min_documents=10, patience=None, threads=1)
    assert rw.select_features(ranker, data, folds=2).features == ("turned", "sign")


@pytest.mark.parametrize(
    ("ranker", "kind"),
    [
        ("lightgbm(rounds=3, leaves=4, min_documents=5, patience=2, threads=1)", "dense"),
        ("lightgbm(rounds=3, leaves=4, min_documents=5, patience=None, threads=1)", "sparse"),
        ("lightgbm(rounds=3, leaves=4, patience=None, threads=1, monotone_constraints={strong: 1})", "categorical"),
        ("bagged(lightgbm(rounds=2, leaves=4, min_documents=5, threads=1), folds=2)", "weighted"),
        ("neural(hidden=4, epochs=1, patience=None, threads=1, device=cpu)", "dense"),
        ("neural(preset=linear, transform='quantile+query', epochs=1, patience=None, device=cpu)", "dense"),
    ],
)
def test_rankers_and_data_of_every_kind(ranker: str, kind: str):
    if ranker.startswith("neural"):
        pytest.importorskip("torch")
    data = with_columns(planted(30), np.arange(5))
    if kind == "sparse":
        data = data.with_(features=sparse.csr_array(data.features))
    if kind == "weighted":
        data = data.with_(weights=np.linspace(0.0, 2.0, 30))
    if kind == "categorical":
        codes = np.array(data.features)
        codes[:, 4] = np.arange(data.n_docs) % 3
        data = data.with_(features=codes, categorical=[4], categories={4: ("a", "b", "c")})
    chosen = rw.select_features(ranker, data, folds=2)
    assert set(chosen.features) <= set(NAMES[:5])
    assert chosen.curve[0].features == 5.0
    assert chosen.folds == 2


def test_measuring_ends_by_ctrl_c_and_by_time(monkeypatch: pytest.MonkeyPatch):
    walk, began = FeatureSteps.walk, []

    def interrupted(self: FeatureSteps, *arguments: Any) -> Any:
        began.append(1)
        if len(began) == last:
            raise KeyboardInterrupt
        return walk(self, *arguments)

    monkeypatch.setattr(FeatureSteps, "walk", interrupted)
    last = 4
    part = rw.select_features(Least(), planted(), folds=4)
    assert (part.stopped, part.folds) == ("interrupted", 2)
    assert "of 2 folds: interrupted" in repr(part)
    assert part.n_scored < 40
    began.clear()
    last = 2
    refuses(
        lambda: rw.select_features(Least(), planted(), folds=4),
        KeyboardInterrupt,
        what="interrupted before two folds were measured",
    )
    monkeypatch.setattr(FeatureSteps, "walk", walk)
    start = time.perf_counter()
    part = rw.select_features(Least(), planted(), folds=10, minutes=1e-9)
    assert (part.stopped, part.folds) == ("time", 2)
    assert time.perf_counter() - start < 60.0
    assert rw.select_features(Least(), planted(), folds=2, minutes=60.0).stopped == "finished"


def test_what_cannot_be_selected_is_refused(selected: FeatureSelection):
    data, ranker = planted(), Least()

    def refused(what: str, /, *arguments: Any, **settings: Any) -> None:
        refuses(lambda: rw.select_features(ranker, *(arguments or (data,)), **settings), what=what)

    refused("no feature is that cheap", budget=0.5)
    refused("unknown feature in costs", costs={"bm25": 2.0})
    refused("a feature has one cost", costs={"weak": 2.0, ("weak", "strong"): 3.0})
    refused("a cost…", costs={"weak": -1.0})
    refused("costs must be numbers by feature", costs=[1.0] * 10)
    refused("a column in costs must be smaller than the number of features", costs={12: 1.0})
    refused("there are no features to select from", data.with_(features=np.zeros((720, 0)), feature_names=None))
    refused("…folds…", folds=1)
    refuses(lambda: rw.select_features(3, data), what="a ranker has fit and predict")
    refuses(lambda: selected.take(selected.take(data)), what="data must have all features that were selected from")
    flat = data.with_(labels=np.where(np.repeat(np.arange(60), 12) < 2, data.labels, 0.0))
    refused("selecting features needs at least 10 queries that ndcg@10 scores", flat)


def test_the_cost_of_a_fold_is_chosen_by_the_other_folds():
    data = planted(40)
    units, plan = Units.of(data, None), fold_list(data, 2, valid=0.0, seed=0)
    every, one = np.arange(10), np.array([1])
    sizes = [fold.queries.size for fold in plan if fold.queries is not None]
    rng = np.random.default_rng(0)

    def path(size: int, gap: float) -> list[Step]:
        before, worth, groups = 0.5 + 0.01 * rng.normal(size=size), np.ones(10), np.zeros(10, np.int64)
        after = before - gap + 0.01 * rng.normal(size=size)
        return [Step(every, worth, worth, groups, before), Step(one, worth[:1], worth[:1], groups[:1], after)]

    paths = [path(0, 0.0), path(sizes[0], -0.1), path(sizes[1], 0.2)]  # fewer features are better, and worse
    steps = FeatureSteps(Least(), data, units, rw.metric("ndcg@10"), 0)
    found = _selected(steps, paths, plan, [10.0, 1.0], 10.0, 0.0, 0.95, "finished")
    lost = paths[2][0].values - paths[2][1].values  # fold 2 believes fold 1, and fold 1 keeps all, as fold 2 says
    assert found.loss == pytest.approx(lost.sum() / sum(sizes), rel=1e-12)
    gaps = np.concatenate([np.zeros(sizes[0]), lost])
    test = t_test(gaps, overlap=2.0 / gaps.size)
    assert found.interval == pytest.approx(test.interval(), rel=1e-12)
    assert test.error == pytest.approx(np.sqrt(3.0) * t_test(gaps).error, rel=1e-12)
