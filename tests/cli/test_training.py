"""Training, predicting and tuning from the command line: what it writes, repeats and refuses."""

import gzip
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from typer.testing import Result

import rankwise as rw
from rankwise.objectives.prepared import PreparedKernel
from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
from tests.cli.running import refused, run
from tests.processes import HANG, wait_until

QUICK = ("--rounds", "6", "--threads", "1")


@pytest.fixture(scope="module")
def data() -> dict[str, rw.RankingDataset]:
    parts = rw.split(rw.synthetic(n_queries=40, n_docs=12, seed=1), (0.5, 0.25, 0.25), seed=1)
    return dict(zip(("train", "valid", "test"), parts, strict=True))


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: dict[str, rw.RankingDataset]) -> Path:
    """Each test works in a folder of its own that holds data."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    for name, part in data.items():
        rw.write_data(part, f"{name}.parquet")
    return tmp_path


def train(*words: str) -> Result:
    return run("train", "train.parquet", "--valid", "valid.parquet", "-o", "model", *QUICK, *words)


# train


def test_train_writes_the_model_that_the_library_trains(data: dict[str, rw.RankingDataset]):
    words = ("--leaves", "7", "--learning-rate", "0.2", "--min-documents", "5", "--seed", "3", "-m", "ap,ndcg@5")
    result = train(
        "--objective", "stochastic(xendcg, samples=2)", "--set", "lambda_l2=0.5", "--set", "max_bin=63", *words
    )
    assert "wrote model" in result.stderr
    ranker = LightGBMRanker(
        "stochastic(xendcg, samples=2)", rounds=6, leaves=7, learning_rate=0.2, min_documents=5, seed=3, threads=1,
        metrics=("ap", "ndcg@5"), lambda_l2=0.5, max_bin=63,
    ).fit(data["train"], data["valid"])  # fmt: skip
    loaded = rw.load("model")
    np.testing.assert_array_equal(loaded.predict(data["test"]), ranker.predict(data["test"]))
    best = ranker.best_round_
    assert f"{best} kept of 6 trained" in result.stdout
    assert f"{ranker.history_['ap'][best - 1]:.4f}" in result.stdout
    assert "ndcg@5, validation" in result.stdout


def test_train_as_json(data: dict[str, rw.RankingDataset]):
    document = json.loads(train("--json", "--patience", "0").stdout)
    assert document["objective"] == "lambdarank"
    assert document["rounds"] == len(document["history"]["ndcg@10"]) == 6
    assert document["metrics"]["ndcg@10"] == max(document["history"]["ndcg@10"])
    assert document["parameters"]["patience"] is None
    assert document["model"] == "model"


def test_train_without_validation_data(data: dict[str, rw.RankingDataset]):
    result = run("train", "train.parquet", "-o", "model", "--objective", "native:lambdarank", *QUICK)
    assert "6 kept of 6 trained (all rounds done)" in result.stdout
    assert "none: nothing was measured; --valid DATA or a bag measures" in " ".join(result.stdout.split())
    assert "without --valid none of the 6 rounds is measured" in " ".join(result.stderr.split())
    assert '--ranker "bagged(lightgbm, folds=5)"' in result.stderr
    measured = train("--force")
    assert "nothing was measured" not in measured.stdout
    assert "bagged" not in measured.stderr
    assert "a learning curve needs validation data" in refused("train", "train.parquet", "-o", "x", "--plot", "c.png")


def test_train_a_bag(data: dict[str, rw.RankingDataset]):
    bag = rw.bagged(LightGBMRanker(rounds=6, threads=1, smoothing=2), 3).fit(data["train"], data["valid"])
    words = (
        "train",
        "train.parquet",
        "--valid",
        "valid.parquet",
        "--ranker",
        "bagged(lightgbm, folds=3)",
        "--smoothing",
        "2",
        *QUICK,
    )
    result = run(*words, "-o", "model", "--plot", "curve.png")
    loaded = rw.load("model")
    np.testing.assert_array_equal(loaded.predict(data["test"]), bag.predict(data["test"]))
    pooled = data["train"].n_queries + data["valid"].n_queries
    assert f"{pooled} queries" in result.stdout
    assert "ndcg@10, out of fold" in result.stdout
    reported = bag.out_of_fold_.mean["ndcg@10"]
    assert reported != bag.history_["ndcg@10"][bag.best_round_ - 1]  # whose round was chosen on all queries
    assert f"{reported:.4f}" in result.stdout
    document = json.loads(run(*words, "--json", "-o", "again").stdout)
    assert document["metrics"] == {"ndcg@10": reported}
    assert (document["ranker"], document["parameters"]["ranker"]) == ("bagged", "lightgbm")
    assert (document["parameters"]["folds"], document["parameters"]["smoothing"]) == (3, 2)
    assert '--ranker "bagged(lightgbm, folds=5)"' in refused("train", "train.parquet", "-o", "x", "--processes", "2")
    found = json.loads(run("evaluate", "test.parquet", "model", "--json").stdout)["rankings"]["model"]
    assert found["queries"] == data["test"].n_queries
    said = "{0} of these {0} queries have the features of queries that model was trained on: "
    assert said.format(data["train"].n_queries) in run("evaluate", "train.parquet", "model").stderr
    assert run("evaluate", "test.parquet", "model").stderr == ""


def test_train_a_blend(data: dict[str, rw.RankingDataset]):
    rankers = [LightGBMRanker("xendcg", rounds=6, threads=1, leaves=4), LightGBMRanker(rounds=6, threads=1)]
    blend = rw.blended([*rankers, 0], 3).fit(data["train"], data["valid"])
    text = "blended(lightgbm(xendcg, leaves=4), lambdarank, column(0), folds=3)"
    words = ("train", "train.parquet", "--valid", "valid.parquet", "--ranker", text, *QUICK)
    result = run(*words, "-o", "model")
    np.testing.assert_array_equal(rw.load("model").predict(data["test"]), blend.predict(data["test"]))
    assert f"weight {blend.weights_.values[1]:.3f}" in result.stdout
    assert "ndcg@10, out of fold" in result.stdout
    document = json.loads(run(*words, "--json", "-o", "again").stdout)
    assert [one["weight"] for one in document["members"]] == list(blend.weights_.values)
    assert document["metrics"] == {"ndcg@10": blend.history_["ndcg@10"][0]}
    assert "do not go together" in refused(*words, "-o", "x", "--set", "leaves=3")


def test_train_an_expression(data: dict[str, rw.RankingDataset]):
    words = ("train", "train.parquet", "--valid", "valid.parquet", *QUICK)
    teacher = LightGBMRanker(rounds=6, threads=1).fit(data["train"], data["valid"])
    teacher.save("teacher")
    for number, (text, ranker) in enumerate(
        {
            "lightgbm(xendcg, leaves=4)": LightGBMRanker("xendcg", leaves=4, rounds=6, threads=1),
            "bagged(lightgbm(xendcg, rounds=3), folds=3)": rw.bagged(LightGBMRanker("xendcg", rounds=3, threads=1), 3),
            "blended(lightgbm(xendcg), column(0), folds=3)": rw.blended(
                [LightGBMRanker("xendcg", rounds=6, threads=1), 0], 3
            ),
            "distilled('teacher', lightgbm(leaves=4), weight=0.5)": rw.distilled(
                "teacher", LightGBMRanker(leaves=4, rounds=6, threads=1), weight=0.5
            ),
        }.items()
    ):
        run(*words, "--ranker", text, "-o", f"model{number}")
        expected = ranker.fit(data["train"], data["valid"]).predict(data["test"])
        np.testing.assert_array_equal(rw.load(f"model{number}").predict(data["test"]), expected)
    for line, sentence in (
        (
            ("--ranker", "bagged(blended(xendcg))"),
            "a bag is made of rankers of trees or nets, or of one's own: got ble",
        ),
        (
            ("--ranker", "lightgbm(xendcg)", "--objective", "listnet"),
            "--objective and an expression with one do not go together",
        ),
        (("--ranker", "lightgbm(leafs=3)"), "Hint: did you mean 'leaves'"),
        (("--ranker", "auto(minutes=1)"), "use 'rankwise auto'"),
        (("--ranker", "blended(xendcg, column(0))", "--plot", "curve.png"), "a blend has no learning curve"),
        (("--ranker", "ease"), "use 'rankwise recommend'"),
        (("--unlabelled", "train.parquet"), "--unlabelled needs a teacher"),
        (("--ranker", "distilled('teacher', bagged(xendcg))"), "the student must be a ranker of trees or nets"),
        (
            ("--ranker", "distilled('teacher', blended(xendcg, neural))"),
            "the student must be a ranker of trees or nets",
        ),
    ):
        assert sentence in refused(*words, "-o", "x", *line), line


def test_train_says_why_it_stopped():
    assert "no better round for 1 rounds" in train("--rounds", "200", "--patience", "1").stdout


def test_train_draws_the_learning_curve():
    train("--plot", "curve.png")
    assert Path("curve.png").read_bytes().startswith(b"\x89PNG")


def test_train_on_a_set_takes_its_own_parts(data: dict[str, rw.RankingDataset]):
    Path("mine.toml").write_text('train = "train.txt"\nvalid = "valid.txt"\ntest = "test.txt"\n')
    for name, part in data.items():
        rw.write_data(part, f"{name}.txt")
    run("train", "mine.toml", "-o", "of_set", *QUICK)
    train()
    assert rw.load("of_set").history_["ndcg@10"] == pytest.approx(rw.load("model").history_["ndcg@10"])
    found = json.loads(run("evaluate", "mine.toml", "of_set", "--json").stdout)["rankings"]["of_set"]
    assert found["queries"] == data["test"].n_queries


def test_weighted_means_are_called_weighted(data: dict[str, rw.RankingDataset]):
    assert "ndcg@10, validation  " in train().stdout
    valid = data["valid"]
    rw.write_data(valid.with_(weights=np.arange(valid.n_queries) + 1.0), "weighted.parquet")
    words = ("train", "train.parquet", "--valid", "weighted.parquet", *QUICK)
    assert "ndcg@10, validation, weighted" in run(*words, "-o", "other").stdout
    bag = ("train", "weighted.parquet", *QUICK, "--ranker", "bagged(folds=2)", "--min-documents", "2", "-o", "bag")
    assert "ndcg@10, out of fold, weighted" in run(*bag).stdout
    assert "weighted mean" in run("evaluate", "weighted.parquet", "model", "-m", "ap").stdout


def test_scores_of_a_table_are_not_blamed_on_its_ending():
    train()
    run("predict", "model", "test.parquet", "-o", "s.parquet")
    said = refused("evaluate", "test.parquet", "s.parquet")
    assert "scores are read from text, .npy arrays and TREC runs: got s.parquet" in said


def test_train_resumes_from_a_checkpoint(data: dict[str, rw.RankingDataset]):
    checkpoint = ("--checkpoint", "kept", "--checkpoint-every", "2")
    run(
        "train",
        "train.parquet",
        "--valid",
        "valid.parquet",
        "-o",
        "half",
        "--rounds",
        "4",
        "--threads",
        "1",
        *checkpoint,
    )
    assert "resume from the checkpoint there" in refused(
        "train", "train.parquet", "--valid", "valid.parquet", "-o", "model", *QUICK, *checkpoint
    )
    train(*checkpoint, "--resume")
    run("train", "train.parquet", "--valid", "valid.parquet", "-o", "whole", *QUICK)
    resumed, whole = (rw.load(name).predict(data["test"]) for name in ("model", "whole"))
    np.testing.assert_array_equal(resumed, whole)


def test_train_replaces_a_model_only_with_force():
    train()
    before = Path("model/rankwise.json").read_bytes()
    assert "model exists already and is kept" in refused("train", "train.parquet", "-o", "model", *QUICK)
    assert Path("model/rankwise.json").read_bytes() == before
    train("--force", "--seed", "9", "--objective", "xendcg")
    assert rw.load("model").seed == 9
    Path("folder").mkdir()
    assert "is not a model of rankwise and is kept" in refused("train", "train.parquet", "-o", "folder", "--force")


def test_ctrl_c_keeps_the_best_model_so_far(monkeypatch: pytest.MonkeyPatch, data: dict[str, rw.RankingDataset]):
    calls = [0]
    inner = PreparedKernel.fill

    def interrupted(self: PreparedKernel, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        inner(self, *arguments)

    monkeypatch.setattr(PreparedKernel, "fill", interrupted)
    words = ("train", "train.parquet", "--valid", "valid.parquet", "-o", "model", *QUICK)
    result = run(*words, code=130)
    assert "interrupted after round 3" in result.stderr
    assert rw.load("model").stopped_ == "interrupted"
    assert rw.load("model").predict(data["test"]).std() > 0


def test_resuming_replaces_the_model_that_was_interrupted_and_no_other(
    monkeypatch: pytest.MonkeyPatch, data: dict[str, rw.RankingDataset]
):
    calls = [0]
    inner = PreparedKernel.fill

    def interrupted(self: PreparedKernel, *arguments: Any) -> None:
        calls[0] += 1
        if calls[0] == 4:
            raise KeyboardInterrupt
        inner(self, *arguments)

    kept = ("--checkpoint", "kept", "--checkpoint-every", "2", "--plot", "curve.svg")
    words = ("train", "train.parquet", "--valid", "valid.parquet", "-o", "model", *QUICK, *kept)
    with monkeypatch.context() as patch:
        patch.setattr(PreparedKernel, "fill", interrupted)
        run(*words, code=130)
    assert "model exists already and is kept" in refused(*words)
    run(*words, "--resume")
    run("train", "train.parquet", "--valid", "valid.parquet", "-o", "whole", *QUICK)
    resumed, whole = (rw.load(name).predict(data["test"]) for name in ("model", "whole"))
    np.testing.assert_array_equal(resumed, whole)
    assert "model exists already and is kept" in refused(*words, "--resume")  # it is complete


# predict


# several goals


@pytest.fixture
def goals(here: Path) -> None:
    """Data with a second label."""
    parts = rw.split(rw.synthetic(n_queries=60, n_docs=10, goals={"buy": 90}, seed=1), (0.5, 0.5), seed=1)
    for name, part in zip(("train", "valid"), parts, strict=True):
        rw.write_data(part, f"{name}.parquet", force=True)


@pytest.mark.usefixtures("goals")
def test_train_with_constraints():
    result = train("--objective", "xendcg", "--constraint", "ndcg(label=buy)@10=0.1", "--constraint", "rr=0.05")
    assert "bound ndcg(label=buy)@10, validation" in result.stdout
    assert "loss" not in result.stdout  # of another sum in every round
    assert rw.load("model").constraints == {"ndcg(label=buy)@10": 0.1, "rr": 0.05}
    assert "constraints are written METRIC=GOAL: got 'rr'" in refused(
        "train", "train.parquet", "--valid", "valid.parquet", "-o", "other", "--constraint", "rr"
    )


@pytest.mark.usefixtures("goals")
def test_frontier_prints_draws_and_writes(here: Path):
    words = ("frontier", "train.parquet", "--objective", "xendcg", "--objective", "on(buy, xendcg)", "--folds", "2")
    result = run(
        *words,
        "--points",
        "2",
        "--set",
        "min_documents=5",
        *QUICK,
        "--valid",
        "valid.parquet",
        "--plot",
        "curve.png",
        "-o",
        "curve.csv",
    )
    assert "Hypervolume" in result.stdout
    assert (here / "curve.png").stat().st_size > 1000
    assert pl.read_csv("curve.csv")["weight of ndcg@10"].to_list() == [1.0, 0.0]
    document = json.loads(run(*words, "--metrics", "ndcg@5,rr(label=buy)", "--json").stdout)
    assert document["objectives"] == {"ndcg@5": "xendcg", "rr(label=buy)": "on(buy, xendcg)"}
    assert "every objective has one metric: got 1 metrics and 2 objectives" in refused(*words, "-m", "ndcg@5")


def test_features_are_selected_drawn_and_written(here: Path, data: dict[str, rw.RankingDataset]):
    words = ("features", "train.parquet", "--folds", "2", "--patience", "none", "--set", "min_documents=5", *QUICK)
    name, other, *_ = names = data["train"].feature_names or ()
    result = run(*words, "--cost", f"{name},{other}=9", "--plot", "curve.png", "-o", "features.csv")
    assert (here / "curve.png").stat().st_size > 1000
    frame = pl.read_csv("features.csv")
    assert frame["feature"].to_list() == list(names)
    assert frame["cost"].to_list() == [9.0, 9.0, *[1.0] * (len(names) - 2)]
    assert frame["kept"][0] == frame["kept"][1]
    assert "chosen" in result.stdout
    document = json.loads(run(*words, "--budget", "1", "--json").stdout)
    assert len(document["features"]) == 1 == document["cost"]
    assert len(document["features"]) + len(document["dropped"]) == len(names) == len(document["rows"])
    for wrong in ("bm25", "=2", "a=b"):
        assert f"costs are written FEATURE=COST: got '{wrong}'" in refused(*words, "--cost", wrong)


def test_predict_writes_every_format(data: dict[str, rw.RankingDataset]):
    train()
    expected = rw.load("model").predict(data["test"])
    for name in ("s.run", "s.parquet", "s.npy", "s.txt", "s.txt.gz", "s.run.zst", "s.csv", "s.tsv.gz"):
        assert f"wrote {name}" in run("predict", "model", "test.parquet", "-o", name).stderr
    np.testing.assert_array_equal(np.load("s.npy"), expected)
    np.testing.assert_array_equal(np.loadtxt("s.txt"), expected)
    np.testing.assert_array_equal(np.array(gzip.decompress(Path("s.txt.gz").read_bytes()).split(), float), expected)
    table = pl.read_parquet("s.parquet")
    np.testing.assert_array_equal(table["score"].to_numpy(), expected)
    assert table["query"].to_list() == data["test"].qids().tolist()
    assert pl.read_csv("s.csv").equals(table)
    assert pl.read_csv("s.tsv.gz", separator="\t").equals(table)
    ranking = rw.trec.read_run("s.run")
    assert sorted(ranking["score"].to_list()) == sorted(expected.tolist())
    assert rw.trec.read_run("s.run.zst").equals(ranking)
    assert run("predict", "model", "test.parquet", "-o", "t.run", "--tag", "mine").stdout == ""
    assert set(rw.trec.read_run("t.run")["tag"].to_list()) == {"mine"}


def test_predict_prints_scores_that_read_back(data: dict[str, rw.RankingDataset]):
    train()
    expected = rw.load("model").predict(data["test"])
    printed = run("predict", "model", "test.parquet").stdout
    np.testing.assert_array_equal(np.array(printed.split(), float), expected)
    document = json.loads(run("predict", "model", "test.parquet", "--json").stdout)
    assert document["scores"] == expected.tolist()
    assert json.loads(run("predict", "model", "test.parquet", "--json", "-o", "s.txt").stdout)["output"] == "s.txt"


# evaluate and compare take models


def test_models_in_the_place_of_scores(data: dict[str, rw.RankingDataset]):
    train()
    run("predict", "model", "test.parquet", "-o", "scores.npy")
    document = json.loads(run("evaluate", "test.parquet", "model", "scores.npy", "-m", "ap", "--json").stdout)
    found = document["rankings"]
    assert found["model"] == found["scores"]
    assert found["model"]["metrics"]["ap"]["mean"] == rw.evaluate(rw.load("model"), data["test"], "ap").mean["ap"]
    words = ("compare", "test.parquet", "tree=model", "same=scores.npy", "-m", "ap", "--json")
    assert json.loads(run(*words).stdout)["systems"] == ["tree", "same"]


# tune


def test_tune_writes_what_train_takes(data: dict[str, rw.RankingDataset]):
    words = (
        "--trials",
        "3",
        "--space",
        "none",
        "--search",
        "leaves=whole(3, 15)",
        "--search",
        "xendcg.gamma=choice('uniform', 'zero')",
    )
    tuned = ("tune", "train.parquet", "--valid", "valid.parquet", "--objective", "xendcg", "-o", "best.toml", *QUICK)
    result = run(*tuned, *words, "--set", "min_documents=5", "--seed", "4", "--plot", "search.png")
    for name in ("best.toml", "best.db", "search.png"):
        assert f"wrote {name}" in result.stderr
        assert Path(name).stat().st_size > 0
    search = {"leaves": "whole(3, 15)", "xendcg.gamma": "choice('uniform', 'zero')"}
    fixed = {"rounds": 6, "min_documents": 5}
    settings: dict[str, Any] = {"trials": 3, "space": "none", "search": search, "fixed": fixed, "seed": 4, "threads": 1}
    expected = rw.tune(data["train"], data["valid"], "xendcg", **settings)
    assert f"ndcg@10 {expected.value:.4f} on the validation data" in result.stdout
    words = ("train", "train.parquet", "--valid", "valid.parquet", "--params", "best.toml", "--threads", "1")
    run(*words, "-o", "model")
    model = rw.load("model")
    assert max(model.history_["ndcg@10"]) == expected.value
    assert model.objective == expected.parameters["objective"]
    run(*words, "-o", "other", "--leaves", "2", "--objective", "listnet")
    other: Any = rw.load("other")
    assert (other.leaves, other.objective, other.seed) == (2, "listnet", 4)


def test_tune_searches_for_bags():
    words = ("tune", "train.parquet", "-o", "bag.toml", "--folds", "2", "--trials", "1", *QUICK, "--set", "leaves=4")
    assert "out of fold, in a bag of 2" in run(*words).stdout
    assert '--params THIS --ranker "bagged(lightgbm, folds=2)" -o MODEL' in Path("bag.toml").read_text(encoding="utf-8")


def test_tune_goes_on():
    words = ("tune", "train.parquet", "--valid", "valid.parquet", "-o", "best.json", *QUICK, "--patience", "0")
    document = json.loads(run(*words, "--trials", "1", "--json").stdout)
    assert (len(document["trials"]), document["parameters"]["patience"]) == (1, None)
    assert "best.json exists already and is kept" in refused(*words, "--trials", "2")
    assert "best.db exists already and is kept" in refused(*words, "--trials", "2", "--force")
    again = json.loads(run(*words, "--trials", "2", "--resume", "--json").stdout)
    assert [one["values"] for one in again["trials"]][:1] == [one["values"] for one in document["trials"]]
    assert len(again["trials"]) == 2


def test_interrupted_tune_writes_the_best_so_far(monkeypatch: pytest.MonkeyPatch):
    fits, fit = [0], LightGBMRanker.fit

    def interrupted(self: Any, *arguments: Any, **options: Any) -> Any:
        fits[0] += 1
        if fits[0] == 2:
            raise KeyboardInterrupt
        return fit(self, *arguments, **options)

    monkeypatch.setattr(LightGBMRanker, "fit", interrupted)
    words = ("tune", "train.parquet", "--valid", "valid.parquet", "-o", "best.toml", *QUICK, "--trials", "5")
    assert "--resume continues the search" in run(*words, code=130).stderr
    assert Path("best.toml").exists()


# What they refuse

REFUSALS = [
    (
        "train train.parquet -o no/model",
        "there is no folder no to write model into. Hint: create it first: mkdir -p no",
    ),
    ("train nowhere.txt -o model", "there is no file nowhere.txt"),
    ("train train.parquet -o model --objective xendgc", "unknown objective: got 'xendgc'"),
    (
        "train train.parquet -o model --ranker lightgmb",
        "unknown ranker or objective: got 'lightgmb' at character 1 of 'lightgmb'. Hint: did you mean 'lightgbm'",
    ),
    ("train train.parquet -o model --set lamda_l2=1", "LightGBMRanker has no such parameter: got 'lamda_l2'"),
    ("train train.parquet -o model --set leaves", "settings are written NAME=VALUE: got 'leaves'"),
    (
        "train train.parquet -o model --set num_leaves=3",
        "'num_leaves' of lightgbm has another name here. Hint: use --leaves.",
    ),
    ("train train.parquet -o model --resume", "resume needs a checkpoint"),
    ("train train.parquet -o model --params bad.toml", "bad.toml: LightGBMRanker has no such parameter: got 'leafs'"),
    (
        "train train.parquet -o model --params best.toml --ranker xgboost",
        "the parameters are of lightgbm: got --ranker xgb",
    ),
    ("train train.parquet -o model --valid valid.parquet --fold 2", "only sets of the catalog and .toml files have a"),
    ("predict nowhere test.parquet", "there is no model nowhere"),
    ("predict folder test.parquet", "not a model of rankwise: got a folder without rankwise.json"),
    ("predict model test.parquet -o scores.docx", "a file's ending says its format: got scores.docx"),
    ("predict model test.parquet -o scores.npy.gz", "a file's ending says its format: got scores.npy.gz"),
    ("predict model test.parquet -o best.toml", "best.toml exists already and is kept"),
    ("predict model narrow.parquet", "the model was trained on"),
    ("evaluate narrow.parquet model", "model: the model was trained on"),
    ("evaluate test.parquet folder", "not a model of rankwise"),
    ("evaluate --qrels qrels.txt model", "a model needs data with features: got model"),
    ("tune train.parquet -o new.toml", "a search needs validation data. Hint: add --valid DATA, or --folds 5"),
    ("tune train.parquet --valid valid.parquet -o new.ini", "a file's ending says its format: got new.ini"),
    ("tune train.parquet --valid valid.parquet -o new.toml --space big", "unknown space: got 'big'"),
    ("tune train.parquet --valid valid.parquet -o new.toml --search leaves", "settings are written NAME=RANGE"),
    ("tune train.parquet --valid valid.parquet -o new.toml --minutes -1", "minutes must be a number in (0, inf)"),
]


@pytest.mark.parametrize(("line", "sentence"), REFUSALS, ids=[line for line, _ in REFUSALS])
def test_bad_input_gets_its_sentence(line: str, sentence: str, data: dict[str, rw.RankingDataset]):
    if "predict model" in line or "evaluate" in line:
        train()
    Path("folder").mkdir()
    Path("bad.toml").write_text("leafs = 3\n")
    Path("best.toml").write_text('ranker = "lightgbm"\nleaves = 3\n')
    Path("qrels.txt").write_text("q1 0 d1 1\n")
    rw.write_data(data["test"].with_(features=data["test"].features[:, :2], feature_names=None), "narrow.parquet")
    assert sentence in refused(*line.split())


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_the_summary_shows_what_falls_or_rises_with_learning():
    words = ("--rounds", "20", "--leaves", "4", "--min-documents", "5", "--threads", "1")
    learned = run("train", "train.parquet", "--valid", "train.parquet", *words, "-o", "model").stdout
    assert "loss" not in learned  # LambdaRank's rises with the scores
    first = rw.load("model").history_["ndcg@10"][0]
    assert f"({first:.4f} after the first round)" in learned
    compared = run("train", "train.parquet", "--objective", "xendcg", *QUICK, "-o", "other").stdout
    assert "loss" in compared


@pytest.mark.parametrize("command", ["train", "predict", "tune"])
def test_every_command_explains_itself_with_an_example(command: str):
    text = run(command, "--help").stdout
    assert f"\n  rankwise {command} " in text
    assert "[cyan]" not in text


def test_help_costs_no_heavy_import():
    code = "import sys; from rankwise.cli.app import app; app(['tune', '--help'], standalone_mode=False)\n"
    code += "print('loaded', *{name.split('.')[0] for name in sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not set(done.stdout.rsplit("loaded", 1)[1].split()) & {"lightgbm", "polars", "optuna", "torch"}


@pytest.mark.slow
def test_a_real_ctrl_c_while_training(data: dict[str, rw.RankingDataset]):
    words = ["train", "train.parquet", "--valid", "valid.parquet", "-o", "model", "--rounds", "1000000"]
    words += ("--threads", "1", "--patience", "0", "--checkpoint", "kept", "--checkpoint-every", "5")
    # Tests may have been started with SIGINT ignored, as in the background of a shell.
    code = (
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from rankwise.cli import main; main()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, *words], stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_until(lambda: process.poll() is not None or Path("kept").exists())
    os.kill(process.pid, signal.SIGINT)
    _, said = process.communicate(timeout=HANG)
    assert process.returncode == 130, said
    assert b"interrupted after round" in said
    assert b"Traceback" not in said
    assert rw.load("model").stopped_ == "interrupted"
