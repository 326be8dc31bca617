"""Damaged tables of ratings are read, or refused with file and line."""

import polars as pl
import pytest

import rankwise as rw
from tests.robustness import fuzzing

pytestmark = pytest.mark.slow
SAMPLES = {
    "csv": b"userId,movieId,rating,timestamp\n1,31,2.5,1260759144\n1,1029,3.0,1260759179\n7,31,4.5,1260759182\n",
    "tsv": b"user\titem\trating\nann\t10\t5\nann\t20\t4\nbob\t10\t1\n",
    "dat": b"1::1193::5::978300760\n1::661::3::978302109\n2::1193::4::978298413\n",
    "data": b"196\t242\t3\t881250949\n186\t302\t3\t891717742\n22\t377\t1\t878887116\n",
    "quoted.csv": b'user,item,rating\n"ann, the first","a\nb",5\nbob,"""c""",1\n\nbob,d,2\n',
}


@pytest.mark.parametrize("name", SAMPLES)
def test_damaged_ratings(tmp_path, name):
    words = (b"::", b'"', b",,", b"1e400", b"2024-01-01", SAMPLES[name].split(b"\n")[1] + b"\n", b"9" * 25)
    fuzzing.holds(rw.recommend.Interactions.read, [SAMPLES[name]], tmp_path / f"damaged.{name}", words=words, usual=500)


def test_damaged_ratings_in_parquet(tmp_path):
    path = tmp_path / "damaged.parquet"
    columns = {"user": [1, 1, 2], "item": ["a", "b", "a"], "rating": [4.0, 1.0, 5.0], "time": [1, 2, 3]}
    pl.DataFrame(columns).write_parquet(path)
    fuzzing.holds_apart(rw.recommend.Interactions.read, [path.read_bytes()], path, usual=400)
