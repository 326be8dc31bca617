"""Ratings: how they are read, divided among folds and made into lists, and that nothing leaks on the way."""

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.recommend.data import titles
from tests import shared
from tests.refusals import refusal, refuses


def ratings(n_users=12, n_items=200, each=40, seed=5, **columns) -> tuple[Any, pl.DataFrame]:
    """Ratings of 1 to 5 in random order; about two fifths are 4 or more."""
    rng = np.random.default_rng(seed)
    rows = [
        (f"u{user:02}", int(item) * 3, int(rng.integers(1, 6)), int(rng.integers(0, 10**6)))
        for user in range(n_users)
        for item in rng.choice(n_items, each, replace=False)
    ]
    frame = pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row").sample(
        fraction=1.0, shuffle=True, seed=seed
    )
    return rw.recommend.Interactions.from_frame(frame, **columns), frame


def relevant_pairs(frame):
    return set(frame.filter(pl.col("rating") >= 4).select("user", "item").iter_rows())


def pairs(data, label=None):
    wanted = np.ones(data.n_docs, bool) if label is None else data.labels == label
    return set(zip(data.qids()[wanted].tolist(), data.document_ids[wanted].tolist(), strict=True))


def test_a_table_in_any_order_has_the_same_rows():
    made, frame = ratings(time="time")
    assert made.to_frame().equals(frame.sort("user", "item").cast({"rating": pl.Float64}))
    assert (made.n_users, made.n_ratings, made.n_relevant) == (12, 480, len(relevant_pairs(frame)))
    assert made.catalogue.tolist() == sorted(frame["item"].unique())
    assert len(made) == 12


@pytest.mark.parametrize("name", ["r.csv", "r.csv.gz", "r.parquet", "u.data", "ratings.dat", "r.tsv"])
def test_files_of_every_kind_are_read_alike(tmp_path: Path, name: str):
    made, frame = ratings(n_users=3, time="time")
    frame = frame.with_columns(pl.col("user").str.slice(1).cast(pl.Int64))
    path = tmp_path / name
    if name == "r.parquet":
        frame.rename({"user": "user_id", "item": "item_id"}).write_parquet(path)
    else:
        header = "csv" in name or "tsv" in name
        between = "," if "csv" in name else "\t"
        text = frame.rename({"user": "userId", "item": "movieId", "time": "timestamp"}).write_csv(
            separator=between, include_header=header
        )
        text = text.replace("\t", "::") if name == "ratings.dat" else text
        path.write_bytes(gzip.compress(text.encode()) if name.endswith("gz") else text.encode())
    assert rw.recommend.Interactions.read(path).to_frame().drop("user").equals(made.to_frame().drop("user"))
    assert rw.recommend.Interactions.read(path).users.tolist() == [0, 1, 2]


def test_pandas_dates_and_events_without_ratings():
    import pandas as pd

    frame = pd.DataFrame(
        {"who": ["b", "a"], "what": [7, 7], "when": pd.to_datetime(["2020-01-02 00:00", "1970-01-01 00:01"])}
    )
    made = rw.recommend.Interactions.from_frame(frame, user="who", item="what", rating=None, time="when")
    assert made.to_frame().rows() == [("a", 7, 1.0, 60), ("b", 7, 1.0, 1577923200)]
    assert made.n_relevant == 2


def test_users_with_too_few_relevant_items_are_left_out_and_counted():
    made, frame = ratings(n_users=30, each=20)
    counts = frame.filter(pl.col("rating") >= 4).group_by("user").len()
    kept = counts.filter(pl.col("len") >= 9)["user"].sort().to_list()
    assert 0 < len(kept) < 30
    few = rw.recommend.Interactions.from_frame(frame, least_relevant=9)
    assert few.users.tolist() == made.active(9).users.tolist() == kept
    assert few.catalogue.tolist() == made.catalogue.tolist()
    assert f"left out: {30 - len(kept)} users with fewer than 9" in repr(few)


