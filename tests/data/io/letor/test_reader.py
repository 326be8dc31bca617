"""LETOR text: every way to write it, every way to get it wrong, exact round trips, bounded memory, real files."""

import functools
import gzip
import io
import subprocess
import sys
import textwrap
import tracemalloc
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import rankwise as rw
from rankwise.data.io.file_formats import zstandard
from rankwise.data.io.letor import decimals
from rankwise.data.io.letor import line_blocks as letor_text
from rankwise.data.io.letor import reader as letor_reader
from tests import shared
from tests.refusals import refusal, refuses

read: Any = rw.read_letor  # columns that a file has are there: no need to ask whether they are None


@pytest.fixture
def write(tmp_path: Path) -> Any:
    def write(text: str | bytes, name: str = "data.txt") -> Path:
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    return write


def test_reads_what_the_format_allows(write):
    path = write(
        "# a comment line\n"
        "\n"
        "2 qid:10 1:0.5 3:-7e-2 #docid = GX008-86-4444840 inc = 1 prob = 0.086622\r\n"
        "+1\tqid:10\t2:nan  3:+.5\t # GX2\tand more\n"
        "   \t\r\n"
        "0.25 qid:10 3:1E3 2:-inf 1:5. #GX3\n"
        "0 qid:7 # docid=GX4\n"
        "0 qid:7 1:Infinity 2:00012.50 #docid = GX5"
    )
    data = read(path)
    expected = [[0.5, 0, -0.07], [0, np.nan, 0.5], [5, -np.inf, 1000], [0, 0, 0], [np.inf, 12.5, 0]]
    np.testing.assert_array_equal(data.features, np.array(expected, np.float32))
    assert data.labels.tolist() == [2, 1, 0.25, 0, 0]
    assert data.offsets.tolist() == [0, 3, 5]
    assert data.query_ids.tolist() == [10, 7]
    assert data.document_ids.tolist() == ["GX008-86-4444840", "GX2", "GX3", "GX4", "GX5"]


def test_a_byte_order_mark_is_skipped(write):
    assert read(write(b"\xef\xbb\xbf1 qid:3 1:2\r\n")).query_ids.tolist() == [3]


def test_document_ids_are_left_out_unless_every_document_has_one(write):
    assert read(write("1 qid:1 1:1 # a\n1 qid:1 1:1\n")).document_ids is None
    assert read(write("1 qid:1 1:1 # a\n1 qid:1 1:1 #\n")).document_ids is None
    assert read(write("1 qid:1 1:1 # 12\n1 qid:1 1:1 # -3\n")).document_ids.tolist() == [12, -3]
    assert read(write("1 qid:1 1:1 # 12\n1 qid:1 1:1 # 03\n")).document_ids.tolist() == ["12", "03"]


def test_ids_may_be_words_of_any_script_and_length(write):
    words = ["7", "Q#3", "naïve", "検索", "𝔮", "a" * 300, "8"]
    data = read(write("".join(f"1 qid:{word} 1:1 # {word}\n" for word in words)))
    assert data.query_ids.tolist() == words
    assert data.document_ids.tolist() == words


