"""The one loop, with a learner that can be followed with a pencil."""

import signal
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

import rankwise as rw
from rankwise.base.stream import Stream
from rankwise.rankers.training.interrupts import Interrupts
from rankwise.rankers.training.loop import Learner, Loop, SingleProcess, State
from rankwise.rankers.training.stopping import NothingLeftToLearn, Stopping, nothing_learned
from rankwise.rankers.training.validation import EvalMetrics, EvalSet, Validation
from tests import tiers
from tests.processes import HANG, environment
from tests.rankers.training.pressing import pressed_at
from tests.refusals import refusal

# One query of a relevant document and another: the reciprocal rank is 1 where the first scores higher, and else 1/2.
VALID = rw.RankingDataset.from_sizes([[1.0], [2.0]], [1, 0], [2])
VALIDATION = Validation(VALID, [rw.metric("rr")], debias=False)


class Counter(Learner[int]):
    """Learns to count: the model is the number of rounds, and ``values`` says what each round is worth."""

    def __init__(self, values, end=None) -> None:
        self.values, self.end, self.processes = values, end, SingleProcess()
        self.rounds: list[int] = []
        self.count, self.restored = 0, 0

    def round(self, stream: Stream, weights=()) -> float | None:
        self.rounds.append(stream.round)
        if stream.round == self.end:
            raise NothingLeftToLearn("no split", lambda: nothing_learned(7, "nothing to count", "count something"))
        self.count += 1
        return 1.0 / self.count

    def scores(self, number: int):
        return np.array([self.values[self.count - 1], 0.5])

    def snapshot(self) -> int:
        return self.count

    def model(self, best: int, rounds: int) -> Any:
        self.restored = best
        return best

    def files(self, best: int) -> dict[str, bytes]:
        return {"best": bytes([best]), "last": bytes([self.count])}

    def resume(self, files: Mapping[str, bytes], state: State) -> int:
        self.count = files["last"][0]
        return files["best"][0]


class Kept:
    """A checkpoint in memory."""

    every = 2

    def __init__(self) -> None:
        self.written: list[tuple[int, dict[str, bytes]]] = []

    def write(self, state: State, files: dict[str, bytes]) -> None:
        self.written.append((state.done, files))


def train(learner, state=None, best=None, checkpoint=None, reports=(), interrupts=None, **changes):
    rule: dict[str, Any] = {"rounds": 6, "metrics": VALIDATION.names} | changes
    loop = Loop(
        learner=learner,
        stream=Stream(1),
        stopping=Stopping(**rule),
        measured=[EvalMetrics(EvalSet(VALID, VALIDATION))],
        checkpoint=checkpoint,
        reports=reports,
    )
    state = state or State()
    assert loop.run(state, best, interrupts or Interrupts()) == learner.restored
    return state


def test_rounds_are_counted_measured_and_the_best_is_restored():
    told: list[tuple[int, int]] = []
    learner = Counter([0, 1, 0, 1, 0, 0])
    state = train(learner, reports=[lambda state: told.append((state.done, state.best))])
    assert state.history == {"loss": [1, 1 / 2, 1 / 3, 1 / 4, 1 / 5, 1 / 6], "rr": [0.5, 1, 0.5, 1, 0.5, 0.5]}
    assert (state.done, state.best, state.stopped, learner.restored) == (6, 2, "rounds", 2)
    assert told == [(1, 1), (2, 2), (3, 2), (4, 2), (5, 2), (6, 2)]
    assert learner.rounds == [0, 1, 2, 3, 4, 5]


def test_other_data_are_measured_beside_the_validation_data_and_stop_nothing():
    both = [
        EvalMetrics(EvalSet(VALID, VALIDATION)),
        EvalMetrics(EvalSet(VALID, lambda scores: {"gap": scores[0]}), prefix="x "),
    ]
    rule = Stopping(rounds=3, metrics=VALIDATION.names, patience=1)
    loop = Loop(learner=Counter([1, 0, 0]), stream=Stream(1), stopping=rule, measured=both)
    state = State()
    loop.run(state, None, Interrupts())
    assert state.history == {"loss": [1, 1 / 2], "rr": [1, 0.5], "x gap": [1, 0]}
    assert state.best == 1


def test_patience_ends_it():
    state = train(Counter([0, 1, 0, 0, 0, 0]), patience=2)
    assert (state.done, state.best, state.stopped) == (4, 2, "patience")


def test_a_learner_that_has_no_more_to_learn():
    learner = Counter([0, 1, 0], end=3)
    state = train(learner)
    assert (state.done, state.best, state.stopped, learner.restored) == (3, 2, "no split", 2)
    with refusal(rw.errors.NothingLearnedError, what="…learned nothing from 7 queries", got="nothing to count"):
        train(Counter([], end=0))


