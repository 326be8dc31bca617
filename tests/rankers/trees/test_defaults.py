"""What trees are grown with where nobody sets it: the rule, who overrides it, and where what was used is kept."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from rankwise.rankers.trees import protocol as rule
from rankwise.rankers.trees.lightgbm.ranker import LightGBM
from rankwise.rankers.trees.protocol import FEW, MANY, USUAL
from rankwise.rankers.trees.xgboost.ranker import XGBoost
from rankwise.wings.lab.experiments.running.sources import Source
from rankwise.wings.lab.experiments.running.trials import TrialCell
from rankwise.wings.lab.experiments.spec import find_spec, recipes
from rankwise.wings.tuning.search import checked_search
from tests.refusals import refusal

SOURCE = Source("mq2008")
LIBRARIES = ("lightgbm", "xgboost", "catboost")
SMALL = {"lightgbm": LightGBM.small_data, "xgboost": XGBoost.small_data}
SHORT: dict[str, Any] = {"rounds": 3, "threads": 1, "progress": False}


@pytest.fixture
def lowered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of small data holds for 60 to 99 documents."""
    monkeypatch.setattr(rule, "FEW", 60)
    monkeypatch.setattr(rule, "MANY", 100)
    small = rule.Defaults(leaves=5, min_documents=4, smoothing=2, native={"extra_trees": True})
    monkeypatch.setattr(LightGBM, "small_data", small)


