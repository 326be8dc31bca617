"""What training costs, by documents, features and leaves: a model fitted to measured points, and what it foresees.

    python -m benchmarks.speed.cost --measure          # every point in a process of its own, about ten minutes of CPU
    python -m benchmarks.speed.cost                    # tables and figure of docs/benchmarks/scale.md, from points

Points are LightGBM with XENDCG from features on disk, one thread, MSLR-like lists. Seconds are CPU seconds, which other
work on the machine changes little; a round is the median of all but the first two. The model of a round on one thread
adds up what histograms of gradients cost,

    t = a N F + b N F √L + c N + d F L       (N documents, F features, L leaves),

that is the root's histogram, those of the splits, work on each document alone (objective, scores, rows of leaves) and
the search through histograms; a, b, c, d ≥ 0 have the least squares of relative errors. Bins are made in a + b N F +
c S F seconds, where S documents are the sample of which they are made. Memory is a S F bytes then and N F + b N + c F L
in training, whichever is more. The points of ``HELD_OUT`` are not fitted: the error there is that of a
forecast. Intervals of 95% resample the points, and add a relative error of one point left out. For several threads,
workers or a GPU the factors of ``EFFICIENCY``, ``WORKERS`` … are assumptions, and the interval runs over their range.
"""

import argparse
import itertools
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from benchmarks.harness import OWN_PAGES, heading, markdown, say

POINTS = tuple(itertools.product((20_000, 60_000, 200_000, 600_000), (34, 136), (15, 63, 255)))
HELD_OUT = ((2_400_000, 136, 63), (2_400_000, 34, 255))
ROUNDS, SIZE = 12, ("documents", "features", "leaves")

FEATURES, LEAVES, TREES = 136, 31, 500
SIZES = (10**7, 10**8, 10**9, 10**10)
THREADS, WORKERS, WORKER_THREADS = 64, 64, 16
EFFICIENCY = (0.3, 0.8)  # of threads and workers: the work of one thread, over the time of all of them together
BANDWIDTH, LATENCY = (0.6e9, 1.25e9), (0.5e-4, 2e-4)  # bytes a second (5 to 10 Gbit/s) and seconds a message
DISK = (0.5e9, 2e9)  # bytes a second
DEVICE, DEPTH = 149e9, 6  # bytes of a GPU, and passes over the bins of a tree that grows by depth
DRAWS = 2000
UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0))

Rows = NDArray[np.float64]


# ---- points ----------------------------------------------------------------------------------------------------------


