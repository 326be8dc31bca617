"""What first use costs: a training with default objective on an empty cache of kernels, the next process, the import.

    python -m benchmarks.speed.compile [--rounds 3]

Each round trains on synthetic data, with the default objective and another, and on a file of LETOR text: in one
process with an empty folder for kernels, in one that another compiles ahead for, and in the next one, which finds what
they compiled; the least busy of each counts, in CPU seconds of the process that trains, and the quickest on the wall.
The table says which files' kernels took how long; a kernel that Python calls is compiled with all that it calls, and
its time counts for its own file. A machine that is busy with other work takes longer: compare versions in turns, or
give the benchmark priority (`chrt -r 10`). What else is installed counts, too: LightGBM imports pandas and scikit-learn
where they are. The Python of an installation of the core alone, with the checkout on PYTHONPATH, measures that.
"""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numba.core import event

from benchmarks.harness import arguments
from rankwise.base.tables import Table

CASES: tuple[tuple[tuple[str, ...], str], ...] = (
    ((), "synthetic"),
    (("--objective", "xendcg"), "synthetic, xendcg"),
    (("--letor",), "a LETOR file"),
)


class Watch(event.Listener):
    """CPU seconds that compiling took, by the module of the kernel that was called."""

    def __init__(self) -> None:
        self.depth, self.begun = 0, 0.0
        self.taken: dict[str, float] = collections.defaultdict(float)
        self.kernels: dict[str, int] = collections.defaultdict(int)

    def on_start(self, event: Any) -> None:
        if self.depth == 0:
            self.begun = time.process_time()
        self.depth += 1

    def on_end(self, event: Any) -> None:
        self.depth -= 1
        if self.depth == 0:
            module = event.data["dispatcher"].py_func.__module__
            self.taken[module] += time.process_time() - self.begun
            self.kernels[module] += 1


def example(objective: str, letor: bool) -> str:
    """A first training: on synthetic data, or on a file of LETOR text named in the variable ``LETOR``."""
    if not letor:
        source = "whole = rw.synthetic(n_queries=300, seed=1)"
    else:
        source = "import os; whole = rw.read_letor(os.environ['LETOR'])"
    fit = f"model = rw.LightGBMRanker({objective!r}, rounds=20, progress=False).fit(train, valid)"
    end = "rw.evaluate(model, test, ['ndcg@10'])"
    return f"import rankwise as rw\n{source}\ntrain, valid, test = rw.split(whole, (.6, .2, .2), seed=1)\n{fit}\n{end}"


def work(objective: str, letor: bool) -> None:
    """Run the example and print what it took."""
    start, busy = time.perf_counter(), time.process_time()
    watch = Watch()
    event.register("numba:compile", watch)
    exec(compile(example(objective, letor), "first.py", "exec"), {})
    taken = {"wall": time.perf_counter() - start, "cpu": time.process_time() - busy}
    print(json.dumps({**taken, "modules": watch.taken, "kernels": watch.kernels}))


def measure(folder: str, *words: str, ahead: bool = True) -> dict[str, Any]:
    """Run the example in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.compile", "--work", *words]
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder, "RANKWISE_COMPILE_AHEAD": "1" if ahead else "0"}
    environment["LETOR"] = str(Path(folder) / "train.txt")
    start = time.perf_counter()
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return {**found, "wall": time.perf_counter() - start}


def imported(module: str) -> float:
    """Seconds of a process that imports a module, less those of one that imports nothing."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", "pass"], check=True)
    middle = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - 2 * middle + start


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--letor", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--objective", default="lambdarank", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.work:
        work(given.objective, given.letor)
        return
    runs: dict[tuple[str, str], list[dict[str, Any]]] = collections.defaultdict(list)
    for _ in range(given.rounds):
        for words, data in CASES:
            for ahead, process in ((False, "first, one process"), (True, "first")):
                with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
                    if "--letor" in words:
                        _write_letor(Path(folder) / "train.txt")
                    runs[data, process].append(measure(folder, *words, ahead=ahead))
                    if ahead:
                        _let_finish(Path(folder))
                        runs[data, "next"].append(measure(folder, *words))
    best = {key: min(found, key=lambda run: run["cpu"]) for key, found in runs.items()}
    walls = {key: min(run["wall"] for run in found) for key, found in runs.items()}
    rows = tuple((*key, f"{best[key]['cpu']:.1f}", f"{walls[key]:.1f}") for key in best)
    print(Table(header=("data", "process", "CPU s", "wall s"), rows=rows, align="llrr").text())
    print()
    first = best["synthetic", "first, one process"]
    parts = sorted(first["modules"].items(), key=lambda part: -part[1])
    kernels = tuple((module, str(first["kernels"][module]), f"{seconds:.2f}") for module, seconds in parts)
    print(Table(header=("kernels of", "number", "CPU s"), rows=kernels, align="lrr").text())
    print()
    times = {name: min(imported(name) for _ in range(5 * given.rounds)) for name in ("numpy", "rankwise")}
    ratio = times["rankwise"] / times["numpy"]
    print(f"import numpy {times['numpy']:.3f} s, import rankwise {times['rankwise']:.3f} s: {ratio:.2f} times as long")


def _write_letor(path: Path) -> None:
    """Write 300 queries of 20 documents with 20 features; no kernel is compiled for it."""
    numbers = np.random.default_rng(1)
    with path.open("w") as out:
        for row in range(6000):
            values = " ".join(f"{at}:{value:.4f}" for at, value in enumerate(numbers.random(20), 1))
            out.write(f"{row % 3} qid:{row // 20} {values}\n")


def _let_finish(folder: Path, most: float = 120.0) -> None:
    """Wait until the second process has compiled what it began."""
    end, quiet = time.monotonic() + most, 0
    while quiet < 10 and time.monotonic() < end:
        quiet = 0 if list(folder.rglob("*.busy")) else quiet + 1
        time.sleep(0.1)


if __name__ == "__main__":
    main()
