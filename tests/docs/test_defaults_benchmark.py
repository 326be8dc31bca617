"""The benchmark of default settings: its rules stop where rankers do, and it resumes where it was interrupted."""

import argparse
import importlib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import rankwise as rw
from rankwise.rankers.training.stopping import Stopping


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return importlib.import_module("benchmarks.quality.defaults")


def test_a_rule_keeps_the_round_that_training_under_it_keeps(benchmark: ModuleType):
    train, valid = rw.split(rw.synthetic(n_queries=40, n_docs=15, seed=3), (0.6, 0.4), seed=1)
    settings: dict[str, Any] = {"leaves": 5, "min_documents": 5, "learning_rate": 0.4, "rounds": 60, "threads": 1}
    rules: list[dict[str, Any]] = [{"patience": 5, "smoothing": 1}, {"patience": 8, "smoothing": 4}]
    latest = benchmark.Latest(rounds=60, rules=[Stopping(rounds=60, metrics=("ndcg@10",), **one) for one in rules])
    free: Any = rw.LightGBMRanker("xendcg", smoothing=1, **settings)
    benchmark.train_by(latest, free, train, valid)
    ends = []
    for number, options in enumerate(rules):
        kept = rw.LightGBMRanker("xendcg", **settings, **options).fit(train, valid)
        assert kept.stopped_ == "patience"
        assert latest.kept[number] == kept.best_round_
        ends.append(len(kept.history_["ndcg@10"]))
    assert free.model_.n_trees == max(ends) < 60  # no longer than the last rule needs


def test_it_halves_tests_and_resumes(benchmark: ModuleType, tmp_path: Path, monkeypatch: Any, capsys: Any):
    monkeypatch.setattr(benchmark, "pool_of", lambda _: ThreadPoolExecutor(1))
    trained: list[object] = []
    measure = benchmark.measure

    def counted(job: object) -> object:
        trained.append(job)
        return measure(job)

    monkeypatch.setattr(benchmark, "measure", counted)
    options = argparse.Namespace(
        folder="", sets=["synthetic-30"], libraries=["lightgbm"], objectives=["xendcg"], seeds=[1, 2], keep=2,
        test_seeds=1, rounds=4, processes=1, out=tmp_path / "out.csv",
        candidates=["leaves=4, min_documents=5", "leaves=3, min_documents=5"],
    )  # fmt: skip
    benchmark.tables(benchmark.run(options))
    # Three candidates with one seed; the better two and today's with another; for the test the best and today's.
    assert len(trained) in (3 + 2 + 1, 3 + 2 + 2, 3 + 3 + 2)
    shown = capsys.readouterr().out
    assert "On the queries put aside" in shown
    kept, count = options.out.read_bytes(), len(trained)
    benchmark.run(options)
    assert (options.out.read_bytes(), len(trained)) == (kept, count)
    options.out.write_bytes(kept[:-3])  # cut within its last line
    benchmark.run(options)
    assert len(trained) == count + 1
    benchmark.tables(benchmark.Results(options.out))
    assert capsys.readouterr().out == shown
