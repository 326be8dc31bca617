"""Training on 1, 2 and 4 worker processes of a Dask cluster on this machine: time, traffic-free speed-up, quality.

    python benchmarks/scaling.py                          # time of a round on 1, 2 and 4 workers
    python benchmarks/scaling.py --queries 6000 --rounds 40
    python benchmarks/scaling.py --quality --data mq2008  # 5 seeds x 5 folds, two workers against one machine

Every worker has one thread. The time of a round is that of the later blocks: the first also reads the data, makes bins
and loads compiled code. With ``--quality`` the 95% interval of the paired difference in NDCG@10, two workers less one
machine, is printed for each library and objective; it should lie inside ±0.01.
"""

import argparse
import os
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from distributed import Client as UntypedClient
from distributed import LocalCluster

import rankwise as rw

Client: Any = UntypedClient
RANKERS: dict[str, Any] = {"lightgbm": rw.LightGBMRanker, "xgboost": rw.XGBoostRanker}


def cluster(workers: int) -> Any:
    return LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs=50
    )


def write(data: rw.RankingDataset, folder: Path, files: int) -> Path:
    folder.mkdir()
    for number, queries in enumerate(np.array_split(np.arange(data.n_queries), files)):
        rw.write_parquet(data.take(queries), folder / f"{number:02}.parquet")
    return folder


def timed(make: Any, folder: Path, client: Any, every: int) -> tuple[float, float]:
    """Seconds until the end of the first block, and of a round after it."""
    seen: list[float] = []
    start = time.perf_counter()
    rw.dask.fit(make(), folder, client=client, watch=lambda *_: seen.append(time.perf_counter()))
    return seen[every - 1] - start, (seen[-1] - seen[every - 1]) / (len(seen) - every)


def scaling(queries: int, rounds: int) -> None:
    data = rw.synthetic(n_queries=queries, n_features=136, documents=120, seed=1)
    data = data.with_(query_ids=np.arange(data.n_queries))
    every = rounds // 2
    print(f"{data}\nXENDCG, {rounds} rounds of 31 leaves in blocks of {every}; {os.cpu_count()} cores, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'library':9} {'workers':>7} {'first block':>12} {'a round':>9} {'speed-up':>9}")
    with tempfile.TemporaryDirectory() as place:
        folder = write(data, Path(place, "data"), 8)
        for name, ranker in RANKERS.items():
            alone = 0.0
            for workers in (1, 2, 4):
                with cluster(workers) as own, Client(own) as client:
                    first, round_ = timed(
                        lambda r=ranker: r("xendcg", rounds=rounds, every=every), folder, client, every
                    )
                alone = alone or round_
                print(f"{name:9} {workers:7} {first:10.1f} s {1000 * round_:6.0f} ms {alone / round_:9.2f}", flush=True)


def quality(name: str, seeds: int) -> None:
    settings = {"rounds": 200, "every": 50, "leaves": 15, "threads": 1}
    print(f"{name}: two workers less one machine, NDCG@10 of the test part, {seeds} seeds x 5 folds")
    with cluster(2) as own, Client(own) as client, tempfile.TemporaryDirectory() as place:
        folds = [rw.load_dataset(name, fold) for fold in range(1, 6)]
        folders = [write(fold.train, Path(place, f"fold{number}"), 3) for number, fold in enumerate(folds)]
        for library, ranker in RANKERS.items():
            for objective in ("xendcg", "lambdarank", "plrank"):
                differences = []
                for fold, folder in zip(folds, folders, strict=True):
                    for seed in range(seeds):
                        ours = ranker(objective, seed=seed, **settings)
                        rw.dask.fit(ours, folder, client=client, valid=fold.valid)
                        alone = ranker(objective, seed=seed, **settings).fit(fold.train, fold.valid)
                        differences.append(ours.score(fold.test) - alone.score(fold.test))
                mean = np.mean(differences)
                half = 1.96 * np.std(differences, ddof=1) / np.sqrt(len(differences))
                verdict = "equal" if max(abs(mean - half), abs(mean + half)) < 0.01 else "NOT SHOWN"
                print(f"{library:9} {objective:11} {mean:+.4f} ± {half:.4f}  {verdict}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--data", default="mq2008")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if chosen.quality:
        quality(chosen.data, chosen.seeds)
    else:
        scaling(chosen.queries, chosen.rounds)


if __name__ == "__main__":
    main()