def test_every_user_is_spread_evenly_over_the_folds():
    made, frame = ratings()
    relevant = relevant_pairs(frame)
    tests = []
    for train, test in made.folds(5, seed=3):
        held = pairs(test.dataset(0))
        assert held == relevant_pairs(test.to_frame())
        assert pairs(train.dataset(0)) == relevant - held
        tests.append(held)
        for user in made.users.tolist():
            count, part = (sum(one == user for one, _ in some) for some in (relevant, held))
            assert part in (count // 5, -(-count // 5))
    assert set.union(*tests) == relevant
    assert sum(map(len, tests)) == len(relevant)
    again = [pairs(test.dataset(0)) for _, test in made.folds(5, seed=4)]
    assert again != tests


@pytest.mark.parametrize("n_items", [200, 3000])  # a pool that is listed, and one that is drawn from
@pytest.mark.parametrize("negatives", [1, 3])
def test_lists_hold_exactly_the_ratio_and_nothing_leaks(n_items, negatives):
    made, frame = ratings(n_items=n_items, catalogue=np.arange(n_items) * 3)
    relevant = relevant_pairs(frame)
    for train, test in made.folds(3, seed=1):
        lists = [part.dataset(negatives, seed=7) for part in (train, test)]
        for data in lists:
            per_user = np.add.reduceat(data.labels, data.offsets[:-1])
            assert np.array_equal(data.sizes, per_user * (1 + negatives))
            assert len(pairs(data)) == data.n_docs  # no item twice
            assert not pairs(data, 0.0) & relevant
            assert all(
                (np.diff(data.document_ids[a:b]) > 0).all()
                for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True)
            )
        assert not pairs(lists[0]) & pairs(lists[1])


def test_redrawn_negatives_stay_out_of_the_test_lists():
    made, _ = ratings()
    train, test = next(made.folds(4, seed=2))
    candidates = pairs(test.dataset("all"))
    drawn = set.union(*(pairs(train.dataset(1, round=k)) for k in range(30)))
    assert not drawn & candidates
    assert pairs(train.dataset(1, round=0)) != pairs(train.dataset(1, round=1))
    everything = {(user, item) for user in made.users.tolist() for item in made.catalogue.tolist()}
    assert pairs(train.dataset("all")) | candidates == everything


def test_training_that_knows_nothing_of_held_out_items_draws_them_like_any_other():
    made, frame = ratings()
    train, test = next(made.folds(4, seed=2, spare_held_out=False))
    held = relevant_pairs(test.to_frame())
    pool = pairs(train.dataset("all"), 0.0)
    share = len(held & pool) / len(held)
    assert 0.6 < share < 0.9  # three quarters: a place in the training part is as likely as for any other item
    assert not relevant_pairs(train.to_frame()) & pool
    assert not pairs(test.dataset("all"), 0.0) & relevant_pairs(frame)


@pytest.mark.parametrize("n_items", [150, 4000])
def test_a_list_depends_on_its_user_alone(n_items):
    made, frame = ratings(n_items=n_items, catalogue=np.arange(n_items) * 3)
    train, _ = next(made.folds(5, seed=6))
    whole = train.dataset(2, seed=9)
    turned = train.take(np.arange(made.n_users)[::-1]).dataset(2, seed=9)
    with rw.use_threads(3):
        some = train.take([2, 7]).dataset(2, seed=9)
    part: Any = rw.recommend.Interactions.from_frame(
        frame.filter(pl.col("user").is_in(["u02", "u07"])), catalogue=made.catalogue
    )
    alone: Any = next(part.folds(5, seed=6))[0].dataset(2, seed=9)
    for other in (turned, some, alone):
        numbers = [whole.query_ids.tolist().index(user) for user in other.query_ids.tolist()]
        same = whole.take(numbers)
        assert np.array_equal(same.document_ids, other.document_ids)
        assert np.array_equal(same.labels, other.labels)
    assert not np.array_equal(train.dataset(2, seed=10).document_ids, whole.document_ids)


@pytest.mark.parametrize("n_items", [60, 900])
def test_every_item_is_drawn_as_often_as_another(n_items):
    frame = pl.DataFrame({"user": [1] * 20, "item": range(20), "rating": [5] * 10 + [1] * 10})
    made = rw.recommend.Interactions.from_frame(frame, catalogue=np.arange(n_items))
    counts = np.zeros(n_items)
    draws = 400 * n_items // 60
    for seed in range(draws):
        lists = made.lists(2, seed=seed)
        counts[lists.items[lists.labels == 0]] += 1
    assert not counts[:10].any()
    chance = 20 / (n_items - 10)
    expected = draws * chance
    chi = ((counts[10:] - expected) ** 2 / (expected * (1 - chance))).sum()
    free = n_items - 11
    assert abs(chi - free) < 5 * np.sqrt(2 * free)


