"""Experiments: descriptions, protocols, trials on disk, runs that are stopped, and what is said at the end."""

import dataclasses
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import polars as pl
import pytest
from polars.testing import assert_frame_equal
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.wings.datasets import sets
from rankwise.wings.lab.experiments import summary
from rankwise.wings.lab.experiments.comparisons import comparison
from rankwise.wings.lab.experiments.results import Results
from rankwise.wings.lab.experiments.running import frames, progress
from rankwise.wings.lab.experiments.running import run as engine
from rankwise.wings.lab.experiments.running.protocols import PROTOCOLS, TREATMENTS, Draw, seed_of
from rankwise.wings.lab.experiments.running.sources import Source
from rankwise.wings.lab.experiments.running.store import Store
from rankwise.wings.lab.experiments.running.trials import cells_of, compute
from rankwise.wings.lab.experiments.schema import KEY, QUERIES
from rankwise.wings.lab.experiments.spec import Spec, find_spec, read_spec, recipes
from rankwise.wings.lab.experiments.spec import method as read_method
from rankwise.wings.lab.papers import claims as paper_claims
from rankwise.wings.lab.papers.claims import PAPERS, Claim, claims, figures
from tests import shared
from tests.processes import HANG, wait_until
from tests.refusals import refusal, refuses

DATA = "synthetic(n_queries=30, n_features=8, n_docs=12)"
TINY = f"""
data = ["{DATA}"]
trials = 3
metrics = ["ndcg@5", "ap"]
settings = {{ rounds = 6, leaves = 4, min_documents = 5 }}
[methods]
LambdaMART = "lightgbm(lambdarank)"
XE-NDCG = "lightgbm(xendcg)"
"""


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKWISE_THREADS", "1")
        yield


def tiny(**changes) -> Spec:
    return read_spec(TINY, where="tiny.toml", name="tiny").changed(changes)


def go(spec: Spec, folder: Path, **options) -> Results:
    return engine.run(spec, folder, **({"jobs": 1, "estimate": False} | options))


def parts_of(spec: Spec, trial: int = 0, text: str = DATA):
    return PROTOCOLS[spec.protocol](Source(text), spec, trial)


@pytest.fixture(scope="module")
def done(one_thread, tmp_path_factory):
    """The folder of a finished run."""
    folder = tmp_path_factory.mktemp("experiment") / "tiny"
    go(tiny(curves=("valid", "test", "bound"), ratios=("dcg@5",)), folder)
    return folder


# Descriptions.


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            "trails = 3",
            "unknown key in the description of an experiment: got 'trails' at line 1 of x.toml. Hint: did you",
        ),
        ('[methods]\na = "lightgbm(xendgc)"', "line 2 of x.toml: unknown ranker or objective: got 'xendgc'"),
        (
            '[methods]\na = "lightgbm"\n[quick]\ntrials = 0',
            "line 4 of x.toml: trials must be a whole number of at least 1",
        ),
        ('[methods]\na = "lightgbm"\n[quick]\ntrial = 1', "unknown key in the description of an experiment: got 'tri"),
        ('protocol = "fold"\n[methods]\na = "lightgbm"', "unknown protocol: got 'fold'. Hint: did you mean 'folds'"),
        ('treatment = "x"\n[methods]\na = "lightgbm"', "unknown treatment: got 'x'"),
        ('metrics = ["ndgc@5"]\n[methods]\na = "lightgbm"', "unknown metric: got 'ndgc'"),
        ('curves = ["trian"]\n[methods]\na = "lightgbm"', "unknown curve: got 'trian'. Hint: did you mean 'train'"),
        ("", "x.toml: an experiment needs methods, data and at least one level"),
        ("= 1", "cannot read the description of an experiment: got "),
        ("a = " + "[" * 5000, "cannot read the description of an experiment: got "),
        (
            'data = "synthetic"',
            "line 1 of x.toml: data must be a list of strings: got 'synthetic'. Hint: write data = ",
        ),
        ("data = [1]", "line 1 of x.toml: data must be a list of strings: got [1]"),
        ('methods = "xendcg"', "line 1 of x.toml: methods must be a table of strings: got 'xendcg'"),
        ('[methods]\na = "xendcg"\nb = 5', "line 3 of x.toml: methods must be a table of strings: got {'b': 5}"),
        (
            '[methods]\na = "xendcg"\nb = "5"',
            "line 3 of x.toml: the expression does not describe a ranker or objective",
        ),
        ("[settings]\nleaves = nan", "line 1 of x.toml: settings must be a table of settings: got {'leaves': nan}"),
        ("seed = 1.5", "line 1 of x.toml: seed must be a whole number of at least 0: got 1.5"),
        ('seed = "1"', "seed must be a whole number of at least 0: got '1'"),
        ("seed = [1]", "seed must be a whole number of at least 0: got [1]"),
        ('relevant = "many"', "relevant must be a number in (-inf, inf): got 'many'"),
        ("relevant = nan", "relevant must be a number in (-inf, inf): got nan"),
        ("levels = 1", "levels must be a list of numbers: got 1"),
        ("levels = [inf]", "a level must be a number in [0, inf): got inf"),
        ("alpha = 2", "alpha must be a number in (0, 1): got 2"),
        ("tune_trials = -1", "tune_trials must be a whole number of at least 0: got -1"),
        ("early_stopping = 1", "early_stopping must be true or false: got 1"),
        ("title = 1979-05-27", "title must be a string: got datetime.date(1979, 5, 27)"),
        ("[settings]\nrounds = 07:32:00", "settings must be a table of settings: got {'rounds': datetime.time(7, 32)}"),
        ("[settings_for]\nweb = 5", "line 1 of x.toml: settings_for must be a table of tables of settings"),
        ("quick = 5", "quick must be a table of settings: got 5"),
        ('[methods]\na = "lightgbm"\n[quick]\nsettings = 5', "line 4 of x.toml: settings must be a table of settings"),
        ('[methods]\na = "lightgbm"\n[quick]\ndata = 5', "line 4 of x.toml: data must be a list of strings: got 5"),
        ('name = "../../home"', "the name of an experiment is that of its folder: got '../../home'"),
        ('name = ".."', "the name of an experiment is that of its folder: got '..'"),
        (
            '[methods]\na = "lightgbm(xendcg, leaves=1)"',
            "leaves must be a whole number of at least 2: got 1",
        ),
        (
            '[methods]\na = "lightgbm"\n[settings]\nrounds = 5\nleaves = 1',
            "line 5 of x.toml: leaves must be a whole number of at least 2: got 1",
        ),
        (
            '[methods]\na = "lightgbm(xendcg)"\n[quick.settings]\nleaves = 1',
            "line 4 of x.toml: leaves must be a whole number of at least 2: got 1",
        ),
        (
            '[methods]\na = "lightgbm"\nb = "neural"\n[settings_for.neural]\noptimizer = "adma"',
            "line 5 of x.toml: unknown optimizer: got 'adma'. Hint: did you mean 'adam'",
        ),
        (
            '[methods]\na = "neural"\n[settings]\nhiden = "8"',
            "line 4 of x.toml: no ranker of the experiment has such a parameter: got 'hiden'. Hint: did",
        ),
        ('trials = 9999999\n[methods]\na = "lightgbm"', "an experiment may have 1000000 trainings at most"),
        ("trials = 99999999999999999999", "trials must be below 2^63: got a number of 67 bits"),
    ],
)
def test_a_wrong_description_is_refused_in_words(text, words):
    with pytest.raises(ValueError) as refused:
        read_spec(text, where="x.toml", name="x")
    assert words in str(refused.value)


