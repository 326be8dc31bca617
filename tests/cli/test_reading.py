"""Data as people bring them: columns by name in every command, CSV, standard input, and errors that name options."""

import json
import os
import pickle
import threading
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest
import typer

import rankwise as rw
from rankwise.cli.app import app
from rankwise.cli.data_options import Reading
from rankwise.cli.options import identifier, word
from tests.cli.running import refused, run

NAMES = ("--query", "session", "--label", "clicks", "--weight", "traffic")
SHOPS = ("north", "south", "west")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with columns of other names than ours, one of text, and one that says nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKWISE_DATA", raising=False)
    made = rw.synthetic(n_queries=12, n_docs=8, n_features=4, seed=1)
    table = pl.DataFrame(
        {
            "session": [f"s{number}" for number in made.qids()],
            "clicks": made.labels,
            "traffic": np.repeat(np.arange(1.0, 13.0), made.sizes),
            **{f"f_{number}": made.features[:, number] for number in range(4)},
            "shop": [SHOPS[int(label) % 3] for label in made.labels],
        }
    )
    table.write_csv("rows.csv")
    table.write_csv("rows.tsv", separator="\t")
    table.write_parquet("rows.parquet")
    table.drop("clicks", "traffic").write_csv("new.csv")
    return tmp_path


def _leaves(group, path=()):
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from _leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_that_reads_ranking_data_has_the_same_options():
    readers = {"train", "predict", "tune", "evaluate", "compare", "reproduce"}
    readers |= {f"data {name}" for name in ("info", "convert", "split", "noise", "thin", "clicks")}
    found = {}
    for name, command in _leaves(typer.main.get_command(app)):
        options = {option.name: (option.opts, option.help, option.metavar) for option in command.params[1:]}
        if name in readers:
            apart = {"part", "fold"} | ({"data_folder", "download"} if name == "reproduce" else set())
            names = (identifier(word(one)) for one in Reading.options().values())
            found[name] = {one: options[one] for one in names if one not in apart}
    assert set(found) == readers
    assert all(one.items() <= found["train"].items() for one in found.values())


@pytest.mark.parametrize("name", ["rows.csv", "rows.tsv", "rows.parquet"])
@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_columns_are_named_in_every_command(name: str):
    names = (*NAMES, "--categorical", "shop")
    text = run("data", "info", name, *names).stdout
    assert "12" in text
    assert "f_3" in text or "5" in text
    run("train", name, "--valid", name, "--rounds", 3, "-o", "model", *names)
    model = rw.load("model")
    assert model.categories_ == {"shop": SHOPS}
    run("predict", "model", name, "-o", "scores.txt", *names)
    run("evaluate", name, "scores.txt", *names)
    assert "0." in run("compare", name, "a=scores.txt", "b=model", *names).stdout
    run(
        "cross-validate",
        name,
        "--folds",
        2,
        "--rounds",
        2,
        "--patience",
        0,
        "--min-documents",
        2,
        "-o",
        "folds",
        *names,
    )
    run("data", "split", name, "-o", "a.parquet,b.parquet,c.parquet", *names)
    run("data", "noise", name, "-o", "noisy.parquet", "--flips", 0.1, *names)
    run("data", "thin", name, "-o", "thin.parquet", "--negatives", 1, *names)
    run("data", "clicks", name, "-o", "clicks.parquet", *NAMES, "--features", "f_*")
    run("data", "convert", name, "-o", "ours.parquet", *names)
    ours = rw.read_data("ours.parquet")
    assert ours.weights is not None
    assert ours.weights.tolist() == np.arange(1.0, 13.0).tolist()
    assert ours.feature_names == ("f_0", "f_1", "f_2", "f_3", "shop")
    run("predict", "model", "ours.parquet", "-o", "same.txt")
    assert Path("same.txt").read_text() == Path("scores.txt").read_text()


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_tuning_takes_the_names_of_columns():
    run(
        "tune",
        "rows.csv",
        "--valid",
        "rows.csv",
        *NAMES,
        "--features",
        "f_*",
        "--trials",
        1,
        "--rounds",
        2,
        "-o",
        "b.toml",
    )


def test_a_model_picks_its_features_and_needs_no_labels():
    run("train", "rows.csv", *NAMES, "--features", "f_2,f_0", "--rounds", 3, "-o", "model")
    run("predict", "model", "new.csv", "--query", "session", "-o", "new.txt")
    run("predict", "model", "rows.csv", *NAMES, "-o", "old.txt")
    assert Path("new.txt").read_text() == Path("old.txt").read_text()
    run("evaluate", "rows.csv", "model", *NAMES, "--features", "f_*")
    pl.read_csv("new.csv").rename({"f_2": "f_two"}).write_csv("renamed.csv")
    said = refused("predict", "model", "renamed.csv", "--query", "session")
    assert "renamed.csv: the table has no such column for a feature: got 'f_2'" in said
    said = refused("evaluate", "rows.csv", "model", *NAMES, "--features", "f_0,f_1")
    assert "trained on a feature that these data do not have: got no 'f_2' among 2 columns" in said


