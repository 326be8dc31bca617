"""Reading click logs: every kind of file and frame, bad rows with their place, positions from 0 and from 1."""

import datetime as dt
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import rankwise as rw
from rankwise.wings.clicks.logs import reading
from tests.refusals import refusal, refuses
from tests.wings.clicks.test_log import assert_same, rows

ROLES: Any = {
    "query": "text",
    "document": "sku",
    "impression": "search",
    "position": "rank",
    "clicked": "click",
    "ranker": "arm",
    "segment": "device",
    "user": "who",
    "weight": "times",
    "probability": "chance",
    "time": "when",
}
FEW: Any = {role: ROLES[role] for role in ("query", "document", "impression", "position", "clicked")}
GOOD = pl.DataFrame(
    {
        "text": ["tv"] * 4,
        "sku": ["a", "b", "b", "a"],
        "search": [1, 1, 2, 2],
        "rank": [1, 2, 1, 2],
        "click": [1, 0, 0, 1],
    }
)


def frame() -> pl.DataFrame:
    return rows().rename(ROLES)


def read(source: Any, **arguments: Any) -> rw.clicks.Log:
    return rw.clicks.read(source, **ROLES, **arguments)


def changed(row: int, **values: Any) -> pl.DataFrame:
    """Good rows as text, one of them with other values."""
    table = GOOD.cast(pl.String).to_dicts()
    table[row] |= values
    return pl.DataFrame(table, schema=dict.fromkeys(GOOD.columns, pl.String))


@pytest.mark.parametrize(
    ("times", "days"),
    [
        (pl.Series(["2024-05-01", "2024-05-02T23:59:59Z", "2024-05-02 23:00:00-02", "2024-05-02T00:30+01:00"]), "1231"),
        (pl.Series([1714521600, 1714607999, 1714608000, 1714694400]), "1123"),
        (pl.Series([1714521600123, 1714607999999, 1714608000000, 1714694400000]), "1123"),
        (pl.Series(["2024-05-01", "2024-05-01", "2024-05-02", "2024-05-02"]).str.to_date(), "1122"),
        (pl.Series(["2024-05-01T23:30"] * 4).str.to_datetime(time_zone="America/New_York"), "2222"),
        (pl.Series(["2024-05-01T23:30"] * 4).str.to_datetime(), "1111"),
    ],
)
def test_times_are_kept_by_day_in_utc(times: pl.Series, days: str) -> None:
    log = rw.clicks.read(GOOD.with_columns(when=times, search=pl.int_range(4)), **FEW, time="when")
    assert log.sessions is not None
    assert log.sessions.days is not None
    assert [int(day) - 19_843 for day in log.sessions.days] == [int(day) for day in days]
    assert log.days is not None
    assert log.days.impressions.sum() == 4
    plain = rw.clicks.read(GOOD.with_columns(search=pl.int_range(4)), **FEW)
    assert plain.days is None
    assert log.to_frame().equals(plain.to_frame())  # estimates do not change with times


@pytest.mark.parametrize("time", ["20240501", "01.05.2024", "", "2024-05-01T25:00", "2024-05-01T08:00 CEST", "17"])
def test_times_that_cannot_be_read_are_errors(time: str) -> None:
    with refusal(got="1 row with a time that is neither a date, ISO 8601 nor seconds since 1970 (of 4)"):
        rw.clicks.read(GOOD.with_columns(when=pl.Series(["2024-05-01"] * 3 + [time])), **FEW, time="when")


@pytest.mark.parametrize("time", [dt.time(1), dt.timedelta(hours=1), True])
def test_a_column_of_another_kind_holds_no_times(time: object) -> None:
    with refusal(got="4 rows with a time that is neither…"):
        rw.clicks.read(GOOD.with_columns(when=pl.Series([time] * 4)), **FEW, time="when")


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas", "arrow", "csv", "tsv.gz", "parquet", "categories"])
def test_every_source_is_the_same_log(kind: str, tmp_path: Path) -> None:
    table = frame()
    source: Any = {"polars": table, "lazy": table.lazy()}.get(kind)
    if kind == "pandas":
        pytest.importorskip("pandas")
        source = table.to_pandas()
    elif kind == "arrow":
        pytest.importorskip("pyarrow")
        source = table.to_arrow()
    elif kind == "csv":
        table.write_csv(source := tmp_path / "log.csv")
    elif kind == "tsv.gz":
        import gzip

        source = tmp_path / "log.tsv.gz"
        source.write_bytes(gzip.compress(table.write_csv(separator="\t").encode()))
    elif kind == "parquet":
        table.write_parquet(source := tmp_path / "log.parquet")
    elif kind == "categories":
        source = table.with_columns(pl.col("text", "sku", "arm").cast(pl.Categorical))
    log = read(source, sessions="v" not in kind)
    if log.sessions is None:  # ids of impressions are text in CSV files, so that their order differs
        assert log.to_frame().equals(rw.clicks.Log.from_rows(rows().lazy()).to_frame())
    else:
        assert_same(log, rw.clicks.Log.from_rows(rows().lazy()))
    assert log.notes == ()


