"""Times of ratings: how they are written, one cut in time for all users, and interactions that are joined."""

import datetime as dt
import itertools
import warnings
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from tests.refusals import refusal, refuses

BERLIN = dt.timezone(dt.timedelta(hours=2))


def times(values):
    """The times of one user's events, in the order of the items."""
    frame = pl.DataFrame({"user": ["u"] * len(values), "item": range(len(values)), "when": values})
    return rw.recommend.Interactions.from_frame(frame, rating=None, time="when").times


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        (["2024-01-01", "1970-01-01"], [1704067200, 0]),
        (["2024-01-01T00:00:00Z", "2024-01-01T02:00:00+02:00", "2023-12-31 23:00:00-01:00"], [1704067200] * 3),
        (["2024-01-01 00:00:01", "2024-01-01 00:00"], [1704067201, 1704067200]),
        (["1970-01-01T00:00:01.25Z", "1970-01-01T00:00:02Z"], [1.25, 2.0]),
        (["1970-01-02", "1970-01-01T00:00:00.5"], [86400.0, 0.5]),
        ([dt.datetime(1970, 1, 1, 2, 0, 0, 500_000, BERLIN)], [0.5]),
        ([dt.date(1970, 1, 3)], [172800]),
        ([1.5, 2.0], [1.5, 2.0]),
        ([1.0, 2.0], [1, 2]),
        ([" 1672531200123456789", "5"], [1672531200123456789, 5]),  # too long for a double
    ],
)
def test_times_are_numbers_dates_or_iso_text(values, expected):
    found = times(values)
    assert found.tolist() == expected
    assert found.dtype.kind == ("i" if isinstance(expected[0], int) else "f")


@pytest.mark.parametrize(
    ("values", "fields"),
    [
        (
            ["2024-01-01", "31.5.2024"],
            {
                "what": "…must hold numbers, dates or date-times",
                "got": "'31.5.2024', String",
                "where": "row 1",
                "hint": "write…",
            },
        ),
        (
            ["2024-01-01T00:00:00Z", "2024-01-01"],
            {"what": "some times name a zone and others do not", "got": "'2024-01-01'", "where": "row 1"},
        ),
        ([dt.time(1)], {"what": "the column of the time must hold numbers, dates or date-times"}),
        ([1.0, float("nan")], {"what": "times must be finite numbers of at most 64 bits"}),
    ],
)
def test_values_that_are_no_times_are_rejected(values, fields):
    refuses(lambda: times(values), **fields)


def test_fractions_of_a_second_decide_which_is_the_latest(tmp_path: Path):
    path = tmp_path / "events.csv"
    seconds = ("40.250", "40.125", "40.5")
    lines = [f"ann,{item},2024-05-31T18:30:{second}+02:00" for item, second in enumerate(seconds)]
    path.write_text("\n".join(["user,item,timestamp", *lines]))
    _, test = rw.recommend.Interactions.read(path).split((0.67, 0.33), by="time", seed=1)
    assert test.to_frame()["item"].to_list() == [2]


def moments(n_users=30, n_items=60, seed=2):
    """Ratings at whole minutes, so that many have the same time."""
    rng = np.random.default_rng(seed)
    rows = [
        (user, int(item), int(rng.integers(1, 6)), 20 * user + int(rng.integers(0, 300)))
        for user in range(n_users)
        for item in rng.choice(n_items, 20, replace=False)
    ]
    return pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row")


def test_one_cut_in_time_for_all_users_leaves_nothing_of_the_future_before_it():
    frame = moments()
    ratings = rw.recommend.Interactions.from_frame(frame, time="time")
    with pytest.warns(UserWarning, match="users of part") as told:
        parts = ratings.split((0.5, 0.2, 0.3), by="global_time")
    tables = [part.to_frame() for part in parts]
    assert pl.concat(tables).sort("user", "item").equals(ratings.to_frame())
    for early, late in itertools.pairwise(tables):
        assert max(early["time"]) < min(late["time"])  # of all ratings, the low ones too
    shares = [part.n_relevant / ratings.n_relevant for part in parts]
    assert shares == pytest.approx([0.5, 0.2, 0.3], abs=0.03)
    users = [set(table.filter(pl.col("rating") >= 4)["user"]) for table in tables]
    new = {2: users[1] - users[0], 3: users[2] - users[1] - users[0]}
    expected = [
        f"{len(names)} of the {len(users[part - 1])} users of part {part} have no relevant item before it in time"
        for part, names in new.items()
        if names
    ]
    assert [str(one.message).partition(":")[0] for one in told] == expected