def test_a_user_with_too_few_other_items_gets_all_of_them():
    frame = pl.DataFrame({"user": [1] * 4, "item": range(4), "rating": [5, 5, 5, 1]})
    made: Any = rw.recommend.Interactions.from_frame(frame)
    assert made.dataset(2).document_ids.tolist() == [0, 1, 2, 3]
    assert made.dataset("all").labels.tolist() == [1, 1, 1, 0]


def test_users_without_relevant_items_have_no_list_and_ratings_can_be_grades():
    frame = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3], "rating": [5.0, 4.5, 1.0]})
    data: Any = rw.recommend.Interactions.from_frame(frame).dataset(1, graded=True)
    assert data.query_ids.tolist() == [1]
    assert data.labels.tolist() == [5.0, 4.5, 0.0]


def test_a_split_by_time_holds_out_the_latest():
    made, frame = ratings(time="time")
    train, valid, test = made.split((0.6, 0.2, 0.2), by="time", seed=2)
    parts = [part.to_frame().filter(pl.col("rating") >= 4) for part in (train, valid, test)]
    assert sum(map(len, parts)) == made.n_relevant
    for user in made.users.tolist():
        early, middle, late = (part.filter(pl.col("user") == user)["time"].sort() for part in parts)
        assert early[-1] < middle[0]
        assert middle[-1] < late[0]
    count = frame.filter(pl.col("rating") >= 4).group_by("user").len()["len"].to_numpy()
    assert abs(len(parts[2]) - 0.2 * count.sum()) < 12


def test_a_part_can_be_split_again():
    made, frame = ratings()
    train, test = next(made.folds(5))
    fit, check = train.split((0.75, 0.25), seed=8)
    lists = [part.dataset("all") for part in (fit, check, test)]
    labelled = [pairs(data, 1.0) for data in lists]
    assert set.union(*labelled) == relevant_pairs(frame)
    assert sum(map(len, labelled)) == made.n_relevant
    for one in range(3):
        for other in range(one):
            assert not pairs(lists[one]) & pairs(lists[other])