def test_files_that_are_no_text_or_too_large(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_bytes(b'title = "a"\nclaim = "\xff"\n')
    with refusal(what="…must be UTF-8 text", got="the byte 0xff", where="line 2 of …mine.toml", hint="save…"):
        find_spec(str(path))
    path.write_bytes(b"#" * (2**20 + 1))
    refuses(lambda: find_spec(str(path)), what="…may have 1048576 bytes at most", got="more", where="…mine.toml")
    path.write_bytes(b'\xef\xbb\xbftitle = "a"\r\n[methods]\r\na = "xendcg"\r\n')  # as some editors save it
    assert find_spec(str(path)).title == "a"


def test_changes_of_the_wrong_type_are_refused():
    for changes, words in (({"settings": 5}, "settings must be a table"), ({"data": "mq2008"}, "data must be a list")):
        with pytest.raises(ValueError, match=words):
            tiny().changed(changes)


def test_settings_go_from_the_general_to_the_particular():
    spec = Spec(
        name="x",
        methods={"a": "lightgbm(xendcg)", "b": "xgboost(xendcg, rounds=9)"},
        settings={"rounds": 1, "leaves": 3, "patience": "none"},
        settings_for={"lightgbm": {"leaves": 5}, "web @1": {"rounds": 2}, "web": {"min_documents": 7}},
    )
    assert spec.settings_of("a", "other", 1.0) == {"rounds": 1, "leaves": 5, "patience": None}
    assert spec.settings_of("a", "web", 1.0) == {"rounds": 2, "leaves": 5, "patience": None, "min_documents": 7}
    assert spec.settings_of("b", "web", 0.5) == {"rounds": 9, "leaves": 3, "patience": None, "min_documents": 7}
    # A change from outside wins over all of them but the method's own text.
    changed = spec.changed({"settings.rounds": 4, "settings": {"leaves": 6}})
    assert changed.settings_of("a", "web", 1.0)["rounds"] == 4
    assert changed.settings_of("a", "web", 1.0)["leaves"] == 6
    assert changed.settings_of("b", "web", 1.0)["rounds"] == 9


def test_the_digest_is_of_what_changes_numbers_and_nothing_else():
    def digest(spec, name="XE-NDCG", level=0.0):
        return spec.digest(name, "d", level, "f")

    first = digest(tiny())
    for same in ({"trials": 9}, {"title": "t"}, {"alpha": 0.01}, {"levels": (0.0, 1.0)}, {"published": "x"}):
        assert digest(tiny(**same)) == first, same
    other_methods = tiny().changed({"methods": {"XE-NDCG": "lightgbm(xendcg)", "new": "lightgbm(listnet)"}})
    assert digest(other_methods) == first
    for other in (
        *({"seed": 1}, {"split": (0.5, 0.25, 0.25)}, {"protocol": "folds"}, {"metrics": ("ndcg@5",)}, {"queries": 20}),
        *({"settings.rounds": 7}, {"treatment": "flips"}, {"early_stopping": False}, {"tune_trials": 2}),
        *({"methods": {"XE-NDCG": "lightgbm(listnet)"}}, {"decide": "ap"}),
    ):
        assert digest(tiny(**other)) != first, other
    assert digest(tiny(), level=1.0) != first
    assert tiny().digest("XE-NDCG", "d", 0.0, "other data") != first


@pytest.mark.parametrize("baseline", ["a", {"b": "a"}, ""])
def test_an_experiment_names_its_baseline(baseline):
    spec = Spec(name="x", methods={"a": "lightgbm", "b": "lightgbm(xendcg)"}, baseline=baseline)
    assert spec.plain()["baseline"] == baseline
    assert spec.digest("a", "d", 0.0, "f") == dataclasses.replace(spec, baseline="").digest("a", "d", 0.0, "f")


@pytest.mark.parametrize("baseline", ["c", {"b": "c"}, {"c": "a"}])
def test_a_baseline_that_is_no_method_is_refused(baseline):
    with refusal(what="unknown baseline", got="'c'"):
        Spec(name="x", methods={"a": "lightgbm", "b": "lightgbm(xendcg)"}, baseline=baseline)


@pytest.mark.parametrize("small", [{}, {"queries": 20}, {"quick": True}])
def test_tables_say_that_a_run_is_smaller_than_the_papers(small):
    spec = find_spec("2021-table1")
    spec = spec.quickly().changed({"queries": None}) if "quick" in small else spec.changed(small)
    rows = [
        ("mslr-web30k", 0.0, trial, method, f"{q}", 9, 2, 1.0, 0.5)
        for trial in range(3)
        for q in range(4)
        for method in spec.methods
    ]
    frame = pl.DataFrame(rows, schema=[*QUERIES, "ndcg@5"], orient="row")
    results = Results(spec.plain(), frame, published=figures(spec.published))
    for title, table in summary.all_tables(results):
        notes = " ".join(table.notes)
        assert ("not comparable with published ones" in notes) == bool(small), title
        assert ("at most 20 queries" in notes) == ("queries" in small)
        assert ("rounds 60" in notes) == ("quick" in small)
    assert bool(summary.to_dict(results)["shrunken"]) == bool(small)
    assert len(summary.all_tables(results)) == 2  # means, and verdicts


@pytest.mark.parametrize("name", recipes())
def test_every_recipe_can_be_planned_and_names_what_it_is_compared_with(name):
    spec = find_spec(name)
    assert spec.title
    assert spec.paper
    assert spec.claim
    assert spec.cost
    assert spec.paper_data
    names = {sets.entry(one).name for one in spec.paper_data}
    assert names == set(spec.paper_data)
    quick = spec.quickly()
    cells = cells_of(spec.changed({"data": [DATA]}))  # builds every ranker: an unknown setting would raise
    assert len(cells) == spec.trials * len(spec.levels) * len(spec.methods)
    assert quick.trials * len(quick.levels) * len(quick.methods) <= 60
    known = {one.better for one in claims(spec.published)} | {one.worse for one in claims(spec.published)}
    assert not spec.published or known & set(spec.methods)


def test_the_example_can_be_planned():
    spec = find_spec(str(Path(__file__).parents[4] / "examples" / "noise.toml"))
    assert len(cells_of(spec.quickly())) == 18


# Data and protocols.


def test_trials_are_those_of_rw_trials_and_runs_stay_the_same():
    data = rw.synthetic(n_queries=30, n_features=8, n_docs=12)
    third = list(rw.data.trials(data, 3, seed=5))[2]
    for ours, theirs in zip(parts_of(tiny(seed=5), trial=2), third, strict=True):
        np.testing.assert_array_equal(ours.query_ids, theirs.query_ids)
    one, two = (parts_of(tiny(protocol="runs"), trial=trial) for trial in (0, 1))
    assert one[2].query_ids.tolist() == two[2].query_ids.tolist()
    assert seed_of(0, 0) != seed_of(0, 1)


def test_folds_test_every_query_once_and_begin_again():
    tests = [parts_of(tiny(protocol="folds"), trial=trial)[2].query_ids.tolist() for trial in range(6)]
    assert sorted(query for one in tests[:5] for query in one) == list(range(30))
    assert tests[5] == tests[0]


def test_official_folds_of_a_set_of_ones_own(tmp_path):
    data = rw.synthetic(n_queries=12, n_features=3, n_docs=5)
    for fold in (1, 2):
        (tmp_path / str(fold)).mkdir()
        for part, rows in (("train", slice(0, 4)), ("valid", slice(4, 8)), ("test", slice(8, 12))):
            rw.data.write_letor(data.take(np.roll(np.arange(12), fold)[rows]), tmp_path / str(fold) / f"{part}.txt")
    paths = "\n".join(f'{part} = "{{fold}}/{part}.txt"' for part in ("train", "valid", "test"))
    (tmp_path / "mine.toml").write_text(f"folds = 2\n{paths}\n")
    source = Source(f"mine={tmp_path / 'mine.toml'}")
    assert (source.name, source.n_folds) == ("mine", 2)
    tests = [
        {int(one) for one in PROTOCOLS["folds"](source, tiny(protocol="folds"), trial)[2].query_ids} for trial in (0, 1)
    ]
    assert tests == [{7, 8, 9, 10}, {6, 7, 8, 9}]
    assert source.whole().n_queries == 12
    assert Source(source.text, queries=6).whole().n_queries == 6
    small = Source(source.text, queries=6).parts(1)
    assert [part.n_queries for part in small] == [2, 2, 2]


def test_treatments_leave_the_test_data_alone_and_the_validation_data_unless_asked():
    spec = tiny()
    parts = parts_of(spec)
    for name in ("negatives", "flips"):
        train, valid, test = TREATMENTS[name](parts, Draw(0.5, spec, 1))
        assert train.n_docs > parts[0].n_docs if name == "negatives" else (train.labels != parts[0].labels).any()
        assert valid is parts[1]
        assert test is parts[2]
        noisy = TREATMENTS[name](parts, Draw(0.5, tiny(treat_valid=True), 1))[1]
        assert noisy.n_docs != valid.n_docs or (noisy.labels != valid.labels).any()
    train, valid, test = TREATMENTS["clicks"](parts, Draw(0.2, spec, 1))
    assert set(train.query_ids) & {f"{query}#1" for query in parts[0].query_ids}
    assert set(np.unique(valid.labels)) == {0.0, 1.0}
    assert test is parts[2]
    # With grade 0 never clicked, what is clicked is relevant.
    train = TREATMENTS["clicks"](parts, Draw(0.0, spec, 1))[0]
    relevant = {tuple(row) for row in parts[0].features[parts[0].labels > 0]}
    assert all(tuple(row) in relevant for row in train.features[train.labels > 0])
    for part, old in zip(TREATMENTS["binarize"](parts, Draw(1.0, spec, 1)), parts, strict=True):
        assert part.labels.tolist() == (old.labels >= 1).tolist()
    assert TREATMENTS["binarize"](parts, Draw(0.0, spec, 1)) == parts
    with refusal(what="the levels of binarize are 0 (graded) and 1 (binary)", got="0.5"):
        TREATMENTS["binarize"](parts, Draw(0.5, spec, 1))


def test_two_data_sets_of_one_name_are_refused():
    with refusal(what="two data sets have the same name", got="synthetic"):
        cells_of(tiny(data=(DATA, "synthetic(n_queries=20)")))


# What is computed and kept.


def test_the_numbers_are_those_of_the_public_interface(done):
    results = Results.read(done)
    train, valid, test = list(rw.data.trials(rw.synthetic(n_queries=30, n_features=8, n_docs=12), 3))[1]
    ranker = rw.LightGBMRanker(
        "xendcg", rounds=6, leaves=4, min_documents=5, metrics="ndcg@5", seed=seed_of(0, 1), threads=1
    ).fit(train, valid)
    expected = rw.evaluate(ranker, test, ["ndcg@5", "ap"])
    ours = results.queries.filter(trial=1, method="XE-NDCG")
    assert ours["query"].to_list() == test.query_ids.astype(str).tolist()  # type: ignore[union-attr]
    for metric in ("ndcg@5", "ap"):
        np.testing.assert_array_equal(ours[metric].fill_null(np.nan).to_numpy(), expected[metric])
    assert ours["documents"].to_list() == test.sizes.tolist()
    sums = [int((test.labels[a:b] >= 1).sum()) for a, b in zip(test.offsets, test.offsets[1:], strict=False)]
    assert ours["relevant"].to_list() == sums
    means = results.trial_means().filter(trial=1, method="XE-NDCG").row(0, named=True)
    assert means["ap"] == pytest.approx(expected.mean["ap"], abs=1e-12)
    dcg = rw.metric("dcg@5")
    ideal = dcg(test.labels, test.labels, test.offsets)
    scores = ranker.predict(test)
    assert means["dcg@5 ratio"] == pytest.approx(
        np.nanmean(dcg(scores, test.labels, test.offsets)) / np.nanmean(ideal), abs=1e-12
    )
    # The curve on validation data is the ranker's history; the one on test data has the model that was kept, too.
    curve = results.curves.filter(trial=1, method="XE-NDCG")
    kept = curve.filter(series="valid ndcg@5").sort("round")
    assert kept["value"].to_list() == ranker.history_["ndcg@5"]
    assert kept["round"].to_list() == list(range(1, len(ranker.history_["ndcg@5"]) + 1))
    (kept_value,) = curve.filter(series="test ndcg@5", round=ranker.best_round_)["value"]
    assert kept_value == pytest.approx(expected.mean["ndcg@5"], abs=1e-9)


@pytest.mark.parametrize("early_stopping", [True, False])
@pytest.mark.parametrize("ranker", ["lightgbm", "xgboost", "catboost", "neural"])
def test_curves_of_training_validation_and_test_queries_are_kept(tmp_path, ranker, early_stopping):
    settings = {"epochs": 4, "hidden": "4"} if ranker == "neural" else {"rounds": 4, "leaves": 4}
    spec = tiny(trials=1, curves=("train", "valid", "test", "bound"), early_stopping=early_stopping)
    spec = spec.changed({"methods": {"noisy": f"{ranker}(stochastic(xendcg, samples=2))"}})
    spec = dataclasses.replace(spec, settings=settings, settings_for={})
    curves = go(spec, tmp_path).curves.pivot("series", index="round", values="value").sort("round")
    names = {"train ndcg@5", "valid ndcg@5", "test ndcg@5", "test ap", "bound ndcg"}
    assert names <= set(curves.columns)
    # Trained again by hand, to as many rounds, the ranker without noise in its scores is worth what the curve says.
    train, valid, test = parts_of(spec)
    again = spec.ranker_of("noisy", "x", 0.0).build({"seed": seed_of(spec.seed, 0), "threads": 1})
    again.fit(train)
    last = curves.row(-1, named=True)
    for name, data in (("train", train), ("valid", valid), ("test", test)):
        assert last[f"{name} ndcg@5"] == pytest.approx(rw.evaluate(again, data, "ndcg@5").mean["ndcg@5"], abs=1e-9)


def test_method_may_be_a_bag(tmp_path):
    spec = tiny(trials=1).changed({"methods": {"bag": "bagged(lightgbm(xendcg), folds=2)", "one": "lightgbm(xendcg)"}})
    spec = dataclasses.replace(spec, settings={"rounds": 4, "leaves": 4}, settings_for={})
    results = go(spec, tmp_path)
    train, valid, test = parts_of(spec)
    bag = rw.bagged(
        rw.LightGBMRanker(
            "xendcg", rounds=4, leaves=4, threads=1, metrics=(spec.decide,), seed=seed_of(spec.seed, 0), progress=False
        ),
        2,
    ).fit(train, valid)
    found = results.queries.filter(method="bag")["ndcg@5"].to_numpy()
    np.testing.assert_allclose(found, rw.evaluate(bag, test, "ndcg@5")["ndcg@5"], atol=1e-12)
    assert spec.digest("bag", "x", 0.0, "") != spec.digest("one", "x", 0.0, "")
    with refusal(what="a bag is made of rankers of trees or nets, or of one's own"):
        read_method("bagged(factorization(softmax_ce))")
    with refusal(what="a bag keeps the round that is best out of fold", got="early_stopping = false"):
        dataclasses.replace(spec, early_stopping=False)
    assert spec.changed({"methods": {"bag": "bagged"}}).digest("bag", "x", 0.0, "") == spec.changed(
        {"methods": {"bag": "bagged(lightgbm(lambdarank), folds=5, repeats=1)"}}
    ).digest("bag", "x", 0.0, "")
    for other in ("ease", "auto(minutes=1)", "feature(0)"):
        with refusal(what="unknown ranker of an experiment"):
            read_method(other)


def test_method_may_be_a_blend(tmp_path):
    text = "blended(lightgbm(xendcg, leaves=3), bagged(softmax_ce, folds=2), column(0), folds=2)"
    spec = tiny(trials=1).changed({"methods": {"blend": text}})
    spec = dataclasses.replace(spec, settings={"rounds": 4, "leaves": 4}, settings_for={})
    results = go(spec, tmp_path)
    train, valid, test = parts_of(spec)
    about: dict[str, Any] = {
        "threads": 1,
        "metrics": (spec.decide,),
        "seed": seed_of(spec.seed, 0),
        "progress": False,
        "rounds": 4,
    }
    rankers = [rw.LightGBMRanker("xendcg", leaves=3, **about), rw.LightGBMRanker("softmax_ce", leaves=4, **about)]
    blend = rw.blended([*rankers, 0], 2, seed=seed_of(spec.seed, 0)).fit(train, valid)
    found = results.queries.filter(method="blend")["ndcg@5"].to_numpy()
    np.testing.assert_allclose(found, rw.evaluate(blend, test, "ndcg@5")["ndcg@5"], atol=1e-12)
    assert [one.name for one in read_method(text).singles()] == ["lightgbm", "lightgbm"]
    assert read_method("blended(neural, column(feature=bm25))").members[1] == "bm25"
    with refusal(what="a blend is made of rankers of trees or nets, bags of them, and features", got="factorization"):
        read_method("blended(factorization)")
    refuses(lambda: read_method("blended(bagged(xendcg, folds=3))"), what="bags of a blend must have its folds")
    refuses(lambda: read_method("column(0)"), what="a feature is a member of a blend")
    refuses(lambda: dataclasses.replace(spec, tune_trials=2), what="parameters of a blend are not tuned")


def test_contributions_of_the_first_trial_add_up_to_its_scores(done):
    results = Results.read(done)
    both = results.contributions.join(results.documents, on=["data", "method", "query", "document"])
    assert both.height == results.documents.height
    apart = both["score"].to_numpy() - np.array(both["contributions"].list.sum())
    for method in results.methods:
        own = apart[(both["method"] == method).to_numpy()]
        np.testing.assert_allclose(own, own[0], atol=1e-5)  # where all scores start


def test_as_many_queries_are_explained_as_take_no_long_time(monkeypatch):
    data = rw.synthetic(n_queries=12, n_docs=8, seed=1)
    model = rw.LightGBMRanker("xendcg", rounds=3, leaves=4, min_documents=2, threads=1).fit(data)
    key = {"data": "d", "method": "m"}
    whole = frames.contributions(key, model, data)
    assert whole is not None
    assert whole.height == data.n_docs
    monkeypatch.setattr(frames, "_MOST_LEAVES", int(data.offsets[5]) * 3 * 4)
    some = frames.contributions(key, model, data)
    assert some is not None
    assert some.height == data.offsets[5]
    monkeypatch.setattr(frames, "_MOST_LEAVES", 1)
    assert frames.contributions(key, model, data) is None
    linear = rw.LightGBMRanker("xendcg", rounds=3, leaves=4, min_documents=2, threads=1, linear_tree=True).fit(data)
    monkeypatch.undo()
    assert frames.contributions(key, linear, data) is None  # LightGBM does not explain it


def test_documents_and_features_of_the_first_trial_are_kept_for_the_explorer(done):
    results = Results.read(done)
    test = next(iter(rw.data.trials(rw.synthetic(n_queries=30, n_features=8, n_docs=12), 1)))[2]
    for method in ("LambdaMART", "XE-NDCG"):
        rows = results.documents.filter(method=method)
        assert rows["label"].to_list() == test.labels.tolist()
        assert rows["query"].to_list() == [str(query) for query in test.qids()]
        assert (
            rows.group_by("query", maintain_order=True).agg(pl.col("document").max() + 1)["document"].to_list()
            == test.sizes.tolist()
        )
    np.testing.assert_array_equal(np.array(results.features["features"].to_list(), np.float32), test.features)
    assert results.feature_names == list(test.feature_names or ())


def test_a_bound_lies_below_its_metric(tmp_path):
    spec = tiny(
        trials=1,
        treatment="binarize",
        levels=(1.0,),
        metrics=("ndcg@5", "ndcg", "rr"),
        curves=("test", "bound"),
        methods={"ListNet": "lightgbm(softmax_ce)"},
    )
    curves = go(spec, tmp_path).curves.pivot("series", index="round", values="value").sort("round")
    shown = curves.drop_nulls(["bound ndcg"])
    assert shown.height >= 1
    assert (shown["bound ndcg"] <= shown["test ndcg"]).all()
    assert (shown["bound rr"] <= shown["test rr"]).all()
    assert (shown["bound rr"] > 0).all()


def test_what_is_there_is_not_computed_again(tmp_path, monkeypatch):
    computed: list[str] = []

    def counting(cell):
        computed.append(f"{cell.method} {cell.trial}")
        return compute(cell)

    monkeypatch.setattr(engine, "compute", counting)
    two = go(tiny(trials=2), tmp_path)
    assert len(computed) == 4
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "trials").iterdir()}
    go(tiny(trials=2), tmp_path)
    assert len(computed) == 4
    three = go(tiny(trials=3, methods=dict(tiny().methods) | {"ListNet": "lightgbm(listnet)"}), tmp_path)
    assert sorted(computed[4:]) == ["LambdaMART 2", "ListNet 0", "ListNet 1", "ListNet 2", "XE-NDCG 2"]
    assert all(path.stat().st_mtime_ns == when for path, when in files.items())
    old = three.queries.filter((pl.col("trial") < 2) & (pl.col("method") != "ListNet")).sort(list(KEY))
    assert_frame_equal(old, two.queries.sort(list(KEY)))
    # Other data under the same name are other data.
    computed.clear()
    go(tiny(trials=1, data=(DATA.replace("=30", "=31"),)), tmp_path)
    assert len(computed) == 2