def test_bytes_that_are_no_utf8_do_not_stop_the_reading(write):
    broken = [b"\xff", b"\xc3", b"\xe2\x82", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\xaf", b"a\x80b"]
    for number, word in enumerate(broken):
        comments = [b"good"] * number + [word, b"good"]
        path = write(b"".join(b"1 qid:1 1:1 # %s\n" % comment for comment in comments))
        with pytest.warns(UserWarning, match=f"line {number + 1}: document ids are left out: the comment is not UTF-8"):
            data = read(path)
        assert data.n_docs == number + 2
        assert data.document_ids is None


@pytest.mark.parametrize(
    ("text", "options", "expected"),
    [
        ("1:5 2:6", {}, [[5, 6]]),
        ("0:5 2:6", {}, [[5, 0, 6]]),
        ("3:6", {}, [[0, 0, 6]]),
        ("1:5", {"first_index": 0}, [[0, 5]]),
        ("1:5 2:6", {"first_index": 1, "n_features": 4}, [[5, 6, 0, 0]]),
        ("0:5", {"n_features": 2}, [[5, 0]]),
        ("", {}, [[]]),
    ],
)
def test_indexes_begin_at_one_unless_there_is_a_zero(write, text, options, expected):
    assert read(write(f"1 qid:1 {text}\n"), **options).features.tolist() == expected


def test_a_late_zero_index_moves_what_was_read(write):
    rows = 70_000  # more than one batch and more than one block of memory
    text = "".join(f"0 qid:1 1:{row} 3:5\n" for row in range(rows)) + "0 qid:1 0:8 4:9\n"
    data = read(write(text))
    assert data.features.shape == (rows + 1, 5)
    np.testing.assert_array_equal(data.features[:-1, 1], np.arange(rows))
    assert (data.features[:-1, [0, 2, 4]] == 0).all()
    assert (data.features[:-1, 3] == 5).all()
    assert data.features[-1].tolist() == [8, 0, 0, 0, 9]


def test_the_matrix_widens_as_wider_lines_come(write, monkeypatch):
    monkeypatch.setattr(letor_reader, "_BLOCK", 256)
    lines = [f"0 qid:1 {row // 3 + 1}:{row + 1} 1:0.5\n" for row in range(300)]
    lines[2] = "0 qid:1 1:3\n"
    for row in (0, 1):
        lines[row] = f"0 qid:1 1:{row + 1}\n"
    data = read(write("".join(lines)))
    expected = np.zeros((300, 100), np.float32)
    expected[3:, 0] = 0.5
    expected[np.arange(300), np.arange(300) // 3] = np.arange(300) + 1
    np.testing.assert_array_equal(data.features, expected)


@pytest.mark.parametrize("block", [64, 200, 1 << 20])
def test_lines_across_blocks_and_longer_than_a_block(write, monkeypatch, block):
    monkeypatch.setattr(letor_reader, "_BLOCK", block)
    values = np.random.default_rng(3).normal(size=(50, 37)).astype(np.float32)
    lines = [" ".join(f"{i + 1}:{value!r}" for i, value in enumerate(row)) for row in values.tolist()]
    data = read(write("\n".join(f"1 qid:{number // 4} {line} # d{number}" for number, line in enumerate(lines))))
    np.testing.assert_array_equal(data.features, values)
    assert data.document_ids.tolist() == [f"d{number}" for number in range(50)]
    assert data.sizes.tolist() == [4] * 12 + [2]


WRONG = [
    ("x qid:1 1:2", r"a line must begin with a label, a number: got 'x' at .*data.txt, line 2, near 'x qid:1 1:2'"),
    ("1x qid:1 1:2", r"must begin with a label, a number: got '1x'"),
    ("-1 qid:1 1:2", r"a label must be finite and not negative: got '-1'.*qrels use -1"),
    ("nan qid:1 1:2", r"a label must be finite and not negative: got 'nan'"),
    ("inf qid:1 1:2", r"a label must be finite and not negative: got 'inf' at .*data.txt, line 2"),
    ("1e400 qid:1 1:2", r"a label must be finite and not negative: got '1e400' at .*data.txt, line 2"),
    ("17976931348623158" + "0" * 292 + " qid:1", r"a label must be finite and not negative: got '1797693134862315800"),
    ("0.1e310 qid:1 1:2", r"a label must be finite and not negative: got '0.1e310'"),
    ("1 1:2", r"after the label must come qid: and the query's id: got '1:2' .*pass the number .* as sizes"),
    ("1", r"after the label must come qid: and the query's id: got the end of the line"),
    ("1 qid: 1:2", r"qid: must be followed by an id: got 'qid:'"),
    ("1 qid:" + "7" * 1025, r"a query id must have at most 1024 bytes: got 'qid:777"),
    ("1 qid:1 1:2 word", r"a feature must be written index:value: got 'word'"),
    ("1 qid:1 1:2 a:3", r"a feature must be written index:value: got 'a:3'"),
    ("1 qid:1 1;2", r"a feature must be written index:value: got '1;2'"),
    ("1 qid:1 -1:2", r"a feature must be written index:value: got '-1:2'"),
    ("1 qid:1 qid:2 1:2", r"a feature must be written index:value: got 'qid:2'"),
    ("1 qid:1 12345678:2", r"a feature's index is out of range: got '12345678:2'.*n_features"),
    ("1 qid:1 12345678901234567890123:2", r"a feature's index is out of range: got '12345678901234567890123:2'"),
    ("1 qid:1 9999999:2", r"index is beyond max_features: got '9999999:2' at .*data.txt, line 2.*pass max_features=…"),
    ("1 qid:1 1:", r"a feature's value must be a number, nan or inf: got '1:'"),
    ("1 qid:1 1: 2", r"a feature's value must be a number, nan or inf: got '1:'"),
    ("1 qid:1 1:2x", r"a feature's value must be a number, nan or inf: got '1:2x'"),
    ("1 qid:1 1:1e", r"a feature's value must be a number, nan or inf: got '1:1e'"),
    ("1 qid:1 1:.", r"a feature's value must be a number, nan or inf: got '1:.'"),
    ("1 qid:1 1:--2", r"a feature's value must be a number, nan or inf: got '1:--2'"),
    ("1 qid:1 1:1.2.3", r"a feature's value must be a number, nan or inf: got '1:1.2.3'"),
    ("1 qid:1 1:none", r"a feature's value must be a number, nan or inf: got '1:none'"),
    ("1 qid:1 1:2 1:3", r"a feature must stand only once in a line: got '1:3'"),
    ("1 qid:1 2:2 1:3 2:0", r"a feature must stand only once in a line: got '2:0'"),
]


@pytest.mark.parametrize(("line", "message"), WRONG)
def test_a_broken_line_is_named_or_skipped(write, line, message):
    path = write(f"1 qid:1 1:1 2:1\n{line}\n0 qid:2 2:4\n")
    with pytest.raises(ValueError, match=message) as raised:
        read(path)
    assert "pass errors='skip' to leave such lines out" in str(raised.value)
    with pytest.warns(
        UserWarning, match=r"data.txt: left out 1 of 3 lines that could not be read \(line 2; the first: "
    ):
        data = read(path, errors="skip")
    assert data.features.tolist() == [[1, 1], [0, 4]]
    assert data.query_ids.tolist() == [1, 2]


@pytest.mark.parametrize("label", ["1.7976931348623157e308", "0.0017976931348623157e311", "1e308", "1e-400"])
def test_labels_of_any_finite_size(write, label):
    assert read(write(f"{label} qid:1 1:1\n")).labels.tolist() == [float(label)]


def test_a_damaged_index_takes_no_memory(write):
    """In 4,000 lines an index of ten million would take 160 GB."""
    lines = ["1 qid:1 1:1"] * 4000
    lines[3000] = "1 qid:1 1:1 9999999:1"
    path = write("\n".join(lines))
    tracemalloc.start()
    for open_it in (read, rw.open_data):
        with refusal(what="a feature's index is beyond max_features", got="'9999999:1'", where="…data.txt, line 3001…"):
            open_it(path)
    with pytest.warns(UserWarning, match="left out 1 of 4000 lines"):
        assert read(path, errors="skip").features.shape == (3999, 1)
    assert tracemalloc.get_traced_memory()[1] < 1 << 26
    tracemalloc.stop()


@pytest.mark.parametrize("open_it", [read, rw.open_data])
def test_limits_can_be_raised(write, open_it):
    path = write("1 qid:1 1:1 3:3\n0 qid:1 0:1\n")
    assert open_it(path, max_features=4).n_features == 4
    refuses(lambda: open_it(path, max_features=3), what="index 0 occurs, so index 3 is out of range", where="…line 2…")
    with refusal(what="a feature's index is beyond max_features", got="'3:3'", where="…data.txt, line 1…"):
        open_it(path, max_features=2)
    assert open_it(write("1 qid:1 200000:1\n", "wide.txt"), n_features=200_000).n_features == 200_000
    for limit in ("max_features", "max_line_bytes"):
        with pytest.raises(ValueError, match=f"{limit} must be a whole number of at least 1: got 0"):
            open_it(path, **{limit: 0})


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstandard().compress])
def test_a_line_that_is_too_long_is_named(write, monkeypatch, pack):
    monkeypatch.setattr(letor_reader, "_BLOCK", 100)
    path = write(pack(b"1 qid:1 1:1\n" * 30 + b"1 qid:1 1:1 # " + b"x" * 5000 + b"\n1 qid:1 1:1\n"))
    for open_it in (read, functools.partial(rw.open_data, block=100)):
        with refusal(what="…at most max_line_bytes=1,000 bytes", got="more", where="…line 31", hint="…pass max_line…"):
            open_it(path, max_line_bytes=1000)
        assert open_it(path, max_line_bytes=5100).n_docs == 32


