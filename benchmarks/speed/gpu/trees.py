"""How long XGBoost takes for a round on a GPU, with our objectives and with its own.

    python -m benchmarks.speed.gpu.trees [--queries 8800] [--rounds 60]

MSLR-like data with 136 features, 31 leaves, no validation. Milliseconds are the difference of a training of all rounds
and one of ten, over the rounds between them; contestants take turns, and the table has medians of three turns.
"""

import argparse
import statistics
import time

import rankwise as rw

NATIVE = "native:rank:ndcg"
OBJECTIVES = (NATIVE, "native:rank:pairwise", "xendcg", "lambdarank", "approx_ndcg")
SHORT = 10


def main() -> None:
    parser = argparse.ArgumentParser(description="Time rounds of XGBoost on a GPU.")
    parser.add_argument("--device", default="cuda", help="cuda, or cpu to see that it runs")
    parser.add_argument("--queries", type=int, default=8800, help="of 120 documents each, about")
    parser.add_argument("--rounds", type=int, default=60, help="of the longer training")
    parser.add_argument("--turns", type=int, default=3)
    options = parser.parse_args()
    data = rw.synthetic(n_queries=options.queries, n_docs=120, n_features=136, seed=1)

    def seconds(objective: str, rounds: int) -> float:
        ranker = rw.XGBoostRanker(
            objective, rounds=rounds, leaves=31, device=options.device, patience=None, progress=False, seed=1
        )
        start = time.perf_counter()
        ranker.fit(data)
        return time.perf_counter() - start

    times: dict[str, list[float]] = {objective: [] for objective in OBJECTIVES}
    for objective in OBJECTIVES:
        seconds(objective, 1)
    for _ in range(options.turns):
        for objective, found in times.items():
            found.append((seconds(objective, options.rounds) - seconds(objective, SHORT)) / (options.rounds - SHORT))
    native = statistics.median(times[NATIVE])
    print(f"{data.n_docs:,} documents, {options.device}")
    for objective, found in times.items():
        median, spread = statistics.median(found), ", ".join(f"{1e3 * one:.1f}" for one in sorted(found))
        print(
            f"{objective:24s}{1e3 * median:8.1f} ms a round ({spread}), {median / native:.2f} times {NATIVE}",
            flush=True,
        )


if __name__ == "__main__":
    main()