def test_a_folder_of_another_experiment_is_refused_before_any_work(tmp_path, monkeypatch):
    go(tiny(trials=1), tmp_path / "tiny")
    before = {path: path.read_bytes() for path in (tmp_path / "tiny").rglob("*.*")}
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine")
    monkeypatch.setattr(engine, "cells_of", lambda *_, **__: pytest.fail("planned first"))
    for begin in (go, engine.begin, lambda spec, folder: rw.lab.reproduce(spec, folder, jobs=1)):
        with refusal(what="…another experiment (name differs)", got="'other', and 'tiny' in…", where="…tiny"):
            begin(tiny().changed({"name": "other"}), tmp_path / "tiny")
        with refusal(what="the folder holds other files", got="…mine", hint="choose another folder"):
            begin(tiny(), tmp_path / "mine")
    with pytest.raises(NotADirectoryError, match="notes.txt is no folder"):
        go(tiny(), tmp_path / "mine" / "notes.txt")
    assert {path: path.read_bytes() for path in (tmp_path / "tiny").rglob("*.*")} == before
    assert [path.name for path in (tmp_path / "mine").iterdir()] == ["notes.txt"]


def test_what_is_wrong_with_data_names_them(tmp_path):
    for name, text in {"a": "1 qid:1 1:2\n0 qid:1 1:3\n", "b": "1 qid:1 1:2\n"}.items():
        (tmp_path / f"{name}.txt").write_text(text)
    (tmp_path / "mine.toml").write_text('train = "a.txt"\ntest = "b.txt"\nn_features = 1\n')
    with refusal(about="…mine.toml", what="query ids must all be different", got="1 again"):
        go(tiny(data=(str(tmp_path / "mine.toml"),)), tmp_path / "results")
    with refusal(got="…b.txt: every part of a split needs at least one query…"):
        go(tiny(trials=1, data=(str(tmp_path / "b.txt"),)), tmp_path / "others")


