"""Reproductions with nets and factorizations: the thesis on ratings and on MQ2008, and the nets of the other papers."""

import dataclasses
import json
import subprocess
import sys
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.lab.experiments.running import run as engine
from rankwise.wings.lab.experiments.running.protocols import PROTOCOLS, TREATMENTS, Draw, relevant_label, seed_of
from rankwise.wings.lab.experiments.running.sources import Source
from rankwise.wings.lab.experiments.running.store import Store
from rankwise.wings.lab.experiments.running.trials import cells_of, parts_of
from rankwise.wings.lab.experiments.spec import Spec, find_spec, method, recipes
from rankwise.wings.lab.experiments.summary import all_tables
from rankwise.wings.lab.papers.claims import claims, figures
from rankwise.wings.nets import presets
from rankwise.wings.recommend.data.sources import synthetic_ratings

RATINGS = "synthetic_ratings(n_users=30, n_items=400, n_ratings=70)"
DOCUMENTS = "synthetic(n_queries=60, n_features=6, n_docs=10)"
LOSSES = {"ndcg": "ndcg", "ap": "ap", "nrbp": "nrbp(p=0.95)"}
NRBP_OF_MQ2008 = "nrbp"  # at p = .8, whose levels are those that the thesis has
BOUNDED = ("none", "min_max", "expectation", "distribution", "expectation_max")


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RANKWISE_THREADS", "1")
        yield


def rated(**changes) -> Spec:
    return find_spec("thesis-movielens-nrbp").changed({"data": (RATINGS,)} | changes)


def ratings_of(spec: Spec, trial: int):
    return PROTOCOLS["ratings"](Source(spec.data[0]), spec, trial)


# Recipes.


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("data", ["movielens", "mq2008"])
def test_thesis_recipes_name_methods_and_metrics_as_its_table_does(data, loss):
    spec = find_spec(f"thesis-{data}-{loss}")
    printed = figures(spec.published).filter(pl.col("data") == spec.paper_data[0])
    assert set(printed["method"]) == set(BOUNDED) <= set(spec.methods)
    own = NRBP_OF_MQ2008 if (data, loss) == ("mq2008", "nrbp") else LOSSES[loss]
    assert set(printed["metric"]) == {spec.decide} == {own}
    assert set(printed["level"]) == set(spec.levels)
    assert {f"ndcg@{k}" for k in (*range(1, 11), 15, 20)} <= set(spec.metrics)
    assert {str(rw.metric(f"nrbp(p={p})")) for p in (0.8, 0.9, 0.95)} <= set(spec.metrics)
    objectives: dict[str, Any] = {name: rw.objective(one.objective) for name, one in spec.parsed().items()}
    for name in BOUNDED[1:]:
        assert objectives[name].method == name
        assert objectives[name].inner == objectives["none"]
    assert objectives["none"].eta == 1.0
    assert (objectives["distribution"].gain, objectives["distribution"].orderings) == ("thesis", 300_000)
    assert objectives["distribution, capped"].gain == "capped"
    assert set(spec.methods) == {*BOUNDED, "distribution, capped"}
    settings = [spec.settings_of(name, "x", spec.levels[0]) for name in spec.methods]
    assert all(one == settings[0] for one in settings)  # what is not printed is the same for all


def test_the_thesis_is_run_with_what_it_prints():
    spec = find_spec("thesis-movielens-ap")
    assert (spec.protocol, spec.relevant, spec.trials) == ("ratings", 4.0, 5)
    ranker: Any = spec.ranker_of("none", "x", 1.0).build()
    assert (ranker.factors, ranker.initial, ranker.batch_users, ranker.optimizer) == (32, 0.01, 32, "adam")
    spec = find_spec("thesis-mq2008-ap")
    assert (spec.protocol, spec.relevant, spec.trials) == ("folds", 1.0, 5)
    assert {"ap(empty=0)", "ap(empty=1)"} <= set(spec.metrics)
    net: Any = spec.ranker_of("none", "x", 0.0).build()
    assert net.settings.hidden == (46,)