def test_long_lines_are_read_in_linear_time(monkeypatch):
    """Every byte is searched for a line end once, also where the source gives a few bytes at a time."""
    searched = 0

    class Counting(bytearray):
        def rfind(self, letter, begin, end):  # type: ignore[override]
            nonlocal searched
            searched += end - begin
            return super().rfind(letter, begin, end)

    class Trickle(io.BytesIO):
        def readinto(self, space):
            return super().readinto(space[:7])

    monkeypatch.setattr(letor_text, "bytearray", Counting, raising=False)
    text = b"a" * 20_000 + b"\n" + b"b" * 9_000
    found = b""
    for block, last in letor_text.line_blocks(Trickle(text), 64, longest=1 << 20, too_long=AssertionError):
        found += bytes(block[:last])
    assert found == text + b"\n"
    assert searched == len(text)


def test_the_error_shows_the_text_near_the_mistake(write):
    features = " ".join(f"{i}:0.{i}" for i in range(1, 60))
    with refusal(where="…line 1, near '…29:0.29 30:oops 31:0.31…"):
        read(write(f"1 qid:1 {features.replace('30:0.30', '30:oops')}\n"))


def test_skipping_counts_all_and_lists_the_first(write):
    lines = ["1 qid:1 1:1"] * 20
    for number in range(2, 20, 2):
        lines[number - 1] = "broken 99:1"
    with pytest.warns(
        UserWarning, match=r"left out 9 of 20 lines .*\(line 2, 4, 6, 8, 10, …; the first: a line must begin"
    ):
        data = read(write("\n".join(lines)), errors="skip")
    assert data.features.shape == (11, 1)


