"""The command that examines data: what it prints, draws, and ends with."""

import json
from pathlib import Path

import pytest

import rankwise as rw
from tests.cli.running import refused, run


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder: Path = tmp_path_factory.mktemp("check")
    train, test = rw.split(rw.synthetic(n_queries=90, n_docs=8, seed=5), (0.7, 0.3), seed=1)
    rw.data.write_letor(train, folder / "train.txt")
    rw.data.write_letor(test, folder / "test.txt")
    rw.data.write_letor(train.with_(labels=train.labels + 1), folder / "positive.txt")
    (folder / "set.toml").write_text('train = "train.txt"\ntest = "test.txt"\n')
    return folder


def test_data_without_faults_end_with_0(folder):
    page = run("data", "check", folder / "train.txt", "--test", folder / "test.txt", "--strict").stdout
    assert "· train: Random order has NDCG@10 " in page
    assert "cannot tell differences in NDCG@10 below" in page
    assert run("data", "check", folder / "set.toml").stdout == page


def test_errors_end_with_3_and_warnings_where_that_is_asked_for(folder):
    result = run("data", "check", folder / "train.txt", "--valid", folder / "train.txt", "--json", code=3)
    document = json.loads(result.stdout)
    assert document["failed"]
    assert document["findings"][0]["severity"] == "error"
    assert document["findings"][0]["topic"] == "shared queries"
    picture = folder / "check.png"
    assert "! train: No document has label 0" in run("data", "check", folder / "positive.txt", "--plot", picture).stdout
    assert picture.stat().st_size > 0
    run("data", "check", folder / "positive.txt", "--strict", code=3)
    assert "exists already" in refused("data", "check", folder / "positive.txt", "--plot", picture)
