"""A part of a log is what reading only those rows returns."""

import dataclasses
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.clicks import Days, Log, Sessions
from tests.refusals import refuses


def rows(n_impressions: int = 60) -> pl.DataFrame:
    random = np.random.default_rng(3)
    frames = []
    for number in range(n_impressions):
        size = int(random.integers(1, 5))
        frames.append(
            pl.DataFrame(
                {
                    "query": [f"q{number % 5}"] * size,
                    "document": random.permutation(["a", "b", "c", "d", "e"])[:size].tolist(),
                    "impression": [number] * size,
                    "position": list(range(1, size + 1)),
                    "clicked": random.integers(0, 2, size).tolist(),
                    "ranker": [("old", "new", "random")[number % 3]] * size,
                    "segment": [("phone", "desk")[number % 2]] * size,
                    "user": [f"u{number % 7}"] * size,
                    "weight": [1.0 + number % 2] * size,
                    "probability": random.uniform(0.1, 1, size).tolist(),
                    "time": [f"2024-05-0{1 + number % 9}T12:00:00Z"] * size,
                    "day": [19_844 + number % 9] * size,
                }
            )
        )
    return pl.concat(frames)


def assert_same(left: Log, right: Log) -> None:
    for name in (field.name for field in dataclasses.fields(Log)):
        if name == "probabilities":  # of single impressions they are kept in 32 bits
            np.testing.assert_allclose(getattr(left, name), getattr(right, name), rtol=1e-6)
        elif name not in {"sessions", "notes", "days", "id_columns"}:
            np.testing.assert_array_equal(getattr(left, name), getattr(right, name), err_msg=name)
    for name in (field.name for field in dataclasses.fields(Days)):
        np.testing.assert_array_equal(getattr(left.days, name), getattr(right.days, name), err_msg=name)
    for name in (field.name for field in dataclasses.fields(Sessions)):
        np.testing.assert_array_equal(getattr(left.sessions, name), getattr(right.sessions, name), err_msg=name)
        assert getattr(left.sessions, name).dtype == getattr(right.sessions, name).dtype, name


PARTS = {
    "ranker": ({"rankers": "new"}, pl.col("ranker") == "new"),
    "rankers": ({"rankers": ["old", "new"]}, pl.col("ranker").is_in(["old", "new"])),
    "segment": ({"segments": "desk"}, pl.col("segment") == "desk"),
    "positions": ({"positions": [2, 4]}, pl.col("position").is_in([2, 4])),
    "position": ({"positions": 3}, pl.col("position") == 3),
    "queries": ({"queries": np.array([0, 1, 0, 0, 1], bool)}, pl.col("query").is_in(["q1", "q4"])),
    "users": ({"users": np.array([1, 1, 0, 1, 0, 0, 1], bool)}, pl.col("user").is_in(["u0", "u1", "u3", "u6"])),
    "users and queries": (
        {"users": np.arange(7) == 2, "queries": np.array([0, 1, 0, 0, 1], bool), "rankers": "random"},
        (pl.col("user") == "u2") & pl.col("query").is_in(["q1", "q4"]) & (pl.col("ranker") == "random"),
    ),
    "all": (
        {"rankers": "old", "segments": ["desk"], "positions": range(1, 3), "queries": np.arange(5) > 2},
        (pl.col("ranker") == "old")
        & (pl.col("segment") == "desk")
        & (pl.col("position") < 3)
        & pl.col("query").is_in(["q3", "q4"]),
    ),
}


@pytest.mark.parametrize("name", PARTS)
def test_a_part_is_what_reading_these_rows_returns(name: str) -> None:
    arguments: Any
    arguments, condition = PARTS[name]
    part = Log.from_rows(rows().lazy()).only(**arguments)
    assert_same(part, Log.from_rows(rows().filter(condition).lazy()))


def test_a_part_without_sessions_has_none() -> None:
    part = Log.from_rows(rows().lazy(), sessions=False).only(rankers="new", positions=[1])
    assert part.sessions is None
    assert part.n_positions == 1


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        ({"rankers": "nobody"}, {"what": "the ranker must be in the log"}),
        ({"segments": ["nowhere"]}, {"what": "the segment must be in the log"}),
        ({"queries": [0, 1]}, {"what": "queries must be a truth value for each query of the log"}),
        ({"users": [True]}, {"what": "users must be a truth value for each user of the log"}),
        ({"users": np.arange(7) < 3, "queries": [True]}, {"what": "…a truth value for each query…"}),
        ({"positions": 99}, {"what": "a part of a log must have rows"}),
    ],
)
def test_a_part_of_nothing_is_an_error(arguments: dict[str, object], fields: dict[str, str]) -> None:
    refuses(lambda: Log.from_rows(rows().lazy()).only(**arguments), **fields)  # type: ignore[arg-type]


def test_pairs_without_features_are_left_out_with_a_note() -> None:
    log = Log.from_rows(rows().lazy())
    data = rw.RankingDataset(
        np.zeros((8, 1)),
        np.zeros(8),
        [0, 4, 8],
        query_ids=["q1", "q3"],
        document_ids=["a", "b", "c", "d", "e", "a", "b", "x"],
    )
    part = log.within(data)
    has_features = (pl.col("query") == "q1") & (pl.col("document") != "e")
    has_features |= (pl.col("query") == "q3") & pl.col("document").is_in(["a", "b", "e"])
    assert_same(part, Log.from_rows(rows().filter(has_features).lazy()))
    assert "left out" in part.notes[-1]
    assert f"{log.n_pairs - part.n_pairs} of {log.n_pairs} pairs" in part.notes[-1]
    assert part.rows_in(data).size == part.n_pairs
    assert part.within(data) is part


def test_the_frame_has_a_row_for_each_cell() -> None:
    log = Log.from_rows(rows().lazy())
    keys = ["query", "document", "position", "ranker", "segment"]
    sums = (
        rows()
        .group_by(keys)
        .agg(
            impressions=pl.col("weight").sum(),
            clicks=(pl.col("weight") * pl.col("clicked")).sum(),
            probability=(pl.col("weight") * pl.col("probability")).sum() / pl.col("weight").sum(),
        )
    )
    frame = log.to_frame()
    assert frame.sort(keys).select(keys).equals(sums.sort(keys).select(keys))
    for name in ("impressions", "clicks", "probability"):
        np.testing.assert_allclose(frame.sort(keys)[name], sums.sort(keys)[name])


def test_the_order_of_rows_and_parts_does_not_matter() -> None:
    table, expected = rows(), Log.from_rows(rows().lazy())
    parts = [part.lazy() for part in table.sample(fraction=1.0, shuffle=True, seed=5).iter_slices(17)]
    log = Log.from_rows(parts)
    np.testing.assert_allclose(log.probabilities, expected.probabilities, rtol=1e-14)  # type: ignore[arg-type]
    assert_same(dataclasses.replace(log, probabilities=expected.probabilities), expected)


def test_ids_that_are_numbers_stay_numbers_in_their_order() -> None:
    table = {"query": [10, 10, -2], "document": [7, 123, 7], "impression": [1, 1, 2], "position": [1, 9, 1]}
    log = Log.from_rows(pl.LazyFrame(table | {"clicked": [0, 1, 1]}))
    assert log.query_ids.tolist() == [-2, 10]
    assert log.document_ids.tolist() == [7, 7, 123]
    assert log.positions.tolist() == [1, 1, 9]
    assert log.offsets.tolist() == [0, 1, 3]
    assert log.sessions is not None
    assert log.sessions.pairs.tolist() == [0, 1, 2]