def test_a_query_that_comes_back_is_an_error(write):
    path = write("# head\n1 qid:a 1:1\n1 qid:b 1:1\n\n1 qid:a 1:1\n")
    with refusal(
        what="the documents of a query must lie together",
        got="query 'a' again…",
        where="…data.txt, line 5",
        hint="sort…",
    ):
        read(path)
    refuses(lambda: read(path, errors="skip"), got="query 'a' again…")


def test_options_are_checked(write, tmp_path):
    path = write("1 qid:1 0:1 3:4\n")
    refuses(lambda: read(path, first_index=2), what="first_index must be 'auto', 0 or 1", got="2")
    with refusal(what="unknown way to treat broken lines", got="'skp'", hint="did you mean 'skip'"):
        read(path, errors="skp")
    refuses(lambda: read(path, first_index=1), what="a feature's index is out of range", got="'0:1'")
    refuses(lambda: read(path, n_features=3), what="a feature's index is out of range", got="'3:4'")
    with refusal(what="index 0 occurs, so index 3 is out of range"):
        read(write("1 qid:1 3:4\n1 qid:1 0:4\n"), n_features=3)
    with refusal(what="there are no documents in the file", where="…empty.txt"):
        read(write("# nothing\n\n", "empty.txt"))
    with pytest.raises(FileNotFoundError, match=r"Did you mean .*empty.txt\?"):
        read(tmp_path / "emty.txt")