def test_new_users_of_a_cut_in_time_get_what_is_popular():
    ratings = rw.recommend.Interactions.from_frame(moments(), time="time")
    with pytest.warns(UserWarning, match="users of part 2"):
        train, test = ratings.split((0.7, 0.3), by="global_time", spare_held_out=False)
    found = rw.recommend.evaluate_interactions(rw.recommend.EASE().fit(train), test, "recall@20", exclude=train)
    assert found.query_ids.size == (np.diff(test.relevant_items()[0]) > 0).sum()


def test_splits_by_time_of_each_user_do_not_warn_and_equal_times_stay_together():
    ratings = rw.recommend.Interactions.from_frame(moments(), time="time")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ratings.split((0.7, 0.3), by="time")
    same = rw.recommend.Interactions.from_frame(moments().with_columns(time=pl.lit(7)), time="time")
    with refusal(what="one cut in time leaves a part empty", got="parts of 226, 0 relevant ratings"):
        same.split((0.7, 0.3), by="global_time")
    with refusal(what="a split by time needs times"):
        rw.recommend.Interactions.from_frame(moments()).split(by="global_time")


def joinable(rows, **columns):
    frame = pl.DataFrame(rows, schema=["user", "item", "rating", "time"], orient="row")
    return rw.recommend.Interactions.from_frame(frame, time="time", **columns)


def test_joined_interactions_have_the_users_and_items_of_all():
    one = joinable([("a", 1, 5.0, 1), ("a", 2, 3.0, 2), ("b", 1, 4.0, 3)])
    two = joinable([("b", 1, 1.0, 0), ("c", 9, 5.0, 5), ("a", 2, 5.0, 7)])
    refuses(lambda: rw.concatenate([one, two]), got="user 'a' and item 2 twice", hint="say which …duplicates='last'…")
    for policy, twice in {"first": (3.0, 1.0), "last": (5.0, 4.0), "max": (5.0, 4.0)}.items():
        rows = rw.concatenate([one, two], duplicates=policy).to_frame().drop("time").rows()
        assert rows == [("a", 1, 5.0), ("a", 2, twice[0]), ("b", 1, twice[1]), ("c", 9, 5.0)]
    events = rw.recommend.Interactions.from_frame(pl.DataFrame({"user": [1, 1, 2], "item": [5, 5, 6]}), rating=None)
    assert rw.concatenate([events, events]).to_frame().rows() == [(1, 5, 4.0), (2, 6, 2.0)]


def test_parts_that_are_joined_are_the_whole_again():
    ratings = rw.recommend.Interactions.from_frame(moments(), time="time").active(5)
    parts = ratings.split((0.6, 0.2, 0.2), seed=3)
    whole = rw.concatenate(parts)
    assert whole.to_frame().equals(ratings.to_frame())
    assert whole.catalogue.tolist() == ratings.catalogue.tolist()
    both = rw.concatenate(parts[:2])
    assert both.n_relevant == parts[0].n_relevant + parts[1].n_relevant
    np.testing.assert_array_equal(
        rw.recommend.EASE().fit(whole).matrix([3]), rw.recommend.EASE().fit(ratings).matrix([3])
    )


def test_interactions_of_different_kinds_are_not_joined():
    one = joinable([("a", 1, 5.0, 1)])
    events = rw.recommend.Interactions.from_frame(pl.DataFrame({"user": ["a"], "item": [2]}), rating=None)
    timeless = rw.recommend.Interactions.from_frame(pl.DataFrame({"user": ["b"], "item": [2], "rating": [5.0]}))
    for other, message in (
        (events, "must agree in counted: got False, True"),
        (joinable([("b", 1, 5.0, 1)], relevant=3.0), "must agree in relevant: got 3.0, 4.0"),
        (joinable([(7, 1, 5.0, 1)]), "ids of users must be of one kind: got integers and text"),
        (timeless, "have times and some do not"),
        (rw.synthetic(n_queries=2, n_docs=2), "joins ranking data, or interactions: got Interactions, RankingDataset"),
    ):
        with pytest.raises(ValueError, match=message):
            rw.concatenate([one, other])  # type: ignore[list-item]
    with refusal(what="events that were counted add up", got="duplicates='last'"):
        rw.concatenate([events, events], duplicates="last")
    with refusal(hint="duplicates= belongs to interactions"):
        rw.concatenate([rw.synthetic(n_queries=2, n_docs=2)], duplicates="last")  # type: ignore[list-item]


@pytest.mark.parametrize("header", ["user;item;rating\n", ""])
def test_semicolons_and_decimal_commas(tmp_path, header):
    path = tmp_path / "ratings.csv"
    path.write_text(header + "1;a;4,5\n1;b;3\n2;a;1,5\n")
    assert rw.recommend.Interactions.read(path).to_frame()["rating"].to_list() == [4.5, 3.0, 1.5]
