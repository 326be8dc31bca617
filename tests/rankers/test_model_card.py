"""Model cards: the facts of the training, numbers with intervals, and nothing that the model does not know."""

import re
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.models import model_card, storage
from rankwise.rankers.training.resume import fingerprint
from rankwise.rankers.training.run import remember
from rankwise.rankers.training.settings import TrainingData
from tests.refusals import refusal, refuses


@pytest.fixture(scope="module")
def model(data, valid):
    return rw.LightGBMRanker("xendcg", rounds=4, leaves=5, threads=1).fit(data, valid)


def rows(card: str, title: str) -> dict[str, str]:
    """Return the table of a section."""
    (part,) = re.findall(rf"^## {title}\n\n(.*?)(?=\n## |\Z)", card, flags=re.MULTILINE | re.DOTALL)
    cells = (line.strip("| ").split(" | ") for line in part.splitlines()[2:] if line.startswith("| "))
    return {name: value for name, value in cells if name != ":--"}


def test_the_data_and_the_training_are_those_of_fit(model, data):
    card = model.card()
    table = rows(card, "Data")
    assert (table["queries"], table["documents"], table["features"]) == ("40", f"{data.n_docs:,}", "12")
    assert table["digest"] == fingerprint(data)
    assert table["feature names"].replace("\\", "").split(", ") == list(data.feature_names)
    training = rows(card, "Training")
    assert training["ranker"] == repr(model)
    assert (training["leaves"], training["trees in the model"], training["stopped"]) == (
        "5", str(model.best_round_), "rounds",
    )  # fmt: skip
    best = max(model.history_["ndcg@10"])
    assert training["ndcg@10 of the queries that chose the round"] == f"{best:.4f}"
    assert "objective `xendcg` (Bruch 2021)" in card
    assert set(rows(card, "Versions")) == {"rankwise", "python", "numpy", "lightgbm"}
    assert "Evaluation" not in card
    assert "command" not in training


def test_every_number_of_an_evaluation_has_its_interval(model, valid):
    evaluation = rw.evaluate(model, valid, ["ndcg@10", "ap"])
    alone, named = model.card(evaluation), model.card({"held out": evaluation})
    assert "### 25 queries\n" in alone
    assert "### held out\n" in named
    for name, (low, high) in evaluation.interval.items():
        expected = rf"| {name} | {evaluation.mean[name]:.4f} | \[{low:.4f}, {high:.4f}\] | {evaluation.scored[name]} |"
        assert expected in alone
        assert expected in named


def test_data_that_are_measured_beside_are_no_validation(data):
    model = rw.LightGBMRanker(rounds=2, threads=1).fit(data, eval_sets={"train": data})
    assert "chose the round" not in model.card()


def test_groups_have_their_table(data, valid):
    grouped = valid.with_(groups=np.where(np.arange(valid.n_docs) % 3, "many", "few"))
    model = rw.LightGBMRanker(rounds=2, threads=1).fit(data)
    card = model.card(rw.evaluate(model, grouped, policy="plackett_luce", samples=4))
    assert "| group | documents | exposure |" in card
    assert "| few |" in card


def test_an_ensemble_has_its_out_of_fold_evaluation(data):
    bag = rw.bagged(rw.LightGBMRanker(rounds=2, threads=1), folds=2).fit(data)
    low, high = bag.out_of_fold_.interval["ndcg@10"]
    assert "each scored by members that have not seen it" in bag.card()
    assert rf"\[{low:.4f}, {high:.4f}\]" in bag.card()
    assert "chose the round" not in bag.card()


def test_a_search_has_its_leaderboard_also_in_the_folder(data, tmp_path):
    auto = rw.AutoRanker(None, recipes=["lightgbm(xendcg, rounds=2)"], folds=2, threads=1, progress=False).fit(data)
    assert "## Leaderboard" in auto.card()
    written = (auto.save(tmp_path / "auto") / "README.md").read_text(encoding="utf-8")
    assert written.startswith(auto.card())
    loaded = rw.load(tmp_path / "auto")
    assert "## Leaderboard" not in loaded.card()
    assert rows(loaded.card(), "Data") == rows(auto.card(), "Data")


