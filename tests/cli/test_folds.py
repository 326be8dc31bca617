"""``rankwise cross-validate``, and results of it compared."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.rankers.trees.lightgbm.ranker import LightGBMRanker
from tests.cli.running import refused, run

QUICK = ("--rounds", "4", "--threads", "1", "--leaves", "4")


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rw.RankingDataset:
    """Each test works in a folder of its own that holds data."""
    monkeypatch.chdir(tmp_path)
    found = rw.synthetic(n_queries=30, n_docs=10, seed=1)
    rw.write_data(found, "all.parquet")
    return found


def test_folds_are_trained_and_their_values_written(data: rw.RankingDataset):
    result = run("cross-validate", "all.parquet", "--folds", 3, "-o", "found", *QUICK)
    assert "over 3 folds" in result.stdout
    assert "wrote found" in result.stderr
    ranker = rw.LightGBMRanker(rounds=4, threads=1, leaves=4)
    expected = rw.cross_validate(ranker, data, folds=3, metrics=["ndcg@5", "ndcg@10", "ap", "rr"])
    frame = pl.read_parquet("found/results.parquet")
    assert frame.columns == ["query", "weight", "fold", "ndcg@5", "ndcg@10", "ap", "rr", "digest of labels"]
    np.testing.assert_array_equal(frame["rr"].fill_null(np.nan).to_numpy(), expected["rr"])
    np.testing.assert_array_equal(np.load("found/scores.npy"), expected.scores)
    test = data.take(expected.fold == 2)
    np.testing.assert_array_equal(rw.load("found/fold-2").predict(test), expected.models[1].predict(test))


def test_results_are_compared_by_query_and_evaluated():
    run("cross-validate", "all.parquet", "--folds", 3, "-o", "a", *QUICK)
    run("cross-validate", "all.parquet", "--folds", 3, "-o", "b", "--objective", "xendcg", *QUICK)
    found = json.loads(run("compare", "a", "new=b", "--json").stdout)
    pairs = {one["metric"]: one for one in found["pairs"]}
    assert set(pairs) == {"ndcg@5", "ndcg@10", "ap", "rr"}
    mean = {name: rw.results.read_evaluation(name).mean for name in ("a", "b")}
    assert pairs["ap"]["difference"] == pytest.approx(mean["b"]["ap"] - mean["a"]["ap"])
    only = json.loads(run("compare", "a", "b", "-m", "ap", "--json").stdout)
    assert {one["metric"] for one in only["pairs"]} == {"ap"}
    assert "ndcg@10" in run("evaluate", "a").stdout
    assert "err" in refused("compare", "a", "b", "-m", "err")
    assert "do not go together" in refused("compare", "a", "all.parquet")
    assert "leave --conventions out" in refused("compare", "a", "b", "--conventions", "lightgbm")


def test_a_set_of_ones_own_has_its_own_folds(data: rw.RankingDataset):
    for number, (train, valid, test) in enumerate(rw.folds(data, 3), 1):
        for name, part in (("train", train), ("valid", valid), ("test", test)):
            rw.write_data(part, f"{name}{number}.parquet")
    names = "\n".join(f'{name} = "{name}{{fold}}.parquet"' for name in ("train", "valid", "test"))
    Path("mine.toml").write_text(f'{names}\nfolds = 3\nformat = "parquet"\n')
    run("cross-validate", "mine.toml", "--folds", 3, "-o", "found", *QUICK)
    found = rw.cross_validate(rw.LightGBMRanker(rounds=4, threads=1, leaves=4), folds=list(rw.folds(data, 3)))
    np.testing.assert_array_equal(np.load("found/scores.npy"), found.scores)
    assert "has 3 folds of its own" in refused("cross-validate", "mine.toml", "--folds", 5, "-o", "other", *QUICK)


def test_what_does_not_go_with_folds_is_refused():
    words = ("cross-validate", "all.parquet", "--folds", 3, "-o", "found")
    assert "No such option: --valid" in refused(*words, "--valid", "all.parquet")
    assert "No such option: --fold" in refused(*words, "--fold", 1)
    Path("found").mkdir()
    assert "found exists already" in refused(*words)
    assert "holds no results of folds" in refused(*words, "--force")


def test_finished_folds_are_not_trained_again(monkeypatch: pytest.MonkeyPatch):
    fit, trained = LightGBMRanker.fit, []

    def failing(self: Any, *arguments: Any, **more: Any) -> Any:
        trained.append(1)
        if len(trained) == 2:
            raise KeyboardInterrupt
        return fit(self, *arguments, **more)

    monkeypatch.setattr(LightGBMRanker, "fit", failing)
    words = ("cross-validate", "all.parquet", "--folds", 3, "-o", "found", "--checkpoint", "state", *QUICK)
    stopped = run(*words, code=130)
    assert "interrupted in fold 2 of 3: the folds before it are kept in state. Hint: use --resume" in stopped.stderr
    run(*words, "--resume")
    assert len(trained) == 4
    assert rw.results.read_evaluation("found").query_ids.size == 30


def test_results_are_replaced_with_force_alone():
    run("cross-validate", "all.parquet", "--folds", 3, "-o", "found", *QUICK)
    before = Path("found/results.parquet").read_bytes()
    assert "exists already" in refused("cross-validate", "all.parquet", "--folds", 3, "-o", "found", *QUICK)
    run("cross-validate", "all.parquet", "--folds", 3, "-o", "found", "--objective", "xendcg", "--force", *QUICK)
    assert Path("found/results.parquet").read_bytes() != before
