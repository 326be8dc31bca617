"""Ranges of queries: every query once, the same result for any number of threads, errors that arrive."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankwise.base import threads
from tests import tiers
from tests.processes import HANG, environment
from tests.refusals import refusal, refuses


@pytest.fixture(autouse=True)
def always_worth_it(monkeypatch):
    monkeypatch.setattr(threads, "_WORTH_THREADS", 0)


@given(sizes=st.lists(st.integers(1, 500), min_size=1, max_size=40), count=st.integers(1, 5))
def test_every_query_is_computed_once(sizes, count):
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    seen = np.zeros(len(sizes), int)

    def kernel(first, last, offsets, seen):
        seen[first:last] += 1

    with threads.use_threads(count):
        threads.over_queries(kernel, offsets, seen)
    assert (seen == 1).all()


def test_ranges_hold_about_the_same_work():
    # One long list and many short ones: no range may hold the long one and all the others.
    offsets = np.concatenate(([0], np.cumsum([10_000] + [10] * 1000)))
    ranges = []

    def kernel(first, last, offsets):
        ranges.append(offsets[last] - offsets[first])

    with threads.use_threads(2):
        threads.over_queries(kernel, offsets)
    assert max(ranges) < 0.65 * offsets[-1]
    assert sum(ranges) == offsets[-1]


def test_ranges_follow_the_estimated_work():
    offsets = np.arange(101)
    work = np.zeros(100)
    work[:2] = 1e9
    ranges = []
    with threads.use_threads(2):
        threads.over_queries(lambda first, last, offsets: ranges.append((first, last)), offsets, work=work)
    assert (0, 1) in ranges
    assert sorted(q for first, last in ranges for q in range(first, last)) == list(range(100))


def test_the_last_ranges_are_small():
    ranges = []
    with threads.use_threads(2):
        threads.over_queries(lambda first, last, offsets: ranges.append(last - first), np.arange(0, 10_001))
    assert sum(ranges) == 10_000
    assert min(ranges) <= 10_000 / 16
    assert max(ranges) >= 10_000 / 5


def test_a_thread_that_has_not_begun_is_not_waited_for():
    busy, done = threading.Event(), list[int]()
    with threads.use_threads(2):
        threads.over_queries(lambda first, last, offsets: None, np.arange(0, 1001))  # there is a pool
        blocked = threads._pools[2].submit(busy.wait)
        threads.over_queries(lambda first, last, offsets: done.extend(range(first, last)), np.arange(0, 1001))
        assert not blocked.done()
        busy.set()
    assert sorted(done) == list(range(1000))


def test_more_than_one_thread_works_and_one_stays_in_the_caller():
    def at_work(count):
        names, together = set(), threading.Barrier(count)

        def kernel(first, last, offsets):
            name = threading.current_thread().name
            if name not in names:
                names.add(name)
                together.wait(HANG)  # for the others, however late they start

        with threads.use_threads(count):
            threads.over_queries(kernel, np.arange(0, 1001, 10))
        return names

    assert at_work(1) == {threading.current_thread().name}
    assert len(at_work(2)) == 2


def test_small_batches_stay_serial(monkeypatch):
    monkeypatch.setattr(threads, "_WORTH_THREADS", 1_000_000)
    calls = []
    with threads.use_threads(2):
        threads.over_queries(lambda *a: calls.append(a[:2]), np.arange(0, 257))
    assert calls == [(0, 256)]


def test_an_error_in_a_kernel_is_raised():
    def kernel(first, last, offsets):
        if first > 0:
            raise ZeroDivisionError("in a thread")

    with threads.use_threads(2), pytest.raises(ZeroDivisionError, match="in a thread"):
        threads.over_queries(kernel, np.arange(0, 1001, 10))


def test_the_environment_and_the_block_set_the_number(monkeypatch):
    monkeypatch.setenv("RANKWISE_THREADS", "3")
    assert threads.thread_count() == 3
    with threads.use_threads(1):
        assert threads.thread_count() == 1
    assert threads.thread_count() == 3
    monkeypatch.setenv("RANKWISE_THREADS", "many")
    refuses(threads.thread_count, what="RANKWISE_THREADS must be a whole number from 1 to 1024", got="'many'")
    with refusal(what="threads must be a whole number of at least 1", got="0"), threads.use_threads(0):
        pass


# Forks.


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX processes")
@pytest.mark.parametrize("kind", tiers.some(["lightgbm", "tables", "neural", "xgboost", "catboost"], 3))
def test_a_forked_process_does_not_wait_for_threads_of_its_parent(kind):
    """Slow: another process imports the library and trains five times."""
    pytest.importorskip({"neural": "torch", "tables": "polars"}.get(kind, kind))
    if kind == "tables" and not Path("/proc/self/task").is_dir():
        pytest.skip("threads have no names here")
    command = [sys.executable, "-m", "tests.forking", kind]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, env=environment())
    assert done.returncode == 0, done.stderr[-3000:]