def test_a_document_of_a_table_is_explained():
    run("train", "rows.csv", *NAMES, "--features", "f_*", "--rounds", 3, "-o", "model")
    text = run("explain", "model", "new.csv", "--id", "s3", "--query", "session", "--show", 0).stdout
    assert "f_2" in text
    assert "use --query …, one of session, f_0" in refused("explain", "model", "new.csv", "--id", "s3")


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_a_set_of_tables_is_described_with_the_names_of_its_columns():
    Path("mine.toml").write_text(
        'train = "rows.csv"\nvalid = "rows.csv"\ntest = "rows.csv"\nquery = "session"\nlabel = "clicks"\n'
        'weight = "traffic"\nfeatures = ["f_*", "shop"]\ncategorical = ["shop"]\n'
    )
    data = rw.load_dataset("mine.toml", part="train")
    assert data.feature_names == ("f_0", "f_1", "f_2", "f_3", "shop")
    assert data.categories == {4: SHOPS}
    run("train", "mine.toml", "--rounds", 2, "-o", "model")


def test_an_experiment_takes_the_names_of_columns():
    command = ("reproduce", "2021-table1", "--quick", "--trials", 2, "--set", "settings.rounds=2", "--jobs", 1)
    said = refused(*command, "--data", "rows.csv", "--no-progress")
    assert "for the query: got 'qid'. Hint: use --query …, one of session, clicks" in said
    run(*command, "--data", "rows.csv", *NAMES, "--features", "f_*", "--no-progress")
    results = rw.lab.Results.read("results/2021-table1-quick")
    assert results.feature_names == ["f_0", "f_1", "f_2", "f_3"]
    assert results.queries["query"].str.starts_with("s").all()


def test_a_warning_is_a_sentence():
    Path("broken.txt").write_text("1 qid:1 1:0\nx qid:1 1:1\n0 qid:1 1:2\n")
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        said = run("data", "info", "broken.txt", "--read", "errors=skip").stderr
    assert said.startswith("warning: broken.txt: left out 1 of 3 lines that could not be read (line 2;")
    assert "UserWarning" not in said


def test_standard_input():
    for name, words in (("rows.csv", ()), ("rows.parquet", ()), ("rows.csv", ("--data-format", "csv"))):
        assert run("data", "info", "-", *NAMES, "--features", "f_*", *words, stdin=Path(name).read_bytes()).stdout
    said = refused("train", "-", "--valid", "-", "-o", "model")
    assert "standard input can be read only once" in said


ERRORS = [
    ("data info rows.csv", "for the query: got 'qid'. Hint: use --query …, one of session, clicks, traffic, f_0"),
    ("data info rows.csv --query session", "for the label: got 'label'. Hint: use --label …, one of"),
    ("data info rows.csv --query session --label click", "did you mean 'clicks'; use --label …"),
    ("data info rows.csv --query session --label clicks", "Hint: name it in --categorical … if it holds categories"),
    (
        "data info rows.csv --query session --label clicks --features f_9",
        "for a feature: got 'f_9'. Hint: did you mean",
    ),
    ("data info rows.csv --query shop --label clicks --features f_0", "Hint: use --read sort=true, or sort the rows"),
    ("data info rows.csv --data-format cvs", "unknown format of data: got 'cvs'. Hint: did you mean 'csv'"),
    ("data info rows.csv --read n_features=3", "Hint: leave n_features out, or use --data-format letor"),
    ("data info rows.txt --label rel", "Hint: leave --label out, or use --data-format csv"),
    ("data info broken.txt", "or use --read errors=skip to leave such lines out"),
    ("data info mq2008 --label rel", "label belongs to plain files: got the set mq2008"),
    ("data info mq2008", "name another data folder with --data-folder or the environment variable RANKWISE_DATA"),
    (
        "data info rows.txt --fold 2",
        "only sets of the catalog and .toml files have a fold: got the plain file rows.txt. Hint: leave --fold out",
    ),
    ("data convert rows.txt -o rows.parquet", "allow it with --force"),
    ("train rows.txt --resume -o model", "Hint: use --checkpoint …, the folder where it is"),
    ("train rows.txt -o model", "Hint: lower --min-documents and the library's limit"),
    ("evaluate rows.txt rows.scores --samples 9", "Hint: use --policy plackett_luce"),
]