def test_the_library_has_its_folder_and_writes_the_page_of_results(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short: dict[str, Any] = {"trials": 1, "settings": {"rounds": 2}}
    results = rw.lab.reproduce(tiny(), jobs=1, **short)
    assert Path("results/tiny/results.md").read_text() == results.to_markdown()
    rw.lab.reproduce(tiny(), quick=True, jobs=1, **short)
    assert Path("results/tiny-quick/results.md").is_file()
    seen = []
    rw.lab.reproduce(tiny(), "mine", jobs=1, progress=lambda progress: seen.append(progress.done), **short)
    assert seen == [0, 1, 2]
    assert sorted(path.name for path in Path("mine").iterdir()) == ["experiment.json", "results.md", "trials"]


def test_a_run_gives_its_own_results_whatever_else_is_run_in_its_folder(tmp_path):
    few, many = tiny(trials=1).changed({"settings.rounds": 2}), tiny(trials=1).changed({"settings.rounds": 9})
    others: list[Results] = []

    def intrude(progress):
        if progress.done == 1 and not others:
            others.append(go(few, tmp_path))

    results = go(many, tmp_path, progress=intrude)
    assert [one.curves["round"].max() for one in (results, *others)] == [9, 2]
    assert results.spec["settings_for"][""]["rounds"] == Results.read(tmp_path).spec["settings_for"][""]["rounds"] == 9
    again = go(few, tmp_path)
    assert again.curves["round"].max() == 2


def test_trials_are_found_again_without_the_description(tmp_path, monkeypatch):
    whole = go(tiny(trials=1), tmp_path)
    (tmp_path / "experiment.json").rename(tmp_path / ".rankwise-0123456789abcdef.part")  # as if killed there
    monkeypatch.setattr(engine, "compute", lambda _: pytest.fail("computed again"))
    assert_frame_equal(go(tiny(trials=1), tmp_path).queries, whole.queries)


def test_a_trial_that_cannot_be_trained_does_not_stop_the_others(tmp_path):
    spec = tiny(trials=2, methods={"bad": "lightgbm(xendcg, boosting=rf)", "good": "lightgbm(xendcg)"})
    refuses(lambda: go(spec, tmp_path), what="2 of 4 trials failed; the others are kept", got="first bad on synthetic…")
    assert Results.read(tmp_path).queries["method"].unique().to_list() == ["good"]


def test_a_method_that_learns_nothing_is_worth_what_tied_documents_are(tmp_path):
    results = go(tiny(trials=1, methods={"none": "lightgbm(lambdarank, min_documents=5000)"}), tmp_path / "x")
    test = parts_of(tiny())[2]
    expected = rw.metric("ndcg@5")(np.zeros(test.n_docs), test.labels, test.offsets)
    assert results.queries["ndcg@5"].drop_nulls().to_list() == pytest.approx(expected[~np.isnan(expected)].tolist())
    assert results.curves.is_empty()


def test_an_interrupted_trial_is_no_result(tmp_path, monkeypatch):
    def interrupt(self, *_, **__):
        self.stopped_ = "interrupted"
        return self

    monkeypatch.setattr(rw.LightGBMRanker, "fit", interrupt)
    with pytest.raises(KeyboardInterrupt):
        go(tiny(), tmp_path)
    assert not list(tmp_path.glob("trials/*"))


def test_a_trial_that_cannot_be_read_is_named_and_computed_again(done, tmp_path):
    folder = tmp_path / "copy"
    shutil.copytree(done, folder)
    before = Results.read(folder).to_text()
    spoiled = min(folder.glob("trials/*.curves.parquet"))
    spoiled.write_bytes(spoiled.read_bytes()[:-1])
    with pytest.raises(ValueError, match=rf"at .*{spoiled.name}") as raised:
        Results.read(folder)
    trial = re.search(r"Hint: delete (\S+\.parquet) and run", str(raised.value))
    assert trial is not None
    (folder / "trials" / trial[1]).unlink()
    go(tiny(curves=("valid", "test", "bound"), ratios=("dcg@5",)), folder)
    assert Results.read(folder).to_text() == before


def test_a_damaged_file_and_a_foreign_folder_are_named(done, tmp_path):
    store = Store(tmp_path)
    (tmp_path / "trials").mkdir()
    for content in (b"", b"half", b"PAR1" * 5):
        (tmp_path / "trials" / "a.parquet").write_bytes(content)
        refuses(lambda: store.read(["a"]), what="cannot read a file of results", where="…a.parquet", hint="delete a.…")
    pl.DataFrame({"other": [1]}).write_parquet(tmp_path / "trials" / "a.parquet")
    refuses(lambda: store.read(["a"]), what="cannot read a file of results", where="…a.parquet", hint="delete a.…")
    refuses(lambda: Results.read(tmp_path), what="not a folder of results")
    for text in ("{", "[]", "{}", '{"spec": {"name": 3}, "about": {}, "files": []}', "[" * 100_000, "\ud800"):
        (tmp_path / "experiment.json").write_bytes(text.encode("utf-8", "surrogatepass"))
        with refusal(what="the description of an experiment is damaged", where="…experiment.json", hint="delete…"):
            Results.read(tmp_path)
        with refusal(what="the description of an experiment is damaged", where="…experiment.json", hint="delete…"):
            go(tiny(), tmp_path)
    name = json.loads((done / "experiment.json").read_text())["files"][0]
    about = Store(done).about(name)
    assert about["seed"] == seed_of(0, 0)
    assert about["versions"]["rankwise"] == rw.__version__
    assert about["threads"] >= 1


def test_equal_budgets_of_tuning(tmp_path):
    spec = tiny(
        trials=1, tune_trials=2, tune_space="default", methods={"XE-NDCG": "lightgbm(xendcg)"}, settings={"rounds": 4}
    )
    go(spec, tmp_path)
    name = json.loads((tmp_path / "experiment.json").read_text())["files"][0]
    tuning = Store(tmp_path).about(name)["tuning"]
    assert tuning["trials"] == 2
    assert tuning["parameters"]["rounds"] == 4


def test_the_forecast_counts_rounds_and_workers(tmp_path):
    work = engine.begin(tiny(), tmp_path, jobs=2)
    assert work.progress.total == 6
    assert work.progress.kept == 0
    guesses = work.clock.guessed
    assert {kind[2] for kind in guesses} == {"LambdaMART", "XE-NDCG"}
    assert work.progress.seconds_left == pytest.approx(3 * sum(guesses.values()) / 2)
    assert not list(tmp_path.iterdir())
    cell = work.missing[0]
    for seconds in (1.0, 100.0, 3.0):
        work.clock.tell(cell, seconds)
    assert work.clock.left([cell, cell]) == pytest.approx(3.0)  # the middle one, twice, by two


# Published figures and verdicts.


def test_printed_figures_agree_with_the_gains_printed_beside_them():
    # Table 1 of 2019 prints LambdaMART's gain over ListNet in percent beside each of its figures.
    printed = {
        ("mslr-web30k", 0.0): (5.3, 4.2),
        ("mslr-web30k", 1.0): (3.1, 2.3),
        ("yahoo-set1", 0.0): (1.7, 1.2),
        ("yahoo-set1", 1.0): (0.7, 0.4),
    }
    frame = figures("bruch2019.table1")
    for (data, level), gains in printed.items():
        for metric, gain in zip(("ndcg@5", "ndcg@10"), gains, strict=True):
            rows = frame.filter(data=data, level=level, metric=metric)
            value = dict(zip(rows["method"], rows["value"], strict=True))
            # Yahoo!-b at 10 is .45%, printed as .4: both the figures and the gains are rounded.
            assert 100 * (value["LambdaMART"] / value["ListNet"] - 1) == pytest.approx(gain, abs=0.06)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("bruch2019.table1", 16),
        ("bruch2020.table1", 30),
        ("kang2024.table1_at5 kang2024.table1_at10", 24),
        (" ".join(f"westerborg2022.table5_1_{name}" for name in ("ndcg", "ap", "nrbp", "nrbp_mq2008")), 60),
    ],
)
def test_every_printed_figure_is_there_once_and_is_a_share(name, rows):
    frame = figures(name)
    assert frame.height == rows
    assert frame.select("data", "level", "method", "metric").is_duplicated().sum() == 0
    assert frame["value"].is_between(0.4, 1.0).all()
    assert (frame["low"].fill_null(0.0) <= frame["value"]).all()
    assert frame["source"].str.contains("Table").all()
    for metric in frame["metric"].unique():
        assert str(rw.metric(metric)) == metric


