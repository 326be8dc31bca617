"""Timing in turns, peak memory, and ratios beside their targets."""

import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

Call = Callable[[], object]
SHORT = 0.5  # seconds: shorter calls are timed after one that is not
PAUSE = 0.02  # seconds: threads of OpenMP go on spinning after their work is done, and would take ours a core


class Times:
    """What each contestant took, in turns: seconds on the wall, and CPU seconds of the least busy run."""

    def __init__(self, contestants: dict[str, Call], rounds: int, *, warm: int = 1) -> None:
        self.wall: dict[str, list[float]] = {name: [] for name in contestants}
        self.cpu: dict[str, float] = dict.fromkeys(contestants, np.inf)
        for number in range(-warm, rounds):
            for name, call in contestants.items():
                time.sleep(PAUSE)
                if self.wall[name] and self.wall[name][-1] < SHORT:
                    call()  # after the pause caches are cold and threads asleep, for whoever is first
                start, busy = time.perf_counter(), time.process_time()
                call()
                if number >= 0:
                    self.wall[name].append(time.perf_counter() - start)
                    self.cpu[name] = min(self.cpu[name], time.process_time() - busy)
        self.median = {name: statistics.median(taken) for name, taken in self.wall.items()}
        self.quickest = {name: min(taken) for name, taken in self.wall.items()}

    def take(self, part: str, name: str) -> None:
        """Take one contestant's time from another's: round by round for the median."""
        both = zip(self.wall[name], self.wall[part], strict=True)
        self.median[name] = statistics.median(whole - rest for whole, rest in both)
        self.quickest[name] -= self.quickest[part]
        self.cpu[name] -= self.cpu[part]

    def ratios(self, name: str, other: str, scale: float = 1.0) -> tuple[float, float, float]:
        """How many times longer the first took: by medians, by quickest runs, by CPU time."""
        kinds = (self.median, self.quickest, self.cpu)
        return tuple(scale * kind[name] / kind[other] for kind in kinds)  # type: ignore[return-value]


# With these in its environment a process gives every array pages of its own, which go back to the system with it.
OWN_PAGES = {"MALLOC_MMAP_THRESHOLD_": "65536"}


def measures_memory() -> bool:
    """Whether the system keeps the high-water mark of a process: Linux does."""
    return Path("/proc/self/clear_refs").exists()


def peak_memory(call: Call) -> float:
    """Bytes that a call takes at its peak beyond what the process held before; needs :data:`OWN_PAGES`."""

    def resident(line: str) -> float:
        text = Path("/proc/self/status").read_text()
        return 1024.0 * float(text.split(f"{line}:")[1].split()[0])

    Path("/proc/self/clear_refs").write_text("5")
    before = resident("VmRSS")
    call()
    return resident("VmHWM") - before


class Verdicts:
    """Ratios beside their targets, and how many were missed."""

    def __init__(self) -> None:
        self.missed: list[str] = []
        self.met = 0

    def least(self, what: str, ratio: float, target: float) -> str:
        return self.judge(what, ratio, ratio >= target, f"at least {target:g}")

    def most(self, what: str, ratio: float, target: float) -> str:
        return self.judge(what, ratio, ratio <= target, f"at most {target:g}")

    def judge(self, what: str, ratio: float, fine: bool, target: str) -> str:
        if fine:
            self.met += 1
            return f"{target}: pass"
        self.missed.append(f"{what}: {ratio:.2f}, wanted {target}")
        return f"{target}: MISS"
