"""--import: objectives, metrics and rankers of the user's own on the command line."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

import rankwise as rw
from rankwise.language import registry
from tests.cli.running import refused, run

MODULE = """
import numpy as np
import rankwise as rw


@rw.register("users_ranker")
class Users(rw.Ranker):
    search_space = {"sign": [1.0, -1.0]}

    def __init__(self, sign=1.0):
        self.sign = sign

    def _fit(self, train, valid):
        self.weights_ = self.sign * train.features.T @ (train.labels - train.labels.mean())

    def _predict(self, features, offsets):
        return features @ self.weights_


@rw.register("users_metric", kind="metric")
def users_metric(scores, labels, offsets):
    return [labels[a:b][np.argmax(scores[a:b])] for a, b in zip(offsets[:-1], offsets[1:])]


@rw.register("users_loss", kind="objective")
def users_loss(scores, labels, offsets):
    gap = scores - labels
    return np.add.reduceat(gap**2, offsets[:-1]), 2 * gap, np.full_like(gap, 2.0)
"""
FILES = ("train.txt", "--valid", "valid.txt")


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder with data and a module, in a process that knows nothing of it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    parts = rw.split(rw.synthetic(n_queries=30, n_docs=10, n_features=6, seed=1), (0.5, 0.5), seed=1)
    for name, part in zip(("train", "valid"), parts, strict=True):
        rw.data.write_letor(part, f"{name}.txt")
    Path("users_module.py").write_text(MODULE, encoding="utf-8")
    yield tmp_path
    sys.modules.pop("users_module", None)


@pytest.mark.parametrize("where", ["first", "last", "equals", "file", "environment"])
def test_a_module_is_named_anywhere_on_the_line(where, here, monkeypatch):
    words = ["train", *FILES, "--ranker", "users_ranker", "--set", "sign=2.0", "-o", "model"]
    if where == "environment":
        monkeypatch.setenv("RANKWISE_IMPORT", "users_module")
    elif where == "equals":
        words.append("--import=users_module")
    elif where == "file":
        monkeypatch.chdir(here.parent)
        words = [word if word not in ("train.txt", "valid.txt", "model") else str(here / word) for word in words]
        words += ["--import", str(here / "users_module.py")]
    else:
        words = ["--import", "users_module", *words] if where == "first" else [*words, "--import", "users_module"]
    assert "users_ranker" in run(*words).stdout
    model: Any = rw.load(here / "model")
    assert (model.name, model.sign) == ("users_ranker", 2.0)


def test_it_is_trained_used_and_searched_like_any_other(here):
    known = ("--import", "users_module")
    said = json.loads(run("train", *FILES, "--ranker", "users_ranker", "-o", "own", "--json", *known).stdout)
    assert (said["ranker"], said["objective"], list(said["metrics"])) == ("users_ranker", "", ["ndcg@10"])
    run("train", *FILES, "--ranker", "bagged(users_ranker, folds=2)", "-o", "bag", "-m", "users_metric", *known)
    run("cross-validate", "train.txt", "--ranker", "users_ranker", "--folds", "2", "-o", "folds", *known)
    words = ("--ranker", "blended(users_ranker, lightgbm(users_loss), folds=2)", "--rounds", "3")
    run("train", *FILES, *words, "-o", "blend", *known)
    loss = ("--objective", "0.5*users_loss + xendcg", "--rounds", "3", "--threads", "1")
    run("train", *FILES, *loss, "-o", "trees", "-m", "users_metric", *known)
    found = run("evaluate", "valid.txt", "own", "-m", "users_metric,ndcg@5", "--json", *known).stdout
    assert "users_metric" in found
    compared = run("compare", "valid.txt", "own=own", "bag=bag", "trees=trees", "blend=blend", *known).stdout
    assert "blend" in compared
    run("tune", *FILES, "--ranker", "users_ranker", "--trials", "2", "-o", "best.toml", *known)
    run("train", *FILES, "--params", "best.toml", "-o", "tuned", *known)
    tuned: Any = rw.load("tuned")
    assert tuned.sign in (1.0, -1.0)
    lines = run("predict", "own", "valid.txt", *known).stdout.splitlines()
    assert [float(line) for line in lines] == rw.load("own").predict(rw.read_letor("valid.txt")).tolist()


def test_experiments_in_files_know_it():
    Path("mine.toml").write_text(
        """
data = ["train.txt"]
trials = 1
metrics = ["users_metric", "ndcg@5"]
decide = "users_metric"
[methods]
own = "users_ranker(sign=2.0)"
trees = "lightgbm(users_loss, rounds=3)"
""",
        encoding="utf-8",
    )
    words = ("reproduce", "mine.toml", "--jobs", "1", "-o", "results", "--no-progress")
    assert "users_metric" in run(*words, "--import", "users_module").stdout
    assert rw.lab.Results.read("results").methods == ["own", "trees"]


def test_what_is_unknown_says_how_to_name_its_module(monkeypatch):
    run("train", *FILES, "--ranker", "users_ranker", "-o", "own", "--import", "users_module")
    monkeypatch.setattr(registry, "_entries", {})
    for words in (
        ("train", *FILES, "--ranker", "users_ranker", "-o", "x"),
        ("train", *FILES, "--objective", "users_loss", "-o", "x"),
        ("train", *FILES, "-m", "users_metric", "-o", "x"),
        ("predict", "own", "valid.txt"),
        ("evaluate", "valid.txt", "own"),
    ):
        said = refused(*words)
        assert "--import MODULE" in said
        assert "rw.register" not in said


def test_objectives_lists_it():
    listed = json.loads(run("objectives", "--json", "--import", "users_module").stdout)
    assert listed[-1]["name"] == "users_loss"
    assert "users_loss" in run("objectives", "--import", "users_module").stdout


def test_a_module_that_cannot_be_imported_is_named():
    assert "cannot import no_such_module: ModuleNotFoundError" in refused("objectives", "--import", "no_such_module")
    Path("broken_module.py").write_text("1 / 0\n", encoding="utf-8")
    assert "cannot import broken_module.py: ZeroDivisionError" in refused("objectives", "--import", "broken_module.py")
