"""Texts: seconds and peak memory of an index, of searches and of features, and bm25s beside them.

    python -m benchmarks.speed.text [DOCUMENTS [QUERIES]]

100,000 documents of four fields (6, 20, 10 and 100 words by Zipf's law, of 200,000 words) are made, indexed and
searched for 1,000 queries of four words; then come the features of their 100 candidates, and a ranker of 100 trees that
answers one query after another. The target is 60 seconds for index, searches and features. ``files`` indexes into a
folder. The peer searches one field, as rankwise does beside it.
CPU seconds are of all threads, because a busy machine slows a program that waits for a core.
"""

import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

import rankwise as rw
from benchmarks.harness import MISSED, arguments, measures_memory

FIELDS = {"title": 6, "summary": 20, "tags": 10, "text": 100}
WORDS, DEPTH, TARGET = 200_000, 100, 60.0


def made(documents: int, queries: int) -> tuple[list[dict[str, str]], dict[str, str]]:
    """Return documents, and queries of words that are neither very frequent nor rare."""
    draws = np.random.default_rng(0)
    words = np.array([f"word{number}" for number in range(WORDS)])

    def texts(length: int) -> list[str]:
        return [" ".join(row) for row in words[draws.zipf(1.2, (documents, length)) % WORDS]]

    columns = [texts(length) for length in FIELDS.values()]
    rows = [
        {"id": f"d{number}", **dict(zip(FIELDS, row, strict=True))}
        for number, row in enumerate(zip(*columns, strict=True))
    ]
    asked = words[np.exp(draws.uniform(np.log(10), np.log(20_000), (queries, 4))).astype(int)]
    return rows, {f"q{number}": " ".join(row) for number, row in enumerate(asked)}


def timed(name: str, call: Callable[[], Any]) -> tuple[Any, float, float]:
    """Call a function, print its seconds and the peak memory of the process, and return its result and seconds."""
    wall, cpu = time.perf_counter(), time.process_time()
    result = call()
    seconds, of_threads, peak = time.perf_counter() - wall, time.process_time() - cpu, float("nan")
    if measures_memory():
        peak = int(Path("/proc/self/status").read_text().partition("VmHWM:")[2].split()[0]) / 2**20
    print(f"{name:>14} {seconds:9.2f} {of_threads:9.2f} {peak:18.2f}", flush=True)
    return result, seconds, of_threads


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("documents", nargs="?", type=int, default=100_000)
    parser.add_argument("queries", nargs="?", type=int, default=1_000)
    chosen = parser.parse_args()
    print(f"{'':>14} {'seconds':>9} {'CPU s':>9} {'peak so far, GiB':>18}")
    warm = rw.text.Documents({"a": "b"}, fields=("text",))  # imports, and kernels that are compiled
    rw.text.dataset(warm, ["b"], {"bm25": warm.search(["b"])})
    (rows, queries), _, _ = timed("make", lambda: made(chosen.documents, chosen.queries))
    fields = tuple(FIELDS)
    pages, index, _ = timed("index", lambda: rw.text.Documents(rows, fields=fields, progress=False))
    run, search, _ = timed("search", lambda: pages.search(queries, DEPTH))
    data, features, _ = timed("features", lambda: rw.text.dataset(pages, queries, {"bm25": run}))
    qrels = run.sample(fraction=0.1, seed=0).select("query", "document", grade=1)
    model = rw.LightGBMRanker(rounds=100, progress=False).fit(rw.text.dataset(pages, queries, {"bm25": run}, qrels))
    served = rw.text.Search(pages, model)
    _, one, _ = timed("one at a time", lambda: [served(query) for query in queries.values()])
    print(f"{'a search':>14} {1e3 * one / len(queries):9.2f} ms")
    with tempfile.TemporaryDirectory() as folder:
        timed("files", lambda: rw.text.Documents(rows, fields=fields, folder=f"{folder}/index", progress=False))
    print(f"{data!r}\n{pages!r}, {len(pages.arrays['tokens']):,} words in a row")
    total = index + search + features
    print(f"index, search and features: {total:.1f} seconds, of which {TARGET:.0f} may be needed")
    peer(rows, list(queries.values()))
    return MISSED if total > TARGET else 0


def peer(rows: list[dict[str, str]], queries: list[str]) -> None:
    """Print the CPU seconds of bm25s for one field, as ratios to ours."""
    if find_spec("bm25s") is None:
        print("bm25s is not installed: no peer")
        return
    import bm25s

    texts = {row["id"]: row["text"] for row in rows}
    ours, _, index = timed("ours, 1 field", lambda: rw.text.Documents(texts, fields=("text",), progress=False))
    _, _, search = timed("ours, search", lambda: ours.search(queries, DEPTH))

    def indexed() -> Any:
        model = bm25s.BM25(method="lucene", k1=1.2, b=0.75)
        model.index([text.split() for text in texts.values()], show_progress=False)
        return model

    theirs, _, their_index = timed("bm25s, index", indexed)
    asked = [query.split() for query in queries]
    _, _, their_search = timed(
        "bm25s, search", lambda: theirs.retrieve(asked, k=min(DEPTH, len(rows)), show_progress=False)
    )
    print(f"CPU seconds of bm25s / rankwise: index {their_index / index:.2f}, search {their_search / search:.2f}")


if __name__ == "__main__":
    sys.exit(main())