def test_searches_of_the_thesis_differ_in_what_is_searched_alone():
    def made(name):
        spec = find_spec(name)
        level = spec.levels[0]
        return {one: spec.ranker_of(one, "x", level).build() for one in spec.methods}

    rankers: Any = made("thesis-movielens-factors")
    sizes = {name: ranker.factors for name, ranker in rankers.items()}
    assert sizes == {f"{method}, {n}": n for n in (16, 32, 64) for method in ("none", "min_max")}
    nets: Any = made("thesis-mq2008-units")
    assert {name: net.settings.hidden for name, net in nets.items()} == {
        f"{n} units": (n,) for n in (6, 12, 23, 46, 69, 92)
    }
    optimizers: Any = made("thesis-movielens-sgd")
    assert {name: one.optimizer for name, one in optimizers.items()} == {
        f"{method}, {name}": name.lower() for method in ("none", "min_max") for name in ("Adam", "SGD")
    }
    favoured: Any = {name: rw.objective(one.objective) for name, one in made("thesis-movielens-favoured").items()}
    assert {one.favour for name, one in favoured.items() if name != "none"} == {1, 3, 10, 30}


def test_nets_of_2020_have_the_printed_settings():
    def settings(recipe, name, data="mslr-web30k"):
        spec = find_spec(recipe)
        ranker: Any = spec.ranker_of(name, data, 0.0).build()
        return ranker.settings

    deep = (1024, 512, 256, 128, 64, 32, 16)
    for recipe in ("2020-table1-nets", "2020-figure3-nets", "2020-figure4"):
        base = settings(recipe, "ApproxNDCG")
        assert (base.hidden, base.optimizer, base.reduction, base.batch_norm_momentum) == (deep, "adagrad", "sum", 0.2)
        assert settings(recipe, "ApproxNDCG", "yahoo-set1").batch_norm_momentum == 0.01
        methods = find_spec(recipe).parsed()
        noisy, plain = (cast("Any", rw.objective(methods[one].objective)) for one in ("E[ApproxNDCG]", "ApproxNDCG"))
        assert (noisy.inner, noisy.samples, noisy.scale) == (plain, 8, 1.0)
        assert plain.eta == 10.0
        same = recipe == "2020-figure3-nets"
        assert (settings(recipe, "E[ApproxNDCG]") == base) == same
    tuned = settings("2020-figure4", "E[CrossEntropy]")
    assert (tuned.hidden, tuned.optimizer, tuned.reduction) == ((1024, 512, 256), "adam", "mean")
    assert (tuned.dropout, tuned.batch_norm_momentum) == (0.5, 0.6)
    assert settings("2020-table1-nets", "ApproxNDCG, tuned") == tuned
    assert settings("2020-table1-nets", "E[ApproxNDCG], same") == settings("2020-table1-nets", "ApproxNDCG")


def test_no_recipe_takes_a_default_of_nets(monkeypatch):
    def settings(spec: Spec) -> list[presets.NetSettings]:
        kinds = [(name, data) for name, one in spec.parsed().items() if one.name == "neural" for data in spec.data]
        return [spec.ranker_of(name, data, 0.0).build().settings for name, data in kinds]

    found = {name: settings(find_spec(name)) for name in recipes()}
    monkeypatch.setattr(presets, "DEFAULT", presets.NetSettings(hidden=(3,), dropout=0.7, batch_queries=5))
    assert sum(map(len, found.values())) > 20
    assert found == {name: settings(find_spec(name)) for name in found}


def test_cross_entropy_has_the_labels_over_their_sum_as_target():
    # Eq. 5 and 6 by hand, for the labels 2, 1, 0 and the scores 0, ln 2, 0: shares 1/4, 1/2, 1/4.
    objective = rw.objective(find_spec("2020-table1-nets").parsed()["CrossEntropy"].objective)
    value = objective([0.0, np.log(2.0), 0.0], [2.0, 1.0, 0.0], [0, 3], None).value[0]
    assert value == pytest.approx(-(2 / 3 * np.log(1 / 4) + 1 / 3 * np.log(1 / 2)))


