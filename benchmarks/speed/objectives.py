"""How fast objectives are beside their peers, what wrappers cost, what memory they take, how cost grows with lists.

    python -m benchmarks.speed.objectives [--quick] [--plot growth.png] [--only peers] [--threads 2]
        [--lists 6000]

Everyone meets the same lists: 6,000 of log-normal length, about 700,000 documents, five grades. What is timed is one
call of a prepared objective, as a trainer makes it in every round: value, gradient and Hessian, in arrays that the
trainer owns. Its scores move from call to call as those of boosted trees do. Contestants take turns, so that a busy
machine slows all alike; medians are compared. Beside them stand the quickest runs and the CPU time, which tell more
where the machine has other work to do (though waiting threads of LightGBM and torch count as busy).
"""

import argparse
import importlib.util
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks.harness import OWN_PAGES, Call, Times, Verdicts, heading, measures_memory, peak_memory
from benchmarks.speed.peers import Lists, TorchSmooth, lightgbm_update, make_lists
from benchmarks.speed.plrank import lists as plrank_lists
from benchmarks.speed.plrank import numpy_plrank
from rankwise.objectives.table import OBJECTIVES

SECTIONS = ("peers", "wrappers", "batches", "memory", "growth")
SMOOTH = {"approx_ndcg": 10.0, "smooth_ap": 1.0, "smooth_rbp": 1.0}
LENGTHS = (10, 30, 100, 300, 1_000, 3_000, 10_000)
A_FEW = 10.0  # arrays of the number of documents, among them the three or four results


def caller(objective: rw.Objective, lists: Lists) -> Call:
    """One round of a trainer: the prepared objective, at scores that a tree of 32 leaves has just moved."""
    scores, labels, offsets = lists
    draw = np.random.default_rng(3)
    columns: Any = {"teacher_scores": scores + draw.normal(size=scores.size)} if objective.reads else {}
    prepared = objective.prepare(labels, offsets, **columns)
    out = prepared.empty()
    rounds = itertools.cycle([scores + 0.1 * draw.normal(size=32)[draw.integers(0, 32, scores.size)] for _ in range(4)])
    numbers = itertools.count()
    return lambda: prepared(next(rounds), rw.Stream(0, next(numbers)), out=out)


def row(name: str, times: Times, verdicts: Verdicts, target: float | None, scale: float = 1.0) -> None:
    ratios = times.ratios("peer", "ours", scale)
    verdict = "no target" if target is None else verdicts.least(name, ratios[0], target)
    ours, peer = 1e3 * times.median["ours"], 1e3 * scale * times.median["peer"]
    print(
        f"{name:<50}{ours:9.1f}{peer:10.1f}" + "".join(f"{one:9.1f}x" for one in ratios) + f"   {verdict}", flush=True
    )


