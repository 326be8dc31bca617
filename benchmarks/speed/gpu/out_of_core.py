"""Training on a GPU from features on disk, beside training in core: time of a round, device memory and NDCG.

    python -m benchmarks.speed.gpu.out_of_core [--documents 10000000] [--json out_of_core.json]

MSLR-like data with 136 features, XENDCG, 31 leaves, no validation. Features on disk are those that ``rw.open_data``
returns, 4 bytes a number. Their bins, about a byte a number, are where XGBoost puts them (on the GPU while there is
room) or in the memory of the host (``cache_host_ratio=1``, in pages of 256 MB). A round is the median of all but the
first three; set-up is the rest of the training: reading, bins, the first use of kernels. Device memory is the most that
was in use on the device, less what was in use before. NDCG@10 is that of other queries, with the paired difference to
the training in core.
"""

import argparse
import json
import statistics
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Self

import numpy as np

import rankwise as rw
from benchmarks.harness import difference, say
from rankwise.data.io.disk.mapped import DiskDataset

FEATURES, LENGTH, TEST_QUERIES, PAGE = 136, 120, 2000, 1 << 28
IN_HOST = {"cache_host_ratio": 1.0, "min_cache_page_bytes": PAGE}
DEPTHWISE = {"grow_policy": "depthwise", "max_depth": 5}


class DeviceMemory:
    """Bytes in use on a device beyond those at the start: the most that were seen, a look every 5 ms."""

    def __init__(self, device: str) -> None:
        self.most, self.on, self.ended = 0, device.startswith("cuda"), threading.Event()
        self.before = self.used()
        self.thread = threading.Thread(target=self.look, daemon=True)

    def used(self) -> int:
        if not self.on:
            return 0
        import torch

        free, total = torch.cuda.mem_get_info()
        return int(total - free)

    def look(self) -> None:
        while not self.ended.wait(0.005):
            self.most = max(self.most, self.used() - self.before)

    def __enter__(self) -> Self:
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()


def make(folder: Path, documents: int) -> tuple[DiskDataset, rw.RankingDataset]:
    """Write features to a file; return the data with the features mapped from there, and test data in memory."""
    queries = max(1, round(documents / LENGTH))
    data = rw.synthetic(n_queries=queries + TEST_QUERIES, n_docs=LENGTH, n_features=FEATURES, seed=1)
    train, test = data.take(slice(0, queries)), data.take(slice(queries, None))
    path = folder / "features.npy"
    np.save(path, train.features)
    features = np.load(path, mmap_mode="r")
    return DiskDataset(features, train.labels, train.offsets, query_ids=train.query_ids), test


def measured(train: rw.RankingDataset, test: rw.RankingDataset, device: str, rounds: int, **native: Any) -> Any:
    """Train once; return seconds, bytes on the device, and NDCG@10 of each test query."""
    ranker = rw.XGBoostRanker(
        "xendcg", rounds=rounds, leaves=31, device=device, patience=None, progress=False, seed=1, **native
    )
    with DeviceMemory(device) as memory:
        ends, start = [], time.perf_counter()
        ranker.fit(train, callback=lambda *_: ends.append(time.perf_counter()))
        total = time.perf_counter() - start
    a_round = statistics.median(np.diff(ends)[2:].tolist())
    values = rw.evaluate(ranker, test, ["ndcg@10"])["ndcg@10"]
    seconds = {"round": a_round, "setup": total - rounds * a_round}
    return {**seconds, "device_bytes": memory.most, "ndcg@10": float(np.nanmean(values)), "values": values}


def main() -> None:
    parser = argparse.ArgumentParser(description="Train on a GPU from features on disk, and in core.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to see that it runs")
    parser.add_argument("--documents", type=int, default=10_000_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--folder", type=Path, help="where features are written; a temporary folder by default")
    parser.add_argument("--json", type=Path, help="where to write all figures")
    options = parser.parse_args()
    in_host = IN_HOST if options.device.startswith("cuda") else {}
    trainings: dict[str, tuple[bool, dict[str, Any]]] = {
        "in core": (False, {}),
        "on disk": (True, {}),
        "on disk, bins in host memory": (True, in_host),
        "in core, by depth": (False, DEPTHWISE),
        "on disk, bins in host memory, by depth": (True, in_host | DEPTHWISE),
    }
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        start = time.perf_counter()
        on_disk, test = make(Path(folder), options.documents)
        say(f"{on_disk!r}: made in {time.perf_counter() - start:.0f} s")
        in_core = rw.RankingDataset(
            np.array(on_disk.features), on_disk.labels, on_disk.offsets, query_ids=on_disk.query_ids
        )
        measured(in_core.take(slice(0, 500)), test, options.device, 5)  # compiles and loads everything
        results: dict[str, Any] = {}
        for name, (mapped, native) in trainings.items():
            results[name] = outcome = measured(
                on_disk if mapped else in_core, test, options.device, options.rounds, **native
            )
            beside = results["in core, by depth" if "by depth" in name else "in core"]
            gap = difference(outcome["values"] - beside["values"])
            print(
                f"{name:40s}{1e3 * outcome['round']:9.1f} ms a round, {outcome['setup']:6.1f} s before, "
                f"{outcome['device_bytes'] / 1e9:6.2f} GB on the device, NDCG@10 {outcome['ndcg@10']:.4f} ({gap})",
                flush=True,
            )
    if options.json is not None:
        facts = {
            "documents": on_disk.n_docs, "features": FEATURES, "leaves": 31, "rounds": options.rounds,
            "device": options.device,
        }  # fmt: skip
        for outcome in results.values():
            del outcome["values"]
        options.json.write_text(json.dumps({**facts, "trainings": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
