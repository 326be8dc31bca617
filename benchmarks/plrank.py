"""PLRank: how fast and how noisy. (Which curvature trains best: curvature.py.)

python benchmarks/plrank.py speed
python benchmarks/plrank.py error
"""

import itertools
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

import rankwise as rw
from rankwise.metrics.base import discounts, gains
from rankwise.objectives.plackett_luce import DRAWS, SAMPLERS
from rankwise.objectives.plrank import PLRank

Array = NDArray[np.float64]
Lists = tuple[Array, Array, NDArray[np.int64]]


def lists(n_queries: int, spread: float, seed: int = 0) -> Lists:
    """Lists of log-normal length with five grades; ``spread`` 0.1 makes flat scores, 10 very peaked ones."""
    draw = np.random.default_rng(seed)
    sizes = np.exp(draw.normal(np.log(95), 0.65, n_queries)).round().clip(1, 1251).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = draw.choice(5, offsets[-1], p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float64)
    return spread * (draw.normal(size=offsets[-1]) + 0.5 * labels), labels, offsets


def numpy_plrank(lists: Lists, samples: int, cutoff: int, seed: int) -> tuple[Array, Array]:
    """What one writes without a compiler: a loop over queries, all samples of a query at once."""
    scores, labels, offsets = lists
    gradient, hessian = np.zeros(scores.size), np.zeros(scores.size)
    draw = np.random.default_rng(seed)
    for start, end in itertools.pairwise(offsets):
        reward = gains(labels[start:end])
        depth = min(cutoff, reward.size)
        theta = discounts(depth)
        best = (np.sort(reward)[::-1][:depth] * theta).sum()
        if best == 0.0 or reward.size == 1:
            continue
        reward = reward / best
        e = np.exp(scores[start:end] - scores[start:end].max())
        noisy = draw.exponential(size=(samples, e.size)) / np.maximum(e, 1e-300)
        top = np.argpartition(noisy, depth - 1, axis=1)[:, :depth]
        ranked = np.take_along_axis(top, np.argsort(np.take_along_axis(noisy, top, 1), axis=1), axis=1)
        placed = e[ranked]
        rest = np.maximum(e.sum() - placed.sum(1, keepdims=True), 0.0)
        z = rest + placed[:, ::-1].cumsum(1)[:, ::-1]  # from the last rank up: nothing is subtracted twice
        earned = theta * reward[ranked]
        onward = earned[:, ::-1].cumsum(1)[:, ::-1]
        dn, dr, ri = (1 / z).cumsum(1), (theta / z).cumsum(1), (onward / z).cumsum(1)
        a, b = (theta * dn / z).cumsum(1), (onward * dn / z).cumsum(1)
        rank = np.full((samples, e.size), depth - 1)
        np.put_along_axis(rank, ranked, np.arange(depth)[None, :].repeat(samples, 0), 1)
        following = np.zeros((samples, e.size))
        np.put_along_axis(following, ranked, onward - earned, 1)
        dn, dr, ri, a, b = (np.take_along_axis(part, rank, 1) for part in (dn, dr, ri, a, b))
        step = e * (reward * dr - ri)
        gradient[start:end] = -(following + step).mean(0)
        hessian[start:end] = -(following * (1 - 2 * e * dn) + step + 2 * e**2 * (b - reward * a)).mean(0)
    return gradient, hessian


def speed(n_queries: int = 6000, cutoff: int = 10) -> None:
    """Milliseconds of gradient and Hessian for about 700,000 documents, beside the NumPy version in the same run."""
    print(f"{'spread':>6} {'samples':>7} {'NumPy':>9} " + "".join(f"{sampler:>16}" for sampler in SAMPLERS))
    for spread in (0.1, 1.0, 3.0, 10.0):
        data, part = lists(n_queries, spread), lists(n_queries // 20, spread)
        for samples in (10, 100):
            ours = [PLRank(samples=samples, cutoff=cutoff, sampler=sampler) for sampler in SAMPLERS]
            calls: list[Callable[[], object]] = [partial(numpy_plrank, part, samples, cutoff, 0)]
            calls += [partial(plrank, *data, rw.Stream(seed=0)) for plrank in ours]
            peer, *times = quickest(calls, 4)
            peer *= data[0].size / part[0].size
            cells = [f"{1e3 * taken:7.0f} {f'({peer / taken:.0f}x)':>8}" for taken in times]
            print(f"{spread:6g} {samples:7d} {1e3 * peer:9.0f} " + "".join(cells), flush=True)


def quickest(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least seconds of each call, in rounds, so that a busy machine slows all alike."""
    found = [[] for _ in calls]  # type: list[list[float]]
    for _ in range(rounds):
        for call, taken in zip(calls, found, strict=True):
            start = time.perf_counter()
            call()
            taken.append(time.perf_counter() - start)
    return [min(taken) for taken in found]


def variants() -> Iterator[tuple[str, str, bool]]:
    for sampler in SAMPLERS:
        for draws in DRAWS:
            for baseline in (False, True):
                yield sampler, draws, baseline


def error(n_queries: int = 150, repeats: int = 4) -> None:
    """Relative error of gradient and Hessian by N, and the cost of the gradient's error: µs per list × error²."""
    for spread in (0.1, 1.0, 3.0):
        data = lists(n_queries, spread)
        exact = PLRank(samples=20_000, curvature="estimated")(*data, rw.Stream(seed=10**6))
        print(
            f"\nspread {spread}: error of gradient / Hessian at N = 10, 100, 1000; CPU µs per list × error² at N = 100"
        )
        for sampler, draws, baseline in variants():
            line = f"{sampler:>9} {draws:>12} {'baseline' if baseline else '':>9} "
            for samples in (10, 100, 1000):
                plrank = PLRank(samples=samples, sampler=sampler, draws=draws, baseline=baseline, curvature="estimated")
                squares = np.zeros(2)
                taken = []
                with rw.use_threads(1):
                    for seed in range(repeats if samples < 1000 else 1):
                        start = time.thread_time()
                        found = plrank(*data, rw.Stream(seed=seed))
                        taken.append(time.thread_time() - start)
                        pairs = ((found.gradient, exact.gradient), (found.hessian, exact.hessian))
                        squares += [((one - other) ** 2).sum() / (other**2).sum() for one, other in pairs]
                squares /= len(taken)
                line += f"{squares[0] ** 0.5:6.3f} / {squares[1] ** 0.5:5.3f}  "
                if samples == 100:
                    cost = 1e6 * min(taken) / n_queries * squares[0]
            print(line + f" {cost:7.1f}")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [] | ["speed"]:
            speed()
        case ["error"]:
            error()
        case _:
            sys.exit(__doc__)