@pytest.mark.parametrize("name", ["2024-table1-at5", "2024-table1-at10"])
def test_the_net_of_2024_is_tuned_with_the_budget_of_the_others(name):
    spec = find_spec(name)
    net, trees = (method(spec.methods[one]) for one in ("Neural net", "Trees, raw Hessian"))
    ours, theirs = rw.objective(net.objective), cast("Any", rw.objective(trees.objective))
    assert dataclasses.replace(ours, curvature=theirs.curvature) == theirs  # type: ignore[call-arg]
    assert (spec.tune_trials, spec.tune_space) == (100, "kang2024")


@pytest.mark.parametrize("cutoff", [5, 10])
def test_the_figures_of_2024_show_the_methods_of_its_table_at_the_same_cutoff(cutoff):
    table = find_spec(f"2024-table1-at{cutoff}")
    assert "LambdaMART" in table.methods
    stochastic = {name: text for name, text in table.methods.items() if name != "LambdaMART"}
    for name, text in stochastic.items():
        ranker, objective = method(text), cast("Any", rw.objective(method(text).objective))
        assert (objective.metric, objective.cutoff, objective.samples) == ("dcg", cutoff, 200)
        assert ranker.settings.get("floor_hessian", True) == (name != "Trees, raw Hessian")
    for figure, rounds in (("2024-figure2", 1000), ("2024-figure3", 4000)):
        spec = find_spec(f"{figure}-at{cutoff}")
        assert spec.methods == stochastic
        assert (spec.decide, spec.early_stopping) == (f"ndcg@{cutoff}", False)
        assert spec.settings_of("Neural net", "mq2008", 0.0)["epochs"] == rounds
        assert spec.settings_of("Trees, raw Hessian", "mq2008", 0.0)["rounds"] == rounds


def test_what_2024_says_of_a_hessian_is_said_of_the_raw_one():
    said = [one for part in ("table1_at5", "table1_at10", "figure2", "figure3") for one in claims(f"kang2024.{part}")]
    named = {name for one in said for name in (one.better, one.worse)}
    assert named == {"Neural net", "Trees, raw Hessian", "Trees, ones", "LambdaMART"}


# Ratings.


def test_every_user_is_spread_evenly_over_the_folds():
    spec = rated()
    every = synthetic_ratings(30, 400, n_ratings=70)
    wanted = every.to_frame().filter(pl.col("rating") >= 4).group_by("user").len()
    active = set(wanted.filter(pl.col("len") >= 25)["user"])
    assert 3 < len(active) < 30
    tests = []
    for trial in range(5):
        train, valid, test = (part.to_frame() for part in ratings_of(spec, trial))
        assert set(test["user"]) == active
        pairs = [set(part.select("user", "item").iter_rows()) for part in (train, valid, test)]
        assert len(set.union(*pairs)) == sum(map(len, pairs))  # no item is in two parts
        tests.append(test.filter(pl.col("rating") >= 4))
        liked = [part.filter(pl.col("rating") >= 4).height for part in (train, valid)]
        assert liked[1] / sum(liked) == pytest.approx(0.1, abs=0.02)
    together = pl.concat(tests)
    assert not together.select("user", "item").is_duplicated().any()
    counts = pl.concat([one.group_by("user").len() for one in tests]).group_by("user").agg(pl.col("len"))
    for user, lengths in counts.iter_rows():
        assert len(lengths) == 5
        assert max(lengths) - min(lengths) <= 1
        assert sum(lengths) == wanted.filter(pl.col("user") == user)["len"][0]
    again = ratings_of(spec, 5)[2].to_frame()
    assert again.equals(ratings_of(spec, 0)[2].to_frame())