def test_files_without_qid_take_sizes(write):
    path = write("1 1:1\n0 1:2\n2 2:3\n", "rank.train")
    refuses(lambda: read(path), what="after the label must come qid: and the query's id")
    data = read(path, sizes=[2, 1])
    assert data.offsets.tolist() == [0, 2, 3]
    assert data.query_ids is None
    with refusal(what="sizes must add up to the number of rows", got="a sum of 4 for 3 rows"):
        read(path, sizes=[2, 2])
    with refusal(what="errors='skip' cannot be used where the queries are given by their sizes"):
        read(path, sizes=[2, 1], errors="skip")
    assert read(path, sizes=write("1\n2\n", "sizes.txt")).offsets.tolist() == [0, 1, 3]
    with refusal(what="a file of sizes must hold whole numbers", got="'two'", where="…sizes.txt, line 2"):
        read(path, sizes=write("1\ntwo\n", "sizes.txt"))
    write("2\n1\n", "rank.train.query")
    assert read(path).offsets.tolist() == [0, 2, 3]
    packed = write(gzip.compress(path.read_bytes()), "rank.train.gz")
    assert read(packed).offsets.tolist() == [0, 2, 3]
    refuses(lambda: read(write("1 qid:1 1:1\n"), sizes=[1]), what="a file with qid: needs no sizes", got="'qid:1'")


