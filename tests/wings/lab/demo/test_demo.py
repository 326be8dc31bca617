"""The demonstration: what it finds, what it writes, and whose files it leaves alone."""

import json
import shutil
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.statistics.verdict import gain
from rankwise.wings.lab.demo import run
from rankwise.wings.lab.demo.run import HEADLINE, OBJECTIVES, Demonstration
from rankwise.wings.lab.report import write
from tests import tiers

PICTURES = ("means.png", "curves.png", "differences.png")
AUTO = "auto"
MODELS = ("listnet", "lambdarank", "xendcg", "e_lambdarank", "plrank", "lightgbm_lambdarank", "lightgbm_rank_xendcg")
FILES = {
    *(
        "report.html",
        "report-files",
        "results.md",
        "results.json",
        "queries.csv",
        "train.parquet",
        "valid.parquet",
        "test.parquet",
    ),
    *("best_feature.txt", "linear_regression.txt"),
    *PICTURES,
}
MINUTES = 1e-3  # a search that has a ranker after one round
TRAINED = {
    "ListNet": "listnet",
    "LambdaRank": "lambdarank",
    "XE-NDCG": "xendcg",
    "PL-Rank": "plrank",
    "E[LambdaRank]": "stochastic(lambdarank, samples=8, scale=0.25)",
    "LightGBM lambdarank": "native:lambdarank",
    "LightGBM rank_xendcg": "native:rank_xendcg",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "results"


@pytest.fixture(scope="module")
def result(folder: Path) -> Demonstration:
    """One small run for all tests that only look."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(run.SEARCH, "minutes", MINUTES)
        return run.demonstrate(folder, queries=120)


def test_writes_what_it_says(result: Demonstration, folder: Path):
    """Slow: the demonstration trains all that it shows."""
    assert {path.name for path in folder.iterdir()} == FILES | {run.MARK, "models"}
    assert {path.name for path in (folder / "models").iterdir()} == {*MODELS, AUTO}
    assert set(result.files) == FILES | {f"models/{name}" for name in (*MODELS, AUTO)}
    for name in PICTURES:
        assert (folder / name).read_bytes().startswith(b"\x89PNG")
    page = (folder / "results.md").read_text()
    assert page.startswith(f"# {result.verdict.headline()}\n")
    assert result.conclusion() in page
    report = (folder / "report.html").read_text()
    assert f"<h1>{result.verdict.headline()}</h1>" in report
    assert f'<p class="claim">{result.introduction()}</p>' in report
    assert f"{result.comparison.mean[HEADLINE][result.verdict.ranked[0]]:.4f}" in report
    assert 'id="explorer-index"' in report


def test_the_search_is_shown(result: Demonstration, folder: Path):
    taken = result.leaderboard.chosen
    assert taken.recipe in (folder / "results.md").read_text()
    page = (folder / "report.html").read_text()
    assert "Recipes, the best first" in page
    assert taken.recipe in page
    test = rw.read_parquet(folder / "test.parquet")
    mean = rw.evaluate(rw.load(folder / "models" / AUTO), test, HEADLINE).mean[HEADLINE]
    assert mean == pytest.approx(result.tested.mean[HEADLINE], abs=1e-12)
    assert f"{mean:.4f}" in result.search()[1]
    assert json.loads((folder / "results.json").read_text())["search"]["chosen"] == taken.recipe
    assert AUTO not in "".join(result.verdict.ranked).lower()  # by the clock, and so no part of what repeats


def test_with_the_core_alone_the_search_takes_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, small: None, result: Demonstration
):
    """``result`` comes first: SciPy asks once, and then no more, whether an array is one of torch's."""
    for name in ("xgboost", "catboost", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    leaderboard = run.demonstrate(tmp_path / "demo").leaderboard
    assert {entry.recipe.partition("(")[0] for entry in leaderboard.entries} == {"lightgbm"}
    left_out = [note for note in leaderboard.notes if "not installed" in note]
    assert len(left_out) == 1
    assert "pip install 'rankwise[catboost,torch,xgboost]'" in left_out[0]


def test_parts_do_not_share_queries(result: Demonstration):
    ids = [set(np.asarray(part.query_ids).tolist()) for part in result.parts.values()]
    assert [len(one) for one in ids] == [72, 24, 24]
    assert len(set.union(*ids)) == 120


def test_rankers_lie_between_the_limits(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    floor, ceiling = (one.mean[HEADLINE] for one in result.limits.values())
    *others, line, feature = means
    assert set(others) == set(TRAINED)
    assert (line, feature.partition(" (")[0]) == ("linear regression", "best feature")
    assert all(floor < mean < ceiling for mean in means.values())


def test_trees_beat_a_line_and_a_line_beats_a_feature(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    *_, line, feature = means
    assert max(means[name] for name in TRAINED) > means[line] > means[feature]


def test_curves_are_those_of_the_models(result: Demonstration, folder: Path):
    for name, file in zip(OBJECTIVES, MODELS, strict=True):
        model = rw.load(folder / "models" / file)
        assert model.objective == TRAINED[name]
        assert model.history_[HEADLINE] == result.curves[name]
        assert model.best_round_ == int(np.argmax(result.curves[name])) + 1
        assert model.score(result.parts["valid"]) == pytest.approx(max(result.curves[name]))


def test_conclusion_does_not_claim_more_than_the_tests_show(result: Demonstration):
    best, *others = result.verdict.ranked
    close = result.verdict.close
    assert [name for name in others if gain(result.comparison, HEADLINE, best, name).p >= 0.05] == close
    assert close  # so few queries cannot tell them all apart
    assert "the lead could be chance" in result.conclusion()
    assert others[-1] in result.conclusion().partition("That is more than chance: ")[2]


def test_letters_are_those_of_the_report(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    assert list(result.comparison.systems) == result.verdict.ranked == sorted(means, key=lambda name: -means[name])


def test_the_floor_is_the_mean_over_random_orders(result: Demonstration):
    test = result.parts["test"]
    draws = [
        rw.metric(HEADLINE)(np.random.default_rng(seed).random(test.n_docs), test.labels, test.offsets)
        for seed in range(400)
    ]
    means = np.nanmean(draws, axis=1)
    error = means.std() / np.sqrt(len(means))
    assert abs(result.limits["random order"].mean[HEADLINE] - means.mean()) < 4 * error


def test_scores_written_give_the_numbers_printed(result: Demonstration, folder: Path):
    test = rw.read_parquet(folder / "test.parquet")
    mean = rw.evaluate(np.loadtxt(folder / "linear_regression.txt"), test, HEADLINE).mean[HEADLINE]
    assert mean == pytest.approx(result.comparison.mean[HEADLINE]["linear regression"], abs=1e-9)
    mean = rw.evaluate(rw.load(folder / "models" / "plrank"), test, HEADLINE).mean[HEADLINE]
    assert mean == pytest.approx(result.comparison.mean[HEADLINE]["PL-Rank"], abs=1e-12)
    values = pl.read_csv(folder / "queries.csv").filter(pl.col("ranker") == "linear regression")
    assert values[HEADLINE].mean() == pytest.approx(result.comparison.mean[HEADLINE]["linear regression"])


def test_gain_reads_the_same_from_both_sides(result: Demonstration):
    best, second = result.verdict.ranked[:2]
    there, back = (gain(result.comparison, HEADLINE, *pair) for pair in ((best, second), (second, best)))
    assert there.difference == pytest.approx(
        result.comparison.mean[HEADLINE][best] - result.comparison.mean[HEADLINE][second]
    )
    assert (back.difference, back.low, back.high) == (-there.difference, -there.high, -there.low)
    assert there.low <= there.difference <= there.high
    assert there.wins + back.wins <= there.units == back.units
    with pytest.raises(KeyError, match="were not compared"):
        gain(result.comparison, HEADLINE, best, "nobody")


def test_json_holds_everything(result: Demonstration, folder: Path):
    document = json.loads((folder / "results.json").read_text())
    assert document["made_by"] == "rankwise demo"
    assert document["ranked"] == result.verdict.ranked
    assert document["queries"] == {"train": 72, "valid": 24, "test": 24}
    assert document["comparison"]["mean"] == result.comparison.mean


def test_the_commands_it_proposes_work(result: Demonstration):
    compare, explain, train, auto = (command.split() for command in result.next_commands())
    assert compare[0] == explain[0] == train[0] == "rankwise"
    done = CliRunner().invoke(app, [*compare[1:], "--metrics", HEADLINE, "--json"])
    assert done.exit_code == 0, done.output
    means = json.loads(done.stdout)["mean"][HEADLINE]
    best, second = result.verdict.ranked[:2]
    assert list(means.values()) == pytest.approx([result.comparison.mean[HEADLINE][name] for name in (second, best)])
    done = CliRunner().invoke(app, [*explain[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["query"] == result.parts["test"].qids()[0]
    done = CliRunner().invoke(app, [*train[1:], "--rounds", "2", "--threads", "1", "--json"])
    assert done.exit_code == 0, done.output
    shutil.rmtree(result.folder / "models" / "mine")
    done = CliRunner().invoke(app, [*auto[1:], "--minutes", f"{MINUTES}", "--json"])
    assert done.exit_code == 0, done.output
    shutil.rmtree(result.folder / "models" / "longer")


@tiers.only_all
def test_repeats_exactly(result: Demonstration, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(run.SEARCH, "minutes", MINUTES)
    again = run.demonstrate(tmp_path / "again", queries=120)
    assert again.comparison.to_dict() == result.comparison.to_dict()


# Whose files it leaves alone


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "QUERIES", 40)
    monkeypatch.setitem(run.SETTINGS, "rounds", 3)
    monkeypatch.setitem(run.SETTINGS, "min_documents", 10)
    monkeypatch.setitem(run.SEARCH, "minutes", MINUTES)
    monkeypatch.setattr(write, "write_report", lambda *given, **options: None)  # figures take longer than all the rest


@pytest.mark.usefixtures("small")
def test_command_prints_tables_and_says_where_results_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    first = CliRunner().invoke(app, ["demo"])
    assert first.exit_code == 0, first.output
    for word in (
        "LightGBM lambdarank",
        "(random order)",
        "(best possible)",
        "of the way from",
        "results/demo/results.md",
        "Taken: lightgbm(",
        "rankwise auto DATA",
    ):
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
    assert "of the way from" in (tmp_path / "results.md").read_text()


# The baselines


def test_a_line_recovers_a_linear_truth_and_the_best_feature_is_oriented():
    random = np.random.default_rng(0)
    features = random.normal(size=(400, 3)) * [1.0, 100.0, 0.0]
    features[:, 2] = 7.0  # a constant column does no harm
    labels = 5.0 + features[:, 0] - 0.03 * features[:, 1]
    features[0, 0] = np.nan
    names = ["clicks", "price", "constant"]
    data = rw.RankingDataset(features, labels.clip(0.0), [0, 200, 400], feature_names=names)
    line, feature = run._baselines(data, data).items()
    assert line[0] == "linear regression"
    assert np.corrcoef(line[1][1:], labels[1:])[0, 1] > 0.999
    assert feature[0] == "best feature (-price)"
    assert np.corrcoef(feature[1], features[:, 1])[0, 1] == pytest.approx(-1.0)