def test_claims_follow_from_figures_and_from_words():
    one = next(c for c in claims("bruch2020.table1") if {c.better, c.worse} == {"LambdaMART", "E[LambdaMART]"})
    assert (one.better, one.metric, one.significant) == ("E[LambdaMART]", "ndcg@1", None)  # intervals overlap
    apart = [c for c in claims("bruch2020.table1") if c.better == "E[ApproxNDCG]" and c.worse == "ApproxNDCG"]
    assert all(c.significant for c in apart)
    assert len(apart) == 6
    section = {"source": "", "columns": ["data", "method", "ndcg"], "rows": [["x", "a", 0.5], ["x", "b", 0.5]]}
    assert not paper_claims._from_figures(section)  # printed alike, neither is better
    bounded = [c for c in claims("westerborg2022.table5_1_ndcg") if c.data == "mq2008"]
    assert {c.better for c in bounded if c.significant is False} == {
        "min_max",
        "expectation",
        "expectation_max",
    }  # words
    assert [(c.better, c.significant) for c in bounded if c.worse == "none"][3:] == [("distribution", None)]  # figures
    level = [c for c in claims("bruch2020.figure3") if c.significant is False]
    assert [(c.better, c.worse, c.curve) for c in level] == [
        ("E[CrossEntropy]", "CrossEntropy", ""),
        ("E[CrossEntropy]", "CrossEntropy", "valid"),
    ]
    assert claims("bruch2021.figure3")[0] == Claim(
        data="mslr-web30k",
        metric="ndcg@5",
        level=None,
        better="XE-NDCG",
        worse="LambdaMART",
        significant=True,
        source="Figure 3 and section 5.5, pages 7 and 8",
        note="Curves without published numbers; the text says that all differences are significant "
        "(alpha .01, 20 trials).",
    )
    refuses(lambda: claims("bruch2019.table2"), what="unknown table or figure of bruch2019", got="'table2'")
    assert len(PAPERS) == 5


