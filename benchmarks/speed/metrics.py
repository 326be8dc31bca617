"""How fast metrics are, side by side with LightGBM, ranx and pytrec_eval: python -m benchmarks.speed.metrics
[--threads 2] [--queries 6000].

Everyone scores the same lists: 6,000 queries of log-normal length, about 700,000 documents, five grades, distinct
scores, except where a line says "tied". What is timed is one evaluation of arrays or structures that lie ready:

- rankwise: ``metric(scores, labels, offsets)``, its checks included.
- LightGBM: ``Booster.eval_train()`` of a booster without trees whose initial scores are the scores. It evaluates the
  metric over scores that it holds already; there is nothing to predict.
- ranx and pytrec_eval: ``evaluate``; building their dictionaries is not counted.

Rounds are interleaved, so that a busy machine slows everyone alike, and medians are compared.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import lightgbm as lgb
import numpy as np
import pytrec_eval
import ranx
from numpy.typing import NDArray

import rankwise as rw
from benchmarks.harness import PAUSE, SHORT
from rankwise.metrics import METRICS

Array = NDArray[Any]


def make_lists(seed: int, n_queries: int) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(seed)
    sizes = np.clip(rng.lognormal(4.53, 0.7, n_queries), 1, 1_251).astype(np.int64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    labels = rng.choice(5, size=offsets[-1], p=[0.52, 0.32, 0.13, 0.02, 0.01]).astype(np.float64)
    return rng.normal(size=labels.size) + 0.4 * labels, labels, offsets


def lightgbm_evaluation(scores: Array, labels: Array, offsets: Array, threads: int) -> Callable[[], float]:
    settings = {"verbose": -1, "num_threads": threads, "feature_pre_filter": False}
    data = lgb.Dataset(
        np.zeros((labels.size, 1)), label=labels, group=np.diff(offsets), init_score=scores, params=settings
    )
    booster = lgb.Booster({"objective": "lambdarank", "metric": "ndcg", "eval_at": [10], **settings}, data)
    return lambda: booster.eval_train()[0][2]


def dictionaries(
    scores: Array, labels: Array, offsets: Array
) -> tuple[dict[str, dict[str, float]], dict[str, dict[str, int]]]:
    run, qrels = {}, {}
    for q, (start, stop) in enumerate(zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True)):
        names = [f"d{i}" for i in range(stop - start)]
        run[f"q{q}"] = dict(zip(names, scores[start:stop].tolist(), strict=True))
        qrels[f"q{q}"] = dict(zip(names, labels[start:stop].astype(int).tolist(), strict=True))
    return run, qrels


def medians(contestants: dict[str, tuple[Callable[[], Any], int]], rounds: int) -> dict[str, float]:
    """Milliseconds of each contestant, who runs in every so-manieth round, after one run to warm up."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for run, _ in contestants.values():
        run()
    for number in range(rounds):
        for name, (run, every) in contestants.items():
            if number % every == 0:
                time.sleep(PAUSE)
                if times[name] and times[name][-1] < 1e3 * SHORT:
                    run()  # after the pause caches are cold and threads asleep, for whoever is first
                start = time.perf_counter()
                run()
                times[name].append(1e3 * (time.perf_counter() - start))
    return {name: statistics.median(found) for name, found in times.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description="Time metrics beside their peers.")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--queries", type=int, default=6_000)
    parser.add_argument("--own", action="store_true", help="leave out ranx and pytrec_eval, which take a minute")
    options = parser.parse_args()
    scores, labels, offsets = lists = make_lists(0, options.queries)
    tied = np.round(scores, 1), labels, offsets
    print(f"{labels.size:,} documents in {offsets.size - 1:,} queries, {options.threads} threads\n")

    ndcg = rw.metric("ndcg@10", empty=1)
    linear = rw.metric("ndcg@10", **rw.metrics.conventions("trec_eval"))
    peers: dict[str, tuple[Callable[[], Any], int]] = {}
    peers["rankwise"] = partial(ndcg, *lists), 1
    peers["LightGBM"] = lightgbm_evaluation(*lists, options.threads), 1
    if not options.own:
        run, qrels = dictionaries(*lists)
        judge = pytrec_eval.RelevanceEvaluator(qrels, ["ndcg_cut.10"])
        ranx_qrels, ranx_run = ranx.Qrels(qrels), ranx.Run(run)
        peers["pytrec_eval"] = partial(judge.evaluate, run), 7
        peers["ranx"] = partial(ranx.evaluate, ranx_qrels, ranx_run, "ndcg_burges@10"), 7
    # Everyone must have computed the same thing.
    assert abs(ndcg(*lists).mean() - peers["LightGBM"][0]()) < 1e-6
    if not options.own:
        skipping = rw.metric("ndcg@10", empty=0)(*lists).mean()
        assert abs(skipping - peers["ranx"][0]()) < 1e-6
        found = [row["ndcg_cut_10"] for row in peers["pytrec_eval"][0]().values()]
        assert abs(linear(*lists).mean() - np.mean(found)) < 1e-6
    with rw.use_threads(options.threads):
        times = medians(peers, options.rounds)
        print("ndcg@10          ms   times rankwise")
        for name, milliseconds in times.items():
            print(f"{name:<12} {milliseconds:7.1f}   {milliseconds / times['rankwise']:.1f}")

        names = [name for name in METRICS if rw.metric(name).reads == ("labels",)]  # the lists have nothing else
        texts = [*names, *(f"{name}@10" for name in names)]
        own: dict[str, tuple[Callable[[], Any], int]] = {}
        for text in texts:
            metric = rw.metric(text)
            own[text] = partial(metric, *lists), 3
            own[f"{text} tied"] = partial(metric, *tied), 3
        times = medians(own, options.rounds)
    print("\nrankwise           ms      tied")
    for text in texts:
        print(f"{text:<14} {times[text]:6.1f}    {times[f'{text} tied']:6.1f}")


if __name__ == "__main__":
    main()
