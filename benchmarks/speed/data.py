"""How fast text is read and written, side by side with others: python -m benchmarks.speed.data [--rows 60000] [--rounds
3].

Everyone reads the same MSLR-like file of 136 features into memory on one core. Contestants take turns, so that a busy
machine slows all alike, and medians are compared.

- scikit-learn: ``load_svmlight_file(query_id=True)``, into a sparse matrix of float64.
- polars: ``scan_csv`` cut at spaces, then ``index:`` cut off and cast to float32, into columns. That works only for
  files that have every feature in every line.
- LightGBM: ``Dataset(path).construct()`` of a copy without ``qid:``, which it refuses; it also sorts values into bins.

Peak memory is what a fresh process needs beyond what it needed for a file of one line.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

os.environ["POLARS_MAX_THREADS"] = "1"
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import lightgbm as lgb
import numpy as np
import polars as pl
from sklearn.datasets import load_svmlight_file

import rankwise as rw

N_FEATURES = 136
Call = Callable[[], object]
PEAK = """
import sys
import rankwise as rw
from sklearn.datasets import load_svmlight_file
read = {"rankwise": rw.read_letor, "scikit-learn": lambda path: load_svmlight_file(path, query_id=True)}[sys.argv[1]]
def peak():
    return int(next(line for line in open("/proc/self/status") if line.startswith("VmHWM")).split()[1]) * 1024
read(sys.argv[2])
before = peak()
data = read(sys.argv[3])
print(peak() - before)
"""


def make(rows: int) -> rw.RankingDataset:
    """Lists of log-normal length; three columns in five hold small counts, the others six decimals, as in MSLR."""
    draw = np.random.default_rng(0)
    features = np.empty((rows, N_FEATURES), np.float32)
    for column in range(N_FEATURES):
        if column % 5 < 3:
            features[:, column] = draw.geometric(draw.uniform(0.02, 0.6), rows) - 1
        else:
            features[:, column] = (draw.lognormal(draw.uniform(-4, 3), 1, rows) * (draw.random(rows) < 0.7)).round(6)
    sizes: list[int] = []
    while sum(sizes) < rows:
        sizes.append(int(min(np.clip(draw.lognormal(4.53, 0.7), 1, 1251), rows - sum(sizes))))
    labels = draw.choice(5, rows, p=[0.52, 0.32, 0.13, 0.02, 0.01])
    return rw.RankingDataset.from_sizes(features, labels, sizes, query_ids=np.arange(len(sizes)) * 15 + 1)


def polars_reads(path: Path) -> pl.DataFrame:
    names = ["label", "qid", *map(str, range(1, N_FEATURES + 1))]
    table = pl.scan_csv(path, separator=" ", has_header=False, infer_schema=False, new_columns=names)
    columns = [pl.col("label").cast(pl.Float64), pl.col("qid").str.strip_prefix("qid:").cast(pl.Int64)]
    columns += [pl.col(name).str.strip_prefix(f"{name}:").cast(pl.Float32) for name in names[2:]]
    return table.select(columns).collect()


def lightgbm_reads(path: Path) -> lgb.Dataset:
    return lgb.Dataset(str(path), params={"verbose": -1, "num_threads": 1}).construct()


def take_turns(calls: Mapping[str, Call], rounds: int) -> dict[str, float]:
    for call in calls.values():  # compiled, files in the cache of the system
        if call is not calls.get("scikit-learn"):
            call()
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, call in calls.items():
            start = time.perf_counter()
            call()
            taken[name].append(time.perf_counter() - start)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def show(title: str, times: dict[str, float], size: float, against: str) -> None:
    print(f"\n{title:<38}{'seconds':>9}{'MB/s':>8}   {against} takes")
    for name, seconds in times.items():
        print(f"{name:<38}{seconds:>9.3f}{size / seconds:>8.0f}{times[against] / seconds:>9.1f} times as long")


def peak(who: str, small: Path, large: Path) -> float:
    done = subprocess.run(
        [sys.executable, "-c", PEAK, who, str(small), str(large)], capture_output=True, text=True, check=True
    )
    return int(done.stdout) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    data = make(options.rows)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = {suffix: rw.data.write_letor(data, folder / f"data.txt{suffix}") for suffix in ("", ".gz", ".zst")}
        plain, parquet = paths[""], rw.data.write_parquet(data, folder / "data.parquet")
        without = folder / "without.txt"
        without.write_bytes(
            b"".join(b" ".join([*line.split(b" ")[:1], *line.split(b" ")[2:]]) for line in plain.open("rb"))
        )
        size = plain.stat().st_size / 1e6
        print(f"{data}, {size:.0f} MB of text, one core")
        read = {
            "rankwise": lambda: rw.read_letor(plain),
            "rankwise, .gz": lambda: rw.read_letor(paths[".gz"]),
            "rankwise, .zst": lambda: rw.read_letor(paths[".zst"]),
            "rankwise, .parquet": lambda: rw.read_parquet(parquet),
            "polars, cut at spaces": lambda: polars_reads(plain),
            "LightGBM, without qid, with bins": lambda: lightgbm_reads(without),
            "scikit-learn": lambda: load_svmlight_file(str(plain), query_id=True),
        }
        show("reading", take_turns(read, options.rounds), size, "scikit-learn")
        write = {
            "rankwise": lambda: rw.data.write_letor(data, folder / "out.txt", force=True),
            "rankwise, .zst": lambda: rw.data.write_letor(data, folder / "out.txt.zst", force=True),
            "rankwise, .parquet": lambda: rw.data.write_parquet(data, folder / "out.parquet", force=True),
        }
        show("writing", take_turns(write, options.rounds), size, "rankwise")
        if sys.platform == "linux":
            small = folder / "small.txt"
            small.write_text("1 qid:1 1:1\n")
            final = (data.features.nbytes + data.labels.nbytes) / 1e6
            print(f"\npeak memory of reading; the arrays themselves are {final:.0f} MB")
            for who in ("rankwise", "scikit-learn"):
                print(f"{who:<38}{peak(who, small, plain):>9.0f} MB")


if __name__ == "__main__":
    main()
