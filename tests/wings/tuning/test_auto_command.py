"""The command ``auto``: what it prints and writes, and what it refuses before any work begins."""

import io
import json
import re

import numpy as np
import pytest

import rankwise as rw
from rankwise.cli import console
from rankwise.wings.tuning.auto import portfolio
from rankwise.wings.tuning.auto.leaderboard import Entry, Leaderboard
from rankwise.wings.tuning.auto.search import Search
from tests.cli.running import refused, run


@pytest.fixture(autouse=True)
def small_recipes(monkeypatch):
    recipes = [rw.LightGBMRanker(loss, rounds=4, leaves=4, min_documents=3) for loss in ("xendcg", "lambdarank")]
    monkeypatch.setattr(portfolio, "portfolio", lambda n_docs: (recipes, ["no recipes of other libraries"]))


@pytest.fixture
def train(tmp_path):
    data = rw.synthetic(n_queries=30, n_docs=8, n_features=5, seed=3)
    rw.data.write_letor(data, tmp_path / "train.txt")
    return tmp_path / "train.txt"


@pytest.mark.filterwarnings("default")
def test_search_prints_a_leaderboard_and_writes_a_model(train, tmp_path):
    words = ("auto", train, "--minutes", "inf", "--folds", 2, "--threads", 1, "--checkpoint", tmp_path / "search")
    page = tmp_path / "page.html"
    result = run(*words, "-o", tmp_path / "model", "--test", train, "--report", page)
    assert result.stderr.startswith(
        "5 features without names\nwarning: 30 of 30 queries of test have the features of training queries. "
    )
    printed = result.stdout
    assert "was taken, of 2 recipes</h1>" in page.read_text(encoding="utf-8")
    assert "→  " in printed
    assert "no recipes of other libraries" in printed
    assert f"On {train}" in printed
    document = json.loads(run(*words, "-o", tmp_path / "again", "--json").stdout)
    assert document["stopped"] == "recipes"
    assert {one["state"] for one in document["recipes"]} == {"complete"}
    data = rw.read_letor(train)
    scores = [rw.load(tmp_path / name).predict(data) for name in ("model", "again")]
    assert np.array_equal(scores[0], scores[1])


def test_interruption_keeps_the_best(train, tmp_path, monkeypatch):
    def stop(model, *parts):
        model.set_params(recipes=portfolio.portfolio(0)[0], threads=1, max_recipes=1)
        model.usual(*parts)
        model.stopped_ = "interrupted"
        return model

    monkeypatch.setattr(rw.AutoRanker, "usual", rw.AutoRanker.fit, raising=False)
    monkeypatch.setattr(rw.AutoRanker, "fit", stop)
    run("auto", train, "--minutes", "inf", "-o", tmp_path / "model", code=130)
    assert rw.load(tmp_path / "model").name == "bagged"


def test_the_same_command_goes_on_with_a_search_that_was_interrupted(train, tmp_path, monkeypatch):
    settings = ("--minutes", "inf", "--folds", 2, "--threads", 1, "--checkpoint", tmp_path / "search")
    words = ("auto", train, *settings, "-o", tmp_path / "model")
    with monkeypatch.context() as patch:
        patch.setattr(Search, "usual", Search.run, raising=False)
        patch.setattr(Search, "run", lambda search: (search.usual(), "interrupted")[1])
        run(*words, code=130)
    assert "recipe" in run(*words).stdout
    assert "exists already and is kept" in refused(*words)  # the search is complete


def test_refusals(train, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear", encoding="utf-8")
    words = ("auto", train, "-o", tmp_path / "model")
    assert "not the folder of a search" in refused(*words, "--checkpoint", tmp_path / "mine")
    assert "folder of its own" in refused(*words, "--checkpoint", tmp_path / "model")
    assert "exists already" in refused("auto", train, "-o", tmp_path / "mine")
    assert "ndcg" in refused(*words, "--metric", "ndgc")
    assert "end it with .html" in refused(*words, "--report", tmp_path / "page.txt")
    assert "minutes" in refused(*words, "--minutes", "-1")
    assert "--minutes must be a number in (0, inf): got 0" in refused(*words, "--minutes", 0)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("columns", "intervals"), [(80, False), (150, True)])
def test_a_leaderboard_fits_the_terminal(columns, intervals, monkeypatch):
    name = "lightgbm(stochastic(lambdarank, scale=0.25))"
    entries = [
        Entry(recipe=name, state="complete", rounds=3, mean=0.5, low=0.4, high=0.6, difference=0.0, chosen=True),
        Entry(
            recipe="b", state="complete", rounds=3, mean=0.45, low=0.4, high=0.5, gain=-0.05, difference=-0.05, p=0.01
        ),
    ]
    board = Leaderboard(metric="ndcg@10", entries=tuple(entries), stopped="recipes", seconds=9.0, queries=5)
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    console.table(board.table(), narrow=board.brief())
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in terminal.getvalue().splitlines()]
    assert max(map(len, lines)) <= columns
    row = next(line for line in lines if name in line)
    assert "0.5000" in row
    assert ("[0.4000, 0.6000]" in row) == intervals
    assert "−0.0500" in next(line for line in lines if " b " in line)
