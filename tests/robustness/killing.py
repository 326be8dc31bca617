"""Kill a training with checkpoints at moments that a seed decides, resume it, and hold it to one that was never killed.

``python -m tests.robustness.killing RANKERS FOLDER CASES``, with commas between rankers of one library: run in a
process of its own, which forks one for every training. A moment is a number of calls, Python's and C's, since ``fit``
began: it is the same wherever the test runs. Half of the moments lie where a checkpoint is written.
"""

import importlib
import json
import os
import random
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import rankwise as rw
from rankwise.language.workspace import Workspace
from rankwise.models import storage
from tests.robustness.fuzzing import cases

_TREES: dict[str, Any] = {"rounds": 9, "leaves": 5, "min_documents": 5, "threads": 1, "checkpoint_every": 2}
_NETS: dict[str, Any] = {"epochs": 9, "threads": 1, "device": "cpu", "checkpoint_every": 2}
RANKERS: dict[str, Any] = {
    "lightgbm": lambda **to: rw.LightGBMRanker("stochastic(xendcg)", feature_fraction=0.5, **_TREES, **to),
    "xgboost": lambda **to: rw.XGBoostRanker("stochastic(xendcg)", colsample_bytree=0.5, **_TREES, **to),
    "catboost": lambda **to: rw.CatBoostRanker("stochastic(xendcg)", **_TREES, **to),
    "bagged": lambda **to: rw.bagged(
        rw.LightGBMRanker("stochastic(xendcg)", feature_fraction=0.5, **_TREES, **to), folds=3
    ),
    "blended": lambda **to: rw.blended(
        [rw.LightGBMRanker("stochastic(xendcg)", feature_fraction=0.5, seed=seed, **_TREES) for seed in (0, 1)],
        folds=2,
        **to,
    ),
    "neural": lambda **to: rw.NeuralRanker("stochastic(softmax_ce)", hidden=(6,), dropout=0.2, **_NETS, **to),
    "linear": lambda **to: rw.LinearRanker("stochastic(xendcg)", threads=1, **to),
    "factorization": lambda **to: rw.recommend.FactorizationRanker(
        "softmax_ce", factors=3, resample=True, unknown="mean", **_NETS, **to
    ),
}


class Moments:
    """Counts calls, remembers during which of them checkpoints are written, and may kill the process at one."""

    def __init__(self, until: int | None) -> None:
        self.until, self.calls, self.writing = until, 0, []  # type: ignore[var-annotated]
        self._codes, self._since = {storage.write.__code__, Workspace.open.__code__}, 0

    def __call__(self, frame: FrameType, event: str, _: object) -> None:
        self.calls += 1
        if self.calls == self.until:
            os.kill(os.getpid(), signal.SIGKILL)
        if frame.f_code in self._codes and event == "call":
            self._since = self.calls
        elif frame.f_code in self._codes and event == "return":
            self.writing.append((self._since, self.calls))


def data(kind: str) -> tuple[Any, Any]:
    """What is trained on, and validated with."""
    if kind != "factorization":
        whole = rw.synthetic(n_queries=40, n_features=6, n_docs=12, seed=2)
        return whole.take(slice(0, 25)), whole.take(slice(25, 40))
    train, valid = rw.recommend.synthetic_ratings(30, 40, n_ratings=12, seed=1).split((0.7, 0.3), seed=1)
    return train, valid


def train(kind: str, folder: Path, until: int | None) -> None:
    """Train, from the checkpoint if there is one, and write what came out."""
    learn, valid = data(kind)
    ranker = RANKERS[kind](checkpoint=folder / "kept")
    seen: list[int] = []
    moments = Moments(until)
    sys.setprofile(moments)
    ranker.fit(learn, valid, resume=True, callback=lambda done, _: seen.append(done))
    sys.setprofile(None)
    scores = ranker.predict(valid.dataset(1, seed=0) if kind == "factorization" else valid)
    found = {"history": ranker.history_, "best": ranker.best_round_, "scores": scores.tolist()}
    about = {"calls": moments.calls, "writing": moments.writing, "seen": seen}
    (folder / "found.json").write_text(json.dumps({"found": found, "about": about}))


