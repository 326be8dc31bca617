"""Damaged CSV of ranking data is read, or refused with file and line; every document keeps its line's cells."""

import csv
import io
import warnings
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from tests.robustness import fuzzing

# A table of two lines, repeated, has features that are the label in other words.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:features with one value for each label:UserWarning")]
SAMPLES = {
    "csv": b"qid,label,doc,bm25,shop,price\n12,1,007,7.5,north,3\n12,0,7,,south,\n7,2,1.0,3e2,north,5\n",
    "tsv": b"qid\tlabel\tdoc\tbm25\tshop\tprice\nq1\t1\ta\t7.5\tn\t3\nq1\t0\tb\tNA\ts\t4\n",
    "quoted.csv": b'qid,label,doc,bm25,shop,price\n"a, b",1,"x\ny",1,"""c""",2\n\n"a, b",0,z,2,d,\n',
}
COLUMNS: Any = {"document": "doc", "categorical": ["shop"]}


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_csv(tmp_path, name):
    words = (b'"', b",,", b"\t", b"0012", b"9" * 50, b"qid", b"label,label", b"\xe4", b"true", SAMPLES[name][:20])
    read = lambda path: rw.read_csv(path, **COLUMNS, sort=True)  # noqa: E731
    fuzzing.holds(read, [SAMPLES[name]], tmp_path / f"damaged.{name}", words=words, usual=800)


def test_ids_are_those_that_another_reader_finds(tmp_path):
    path = tmp_path / "rows.csv"
    for case, chance in fuzzing.cases(200):
        ids = [
            chance.choice(("0012", "12", "7", "007", "-3", "+3", "1.0", "1e3", str(2**63), "a b", '"x"', "é"))
            for _ in "1234"
        ]
        text = io.StringIO()
        writer = csv.writer(text, quoting=chance.choice((csv.QUOTE_ALL, csv.QUOTE_MINIMAL)))
        writer.writerows([("qid", "label", "doc", "x"), *((one, 0, one, 1) for one in ids)])
        path.write_text(text.getvalue(), encoding="utf-8", newline="")
        data: Any = rw.read_csv(path, document="doc", sort=True)
        found = list(map(str, data.unsorted(data.qids()).tolist()))
        assert found == list(map(str, data.unsorted(data.document_ids).tolist())) == ids, case


def test_numbers_are_those_that_were_written_or_there_is_a_word(tmp_path):
    """Columns of every way to write numbers, with few and many decimals: none is another number in silence."""
    path, silent = tmp_path / "rows.csv", 0
    conventions = ((";", ",", "."), (";", ",", ""), ("\t", ",", ""), ("\t", ".", ""), (",", ".", ","), (";", ".", ""))
    for case, chance in fuzzing.cases(400):
        between, decimal, thousands = chance.choice(conventions)
        columns = []
        for _ in range(chance.randint(1, 3)):
            digits, largest = chance.choice((0, 0, 1, 2, 3, None)), 10 ** chance.randint(0, 6)
            numbers = [chance.uniform(-largest, largest) for _ in range(chance.randint(2, 8))]
            shown = [f"{one:,.{chance.randint(0, 3) if digits is None else digits}f}" for one in numbers]
            columns.append([one.replace(".", "p").replace(",", thousands).replace("p", decimal) for one in shown])
        text = io.StringIO()
        writer = csv.writer(text, delimiter=between)
        names = [f"x{number}" for number in range(len(columns))]
        writer.writerow(["qid", "label", *names])
        height = min(map(len, columns))
        writer.writerows([1, row % 2, *(column[row] for column in columns)] for row in range(height))
        path.write_text(text.getvalue(), newline="")
        meant = [
            [
                float(one.replace(thousands, "").replace(decimal, ".") if thousands else one.replace(decimal, "."))
                for one in column[:height]
            ]
            for column in columns
        ]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            try:
                found = rw.read_csv(path).features.T
            except ValueError as refused:
                if "two ways" in str(refused) or "a column of numbers" in str(refused):
                    continue
                raise
        doubted = " ".join(str(one.message) for one in said)
        for name, column, truth in zip(names, found, meant, strict=True):
            right = np.array_equal(column, np.array(truth, np.float32))
            assert right or f"points in column '{name}'" in doubted, (case, text.getvalue())
            silent += right and not doubted
    assert silent