def test_the_level_is_the_number_of_negatives_for_each_relevant_item(tmp_path):
    spec = rated(
        levels=(1.0, 3.0),
        trials=1,
        methods={name: rated().methods[name] for name in ("none", "min_max")},
        **{"settings.epochs": 2},
    )
    for cell in cells_of(spec)[::2]:
        train, valid, test = parts_of(cell)
        for part in (valid, test):
            relevant = np.add.reduceat(part.labels, part.offsets[:-1])
            np.testing.assert_array_equal(part.sizes, (1 + cell.level) * relevant)
        ranker: Any = spec.ranker_of("none", cell.source.name, cell.level).build(cell.defaults)
        assert ranker.negatives == cell.level
        assert isinstance(train, rw.recommend.Interactions)
    results = engine.run(spec, tmp_path, jobs=1, estimate=False)
    assert set(results.queries["level"]) == {1.0, 3.0}
    rows = results.queries
    assert (rows["documents"] == (1 + rows["level"]) * rows["relevant"]).all()
    assert (rows["relevant"] >= 5).all()
    # The numbers are those of the public interface.
    seed = seed_of(0, 0)
    train, valid, test = ratings_of(spec, 0)
    ranker = rw.recommend.FactorizationRanker(
        "bounded(smooth_rbp)", negatives=3, learning_rate=0.01, epochs=2, seed=seed, metrics="nrbp(p=0.95)", threads=1
    ).fit(train, valid.dataset(3, seed=seed))
    expected = rw.evaluate(ranker, test.dataset(3, seed=seed), ["nrbp(p=0.95)"])["nrbp(p=0.95)"]
    ours = rows.filter(level=3.0, method="min_max")["nrbp(p=0.95)"].to_numpy()
    np.testing.assert_array_equal(ours, expected)
    assert results.documents["id"].null_count() == 0
    assert results.features.is_empty()
    assert "negatives per relevant item" in all_tables(results)[0][1].header[0]


def test_training_alone_may_be_sampled():
    spec = rated(treatment="negative_ratio_in_training")
    parts = ratings_of(spec, 1)
    _, _, test = TREATMENTS[spec.treatment](parts, Draw(2.0, spec, 7))
    for user in range(test.n_queries):
        mine = slice(test.offsets[user], test.offsets[user + 1])
        assert len(set(test.document_ids[mine])) == test.sizes[user]
    relevant = np.add.reduceat(test.labels, test.offsets[:-1])
    assert (test.sizes > 3 * relevant).all()
    assert test.sizes.max() < 200  # a fold of the items


def test_a_file_of_ratings_is_a_source_and_other_ratings_are_other_data(tmp_path):
    frame = synthetic_ratings(30, 400, n_ratings=70).to_frame()
    frame.write_csv(tmp_path / "mine.csv")
    spec = rated(data=(f"{tmp_path / 'mine.csv'}", RATINGS))
    cells = cells_of(spec)
    mine, made = (next(cell for cell in cells if cell.source.name == name) for name in ("mine", "synthetic_ratings"))
    left, right = (cell.source.interactions(4).active(25).to_frame() for cell in (mine, made))
    assert left.equals(right)
    few = Source(spec.data[0], queries=20, ratings=True)
    assert few.interactions().n_users == 20
    first = mine.source.fingerprint()
    frame.with_columns(pl.when(pl.int_range(pl.len()) == 0).then(0.5).otherwise("rating").alias("rating")).write_csv(
        tmp_path / "other.csv"
    )
    assert Source(f"{tmp_path / 'other.csv'}", ratings=True).fingerprint() != first


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"data": (DOCUMENTS,)}, "this protocol is made for ratings of items by users: got synthetic"),
        ({"protocol": "trials"}, "ratings of items are no documents with features: got synthetic_ratings"),
        ({"protocol": "folds"}, "ratings of items are no documents with features: got synthetic_ratings"),
        ({"levels": (1.5,)}, "a level of a negative ratio must be a whole number of at least 1: got 1.5"),
        ({"protocol": "trials", "data": (DOCUMENTS,)}, "a negative ratio is for ratings of items by users: got Rank"),
    ],
)
def test_ratings_and_documents_are_not_mixed_up(changes, words):
    spec = rated(**changes)
    with pytest.raises(ValueError, match=words):
        parts_of(cells_of(spec)[0] if "levels" in changes else _cell(spec))


