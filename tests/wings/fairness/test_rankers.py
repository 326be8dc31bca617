"""Rankers that learn fair exposure, trees and nets: the disparity falls with its weight, and models save and load."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.data.frames import to_frame
from rankwise.wings.fairness.exposure import group_shares
from tests.cli.running import refused, run
from tests.refusals import refusal

RANKERS: dict[str, dict[str, Any]] = {
    "LightGBMRanker": {"rounds": 60, "leaves": 8, "min_documents": 5, "learning_rate": 0.3},
    "XGBoostRanker": {"rounds": 60, "leaves": 8, "min_documents": 5, "learning_rate": 0.3},
    "CatBoostRanker": {"rounds": 40, "leaves": 8, "learning_rate": 0.3},
    "NeuralRanker": {"epochs": 40, "hidden": (8,), "learning_rate": 0.05, "transform": "raw"},
}


@pytest.fixture(scope="module")
def data() -> rw.RankingDataset:
    """Documents of group b have a feature that counts against them, at equal relevance."""
    rng = np.random.default_rng(0)
    groups, labels = rng.integers(0, 2, 600), rng.integers(0, 3, 600).astype(float)
    evidence = labels + rng.normal(scale=0.7, size=600) - 1.5 * groups
    features = np.column_stack((evidence, groups + rng.normal(scale=0.2, size=600), rng.normal(size=600)))
    names = np.where(groups == 1, "b", "a")
    return rw.RankingDataset.from_sizes(features, labels, [12] * 50, groups=names, query_ids=np.arange(50))


def fitted(name: str, objective: str, data: rw.RankingDataset) -> Any:
    return getattr(rw, name)(objective, threads=1, **RANKERS[name]).fit(data)


def unfairness(model: Any, data: rw.RankingDataset, merit: str) -> float:
    exposure = rw.evaluate(model, data, policy="plackett_luce", samples=400).exposure
    shares = group_shares(data.groups, data.labels, data.offsets, merit)  # type: ignore[arg-type]
    return float(np.nanmean(shares.disparity(shares.deviations(exposure) ** 2)))


@pytest.mark.parametrize("merit", ["equal", "proportional"])
@pytest.mark.parametrize("name", RANKERS)
def test_disparity_falls_with_its_weight(name: str, merit: str, data: rw.RankingDataset):
    found = [
        unfairness(fitted(name, f"fair(plrank(samples=30), weight={weight}, merit={merit})", data), data, merit)
        for weight in (0.0, 5.0, 20.0)
    ]
    # Ranks are worth too much alike for exposure in proportion to merit: its disparity cannot go to 0.
    assert found[1] < 0.9 * found[0]
    assert found[2] < (0.5 if merit == "equal" else 0.9) * found[0]


@pytest.mark.parametrize("name", ["LightGBMRanker", "NeuralRanker"])
def test_a_weight_of_0_is_plain_plrank(name: str, data: rw.RankingDataset):
    models = [fitted(name, text, data) for text in ("fair(plrank(samples=10), weight=0.0)", "plrank(samples=10)")]
    np.testing.assert_array_equal(*(model.predict(data) for model in models))


def test_models_save_and_load_and_need_no_groups_to_predict(data: rw.RankingDataset, tmp_path: Path):
    model = fitted("LightGBMRanker", "fair(plrank(samples=10), merit=proportional)", data)
    model.save(tmp_path / "model")
    again = rw.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(data.with_(groups=None)), model.predict(data))
    assert repr(rw.objective(again.objective)) == "fair(plrank(samples=10), merit=proportional)"


def test_data_without_groups_are_refused_with_a_hint(data: rw.RankingDataset, tmp_path: Path):
    for name in ("LightGBMRanker", "NeuralRanker"):
        with refusal(what="fair needs the group of every document", hint="set groups=…"):
            fitted(name, "fair(plrank)", data.with_(groups=None))
    rw.data.write_parquet(data.with_(groups=None), tmp_path / "train.parquet")
    message = refused("train", tmp_path / "train.parquet", "--objective", "fair(plrank)", "-o", tmp_path / "model")
    assert "fair needs the group of every document" in message
    assert "--groups" in message


def test_the_command_line_trains_with_a_column_of_groups(data: rw.RankingDataset, tmp_path: Path):
    to_frame(data).write_csv(tmp_path / "train.csv")
    words = ["--objective", "fair(plrank(cutoff=10, samples=10), weight=2.0)", "--rounds", 3, "--groups", "group"]
    run("train", tmp_path / "train.csv", *words, "-o", tmp_path / "model")
    model = rw.load(tmp_path / "model")
    assert model.predict(data.with_(feature_names=("f1", "f2", "f3"))).shape == (600,)
