"""Options are declared once: parameters of rankers are options, a name means one thing, and what is gone says so."""

import json
import re
import shlex
from collections import defaultdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pytest
import typer

import rankwise as rw
from rankwise.check.parameters import AtLeast, Option, Unset
from rankwise.cli.app import app
from rankwise.cli.options import Interface, Only
from rankwise.cli.running import Running
from rankwise.language import registry
from tests.cli.running import refused, run


def leaves(group: Any, path: tuple[str, ...] = ()) -> Any:
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


COMMANDS = dict(leaves(typer.main.get_command(app)))


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> rw.RankingDataset:
    monkeypatch.chdir(tmp_path)
    made = rw.synthetic(n_queries=20, n_docs=8, seed=1)
    rw.write_data(made, "all.parquet")
    return made


# Generated options


def test_a_parameter_of_a_registered_ranker_is_an_option(data: rw.RankingDataset, monkeypatch: pytest.MonkeyPatch):
    class Shifted(rw.Ranker):
        def __init__(
            self,
            *,
            zeal: Annotated[int, AtLeast(3), "How far scores are shifted.", Unset("three"), Option(metavar="N")] = 3,
            plain: float = 0.5,
            help: Annotated[str, "A name that every command has."] = "",  # noqa: A002
        ) -> None:
            self.zeal, self.plain, self.help = zeal, plain, help

        def _fit(self, data: Any, *_: Any) -> None:
            self.mean_ = np.asarray(data.features.mean(axis=0))

        def _predict(self, features: Any, offsets: Any = None) -> Any:
            return features @ self.mean_ + self.zeal

    assert "--zeal" not in run("train", "--help").stdout
    monkeypatch.setattr(registry, "_entries", dict(registry._entries))
    rw.register("shifted")(Shifted)
    page = run("train", "--help").stdout
    assert re.search(r"^shifted:\n  --zeal N +How far scores are shifted. \[three\]$", page, re.MULTILINE)
    assert "--plain" not in page  # it has no sentence, and is set with --set
    words = ("train", "all.parquet", "--ranker", "shifted", "--set", "plain=0.25", "--json")
    said = json.loads(run(*words, "--zeal", 7, "-o", "model").stdout)
    assert (said["parameters"]["zeal"], said["parameters"]["plain"]) == (7, 0.25)
    assert "--zeal must be a whole number of at least 3: got 2" in refused(*words, "--zeal", 2, "-o", "other")
    assert "lightgbm" in refused("train", "all.parquet", "--zeal", 7, "-o", "other")


def test_values_are_read_by_their_types(capsys: pytest.CaptureFixture[str]):
    received: dict[str, Any] = {}

    def command(
        *,
        goals: Annotated[dict[str, float] | None, "Goals.", Option("goal")] = None,
        sizes: Annotated[int | tuple[int, ...] | None, "Sizes."] = None,
        depths: Annotated[tuple[int, ...], "Depths."] = (),
        thing: Annotated[Any, "Anything."] = None,
        patience: Annotated[int | None, AtLeast(1), "Rounds."] = 50,
        minutes: Annotated[float | None, "Minutes."] = 10.0,
        switch: Annotated[bool, "A switch."] = True,
        running: Annotated[Running, Only("seed")],
    ) -> None:
        received.update(locals())

    interface = Interface(command)
    nothing = dict.fromkeys(("goal", "sizes", "depths", "thing", "patience", "minutes", "switch", "seed"))
    interface(**nothing)
    assert (received["goals"], received["patience"], received["switch"], received["running"].seed) == (
        None,
        50,
        True,
        0,
    )
    words = {"goal": ["ndcg(label=buy)@10=0.5"], "sizes": ["64,32"], "patience": "0", "minutes": "inf", "seed": 3}
    interface(**nothing | words | {"switch": False})
    assert received["goals"] == {"ndcg(label=buy)@10": 0.5}
    assert (received["sizes"], received["patience"], received["minutes"]) == ((64, 32), None, None)
    assert (received["switch"], received["running"].seed) == (False, 3)
    interface(**nothing | {"sizes": ["64-32"]})
    assert received["sizes"] == "64-32"
    interface(**nothing | {"depths": ["3"], "thing": "4"})
    assert (received["depths"], received["thing"]) == ((3,), 4)
    with pytest.raises(ValueError, match="--patience must be a whole number of at least 1: got -1"):
        interface(**nothing | {"patience": "-1"})