def made(gaps: list[float], data: str = "mine", noise: float = 0.001, **spec) -> Results:
    """Results of ListNet and LambdaMART in trials of two queries, the second better by these gaps."""
    rows = []
    for trial, gap in enumerate(gaps):
        for method, extra in (("ListNet", 0.0), ("LambdaMART", gap)):
            for query, value in (("a", 0.4), ("b", 0.6)):
                rows.append((data, 0.0, trial, method, query, 5, 2, 1.0, value + trial * noise + extra))
    frame = pl.DataFrame(rows, schema=[*QUERIES, "ndcg@5"], orient="row")
    plain = {"name": "x", "decide": "ndcg@5", "methods": {"ListNet": "", "LambdaMART": ""}, "split": [0.6, 0.2, 0.2]}
    published = "bruch2021.table1"
    plain |= {"published": published, "protocol": "trials", "treatment": "none", "levels": [0.0]} | spec
    return Results(spec=plain, queries=frame, published=figures(published))


def test_means_of_trials_by_pencil():
    rows = [
        ("d", 0.0, 0, "m", "a", 5, 2, 1.0, 0.5, 2.0, 4.0),
        ("d", 0.0, 0, "m", "b", 5, 2, 3.0, 0.9, 3.0, 4.0),
        ("d", 0.0, 0, "m", "c", 5, 0, 9.0, None, None, None),  # skipped, so its weight does not count
    ]
    frame = pl.DataFrame(rows, schema=[*QUERIES, "ndcg@5", "dcg@5", "ideal dcg@5"], orient="row")
    means = Results(spec={"decide": "ndcg@5"}, queries=frame).trial_means().row(0, named=True)
    assert means["ndcg@5"] == pytest.approx((0.5 + 3 * 0.9) / 4)
    assert means["dcg@5 ratio"] == pytest.approx((2 + 3 * 3) / (4 + 3 * 4))
    assert "ideal dcg@5" not in means


