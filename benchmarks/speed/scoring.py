"""How long it takes to score the documents of one query, on one thread: the time that a user of a search waits.

    python -m benchmarks.speed.scoring [--libraries lightgbm xgboost catboost] [--leaves 32] [--seconds 3]

A model of 300 trees of each library scores 100 and 1,000 documents of 136 features (MSLR-like), which are new for every
call as queries are. ``model.scorer()`` stands beside the library's own fastest call from Python (``Booster.predict`` of
LightGBM, ``inplace_predict`` of XGBoost, ``predict`` of CatBoost), treelite's predictor (GTIL) and ONNX Runtime, both
with the model as ``rw.export`` writes it. Contestants take turns, call by call, so that a busy machine slows all alike.
Everything is checked to give the same scores first. Beside the time on the wall, which a user waits, stands the
CPU's, which other work on the machine does not lengthen; ratios are of its medians.
"""

import argparse
import importlib.util
import os
import tempfile
import time
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

import rankwise as rw
from rankwise.base.tables import Table
from rankwise.rankers.table import ranker_class

FEATURES, TREES = 136, 300
Call = Callable[[np.ndarray], Any]


def library_call(model: Any) -> Call:
    """What someone would write who knows the library."""
    booster = model.model_.booster
    if model.name == "lightgbm":
        return lambda rows: booster.predict(rows, raw_score=True, num_threads=1)
    if model.name == "xgboost":
        booster.set_param({"nthread": 1})
        return lambda rows: booster.inplace_predict(rows, predict_type="margin", validate_features=False)
    return lambda rows: booster.predict(rows, prediction_type="RawFormulaVal", thread_count=1)


def treelite_call(model: Any, folder: str) -> Call:
    import treelite

    loaded = treelite.Model.deserialize(str(rw.export(model, f"{folder}/{model.name}.tl", "treelite")))
    return lambda rows: treelite.gtil.predict(loaded, rows, nthread=1).reshape(-1)


def onnx_call(model: Any, folder: str) -> Call:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    path = str(rw.export(model, f"{folder}/{model.name}.onnx", "onnx"))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda rows: session.run(["scores"], {"features": rows})[0]


def contestants(model: Any, folder: str) -> dict[str, Call]:
    found = {"model.scorer()": model.scorer(), f"{model.name} itself": library_call(model)}
    if importlib.util.find_spec("treelite"):
        found["treelite (GTIL)"] = treelite_call(model, folder)
    if importlib.util.find_spec("onnxruntime") and importlib.util.find_spec("onnx"):
        found["ONNX Runtime"] = onnx_call(model, folder)
    return found


def race(calls: dict[str, Call], rows: np.ndarray, n_docs: int, seconds: float) -> dict[str, np.ndarray]:
    """Milliseconds of every call, on the wall and of the CPU, in turns, each on the next documents."""
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    queries = [np.ascontiguousarray(rows[first : first + n_docs]) for first in range(0, len(rows) - n_docs, n_docs)]
    for call in calls.values():
        for query in queries[:3]:
            call(query)
    end, number = time.perf_counter() + seconds * len(calls), 0
    while time.perf_counter() < end:
        query = queries[number % len(queries)]
        number += 1
        for name, call in calls.items():
            start, busy = time.perf_counter(), time.process_time()
            call(query)
            taken[name].append((time.perf_counter() - start, time.process_time() - busy))
    return {name: 1e3 * np.array(times) for name, times in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--libraries", nargs="+", default=("lightgbm", "xgboost", "catboost"))
    parser.add_argument("--leaves", type=int, default=32)
    parser.add_argument("--documents", nargs="+", type=int, default=(100, 1_000))
    parser.add_argument("--seconds", type=float, default=3.0, help="for each contestant")
    options = parser.parse_args()
    data = rw.synthetic(n_queries=100, n_features=FEATURES, seed=3)
    rows = np.tile(data.features, (-(-4 * max(options.documents) // data.n_docs), 1))
    print(f"{TREES} trees of at most {options.leaves} leaves, {FEATURES} features, one thread, milliseconds\n")
    for library in options.libraries:
        if importlib.util.find_spec(library) is None:
            print(f"{library} is not installed (pip install 'rankwise[{library}]'), left out")
            continue
        settings = {"rounds": TREES, "leaves": options.leaves, "patience": None, "threads": 1}
        model = ranker_class(library)("xendcg", **settings).fit(data)
        with tempfile.TemporaryDirectory() as folder:
            calls = contestants(model, folder)
            for name, call in calls.items():
                apart = np.abs(np.asarray(call(rows[:500])) - model.predict(rows[:500])).max()
                if apart > 1e-5:
                    raise SystemExit(f"{name} differs by {apart}")
            body = []
            for n_docs in options.documents:
                times = race(calls, rows, n_docs, options.seconds)
                ours = np.median(times["model.scorer()"][:, 1])
                for name, taken in times.items():
                    (middle, busy), late = np.median(taken, axis=0), np.percentile(taken[:, 0], 99)
                    figures = (f"{middle:.3f}", f"{late:.3f}", f"{busy:.3f}", f"{busy / ours:.1f}")
                    body.append((library, f"{n_docs:,}", name, *figures, f"{len(taken):,}"))
            header = ("model", "documents", "scored by", "median", "99th percentile", "CPU", "× ours", "calls")
            print(Table(header=header, rows=tuple(body), align="lrlrrrrr").text(), flush=True)
            print()


if __name__ == "__main__":
    main()
