"""Peak memory of training on data whose features stay on disk, as a share of the features' size.

    python -m benchmarks.speed.memory                 # 2 GB of features, 136 columns, both libraries
    python -m benchmarks.speed.memory --gigabytes 8 --rounds 20

Data are made on the fly and written as Parquet, a file at a time. Opening them (which copies the features into a binary
file) and every training run in a process of their own; memory is the peak resident size of that process, less what it
was once everything was imported.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import harness

FEATURES, DOCUMENTS, QUERIES_PER_FILE = 136, 120, 1000
TARGETS = {"xgboost": 0.25, "lightgbm": 0.5}


def resident(field: str) -> int:
    """Memory of this process now (VmRSS) or at its highest (VmHWM), in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field):
            return 1024 * int(line.split()[1])
    raise OSError("no such field")


def make(folder: Path, gigabytes: float) -> float:
    """Write Parquet files with this many bytes of features; gives how many there are."""
    import numpy as np

    import rankwise as rw

    wanted = max(1, round(gigabytes * 1e9 / (4 * FEATURES * DOCUMENTS)))
    files, queries = max(1, round(wanted / QUERIES_PER_FILE)), min(wanted, QUERIES_PER_FILE)
    for number in range(files):
        rng = np.random.default_rng(number)
        count = DOCUMENTS * queries
        features = rng.normal(size=(count, FEATURES)).astype(np.float32)
        truth = features[:, :8].sum(axis=1) + rng.normal(scale=2.0, size=count)
        ids = np.arange(queries) + number * queries
        offsets = np.arange(queries + 1) * DOCUMENTS
        labels = np.digitize(truth, [2.0, 4.0, 6.0, 8.0]).astype(np.float64)
        data = rw.RankingDataset(features, labels, offsets, query_ids=ids)
        rw.data.write_parquet(data, folder / f"{number:04}.parquet")
    return 4.0 * FEATURES * DOCUMENTS * queries * files


def measured(what: str, folder: Path, rounds: int, threads: int) -> None:
    """Do one thing in this process and print what it took."""
    import rankwise as rw

    ranker = {"xgboost": "XGBoostRanker", "lightgbm": "LightGBMRanker"}.get(what)
    small = rw.synthetic(n_queries=20, seed=1)
    if ranker is not None:  # compile and load everything before the baseline is taken
        getattr(rw, ranker)("xendcg", rounds=2, min_documents=2, threads=threads).fit(small)
    rw.data.write_parquet(small, folder.parent / f"small-{what}.parquet", force=True)
    rw.open_data(folder.parent / f"small-{what}.parquet")
    before, start = resident("VmRSS"), time.perf_counter()
    data = rw.open_data(folder, folder=folder.parent / "copies")
    facts: dict[str, object] = {"open": time.perf_counter() - start}
    if ranker is not None:
        start = time.perf_counter()
        model = getattr(rw, ranker)("xendcg", rounds=rounds, threads=threads).fit(data)
        facts["fit"] = time.perf_counter() - start
        start = time.perf_counter()
        model.predict(data)
        facts["predict"] = time.perf_counter() - start
        facts["loss"] = [model.history_["loss"][0], model.history_["loss"][-1]]
    print(json.dumps({**facts, "peak": resident("VmHWM") - before}))


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--folder", type=Path, default=None, help="where to put the data; a temporary folder")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.measure:
        measured(chosen.measure, chosen.folder, chosen.rounds, chosen.threads)
        return
    with tempfile.TemporaryDirectory(dir=chosen.folder) as place:
        folder = Path(place, "data")
        folder.mkdir()
        size = make(folder, chosen.gigabytes)
        print(f"{size / 1e9:.2f} GB of features, {size / 4 / FEATURES:,.0f} documents, {FEATURES} features")
        print(f"{chosen.rounds} rounds of 31 leaves, XENDCG, {chosen.threads} threads; load {os.getloadavg()[0]:.1f}")
        for what in ("open", "xgboost", "lightgbm"):
            command = [sys.executable, "-m", "benchmarks.speed.memory", "--measure", what, "--folder", str(folder)]
            command += ["--rounds", str(chosen.rounds), "--threads", str(chosen.threads)]
            done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            facts = json.loads(done.stdout.splitlines()[-1])
            share, target = facts["peak"] / size, TARGETS.get(what)
            verdict = "" if target is None else f"  (target {target:.2f}: {'met' if share <= target else 'MISSED'})"
            times = ", ".join(f"{name} {facts[name]:.0f} s" for name in ("open", "fit", "predict") if name in facts)
            print(f"{what:9} peak {facts['peak'] / 1e6:6.0f} MB = {share:.2f} of the features{verdict}; {times}")


if __name__ == "__main__":
    main()