def peers(lists: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    heading("Beside the peers: milliseconds, and how many times faster we are")
    print(f"{'':<50}{'rankwise':>9}{'peer':>10}{'medians':>10}{'quickest':>10}{'CPU':>10}")
    against_lightgbm(lists, options, verdicts)
    against_numpy(options, verdicts)
    against_torch(lists, options, verdicts)


def against_lightgbm(lists: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    given = lightgbm_update(lists, options.threads, None)
    level = "lambdarank_truncation_level"
    for text, settings, target in (
        ("xendcg", {"objective": "rank_xendcg"}, 1.5),
        ("lambdarank", {"objective": "lambdarank", level: 30}, 3.0),
        ("lambdarank(truncation=1000)", {"objective": "lambdarank", level: 1000}, None),
    ):
        if options.quick and target is None:
            continue
        peer = lightgbm_update(lists, options.threads, settings)
        contestants = {"ours": caller(rw.objective(text), lists), "peer": peer, "given": given}
        times = Times(contestants, 5 if options.quick else 15)
        times.take("given", "peer")
        row(f"{text} / LightGBM's alone", times, verdicts, target)


def against_numpy(options: argparse.Namespace, verdicts: Verdicts) -> None:
    for name, spread, target in (("flat", 0.1, 50.0), ("peaked", 3.0, 15.0), ("very peaked", 10.0, 15.0)):
        few = min(30 if options.quick else 150, options.lists)
        lists, part = plrank_lists(options.lists, spread), plrank_lists(few, spread)
        ours = caller(rw.objective("plrank(cutoff=10, samples=100)"), lists)
        peer = partial(numpy_plrank, part, samples=100, cutoff=10, seed=0)
        times = Times({"ours": ours, "peer": peer}, 2 if options.quick else 5)
        scale = lists[0].size / part[0].size
        row(f"plrank, {name} scores / NumPy on 1 of {scale:.0f} lists", times, verdicts, target, scale)


def against_torch(lists: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    if importlib.util.find_spec("torch") is None:
        print("smooth metrics / torch: torch is not installed (pip install 'rankwise[torch]'), left out")
        return
    part = first_lists(lists, 256 * (1 if options.quick else 2))
    for text, eta in SMOOTH.items():
        peer = TorchSmooth(text, eta, part, 256, options.threads)
        prepared = rw.objective(text).prepare(*part[1:])
        results: dict[str, Any] = {}

        def ours(prepared=prepared, results=results) -> None:
            results["ours"] = prepared(part[0])

        def theirs(peer=peer, results=results) -> None:
            results["peer"] = peer()

        ours()
        times = Times({"ours": ours, "peer": theirs}, 1 if options.quick else 3, warm=0)
        found, expected = results["ours"], results["peer"]  # the same function
        np.testing.assert_allclose(found.value, expected[0], rtol=2e-4, atol=2e-4)
        np.testing.assert_allclose(found.gradient, expected[1], atol=2e-4 * np.abs(expected[1]).max())
        row(f"{text} / torch on {part[2].size - 1:,} lists", times, verdicts, 10.0)


def first_lists(lists: Lists, count: int) -> Lists:
    scores, labels, offsets = lists
    count = min(count, offsets.size - 1)
    end = int(offsets[count])
    return scores[:end].copy(), labels[:end].copy(), offsets[: count + 1].copy()


def wrappers(lists: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    heading("Wrappers: how many times the cost of what is inside")
    print(f"{'':<58}{'medians':>10}{'quickest':>10}{'CPU':>10}")
    inner_texts = ("xendcg", "lambdarank", "approx_ndcg")
    lists = first_lists(lists, 2_000) if options.quick else lists
    texts = {f"stochastic({inner}, samples=8)": inner for inner in inner_texts}
    texts |= {f"weighted({inner}, by={by})": inner for inner in ("xendcg",) for by in ("size", "relevant", "ideal_dcg")}
    texts |= {f"weighted({inner})": inner for inner in inner_texts[1:]}
    ratios(lists, texts, 2 if options.quick else 7, verdicts)
    parts = "0.7*xendcg + 0.3*approx_ndcg"
    calls = {text: caller(rw.objective(text), lists) for text in ("xendcg", "approx_ndcg", parts)}
    times = Times(calls, 2 if options.quick else 7)
    both = [kind[parts] / (kind["xendcg"] + kind["approx_ndcg"]) for kind in (times.median, times.quickest, times.cpu)]
    print(f"{parts:<58}" + "".join(f"{one:9.2f}x" for one in both) + "   of its two terms")

    # Distributions are drawn once for every kind of list, so a tenth of the lists and fewer orderings do here.
    few = first_lists(lists, 100 if options.quick else 600)
    methods = ("min_max", "expectation", "expectation_max", "distribution")
    for metric in SMOOTH:
        texts = {f"bounded({metric}, method={how}, orderings=4096)": metric for how in methods}
        ratios(few, texts, 2 if options.quick else 7, verdicts)
    text = "bounded(approx_ndcg, method=distribution, orderings=4095)"
    start = time.perf_counter()
    rw.objective(text).prepare(*few[1:])
    per_list = (time.perf_counter() - start) / (few[2].size - 1)
    print(f"preparing a distribution: {1e3 * per_list:.1f} ms for each kind of list at 4,095 orderings")


def ratios(lists: Lists, texts: dict[str, str], rounds: int, verdicts: Verdicts) -> None:
    calls = {text: caller(rw.objective(text), lists) for text in (*dict.fromkeys(texts.values()), *texts)}
    times = Times(calls, rounds)
    for text, inner in texts.items():
        found = times.ratios(text, inner)
        verdict = verdicts.most(text, found[0], 8.2) if text.startswith("stochastic") else ""
        print(f"{text:<58}" + "".join(f"{one:9.2f}x" for one in found) + f"   {verdict}", flush=True)


def batches(lists: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    heading("A batch of 256 lists: milliseconds with one thread and with two, which must not be slower")
    batch = first_lists(lists, 256)

    def with_threads(call: Call, count: int) -> Call:
        def run() -> None:
            with rw.use_threads(count):
                call()

        return run

    for text in OBJECTIVES:
        call = caller(rw.objective(text), batch)
        times = Times({"1": with_threads(call, 1), "2": with_threads(call, 2)}, 15 if options.quick else 41)
        ratio = times.quickest["2"] / times.quickest["1"]
        verdict = verdicts.most(f"{text}, 256 lists, two threads over one", ratio, 1.1)
        one, two = 1e3 * times.median["1"], 1e3 * times.median["2"]
        print(f"{text:<20}{one:8.2f}{two:8.2f}   quickest {ratio:5.2f}x   {verdict}", flush=True)


def memory(_: Lists, options: argparse.Namespace, verdicts: Verdicts) -> None:
    heading("Peak memory of a call beyond its input, results included, in arrays of the number of documents")
    if not measures_memory():
        print("needs Linux, left out")
        return
    texts = [
        *OBJECTIVES,
        "stochastic(approx_ndcg)",
        "weighted(xendcg)",
        "bounded(smooth_ap)",
        "0.7*xendcg + 0.3*listmle",
    ]
    environment = os.environ | OWN_PAGES | {"RANKWISE_THREADS": str(options.threads)}
    command = [sys.executable, "-m", "benchmarks.speed.objectives", "--peaks", json.dumps(texts)]
    command += ["--lists", str(options.lists)]
    found = json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)
    print(f"{'':<28}{'all lists':>10}{'one list of 10,000':>20}")
    for text, (many, one) in found.items():
        print(f"{text:<28}{many:10.1f}{one:20.1f}   {verdicts.most(f'memory of {text}', many, A_FEW)}")


def peaks(texts: Iterable[str], n_lists: int) -> dict[str, tuple[float, float]]:
    """Peak memory of each objective on many lists and on one long one."""

    def peak(text: str, lists: Lists) -> float:
        return peak_memory(caller(rw.objective(text), lists)) / (8.0 * lists[0].size)

    many, one, small = make_lists(n_lists), of_length(10_000, 10_000), make_lists(300)
    found = {}
    for text in texts:
        caller(rw.objective(text), small)()  # compiled, or loaded, and threads started
        found[text] = peak(text, many), peak(text, one)
    return found


def of_length(length: int, n_docs: int) -> Lists:
    draw = np.random.default_rng(length)
    n_queries = max(n_docs // length, 1)
    labels = draw.choice(5, size=n_queries * length, p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float64)
    return draw.normal(size=labels.size) + 0.4 * labels, labels, np.arange(n_queries + 1) * length


def growth(_: Lists, options: argparse.Namespace, __: Verdicts) -> None:
    heading("How cost grows: nanoseconds per document in lists of a given length")
    texts = [*OBJECTIVES, "approx_ndcg(kernel=laplace)", "lambdarank(truncation=None)", "stochastic(xendcg)"]
    calls: dict[str, dict[int, float]] = {text: {} for text in texts}
    for length in LENGTHS:
        some = of_length(length, 10_000 if options.quick else 30_000 if length >= 3_000 else 100_000)
        times = Times({text: caller(rw.objective(text), some) for text in texts}, 1 if options.quick else 3)
        for text in texts:
            calls[text][length] = 1e9 * times.quickest[text] / some[0].size
    print(f"{'':<28}" + "".join(f"{length:>9,}" for length in LENGTHS))
    for text, costs in calls.items():
        print(f"{text:<28}" + "".join(f"{costs[length]:9.0f}" for length in LENGTHS))
    if options.plot:
        plot(calls, options.plot)
        print(f"plotted to {options.plot}")


def plot(calls: dict[str, dict[int, float]], path: Path) -> None:
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 5.5), layout="constrained")
    colours = plt.get_cmap("tab10")
    ends = spread({text: np.log10(costs[LENGTHS[-1]]) for text, costs in calls.items()}, 0.105)
    for number, (text, costs) in enumerate(calls.items()):
        colour, line = colours(number % 10), "--" if number >= 10 else "-"
        axes.plot(LENGTHS, [costs[length] for length in LENGTHS], line, color=colour, marker="o", markersize=3)
        axes.annotate(
            text,
            (LENGTHS[-1], costs[LENGTHS[-1]]),
            xytext=(LENGTHS[-1] * 1.12, 10 ** ends[text]),
            va="center",
            fontsize=8,
            color=colour,
            annotation_clip=False,
        )
    axes.set(xscale="log", yscale="log", xlabel="documents in a list", ylabel="nanoseconds per document")
    axes.set_title("Cost of value, gradient and Hessian", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25)
    figure.savefig(path, dpi=150)


def spread(heights: dict[str, float], least: float) -> dict[str, float]:
    """Move labels apart upwards until none covers another."""
    placed: dict[str, float] = {}
    below = -np.inf
    for name, height in sorted(heights.items(), key=lambda pair: pair[1]):
        below = placed[name] = max(height, below + least)
    return placed


def main() -> None:
    parser = argparse.ArgumentParser(description="Time objectives beside their peers.")
    parser.add_argument("--quick", action="store_true", help="fewer rounds and smaller parts: under 40 seconds")
    parser.add_argument("--plot", type=Path, help="where to draw how cost grows, for example growth.png")
    parser.add_argument("--only", choices=SECTIONS, help="one section alone")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--lists", type=int, default=6_000)
    parser.add_argument("--peaks", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.peaks:
        print(json.dumps(peaks(options.peaks, options.lists)))
        return
    start, lists, verdicts = time.perf_counter(), make_lists(options.lists), Verdicts()
    print(f"{lists[0].size:,} documents in {lists[2].size - 1:,} lists, {options.threads} threads")
    with rw.use_threads(options.threads):
        for section in SECTIONS:
            if options.only in (None, section):
                begun = time.perf_counter()
                globals()[section](lists, options, verdicts)
                print(f"({time.perf_counter() - begun:.0f} s)")
    heading(f"{verdicts.met} targets met, {len(verdicts.missed)} missed, in {time.perf_counter() - start:.0f} s")
    print("\n".join(verdicts.missed))


if __name__ == "__main__":
    main()