@pytest.mark.parametrize(("line", "message"), ERRORS)
def test_errors_advise_options_of_the_command(line: str, message: str):
    Path("rows.txt").write_text("1 qid:1 1:0\n0 qid:1 1:1\n")
    Path("broken.txt").write_text("1 qid:1 1:0\nx qid:1 1:1\n")
    Path("rows.scores").write_text("1\n2\n")
    assert message in refused(*line.split())


def test_rankings_are_judged_by_a_table_whatever_its_other_columns_hold():
    table = pl.read_csv("rows.csv").with_columns(pl.lit("text").alias("comment"))
    table.write_csv("rows.csv")
    table.write_parquet("rows.parquet")
    features = ("--features", "f_0,f_1,shop", "--categorical", "shop")
    run("train", "rows.csv", *NAMES, *features, "--rounds", 3, "--min-documents", 2, "-o", "model")
    run("train", "rows.csv", *NAMES, "--features", "f_1,f_2", "--rounds", 3, "-o", "other")
    run("predict", "model", "rows.csv", *NAMES, "-o", "scores.txt")
    for name in ("rows.csv", "rows.parquet"):
        mean = run("evaluate", name, "model", *NAMES, "-m", "ndcg@5").stdout
        assert run("evaluate", name, "scores.txt", *NAMES, "-m", "ndcg@5").stdout == mean
        assert "other" in run("compare", name, "model", "other", "scores.txt", *NAMES).stdout
    said = refused("evaluate", "rows.csv", "model", *NAMES, "--features", "*")
    assert "String in columns 'shop', 'comment'" in said
    assert "--categorical … if they hold categories" in said
    assert "leave one out with --features '!shop'" in said


def test_lists_of_columns_may_stand_in_read():
    words = ("--read", "query=session", "--read", "label=clicks", "--read", "features=f_0,shop")
    run("data", "convert", "rows.csv", *words, "--read", "categorical=shop", "-o", "ours.parquet")
    assert rw.read_data("ours.parquet").categories == {1: SHOPS}
    said = refused("data", "info", "rows.csv", *words, "--read", "categorical=shops")
    assert "a categorical column must be one of the features: got 'shops'. Hint: did you mean 'shop'" in said


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_tables_come_from_pipes_as_from_files(name: str):
    pipe = Path("pipe")
    os.mkfifo(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(Path(name).read_bytes()), daemon=True)
    writer.start()
    told = run("data", "info", pipe, *NAMES, "--categorical", "shop").stdout
    writer.join()
    assert told == run("data", "info", name, *NAMES, "--categorical", "shop").stdout


@pytest.mark.parametrize(
    "line",
    ["train missing.txt -o m --objective xendgc", "tune missing.txt --valid missing.txt -o b.toml --objective xendgc"],
)
def test_expressions_are_read_before_the_data(line: str):
    assert "did you mean 'xendcg'" in refused(*line.split())
    metrics = "--metric" if line.startswith("tune") else "--metrics"
    assert "did you mean 'ndcg'" in refused(*line.replace("xendgc", "xendcg").split(), metrics, "ndgc@5")


def test_a_model_of_another_library_among_rankings_is_told_how_it_comes_here():
    Path("model.txt").write_text("tree\nversion=v4\n")
    Path("model.pkl").write_bytes(pickle.dumps({"a": 1}))
    for name in ("model.txt", "model.pkl"):
        assert "rw.wrap(model).save('folder')" in refused("evaluate", "rows.csv", name, *NAMES)


@pytest.mark.parametrize("command", ["evaluate", "compare"])
def test_help_says_that_models_are_rankings(command: str):
    assert "SCORES: a model" in " ".join(run(command, "--help").stdout.replace("│", " ").split())


# What becomes a feature is told, and warned of where it should not be one.


def test_commands_that_train_print_the_features_they_use():
    names = (*NAMES, "--categorical", "shop")
    line = "5 features: f_0, f_1, f_2, f_3, shop (category)\n"
    settings = ("--rounds", 2, "--min-documents", 2, "--threads", 1)
    assert line in run("train", "rows.csv", *settings, *names, "-o", "model").stderr
    assert (
        line
        in run("cross-validate", "rows.csv", *settings, *names, "-o", "folds", "--folds", 2, "--patience", 0).stderr
    )
    search = (
        "--space",
        "none",
        "--search",
        "leaves=whole(3, 5)",
        "--set",
        "min_documents=2",
        "--trials",
        1,
        "--folds",
        2,
    )
    assert line in run("tune", "rows.csv", "--rounds", 2, *search, *names, "-o", "b.toml").stderr
    wide = rw.synthetic(n_queries=12, n_docs=8, n_features=136, seed=1)
    rw.data.write_letor(wide, "wide.txt")
    assert "136 features without names\n" in run("train", "wide.txt", *settings, "-o", "wide").stderr
    rw.write_data(wide, "wide.parquet")
    (shown,) = (
        line for line in run("train", "wide.parquet", *settings, "-o", "named").stderr.split("\n") if "136" in line
    )
    assert shown.startswith("136 features: body_tfidf, title_bm25, ")
    assert shown.endswith(", … and 124 more")


