"""Ctrl-C waits for the end of a library's call, and is never lost."""

import ctypes
import signal
import threading
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import rankwise as rw
from rankwise.data.io.disk.mapped import blocks
from rankwise.rankers.training.interrupts import Interrupts
from tests.rankers.training.pressing import ranker

CALLBACK = ctypes.CFUNCTYPE(None)


def press():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def default_sigint():
    """SIGINT interrupts, also where tests were started with it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interruption_in_a_callback_from_c_comes_when_the_call_is_over():
    done = []

    def call():
        with Interrupts(held=True):
            CALLBACK(press)()
            done.append("the rest of the call")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert done
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interruption_may_come_where_a_call_allows_it():
    done = []

    def call():
        with Interrupts(held=True) as interrupts, interrupts.allowed():
            press()
            done.append("more")

    with pytest.raises(KeyboardInterrupt):
        call()
    assert not done


def test_a_held_interruption_keeps_the_error_of_the_call():
    def call():
        with Interrupts(held=True):
            press()
            raise ValueError("of the call")

    with pytest.raises(KeyboardInterrupt) as raised:
        call()
    assert isinstance(raised.value.__context__, ValueError)


def test_a_handler_of_the_users_own_is_called_once_the_call_is_over():
    calls: list[str] = []
    signal.signal(signal.SIGINT, lambda *_: calls.append("handler"))
    with Interrupts(held=True) as interrupts:
        press()
        calls.append("call")
        with interrupts.allowed():
            calls.append("Python")
            press()
    assert calls == ["call", "handler", "Python", "handler"]


def test_a_signal_that_is_ignored_stays_ignored():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupts(held=True):
        press()


def test_other_threads_are_left_alone():
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def work():
        with Interrupts(held=True):
            seen.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before]


class Freed:
    """Presses Ctrl-C while it is freed, where Python prints what is raised and goes on."""

    def __del__(self):
        press()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_an_interruption_that_was_lost_is_raised_all_the_same():
    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.allowed():
        Freed()


def test_an_error_that_a_lost_interruption_caused_is_an_interruption():
    def fail():
        try:
            press()
        except KeyboardInterrupt:
            raise ValueError("the library's own") from None

    with Interrupts() as interrupts, pytest.raises(KeyboardInterrupt), interrupts.allowed():
        fail()


@pytest.mark.parametrize("at", [0, 1, 2, 5])
def test_ctrl_c_while_xgboost_reads_blocks_of_features_interrupts(at, data, monkeypatch):
    """XGBoost reads them in callbacks from C, in several passes."""
    pytest.importorskip("xgboost")
    reads: list[int] = []

    def pressing(features, *rest):
        for block in blocks(features, *rest):
            if len(reads) == at:
                press()
            reads.append(len(block))
            yield block

    monkeypatch.setattr("rankwise.rankers.trees.xgboost.data.blocks", pressing)
    monkeypatch.setattr("rankwise.data.io.disk.mapped.BLOCK", 4 * data.n_features * 300)
    with pytest.raises(KeyboardInterrupt):
        ranker("xgboost", 3).fit(data.with_(features=csr_array(data.features)))
    assert len(reads) > at


@pytest.mark.parametrize("kind", ["lightgbm", "xgboost", "catboost"])
def test_ctrl_c_in_an_objective_of_ones_own_does_not_wait_for_the_tree(kind, data):
    pytest.importorskip(kind)
    rounds: list[Any] = []

    def objective(scores, labels, offsets):
        rounds.append(len(rounds))
        if len(rounds) == 3:
            press()
            rounds.append("went on")
        return scores - labels, np.ones(len(scores))

    with pytest.warns(RuntimeWarning, match="interrupted after round 2"):
        model = ranker(kind, 5).set_params(objective=objective).fit(data)
    assert rounds == [0, 1, 2]
    assert model.model_.n_trees == 2


def test_a_training_in_another_thread_ends_as_it_would_have(data):
    pytest.importorskip("xgboost")
    models = []
    thread = threading.Thread(target=lambda: models.append(ranker("xgboost", 3).fit(data)))
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        press()
    thread.join()
    assert models[0].stopped_ == "rounds"
    assert np.array_equal(models[0].predict(data), ranker("xgboost", 3).fit(data).predict(data))
    assert isinstance(models[0], rw.XGBoostRanker)