@pytest.mark.parametrize(
    ("call", "fields"),
    [
        (
            lambda f: rw.recommend.Interactions.from_frame(f, user="usr"),
            {"what": "the table has no such column for the user", "got": "'usr'", "hint": "…mean 'user'…"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(pl.concat([f, f])),
            {"what": "a user may rate an item once", "got": "user 'u00' and item 0 twice"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f, least_relevant=99),
            {"what": "no user has 99 relevant items", "got": "at most…"},
        ),
        (lambda f: rw.recommend.Interactions.from_frame(f, catalogue=[3]), {"what": "an item is not in the catalogue"}),
        (
            lambda f: rw.recommend.Interactions.from_frame(f).split(by="time"),
            {"what": "a split by time needs times", "hint": "name their column…"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f).split(by="size"),
            {"what": "unknown way to split", "got": "'size'"},
        ),
        (
            lambda f: next(rw.recommend.Interactions.from_frame(f).folds(1)),
            {"what": "n, the number of folds, must be a whole number of at least 2"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f).dataset("some"),
            {"what": "negatives (or 'all') must be a whole number of at least 0"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f.with_columns(rating=pl.lit("x"))),
            {"what": "the column of the rating must hold numbers", "got": "'x', String", "where": "row 0"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f.with_columns(rating=pl.lit(np.nan))),
            {"what": "ratings must be finite", "got": "nan", "where": "row 0"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f.with_columns(user=pl.lit(0.5))),
            {"what": "the column of the user must hold integers or strings", "got": "0.5, Float64", "where": "row 0"},
        ),
        (
            lambda f: rw.recommend.Interactions.from_frame(f.with_columns(user=pl.lit(None, pl.Int64))),
            {"what": "the user must be known in every row", "got": "null"},
        ),
    ],
)
def test_errors_of_tables(call, fields):
    _, frame = ratings(n_users=3)
    refuses(lambda: call(frame), **fields)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        (
            "user,item,rating\n1,2,3\n1,5,x\n",
            {"what": "the column of the rating must hold numbers", "got": "'x', String", "where": "line 3"},
        ),
        (
            "user,item,rating\n1,2,3\n\n1,5,\n",
            {"what": "the rating must be known in every row", "got": "null", "where": "line 4"},
        ),
        ("user,item,rating\n1,2,1e400\n", {"what": "ratings must be finite", "got": "inf", "where": "line 2"}),
        ("user,item,rating\n1,2,nan\n", {"what": "ratings must be finite", "got": "nan", "where": "line 2"}),
        (
            "user,item,rating\n1,2,3,4\n",
            {"what": "a line must have as many columns as the first one, 3", "where": "…ratings.csv, line 2"},
        ),
        (
            'user,item,rating\n1,"a\nb",3\n1,2,x\n',
            {"what": "the column of the rating must hold numbers", "got": "'x', String", "where": "line 4"},
        ),
        (
            'user,item,rating\n1,2,3\n1,"4,5\n2,2,3\n',
            {"what": "a line cannot be read as columns of a table", "where": "…ratings.csv, line 3"},
        ),
        (
            "1,2,3\n1,4,5\n1,2,4\n",
            {"what": "a user may rate an item once", "got": "user 1 and item 2 twice", "where": "line 1 and line 3"},
        ),
        (
            "1::2::3::x\n",
            {"what": "…time must hold numbers, dates or date-times", "got": "'x', String", "where": "line 1"},
        ),
        (
            "1\t2\t3\t1e30\n",
            {"what": "times must be finite numbers of at most 64 bits", "got": "1e+30", "where": "line 1"},
        ),
        ("user,item,rating\n", {"what": "there are no ratings in the file"}),
        ("", {"what": "there are no ratings in the file"}),
        ("user,thing\n1,2\n", {"what": "the table has no such column for the item", "got": "'item'"}),
        ("user,item,rating\n1,2,3\n1,\xff,3\n", {"what": "text must be UTF-8", "where": "…ratings.csv, line 3"}),
    ],
)
def test_errors_of_files_name_the_line(tmp_path, text, fields):
    path = tmp_path / "ratings.csv"
    path.write_bytes(text.encode("latin-1"))
    with refusal(**fields) as caught:
        rw.recommend.Interactions.read(path)
    assert str(path) in str(caught.value)


