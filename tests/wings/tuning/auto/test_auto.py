"""A ranker that is chosen within a time: what is trained for how long, what is taken, and what is left after Ctrl-C."""

import copy
import itertools
import json
import math
import re
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array
from sklearn.base import clone

import rankwise as rw
from rankwise.base import files
from rankwise.rankers.ensembles.blend_members import member_kind
from rankwise.rankers.ensembles.blend_weights import centred
from rankwise.rankers.ensembles.members import BagLearner
from rankwise.rankers.training.constraints import Constraints, UnmetConstraintWarning
from rankwise.rankers.training.settings import metrics_of
from rankwise.statistics.significance import t_test
from rankwise.wings.tuning.auto import budget, portfolio
from rankwise.wings.tuning.auto.choice import RankerCandidate, average_of, averaged, choose
from rankwise.wings.tuning.auto.leaderboard import Entry, Leaderboard, measured
from rankwise.wings.tuning.auto.search import RecipeRun, Search
from tests import tiers
from tests.refusals import refusal, refuses

ROUNDS = 12
SMALL: dict[str, Any] = {"rounds": ROUNDS, "leaves": 4, "min_documents": 3, "learning_rate": 0.2, "patience": None}
LOSSES = ("xendcg", "lambdarank", "ranknet")


def recipes(count: int = 3, **changes: Any) -> list[Any]:
    return [rw.LightGBMRanker(loss, **SMALL | changes) for loss in LOSSES[:count]]


def auto(**settings: Any) -> rw.AutoRanker:
    usual: dict[str, Any] = {"minutes": None, "recipes": recipes(), "folds": 3, "threads": 1, "progress": False}
    return rw.AutoRanker(**usual | settings)


@pytest.fixture(scope="module")
def data():
    return rw.synthetic(n_queries=36, n_docs=8, n_features=6, seed=3)


@pytest.fixture(scope="module")
def fitted(data):
    return auto().fit(data)


