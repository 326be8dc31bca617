"""The numbers on the page about fair exposure are those of the measurements that are kept."""

import importlib
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import rankwise as rw

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "docs" / "results" / "trials" / "fairness.csv"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    return importlib.import_module("benchmarks.quality.fairness")


@pytest.mark.skipif(not KEPT.is_file(), reason="the measurements are not part of this copy")
def test_the_table_of_the_page_is_that_of_the_measurements(benchmark: ModuleType):
    page = (ROOT / "docs" / "benchmarks" / "fairness.md").read_text(encoding="utf-8")
    assert benchmark.filled(page, benchmark.read(KEPT)) == page


def test_drawn_groups_are_as_relevant_as_others_and_look_worse(benchmark: ModuleType):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 6000)
    features = np.zeros((6000, 46))
    features[:, benchmark.FEATURE] = labels + rng.normal(size=6000)
    data = benchmark.grouped(rw.RankingDataset.from_sizes(features, labels, [20] * 300), seed=1)
    protected = data.groups == "protected"
    assert abs(labels[protected].mean() - labels[~protected].mean()) < 0.05
    looks = features[:, benchmark.FEATURE]
    for label in range(3):
        assert looks[protected & (labels == label)].mean() < looks[~protected & (labels == label)].mean() - 0.5


def test_a_small_run_gives_a_table_and_a_figure(benchmark: ModuleType, tmp_path: Path):
    rng = np.random.default_rng(1)
    lines = [",".join(map(str, (*job, *rng.uniform(size=len(benchmark.MEASURES))))) for job in benchmark.jobs(2)]
    (tmp_path / "kept.csv").write_text("\n".join(lines))
    found = benchmark.read(tmp_path / "kept.csv")
    assert len(found) == 2 * (2 * len(benchmark.WEIGHTS) + 1 + len(benchmark.FACTORS))
    text = benchmark.filled("a <!-- fairness:begin --> b <!-- fairness:end --> c", found)
    assert text.count("\n") == len(found) + 5
    benchmark.draw(found, tmp_path / "figure.svg")
    assert (tmp_path / "figure.svg").stat().st_size > 1000