def test_the_page_of_train_fits_on_two_screens(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("COLUMNS", "80")
    page = run("train", "--help").stdout
    assert page.count("\n") <= 80
    assert max(map(len, page.split("\n"))) <= 80
    titles = re.findall(r"^(\w[\w ]*)(?:, see .*)?:$", page, re.MULTILINE)
    assert titles == ["Arguments", "Options", "Training", "Trees", "Nets", "Reading data", "Running"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_a_sentence(name: str):
    for one in COMMANDS[name].params:
        assert re.fullmatch(r"\S.*[.…]", one.help, re.DOTALL), one.name
        assert "``" not in one.help


# One name, one thing

OWN_WORDS = {
    "--negatives": "a share, a number or both",  # of the same: how many negatives
    "--segment": "the column of a log; features of queries, several, or a table",
    "--history": "the folder of a history of comparisons; the events of a user, of recommenders",
    "--id": "the id of a query to explain; the column of ids of documents",
    "--run": "a file of a retriever's run; several of them by name",
    "--split": "how the data of recommenders are split; whether the analyzer splits words at capitals",
    "--queries": "how many of a sample, or the file of their texts beside --documents",
}
PATHS = {"FILE", "DIR", "FILES"}


def test_an_option_means_one_thing_in_all_commands():
    metavars: Any = defaultdict(lambda: defaultdict(list))
    for name, command in COMMANDS.items():
        for one in command.params:
            if one.param_type_name == "option":
                for word in one.opts:
                    kind = "PATH" if one.metavar in PATHS else "WORDS" if "|" in str(one.metavar) else one.metavar
                    metavars[word][kind].append(name)
    metavars["--format"].pop("NAME")  # of export, a list of words that is too long
    clashes = {word: dict(kinds) for word, kinds in metavars.items() if len(kinds) > 1 and word not in OWN_WORDS}
    assert clashes == {}
    assert set(metavars["--query"]) == {"COLUMN"}
    for short in ("-o", "-m"):
        long = {one.opts[0] for command in COMMANDS.values() for one in command.params if short in one.opts}
        assert len(long) == 1


# Options that are gone

GONE = [
    (
        "train a.txt --bag 5 --objective xendcg -o m",
        "train a.txt --objective xendcg -o m --ranker 'bagged(lightgbm, folds=5)'",
    ),
    ("train a.txt --ranker neural --bag 3 -o m", "train a.txt -o m --ranker 'bagged(neural, folds=3)'"),
    (
        "train a.txt --blend 'lightgbm(xendcg)' --blend neural --blend column:1 --bag 3 -o m",
        "train a.txt -o m --ranker 'blended(lightgbm(xendcg), neural, column(0), folds=3)'",
    ),
    (
        "train a.txt --blend neural --blend column:bm25 -o m",
        "train a.txt -o m --ranker \"blended(neural, column('bm25'))\"",
    ),
    ("train a.txt --teacher large -o m", "train a.txt -o m --ranker \"distilled('large', lightgbm)\""),
    (
        "train a.txt --teacher=large --teacher-weight 0.5 --unlabelled b.txt -o m",
        "train a.txt --unlabelled b.txt -o m --ranker \"distilled('large', lightgbm, weight=0.5)\"",
    ),
    ("train a.txt --folds 5 -o m", "cross-validate a.txt -o m --folds 5"),
    ("train a.txt --folds 5 --ranker xgboost -o m", "cross-validate a.txt -o m --folds 5 --ranker xgboost"),
    ("tune a.txt --bag 5 -o b.toml", "tune a.txt --folds 5 -o b.toml"),
    ("tune a.txt --study s.db -o b.toml", "tune a.txt --checkpoint s.db -o b.toml"),
    ("auto a.txt --study=s --bag 3 -o m", "auto a.txt --checkpoint=s --folds 3 -o m"),
    ("frontier a.txt --bag 3", "frontier a.txt --folds 3"),
    ("evaluate a.txt s.txt --confidence 0.9", "evaluate a.txt s.txt --level 0.9"),
    ("compare a.txt s.txt --alpha 0.1", "compare a.txt s.txt --level 0.9"),
    ("compare a.txt s.txt --alpha=0.01 --test t", "compare a.txt s.txt --level=0.99 --paired-test t"),
    ("compare a.txt s.txt --alpha low", "compare a.txt s.txt --level low"),
    ("train a.txt --import rankwise --folds 5 -o m", "cross-validate a.txt -o m --import rankwise --folds 5"),
    ("clicks compare l f a b --confidence 0.9 --ranker arm", "clicks compare l f a b --level 0.9 --system arm"),
    ("clicks train l f --model plrank --ranker arm", "clicks train l f --ranker plrank --system arm"),
    ("data clicks a.txt --model cascade --ranker s.txt", "data clicks a.txt --click-model cascade --scores s.txt"),
    ("recommend r.csv --test 0 --titles t.csv", "recommend r.csv --holdout 0 --title-file t.csv"),
    ("report r --search a=b", "report r --tuning a=b"),
    ("interleave log.csv a=a b=b --k 5", "interleave log.csv a=a b=b --cutoff 5"),
]


@pytest.mark.parametrize(("line", "instead"), GONE)
def test_an_option_that_is_gone_says_what_to_type(line: str, instead: str):
    assert f"is gone. Hint: type rankwise {instead}" in refused(*shlex.split(line))
    words = shlex.split(instead)
    command = COMMANDS.get(" ".join(words[:2])) or COMMANDS[words[0]]
    known = {"--import", *(word for one in command.params for word in one.opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known


def test_a_line_to_type_does_what_the_old_one_did(data: rw.RankingDataset):
    said = refused("train", "all.parquet", "--bag", 2, "--rounds", 3, "--threads", 1, "-o", "model")
    run(*shlex.split(said.partition("type rankwise ")[2]))
    bag = rw.bagged(rw.LightGBMRanker(rounds=3, threads=1), 2).fit(data)
    np.testing.assert_array_equal(rw.load("model").predict(data), bag.predict(data))


def test_an_id_where_a_column_belongs_says_what_to_type(data: rw.RankingDataset):
    rw.LightGBMRanker(rounds=2, threads=1, min_documents=2).fit(data).save("model")
    rw.write_data(data, "all.txt")
    for file in ("all.parquet", "all.txt"):
        for option, instead in (("--query", "--id"), ("--document", "--show")):
            said = refused("explain", "model", file, option, "77", *(("--id", "0") if option == "--document" else ()))
            assert f"for an id type {instead} 77" in said
