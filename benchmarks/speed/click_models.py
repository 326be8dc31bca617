"""Click logs and click models: CPU seconds of a simulated log, nanoseconds of an EM iteration on one thread.

python -m benchmarks.speed.click_models [IMPRESSIONS]

EM of PBM and UBM works on cells: rows of the same document in the same context are added up once, so that an iteration
costs less for a row of the log than for a cell. In the second log, with three impressions a query, hardly any rows
share a cell. CPU time, because a busy machine slows a program that waits for a core.
"""

import sys
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import rankwise as rw
from rankwise.wings.clicks.models.click_models import PBM, UBM

QUERIES, DEPTH, STEPS, FEW = 10_000, 10, 60, 3
LOGS: dict[str, Any] = {
    "ranked": {},
    "drawn": {"temperature": 0.5},
    "drawn, DBN users": {"temperature": 0.5, "model": "dbn"},
}


def cpu_seconds(call: Callable[[], object], rounds: int = 3) -> float:
    """The least CPU seconds of a call, all threads together."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        call()
        seconds.append(time.process_time() - start)
    return min(seconds)


def speed(impressions: int = 1_000_000) -> None:
    """Print a line for each kind of log, and one for each model of the last of them, often and rarely shown."""
    print(f"{'log':>22} {'rows':>11} {'cells':>10} {'CPU s':>6} {'ns a row':>8}")
    simulate = _simulation(QUERIES, max(1, impressions // QUERIES))
    for name, options in LOGS.items():
        log = simulate(**options)
        seconds = cpu_seconds(partial(simulate, **options), 2)
        rows = int(log.impressions.sum())
        print(f"{name:>22} {rows:11,} {log.pairs.size:10,} {seconds:6.2f} {1e9 * seconds / rows:8.1f}", flush=True)
    _fit(log, ("pbm", "ubm", "dbn", "sdbn", "dcm"))
    _fit(_simulation(max(1, impressions // FEW), FEW)(temperature=2.0, model="dbn"), ("pbm", "ubm", "dbn"))


def _simulation(queries: int, impressions: int) -> Callable[..., rw.clicks.Log]:
    data = rw.synthetic(n_queries=queries, n_docs=30, n_features=5, seed=1)
    rankers = {name: data.features[:, column] for column, name in enumerate("abc")}
    return partial(rw.clicks.simulate, data, rankers=rankers, impressions=impressions, cutoff=DEPTH, seed=1)


def _fit(log: rw.clicks.Log, models: tuple[str, ...]) -> None:
    rows = int(log.impressions.sum())
    print(f"\n{rows:,} rows, {rows / log.n_queries / DEPTH:.0f} impressions a query, on one thread")
    print(f"model      cells  ns a cell and iteration  ns a row and iteration  {'5 iterations, CPU s':>19}")
    for model in models:
        fit = partial(rw.clicks.click_model, log, model, tolerance=0.0)
        few = cpu_seconds(partial(fit, iterations=5))
        kind = {"pbm": PBM, "ubm": UBM}.get(model)
        cells = rows if kind is None else kind.cells(log).pairs.size
        times = [f"{'–':>24}", f"{'–':>23}"]
        if model in ("pbm", "ubm", "dbn"):
            step = 1e9 * (cpu_seconds(partial(fit, iterations=5 + STEPS)) - few) / STEPS
            times = [f"{step / cells:24.2f}", f"{step / rows:23.2f}"]
        print(f"{model:>5} {cells:10,} {times[0]} {times[1]} {few:20.2f}", flush=True)


if __name__ == "__main__":
    with rw.use_threads(1):
        speed(*map(int, sys.argv[1:]))
