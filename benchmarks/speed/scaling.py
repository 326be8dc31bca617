"""Training on 1, 2 and 4 worker processes of a Dask cluster on this machine: time, work of a worker, quality.

    python -m benchmarks.speed.scaling                          # time of a round on 1, 2 and 4 workers
    python -m benchmarks.speed.scaling --queries 8000 --rounds 100 --workers 1 2 --libraries xgboost
    python -m benchmarks.speed.scaling --quality --data mq2008  # 5 seeds x 5 folds, two workers against one machine

Every worker has one thread, and a training has two blocks, or as many as ``--every`` rounds make. The time of a round
is that after the first, which also reads the data, makes bins and loads compiled code. Workers wait for each other at
every split, so that one which the system keeps waiting delays all: the time says little on a machine with other work,
or with fewer cores than workers. The CPU time of a worker in a round does: it halves where the work divides by two.

With ``--quality`` the 95% interval of the paired difference in NDCG@10, two workers less one machine, is printed for
each library and objective; it should lie inside ±0.01.
"""

import functools
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
from benchmarks import harness

Client: Any = UntypedClient
RANKERS: dict[str, Any] = {"lightgbm": rw.LightGBMRanker, "xgboost": rw.XGBoostRanker}


def cluster(workers: int) -> Any:
    return LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs=50
    )


def write(data: rw.RankingDataset, folder: Path, files: int) -> Path:
    folder.mkdir()
    for number, queries in enumerate(np.array_split(np.arange(data.n_queries), files)):
        rw.data.write_parquet(data.take(queries), folder / f"{number:02}.parquet")
    return folder


def timed(make: Any, folder: Path, client: Any, rounds: int, every: int) -> tuple[float, float, float]:
    """Seconds until the end of the first block; of a round after it; and of the busiest worker's CPU in it."""
    seen: dict[int, float] = {}
    busy: dict[int, dict[str, float]] = {}

    def watch(done: int, _: object) -> None:
        if done in (every, rounds):
            busy[done] = client.run(time.process_time)
            seen[done] = time.perf_counter()

    start = time.perf_counter()
    rw.cluster.dask.fit(make(), folder, client=client, callback=watch)
    work = max(busy[rounds][worker] - busy[every][worker] for worker in busy[every])
    later = rounds - every
    return seen[every] - start, (seen[rounds] - seen[every]) / later, work / later


def scaling(queries: int, rounds: int, counts: list[int], libraries: list[str], every: int) -> None:
    data = rw.synthetic(n_queries=queries, n_features=136, n_docs=120, seed=1)
    data = data.with_(query_ids=np.arange(data.n_queries))
    print(f"{data}\nXENDCG, {rounds} rounds of 31 leaves in blocks of {every}; {os.cpu_count()} cores, ", end="")
    print(f"load {os.getloadavg()[0]:.1f}")
    print(f"{'library':9} {'workers':>7} {'first block':>12} {'a round':>9} {'speed-up':>9}", end="")
    print(f" {'CPU':>10} {'share':>6}")
    with tempfile.TemporaryDirectory() as place:
        folder = write(data, Path(place, "data"), 8)
        for name in libraries:
            alone = (0.0, 0.0)
            for workers in counts:
                with cluster(workers) as own, Client(own) as client:
                    make = functools.partial(RANKERS[name], "xendcg", rounds=rounds, checkpoint_every=every)
                    first, wall, work = timed(make, folder, client, rounds, every)
                alone = alone if alone[0] else (wall, work)
                print(f"{name:9} {workers:7} {first:10.1f} s {1000 * wall:6.0f} ms {alone[0] / wall:9.2f}", end="")
                print(f" {1000 * work:7.0f} ms {work / alone[1]:6.2f}", flush=True)


def quality(name: str, seeds: int) -> None:
    settings = {"rounds": 200, "checkpoint_every": 50, "leaves": 15, "threads": 1}
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
                        rw.cluster.dask.fit(ours, folder, client=client, valid=fold.valid)
                        alone = ranker(objective, seed=seed, **settings).fit(fold.train, fold.valid)
                        differences.append(ours.score(fold.test) - alone.score(fold.test))
                mean = np.mean(differences)
                half = 1.96 * np.std(differences, ddof=1) / np.sqrt(len(differences))
                verdict = "equal" if max(abs(mean - half), abs(mean + half)) < 0.01 else "NOT SHOWN"
                print(f"{library:9} {objective:11} {mean:+.4f} ± {half:.4f}  {verdict}", flush=True)


def main() -> None:
    parser = harness.arguments(__doc__)
    parser.add_argument("--queries", type=int, default=1500)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--every", type=int, help="rounds of a block; by default half of all")
    parser.add_argument("--workers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--libraries", nargs="+", choices=RANKERS, default=list(RANKERS))
    parser.add_argument("--quality", action="store_true")
    parser.add_argument("--data", default="mq2008")
    parser.add_argument("--seeds", type=int, default=5)
    chosen = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if chosen.quality:
        quality(chosen.data, chosen.seeds)
    else:
        scaling(chosen.queries, chosen.rounds, chosen.workers, chosen.libraries, chosen.every or chosen.rounds // 2)


if __name__ == "__main__":
    main()