def test_blank_lines_and_numbers_in_quotes_are_read(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text('user,item,rating\n\n1,2," 4"\n\n1,3,"5"\n\n')
    assert rw.recommend.Interactions.read(path).ratings.tolist() == [4, 5]


def test_a_file_that_is_no_table_is_rejected(tmp_path: Path):
    path = tmp_path / "broken.parquet"
    path.write_bytes(b"PAR1 nothing")
    refuses(lambda: rw.recommend.Interactions.read(path), what="cannot read Parquet", where="…broken.parquet")


def test_the_protocol_of_the_thesis_on_movielens():
    """Counted by polars alone: relevant from 4 on, users with at least 25 relevant items, 5 folds."""
    folder = shared.data("ml-latest-small")
    frame = pl.read_csv(gzip.decompress((folder / "ratings.csv.gz").read_bytes()))
    active = frame.filter(pl.col("rating") >= 4).group_by("userId").len().filter(pl.col("len") >= 25)
    made = rw.load_dataset("ml-latest-small", folder=folder.parent).active(25)
    assert set(made.users.tolist()) == set(active["userId"])
    assert made.n_relevant == active["len"].sum()
    assert made.n_items == frame["movieId"].n_unique()
    assert f"left out: {610 - len(active)} users with fewer than 25" in repr(made)
    for train, test in made.folds(5, seed=1):
        for negatives in (1, 3):
            lists = test.dataset(negatives)
            held = np.add.reduceat(lists.labels, lists.offsets[:-1])
            assert held.min() >= 5
            assert np.array_equal(lists.sizes, (1 + negatives) * held)
        given = train.dataset(1)
        assert np.add.reduceat(given.labels, given.offsets[:-1]).min() >= 20


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_columns_are_named_whatever_they_are_called(tmp_path: Path, ending):
    """Also by names that we would have found ourselves, and where others would be taken for them."""
    frame = pl.DataFrame(
        {"userId": [1, 2], "customer": ["a", "b"], "item": [7, 8], "sku": [5, 6], "stars": [5, 1], "worth": [4.0, 5.0]}
    )
    path = tmp_path / f"table{ending}"
    frame.write_csv(path) if ending == ".csv" else frame.write_parquet(path)
    assert rw.recommend.Interactions.read(path, user="userId", item="item").users.tolist() == [1, 2]
    other = rw.recommend.Interactions.read(path, user="customer", item="sku", rating="worth")
    assert other.users.tolist() == ["a", "b"]
    assert other.catalogue.tolist() == [5, 6]
    assert other.ratings.tolist() == [4.0, 5.0]
    with refusal(what="the table has no such column for the user", got="'custmer'", hint="did you mean 'customer'…"):
        rw.recommend.Interactions.read(path, user="custmer")


def test_without_ratings_rows_are_events(tmp_path: Path):
    (tmp_path / "clicks.csv").write_text("userId,itemId,timestamp\n1,a,5\n1,a,9\n1,b,1\n2,a,3\n")
    events = rw.recommend.Interactions.read(tmp_path / "clicks.csv")
    assert events.counted
    assert events.to_frame().rows() == [(1, "a", 2.0, 9), (1, "b", 1.0, 1), (2, "a", 1.0, 3)]
    assert events.n_relevant == 3
    parts = events.split((0.5, 0.5), seed=1)
    assert all(part.counted for part in parts)
    with refusal(what="the table has no such column for the rating", got="'stars'"):
        rw.recommend.Interactions.read(tmp_path / "clicks.csv", rating="stars")


def test_folders_as_movielens_comes(tmp_path: Path):
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "u.data").write_text("1\t31\t2\t1260759144\n")
    (tmp_path / "old" / "u.item").write_bytes("31|Léon (1994)|01-Jan-1994\n32|Up|x\n".encode("latin-1"))
    assert rw.recommend.Interactions.read(tmp_path / "old").catalogue.tolist() == [31]
    found = titles.beside(tmp_path / "old")
    assert found == titles.beside(tmp_path / "old" / "u.data") == tmp_path / "old" / "u.item"
    assert titles.read_titles(found).rows() == [("31", "Léon (1994)"), ("32", "Up")]
    (tmp_path / "new").mkdir()
    assert titles.beside(tmp_path / "new") is None
    with refusal(what="there are no ratings", got="an empty folder", where="…new", hint="name the file…"):
        rw.recommend.Interactions.read(tmp_path / "new")


def test_titles_by_columns(tmp_path: Path):
    (tmp_path / "movies.csv").write_text('genres,movieId,title,länge\nx,1,"Heat, the film",3\ny,2,,4\n')
    table = titles.read_titles(tmp_path / "movies.csv")
    assert table.rows() == [("1", "Heat, the film"), ("2", "")]
    assert titles.read_titles(tmp_path / "movies.csv", item="länge", title="genres").rows() == [("3", "x"), ("4", "y")]
    assert titles.titles_of(np.array([9, 1]), table).to_list() == [None, "Heat, the film"]
    with refusal(about="…movies.csv", what="the table has no such column", got="'titel'", hint="did you mean 'title'"):
        titles.read_titles(tmp_path / "movies.csv", title="titel")
    (tmp_path / "movies.dat").write_text("1::Toy Story (1995)::Comedy\n")
    assert titles.read_titles(tmp_path / "movies.dat").rows() == [("1", "Toy Story (1995)")]
    (tmp_path / "one.csv").write_text("title\nx\n")
    with refusal(what="a table of titles must have two columns at least", where="…one.csv"):
        titles.read_titles(tmp_path / "one.csv")
    pl.DataFrame({"item": ["a"], "name": ["A"]}).write_parquet(tmp_path / "t.parquet")
    assert titles.read_titles(tmp_path / "t.parquet").rows() == [("a", "A")]
