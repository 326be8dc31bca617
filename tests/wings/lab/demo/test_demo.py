"""The demonstration: what it finds, what it writes, and whose files it leaves alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import rankwise as rw
from rankwise.cli.app import app
from rankwise.wings.lab.demo import run
from rankwise.wings.lab.demo.run import BAG, BASELINES, HEADLINE, METRICS, RANKERS, Demonstration

FILES = {
    "report.html",
    "search",
    "models",
    "train.parquet",
    "valid.parquet",
    "test.parquet",
    "means.png",
    "results.json",
}
QUICK = "lightgbm({}, rounds=20, learning_rate=0.3, leaves=7, patience=20, threads=1, progress=False)"


@pytest.fixture(autouse=True, scope="module")
def small():
    """The same rankers, of fewer trees."""
    with pytest.MonkeyPatch.context() as patch:
        for name in RANKERS:
            lambdarank = QUICK.format("lambdarank")
            patch.setitem(run.RANKERS, name, f"bagged({lambdarank}, folds=2)" if name == BAG else QUICK.format(name))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "new" / "results"


@pytest.fixture(scope="module")
def result(small: None, folder: Path) -> Demonstration:
    """One small run for all tests that only look."""
    steps: list[str] = []
    made = run.demonstrate(folder, progress=steps.append)
    assert len(steps) == run.STEPS
    return made


def test_writes_what_it_says(result: Demonstration, folder: Path):
    """Slow: the demonstration trains all that it shows."""
    assert {path.name for path in folder.iterdir()} == FILES | {run.MARK}
    assert {path.name for path in (folder / "models").iterdir()} == {name.replace(" ", "_") for name in RANKERS}
    assert (folder / "means.png").read_bytes().startswith(b"\x89PNG")
    report = (folder / "report.html").read_text()
    assert 'id="explorer-index"' in report
    assert "numpy 2" in report
    assert result.pair in report
    document = json.loads((folder / "results.json").read_text())
    assert document["comparison"]["mean"] == result.comparison.mean
    assert document["data"].startswith(repr(rw.text.numpy_scipy()))


def test_every_learned_ranker_is_ahead_of_every_bm25(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    assert list(means) == [*BASELINES, *RANKERS]
    assert min(means[name] for name in RANKERS) > max(means[name] for name in BASELINES) + 0.05
    for row in result.table().rows[len(BASELINES) :]:
        assert all(getattr(cell, "marks", "").startswith("ab") for cell in row[2:])
    assert result.sentence.startswith("Every learned ranker is ahead")


def test_claims_no_more_than_the_tests_show(result: Demonstration, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "gain", lambda comparison, metric, one, other: Gain(one == BAG))
    assert result.sentence.startswith("In 2 of 10 pairs")


class Gain:
    """A gain whose test says no, or whose interval ends below."""

    def __init__(self, ahead: bool) -> None:
        self.p, self.low = (0.01, 0.1) if ahead else (0.01, -0.1)


def test_models_files_and_search_give_the_numbers_printed(result: Demonstration, folder: Path):
    test = rw.read_parquet(folder / "test.parquet")
    models = {name: rw.load(folder / "models" / name.replace(" ", "_")) for name in RANKERS}
    for name, model in models.items():
        assert rw.evaluate(model, test, METRICS).mean == pytest.approx(
            {metric: result.comparison.mean[metric][name] for metric in METRICS}, abs=1e-12
        )
    search = rw.text.Search.load(folder / "search")
    assert "numpy.nanmedian" in search("median ignoring nan", k=10).to_frame()["document"].to_list()


def test_parts_do_not_share_queries(result: Demonstration):
    ids = [{*part.query_ids.tolist()} for part in result.parts.values()]
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert result.query in ids[2]


def test_the_explanation_is_of_a_pair_that_the_bag_turned_round(result: Demonstration):
    test, (above, below) = result.parts["test"], (result.why.end_name[9:], result.why.start_name[9:])
    one = test.take([test.query_ids.tolist().index(result.query)])
    assert one.document_ids is not None
    first, second = (int(np.flatnonzero(one.document_ids == name)[0]) for name in (above, below))
    assert (one.labels[first], one.labels[second]) == (1, 0)
    assert result.why.start < result.why.end
    assert result.why.contributions.sum() == pytest.approx(result.why.end - result.why.start)
    assert {"module", "summary", "all fields"} <= {*result.why.features}
    assert f"whose authors listed {above} and not {below}" in result.pair


def test_a_query_of_the_test_part_is_explained(result: Demonstration, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "EXPLAINED", ("none.of.them",))
    test = result.parts["test"]
    model: Any = rw.load(result.folder / "models" / BAG.replace(" ", "_"))
    scores = {BAG: model.predict(test), "BM25 of all fields": -model.predict(test)}
    assert run.explained(model, test, scores)[0] == test.query_ids.tolist()[0]


def test_the_commands_it_proposes_work(result: Demonstration, tmp_path: Path):
    serve, explain, auto = (command.split() for command in result.next_commands())
    assert serve[:2] == ["rankwise", "serve"]
    done = CliRunner().invoke(app, [*explain[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["query"] == result.query
    done = CliRunner().invoke(app, [*auto[1:-1], str(tmp_path / "auto"), "--minutes", "0.001", "--json"])
    assert done.exit_code == 0, done.output


# Whose files it leaves alone


def test_command_prints_tables_and_says_where_results_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Any):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "demonstrate", lambda *given, **options: result)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0, done.output
    for word in (*RANKERS, *BASELINES, "See Also", "module", "results/demo/report.html", "rankwise serve "):
        assert word in done.stdout
    again = CliRunner().invoke(app, ["demo", "--json"])
    assert json.loads(again.stdout) == json.loads(result.to_json())


def test_refuses_a_folder_of_others_and_files(tmp_path: Path):
    mine = tmp_path / "report.html"
    mine.write_text("mine")
    refused = CliRunner().invoke(app, ["demo", "--output", str(tmp_path)])
    assert refused.exit_code == 2
    assert "exists already and was not made by rankwise demo" in refused.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
    file = CliRunner().invoke(app, ["demo", "--force", "--output", str(mine)])
    assert file.exit_code == 2
    assert mine.read_text() == "mine"
    assert run._prepare(tmp_path, force=True) == tmp_path
    assert run._prepare(tmp_path, force=False) == tmp_path  # its own by now
    assert mine.read_text() == "mine"
