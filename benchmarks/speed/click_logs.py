"""A large click log on one machine: seconds and peak memory of reading, examining and harvesting it.

    python -m benchmarks.speed.click_logs FOLDER [ROWS]
    python -m benchmarks.speed.click_logs decide [QUERIES …]

Parquet files of 10⁷ rows are written into FOLDER, unless they are there: 10⁵ queries with uneven traffic, three rankers
that show ten documents each, Baidu's examination. Ids of queries and documents are strings. The log is then read by a
new process, whose peak memory is printed (on Linux). CPU seconds are of all threads, because a busy machine slows a
program that waits for a core.

``decide`` prints CPU seconds of targets, of a comparison and of a round of ``clicks train``'s default model for logs of
300, 1,000 and 3,000 queries with 20 documents, two rankers and 100 impressions each: all grow with the queries.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

import rankwise as rw
from benchmarks.harness import measures_memory

QUERIES, RANKERS, DEPTH, PART, ROUNDS = 100_000, 3, 10, 10_000_000, 8
CURVE = np.array([1.0, 0.68, 0.44, 0.32, 0.22, 0.18, 0.14, 0.12, 0.08, 0.05])


def write(folder: Path, rows: int) -> None:
    """Write the log."""
    folder.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    traffic = np.cumsum(rng.pareto(1.0, QUERIES) + 0.1)
    shown = np.argsort(rng.normal(size=(QUERIES, RANKERS, 2 * DEPTH)), axis=2)[:, :, :DEPTH].astype(np.int32)
    relevance = rng.beta(1.0, 4.0, (QUERIES, 2 * DEPTH))
    for part in range(-(-rows // PART)):
        path = folder / f"part-{part:03}.parquet"
        if path.exists():
            continue
        lists = min(PART, rows - part * PART) // DEPTH
        query = np.searchsorted(traffic, rng.uniform(0.0, traffic[-1], lists))
        ranker = rng.integers(RANKERS, size=lists)
        document = shown[query, ranker]
        clicked = rng.uniform(size=document.shape) < CURVE * relevance[query[:, None], document]
        frame = pl.DataFrame(
            {
                "query": np.repeat(query, DEPTH),
                "document": (np.repeat(query, DEPTH) * 2 * DEPTH + document.ravel()),
                "search": np.repeat(part * (PART // DEPTH) + np.arange(lists), DEPTH),
                "rank": np.tile(np.arange(1, DEPTH + 1, dtype=np.int8), lists),
                "click": clicked.ravel(),
                "arm": np.repeat(ranker, DEPTH),
            }
        )
        names = [pl.format(form, name).alias(name) for name, form in (("query", "text {}"), ("document", "sku-{}"))]
        frame.with_columns(*names, pl.format("ranker {}", "arm").alias("arm")).write_parquet(path)


def measure(folder: Path) -> None:
    """Print time and memory of each step."""

    def timed(name: str, call: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = call()
        peak = float("nan")
        if measures_memory():  # getrusage begins with the peak of the process that started it
            status = Path("/proc/self/status").read_text()
            peak = int(status.partition("VmHWM:")[2].split()[0]) / 2**20
        seconds = f"{time.perf_counter() - wall:9.1f} {time.process_time() - cpu:9.1f}"
        print(f"{name:>12} {seconds} {peak:18.2f}", flush=True)
        return result

    print(f"{'':>12} {'seconds':>9} {'CPU s':>9} {'peak so far, GiB':>18}")
    timed("import", lambda: rw.clicks.read)
    columns: Any = {"query": "query", "document": "document", "impression": "search", "position": "rank"}
    log = timed("read", lambda: rw.clicks.read(folder, clicked="click", ranker="arm", **columns))
    timed("examine", log.examine)
    bias = timed("harvest", lambda: rw.clicks.propensities(log, "harvest"))
    timed("check", lambda: bias.check(log))
    print(log)
    print(bias)


def decide(*queries: int) -> None:
    """Print CPU seconds by the number of queries."""
    print(f"{'queries':>8} {'targets':>8} {'compare':>8} {'a round':>8}   CPU s")
    list(_decide(50))  # imports, and code that is compiled
    for count in queries or (300, 1000, 3000):
        targets, comparison, training = _decide(count)
        print(f"{count:8,} {targets:8.2f} {comparison:8.2f} {training / ROUNDS:8.2f}", flush=True)


def _decide(count: int) -> Iterator[float]:
    """Yield CPU seconds of targets, of a comparison, and of some rounds of training."""
    data = rw.synthetic(n_queries=count, n_docs=20, seed=3)
    data = data.with_(query_ids=range(count), document_ids=range(data.n_docs))
    rankers: Any = {"old": data.features[:, 0], "second": data.features[:, 1]}
    log = rw.clicks.simulate(data, rankers=rankers, curve=CURVE, impressions=100, seed=1)
    bias, systems = rw.clicks.Bias.known(CURVE), {"new": data.labels, "production": rankers["old"]}
    model = rw.ranker("bagged(lightgbm(plrank))").set_params(rounds=ROUNDS, patience=None, progress=False)
    start = time.process_time()
    targets = rw.clicks.targets(log, data, bias)
    yield time.process_time() - start
    start = time.process_time()
    rw.clicks.compare(systems, log, bias, data)
    yield time.process_time() - start
    start = time.process_time()
    model.fit(targets)
    yield time.process_time() - start


if __name__ == "__main__":
    place, *size = sys.argv[1:]
    if place == "decide":
        decide(*map(int, size))
    elif size == ["read"]:
        measure(Path(place))
    else:
        write(Path(place), int(float(size[0])) if size else 10**8)
        subprocess.run([sys.executable, "-m", "benchmarks.speed.click_logs", place, "read"], check=True)
