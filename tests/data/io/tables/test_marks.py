"""Numbers as spreadsheets write them: what is read without a word, what with a warning, and what is refused."""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.cli.running import run
from tests.refusals import refusal


def written(folder: Path, cells: list[str], between: str = ";", *, beside: list[str] | None = None) -> Path:
    """Write a file with a column x of these cells, and perhaps another, y."""
    quote = '"' if between == "," else ""
    lines = [between.join(["qid", "label", "x", *(["y"] if beside else [])])]
    for row, cell in enumerate(cells):
        others = [f"{quote}{one[row]}{quote}" for one in ([beside] if beside else [])]
        lines.append(between.join(["1", str(row % 2), f"{quote}{cell}{quote}", *others]))
    path = folder / "rows.csv"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("between", "cells", "options", "numbers"),
    [
        (";", ["0,5", "-12,25", "3", ""], {}, [0.5, -12.25, 3, np.nan]),
        (";", ["true", "False", ""], {"thousands": "none"}, [1, 0, np.nan]),
        (";", ["1.582,5", "7", "2.000.000,25"], {}, [1582.5, 7, 2_000_000.25]),
        (";", ["1,5E-05", "2,5e3", "1"], {}, [1.5e-5, 2500, 1]),
        (";", ["1,582", "2,125"], {}, [1.582, 2.125]),  # who separates by semicolons has decimal commas
        ("\t", ["0,5", "2,125"], {}, [0.5, 2.125]),
        ("|", ["1,5", "NA"], {}, [1.5, np.nan]),
        (",", ["1,582.5", "7", "950"], {}, [1582.5, 7, 950]),
        (",", ["1,234,567", "7.5"], {}, [1_234_567, 7.5]),
        (";", ["1,582.5", "7.5"], {}, [1582.5, 7.5]),
        (",", ["0,5", "1,582"], {"decimal": ","}, [0.5, 1.582]),
        (",", ["950", "1,582"], {"thousands": ","}, [950, 1582]),
        (",", ["950", "1,582"], {"decimal": "."}, [950, 1582]),
        (";", ["950", "1.582"], {"thousands": "."}, [950, 1582]),
        (";", ["950", "1.582"], {"thousands": "none"}, [950, 1.582]),
        (";", ["1 582,5", "1\u00a0000", "2\u202f000,5"], {"decimal": ",", "thousands": " "}, [1582.5, 1000, 2000.5]),
        (";", ["1'582.5", "7"], {"thousands": "'"}, [1582.5, 7]),
        (";", ["3.5", "12.75"], {"decimal": ","}, [3.5, 12.75]),  # of another program
        (";", ["1.5", "2.25", "1.125"], {}, [1.5, 2.25, 1.125]),
        (",", ["1.582", "2.125"], {}, [1.582, 2.125]),
    ],
)
def test_marks_of_numbers(tmp_path: Path, between: str, cells: list[str], options: Any, numbers: list[float]):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        data = rw.read_csv(written(tmp_path, cells, between), **options)
    np.testing.assert_array_equal(data.features[:, 0], np.array(numbers, np.float32))


@pytest.mark.parametrize(
    ("between", "cells", "beside", "number"),
    [
        ("\t", ["1,582", "2,125"], ["0,5", "1"], 1.582),
        ("\t", ["1,582", "2,125"], ["1,582.5", "1"], 1582),
        (",", ["1,582", "2,125"], ["1,582.5", "1"], 1582),
        (";", ["1,582", "2,125"], ["1,582.5", "1"], 1582),
    ],
)
def test_what_one_column_shows_the_others_mean(tmp_path: Path, between: str, cells: Any, beside: Any, number: float):
    data = rw.read_csv(written(tmp_path, cells, between, beside=beside))
    assert data.features[0, 0] == np.float32(number)


@pytest.mark.parametrize(
    ("between", "cells", "options", "message"),
    [
        (
            "\t",
            ["1,582", "2"],
            {},
            r"numbers can be read in two ways: got '1,582' in column 'x'. Hint: set decimal=','",
        ),
        (",", ["1,582", "2"], {}, r"two ways: got '1,582' in column 'x'.* or set thousands=','"),
        (",", ["0,5", "2"], {}, r"two ways: got '0,5' in column 'x'.* or name it in categorical"),  # a list of ids?
        (",", ["0,5", "2"], {"features": ["x"]}, r"two ways: got '0,5' in column 'x'"),
        (",", ["0,5", "2"], {"features": ["?"]}, r"two ways: got '0,5' in column 'x'"),
        (";", ["7", "1\u00a0582"], {}, r"two ways: got '1\\xa0582' in column 'x'. Hint: set thousands=' ', or name"),
        (";", ["1 582,5", "7"], {"decimal": ","}, r"Hint: set thousands=' ' \(and set decimal=','\), or name"),
        (";", ["1'582", "7"], {}, r"in column 'x'. Hint: set thousands=\"'\", or name"),
        (";", ["0,5", "3.5"], {}, r"a feature must be a column of numbers: got String in column 'x'"),
        (";", ["1.58", "3"], {"thousands": "."}, r"a feature must be a column of numbers: got String in column 'x'"),
        (";", ["0,5", "3"], {"decimal": "."}, r"a feature must be a column of numbers: got String in column 'x'"),
        (";", ["1"], {"decimal": ";"}, r"unknown mark for decimal: got ';'"),
        (";", ["1"], {"thousands": "."[:0]}, r"unknown mark for thousands: got ''"),
        (";", ["5.3.24"], {"dates": "days"}, r"got String in column 'x'"),  # which year?
        (";", ["3/4/2024", "5/6/2024"], {"dates": "days"}, r"day or month first: got '3/4/2024' in column 'x'"),
        (
            ";",
            ["2024-05-03", "5/3/2024"],
            {"dates": "days"},
            r"in one form.* got '5/3/2024' in column 'x'. Hint: write",
        ),
        (";", ["2024-05-03", "2024-13-03"], {"dates": "days"}, r"in one form.* got '2024-13-03' in column 'x'"),
        (";", ["2024-05-03"], {}, r"got String in column 'x'. Hint: set dates='days'"),
        (";", ["2024-05-03"], {"dates": "weeks"}, r"unknown form of dates: got 'weeks'"),
        (
            ";",
            ["1"],
            {"drop_duplicates": True},
            r"duplicates are rows of judged documents.*no ids. Hint: set document=",
        ),
    ],
)
def test_what_is_refused(tmp_path: Path, between: str, cells: list[str], options: Any, message: str):
    with pytest.raises(ValueError, match=message):
        rw.read_csv(written(tmp_path, cells, between), **options)