def _cell(spec):
    """A cell, though its data could not be planned with."""
    cell = cells_of(rated())[0]
    return dataclasses.replace(cell, spec=spec, source=Source(spec.data[0]), fingerprint=repr(spec.data))


# Nets.


@pytest.mark.parametrize("relevant", [1, 2])
def test_grades_that_are_relevant_are_counted_and_queries_without_are_skipped(tmp_path, relevant):
    spec = find_spec("thesis-mq2008-nrbp")
    assert spec.relevant == 1.0
    spec = spec.changed(
        {
            "data": (DOCUMENTS,),
            "relevant": relevant,
            "trials": 1,
            "methods": {"none": spec.methods["none"]},
            "settings.epochs": 1,
            "settings.hidden": "4",
        }
    )
    assert relevant_label(spec, 0.0) == 1.0
    plain = PROTOCOLS["folds"](Source(DOCUMENTS), spec, 0)[2]
    rows = engine.run(spec, tmp_path, jobs=1, estimate=False).queries
    counts = np.add.reduceat(plain.labels >= relevant, plain.offsets[:-1], dtype=np.int64)
    assert rows["relevant"].to_list() == counts.tolist()
    empty = rows.filter(pl.col("relevant") == 0)
    assert empty.height or relevant == 1
    assert empty["nrbp"].null_count() == empty.height
    assert set(empty["nrbp(empty=0)"]) <= {0.0}
    assert set(empty["nrbp(empty=1)"]) <= {1.0}


def test_a_net_recipe_gives_the_numbers_of_the_public_interface(tmp_path):
    spec = find_spec("2020-table1-nets").changed(
        {"data": (DOCUMENTS,), "trials": 2, "settings.epochs": 2, "settings.hidden": "8-4"}
    )
    names = ("ApproxNDCG", "E[ApproxNDCG]")
    spec = spec.changed({"methods": {name: spec.methods[name] for name in names}})
    results = engine.run(spec, tmp_path, jobs=1, estimate=False)
    data = rw.synthetic(n_queries=60, n_features=6, n_docs=10)
    train, valid, test = list(rw.data.trials(data, 2))[1]
    settings: dict[str, Any] = {
        "hidden": (8, 4),
        "epochs": 2,
        "patience": 50,
        "metrics": "ndcg@5",
        "seed": seed_of(0, 1),
        "threads": 1,
    }
    noisy = rw.NeuralRanker("stochastic(approx_ndcg(eta=10.0), scale=1.0)", preset="2020-tuned", **settings).fit(
        train, valid
    )
    rows = results.queries.filter(trial=1, method="E[ApproxNDCG]")
    expected = rw.evaluate(noisy, test, ["ndcg@5"])["ndcg@5"]
    np.testing.assert_array_equal(rows["ndcg@5"].fill_null(np.nan).to_numpy(), expected)
    curve = results.curves.filter(trial=1, method="E[ApproxNDCG]", series="valid ndcg@5").sort("round")
    assert curve["value"].to_list() == noisy.history_["ndcg@5"]
    name = json.loads((tmp_path / "experiment.json").read_text())["files"][0]
    assert "torch" in Store(tmp_path).about(name)["versions"]


@pytest.mark.slow
def test_nets_need_no_library_of_trees(tmp_path):
    """Slow: another process imports torch."""
    code = f"""
import sys
from typing import Any, cast
from rankwise.wings.lab.experiments.running import run as engine
from rankwise.wings.lab.experiments.spec import find_spec
spec = find_spec("2020-figure3-nets").quickly()
spec = spec.changed({{"data": [{DOCUMENTS!r}], "trials": 1, "settings.epochs": 1}})
engine.run(spec, {str(tmp_path / "r")!r}, jobs=1, estimate=False)
heavy = ("lightgbm", "xgboost", "catboost", "optuna", "backports", "matplotlib", "pandas", "sklearn", "dask")
print([name for name in heavy if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
