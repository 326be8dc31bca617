"""Press Ctrl-C at moments of the package; ``python -m tests.rankers.training.pressing RANKER FOLDER`` tries ``fit``.

A moment is where Python itself looks for signals: where a function begins, and after one of C's has returned. Those of
the libraries count too, of which some lie in callbacks from C, where Python loses what is raised.
"""

import shutil
import signal
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from scipy.sparse import csr_array

import rankwise as rw
from rankwise.rankers.table import ranker_class
from rankwise.rankers.training.run import InterruptedWarning
from tests import tiers

PACKAGES = ("rankwise", "lightgbm", "xgboost", "catboost")


class Pressing:
    """Presses Ctrl-C at the n-th moment in the package and the libraries of trees."""

    def __init__(self, n: int) -> None:
        self.left, self.where = n, ""

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        if event not in ("call", "c_return") or not any(one in frame.f_code.co_filename for one in PACKAGES):
            return
        self.left -= 1
        if self.left == 0:
            self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
            signal.raise_signal(signal.SIGINT)


def pressed_at(n: int, call: Callable[[], Any]) -> Pressing:
    """Call with Ctrl-C at the n-th moment; gives what knows where that was, and how many moments there were."""
    pressing, before = Pressing(n), sys.getprofile()
    sys.setprofile(pressing)
    try:
        call()
    finally:
        sys.setprofile(before)
    return pressing


def ranker(kind: str, rounds: int, **changes: Any) -> Any:
    """A ranker that takes moments to train."""
    settings: dict[str, Any] = {"checkpoint_every": 2, "threads": 1, "progress": False} | changes
    if kind == "neural":
        return rw.NeuralRanker("softmax_ce", epochs=rounds, hidden=(4,), device="cpu", **settings)
    return ranker_class(kind)("xendcg", rounds=rounds, leaves=5, min_documents=5, **settings)


def main(kind: str, folder: Path, features: str = "dense") -> None:
    """Interrupt three rounds at sixty moments, and at each of the last forty; by default at fewer."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    warnings.simplefilter("ignore", InterruptedWarning)
    whole = rw.synthetic(n_queries=65, n_features=12, n_docs=20, seed=3)
    if features == "sparse":
        whole = whole.with_(features=csr_array(whole.features))
    if features == "on disk":
        whole = rw.open_data(rw.data.write_parquet(whole, folder / "data.parquet"))
    data, valid, kept = whole.take(slice(0, 40)), whole.take(slice(40, 65)), folder / "kept"
    expected = {rounds: ranker(kind, rounds).fit(data, valid) for rounds in (1, 2, 3)}
    moments = -pressed_at(0, lambda: ranker(kind, 3, checkpoint=kept).fit(data, valid)).left
    seen = set()
    anywhere = np.linspace(1, moments, 60 if tiers.ALL else 20).astype(int).tolist()
    for n in sorted({*anywhere, *range(moments - 40, moments + 1, 40 // tiers.share(40))}):
        shutil.rmtree(kept, ignore_errors=True)
        model = ranker(kind, 3, checkpoint=kept)
        try:
            where = pressed_at(n, lambda model=model: model.fit(data, valid)).where  # type: ignore[misc]
        except KeyboardInterrupt:
            assert not hasattr(model, "history_"), f"moment {n}: the model was trained, and fit was interrupted"
            seen.add(0)
            continue
        assert not where or model.stopped_ == "interrupted", f"Ctrl-C was lost at {where}"
        done = len(model.history_["loss"])
        seen.add(done)
        assert model.history_ == expected[done].history_, where
        assert model.best_round_ == expected[done].best_round_, where
        assert np.array_equal(model.predict(valid), expected[done].predict(valid)), where
    assert seen >= {0, 1, 2}, seen


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