def data_of(documents: int, seed: int = 1) -> rw.RankingDataset:
    """Queries of five documents, with ids that those of another seed do not have."""
    random = np.random.default_rng(seed)
    features = random.normal(size=(documents, 6))
    labels = np.clip(np.round(features[:, 0] + random.normal(size=documents)), 0, 2)
    qids = 1000 * seed + np.repeat(np.arange(documents // 5), 5)
    return rw.RankingDataset.from_qids(features, labels, qids)


@pytest.mark.parametrize("library", tuple(SMALL))
def test_the_rule_holds_from_its_first_document_to_its_last(library: str):
    small = SMALL[library]
    assert small != USUAL
    made: Any = ranker_class(library)
    rules = [
        {"leaves": rule.leaves, "min_documents": rule.min_documents, "smoothing": rule.smoothing, **rule.native}
        for rule in (USUAL, USUAL, small, small, USUAL)
    ]
    assert [made().settings_for(count) for count in (0, FEW - 1, FEW, MANY - 1, MANY)] == rules


@pytest.mark.parametrize("library", tuple(SMALL))
def test_libraries_know_what_the_rule_draws(library: str):
    kind: Any = ranker_class(library)
    made = kind()
    assert made.set_params(**made.settings_for(FEW)).native == SMALL[library].native  # set_params checks names
    assert all(made.library.canonical(name) == name for name in SMALL[library].native)


def test_catboost_has_no_rule():
    for documents in (0, FEW, MANY):
        assert rw.CatBoostRanker().settings_for(documents) == {"leaves": 31, "min_documents": 20, "smoothing": 1}


def test_what_is_set_is_used_whatever_the_rule_says():
    small = SMALL["lightgbm"]
    only_smoothing = rw.LightGBMRanker(smoothing=3).settings_for(FEW)
    assert only_smoothing == {
        "leaves": small.leaves, "min_documents": small.min_documents, "smoothing": 3, **small.native
    }  # fmt: skip
    assert rw.LightGBMRanker(leaves=9).settings_for(FEW) == {
        "leaves": 9, "min_documents": small.min_documents, "smoothing": small.smoothing
    }  # fmt: skip
    assert rw.LightGBMRanker(min_documents=9).settings_for(FEW) == {
        "leaves": small.leaves, "min_documents": 9, "smoothing": small.smoothing
    }  # fmt: skip
    for name in ("extra_trees", "extra_tree"):  # also by another name of the library's
        false: dict[str, Any] = {name: False}
        ranker = rw.LightGBMRanker(**false)
        assert ranker.set_params(**ranker.settings_for(FEW)).native == {name: False}
        assert ranker.settings_for(FEW)[name] is False


@pytest.mark.usefixtures("lowered")
def test_trees_are_grown_as_the_rule_says_and_the_ranker_itself_is_not_changed():
    for documents, said in ((60, {"leaves": 5, "min_documents": 4, "extra_trees": True}), (100, {})):
        data = data_of(documents)
        ranker = rw.LightGBMRanker("xendcg", **SHORT).fit(data)
        by_hand: dict[str, Any] = {"leaves": 31, "min_documents": 20, **said}
        same = rw.LightGBMRanker("xendcg", **SHORT, **by_hand).fit(data)
        assert ranker.model_.content() == same.model_.content()
        assert ranker.settings_ == by_hand | {"smoothing": 2 if said else 1}
        assert (ranker.leaves, ranker.min_documents, ranker.smoothing, ranker.native) == (None, None, None, {})


@pytest.mark.usefixtures("lowered")
def test_smoothing_by_rule_stops_as_smoothing_that_is_set():
    train, valid = data_of(60), data_of(200, seed=2)
    made: dict[str, Any] = {"rounds": 30, "patience": 5, "threads": 1, "progress": False}
    ranker = rw.LightGBMRanker("xendcg", **made).fit(train, valid)
    kept = {
        smoothing: rw.LightGBMRanker("xendcg", smoothing=smoothing, **made).fit(train, valid) for smoothing in (1, 2)
    }
    assert ranker.best_round_ == kept[2].best_round_ != kept[1].best_round_


@pytest.mark.usefixtures("lowered")
def test_settings_are_in_the_file_and_come_back(tmp_path: Path):
    ranker = rw.LightGBMRanker("xendcg", **SHORT).fit(data_of(60))
    ranker.save(tmp_path / "model")
    assert json.loads((tmp_path / "model" / "rankwise.json").read_text())["settings"] == ranker.settings_
    loaded: Any = rw.load(tmp_path / "model")
    assert loaded.settings_ == ranker.settings_
    assert (loaded.leaves, loaded.native) == (None, {})  # trained anew, on other data, the rule decides again


@pytest.mark.usefixtures("lowered")
def test_a_checkpoint_has_what_was_used_and_is_resumed_only_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    data = data_of(60)
    about: dict[str, Any] = {"checkpoint": tmp_path / "kept", "checkpoint_every": 1, "threads": 1, "progress": False}
    rw.LightGBMRanker("xendcg", rounds=2, **about).fit(data)
    loaded: Any = rw.load(tmp_path / "kept")
    assert loaded.settings_ == {"leaves": 5, "min_documents": 4, "smoothing": 2, "extra_trees": True}
    resumed = rw.LightGBMRanker("xendcg", rounds=3, **about).fit(data, resume=True)
    assert resumed.model_.n_trees == 3
    monkeypatch.setattr(LightGBM, "small_data", rule.Defaults(leaves=6, min_documents=4, smoothing=2))
    with refusal(what="the checkpoint belongs to another training (settings: leaves differs)"):
        rw.LightGBMRanker("xendcg", rounds=4, **about).fit(data, resume=True)


@pytest.mark.usefixtures("lowered")
def test_a_bag_decides_once_on_all_documents(tmp_path: Path):
    train, valid = data_of(45), data_of(30, seed=2)  # a member sees about two thirds of 75
    ranker = rw.LightGBMRanker("xendcg", **SHORT)
    bag: Any = rw.bagged(ranker, folds=3).fit(train, valid)
    assert bag.settings_ == rw.LightGBMRanker().settings_for(75) != rw.LightGBMRanker().settings_for(50)
    for member in (*bag.members_, bag.ranker_):
        assert (member.leaves, member.min_documents, member.native) == (5, 4, {"extra_trees": True})
        assert member.settings_ == bag.settings_
    assert ranker.leaves is None
    bag.save(tmp_path / "bag")
    loaded: Any = rw.load(tmp_path / "bag")
    assert loaded.settings_ == loaded.ranker_.settings_ == bag.settings_


@pytest.mark.usefixtures("lowered")
def test_a_blend_of_bags_keeps_them(tmp_path: Path):
    data = data_of(75)
    blend = rw.blended([rw.LightGBMRanker(name, **SHORT) for name in ("xendcg", "lambdarank")], folds=3).fit(data)
    blend.save(tmp_path / "blend")
    loaded: Any = rw.load(tmp_path / "blend")
    if not blend.weighted:
        assert loaded.ranker_.settings_ == blend.ranker_.settings_
        assert blend.ranker_.settings_["leaves"] == 5


def test_experiments_train_as_they_did_whatever_the_number_of_documents():
    for name in recipes():
        spec = find_spec(name)
        for title, chosen in spec.parsed().items():
            if chosen.name not in LIBRARIES:
                continue
            cell = TrialCell(
                spec=spec, source=SOURCE, level=spec.levels[0], trial=0, method=title, threads=1, fingerprint="f"
            )
            settings = spec.settings_of(title, SOURCE.name, cell.level)
            made = spec.ranker_of(title, SOURCE.name, cell.level).build(cell.defaults)
            own = {key: settings[key] for key in ("leaves", "min_documents", "smoothing") if key in settings}
            drawn = {
                key: value
                for key, value in settings.items()
                if key in ranker_class(chosen.name).library.small_data.native
            }
            used = {"leaves": 31, "min_documents": 20, "smoothing": 1} | own | drawn
            assert made.settings_for(FEW) == made.settings_for(MANY) == used, (name, title)
    spec = find_spec("2021-table1")
    assert spec.digest("ListNet", "mq2008", spec.levels[0], "f") == "23a1cc13e962b23c"  # known before there was a rule


def test_a_search_starts_from_what_would_be_used_untuned():
    data = data_of(FEW)
    small = SMALL["lightgbm"]

    def start(part: rw.RankingDataset, ranges: dict[str, Any], **fixed: object) -> Any:
        return checked_search(part, part, "xendcg", "lightgbm", "ndcg@5", "default", ranges, fixed, 0, 1).start()

    found = start(data, {})
    assert (found["leaves"], found["min_documents"], found["extra_trees"]) == (
        small.leaves, small.min_documents, small.native.get("extra_trees", False)
    )  # fmt: skip
    fewer = start(data.take(range(100)), {})
    assert (fewer["leaves"], fewer["min_documents"], fewer["extra_trees"]) == (31, 20, False)
    asked = start(data, {"extra_trees": "choice(False, True, start=False)"})
    assert asked["extra_trees"] is False
    assert start(data, {}, leaves=9)["extra_trees"] is False  # goes with the rule's leaves
