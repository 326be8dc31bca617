"""How long an epoch of ``NeuralRanker`` takes on a GPU, where its features are, and how often a step waits.

    python -m benchmarks.speed.gpu.nets [--queries 6000] [--epochs 5]

MSLR-like lists with 136 features; ApproxNDCG. Seconds are medians over the epochs after the first, with and without
the validation of a quarter as many lists. *waits* are calls by which the host waits for the GPU in an epoch, as the
profiler counts them, beside the one that reads the sums; *busy* is the share of the time in which the GPU computes.
Without a GPU, ``--device cpu --small`` runs the same program, to see that it runs.
"""

import argparse
import statistics
import time
from typing import Any

import numpy as np
import torch
from torch.profiler import ProfilerActivity, profile

import rankwise as rw
from rankwise.wings.nets import inputs
from tests.rankers.training.learners import learner_of

LARGE: dict[str, Any] = {"hidden": (1024, 512, 256), "batch_norm": "all", "dropout": 0.5, "optimizer": "adamw"}
LARGE |= {"transform": "log1p+standardize", "averaging": 0.0}
VARIANTS: dict[str, dict[str, Any]] = {
    "1024-512-256, batches of 128": LARGE | {"batch_queries": 128},
    "1024-512-256, batches of 1,024": LARGE | {"batch_queries": 1024},
    "default (128-64), batches of 32": {"batch_queries": 32},
    "default (128-64), batches of 256": {"batch_queries": 256},
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time epochs of nets on a GPU.")
    parser.add_argument("--device", default="cuda", help="cuda, cuda:1, or cpu")
    parser.add_argument("--queries", type=int, default=6000, help="lists to train on")
    parser.add_argument("--epochs", type=int, default=5, help="of each variant")
    parser.add_argument("--small", action="store_true", help="few lists, to see that it runs")
    options = parser.parse_args()
    if options.device != "cpu" and not torch.cuda.is_available():
        print("There is no GPU here. Nothing to measure.")
        return
    count = 40 if options.small else options.queries
    train, valid = lists(count, seed=1), lists(count // 4, seed=2)
    name = torch.cuda.get_device_name(options.device) if options.device != "cpu" else "CPU"
    print(f"{name}, torch {torch.__version__}; {train.n_docs:,} documents to train, {valid.n_docs:,} to validate")
    for net, settings in VARIANTS.items():
        print(f"\n{net}")
        print(f"{'':24s}  s an epoch  without validation   ms a step   busy  waits   GPU memory  ndcg@10")
        for precision in ("float32", "tf32", "bf16"):
            for place in ("on the device", "streamed"):
                settings |= {"precision": precision, "device": options.device, "seed": 1, "epochs": options.epochs}
                room = inputs.room
                inputs.room = room if place == "on the device" else no_room
                measure(f"{precision}, {place}", train, valid, settings)
                inputs.room = room


def no_room(device: torch.device) -> int:  # noqa: ARG001
    """Let features be streamed, whatever memory there is."""
    return 0


def lists(n_queries: int, seed: int) -> rw.RankingDataset:
    """About 113 documents in a list, the longest 1,251; labels from 0 to 4 that features tell something of."""
    rng = np.random.default_rng(seed)
    sizes = np.clip(rng.lognormal(4.5, 0.7, n_queries), 1, 1251).astype(int)
    features = rng.standard_normal((sizes.sum(), 136), dtype=np.float32)
    worth = features[:, :10].sum(1) / 3 + features[:, 10] * features[:, 11] + 0.7 * rng.standard_normal(sizes.sum())
    return rw.RankingDataset.from_sizes(features, np.searchsorted([0.3, 1.3, 2.3, 3.2], worth), sizes)


def measure(name: str, train: rw.RankingDataset, valid: rw.RankingDataset, settings: dict[str, Any]) -> None:
    """Print a line about epochs with these settings."""
    on_gpu, ends = settings["device"] != "cpu", []
    if on_gpu:
        torch.cuda.reset_peak_memory_stats(settings["device"])
    ranker = rw.NeuralRanker("approx_ndcg", progress=False, patience=None, **settings)
    ranker.fit(train, valid, callback=lambda *_: ends.append(time.perf_counter()))
    whole = statistics.median(np.diff(ends)) if len(ends) > 1 else float("nan")
    memory = torch.cuda.max_memory_allocated(settings["device"]) / 2**20 if on_gpu else 0.0
    learner, stream = learner_of(ranker, train), train.stream(1)
    seconds = statistics.median(rounds(learner, stream, settings["epochs"])[1:] or [float("nan")])
    with profile(activities=[ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if on_gpu else [])]) as seen:
        learner.round(stream.at(99))
    events = seen.key_averages()
    waits = sum(one.count for one in events if one.key in ("cudaStreamSynchronize", "cudaMemcpy")) - 1
    busy = sum(one.self_device_time_total for one in events if str(one.device_type).endswith("CUDA")) / 1e6
    steps = -(-train.n_queries // settings["batch_queries"])
    print(
        f"{name:24s}  {whole:10.3f}  {seconds:18.3f}  {seconds / steps * 1e3:10.2f}  {busy / seconds:5.0%}  {waits:5d}"
        f"  {memory:7,.0f} MiB  {ranker.history_['ndcg@10'][-1]:7.4f}",
        flush=True,
    )


def rounds(learner: Any, stream: rw.Stream, epochs: int) -> list[float]:
    """Seconds of each of the first epochs."""
    found = []
    for number in range(epochs):
        start = time.perf_counter()
        learner.round(stream.at(number))
        found.append(time.perf_counter() - start)
    return found


if __name__ == "__main__":
    main()