@pytest.mark.parametrize(
    ("cells", "beside", "options", "message"),
    [
        (
            ["950", "1.582"],
            ["0,5", "1"],
            {},
            r"points in column 'x' are taken as marks between thousands: 1.582 is 1582",
        ),
        (["1.234.567", "1"], None, {}, r"'x' are taken as marks between thousands: 1.234.567 is 1234567"),
        (
            ["950", "1.582", "7"] * 20,
            None,
            {},
            r"'x' are taken as marks before decimals: 1.582 is 1.582. Hint: set thousands",
        ),
        (
            ["0012", "0470"],
            None,
            {},
            r"features of numbers with leading zeros, which ids have: x. Hint: name ids in doc",
        ),
        (["1.250", "3.875"], ["0,5", "1"], {"label": "x", "features": ["y"]}, r"points in column 'x' .* 1.250 is 1250"),
        (["0,5", "1,25"], None, {"categorical": ["x"]}, r"categories that are numbers with a comma: x \(0,5\)"),
        ([f"{1_700_000_000 + row}" for row in range(9)], None, {}, r"float32 tells less than half apart: 'x'"),
    ],
)
def test_what_is_read_with_a_warning(tmp_path: Path, cells: list[str], beside: Any, options: Any, message: str):
    with pytest.warns(UserWarning, match=message):
        rw.read_csv(written(tmp_path, cells, beside=beside), **options)


@pytest.mark.parametrize(
    ("cells", "options"),
    [
        (["0012", "0470"], {"features": ["x"]}),
        (["0012", "0470"], {"document": "x", "features": ["!label"]}),
        (["0012", "0470"], {"categorical": ["x"]}),
        (["0", "0.5", "-0.25", "10"], {}),
        ([f"{1_700_000_000 + 1000 * row}" for row in range(9)], {}),
        (["950", "1.582", "7"] * 20, {"thousands": "."}),
    ],
)
def test_what_is_read_without_one(tmp_path: Path, cells: list[str], options: Any):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        rw.read_csv(written(tmp_path, cells), **options)


@pytest.mark.parametrize(
    "cells",
    [
        ["1970-01-02", "1970-02-01"],
        ["1970-01-02T00:00:00Z", "1970-02-01T00:00:00.000Z"],
        ["2.1.1970", "01.02.1970"],
        ["01/02/1970", "02/01/1970"],
    ],
)
def test_dates_as_days(tmp_path: Path, cells: list[str]):
    if "/" in cells[0]:
        cells = [*cells, "13/01/1970"]  # the day is first
        cells[0], cells[1] = cells[1], cells[0]
    assert rw.read_csv(written(tmp_path, cells), dates="days").features[:2, 0].tolist() == [1, 31]


def test_a_first_line_may_name_the_separator(tmp_path: Path):
    path = written(tmp_path, ["0,5", "-1"])
    path.write_bytes(b"\xef\xbb\xbfsep=;\r\n" + path.read_bytes().replace(b"\n", b"\r\n"))
    with refusal(what="labels must be at least 0", got="-1", where="line 4 (query 1)"):
        rw.read_csv(path, label="x", features=["label"])


@pytest.mark.filterwarnings("default:features of numbers with leading zeros")
def test_marks_on_the_command_line(tmp_path: Path):
    path = written(tmp_path, ["950", "1.582"], beside=["0012", "0470"])
    facts = run("data", "info", path, "--thousands", ".", "--document", "y")
    assert "x: number" in facts.stdout
    assert facts.stderr == ""
    said = " ".join(run("data", "info", path, "--thousands", ".").stderr.split())
    assert "leading zeros, which ids have: y. Hint: name ids in --document … or --categorical …" in said
    refused = run("data", "info", written(tmp_path, ["950", "1'582"]), code=2).stderr
    assert """Hint: use --thousands ''"'"'', or name it in --categorical …""" in " ".join(refused.split())


def test_roles_stay_in_parquet(tmp_path: Path):
    path = tmp_path / "rows.csv"
    path.write_text("session;sku;sold;price;shop\na;001;1;7,5;n\na;002;0;1,25;s\nb;001;2;3;n\n")
    roles = ("--query", "session", "--document", "sku", "--label", "sold", "--categorical", "shop")
    run("data", "convert", path, *roles, "-o", tmp_path / "rows.parquet")
    kept = rw.read_data(tmp_path / "rows.parquet")
    read = rw.read_csv(path, query="session", document="sku", label="sold", categorical=["shop"])
    assert kept.feature_names == ("price", "shop")
    np.testing.assert_equal(vars(kept), vars(read))
