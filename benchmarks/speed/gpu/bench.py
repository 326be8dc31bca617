"""What sections of the GPU benchmark share: lists, the work that objectives cannot do without, our calls, the run."""

import argparse
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
import triton

import rankwise as rw
from benchmarks.harness import Call
from benchmarks.speed.gpu.clock import Clock, Limits, Timing
from benchmarks.speed.peers import Lists, make_lists

GRADES = [0.52, 0.32, 0.13, 0.02, 0.01]


def gamma_lists(n_queries: int, seed: int = 0) -> Lists:
    """Lists of gamma length: 116 documents in the mean as well, but none as long as MSLR's longest."""
    draw = np.random.default_rng(seed)
    sizes = np.clip(draw.gamma(4.0, 29.0, n_queries), 5, 900).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = draw.choice(5, size=int(offsets[-1]), p=GRADES).astype(np.float64)
    return draw.normal(size=labels.size) + 0.4 * labels, labels, offsets


def tiny_lists() -> Lists:
    """What an interpreter computes in little time."""
    draw = np.random.default_rng(0)
    offsets = np.array([0, 7, 11, 20])
    labels = draw.integers(0, 3, 20).astype(np.float64)
    return draw.normal(size=20), labels, offsets


def one_list(length: int) -> Lists:
    draw = np.random.default_rng(length)
    labels = draw.choice(5, size=length, p=GRADES).astype(np.float64)
    return draw.normal(size=length) + 0.4 * labels, labels, np.array([0, length])


def work_of(name: str, lists: Lists) -> dict[str, float]:
    """What an objective cannot do without: sigmoids or exponentials of pairs, random numbers, bytes."""
    _, labels, offsets = lists
    sizes = np.diff(offsets).astype(np.float64)
    relevant = np.add.reduceat((labels > 0.0).astype(np.float64), offsets[:-1])
    n_docs, kind = float(sizes.sum()), name.split("(")[0]
    work = {"bytes": 12.0 * n_docs}  # scores and labels read, gradients written
    smooth = 2.0 * float((relevant * sizes).sum())  # two passes over relevant documents and all others
    first = np.minimum(sizes, 30.0)
    if kind == "stochastic":
        work |= {"sigmoids": 8.0 * smooth, "uniforms": 8.0 * n_docs}
    elif name == "approx_ndcg":
        work["sigmoids"] = smooth
    elif kind == "lambdarank":
        work["sigmoids"] = float((2.0 * first * sizes - first**2).sum())
    elif kind == "ranknet":
        work["sigmoids"] = float((sizes**2).sum())
    elif kind == "plrank":
        samples = 32.0
        work |= {"uniforms": samples * float(np.minimum(sizes, 10.0).sum()), "double exps": samples * n_docs}
    elif kind == "yeti":
        work["uniforms"] = 10.0 * n_docs
    elif kind == "xendcg":
        work["uniforms"] = n_docs
    return work


class Ours:
    """An objective on a device: the loss of a training loop, and the bare kernel."""

    def __init__(self, name: str, lists: Lists, device: torch.device) -> None:
        scores, labels, offsets = lists
        started = time.perf_counter()
        self.prepared = rw.torch_loss(name).prepare(labels, offsets)
        self.leaf = torch.tensor(scores, dtype=torch.float32, device=device).requires_grad_(True)
        self.loss()
        self.preparing = 1e3 * (time.perf_counter() - started)  # with what is compiled at the first call
        self.unprepared = rw.torch_loss(name)
        self.labels = torch.tensor(labels, dtype=torch.float32, device=device)
        self.offsets = torch.tensor(offsets, device=device)
        self.on_device = rw.objective(name).prepare(labels, offsets).to(device, torch.float32)
        self.scores, self.stream = self.leaf.detach(), rw.Stream(1, 1)

    def loss(self) -> None:
        """Forwards and backwards."""
        self.leaf.grad = None
        self.prepared(self.leaf).backward()

    def fresh(self) -> None:
        """Forwards and backwards, from labels and offsets that are on the device."""
        self.leaf.grad = None
        self.unprepared(self.leaf, self.labels, self.offsets).backward()

    def kernel(self) -> rw.objectives.Derivatives:
        """Value and gradient."""
        return self.on_device(self.scores, self.stream, hessian=False)

    def with_hessian(self) -> rw.objectives.Derivatives:
        """Value, gradient and Hessian."""
        return self.on_device(self.scores, self.stream)


class Bench:
    """One run: its device, limits, what was found, and the time that is left."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.start, self.options = time.perf_counter(), options
        self.device = torch.device(options.device)
        self.clock, self.small = Clock(self.device), options.small
        self.limits = Limits(self.clock, self.small)
        self.name = torch.cuda.get_device_name(self.device) if self.clock.cuda else "CPU"
        self.versions = {"torch": str(torch.__version__), "triton": str(triton.__version__)}
        self.memory = torch.cuda.get_device_properties(self.device).total_memory if self.clock.cuda else 4e9
        self.rows: list[dict[str, Any]] = []
        self.targets: list[dict[str, Any]] = []
        self.more: dict[str, Any] = {}
        # kernels whose launches are to be counted, with their rows and their work
        self.pending: list[tuple[dict[str, Any], Call, dict[str, float]]] = []

    @property
    def elapsed(self) -> float:
        return time.perf_counter() - self.start

    def late(self, share: float = 1.0) -> bool:
        return self.elapsed > share * float(self.options.seconds)

    def ratio(self, what: str, theirs: Timing, ours: Timing, clock: str, wanted: float) -> None:
        """A target: how many times ours theirs is, by a clock."""
        note = f"{theirs[clock]:.3g} ms over {ours[clock]:.3g} ms"
        self.target(f"{what}, {clock}", theirs[clock] / ours[clock], wanted, note=note)

    def target(self, what: str, found: float, wanted: float, *, most: bool = False, note: str = "") -> None:
        met = found <= wanted if most else found >= wanted
        bound = "at most" if most else "at least"
        line = {"what": what, "found": found, "bound": bound, "wanted": wanted, "met": bool(met), "note": note}
        self.targets.append(line)

    def make(self, n_queries: int) -> Lists:
        """Lists like MSLR's, one as long as its longest; or a few tiny ones."""
        if self.small:
            return tiny_lists()
        return gamma_lists(n_queries) if self.options.lists == "gamma" else make_lists(n_queries, longest=True)

    def measure(self, calls: Mapping[str, Call]) -> dict[str, Timing]:
        """By three clocks."""
        return self.clock.measure(calls, *((1, 0.0, 0) if self.small else ()))

    def beside_limit(self, work: dict[str, float], kernels: int, busy: float) -> dict[str, Any]:
        """The unit that allows least, how many of it a second, and the share of what is possible."""
        unit, least = self.limits.bound(work, kernels)
        rate = 1e3 * (work | {"kernels": kernels})[unit] / busy
        return {"kernels": kernels, "unit": unit, "rate": rate, "share": least / busy}

    def figures(self) -> dict[str, Any]:
        """All that was found."""
        limits = self.limits.rates | {"launch µs": self.limits.launch, "gap µs": self.limits.gap}
        found = {"device": self.name, "versions": self.versions, "lists": self.options.lists, "limits": limits}
        return found | {"rows": self.rows, "targets": self.targets, "seconds": self.elapsed} | self.more


def captured(call: Call) -> torch.cuda.CUDAGraph:
    """A graph of one call, after three on a stream of their own, as torch wants it."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph
