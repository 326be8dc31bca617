"""Timing on a device by its own events, peak memory, and the limits of the device, measured in the same run."""

import statistics
import time
from collections.abc import Callable, Iterable, Mapping

import torch
import triton
import triton.language as tl
from torch import Tensor

from benchmarks.harness import Call
from rankwise.base.device.arithmetic import sigmoid
from rankwise.base.device.random import uniform_pair

Calls = Mapping[str, Call]
Timing = dict[str, float]
SIGMOID, DOUBLE_EXP, UNIFORM = range(3)
_SIGMOID, _DOUBLE_EXP = tl.constexpr(SIGMOID), tl.constexpr(DOUBLE_EXP)
LONGEST_SLEEP = 60.0  # milliseconds
LONG = 25.0  # milliseconds


def repeated(call: Call, count: int) -> Call:
    def run() -> None:
        for _ in range(count):
            call()

    return run


def sleep(cycles: int) -> None:
    """Keep the device idle for so long, and the host not waiting for it."""
    torch.cuda._sleep(cycles)


class Clock:
    """Medians of calls that take turns, in milliseconds, by three clocks, all between CUDA events:

    - *idle*: one call, from an idle device; what the host takes to launch kernels counts where the device waits for it;
    - *steady*: one call of many, back to back, as a training loop makes them;
    - *device*: one call on the device alone, which sleeps while the host launches all kernels of the call.
    """

    def __init__(self, device: torch.device) -> None:
        self.device, self.cuda = device, device.type == "cuda"
        self.cycles = 0.0
        if self.cuda:
            some = 10_000_000
            self.cycles = some / min(self._once(lambda: sleep(some)) for _ in range(3))  # in a millisecond

    def measure(self, calls: Calls, rounds: int = 15, seconds: float = 1.5, warm: int = 2) -> dict[str, Timing]:
        """By all three clocks. A call of ``LONG`` leaves the device no rest, so that it is timed by the first alone."""
        idle = self.idle(calls, rounds, seconds, warm)
        found = {name: {"idle": taken, "steady": taken, "device": taken} for name, taken in idle.items()}
        if not self.cuda:
            return found
        short = {name: call for name, call in calls.items() if idle[name] < LONG}
        counts = {name: min(max(round(20.0 / idle[name]), 3), 30) for name in short}
        loops = {name: (repeated(call, counts[name]), 0.0) for name, call in short.items()}
        for name, taken in self._turns(loops, 5, seconds, 0).items():
            found[name]["steady"] = taken / counts[name]
        alone = {name: (call, min(2.0 * idle[name] + 1.0, LONGEST_SLEEP)) for name, call in short.items()}
        for name, taken in self._turns(alone, 9, seconds, 0).items():
            found[name]["device"] = taken
        return found

    def idle(self, calls: Calls, rounds: int = 20, seconds: float = 3.0, warm: int = 2) -> dict[str, float]:
        """Warm up, then take turns for this many rounds, or fewer when these seconds have passed, but three."""
        return self._turns({name: (call, 0.0) for name, call in calls.items()}, rounds, seconds, warm)

    def _turns(self, calls: dict[str, tuple[Call, float]], rounds: int, seconds: float, warm: int) -> dict[str, float]:
        for call, _ in calls.values():
            for _ in range(warm):
                call()
        self.wait()
        taken: dict[str, list[float]] = {name: [] for name in calls}
        start = time.perf_counter()
        for number in range(rounds):
            if number >= 3 and time.perf_counter() - start > seconds:
                break
            for name, (call, nap) in calls.items():
                taken[name].append(self._once(call, nap))
        return {name: statistics.median(times) for name, times in taken.items()}

    def _once(self, call: Call, nap: float = 0.0) -> float:
        if not self.cuda:
            start = time.perf_counter()
            call()
            return 1e3 * (time.perf_counter() - start)
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        if nap:
            sleep(int(nap * self.cycles))
        before.record()
        call()
        after.record()
        after.synchronize()
        return float(before.elapsed_time(after))

    def wait(self) -> None:
        if self.cuda:
            torch.cuda.synchronize()

    def forget(self) -> None:
        """Give memory back that nobody holds."""
        if self.cuda:
            torch.cuda.empty_cache()

    def peak(self, call: Call) -> float:
        """Megabytes that a call takes at its peak beyond what was there before; NaN on a CPU."""
        if not self.cuda:
            return float("nan")
        self.wait()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        call()
        self.wait()
        return (torch.cuda.max_memory_allocated() - before) / 1e6

    def launches(self, call: Call) -> tuple[int, dict[str, tuple[int, float]]]:
        """How many kernels and copies a call starts; and for each name, how many, and their microseconds in all."""
        if not self.cuda:
            return 0, {}
        activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
        with torch.profiler.profile(activities=activities) as profile:
            call()
            self.wait()
        found: dict[str, tuple[int, float]] = {}
        for event in profile.events() or ():
            if str(event.device_type).endswith("CUDA") and event.name != "Activity Buffer Request":
                count, spent = found.get(event.name, (0, 0.0))
                found[event.name] = count + 1, spent + float(event.self_device_time_total)
        return sum(count for count, _ in found.values()), found


@triton.jit
def _arithmetic(results, rounds, what: tl.constexpr, tile: tl.constexpr):
    """One function again and again, in registers."""
    number = tl.program_id(0) * tile + tl.arange(0, tile)
    if what == _SIGMOID:
        x = number.to(tl.float32) * 1e-6
        for _ in range(rounds):
            x = sigmoid(2.0 * x - 1.0)
        tl.store(results + number, x)
    elif what == _DOUBLE_EXP:
        y = number.to(tl.float64) * 1e-6
        for _ in range(rounds):
            y = tl.exp(-y)
        tl.store(results + number, y.to(tl.float32))
    else:
        total = tl.zeros([tile], tl.float64)
        nothing = tl.zeros([tile], tl.int64)
        for step in range(rounds):
            u, v = uniform_pair(nothing, nothing, nothing, number, nothing + step)
            total += u + v
        tl.store(results + number, total.to(tl.float32))


@triton.jit
def _nothing(results):
    tl.store(results, 1.0)


class Limits:
    """What the device can do in a second of each unit, and what a kernel costs that does nothing."""

    def __init__(self, clock: Clock, small: bool = False) -> None:
        tile, programs, rounds = (16, 1, 2) if small else (1024, 132 * 16, 2048)
        results = torch.empty(tile * programs, device=clock.device)

        def function(what: int, often: int) -> Callable[[], None]:
            def run() -> None:
                _arithmetic[(programs,)](results, often, what=what, tile=tile, num_warps=4)

            return run

        big = torch.empty(1_000 if small else 2**28, device=clock.device)
        other = torch.empty_like(big)
        shorter = max(rounds // 16, 1)
        calls: dict[str, Call] = {
            "sigmoids": function(SIGMOID, rounds),
            "double exps": function(DOUBLE_EXP, shorter),
            "uniforms": function(UNIFORM, shorter),
            "bytes": lambda: other.copy_(big),
        }
        times = clock.idle(calls, 1 if small else 10)
        amounts = {"sigmoids": rounds, "double exps": shorter, "uniforms": 2 * shorter}
        self.rates = {name: 1e3 * each * tile * programs / times[name] for name, each in amounts.items()}
        self.rates["bytes"] = 1e3 * 2 * 4 * big.numel() / times["bytes"]
        self.launch, self.gap = self._empty(clock, results, 2 if small else 200)

    def _empty(self, clock: Clock, results: Tensor, count: int) -> tuple[float, float]:
        """Microseconds that the host takes to launch a kernel, and those from one to the next on the device."""

        def run() -> None:
            for _ in range(count):
                _nothing[(1,)](results)

        taken = clock.measure({"launch": run}, 5)["launch"]
        return 1e3 * taken["idle"] / count, 1e3 * taken["device"] / count

    def bound(self, work: dict[str, float], kernels: int) -> tuple[str, float]:
        """The unit that allows the least, and the milliseconds that it allows."""
        times = {unit: 1e3 * amount / self.rates[unit] for unit, amount in work.items()}
        times["kernels"] = 1e-3 * self.gap * kernels
        unit = max(times, key=times.__getitem__)
        return unit, times[unit]

    def lines(self) -> Iterable[str]:
        for unit, rate in self.rates.items():
            yield f"{unit:<14}{rate:10.3g} a second"
        yield f"{'kernels':<14}{self.launch:10.2f} µs each to launch, {self.gap:.2f} from one to the next on the device"