def test_only_complete_trials_are_compared_and_a_single_one_by_query():
    results = made([0.1, 0.12, 0.11])
    missing = results.queries.filter(~((pl.col("trial") == 1) & (pl.col("method") == "ListNet")))
    compared = comparison(Results(spec=results.spec, queries=missing), "mine", 0.0)
    assert compared is not None
    assert compared.differences("LambdaMART", "ListNet").tolist() == pytest.approx([0.1, 0.11])
    single = comparison(made([0.1]), "mine", 0.0)
    assert single is not None
    assert single.paired.unit == "query"
    assert comparison(Results(spec=results.spec, queries=results.queries.filter(method="ListNet")), "mine", 0.0) is None


def test_folds_are_put_together_and_paired_by_query():
    # Two folds, gone round twice: queries a and b in one, c and d in the other.
    results = made([0.1, 0.2, 0.3, 0.4], protocol="folds", noise=0.0)
    second = (pl.col("trial") % 2 == 1) & (pl.col("query") == "a")
    other = (pl.col("trial") % 2 == 1) & (pl.col("query") == "b")
    names = pl.when(second).then(pl.lit("c")).when(other).then(pl.lit("d")).otherwise("query")
    compared = comparison(Results(spec=results.spec, queries=results.queries.with_columns(query=names)), "mine", 0.0)
    assert compared is not None
    assert compared.paired.unit == "query"
    assert compared.paired.ids.tolist() == ["a", "b", "c", "d"]
    assert compared.differences("LambdaMART", "ListNet").tolist() == pytest.approx([0.2, 0.2, 0.3, 0.3])


def test_folds_of_ratings_are_put_together_and_paired_by_user():
    # Every fold tests every user, on other items: a user's folds are averaged.
    compared = comparison(made([0.1, 0.2, 0.3, 0.4], protocol="ratings", noise=0.0), "mine", 0.0)
    assert compared is not None
    assert compared.paired.unit == "query"
    assert compared.differences("LambdaMART", "ListNet").tolist() == pytest.approx([0.25, 0.25])


def test_a_single_method_has_a_table_too():
    frame = made([0.1, 0.2]).queries.filter(method="ListNet").with_columns(pl.lit(2.0).alias("ideal ndcg@5"))
    table = summary.means_table(Results(spec=made([0.1]).spec, queries=frame), "mine", 0.0)
    assert table.header == ("", "method", "ndcg@5", "ndcg@5 ratio")


def test_tables_hold_means_intervals_and_printed_figures():
    results = made([0.10, 0.11, 0.09], data="mslr-web30k", published="bruch2019.table1")
    results = Results(spec=results.spec, queries=results.queries, published=figures("bruch2019.table1"))
    row = summary.means_table(results, "mslr-web30k", 0.0).cells()[1]
    # Trial means .600, .611, .592: mean .601, standard error .0055076, t(2, .975) = 4.30265.
    values = [0.6, 0.611, 0.592]
    half = np.std(values, ddof=1) / np.sqrt(3) * 4.302652729911275
    assert [cell.text for cell in row] == ["b", "LambdaMART", f"0.6010 ± {half:.4f}", "0.4920"]
    page = summary.markdown(results)
    assert r"LambdaMART \> ListNet" in page
    assert "Table 1, page 4" in page


# The command line, processes and clusters.


def command(*words: str, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["reproduce", *words], prog_name="rankwise")
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_lists_runs_and_goes_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    listed = command("--list")
    assert all(name in listed for name in recipes())
    Path("mine.toml").write_text(TINY)
    said = command("mine.toml", "--jobs", "1", "--trials", "2", "--set", "settings.rounds=3", "-o", "out")
    assert "synthetic, 2 trials" in said
    assert "rankwise report out" in said
    assert Path("out/results.md").read_text().startswith("# mine")
    assert Results.read("out").about["command"].startswith("rankwise")
    found = json.loads(command("mine.toml", "--jobs", "1", "--trials", "2", "--set", "settings.rounds=3", "-o", "out",
                               "--json").partition("\n")[2])  # fmt: skip
    assert found["places"][0]["data"] == "synthetic"
    assert "6 trainings, 4 of them there already: at most" in command(
        "mine.toml", "--estimate", "--set", "settings.rounds=3", "-o", "out"
    )
    rw.write_data(rw.synthetic(n_queries=20, n_features=4, n_docs=10), "rows.txt")
    said = command("mine.toml", "--jobs", "1", "--trials", "2", "--data", "web=rows.txt", "-o", "out2")
    assert "web, 2 trials" in said


