"""Use a library with threads, fork, and use it again: ``python -m tests.forking KIND`` ends with 0 if that ends well.

Run in a process of its own, since one that hangs, or whose libraries have threads already, is no use to other tests.
"""

import os
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.rankers.table import ranker_class
from tests.processes import HANG

TREES: dict[str, Any] = {"rounds": 3, "leaves": 7, "min_documents": 5}
NET: dict[str, Any] = {"epochs": 1, "hidden": (64,), "device": "cpu"}
LISTS = rw.synthetic(n_queries=200, n_docs=40, n_features=12, seed=1)


def in_a_fork(call: Callable[[], None]) -> None:
    """Call in a forked process; what fails or hangs there is an error here."""
    child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(HANG / 4))  # whose default is the end of the process
        try:
            call()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert status == 0, "it hangs" if status == -signal.SIGALRM else f"it failed with {status}"


def ranker(kind: str, threads: int | None) -> Any:
    return ranker_class(kind)("softmax_ce", threads=threads, progress=False, **NET if kind == "neural" else TREES)


def main(kind: str) -> None:
    """Train and score with two threads, fork, and do it again."""
    first = ranker(kind, 2).fit(LISTS)
    survives = kind == "catboost"  # whose threads are its own, and begin anew
    expected = first if survives else ranker(kind, 1).fit(LISTS)
    scores = first.predict(LISTS)
    with tempfile.TemporaryDirectory() as folder:
        first.save(f"{folder}/model")

        def child() -> None:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                np.testing.assert_allclose(first.predict(LISTS), scores, rtol=1e-5, atol=1e-6)
                loaded: Any = rw.load(f"{folder}/model")
                np.testing.assert_allclose(loaded.scorer()(LISTS), scores, rtol=1e-5, atol=1e-6)
                again = ranker(kind, 2).fit(LISTS)
            np.testing.assert_array_equal(again.predict(LISTS), expected.predict(LISTS))
            texts = [str(one.message) for one in said if "was forked" in str(one.message)]
            assert len(texts) == (0 if survives else 1), texts
            assert all("one thread is used. Hint: set threads=1, or start processes with" in text for text in texts)
            other = threading.Thread(target=lambda: ranker(kind, 2).fit(LISTS))
            other.start()
            other.join()

        def quiet() -> None:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                ranker(kind, 1).fit(LISTS).explain(LISTS.features[:50])

        in_a_fork(child)
        in_a_fork(quiet)
    np.testing.assert_array_equal(first.predict(LISTS), scores)  # this process has its threads


def tables() -> None:
    """Score a table, fork, and score another."""
    frame = rw.data.to_frame(LISTS)
    model = ranker("lightgbm", 1).fit(LISTS)
    scores = model.predict(frame)

    def child() -> None:
        np.testing.assert_array_equal(model.predict(LISTS), scores)
        with pytest.raises(RuntimeError, match=r"polars.* Hint: pass arrays or a RankingDataset"):
            model.predict(frame)

    in_a_fork(child)


if __name__ == "__main__":
    warnings.filterwarnings("ignore", message="Using fork|This process .* is multi-threaded")
    tables() if sys.argv[1] == "tables" else main(sys.argv[1])
