"""Recommending from the command line: columns, models, titles, files and errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.cli.running import run


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    ratings = rw.recommend.synthetic_ratings(n_users=40, n_items=80, n_ratings=30, seed=2)
    return ratings.to_frame().with_columns(pl.format("user {}", pl.col("user")).alias("user"))


@pytest.fixture
def table(frame, tmp_path: Path) -> Path:
    path = tmp_path / "ratings.csv"
    frame.rename({"user": "userId", "item": "movieId"}).write_csv(path)
    return path


def test_the_best_on_a_part_of_training_is_chosen_and_compared(table, frame, tmp_path: Path):
    saved, out = tmp_path / "model", tmp_path / "top.csv"
    said = run("recommend", str(table), "--threads", "1", "-k", "2", "-o", str(out), "--save", str(saved)).stdout
    for name in ("ease", "als", "knn", "popularity", "ndcg@10", "recall@20", "seconds", "most popular", " ←"):
        assert name in said
    model: Any = rw.load(saved)
    assert pl.read_csv(out).equals(model.recommend(cutoff=2))
    assert model.model_.seen_items.size == len(frame)  # the last model is of all ratings
    told = json.loads(run("recommend", str(saved), "--users", "user 3", "-k", "1", "--json").stdout)
    assert [told["items"][0][name] for name in ("user", "rank")] == ["user 3", 1]
    wrong = run("recommend", str(table), "--save", str(saved), code=2)
    assert "exists already and is kept" in wrong.stderr
    wrong = run("recommend", str(saved), "--users", "nobody", code=2)
    assert "not trained on this user: got 'nobody', one of 1 unknown. Hint: train with it, or " in wrong.stderr
    popular = json.loads(
        run("recommend", str(saved), "--users", "nobody", "--unknown", "popular", "-k", "3", "--json").stdout
    )
    expected = rw.recommend.Popularity().fit(rw.recommend.Interactions.read(table)).recommend(["nobody"], cutoff=3)
    assert [one["item"] for one in popular["items"]] == expected["item"].to_list()
    wrong = run("recommend", str(saved), "--save", str(tmp_path / "other"), code=2)
    assert "--save goes with learning from ratings" in wrong.stderr


@pytest.mark.parametrize("model", ["ease", "als", "knn", "popularity"])
def test_one_model_with_settings(table, model):
    settings = {"ease": "regularization=7", "als": "factors=3", "knn": "neighbours=5", "popularity": "unknown=popular"}
    said = run(
        *("recommend", str(table), "--model", model, "--set", settings[model], "--holdout", "0", "--threads", "1"),
        *("--users", "user 1", "-k", "3", "--json"),
    )
    told = json.loads(said.stdout)
    assert told["model"] == model
    assert told["evaluation"] is None
    assert len(told["items"]) == 3
    assert {one["model"] for one in told["choice"]["candidates"]} == {model}
    name, _, _ = settings[model].partition("=")
    assert name in told["choice"]["settings"]


def test_a_factorization_with_any_objective(table, tmp_path: Path):
    small = ("--epochs", "3", "--threads", "1", "--set", "factors=4", "--set", "regularization=0.1")
    out = tmp_path / "top.json"
    said = run("recommend", str(table), *small, "--objective", "approx_ndcg", "-o", str(out), "-m", "ap,ndcg@5").stdout
    assert "factorization" in said
    assert "most popular" in said
    assert len(json.loads(out.read_text())) == 400
    wrong = run("recommend", str(table), "--model", "ease", "--objective", "ranknet", code=2)
    assert "EASE has no such parameter: got 'objective'" in wrong.stderr
    wrong = run("recommend", str(table), "--set", "factors=4", code=2)
    assert "settings belong to one model: got factors. Hint: name it" in wrong.stderr
    wrong = run("recommend", str(table), "--model", "svd", code=2)
    assert "unknown recommender: got 'svd'" in wrong.stderr


def test_a_user_who_likes_nothing_is_recommended_to_and_not_measured(frame, tmp_path: Path):
    path, out = tmp_path / "ratings.csv", tmp_path / "top.csv"
    dislikes = pl.DataFrame({"user": ["nobody"] * 2, "item": [0, 1], "rating": [1.0, 2.0]}, schema=frame.schema)
    pl.concat([frame, dislikes]).write_csv(path)
    small = ("--epochs", "2", "--threads", "1", "--set", "factors=4", "--set", "regularization=0.1", "-k", "3")
    said = run("recommend", str(path), "--model", "factorization", *small, "-o", str(out)).stderr
    liked = frame.group_by("user").agg((pl.col("rating") >= 4).sum())
    few = 1 + (liked["rating"] < 5).sum()
    assert f"Measured without {few} users with fewer than 5 relevant items, who get" in " ".join(said.split())
    expected = rw.recommend.Popularity().fit(rw.recommend.Interactions.read(path)).recommend(["nobody"], cutoff=3)
    assert pl.read_csv(out).filter(pl.col("user") == "nobody")["item"].to_list() == expected["item"].to_list()


def test_columns_by_name_events_and_vectors(frame, tmp_path: Path):
    path = tmp_path / "events.parquet"
    twice = pl.concat([frame, frame[:50]]).select(
        pl.col("user").alias("customer"), pl.col("item").alias("sku"), pl.col("rating").alias("price")
    )
    twice.write_parquet(path)
    columns = ("--user", "customer", "--item", "sku")
    said = run(
        *("recommend", str(path), *columns, "--model", "als", "--set", "factors=3", "--holdout", "0", "--threads", "1"),
        *("--vectors", str(tmp_path / "v"), "-o", str(tmp_path / "o.parquet")),
    )
    assert "Every row makes an item relevant" in said.stderr
    assert np.load(tmp_path / "v" / "item_vectors.npy").shape == (frame["item"].n_unique(), 3)
    assert pl.read_parquet(tmp_path / "o.parquet").columns == ["user", "rank", "item", "score"]
    wrong = run("recommend", str(path), *columns, "--rating", "price", "--holdout", "0", code=2)
    assert "a user may rate an item once" in wrong.stderr
    implicit = (*columns, "--rating", "price", "--implicit", "--model", "popularity", "--holdout", "0", "-k", "1")
    assert "Every row makes" in run("recommend", str(path), *implicit).stderr
    wrong = run("recommend", str(path), *columns, "--model", "ease", "--vectors", str(tmp_path / "w"), code=2)
    assert "no vectors of users and items: got ease. Hint: leave --vectors out, or use --model als" in (wrong.stderr)
    told = run(
        *("recommend", str(path), *columns, "--holdout", "0", "--threads", "1", "-k", "1", "--json"),
        *("--vectors", str(tmp_path / "w")),
    )
    assert json.loads(told.stdout)["model"] == "als"


def test_titles_beside_and_by_name(table, tmp_path: Path):
    fast = ("--model", "popularity", "--holdout", "0", "--users", "user 1", "-k", "2")
    assert "title" not in run("recommend", str(table), *fast).stdout
    names = {"movieId": list(range(80)), "title": [f"Film, no. {n}" for n in range(80)], "genre": ["x"] * 80}
    pl.DataFrame(names).write_csv(tmp_path / "movies.csv")
    beside = json.loads(run("recommend", str(table), *fast, "--json").stdout)["items"]
    assert all(one["title"] == f"Film, no. {one['item']}" for one in beside)
    other = tmp_path / "names.csv"
    pl.DataFrame({"item": [0], "called": ["Zero"]}).write_csv(other)
    said = run("recommend", str(table), *fast, "--title-file", str(other), "--title", "called").stdout
    assert "–" in said  # items without a title
    wrong = run("recommend", str(table), *fast, "--title-file", str(other), "--title", "cold", code=2)
    assert "no such column: got 'cold'" in wrong.stderr


def test_the_latest_items_are_held_out(frame, tmp_path: Path):
    path = tmp_path / "timed.csv"
    frame.with_row_index("when").write_csv(path)
    fast = ("--model", "popularity", "--split", "time", "-k", "1", "--users", "user 1")
    wrong = run("recommend", str(path), *fast, code=2)
    assert "a split by time needs times" in wrong.stderr
    assert "ndcg@10" in run("recommend", str(path), *fast, "--timestamp", "when").stdout


@pytest.mark.filterwarnings("always::UserWarning")
def test_one_moment_for_all_users_and_times_as_text(frame, tmp_path: Path):
    path = tmp_path / "timed.csv"
    days = pl.date_range(pl.date(2024, 1, 1), pl.date(2024, 1, 1) + pl.duration(days=len(frame) - 1), eager=True)
    frame.with_columns(timestamp=pl.Series(days).cast(pl.String) + "T12:00:00Z").write_csv(path)
    words = ("--model", "popularity", "--split", "global_time", "-k", "1", "--users", "user 1", "--holdout", "0.5")
    said = run("recommend", str(path), *words)
    assert "ndcg@10" in said.stdout
    assert "users of part 2 have no relevant item before it in time" in " ".join(said.stderr.split())


def test_new_users_are_recommended_to_without_training_again(table, frame, tmp_path: Path):
    saved, other = tmp_path / "model", tmp_path / "new.csv"
    run("recommend", str(table), "--model", "ease", "--holdout", "0", "--threads", "1", "-k", "1", "--save", str(saved))
    model: Any = rw.load(saved)
    liked = frame.filter((pl.col("user") == "user 3") & (pl.col("rating") >= 4))["item"].to_list()
    words = ("--history", ",".join(map(str, liked)), "-k", "2", "--json")
    told = json.loads(run("recommend", str(saved), *words).stdout)
    assert told["items"] == model.recommend(history=liked, cutoff=2).to_dicts()
    assert told["items"][0]["user"] == "new"
    rows = frame.filter(pl.col("user").is_in(["user 3", "user 5"])).with_columns(pl.col("user") + "b")
    rows.rename({"user": "who"}).write_csv(other)
    told = json.loads(
        run("recommend", str(saved), "--history", str(other), "--user", "who", "-k", "2", "--json").stdout
    )
    expected = model.recommend(["user 3", "user 5"], cutoff=2).with_columns(pl.col("user") + "b")
    assert told["items"] == expected.to_dicts()
    wrong = run("recommend", str(saved), "--history", "cats", code=2)
    assert "the ids of items are whole numbers here: got 'cats'" in wrong.stderr


def test_the_command_line_says_where_ratings_go(tmp_path: Path, monkeypatch):
    (tmp_path / "ml-100k").mkdir()
    (tmp_path / "ml-100k" / "u.data").write_text("1\t31\t2\t1260759144\n")
    monkeypatch.setenv("RANKWISE_DATA", str(tmp_path))
    wrong = run("train", "movielens-100k", "-o", str(tmp_path / "model"), code=2)
    assert "ratings are no ranking data: got movielens-100k. Hint: use 'rankwise recommend" in wrong.stderr
    wrong = run("recommend", "movielens-100k", code=2)
    assert "no user has 5 relevant items" in wrong.stderr


def test_titles_that_fit_no_item_are_said(table, tmp_path: Path):
    (tmp_path / "titles.csv").write_text("item,title\nnobody,Nothing\n")
    words = ("--model", "popularity", "--holdout", "0", "-k", "1", "--title-file", str(tmp_path / "titles.csv"))
    assert "no item has a title in" in run("recommend", str(table), *words).stderr