def warm(kind: str) -> None:
    """Load what every fork would load; torch's own threads must not be started before."""
    if kind in ("neural", "factorization"):
        importlib.import_module("rankwise.rankers.torch.learner")
        importlib.import_module("safetensors.torch")
        importlib.import_module("torch._dynamo")  # the first step of an optimizer imports it
    else:
        modules = {"bagged": "lightgbm", "blended": "lightgbm", "linear": "rankwise.rankers.linear.ranker"}
        importlib.import_module(modules.get(kind, kind))
    lists = rw.synthetic(n_queries=4, n_docs=5, seed=1)
    rw.objective("stochastic(xendcg)")(np.zeros(lists.n_docs), lists.labels, lists.offsets, lists.stream(1))
    rw.evaluate(np.zeros(lists.n_docs), lists, "ndcg@10")


def in_a_fork(kind: str, folder: Path, until: int | None = None) -> int:
    """Train in another process; gives the signal that ended it, or 0."""
    child = os.fork()
    if not child:
        try:
            train(kind, folder, until)
        except BaseException:
            sys.excepthook(*sys.exc_info())
            os._exit(1)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if status not in (0, -signal.SIGKILL):
        sys.exit(f"training failed in {folder}")
    return -status


def moment(chance: random.Random, about: dict[str, Any]) -> int:
    """Draw when to kill: during the writing of a checkpoint, or at any time."""
    if chance.random() < 0.5:
        first, last = chance.choice(about["writing"])
        return chance.randint(first, last)
    return chance.randint(1, about["calls"])


def rounds_kept(kind: str, kept: Path) -> list[int]:
    """How many rounds of every training are kept, in their order; whatever is kept can be read."""
    members = [kept / f"member-{number}" for number in (1, 2)]
    places = [[one, Path(f"{one}-checkpoint")] for one in members] if kind == "blended" else [[kept]]
    models = [[rw.load(path) for path in each if path.exists()] for each in places]
    columns = [[column for model in each for column in model.history_.values()] for each in models]
    assert all(np.isfinite(column).all() for each in columns for column in each)
    return [max(map(len, each), default=0) for each in columns]


def remaining(kept: list[int], seen: list[int]) -> list[int]:
    """The rounds that are still to be trained, of all that an uninterrupted run has ``seen``, training by training."""
    starts = [place for place, done in enumerate(seen) if done == 1]
    trainings = [seen[start:end] for start, end in zip(starts, [*starts[1:], len(seen)], strict=True)]
    return [done for least, training in zip(kept, trainings, strict=True) for done in training if done > least]


def main(kind: str, folder: Path, usual: int) -> None:
    """Run all cases; the first that ends otherwise than the uninterrupted training is an error."""
    warm(kind)
    for name in ("compiled", "whole"):  # the first compiles and keeps kernels, which makes calls that no other will
        place = folder / name
        place.mkdir()
        in_a_fork(kind, place)
    whole = json.loads((place / "found.json").read_text())
    kills = 0
    for case, chance in cases(usual):
        place = folder / "killed"
        place.mkdir()
        untils = [moment(chance, whole["about"]) for _ in range(chance.choice((1, 1, 2, 3)))]
        for until in untils:  # a resumed training makes fewer calls, and may end before it is killed
            kills += in_a_fork(kind, place, until) == signal.SIGKILL
            done = rounds_kept(kind, place / "kept")
        (place / "found.json").unlink(missing_ok=True)
        in_a_fork(kind, place)
        again = json.loads((place / "found.json").read_text())
        assert again["found"] == whole["found"], f"another result after kills at {untils}: {case}"
        expected = remaining(done, whole["about"]["seen"])
        assert again["about"]["seen"] == expected, f"rounds after kills at {untils}: {case}"
        left = {path.name for path in place.iterdir() if path.suffix != ".part"}  # a folder that was being filled
        assert left == {"found.json", "kept"}, f"{left} after kills at {untils}: {case}"
        shutil.rmtree(place)
    print("kills", kills)


if __name__ == "__main__":
    for name in sys.argv[1].split(","):
        (Path(sys.argv[2]) / name).mkdir()
        main(name, Path(sys.argv[2]) / name, int(sys.argv[3]))