def test_text_ids_of_impressions_keep_impressions_together() -> None:
    table = frame().with_columns(pl.col("search").cast(pl.String))
    log, numbers = read(table), read(frame())
    assert log.sessions is not None
    assert numbers.sessions is not None

    def lists(sessions: rw.clicks.Sessions) -> list[tuple[int, ...]]:
        return sorted(tuple(part.tolist()) for part in np.split(sessions.pairs, sessions.offsets[1:-1]))

    assert lists(log.sessions) == lists(numbers.sessions)


def test_several_files_a_pattern_and_a_folder(tmp_path: Path) -> None:
    table = frame()
    table[:70].write_parquet(tmp_path / "log-1.parquet")
    table[70:].write_parquet(tmp_path / "log-2.parquet")
    expected = read(table)
    for source in (tmp_path, str(tmp_path / "log-*.parquet"), [tmp_path / "log-1.parquet", tmp_path / "log-2.parquet"]):
        assert_same(read(source), expected)
    with pytest.raises(FileNotFoundError, match="no file"):
        read(tmp_path / "other-*.parquet")


def test_parts_of_a_large_log_are_added_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_PART", 7)
    monkeypatch.setattr(reading, "_HASHED_AT_ONCE", 11)
    expected = rw.clicks.Log.from_rows(rows().lazy()).to_frame()
    log = read(frame()).to_frame()
    assert log.drop("probability").equals(expected.drop("probability"))
    np.testing.assert_allclose(log["probability"], expected["probability"], rtol=1e-14)
    monkeypatch.setattr(reading, "_MOST_IN_SESSIONS", 20)
    summed = read(frame())
    assert summed.sessions is None
    assert "not kept one by one" in summed.notes[0]
    assert read(frame(), sessions=True).sessions is not None