def test_a_callback_stops_training_and_the_best_model_is_kept():
    def stop(state):
        if state.done == 3:
            raise rw.errors.StopTraining("enough")

    learner = Counter([0, 1, 0, 1])
    state = train(learner, reports=[stop])
    assert (state.done, state.best, state.stopped, learner.restored) == (3, 2, "enough", 2)
    with pytest.raises(RuntimeError, match="no word about stopping"):
        train(Counter([0, 1]), reports=[lambda _: (_ for _ in ()).throw(RuntimeError("no word about stopping"))])


def test_every_kind_of_ranker_is_stopped_by_its_callback(tmp_path):
    class Constant(rw.Ranker):
        def _fit(self, train, valid):
            self.value_ = 1.0

        def _predict(self, features, offsets):
            return features[:, 0] * self.value_

    data = rw.synthetic(n_queries=20, n_docs=5, n_features=3, seed=1)
    trees = rw.LightGBMRanker(rounds=9, leaves=3, min_documents=2, threads=1)
    nets = rw.NeuralRanker(epochs=9, hidden=(4,), threads=1, device="cpu")
    for model, rounds in ((rw.bagged(trees, folds=2), 2), (trees, 2), (nets, 2), (Constant(), 1)):

        def watch(round, history, rounds=rounds):
            if round == rounds:
                raise rw.errors.StopTraining("enough")

        model.fit(data, callback=watch)
        assert model.stopped_ == "enough"
        assert model.best_round_ <= rounds
        assert model.predict(data).size == data.n_docs
    trees.save(tmp_path / "model")
    assert rw.load(tmp_path / "model").stopped_ == "enough"


def test_a_checkpoint_is_written_now_and_then_and_resumed():
    kept, whole = Kept(), Counter([0, 1, 0, 0, 0, 1])
    expected = train(whole, checkpoint=kept, smoothing=2)
    assert [(done, files["best"][0], files["last"][0]) for done, files in kept.written] == [
        (2, 2, 2),
        (4, 2, 4),
        (6, 2, 6),
    ]
    again = Counter([0, 1, 0, 0, 0, 1])
    history = {name: column[:4] for name, column in expected.history.items()}
    state = State(done=4, best=2, history=history)
    best = again.resume(kept.written[1][1], state)
    assert train(again, state, best, smoothing=2) == expected
    assert again.rounds == [4, 5]
    assert again.restored == whole.restored


def test_rounds_count_on_from_an_older_model():
    learner = Counter([0] * 6)
    learner.count = 3
    assert train(learner, State(before=3), rounds=2).done == 2
    assert learner.rounds == [3, 4]


def test_a_process_among_others_passes_an_interruption_on():
    class Together(SingleProcess):
        alone = False

    def press(state):
        raise KeyboardInterrupt

    learner = Counter([0] * 6)
    assert train(learner, reports=[press]).stopped == "interrupted"
    learner = Counter([0] * 6)
    learner.processes = Together()
    with pytest.raises(KeyboardInterrupt):
        train(learner, reports=[press])


# Ctrl-C at every moment.


@pytest.fixture
def default_sigint():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default_sigint")
def test_ctrl_c_at_every_moment_finds_whole_rounds():
    found, n = [], 0
    while True:
        n += 1
        learner = Counter([0, 1, 0, 1, 0, 0])
        states: list[State] = []

        def call(learner=learner, states=states):
            with Interrupts() as interrupts:
                states.append(train(learner, checkpoint=Kept(), interrupts=interrupts))

        try:
            where = pressed_at(n, call).where
        except KeyboardInterrupt:
            assert not states
            found.append(0)
            continue
        if not where:
            break
        (state,) = states
        found.append(state.done)
        assert all(len(column) == state.done for column in state.history.values()), where
        assert (state.best, learner.restored) == ((1, 1) if state.done == 1 else (2, 2)), where
    assert set(found) == {0, 1, 2, 3, 4, 5, 6}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "features"),
    tiers.some([("neural", "dense"), ("xgboost", "on disk"), ("lightgbm", "dense"), ("catboost", "dense")], 2),
)
def test_ctrl_c_at_any_moment_of_fit_keeps_the_best_model_so_far(kind, features, tmp_path):
    """In a process of its own: libraries may be left in the middle of something."""
    if kind != "neural":
        pytest.importorskip(kind)
    command = [sys.executable, "-m", "tests.rankers.training.pressing", kind, str(tmp_path), features]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
    assert done.returncode == 0, done.stderr[-5000:]
