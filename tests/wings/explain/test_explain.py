"""Explaining a ranking from the command line: tables, figures, files and what it refuses."""

import json
import re
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import refused, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("explain")
    rng = np.random.default_rng(3)
    features, documents = rng.normal(size=(300, 6)), [f"d{row}" for row in range(300)]
    labels = np.digitize(features[:, 0] + features[:, 1] * features[:, 2], [0.5, 2.0])
    data = rw.RankingDataset.from_sizes(
        features, labels, [10] * 30, query_ids=np.arange(30), document_ids=documents, feature_names=list("abcdef")
    )
    rw.write_data(data, place / "test.parquet")
    rw.LightGBMRanker("softmax_ce", rounds=10, leaves=5, threads=1).fit(data).save(place / "model")
    return place


@pytest.fixture(autouse=True)
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)


@pytest.fixture
def why() -> rw.results.Explanation:
    return rw.explain(rw.load("model"), rw.read_data("test.parquet"), 7)


def explain(*words: object) -> str:
    return run("explain", "model", "test.parquet", "--id", "7", *map(str, words)).stdout


def test_a_query_is_explained_as_in_python(why: rw.results.Explanation):
    shown = explain("--top", "3")
    assert "query 7" in shown
    assert why.table(top=3).text() in shown
    assert why.document(why.documents[4]).table().text() in explain("--show", why.documents[4])
    two = explain("--show", why.documents[4], "-d", why.documents[0])
    assert why.take(why.documents[[0, 4]]).table().text() in two


def test_a_calibrated_model_explains_its_scores_before_calibration(why: rw.results.Explanation, tmp_path: Path):
    other = rw.read_data("test.parquet").with_(query_ids=np.arange(100, 130))
    noisy = other.with_(features=other.features + np.float32(0.01))
    rw.calibrate(rw.load("model"), noisy, "platt").save(tmp_path / "calibrated")
    done = run("explain", tmp_path / "calibrated", "test.parquet", "--id", "7", "--top", "3")
    assert why.table(top=3).text() in done.stdout
    assert "explains the scores before calibration" in done.stderr


def test_documents_without_labels_are_shown_without(why: rw.results.Explanation, tmp_path: Path):
    rows = pl.read_parquet("test.parquet").drop("label")
    rows.write_csv(tmp_path / "rows.csv")
    words = ("explain", "model", tmp_path / "rows.csv", "--id", "7", "--document", "document")
    first, second = why.documents[:2]
    for more in ((), ("--show", first), ("--above", first, "--below", second)):
        picture = tmp_path / f"{len(more)}.svg"
        shown = run(*words, *more, "--plot", picture).stdout
        assert "label" not in shown
        assert "label" not in re.sub(r"<style.*?</style>|<!--.*?-->", "", picture.read_text(), flags=re.DOTALL)
    document = json.loads(run(*words, "--json").stdout)["documents"][0]
    assert (document["document"], document["label"]) == (first, None)
    assert json.loads(run("explain", "model", "test.parquet", "-q", "7", "--json").stdout)["documents"][0][
        "label"
    ] == float(why.labels[0])
    in_python = rw.explain(rw.load("model"), rows, 7)
    assert in_python.to_frame()["label"].null_count() == in_python.to_frame().height
    np.testing.assert_array_equal(in_python.scores, why.scores)


def test_two_documents_against_each_other(why: rw.results.Explanation, tmp_path: Path):
    first, last = why.documents[0], why.documents[-1]
    words = ("--above", first, "--below", last)
    shown = explain(*words, "--plot", tmp_path / "why.svg", "--output", tmp_path / "why.csv")
    assert f"why document {first} (rank 1" in shown
    assert f"ranks above document {last}" in shown
    assert b"<svg" in (tmp_path / "why.svg").read_bytes()
    written = pl.read_csv(tmp_path / "why.csv")
    assert written.columns == ["feature", f"value of {first}", f"value of {last}", "contribution"]
    assert written["contribution"].sum() == pytest.approx(why.scores[0] - why.scores[-1])
    document = json.loads(explain(*words, "--json"))
    assert document["model"] == "model"
    assert document["end"] == {f"score of {first}": why.scores[0]}
    assert len(document["contributions"]) == 6


@pytest.mark.parametrize("ending", ["json", "csv", "md", "tex", "txt"])
def test_every_format_of_a_query(ending: str, why: rw.results.Explanation, tmp_path: Path):
    path = tmp_path / f"why.{ending}"
    explain("-o", path, "--top", "2")
    content = path.read_text(encoding="utf-8")
    if ending == "json":
        assert json.loads(content) == json.loads(json.dumps(why.to_dict()))
    elif ending == "csv":
        assert pl.read_csv(path).height == why.to_frame().height
    else:
        assert "4 other features" in content


def test_what_is_refused(why: rw.results.Explanation, tmp_path: Path):
    assert "there is no such query: got '77'. Hint: the nearest of 30 are '7'" in refused(
        "explain", "model", "test.parquet", "--id", "77"
    )
    assert "one query is explained at a time" in refused("explain", "model", "test.parquet")
    words = ("explain", "model", "test.parquet", "--id", "7")
    assert "--above and --below belong together" in refused(*words, "--above", why.documents[0])
    both = ("--above", why.documents[0], "--below", why.documents[1])
    assert "one thing is shown at a time" in refused(*words, *both, "--show", why.documents[2])
    assert "no such document" in refused(*words, "--show", "nobody")
    (tmp_path / "there.csv").touch()
    assert "there.csv" in refused(*words, "-o", tmp_path / "there.csv")


def test_tables_with_columns_of_other_names(why: rw.results.Explanation, tmp_path: Path):
    table = pl.read_parquet("test.parquet").rename({"qid": "query", "label": "grade"})
    ids = next(name for name in table.columns if table[name].dtype == pl.String)
    table.rename({ids: "url"}).write_csv(tmp_path / "rows.csv")
    words = ("explain", "model", tmp_path / "rows.csv", "--id", "7", "--query", "query")
    named = ("--document", "url", "--show", why.documents[0])
    shown = run(*words, *named, "--label", "grade").stdout
    assert why.document(why.documents[0]).table().text() in shown
    assert f"label {why.labels[0]:g}" in shown
    assert "query 7" in run(*words).stdout  # labels are not needed