class Trainings:
    """Counts the rounds of bags by objective; each takes seconds of the search's clock, and one may be interrupted."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.now, self.stop_at = 0.0, math.inf
        self.seconds: Any = lambda calls: 1.0
        self.calls: list[int] = []
        train = BagLearner.round

        def count(learner: BagLearner, stream: Any, weights: Any = ()) -> float | None:
            if len(self.calls) + 1 >= self.stop_at:
                raise KeyboardInterrupt
            found = train(learner, stream, weights)
            self.calls.append(stream.round)
            self.now += self.seconds(len(self.calls) - 1)
            return found

        patch.setattr(BagLearner, "round", count)
        patch.setattr(budget, "clock", lambda: self.now)


@pytest.fixture
def trainings(monkeypatch):
    return Trainings(monkeypatch)


def plain(model: Any) -> list[dict[str, Any]]:
    """All that does not depend on the clock."""
    timed = ("seconds", "microseconds")
    return [{k: v for k, v in row.items() if k not in timed} for row in model.leaderboard_.to_dict()["recipes"]]


def test_every_recipe_is_the_bag_that_it_would_be_alone(data, fitted):
    entries = {entry.recipe: entry for entry in fitted.leaderboard_.entries}
    for loss in LOSSES:
        entry = entries[f"lightgbm({loss})"]
        alone = rw.bagged(rw.LightGBMRanker(loss, **SMALL, threads=1), 3).fit(data)
        assert entry.state == "complete"
        assert entry.mean == alone.out_of_fold_.mean["ndcg@10"]
        if entry.chosen:
            assert np.array_equal(fitted.predict(data), alone.predict(data))
        assert entry.expression == repr(rw.LightGBMRanker(loss, **SMALL))
    (blend,) = (entry for entry in fitted.leaderboard_.entries if entry.blend)
    assert blend.recipe == "lightgbm average of 3 bags"
    assert fitted.stopped_ == "recipes"


def test_recipes_are_trained_one_after_the_other(data, trainings):
    model = auto().fit(data)
    assert trainings.calls == 3 * list(range(ROUNDS))
    assert {entry.state for entry in model.leaderboard_.entries} == {"complete"}


def test_time_that_is_left_is_used_for_further_seeds(data, trainings):
    model = auto(minutes=60.0, recipes=[*recipes(1), *recipes(2)[1:]]).fit(data)
    assert trainings.calls == 6 * list(range(ROUNDS))  # two recipes, then both again, and again
    assert model.stopped_ == "seeds"
    assert "averaged on further folds" in repr(model.leaderboard_)
    names = [entry.recipe for entry in model.leaderboard_.entries]
    assert {"lightgbm(xendcg) again", "lightgbm(xendcg) again, 2", "lightgbm(lambdarank) again"} <= {*names}
    weights = {entry.recipe: entry.weight for entry in model.leaderboard_.entries if not entry.blend}
    shares = [sum(weight for name, weight in weights.items() if loss in name) for loss in LOSSES[:2]]
    assert math.isclose(sum(shares), 1.0)
    assert shares == pytest.approx([0.5, 0.5])  # a kind has one share, however many bags


def test_a_search_ends_early_where_further_seeds_change_nothing(data, trainings, monkeypatch):
    monkeypatch.setattr("rankwise.wings.tuning.auto.search.NEGLIGIBLE", 1.0)  # the whole metric
    model = auto(minutes=60.0).fit(data)
    assert model.stopped_ == "level"
    assert "further folds change the average by less than a thousandth" in repr(model.leaderboard_)
    assert len(trainings.calls) == 6 * ROUNDS  # two laps, and no third


@pytest.fixture
def large(monkeypatch):
    """Take any data for large, and a recipe of 500 rounds for the portfolio."""
    recipe = rw.LightGBMRanker("lambdarank", **SMALL | {"rounds": 500, "learning_rate": 0.05})
    monkeypatch.setattr(portfolio, "MIDDLE", 0)
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: ([recipe], []))


@pytest.mark.parametrize(("seconds", "rate"), [(20, 0.3), (211, 0.15), (1100, 0.05)])
def test_learning_rates_of_large_data_fit_the_time(seconds, rate, data, trainings, large):
    model = auto(minutes=seconds / 60, recipes=None).fit(data)
    assert trainings.now <= seconds
    # Half of what is left after four rounds of a second each, with 3% for the end, times the rate is 15.
    (first,) = [entry for entry in model.leaderboard_.entries if entry.recipe == "lightgbm(lambdarank)"]
    assert rw.ranker(first.expression).learning_rate == pytest.approx(rate, rel=0.05)
    begins = [number for number, round in enumerate(trainings.calls) if round == 0]
    assert begins[:2] == ([0, 4] if rate > 0.05 else [0, 500])  # with another rate, or with another seed
    raised = "Learning rates were raised, for the time is short: lightgbm(lambdarank) at"
    assert (raised in repr(model.leaderboard_)) == (rate > 0.05)


def test_a_training_with_another_rate_does_not_begin_too_late(data, trainings, large):
    """The first round takes long, and would again."""
    trainings.seconds = lambda _: 20.0 if trainings.calls[-1] == 0 else 1.0
    model = auto(minutes=40 / 60, recipes=None).fit(data)
    assert trainings.now <= 40
    assert trainings.calls == list(range(len(trainings.calls)))  # no second beginning
    assert "Learning rates were raised" not in repr(model.leaderboard_)


def test_the_seconds_of_a_recipe_are_all_of_them(data, trainings, large):
    model = auto(minutes=20 / 60, recipes=None).fit(data)
    assert sum(entry.seconds for entry in model.leaderboard_.entries if not entry.blend) == trainings.now


def test_learning_rates_of_the_users_recipes_stay(data, trainings, large):
    model = auto(minutes=20 / 60, recipes=recipes(1, rounds=500)).fit(data)
    assert model.ranker_.learning_rate == 0.2
    assert trainings.calls.count(0) == 1


def test_a_search_with_a_raised_rate_resumes(data, trainings, large, tmp_path):
    whole = auto(minutes=40 / 60, recipes=None).fit(data)
    trainings.calls.clear()
    trainings.stop_at = 9
    with pytest.warns(RuntimeWarning, match="interrupted: the best so far"):
        auto(minutes=40 / 60, recipes=None, checkpoint=tmp_path).fit(data)
    trainings.stop_at = math.inf
    again = auto(minutes=40 / 60, recipes=None, checkpoint=tmp_path).fit(data)
    assert again.ranker_.learning_rate == whole.ranker_.learning_rate > 0.05


@pytest.mark.parametrize("seconds", [5, 12, 14, 20, 26])
def test_time_is_kept(seconds, data, trainings):
    model = auto(minutes=seconds / 60).fit(data)
    assert seconds - 2 <= trainings.now <= seconds
    assert model.stopped_ == "minutes"
    assert model.leaderboard_.seconds == trainings.now
    assert np.isfinite(model.predict(data)).all()
    states = [entry.state for entry in model.leaderboard_.entries]
    assert states.count("not tried") == {5: 2, 12: 2, 14: 1, 20: 1, 26: 0}[seconds]
    if seconds == 5:  # the last is for what comes after the rounds
        assert len(model.history_["ndcg@10"]) == 4
        assert model.leaderboard_.chosen.state == "minutes"


@pytest.mark.parametrize("seconds", [15, 20, 30, 45])
def test_time_is_kept_for_the_end(seconds, data, trainings, monkeypatch):
    ready, blend = rw.bagged.scorer, rw.blended.of_fitted

    def slow(bag: rw.bagged) -> Any:
        trainings.now += 1.5
        return ready(bag)

    def slower(*given: Any, **named: Any) -> Any:
        trainings.now += 1.5
        return blend(*given, **named)

    monkeypatch.setattr(rw.bagged, "scorer", slow)
    monkeypatch.setattr(rw.blended, "of_fitted", slower)
    model = auto(minutes=seconds / 60).fit(data)
    assert trainings.now <= seconds
    assert seconds - 6 < trainings.now
    assert all(entry.microseconds > 0.0 for entry in model.leaderboard_.entries if entry.rounds)


def test_long_rounds_after_short_ones_keep_the_time(data, trainings):
    trainings.seconds = lambda calls: 1.0 if calls < ROUNDS else 5.0
    model = auto(minutes=20 / 60).fit(data)
    assert trainings.now == 17.0  # another round would end at 22
    assert model.stopped_ == "minutes"


@pytest.mark.parametrize("seconds", [30, 45, 60])
def test_the_end_of_a_training_takes_longer_the_more_trees_there_are(seconds, data, trainings, monkeypatch):
    ready = rw.bagged.scorer

    def slow(bag: Any) -> Any:
        trainings.now += 0.004 * bag.model_.booster.feature_importance().sum()  # for each split
        return ready(bag)

    monkeypatch.setattr(rw.bagged, "scorer", slow)
    trainings.seconds = lambda calls: 0.2
    both = [*recipes(1, rounds=20), *recipes(2, rounds=2000)[1:]]
    assert auto(minutes=seconds / 60, recipes=both).fit(data).stopped_ == "minutes"
    assert 0.8 * seconds < trainings.now <= 1.05 * seconds


def test_the_longest_of_the_latest_rounds_says_how_long_the_next_may_take(data, trainings):
    trainings.seconds = lambda calls: 4.0 if calls % 4 == 3 else 1.0
    model = auto(minutes=26 / 60, recipes=recipes(1, rounds=40)).fit(data)
    assert model.stopped_ == "minutes"
    assert 21.0 <= trainings.now <= 26.0  # 28 if only the last one counted


def test_a_recipe_whose_first_round_would_be_too_late_is_passed_over(data, trainings):
    """An epoch sees all lists: what the first round of trees took says how long it may take."""
    pytest.importorskip("torch")
    net = rw.NeuralRanker("softmax_ce", hidden=(4,), epochs=12, device="cpu")
    model = auto(minutes=20 / 60, recipes=[recipes(1)[0], net, recipes(2)[1]]).fit(data)
    states = {entry.recipe: entry.state for entry in model.leaderboard_.entries}
    assert states["neural(softmax_ce)"] == "not tried"  # eight seconds are left, and ten are expected
    assert states["lightgbm(lambdarank)"] != "not tried"
    assert model.stopped_ == "minutes"
    assert trainings.now <= 20.0


def test_there_is_a_ranker_after_one_round_however_late(data, trainings):
    late = auto(minutes=0.5 / 60).fit(data)
    assert trainings.calls == [0]
    assert late.leaderboard_.chosen.state == "minutes"
    assert np.isfinite(late.predict(data)).all()
    (note,) = late.leaderboard_.notes
    assert note.startswith("The limit of 0.5 s was exceeded by 0.5 s: there is no ranker before 1 s with these data")
    assert note in str(late.leaderboard_.table().notes)


def test_a_limit_that_was_kept_is_not_spoken_of(data, trainings):
    assert not any("exceeded" in note for note in auto(minutes=20 / 60).fit(data).leaderboard_.notes)


def test_nets_that_look_at_whole_lists_are_measured_list_by_list(data):
    pytest.importorskip("torch")
    net = rw.NeuralRanker("softmax_ce", hidden=(8,), attention=2, epochs=1)
    model = auto(recipes=[net]).fit(data)
    assert model.needs_lists
    assert model.leaderboard_.chosen.microseconds > 0.0


def test_a_repeated_search_is_the_same(data, fitted):
    again = auto().fit(data)
    assert plain(again) == plain(fitted)
    assert np.array_equal(again.predict(data), fitted.predict(data))
    fewer = auto(max_recipes=2).fit(data)
    assert fewer.leaderboard_.tried == 2


@pytest.mark.parametrize("stop_at", [6, 14, 19, 22])
def test_interrupted_search_keeps_the_best_and_resumes(stop_at, data, fitted, trainings, tmp_path):
    trainings.stop_at = stop_at
    with pytest.warns(RuntimeWarning, match="interrupted: the best so far"):
        partial = auto(checkpoint=tmp_path / "search").fit(data)
    assert partial.stopped_ == "interrupted"
    assert np.isfinite(partial.predict(data)).all()
    before, trainings.stop_at = len(trainings.calls), math.inf
    whole = auto(checkpoint=tmp_path / "search").fit(data)
    assert plain(whole) == plain(fitted)
    assert np.array_equal(whole.predict(data), fitted.predict(data))
    assert before + len(trainings.calls) - before <= 3 * ROUNDS + ROUNDS  # finished recipes are not trained again
    done, again = len(trainings.calls), auto(checkpoint=tmp_path / "search").fit(data)
    assert len(trainings.calls) == done
    assert plain(again) == plain(fitted)
    assert np.array_equal(again.predict(data), fitted.predict(data))


class Killed(BaseException):
    """Ends a search without leaving it time for anything."""


def test_search_that_was_killed_in_its_first_recipe_resumes(data, fitted, tmp_path, monkeypatch):
    train = BagLearner.round
    done: list[int] = []

    def until(learner: BagLearner, stream: Any, weights: Any = ()) -> float | None:
        if len(done) == 5:
            raise Killed
        done.append(stream.round)
        return train(learner, stream, weights)

    with monkeypatch.context() as patch:
        patch.setattr(BagLearner, "round", until)
        with pytest.raises(Killed):
            auto(checkpoint=tmp_path / "search").fit(data)
    model = auto(checkpoint=tmp_path / "search").fit(data)
    assert plain(model) == plain(fitted)
    assert np.array_equal(model.predict(data), fitted.predict(data))
    (tmp_path / "other").mkdir()
    files.part_in(tmp_path / "other").write_text("{", encoding="utf-8")  # killed while the first file was written
    assert auto(checkpoint=tmp_path / "other", max_recipes=1).fit(data).stopped_ == "recipes"


def test_interruption_before_the_first_round_is_raised(data, trainings):
    trainings.stop_at = 1
    with pytest.raises(KeyboardInterrupt):
        auto().fit(data)


def test_time_of_runs_before_counts(data, trainings, tmp_path):
    first = auto(minutes=13 / 60, checkpoint=tmp_path).fit(data)
    assert first.stopped_ == "minutes"
    spent = trainings.now
    again = auto(minutes=13 / 60, checkpoint=tmp_path).fit(data)
    assert trainings.now == spent
    assert plain(again) == plain(first)
    more = auto(minutes=3.0, checkpoint=tmp_path).fit(data)
    assert more.stopped_ == "seeds"
    assert more.leaderboard_.seconds == trainings.now


def candidate(name: str, values: list[float], library: str = "lightgbm", bags: int = 1) -> RankerCandidate:
    evaluation, forest = rw.Evaluation({"ap": values}, range(len(values))), library not in ("", "neural")
    how: dict[str, Any] = {"library": library, "forest": forest, "bags": bags, "metric": "ap"}
    return RankerCandidate(name=name, ranker=None, evaluation=evaluation, **how)


def test_an_average_is_taken_unless_one_bag_is_surely_better():
    average = candidate("average", [0.5, 0.5, 0.5, 0.5], library="", bags=2)
    lucky = candidate("net", [0.7, 0.4, 0.6, 0.4], library="neural")  # ahead by .025 ± .075
    other = candidate("trees", [0.4, 0.4, 0.4, 0.4])
    assert choose([other, lucky, average]).name == "average"
    better = candidate("net", [0.6, 0.6, 0.7, 0.6], library="neural")  # ahead by .125 ± .025
    assert choose([other, better, average]).name == "net"
    assert choose([other, lucky]).name == "net"  # nothing was averaged: all others are surely worse
    assert choose([other, better, average], alone=False).name == "average"  # nothing single on small data
    trees = replace(average, name="trees' average", library="lightgbm")
    assert choose([other, better, trees], alone=False).name == "net"  # it was surely better than all kinds
    level = candidate("net", [0.7, 0.4, 0.7, 0.5])  # ahead by .075 ± .030, 2.4 standard errors
    level = replace(level, evaluation=rw.Evaluation({"ap": [0.6, 0.5, 0.6, 0.52]}, range(4)))
    assert choose([level, average]).name == "net"
    assert choose([level, *[other] * 9, average]).name == "average"  # the best of ten is lucky


def held(bag: Any, scores: Any, group: int, *, floor: bool, data: Any) -> RankerCandidate:
    """Return a bag as a candidate whose scores out of fold are others."""
    fake = copy.copy(bag)
    fake.held_out_ = bag.held_out_.measured(scores, scores, data, [rw.metric("ndcg@10")])
    how: dict[str, Any] = {"library": "lightgbm", "metric": "ndcg@10", "group": group, "floor": floor}
    return RankerCandidate(name=str(group), ranker=fake, evaluation=fake.out_of_fold_, **how)


def test_what_is_added_to_the_floor_is_surely_better_with_it(data):
    rng = np.random.default_rng(1)
    trees, other = (rw.bagged(one.set_params(rounds=2, threads=1), 2).fit(data) for one in recipes(2))
    noise = rng.normal(size=(9, data.n_docs))
    floor = held(trees, data.labels + 2.0 * noise[0], 0, floor=True, data=data)
    good = held(other, data.labels + 0.1 * noise[1], 1, floor=False, data=data)
    useless = [held(other, noise[number], number, floor=False, data=data) for number in range(2, 9)]
    metric = rw.metric("ndcg@10")
    assert averaged([floor, *useless, good], data, metric) == [floor, good]
    assert averaged([floor, *useless], data, metric) == [floor]
    assert averaged([good, *useless], data, metric) == [good, *useless]  # there is no floor
    units = [centred(one, data.offsets) for one in (data.labels + 2.0 * noise[0], data.labels + 0.1 * noise[1])]
    mean = sum(unit / np.sqrt(np.mean(unit**2)) for unit in units)
    np.testing.assert_allclose(average_of([floor, floor, good], data, metric), metric.of(mean, data))  # kinds, not bags


def test_what_adds_more_by_luck_alone_is_not_added(data):
    """One that is better by 2.2 standard errors is added alone, and not as the best of ten."""
    bag = rw.bagged(recipes(1, rounds=2, threads=1)[0], 2).fit(data)
    rng, metric = np.random.default_rng(0), rw.metric("ndcg@10")
    floor = held(bag, data.labels + 2.0 * rng.normal(size=data.n_docs), 0, floor=True, data=data)
    for _ in range(1000):
        one = held(bag, 0.2 * data.labels + rng.normal(size=data.n_docs), 1, floor=False, data=data)
        gain = average_of([floor, one], data, metric) - average_of([floor], data, metric)
        if 2.1 < t_test(gain[~np.isnan(gain)]).statistic < 2.4:
            break
    worse = [held(bag, -data.labels, group, floor=False, data=data) for group in range(2, 11)]
    assert averaged([floor, one], data, metric) == [floor, one]
    assert averaged([floor, one, *worse], data, metric) == [floor]


def test_small_data_have_a_floor_of_five_kinds_and_nets_come_last():
    found, _ = portfolio.portfolio(1000)
    groups, floor = portfolio.groups_of(found), portfolio.floor(found)
    assert {str(member_kind(found[group])) for group in floor} == {str(member_kind(one)) for one in found[:5]}
    assert all(group in floor for group in groups[:13])
    nets = [number for number, one in enumerate(found) if one.name == "neural"]
    assert nets == list(range(len(found) - len(nets), len(found)))
    large, _ = portfolio.portfolio(portfolio.MIDDLE)
    assert portfolio.floor(large) == {*range(len(large))}  # nothing has to prove itself


def test_the_floor_is_averaged_and_what_had_no_time_is_not(data, trainings, monkeypatch):
    tried = [*recipes(1) * 2, *recipes(2)[1:] * 2, *recipes(3)[2:]]  # two kinds of the floor, and one beside it
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: (tried, []))
    board = auto(minutes=32 / 60, recipes=None).fit(data).leaderboard_
    entries = {entry.recipe: (entry.state, entry.weight) for entry in board.entries if entry.rounds}
    assert entries == {
        "lightgbm(xendcg)": ("complete", 0.5),
        "lightgbm(xendcg) again": ("complete", 0.5),
        "lightgbm(lambdarank)": ("minutes", 0.0),
    }
    assert board.chosen.recipe == "lightgbm average of 2 bags"


def test_a_part_of_a_bag_is_not_taken_beside_a_whole_one(data, trainings, monkeypatch):
    small, later = recipes(1), rw.LightGBMRanker("lambdarank", **SMALL)
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: ([*small, later] * 2 + recipes(3)[2:], []))
    board = auto(minutes=22 / 60, recipes=None).fit(data).leaderboard_
    states = {entry.recipe: (entry.state, entry.mean, entry.chosen) for entry in board.entries if entry.rounds}
    (_, whole, chosen), (state, part, _) = states["lightgbm(xendcg)"], states["lightgbm(lambdarank)"]
    assert chosen
    assert state == "minutes"
    assert part > whole


@pytest.mark.parametrize(("seconds", "counts"), [(30, False), (60, True)])
def test_the_only_bag_of_a_kind_counts_where_its_trees_learned_enough(seconds, counts, data, trainings, monkeypatch):
    others = [rw.LightGBMRanker("lambdarank", **SMALL | {"rounds": 100, "learning_rate": 0.3})]
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: ([*recipes(1), *others] * 2 + recipes(3)[2:], []))
    board = auto(minutes=seconds / 60, recipes=None).fit(data).leaderboard_
    entry = next(entry for entry in board.entries if entry.recipe.startswith("lightgbm(lambdarank"))
    assert entry.state == "minutes"
    assert (entry.weight > 0.0) == counts


def test_learning_rates_of_small_data_leave_time_for_every_kind(data, trainings, monkeypatch):
    slow = {"rounds": 500, "learning_rate": 0.05}
    tried = [rw.LightGBMRanker(loss, **SMALL | slow) for loss in (*LOSSES, "softmax_ce")] * 2 + recipes(1)
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: (tried, []))
    board = auto(minutes=7, recipes=None).fit(data).leaderboard_
    first = next(entry for entry in board.entries if entry.recipe == "lightgbm(xendcg, rounds=500)")
    # A quarter of what is left after four rounds of a second each, with 3% for the end, times the rate is 15.
    assert rw.ranker(first.expression).learning_rate == pytest.approx(15 / (0.25 * (0.97 * 420 - 4)), rel=0.05)


def test_one_forest_is_taken_where_fast_is_preferred():
    trees = candidate("trees", [0.5, 0.4, 0.5, 0.4])
    average = candidate("trees' average", [0.5, 0.5, 0.5, 0.5], bags=2)
    mixed = candidate("average", [0.9, 0.9, 0.9, 0.9], library="", bags=3)
    other = candidate("xgboost", [0.7, 0.4, 0.6, 0.4], library="xgboost")  # ahead of the average by .025 ± .075
    assert choose([trees, other, mixed, average], "best").name == "average"
    assert choose([trees, other, mixed, average], "fast").name == "trees' average"
    better = candidate("xgboost", [0.6, 0.6, 0.7, 0.6], library="xgboost")
    assert choose([trees, better, mixed, average], "fast").name == "xgboost"
    net = candidate("net", [0.5, 0.4, 0.5, 0.4], library="neural")
    assert choose([net], "fast").name == "net"  # there is no forest


def test_a_recipe_that_comes_again_has_another_seed_and_other_folds(data, tmp_path):
    twice = recipes(1, bagging_fraction=0.5, bagging_freq=1) * 2
    model = auto(recipes=twice).fit(data)
    values = {entry.recipe: entry.mean for entry in model.leaderboard_.entries}
    for seed, name in enumerate(("lightgbm(xendcg)", "lightgbm(xendcg) again")):
        # What LightGBM draws depends on how many rounds lie between checkpoints: a search has one at each quarter.
        kept: dict[str, Any] = {"checkpoint": tmp_path / name, "checkpoint_every": ROUNDS // 4}
        alone = clone(twice[0]).set_params(seed=seed, threads=1, **kept)
        assert values[name] == rw.bagged(alone, 3, fold_seed=seed).fit(data).out_of_fold_.mean["ndcg@10"]
    assert len(set(values.values())) == len(values)
    assert portfolio.names(recipes(1) * 3)[1:] == ["lightgbm(xendcg) again", "lightgbm(xendcg) again, 2"]


def test_trees_with_values_within_the_query_are_a_kind_that_no_plain_forest_holds(tmp_path):
    data = rw.synthetic(n_queries=36, n_docs=8, n_features=6, seed=4)
    mixed = [*recipes(1), *recipes(1, leaves=5), *recipes(1, transform="raw+query")]
    model = auto(recipes=mixed).fit(data)
    weights = {entry.recipe: entry.weight for entry in model.leaderboard_.entries if not entry.blend}
    assert weights.pop("lightgbm(xendcg, leaves=4, transform=raw+query)") == 0.5
    assert [*weights.values()] == [0.25, 0.25]
    model.save(tmp_path / "model")
    np.testing.assert_array_equal(rw.load(tmp_path / "model").predict(data), model.predict(data))
    fast = auto(recipes=mixed, prefer="fast").fit(data)
    assert fast.leaderboard_.chosen.recipe == "lightgbm average of 2 bags"
    assert rw.export(fast, tmp_path / "model.tl", "treelite").is_file()


def test_the_portfolio_suits_the_data(data, tmp_path):
    def found(data: rw.RankingDataset, **settings: Any) -> tuple[str, str]:
        recipes, notes = auto(recipes=None, **settings)._recipes(data, None)
        return str(recipes), " ".join(notes)

    assert "calibrated(max_label=4)" in found(data)[0]
    assert "calibrated(max_label=1)" in found(data.with_(labels=data.labels / 8))[0]
    recipes, notes = found(data)
    assert "transform='raw+query'" in recipes
    assert "raw+query" not in notes
    (tmp_path / "rows.txt").write_text("1 qid:1 1:0.5\n0 qid:1 1:0.25\n1 qid:2 1:1\n0 qid:2 1:2\n")
    mapped = rw.open_data(tmp_path / "rows.txt")
    sparse = data.with_(features=csr_array(data.features))
    classes = rw.RankingDataset(np.floor(data.features), data.labels, data.offsets, categorical=[*range(6)])
    unable = [(sparse, "sparse"), (mapped, "disk"), (classes, "categories")]
    for one, settings, why in [(data, {"prefer": "fast"}, "prefer=fast"), *((one, {}, why) for one, why in unable)]:
        recipes, notes = found(one, **settings)
        assert "transform='raw+query'" not in recipes
        assert re.search(rf"Left out: lightgbm\(lambdarank, transform=raw\+query\), for [^.]*{why}", notes)


@pytest.mark.parametrize("queries", [0, 1])
def test_a_search_needs_two_queries_with_different_labels(queries, data):
    labels = np.full(data.n_docs, 2.0)
    labels[: queries * 3] = 0.0
    what = "a search needs two queries at least that have documents of different labels"
    with refusal(what=what, got=f"{queries} of 36 queries"):
        auto(recipes=None, max_recipes=6).fit(data.with_(labels=labels))


def test_recipes_that_fail_alike_or_are_left_out_twice_are_named_once():
    linear = [rw.LinearRanker("softmax_ce")] * 2
    _, notes = portfolio.with_goals([rw.LightGBMRanker("xendcg"), *linear], {"ap": 0.5})
    assert notes == ["Left out: linear(softmax_ce), which takes no constraints."]
    data = rw.RankingDataset([[0.0], [1.0]], [0, 1], [0, 2], categorical=[0])
    assert portfolio.taking([rw.LightGBMRanker("xendcg"), *linear], data)[1][0].startswith(
        "Left out: linear(softmax_ce): "
    )


def test_a_kind_that_failed_has_no_share_of_the_time(data):
    runs = [
        RecipeRun(number=group, name=str(group), recipe=recipes(1)[0], group=group, floor=group < 4)
        for group in range(5)
    ]
    how: dict[str, Any] = {"settings": {}, "seed": 0, "bags": {}, "budget": budget.Budget(None), "report": print}
    search = Search(data=data, metric=rw.metric("ndcg@10"), runs=runs, store=None, **how)  # type: ignore[arg-type]
    assert search._share == 1 / 4
    runs[1].finished, runs[1].state = True, "failed"
    assert search._share == 1 / 3


def test_recipes_that_cannot_learn_from_the_data_share_a_line_of_the_leaderboard(data):
    features = data.features.copy()
    features[0, 0] = np.inf
    wide = [*recipes(1), *recipes(2, transform="raw+query")]
    board = auto(recipes=wide).fit(data.with_(features=features)).leaderboard_
    (line,) = (note for note in board.table().notes if " failed: " in note)
    assert line.startswith("lightgbm(xendcg, transform=raw+query) and lightgbm(lambdarank) failed: a transform within")


def test_averages_are_of_all_and_of_one_library(data, tmp_path):
    mixed = [*recipes(2), rw.XGBoostRanker("xendcg", **SMALL)]
    model = auto(recipes=mixed).fit(data)
    names = {entry.recipe for entry in model.leaderboard_.entries if entry.blend}
    assert names == {"average of 3 bags", "lightgbm average of 2 bags"}
    assert model.leaderboard_.chosen.recipe == "average of 3 bags"
    refuses(lambda: rw.export(model, tmp_path / "model.tl", "treelite"), hint='…AutoRanker(prefer="fast")…')
    fast = auto(recipes=mixed, prefer="fast").fit(data)
    assert plain(fast) != plain(model)
    assert fast.leaderboard_.chosen.recipe == "lightgbm average of 2 bags"
    assert rw.export(fast, tmp_path / "model.tl", "treelite").is_file()


def test_the_average_is_that_of_blended(data, tmp_path):
    model = auto(max_recipes=2).fit(data)
    assert model.leaderboard_.chosen.recipe == "lightgbm average of 2 bags"
    bags = [rw.bagged(one.set_params(threads=1), 3).fit(data) for one in recipes(2)]
    alike = rw.blended.of_fitted(bags, data, weights="average")
    np.testing.assert_array_equal(model.predict(data), alike.predict(data))
    assert alike.weights_.values == (0.5, 0.5)
    model.save(tmp_path / "model")
    loaded: Any = rw.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(data), model.predict(data))
    assert loaded.weights == "average"
    assert model.out_of_fold_.mean["ndcg@10"] == model.leaderboard_.chosen.mean
    assert np.array_equal(model.scorer()(data.features), model.predict(data))


def test_no_average_without_time(data, monkeypatch):
    monkeypatch.setattr(budget.Budget, "closing", 1e9)
    board = auto(minutes=5.0, max_recipes=3).fit(data).leaderboard_
    assert any(note.startswith("No lightgbm average: it may take") for note in board.notes)


def test_it_is_a_ranker(data, fitted, tmp_path):
    fitted.save(tmp_path / "model")
    loaded = rw.load(tmp_path / "model")
    assert np.array_equal(loaded.predict(data), fitted.predict(data))
    assert np.array_equal(fitted.scorer()(data.features), fitted.predict(data))
    np.testing.assert_allclose(fitted.explain(data).sum(axis=1), fitted.predict(data), atol=1e-9)
    assert rw.export(fitted, tmp_path / "model.tl", "treelite").is_file()
    assert rw.evaluate(fitted, data, "ndcg@10").mean["ndcg@10"] == fitted.score(data)
    assert fitted.out_of_fold_.mean["ndcg@10"] == fitted.leaderboard_.chosen.mean
    assert fitted.rank(data, cutoff=1)["rank"].max() == 1
    untrained = clone(fitted)
    assert repr(untrained) == repr(fitted)
    refuses(lambda: untrained.predict(data), what="this AutoRanker is not trained yet")
    assert clone(rw.AutoRanker(3, "ap")).get_params()["metric"] == "ap"


def test_scikit_learns_style(data, fitted):
    model = auto(max_recipes=1).fit(data.features, data.labels, qid=data.qids())
    assert model.leaderboard_.chosen.recipe == "lightgbm(xendcg)"


def test_leaderboard_is_complete(fitted):
    board = fitted.leaderboard_
    frame = board.to_frame()
    assert frame["recipe"].to_list() == [entry.recipe for entry in board.entries]
    assert frame["ndcg@10"].is_sorted(descending=True)
    assert frame["difference"][0] == 0.0
    assert frame["p"].null_count() == 1
    assert frame.select("wins", "ties", "losses").sum_horizontal().to_list() == [0] + [board.queries] * (len(frame) - 1)
    assert (frame["microseconds"] > 0).all()
    text = repr(board)
    assert f"Taken: {board.chosen.recipe}" in text
    assert "3 recipes tried in" in text
    assert json.loads(json.dumps(board.to_dict()))["chosen"] == board.chosen.recipe


def board_of(*entries: Entry, **others: Any) -> Leaderboard:
    usual: dict[str, Any] = {"metric": "ap", "stopped": "recipes", "seconds": 1.0, "queries": 4}
    return Leaderboard(entries=entries, **usual | others)


def test_numbers_beside_the_leader_and_the_baseline():
    leader = candidate("leader", [0.5, 0.5, 0.9, math.nan, 0.7])
    other = candidate("other", [0.6, 0.5, 0.1, math.nan, 0.2])
    numbers = measured(other, leader, leader)
    assert (numbers["wins"], numbers["ties"], numbers["losses"]) == (1, 1, 2)
    gaps = np.array([0.1, 0.0, -0.8, -0.5])
    half = 3.182446305284263 * gaps.std(ddof=1) / 2.0  # Student's quantile for three degrees of freedom
    expected = [gaps.mean(), gaps.mean() - half, gaps.mean() + half]
    np.testing.assert_allclose([numbers["gain"], numbers["gain_low"], numbers["gain_high"]], expected)
    assert "gain" not in measured(other, leader, other)
    assert board_of(Entry(recipe="a", state="complete", chosen=True, **numbers)).to_dict()["recipes"][0]["losses"] == 2


def test_what_the_search_was_worth_is_said():
    one: dict[str, Any] = {"state": "complete", "low": 0.4, "high": 0.6}
    default = Entry(recipe="b", mean=0.49, **one)
    better = Entry(recipe="a", mean=0.50, gain=0.01, gain_low=0.004, gain_high=0.016, blend=True, chosen=True, **one)
    assert board_of(better, default).verdict() == (
        "Taken: a, with ap 0.5000 [0.4000, 0.6000] out of fold. The search was worth +0.0100 [+0.0040, +0.0160] over "
        "one bag of the default."
    )
    level = Entry(recipe="a", mean=0.50, gain=0.01, gain_low=-0.004, gain_high=0.024, blend=True, chosen=True, **one)
    assert board_of(level, default).verdict().endswith("within noise: a bag of the default would have done.")
    worse = Entry(recipe="a", mean=0.48, gain=-0.01, gain_low=-0.016, gain_high=-0.004, chosen=True, **one)
    assert (
        board_of(default, worse)
        .verdict()
        .endswith("[−0.0160, −0.0040] over one bag of the default: a bag of the default would have done.")
    )
    lucky = Entry(recipe="c", mean=0.51, **one)
    behind = Entry(recipe="a", mean=0.50, difference=-0.01, error=0.02, blend=True, chosen=True, **one)
    assert "c is ahead by 0.0100, within noise (standard error 0.0200): the best of several by luck too" in (
        board_of(lucky, behind, baseline="b").verdict()
    )


def test_recipe_that_fails_is_said(data):
    model = auto(recipes=[*recipes(1, min_documents=10**6), *recipes(1)]).fit(data)
    good, failed = model.leaderboard_.entries  # nothing to blend
    assert (good.state, failed.state) == ("complete", "failed")
    printed = repr(model.leaderboard_)
    assert "failed: the model learned nothing" in printed
    assert printed.splitlines()[0].endswith("  state")  # a column only where not all are complete
    with refusal(what="no recipe could be trained", got="…learned nothing…look at the features"):
        auto(recipes=recipes(2, min_documents=10**6)).fit(data)
    with refusal(what="no recipe could be trained", got="…learned nothing…"):  # nor are there further seeds
        auto(minutes=1.0, recipes=recipes(2, min_documents=10**6)).fit(data)


BUY = "ndcg(label=buy)@10"


@pytest.fixture(scope="module")
def goals():
    return rw.synthetic(n_queries=60, n_docs=8, n_features=6, goals={"buy": 90}, seed=3)


def test_the_portfolio_learns_the_labels_that_the_metric_measures(goals, monkeypatch):
    small = [*recipes(2), rw.LightGBMRanker("native:lambdarank", **SMALL)]
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: (small, []))
    model = auto(recipes=None, metric=BUY).fit(goals)
    board = model.leaderboard_
    alone = rw.bagged(rw.LightGBMRanker("on(buy, xendcg)", **SMALL, metrics=BUY, threads=1), 3).fit(goals)
    means = {entry.recipe: entry.mean for entry in board.entries if not entry.blend}
    assert means.keys() == {"lightgbm(on(buy, xendcg))", "lightgbm(on(buy, lambdarank))"}
    assert means["lightgbm(on(buy, xendcg))"] == alone.out_of_fold_.mean[BUY]
    assert board.notes == ("Left out: lightgbm(native:lambdarank), which cannot learn from buy.",)
    assert "one bag of lightgbm(on(buy, xendcg))" in repr(board)  # "the default" would learn the main labels
    others = auto(metric=BUY, recipes=[*recipes(1), "lightgbm(on(buy, ranknet), rounds=3)"]).fit(goals).leaderboard_
    (note,) = others.notes
    assert note.startswith("The metric measures buy, from which lightgbm(xendcg) did not learn: on(buy, …)")


def test_recipes_that_do_not_take_the_data_are_left_out_beforehand(data, trainings):
    coded = rw.RankingDataset(np.round(data.features**2), data.labels, data.offsets, categorical=[5])
    model = auto(recipes=[*recipes(1), rw.NeuralRanker(epochs=1)]).fit(coded)
    (entry,) = model.leaderboard_.entries
    assert (entry.recipe, len(trainings.calls)) == ("lightgbm(xendcg)", ROUNDS)
    assert model.leaderboard_.notes[0].startswith("Left out: neural(lambdarank): NeuralRanker takes numbers, and no")
    with refusal(about="no recipe takes these data", what="NeuralRanker …no categories", hint="…trees"):
        auto(recipes=[rw.NeuralRanker()]).fit(coded)


def test_a_further_bag_that_had_no_time_has_no_weight(data, trainings):
    model = auto(minutes=30 / 60, recipes=recipes(2)).fit(data)
    weights = {entry.recipe: (entry.state, entry.weight) for entry in model.leaderboard_.entries if not entry.blend}
    assert weights == {
        "lightgbm(xendcg)": ("complete", 0.5),
        "lightgbm(lambdarank)": ("complete", 0.5),
        "lightgbm(xendcg) again": ("minutes", 0.0),
    }


@pytest.mark.parametrize("settings", [{}, {"minutes": 5.0, "recipes": 1}])
def test_constraints_are_refused_before_anything_is_trained(settings, goals, trainings):
    """Averages of bags may break them; one bag keeps them."""
    constrained = recipes(settings.get("recipes", 2), constraints={BUY: 0.1})
    with refusal(about="recipe 1", what="a search averages bags, which may break constraints"):
        auto(**settings | {"recipes": constrained}).fit(goals)
    assert not trainings.calls
    assert auto(recipes=constrained[:1]).fit(goals).leaderboard_.chosen.state == "complete"


def test_a_search_with_constraints_chooses_among_what_keeps_them(goals, tmp_path):
    """An average is measured like a bag; recipes that take no constraints are left out."""
    tried = [*recipes(2), rw.LightGBMRanker("native:lambdarank", **SMALL)]
    free, held = (auto(recipes=tried[:2]).fit(goals), auto(recipes=tried, constraints={BUY: 0.4}).fit(goals))
    bound = Constraints.of_setting({BUY: 0.4}).bounds(held.ranker_.held_out_.cross_fitted, goals)
    assert bound[f"bound {BUY}"][0] >= 0.4
    assert held.ranker_.held_out_.values.keys() == free.ranker_.held_out_.values.keys()
    left_out, kept = sorted(held.leaderboard_.notes, key=lambda note: note[0].isdigit())
    assert left_out == "Left out: lightgbm(native:lambdarank), which takes no constraints."
    assert kept.endswith(f" keep {BUY} at least 0.4 (lower bounds, out of fold).")
    loaded = rw.load(held.save(tmp_path / "model"))
    np.testing.assert_array_equal(loaded.predict(goals), held.predict(goals))


def test_a_search_without_a_candidate_that_keeps_the_constraints_takes_the_nearest(goals):
    with pytest.warns(UnmetConstraintWarning, match="no candidate met the constraints: the nearest, lightgbm"):
        model = auto(recipes=recipes(2), constraints={BUY: 0.999}).fit(goals)
    short = [
        0.999 - Constraints.of_setting({BUY: 0.999}).bounds(one.held_out_.cross_fitted, goals)[f"bound {BUY}"][0]
        for one in getattr(model.ranker_, "members_", [model.ranker_])
        if hasattr(one, "held_out_")
    ]
    assert all(gap > 0 for gap in short)
    with refusal(what="no recipe takes constraints", got="lightgbm…"):
        auto(recipes=["lightgbm(native:lambdarank)"], constraints={BUY: 0.1}).fit(goals)


def test_refusals(data, tmp_path):
    trained = rw.LightGBMRanker(rounds=1, threads=1).fit(data)
    for wrong, said in (
        ({"recipes": []}, "must be a list of rankers"),
        ({"recipes": [trained]}, "recipe 1: .*trained already"),
        ({"recipes": ["bagged(xendcg)"]}, "recipe 1: a bag is made of rankers"),
        ({"recipes": recipes(1, checkpoint=tmp_path / "c")}, "keeps checkpoints itself"),
        ({"max_recipes": 0}, "max_recipes"),
        ({"minutes": 0}, "minutes"),
        ({"minutes": "ten"}, "minutes must be a number"),
        ({"metric": "ndgc"}, "ndcg"),
        ({"metric": BUY}, "buy"),
        ({"folds": 1}, "folds"),
        ({"prefer": "small"}, "prefer"),
    ):
        with pytest.raises(ValueError, match=said):
            auto(**wrong).fit(data)
    refuses(lambda: auto().fit(data, init_model="x"), TypeError, what="fit has no argument 'init_model'")  # type: ignore[call-arg]


def regret(scores, labels, offsets):
    pairs = itertools.pairwise(offsets)
    return [labels[a:b][np.argmax(scores[a:b])] - labels[a:b].max() for a, b in pairs]


def test_a_metric_of_ones_own_is_searched_by_and_resumed_with(data, tmp_path):
    first = auto(metric=regret, checkpoint=tmp_path / "search", recipes=recipes(2), seed=np.int64(0)).fit(data)
    assert {entry.state for entry in first.leaderboard_.entries} == {"complete"}
    names = [entry.recipe for entry in first.leaderboard_.entries]
    assert "lightgbm average of 2 bags" in names
    again = auto(metric=regret, checkpoint=tmp_path / "search", recipes=recipes(2)).fit(data)
    assert plain(again) == plain(first)
    expected = np.mean(regret(again.predict(data), data.labels, data.offsets))
    for model in (first, again, *again.ranker_.members_):
        assert str(metrics_of(model)[0]) == "regret"  # also of bags that were read from the folder
    assert again.score(data) == expected


def test_folder_of_another_search_is_refused(data, tmp_path):
    folder = tmp_path / "search"
    auto(checkpoint=folder, max_recipes=1).fit(data)
    kept = (folder / "workspace.json").read_bytes()
    for changes, said in (({"seed": 1}, "seed differs"), ({"folds": 4}, "folds differs"), ({"metric": "ap"}, "metric")):
        with pytest.raises(ValueError, match=f"another search.*{said}"):
            auto(checkpoint=folder, **changes).fit(data)
    with refusal(what="the folder holds another search (recipes differs)"):
        auto(checkpoint=folder, recipes=recipes(leaves=5)).fit(data)
    with refusal(what="the folder holds another search (data differs)"):
        auto(checkpoint=folder).fit(data.take(slice(0, 30)))
    assert (folder / "workspace.json").read_bytes() == kept
    damaged = json.loads(kept) | {"recipes": {"0": {"recipe": "?"}}}
    (folder / "workspace.json").write_text(json.dumps(damaged), encoding="utf-8")
    refuses(lambda: auto(checkpoint=folder).fit(data), what="the folder of a search is damaged")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    refuses(lambda: auto(checkpoint=tmp_path / "mine").fit(data), FileExistsError, what="…not the folder of a search…")
    with refusal(NotADirectoryError, hint="name a folder"):
        auto(checkpoint=tmp_path / "mine" / "letter.txt").fit(data)


def test_libraries_that_are_missing_are_left_out_and_said(monkeypatch):
    for name in ("xgboost", "catboost", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    found, notes = portfolio.portfolio(1000)
    assert {one.name for one in found} == {"lightgbm", "linear"}
    (note,) = notes
    assert note.startswith("Left out: recipes of ")
    assert "pip install 'rankwise[catboost,torch,xgboost]'" in note
    assert len(set(portfolio.names(found))) == len(found)
    large, _ = portfolio.portfolio(portfolio.LARGE)
    assert large[1].get_params()["leaves"] > found[-1].get_params()["leaves"]
    middle, _ = portfolio.portfolio(portfolio.MIDDLE)
    assert {one.get_params()["leaves"] for one in middle} == {None, 31, 63}
    assert [repr(some[0]) for some in (found, middle, large)] == [repr(rw.LightGBMRanker())] * 3
    assert [one.get_params() for one in portfolio.portfolio(portfolio.MIDDLE - 1)[0]] == [
        one.get_params() for one in found
    ]


def test_progress_is_lines_or_silence(data, fitted, capsys):
    auto(progress=None, max_recipes=2).fit(data)
    lines = capsys.readouterr().err.strip().split("\n")
    assert re.fullmatch(
        r"ndcg@10 0\.\d{4}, the best; 1 of 2 recipes complete; lightgbm\(xendcg\): complete, round \d+", lines[0]
    )
    auto(progress=False, max_recipes=1).fit(data)
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_processes_train_the_same(data, fitted):
    if tiers.ALL:  # every recipe starts processes of its own
        assert plain(auto(processes=2).fit(data)) == plain(fitted)
    assert auto(processes=2, max_recipes=1).fit(data).ranker_.processes == 2  # one bag, and nothing to blend


def test_a_cluster_trains_the_same(data, fitted):
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=False, dashboard_address=":0", memory_limit=0
    ) as cluster:
        model = auto(dask=cluster.scheduler_address).fit(data)
    assert plain(model) == plain(fitted)
    assert np.array_equal(model.predict(data), fitted.predict(data))


def test_recipes_that_learn_from_clicks_are_refused():
    data = rw.synthetic(n_queries=20, n_docs=10, seed=1)
    clicks = data.with_(propensities=np.full(data.n_docs, 0.5))
    recipe = "lightgbm(rounds=3, threads=1, debias=True)"
    with refusal(
        about="recipe 1",
        what="a search compares recipes on judged documents, and not on clicks",
        got="debias…",
        hint="…rw.bagged…",
    ):
        rw.AutoRanker(None, recipes=[recipe], folds=2, progress=False).fit(clicks)