def test_probing_ends_when_a_method_takes_long_for_a_few_rounds(tmp_path, monkeypatch):
    seconds = iter([0.0, 0.0, 1.0, 100.0])  # of the clock's start, probing's, and the look before each cell
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: next(seconds)))
    monkeypatch.setattr(progress, "_guess", lambda cell: 7.0)
    work = engine.begin(tiny(trials=1), tmp_path, jobs=1)
    assert list(work.clock.guessed.values()) == [7.0]  # of two methods
    assert work.progress.seconds_left is None  # nobody knows what the other takes


def test_the_command_refuses_in_words(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text(TINY)
    Path("full").mkdir()
    Path("full/a.txt").write_text("")
    assert "did you mean '2021-table1'" in command("2021-tabel1", code=2)
    assert "the folder holds other files: got full" in command("mine.toml", "-o", "full", code=2)
    assert "did you mean 'trials'" in command("mine.toml", "--set", "trails=1", code=2)
    Path("full/a.txt").unlink()
    go(tiny(trials=1).changed({"name": "other"}), Path("full"))
    assert "results of another experiment (name differs): got" in command("mine.toml", "-o", "full", code=2)


# Runs the command, and kills itself without warning in the middle of writing the fourth trial.
KILLED = """
import os, signal, sys
from rankwise.cli import main
from rankwise.wings.lab.experiments.running.store import Store

honest, trials = Store._write, []

def write(self, path, frame, metadata):
    if metadata:
        trials.append(path)
    if len(trials) == 4:
        path.with_name(f".{path.name}.part").write_bytes(b"half a file")
        print(*(word for word in open(f"/proc/self/task/{os.getpid()}/children").read().split()), flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    honest(self, path, frame, metadata)

if __name__ == "__main__":
    Store._write = write
    main()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc to see the worker processes")
def test_a_run_that_is_killed_and_started_again_ends_as_if_nothing_had_happened(tmp_path):
    (tmp_path / "tiny.toml").write_text(TINY)
    (tmp_path / "killed.py").write_text(KILLED)
    whole = go(tiny(), tmp_path / "whole")
    words = ["reproduce", "tiny.toml", "-o", "out", "--quick"]
    with (tmp_path / "said").open("w") as said:  # no pipe: a worker that is left behind would keep it open
        killed = subprocess.Popen([sys.executable, "killed.py", *words, "--jobs", "2"], cwd=tmp_path, stdout=said)
        assert killed.wait(timeout=HANG) == -signal.SIGKILL
    workers = [Path("/proc") / word for word in (tmp_path / "said").read_text().split()]
    assert len(workers) >= 2
    wait_until(lambda: not any(map(_alive, workers)))  # nobody is left behind
    assert Results.read(tmp_path / "out").trial_means().height == 3
    # Then two at once in the same folder: nothing is damaged, and the table is that of the run without any of this.
    other = subprocess.Popen([sys.executable, "-m", "rankwise", *words, "--jobs", "1"], cwd=tmp_path)
    results = go(tiny(), tmp_path / "out")
    assert other.wait(timeout=HANG) == 0
    assert_frame_equal(results.queries.sort([*KEY, "query"]), whole.queries.sort([*KEY, "query"]))
    assert [table.markdown() for _, table in summary.all_tables(results)] == [
        table.markdown() for _, table in summary.all_tables(whole)
    ]


def _alive(process: Path) -> bool:
    """A process that ended and was not fetched yet is not alive."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
def test_a_dask_cluster_computes_the_same(tmp_path, done):
    distributed = pytest.importorskip("distributed")
    spec = tiny(curves=("valid", "test", "bound"), ratios=("dcg@5",))
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0", local_directory=str(tmp_path)
    ) as cluster:
        results = go(spec, tmp_path / "out", dask=cluster.scheduler_address)
    assert_frame_equal(results.queries.sort([*KEY, "query"]), Results.read(done).queries.sort([*KEY, "query"]))


@pytest.mark.slow
def test_a_recipe_on_real_folds(tmp_path):
    folder = shared.data("mq2008/Fold1/train.txt.gz").parents[2]
    spec = (
        find_spec("2021-table1")
        .quickly()
        .changed({"data": ["mq2008"], "protocol": "folds", "trials": 2, "queries": None, "settings.rounds": 20})
    )
    results = go(spec, tmp_path, data_folder=folder)
    test = rw.load_dataset("mq2008", 2, folder, part="test")
    ours = results.queries.filter(trial=1, method="XE-NDCG")
    assert ours["query"].to_list() == test.query_ids.astype(str).tolist()  # type: ignore[union-attr]
    assert (results.trial_means()["ndcg@5"] > 0.4).all()


INTERRUPTED = """
import contextlib, os, signal, sys

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # tests may have been started with it ignored
    from rankwise.cli import main
    from rankwise.wings.lab.experiments.running import run

    @contextlib.contextmanager
    def started(count):
        with processes(count) as pool:
            submit = pool.submit

            def interrupting(*words):
                future = submit(*words)
                os.killpg(0, signal.SIGINT)  # as a terminal does: to the workers too, which are beginning
                return future

            pool.submit = interrupting
            yield pool

    processes, run.processes = run.processes, started
    sys.argv = ["rankwise", "reproduce", "2021-table1", "--quick", "--jobs", "2", "--set", "queries=20"]
    main()
"""


@pytest.mark.skipif(os.name == "nt", reason="needs POSIX signals")
def test_an_interruption_at_the_start_prints_no_tracebacks(tmp_path):
    script = tmp_path / "interrupted.py"
    script.write_text(INTERRUPTED)
    command = [sys.executable, str(script)]
    with subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as process:
        _, said = process.communicate(timeout=HANG)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    assert said.endswith("the same command resumes.\nerror: interrupted\n")


def test_objectives_of_a_library_are_named_without_quotes():
    spec = rw.lab.Spec(
        name="x", methods={"theirs": "lightgbm(native:lambdarank, leaves=7)", "old": "xgboost('native:rank:ndcg')"}
    )
    found = spec.parsed()
    assert (found["theirs"].objective, found["theirs"].settings) == ("native:lambdarank", {"leaves": 7})
    assert found["old"].objective == "native:rank:ndcg"