def test_a_ranker_that_became_another_has_the_objective_of_that(data):
    trees = rw.LightGBMRanker(rounds=2, leaves=4, min_documents=2, threads=1)
    assert "trained with the objective `margin_mse`" in rw.distilled(trees, trees).fit(data).card()
    recipes = [f"{name}(lambdarank, rounds=5, leaves=4, min_documents=2)" for name in ("lightgbm", "xgboost")]
    few = rw.synthetic(n_queries=24, n_docs=8, n_features=5, seed=1)
    auto = rw.AutoRanker(None, recipes=recipes, folds=2, threads=1, progress=False).fit(few)
    assert auto.ranker_.weighs
    assert re.match(r"# blended\(.*\)\n\nA ranker of rankwise\. A higher", auto.card())


def test_saving_writes_the_evaluation_into_the_card(model, valid, tmp_path):
    evaluation = rw.evaluate(model, valid)
    written = (model.save(tmp_path / "model", evaluation=evaluation) / "README.md").read_text(encoding="utf-8")
    assert written.startswith(model.card(evaluation))


def test_a_loaded_model_keeps_the_versions_that_it_was_trained_with(model, tmp_path, monkeypatch):
    card = model.card()
    model.save(tmp_path / "model")
    monkeypatch.setattr(storage, "versions", lambda: {"rankwise": "99"})
    again = rw.load(tmp_path / "model")
    assert again.card() == card
    assert "| rankwise | 99 |" in model.card()
    assert rows(rw.load(again.save(tmp_path / "again")).card(), "Versions") == rows(again.card(), "Versions")


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        ("/usr/bin/rankwise", "rankwise train 'my data.txt' -o model"),
        ("/lib/rankwise/__main__.py", "rankwise train 'my data.txt' -o model"),
        ("/home/me/train.py", None),
    ],
)
def test_the_command_is_that_of_rankwise(program, expected, data, monkeypatch):
    monkeypatch.setattr("sys.argv", [program, "train", "my data.txt", "-o", "model"])
    model = rw.LightGBMRanker(rounds=1, threads=1).fit(data)
    assert model.trained_on_.get("command") == expected
    assert rows(model.card(), "Training").get("command") == expected


def test_secrets_of_urls_are_not_kept(monkeypatch):
    words = [
        "train",
        "https://me:p?w@host/a b.txt?X-Signature=s3cret#s3cret",
        "--valid=s3://b/v.parquet?t=s3cret",
        "a?b",
    ]
    monkeypatch.setattr("sys.argv", ["rankwise", *words])
    expected = "rankwise train https://host/a%20b.txt --valid=s3://b/v.parquet 'a?b'"
    assert model_card.command() == {"command": expected}


def test_names_are_text_and_no_markup(data, valid):
    names = ["<script>alert(1)</script>", "two\nlines | `code`", *data.feature_names[2:]]
    train, test = (part.with_(feature_names=names) for part in (data, valid))
    model = rw.LightGBMRanker(rounds=1, threads=1).fit(train)
    card = model.card({"<img src=x>\n# new": rw.evaluate(model, test)})
    assert r"### \<img src=x\> \# new" in card
    assert r"\<script\>alert(1)\</script\>, two lines \| \`code\`, " in card
    assert "<" not in card.replace(r"\<", "")


def test_letters_that_turn_the_text_around_are_escaped(data):
    named = data.with_(feature_names=[f"a\u202eb\x1b[2J{number}" for number in range(data.n_features)])
    card = rw.LightGBMRanker(rounds=2, threads=1).fit(named).card()
    assert all(line.isprintable() for line in card.split("\n"))
    assert "202eb" in card


def test_data_on_disk_are_not_read_again_for_a_digest(data, tmp_path):
    path = tmp_path / "features.bin"
    features = np.memmap(path, np.float32, "w+", shape=data.features.shape)
    features[:] = data.features
    features.flush()
    on_disk = data.with_(features=np.memmap(path, np.float32, "r", shape=data.features.shape))
    ranker = rw.LightGBMRanker()
    remember(ranker, TrainingData(train=on_disk))
    assert "digest" not in ranker.trained_on_
    remember(ranker, TrainingData(train=on_disk, digest="abc", documents=10**9))
    assert ranker.trained_on_ == {"documents": 10**9, "features": 12, "digest": "abc"}


def test_what_is_no_evaluation_is_rejected(model):
    wrong: Any = 0.75
    with refusal(what="a card shows evaluations", got="float", hint="pass rw.evaluate(model, data)…"):
        model.card(wrong)


def test_an_untrained_ranker_has_no_card():
    refuses(lambda: rw.LightGBMRanker().card(), what="this LightGBMRanker is not trained yet")