class PrivateMemory:
    """The most bytes that this process has for itself in a ``with`` block, beyond those before; a look every 10 ms.

    Pages of a mapped file are not among them: the system takes them back when memory is short.
    """

    def __enter__(self) -> Self:
        self.most, self.before, self.ended = 0, self.now(), threading.Event()
        self.thread = threading.Thread(target=self.look, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.thread.join()

    def now(self) -> int:
        return 1024 * int(Path("/proc/self/status").read_text().split("RssAnon:")[1].split()[0])

    def look(self) -> None:
        while not self.ended.wait(0.01):
            self.most = max(self.most, self.now() - self.before)


def measured(documents: int, features: int, leaves: int) -> dict[str, float]:
    """Train in this process; return CPU seconds and peak memory."""
    import rankwise as rw
    from rankwise.data.io.disk.mapped import DiskDataset

    with tempfile.TemporaryDirectory() as folder:
        data = rw.synthetic(n_queries=documents // 120, n_docs=120, n_features=features, seed=1)
        np.save(f"{folder}/features.npy", data.features)
        mapped = np.load(f"{folder}/features.npy", mmap_mode="r")
        train = DiskDataset(mapped, data.labels, data.offsets, query_ids=data.query_ids)
        small = data.take(range(50))
        del data
        ranker = rw.LightGBMRanker("xendcg", rounds=ROUNDS, leaves=leaves, min_documents=20, threads=1, patience=None)
        ranker.fit(small)  # compiles and loads everything
        ends, start = [], time.process_time()
        with PrivateMemory() as memory:
            ranker.fit(train, callback=lambda *_: ends.append(time.process_time()))
        total, a_round = time.process_time() - start, statistics.median(np.diff(ends)[1:].tolist())
    return {
        "documents": train.n_docs, "features": features, "leaves": leaves,
        "round": a_round, "setup": max(total - ROUNDS * a_round, 1e-3), "bytes": memory.most,
    }  # fmt: skip


def measure() -> list[dict[str, float]]:
    found = []
    for number, point in enumerate((*POINTS, *HELD_OUT), 1):
        command = [sys.executable, "-m", "benchmarks.speed.cost", "--point", *map(str, point)]
        answer = subprocess.run(command, env=os.environ | OWN_PAGES, capture_output=True, text=True, check=True)
        found.append(json.loads(answer.stdout.splitlines()[-1]) | {"held_out": point in HELD_OUT})
        say(f"[{number}/{len(POINTS) + len(HELD_OUT)}] {point}: {found[-1]['round']:.3f} s a round")
    return found


# ---- the model -------------------------------------------------------------------------------------------------------

Terms = Callable[[Rows, Rows, Rows], Rows]
"""From documents, features and leaves to an array (…, stages, terms): the last term has the coefficient 1."""


def of_round(n: Rows, f: Rows, leaves: Rows) -> Rows:
    return np.stack([n * f, n * f * np.sqrt(leaves), n, f * leaves, 0.0 * n], axis=-1)[..., None, :]


def of_setup(n: Rows, f: Rows, _: Rows) -> Rows:
    return np.stack([np.ones_like(n), n * f, sample(n) * f, 0.0 * n], axis=-1)[..., None, :]


def of_memory(n: Rows, f: Rows, leaves: Rows) -> Rows:
    nothing = np.zeros_like(n)
    making_bins = np.stack([sample(n) * f, nothing, nothing, nothing], axis=-1)
    training = np.stack([nothing, n, f * leaves, n * f], axis=-1)  # a bin is a byte
    return np.stack([making_bins, training], axis=-2)


def sample(n: Rows) -> Rows:
    """Documents that bins are made from."""
    from rankwise.rankers.trees.lightgbm.data import sample_size

    return np.minimum(n, np.vectorize(sample_size)(n.astype(int)))


class Model:
    """Non-negative coefficients of terms, of all points and of resampled ones, and the errors of points left out."""

    def __init__(self, terms: Terms, points: list[dict[str, float]], what: str) -> None:
        self.terms = terms
        rows = terms(*(np.array([float(point[name]) for point in points]) for name in SIZE))
        values = np.array([point[what] for point in points])
        self.best = fitted(rows, values)
        every = np.arange(len(points))
        left_out = [float(largest(rows[i], fitted(rows[every != i], values[every != i]))) for i in every]
        self.errors = np.log(values / left_out)
        draws = np.random.default_rng(0)
        chosen = draws.integers(len(points), size=(DRAWS, len(points)))
        self.resampled = [fitted(rows[pick], values[pick]) for pick in chosen]
        self.noise = np.exp(draws.choice(self.errors, DRAWS))

    def draws(self, *size: float) -> Rows:
        """Resampled forecasts for documents, features and leaves."""
        terms = self.terms(*(np.array(float(part)) for part in size))
        return np.asarray([largest(terms, coefficients) for coefficients in self.resampled] * self.noise)

    def at(self, *size: float) -> float:
        """The forecast for documents, features and leaves."""
        return float(largest(self.terms(*(np.array(float(part)) for part in size)), self.best))


def largest(rows: Rows, coefficients: Rows) -> Rows:
    """The largest stage."""
    return np.asarray((rows @ np.append(coefficients, 1.0)).max(axis=-1))


def fitted(rows: Rows, values: Rows) -> Rows:
    """Coefficients of least squares of relative errors; each point is of the stage that is largest there."""
    chosen = rows.sum(axis=-2)
    for _ in range(8 if rows.shape[-2] > 1 else 1):
        terms, rest = chosen[:, :-1] / values[:, None], 1.0 - chosen[:, -1] / values
        scale = np.where(terms.any(axis=0), terms.max(axis=0), 1.0)
        coefficients = nnls(terms / scale, rest)[0] / scale
        stages = (rows @ np.append(coefficients, 1.0)).argmax(axis=-1)
        chosen = np.take_along_axis(rows, stages[:, None, None], axis=-2)[:, 0]
    return np.asarray(coefficients)


# ---- from one thread to machines -------------------------------------------------------------------------------------


def between(limits: tuple[float, float], seed: int) -> Rows:
    """Draw an assumption from its range, evenly in its logarithm."""
    low, high = map(math.log, limits)
    return np.asarray(np.exp(np.random.default_rng(seed).uniform(low, high, DRAWS)))


def machine(a_round: Rows) -> Rows:
    """A round on all threads of one machine."""
    return a_round / THREADS / between(EFFICIENCY, 1)


def cluster(a_round: Rows) -> Rows:
    """A round on all workers: their share of the work, and histograms over the network."""
    cores = WORKERS * WORKER_THREADS * between(EFFICIENCY, 2)
    histograms = (LEAVES - 1) * 2 * FEATURES * 255 * 16 / between(BANDWIDTH, 3)
    messages = (LEAVES - 1) * 2 * math.log2(WORKERS) * between(LATENCY, 4)
    return a_round / cores + histograms + messages


def gpu(facts: Any, documents: float) -> Rows:
    """A round on a GPU; bins beyond its memory come over the bus once for every depth. NaN if scores alone do not fit.

    Time and memory go by the documents of the measured training, and the bus is as quick as it was there.
    """
    trainings, count = facts["trainings"], facts["documents"]
    on_device, in_host = trainings["on disk"], trainings["on disk, bins in host memory"]
    bins, rest = documents * FEATURES, on_device["device_bytes"] / count - FEATURES
    if documents * rest > 0.9 * DEVICE:
        return np.full(DRAWS, np.nan)
    beyond = max(0.0, bins + documents * rest - DEVICE)
    bus = (LEAVES - 1) * count * FEATURES / (in_host["round"] - on_device["round"])
    travel = DEPTH * beyond / (bus * between((0.5, 1.0), 6))
    return np.asarray(on_device["round"] * documents / count * between((0.8, 1.25), 5) + travel)


def interval(draws: Rows, unit: float = 1.0) -> str:
    low, middle, high = np.quantile(draws / unit, (0.025, 0.5, 0.975))
    return f"{middle:.2g} ({low:.2g} to {high:.2g})" if middle < 100 else f"{middle:,.0f} ({low:,.0f} to {high:,.0f})"


def duration(draws: Rows) -> str:
    if np.isnan(draws).any():
        return "does not fit"
    name, unit = next((name, unit) for name, unit in UNITS if np.median(draws) < 100.0 * unit)
    return f"{interval(draws, unit)} {name}"


# ---- pages -----------------------------------------------------------------------------------------------------------


def report(content: Any, path: Path) -> None:
    points = [point for point in content["points"] if not point["held_out"]]
    models = {
        "round": Model(of_round, points, "round"),
        "setup": Model(of_setup, points, "setup"),
        "bytes": Model(of_memory, points, "bytes"),
    }
    heading("coefficients, and errors of points left out one by one")
    for name, model in models.items():
        typical = math.exp(statistics.median(np.abs(model.errors).tolist())) - 1.0
        worst = math.exp(float(np.abs(model.errors).max())) - 1.0
        print(f"{name:6s} {np.array2string(model.best, precision=3)}: median {typical:.0%}, largest {worst:.0%}")
    heading("forecasts of sizes that were left out")
    rows = []
    for point in content["points"]:
        if point["held_out"]:
            size = point["documents"], int(point["features"]), int(point["leaves"])
            for name, model in models.items():
                low, high = np.quantile(model.draws(*size), (0.025, 0.975))
                error = model.at(*size) / point[name] - 1.0
                unit = 1e9 if name == "bytes" else 1.0
                cells = [f"{value / unit:.3g}" for value in (model.at(*size), low, high, point[name])]
                rows.append(
                    [f"{size[0]:,}", *size[1:], name, cells[0], f"{cells[1]} to {cells[2]}", cells[3], f"{error:+.0%}"]
                )
    print(markdown(["documents", "features", "leaves", "what (s, GB)", "forecast", "95%", "measured", "error"], rows))
    heading(f"{TREES} rounds, {FEATURES} features, {LEAVES} leaves")
    rows = []
    for documents in SIZES:
        a_round = models["round"].draws(documents, FEATURES, LEAVES)
        memory = models["bytes"].draws(documents, FEATURES, LEAVES)
        read = 4.0 * FEATURES * documents / between(DISK, 7)
        setup = models["setup"].draws(documents, FEATURES, LEAVES)
        alone = TREES * machine(a_round) + setup / THREADS / between(EFFICIENCY, 1) + read
        together = TREES * cluster(a_round) + setup / WORKERS / WORKER_THREADS / between(EFFICIENCY, 2) + read / WORKERS
        times = [duration(alone)]
        if "gpu" in content:
            times.append(duration(TREES * gpu(content["gpu"], documents) + 2.0 * read))
        rows.append([f"{documents:.0e}", interval(memory, 1e9), *times, duration(together)])
    header = ["documents", "GB of LightGBM", f"one machine, {THREADS} threads"]
    header += ["one GPU"] * ("gpu" in content) + [f"{WORKERS} workers × {WORKER_THREADS} threads"]
    print(markdown(header, rows))
    draw(content, models["round"], path)


def draw(content: Any, model: Model, path: Path) -> None:
    """Seconds of a round by documents: points, the model with its band, and machines."""
    from rankwise.statistics.figures.drawing import BLUE, GREY, figure

    sizes = np.geomspace(1e4, 1e10, 60)
    with figure(path, 7.0, 4.4, force=True) as drawing:
        axes = drawing.subplots()

        def line(draws: Callable[[float], Rows], label: str, colour: str, least: float = 0.0) -> None:
            shown = sizes[sizes >= least]
            low, middle, high = np.array([np.quantile(draws(size), (0.025, 0.5, 0.975)) for size in shown]).T
            axes.plot(shown, middle, color=colour, label=label)
            axes.fill_between(shown, low, high, color=colour, alpha=0.2, linewidth=0)

        def one(size: float) -> Rows:
            return model.draws(size, FEATURES, LEAVES)

        line(lambda size: model.draws(size, FEATURES, 63), "one thread, 63 leaves", GREY)
        line(lambda size: machine(one(size)), f"{THREADS} threads", BLUE)
        if "gpu" in content:
            line(lambda size: gpu(content["gpu"], size), "one GPU", "#117733", least=content["gpu"]["documents"])
        line(lambda size: cluster(one(size)), f"{WORKERS} workers × {WORKER_THREADS} threads", "#aa4499")
        for held_out, marker in ((False, "o"), (True, "D")):
            chosen = [
                p
                for p in content["points"]
                if p["features"] == FEATURES and p["held_out"] == held_out and p["leaves"] == 63
            ]
            label = "measured, 63 leaves" + (", left out" if held_out else "")
            shape: Any = {"marker": marker, "facecolors": "white" if held_out else "black", "edgecolors": "black"}
            axes.scatter(
                [p["documents"] for p in chosen], [p["round"] for p in chosen], s=24, label=label, zorder=3, **shape
            )
        axes.set(xscale="log", yscale="log", xlabel="documents", ylabel="seconds a round")
        axes.legend(frameon=False, fontsize=8)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measure", action="store_true", help="measure all points anew")
    parser.add_argument(
        "--point", type=int, nargs=3, metavar=("DOCUMENTS", "FEATURES", "LEAVES"), help="one point alone"
    )
    parser.add_argument("--gpu", type=Path, help="what benchmarks.speed.gpu.out_of_core wrote")
    parser.add_argument("--kept", type=Path, default=Path("docs/results/cost.json"), help="where points are kept")
    parser.add_argument("--figure", type=Path, default=Path("docs/results/img/cost.png"))
    options = parser.parse_args()
    if options.point:
        print(json.dumps(measured(*options.point)))
        return
    content: Any = json.loads(options.kept.read_text()) if options.kept.exists() else {}
    if options.measure:
        content["points"] = measure()
    if options.gpu:
        content["gpu"] = json.loads(options.gpu.read_text())
    options.kept.write_text(json.dumps(content, indent=1) + "\n")
    report(content, options.figure)


if __name__ == "__main__":
    main()
