"""The demonstration: what it finds, what it writes, and whose files it leaves alone."""

import json
import re
import shlex
from pathlib import Path
from typing import Any

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
QUICK = "lightgbm({}, rounds=40, learning_rate=0.2, leaves=15, patience=20, threads=1, progress=False)"


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
    assert result.why.partition("\n")[0] in report
    document = json.loads((folder / "results.json").read_text())
    assert document["comparison"]["mean"] == result.comparison.mean
    assert document["data"].startswith(repr(rw.text.numpy_scipy()))


def test_every_learned_ranker_is_ahead_of_every_bm25(result: Demonstration):
    means = result.comparison.mean[HEADLINE]
    assert list(means) == [*BASELINES, *RANKERS]
    assert min(means[name] for name in RANKERS) > max(means[name] for name in BASELINES) + 0.05
    for row in result.table().rows[len(BASELINES) :]:
        assert getattr(row[2], "marks", "").startswith("abc")
    assert result.sentence.startswith("Every learned ranker is ahead")


def test_claims_no_more_than_the_tests_show(result: Demonstration, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(run, "gain", lambda comparison, metric, one, other: Gain(one == BAG))
    assert result.sentence.startswith("In 3 of 15 pairs")


class Gain:
    """A gain whose test says no, or whose interval ends below."""

    def __init__(self, ahead: bool) -> None:
        self.p, self.low = (0.01, 0.1) if ahead else (0.01, -0.1)


def test_models_and_files_give_the_numbers_printed(result: Demonstration, folder: Path):
    test = rw.read_parquet(folder / "test.parquet")
    models = {name: rw.load(folder / "models" / name.replace(" ", "_")) for name in RANKERS}
    for name, model in models.items():
        assert rw.evaluate(model, test, METRICS).mean == pytest.approx(
            {metric: result.comparison.mean[metric][name] for metric in METRICS}, abs=1e-12
        )


def test_parts_do_not_share_queries(result: Demonstration):
    ids = [{*part.qids().tolist()} for part in result.parts.values()]
    assert len(set.union(*ids)) == sum(map(len, ids))
    assert result.query in ids[2]


def test_a_listed_page_is_explained_beside_one_that_bm25_prefers(result: Demonstration):
    docs = rw.text.numpy_scipy()
    words = re.fullmatch(
        r"For (\S+) its authors listed (\S+) and not (\S+); BM25 has them at ranks (\S+) and (\S+)\.\n"
        r"\2 is at rank (\d+) and \3 at (\d+): its score is .*\n(?:[+−]0?\S+  \w+.*\n)+[+−]\S+  all else",
        result.why,
    )
    assert words is not None
    assert words[1] == result.query == "numpy.median"
    assert words[2] in docs.qrels[words[1]]
    assert words[3] not in docs.qrels[words[1]]
    assert int(words[6]) < int(words[7])


def test_the_commands_it_proposes_work(result: Demonstration):
    search, serve, explain = map(shlex.split, result.next_commands())
    assert serve == ["rankwise", "serve", *search[3:4]]
    done = CliRunner().invoke(app, [*search[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert "numpy.nanmedian" in [one["document"] for one in json.loads(done.stdout)["documents"]]
    done = CliRunner().invoke(app, [*explain[1:], "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["query"] == result.query


# Whose files it leaves alone


def test_command_prints_tables_and_says_where_results_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, result: Any):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(run, "demonstrate", lambda *given, **options: result)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == 0, done.output
    for word in (*RANKERS, *BASELINES, "See Also", "its authors listed", "results/demo/report.html", "rankwise serve "):
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