def test_info_names_the_features_and_their_types():
    names = (*NAMES, "--categorical", "shop")
    shown = run("data", "info", "rows.csv", *names).stdout
    assert "f_0: number, f_1: number, f_2: number, f_3: number, shop: category of 3\n" in shown
    found = json.loads(run("data", "info", "rows.csv", *names, "--json").stdout)
    assert found["feature_types"] == dict.fromkeys(["f_0", "f_1", "f_2", "f_3"], "number") | {"shop": "category of 3"}
    rw.write_data(rw.synthetic(n_queries=3, n_docs=8, n_features=60, seed=1), "wide.parquet")
    assert ", … and 20 more, which --json lists\n" in run("data", "info", "wide.parquet").stdout
    rw.data.write_letor(rw.synthetic(n_queries=3, n_docs=8, n_features=60, seed=1), "wide.txt")
    assert "feature types" not in run("data", "info", "wide.txt").stdout


@pytest.mark.filterwarnings("default")
def test_leaks_are_warned_of_in_the_words_of_the_command_line():
    table = pl.read_csv("rows.csv").with_columns(position=pl.int_range(pl.len()).over("session") + 1)
    table.with_columns(gain=2 ** pl.col("clicks")).drop("shop").write_csv("log.csv")
    words = ("train", "log.csv", *NAMES, "--rounds", 2, "--min-documents", 2, "--threads", 1)
    said = run(*words, "-o", "model").stderr
    assert "displayed: position. Hint: leave out with --features '!position' what" in said
    assert "features with one value for each label: gain" in said
    assert "Hint: leave out with --features '!gain' what" in said
    followed = run(*words, "-o", "other", "--features", "!position,!gain").stderr
    first, note, last = followed.splitlines()
    assert (first, last) == ("4 features: f_0, f_1, f_2, f_3", "wrote other")
    assert note.startswith("without --valid none of the 2 rounds is measured")


@pytest.mark.filterwarnings("default")
def test_queries_that_training_and_validation_data_share_are_counted():
    table = pl.read_csv("rows.csv").drop("shop")
    table.filter(pl.col("session").is_in(["s3", "s7"])).write_csv("two.csv")
    words = (*NAMES, "--rounds", 2, "--min-documents", 2, "--threads", 1)
    line = (
        "warning: 2 of 2 queries of valid have the features of training queries. 2 of 2 queries of valid have ids of "
    )
    assert line in run("train", "rows.csv", "--features", "f_*", "--valid", "two.csv", *words, "-o", "model").stderr
    tune = ("tune", "rows.csv", "--features", "f_*", "--valid", "two.csv", *NAMES, "--rounds", 2, "--trials", 2)
    assert run(*tune, "-o", "b.toml").stderr.count(line) == 1


@pytest.mark.filterwarnings("ignore:.* of training queries")
def test_labels_by_name():
    names = ("--query", "session", "--label", "clicks", "--features", "f_*")
    run("train", "rows.csv", *names, "--label", "visits=traffic", "--objective", "xendcg + 0.5*on(visits, xendcg)",
        "--rounds", 3, "-o", "model")  # fmt: skip
    assert list(rw.load("model").scales_) == ["xendcg", "on(visits, xendcg)"]
    metric = "ndcg(label=visits, gain=linear)@5"
    text = run("evaluate", "rows.csv", "model", *names, "--label", "visits=traffic", "--metrics", metric).stdout
    assert "ndcg(gain=linear, label=visits)@5" in text
    run("data", "convert", "rows.csv", *names, "--label", "visits=traffic", "-o", "kept.parquet")
    assert list(rw.read_parquet("kept.parquet").more_labels or ()) == ["visits"]
    said = refused("evaluate", "rows.csv", "model", *names, "--metrics", metric)
    assert "the data have no labels called 'visits': got more_labels: none. Hint: name their column" in said
    assert "--label visits=COLUMN" in said
    assert "call the second by a name: --label NAME=traffic" in refused(
        "data", "info", "rows.csv", *names, "--label", "traffic"
    )
    said = refused("data", "info", "rows.csv", *names, "--label", "visits=trafic")
    assert "no such column for the more_labels.visits: got 'trafic'" in said
    assert "did you mean 'traffic'; use --label" in said