def test_compression_is_recognised_by_content(write):
    text = b"".join(b"1 qid:%d 1:%d\n" % (row // 5, row) for row in range(5000))
    half = text.index(b"\n", len(text) // 2) + 1
    pack = zstandard().compress
    for packed in (gzip.compress(text[:half]) + gzip.compress(text[half:]), pack(text[:half]) + pack(text[half:])):
        data = read(write(packed))
        np.testing.assert_array_equal(data.features[:, 0], np.arange(5000))
        for cut in (len(packed) // 4, len(packed) - 3):
            with refusal(what="cannot unpack a compressed file", where="…data.txt", hint="get the file again"):
                read(write(packed[:cut]))


def test_progress_reaches_the_end(write, monkeypatch):
    monkeypatch.setattr(letor_reader, "_BLOCK", 1000)
    path = write("1 qid:1 1:1\n" * 1000)
    seen = []
    read(path, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 10
    assert seen == sorted(seen)
    assert seen[-1] == (12_000, 12_000)


# Numbers.


def read_values(texts: list[str], tmp_path: Path) -> Any:
    path = tmp_path / "values.txt"
    path.write_text("".join(f"0 qid:1 1:{text}\n" for text in texts))
    return read(path).features[:, 0]


def nearest(text: str) -> np.float32:
    """Round to float32 by comparing exact fractions."""
    exact = Fraction(text)
    guess = np.float32(float(text))
    near = [np.nextafter(guess, np.float32(-np.inf)), guess, np.nextafter(guess, np.float32(np.inf))]
    near = [value for value in near if np.isfinite(value)]
    return min(near, key=lambda value: (abs(Fraction(float(value)) - exact), int(value.view(np.uint32)) & 1))


def test_decimals_round_to_the_nearest_float32(tmp_path):
    random = np.random.default_rng(5)
    texts = []
    for _ in range(2000):
        digits = "".join(map(str, random.integers(0, 10, random.integers(1, 30))))
        point = random.integers(0, len(digits) + 1)
        texts.append(f"{digits[:point]}.{digits[point:]}e{random.integers(-60, 25)}")
    # The middles between two float32, written out in full, and a little to each side of them.
    bits = random.integers(0, 0x7F000000, 300, dtype=np.uint32)
    for value in [*bits.view(np.float32), *np.array([2**24, 2**24 + 2, 0.1, 2**-126, 2**-149, 0], np.float32)]:
        middle = (Fraction(float(value)) + Fraction(float(np.nextafter(value, np.float32(np.inf))))) / 2
        scaled = middle * 10**160
        assert scaled.denominator == 1
        texts += [f"{scaled.numerator + side}e-160" for side in (-1, 0, 1)]
    texts += [
        "8388608.5",
        "8388609.5",
        "16777217",
        "16777219.000",
        "16777217e0",
        "33554434e0",
        "0.000",
        "1e-400",
        "0e999",
    ]
    texts = [text for text in texts if Fraction(text) <= Fraction(decimals.LARGEST)]
    expected = np.array([nearest(text) for text in texts])
    np.testing.assert_array_equal(read_values(texts, tmp_path), expected)


def test_numbers_beyond_float32_become_the_largest(tmp_path):
    largest = float(np.finfo(np.float32).max)
    texts = ["1.7976931348623157e308", "-1e99999", "3.4028235e38", "3.4028236e38", "-3.41e38", "9" * 400]
    assert read_values(texts, tmp_path).tolist() == [largest, -largest, largest, largest, -largest, largest]


def test_labels_keep_all_of_float64(write):
    values = [0.1, 1 / 3, 2.5e-300, 1.7976931348623157e308, 123456789.123456789, 9007199254740993.0, 5e-324]
    texts = [*map(repr, values), "0.1000000000000000055511151231257827021181583404541015625", "9007199254740993"]
    path = write("".join(f"{text} qid:1 1:1\n" for text in texts))
    assert read(path).labels.tolist() == [float(text) for text in texts]


def test_read_and_write_choose_the_format_by_name(tmp_path):
    data = rw.synthetic(10, 4, seed=2)
    for name in ("a.txt", "a.svm.gz", "a.letor.zst", "a.parquet"):
        rw.write_data(data, tmp_path / name)
        np.testing.assert_array_equal(rw.read_data(tmp_path / name).features, data.features)
    with refusal(what="cannot tell the format of a data file from its name", got="'a.csv'", hint="end it in .parquet…"):
        rw.write_data(data, tmp_path / "a.csv")


# Memory.

MEASURE = """
    import resource, sys
    import rankwise as rw

    rw.read_letor(sys.argv[1])
    def peak():
        return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
    before = peak()
    data = rw.read_letor(sys.argv[2])
    columns = (data.features, data.labels, data.offsets, data.query_ids, data.document_ids)
    print(peak() - before, sum(column.nbytes for column in columns), *data.features.shape)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(("packed", "rows"), [(False, 60_000), (False, 46_000), (True, 53_000)])
def test_peak_memory_is_the_arrays_and_a_fixed_buffer(write, packed, rows):
    buffer = 48 << 20
    lines = [f"1 qid:{row // 50} {row % 800 + 1}:1 # document{row}\n" for row in range(rows)]
    lines[rows // 2] = f"1 qid:{rows // 100} 900:1 # wider\n"
    lines[rows - 1] = f"1 qid:{(rows - 1) // 50} 1000:1 # wider-still\n"
    text = "".join(lines).encode()
    large = write(gzip.compress(text) if packed else text)
    small = write("1 qid:a 2:1 1:1 # x\n", "small.txt")
    command = [sys.executable, "-c", textwrap.dedent(MEASURE), str(small), str(large)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    peak, final, *shape = map(int, done.stdout.split())
    assert shape == [rows, 1000]
    assert final > 4000 * rows
    assert peak < final + buffer


# Real files.


@pytest.mark.slow
def test_mq2008_has_its_published_counts():
    rows = queries = 0
    labels = np.zeros(3, int)
    for fold in range(1, 6):
        data = read(shared.data(f"mq2008/Fold{fold}/test.txt.gz"))
        assert data.n_features == 46
        assert data.document_ids.dtype.kind == "U"
        assert all(name.startswith("GX") for name in data.document_ids.tolist())
        rows, queries = rows + data.n_docs, queries + data.n_queries
        labels += np.bincount(data.labels.astype(int), minlength=3)
    assert (rows, queries, labels.tolist()) == (15_211, 784, [12_279, 2_001, 931])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "rows", "queries", "labels"),
    [
        ("web10k.fold1.train.5k.txt.gz", 5000, 43, [2792, 1458, 665, 55, 30]),
        ("web10k.fold1.vali.b.txt.gz", 1345, 13, [478, 548, 267, 40, 12]),
        ("web30k.fold1.test.18q.txt.gz", 1900, 18, [1023, 604, 243, 20, 10]),
    ],
)
def test_mslr_is_read_as_scikit_learn_reads_it(tmp_path, name, rows, queries, labels):
    from sklearn.datasets import load_svmlight_file

    path = shared.data(f"mslr-sample/{name}")
    data = read(path)
    assert (data.n_docs, data.n_queries, data.n_features) == (rows, queries, 136)
    assert np.bincount(data.labels.astype(int)).tolist() == labels
    features, grades, qids = load_svmlight_file(str(path), query_id=True)
    np.testing.assert_array_equal(data.features, features.toarray().astype(np.float32))
    np.testing.assert_array_equal(data.labels, grades)
    np.testing.assert_array_equal(data.qids(), qids)
    rw.data.write_letor(data, tmp_path / "again.txt")
    np.testing.assert_array_equal(read(tmp_path / "again.txt").features, data.features)


@pytest.mark.slow
def test_lightgbms_example_finds_its_sizes():
    data = read(shared.data("lightgbm-lambdarank/rank.train.gz"))
    assert (data.n_docs, data.n_queries, data.n_features) == (3005, 201, 300)
    assert np.bincount(data.labels.astype(int)).tolist() == [645, 1211, 858, 222, 69]


@pytest.mark.slow
def test_a_file_without_features_is_read():
    path = shared.data("tmdb-judgments/movie_judgments.txt.gz")
    data = read(path)
    assert (data.n_docs, data.n_queries, data.n_features) == (2025, 64, 0)
    assert data.document_ids[0] == 7555


PROBABILITIES = ("inclusion_probabilities", "relevance_probabilities")


def test_comments_of_letor_4_hold_probabilities(write):
    data = read(
        write(
            "2 qid:1 1:1 #docid = inc inc = 0.00110683825421716 prob = 0.086622\r\n"
            "0 qid:1 1:1 #docid = b  prob\t=\t1e-3 method = 3 inc = 1 \n"
            "0 qid:1 1:1 # c inc prob = .5 = inc = 0\n"
        )
    )
    assert data.document_ids.tolist() == ["inc", "b", "c"]
    assert data.inclusion_probabilities.tolist() == [0.00110683825421716, 1, 0]
    assert data.relevance_probabilities.tolist() == [0.086622, 0.001, 0.5]


@pytest.mark.parametrize(
    "comment", ["", "# b", "#docid = b inc = 1.5", "# b inc = x", "# b inc = nan", "# b inc = -0.1"]
)
def test_probabilities_are_left_out_unless_every_document_has_one(write, comment):
    data = read(write(f"1 qid:1 1:1 # a inc = 0.5\n1 qid:1 1:1 {comment}\n"))
    assert data.inclusion_probabilities is None
    assert data.relevance_probabilities is None


def test_probabilities_of_real_data(tmp_path):
    """Every document of MQ2008 has both; the numbers are those of the text."""
    path = shared.data("mq2008/Fold1/vali.txt.gz")
    data = read(path)
    words = [line.split("#")[1].split() for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
    assert data.inclusion_probabilities.tolist() == [float(word[5]) for word in words]
    assert data.relevance_probabilities.tolist() == [float(word[8]) for word in words]
    for back in (read(rw.data.write_letor(data, tmp_path / "data.txt")), rw.open_data(tmp_path / "data.txt")):
        for name in PROBABILITIES:
            np.testing.assert_array_equal(getattr(back, name), getattr(data, name))


def test_prob_of_mq2008_is_what_the_page_about_files_says():
    parts = [read(shared.data(f"mq2008/Fold1/{part}.txt.gz")) for part in ("train", "vali", "test")]
    data: Any = rw.concatenate(parts)
    relevant, prob = data.labels > 0, data.relevance_probabilities
    ranks = stats.rankdata(prob)[relevant]
    area = (ranks.mean() - (ranks.size + 1) / 2) / np.sum(~relevant)
    shares, means = (np.add.reduceat(column, data.offsets[:-1]) / data.sizes for column in (relevant * 1.0, prob))
    assert round(area, 2) == 0.85
    assert round(np.corrcoef(shares, means)[0, 1], 2) == 0.77
