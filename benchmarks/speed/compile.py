"""What compiling costs: the ten lines at the top of the README in a new process, without and with kept kernels.

    python -m benchmarks.speed.compile [--rounds 3]

Each round runs them in a process with an empty folder for kernels and then in one that finds what the first compiled;
the least busy of each counts, in CPU seconds as on the wall. The table says which files' kernels took how
long; a kernel that Python calls is compiled with all that it calls, and its time counts for its own file. A machine
that is busy with other work takes longer: compare versions in turns.
"""

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from numba.core import event

from rankwise.base.tables import Table

README = Path(__file__).parents[2] / "README.md"


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


def first_lines() -> str:
    """The README's first example as a program."""
    shown = README.read_text(encoding="utf-8").split("```python")[1].split("```")[0]
    lines = re.findall(r"^>>> (.*)$", shown, re.MULTILINE)
    return "\n".join(line for line in lines if "AutoRanker(" not in line)  # a search takes its minute


def work() -> None:
    """Run the example and print what it took."""
    start, busy = time.perf_counter(), time.process_time()
    watch = Watch()
    event.register("numba:compile", watch)
    exec(compile(first_lines(), str(README), "exec"), {})
    taken = {"wall": time.perf_counter() - start, "cpu": time.process_time() - busy}
    print(json.dumps({**taken, "modules": watch.taken, "kernels": watch.kernels}))


def measure(folder: str) -> dict[str, Any]:
    """Run the example in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.speed.compile", "--work"]
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description="What compiling costs on first use.")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.work:
        work()
        return
    cold, warm = [], []
    for _ in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as folder:
            cold.append(measure(folder))
            warm.append(measure(folder))
    first, later = min(cold, key=lambda run: run["cpu"]), min(warm, key=lambda run: run["cpu"])
    runs = tuple(
        (name, f"{run['cpu']:.1f}", f"{run['wall']:.1f}") for name, run in (("first", first), ("later", later))
    )
    print(Table(header=("process", "CPU s", "wall s"), rows=runs, align="lrr").text())
    print()
    parts = sorted(first["modules"].items(), key=lambda part: -part[1])
    rows = tuple((module, str(first["kernels"][module]), f"{seconds:.2f}") for module, seconds in parts)
    print(Table(header=("kernels of", "number", "CPU s"), rows=rows, align="lrr").text())


if __name__ == "__main__":
    main()
