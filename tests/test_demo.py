"""The demonstration: what it finds, what it writes, and whose files it leaves alone."""

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.demo import baselines, run
from rankwise.demo.result import HEADLINE, Demonstration

FILES = {
    *("results.md", "results.json", "queries.csv", "means.png", "differences.png", "test.parquet"),
    *("best.txt", "linear.txt", "lightgbm.txt"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "results"


@pytest.fixture(scope="module")
def result(folder: Path) -> Demonstration:
    """One small run for all tests that only look."""
    return run.demonstrate(folder, queries=120)


def test_writes_what_it_says(result: Demonstration, folder: Path):
    assert {path.name for path in folder.iterdir()} == FILES | {run.MARK}
    assert set(result.files) == FILES
    for name in ("means.png", "differences.png"):
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "results.md").read_text()
    assert page.startswith(f"# {result.ranked[0]} ranks best\n")
    assert result.conclusion() in page


def test_parts_do_not_share_queries(result: Demonstration):
    ids = [set(np.asarray(part.query_ids).tolist()) for part in result.parts.values()]
    assert [len(one) for one in ids] == [72, 24, 24]
    assert len(set.union(*ids)) == 120


def test_rankers_lie_between_the_limits(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    floor, ceiling = result.floor.mean[HEADLINE], result.ceiling.mean[HEADLINE]
    assert list(means) == [next(iter(means)), "linear regression", "LightGBM lambdarank"]
    assert all(floor < mean < ceiling for mean in means.values())


def test_the_floor_is_the_mean_over_random_orders(result: Demonstration):
    test = result.parts["test"]
    draws = [
        rw.metric(HEADLINE)(np.random.default_rng(seed).random(test.n_docs), test.labels, test.offsets)
        for seed in range(400)
    ]
    means = np.nanmean(draws, axis=1)
    error = means.std() / np.sqrt(len(means))
    assert abs(result.floor.mean[HEADLINE] - means.mean()) < 4 * error


def test_scores_written_give_the_numbers_printed(result: Demonstration, folder: Path):
    test = rw.read_parquet(folder / "test.parquet")
    for file, name in {"linear.txt": "linear regression", "lightgbm.txt": "LightGBM lambdarank"}.items():
        mean = rw.evaluate(np.loadtxt(folder / file), test, HEADLINE).mean[HEADLINE]
        assert mean == pytest.approx(result.comparison.mean[HEADLINE][name], abs=1e-9)
    values = pl.read_csv(folder / "queries.csv").filter(pl.col("ranker") == "linear regression")
    assert values[HEADLINE].mean() == pytest.approx(result.comparison.mean[HEADLINE]["linear regression"])


def test_gain_reads_the_same_from_both_sides(result: Demonstration):
    best, second = result.ranked[:2]
    there, back = result.gain(best, second), result.gain(second, best)
    assert there.difference == pytest.approx(
        result.comparison.mean[HEADLINE][best] - result.comparison.mean[HEADLINE][second]
    )
    assert (back.difference, back.low, back.high) == (-there.difference, -there.high, -there.low)
    assert there.low < there.difference < there.high
    assert there.wins + back.wins <= there.queries == back.queries
    with pytest.raises(KeyError, match="were not compared"):
        result.gain(best, "nobody")


def test_json_holds_everything(result: Demonstration, folder: Path):
    document = json.loads((folder / "results.json").read_text())
    assert document["made_by"] == "rankwise demo"
    assert document["ranked"] == result.ranked
    assert document["queries"] == {"train": 72, "valid": 24, "test": 24}
    assert document["comparison"]["mean"] == result.comparison.mean


def test_the_command_it_proposes_works(result: Demonstration):
    words = run.next_command(result).split()
    assert words[0] == "rankwise"
    done = CliRunner().invoke(app, [*words[1:], "--metrics", HEADLINE, "--json"])
    assert done.exit_code == 0, done.output
    means = json.loads(done.stdout)["mean"][HEADLINE]
    assert means["lightgbm"] == pytest.approx(result.comparison.mean[HEADLINE]["LightGBM lambdarank"], abs=1e-9)


def test_repeats_exactly(result: Demonstration, tmp_path: Path):
    again = run.demonstrate(tmp_path / "again", queries=120)
    assert again.comparison.to_dict() == result.comparison.to_dict()


# Whose files it leaves alone


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUERIES", 40)


@pytest.mark.usefixtures("small")
def test_command_prints_tables_and_says_where_results_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, ["demo"])
    assert first.exit_code == 0, first.output
    for word in ("LightGBM lambdarank", "(random order)", "(best possible)", "ranks best", "results/demo/results.md"):
        assert word in first.stdout
    Path("results/demo/notes.txt").write_text("mine")
    again = CliRunner().invoke(app, ["demo", "--json"])  # its own folder: runs again, and leaves other files alone
    assert again.exit_code == 0, again.output
    assert json.loads(again.stdout)["folder"] == "results/demo"
    assert Path("results/demo/notes.txt").read_text() == "mine"


@pytest.mark.usefixtures("small")
def test_refuses_a_folder_of_others_and_files(tmp_path: Path):
    (tmp_path / "results.md").write_text("mine")
    refused = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])
    assert refused.exit_code == 2
    assert "exists already and was not made by rankwise demo" in refused.stderr
    assert (tmp_path / "results.md").read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["results.md"]
    file = CliRunner().invoke(app, ["demo", "--force", "--output", str(tmp_path / "results.md")])
    assert file.exit_code == 2
    assert (tmp_path / "results.md").read_text() == "mine"
    assert CliRunner().invoke(app, ["demo", "--force", "--output", str(tmp_path)]).exit_code == 0
    assert "ranks best" in (tmp_path / "results.md").read_text()


# The rankers


def column(values: list[float]) -> rw.RankingDataset:
    matrix = np.array([[0.0, value] for value in values])
    return rw.RankingDataset(matrix, [2, 1, 0, 0], [0, 4], feature_names=["nothing", "something"])


def test_best_feature_is_oriented_on_training_data():
    train, other = column([1.0, 2.0, 3.0, np.nan]), column([4.0, 1.0, np.nan, 2.0])
    name, scores = baselines.best_feature(train, other)
    assert name == "-something"
    assert np.argsort(-scores).tolist() == [1, 3, 0, 2]  # the smallest first, the missing last


def test_linear_recovers_a_linear_truth():
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 3)) * [1.0, 100.0, 0.0]
    features[:, 2] = 7.0  # a constant column does no harm
    labels = 5.0 + features[:, 0] - 0.01 * features[:, 1]
    data = rw.RankingDataset.from_sizes(features, labels.clip(0.0), [200, 200])
    scores = baselines.linear(data, data)
    assert np.corrcoef(scores, labels)[0, 1] > 0.999