BAD = {
    "click": ({"click": "maybe"}, "a click that is not 0, 1, true or false", "'maybe'"),
    "two clicks": ({"click": "2"}, "a click that is not 0, 1, true or false", "'2'"),
    "no click": ({"click": None}, "a click that is not 0, 1, true or false", "None"),
    "position": ({"rank": "-1"}, "a position that is not an integer from 0", "'-1'"),
    "half a position": ({"rank": "1.5"}, "a position that is not an integer from 0", "'1.5'"),
    "far away": ({"rank": "40000"}, "a position that is not an integer from 0", "'40000'"),
    "no query": ({"text": None}, "no query", "None"),
    "empty document": ({"sku": ""}, "no document", "''"),
    "no impression": ({"search": None}, "no impression", "None"),
    "document twice": ({"sku": "b", "rank": "3"}, "a document that is in its impression already", ""),
    "position twice": ({"rank": "1"}, "a position where its impression shows another document", ""),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_row_is_an_error_with_its_file_and_line(name: str, tmp_path: Path) -> None:
    values: Any
    values, what, value = BAD[name]
    changed(3, **values).write_csv(path := tmp_path / "log.csv", null_value="")
    with refusal(what="every row of a click log must be usable") as raised:
        rw.clicks.read(path, **FEW)
    message = str(raised.value)
    assert f"1 row with {what} (of 4)" in message
    assert f"{path}, line 5" in message
    if value not in {"None", "''"}:  # an empty cell of a CSV file is missing
        assert value in message


@pytest.mark.parametrize("name", BAD)
def test_bad_rows_can_be_left_out_with_their_number(name: str, tmp_path: Path) -> None:
    values: Any
    values, what, _ = BAD[name]
    changed(3, **values).write_parquet(path := tmp_path / "log.parquet")
    refuses(lambda: rw.clicks.read(path, **FEW), where="…log.parquet, row 3…")
    log = rw.clicks.read(path, **FEW, errors="drop")
    assert log.notes == (f"1 row with {what} left out",)
    assert log.to_frame().equals(rw.clicks.read(GOOD[:3], **FEW).to_frame())


def test_weights_and_probabilities_are_checked() -> None:
    table = GOOD.with_columns(w=pl.Series([1.0, -1.0, 0.0, 2.0]), p=pl.Series([1.0, 0.5, 0.5, 0.0]))
    refuses(lambda: rw.clicks.read(table, **FEW, probability="p"), got="1 row with a probability…", where="row 3 (0.0)")
    refuses(lambda: rw.clicks.read(table, **FEW, weight="w"), got="1 row with a weight…", where="row 1 (-1.0)")
    log = rw.clicks.read(table, **FEW, weight="w", errors="drop")
    assert log.impressions.tolist() == [1.0, 2.0]
    assert log.notes == ("1 row with a weight that is not a number from 0 left out", "1 rows of weight 0 left out")


def test_true_and_false_are_clicks() -> None:
    expected = rw.clicks.read(GOOD, **FEW).to_frame()
    for column in (pl.Series([True, False, False, True]), pl.Series(["TRUE", "false", "False", "true"])):
        assert rw.clicks.read(GOOD.with_columns(click=column), **FEW).to_frame().equals(expected)


def test_positions_from_zero_are_shifted_with_a_note() -> None:
    expected = rw.clicks.read(GOOD, **FEW).to_frame()
    log = rw.clicks.read(GOOD.with_columns(pl.col("rank") - 1), **FEW)
    assert log.to_frame().equals(expected)
    assert log.notes == ("positions were counted from 0: 1 was added",)
    assert rw.clicks.read(GOOD, **FEW, first=0).n_positions == 3


def test_positions_from_zero_and_one_are_named() -> None:
    mixed = GOOD.with_columns(rank=pl.Series([0, 1, 1, 2]), arm=pl.Series(["old", "old", "new", "new"]))
    with refusal(what="positions must all be counted from 0, or all from 1", got="1 rows at position 0 and 2…"):
        rw.clicks.read(mixed, **FEW)
    with pytest.warns(UserWarning, match="from 0 by the ranker 'old'.*from 1 by 'new'"):
        log = rw.clicks.read(mixed, **FEW, ranker="arm")
    assert log.to_frame().drop("ranker").equals(rw.clicks.read(GOOD, **FEW).to_frame().drop("ranker"))
    assert len(log.notes) == 1
    refuses(lambda: rw.clicks.read(GOOD, **FEW, first=2), what="the first position must be 0 or 1")


def test_position_zero_is_bad_where_positions_are_counted_from_one(tmp_path: Path) -> None:
    GOOD.with_columns(pl.col("rank") - 1).write_csv(path := tmp_path / "log.csv")
    with refusal(got="2 rows with a position that is not an integer from 1 (of 4)", where="…log.csv, line 2 ('0')…"):
        rw.clicks.read(path, **FEW, first=1)
    assert rw.clicks.read(path, **FEW, first=1, errors="drop").positions.tolist() == [1, 1]


@pytest.mark.parametrize("values", [[True, True, True, True], ["true", "2", "1", "2"]])
def test_only_clicks_may_be_truth_values(values: Any) -> None:
    with refusal(got="…with a position that is not an integer…"):
        rw.clicks.read(GOOD.with_columns(rank=pl.Series(values)), **FEW)


@pytest.mark.parametrize("kind", ["polars", "lazy", "pandas"])
def test_frames_have_the_columns_of_the_log(kind: str) -> None:
    log = rw.clicks.read(GOOD, **FEW)
    table = pl.DataFrame({"text": ["tv"] * 3, "sku": ["b", "c", "a"], "x": [1.0, 2.0, 3.0]})
    scores = table.select("text", "sku", score=pl.Series([1.0, 2.0, 3.0]))
    data = rw.RankingDataset.from_frame(table, query="text", document="sku", label=None)
    made: Any = {"polars": lambda one: one, "lazy": pl.DataFrame.lazy, "pandas": None}[kind]
    if made is None:
        pytest.importorskip("pandas")
        made = pl.DataFrame.to_pandas
    bias = rw.clicks.Bias.known([1.0, 0.5])
    rewards: list[Any] = [
        rw.clicks.targets(log, features, bias, "ips").document_rewards for features in (made(table), data)
    ]
    np.testing.assert_array_equal(*rewards)
    assert log.only(positions=1).id_columns == ("text", "sku")
    assert log.within(made(table[1:])).n_pairs == 1
    systems = {"new": made(scores), "old": made(scores.rename({"text": "query", "sku": "document"}))}
    with refusal(what="a frame of features must have the log's columns text and sku", got="columns sku, x"):
        rw.clicks.targets(log, made(table.drop("text")), bias)
    with refusal(what="a table of scores must have the columns text, sku, score", got="columns text, score"):
        rw.clicks.compare(systems | {"new": made(scores.drop("sku"))}, log, bias, made(table))


@pytest.mark.parametrize(
    ("columns", "guesses"),
    [
        ("user query_text sku search_id rank click", "query_text sku search_id rank click"),
        ("user_id user_query query_id doc_id position clicks", "user_query doc_id query_id position clicks"),
        ("Text SKU impressionId pos is_click", "Text SKU impressionId pos is_click"),
        ("user qury when", "qury"),
    ],
)
def test_columns_that_were_probably_meant(columns: str, guesses: str) -> None:
    names: Any = {role: role for role in FEW}
    with refusal(what="unknown columns…") as raised:
        rw.clicks.read(pl.DataFrame({name: ["1"] for name in columns.split()}), **names)
    for guess in guesses.split():
        assert guess in names.values() or f"='{guess}'" in str(raised.value).partition("; columns are")[0]
    assert "'user" not in str(raised.value).partition("; columns are")[0].replace("'user_query'", "")


@pytest.mark.parametrize(
    ("text", "arguments", "sentence"),
    [
        ("text,sku,search,rank,click\n", {}, "must have rows"),
        ("text,sku,search,rank\ntv,a,1,1\n", {}, "unknown column"),
        ("text,sku,search,rank,click\ntv,a,1,1,0\ntv,a,2,1,0\ntv,b,3,0,0\n", {}, "must all be counted"),
        ("text,sku,search,rank,click,who\ntv,a,1,1,0,x\ntv,b,1,2,0,y\n", {"user": "who"}, "must have one user"),
    ],
)
def test_errors_of_a_csv_file_name_it(text: str, arguments: Any, sentence: str, tmp_path: Path) -> None:
    (path := tmp_path / "log.csv").write_text(text)
    with pytest.raises(ValueError, match=rf"log\.csv: .*{sentence}"):
        rw.clicks.read(path, **FEW, **arguments)


def test_rankers_and_segments_may_be_numbers_or_truth_values() -> None:
    table = GOOD.with_columns(arm=pl.Series([2, 2, 10, 10]), mobile=pl.Series([True, True, False, False]))
    log = rw.clicks.read(table, **FEW, ranker="arm", segment="mobile")
    assert (log.ranker_names, log.segment_names) == (("10", "2"), ("false", "true"))
    assert log.only(rankers="2", segments="true").to_frame()["clicks"].to_list() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("role", "values"), [("ranker", ["o", "n", "n", "n"]), ("user", [1, 2, 3, 3]), ("weight", [1.0, 2.0, 1.0, 1.0])]
)
def test_an_impression_has_one_ranker_user_and_weight(role, values) -> None:
    table, named = GOOD.with_columns(value=pl.Series(values)), {**FEW, role: "value"}
    with pytest.raises(ValueError, match=f"an impression must have one {role}"):
        rw.clicks.read(table, **named)
    rw.clicks.read(table, **named, sessions=False)


def test_what_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with refusal(what="unknown column (query=)", got="'txt'", hint="did you mean query='text'…"):
        rw.clicks.read(GOOD, **FEW | {"query": "txt"})
    with refusal(what="the column of the document must hold integers or strings"):
        rw.clicks.read(GOOD.with_columns(sku=pl.lit(0.5)), **FEW)
    refuses(lambda: rw.clicks.read(GOOD[:0], **FEW), what="a click log must have rows", got="none")
    with refusal(what="a click log must have rows", got="none that can be used"):
        rw.clicks.read(GOOD.with_columns(click=pl.lit(7)), **FEW, errors="drop")
    (tmp_path / "log.txt").write_text("1 qid:1 1:2\n")
    with refusal(what="a click log is read from .csv, .tsv or .parquet files, of one kind"):
        rw.clicks.read(tmp_path / "log.txt", **FEW)
    refuses(lambda: rw.clicks.read(GOOD, **FEW, errors="ignore"), what="unknown way to treat bad rows")  # type: ignore[arg-type]
