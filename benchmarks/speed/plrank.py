"""PLRank: how fast, how noisy, and where its Hessian is negative. (Which curvature trains best: curvature.py.)

python -m benchmarks.speed.plrank speed [--queries 1500]
python -m benchmarks.speed.plrank error [--queries 150]
python -m benchmarks.speed.plrank signs [FOLDER_OF_MQ2008] [--queries 300]
"""

import argparse
import itertools
import time
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
from numpy.typing import NDArray

import rankwise as rw
from rankwise.metrics.gains import discounts, gains
from rankwise.objectives.plackett_luce.cpu.draws import DRAWS, SAMPLERS
from rankwise.objectives.plackett_luce.objectives import PLRank

Array = NDArray[np.float64]
Lists = tuple[Array, Array, NDArray[np.int64]]


def lists(n_queries: int, spread: float, seed: int = 0, length: int | None = None) -> Lists:
    """Lists of log-normal length, or of one length, with five grades.

    ``spread`` 0 makes equal scores, 0.1 flat ones, 10 very peaked ones.
    """
    draw = np.random.default_rng(seed)
    sizes = np.exp(draw.normal(np.log(95), 0.65, n_queries)).round().clip(1, 1251).astype(np.int64)
    if length is not None:
        sizes = np.full(n_queries, length, np.int64)
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


def speed(n_queries: int, cutoff: int = 10) -> None:
    """CPU milliseconds of gradient and Hessian for 1,000 lists on one thread, beside the NumPy version in the same run.

    CPU time, because a busy machine slows a program that waits for a core.
    """
    names = [*SAMPLERS, "gradient alone"]
    print(f"CPU ms for 1,000 lists\n{'spread':>6} {'samples':>7} {'NumPy':>9} " + "".join(f"{s:>16}" for s in names))
    for spread in (0.1, 1.0, 3.0, 10.0):
        data, part = lists(n_queries, spread), lists(n_queries // 10, spread)
        for samples in (10, 100):
            ours = [
                PLRank(samples=samples, cutoff=cutoff, sampler=sampler, curvature="estimated").prepare(*data[1:])
                for sampler in SAMPLERS
            ]
            calls: list[Callable[[], object]] = [partial(numpy_plrank, part, samples, cutoff, 0)]
            calls += [partial(plrank, data[0], rw.Stream(seed=0)) for plrank in ours]
            calls.append(partial(ours[0], data[0], rw.Stream(seed=0), hessian=False))
            with rw.use_threads(1):
                taken = quickest(calls, 4)
            peer, *times, alone = (1e6 * seconds / n_queries for seconds in taken)
            peer *= data[0].size / part[0].size
            cells = [f"{one:7.1f} {f'({peer / one:.0f}x)':>8}" for one in times]
            print(f"{spread:6g} {samples:7d} {peer:9.0f} " + "".join(cells) + f"{alone:16.1f}", flush=True)


def quickest(calls: list[Callable[[], object]], rounds: int) -> list[float]:
    """The least CPU seconds of each call, in rounds, so that a busy machine slows all alike."""
    found: list[list[float]] = [[] for _ in calls]
    for _ in range(rounds):
        for call, taken in zip(calls, found, strict=True):
            start = time.thread_time()
            call()
            taken.append(time.thread_time() - start)
    return [min(taken) for taken in found]


def variants() -> Iterator[tuple[str, str, bool]]:
    for sampler in SAMPLERS:
        for draws in DRAWS:
            for baseline in (False, True):
                yield sampler, draws, baseline


def error(n_queries: int, repeats: int = 4) -> None:
    """Relative error of gradient and Hessian by N, and the cost of the gradient's error: µs per list × error²."""
    for spread in (0.1, 1.0, 3.0):
        data = lists(n_queries, spread)
        exact = PLRank(samples=20_000, curvature="estimated")(*data, rw.Stream(seed=10**6))
        print(
            f"\nspread {spread}: error of gradient / Hessian at N = 10, 100, 1000; CPU µs per list × error² at N = 100;"
            "\nhow many times fewer samples than plain draws have that error"
        )
        plain = np.nan
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
                    plain = squares[0] if (sampler, draws, baseline) == ("sequence", "independent", False) else plain
                    fewer = plain / squares[0]
            print(line + f" {cost:7.1f}   {fewer:.1f}x")


def signs(n_queries: int, folder: str | None = None, samples: int = 5000) -> None:
    """Where the diagonal of the Hessian is negative: the share of documents, over all lists and in single ones.

    Then the sum of all Hessians over that of their sizes, and how far that sum goes from round to round with the plain
    draws of the paper: trees that get Hessians as they are grow where the sums in their leaves are positive. With a
    folder also for the training queries of MQ2008's first fold, at equal scores.
    """
    header = {"lists": 6, "of": 5, "spread": 6, "negative": 8, "80% of lists": 14, "sum/size": 8, "sum": 6, "sd": 6}
    print(" ".join(f"{name:>{width}}" for name, width in header.items()))
    cases = [(spread, lists(n_queries, spread, length=n)) for n in (8, None) for spread in (0.0, 0.1, 1.0, 3.0)]
    if folder is not None:
        train = rw.load_dataset("mq2008", fold=1, folder=folder)[0]
        cases.append((0.0, (np.zeros(train.n_docs), train.labels, train.offsets)))
    exact = PLRank(metric="dcg", samples=samples, curvature="estimated")
    plain = PLRank(metric="dcg", samples=200, draws="independent", baseline=False, curvature="estimated")
    for spread, (scores, labels, offsets) in cases:
        found = exact(scores, labels, offsets, rw.Stream(seed=0)).hessian
        sizes = np.add.reduceat(np.abs(found), offsets[:-1])
        some = sizes > 0.0  # lists without anything relevant have no derivatives
        negative, lengths = np.add.reduceat(found < 0.0, offsets[:-1], dtype=np.float64)[some], np.diff(offsets)[some]
        low, high = np.quantile(negative / lengths, (0.1, 0.9))
        rounds = (plain(scores, labels, offsets, rw.Stream(seed=0, round=k)).hessian.sum() for k in range(1, 21))
        noise = np.std(list(rounds), ddof=1)
        line = f"{offsets.size - 1:6d} {scores.size / (offsets.size - 1):5.0f} {spread:6g}"
        line += f" {negative.sum() / lengths.sum():8.0%} {f'{low:.0%} to {high:.0%}':>14}"
        print(f"{line} {found.sum() / sizes.sum():8.2f} {found.sum():6.1f} {noise:6.1f}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", default="speed", choices=["speed", "error", "signs"])
    parser.add_argument("folder", nargs="?", help="of MQ2008, for signs")
    parser.add_argument("--queries", type=int, help="1500 for speed, 150 for error, 300 for signs")
    arguments = parser.parse_args()
    if arguments.what == "signs":
        signs(arguments.queries or 300, arguments.folder)
    elif arguments.what == "error":
        error(arguments.queries or 150)
    else:
        speed(arguments.queries or 1500)
