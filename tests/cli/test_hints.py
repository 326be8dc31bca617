"""Hints are followed: a command that is refused works once what its hint names is done, in the words of the shell."""

import re
import shutil
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import refused, run

TRAIN = ("--rounds", 2, "--min-documents", 2, "--threads", 1)
_PYTHON = re.compile(r"\brw\.|\b(?:fit|judge|from_frame|with_|predict|RankingDataset)\(|[a-z_]+=(?:True|False|None|')")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table whose rows are not sorted by query, one that is, LETOR text, clicks, runs and models."""
    place = tmp_path_factory.mktemp("hints")
    made = rw.synthetic(n_queries=12, n_docs=8, n_features=4, seed=1)
    columns = {f"f_{number}": made.features[:, number] for number in range(4)}
    table = pl.DataFrame({"session": [f"s{one}" for one in made.qids()], "grade": made.labels, **columns})
    table.write_csv(place / "rows.csv")
    shuffled = table.with_columns(shop=pl.Series(["north", "south"] * 50)[: len(table)])
    shuffled[np.random.default_rng(1).permutation(len(table))].write_csv(place / "mixed.csv")
    rw.data.write_letor(made, place / "rows.txt")
    rw.write_data(rw.clicks.simulate_clicks(made, model="position", seed=1), place / "clicks.parquet")
    rw.LightGBMRanker("xendcg", rounds=2, min_documents=2, threads=1).fit(made).save(place / "model")
    documents = {"Q0": "Q0", "document": "d", "rank": 1, "score": 0.5, "tag": "t"}
    for name, queries in (("one.run", ("a", "b")), ("two.run", ("a",))):
        rows = [" ".join(map(str, (query, *documents.values()))) for query in queries]
        (place / name).write_text("\n".join(rows) + "\n")
    (place / "qrels").write_text("a 0 d 1\nb 0 d 1\n")
    ratings = "".join(f"{n % 9},{n % 7},4\n" for n in range(80) if n % 5)
    (place / "ratings.csv").write_text("user,item,rating\n" + ratings)
    return place


@pytest.fixture(autouse=True)
def here(files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(files, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKWISE_DATA", raising=False)


FOLLOWED = [
    # A command that is refused, and what its hint says to add.
    (("train", "rows.csv", "--label", "grade", *TRAIN, "-o", "m"), ("--query", "session")),
    (("train", "mixed.csv", "--query", "session", "--label", "grade", "--features", "f_*", *TRAIN, "-o", "m"),
     ("--read", "sort=true")),
    (("train", "mixed.csv", "--query", "session", "--label", "grade", "--read", "sort=true", *TRAIN, "-o", "m"),
     ("--features", "!shop")),
    (("evaluate", "rows.txt", "model", "--samples", 2), ("--policy", "plackett_luce")),
    (("data", "convert", "clicks.parquet", "-o", "c.txt"), ("--lossy",)),
    (("recommend", "ratings.csv", "--model", "popularity", "--holdout", 0), ("--implicit",)),
    (("compare", "--qrels", "qrels", "one.run", "two.run", "-m", "ap"), ("--all-topics",)),
    (("train", "rows.txt", *TRAIN, "-o", "model"), ("--force",)),
    (("explain", "model", "rows.txt", "--above", 0, "-q", 1), ("--below", 1)),
    (("train", "rows.txt", "--processes", 2, *TRAIN, "-o", "m"), ("--ranker", "bagged(lightgbm, folds=5)")),
]  # fmt: skip


@pytest.mark.parametrize(("words", "added"), FOLLOWED, ids=lambda words: " ".join(map(str, words))[:60])
def test_what_a_hint_names_helps(words: tuple[object, ...], added: tuple[object, ...]):
    said = refused(*words).partition("Hint: ")[2]
    assert not _PYTHON.search(said), said
    for word in added:
        assert str(word) in said or isinstance(word, int)
    run(*words, *added)


REFUSED = [
    # Commands whose hints named Python, or were no hints at all.
    ("train rows.csv --query session --read srot=true -o m", "unknown argument of reading ranking data: got 'srot'"),
    ("data info rows.txt --read foo=1", "choose one of errors, n_features"),
    ("train rows.csv --query session --read features=[7] -o m", "features is a name, or a list of names"),
    ("train rows.csv --query session --read categories=7 -o m", "categories is a list of values for each column"),
    ("train rows.csv --query session --read separator=ab -o m", "separator is one letter"),
    ("train rows.csv --query session --read sort=7 -o m", "sort is true or false"),
    ("train rows.csv --read query=7 -o m", "got '7'"),
    ("train rows.csv --query session --read progress=1 -o m", "unknown argument of reading ranking data: got 'progr"),
    ("train rows.txt --set metrics=7 -o m", "metrics are names"),
    ("train rows.txt --set checkpoint=7 -o m", "checkpoint must be the name of a folder"),
    ("train rows.txt --objective distil -o m", "use --teacher-score …, the column that holds them, where the data are "
     "read, or train with --ranker \"distilled('TEACHER', lightgbm)\"."),
    ("train rows.txt --objective fair(lambdarank) -o m", "use --groups …, the column that holds them"),
    ("train rows.txt --set debias=true -o m", "as 'rankwise data clicks --click-model position' makes."),
    ("train rows.txt --checkpoint model --resume -o m", "name another folder for checkpoints"),
    ("data noise clicks.parquet -o n.parquet --negatives 0.5", "add negatives before clicks are simulated"),
    ("data convert rows.txt --read sparse=true -o n.parquet", "or use --read sparse=false where it is read."),
    ("compare rows.txt a=model b=model --paired-test corrected_t", "choose one of fisher, t, wilcoxon"),
    ("compare rows.txt model", "name another: NAME=SCORES"),
    ("recommend ratings.csv --set factors=3", "name it: use --model als."),
    ("evaluate --qrels qrels model", "write a run with 'rankwise predict'"),
]  # fmt: skip


@pytest.mark.parametrize(("line", "sentence"), REFUSED)
def test_refusals_speak_the_language_of_the_shell(line: str, sentence: str):
    said = refused(*line.split())
    assert sentence in said
    assert not _PYTHON.search(re.sub(r"; in Python, .*", "", said.partition("Hint: ")[2])), said


def test_hints_about_a_set_lead_out_of_its_description():
    Path("set.toml").write_text('train = "mixed.csv"\ntest = "mixed.csv"\nlabel = "grade"\n')
    words = ("train", "set.toml", *TRAIN, "-o", "m")
    for hint, line in (
        ("write query = … in set.toml, one of session, grade", 'query = "session"'),
        ("write sort = true in set.toml, or sort the rows", "sort = true"),
        ('leave it out with features = ["!shop"] in set.toml', 'features = ["!shop"]'),
    ):
        assert hint in refused(*words)
        with Path("set.toml").open("a") as file:
            file.write(f"{line}\n")
    assert "Hint: write sort into it." in refused(*words, "--read", "sort=true")
    assert "Hint: leave errors out." in refused(*words, "--read", "errors=skip")
    assert rw.load_dataset("set.toml", part="train").query_ids is not None
    run(*words)
